package pipeline

import (
	"context"
	"fmt"
	"math"
	"strings"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

func (r *Run) intervalsStage() stage {
	return stage{"intervals", r.variant(), []schema.Table{schema.Intervals, schema.Warnings}}
}

// Confidence says how far the run's estimate can be trusted: it writes the intervals of the percentiles
// of slowdown (table confidence) and where the method is known to be weak (table warnings). It reads the
// estimate twice, a chunk of flows at a time, and brings the catalog of views up to date. What a sweep
// deletes again goes without.
func (r *Run) Intervals(ctx context.Context) error {
	if r.passing {
		return nil
	}
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	_, sampled, err := r.inputs(r.sampleStage())
	if err != nil {
		return err
	}
	slowdowns := partsOf(sampled, schema.Slowdowns)
	chunks := chunkTasks(flows)
	all := task{}
	for _, c := range chunks {
		all.Hi, all.Cost = c.Hi, all.Cost+2*c.Cost
	}
	s := r.intervalsStage()
	err = r.perform(ctx, s, []task{all}, "flows", func() (work, error) {
		return func(ctx context.Context, n int, _ task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				intervals, err := r.intervals(ctx, chunks, slowdowns)
				if err != nil {
					return 0, nil, err
				}
				found, err := r.weaknesses(ctx, chunks, slowdowns, slowest(intervals))
				if err != nil {
					return 0, nil, err
				}
				rec := stages.IntervalsRecord(intervals)
				defer rec.Release()
				if err := out[0].Write(rec); err != nil {
					return 0, nil, err
				}
				warnings := stages.WeaknessRecord(found)
				defer warnings.Release()
				return 0, nil, out[1].Write(warnings)
			})
		}, nil
	})
	if err != nil {
		return err
	}
	return queries.WriteCatalog(r.lake.root)
}

// intervals reads the slowdowns of all flows.
func (r *Run) intervals(ctx context.Context, chunks []task, slowdowns []part) ([]stages.Interval, error) {
	g, err := r.generated()
	if err != nil {
		return nil, err
	}
	x := stages.NewIntervals(g.FirstStartNS, g.LastStartNS)
	for n, c := range chunks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := r.lake.read(schema.Slowdowns, slowdowns[n:n+1], stages.IntervalColumns(), nil)
		err := x.Read(in)
		closeQuietly(in)
		if err != nil {
			return nil, err
		}
		r.progress.add(c.Cost)
	}
	return x.Rows(), nil
}

// slowest is the slowdown from which on a flow is one of the slowest 1%.
func slowest(intervals []stages.Interval) float64 {
	for _, i := range intervals {
		if i.By == stages.ByNothing && i.SizeBin == sizebin.All && i.Quantile == 0.99 {
			return i.Estimate
		}
	}
	return 0
}

// weaknesses reads the slowdowns and hops of all flows.
func (r *Run) weaknesses(ctx context.Context, chunks []task, slowdowns []part, slowest float64) ([]stages.Weakness, error) {
	contributed := r.sampleStage()
	if r.estimator == stages.Independent {
		contributed = r.contributionsStage()
	}
	_, hops, err := r.inputs(contributed)
	if err != nil {
		return nil, err
	}
	contributions := partsOf(hops, schema.HopContributions)
	stats, err := r.linkStats(r.passes)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(stats)
	finder, err := stages.NewWeaknessFinder(r.net, r.estimator, slowest, stats)
	if err != nil {
		return nil, err
	}
	for n, c := range chunks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := r.lake.read(schema.Slowdowns, slowdowns[n:n+1], stages.TailColumns(), nil)
		observed := r.lake.read(schema.HopContributions, contributions, stages.TailHopColumns(), &keyRange{"flow_row", c.Lo, c.Hi})
		err := finder.Watch(c.Lo, c.Hi-c.Lo, in, observed)
		closeQuietly(in)
		closeQuietly(observed)
		if err != nil {
			return nil, err
		}
		r.progress.add(c.Cost)
	}
	moved := -1.0
	if r.estimator == stages.Flow && r.passes > 1 {
		if moved, err = r.moved(); err != nil {
			return nil, err
		}
	}
	return finder.Weaknesses(moved), nil
}

// linkStats is table link_stats of a pass, or of estimator Independent.
func (r *Run) linkStats(pass int) (schema.Batches, error) {
	s := r.simulateStage()
	if r.estimator == stages.Flow {
		s = r.passStage(pass)
	}
	_, simulated, err := r.inputs(s)
	if err != nil {
		return nil, err
	}
	return r.lake.read(schema.LinkStats, partsOf(simulated, schema.LinkStats), nil, nil), nil
}

// moved is how far the run's last pass moved the waits.
func (r *Run) moved() (float64, error) {
	before, err := r.linkStats(r.passes - 1)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(before)
	after, err := r.linkStats(r.passes)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(after)
	return stages.Moved(r.net, before, after)
}

// summarizeConfidence writes the interval of p99 of all flows, and every warning.
func (r *Run) summarizeIntervals(p *printer) error {
	_, done, err := r.intervalsStage().complete(r.lake)
	if err != nil {
		return err
	}
	short := map[string][]string{} // by size bin
	err = columns.EachBatch(r.lake.read(schema.Intervals, partsOf(done, schema.Intervals), nil, nil), func(b columns.Batch) {
		service, vnet, bin, warning := b.Strings("service"), b.Strings("vnet"), b.Strings("size_bin"), b.Strings("warning")
		quantile, lo, hi := b.Float64s("quantile"), b.Float64s("lo"), b.Float64s("hi")
		var line []string
		for i, q := range quantile {
			if !service.IsNull(i) || !vnet.IsNull(i) {
				continue
			}
			if bin.Value(i) == sizebin.All {
				line = append(line, fmt.Sprintf("p%g %.3f to %.3f", math.Round(1000*q)/10, lo[i], hi[i]))
			}
			if warning.Value(i) != "" {
				name := strings.Clone(bin.Value(i)) // a record's memory is used again
				short[name] = append(short[name], strings.Clone(warning.Value(i)))
			}
		}
		if line != nil {
			p.linef("95%% intervals of all flows: %s (what other flows of the same kind might give; not the method's own error)", strings.Join(line, ", "))
		}
	})
	if err != nil {
		return err
	}
	for _, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		if reasons := short[bin.Name]; reasons != nil {
			p.linef("warning: the trace is short, %s: %s", bin.Name, strings.Join(reasons, "; "))
		}
	}
	return columns.EachBatch(r.lake.read(schema.Warnings, partsOf(done, schema.Warnings), nil, nil), func(b columns.Batch) {
		kind, warning := b.Strings("kind"), b.Strings("warning")
		for i := range kind.Len() {
			p.linef("warning: %s: %s", kind.Value(i), warning.Value(i))
		}
	})
}
