package tables

import (
	"errors"
	"io"
	"slices"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// A table in memory keeps its rows when the writer reuses its memory, and each reader reads all of them.
func TestMemoryKeepsWhatIsWritten(t *testing.T) {
	var m Memory
	rows := []SenderFCT{{1, 20, 10}, {2, 30, 10}}
	for range 2 {
		if err := SenderFCTs.Write(&m, rows); err != nil {
			t.Fatal(err)
		}
		rows[0].FlowRow = 3
		rows[1].FlowRow = 4
	}
	for _, in := range []schema.Batches{m.Read(), m.Read()} {
		for _, want := range []error{nil, nil, io.EOF, io.EOF} {
			if _, err := in.Next(); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
	}
	var got []int64
	err := columns.Each(m.Read(), func(r *SenderFCT) error { got = append(got, r.FlowRow); return nil })
	if err != nil || !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("rows %v, %v", got, err)
	}
}

// Rows come by flow and then by hop, also if flow rows are negative or far from 0: the smallest counts as 0.
func TestOrderByFlow(t *testing.T) {
	type at struct {
		row int64
		hop int16
	}
	var s Sorter
	for _, base := range []int64{0, -1, -5, 1 << 52} {
		rows := []at{{base + 3, 0}, {base, 1}, {base + 1, 1022}, {base + 1, 1023}, {base + 2, 0}, {base, 0},
			{base + 1, 0}, {base, 1}, {base + 3, 0}}
		got := s.ByFlow(len(rows), func(i int) (int64, int16) { return rows[i].row, rows[i].hop })
		if !slices.Equal(got, []int32{5, 1, 7, 6, 2, 3, 4, 0, 8}) {
			t.Errorf("from %d: order %v", base, got)
		}
	}
	got := s.ByFlow(0, nil)
	if len(got) != 0 {
		t.Errorf("order of no rows: %v", got)
	}
}
