package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
)

// A decoder reads column chunks into Arrow columns. Its memory is used again for the next chunk.
type decoder struct {
	int32s []int32
	int16s []int16
	values []parquet.Value
}

// read reads rows from..to of a column chunk of an open file.
func (d *decoder) read(in io.ReaderAt, chunk *parquet.FileColumnChunk, c schema.Column,
	from, to int64) (arrow.Array, error) {
	b := array.NewBuilder(&Recycled, c.Type)
	defer b.Release()
	b.Reserve(int(min(to-from, rowGroupRows)))
	pages := chunk.PagesFrom(in)
	defer func() { _ = pages.Close() }() // only read
	if from > 0 {
		if _, err := chunk.OffsetIndexFrom(in); err != nil && !errors.Is(err, parquet.ErrMissingOffsetIndex) {
			return nil, err
		}
		if err := pages.SeekToRow(from); err != nil {
			return nil, err
		}
	}
	for from < to {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		rows := min(page.NumRows(), to-from)
		wanted, before := page, b.Len()
		if rows < page.NumRows() {
			wanted = page.Slice(0, rows)
		}
		err = d.appendPage(b, wanted)
		parquet.Release(page)
		if err != nil {
			return nil, err
		}
		if got := b.Len() - before; got != int(rows) {
			return nil, fmt.Errorf("a page of %d rows has %d values", rows, got)
		}
		from += rows
	}
	if b.NullN() > 0 && !c.Nullable {
		return nil, errors.New("it has nulls")
	}
	return b.NewArray(), nil
}

// appendPage appends all rows of a page. Where none is null they are copied together, else one by one.
func (d *decoder) appendPage(b array.Builder, page parquet.Page) error {
	if page.NumNulls() > 0 || page.RepetitionLevels() != nil {
		return d.appendValues(b, page)
	}
	data, dictionary := page.Data(), page.Dictionary()
	switch b := b.(type) {
	case *array.Int16Builder:
		d.int16s = d.int16s[:0]
		for _, v := range d.int32sOf(page) {
			d.int16s = append(d.int16s, int16(v))
		}
		b.AppendValues(d.int16s, nil)
		return nil
	case *array.Int32Builder:
		b.AppendValues(d.int32sOf(page), nil)
		return nil
	case *array.Int64Builder:
		if dictionary == nil {
			b.AppendValues(data.Int64(), nil)
			return nil
		}
	case *array.Float64Builder:
		if dictionary == nil {
			b.AppendValues(data.Double(), nil)
			return nil
		}
	case *array.StringBuilder:
		appendBytes(b.BinaryBuilder, page)
		return nil
	case *array.BinaryBuilder:
		appendBytes(b, page)
		return nil
	}
	return d.appendValues(b, page)
}

// int32sOf returns the values of a page without nulls, valid until the next call.
func (d *decoder) int32sOf(page parquet.Page) []int32 {
	data := page.Data()
	if page.Dictionary() == nil {
		return data.Int32()
	}
	distinct := page.Dictionary().Page().Data()
	values := distinct.Int32()
	d.int32s = d.int32s[:0]
	for _, i := range data.Int32() {
		d.int32s = append(d.int32s, values[i])
	}
	return d.int32s
}

// appendBytes appends byte strings without nulls.
func appendBytes(b *array.BinaryBuilder, page parquet.Page) {
	data := page.Data()
	if page.Dictionary() == nil {
		items, ends := data.ByteArray()
		b.ReserveData(int(ends[len(ends)-1] - ends[0]))
		for i := range len(ends) - 1 {
			b.Append(items[ends[i]:ends[i+1]])
		}
		return
	}
	distinct := page.Dictionary().Page().Data()
	items, ends := distinct.ByteArray()
	for _, i := range data.Int32() {
		b.Append(items[ends[i]:ends[i+1]])
	}
}

// appendValues appends all rows of a page, value by value.
func (d *decoder) appendValues(b array.Builder, page parquet.Page) error {
	if d.values == nil {
		d.values = make([]parquet.Value, valueChunk)
	}
	for in := page.Values(); ; {
		n, err := in.ReadValues(d.values)
		for _, v := range d.values[:n] {
			if err := appendValue(b, v); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// appendValue appends one value. A list without items is a value that is null.
func appendValue(b array.Builder, v parquet.Value) error {
	if list, ok := b.(*array.ListBuilder); ok {
		if v.RepetitionLevel() == 0 {
			list.Append(true)
		}
		if v.IsNull() {
			return nil
		}
		return appendValue(list.ValueBuilder(), v)
	}
	if v.IsNull() {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.Int16Builder:
		b.Append(int16(v.Int32()))
	case *array.Int32Builder:
		b.Append(v.Int32())
	case *array.Int64Builder:
		b.Append(v.Int64())
	case *array.Float64Builder:
		b.Append(v.Double())
	case *array.BooleanBuilder:
		b.Append(v.Boolean())
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v.ByteArray())
	case *array.BinaryBuilder:
		b.Append(v.ByteArray())
	default:
		return fmt.Errorf("cannot read Arrow type %s", b.Type())
	}
	return nil
}
