package bundle

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
)

// A TableDigest identifies the rows of a table, in any order.
type TableDigest struct {
	Table   string   `json:"table"`
	Rows    int64    `json:"rows"`
	Columns []string `json:"columns"` // in the order in which a row's values are hashed
	// Digest is the sum of the XXH3 hashes of all rows, modulo 2^128, as 32 hexadecimal digits.
	Digest string `json:"digest"`
}

// digestColumns returns the columns of a table whose values are compared. Column cached only says whether a
// result came from the cache.
func digestColumns(t schema.Table) []string {
	var found []string
	for _, name := range names.Of(t.Columns, func(c schema.Column) string { return c.Name }) {
		if name != "cached" {
			found = append(found, name)
		}
	}
	return found
}

// digestRows digests the given columns of a stream, and closes the stream.
func digestRows(ctx context.Context, in schema.Batches, of []string) (rows int64, digest string, err error) {
	var sum xxh3.Uint128
	var row []byte
	err = columns.ForEach(in, func(rec arrow.Record) error {
		appenders := make([]func(to []byte, i int) []byte, len(of))
		for k, name := range of {
			column := columns.Named(rec, name)
			appenders[k] = appenderOf(column)
			if appenders[k] == nil {
				return fmt.Errorf("column %s has type %s, which has no digest", name, column.DataType())
			}
		}
		for i := range int(rec.NumRows()) {
			row = row[:0]
			for _, appendTo := range appenders {
				row = appendTo(row, i)
			}
			hash := xxh3.Hash128(row)
			var carry uint64
			sum.Lo, carry = bits.Add64(sum.Lo, hash.Lo, 0)
			sum.Hi, _ = bits.Add64(sum.Hi, hash.Hi, carry)
		}
		rows += rec.NumRows()
		return ctx.Err()
	}, of...)
	return rows, fmt.Sprintf("%016x%016x", sum.Hi, sum.Lo), err
}

// appenderOf returns a function that appends the bytes of one value of a column. Different values have
// different bytes, and no value's bytes begin with those of another. It returns nil for types that no table
// has.
func appenderOf(column arrow.Array) func(to []byte, i int) []byte {
	value := valueAppender(column)
	if value == nil {
		return nil
	}
	return func(to []byte, i int) []byte {
		if column.IsNull(i) {
			return append(to, 0)
		}
		return value(append(to, 1), i)
	}
}

// valueAppender is appenderOf for values that are not null.
func valueAppender(column arrow.Array) func(to []byte, i int) []byte {
	little := binary.LittleEndian
	switch a := column.(type) {
	case *array.Int16:
		return func(to []byte, i int) []byte { return little.AppendUint16(to, uint16(a.Value(i))) }
	case *array.Int32:
		return func(to []byte, i int) []byte { return little.AppendUint32(to, uint32(a.Value(i))) }
	case *array.Int64:
		return func(to []byte, i int) []byte { return little.AppendUint64(to, uint64(a.Value(i))) }
	case *array.Float64:
		return func(to []byte, i int) []byte { return little.AppendUint64(to, math.Float64bits(a.Value(i))) }
	case *array.Boolean:
		return func(to []byte, i int) []byte {
			if a.Value(i) {
				return append(to, 1)
			}
			return append(to, 0)
		}
	case *array.String:
		return func(to []byte, i int) []byte {
			text := a.Value(i)
			return append(little.AppendUint64(to, uint64(len(text))), text...)
		}
	case *array.Binary:
		return func(to []byte, i int) []byte {
			item := a.Value(i)
			return append(little.AppendUint64(to, uint64(len(item))), item...)
		}
	case *array.List:
		item := appenderOf(a.ListValues())
		if item == nil {
			return nil
		}
		return func(to []byte, i int) []byte {
			from, end := a.ValueOffsets(i)
			to = little.AppendUint64(to, uint64(end-from))
			for k := from; k < end; k++ {
				to = item(to, int(k))
			}
			return to
		}
	}
	return nil
}
