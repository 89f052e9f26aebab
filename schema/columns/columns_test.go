package columns_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// table is a table in memory that is a sink and a stream.
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

func (t *table) Next(...string) (arrow.Record, error) {
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

type fct struct {
	Row   int64 `col:"flow_row"`
	FCT   int64 `col:"fct_ns"`
	Ideal int64 `col:"ideal_ns"`
}

var fcts = columns.TableOf[fct](schema.SenderFCTs)

func Example() {
	var lake table
	if err := fcts.Write(&lake, []fct{{0, 1500, 1000}, {1, 900, 900}}); err != nil {
		fmt.Println(err)
	}
	err := columns.ForEach(&lake, func(rec arrow.Record) error {
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

// ForEach closes a stream once if reading succeeds, if the stream fails and if the function fails.
func TestStreamsAreClosed(t *testing.T) {
	broken := errors.New("broken stream")
	refused := errors.New("refused batch")
	for _, c := range []struct {
		stream, function, want error
	}{{nil, nil, nil}, {broken, nil, broken}, {nil, refused, refused}} {
		var in table
		if err := fcts.Write(&in, []fct{{1, 2, 3}}); err != nil {
			t.Fatal(err)
		}
		s := &table{batches: in.batches, err: c.stream}
		if err := columns.ForEach(s, func(arrow.Record) error { return c.function }); !errors.Is(err, c.want) {
			t.Errorf("error %v, want %v", err, c.want)
		}
		if s.closed != 1 {
			t.Errorf("closed %d times, want once", s.closed)
		}
	}
}

// A row must fit its table: a missing value or a value of another type would be lost or wrong.
func TestRows(t *testing.T) {
	of := func(t schema.Table, rows ...columns.Row) arrow.Record {
		return columns.RecordOf(t, rows, func(r columns.Row) columns.Row { return r })
	}
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
			of(schema.Nodes, row).Release()
		}()
	}
	rec := of(schema.Nodes, columns.Row{"node_id": int32(7), "name": "a", "kind": "host", "pod": int32(0)})
	defer rec.Release()
	if rec.NumRows() != 1 || columns.Int32s(rec, "node_id")[0] != 7 || columns.Named(rec, "pod").IsNull(0) ||
		!columns.Named(rec, "rack").IsNull(0) {
		t.Errorf("%v", rec)
	}
	sweep := columns.Row{"sweep": "s", "settings": "", "parameter": "p", "value": "v",
		"value_number": math.NaN(), "flows": int64(1), "seconds": 0.5}
	second := of(schema.SweepRuns, sweep)
	defer second.Release()
	if !columns.Named(second, "value_number").IsNull(0) || columns.Float64s(second, "seconds")[0] != 0.5 {
		t.Errorf("%v", second)
	}
}

// Streams of one table follow one another, and each is closed once, also after an error. Otherwise, rows
// would be missing, or files would stay open.
func TestConcat(t *testing.T) {
	broken := errors.New("broken")
	for _, fail := range []error{nil, broken} {
		all := []*table{{}, {}, {}}
		for i, in := range all {
			if err := fcts.Write(in, []fct{{int64(i), 2, 3}}); err != nil {
				t.Fatal(err)
			}
		}
		all[1].err = fail
		var rows []int64
		in := columns.Concat(all[0], all[1], all[2])
		err := columns.Each(in, func(r *fct) error { rows = append(rows, r.Row); return nil })
		if !errors.Is(err, fail) || fail == nil && len(rows) != 3 || fail != nil && len(rows) != 2 {
			t.Errorf("rows %v, error %v, want error %v", rows, err, fail)
		}
		for i, in := range all {
			if in.closed != 1 {
				t.Errorf("stream %d is closed %d times", i, in.closed)
			}
		}
	}
}
