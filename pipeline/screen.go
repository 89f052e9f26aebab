package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/stages"
)

// A screening answers what the failure of each of many cables does, without a scenario for each. A failure
// changes which flows cross some links and leaves the others alone. So the cases of those links are run as they
// are and as they would be, once each and without being told of others, and what a flow is delayed there more,
// or less, is added to its FCT in the base's estimate, whose own errors stand on both sides of the comparison.

// Of the cables of a screening so many, and such that so many flows move, are looked at together: what they
// change is held in memory, about 0.5 kB a moved flow.
const (
	screenedTogether = 16
	movedTogether    = 200_000
)

// screening names the estimate of cables that were only screened.
const screening = "screening"

// screen looks at the failures of those cables. before are the slowdowns of the base.
func (r *Run) screen(ctx context.Context, cables [][2]int32, before spreads) ([]SweptCable, error) {
	began := time.Now()
	hops, loads, err := r.routed()
	if err != nil {
		return nil, err
	}
	d, err := r.detours(ctx, cables)
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
			stats[i] = make([]stages.SimulateStats, len(cables))
			in := r.lake.read(schema.Hops, hops, stages.HopColumns(), &keyRange{"link_id", lo, hi})
			defer closeQuietly(in)
			found[i], err = sim.Differences(ctx, int32(lo), int32(hi), in, d, stats[i], nil)
			return err
		}, err
	})
	if err != nil {
		return nil, err
	}
	after, err := r.differing(d.Differences(slices.Concat(found...)), len(cables), before)
	if err != nil {
		return nil, err
	}
	swept := make([]SweptCable, len(cables))
	lost := d.Lost()
	for c, ends := range cables {
		swept[c] = SweptCable{A: ends[0], B: ends[1], Unreachable: lost[c], Screened: after[c].percentiles()}
		for i := range stats {
			swept[c].Cases.Add(stats[i][c])
		}
		swept[c].Seconds = time.Since(began).Seconds() / float64(len(cables))
	}
	return swept, nil
}

// detours routes the flows that the failures move.
func (r *Run) detours(ctx context.Context, cables [][2]int32) (*stages.Detours, error) {
	flows, err := r.flowParts()
	if err != nil {
		return nil, err
	}
	d, err := stages.NewDetours(r.net, &r.spec.Params, r.router, r.spec.Seed, cables)
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

// differing are the base's slowdowns with the differences of each cable, which are by flow row.
func (r *Run) differing(by []stages.Difference, cables int, before spreads) ([]spreads, error) {
	after := make([]spreads, cables)
	for c := range after {
		after[c] = before.clone()
	}
	err := r.eachSlowdown(func(row int64, service string, ideal, fct int64, slowdown float64) {
		for len(by) > 0 && by[0].Row < row { // it had no path
			by = by[1:]
		}
		for ; len(by) > 0 && by[0].Row == row; by = by[1:] {
			x := by[0]
			after[x.Cable].add(service, slowdown, -1)
			if x.Lost {
				continue
			}
			alone := ideal
			if x.IdealNS > 0 {
				alone = x.IdealNS
			}
			after[x.Cable].add(service, float64(alone+max(0, fct-ideal+x.NS))/float64(alone), 1)
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
	defer closeQuietly(in)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		column := func(name string) int { return rec.Schema().FieldIndices(name)[0] }
		rows, ideals, fcts := rec.Column(column("flow_row")).(*array.Int64).Int64Values(), rec.Column(column("ideal_ns")).(*array.Int64).Int64Values(), rec.Column(column("fct_ns")).(*array.Int64).Int64Values()
		service, slowdowns := rec.Column(column("service")).(*array.String), rec.Column(column("slowdown")).(*array.Float64).Float64Values()
		for i, row := range rows {
			do(row, service.Value(i), ideals[i], fcts[i], slowdowns[i])
		}
		rec.Release()
	}
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
		s[service] = of
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
			out[service] = servicePercentiles{of.flows, of.quantiles(answerQuantiles)}
		}
	}
	out[allFlows] = servicePercentiles{all.flows, all.quantiles(answerQuantiles)}
	return out
}

// whileScreening adds what was asked for to an error of a screening.
func whileScreening(cables [][2]int32, err error) error {
	if err == nil || len(cables) == 0 {
		return err
	}
	return fmt.Errorf("screening cables %d:%d to %d:%d: %w", cables[0][0], cables[0][1], cables[len(cables)-1][0], cables[len(cables)-1][1], err)
}

// together cuts the cables into those that are screened together.
func (r *Run) together(cables [][2]int32, loads *stages.Loads) [][][2]int32 {
	moved := map[[2]int32]int64{}
	for id, l := range r.net.Links {
		moved[[2]int32{min(l.Src, l.Dst), max(l.Src, l.Dst)}] += loads.Links[id].Flows
	}
	var batches [][][2]int32
	var flows int64
	for _, c := range cables {
		n := len(batches) - 1
		if n < 0 || len(batches[n]) == screenedTogether || flows+moved[c] > movedTogether {
			batches = append(batches, nil)
			n++
			flows = 0
		}
		batches[n] = append(batches[n], c)
		flows += moved[c]
	}
	return batches
}

// screenedPath is where a sweep keeps what it found of a cable.
func (s *sweeper) screenedPath(c [2]int32) string {
	return filepath.Join(s.dir, s.Variant, fmt.Sprintf("screened-%d-%d.json", c[0], c[1]))
}
