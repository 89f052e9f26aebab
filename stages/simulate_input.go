package stages

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// caseInput holds the rows of table hops of the links in [lo, hi), and their feedback.
type caseInput struct {
	rows   caseRows
	order  []int32 // rows by link; those of a link stay in the order of flow_row
	starts []int32 // by link - lo: its first place in order; one more at the end

	feedback   columns.Arena // as encoded in the table
	ackWait    []int32       // ns, by place in feedback
	feedbackAt []int32       // by place in order: place in feedback, -1 if there is none; empty: no feedback
}

// readInput reads the rows of the wanted links in [lo, hi) and sorts them by link (a stable counting sort).
func (s *Simulator) readInput(lo, hi int32, hops schema.Batches, want func(int32) bool) error {
	var expected int64
	for id := lo; id < hi; id++ {
		if want(id) {
			expected += s.loads.Links[id].Flows
		}
	}
	in := &s.input
	in.rows.reset()
	in.rows.reserve(int(expected), s.estimator)
	counts := make([]int32, hi-lo+1)
	if expected > 0 {
		err := columns.ForEach(hops, func(rec arrow.Record) error {
			return in.addBatch(rec, s.estimator, lo, hi, want, counts)
		})
		if err != nil {
			return err
		}
	}
	in.starts = append(in.starts[:0], 0)
	for i, n := range counts[:hi-lo] {
		in.starts = append(in.starts, in.starts[i]+n)
	}
	next := counts
	copy(next, in.starts)
	in.order = resize(in.order, len(in.rows.link))
	for i, id := range in.rows.link {
		in.order[next[id-lo]] = int32(i)
		next[id-lo]++
	}
	return nil
}

// addBatch appends the rows of wanted links in a batch and counts them by link - lo. Within a file the rows
// are sorted by link, so those of [lo, hi) are contiguous in the batch.
func (in *caseInput) addBatch(rec arrow.Record, e Estimator, lo, hi int32, want func(int32) bool,
	counts []int32) error {
	link := columns.Int32s(rec, "link_id")
	from, to := 0, len(link)
	for from < to && link[from] < lo {
		from++
	}
	for to > from && link[to-1] >= hi {
		to--
	}
	batch := caseRowsOf(rec, e)
	for from < to { // runs of rows that are all wanted or all not
		wanted, end := want(link[from]), from
		for ; end < to; end++ {
			id := link[end]
			if id < lo || id >= hi {
				return fmt.Errorf("table hops is not sorted by link: found link %d among %d to %d", id, lo, hi-1)
			}
			if end > from && id != link[end-1] && want(id) != wanted {
				break
			}
			if wanted {
				counts[id-lo]++
			}
		}
		if wanted {
			in.rows.append(&batch, from, end)
		}
		from = end
	}
	return nil
}

// readFeedback reads the feedback of the wanted links in [lo, hi), rows of the input in its order. What has no row has
// no feedback; nil stands for none at all.
func (in *caseInput) readFeedback(lo, hi int32, feedback schema.Batches, want func(int32) bool) error {
	in.feedback.Reset()
	in.feedbackAt, in.ackWait = in.feedbackAt[:0], in.ackWait[:0]
	if feedback == nil || len(in.order) == 0 {
		return nil
	}
	next := slices.Clone(in.starts[:hi-lo])
	in.feedbackAt = resize(in.feedbackAt, len(in.order))
	for i := range in.feedbackAt {
		in.feedbackAt[i] = -1
	}
	n := 0
	return columns.ForEach(feedback, func(rec arrow.Record) error {
		link, row := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row")
		observed, ackWait := columns.Bytes(rec, "observed"), columns.Int32s(rec, "ack_wait_ns")
		for i, id := range link {
			if id < lo || id >= hi || !want(id) {
				continue
			}
			at, end := next[id-lo], in.starts[id-lo+1]
			for at < end && in.rows.flowRow[in.order[at]] < row[i] {
				at++
			}
			if at == end || in.rows.flowRow[in.order[at]] != row[i] {
				return fmt.Errorf("feedback: flow row %d is on link %d, which is not so in table hops", row[i], id)
			}
			next[id-lo] = at + 1
			in.feedbackAt[at] = int32(n)
			if ackWait[i] < 0 {
				return fmt.Errorf("feedback: flow row %d has ACKs that wait %d ns on the way from link %d", row[i], ackWait[i], id)
			}
			in.feedback.Add(observed.Value(i))
			in.ackWait = append(in.ackWait, ackWait[i])
			n++
		}
		return nil
	})
}

// ackWaitNS returns what an ACK of the row at a place in order waits on its way back.
func (in *caseInput) ackWaitNS(at int) int64 {
	if len(in.feedbackAt) == 0 || in.feedbackAt[at] < 0 {
		return 0
	}
	return int64(in.ackWait[in.feedbackAt[at]])
}

// caseRows are the columns of table hops that link cases need. prevLink, pathSend, upBps, downBps and betweenPS are
// read for Flow only.
type caseRows struct {
	link, firstLink, prevLink        []int32
	betweenPS                        []int32
	flowRow, flowID, size, start     []int64
	delayToLink, pathDelay, pathSend []int64
	upBps, downBps                   []int64
	hop, hops                        []int16
}

func (h *caseRows) reset() { h.truncate(0) }

// truncate keeps the first n rows, of the columns that were read.
func (h *caseRows) truncate(n int) {
	h.link, h.firstLink, h.prevLink = h.link[:n], h.firstLink[:n], h.prevLink[:min(n, len(h.prevLink))]
	h.flowRow, h.flowID, h.size, h.start = h.flowRow[:n], h.flowID[:n], h.size[:n], h.start[:n]
	h.delayToLink, h.pathDelay, h.pathSend = h.delayToLink[:n], h.pathDelay[:n], h.pathSend[:min(n, len(h.pathSend))]
	h.upBps, h.downBps = h.upBps[:min(n, len(h.upBps))], h.downBps[:min(n, len(h.downBps))]
	h.betweenPS = h.betweenPS[:min(n, len(h.betweenPS))]
	h.hop, h.hops = h.hop[:n], h.hops[:n]
}

// reserve allocates memory for so many more rows.
func (h *caseRows) reserve(rows int, e Estimator) {
	for _, column := range []*[]int32{&h.link, &h.firstLink, &h.prevLink, &h.betweenPS} {
		if column != &h.prevLink && column != &h.betweenPS || e == Flow {
			*column = slices.Grow(*column, rows)
		}
	}
	for _, column := range []*[]int64{&h.flowRow, &h.flowID, &h.size, &h.start, &h.delayToLink, &h.pathDelay,
		&h.pathSend, &h.upBps, &h.downBps} {
		if column != &h.pathSend && column != &h.upBps && column != &h.downBps || e == Flow {
			*column = slices.Grow(*column, rows)
		}
	}
	h.hop, h.hops = slices.Grow(h.hop, rows), slices.Grow(h.hops, rows)
}

// caseRowsOf returns the columns of a batch, valid until it is released.
func caseRowsOf(rec arrow.Record, e Estimator) caseRows {
	h := caseRows{
		link: columns.Int32s(rec, "link_id"), firstLink: columns.Int32s(rec, "first_link"),
		flowRow: columns.Int64s(rec, "flow_row"), flowID: columns.Int64s(rec, "flow_id"),
		size: columns.Int64s(rec, "size_bytes"), start: columns.Int64s(rec, "start_ns"),
		delayToLink: columns.Int64s(rec, "delay_to_link_ns"), pathDelay: columns.Int64s(rec, "path_delay_ns"),
		hop: columns.Int16s(rec, "hop"), hops: columns.Int16s(rec, "hops"),
	}
	if e == Flow {
		h.prevLink, h.pathSend = columns.Int32s(rec, "prev_link"), columns.Int64s(rec, "path_send_ns")
		h.upBps, h.downBps = columns.Int64s(rec, "upstream_bps"), columns.Int64s(rec, "downstream_bps")
		h.betweenPS = columns.Int32s(rec, "between_ps")
	}
	return h
}

// append appends rows from..to-1 of a batch.
func (h *caseRows) append(in *caseRows, from, to int) {
	h.link = append(h.link, in.link[from:to]...)
	h.firstLink = append(h.firstLink, in.firstLink[from:to]...)
	h.flowRow = append(h.flowRow, in.flowRow[from:to]...)
	h.flowID = append(h.flowID, in.flowID[from:to]...)
	h.size = append(h.size, in.size[from:to]...)
	h.start = append(h.start, in.start[from:to]...)
	h.delayToLink = append(h.delayToLink, in.delayToLink[from:to]...)
	h.pathDelay = append(h.pathDelay, in.pathDelay[from:to]...)
	if in.prevLink != nil {
		h.prevLink = append(h.prevLink, in.prevLink[from:to]...)
		h.pathSend = append(h.pathSend, in.pathSend[from:to]...)
		h.upBps, h.downBps = append(h.upBps, in.upBps[from:to]...), append(h.downBps, in.downBps[from:to]...)
		h.betweenPS = append(h.betweenPS, in.betweenPS[from:to]...)
	}
	h.hop = append(h.hop, in.hop[from:to]...)
	h.hops = append(h.hops, in.hops[from:to]...)
}
