package parquet

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"parsimon/schema/footer"
)

// columnIndex returns the bounds of the pages of a column chunk.
func (c columnChunk) columnIndex(in io.ReaderAt) (*parquet.FileColumnIndex, error) {
	return pageIndex(c, in, c.ColumnIndexFrom)
}

// offsetIndex returns the places of the pages of a column chunk.
func (c columnChunk) offsetIndex(in io.ReaderAt) (*parquet.FileOffsetIndex, error) {
	return pageIndex(c, in, c.OffsetIndexFrom)
}

// pageIndex reads a page index by means of parquet-go, which allocates memory of the lengths that the footer
// and the index itself declare.
func pageIndex[T any](c columnChunk, in io.ReaderAt, read func(io.ReaderAt) (T, error)) (index T, err error) {
	if c.indexBytes > maxChunkBytes {
		return index, fmt.Errorf("a page index of %d bytes", c.indexBytes)
	}
	return read(checkedIndex{in})
}

// checkedIndex reads page indexes. It returns an error for one that declares more than it can contain.
type checkedIndex struct{ in io.ReaderAt }

func (c checkedIndex) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.in.ReadAt(p, at)
	if n < len(p) {
		return n, err
	}
	if err := footer.CheckIndex(p); err != nil {
		return 0, err
	}
	return n, nil
}
