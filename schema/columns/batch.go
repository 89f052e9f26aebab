package columns

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
)

// BatchRows is the largest number of rows that stages write in one batch.
const BatchRows = 65_536

// ForEach calls f with each batch of a stream, and releases the batch afterwards, up to the first error. Then it closes
// the stream.
func ForEach(in schema.Batches, f func(arrow.Record) error) (err error) {
	defer func() {
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
	}()
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = f(rec)
		rec.Release()
		if err != nil {
			return err
		}
	}
}

// Int32s returns the values of a column, valid until the batch is released.
func Int32s(rec arrow.Record, name string) []int32 {
	return Named(rec, name).(*array.Int32).Int32Values()
}

// Int64s returns the values of a column, valid until the batch is released.
func Int64s(rec arrow.Record, name string) []int64 {
	return Named(rec, name).(*array.Int64).Int64Values()
}

// Float64s returns the values of a column, valid until the batch is released.
func Float64s(rec arrow.Record, name string) []float64 {
	return Named(rec, name).(*array.Float64).Float64Values()
}

// Text returns a column of strings. Its values are valid until the batch is released.
func Text(rec arrow.Record, name string) *array.String { return Named(rec, name).(*array.String) }

// Named returns a column of any type. It panics if the batch does not have exactly one column of that name.
func Named(rec arrow.Record, name string) arrow.Array {
	at := rec.Schema().FieldIndices(name)
	if len(at) != 1 {
		panic(fmt.Sprintf("columns: batch has %d columns %q: %s", len(at), name, rec.Schema()))
	}
	return rec.Column(at[0])
}
