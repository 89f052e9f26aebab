package format

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/schema/names"
	"parsimon/schema/tree"
	"parsimon/stages/topology"
)

// A Repair is the action that Options.Repair selects for faults of one kind.
type Repair struct {
	Kind topology.FaultKind
	Doc  string
}

// Repairs are the kinds of faults that can be repaired, in the order of the help text.
var Repairs = []Repair{
	{
		topology.FaultOneSided,
		"keep the cable, as its one end reports it; two such reports of two devices about each other are one cable",
	},
	{topology.FaultDoubled, "keep the first of the two"},
	{
		topology.FaultContradictory,
		"keep the lower speed and the longer delay of a cable, and the first row of a node",
	},
	{topology.FaultSharedPort, "keep all cables of the port"},
	{topology.FaultParallel, "take them as members of a link aggregation group"},
	{topology.FaultSelfLoop, "leave the cable out"},
	{topology.FaultIsland, "leave out all parts but the one with the most hosts"},
	{topology.FaultSimilarNames, "take the names as one, in the first spelling"},
}

// ParseRepair reads a kind of fault that has a repair.
func ParseRepair(text string) (topology.FaultKind, error) {
	var kinds []string
	for _, r := range Repairs {
		if string(r.Kind) == text {
			return r.Kind, nil
		}
		kinds = append(kinds, string(r.Kind))
	}
	return "", fmt.Errorf("%q: must be of %s", text, strings.Join(kinds, ", "))
}

// A Fault is an error of a topology.
type Fault struct {
	File string             `json:"file"`
	Line int                `json:"line"` // from 1; the row of a Parquet file; 0 if the whole file is at fault
	Text string             `json:"text"`
	Kind topology.FaultKind `json:"kind"`
}

func (f Fault) Error() string {
	at := fmt.Sprintf("line %d: ", f.Line)
	if f.Line == 0 {
		at = ""
	} else if extension(f.File) == ".parquet" {
		at = fmt.Sprintf("row %d: ", f.Line)
	}
	return "topology " + f.File + ": " + at + f.Text
}

// maxErrors is the maximum number of lines of the error that Usable returns.
const maxErrors = 50

func joinFaults(faults []Fault) error {
	var errs []error
	for i, f := range faults {
		if i == maxErrors {
			errs = append(
				errs,
				fmt.Errorf("and %d more faults; \"parsimon topology\" lists all", len(faults)-i),
			)
			break
		}
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// A draft is a network as a file describes it, before it is checked. The result of Load takes its faults,
// repairs and settings.
type draft struct {
	Loaded
	*source
	o        *Options
	nodes    []topology.Node
	nodeAt   []place
	racks    map[int32]string // names of racks, by the number that nodes have
	cables   []draftCable
	matched  map[string]bool // patterns of Options.Exclude, and rules of Options.Speeds
	gone     map[string]bool // devices that they match
	cut      int             // cables of these
	notes    []note
	infers   bool // the nodes that are hosts, unless options state it
	unmerged int  // cables that are not in cables because they are parallel to one
}

func newDraft(s *source, o *Options) *draft {
	return &draft{
		Loaded:  Loaded{Files: s.files, Faults: []Fault{}, Repaired: map[topology.FaultKind]int{}},
		source:  s,
		o:       o,
		matched: map[string]bool{},
		gone:    map[string]bool{},
		racks:   map[int32]string{},
	}
}

type draftCable struct {
	topology.Cable
	failed bool
	ports  topology.Ports // in the direction from A to B
	at     place
}

// A place locates a node or a cable: a line of a file, and a path within a JSON or YAML document.
type place struct {
	file string
	line int
	path string
}

// from returns the place for use in a message about another place: its line, and its file if the files
// differ.
func (p place) from(other place) string {
	if p.file == other.file {
		return fmt.Sprintf("line %d", p.line)
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.file), p.line)
}

func (d *draft) fault(at place, kind topology.FaultKind, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if at.path != "" {
		text = at.path + ": " + text
	}
	d.Faults = append(d.Faults, Fault{File: at.file, Line: at.line, Text: text, Kind: kind})
}

func (d *draft) syntax(file string, line int, format string, args ...any) {
	d.fault(place{file: file, line: line}, topology.FaultFormat, format, args...)
}

// repaired reports whether the options repair faults of this kind, and counts the repair.
func (d *draft) repaired(kind topology.FaultKind) bool {
	if !slices.Contains(d.o.Repair, kind) {
		return false
	}
	d.Repaired[kind]++
	return true
}

// repair reports whether the options repair faults of this kind. If they do not, it adds a fault.
func (d *draft) repair(at place, kind topology.FaultKind, format string, args ...any) bool {
	if d.repaired(kind) {
		return true
	}
	d.fault(at, kind, format, args...)
	return false
}

// A note tells the user about an inference or a default, to be confirmed.
type note struct {
	text  string // with %s for the number of things
	thing string // empty: the text is complete
	n     int
}

func (n note) String() string {
	if n.thing == "" {
		return n.text
	}
	return strings.Replace(n.text, "%s", topology.Count(n.n, n.thing), 1)
}

func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, note{text: fmt.Sprintf(format, args...)})
}

// count adds n items to a note. The note keeps the position of its first item.
func (d *draft) count(n int, thing, text string) {
	i := slices.IndexFunc(d.notes, func(o note) bool { return o.text == text && o.thing == thing })
	switch {
	case i >= 0:
		d.notes[i].n += n
	case n > 0:
		d.notes = append(d.notes, note{text, thing, n})
	}
}

func (d *draft) addNode(v topology.Node, at place) {
	d.nodes = append(d.nodes, v)
	d.nodeAt = append(d.nodeAt, at)
}

func (d *draft) addCable(c topology.Cable, failed bool, at place) {
	d.cables = append(d.cables, draftCable{Cable: c, failed: failed, at: at})
}

// finish repairs and checks the draft and builds the network. It returns nil if there are faults other than
// islands. A network with islands can be routed; only flows between its parts have no path.
//
// The order matters. Repairs come first, so that the checks see the repaired network. Islands come before the
// checks, because removing an island also removes its hosts without cables. The checks run on the whole
// draft, so that one run of the command shows every fault.
func (d *draft) finish() *topology.Network {
	d.exclude()
	d.repairCables()
	d.checkIslands()
	unreadable := len(d.nodes) == 0 && len(d.Faults) > 0
	cables := names.Of(d.cables, func(c draftCable) topology.Cable { return c.Cable })
	for _, e := range topology.Check(d.nodes, cables) {
		at := place{file: d.files[0]}
		switch {
		case e.Kind == topology.FaultNoHost && unreadable:
			continue
		case e.Kind == topology.FaultNoHost && d.infers:
			e.What += ": state hosts with --host-pattern PATTERN or --nodes FILE"
		case e.Node >= 0:
			at = d.nodeAt[e.Node]
		case e.Cable >= 0:
			at = d.cables[e.Cable].at
		}
		d.fault(at, e.Kind, "%s", e.What)
	}
	if slices.ContainsFunc(d.Faults, func(f Fault) bool { return f.Kind != topology.FaultIsland }) {
		return nil
	}
	n, err := topology.NewNetwork(d.nodes, cables)
	if err != nil {
		d.syntax(d.files[0], 0, "%v", err)
		return nil
	}
	for i, c := range d.cables {
		n.Links[2*i].Failed = c.failed
		n.Links[2*i+1].Failed = c.failed
		if c.ports != (topology.Ports{}) {
			n.SetPorts(i, c.ports)
		}
	}
	n.SetRackNames(d.racks)
	return n
}

// excluded reports whether Options.Exclude matches a device.
func (d *draft) excluded(device string) (is bool) {
	for _, p := range d.o.Exclude {
		if topology.MatchPattern(p, device) {
			is = true
			d.matched[p] = true
			d.gone[device] = true
		}
	}
	return is
}

// exclude removes the nodes that Options.Exclude matches, unless the reader has already omitted them. A
// pattern without a match is a fault.
func (d *draft) exclude() {
	drop := map[int32]bool{}
	for _, v := range d.nodes {
		if d.excluded(v.Name) {
			drop[v.ID] = true
		}
	}
	before := len(d.cables)
	d.dropNodes(drop)
	d.cut += before - len(d.cables)
	if len(d.gone) > 0 {
		d.note(
			"excluded: %s matching %s, with %s",
			topology.Count(len(d.gone), "device"),
			strings.Join(d.o.Exclude, ", "),
			topology.Count(d.cut, "cable"),
		)
	}
	for _, p := range d.o.Exclude {
		if !d.matched[p] {
			d.syntax(d.files[0], 0, "no device matches %q of --exclude", p)
		}
	}
}

// repairCables removes self-loops, and makes repeated cables between the same two nodes members of a LAG.
func (d *draft) repairCables() {
	known := make(map[[2]int32]bool, len(d.cables))
	kept := d.cables[:0]
	for _, c := range d.cables {
		key := [2]int32{min(c.A, c.B), max(c.A, c.B)}
		if c.A == c.B && d.repaired(topology.FaultSelfLoop) {
			continue
		}
		if known[key] && c.A != c.B && !c.Parallel {
			c.Parallel = d.repaired(topology.FaultParallel)
		}
		known[key] = true
		kept = append(kept, c)
	}
	d.cables = kept
}

// joined returns, for each of n items, the lowest item that it is connected to by pairs.
func joined(n int, pairs [][2]int32) []int32 {
	of := make([]int32, n)
	for i := range of {
		of[i] = int32(i)
	}
	lowest := func(i int32) int32 {
		for of[i] != i {
			of[i] = of[of[i]]
			i = of[i]
		}
		return i
	}
	for _, p := range pairs {
		a := lowest(p[0])
		b := lowest(p[1])
		of[max(a, b)] = min(a, b)
	}
	for i := range of {
		of[i] = lowest(int32(i))
	}
	return of
}

// A numbering numbers values in order of their first occurrence.
type numbering[K comparable] map[K]int32

func (m numbering[K]) of(key K) int32 {
	n, known := m[key]
	if !known {
		n = int32(len(m))
		m[key] = n
	}
	return n
}

// checkIslands reports or removes all parts of the network but the one with most hosts.
func (d *draft) checkIslands() {
	islands := d.islands()
	if len(islands) < 2 {
		return
	}
	hosts := func(island []int) int {
		return len(
			slices.DeleteFunc(
				slices.Clone(island),
				func(i int) bool { return d.nodes[i].Kind != topology.KindHost },
			),
		)
	}
	most := slices.MaxFunc(islands, func(a, b []int) int {
		return cmp.Or(cmp.Compare(hosts(a), hosts(b)), cmp.Compare(len(a), len(b)))
	})
	drop := map[int32]bool{}
	for _, s := range islands {
		switch {
		case s[0] == most[0]:
		case d.repaired(topology.FaultIsland):
			for _, i := range s {
				drop[d.nodes[i].ID] = true
			}
		case len(s) > 1 || hosts(s) == 0: // the checks report a host without a cable
			name := func(i int) string { return cmp.Or(d.nodes[i].Name, fmt.Sprintf("node %d", d.nodes[i].ID)) }
			d.fault(
				d.nodeAt[s[0]],
				topology.FaultIsland,
				"%s: no cable joins %s to the other %d nodes",
				names.Listed(
					names.Of(s, name),
					3,
				),
				map[bool]string{true: "it", false: "them"}[len(s) == 1],
				len(d.nodes)-len(s),
			)
		}
	}
	d.dropNodes(drop)
}

// islands returns the connected parts of the network as indexes into nodes, in order of their first node.
// Failed cables count as cables, because a failure is a state, while an island is an error in the
// description.
func (d *draft) islands() (list [][]int) {
	at := make(map[int32]int32, len(d.nodes))
	for i, v := range d.nodes {
		at[v.ID] = int32(i)
	}
	var cables [][2]int32
	for _, c := range d.cables {
		a, knownA := at[c.A]
		b, knownB := at[c.B]
		if knownA && knownB {
			cables = append(cables, [2]int32{a, b})
		}
	}
	lowest := joined(len(d.nodes), cables)
	number := numbering[int32]{}
	for i, v := range d.nodes {
		k := number.of(lowest[at[v.ID]]) // if two nodes have one id, the cables belong to the last
		if int(k) == len(list) {
			list = append(list, nil)
		}
		list[k] = append(list[k], i)
	}
	return list
}

func (d *draft) dropNodes(drop map[int32]bool) {
	kept := 0
	for i, v := range d.nodes {
		if !drop[v.ID] {
			d.nodes[kept], d.nodeAt[kept] = v, d.nodeAt[i]
			kept++
		}
	}
	d.nodes = d.nodes[:kept]
	d.nodeAt = d.nodeAt[:kept]
	d.cables = slices.DeleteFunc(d.cables, func(c draftCable) bool { return drop[c.A] || drop[c.B] })
}

// document parses a file. It returns nil, after adding a fault, if the file cannot be parsed.
func (d *draft) document(file string, parse func(file string, data []byte) (tree.Field, error)) tree.Field {
	top, err := parse(file, d.content(file))
	d.take(err)
	return top
}

// take adds the errors of fields as faults, and reports whether there were none.
func (d *draft) take(err error) bool {
	var several interface{ Unwrap() []error }
	var bad *tree.FieldError
	switch {
	case err == nil:
		return true
	case errors.As(err, &several):
		for _, one := range several.Unwrap() {
			d.take(one)
		}
	case errors.As(err, &bad):
		d.fault(place{bad.File, bad.Line, bad.Key}, topology.FaultFormat, "%v", bad.Err)
	}
	return false
}

func (d *draft) bad(f tree.Field, format string, args ...any) { d.take(f.Failf(format, args...)) }

func placeOf(f tree.Field) place { return place{f.File, f.Value.Line, f.Key} }

// lineOf returns the place of a field whose key would not help the user.
func lineOf(f tree.Field) place { return place{file: f.File, line: f.Value.Line} }

// list returns the items of a list. It is empty if the value is missing.
func (d *draft) list(f tree.Field) []tree.Field {
	if f.Value == nil || f.Value.Kind == tree.Null {
		return nil
	}
	list, err := f.List()
	d.take(err)
	return list
}

// members iterates over the keys and values of an object. There are none if the object is missing. A repeated
// key is a fault.
func (d *draft) members(f tree.Field) iter.Seq2[string, tree.Field] {
	return func(yield func(string, tree.Field) bool) {
		if f.Value == nil {
			return
		}
		if f.Value.Kind != tree.Object {
			d.bad(f, "is %s, want an object", f.Value)
		}
		seen := map[string]bool{}
		for i, key := range f.Value.Keys {
			item := tree.Field{File: f.File, Key: f.Key + "." + key, Value: f.Value.Items[i]}
			if seen[key] {
				d.bad(item, "is a duplicate key")
			}
			seen[key] = true
			if !yield(key, item) {
				return
			}
		}
	}
}

// topLevelKeys returns the keys of a JSON or YAML object, without their values, or nil if the file is not an
// object.
func (s *source) topLevelKeys(file string) []string {
	parse := tree.YAML
	if extension(file) == ".json" {
		parse = func(file string, data []byte) (tree.Field, error) {
			return tree.JSONOf(file, data, func(string) bool { return false })
		}
	}
	top, err := parse(file, s.content(file))
	if err != nil {
		return nil
	}
	return top.Value.Keys
}
