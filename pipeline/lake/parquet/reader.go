package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"parsimon/schema"
	"parsimon/schema/footer"
)

// A Range selects the rows whose value of a column is in [Lo, Hi). Row groups without such rows are not read.
// If a table is sorted by the column, no other rows are returned. For other tables, rows outside the range
// can be returned.
type Range struct {
	Column string
	Lo, Hi int64
}

// An Opener opens a file for reading.
type Opener func(path string) (*os.File, error)

// OpenFile streams all columns of one file of a table outside the lake.
func OpenFile(t schema.Table, path string) schema.Batches {
	return NewReader(t, os.Open, []string{path}, nil, nil)
}

// OpenForeign is OpenFile for a file with the columns of a table that another program has written.
func OpenForeign(t schema.Table, path string) schema.Batches {
	r := NewReader(t, os.Open, []string{path}, nil, nil)
	r.foreign = true
	return r
}

// A Reader streams batches of one table.
type Reader struct {
	table   schema.Table
	opener  Opener
	foreign bool // not a file of a lake
	files   []string
	footers *Footers // nil: footers are read every time
	keep    *Range
	decoder decoder
	err     error

	// Of the open file:
	file    *os.File
	meta    *parquet.File
	version int        // its schema version
	groups  []rowGroup // not read yet

	bounds Bounds // of the values; nil: none
}

// A rowGroup is a row group of the open file.
type rowGroup struct {
	parquet.RowGroup
	meta  *format.RowGroup
	first int64 // number of its first row in the file
}

func (g rowGroup) chunk(leaf parquet.LeafColumn) columnChunk {
	chunk := g.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk)
	meta := &g.meta.Columns[leaf.ColumnIndex]
	return columnChunk{chunk, &meta.MetaData, max(meta.ColumnIndexLength, meta.OffsetIndexLength), g.NumRows()}
}

// NewReader streams Parquet files of one table, one after the other. If f is nil, the footer of each file is
// read every time.
func NewReader(t schema.Table, open Opener, files []string, keep *Range, f *Footers) *Reader {
	return &Reader{table: t, opener: open, files: files, keep: keep, footers: f}
}

// Next returns the next batch. It implements schema.Batches.
func (r *Reader) Next(columns ...string) (rec arrow.Record, err error) {
	for r.err == nil {
		switch {
		case len(r.groups) > 0:
			rec, err = r.readGroup(r.groups[0], columns)
			r.groups = r.groups[1:]
			if err == nil && rec.NumRows() > 0 {
				return rec, nil
			}
			r.err = err
			if err == nil {
				rec.Release()
			}
		case r.file != nil:
			r.err = r.closeFile()
			r.files = r.files[1:]
		case len(r.files) == 0:
			r.err = io.EOF
		default:
			r.err = r.openNext()
		}
	}
	return nil, r.err
}

// readGroup decodes the selected rows of a row group. It decodes the given columns, or all columns if none
// are given.
func (r *Reader) readGroup(g rowGroup, names []string) (rec arrow.Record, err error) {
	defer r.named(&err)
	from := int64(0)
	to := g.NumRows()
	keys := arrow.Array(nil)
	if r.keep != nil && len(r.table.Sort) > 0 && r.table.Sort[0] == r.keep.Column {
		if from, to, keys, err = r.rowsInRange(g); keys != nil {
			defer keys.Release()
		}
		if err != nil {
			return nil, err
		}
	}
	of := r.table.Columns
	if len(names) > 0 {
		of = r.table.Select(names...)
	}
	fields := make([]arrow.Field, len(of))
	columns := make([]arrow.Array, 0, len(of))
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range of {
		fields[i] = arrow.Field{Name: c.Name, Type: c.Type, Nullable: c.Nullable}
		if keys != nil && c.Name == r.keep.Column {
			keys.Retain()
			columns = append(columns, keys)
			continue
		}
		column, err := r.readColumn(g, c, from, to)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column)
	}
	for i, c := range of {
		if err := r.bounds.check(r.table.Name, c.Name, columns[i], g.first+from); err != nil {
			return nil, err
		}
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, max(0, to-from)), nil
}

func (r *Reader) readColumn(g rowGroup, c schema.Column, from, to int64) (arrow.Array, error) {
	leaf, ok := r.leaf(c)
	_, like := r.lacks(c)
	if !ok && like != "" {
		return r.readColumn(g, r.table.Columns[r.table.Index(like)], from, to)
	}
	if !ok {
		return emptyColumn(c, max(0, to-from))
	}
	column, err := r.decoder.read(r.file, g.chunk(leaf), c, from, to)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.Name, err)
	}
	return column, nil
}

// rowsInRange returns the selected rows of a row group that is sorted by the column of the range. keys is
// that column of these rows, or nil if it was not read.
func (r *Reader) rowsInRange(g rowGroup) (from, to int64, keys arrow.Array, err error) {
	lo, hi, ok := r.keysOf(g)
	if ok && lo >= r.keep.Lo && hi < r.keep.Hi {
		return 0, g.NumRows(), nil, nil
	}
	first, end := r.pagesInRange(g)
	read, err := r.readColumn(g, r.key(), first, end)
	if err != nil {
		return 0, 0, nil, err
	}
	defer read.Release()
	switch a := read.(type) {
	case *array.Int32:
		from, to, err = rangeOf(a.Int32Values(), r.keep.Lo, r.keep.Hi)
	case *array.Int64:
		from, to, err = rangeOf(a.Int64Values(), r.keep.Lo, r.keep.Hi)
	}
	if err != nil {
		return 0, 0, nil, err
	}
	to = max(from, to)
	return first + from, first + to, array.NewSlice(read, from, to), nil
}

// pagesInRange returns the rows of the pages of a row group that can have selected rows, by the bounds of the
// pages. If the bounds are not known, or do not ascend, it returns all rows.
func (r *Reader) pagesInRange(g rowGroup) (first, end int64) {
	leaf, _ := r.leaf(r.key())
	chunk := g.chunk(leaf)
	bounds, boundsErr := chunk.columnIndex(r.file)
	places, placesErr := chunk.offsetIndex(r.file)
	if boundsErr != nil || placesErr != nil || r.key().Nullable || bounds.NumPages() != places.NumPages() {
		return 0, g.NumRows()
	}
	n := places.NumPages()
	last := int64(math.MinInt64)
	for i := range n {
		least := number(bounds.MinValue(i))
		greatest := number(bounds.MaxValue(i))
		if least < last || greatest < least {
			return 0, g.NumRows()
		}
		last = greatest
	}
	page := sort.Search(n, func(i int) bool { return number(bounds.MaxValue(i)) >= r.keep.Lo })
	next := sort.Search(n, func(i int) bool { return number(bounds.MinValue(i)) >= r.keep.Hi })
	row := func(page int) int64 {
		if page < n {
			return places.FirstRowIndex(page)
		}
		return g.NumRows()
	}
	first = row(page)
	end = row(max(page, next))
	if first < 0 || first > end || end > g.NumRows() {
		return 0, g.NumRows() // damaged
	}
	return first, end
}

// key returns the column of the range.
func (r *Reader) key() schema.Column { return r.table.Columns[r.table.Index(r.keep.Column)] }

// number returns the value of a column of whole numbers.
func number(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// rangeOf returns the rows of ascending keys that are in [lo, hi).
func rangeOf[T int32 | int64](keys []T, lo, hi int64) (from, to int64, err error) {
	if !slices.IsSorted(keys) {
		return 0, 0, errors.New("its rows are not in order")
	}
	below := func(bound int64) int64 {
		return int64(sort.Search(len(keys), func(i int) bool { return int64(keys[i]) >= bound }))
	}
	return below(lo), below(hi), nil
}

// openNext opens the first of the remaining files and finds the row groups that may contain selected rows.
func (r *Reader) openNext() (err error) {
	defer r.named(&err)
	f, err := r.opener(r.files[0])
	if err != nil {
		return err
	}
	r.file = f
	if r.meta, err = r.footers.of(r.files[0], f); err != nil {
		return err
	}
	if err := r.checkTable(); err != nil {
		return err
	}
	first := int64(0)
	for i, g := range r.meta.RowGroups() {
		group := rowGroup{g, &r.meta.Metadata().RowGroups[i], first}
		first += g.NumRows()
		if r.keep != nil {
			if lo, hi, ok := r.keysOf(g); ok && (hi < r.keep.Lo || lo >= r.keep.Hi) {
				continue
			}
		}
		r.groups = append(r.groups, group)
	}
	return nil
}

// named adds the file's name to an error. It converts a panic of the Parquet library, which damaged bytes can
// cause, to an error.
func (r *Reader) named(err *error) {
	p := recover()
	if p != nil {
		*err = fmt.Errorf("damaged Parquet file: %v", p)
	}
	if errors.Is(*err, io.EOF) {
		*err = io.ErrUnexpectedEOF // not the end of the stream
	}
	if *err != nil {
		*err = fmt.Errorf("%s: %w", r.files[0], *err)
	}
}

// checkTable checks that a file belongs to the expected table: schema version, table name and columns.
func (r *Reader) checkTable() error {
	if !r.foreign {
		version, err := versionOf(r.meta)
		if err != nil {
			return err
		}
		r.version = version
		name, _ := r.meta.Lookup(schema.TableKey)
		if name != r.table.Name {
			return fmt.Errorf("holds table %q, not %s", name, r.table.Name)
		}
	}
	for _, c := range r.table.Columns {
		leaf, ok := r.leaf(c)
		older, _ := r.lacks(c)
		if !ok && older {
			continue
		}
		if !ok {
			return fmt.Errorf("column %s is missing", c.Name)
		}
		kind := leaf.Node.Type().Kind()
		if kind != types[c.Type.ID()].kind {
			return fmt.Errorf("column %s is of type %s, not %s", c.Name, kind, c.Type)
		}
	}
	return nil
}

// versionOf returns the schema version of a file. It returns an error for one that this program does not
// read.
func versionOf(meta *parquet.File) (int, error) {
	text, _ := meta.Lookup(schema.VersionKey)
	version, err := strconv.Atoi(text)
	if err != nil || !schema.Readable(version) {
		return 0, fmt.Errorf("schema version %q, this program reads versions %d to %d: use the program the "+
			"lake was made with", text, schema.OldestVersion, schema.Version)
	}
	return version, nil
}

// lacks reports whether the open file is older than a column of the table. It then returns the column whose
// values it has there, or an empty name if its values are empty.
func (r *Reader) lacks(c schema.Column) (lacks bool, like string) {
	if r.foreign {
		return false, ""
	}
	in, like := r.table.In(r.version, c.Name)
	return !in, like
}

// emptyColumn returns the empty values of a column that the open file lacks. A damaged file may declare any
// number of rows.
func emptyColumn(c schema.Column, rows int64) (arrow.Array, error) {
	if rows > maxPageRows {
		return nil, fmt.Errorf("a row group of %d rows: want at most %d", rows, maxPageRows)
	}
	b := array.NewBuilder(&Recycled, c.Type)
	defer b.Release()
	if c.Nullable {
		b.AppendNulls(int(rows))
	} else {
		b.AppendEmptyValues(int(rows))
	}
	return b.NewArray(), nil
}

// leaf returns a table's column in the open file.
func (r *Reader) leaf(c schema.Column) (parquet.LeafColumn, bool) {
	if c.Type.ID() == arrow.LIST {
		return r.meta.Schema().Lookup(c.Name, "list", "element")
	}
	return r.meta.Schema().Lookup(c.Name)
}

// keysOf returns the minimum and the maximum key of a row group, if they are known.
func (r *Reader) keysOf(g parquet.RowGroup) (lo, hi int64, ok bool) {
	leaf, _ := r.leaf(r.key())
	least, greatest, ok := g.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk).Bounds()
	if !ok || r.key().Nullable || least.Kind() != parquet.Int32 && least.Kind() != parquet.Int64 {
		return 0, 0, false
	}
	return number(least), number(greatest), true
}

func (r *Reader) closeFile() error {
	r.groups = nil
	r.meta = nil
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Close ends the stream.
func (r *Reader) Close() error {
	if r.err == nil {
		r.err = errors.New("read from a closed table")
	}
	return r.closeFile()
}

// Footers caches the footers of Parquet files that a run reads many times. For example, every partition of
// links reads every file of table hops. A file is identified by its name, size and time, so that a file that
// was written again is read again. It is safe for concurrent use.
type Footers struct {
	known sync.Map // *parquet.File by footerKey
	bytes atomic.Int64
}

type footerKey struct {
	path           string
	size, modified int64
}

// Memory of cached footers, in bytes: the limit, beyond which footers are read every time, and the measured
// size of one column chunk.
const maxFooterBytes, columnChunkBytes = 256 << 20, 600

// Version returns the schema version of an open file.
func (c *Footers) Version(path string, f *os.File) (version int, err error) {
	meta, err := c.of(path, f)
	if err != nil {
		return 0, err
	}
	return versionOf(meta)
}

// of returns the footer of an open file. A nil Footers caches nothing.
func (c *Footers) of(path string, f *os.File) (*parquet.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	key := footerKey{path, info.Size(), info.ModTime().UnixNano()}
	if c != nil {
		if known, ok := c.known.Load(key); ok {
			return known.(*parquet.File), nil
		}
	}
	if _, err := footer.Check(f, key.size); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, key.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a readable Parquet file: %w", err)
	}
	bytes := len(file.RowGroups()) * len(file.Schema().Columns()) * columnChunkBytes
	if c != nil && c.bytes.Add(int64(bytes)) <= maxFooterBytes {
		c.known.Store(key, file)
	}
	return file, nil
}

// maxColumnBytes is the maximum size of the byte strings of a row group. Arrow's limit is 2^31 bytes.
const maxColumnBytes = 1 << 30

// A decoder reads column chunks into Arrow columns. It reuses its memory for the next chunk.
type decoder struct {
	bytes  []byte // of the pages
	page   []byte // decompressed
	int64s []int64
	int32s []int32
	int16s []int16
	values []parquet.Value
}

// read reads rows from..to of a column chunk of an open file.
func (d *decoder) read(
	in io.ReaderAt, chunk columnChunk, c schema.Column, from, to int64,
) (arrow.Array, error) {
	column, ok, err := d.numbers(in, chunk, c, from, to)
	if ok || err != nil {
		return column, err
	}
	return d.readValues(in, chunk, c, from, to)
}

// readValues is like read, but always uses parquet-go. It reads columns of all types.
func (d *decoder) readValues(
	in io.ReaderAt, chunk columnChunk, c schema.Column, from, to int64,
) (arrow.Array, error) {
	b := array.NewBuilder(&Recycled, c.Type)
	defer b.Release()
	b.Reserve(int(min(to-from, rowGroupRows)))
	pages := chunk.PagesFrom(in)
	defer func() { _ = pages.Close() }() // only read
	first := int64(0)                    // number of the page's first row
	if from > 0 {
		var err error
		if first, err = pageOf(chunk, in, from); err == nil {
			err = pages.SeekToRow(first)
		}
		if err != nil {
			return nil, err
		}
	}
	for first < to {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		lo := max(0, from-first)
		hi := min(page.NumRows(), to-first)
		rows := b.Len()
		first += page.NumRows()
		if lo < hi {
			err = d.appendPage(b, page, lo, hi)
			rows += int(hi - lo)
		}
		parquet.Release(page)
		if err != nil {
			return nil, err
		}
		if b.Len() != rows {
			return nil, fmt.Errorf("a page of %d rows has %d values", hi-lo, b.Len()-rows+int(hi-lo))
		}
	}
	if b.NullN() > 0 && !c.Nullable {
		return nil, errors.New("it has nulls")
	}
	return b.NewArray(), nil
}

// pageOf returns the first row of the page that contains a row. If the file has no page index, it returns 0.
func pageOf(chunk columnChunk, in io.ReaderAt, row int64) (int64, error) {
	index, err := chunk.offsetIndex(in)
	if errors.Is(err, parquet.ErrMissingOffsetIndex) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := sort.Search(index.NumPages(), func(i int) bool { return index.FirstRowIndex(i) > row })
	return index.FirstRowIndex(max(0, n-1)), nil
}

// appendPage appends rows lo..hi of a page. If either none or all of the page's values are null, it appends
// them in bulk, otherwise one by one.
func (d *decoder) appendPage(b array.Builder, page parquet.Page, lo, hi int64) error {
	if page.NumNulls() == page.NumRows() && page.RepetitionLevels() == nil {
		b.AppendNulls(int(hi - lo))
		return nil
	}
	if page.NumNulls() > 0 || page.RepetitionLevels() != nil {
		part := page.Slice(lo, hi)
		lists, ok := b.(*array.ListBuilder)
		if ok && appendLists(lists, part) {
			return nil
		}
		return d.appendValues(b, part)
	}
	data := page.Data()
	dictionary := page.Dictionary()
	switch b := b.(type) {
	case *array.Int16Builder:
		d.int16s = d.int16s[:0]
		for _, v := range d.int32sOf(page, lo, hi) {
			d.int16s = append(d.int16s, int16(v))
		}
		b.AppendValues(d.int16s, nil)
		return nil
	case *array.Int32Builder:
		b.AppendValues(d.int32sOf(page, lo, hi), nil)
		return nil
	case *array.Int64Builder:
		if dictionary == nil {
			b.AppendValues(data.Int64()[lo:hi], nil)
			return nil
		}
	case *array.Float64Builder:
		if dictionary == nil {
			b.AppendValues(data.Double()[lo:hi], nil)
			return nil
		}
	case *array.BooleanBuilder:
		b.Reserve(int(hi - lo))
		bits := data.Boolean()
		for i := lo; i < hi; i++ {
			b.UnsafeAppend(bits[i/8]>>(i%8)&1 == 1)
		}
		return nil
	case *array.StringBuilder:
		return appendBytes(b.BinaryBuilder, page, lo, hi)
	case *array.BinaryBuilder:
		return appendBytes(b, page, lo, hi)
	}
	return d.appendValues(b, page.Slice(lo, hi))
}

// int32sOf returns the values of rows lo..hi of a page without nulls. They are valid until the next call.
func (d *decoder) int32sOf(page parquet.Page, lo, hi int64) []int32 {
	pageData := page.Data()
	data := pageData.Int32()[lo:hi]
	if page.Dictionary() == nil {
		return data
	}
	distinct := page.Dictionary().Page().Data()
	values := distinct.Int32()
	d.int32s = slices.Grow(d.int32s[:0], len(data))[:len(data)]
	for i, at := range data {
		d.int32s[i] = values[at]
	}
	return d.int32s
}

// appendBytes appends byte strings of a page without nulls.
func appendBytes(b *array.BinaryBuilder, page parquet.Page, lo, hi int64) error {
	data := page.Data()
	if page.Dictionary() == nil {
		items, ends := data.ByteArray()
		if err := checkSize(b, int(ends[hi]-ends[lo])); err != nil {
			return err
		}
		b.ReserveData(int(ends[hi] - ends[lo]))
		for i := lo; i < hi; i++ {
			b.Append(items[ends[i]:ends[i+1]])
		}
		return nil
	}
	distinct := page.Dictionary().Page().Data()
	items, ends := distinct.ByteArray()
	rows := data.Int32()[lo:hi]
	size := 0
	for _, i := range rows {
		size += int(ends[i+1] - ends[i])
	}
	if err := checkSize(b, size); err != nil {
		return err
	}
	b.Reserve(len(rows))
	b.ReserveData(size)
	for _, i := range rows {
		b.UnsafeAppend(items[ends[i]:ends[i+1]])
	}
	return nil
}

// checkSize returns an error if a column has no place for more bytes. A few bytes of a file can repeat a long
// byte string many times.
func checkSize(b *array.BinaryBuilder, more int) error {
	if size := b.DataLen() + more; size > maxColumnBytes {
		return fmt.Errorf("a row group has at least %d bytes, more than %d", size, maxColumnBytes)
	}
	return nil
}

// appendValues appends all rows of a page one by one.
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

// appendValue appends one value. A null value appends an empty list to a list column.
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
		return appendValue(b.BinaryBuilder, v)
	case *array.BinaryBuilder:
		if err := checkSize(b, len(v.ByteArray())); err != nil {
			return err
		}
		b.Append(v.ByteArray())
	default:
		return fmt.Errorf("cannot read Arrow type %s", b.Type())
	}
	return nil
}

// Recycled is the allocator of decoded columns. A released batch returns its memory for use by the next
// batch, which relieves the garbage collector. It is an Arrow allocator and safe for concurrent use. It does
// not clear memory.
var Recycled recycler

type recycler struct {
	bySize [48]sync.Pool // of *[]byte with a capacity of 1 << n
}

// PoisonFreed makes Free overwrite the freed memory. Tests set it to find readers of released batches.
var PoisonFreed bool

// Allocate returns memory of the given length.
func (r *recycler) Allocate(size int) []byte {
	if size == 0 {
		return nil
	}
	n := bits.Len(uint(size - 1))
	if b, ok := r.bySize[n].Get().(*[]byte); ok {
		return (*b)[:size]
	}
	return make([]byte, size, 1<<n)
}

// Reallocate returns memory of the given length that begins with the content of b, and frees b.
func (r *recycler) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	more := r.Allocate(size)
	copy(more, b)
	r.Free(b)
	return more
}

// Free returns memory to the allocator.
func (r *recycler) Free(b []byte) {
	b = b[:cap(b)]
	if len(b) == 0 || len(b)&(len(b)-1) != 0 {
		return
	}
	if PoisonFreed {
		for i := range b {
			b[i] = 0xdb
		}
	}
	r.bySize[bits.Len(uint(len(b)-1))].Put(&b)
}
