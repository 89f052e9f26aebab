package stages

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// observationIndex holds the encoded blocks of a chunk of flows, by flow and hop. Flows are numbered from 0
// within the chunk.
type observationIndex struct {
	encoded columns.Arena
	place   []int32 // flow × width + hop → row below; -1: none
	width   int     // most hops of a flow
	hops    []int16 // by flow: length of its path; 0: it has none
	found   []int16 // by flow: rows

	// the rows, in the order in which they were read
	row   []int64
	hop   []int16
	count []int16
	links []int32
	delay []int64 // ns; -1 and beyond its end: the table does not say
}

// readObservations reads the chunk's rows of table hop_observations.
func (a *observationIndex) readObservations(firstRow, rows int64, in schema.Batches) error {
	a.encoded.Reset()
	a.links, a.row, a.hop, a.count, a.delay = a.links[:0], a.row[:0], a.hop[:0], a.count[:0], a.delay[:0]
	a.width = 0
	err := columns.ForEach(in, func(rec arrow.Record) error {
		row, hop, link := columns.Int64s(rec, "flow_row"), columns.Int16s(rec, "hop"), columns.Int32s(rec, "link_id")
		observed := columns.Bytes(rec, "observed")
		hops := columns.Int16s(rec, "hops")
		var delay []int64
		if rec.Schema().HasField("delay_ns") {
			delay = columns.Int64s(rec, "delay_ns")
		}
		for from := 0; from < len(row); from++ {
			to := from // rows from..to-1 belong to the chunk
			for ; to < len(row) && row[to] >= firstRow && row[to] < firstRow+rows; to++ {
				if hop[to] < 0 || hop[to] >= hops[to] {
					return fmt.Errorf("flow row %d has hop %d, which is not on its path", row[to], hop[to])
				}
				a.width = max(a.width, int(hop[to])+1)
			}
			if to == from {
				continue
			}
			a.encoded.AddAll(observed, from, to)
			a.row = append(columns.Grow(a.row, to-from), row[from:to]...)
			a.hop = append(columns.Grow(a.hop, to-from), hop[from:to]...)
			a.links = append(columns.Grow(a.links, to-from), link[from:to]...)
			a.count = append(columns.Grow(a.count, to-from), hops[from:to]...)
			if delay != nil {
				for len(a.delay) < len(a.row)-(to-from) {
					a.delay = append(a.delay, -1)
				}
				a.delay = append(a.delay, delay[from:to]...)
			}
			from = to
		}
		return nil
	})
	if err == nil {
		a.index(firstRow, int(rows))
	}
	return err
}

// index fills place, hops and found from the rows. Of several rows of a flow and hop it takes the first.
func (a *observationIndex) index(firstRow int64, flows int) {
	a.place = resize(a.place, flows*a.width)
	for i := range a.place {
		a.place[i] = -1
	}
	a.hops, a.found = resize(a.hops, flows), resize(a.found, flows)
	clear(a.hops)
	clear(a.found)
	for i, r := range a.row {
		f, hop := int(r-firstRow), int(a.hop[i])
		if place := &a.place[f*a.width+hop]; *place < 0 {
			*place = int32(i)
			a.found[f]++
			a.hops[f] = a.count[i]
		}
	}
}

// hopsOf returns the length of a flow's path. It is an error if a hop of the path has no row.
func (a *observationIndex) hopsOf(f int, firstRow int64) (int, error) {
	if a.found[f] != a.hops[f] {
		return 0, fmt.Errorf("hop_observations: flow row %d has %d of its %d hops", firstRow+int64(f), a.found[f],
			a.hops[f])
	}
	return int(a.hops[f]), nil
}

// at returns the encoded blocks of a flow's hop; nil if the hop has no row.
func (a *observationIndex) at(f, hop int) []byte {
	if hop >= a.width {
		return nil
	}
	if i := a.place[f*a.width+hop]; i >= 0 {
		return a.encoded.At(int(i))
	}
	return nil
}

// delayNS returns the delay of a flow by the case of a hop; -1 if there is none.
func (a *observationIndex) delayNS(f, hop int) int64 {
	if i := int(a.place[f*a.width+hop]); i >= 0 && i < len(a.delay) {
		return a.delay[i]
	}
	return -1
}

// link returns the link of a flow's hop, which must have a row.
func (a *observationIndex) link(f, hop int) int32 {
	return a.links[a.place[f*a.width+hop]]
}

// feedbackRow is a row of table feedback or sender_feedback.
type feedbackRow struct {
	LinkID   int32        `col:"link_id"`
	FlowRow  int64        `col:"flow_row"`
	Hop      int16        `col:"hop"`
	Observed columns.Item `col:"observed"`
}

// feedbackTable is bound to the columns of both.
var feedbackTable = columns.TableOf[feedbackRow](schema.Feedback)

// feedbackRows are rows under construction.
type feedbackRows struct {
	rows     []feedbackRow
	observed columns.Arena // of the rows, in their order
	starts   []int32       // by link: its first place in order
	order    []int32
}

func (r *feedbackRows) reset() {
	r.observed.Reset()
	r.rows = r.rows[:0]
}

// append appends a row, unless all blocks are zero. A reader takes a missing row as zero blocks.
func (r *feedbackRows) append(link int32, row int64, hop int16, blocks []simkernel.Block) {
	before := len(r.observed.Bytes)
	r.observed.Bytes = appendBlocks(r.observed.Bytes, blocks)
	if len(r.observed.Bytes) == before {
		return
	}
	r.observed.Done()
	r.rows = append(r.rows, feedbackRow{link, row, hop, columns.Item(len(r.rows))})
}

// flush writes the rows by link; the rows of a link stay in the order of the flows.
func (r *feedbackRows) flush(links int, out schema.Sink) error {
	r.starts = resize(r.starts, links+1)
	clear(r.starts)
	for i := range r.rows {
		r.starts[r.rows[i].LinkID+1]++
	}
	for l := range links {
		r.starts[l+1] += r.starts[l]
	}
	r.order = resize(r.order, len(r.rows))
	for i := range r.rows {
		at := &r.starts[r.rows[i].LinkID]
		r.order[*at] = int32(i)
		*at++
	}
	return feedbackTable.WriteOrdered(out, r.rows, r.order, &r.observed)
}
