package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"parsimon/schema"
)

// This file is the only one that knows how record batches become Parquet and back: parquet-go
// writes (it is the faster writer and streams), Arrow's pqarrow reads (it decodes into Arrow
// columns directly).

// rowGroupRows bounds a row group. Small enough that the minima and maxima of the sort column let a
// reader of one link or flow range skip nearly everything else, large enough to compress.
const rowGroupRows = 32_768

// pageRows bounds a page, so that a reader who wants a few links or flows of a row group need not decode
// the rest of it. Row groups have a whole number of them.
const pageRows = 8_192

// valueChunk is how many values go to a Parquet column at a time: 24 bytes each, so that they stay
// in the first-level cache.
const valueChunk = 512

var zstdFast = &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}

// A tableWriter writes the record batches of one table into one Parquet file.
type tableWriter struct {
	table   schema.Table
	w       *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	values  []parquet.Value
	group   int64 // rows in the open row group
	rows    int64
}

// newTableWriter starts a Parquet file of the table on out.
func newTableWriter(t schema.Table, out io.Writer) *tableWriter {
	sorting := make([]parquet.SortingColumn, len(t.Sort))
	for i, name := range t.Sort {
		sorting[i] = parquet.Ascending(name)
	}
	w := parquet.NewGenericWriter[any](out, parquetSchema(t),
		parquet.CreatedBy("parsimon", strconv.Itoa(schema.Version), ""),
		parquet.SortingWriterConfig(parquet.SortingColumns(sorting...)),
		parquet.Compression(zstdFast),
		parquet.DataPageStatistics(false),
		parquet.PageBufferSize(256<<10),
		parquet.WriteBufferSize(1<<20))
	w.SetKeyValueMetadata(schema.VersionKey, strconv.Itoa(schema.Version))
	w.SetKeyValueMetadata(schema.TableKey, t.Name)
	return &tableWriter{table: t, w: w, columns: w.ColumnWriters(), values: make([]parquet.Value, 0, valueChunk)}
}

// parquetSchema is the table's Parquet schema, columns in the table's order. parquet-go takes the
// order of a struct's fields, so the struct is made from the table.
func parquetSchema(t schema.Table) *parquet.Schema {
	fields := make([]reflect.StructField, len(t.Columns))
	for i, c := range t.Columns {
		var typ reflect.Type
		encoding := ""
		switch c.Type.ID() {
		case arrow.INT16:
			typ, encoding = reflect.TypeFor[int16](), ",dict"
		case arrow.INT32:
			typ, encoding = reflect.TypeFor[int32](), ",dict"
		case arrow.INT64:
			typ, encoding = reflect.TypeFor[int64](), ",delta"
		case arrow.FLOAT64:
			typ = reflect.TypeFor[float64]()
		case arrow.BOOL:
			typ = reflect.TypeFor[bool]()
		case arrow.STRING:
			typ, encoding = reflect.TypeFor[string](), ",dict"
		case arrow.BINARY:
			typ = reflect.TypeFor[[]byte]()
		case arrow.LIST:
			typ, encoding = reflect.TypeFor[[]float64](), ",list"
		default:
			panic("pipeline: no Parquet type for column " + c.Name)
		}
		if c.Nullable {
			if encoding == ",delta" {
				encoding = "" // parquet-go has none for pointers
			}
			typ = reflect.PointerTo(typ)
		}
		fields[i] = reflect.StructField{
			Name: "F" + strconv.Itoa(i), Type: typ,
			Tag: reflect.StructTag(`parquet:"` + c.Name + encoding + `"`),
		}
	}
	row := reflect.New(reflect.StructOf(fields)).Interface()
	return parquet.NewSchema(t.Name, parquet.SchemaOf(row))
}

// write appends a batch. Its columns must be those of the table.
func (tw *tableWriter) write(rec arrow.Record) error {
	if int(rec.NumCols()) != len(tw.table.Columns) {
		return fmt.Errorf("table %s has %d columns, the batch %d", tw.table.Name, len(tw.table.Columns), rec.NumCols())
	}
	n := int(rec.NumRows())
	for at := 0; at < n; {
		take := min(n-at, int(pageRows-tw.group%pageRows))
		for i, col := range rec.Columns() {
			if err := tw.writeColumn(i, col, at, at+take); err != nil {
				return fmt.Errorf("column %s: %w", tw.table.Columns[i].Name, err)
			}
		}
		at += take
		tw.group += int64(take)
		tw.rows += int64(take)
		if tw.group%pageRows == 0 && tw.group < rowGroupRows {
			for _, c := range tw.columns {
				if err := c.Flush(); err != nil {
					return err
				}
			}
		}
		if tw.group == rowGroupRows {
			if err := tw.w.Flush(); err != nil {
				return err
			}
			tw.group = 0
		}
	}
	return nil
}

// writeColumn hands rows from..to of an Arrow column to a Parquet column, a chunk at a time.
func (tw *tableWriter) writeColumn(index int, col arrow.Array, from, to int) error {
	out := tw.columns[index]
	if list, ok := col.(*array.List); ok {
		return tw.writeList(out, index, list, from, to)
	}
	for from < to {
		end := min(to, from+valueChunk)
		values := tw.values[:end-from]
		switch a := col.(type) {
		case *array.Int16:
			for i, v := range a.Int16Values()[from:end] {
				values[i] = parquet.Int32Value(int32(v))
			}
		case *array.Int32:
			for i, v := range a.Int32Values()[from:end] {
				values[i] = parquet.Int32Value(v)
			}
		case *array.Int64:
			for i, v := range a.Int64Values()[from:end] {
				values[i] = parquet.Int64Value(v)
			}
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
				v := a.Value(from + i) // copied where it is kept
				values[i] = parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(v), len(v)))
			}
		default:
			return fmt.Errorf("cannot write Arrow type %s", col.DataType())
		}
		if tw.table.Columns[index].Nullable { // only there do levels say anything
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

func (tw *tableWriter) writeList(out *parquet.ColumnWriter, index int, list *array.List, from, to int) error {
	items, ok := list.ListValues().(*array.Float64)
	if !ok {
		return fmt.Errorf("cannot write Arrow type %s", list.DataType())
	}
	var values []parquet.Value
	for i := from; i < to; i++ {
		start, end := list.ValueOffsets(i)
		values = values[:0]
		for j := start; j < end; j++ {
			rep := 1
			if j == start {
				rep = 0
			}
			values = append(values, parquet.DoubleValue(items.Value(int(j))).Level(rep, 1, index))
		}
		if len(values) == 0 {
			values = append(values, parquet.NullValue().Level(0, 0, index))
		}
		if _, err := out.WriteRowValues(values); err != nil {
			return err
		}
	}
	return nil
}

// close completes the file.
func (tw *tableWriter) close() error { return tw.w.Close() }

// A keyRange keeps the row groups whose column may hold a value in [lo, hi). It prunes; it does not
// filter: rows outside the range can still come along.
type keyRange struct {
	column string
	lo, hi int64
}

// openTable streams the given columns (all if nil) of Parquet files of one table, file after file.
func openTable(t schema.Table, files []string, columns []string, keep *keyRange) schema.Batches {
	return &tableReader{table: t, files: files, columns: columns, keep: keep}
}

type tableReader struct {
	table   schema.Table
	files   []string
	footers *footers // nil: read every time
	columns []string
	keep    *keyRange
	open    *parquetFile
	groups  []int // of the open file, wanted and not read yet
	indices []int // of the open file's columns
	schema  *arrow.Schema
	decoder columnReader
	records pqarrow.RecordReader // for files that a columnReader cannot read
	err     error
}

func (r *tableReader) Next() (arrow.Record, error) {
	for r.err == nil {
		if r.open == nil {
			if len(r.files) == 0 {
				r.err = io.EOF
				break
			}
			r.err = r.openNext()
			continue
		}
		rec, err := r.read()
		switch {
		case err == nil && rec.NumRows() > 0:
			return rec, nil
		case err == nil:
			rec.Release()
		case !errors.Is(err, io.EOF):
			r.err = fmt.Errorf("%s: %w", r.files[0], err)
		default:
			r.err = r.closeFile()
			r.files = r.files[1:]
		}
	}
	return nil, r.err
}

// read takes the next batch of the open file, which may be empty. Decoders panic on some damaged pages;
// that becomes an error like any other.
func (r *tableReader) read() (rec arrow.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged Parquet file: %v", p)
		}
	}()
	if r.records != nil {
		if rec, err = r.records.Read(); err == nil {
			rec.Retain() // the reader releases its own hold at the next Read
		}
		return rec, err
	}
	if len(r.groups) == 0 {
		return nil, io.EOF
	}
	group := r.groups[0]
	r.groups = r.groups[1:]
	return r.readGroup(group)
}

// readGroup decodes the wanted rows of a row group: where the file is sorted by what the range is of, no
// others.
func (r *tableReader) readGroup(group int) (arrow.Record, error) {
	from, to := 0, int(r.open.MetaData().RowGroup(group).NumRows())
	if r.keep != nil && sorted(r.table, r.keep.column) {
		lo, hi, ok, err := r.bounds(r.open, group)
		if err != nil {
			return nil, err
		}
		if !ok || lo < r.keep.lo || hi >= r.keep.hi {
			at := r.table.Index(r.keep.column)
			keys, err := r.decoder.read(r.open, group, r.open.MetaData().Schema.ColumnIndexByName(r.keep.column), from, to, r.table.Columns[at].Type)
			if err != nil {
				return nil, err
			}
			from, to, err = sortedRange(keys, r.keep.lo, r.keep.hi)
			keys.Release()
			if err != nil {
				return nil, err
			}
		}
	}
	columns := make([]arrow.Array, 0, len(r.indices))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, index := range r.indices {
		c, err := r.decoder.read(r.open, group, index, from, max(from, to), r.schema.Field(i).Type)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return array.NewRecord(r.schema, columns, int64(max(0, to-from))), nil
}

// openNext opens the first of the files and, unless no row group of it is wanted, its records.
func (r *tableReader) openNext() (err error) {
	path := r.files[0]
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged Parquet file: %v", path, p)
		}
	}()
	f, err := r.footers.open(path)
	if err != nil {
		return err
	}
	r.open = f
	if err := checkTable(path, f.MetaData(), r.table); err != nil {
		return err
	}
	if r.groups, err = r.rowGroups(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(r.groups) == 0 {
		r.files = r.files[1:]
		return r.closeFile()
	}
	names := r.columns
	if names == nil {
		for _, c := range r.table.Columns {
			names = append(names, c.Name)
		}
	}
	r.indices = r.indices[:0]
	fields := make([]arrow.Field, len(names))
	simple := true
	for i, name := range names {
		index := f.MetaData().Schema.ColumnIndexByName(leafName(r.table, name))
		fields[i] = r.table.Arrow().Field(r.table.Index(name))
		r.indices = append(r.indices, index)
		simple = simple && flat(f, index, fields[i].Type)
		// pqarrow looks at column chunks on goroutines of its own, where a panic over damage could not be
		// caught: look at them here first.
		for _, g := range r.groups {
			if _, err := f.MetaData().RowGroup(g).ColumnChunk(index); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			simple = simple && flatPages(f, g, index)
		}
	}
	if simple {
		r.schema = arrow.NewSchema(fields, nil)
		return nil
	}
	if r.columns == nil { // all that the file has
		r.indices = r.indices[:0]
		for i := range f.MetaData().Schema.NumColumns() {
			r.indices = append(r.indices, i)
		}
	}
	fr, err := pqarrow.NewFileReader(f.Reader, pqarrow.ArrowReadProperties{BatchSize: 65_536}, memory.DefaultAllocator)
	if err == nil {
		r.records, err = fr.GetRecordReader(context.Background(), r.indices, r.groups)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// rowGroups lists the row groups that may hold wanted rows.
func (r *tableReader) rowGroups(f *parquetFile) ([]int, error) {
	var groups []int
	for i := range f.NumRowGroups() {
		if r.keep != nil {
			lo, hi, ok, err := r.bounds(f, i)
			if err != nil {
				return nil, err
			}
			if ok && (hi < r.keep.lo || lo >= r.keep.hi) {
				continue
			}
		}
		groups = append(groups, i)
	}
	return groups, nil
}

// bounds are the least and the greatest key of a row group, if they are known.
func (r *tableReader) bounds(f *parquetFile, group int) (lo, hi int64, ok bool, err error) {
	chunk, err := f.MetaData().RowGroup(group).ColumnChunk(f.MetaData().Schema.ColumnIndexByName(r.keep.column))
	if err != nil {
		return 0, 0, false, err
	}
	stats, err := chunk.Statistics()
	if err != nil {
		return 0, 0, false, err
	}
	lo, hi, ok = intBounds(stats)
	return lo, hi, ok, nil
}

func (r *tableReader) closeFile() error {
	if r.records != nil {
		r.records.Release()
		r.records = nil
	}
	r.groups = nil
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	r.open = nil
	return err
}

func (r *tableReader) Close() error {
	if r.err == nil {
		r.err = errors.New("read from a closed table")
	}
	return r.closeFile()
}

// intBounds are the least and greatest value of an integer column chunk.
func intBounds(s metadata.TypedStatistics) (lo, hi int64, ok bool) {
	if s == nil || !s.HasMinMax() {
		return 0, 0, false
	}
	switch s := s.(type) {
	case *metadata.Int32Statistics:
		return int64(s.Min()), int64(s.Max()), true
	case *metadata.Int64Statistics:
		return s.Min(), s.Max(), true
	}
	return 0, 0, false
}

// leafName is the Parquet path of a table's column.
func leafName(t schema.Table, column string) string {
	if t.Columns[t.Index(column)].Type.ID() == arrow.LIST {
		return column + ".list.element"
	}
	return column
}

// A parquetFile is an open file, its footer read.
type parquetFile struct {
	*file.Reader
	bytes io.ReaderAt
}

// openParquet opens a file and its footer, which may be known; what is wrong with it is said with its name.
func openParquet(path string, known *metadata.FileMetaData) (r *parquetFile, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged Parquet file: %v", path, p)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	var options []file.ReadOption
	if known != nil {
		options = append(options, file.WithMetadata(known))
	}
	opened, err := file.NewParquetReader(f, options...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: not a readable Parquet file: %w", path, err), f.Close())
	}
	return &parquetFile{opened, f}, nil
}

// checkTable holds a file to the table it should be: schema version, table name, columns.
func checkTable(path string, md *metadata.FileMetaData, t schema.Table) error {
	version, name := "", ""
	if kv := md.KeyValueMetadata(); kv != nil {
		if v := kv.FindValue(schema.VersionKey); v != nil {
			version = *v
		}
		if v := kv.FindValue(schema.TableKey); v != nil {
			name = *v
		}
	}
	if want := strconv.Itoa(schema.Version); version != want {
		return fmt.Errorf("%s: schema version %q, this program reads and writes version %s: estimate the scenario again in a new lake, or use the program the lake was made with", path, version, want)
	}
	if name != t.Name {
		return fmt.Errorf("%s: holds table %q, not %s", path, name, t.Name)
	}
	for _, c := range t.Columns {
		if md.Schema.ColumnIndexByName(leafName(t, c.Name)) < 0 {
			return fmt.Errorf("%s: column %s is missing", path, c.Name)
		}
	}
	return nil
}

// parquetRows is the number of rows of a table's Parquet file, by its footer.
func parquetRows(path string, t schema.Table) (int64, error) {
	f, err := openParquet(path, nil)
	if err != nil {
		return 0, err
	}
	if err := checkTable(path, f.MetaData(), t); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	return f.NumRows(), f.Close()
}

// tableOf is the table of a lake-relative path.
func tableOf(rel string) (schema.Table, error) {
	name, _, _ := strings.Cut(rel, "/")
	return schema.ByName(name)
}
