package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/datasets"
	"parsimon/pipeline/text"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

var topologyCommand = command{
	name: "topology", args: "TOPOLOGY", least: 1, most: 1,
	summary: "check a topology file: what it describes, every fault, a picture",
	help:    topologyHelp(),
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var t topologyFlags
		t.maxFaults = 50
		declareForm(f, &t.form, "table", "json")
		t.topologyOptions.declare(f)
		f.StringVar(&t.dot, "dot", "", "write a Graphviz picture to this `file`; - is stdout")
		f.StringVar(&t.write, "write", "", "write nodes.csv and links.csv to this `directory`")
		intVar(f, &t.maxFaults, 0, math.MaxInt32, "max-faults", "faults of each kind that the table shows; 0: all")
		return func(_ context.Context, args []string) error { return t.run(e, args[0]) }
	},
}

func topologyHelp() string {
	var b strings.Builder
	b.WriteString(`
Reads a topology in any of the formats below and reports what it describes: roles, speeds,
oversubscription, equal-cost paths, asymmetries, single points of failure, and which values were
inferred or set by default. All faults are listed at once with file and line; the exit code is then 1.
Nothing is repaired unless --repair names the kind of fault:

`)
	for _, r := range format.Repairs() {
		fmt.Fprintf(&b, "  %-14s %s\n", r.Kind, r.Doc)
	}
	b.WriteString(`
The options are those of this command: --write stores the resulting network as nodes.csv and links.csv
in a directory, which every command takes as --topology.

  parsimon topology cables.csv --host-pattern 'web*' --host-pattern 'db*'
  parsimon topology cables.csv --repair doubled,parallel --write net
  parsimon run --topology net --flows flows.parquet --lake lake
  parsimon topology net --dot - | dot -Tsvg > net.svg
  parsimon topology cables.csv --format json

A node list (--nodes) has the columns device (or node, name, id), role (host, server, tor, leaf, fabric,
aggregation, spine, core, switch, …), rack and pod. With a list, only the listed hosts are hosts.
Devices that are not listed are switches. Roles that nothing states are inferred from the distance to
the nearest host: tor, fabric, spine; not for devices named like routers (wan1, border-gw, fw2), nor where
the list states the devices of that tier. Racks have the names of the list, else those of their switches.

Parallel cables with ports of their own and one speed are a link aggregation group: one link of the
summed bandwidth, of which --fail DEVICE:PORT takes one member down.

JSON has the keys hosts, switches, cables, faults (file, line, text, kind), format, files, notes,
repaired, planned, settings, and description unless there are faults. In a Parquet file the line of a
fault is its row.

Formats, in order of detection:
`)
	for _, d := range format.Docs() {
		fmt.Fprintf(&b, "\n%s\n%s\n", strings.ToUpper(d[0]), d[1])
	}
	return b.String()
}

type topologyFlags struct {
	topologyOptions
	form, dot, write string
	maxFaults        int
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

// run writes everything that was asked for before it reports faults, so that one call shows both. A topology with
// faults is an error (exitFailed), and no tables are written of it.
func (t *topologyFlags) run(e *env, path string) error {
	if t.dot == "-" && t.form == "json" {
		return usagef("--dot - and --format json both write to stdout")
	}
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
	if t.dot != "-" {
		err = e.write(t.form, topologyJSON(l, d), func() (*text.Answer, error) {
			return topologyText(path, l, d, t.maxFaults), nil
		})
		if err != nil {
			return err
		}
	}
	if l.Network != nil && t.dot != "" {
		if err := writeDot(e.stdout, t.dot, l.Network); err != nil {
			return err
		}
	}
	if len(l.Faults) > 0 {
		return topologyFaults(l, t)
	}
	if t.write != "" {
		return topology.WriteTables(t.write, l.Network)
	}
	return nil
}

// topologyFaults is the error of a topology with faults.
func topologyFaults(l *format.Loaded, t *topologyFlags) error {
	text := topology.Count(len(l.Faults), "fault")
	if t.write != "" {
		text += "; nothing written to " + t.write
	}
	if l.Network == nil && t.dot != "" {
		text += "; no picture"
	}
	if t.dot == "-" {
		text += ": " + l.Faults[0].Error()
	}
	return errors.New(text)
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

func writeDot(stdout io.Writer, file string, n *topology.Network) error {
	if file == "-" {
		return topology.WriteDot(stdout, n)
	}
	_, err := writeOutput(file, func(w io.Writer) error { return topology.WriteDot(w, n) })
	return err
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
