package flow

import (
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/slowdown"
	"parsimon/stages/tables"
)

// An observationIndex finds the rows of table hop_observations by flow, for one chunk of flows. A hop without
// a row observed nothing.
type observationIndex struct {
	links    int // of the topology
	firstRow int64
	last     []int32  // by flow of the chunk: index of its row that was read last, or -1
	observed []uint32 // by flow of the chunk: bit h % 32 is set if it has a row about hop h
	rows     []observedHop
	encoded  columns.Arena // blocks of the rows

	found []int32 // the result of the last call of Of
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

// read reads what the packets of a chunk of flows observed. Rows of flows of other chunks are skipped.
func (x *observationIndex) read(c slowdown.Chunk, observed schema.Batches) error {
	x.firstRow = c.FirstRow
	x.last = columns.Resize(x.last, int(c.Rows))
	for f := range x.last {
		x.last[f] = -1
	}
	x.observed = columns.Resize(x.observed, int(c.Rows))
	clear(x.observed)
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
		x.observed[f] |= 1 << (uint16(r.Hop) % 32)
		return nil
	})
}

// A crossedLink is a row of table hops: a link on the path of a flow.
type crossedLink struct {
	Row  int64 `col:"flow_row"`
	Hop  int16 `col:"hop"`
	Link int32 `col:"link_id"`
}

// check compares the links of the rows with table hops of the chunk, except those of hop 0, which Of knows. A
// row about another link than that of its hop is an error.
func (x *observationIndex) check(hops schema.Batches) error {
	return columns.EachRows(hops, tables.SmallBatch, func(part []crossedLink) error {
		for i := range part {
			c := &part[i]
			f := c.Row - x.firstRow
			if f < 0 || f >= int64(len(x.last)) {
				return fmt.Errorf("hops: flow row %d is not in the chunk of %d flows at row %d", c.Row,
					len(x.last), x.firstRow)
			}
			if c.Hop == 0 || x.observed[f]>>(uint16(c.Hop)%32)&1 == 0 { // most hops observed nothing
				continue
			}
			for at := x.last[f]; at >= 0; at = x.rows[at].previous {
				r := &x.rows[at]
				if r.hop == c.Hop && r.link != c.Link {
					return offPath(c.Row, r)
				}
			}
		}
		return nil
	})
}

func offPath(row int64, r *observedHop) error {
	return fmt.Errorf("hop_observations: flow row %d has hop %d on link %d, which is not on its path", row,
		r.hop, r.link)
}

// Has reports whether flow f of the chunk has rows.
func (x *observationIndex) Has(f int) bool { return x.last[f] >= 0 }

// Of returns the indices of the rows of flow f of the chunk, by hop. Its path has a number of hops and begins
// with the known links, which may be all. If several rows are about the same hop, the result has the first
// that was read. It is valid until the next call.
//
// A row about another hop than these, another link than that of a known hop, or a link that the topology does
// not have, is an error.
func (x *observationIndex) Of(f int, hops int, known []int32) ([]int32, error) {
	x.found = x.found[:0]
	for at := x.last[f]; at >= 0; at = x.rows[at].previous {
		r := &x.rows[at]
		if r.hop < 0 || int(r.hop) >= hops || r.link < 0 || int(r.link) >= x.links ||
			int(r.hop) < len(known) && r.link != known[r.hop] {
			return nil, offPath(x.firstRow+int64(f), r)
		}
		k := len(x.found)
		for k > 0 && x.rows[x.found[k-1]].hop > r.hop {
			k--
		}
		if k > 0 && x.rows[x.found[k-1]].hop == r.hop {
			x.found[k-1] = at // it was read before the other row
			continue
		}
		x.found = slices.Insert(x.found, k, at)
	}
	return x.found, nil
}

// blocks appends the blocks of a row of flow f of the chunk.
func (x *observationIndex) blocks(to []simkernel.Block, f int, row int32) ([]simkernel.Block, error) {
	to, err := linksim.ReadBlocks(to, x.encoded.At(int(row)))
	if err != nil {
		err = fmt.Errorf("hop_observations: flow row %d, hop %d: %w", x.firstRow+int64(f), x.rows[row].hop, err)
	}
	return to, err
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
