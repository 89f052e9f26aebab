package linksim

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// caseInput has the rows of table hops of the links in [lo, hi), and their feedback.
type caseInput struct {
	rows   []tables.LocalHop
	paths  []tables.HopPath // of rows; empty if the cases do not need them
	runs   []linkRun        // of rows
	order  []int32          // indexes of rows, by link; those of a link are in the order of flow_row
	starts []int32          // by link - lo: the position of its first row in order; one extra at the end

	feedback   columns.Arena // as encoded in the table
	feedbackAt []int32       // by position in order: index into feedback, or -1; empty without feedback
}

// A linkRun is a number of consecutive rows of the same link. The rows of a file of table hops are in the
// order of links, so they have few runs.
type linkRun struct{ link, first, rows int32 }

// maxGrownRows is the largest number of rows that memory is allocated for in advance.
const maxGrownRows = 1 << 21

// readsPaths reports whether the cases need table hops' columns about the rest of the path.
func (s *Simulator) readsPaths() bool {
	return s.Detail != Delays || s.Loads.Simultaneous || s.Params.NeedsPaths()
}

// selects returns the rows of a task from its first wanted link to the last. For example, the links of hosts
// are usually consecutive, and the replay needs no others. It relies on the numbers of flows in table
// link_loads: run compares them with the rows of table hops, and slowdown.Chunk.ReadPaths compares their sum
// with table flow_paths.
func (s *Simulator) selects(t step.Task, wants func(int32) bool) step.Selection {
	links := step.Select(t, "link_id")
	needs := func(id int64) bool { return wants(int32(id)) && s.Loads.Links[id].Flows > 0 }
	for links.Lo < links.Hi && !needs(links.Lo) {
		links.Lo++
	}
	for links.Lo < links.Hi && !needs(links.Hi-1) {
		links.Hi--
	}
	return links
}

// readInput reads the rows of the wanted links in [lo, hi) and sorts them by link (a stable counting sort).
func (s *Simulator) readInput(lo, hi int32, hops schema.Batches, want func(int32) bool) error {
	wanted := func(id int32) bool { return id >= lo && id < hi && want(id) }
	var expected int64
	for id := lo; id < hi; id++ {
		if wanted(id) {
			expected += s.Loads.Links[id].Flows
		}
	}
	in := &s.input
	// The expected number comes from a table, which may be damaged.
	in.rows = slices.Grow(in.rows[:0], int(min(expected, maxGrownRows)))
	in.paths = in.paths[:0]
	in.runs = in.runs[:0]
	if expected > 0 {
		names := columns.Names[tables.LocalHop]()
		if s.readsPaths() {
			names = append(names, columns.Names[tables.HopPath]()...)
		}
		err := columns.ForEach(hops, func(rec arrow.Record) error {
			parts := in.addRuns(columns.Int32s(rec, "link_id"), wanted)
			in.rows = columns.AppendParts(in.rows, rec, parts)
			if s.readsPaths() {
				in.paths = columns.AppendParts(in.paths, rec, parts)
			}
			return nil
		}, names...)
		if err != nil {
			return err
		}
	}
	in.sortByLink(lo, hi)
	return nil
}

// addRuns adds the runs of wanted links of a batch. links has the link of each row of the batch. addRuns
// returns the parts of the batch that have these runs.
func (in *caseInput) addRuns(links []int32, wanted func(int32) bool) (parts [][2]int) {
	first := len(in.rows)
	for from := 0; from < len(links); {
		to := from + 1
		for to < len(links) && links[to] == links[from] {
			to++
		}
		if wanted(links[from]) {
			in.runs = append(in.runs, linkRun{links[from], int32(first), int32(to - from)})
			first += to - from
			if len(parts) == 0 || parts[len(parts)-1][1] < from {
				parts = append(parts, [2]int{from, from})
			}
			parts[len(parts)-1][1] = to
		}
		from = to
	}
	return parts
}

func (in *caseInput) sortByLink(lo, hi int32) {
	next := make([]int32, hi-lo) // by link - lo: the number of its rows, then the position of its next row
	for _, r := range in.runs {
		next[r.link-lo] += r.rows
	}
	in.starts = append(in.starts[:0], 0)
	for i, n := range next {
		next[i] = in.starts[i]
		in.starts = append(in.starts, in.starts[i]+n)
	}
	in.order = columns.Resize(in.order, len(in.rows))
	for _, r := range in.runs {
		at := &next[r.link-lo]
		for row := range r.rows {
			in.order[*at] = r.first + row
			*at++
		}
	}
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
