package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"parsimon/schema"
	"parsimon/stages"
)

func (r *Run) routeStage() stage {
	return stage{"route", r.base(), []schema.Table{schema.Hops, schema.LinkLoads}}
}

// Route explodes the flows into hops, a chunk of flows a task.
func (r *Run) Route(ctx context.Context) error {
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	s := r.routeStage()
	err = r.perform(ctx, s, chunkTasks(flows), "flows", func() (work, error) {
		return func(ctx context.Context, n int, t task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := r.lake.read(schema.Flows, flows[n:n+1], stages.RouteColumns(), nil)
				defer closeQuietly(in)
				hops := &hopDigests{to: out[0], links: make([]uint64, len(r.net.Links))}
				stats, err := stages.Route(ctx, r.router, &r.spec.Params, in, int32(n), t.Lo, hops, out[1],
					stages.RouteOptions{AllowUnreachable: r.spec.AllowUnreachable})
				if err == nil {
					err = hops.save(r, n)
				}
				r.progress.add(t.Cost)
				return 0, stats, err
			})
		}, nil
	})
	if err != nil {
		return err
	}
	if !r.whole(s) {
		return nil
	}
	// What a former run allowed need not be allowed now.
	routed, err := r.routeStats()
	if err == nil && routed.Unreachable > 0 && !r.spec.AllowUnreachable {
		err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)", routed.Unreachable, routed.UnreachableExamples[0])
	}
	return err
}

// routeStats adds up what routing did.
func (r *Run) routeStats() (all stages.RouteStats, err error) {
	_, routed, err := r.routeStage().complete(r.lake)
	if err != nil {
		return all, err
	}
	for _, rec := range routed {
		var s stages.RouteStats
		if err := json.Unmarshal(rec.Stats, &s); err != nil {
			return all, err
		}
		all.Add(s)
	}
	return all, nil
}

// routed is what the link cases are made of: the hops and the links' loads.
func (r *Run) routed() (hops []part, loads *stages.Loads, err error) {
	_, routed, err := r.inputs(r.routeStage())
	if err != nil {
		return nil, nil, err
	}
	loads, err = stages.ReadLoads(r.net, r.lake.read(schema.LinkLoads, partsOf(routed, schema.LinkLoads), nil, nil))
	if err == nil {
		r.linkFlows = flowsByLink(loads)
	}
	return partsOf(routed, schema.Hops), loads, err
}

// flowParts are the committed files of table flows.
func (r *Run) flowParts() ([]part, error) {
	_, generated, err := r.inputs(r.generateStage())
	if err != nil {
		return nil, err
	}
	return partsOf(generated, schema.Flows), nil
}
