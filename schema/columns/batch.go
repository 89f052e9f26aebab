package columns

import (
	"errors"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
)

// A batch is a record batch whose columns are found by name. What it answers is valid until the batch
// is released.
type Batch struct{ arrow.Record }

func (b Batch) named(name string) arrow.Array {
	return b.Column(b.Schema().FieldIndices(name)[0])
}

func (b Batch) Int64s(name string) []int64     { return b.named(name).(*array.Int64).Int64Values() }
func (b Batch) Int32s(name string) []int32     { return b.named(name).(*array.Int32).Int32Values() }
func (b Batch) Float64s(name string) []float64 { return b.named(name).(*array.Float64).Float64Values() }
func (b Batch) Strings(name string) *array.String {
	return b.named(name).(*array.String)
}

// byName hands every batch of a stream to do, by names of columns, releases it, and closes the stream.
func EachBatch(in schema.Batches, do func(b Batch)) error {
	return EachRecord(in, func(rec arrow.Record) error {
		do(Batch{rec})
		return nil
	})
}

// eachBatch hands every batch of a stream to f and releases it.
func EachRecord(in schema.Batches, f func(arrow.Record) error) error {
	defer func() { _ = in.Close() }() // it was read to its end, or an error is reported
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
