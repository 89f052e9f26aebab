package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"parsimon/pipeline/text"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
)

// A topologyTable says for people what was read.
type topologyTable struct {
	b strings.Builder
	w *tabwriter.Writer
}

// topologyText is what a topology file holds: counts, tiers, paths, weak points, and at most maxFaults of each kind of
// fault (0: all). d is nil for a topology with faults, which has no network to describe.
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
		t.risks(d)
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

// paths writes how many equal-cost paths there are between racks and what each node chooses among.
func (t *topologyTable) paths(d *topology.Description) {
	t.list("Equal-cost next hops (ECMP)", "role\tleast\tmost", len(d.NextHops), 0, "", func(i int) string {
		return cells(d.NextHops[i].Kind, d.NextHops[i].Min, d.NextHops[i].Max)
	})
	t.list("Shortest paths between racks", "hops\tpairs of racks\tleast paths\tmedian\tmost", len(d.Paths), 0, "",
		func(i int) string {
			p := d.Paths[i]
			return fmt.Sprintf("%d\t%d\t%.0f\t%.0f\t%.0f", p.Hops, p.RackPairs, p.Min, p.Median, p.Max)
		})
	if len(d.Paths) > 0 && d.UnreachablePairs > 0 {
		t.printf("  without a path: %d pairs of racks\n", d.UnreachablePairs)
	}
}

// shown is how many names or cuts a table lists one by one, and inJSON where the others are.
const (
	shown  = 10
	inJSON = "--format json lists all"
)

// risks writes single points of failure and asymmetries.
func (t *topologyTable) risks(d *topology.Description) {
	t.list("Asymmetries", "", len(d.Asymmetries), 0, "", func(i int) string {
		a := d.Asymmetries[i]
		return fmt.Sprintf("%s: %s; most of role %s have %s", nameList(a.Nodes), a.Have, a.Kind, a.Most)
	})
	t.section("Single points of failure", "")
	if d.OwnHostsOnly > 0 {
		t.printf("  %s: without one, only the hosts attached to it alone are cut off\n", topology.Count(d.OwnHostsOnly,
			"switch"))
	}
	for _, list := range []struct {
		kind string
		cuts []topology.Cut
	}{{"switch", d.CutSwitches}, {"cable", d.CutCables}} {
		for i, c := range list.cuts {
			if i == shown {
				t.printf("  and %d more (%s)\n", len(list.cuts)-i, inJSON)
				break
			}
			t.printf("  %s %s: without it, %s cut off\n", list.kind, c.Name, topology.Count(c.Hosts, "host"))
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
