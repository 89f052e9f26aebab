package columns_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// table is a table in memory, as a sink and as a stream.
type table struct {
	batches []arrow.Record
	err     error // returned after the last batch
	closed  int
}

func (t *table) Write(rec arrow.Record) error {
	rec.Retain()
	t.batches = append(t.batches, rec)
	return nil
}

func (t *table) Next() (arrow.Record, error) {
	if len(t.batches) == 0 {
		if t.err != nil {
			return nil, t.err
		}
		return nil, io.EOF
	}
	rec := t.batches[0]
	t.batches = t.batches[1:]
	return rec, nil
}

func (t *table) Close() error {
	t.closed++
	return nil
}

func Example() {
	var lake table
	row, fct, ideal := []int64{0, 1}, []int64{1500, 900}, []int64{1000, 900}
	if err := columns.Write(&lake, schema.SenderFCTs, 2, columns.Of(row), columns.Of(fct),
		columns.Of(ideal)); err != nil {
		fmt.Println(err)
	}
	err := columns.Consume(&lake, func(rec arrow.Record) error {
		ideal := columns.Int64s(rec, "ideal_ns")
		for i, fct := range columns.Int64s(rec, "fct_ns") {
			fmt.Println(fct - ideal[i])
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 500
	// 0
	// <nil>
}

// ForEach leaves a stream open and Consume closes it once, whether reading succeeds, the stream fails or the
// function does.
func TestStreamsAreClosed(t *testing.T) {
	broken, refused := errors.New("broken stream"), errors.New("refused batch")
	for _, c := range []struct {
		stream, function, want error
	}{{nil, nil, nil}, {broken, nil, broken}, {nil, refused, refused}} {
		var in table
		if err := columns.Write(&in, schema.SenderFCTs, 1, columns.Of([]int64{1}), columns.Of([]int64{2}),
			columns.Of([]int64{3})); err != nil {
			t.Fatal(err)
		}
		batches := in.batches
		for _, read := range []struct {
			each   func(schema.Batches, func(arrow.Record) error) error
			closed int
		}{{columns.ForEach, 0}, {columns.Consume, 1}} {
			batches[0].Retain()
			s := &table{batches: batches, err: c.stream}
			if err := read.each(s, func(arrow.Record) error { return c.function }); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if s.closed != read.closed {
				t.Errorf("closed %d times, want %d", s.closed, read.closed)
			}
		}
	}
}

// An arena yields the strings that were added, also rows of a slice of a column, and Binary.Of takes them in any
// order.
func TestArenaRoundTrip(t *testing.T) {
	var a columns.Arena
	for _, s := range []string{"one", "", "three"} {
		a.Add([]byte(s))
	}
	a.Bytes = append(a.Bytes, "fo"...)
	a.Bytes = append(a.Bytes, "ur"...)
	a.Done()
	var binary columns.Binary
	column := binary.Of(&a, []int32{3, 2, 1, 0})
	defer column.Release()
	names := make([]string, column.Len())
	var again columns.Arena
	again.Add([]byte("first"))
	sliced := columnOf(t, column)
	again.AddAll(columns.Bytes(sliced, "observed"), 0, 3)
	for i := range names {
		names[i] = string(again.At(i))
	}
	if want := []string{"first", "three", "", "one"}; !slices.Equal(names, want) {
		t.Errorf("arena %q, want %q", names, want)
	}
}

// columnOf returns rows 1 to 3 of a batch of table feedback with the given column of four byte strings.
func columnOf(t *testing.T, observed arrow.Array) arrow.Record {
	t.Helper()
	var out table
	observed.Retain()
	n := observed.Len()
	err := columns.Write(&out, schema.Feedback, n, columns.Of(make([]int32, n)), columns.Of(make([]int64, n)),
		columns.Of(make([]int16, n)), observed)
	if err != nil {
		t.Fatal(err)
	}
	return out.batches[0].NewSlice(1, 4)
}

// Views and builders agree for every type.
func TestViewsOfBuilders(t *testing.T) {
	if got := columns.Of([]float64{}); got.Len() != 0 {
		t.Errorf("empty column of %d rows", got.Len())
	}
	if got := columns.Strings([]string{"a", "", "bc"}); got.String() != `["a" "" "bc"]` {
		t.Errorf("Strings: %v", got)
	}
	if got := columns.False(2); got.String() != "[false false]" {
		t.Errorf("False: %v", got)
	}
}

// A row is checked against its table: nothing is left out or written to a column of another type.
func TestRows(t *testing.T) {
	rows := columns.NewRows(schema.Nodes)
	rows.Add(columns.Row{"node_id": int32(7), "name": "a", "kind": "host", "pod": int32(0)})
	for why, row := range map[string]columns.Row{
		"no kind":        {"node_id": int32(7), "name": "a"},
		"kind is int":    {"node_id": int32(7), "name": "a", "kind": 1},
		"unknown column": {"node_id": int32(7), "name": "a", "kind": "host", "speed": int64(1)},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", why)
				}
			}()
			columns.NewRows(schema.Nodes).Add(row)
		}()
	}
	rec := rows.Record()
	defer rec.Release()
	if rec.NumRows() != 1 || columns.Int32s(rec, "node_id")[0] != 7 || columns.Named(rec, "pod").IsNull(0) || !columns.Named(rec, "rack").IsNull(0) {
		t.Errorf("%v", rec)
	}
	sweep := columns.Row{"sweep": "s", "settings": "", "parameter": "p", "value": "v", "value_number": math.NaN(), "flows": int64(1), "seconds": 0.5}
	rows = columns.NewRows(schema.SweepRuns)
	rows.Add(sweep)
	second := rows.Record()
	defer second.Release()
	if !columns.Named(second, "value_number").IsNull(0) || columns.Float64s(second, "seconds")[0] != 0.5 {
		t.Errorf("%v", second)
	}
}
