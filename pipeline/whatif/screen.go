package whatif

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/histogram"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/text"
	"parsimon/pipeline/units"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// A screening estimates the effect of the failure of each of many cables without a scenario for each. A failure
// changes which flows cross some links and none of the others. The cases of those links are simulated before and
// after the change, once each and without feedback. The difference in a flow's delay is added to its FCT in the
// base's estimate, whose own errors are on both sides of the comparison. This is the first order of the effect: all
// other links delay each flow as before, and cases without feedback exaggerate. Estimator independent cannot be
// screened: its delays are draws, not those of the flow.

// Of the cables of a sweep so many, and such that so many flows move, are looked at together: what they
// change is held in memory, about 0.5 kB a moved flow.
const (
	screenedTogether = 16
	movedTogether    = 200_000
	screenedRows     = 500_000 // of hops, of a range of links
)

// screening names the estimate of cables that were only screened.
const screening = "screening"

// screened is what one failure does.
type screened struct {
	unreachable int64
	slowdowns   histograms
	cases       stages.SimulateStats
	seconds     float64 // of the screening, a share
}

// screen looks at failures, each of those cables, by their ends. before are the slowdowns of the base.
func screen(ctx context.Context, e *pipeline.Estimation, failures [][][2]int32, before histograms) ([]screened, error) {
	began := time.Now()
	loads, err := pipeline.Loads(e)
	if err != nil {
		return nil, err
	}
	hops, err := e.Files(schema.Hops)
	if err != nil {
		return nil, err
	}
	d, err := detours(ctx, e, failures)
	if err != nil {
		return nil, err
	}
	changed := changedRanges(e, loads, d)
	stats := make([][]stages.SimulateStats, len(changed))
	found := make([][]stages.Difference, len(changed))
	err = engine.Parallel(ctx, e.Workers, len(changed), func() (func(context.Context, int) error, error) {
		sim, err := pipeline.NewSimulator(e, loads)
		return func(ctx context.Context, i int) error {
			lo, hi := changed[i].Lo, changed[i].Hi
			stats[i] = make([]stages.SimulateStats, len(failures))
			in := e.Lake.Read(schema.Hops, hops, stages.HopColumns(e.Variant().Estimator),
				&lake.Range{Column: "link_id", Lo: lo, Hi: hi})
			defer func() { _ = in.Close() }() // read to its end, or an error is reported
			var err error
			found[i], err = sim.Differences(ctx, int32(lo), int32(hi), in, d, stats[i], nil)
			return err
		}, err
	})
	if err != nil {
		return nil, err
	}
	after, err := differing(e, d.Differences(slices.Concat(found...)), len(failures), before)
	if err != nil {
		return nil, err
	}
	out := make([]screened, len(failures))
	for f, lost := range d.Lost() {
		out[f] = screened{unreachable: lost, slowdowns: after[f]}
		for i := range stats {
			out[f].cases.Add(stats[i][f])
		}
		out[f].seconds = time.Since(began).Seconds() / float64(len(failures))
	}
	return out, nil
}

// A Screening is what a failure does, to the first order, and without a scenario of its own.
type Screening struct {
	Base, Variant string
	Cables        [][2]int32
	Unreachable   int64
	Before, After map[string]ServicePercentiles // by service, and AllFlows; to within 0.01%
	said          []string
	cases         stages.SimulateStats
	seconds       float64
}

// Screen says what a failure of cables does to a scenario of the lake, which is estimated if that is not done yet: the
// base's estimate, which must be by estimator flow, plus what the cases of the links whose flows change add. Only
// cables can change.
func Screen(ctx context.Context, base string, c scenario.Changes, o Settings) (*Screening, error) {
	if len(c.Add)+len(c.Bandwidth)+len(c.Delay) > 0 || c.ChangesFlows() {
		return nil, errors.New("only a failure of cables can be screened")
	}
	if o.Variant.Estimator != stages.Flow {
		return nil, errors.New("only an estimate by flow can be screened: others draw a flow's delays and do not know its own")
	}
	o.Variant.Auto = false
	e, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return nil, err
	}
	failing := *e.Network
	failing.Links = slices.Clone(e.Network.Links)
	s := &Screening{Base: string(e.ID()), Variant: e.Variant().String()}
	applied, err := c.Apply(&failing, nil, e.Spec.Canonical, e.Spec.Seed)
	if err != nil {
		return nil, err
	}
	s.said = applied.Said
	for _, cable := range applied.Failed { // without those that are down in the base
		if up(e, cable) {
			s.Cables = append(s.Cables, cable)
		}
	}
	before, err := slowdownsByService(e)
	if err != nil {
		return nil, err
	}
	found, err := screen(ctx, e, [][][2]int32{s.Cables}, before)
	if err != nil {
		return nil, err
	}
	x := found[0]
	s.Unreachable, s.cases, s.seconds = x.unreachable, x.cases, x.seconds
	s.Before, s.After = before.percentiles(), x.slowdowns.percentiles()
	return s, nil
}

// up reports whether a cable, by its ends, is up.
func up(e *pipeline.Estimation, cable [2]int32) bool {
	return slices.ContainsFunc(e.Network.Links, func(l topology.Link) bool {
		return !l.Failed && min(l.Src, l.Dst) == min(cable[0], cable[1]) && max(l.Src, l.Dst) == max(cable[0], cable[1])
	})
}

// Write writes the screening as a table.
func (s *Screening) Write(w io.Writer) error {
	p := text.Printer{W: w}
	p.Linef("base %s, variant %s; %s: screened", s.Base, s.Variant, strings.Join(s.said, ", "))
	p.Linef("%-16s %9s %8s %10s %10s %8s", "service", "flows", "quantile", "base", "screened", "change")
	services := slices.Sorted(maps.Keys(s.Before))
	services = append(slices.DeleteFunc(services, func(name string) bool { return name == AllFlows }), AllFlows)
	for _, name := range services {
		after, left := s.After[name]
		for q, was := range s.Before[name].Slowdowns {
			if left {
				p.Linef("%-16s %9d %8g %10.3f %10.3f %+7.2f%%", name, after.Flows, pipeline.Quantiles[q], was, after.Slowdowns[q], 100*(after.Slowdowns[q]/was-1))
			}
		}
	}
	if s.Unreachable > 0 {
		p.Linef("%d flows have no path any more", s.Unreachable)
	}
	p.Linef("%d link cases simulated (%s packet-hops) in %.1f s; links whose flows stay are taken to delay them as before", s.cases.Cases, units.Human(float64(s.cases.PacketHops)), s.seconds)
	return p.Err
}

// detours routes the flows that the failures move.
func detours(ctx context.Context, e *pipeline.Estimation, failures [][][2]int32) (*stages.Detours, error) {
	tasks, files, err := pipeline.FlowChunks(e)
	if err != nil {
		return nil, err
	}
	d, err := stages.NewDetours(e.Network, &e.Spec.Params, e.Router, e.Spec.Seed, failures)
	if err != nil {
		return nil, err
	}
	chunks := make([]*stages.DetourChunk, len(tasks))
	err = engine.Parallel(ctx, e.Workers, len(tasks), func() (func(context.Context, int) error, error) {
		return func(ctx context.Context, i int) (err error) {
			in := e.Lake.Read(schema.Flows, files[i:i+1], []string{"flow_id", "src", "dst", "size_bytes", "start_ns"}, nil)
			defer func() { _ = in.Close() }() // read to its end, or an error is reported
			chunks[i], err = d.Route(ctx, tasks[i].Lo, in)
			return err
		}, nil
	})
	if err != nil {
		return nil, err
	}
	d.Gather(chunks)
	return d, nil
}

// changedRanges cuts the links that some failure changes into ranges for the workers, neighbours together as
// long as they are not too much for one.
func changedRanges(e *pipeline.Estimation, loads *stages.Loads, d *stages.Detours) []engine.Task {
	var ranges []engine.Task
	var total int64
	for id := range e.Network.Links {
		if d.Changed(int32(id)) {
			total += loads.Links[id].Flows
		}
	}
	most := max(1, min(screenedRows, total/int64(2*e.Workers)))
	for id := range e.Network.Links {
		if !d.Changed(int32(id)) {
			continue
		}
		n := len(ranges) - 1
		if n < 0 || ranges[n].Hi != int64(id) || ranges[n].Cost+loads.Links[id].Flows > most {
			ranges = append(ranges, engine.Task{Lo: int64(id)})
			n++
		}
		ranges[n].Hi = int64(id) + 1
		ranges[n].Cost += loads.Links[id].Flows
	}
	return ranges
}

// differing are the base's slowdowns with the differences of each failure, which are by flow row.
func differing(e *pipeline.Estimation, by []stages.Difference, failures int, before histograms) ([]histograms, error) {
	after := make([]histograms, failures)
	for f := range after {
		after[f] = before.clone()
	}
	err := pipeline.EachSlowdown(e, func(flow pipeline.SampledFlow) {
		for len(by) > 0 && by[0].Row < flow.Row { // it had no path
			by = by[1:]
		}
		for ; len(by) > 0 && by[0].Row == flow.Row; by = by[1:] {
			x := by[0]
			after[x.Failure].add(flow.Service, flow.Slowdown, -1)
			if x.Lost {
				continue
			}
			alone := flow.IdealNS
			if x.IdealNS > 0 {
				alone = x.IdealNS
			}
			after[x.Failure].add(flow.Service, float64(alone+max(0, flow.FCTNS-flow.IdealNS+x.NS))/float64(alone), 1)
		}
	})
	return after, err
}

// histograms are the slowdowns of each service.
type histograms map[string]*histogram.Histogram

// slowdownsByService are those of an estimate.
func slowdownsByService(e *pipeline.Estimation) (histograms, error) {
	h := histograms{}
	return h, pipeline.EachSlowdown(e, func(f pipeline.SampledFlow) { h.add(f.Service, f.Slowdown, 1) })
}

func (h histograms) add(service string, slowdown float64, flows int64) {
	of := h[service]
	if of == nil {
		of = new(histogram.Histogram)
		h[strings.Clone(service)] = of // a batch's memory is used again
	}
	of.Add(slowdown, flows)
}

func (h histograms) clone() histograms {
	c := histograms{}
	for service, of := range h {
		c[service] = of.Clone()
	}
	return c
}

// percentiles are those of each service that has flows, and of all flows.
func (h histograms) percentiles() percentilesOf {
	out := percentilesOf{}
	var all histogram.Histogram
	for service, of := range h {
		all.Merge(of)
		if of.Flows() > 0 {
			out[service] = ServicePercentiles{of.Flows(), of.Quantiles(pipeline.Quantiles)}
		}
	}
	out[AllFlows] = ServicePercentiles{all.Flows(), all.Quantiles(pipeline.Quantiles)}
	return out
}
