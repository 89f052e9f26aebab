package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"parsimon/datasets"
	"parsimon/pipeline/text"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
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
	for _, r := range format.Repairs() {
		fmt.Fprintf(&b, "  %-14s %s\n", r.Kind, r.Doc)
	}
	b.WriteString("\nFormats, in order of detection:\n")
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
		"names of hosts, with * and ? (repeatable); without it, devices with one cable and what looks like a host")
	f.StringSliceVar(&t.given.Exclude, "exclude", nil,
		"names of devices that are no part of the network, with * and ?, such as 'oob-*' (repeatable)")
	f.StringVar(&t.given.NodeList, "nodes", "",
		"CSV or Parquet `file` of devices: device, role, pod, rack; without role, the hosts")
	parseEach(f, &t.given.Speeds, format.ParseSpeedRule, "speed",
		"`DEVICE[:PORT]=SPEED` for cables without a speed, such as 'leaf*:Ethernet*=25G' (repeatable; the first match "+
			"applies)")
	parse(f, &t.given.DefaultSpeedBps, "string", topology.ParseSpeed, "default-speed", "",
		"bandwidth of cables of which neither the file nor --speed nor the name of a port says one")
	parseEach(f, &t.given.Delays, topology.ParseDelayRule, "delay", "`CABLES=DELAY`, whatever the file says, such as "+
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

// options are those of format.Load: o, with what the flags say in place of it.
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
	var d *topology.Description
	if l.Network != nil {
		if d, err = topology.Describe(l.Network); err != nil {
			return err
		}
	}
	if err := e.write(topologyJSON(l, d), topologyText(path, l, d, t.maxFaults)); err != nil {
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
		names := strings.Join(datasets.Names(datasets.Topologies), ", ")
		return nil, fmt.Errorf("%w; shipped topologies: %s", err, names)
	}
	return nil, err
}

// topologyJSON has all faults, not only the first of each kind as the table does.
func topologyJSON(l *format.Loaded, d *topology.Description) any {
	out := struct {
		Hosts       int                        `json:"hosts"`
		Switches    int                        `json:"switches"`
		Cables      int                        `json:"cables"`
		Faults      []format.Fault             `json:"faults"`
		Format      string                     `json:"format"`
		Files       []string                   `json:"files"`
		Notes       []string                   `json:"notes"`
		Repaired    map[topology.FaultKind]int `json:"repaired"`
		Planned     []format.PlannedCable      `json:"planned"`
		Settings    []format.SwitchSettings    `json:"settings"`
		Description *topology.Description      `json:"description,omitempty"`
	}{l.Hosts, l.Switches, l.Cables, l.Faults, l.Format, l.Files, l.Notes, l.Repaired, l.Planned, l.Settings, d}
	if out.Faults == nil {
		out.Faults = []format.Fault{}
	}
	if out.Repaired == nil {
		out.Repaired = map[topology.FaultKind]int{}
	}
	return out
}

// A topologyTable says for people what was read.
type topologyTable struct {
	b strings.Builder
	w *tabwriter.Writer
}

// topologyText is what a topology file holds: counts, tiers, equal-cost links, asymmetries, and at most maxFaults of
// each kind of fault (0: all). d is nil for a topology with faults, which has no network to describe.
func topologyText(path string, l *format.Loaded, d *topology.Description, maxFaults int) *text.Answer {
	t := &topologyTable{}
	t.w = tabwriter.NewWriter(&t.b, 0, 8, 2, ' ', 0)
	files := ""
	if len(l.Files) > 1 {
		files = fmt.Sprintf(", %d files", len(l.Files))
	}
	t.printf("%s (%s%s): %s, %s, %s\n", path, l.Format, files, topology.Count(l.Hosts, "host"),
		topology.Count(l.Switches, "switch"), topology.Count(l.Cables, "cable"))
	notes := l.AllNotes()
	t.list("Inferred and set by default", "", len(notes), 0, "", func(i int) string { return notes[i] })
	if d != nil {
		t.shape(d)
		t.paths(d)
	}
	t.planned(l.Planned)
	t.settings(l.Settings)
	t.faults(l.Faults, maxFaults)
	_ = t.w.Flush()
	a := &text.Answer{}
	a.Linef("%s", strings.TrimSuffix(t.b.String(), "\n"))
	return a
}

func (t *topologyTable) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }

// section begins a section. It ends the columns of the section before.
func (t *topologyTable) section(title, columns string) {
	_ = t.w.Flush()
	t.printf("\n%s\n", title)
	if columns != "" {
		t.printf("  %s\n", columns)
	}
}

// list writes a section of n lines, at most most (0: all), and how the rest is listed. Without lines there is none.
func (t *topologyTable) list(title, columns string, n, most int, rest string, line func(i int) string) {
	if n > 0 {
		t.section(title, columns)
	}
	for i := range n {
		if most > 0 && i == most {
			t.printf("  and %d more (%s)\n", n-i, rest)
			break
		}
		t.printf("  %s\n", line(i))
	}
}

// cells are the columns of a line.
func cells(values ...any) string {
	return strings.TrimSuffix(fmt.Sprintf(strings.Repeat("%v\t", len(values)), values...), "\t")
}

// shape writes tiers, speeds and oversubscription.
func (t *topologyTable) shape(d *topology.Description) {
	t.list("Roles", "role\tcables to nearest host\tnodes", len(d.Roles), 0, "", func(i int) string {
		r := d.Roles[i]
		level := strconv.Itoa(r.Level)
		if r.Level < 0 {
			level = "none reached"
		}
		return cells(r.Kind, level, r.Nodes)
	})
	hosts := strconv.Itoa(d.RackHostsMin)
	if d.RackHostsMax > d.RackHostsMin {
		hosts += "–" + strconv.Itoa(d.RackHostsMax)
	}
	t.printf("  racks: %d, with %s hosts each; pods: %d\n", d.Racks, hosts, d.Pods)
	t.list("Cables", "between\tbandwidth\tdelay\tcables\tdown", len(d.Speeds), 0, "", func(i int) string {
		s := d.Speeds[i]
		delay := formatNS(s.DelayMinNS)
		if s.DelayMaxNS > s.DelayMinNS {
			delay += " – " + formatNS(s.DelayMaxNS)
		}
		return cells(s.Tier, topology.FormatBps(s.BandwidthBps), delay, s.Cables, s.Failed)
	})
	t.list("Oversubscription (bandwidth towards hosts / bandwidth upwards)", "role\tswitches\tleast\tmedian\tmost",
		len(d.Oversubscription), 0, "", func(i int) string {
			o := d.Oversubscription[i]
			return fmt.Sprintf("%s\t%d\t%.2f:1\t%.2f:1\t%.2f:1", o.Kind, o.Switches, o.Min, o.Median, o.Max)
		})
}

// formatNS writes a time in the unit in which it is short.
func formatNS(ns int64) string {
	if ns >= 1000 {
		return strconv.FormatFloat(float64(ns)/1000, 'f', -1, 64) + " µs"
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// paths writes what switches choose among, and which nodes differ from most of their kind.
func (t *topologyTable) paths(d *topology.Description) {
	t.list("Equal-cost next hops (ECMP)", "role\tleast\tmost", len(d.NextHops), 0, "", func(i int) string {
		return cells(d.NextHops[i].Kind, d.NextHops[i].Min, d.NextHops[i].Max)
	})
	t.list("Asymmetries", "", len(d.Asymmetries), 0, "", func(i int) string {
		a := d.Asymmetries[i]
		return fmt.Sprintf("%s: %s; most of role %s have %s", nameList(a.Nodes), a.Have, a.Kind, a.Most)
	})
}

// shown is how many names or cables a table lists one by one, and inJSON where the others are.
const (
	shown  = 10
	inJSON = "--format json lists all"
)

// nameList writes a few names, and how many more there are.
func nameList(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// planned writes the cables that are listed but not installed.
func (t *topologyTable) planned(list []format.PlannedCable) {
	end := func(device, port string) string { return strings.TrimSuffix(device+":"+port, ":") }
	t.list("Planned cables (not part of the network)", "from\tto\tbandwidth\tdelay\tline", len(list), shown, inJSON,
		func(i int) string {
			p, bandwidth := list[i], "unknown"
			if p.BandwidthBps > 0 {
				bandwidth = topology.FormatBps(p.BandwidthBps)
			}
			return cells(end(p.A, p.PortA), end(p.B, p.PortB), bandwidth, formatNS(p.DelayNS), p.Line)
		})
}

// settings lists each distinct value once, with the number of switches that have it.
func (t *topologyTable) settings(list []format.SwitchSettings) {
	type value struct{ name, text, unit, key string }
	count := map[value]int{}
	var first []format.TakenSetting
	of := func(k format.TakenSetting) value { return value{k.Name, k.Value, k.Unit, k.Key} }
	for _, s := range list {
		for _, k := range s.Taken {
			if count[of(k)]++; count[of(k)] == 1 {
				first = append(first, k)
			}
		}
	}
	t.list("Switch settings", "setting\tvalue\tfrom\tswitches\tfirst in", len(first), 0, "", func(i int) string {
		k := first[i]
		return cells(k.Name, strings.TrimSpace(k.Value+" "+k.Unit), k.Key, count[of(k)], fmt.Sprintf("%s:%d", k.File, k.Line))
	})
}

// faults writes, kind by kind, the first so many faults (0: all) and the repair that --repair offers.
func (t *topologyTable) faults(list []format.Fault, most int) {
	byKind := map[topology.FaultKind][]format.Fault{}
	var kinds []topology.FaultKind
	for _, f := range list {
		if byKind[f.Kind] == nil {
			kinds = append(kinds, f.Kind)
		}
		byKind[f.Kind] = append(byKind[f.Kind], f)
	}
	for _, kind := range kinds {
		of := byKind[kind]
		title := fmt.Sprintf("Faults: %d %s", len(of), kind)
		t.list(title, "", len(of), most, "--max-faults 0 lists all", func(i int) string {
			return strings.TrimPrefix(of[i].Error(), "topology ")
		})
		for _, r := range format.Repairs() {
			if r.Kind == kind {
				t.printf("  repair: --repair %s: %s\n", kind, r.Doc)
			}
		}
	}
}
