package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// UplinkFlowColumns names the columns of table flows that BuildUplink reads.
func UplinkFlowColumns() []string { return []string{"flow_id", "src", "dst"} }

// BuildUplink writes table uplink_feedback, the input of the first pass, of one chunk of flows: rows firstRow to
// firstRow+rows-1 of table flows. Every hop behind a host's uplink is given the NIC waits there, whole. observed is
// table uplink_observations. Flows without NIC waits have no rows in either; of the others, r says the paths.
func (x *FeedbackBuilder) BuildUplink(ctx context.Context, r *topology.Router, firstRow, rows int64,
	flows, observed schema.Batches, out schema.Sink) error {
	if err := x.observed.readObservations(firstRow, rows, observed); err != nil {
		return err
	}
	x.out.reset()
	f := 0
	err := columns.ForEach(flows, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id, src, dst := columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		if int64(f+len(id)) > rows {
			return fmt.Errorf("flows: the chunk at row %d has more flows than the %d that were routed", firstRow, rows)
		}
		for i := range id {
			if len(x.observed.at(f, 0)) > 0 {
				path, err := r.AppendPath(id[i], src[i], dst[i], x.path[:0])
				if err != nil {
					return err
				}
				x.path = path
				if err := x.uplinkFeedback(firstRow+int64(f), x.observed.at(f, 0)); err != nil {
					return err
				}
			}
			f++
		}
		return nil
	})
	if err != nil {
		return err
	}
	return x.out.flush(schema.UplinkFeedback, len(x.net.Links), out)
}

// uplinkFeedback appends the feedback of the current path, of a flow with these NIC waits.
func (x *FeedbackBuilder) uplinkFeedback(row int64, observed []byte) (err error) {
	if x.blocks, err = readBlocks(x.blocks[:0], observed); err != nil {
		return fmt.Errorf("uplink_observations: flow row %d: %w", row, err)
	}
	for b := range x.blocks {
		o := &x.blocks[b]
		*o = simkernel.Block{NICWaitNS: o.WaitNS}
		if x.ablation&AblateNICWaits != 0 {
			o.NICWaitNS = 0
		}
	}
	if !slices.ContainsFunc(x.blocks, func(b simkernel.Block) bool { return b != simkernel.Block{} }) {
		return nil // the packets left at once, and only their times are known
	}
	ackWaitNS := x.ackWaitNS()
	for h, link := range x.path {
		if h > 0 && (x.simulated == nil || x.simulated[link]) {
			x.out.append(link, row, int16(h), ackWaitNS, x.blocks)
		}
	}
	return nil
}
