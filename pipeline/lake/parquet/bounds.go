package parquet

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Bounds are the minimum and the maximum of integer columns, by name. The digest of a file in a lake from an
// untrusted source says nothing about its values. Without bounds, link number 2^31 would be used to index a
// slice, and a count to allocate one.
type Bounds map[string][2]int64

// Within makes the reader reject values outside the bounds. Nulls are accepted.
func (r *Reader) Within(b Bounds) *Reader {
	r.bounds = b
	return r
}

// check returns an error for the first value of a column that is out of bounds. first is the number of the
// column's first row in the file.
func (b Bounds) check(table, column string, values arrow.Array, first int64) error {
	bounds, ok := b[column]
	if !ok {
		return nil
	}
	at := -1
	var value int64
	switch a := values.(type) {
	case *array.Int64:
		at = outside(a.Int64Values(), a, bounds)
		if at >= 0 {
			value = a.Value(at)
		}
	case *array.Int32:
		at = outside(a.Int32Values(), a, bounds)
		if at >= 0 {
			value = int64(a.Value(at))
		}
	case *array.Int16:
		at = outside(a.Int16Values(), a, bounds)
		if at >= 0 {
			value = int64(a.Value(at))
		}
	}
	if at < 0 {
		return nil
	}
	return fmt.Errorf("table %s, row %d: %s is %d, want %d to %d", table, first+int64(at)+1, column, value,
		bounds[0], bounds[1])
}

// outside returns the index of the first value that is neither null nor within the bounds, or -1 if there is
// none.
func outside[T int16 | int32 | int64](values []T, a arrow.Array, bounds [2]int64) int {
	// Values below the bounds are large numbers without a sign.
	span := uint64(bounds[1] - bounds[0])
	for i, v := range values {
		if uint64(int64(v)-bounds[0]) > span && a.IsValid(i) {
			return i
		}
	}
	return -1
}
