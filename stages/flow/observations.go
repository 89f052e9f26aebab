package flow

import (
	"errors"
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// An observationIndex has the paths of one chunk of flows, and the rows of table hop_observations about them.
// A hop of a path that has no row observed nothing.
type observationIndex struct {
	model    *step.Model
	firstRow int64
	flows    []routedFlow // of the chunk
	last     []int32      // by flow of the chunk: index of its row that was read last, or -1
	rows     []observedHop
	encoded  columns.Arena // blocks of the rows

	path []int32        // of the flow of the last call of Hops
	hops []slowdown.Hop // of that flow
}

// A routedFlow has the columns of table flows that determine the path of a flow.
type routedFlow struct {
	Src        int32 `col:"src"`
	Dst        int32 `col:"dst"`
	SizeBytes  int64 `col:"size_bytes"`
	Connection int64 `col:"connection_id"`
}

type observedHop struct {
	delayNS  int64
	link     int32
	previous int32 // index of the row of the same flow that was read before, or -1
	hop      int16
}

type observation struct {
	Row      int64  `col:"flow_row"`
	Hop      int16  `col:"hop"`
	Link     int32  `col:"link_id"`
	Observed []byte `col:"observed"`
	Delay    int64  `col:"delay_ns"`
}

// read reads a chunk of flows and what their packets observed. Rows of flows of other chunks are skipped.
func (x *observationIndex) read(c slowdown.Chunk, observed schema.Batches) error {
	x.firstRow = c.FirstRow
	x.flows = x.flows[:0]
	err := columns.EachRows(c.Flows, tables.SmallBatch, func(part []routedFlow) error {
		x.flows = append(x.flows, part...)
		return nil
	})
	if err == nil && int64(len(x.flows)) != c.Rows {
		err = fmt.Errorf("flows: the chunk at row %d has %d flows, %d were routed", c.FirstRow, len(x.flows),
			c.Rows)
	}
	if err != nil {
		return errors.Join(err, observed.Close())
	}
	x.last = columns.Resize(x.last, len(x.flows))
	for f := range x.last {
		x.last[f] = -1
	}
	x.rows = x.rows[:0]
	x.encoded.Reset()
	return columns.Each(observed, func(r *observation) error {
		f := r.Row - x.firstRow
		if f < 0 || f >= int64(len(x.last)) {
			return nil
		}
		x.encoded.Add(r.Observed)
		x.rows = append(x.rows, observedHop{r.Delay, r.Link, x.last[f], r.Hop})
		x.last[f] = int32(len(x.rows) - 1)
		return nil
	})
}

// Observed reports whether flow f of the chunk has rows.
func (x *observationIndex) Observed(f int) bool { return x.last[f] >= 0 }

// Hops returns the hops of flow f of the chunk and sets Path. A flow without a path has no hops. The Number
// of a hop is that of its blocks in encoded, or -1. If several rows are about the same hop, the first is
// used. The result is valid until the next call.
func (x *observationIndex) Hops(f int) ([]slowdown.Hop, error) {
	if err := x.setPath(&x.flows[f]); err != nil {
		return nil, err
	}
	x.hops = x.hops[:0]
	for _, link := range x.path {
		x.hops = append(x.hops, slowdown.Hop{Cell: slowdown.Cell{Link: link, Number: -1}})
	}
	for at := x.last[f]; at >= 0; at = x.rows[at].previous { // the first row comes last
		r := &x.rows[at]
		if r.hop < 0 || int(r.hop) >= len(x.hops) || x.path[r.hop] != r.link {
			return nil, fmt.Errorf(
				"hop_observations: flow row %d has hop %d on link %d, which is not on its path",
				x.firstRow+int64(f), r.hop, r.link,
			)
		}
		cell := &x.hops[r.hop].Cell
		cell.Number = at
		cell.NS = float64(r.delayNS)
	}
	return x.hops, nil
}

// Path returns the links of the flow of the last call of Hops. The result is valid until the next call.
func (x *observationIndex) Path() []int32 { return x.path }

func (x *observationIndex) setPath(of *routedFlow) (err error) {
	x.path = x.path[:0]
	if route.ComputeStep(of.Src, of.Dst, of.SizeBytes) {
		return nil
	}
	x.path, err = x.model.Router.Path(of.Connection, of.Src, of.Dst, x.path)
	if x.model.Unreachable == step.CountUnreachable && route.IsUnreachable(err) {
		return nil
	}
	return err
}

// feedbackRows has the rows of table feedback or sender_feedback that have not been written yet.
type feedbackRows struct {
	rows   []tables.Observation
	blocks columns.Arena // of the rows, in their order
	sorter tables.Sorter
}

func (w *feedbackRows) reset() {
	w.blocks.Reset()
	w.rows = w.rows[:0]
}

// add appends the feedback of a flow at a hop, unless all blocks are zero. Readers treat a missing row as
// zero blocks.
func (w *feedbackRows) add(link int32, row int64, hop int16, blocks []simkernel.Block) {
	before := len(w.blocks.Bytes)
	w.blocks.Bytes = linksim.AppendBlocks(w.blocks.Bytes, blocks)
	if len(w.blocks.Bytes) == before {
		return
	}
	w.blocks.Done()
	w.rows = append(w.rows, tables.Observation{FlowRow: row, Hop: hop, LinkID: link,
		Observed: columns.Item(len(w.rows))})
}

var feedbackTable = columns.TableOf[tables.Observation](schema.Feedback)
