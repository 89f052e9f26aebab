package main

import (
	"context"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/datasets"
	"parsimon/pipeline/scenario"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// A linkTally is a sink for flows that sums the bytes on each link.
type linkTally struct {
	router          *topology.Router
	params          simkernel.Params
	payload, wire   []float64 // bytes by link, without headers and with them
	firstNS, lastNS int64     // starts
	flows           int64
	rows            []workload.Row
	path            []int32
}

// Write implements schema.Sink.
func (t *linkTally) Write(rec arrow.Record) error {
	t.rows = columns.Append(t.rows[:0], rec)
	for i := range t.rows {
		f := &t.rows[i]
		if t.flows == 0 {
			t.firstNS = f.StartNS
		}
		t.lastNS = f.StartNS
		t.flows++
		path, err := t.router.Path(f.Connection, f.Src, f.Dst, t.path[:0])
		if err != nil {
			return err
		}
		t.path = path
		for _, link := range path {
			t.payload[link] += float64(f.SizeBytes)
			t.wire[link] += float64(f.SizeBytes + t.params.Packets(f.SizeBytes)*t.params.HeaderBytes)
		}
	}
	return nil
}

// A busiestLoad is the load of the busiest link of a scenario: the requested load, the load of the drawn
// flows without headers (column load, and the paper's definition), and their load with headers.
type busiestLoad struct {
	flows                int64
	asked, payload, wire float64
}

// drawLoads draws the flows of a scenario on its network without failures, to which the requested load
// applies. The requested load is 0 if the flows of the scenario are not drawn.
func drawLoads(ctx context.Context, s *scenario.Scenario) (l busiestLoad, err error) {
	l.asked = s.MaxLoad()
	if l.asked == 0 {
		return l, nil
	}
	n, err := s.IntactNetwork()
	if err != nil {
		return l, err
	}
	w, err := s.Workload(n)
	if err != nil {
		return l, err
	}
	router, err := topology.NewRouter(ctx, n, s.Seed)
	if err != nil {
		return l, err
	}
	links := len(n.Links)
	t := &linkTally{
		router: router, params: s.Params(), payload: make([]float64, links), wire: make([]float64, links),
	}
	if _, err := workload.Generate(ctx, router, w, s.Seed, t); err != nil {
		return l, err
	}
	l.flows = t.flows
	seconds := float64(t.lastNS-t.firstNS) / 1e9
	for id, link := range n.Links {
		bytes := seconds * float64(link.BandwidthBps) / 8
		l.payload = max(l.payload, t.payload[id]/bytes)
		l.wire = max(l.wire, t.wire[id]/bytes)
	}
	return l, nil
}

// shippedLoads lists the shipped scenarios with their requested loads and the loads of their flows.
func shippedLoads(ctx context.Context, b *bench) {
	b.printf("The load of the busiest link over the time from the first start to the last. Column load, key " +
		"max_load " +
		"and the paper count bytes without headers; headers of 48 B make it 5%% more with packets of 1,000 B. A " +
		"test requires that the load without headers is within 10%% of the one asked.")
	b.header("scenario", "flows", "asked", "without headers", "with headers")
	for _, name := range b.names([]string{"small"}, datasets.Names(datasets.Scenarios)) {
		s, err := scenario.Load(name)
		b.fail(err)
		if b.err != nil {
			return
		}
		l, err := drawLoads(ctx, s)
		b.fail(err)
		if l.asked > 0 {
			b.row(name, l.flows, share(l.asked), share(l.payload), share(l.wire))
		}
	}
}
