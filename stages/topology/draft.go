package topology

import (
	"fmt"
	"path/filepath"
	"slices"
)

// A draft is a network as a file describes it, before it is checked.
type draft struct {
	nodes    []Node
	nodeAt   []place
	cables   []Cable
	cableAt  []place
	failed   []bool // by cable; shorter where the rest is up
	faults   []Fault
	notes    []string
	planned  []PlannedCable
	settings []SwitchSettings
	repaired map[FaultKind]int
	unmerged int // cables that are not in cables because they are parallel to one
}

// A place locates a node or a cable: a line of a file, and a path within a JSON or YAML document.
type place struct {
	file string
	line int
	path string
}

// from names the place for a message about another place: by its line, and by its file where that
// is another one.
func (p place) from(other place) string {
	if p.file == other.file {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.file), p.line)
}

func (d *draft) fault(at place, kind FaultKind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if at.path != "" {
		text = at.path + ": " + text
	}
	d.faults = append(d.faults, Fault{File: at.file, Line: at.line, Text: text, Kind: kind})
}

// repair reports whether the options repair faults of this kind, and counts the repair.
func (d *draft) repair(o *Options, kind FaultKind) bool {
	if !slices.Contains(o.Repair, kind) {
		return false
	}
	if d.repaired == nil {
		d.repaired = map[FaultKind]int{}
	}
	d.repaired[kind]++
	return true
}

// note records what was inferred or set by default, for the user to confirm.
func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *draft) addNode(v Node, at place) {
	d.nodes = append(d.nodes, v)
	d.nodeAt = append(d.nodeAt, at)
}

func (d *draft) addCable(c Cable, failed bool, at place) {
	d.cables = append(d.cables, c)
	d.cableAt = append(d.cableAt, at)
	d.failed = append(d.failed, failed)
}

// finish repairs and checks the draft and builds the network. It returns nil where faults remain,
// except islands: a network in parts can be routed, and only flows between the parts are lost.
//
// The order matters. Repairs come first, so that the checks see what remains. Islands come before the
// checks, since removing an island also removes its hosts without cables. The checks run on the whole
// draft, so that one run of the command shows every fault.
func (d *draft) finish(files []string, o *Options) *Network {
	d.repairCables(o)
	d.checkIslands(o)
	unreadable := len(d.nodes) == 0 && len(d.faults) > 0
	for _, e := range checkNodes(d.nodes) {
		if e.Kind != FaultNoHost || !unreadable {
			d.faultOf(e, files[0])
		}
	}
	for _, e := range checkCables(d.indexed(), d.cables) {
		d.faultOf(e, files[0])
	}
	if len(d.faults) > 0 && slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Kind != FaultIsland }) {
		return nil
	}
	n, err := NewNetwork(d.nodes, d.cables)
	if err != nil {
		d.fault(place{file: files[0]}, FaultFormat, "%v", err)
		return nil
	}
	for c, down := range d.failed {
		if down {
			n.Links[2*c].Failed, n.Links[2*c+1].Failed = true, true
		}
	}
	return n
}

// indexed is a network of the nodes alone, each id once.
func (d *draft) indexed() *Network {
	n := &Network{Nodes: slices.Clone(d.nodes)}
	slices.SortStableFunc(n.Nodes, func(a, b Node) int { return int(int64(a.ID) - int64(b.ID)) })
	n.Nodes = slices.CompactFunc(n.Nodes, func(a, b Node) bool { return a.ID == b.ID })
	n.Nodes = slices.DeleteFunc(n.Nodes, func(v Node) bool { return v.ID < 0 })
	n.index = newNodeIndex(n.Nodes)
	return n
}

// faultOf adds an error of the checks as a fault, at the place of its node or cable. A fault that
// neither is to blame for is a fault of the file.
func (d *draft) faultOf(e *Error, file string) {
	at := place{file: file}
	switch {
	case e.Node >= 0:
		at = d.nodeAt[e.Node]
	case e.Cable >= 0:
		at = d.cableAt[e.Cable]
	case e.Kind == FaultUncabled:
		at = d.nodeAt[slices.IndexFunc(d.nodes, func(v Node) bool { return v.ID == e.id })]
	}
	d.fault(at, e.Kind, "%s", e.What)
}

// repairCables drops self-loops and merges or drops cables that join the same two nodes again.
func (d *draft) repairCables(o *Options) {
	if !slices.Contains(o.Repair, FaultSelfLoop) && !slices.Contains(o.Repair, FaultParallel) {
		return
	}
	first := make(map[[2]int32]int, len(d.cables))
	d.keepCables(func(i int) bool {
		c := d.cables[i]
		if c.A == c.B {
			return !d.repair(o, FaultSelfLoop)
		}
		j, again := first[cableKey(c.A, c.B)]
		if !again {
			first[cableKey(c.A, c.B)] = i
			return true
		}
		if !d.repair(o, FaultParallel) {
			return true
		}
		k := &d.cables[j]
		k.BandwidthBps, k.DelayNS = k.BandwidthBps+c.BandwidthBps, max(k.DelayNS, c.DelayNS)
		return false
	})
}

// keepCables removes the cables that keep rejects. It calls keep in order, with indexes of before.
func (d *draft) keepCables(keep func(i int) bool) {
	kept := make([]int, 0, len(d.cables))
	for i := range d.cables {
		if keep(i) {
			kept = append(kept, i)
		}
	}
	for to, from := range kept {
		d.cables[to], d.cableAt[to], d.failed[to] = d.cables[from], d.cableAt[from], d.failed[from]
	}
	d.cables, d.cableAt, d.failed = d.cables[:len(kept)], d.cableAt[:len(kept)], d.failed[:len(kept)]
}
