package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"parsimon/schema"
)

// A Range keeps the row groups whose column may hold a value in [lo, hi). It prunes; it does not
// filter: rows outside the range can still come along.
type Range struct {
	Column string
	Lo, Hi int64
}

// NewReader streams the given columns (all if nil) of Parquet files of one table, file after file. Footers that
// are nil are read with every file.
func NewReader(t schema.Table, open Opener, files, columns []string, keep *Range, f *Footers) schema.Batches {
	return &reader{table: t, opener: open, files: files, columns: columns, keep: keep, footers: f}
}

// OpenFile streams all columns of one file of a table outside the lake.
func OpenFile(t schema.Table, path string) schema.Batches {
	return NewReader(t, os.Open, []string{path}, nil, nil, nil)
}

type reader struct {
	table   schema.Table
	opener  Opener
	foreign bool // not a file of a lake
	files   []string
	footers *Footers // nil: read every time
	columns []string
	keep    *Range
	open    *parquetFile
	groups  []int // of the open file, wanted and not read yet
	indices []int // of the open file's columns
	schema  *arrow.Schema
	decoder columnReader
	records pqarrow.RecordReader // for files that a columnReader cannot read
	err     error
}

func (r *reader) Next() (arrow.Record, error) {
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
func (r *reader) read() (rec arrow.Record, err error) {
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
func (r *reader) readGroup(group int) (arrow.Record, error) {
	from, to := 0, int(r.open.MetaData().RowGroup(group).NumRows())
	if r.keep != nil && sorted(r.table, r.keep.Column) {
		lo, hi, ok, err := r.bounds(r.open, group)
		if err != nil {
			return nil, err
		}
		if !ok || lo < r.keep.Lo || hi >= r.keep.Hi {
			at := r.table.Index(r.keep.Column)
			keys, err := r.decoder.read(r.open, group, r.open.MetaData().Schema.ColumnIndexByName(r.keep.Column), from, to,
				r.table.Columns[at].Type)
			if err != nil {
				return nil, err
			}
			from, to, err = SortedRange(keys, r.keep.Lo, r.keep.Hi)
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
func (r *reader) openNext() (err error) {
	path := r.files[0]
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged Parquet file: %v", path, p)
		}
	}()
	f, err := r.footers.open(path, r.opener)
	if err != nil {
		return err
	}
	r.open = f
	if !r.foreign {
		if err := checkTable(path, f.MetaData(), r.table); err != nil {
			return err
		}
	}
	if r.groups, err = r.rowGroups(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(r.groups) == 0 {
		r.files = r.files[1:]
		return r.closeFile()
	}
	simple, err := r.chooseColumns(f)
	if err == nil && !simple {
		err = r.openRecords(f)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// chooseColumns sets the columns to read and their schema. It reports whether the columnReader can read all of them.
func (r *reader) chooseColumns(f *parquetFile) (simple bool, err error) {
	names := r.columns
	if names == nil {
		for _, c := range r.table.Columns {
			names = append(names, c.Name)
		}
	}
	r.indices = r.indices[:0]
	fields := make([]arrow.Field, len(names))
	simple = true
	for i, name := range names {
		index := f.MetaData().Schema.ColumnIndexByName(leafName(r.table, name))
		fields[i] = r.table.Arrow().Field(r.table.Index(name))
		r.indices = append(r.indices, index)
		simple = simple && flat(f, index, fields[i].Type)
		// pqarrow looks at column chunks on goroutines of its own, where a panic over damage could not be
		// caught: look at them here first.
		for _, g := range r.groups {
			if _, err := f.MetaData().RowGroup(g).ColumnChunk(index); err != nil {
				return false, err
			}
			simple = simple && flatPages(f, g, index)
		}
	}
	if simple {
		r.schema = arrow.NewSchema(fields, nil)
	}
	return simple, nil
}

// openRecords opens the file with pqarrow, which reads every kind of column.
func (r *reader) openRecords(f *parquetFile) error {
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
	return err
}

// rowGroups lists the row groups that may hold wanted rows.
func (r *reader) rowGroups(f *parquetFile) ([]int, error) {
	var groups []int
	for i := range f.NumRowGroups() {
		if r.keep != nil {
			lo, hi, ok, err := r.bounds(f, i)
			if err != nil {
				return nil, err
			}
			if ok && (hi < r.keep.Lo || lo >= r.keep.Hi) {
				continue
			}
		}
		groups = append(groups, i)
	}
	return groups, nil
}

// bounds are the least and the greatest key of a row group, if they are known.
func (r *reader) bounds(f *parquetFile, group int) (lo, hi int64, ok bool, err error) {
	chunk, err := f.MetaData().RowGroup(group).ColumnChunk(f.MetaData().Schema.ColumnIndexByName(r.keep.Column))
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

func (r *reader) closeFile() error {
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

func (r *reader) Close() error {
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

// OpenForeign streams all columns of a Parquet file that another program wrote with a table's columns.
func OpenForeign(t schema.Table, path string) schema.Batches {
	r := NewReader(t, os.Open, []string{path}, nil, nil, nil).(*reader)
	r.foreign = true
	return r
}
