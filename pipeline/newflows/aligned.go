package newflows

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages"
)

// Time-aligned draws: how estimator flow answers questions about flows that are not in the workload.
//
// Draws that are independent at each hop (the paper's, §3.4) put the burst at one link together with the
// quiet hour of the next. So each draw takes one moment for its whole path, the start of a flow picked
// at random from the workload, because new flows arrive when the trace's do; and at every hop it takes
// the place of the flow that was there at that moment (stages.LinkFlows.Aligned).
//
// Of what the hop contributed to that donor's FCT, the wait of the last packet is taken as it is, and
// only the rest per packet. A wait is a property of the queue at a moment: to scale it by the asked
// flow's packets would make long waits of nothing (at 100 KB it doubled p99.9). The rest is rate lost,
// which a flow of twice the packets loses twice. The donor is of the size's bucket for the wait's sake
// too: in a burst of packets, which others join while it lasts, the last waits for more of theirs than a
// lone packet does.

// A draw is a flow asked about: where it goes, when, and what it is found to meet on the way.
type draw struct {
	path      []int32
	sizeBytes int64
	row       int64 // of table flows, whose start is its moment
	momentNS  int64
	except    int64 // row of the flow that is no donor; -1: none
	delayNS   float64
}

// A donation is what a draw takes from a donor at a link.
type donation struct {
	row   int64 // the donor's
	link  int32
	draw  int32
	share float64 // the draw's packets per packet of the donor's
}

// meet fills in what the draws, whose paths, sizes and rows are known, meet. It reads the flows of one
// link at a time, and keeps of them a donor a draw and hop; then it reads hop_contributions once.
func (e asker) meet(ctx context.Context, draws []draw) error {
	if err := e.moments(draws); err != nil {
		return err
	}
	crossing := map[int32][]int32{}
	for i := range draws {
		for _, link := range draws[i].path {
			crossing[link] = append(crossing[link], int32(i))
		}
	}
	var taken []donation
	err := e.eachLink(ctx, slices.Sorted(maps.Keys(crossing)), func(link int32, flows *stages.LinkFlows) {
		for _, i := range crossing[link] {
			d := &draws[i]
			if donor, ok := flows.Aligned(d.sizeBytes, d.momentNS, d.except); ok {
				taken = append(taken, e.donate(flows, donor, link, i, d.sizeBytes))
			}
		}
	})
	if err != nil {
		return err
	}
	return e.lookUp(ctx, taken, func(t donation, delayNS, waitNS float64) {
		draws[t.draw].delayNS += waitNS + (delayNS-waitNS)*t.share
	})
}

func (e asker) donate(flows *stages.LinkFlows, donor, link, draw int32, sizeBytes int64) donation {
	row, size, _ := flows.Flow(donor)
	packets := func(bytes int64) float64 { return float64(e.Spec.Params.Packets(bytes)) }
	return donation{row, link, draw, packets(sizeBytes) / packets(size)}
}

// moments looks up the starts of the flows that the draws name.
func (e asker) moments(draws []draw) error {
	flows, err := e.Files(schema.Flows)
	if err != nil {
		return err
	}
	order := make([]*draw, len(draws))
	for i := range draws {
		order[i] = &draws[i]
	}
	slices.SortFunc(order, func(a, b *draw) int { return cmp.Compare(a.row, b.row) })
	var first int64
	for n := range flows {
		last := first + flows[n].Rows
		if len(order) > 0 && order[0].row < last {
			in := e.Lake.Read(schema.Flows, flows[n:n+1], []string{"start_ns"}, nil)
			err := columns.ForEach(in, func(rec arrow.Record) error {
				starts := columns.Int64s(rec, "start_ns")
				end := first + int64(len(starts))
				for len(order) > 0 && order[0].row < end {
					order[0].momentNS = starts[order[0].row-first]
					order = order[1:]
				}
				first = end
				return nil
			})
			_ = in.Close() // read to its end, or an error is reported
			if err != nil {
				return err
			}
		}
		first = last
	}
	if len(order) > 0 {
		return fmt.Errorf("table flows has no row %d", order[0].row)
	}
	return nil
}

// eachLink calls do with the flows of each link that has any.
func (e asker) eachLink(ctx context.Context, links []int32, do func(link int32, flows *stages.LinkFlows)) error {
	hops, err := e.Files(schema.Hops)
	if err != nil {
		return err
	}
	var flows stages.LinkFlows
	for _, link := range links {
		if err := ctx.Err(); err != nil {
			return err
		}
		in := e.Lake.Read(schema.Hops, hops, stages.LinkFlowColumns(),
			&lake.Range{Column: "link_id", Lo: int64(link), Hi: int64(link) + 1})
		err := flows.Read(link, in)
		_ = in.Close() // read to its end, or an error is reported
		if err != nil {
			return err
		}
		if flows.Len() > 0 {
			do(link, &flows)
		}
	}
	return nil
}

// lookUp looks up what the donors were delayed, in the order of their rows.
func (e asker) lookUp(ctx context.Context, taken []donation,
	take func(t donation, delayNS, waitNS float64)) error {
	if len(taken) == 0 {
		return nil
	}
	slices.SortFunc(taken, func(a, b donation) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.link, b.link), cmp.Compare(a.draw, b.draw))
	})
	in, err := e.Read(schema.HopContributions, []string{"flow_row", "link_id", "delay_ns", "wait_ns"},
		&lake.Range{Column: "flow_row", Lo: taken[0].row, Hi: taken[len(taken)-1].row + 1})
	if err != nil {
		return err
	}
	at, found := 0, 0
	err = columns.Consume(in, func(rec arrow.Record) error {
		row, link := columns.Int64s(rec, "flow_row"), columns.Int32s(rec, "link_id")
		delay, wait := columns.Float64s(rec, "delay_ns"), columns.Float64s(rec, "wait_ns")
		for i := range row { // by flow, as taken is
			for at < len(taken) && taken[at].row < row[i] {
				at++
			}
			for j := at; j < len(taken) && taken[j].row == row[i]; j++ {
				if taken[j].link == link[i] {
					take(taken[j], delay[i], wait[i])
					found++
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found != len(taken):
		return fmt.Errorf("hop_contributions lacks %d of %d flows and links that table hops has: run the scenario again", len(taken)-found, len(taken))
	}
	return ctx.Err()
}
