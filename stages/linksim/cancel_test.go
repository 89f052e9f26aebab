package linksim

import (
	"context"
	"errors"
	"testing"

	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// A simulator checks its context before each link case. Otherwise, Ctrl-C waits for all cases of a range,
// which are those of up to two million flows.
func TestCancelBetweenLinkCases(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	flow := workload.Row{ID: 1, Dst: 3, SizeBytes: 5000}
	hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(flow))
	ctx, cancel := context.WithCancel(t.Context())
	s, err := New(Options{Model: m, Loads: loads, Progress: func(int64) { cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	all := step.Range{Hi: int64(len(n.Links))}
	var out, stats tables.Memory
	done, err := s.Simulate(ctx, all, Input{Hops: hops.Read()}, &out, &stats)
	if !errors.Is(err, context.Canceled) || done.Cases != 1 {
		t.Errorf("%d link cases and error %v, want 1 and %v", done.Cases, err, context.Canceled)
	}
}
