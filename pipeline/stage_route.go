package pipeline

import (
	"context"
	"fmt"

	"github.com/zeebo/xxh3"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
)

// routeStage chooses each flow's path and explodes flows to hops, a chunk of flows a task.
func (m *method) routeStage(generate *engine.Stage) *engine.Stage {
	flows := generate.Output(schema.Flows)
	s := &engine.Stage{
		Name: "route", Place: m.base(), Unit: "flows", Command: m.baseCommand("route"),
		Reads:       []engine.Output{flows},
		Writes:      []schema.Table{schema.Hops, schema.LinkLoads},
		BytesPerRow: 250,
		Cut:         byChunk(flows),
		Check: func(r engine.Records) error {
			routed, err := RouteStats(r)
			if err == nil && routed.Unreachable > 0 && !m.Spec.AllowUnreachable {
				err = fmt.Errorf("%d flows have no path, among them one %w (--allow-unreachable counts them instead)", routed.Unreachable, routed.UnreachableExamples[0])
			}
			return err
		},
	}
	s.Keys = func(in *engine.Inputs, tasks []engine.Task) ([]string, error) {
		return m.routeKeys(in.Files(flows), tasks), nil
	}
	s.Share = func(session *lake.Session, base *engine.Stage, baseTask, task int) error {
		var digests []byte
		if found, err := m.Lake.ReadState(base.StatePath(digestsName(baseTask)), &digests); err != nil || !found {
			return err
		}
		return session.WriteState(s.StatePath(digestsName(task)), digests)
	}
	route := func(ctx context.Context, t *engine.Attempt) error {
		in := t.ReadChunk(flows, stages.RouteColumns())
		hops := newHopDigests(t.Sink(schema.Hops), len(m.Network.Links))
		stats, err := stages.Route(ctx, m.Router, &m.Spec.Params, in, int32(t.N), t.Lo, hops, t.Sink(schema.LinkLoads),
			stages.RouteOptions{AllowUnreachable: m.Spec.AllowUnreachable})
		if err != nil {
			return err
		}
		t.SetStats(stats)
		t.Add(t.Cost)
		return t.Session().WriteState(s.StatePath(digestsName(t.N)), hops.bytes())
	}
	s.Open = func(context.Context, *engine.Inputs) (engine.NewWorker, error) {
		return func() (engine.Worker, error) { return route, nil }, nil
	}
	return s
}

// routeKeys digest all that the paths and hops of each chunk of flows depend on: its file, the network, the seed that
// salts the nodes, and the sizes of packets.
func (m *method) routeKeys(files []lake.DataFile, tasks []engine.Task) []string {
	network := xxh3.New()
	k := caseKey{h: network}
	p := m.Spec.Params
	k.add(methodVersion, int64(m.Spec.Seed), p.PayloadBytes, p.HeaderBytes, p.AckBytes, int64(len(m.Network.Nodes)))
	for _, l := range m.Network.Links {
		_, _ = network.WriteString(l.Tier) // a hash takes everything
		up := int64(1)
		if l.Failed {
			up = 0
		}
		k.add(int64(l.Src), int64(l.Dst), l.BandwidthBps, l.DelayNS, up)
	}
	keys := make([]string, len(tasks))
	for n, f := range files {
		h := *network
		k := caseKey{h: &h}
		k.add(int64(n), f.Rows, f.Bytes)
		_, _ = h.WriteString(f.Digest)
		keys[n] = keyOf(&h)
	}
	return keys
}

// RouteStats adds up the statistics of stage route.
func RouteStats(r engine.Records) (all stages.RouteStats, err error) {
	tasks, err := engine.Stats[stages.RouteStats](r)
	for _, s := range tasks {
		all.Add(s)
	}
	return all, err
}
