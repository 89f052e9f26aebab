package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/zeebo/xxh3"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

// Rows counts the rows of a file.
func Rows(f *os.File) (rows int64, err error) {
	defer recovered(&err)
	r, err := open(f)
	if err != nil {
		return 0, err
	}
	for i := range r.NumRecords() {
		rec, err := r.RecordAt(i)
		if err != nil {
			return 0, err
		}
		rows += rec.NumRows()
		rec.Release()
	}
	return rows, r.Close()
}

// open verifies the footer of a file and opens the file. Nothing that is read allocates more memory than the file is
// large.
func open(f *os.File) (*ipc.FileReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < tailBytes {
		return nil, errors.New("not an Arrow file")
	}
	tail := make([]byte, tailBytes)
	if _, err := f.ReadAt(tail, size-tailBytes); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	if !bytes.Equal(tail[4:], ipc.Magic) || n+8+tailBytes > size {
		return nil, errors.New("not an Arrow file")
	}
	footer := make([]byte, 8+n)
	if _, err := f.ReadAt(footer, size-tailBytes-n-8); err != nil {
		return nil, err
	}
	if xxh3.Hash(footer[8:]) != binary.LittleEndian.Uint64(footer) {
		return nil, errors.New("damaged Arrow file: the footer is not the one that was written")
	}
	return ipc.NewFileReader(f, ipc.WithAllocator(&limited{&parquet.Recycled, size + 64}))
}

// limited is an allocator of pieces of limited size: a damaged length must not ask for all memory.
type limited struct {
	memory.Allocator
	most int64
}

// Allocate panics if the piece is too large.
func (l *limited) Allocate(size int) []byte {
	l.check(size)
	return l.Allocator.Allocate(size)
}

// Reallocate panics if the piece is too large.
func (l *limited) Reallocate(size int, b []byte) []byte {
	l.check(size)
	return l.Allocator.Reallocate(size, b)
}

func (l *limited) check(size int) {
	if size < 0 || int64(size) > l.most {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
}

// recovered turns a panic of the decoder over damaged bytes into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged Arrow file: %v", p)
	}
}

// reader streams files one after the other.
type reader struct {
	table   schema.Table
	open    func(path string) (*os.File, error)
	paths   []string
	bounds  [][][2]int64
	columns []string
	keep    *parquet.Range
	file    *os.File
	r       *ipc.FileReader
	batch   int
	err     error
}

// NewReader streams the given columns (all if nil) of files of one table. bounds are those that the writer of each
// file returned; a file without them is read whole.
func NewReader(t schema.Table, open func(path string) (*os.File, error), paths []string, bounds [][][2]int64,
	columns []string, keep *parquet.Range) schema.Batches {
	return &reader{table: t, open: open, paths: paths, bounds: bounds, columns: columns, keep: keep}
}

// Next returns the next batch that may hold wanted rows.
func (r *reader) Next() (arrow.Record, error) {
	for r.err == nil {
		if len(r.paths) == 0 {
			r.err = io.EOF
			break
		}
		rec, err := r.next()
		if err != nil {
			r.err = fmt.Errorf("%s: %w", r.paths[0], err)
			break
		}
		if rec != nil {
			return rec, nil
		}
		r.err = r.closeFile()
		r.paths, r.bounds = r.paths[1:], r.bounds[1:]
	}
	return nil, r.err
}

// next returns the next wanted batch of the current file, nil at its end.
func (r *reader) next() (rec arrow.Record, err error) {
	defer recovered(&err)
	for {
		for r.batch < len(r.bounds[0]) && !r.wanted(r.bounds[0][r.batch]) {
			r.batch++
		}
		if n := len(r.bounds[0]); n > 0 && r.batch >= n {
			return nil, nil
		}
		if r.r == nil {
			if err := r.openFile(); err != nil {
				return nil, err
			}
		}
		if r.batch >= r.r.NumRecords() {
			return nil, nil
		}
		whole, err := r.r.RecordAt(r.batch)
		if err != nil {
			return nil, err
		}
		if err := checkOffsets(whole); err != nil {
			whole.Release()
			return nil, err
		}
		r.batch++
		if rec, err = r.cut(whole); err != nil || rec != nil {
			return rec, err
		}
	}
}

// checkOffsets reports a binary column whose values do not lie one after the other, which the library leaves to whoever
// takes a value.
func checkOffsets(rec arrow.Record) error {
	for i, column := range rec.Columns() {
		b, ok := column.(*array.Binary)
		if !ok {
			continue
		}
		offsets := b.ValueOffsets()
		if !slices.IsSorted(offsets) || len(offsets) > 0 && offsets[0] < 0 {
			return fmt.Errorf("damaged Arrow file: the values of column %s overlap", rec.ColumnName(i))
		}
	}
	return nil
}

func (r *reader) wanted(b [2]int64) bool {
	return r.keep == nil || r.keep.Lo < r.keep.Hi && b[1] >= r.keep.Lo && b[0] < r.keep.Hi
}

func (r *reader) openFile() (err error) {
	if r.file, err = r.open(r.paths[0]); err != nil {
		return err
	}
	r.r, err = open(r.file)
	if err == nil && !r.r.Schema().Equal(r.table.Arrow()) {
		err = fmt.Errorf("not a file of table %s", r.table.Name)
	}
	return err
}

// cut selects the wanted columns and rows of a batch and releases it; nil if no row is wanted.
func (r *reader) cut(whole arrow.Record) (arrow.Record, error) {
	defer whole.Release()
	from, to := int64(0), whole.NumRows()
	if r.keep != nil && r.table.Sort[0] == r.keep.Column {
		lo, hi, err := parquet.SortedRange(whole.Column(r.table.Index(r.keep.Column)), r.keep.Lo, r.keep.Hi)
		if err != nil {
			return nil, err
		}
		from, to = int64(lo), int64(hi)
	}
	if from >= to {
		return nil, nil
	}
	part := whole
	if r.columns != nil {
		fields := make([]arrow.Field, len(r.columns))
		columns := make([]arrow.Array, len(r.columns))
		for i, name := range r.columns {
			at := r.table.Index(name)
			fields[i], columns[i] = whole.Schema().Field(at), whole.Column(at)
		}
		part = array.NewRecord(arrow.NewSchema(fields, nil), columns, whole.NumRows())
		defer part.Release()
	}
	return part.NewSlice(from, to), nil
}

func (r *reader) closeFile() (err error) {
	if r.r != nil {
		err = r.r.Close()
	}
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	r.r, r.file, r.batch = nil, nil, 0
	return err
}

// Close closes the current file.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = errors.New("read from a closed table")
	}
	return r.closeFile()
}
