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
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// Apply makes the changes to a network and to the canonical form of its scenario.
func (c *Changes) Apply(n *topology.Network, planned []format.PlannedCable, canonical []byte,
	seed uint64) (*Applied, error) {
	var s canonicalScenario
	if err := json.Unmarshal(canonical, &s); err != nil {
		return nil, err
	}
	if s.Changes == nil {
		s.Changes = &canonicalChanges{}
	}
	before := slices.Clone(n.Links)
	a := &Applied{}
	for _, step := range []func() ([]string, error){
		func() ([]string, error) { return c.addCables(n, planned, &s) },
		func() ([]string, error) { return c.failCables(n, &s, seed) },
		func() ([]string, error) { return c.changeCables(n, s.Changes) },
		func() ([]string, error) { return c.changeFlows(n, s.Changes) },
	} {
		said, err := step()
		if err != nil {
			return nil, err
		}
		a.Said = append(a.Said, said...)
	}
	if c.FoundStarts {
		s.Changes.Starts = "exact"
		a.Said = append(a.Said, "starts from exact")
	}
	s.settle()
	a.Failed, a.Cables = s.Fail, changedCables(n, before)
	var err error
	a.Canonical, err = json.Marshal(s)
	return a, err
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

// changeCables sets bandwidths and delays.
func (c *Changes) changeCables(n *topology.Network, more *canonicalChanges) (said []string, err error) {
	set := func(what, selector string, to *[][3]int64, value int64, set func(a, b int32, value int64) error) error {
		cables, err := n.Select(selector)
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
	for _, change := range c.Bandwidth {
		if err := set("bandwidth", change.Selector, &more.Bandwidth, change.BPS, n.SetBandwidth); err != nil {
			return nil, err
		}
		said = append(said, change.Selector+" at "+topology.FormatBps(change.BPS))
	}
	for _, rule := range c.Delay {
		if err := set("delay", rule.Selector, &more.Delays, rule.DelayNS, n.SetDelay); err != nil {
			return nil, err
		}
		said = append(said, fmt.Sprintf("%s at %d ns", rule.Selector, rule.DelayNS))
	}
	return said, nil
}

// changeFlows notes the changes of services and finds the racks that they move to.
func (c *Changes) changeFlows(n *topology.Network, more *canonicalChanges) (said []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Scale)) {
		if x := c.Scale[name]; !(x >= 0 && x <= workload.MaxScale) {
			return nil, fmt.Errorf("scale: service %q by %v: must be 0 to %d", name, x, workload.MaxScale)
		}
		said = append(said, fmt.Sprintf("%s ×%v", name, c.Scale[name]))
	}
	move := maps.Clone(c.Move)
	if move == nil {
		move = map[string][]int{}
	}
	for name, text := range c.MoveTo {
		if move[name], err = n.RackList(text); err != nil {
			return nil, fmt.Errorf("move %s: %w", name, err)
		}
	}
	racks := n.RackNames()
	for _, name := range slices.Sorted(maps.Keys(move)) {
		var names []string
		for _, r := range move[name] {
			if r >= 0 && r < len(racks) {
				names = append(names, racks[r])
			}
		}
		said = append(said, fmt.Sprintf("%s to %s", name, strings.Join(names, " ")))
	}
	if c.Move = nil; len(move) > 0 {
		c.Move = move
	}
	if len(c.Scale)+len(c.Move) > 0 {
		more.Flows = append(more.Flows, canonicalFlowChange{c.Scale, c.Move})
	}
	return said, nil
}

// failCables takes down what is named, then the cables that are drawn.
func (c *Changes) failCables(n *topology.Network, canonical *canonicalScenario,
	seed uint64) (said []string, err error) {
	for _, text := range c.Fail {
		failures, err := n.FailNamed(text)
		if err != nil {
			return nil, fmt.Errorf("fail: %w", err)
		}
		for _, f := range failures {
			canonical.failed(f)
		}
		what := text
		if a, b, isCable := n.Cable(text); isCable == nil {
			what = n.Ends(a, b)
		} else if len(failures) > 1 {
			what += " with " + topology.Count(len(failures), "cable")
		}
		said = append(said, what+" down")
	}
	if c.FailRandom > 0 {
		drawn, err := n.DrawCables(c.FailTier, c.FailRandom, seed, c.Draw)
		if err != nil {
			return nil, fmt.Errorf("fail: %w", err)
		}
		for _, cable := range drawn {
			if err := n.Fail(cable[0], cable[1]); err != nil {
				return nil, err
			}
			canonical.failed(topology.Failure{Ends: cable})
			said = append(said, n.Ends(cable[0], cable[1])+" down")
		}
	}
	return said, nil
}
