package linksim

import (
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/tables"
)

// caseInput has the rows of table hops of the links in [lo, hi), and their feedback.
type caseInput struct {
	rows   []tables.Hop
	order  []int32 // indexes of rows, by link; those of a link are in the order of flow_row
	starts []int32 // by link - lo: the position of its first row in order; one extra at the end

	feedback   columns.Arena // as encoded in the table
	feedbackAt []int32       // by position in order: index into feedback, or -1; empty without feedback
}

// maxGrownRows is the largest number of rows that memory is allocated for in advance.
const maxGrownRows = 1 << 21

// readInput reads the rows of the wanted links in [lo, hi) and sorts them by link (a stable counting sort).
func (s *Simulator) readInput(lo, hi int32, hops schema.Batches, want func(int32) bool) error {
	var expected int64
	wanted := make([]bool, hi-lo)
	for id := lo; id < hi; id++ {
		wanted[id-lo] = want(id)
		if wanted[id-lo] {
			expected += s.Loads.Links[id].Flows
		}
	}
	in := &s.input
	// The expected number comes from a table, which may be damaged.
	in.rows = slices.Grow(in.rows[:0], int(min(expected, maxGrownRows)))
	counts := make([]int32, hi-lo+1)
	if expected > 0 {
		add := func(r *tables.Hop) error {
			if r.LinkID >= lo && r.LinkID < hi && wanted[r.LinkID-lo] {
				counts[r.LinkID-lo]++
				in.rows = append(in.rows, *r)
			}
			return nil
		}
		var err error
		if s.Detail == Delays && !s.Loads.Simultaneous && !s.Params.NeedsPaths() {
			err = columns.Each(hops, func(r *tables.LocalHop) error { return add(&tables.Hop{LocalHop: *r}) })
		} else {
			err = columns.Each(hops, add)
		}
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
	in.order = columns.Resize(in.order, len(in.rows))
	for i := range in.rows {
		place := &next[in.rows[i].LinkID-lo]
		in.order[*place] = int32(i)
		*place++
	}
	return nil
}

// readFeedback reads the feedback of the wanted links in [lo, hi). Rows of table hops that have no row in
// feedback have no feedback. If feedback is nil, no row has any.
func (in *caseInput) readFeedback(lo, hi int32, feedback schema.Batches, want func(int32) bool) error {
	in.feedback.Reset()
	in.feedbackAt = in.feedbackAt[:0]
	if feedback == nil || len(in.order) == 0 {
		return nil
	}
	next := slices.Clone(in.starts[:hi-lo])
	in.feedbackAt = slices.Repeat([]int32{-1}, len(in.order))
	n := int32(0)
	return columns.Each(feedback, func(r *givenRow) error {
		if r.Link < lo || r.Link >= hi || !want(r.Link) {
			return nil
		}
		at := next[r.Link-lo]
		end := in.starts[r.Link-lo+1]
		for at < end && in.rows[in.order[at]].FlowRow < r.Row {
			at++
		}
		if at == end || in.rows[in.order[at]].FlowRow != r.Row {
			return fmt.Errorf("feedback: flow row %d does not cross link %d in table hops", r.Row, r.Link)
		}
		next[r.Link-lo] = at + 1
		in.feedbackAt[at] = n
		in.feedback.Add(r.Observed)
		n++
		return nil
	})
}

type givenRow struct {
	Link     int32  `col:"link_id"`
	Row      int64  `col:"flow_row"`
	Observed []byte `col:"observed"`
}
