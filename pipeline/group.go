package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// An OnlyGroup says that windows are estimated for the flows of one group: link cases that hardly matter to them are
// left out of all passes, hosts without them are not replayed, and table slowdowns has no other flows.
type OnlyGroup struct {
	stages.FlowGroup
	// Like is a scenario of other windows of the same base, estimated in whole: it says what links contribute to the
	// feedback of their flows' other hops.
	Like lake.ScenarioID `json:"like"`
	// Tolerance is the greatest influence of all link cases together that are left out (stages.Relevance).
	Tolerance float64 `json:"tolerance"`
}

// relevanceVersion changes with the rule by which link cases are left out.
const relevanceVersion = 1

// A relevance finds the link cases that a group needs, for the stages of one plan. Nil: all link cases are needed.
type relevance struct {
	*method
	of                 *OnlyGroup
	flows, hops, stats engine.Output

	mu       sync.Mutex // of what follows: Beam opens stages at the same time
	foundFor string     // digest of the files that found was made from
	found    *stages.Relevance
}

// relevanceOf is that of a scenario of windows for one group; nil for others, and where ACKs wait in the queues of
// links that the group's data does not cross.
func (m *method) relevanceOf(generate *engine.Stage) *relevance {
	if m.only() == nil || m.Spec.Params.Transport.AcksQueue() {
		return nil
	}
	like := &method{Model: &Model{Lake: m.Lake, Spec: Spec{ScenarioID: m.only().Like}}, variant: m.variant}
	return &relevance{
		method: m, of: m.only(), flows: generate.Output(schema.Flows), hops: m.route.Output(schema.Hops),
		stats: like.flowPlan().Find("simulate", m.variant.Passes).Output(schema.LinkStats),
	}
}

// only is the group that windows are estimated for; nil for all flows.
func (m *method) only() *OnlyGroup {
	return nil
}

func (r *relevance) reads() []engine.Output { return []engine.Output{r.flows, r.hops, r.stats} }

// find reads what it needs once for all stages of a process.
func (r *relevance) find(read func(engine.Output) ([]lake.DataFile, error)) (*stages.Relevance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var files [3][]lake.DataFile
	digests := ""
	for i, o := range r.reads() {
		var err error
		if files[i], err = read(o); err != nil {
			return nil, err
		}
		for _, f := range files[i] {
			digests += f.Digest
		}
	}
	if r.found != nil && r.foundFor == digests {
		return r.found, nil
	}
	stats := r.Lake.Read(schema.LinkStats, files[2], nil, nil)
	defer func() { _ = stats.Close() }() // read to its end, or an error is reported
	shares, err := stages.ReadFeedbackShares(r.Network, stats)
	if err != nil {
		return nil, err
	}
	flows := r.Lake.Read(schema.Flows, files[0], []string{r.of.Column}, nil)
	defer func() { _ = flows.Close() }() // likewise
	hops := r.Lake.Read(schema.Hops, files[1], stages.RelevanceColumns(), nil)
	defer func() { _ = hops.Close() }() // likewise
	found, err := stages.FindRelevance(r.Network, &r.Spec.Params, r.of.FlowGroup, flows, hops, shares, r.variant.Passes,
		r.of.Tolerance)
	if err == nil {
		r.found, r.foundFor = found, digests
	}
	return found, err
}

// omitting is what one of the two sets of a relevance adds to what a stage omits. It is the same omission for none.
func (r *relevance) omitting(o omission, set func(*stages.Relevance) stages.Settled) omission {
	if r == nil {
		return o
	}
	return omission{slices.Concat(o.reads, r.reads()), func(in *engine.Inputs) (stages.Settled, error) {
		all, err := o.links(in)
		if err != nil {
			return nil, err
		}
		x, err := r.find(func(o engine.Output) ([]lake.DataFile, error) { return in.Files(o), nil })
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = stages.Settled{}
		}
		maps.Copy(all, set(x))
		return all, nil
	}}
}

// leftOut adds the links whose cases are run in no pass.
func (r *relevance) leftOut(o omission) omission {
	return r.omitting(o, func(x *stages.Relevance) stages.Settled { return x.LeftOut })
}

// silent are the hosts that are not replayed.
func (r *relevance) silent() omission {
	return r.omitting(omission{}, func(x *stages.Relevance) stages.Settled { return x.Silent })
}

// Relevance says which link cases an estimate of windows for one group has left out; nil if it is of all flows. Its
// stages are complete.
func (e *Estimation) Relevance() (*stages.Relevance, error) {
	m := e.method(e.variant)
	if m.only() == nil {
		return nil, nil
	}
	generate := m.generateStage()
	m.route = m.routeStage(generate)
	return m.relevanceOf(generate).find(func(o engine.Output) ([]lake.DataFile, error) {
		r, err := engine.Complete(e.Lake, o.Stage, methodVersion)
		if err != nil {
			return nil, fmt.Errorf("link cases of %s %s: %w", m.only().Column, m.only().Label, err)
		}
		return r.Files(o.Table), nil
	})
}
