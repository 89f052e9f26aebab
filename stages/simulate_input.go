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
	rows   []hopRow
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
			expected += s.Loads.Links[id].Flows
		}
	}
	in := &s.input
	in.rows = slices.Grow(in.rows[:0], int(expected))
	counts := make([]int32, hi-lo+1)
	if expected > 0 {
		err := columns.Each(hops, func(v *hopColumns) error { return in.addBatch(v, lo, hi, want, counts) })
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
	in.order = resize(in.order, len(in.rows))
	for i := range in.rows {
		place := &next[in.rows[i].LinkID-lo]
		in.order[*place] = int32(i)
		*place++
	}
	return nil
}

// addBatch appends the rows of wanted links in a batch and counts them by link - lo. Within a file the rows
// are sorted by link, so those of [lo, hi) are contiguous in the batch.
func (in *caseInput) addBatch(v *hopColumns, lo, hi int32, want func(int32) bool, counts []int32) error {
	link := v.Link
	from, to := 0, len(link)
	for from < to && link[from] < lo {
		from++
	}
	for to > from && link[to-1] >= hi {
		to--
	}
	wanted := false
	for i := from; i < to; i++ {
		id := link[i]
		if id < lo || id >= hi {
			return fmt.Errorf("table hops is not sorted by link: found link %d among %d to %d", id, lo, hi-1)
		}
		if i == from || id != link[i-1] {
			wanted = want(id)
		}
		if wanted {
			counts[id-lo]++
			in.rows = append(in.rows, v.row(i))
		}
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
			for at < end && in.rows[in.order[at]].FlowRow < row[i] {
				at++
			}
			if at == end || in.rows[in.order[at]].FlowRow != row[i] {
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

// hopColumns is a view of table hops.
type hopColumns struct {
	Link        []int32 `col:"link_id"`
	FlowRow     []int64 `col:"flow_row"`
	FlowID      []int64 `col:"flow_id"`
	Hop         []int16 `col:"hop"`
	Hops        []int16 `col:"hops"`
	Size        []int64 `col:"size_bytes"`
	Start       []int64 `col:"start_ns"`
	FirstLink   []int32 `col:"first_link"`
	DelayToLink []int64 `col:"delay_to_link_ns"`
	PathDelay   []int64 `col:"path_delay_ns"`
	PathSend    []int64 `col:"path_send_ns"`
	Upstream    []int64 `col:"upstream_bps"`
	Downstream  []int64 `col:"downstream_bps"`
	Between     []int32 `col:"between_ps"`
}

// HopColumns names the columns of table hops that Simulate and Replay read: all of them.
func HopColumns() []string { return columns.Names[hopColumns]() }

// row returns a row of the batch.
func (v *hopColumns) row(i int) hopRow {
	return hopRow{v.Link[i], v.FlowRow[i], v.FlowID[i], v.Hop[i], v.Hops[i], v.Size[i], v.Start[i], v.FirstLink[i],
		v.DelayToLink[i], v.PathDelay[i], v.PathSend[i], v.Upstream[i], v.Downstream[i], v.Between[i]}
}
