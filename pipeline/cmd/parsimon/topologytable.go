package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"parsimon/pipeline/text"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A topologyTable writes what was read for people.
type topologyTable struct {
	w *tabwriter.Writer
}

// writeTopologyTable writes what a topology file holds: counts, tiers, paths, weak points, and at most maxFaults of
// each kind of fault (0: all). d is nil for a topology with faults, which has no network to describe.
func writeTopologyTable(w io.Writer, path string, l *format.Loaded, d *topology.Description, maxFaults int) error {
	t := topologyTable{tabwriter.NewWriter(text.Writer{W: w}, 0, 8, 2, ' ', 0)}
	files := ""
	if len(l.Files) > 1 {
		files = fmt.Sprintf(", %d files", len(l.Files))
	}
	t.printf("%s (%s%s): %s, %s, %s\n", path, l.Format, files,
		plural(l.Hosts, "host"), plural(l.Switches, "switch"), plural(l.Cables, "cable"))
	t.notes(l)
	if d != nil {
		t.shape(d)
		t.paths(d)
		t.risks(d)
	}
	t.planned(l.Planned)
	t.settings(l.Settings)
	t.faults(l.Faults, maxFaults)
	return t.w.Flush()
}

// plural is a count with its noun: "1 host", "3 switches".
func plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case thing == "switch":
		thing = "switche"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (t topologyTable) printf(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }

// section ends the columns of the section before.
func (t topologyTable) section(title string, columns ...string) {
	_ = t.w.Flush()
	t.printf("\n%s\n", title)
	if len(columns) > 0 {
		t.printf("  %s\n", strings.Join(columns, "\t"))
	}
}

// notes writes what was assumed or repaired while reading.
func (t topologyTable) notes(l *format.Loaded) {
	notes := l.AllNotes()
	if len(notes) == 0 {
		return
	}
	t.section("Inferred and set by default")
	for _, note := range notes {
		t.printf("  %s\n", note)
	}
}

// shape writes tiers, speeds and oversubscription.
func (t topologyTable) shape(d *topology.Description) {
	t.section("Roles", "role", "cables to nearest host", "nodes")
	for _, r := range d.Roles {
		level := strconv.Itoa(r.Level)
		if r.Level < 0 {
			level = "none reached"
		}
		t.printf("  %s\t%s\t%d\n", r.Kind, level, r.Nodes)
	}
	hosts := strconv.Itoa(d.RackHostsMin)
	if d.RackHostsMax > d.RackHostsMin {
		hosts += "–" + strconv.Itoa(d.RackHostsMax)
	}
	t.printf("  racks: %d, with %s hosts each; pods: %d\n", d.Racks, hosts, d.Pods)
	t.section("Cables", "between", "bandwidth", "delay", "cables", "down")
	for _, s := range d.Speeds {
		delay := formatNS(s.DelayMinNS)
		if s.DelayMaxNS > s.DelayMinNS {
			delay += " – " + formatNS(s.DelayMaxNS)
		}
		t.printf("  %s\t%s\t%s\t%d\t%d\n", s.Tier, topology.FormatBps(s.BandwidthBps), delay, s.Cables, s.Failed)
	}
	if len(d.Oversubscription) > 0 {
		t.section("Oversubscription (bandwidth towards hosts / bandwidth upwards)",
			"role", "switches", "least", "median", "most")
		for _, o := range d.Oversubscription {
			t.printf("  %s\t%d\t%s\t%s\t%s\n", o.Kind, o.Switches, ratio(o.Min), ratio(o.Median), ratio(o.Max))
		}
	}
}

// ratio writes an oversubscription, "4.00:1".
func ratio(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + ":1" }

// formatNS writes a time in the unit in which it is short.
func formatNS(ns int64) string {
	if ns >= 1000 {
		return strconv.FormatFloat(float64(ns)/1000, 'f', -1, 64) + " µs"
	}
	return strconv.FormatInt(ns, 10) + " ns"
}

// paths writes how many equal-cost paths there are between racks and what each node chooses among.
func (t topologyTable) paths(d *topology.Description) {
	if len(d.NextHops) > 0 {
		t.section("Equal-cost next hops (ECMP)", "role", "least", "most")
		for _, h := range d.NextHops {
			t.printf("  %s\t%d\t%d\n", h.Kind, h.Min, h.Max)
		}
	}
	if len(d.Paths) == 0 {
		return
	}
	t.section("Shortest paths between racks", "hops", "pairs of racks", "least paths", "median", "most")
	for _, p := range d.Paths {
		t.printf("  %d\t%d\t%.0f\t%.0f\t%.0f\n", p.Hops, p.RackPairs, p.Min, p.Median, p.Max)
	}
	if d.UnreachablePairs > 0 {
		t.printf("  without a path: %d pairs of racks\n", d.UnreachablePairs)
	}
}

// shown is how many names or cuts a table lists one by one.
const shown = 10

// risks writes single points of failure and asymmetries.
func (t topologyTable) risks(d *topology.Description) {
	if len(d.Asymmetries) > 0 {
		t.section("Asymmetries")
		for _, a := range d.Asymmetries {
			t.printf("  %s: %s; most of role %s have %s\n", nameList(a.Nodes), a.Have, a.Kind, a.Most)
		}
	}
	t.section("Single points of failure")
	if d.OwnHostsOnly > 0 {
		switches := plural(d.OwnHostsOnly, "switch")
		t.printf("  %s: without one, only the hosts attached to it alone are cut off\n", switches)
	}
	for _, list := range []struct {
		kind string
		cuts []topology.Cut
	}{{"switch", d.CutSwitches}, {"cable", d.CutCables}} {
		for i, c := range list.cuts {
			if i == shown {
				t.printf("  and %d more (--format json lists all)\n", len(list.cuts)-i)
				break
			}
			t.printf("  %s %s: without it, %s cut off\n", list.kind, c.Name, plural(c.Hosts, "host"))
		}
	}
	if d.OwnHostsOnly+len(d.CutSwitches)+len(d.CutCables) == 0 {
		t.printf("  none\n")
	}
}

// nameList writes a few names, and how many more there are.
func nameList(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// planned writes the cables that are listed but not installed.
func (t topologyTable) planned(list []format.PlannedCable) {
	if len(list) == 0 {
		return
	}
	t.section("Planned cables (not part of the network)", "from", "to", "bandwidth", "delay", "line")
	for i, p := range list {
		if i == shown {
			t.printf("  and %d more (--format json lists all)\n", len(list)-i)
			break
		}
		bandwidth := "unknown"
		if p.BandwidthBps > 0 {
			bandwidth = topology.FormatBps(p.BandwidthBps)
		}
		t.printf("  %s\t%s\t%s\t%s\t%d\n", endName(p.A, p.PortA), endName(p.B, p.PortB), bandwidth,
			formatNS(p.DelayNS), p.Line)
	}
}

// endName is a device with its port, where it has one.
func endName(device, port string) string {
	if port == "" {
		return device
	}
	return device + ":" + port
}

// settings lists each distinct value once, with the number of switches that have it.
func (t topologyTable) settings(list []format.SwitchSettings) {
	type value struct{ name, text, unit, key string }
	count := map[value]int{}
	first := map[value]format.TakenSetting{}
	var order []value
	for _, s := range list {
		for _, k := range s.Taken {
			v := value{k.Name, k.Value, k.Unit, k.Key}
			if count[v]++; count[v] == 1 {
				first[v] = k
				order = append(order, v)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	t.section("Switch settings", "setting", "value", "from", "switches", "first in")
	for _, v := range order {
		t.printf("  %s\t%s\t%s\t%d\t%s:%d\n", v.name, strings.TrimSpace(v.text+" "+v.unit), v.key, count[v],
			first[v].File, first[v].Line)
	}
}

// faults writes, kind by kind, the first so many faults (0: all) and the repair that --repair offers.
func (t topologyTable) faults(list []format.Fault, most int) {
	if len(list) == 0 {
		return
	}
	repairable := map[topology.FaultKind]string{}
	for _, r := range format.Repairs() {
		repairable[r.Kind] = r.Doc
	}
	byKind := map[topology.FaultKind][]format.Fault{}
	var kinds []topology.FaultKind
	for _, f := range list {
		if byKind[f.Kind] == nil {
			kinds = append(kinds, f.Kind)
		}
		byKind[f.Kind] = append(byKind[f.Kind], f)
	}
	for _, kind := range kinds {
		t.section(fmt.Sprintf("Faults: %d %s", len(byKind[kind]), kind))
		for i, f := range byKind[kind] {
			if most > 0 && i == most {
				t.printf("  and %d more (--max-faults 0 lists all)\n", len(byKind[kind])-i)
				break
			}
			t.printf("  %s\n", strings.TrimPrefix(f.Error(), "topology "))
		}
		if doc := repairable[kind]; doc != "" {
			t.printf("  repair: --repair %s: %s\n", kind, doc)
		}
	}
}
