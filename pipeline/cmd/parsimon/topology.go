package main

import (
	"cmp"
	"context"
	_ "embed" // for topology.tmpl
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parsimon/datasets"
	"parsimon/pipeline/text"
	queryformat "parsimon/queries/format"
	"parsimon/schema/names"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// topologyDoc describes the flag --topology.
const topologyDoc = "topology: a file or directory (parsimon help topology), or the name of one that ships"

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

// A topologyVerb checks a topology, and describes it.
type topologyVerb struct {
	*env
	answerFlags
	options   topologyOptions
	directory string // to write the network to
	maxFaults int    // of each kind; 0: all
}

func (v *topologyVerb) declare(f *pflag.FlagSet) {
	v.declareForm(f, "table", "json")
	v.options.declare(f)
	f.StringVar(&v.directory, "write", "", "write nodes.csv and links.csv to this `directory`")
	v.maxFaults = 50
	intVar(f, &v.maxFaults, intRange{0, math.MaxInt32}, "max-faults",
		"number of faults of each kind that the table shows; 0: all")
}

// run writes the answer before it reports faults, so that one call shows both. A topology with faults is an
// error, and no tables are written of it.
func (v *topologyVerb) run(_ context.Context, args []string) error {
	o, err := v.options.options(format.Options{})
	if err != nil {
		return err
	}
	l, err := loadTopology(args[0], o)
	if err != nil {
		return err
	}
	data := topologyData{Loaded: l, Path: args[0], maxFaults: v.maxFaults}
	if l.Network != nil {
		data.Description = topology.Describe(l.Network)
	}
	people, err := data.answer()
	if err != nil {
		return err
	}
	if err := v.write(v.stdout, data, people); err != nil {
		return err
	}
	if len(l.Faults) > 0 {
		message := topology.Count(len(l.Faults), "fault")
		if v.directory != "" {
			message += "; nothing written to " + v.directory
		}
		return errors.New(message)
	}
	if v.directory != "" {
		return topology.WriteTables(v.directory, l.Network)
	}
	return nil
}

// completeShipped completes the names of the scenarios that ship, and files.
func completeShipped(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return datasets.Names(datasets.Scenarios), cobra.ShellCompDirectiveDefault
}

// completeTopologies completes the names of the topologies that ship, and files.
func completeTopologies(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return datasets.Names(datasets.Topologies), cobra.ShellCompDirectiveDefault
}

// topologyOptions complete a topology file.
type topologyOptions struct {
	given   format.Options // without Repair
	repair  []string
	flagSet *pflag.FlagSet
}

func (t *topologyOptions) declare(f *pflag.FlagSet) {
	t.flagSet = f
	f.StringSliceVar(&t.given.HostPatterns, "host-pattern", nil,
		"pattern of the names of hosts, with * and ?; may be repeated; default: devices with one cable, and those "+
			"named or cabled like hosts")
	f.StringSliceVar(&t.given.Exclude, "exclude", nil,
		"pattern of the names of devices to leave out, such as 'oob-*'; may be repeated")
	f.StringVar(&t.given.NodeList, "nodes", "",
		"CSV or Parquet `file` of devices with the columns device, role, pod, rack; without role, all of them are "+
			"hosts")
	parseEach(f, &t.given.Speeds, format.ParseSpeedRule, "speed",
		"`DEVICE[:PORT]=SPEED` of cables without a speed, such as 'leaf*:Ethernet*=25G'; may be repeated, and the "+
			"first match applies")
	parse(f, &t.given.DefaultSpeedBps, topology.ParseSpeed, flagSpec{name: "default-speed",
		usage: "bandwidth of a cable for which neither the file, --speed nor the name of a port states it"})
	parseEach(f, &t.given.Delays, topology.ParseDelayRule, "delay",
		"`CABLES=DELAY` instead of the delay in the file, such as 'wan*:*=2ms' or tor-spine=500ns; may be "+
			"repeated; CABLES is a tier, A:B or DEVICE:PORT, with * and ?")
	parse(f, &t.given.DefaultDelayNS, topology.ParseDelay, flagSpec{name: "default-delay", byDefault: "1us",
		usage: "propagation delay of a cable with neither a delay nor a length"})
	f.StringSliceVar(&t.repair, "repair", nil, "`kinds` of faults to repair, separated by commas (parsimon "+
		"help topology)")
}

// ofFile lists the given flags that apply to topology files only. --delay applies to every topology.
func (t *topologyOptions) ofFile() (flags []string) {
	for _, name := range []string{"host-pattern", "exclude", "nodes", "speed", "default-speed", "default-delay",
		"repair"} {
		if t.flagSet.Changed(name) {
			flags = append(flags, "--"+name)
		}
	}
	return flags
}

// options returns the options of format.Load: o, changed by the flags.
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

// loadTopology reads a file or directory or, if there is none, the shipped topology of that name.
func loadTopology(path string, o format.Options) (*format.Loaded, error) {
	l, err := format.Load(path, o)
	if err == nil {
		return l, nil
	}
	_, missing := os.Stat(path)
	if missing != nil {
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

// topologyPage describes a topology file for people, with tabs between columns. A topology with faults has no
// network and no Description. Names in the file are escaped, line ends and tabs too.
var topologyPage = template.Must(template.New("").Funcs(template.FuncMap{
	"count": topology.Count, "bps": topology.FormatBps, "listed": names.Listed,
	"ns":  func(ns int64) string { return time.Duration(ns).String() },
	"esc": func(v any) string { return queryformat.Escape(fmt.Sprint(v)) },
}).Parse(topologyTemplate))

// A topologyData is a topology for topologyPage and for JSON, which has all faults.
type topologyData struct {
	*format.Loaded
	Path        string                `json:"-"`
	Description *topology.Description `json:"description,omitempty"`
	maxFaults   int                   // of each kind; 0: all
}

// answer returns the page.
func (d topologyData) answer() (*text.Answer, error) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	if err := errors.Join(topologyPage.Execute(w, d), w.Flush()); err != nil {
		return nil, fmt.Errorf("describe the topology: %w", err)
	}
	a := &text.Answer{}
	a.Block(strings.TrimSuffix(b.String(), "\n"))
	return a, nil
}

// A distinctSetting is a value of a setting, the place where it was first read, and the number of switches
// that have it.
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

// A faultKind is all faults of one kind, the texts of those that are shown, and the repair of --repair.
type faultKind struct {
	Kind   topology.FaultKind
	Faults []format.Fault
	Shown  []string
	Repair *format.Repair
}

// Kinds groups the faults by kind.
func (d topologyData) Kinds() (all []*faultKind) {
	for _, f := range d.Faults {
		at := slices.IndexFunc(all, func(k *faultKind) bool { return k.Kind == f.Kind })
		if at < 0 {
			at = len(all)
			all = append(all, &faultKind{Kind: f.Kind})
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
