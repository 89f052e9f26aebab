// Package parquet writes and reads tables as Parquet files, using parquet-go.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"parsimon/schema"
	"parsimon/schema/names"
)

// rowGroupRows is the maximum number of rows of a row group. Row groups are small enough that a reader of one
// range of links or flows can skip nearly all other rows by the minimum and maximum of the sort column. They
// are large enough to compress well.
const rowGroupRows = 32_768

// pageRows is the maximum number of rows of a page. With small pages, a reader of a few links or flows need
// not decode a whole row group. A row group has an integral number of pages. In temporary tables, which can
// have long rows, it has one page.
const pageRows = 8_192

// valueChunk is the number of values that are passed to a Parquet column at a time. A value takes 24 bytes,
// so a chunk fits into the first-level cache.
const valueChunk = 512

var zstdFast = &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}

// A Writer writes the record batches of one table into one Parquet file.
type Writer struct {
	table   schema.Table
	w       *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	types   columnTypes
	values  []parquet.Value
	int32s  []int32
	int64s  []int64
	bools   []bool
	limit   int64 // maximum number of rows of a row group
	group   int64 // number of rows in the open row group
	rows    int64

	keys   [][]parquet.Value // of each key, valueChunk copies of its value
	starts int               // index of column start_ns, from which columns are derived; -1: none
}

// A Key is a column of a file with one value in all rows.
type Key struct{ Column, Value string }

// NewWriter starts a Parquet file of the table on out. The file has the columns of the table, the keys
// and, if the table has start times, the columns schema.StartTime and schema.StartDay.
// Over a million rows, keys take 0.03 bytes a row, and the two other columns 0.4 bytes together.
func NewWriter(t schema.Table, out io.Writer, keys ...Key) *Writer {
	sorting := names.Of(t.Sort, func(name string) parquet.SortingColumn { return parquet.Ascending(name) })
	fileSchema, types := parquetSchema(t, keys)
	options := []parquet.WriterOption{
		fileSchema,
		parquet.CreatedBy("parsimon", strconv.Itoa(schema.Version), ""),
		parquet.SortingWriterConfig(parquet.SortingColumns(sorting...)),
		parquet.Compression(zstdFast),
		parquet.DataPageStatistics(false),
		parquet.WriteBufferSize(128 << 10),
	}
	for _, c := range t.Columns {
		if c.Type.ID() == arrow.BINARY { // its order is not useful
			options = append(options, parquet.SkipPageBounds(c.Name))
		}
	}
	w := parquet.NewGenericWriter[any](out, options...)
	w.SetKeyValueMetadata(schema.VersionKey, strconv.Itoa(schema.Version))
	w.SetKeyValueMetadata(schema.TableKey, t.Name)
	limit := int64(rowGroupRows)
	if t.Temporary {
		limit = pageRows
	}
	tw := &Writer{table: t, w: w, columns: w.ColumnWriters(), types: types, limit: limit, starts: -1}
	tw.values = make([]parquet.Value, 0, valueChunk)
	for i := range tw.columns {
		numbers := types.plain[i] != nil || types.nullable[i] != nil
		if numbers || types.dictionary[i] != nil || types.lists[i] != nil {
			_, _ = tw.columns[i].WriteRowValues(tw.values) // none; this creates the buffer
		}
	}
	for _, k := range keys {
		value := []parquet.Value{parquet.ByteArrayValue([]byte(k.Value))}
		tw.keys = append(tw.keys, slices.Repeat(value, valueChunk))
	}
	if t.HasStart() {
		tw.starts = t.Index("start_ns")
	}
	return tw
}

// CreateFile begins a file of a table outside the lake.
func CreateFile(t schema.Table, path string) (schema.SinkFile, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &writtenFile{NewWriter(t, f), f}, nil
}

type writtenFile struct {
	*Writer
	file *os.File
}

// Close completes the file.
func (w *writtenFile) Close() error { return errors.Join(w.Writer.Close(), w.file.Close()) }

// columnTypes are the types of the columns of a file whose buffers take slices, and nil for others.
type columnTypes struct {
	plain      []*bufferedType
	nullable   []*nullableType
	dictionary []*dictionaryType
	lists      []*listType
}

// types maps the column types of tables to Parquet types and encodings.
var types = map[arrow.Type]struct {
	kind     parquet.Kind
	field    reflect.Type
	encoding string
}{
	arrow.INT16:   {parquet.Int32, reflect.TypeFor[int16](), ",delta"},
	arrow.INT32:   {parquet.Int32, reflect.TypeFor[int32](), ",delta"},
	arrow.INT64:   {parquet.Int64, reflect.TypeFor[int64](), ",delta"},
	arrow.FLOAT64: {parquet.Double, reflect.TypeFor[float64](), ""},
	arrow.BOOL:    {parquet.Boolean, reflect.TypeFor[bool](), ""},
	arrow.STRING:  {parquet.ByteArray, reflect.TypeFor[string](), ",dict"},
	arrow.BINARY:  {parquet.ByteArray, reflect.TypeFor[[]byte](), ""},
	arrow.LIST:    {parquet.Double, reflect.TypeFor[[]float64](), ",list"},
}

// parquetSchema returns the table's Parquet schema, with the columns in the table's order, and the types of
// the columns whose buffers take slices. parquet-go uses the field order of a struct, so the struct type is
// built from the table.
func parquetSchema(t schema.Table, keys []Key) (*parquet.Schema, columnTypes) {
	fields := make([]reflect.StructField, len(t.Columns))
	for i, c := range t.Columns {
		typ := types[c.Type.ID()].field
		encoding := types[c.Type.ID()].encoding
		if c.Nullable {
			if arrow.IsInteger(c.Type.ID()) {
				encoding = "" // parquet-go has no tag for pointers: see deltaField
			}
			typ = reflect.PointerTo(typ)
		}
		if t.Temporary { // read once or twice, then removed
			encoding = ""
		}
		encoding += compression(t, c)
		fields[i] = reflect.StructField{
			Name: "F" + strconv.Itoa(i), Type: typ,
			Tag: reflect.StructTag(`parquet:"` + c.Name + encoding + `"`),
		}
	}
	derived := func(name, encoding string, typ reflect.Type) {
		fields = append(fields, reflect.StructField{
			Name: "F" + strconv.Itoa(len(fields)), Type: typ,
			Tag: reflect.StructTag(`parquet:"` + name + encoding + `"`),
		})
	}
	for _, k := range keys {
		derived(k.Column, ",dict", reflect.TypeFor[string]())
	}
	if t.HasStart() {
		derived(schema.StartTime, ",timestamp(microsecond),delta,uncompressed", reflect.TypeFor[int64]())
		derived(schema.StartDay, ",date,delta,uncompressed", reflect.TypeFor[int32]())
	}
	plain := parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
	buffered := bufferedSchema{plain, plain.Fields()}
	types := buffered.setTypes(t, len(keys))
	return parquet.NewSchema(t.Name, buffered), types
}

// setTypes gives the columns that take slices, and the keys, types whose buffers do. It returns these types.
func (s bufferedSchema) setTypes(t schema.Table, keys int) columnTypes {
	n := len(s.fields)
	types := columnTypes{
		make([]*bufferedType, n), make([]*nullableType, n), make([]*dictionaryType, n), make([]*listType, n),
	}
	for i, f := range s.fields {
		isKey := i >= len(t.Columns) && i < len(t.Columns)+keys
		switch {
		case !f.Leaf():
			types.lists[i] = &listType{Type: numbersOf(f)}
			s.fields[i] = withNumbers(f, types.lists[i])
		case isKey:
			s.fields[i] = typedField{f, keyType{f.Type()}}
		case takesSlices(f):
			types.plain[i] = &bufferedType{Type: f.Type()}
			s.fields[i] = typedField{f, types.plain[i]}
		case hasDictionary(f):
			types.dictionary[i] = &dictionaryType{Type: f.Type()}
			s.fields[i] = typedField{f, types.dictionary[i]}
		case isNullable(f):
			types.nullable[i] = &nullableType{Type: f.Type()}
			if !t.Temporary {
				f = deltaField{f}
			}
			s.fields[i] = typedField{f, types.nullable[i]}
		}
	}
	return types
}

// compression returns the tag of a column's compression, which is empty for zstd. Integers are bit-packed, after
// which zstd gains almost nothing (a factor of 1.00 to 1.05 on tables of millions of rows). The times of paths
// in table hops are an exception: with zstd they take 2.4 bytes a row less, but 1.7 to 2.9 times as long.
// Small numbers that can be null have few distinct values, and are compressed. Fractions, other than those of
// lists, are compressed with Snappy: they take 1.04 to 1.14 times as many bytes as with zstd, and half of the
// time. Temporary tables are not compressed, because they are removed soon.
func compression(t schema.Table, c schema.Column) string {
	const none = ",uncompressed"
	if t.Temporary {
		return none
	}
	switch c.Type.ID() {
	case arrow.INT16:
		if !c.Nullable {
			return none
		}
	case arrow.INT32, arrow.INT64:
		return none
	case arrow.FLOAT64:
		return ",snappy"
	}
	return ""
}

// Write appends a batch, which must have the columns of the table.
func (tw *Writer) Write(rec arrow.Record) error {
	if int(rec.NumCols()) != len(tw.table.Columns) {
		return fmt.Errorf("table %s has %d columns, the batch %d", tw.table.Name, len(tw.table.Columns),
			rec.NumCols())
	}
	n := int(rec.NumRows())
	for at := 0; at < n; {
		take := min(n-at, int(pageRows-tw.group%pageRows))
		for i, col := range rec.Columns() {
			if err := tw.writeColumn(i, col, at, at+take); err != nil {
				return fmt.Errorf("column %s: %w", tw.table.Columns[i].Name, err)
			}
		}
		if err := tw.writeDerived(rec, at, at+take); err != nil {
			return err
		}
		at += take
		tw.group += int64(take)
		tw.rows += int64(take)
		if tw.group%pageRows == 0 && tw.group < tw.limit {
			for _, c := range tw.columns {
				if err := c.Flush(); err != nil {
					return err
				}
			}
		}
		if tw.group == tw.limit {
			if err := tw.w.Flush(); err != nil {
				return err
			}
			tw.group = 0
		}
	}
	return nil
}

// nsPerDay and nsPerMicrosecond convert start times.
const nsPerDay, nsPerMicrosecond = 24 * 3600 * 1e9, 1000

// writeDerived writes rows from..to of the columns that are not columns of the table.
func (tw *Writer) writeDerived(rec arrow.Record, from, to int) error {
	derived := tw.columns[len(tw.table.Columns):]
	for i, values := range tw.keys {
		for at := from; at < to; at += valueChunk {
			if _, err := derived[i].WriteRowValues(values[:min(valueChunk, to-at)]); err != nil {
				return err
			}
		}
	}
	if tw.starts < 0 {
		return nil
	}
	starts, ok := rec.Column(tw.starts).(*array.Int64)
	if !ok {
		return fmt.Errorf("column start_ns is of type %s", rec.Column(tw.starts).DataType())
	}
	tw.int64s = tw.int64s[:0]
	for _, ns := range starts.Int64Values()[from:to] {
		tw.int64s = append(tw.int64s, floorDivide(ns, nsPerMicrosecond))
	}
	times := len(tw.table.Columns) + len(tw.keys)
	if err := writeSlice(tw.types.plain[times], tw.int64s); err != nil {
		return err
	}
	tw.int32s = tw.int32s[:0]
	for _, ns := range starts.Int64Values()[from:to] {
		tw.int32s = append(tw.int32s, int32(floorDivide(ns, nsPerDay)))
	}
	return writeSlice(tw.types.plain[times+1], tw.int32s)
}

func floorDivide(x, by int64) int64 {
	q := x / by
	if x%by < 0 {
		q--
	}
	return q
}

// writeColumn writes rows from..to of an Arrow column to a Parquet column.
func (tw *Writer) writeColumn(index int, col arrow.Array, from, to int) error {
	plain := tw.types.plain[index]
	nullable := tw.types.nullable[index]
	dictionary := tw.types.dictionary[index]
	isNullable := tw.table.Columns[index].Nullable
	switch {
	case plain != nil:
		return tw.writeNumbers(plain, col, from, to)
	case nullable != nil:
		return tw.writeNullable(tw.columns[index], nullable.buffer, col, from, to)
	}
	if texts, ok := col.(*array.String); ok && dictionary != nil && !isNullable {
		dictionary.buffer.writeTexts(texts, from, to)
		return nil
	}
	if list, ok := col.(*array.List); ok && tw.types.lists[index] != nil {
		return writeLists(tw.columns[index], tw.types.lists[index].buffer, list, from, to)
	}
	return tw.writeValues(index, col, from, to)
}

// writeValues writes rows from..to of an Arrow column to a Parquet column whose buffer takes no slices, in
// chunks.
func (tw *Writer) writeValues(index int, col arrow.Array, from, to int) error {
	out := tw.columns[index]
	for from < to {
		end := min(to, from+valueChunk)
		values := tw.values[:end-from]
		switch a := col.(type) {
		case *array.Float64:
			for i, v := range a.Float64Values()[from:end] {
				values[i] = parquet.DoubleValue(v)
			}
		case *array.Boolean:
			for i := range values {
				values[i] = parquet.BooleanValue(a.Value(from + i))
			}
		case *array.Binary:
			for i := range values {
				values[i] = parquet.ByteArrayValue(a.Value(from + i))
			}
		case *array.String:
			for i := range values {
				v := a.Value(from + i) // copied if it is kept
				values[i] = parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(v), len(v)))
			}
		default:
			return fmt.Errorf("cannot write Arrow type %s", col.DataType())
		}
		if tw.table.Columns[index].Nullable { // other columns need no definition levels
			for i := range values {
				if col.IsNull(from + i) {
					values[i] = parquet.NullValue().Level(0, 0, index)
				} else {
					values[i] = values[i].Level(0, 1, index)
				}
			}
		}
		if _, err := out.WriteRowValues(values); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// writeNumbers writes rows from..to of an Arrow column to a Parquet column whose buffer takes slices.
func (tw *Writer) writeNumbers(out *bufferedType, col arrow.Array, from, to int) error {
	switch a := col.(type) {
	case *array.Int16:
		tw.int32s = tw.int32s[:0]
		for _, v := range a.Int16Values()[from:to] {
			tw.int32s = append(tw.int32s, int32(v))
		}
		return writeSlice(out, tw.int32s)
	case *array.Int32:
		return writeSlice(out, a.Int32Values()[from:to])
	case *array.Int64:
		return writeSlice(out, a.Int64Values()[from:to])
	case *array.Float64:
		return writeSlice(out, a.Float64Values()[from:to])
	case *array.Boolean:
		tw.bools = tw.bools[:0]
		for i := from; i < to; i++ {
			tw.bools = append(tw.bools, a.Value(i))
		}
		return writeSlice(out, tw.bools)
	}
	return fmt.Errorf("cannot write Arrow type %s", col.DataType())
}

// Close completes the file.
func (tw *Writer) Close() error {
	err := tw.w.Close()
	for _, t := range tw.types.plain {
		if t == nil {
			continue
		}
		if b, ok := t.buffer.(interface{ release() }); ok {
			b.release()
		}
	}
	return err
}

// Rows returns the number of rows written so far.
func (tw *Writer) Rows() int64 { return tw.rows }
