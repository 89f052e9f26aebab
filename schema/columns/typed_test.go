package columns_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

type place struct {
	Link int32 `col:"link_id"`
}

type observed struct {
	place
	Row     int64        `col:"flow_row"`
	Hop     int16        `col:"hop"`
	Hops    int16        `col:"hops"`
	Blocks  columns.Item `col:"observed"`
	DelayNS int64        `col:"delay_ns"`
}

// checker compares each batch, while it is valid, with the expected rows.
type checker struct {
	t     *testing.T
	rows  []observed
	items *columns.Arena
}

type read struct {
	place
	Row    int64  `col:"flow_row"`
	Hop    int16  `col:"hop"`
	Blocks []byte `col:"observed"`
}

func (c *checker) Write(rec arrow.Record) error {
	all := columns.Append[read](nil, rec)
	n := len(all)
	some := columns.AppendParts(all[:1:1], rec, [][2]int{{0, n / 3}, {n / 2, n}})
	if !reflect.DeepEqual(some, slices.Concat(all[:1], all[:n/3], all[n/2:])) {
		c.t.Fatalf("other rows of parts of a batch of %d", n)
	}
	for _, row := range all {
		want := c.rows[0]
		c.rows = c.rows[1:]
		if row.Row != want.Row || row.Hop != want.Hop || row.place != want.place ||
			string(row.Blocks) != string(c.items.At(int(want.Blocks))) {
			c.t.Fatalf("row %+v is not %+v", row, want)
		}
	}
	return nil
}

// Rows that are written can be read again, in their order or in a given order, for any size of batches and
// any of the columns.
func TestTable(t *testing.T) {
	table := columns.TableOf[observed](schema.HopObservations)
	var items columns.Arena
	var rows []observed
	var places []int32
	for i := range 10_001 {
		items.Add(fmt.Appendf(nil, "%*d", i%7, i))
		rows = append(rows, observed{place{int32(i % 5)}, int64(i), int16(i % 4), 4, columns.Item(i), -1})
		places = append(places, int32((i*7)%10_001))
	}
	ordered := make([]observed, len(rows))
	for i, p := range places {
		ordered[i] = rows[p]
	}
	c := &checker{t, slices.Clone(ordered), &items}
	if err := table.WriteOrdered(c, rows, places, &items); err != nil || len(c.rows) > 0 {
		t.Errorf("%v, %d rows left", err, len(c.rows))
	}
}

type failing struct{}

func (failing) Write(arrow.Record) error { return io.ErrShortWrite }

// A struct without a field for a column, or with a field of another type, panics. An error of the sink is
// returned.
func TestTableRefuses(t *testing.T) {
	type short struct {
		FlowRow int64 `col:"flow_row"`
		FCTNS   int32 `col:"fct_ns"`
		IdealNS int64 `col:"ideal_ns"`
	}
	for name, bind := range map[string]func(){
		"missing": func() { columns.TableOf[place](schema.SenderFCTs) },
		"type":    func() { columns.TableOf[short](schema.SenderFCTs) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: bound", name)
				}
			}()
			bind()
		}()
	}
	table := columns.TableOf[observed](schema.HopObservations)
	var items columns.Arena
	items.Add(nil)
	if err := table.WriteOrdered(failing{}, make([]observed, 1), []int32{0}, &items); !errors.Is(
		err, io.ErrShortWrite) {
		t.Errorf("error %v", err)
	}
}
