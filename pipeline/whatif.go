package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema"
	"parsimon/stages/topology"
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

// canonicalChanges are what a scenario has of changes that a scenario file cannot say. They follow
// those of its base, step after step.
type canonicalChanges struct {
	Bandwidth [][3]int64            `json:"bandwidth,omitempty"` // ends and bps, by ends
	Flows     []canonicalFlowChange `json:"flows,omitempty"`
}

type canonicalFlowChange struct {
	Scale map[string]float64 `json:"scale,omitempty"`
	Move  map[string][]int   `json:"move,omitempty"`
}

// origin says how the flows of a run's scenario come of those of another.
type origin struct {
	base    spec
	changes workload.FlowChanges
}

// Derive opens a scenario made from one that the lake holds (an id, the first letters of one, or a
// name), for a run that starts at its beginning. Its flows are the base's, which it shares, unless
// the changes are of flows. A cable that fails makes the same scenario, under the same id, as it does
// for Begin.
func Derive(base string, c Changes, o Options) (*Run, error) {
	lake, err := OpenLake(o.Lake, false)
	if err != nil {
		return nil, err
	}
	if base, err = lake.resolve(base); err != nil {
		return nil, err
	}
	var from spec
	if _, err := lake.readState(lake.statePath(place{scenario: base}, "spec.json"), &from); err != nil {
		return nil, err
	}
	net, err := lake.readNetwork(base)
	if err != nil {
		return nil, err
	}
	var canonical canonicalScenario
	if err := json.Unmarshal(from.Canonical, &canonical); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", base, err)
	}
	said, err := c.apply(net, &canonical, from.Seed)
	if err != nil {
		return nil, err
	}
	sp := from
	if sp.Canonical, err = json.Marshal(canonical); err != nil {
		return nil, err
	}
	if sp.ScenarioID = idOf(sp.Canonical); sp.ScenarioID == from.ScenarioID {
		return nil, fmt.Errorf("nothing would change in scenario %s", base)
	}
	sp.AllowUnreachable = sp.AllowUnreachable || c.AllowUnreachable
	if sp.Name = c.Name; sp.Name == "" {
		sp.Name = from.Name + ", " + strings.Join(said, ", ")
	}
	r, err := newRun(lake, sp, net, o)
	if err != nil {
		return nil, err
	}
	r.from = &origin{from, c.FlowChanges}
	path := lake.statePath(r.base(), "spec.json")
	_, err = os.Stat(path)
	r.existed = err == nil
	err = nil
	if o.passing && !r.existed {
		err = lake.writeState(lake.statePath(r.base(), passingState), true)
	}
	if err := errors.Join(err, lake.writeState(path, sp)); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// apply makes the changes to the network and to the canonical form, and says what they are in words.
func (c *Changes) apply(n *topology.Network, canonical *canonicalScenario, seed uint64) (said []string, err error) {
	fail := func(a, b int32) error {
		canonical.Fail = append(canonical.Fail, [2]int32{a, b})
		said = append(said, fmt.Sprintf("fail %d:%d", a, b))
		return n.Fail(a, b)
	}
	for _, ends := range c.Fail {
		a, b, err := n.Cable(ends)
		if err == nil {
			err = fail(a, b)
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
			if err := fail(cable[0], cable[1]); err != nil {
				return nil, err
			}
		}
	}
	canonical.settle()
	if canonical.Changes == nil {
		canonical.Changes = &canonicalChanges{}
	}
	more := canonical.Changes
	for _, change := range c.Bandwidth {
		cables, err := n.Select(change.Selector)
		if err != nil {
			return nil, fmt.Errorf("bandwidth: %w", err)
		}
		for _, cable := range cables {
			if err := n.SetBandwidth(cable[0], cable[1], change.BPS); err != nil {
				return nil, fmt.Errorf("bandwidth: %w", err)
			}
			more.Bandwidth = slices.DeleteFunc(more.Bandwidth, func(b [3]int64) bool { return b[0] == int64(cable[0]) && b[1] == int64(cable[1]) })
			more.Bandwidth = append(more.Bandwidth, [3]int64{int64(cable[0]), int64(cable[1]), change.BPS})
		}
		said = append(said, fmt.Sprintf("%s at %sbps", change.Selector, Human(float64(change.BPS))))
	}
	slices.SortFunc(more.Bandwidth, func(a, b [3]int64) int { return slices.Compare(a[:], b[:]) })
	for _, name := range slices.Sorted(maps.Keys(c.Scale)) {
		if x := c.Scale[name]; !(x >= 0 && x <= workload.MaxScale) {
			return nil, fmt.Errorf("scale: service %q by %v: must be 0 to %d", name, x, workload.MaxScale)
		}
		said = append(said, fmt.Sprintf("%s × %v", name, c.Scale[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Move)) {
		said = append(said, fmt.Sprintf("%s to racks %s", name, strings.Trim(fmt.Sprint(c.Move[name]), "[]")))
	}
	if len(c.Scale)+len(c.Move) > 0 {
		more.Flows = append(more.Flows, canonicalFlowChange{c.Scale, c.Move})
	}
	if len(more.Bandwidth)+len(more.Flows) == 0 {
		canonical.Changes = nil
	}
	return said, nil
}

// deriveFlows puts the flows of the run's scenario into the lake: the base's files, where no flow
// changes, or changed ones.
func (r *Run) deriveFlows(ctx context.Context, chunks *chunkWriter) (*GenerateReport, []part, error) {
	base := stage{"generate", place{scenario: r.from.base.ScenarioID}, nil}
	_, records, err := r.inputs(base)
	if err != nil {
		return nil, nil, err
	}
	report := new(GenerateReport)
	if err := json.Unmarshal(records[0].Stats, report); err != nil {
		return nil, nil, err
	}
	var shared []part
	share := func(t schema.Table) error {
		for n, p := range partsOf(records, t) {
			p, err := r.lake.share(p, r.base().file(t, n))
			if err != nil {
				return err
			}
			shared = append(shared, p)
		}
		return nil
	}
	if err := share(schema.Rejects); err != nil {
		return nil, nil, err
	}
	if len(r.from.changes.Scale)+len(r.from.changes.Move) == 0 {
		err := share(schema.Flows)
		r.progress.add(report.Flows)
		return report, shared, err
	}
	flows := partsOf(records, schema.Flows)
	changed, err := workload.ChangeFlows(ctx, r.net, r.from.changes, r.spec.Seed,
		func() schema.Batches { return r.lake.read(schema.Flows, flows, nil, nil) }, chunks)
	report.Flows, report.FirstStartNS, report.LastStartNS = changed.Flows, changed.FirstStartNS, changed.LastStartNS
	report.ExpectedMaxLoad = 0 // it was of the unchanged flows
	return report, shared, err
}

// share makes a committed file of one scenario a file of another too. It takes no space where the
// file system has hard links, and stays when either scenario goes.
func (l *Lake) share(p part, rel string) (part, error) {
	from, to := filepath.Join(l.root, filepath.FromSlash(p.Path)), filepath.Join(l.root, filepath.FromSlash(rel))
	fail := func(err error) (part, error) { return part{}, fmt.Errorf("sharing %s: %w", p.Path, err) }
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fail(err)
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	p.Path = rel
	if os.Link(from, to) == nil {
		return p, nil
	}
	in, err := os.Open(from)
	if err != nil {
		return fail(err)
	}
	defer closeQuietly(in)
	out, err := os.CreateTemp(l.tmp, "shared-*")
	if err != nil {
		return fail(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(0o644), out.Close()); err != nil {
		return fail(errors.Join(err, os.Remove(out.Name())))
	}
	if err := os.Rename(out.Name(), to); err != nil {
		return fail(err)
	}
	return p, nil
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

// An Answered what-if is the comparison and what it took.
type Answered struct {
	*Comparison
	run *Run
}

// WhatIf estimates a scenario of the lake, if that is not done yet, and what changes make of it, and
// compares the two.
func WhatIf(ctx context.Context, base string, c Changes, o Options, how CompareOptions) (*Answered, error) {
	run, err := Resume(base, o)
	if err != nil {
		return nil, err
	}
	err = run.Estimate(ctx)
	run.Close()
	if err != nil {
		return nil, err
	}
	changed, err := Derive(run.ScenarioID(), c, o)
	if err != nil {
		return nil, err
	}
	err = changed.Estimate(ctx)
	changed.Close()
	if err != nil {
		return nil, err
	}
	how.MemoryBytes = o.MemoryBytes
	how.Across = true // with AutoPasses the number of passes may differ
	compared, err := Compare(ctx, o.Lake, Side{run.ScenarioID(), run.Variant()}, Side{changed.ScenarioID(), changed.Variant()}, how)
	return &Answered{compared, changed}, err
}

// Write writes the comparison, and what it took to estimate what changed.
func (a *Answered) Write(w io.Writer) error {
	if err := a.Comparison.Write(w); err != nil {
		return err
	}
	p := printer{w: w}
	a.run.summarizeTime(&p)
	p.linef("\nNext:\n  parsimon compare %s %s --by service,size_bin --lake %s", a.Base.Scenario, a.Other.Scenario, a.run.lake.root)
	return p.err
}
