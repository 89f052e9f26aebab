// Package arrowfile stores the tables that only stages exchange as Arrow IPC files, uncompressed: reading a
// batch is one read of the file, without decoding.
//
//	magic, schema │ record batch (≤ 65,536 rows) │ … │ footer with the offset of every batch
//
// The bounds of the sort column of every batch are kept by the caller beside the file, so that a reader of one
// range of links or flows reads only the batches that hold rows of it.
package arrowfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

// A Writer writes the record batches of one table into one file.
type Writer struct {
	table  schema.Table
	out    io.Writer
	w      *ipc.FileWriter // made with the first batch
	key    int             // index of the sort column
	rows   int64
	bounds [][2]int64
}

// NewWriter starts a file of the table on out.
func NewWriter(t schema.Table, out io.Writer) *Writer {
	return &Writer{table: t, out: out, key: t.Index(t.Sort[0])}
}

// Write appends a batch, whose rows are sorted by the table's first sort column.
func (w *Writer) Write(rec arrow.Record) error {
	if err := w.open(); err != nil {
		return err
	}
	if rec.NumRows() == 0 {
		return nil
	}
	b, err := boundsOf(rec.Column(w.key))
	if err != nil {
		return fmt.Errorf("table %s: %w", w.table.Name, err)
	}
	w.bounds = append(w.bounds, b)
	w.rows += rec.NumRows()
	return w.w.Write(rec)
}

func (w *Writer) open() (err error) {
	if w.w == nil {
		w.w, err = ipc.NewFileWriter(&sequential{w: w.out}, ipc.WithSchema(w.table.Arrow()))
	}
	return err
}

// sequential is a writer for ipc, which writes front to back but asks a Seeker for the present offset.
type sequential struct {
	w      io.Writer
	offset int64
}

// Write appends to the file.
func (s *sequential) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.offset += int64(n)
	return n, err
}

// Seek returns the present offset and supports nothing else.
func (s *sequential) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}
	return s.offset, nil
}

// Close completes the file.
func (w *Writer) Close() error {
	if err := w.open(); err != nil {
		return err
	}
	return w.w.Close()
}

// Rows is the number of rows written so far.
func (w *Writer) Rows() int64 { return w.rows }

// Bounds are the least and the greatest value of the sort column in each batch written.
func (w *Writer) Bounds() [][2]int64 { return w.bounds }

// boundsOf are the first and the last value of an ascending column.
func boundsOf(column arrow.Array) (b [2]int64, err error) {
	switch a := column.(type) {
	case *array.Int32:
		v := a.Int32Values()
		return [2]int64{int64(v[0]), int64(v[len(v)-1])}, nil
	case *array.Int64:
		v := a.Int64Values()
		return [2]int64{v[0], v[len(v)-1]}, nil
	}
	return b, fmt.Errorf("cannot be sorted by a column of type %s", column.DataType())
}

// Rows counts the rows of a file.
func Rows(f *os.File) (rows int64, err error) {
	defer recovered(&err)
	r, err := ipc.NewFileReader(f)
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
func NewReader(t schema.Table, open func(path string) (*os.File, error), paths []string, bounds [][][2]int64, columns []string, keep *parquet.Range) schema.Batches {
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
		r.batch++
		if rec, err = r.cut(whole); err != nil || rec != nil {
			return rec, err
		}
	}
}

func (r *reader) wanted(b [2]int64) bool {
	return r.keep == nil || b[1] >= r.keep.Lo && b[0] < r.keep.Hi
}

func (r *reader) openFile() (err error) {
	if r.file, err = r.open(r.paths[0]); err != nil {
		return err
	}
	r.r, err = ipc.NewFileReader(r.file, ipc.WithAllocator(&parquet.Recycled))
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
