// Package scenario reads scenario files, checks them, and applies changes to them.
//
//	YAML file, --set, flags ─► field (value with its line) ─► Scenario ─┬─► Network, Workload, Params
//	topology + flow file, ingested workload ────────────────────────────┘└─► Canonical (JSON) ─► IDOf: scenario id
//	base scenario ─► Changes.Apply ─► changed network and canonical form ─► id of the changed scenario
//
// The id is a digest of the canonical form, which holds what the rows of the results depend on and nothing else: two
// spellings of a scenario have one id. Every error names the file, the line and the key.
//
// Files: read, topology, graph, service, vnets, transport, switches: the parts of a scenario file; yaml: values with
// their lines; override: --set; change, addition: what-if; id: canonical form.
package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// Changes make one scenario out of another.
type Changes struct {
	// Fail lists cables that go down, "A:B" by ids or names of their ends.
	Fail []string
	// FailRandom takes so many cables of tier FailTier down that are up, drawn by the scenario's seed
	// and Draw: another Draw, other cables.
	FailRandom int
	FailTier   string
	Draw       uint64
	// Add lists cables that are installed: "A:B", between nodes that no cable joins.
	Add []CableAddition
	// Bandwidth changes that of the selected cables: one, "A:B", or all of a tier.
	Bandwidth []BandwidthChange
	// Flows that change; the base's are shared where none does.
	workload.FlowChanges

	Name             string // of the scenario that comes of it; empty: the base's, and what was changed
	AllowUnreachable bool
}

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
	Flows     []canonicalFlowChange `json:"flows,omitempty"`
}

type canonicalFlowChange struct {
	Scale map[string]float64 `json:"scale,omitempty"`
	Move  map[string][]int   `json:"move,omitempty"`
}

// Apply makes the changes to a network and to the canonical form of its scenario. It returns the new canonical
// form, a description of each change, and the cables that are down, by the ids of their ends.
func (c *Changes) Apply(n *topology.Network, planned []format.PlannedCable, canonical []byte,
	seed uint64) (changed []byte, said []string, failed [][2]int32, err error) {
	var s canonicalScenario
	if err := json.Unmarshal(canonical, &s); err != nil {
		return nil, nil, nil, err
	}
	if said, err = c.addCables(n, planned, &s); err != nil {
		return nil, nil, nil, err
	}
	more, err := c.apply(n, &s, seed)
	if err != nil {
		return nil, nil, nil, err
	}
	changed, err = json.Marshal(s)
	return changed, append(said, more...), s.Fail, err
}

// apply makes the changes and describes them.
func (c *Changes) apply(n *topology.Network, canonical *canonicalScenario, seed uint64) (said []string, err error) {
	if said, err = c.failCables(n, canonical, seed); err != nil {
		return nil, err
	}
	canonical.settle()
	if canonical.Changes == nil {
		canonical.Changes = &canonicalChanges{}
	}
	more := canonical.Changes
	for _, change := range c.Bandwidth {
		if err := change.apply(n, more); err != nil {
			return nil, fmt.Errorf("bandwidth: %w", err)
		}
		said = append(said, change.Selector+" at "+topology.FormatBps(change.BPS))
	}
	slices.SortFunc(more.Bandwidth, func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) })
	for _, name := range slices.Sorted(maps.Keys(c.Scale)) {
		if x := c.Scale[name]; !(x >= 0 && x <= workload.MaxScale) {
			return nil, fmt.Errorf("scale: service %q by %v: must be 0 to %d", name, x, workload.MaxScale)
		}
		said = append(said, fmt.Sprintf("%s ×%v", name, c.Scale[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Move)) {
		said = append(said, fmt.Sprintf("%s to racks %s", name, strings.Trim(fmt.Sprint(c.Move[name]), "[]")))
	}
	if len(c.Scale)+len(c.Move) > 0 {
		more.Flows = append(more.Flows, canonicalFlowChange{c.Scale, c.Move})
	}
	if len(more.Cables)+len(more.Bandwidth)+len(more.Flows) == 0 {
		canonical.Changes = nil
	}
	return said, nil
}

// failCables takes down the cables that are named, then those that are drawn.
func (c *Changes) failCables(n *topology.Network, canonical *canonicalScenario,
	seed uint64) (said []string, err error) {
	var down [][2]int32
	for _, ends := range c.Fail {
		a, b, err := n.Cable(ends)
		if err == nil {
			down = append(down, [2]int32{a, b})
			err = n.Fail(a, b)
		}
		if err != nil {
			return nil, fmt.Errorf("fail: %w", err)
		}
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
		}
		down = append(down, drawn...)
	}
	for _, cable := range down {
		canonical.Fail = append(canonical.Fail, cable)
		said = append(said, n.Ends(cable[0], cable[1])+" down")
	}
	return said, nil
}

// apply sets the bandwidth of the selected cables, in place of a former change of theirs.
func (change BandwidthChange) apply(n *topology.Network, more *canonicalChanges) error {
	cables, err := n.Select(change.Selector)
	if err != nil {
		return err
	}
	for _, cable := range cables {
		if err := n.SetBandwidth(cable[0], cable[1], change.BPS); err != nil {
			return err
		}
		a, b := int64(cable[0]), int64(cable[1])
		more.Bandwidth = slices.DeleteFunc(more.Bandwidth, func(c [3]int64) bool { return c[0] == a && c[1] == b })
		more.Bandwidth = append(more.Bandwidth, [3]int64{a, b, change.BPS})
	}
	return nil
}

// ParseRacks reads places of racks: "4-7" or "0,2,5".
func ParseRacks(text string) ([]int, error) {
	var racks []int
	for _, piece := range strings.Split(text, ",") {
		lo, hi, isRange := strings.Cut(strings.TrimSpace(piece), "-")
		from, err := strconv.Atoi(lo)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(hi)
		}
		if err != nil || from < 0 || to < from || to >= maxRacks {
			return nil, fmt.Errorf("%q: want racks such as 4-7 or 0,2,5", text)
		}
		for r := from; r <= to; r++ {
			racks = append(racks, r)
		}
	}
	return racks, nil
}
