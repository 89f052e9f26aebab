package linksim

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// A link may have one flow. The flow sends at the bandwidth of its host if the host is slower than the link.
func TestContentionOfOneFlow(t *testing.T) {
	p := simkernel.DefaultParams()
	x := contention{params: &p}
	x.reset(1e10)
	x.add(1000, 0, 1e9)
	f := x.done()[0]
	if !near(f.endNS, 8384) || f.ahead != 0 || !near(f.share, 0.1) {
		t.Errorf("%+v", f)
	}
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(threeFlows()[0]))
	features := make([]LinkFeatures, 8)
	in := FeatureInput{m, loads, hops.Read()}
	if err := Features(t.Context(), in, step.Range{Hi: 8}, features); err != nil {
		t.Fatal(err)
	}
	for id, class := range map[int]int64{0: 2e10 + 1, 7: 2e10, 1: 0} {
		if features[id].Class != class || (features[id].Values == nil) != (class == 0) {
			t.Errorf("link %d: %+v", id, features[id])
		}
	}
}

// The shortest encoding of a block has one byte, also at the end of a value.
func TestShortestBlock(t *testing.T) {
	b := AppendBlocks(nil, []simkernel.Block{{WaitNS: 9}})
	got, err := ReadBlocks(nil, b)
	if len(b) != 1 || err != nil || !slices.Equal(got, []simkernel.Block{{WaitNS: 9}}) {
		t.Errorf("%v is decoded as %v, %v", b, got, err)
	}
}

// Feedback of links that are not simulated is skipped: links before and after the range, and links that are
// not uplinks of hosts.
func TestFeedbackOfOtherLinks(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	flows := []workload.Row{{ID: 1, Src: 0, Dst: 3, SizeBytes: 1000}, {ID: 2, Src: 1, Dst: 3, SizeBytes: 1000}}
	hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(flows...))
	sim, err := New(Options{Model: m, Loads: loads, Detail: Observations})
	if err != nil {
		t.Fatal(err)
	}
	var feedback, out tables.Memory
	var given columns.Arena
	var rows []tables.Observation
	for _, link := range []int32{0, 2, 3, 7} {
		given.Add(AppendBlocks(nil, []simkernel.Block{{WaitNS: 100 + link}}))
		rows = append(rows, tables.Observation{
			FlowRow: int64(min(1, link)), LinkID: link, Observed: columns.Item(len(rows)),
		})
	}
	table := columns.TableOf[tables.Observation](schema.Feedback)
	if err := table.WriteOrdered(&feedback, rows, []int32{0, 1, 2, 3}, &given); err != nil {
		t.Fatal(err)
	}
	in := Input{Hops: hops.Read(), Feedback: feedback.Read()}
	done, err := sim.Replay(t.Context(), step.Range{Lo: 1, Hi: 7}, in, &out)
	late := []int64{}
	err = errors.Join(err, columns.Each(out.Read(), func(r *tables.SenderFCT) error {
		late = append(late, r.FlowRow, r.FCTNS-r.IdealNS)
		return nil
	}))
	if err != nil || done.Cases != 1 || !slices.Equal(late, []int64{1, 102}) {
		t.Errorf("%+v, delays %v, %v", done, late, err)
	}
}

// unreadable is a table that must not be read.
type unreadable struct{}

func (unreadable) Next(...string) (arrow.Record, error) { return nil, errors.New("hops were read") }

func (unreadable) Close() error { return nil }

// Hops are the largest table. A range without link cases does not read them.
func TestRangeWithoutCasesReadsNothing(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	_, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(threeFlows()...))
	sim, err := New(Options{Model: m, Loads: loads, Omitted: Omitted{7: {}}})
	if err != nil {
		t.Fatal(err)
	}
	var out, stats tables.Memory
	in := Input{Hops: unreadable{}}
	_, err = sim.Simulate(t.Context(), step.Range{Lo: 7, Hi: 8}, in, &out, &stats)
	if err != nil || stats.Records[0].NumRows() != 1 {
		t.Error(err)
	}
	if _, err := sim.Simulate(t.Context(), step.Range{Lo: 0, Hi: 1}, in, &out, &stats); err == nil {
		t.Error("the case of a link ran without its hops")
	}
}

// If table hops or link_loads is damaged, a link case could lack flows, or have others, without a sign.
func TestRunRefusesOtherFlowsThanLinkLoadsHas(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	for _, more := range []int64{-1, 1} {
		hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(threeFlows()...))
		rows := loads.Links[0].Flows
		loads.Links[0].Flows += more
		sim, err := New(Options{Model: m, Loads: loads})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("hops: link 0 (%s) has %d rows, and table link_loads has %d flows", n.LinkName(0), rows,
			rows+more)
		var out, stats tables.Memory
		_, err = sim.Simulate(t.Context(), step.Range{Lo: 0, Hi: 8}, Input{Hops: hops.Read()}, &out, &stats)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
