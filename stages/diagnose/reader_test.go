package diagnose

import (
	"context"
	"slices"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// chunksTask is a task of a step that reads slowdowns in chunks of flows. Chunk n has a row of flow_row n.
type chunksTask struct {
	step.Task
	chunks []step.Range
	done   int64
}

func (t *chunksTask) Tasks(*step.Step) []step.Range { return t.chunks }
func (t *chunksTask) Add(n int64)                   { t.done += n }

func (t *chunksTask) Part(_ step.Output, n int) schema.Batches {
	var m tables.Memory
	if err := tables.Slowdowns.Write(&m, []tables.SlowdownRow{{FlowRow: int64(n)}}); err != nil {
		panic(err)
	}
	return m.Read()
}

// Chunks are read together until they have readFlows flows. Each is read once, and its flows belong to the
// part: rows of flows outside the part would be skipped.
func TestPartsOfFlows(t *testing.T) {
	const half = readFlows / 2
	for _, c := range []struct {
		ends []int64
		want []int64
	}{
		{[]int64{10}, []int64{10}},
		{[]int64{half, 2*half - 1, 2 * half, 2*half + 1}, []int64{2 * half, 2*half + 1}},
		{[]int64{3 * half, 4 * half, 5 * half}, []int64{3 * half, 5 * half}},
	} {
		task := &chunksTask{}
		from := int64(0)
		for _, end := range c.ends {
			task.chunks = append(task.chunks, step.Range{Lo: from, Hi: end})
			from = end
		}
		r := reader{Estimate: &Estimate{Slowdowns: &step.Step{}}, task: task}
		var ends, rows []int64
		at := int64(0)
		err := r.eachPart(t.Context(), func(flows step.Range, slowdowns schema.Batches) error {
			if flows.Lo != at {
				t.Errorf("a part begins at row %d instead of %d", flows.Lo, at)
			}
			at = flows.Hi
			ends = append(ends, flows.Hi)
			return columns.Each(slowdowns, func(r *watchedRow) error { rows = append(rows, r.Row); return nil })
		})
		if err != nil || !slices.Equal(ends, c.want) || len(rows) != len(c.ends) || task.done != from {
			t.Errorf("chunks that end at %v: parts end at %v, chunks %v, %d flows done, %v", c.ends, ends, rows,
				task.done, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := reader{Estimate: &Estimate{Slowdowns: &step.Step{}}, task: &chunksTask{chunks: []step.Range{{Hi: 1}}}}
	if err := r.eachPart(ctx, nil); err == nil {
		t.Error("a cancelled task reads on")
	}
}
