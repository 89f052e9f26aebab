// Package scenario reads scenario files, checks them, and applies changes to them.
//
//	YAML file, --set, flags ─► tree.Field (value, key, line) ─► Scenario
//	topology + flow file, ingested workload ─► Scenario ─► Network, Workload, Params, Canonical ─► IDOf
//	base scenario ─► Changes.Apply ─► changed network and canonical form ─► id of the changed scenario
//
// The id is a digest of the canonical form, which holds what the rows of the results depend on and nothing else: two
// spellings of a scenario have one id. Every error names the file, the line and the key.
package scenario

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parsimon/stages/moves"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// Changes make one scenario out of another.
type Changes struct {
	// Fail lists what goes down, as Scenario.Fail.
	Fail []string
	// FailRandom takes so many cables of tier FailTier down that are up, drawn by the scenario's seed
	// and Draw: another Draw, other cables.
	FailRandom int
	FailTier   string
	Draw       uint64
	// Add lists cables that are installed: "A:B", between nodes that no cable joins.
	Add []CableAddition
	// Bandwidth and Delay change those of the selected cables (topology.Network.Select).
	Bandwidth []BandwidthChange
	Delay     []topology.DelayRule
	// PathMoves change the choice of paths, and add events.
	PathMoves moves.Text
	// MoveTo says by service where it goes, as names or places of racks: "R1,R7" or "4-7". Apply puts it into Move.
	MoveTo map[string]string
	// FoundStarts lets flows start when the simulation of the base's whole network found that they do, and no flow wait
	// for others. It goes with no change of flows.
	FoundStarts bool
	// Flows that change; the base's are shared where none does.
	workload.FlowChanges

	Name             string // of the scenario that comes of it; empty: the base's, and what was changed
	AllowUnreachable bool
}

// ChangesFlows reports whether flows change, not only the network.
func (c *Changes) ChangesFlows() bool { return len(c.Scale)+len(c.Move)+len(c.MoveTo) > 0 }

// A BandwidthChange sets the bandwidth of cables.
type BandwidthChange struct {
	Selector string
	BPS      int64
}

// A CableAddition is a cable to install. Without a bandwidth it is one of Planned, or PlannedCables, which is all of
// them.
type CableAddition struct {
	Ends    string
	BPS     int64
	DelayNS int64
}

// PlannedCables as CableAddition.Ends are all planned cables of the topology.
const PlannedCables = "planned"

// canonicalChanges are what a scenario has of changes that a scenario file cannot say. They follow
// those of its base, step after step.
type canonicalChanges struct {
	Cables    [][4]int64            `json:"cables,omitempty"`    // added: ends, bps, ns, by ends
	Bandwidth [][3]int64            `json:"bandwidth,omitempty"` // ends and bps, by ends
	Delays    [][3]int64            `json:"delays,omitempty"`    // ends and ns, by ends
	Flows     []canonicalFlowChange `json:"flows,omitempty"`
	Starts    string                `json:"starts,omitempty"` // of flows that waited for others: "exact"
}

type canonicalFlowChange struct {
	Scale map[string]float64 `json:"scale,omitempty"`
	Move  map[string][]int   `json:"move,omitempty"`
}

func (c *canonicalChanges) empty() bool {
	return len(c.Cables)+len(c.Bandwidth)+len(c.Delays)+len(c.Flows) == 0 && c.Starts == ""
}

// Applied is what Apply has done.
type Applied struct {
	Canonical []byte        // form of the changed scenario
	Said      []string      // a description of each change
	Failed    [][2]int32    // the cables that are down, by the ids of their ends
	Cables    []CableChange // every cable that is not as it was
	Moves     *moves.Moves
}

// A CableChange says how a cable differs from what it was.
type CableChange struct {
	Cable              string `json:"cable"`          // A:B by the names of its ends
	Down               bool   `json:"down,omitempty"` // it was up
	Added              bool   `json:"added,omitempty"`
	BeforeBandwidthBps int64  `json:"before_bandwidth_bps"`
	BandwidthBps       int64  `json:"bandwidth_bps"`
	BeforeDelayNS      int64  `json:"before_delay_ns"`
	DelayNS            int64  `json:"delay_ns"`
}

// An application makes changes to a network and to the canonical form of its scenario, step by step.
type application struct {
	*Changes
	n       *topology.Network
	planned []format.PlannedCable
	seed    uint64
	form    canonicalScenario
	said    []string
}

func (a *application) say(format string, args ...any) {
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

// Apply makes the changes to a network and to the canonical form of its scenario.
func (c *Changes) Apply(n *topology.Network, planned []format.PlannedCable, canonical []byte,
	seed uint64) (*Applied, error) {
	a := &application{Changes: c, n: n, planned: planned, seed: seed}
	if err := json.Unmarshal(canonical, &a.form); err != nil {
		return nil, err
	}
	if a.form.Changes == nil {
		a.form.Changes = &canonicalChanges{}
	}
	before := slices.Clone(n.Links)
	for _, step := range []func() error{a.addCables, a.failCables, a.changeCables, a.changeFlows, a.changeMoves} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if c.FoundStarts {
		a.form.Changes.Starts = "exact"
		a.say("starts from exact")
	}
	a.form.settle()
	form, err := json.Marshal(a.form)
	return &Applied{form, a.said, a.form.Fail, changedCables(n, before), a.form.Moves}, err
}

// changeMoves changes how paths move.
func (a *application) changeMoves() (err error) {
	if a.form.Moves, err = a.PathMoves.Apply(a.n, a.form.Moves); err != nil {
		return err
	}
	a.said = append(a.said, a.PathMoves.Said()...)
	return a.form.Moves.Check(a.n)
}

// changedCables compares a network with its links before.
func changedCables(n *topology.Network, before []topology.Link) (list []CableChange) {
	for i := 0; i < len(n.Links); i += 2 {
		l := n.Links[i]
		c := CableChange{Cable: n.Ends(l.Src, l.Dst), BandwidthBps: l.BandwidthBps, DelayNS: l.DelayNS,
			Added: i >= len(before)}
		if !c.Added {
			was := before[i]
			if was == l {
				continue
			}
			c.BeforeBandwidthBps, c.BeforeDelayNS, c.Down = was.BandwidthBps, was.DelayNS, l.Failed && !was.Failed
		}
		list = append(list, c)
	}
	return list
}

// String is one line for people.
func (c CableChange) String() string {
	switch {
	case c.Added:
		return fmt.Sprintf("%s added at %s", c.Cable, topology.FormatBps(c.BandwidthBps))
	case c.Down:
		return c.Cable + " down"
	}
	var parts []string
	if c.BandwidthBps != c.BeforeBandwidthBps {
		parts = append(parts, topology.FormatBps(c.BeforeBandwidthBps)+" → "+topology.FormatBps(c.BandwidthBps))
	}
	if c.DelayNS != c.BeforeDelayNS {
		parts = append(parts, fmt.Sprintf("%d ns → %d ns", c.BeforeDelayNS, c.DelayNS))
	}
	return c.Cable + " " + strings.Join(parts, ", ")
}

// addCables installs cables.
func (a *application) addCables() error {
	for _, add := range a.Add {
		cables, err := add.cables(a.n, a.planned)
		for _, cable := range cables {
			if err == nil {
				err = a.n.AddCable(cable)
			}
			a.say("%s added at %s", a.n.Ends(cable.A, cable.B), topology.FormatBps(cable.BandwidthBps))
			added := [4]int64{int64(cable.A), int64(cable.B), cable.BandwidthBps, cable.DelayNS}
			a.form.Changes.Cables = append(a.form.Changes.Cables, added)
		}
		if err != nil {
			return fmt.Errorf("add-cable: %w", err)
		}
	}
	return nil
}

// cables are the cables that an addition means.
func (a CableAddition) cables(n *topology.Network, planned []format.PlannedCable) (cables []topology.Cable, err error) {
	x, y, err := n.Pair(a.Ends)
	if a.Ends != PlannedCables && a.BPS > 0 {
		if err != nil {
			return nil, fmt.Errorf("%q: %w", a.Ends, err)
		}
		return []topology.Cable{{A: min(x, y), B: max(x, y), BandwidthBps: a.BPS, DelayNS: a.DelayNS}}, nil
	}
	var list []string
	for _, p := range planned {
		u, v, unknown := n.Pair(p.A + ":" + p.B)
		if unknown != nil { // a device that is planned too
			if a.Ends == PlannedCables || a.Ends == p.A+":"+p.B {
				return nil, fmt.Errorf("planned cable %s:%s (%s, line %d): %w", p.A, p.B, p.File, p.Line, unknown)
			}
			continue
		}
		list = append(list, p.A+":"+p.B)
		c := topology.Cable{A: min(u, v), B: max(u, v), BandwidthBps: p.BandwidthBps, DelayNS: p.DelayNS}
		if a.Ends != PlannedCables && (err != nil || c.A != min(x, y) || c.B != max(x, y)) {
			continue
		}
		if i := slices.IndexFunc(cables, func(o topology.Cable) bool { return o.A == c.A && o.B == c.B }); i >= 0 {
			cables[i].BandwidthBps += c.BandwidthBps // parallel ones are one cable
			cables[i].DelayNS = max(cables[i].DelayNS, c.DelayNS)
		} else {
			cables = append(cables, c)
		}
	}
	if len(cables) == 0 {
		return nil, fmt.Errorf("%q is none of the planned cables of the topology (%s); give the bandwidth, %s=100Gbps",
			a.Ends, cmp.Or(strings.Join(list, ", "), "it lists none"), a.Ends)
	}
	return cables, nil
}

// failCables takes down what is named, then the cables that are drawn.
func (a *application) failCables() error {
	for _, text := range a.Fail {
		failures, err := a.n.FailNamed(text)
		if err != nil {
			return fmt.Errorf("fail: %w", err)
		}
		for _, f := range failures {
			a.form.failed(f)
		}
		if x, y, isCable := a.n.Cable(text); isCable == nil {
			text = a.n.Ends(x, y)
		} else if len(failures) > 1 {
			text += " with " + topology.Count(len(failures), "cable")
		}
		a.say("%s down", text)
	}
	if a.FailRandom == 0 {
		return nil
	}
	drawn, err := a.n.DrawCables(a.FailTier, a.FailRandom, a.seed, a.Draw)
	if err != nil {
		return fmt.Errorf("fail: %w", err)
	}
	for _, cable := range drawn {
		if err := a.n.Fail(cable[0], cable[1]); err != nil {
			return err
		}
		a.form.failed(topology.Failure{Ends: cable})
		a.say("%s down", a.n.Ends(cable[0], cable[1]))
	}
	return nil
}

// changeCables sets bandwidths and delays.
func (a *application) changeCables() error {
	set := func(what, selector string, to *[][3]int64, value int64, set func(a, b int32, value int64) error) error {
		cables, err := a.n.Select(selector)
		for _, cable := range cables {
			if err == nil {
				err = set(cable[0], cable[1], value)
				*to = setCable(*to, cable, value)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	for _, change := range a.Bandwidth {
		if err := set("bandwidth", change.Selector, &a.form.Changes.Bandwidth, change.BPS, a.n.SetBandwidth); err != nil {
			return err
		}
		a.say("%s at %s", change.Selector, topology.FormatBps(change.BPS))
	}
	for _, rule := range a.Delay {
		if err := set("delay", rule.Selector, &a.form.Changes.Delays, rule.DelayNS, a.n.SetDelay); err != nil {
			return err
		}
		a.say("%s at %d ns", rule.Selector, rule.DelayNS)
	}
	return nil
}

// changeFlows notes the changes of services and finds the racks that they move to.
func (a *application) changeFlows() error {
	for _, name := range slices.Sorted(maps.Keys(a.Scale)) {
		if x := a.Scale[name]; !(x >= 0 && x <= workload.MaxScale) {
			return fmt.Errorf("scale: service %q by %v: must be 0 to %d", name, x, workload.MaxScale)
		}
		a.say("%s ×%v", name, a.Scale[name])
	}
	move := map[string][]int{}
	maps.Copy(move, a.Move)
	for name, text := range a.MoveTo {
		var err error
		if move[name], err = a.n.RackList(text); err != nil {
			return fmt.Errorf("move %s: %w", name, err)
		}
	}
	racks := a.n.RackNames()
	for _, name := range slices.Sorted(maps.Keys(move)) {
		var names []string
		for _, r := range move[name] {
			if r >= 0 && r < len(racks) {
				names = append(names, racks[r])
			}
		}
		a.say("%s to %s", name, strings.Join(names, " "))
	}
	if a.Move = nil; len(move) > 0 {
		a.Move = move
	}
	if len(a.Scale)+len(a.Move) > 0 {
		a.form.Changes.Flows = append(a.form.Changes.Flows, canonicalFlowChange{a.Scale, a.Move})
	}
	return nil
}
