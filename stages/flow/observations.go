package flow

import (
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/slowdown"
	"parsimon/stages/tables"
)

// An observationIndex is a HopIndex that also has the encoded blocks of table hop_observations.
type observationIndex struct {
	slowdown.HopIndex
	encoded columns.Arena
}

type observation struct {
	Row      int64  `col:"flow_row"`
	Hop      int16  `col:"hop"`
	Hops     int16  `col:"hops"`
	Link     int32  `col:"link_id"`
	Observed []byte `col:"observed"`
	Delay    int64  `col:"delay_ns"`
}

func (x *observationIndex) read(firstRow, flows int64, in schema.Batches) error {
	x.Begin(schema.HopObservations, firstRow, flows)
	x.encoded.Reset()
	n := int32(0)
	return columns.Each(in, func(r *observation) error {
		if !x.Has(r.Row) {
			return nil
		}
		x.encoded.Add(r.Observed)
		n++
		return x.Add(r.Row, r.Hop, r.Hops, slowdown.Cell{Link: r.Link, Number: n - 1, NS: float64(r.Delay)})
	})
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
