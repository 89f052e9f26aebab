package main

import (
	"cmp"
	"context"
	_ "embed" // for topology.tmpl
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/spf13/pflag"

	"parsimon/datasets"
	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload/jobs"
)

var topologyCommand = command{
	name: "topology", least: 1, most: 1,
	tail: topologyTail,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var t topologyFlags
		t.maxFaults = 50
		e.declareForm(f, "table", "json")
		t.topologyOptions.declare(f)
		f.StringVar(&t.write, "write", "", "write nodes.csv and links.csv to this `directory`")
		intVar(f, &t.maxFaults, 0, math.MaxInt32, "max-faults", "faults of each kind that the table shows; 0: all")
		return func(_ context.Context, args []string) error { return t.run(e, args[0]) }
	},
}

// topologyTail lists the kinds of faults that can be repaired, and the formats.
func topologyTail() string {
	var b strings.Builder
	for _, r := range format.Repairs {
		fmt.Fprintf(&b, "  %-14s %s\n", r.Kind, r.Doc)
	}
	b.WriteString("\nFormats:\n")
	for _, d := range format.Docs() {
		fmt.Fprintf(&b, "\n%s\n%s\n", strings.ToUpper(d[0]), d[1])
	}
	return b.String()
}

type topologyFlags struct {
	topologyOptions
	write     string
	maxFaults int
}

// topologyOptions say what a topology file does not.
type topologyOptions struct {
	given   format.Options // but for Repair
	repair  []string
	flagSet *pflag.FlagSet
}

func (t *topologyOptions) declare(f *pflag.FlagSet) {
	t.flagSet = f
	f.StringSliceVar(&t.given.HostPatterns, "host-pattern", nil,
		"names of hosts, with * and ? (repeatable); default: devices with one cable, and those named or cabled "+
			"like hosts")
	f.StringSliceVar(&t.given.Exclude, "exclude", nil,
		"names of devices to leave out, with * and ?, such as 'oob-*' (repeatable)")
	f.StringVar(&t.given.NodeList, "nodes", "",
		"CSV or Parquet `file` of devices: device, role, pod, rack; without column role, all in it are hosts")
	parseEach(f, &t.given.Speeds, format.ParseSpeedRule, "speed",
		"`DEVICE[:PORT]=SPEED` for cables without a speed, such as 'leaf*:Ethernet*=25G' (repeatable; the first match "+
			"applies)")
	parse(f, &t.given.DefaultSpeedBps, "string", topology.ParseSpeed, "default-speed", "",
		"bandwidth of cables without a speed in the file, by --speed or in the name of a port")
	parseEach(f, &t.given.Delays, topology.ParseDelayRule, "delay", "`CABLES=DELAY` instead of that of the file, such as "+
		"'wan*:*=2ms' or tor-spine=500ns (repeatable): a tier, A:B, DEVICE:PORT, with * and ?")
	parse(f, &t.given.DefaultDelayNS, "string", topology.ParseDelay, "default-delay", "1us",
		"propagation delay of cables with neither delay nor length")
	f.StringSliceVar(&t.repair, "repair", nil, "kinds of faults to repair, separated by commas (parsimon help topology)")
}

// ofFile lists the flags that are given, but for --delay, which goes with every topology.
func (t *topologyOptions) ofFile() (flags []string) {
	for _, name := range []string{"host-pattern", "exclude", "nodes", "speed", "default-speed", "default-delay",
		"repair"} {
		if t.flagSet.Changed(name) {
			flags = append(flags, "--"+name)
		}
	}
	return flags
}

// options are those of format.Load: o, with what the flags say instead of it.
func (t *topologyOptions) options(o format.Options) (format.Options, error) {
	if t.given.HostPatterns != nil {
		o.HostPatterns = t.given.HostPatterns
	}
	o.NodeList = cmp.Or(t.given.NodeList, o.NodeList)
	o.Exclude = slices.Concat(o.Exclude, t.given.Exclude)
	o.Speeds = slices.Concat(t.given.Speeds, o.Speeds) // the first that matches applies
	o.Delays = slices.Concat(o.Delays, t.given.Delays)
	o.DefaultSpeedBps = cmp.Or(t.given.DefaultSpeedBps, o.DefaultSpeedBps)
	if o.DefaultDelayNS == 0 || t.flagSet.Changed("default-delay") {
		o.DefaultDelayNS = t.given.DefaultDelayNS
	}
	for _, text := range t.repair {
		kind, err := format.ParseRepair(text)
		if err != nil {
			return o, usagef("--repair %v", err)
		}
		o.Repair = append(o.Repair, kind)
	}
	return o, nil
}

// run writes the answer before it reports faults, so that one call shows both. A topology with
// faults is an error (exitFailed), and no tables are written of it.
func (t *topologyFlags) run(e *env, path string) error {
	o, err := t.options(format.Options{})
	if err != nil {
		return err
	}
	l, err := loadTopology(path, o)
	if err != nil {
		return err
	}
	data := topologyData{Loaded: l, Path: path, maxFaults: t.maxFaults}
	if l.Network != nil {
		data.Description = topology.Describe(l.Network)
	}
	people, err := data.answer()
	if err != nil {
		return err
	}
	if err := e.write(data, people); err != nil {
		return err
	}
	if len(l.Faults) > 0 {
		text := topology.Count(len(l.Faults), "fault")
		if t.write != "" {
			text += "; nothing written to " + t.write
		}
		return errors.New(text)
	}
	if t.write != "" {
		return topology.WriteTables(t.write, l.Network)
	}
	return nil
}

// loadTopology reads a path or, where there is none, the shipped topology of that name.
func loadTopology(path string, o format.Options) (*format.Loaded, error) {
	l, err := format.Load(path, o)
	if err == nil {
		return l, nil
	}
	if _, missing := os.Stat(path); missing != nil {
		if shipped, e := datasets.Read(datasets.Topologies, path); e == nil {
			return format.LoadData(path+".yaml", shipped, o)
		}
		shipped := strings.Join(datasets.Names(datasets.Topologies), ", ")
		return nil, fmt.Errorf("%w; shipped topologies: %s", err, shipped)
	}
	return nil, err
}

//go:embed topology.tmpl
var topologyTemplate string

// topologyPage is what a topology file holds, for people, with tabs between columns. Description is nil for a topology
// with faults, which has no network to describe.
var topologyPage = template.Must(template.New("").Funcs(template.FuncMap{
	"count": topology.Count, "bps": topology.FormatBps, "listed": names.Listed,
	"ns": func(ns int64) string { return time.Duration(ns).String() },
}).Parse(topologyTemplate))

// A topologyData is what topologyPage shows. JSON has all faults.
type topologyData struct {
	*format.Loaded
	Path        string                `json:"-"`
	Description *topology.Description `json:"description,omitempty"`
	maxFaults   int                   // of each kind; 0: all
}

// answer is the page.
func (d topologyData) answer() (*text.Answer, error) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if err := errors.Join(topologyPage.Execute(w, d), w.Flush()); err != nil {
		return nil, fmt.Errorf("describe the topology: %w", err)
	}
	a := &text.Answer{}
	a.Linef("%s", strings.TrimSuffix(b.String(), "\n"))
	return a, nil
}

// A distinctSetting is a value of a setting, where it was read first, and how many switches have it.
type distinctSetting struct {
	format.TakenSetting
	Switches int
}

// DistinctSettings lists each value of a setting once.
func (d topologyData) DistinctSettings() (all []*distinctSetting) {
	known := map[[4]string]*distinctSetting{}
	for _, s := range d.Settings {
		for _, k := range s.Taken {
			key := [4]string{k.Name, k.Value, k.Unit, k.Key}
			if known[key] == nil {
				known[key] = &distinctSetting{TakenSetting: k}
				all = append(all, known[key])
			}
			known[key].Switches++
		}
	}
	return all
}

// A faultKind is the faults of one kind, the texts of those that are shown, and the repair that --repair offers.
type faultKind struct {
	Kind   topology.FaultKind
	Faults []format.Fault
	Shown  []string
	Repair *format.Repair
}

// Kinds are the faults by kind.
func (d topologyData) Kinds() (all []*faultKind) {
	for _, f := range d.Faults {
		at := slices.IndexFunc(all, func(k *faultKind) bool { return k.Kind == f.Kind })
		if at < 0 {
			at, all = len(all), append(all, &faultKind{Kind: f.Kind})
			for _, r := range format.Repairs {
				if r.Kind == f.Kind {
					all[at].Repair = &r
				}
			}
		}
		k := all[at]
		k.Faults = append(k.Faults, f)
		if d.maxFaults == 0 || len(k.Shown) < d.maxFaults {
			k.Shown = append(k.Shown, strings.TrimPrefix(f.Error(), "topology "))
		}
	}
	return all
}

var convertCommand = command{
	name: "convert", least: 1, most: 1,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		path := f.String("topology", "", "topology: a file or directory, or the name of one that ships (required)")
		output := f.StringP("output", "o", "flows.csv", "file to write; a regular file is replaced in one step")
		var memory int64
		declareMemory(f, &memory, autoMemory, "the most memory that a trace may take; "+autoMemoryDoc)
		return func(ctx context.Context, args []string) error {
			if *path == "" {
				return usagef("--topology is missing")
			}
			if err := checkOutput("output", *output); err != nil {
				return err
			}
			l, err := loadTopology(*path, format.Options{})
			if err != nil {
				return err
			}
			if l.Network == nil {
				return fmt.Errorf("%s has %s: parsimon topology lists them", *path, topology.Count(len(l.Faults), "fault"))
			}
			trace, err := readTrace(ctx, args[0], memory)
			if err != nil {
				return fmt.Errorf("trace %w", err)
			}
			var flows int64
			err = writeOutput(*output, func(w io.Writer) error {
				job, _, _ := strings.Cut(filepath.Base(args[0]), ".")
				flows, err = trace.WriteCSV(ctx, w, job, slices.Sorted(slices.Values(l.Network.Hosts())))
				return err
			})
			if err != nil {
				return fmt.Errorf("trace %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %s of %s\n", *output, topology.Count(int(flows), "flow"),
				topology.Count(trace.Ranks, "rank"))
			return err
		}
	},
}

// readTrace reads a trace of all ranks, until ctx ends. The trace takes at most memoryBytes.
func readTrace(ctx context.Context, path string, memoryBytes int64) (t *jobs.Trace, err error) {
	readers := map[string]func(io.Reader, int64) (*jobs.Trace, error){".goal": jobs.ReadGOAL, ".cm": jobs.ReadHtsim,
		".csv": jobs.ReadSimCCL}
	read := readers[filepath.Ext(path)]
	open := func(file string) (io.ReadCloser, error) {
		f, err := topology.Open(file)
		if err != nil {
			return nil, err
		}
		return untilEnd{f, ctx.Err}, nil
	}
	switch {
	case filepath.Ext(path) == ".et":
		files, err := rankFiles(path)
		if err != nil {
			return nil, err
		}
		return jobs.ReadChakra(files, memoryBytes, open)
	case read == nil:
		return nil, fmt.Errorf("%s: the name does not end in .goal, .cm, .csv or .et", path)
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if t, err = read(f, memoryBytes); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return t, err
}

// untilEnd is a reader that fails once ended returns an error.
type untilEnd struct {
	io.ReadCloser
	ended func() error
}

// Read implements io.Reader.
func (r untilEnd) Read(p []byte) (int, error) {
	if err := r.ended(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p)
}

var rankFile = regexp.MustCompile(`^(.*\.)(\d+)\.et$`)

// rankFiles lists the Chakra traces of all ranks that lie beside one of them.
func rankFiles(path string) (files []string, err error) {
	parts := rankFile.FindStringSubmatch(filepath.Base(path))
	if parts == nil {
		return nil, fmt.Errorf("%s: the name of a Chakra trace ends in the rank: NAME.0.et", path)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	there := 0
	for _, e := range entries {
		if m := rankFile.FindStringSubmatch(e.Name()); m != nil && m[1] == parts[1] {
			there++
		}
	}
	for rank := range there {
		file := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%d.et", parts[1], rank))
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s: there is no trace of rank %d, and there are %d traces", path, rank, there)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, errors.New(path + ": no such file")
	}
	return files, nil
}
