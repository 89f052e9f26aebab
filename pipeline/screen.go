package pipeline

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// A screening answers what the failure of each of many cables does, without a scenario for each. A failure
// changes which flows cross some links and leaves the others alone. So the cases of those links are run as they
// are and as they would be, once each and without being told of others, and what a flow is delayed there more,
// or less, is added to its FCT in the base's estimate, whose own errors stand on both sides of the comparison.
// It is a first order: the other links are taken to delay each flow as before, and cases that are not told of the
// others exaggerate. What an estimate by draws says of a flow is not its own delay: there is no screening of it.

// Of the cables of a sweep so many, and such that so many flows move, are looked at together: what they
// change is held in memory, about 0.5 kB a moved flow.
const (
	screenedTogether = 16
	movedTogether    = 200_000
)

// screening names the estimate of cables that were only screened.
const screening = "screening"

// screened is what one failure does.
type screened struct {
	unreachable int64
	spreads     spreads
	cases       stages.SimulateStats
	seconds     float64 // of the screening, a share
}

// screen looks at failures, each of those cables, by their ends. before are the slowdowns of the base.
func (r *Run) screen(ctx context.Context, failures [][][2]int32, before spreads) ([]screened, error) {
	began := time.Now()
	hops, loads, err := r.routed()
	if err != nil {
		return nil, err
	}
	d, err := r.detours(ctx, failures)
	if err != nil {
		return nil, err
	}
	changed := r.changedRanges(loads, d)
	stats := make([][]stages.SimulateStats, len(changed))
	found := make([][]stages.Difference, len(changed))
	err = r.inParallel(ctx, len(changed), func() (func(int) error, error) {
		sim, err := r.simulator(loads)
		return func(i int) error {
			lo, hi := changed[i].Lo, changed[i].Hi
			stats[i] = make([]stages.SimulateStats, len(failures))
			in := r.lake.read(schema.Hops, hops, stages.HopColumns(r.estimator), &keyRange{"link_id", lo, hi})
			defer closeQuietly(in)
			found[i], err = sim.Differences(ctx, int32(lo), int32(hi), in, d, stats[i], nil)
			return err
		}, err
	})
	if err != nil {
		return nil, err
	}
	after, err := r.differing(d.Differences(slices.Concat(found...)), len(failures), before)
	if err != nil {
		return nil, err
	}
	out := make([]screened, len(failures))
	for f, lost := range d.Lost() {
		out[f] = screened{unreachable: lost, spreads: after[f]}
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

// Screen says what a failure of cables does to a scenario of the lake, which is estimated if that is not done
// yet: the base's estimate, which must be by estimator Flow, plus what is added by the cases of the links
// whose flows change. Only cables can change.
func Screen(ctx context.Context, base string, c Changes, o Options) (*Screening, error) {
	if len(c.Bandwidth)+len(c.Scale)+len(c.Move) > 0 {
		return nil, errors.New("only a failure of cables can be screened")
	}
	if o.Estimator != stages.Flow {
		return nil, errors.New("only an estimate by flow can be screened: others draw a flow's delays, and do not know its own")
	}
	run, err := Resume(base, o)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	if err := run.Estimate(ctx); err != nil {
		return nil, err
	}
	failing := *run.net
	failing.Links = slices.Clone(run.net.Links)
	var canonical canonicalScenario
	s := &Screening{Base: run.ScenarioID(), Variant: run.Variant()}
	if s.said, err = c.apply(&failing, &canonical, run.spec.Seed); err != nil {
		return nil, err
	}
	s.Cables = canonical.Fail
	before, err := run.slowdownSpreads()
	if err != nil {
		return nil, err
	}
	found, err := run.screen(ctx, [][][2]int32{s.Cables}, before)
	if err != nil {
		return nil, err
	}
	x := found[0]
	s.Unreachable, s.cases, s.seconds = x.unreachable, x.cases, x.seconds
	s.Before, s.After = before.percentiles(), x.spreads.percentiles()
	return s, nil
}

// Write writes the screening as a table.
func (s *Screening) Write(w io.Writer) error {
	p := printer{w: w}
	p.linef("base %s, variant %s; %s: screened", s.Base, s.Variant, strings.Join(s.said, ", "))
	p.linef("%-16s %9s %8s %10s %10s %8s", "service", "flows", "quantile", "base", "screened", "change")
	services := slices.Sorted(maps.Keys(s.Before))
	services = append(slices.DeleteFunc(services, func(name string) bool { return name == AllFlows }), AllFlows)
	for _, name := range services {
		after, left := s.After[name]
		for q, was := range s.Before[name].Slowdowns {
			if left {
				p.linef("%-16s %9d %8g %10.3f %10.3f %+7.2f%%", name, after.Flows, answerQuantiles[q], was, after.Slowdowns[q], 100*(after.Slowdowns[q]/was-1))
			}
		}
	}
	if s.Unreachable > 0 {
		p.linef("%d flows have no path any more", s.Unreachable)
	}
	p.linef("%d link cases simulated (%s packet-hops) in %.1f s; links whose flows stay are taken to delay them as before", s.cases.Cases, Human(float64(s.cases.PacketHops)), s.seconds)
	return p.err
}

// detours routes the flows that the failures move.
func (r *Run) detours(ctx context.Context, failures [][][2]int32) (*stages.Detours, error) {
	flows, err := r.flowParts()
	if err != nil {
		return nil, err
	}
	d, err := stages.NewDetours(r.net, &r.spec.Params, r.router, r.spec.Seed, failures)
	if err != nil {
		return nil, err
	}
	tasks := chunkTasks(flows)
	chunks := make([]*stages.DetourChunk, len(tasks))
	err = r.inParallel(ctx, len(tasks), func() (func(int) error, error) {
		return func(i int) (err error) {
			in := r.lake.read(schema.Flows, flows[i:i+1], []string{"flow_id", "src", "dst", "size_bytes", "start_ns"}, nil)
			defer closeQuietly(in)
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
func (r *Run) changedRanges(loads *stages.Loads, d *stages.Detours) []task {
	var ranges []task
	var total int64
	for id := range r.net.Links {
		if d.Changed(int32(id)) {
			total += loads.Links[id].Flows
		}
	}
	most := max(1, min(partitionRows, total/int64(2*r.workers)))
	for id := range r.net.Links {
		if !d.Changed(int32(id)) {
			continue
		}
		n := len(ranges) - 1
		if n < 0 || ranges[n].Hi != int64(id) || ranges[n].Cost+loads.Links[id].Flows > most {
			ranges = append(ranges, task{Lo: int64(id)})
			n++
		}
		ranges[n].Hi = int64(id) + 1
		ranges[n].Cost += loads.Links[id].Flows
	}
	return ranges
}

// differing are the base's slowdowns with the differences of each failure, which are by flow row.
func (r *Run) differing(by []stages.Difference, failures int, before spreads) ([]spreads, error) {
	after := make([]spreads, failures)
	for f := range after {
		after[f] = before.clone()
	}
	err := r.eachSlowdown(func(row int64, service string, ideal, fct int64, slowdown float64) {
		for len(by) > 0 && by[0].Row < row { // it had no path
			by = by[1:]
		}
		for ; len(by) > 0 && by[0].Row == row; by = by[1:] {
			x := by[0]
			after[x.Failure].add(service, slowdown, -1)
			if x.Lost {
				continue
			}
			alone := ideal
			if x.IdealNS > 0 {
				alone = x.IdealNS
			}
			after[x.Failure].add(service, float64(alone+max(0, fct-ideal+x.NS))/float64(alone), 1)
		}
	})
	return after, err
}

// eachSlowdown goes through the run's estimate, by flow row.
func (r *Run) eachSlowdown(do func(row int64, service string, idealNS, fctNS int64, slowdown float64)) error {
	_, sampled, err := r.inputs(r.sampleStage())
	if err != nil {
		return err
	}
	in := r.lake.read(schema.Slowdowns, partsOf(sampled, schema.Slowdowns), []string{"flow_row", "service", "ideal_ns", "fct_ns", "slowdown"}, nil)
	return columns.Consume(in, func(rec arrow.Record) error {
		rows, ideals, fcts := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "ideal_ns"), columns.Int64s(rec, "fct_ns")
		service, slowdowns := columns.Text(rec, "service"), columns.Float64s(rec, "slowdown")
		for i, row := range rows {
			do(row, service.Value(i), ideals[i], fcts[i], slowdowns[i])
		}
		return nil
	})
}

// spreads are the slowdowns of each service.
type spreads map[string]*spread

// slowdownSpreads are those of the run's estimate.
func (r *Run) slowdownSpreads() (spreads, error) {
	s := spreads{}
	return s, r.eachSlowdown(func(_ int64, service string, _, _ int64, slowdown float64) { s.add(service, slowdown, 1) })
}

func (s spreads) add(service string, slowdown float64, flows int64) {
	of := s[service]
	if of == nil {
		of = new(spread)
		s[strings.Clone(service)] = of // a record's memory is used again
	}
	of.add(slowdown, flows)
}

func (s spreads) clone() spreads {
	c := spreads{}
	for service, of := range s {
		c[service] = &spread{slices.Clone(of.counts), of.flows}
	}
	return c
}

// percentiles are those of each service that has flows, and of all flows.
func (s spreads) percentiles() percentilesOf {
	out := percentilesOf{}
	var all spread
	for service, of := range s {
		all.merge(of)
		if of.flows > 0 {
			out[service] = ServicePercentiles{of.flows, of.quantiles(answerQuantiles)}
		}
	}
	out[AllFlows] = ServicePercentiles{all.flows, all.quantiles(answerQuantiles)}
	return out
}
