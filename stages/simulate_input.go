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
	in.rows.reserve(int(expected))
	counts := make([]int32, hi-lo+1)
	if expected > 0 {
		err := columns.ForEach(hops, func(rec arrow.Record) error {
			return in.addBatch(rec, lo, hi, want, counts)
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
func (in *caseInput) addBatch(rec arrow.Record, lo, hi int32, want func(int32) bool, counts []int32) error {
	link := columns.Int32s(rec, "link_id")
	from, to := 0, len(link)
	for from < to && link[from] < lo {
		from++
	}
	for to > from && link[to-1] >= hi {
		to--
	}
	batch := caseRowsOf(rec)
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
	in.feedbackAt = in.feedbackAt[:0]
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
		observed := columns.Bytes(rec, "observed")
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
			in.feedback.Add(observed.Value(i))
			n++
		}
		return nil
	})
}

// caseRows are the columns of table hops.
type caseRows struct {
	link, firstLink, prevLink        []int32
	betweenPS                        []int32
	flowRow, flowID, size, start     []int64
	delayToLink, pathDelay, pathSend []int64
	upBps, downBps                   []int64
	hop, hops                        []int16
}

// columns returns the columns by type.
func (h *caseRows) columns() ([]*[]int16, []*[]int32, []*[]int64) {
	return []*[]int16{&h.hop, &h.hops}, []*[]int32{&h.link, &h.firstLink, &h.prevLink, &h.betweenPS},
		[]*[]int64{&h.flowRow, &h.flowID, &h.size, &h.start, &h.delayToLink, &h.pathDelay, &h.pathSend, &h.upBps, &h.downBps}
}

func (h *caseRows) reset() { h.truncate(0) }

// truncate keeps the first n rows.
func (h *caseRows) truncate(n int) {
	int16s, int32s, int64s := h.columns()
	truncate(int16s, n)
	truncate(int32s, n)
	truncate(int64s, n)
}

func truncate[T any](columns []*[]T, n int) {
	for _, c := range columns {
		*c = (*c)[:n]
	}
}

// reserve allocates memory for so many more rows.
func (h *caseRows) reserve(rows int) {
	int16s, int32s, int64s := h.columns()
	reserve(int16s, rows)
	reserve(int32s, rows)
	reserve(int64s, rows)
}

func reserve[T any](columns []*[]T, rows int) {
	for _, c := range columns {
		*c = slices.Grow(*c, rows)
	}
}

// caseRowsOf returns the columns of a batch, valid until it is released.
func caseRowsOf(rec arrow.Record) caseRows {
	return caseRows{
		link: columns.Int32s(rec, "link_id"), firstLink: columns.Int32s(rec, "first_link"),
		prevLink: columns.Int32s(rec, "prev_link"), betweenPS: columns.Int32s(rec, "between_ps"),
		flowRow: columns.Int64s(rec, "flow_row"), flowID: columns.Int64s(rec, "flow_id"),
		size: columns.Int64s(rec, "size_bytes"), start: columns.Int64s(rec, "start_ns"),
		delayToLink: columns.Int64s(rec, "delay_to_link_ns"), pathDelay: columns.Int64s(rec, "path_delay_ns"),
		pathSend: columns.Int64s(rec, "path_send_ns"), upBps: columns.Int64s(rec, "upstream_bps"),
		downBps: columns.Int64s(rec, "downstream_bps"),
		hop:     columns.Int16s(rec, "hop"), hops: columns.Int16s(rec, "hops"),
	}
}

// append appends rows from..to-1 of a batch.
func (h *caseRows) append(in *caseRows, from, to int) {
	int16s, int32s, int64s := h.columns()
	of16, of32, of64 := in.columns()
	appendRows(int16s, of16, from, to)
	appendRows(int32s, of32, from, to)
	appendRows(int64s, of64, from, to)
}

func appendRows[T any](columns, in []*[]T, from, to int) {
	for i, c := range columns {
		*c = append(*c, (*in[i])[from:to]...)
	}
}
