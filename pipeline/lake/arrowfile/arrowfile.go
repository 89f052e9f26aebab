// Package arrowfile stores the tables that only stages exchange as Arrow IPC files, uncompressed: reading a
// batch is one read of the file, without decoding.
//
//	magic, schema │ record batch (≤ 65,536 rows) │ … │ xxh3 of the footer │ footer with the offset of every batch
//
// Other programs read the files too: the digest lies between the last batch and the footer, where readers do not look.
// The library trusts a footer and allocates what it asks for, so the footer is verified first.
//
// The bounds of the sort column of every batch are kept by the caller beside the file, so that a reader of one
// range of links or flows reads only the batches that hold rows of it.
package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/zeebo/xxh3"

	"parsimon/schema"
)

// A Writer writes the record batches of one table into one file.
type Writer struct {
	table  schema.Table
	out    *sequential
	w      *ipc.FileWriter // made with the first batch
	key    int             // index of the sort column
	rows   int64
	bounds [][2]int64
}

// NewWriter starts a file of the table on out.
func NewWriter(t schema.Table, out io.Writer) *Writer {
	return &Writer{table: t, out: &sequential{w: out}, key: t.Index(t.Sort[0])}
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
		w.w, err = ipc.NewFileWriter(w.out, ipc.WithSchema(w.table.Arrow()))
	}
	return err
}

// sequential is a writer for ipc, which writes front to back but asks a Seeker for the present offset.
type sequential struct {
	w      io.Writer
	held   *bytes.Buffer // takes what is written; nil: w does
	offset int64
}

// Write appends to the file.
func (s *sequential) Write(b []byte) (n int, err error) {
	if s.held != nil {
		n, err = s.held.Write(b)
	} else {
		n, err = s.w.Write(b)
	}
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
	w.out.held = new(bytes.Buffer)
	if err := w.w.Close(); err != nil {
		return err
	}
	return w.writeEnd(w.out.held.Bytes())
}

// writeEnd writes the end of the file, which the library has made, with the digest before the footer.
func (w *Writer) writeEnd(end []byte) error {
	at := len(end) - tailBytes - int(binary.LittleEndian.Uint32(end[len(end)-tailBytes:]))
	footer := end[at : len(end)-tailBytes]
	digest := binary.LittleEndian.AppendUint64(nil, xxh3.Hash(footer))
	for _, b := range [][]byte{end[:at], digest, end[at:]} {
		if _, err := w.out.w.Write(b); err != nil {
			return err
		}
	}
	return nil
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

// tailBytes is the length of what follows the footer: its length, and ARROW1.
const tailBytes = 10
