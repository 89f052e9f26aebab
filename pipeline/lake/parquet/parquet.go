package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"

	"parsimon/schema"
)

// How record batches become Parquet and back: parquet-go writes (tablewrite.go; it is the faster writer and
// streams); columnread.go, by parquet-go's decoders, and for what it does not know Arrow's pqarrow read
// (tableread.go). No other file knows.

// leafName is the Parquet path of a table's column.
func leafName(t schema.Table, column string) string {
	if t.Columns[t.Index(column)].Type.ID() == arrow.LIST {
		return column + ".list.element"
	}
	return column
}

// An Opener opens a file for reading.
type Opener func(path string) (*os.File, error)

// A parquetFile is an open file, its footer read.
type parquetFile struct {
	*file.Reader
	bytes io.ReaderAt
}

// openParquet opens a file and its footer, which may be known; what is wrong with it is said with its name.
func openParquet(path string, f *os.File, known *metadata.FileMetaData) (r *parquetFile, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(fmt.Errorf("%s: damaged Parquet file: %v", path, p), f.Close())
		}
	}()
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

// Rows is the number of rows of a table's Parquet file, by its footer.
func Rows(path string, open Opener, t schema.Table) (int64, error) {
	f, err := (*Footers)(nil).open(path, open)
	if err != nil {
		return 0, err
	}
	if err := checkTable(path, f.MetaData(), t); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	return f.NumRows(), f.Close()
}
