// Package parquet reads columns of Parquet files into Arrow arrays, and checks what it reads.
package parquet

import (
	"errors"
	"sync"

	"github.com/apache/arrow/go/v17/parquet/metadata"
)

// Footers keeps the footers of Parquet files that one run reads many times: every partition of links
// reads from every file of table hops. A file is known by its name, size and time, so that one that
// is made again is read again. Safe for any number of goroutines.
type Footers struct {
	mu    sync.Mutex
	known map[string]footer
	bytes int64
}

type footer struct {
	size, modified int64
	metadata       *metadata.FileMetaData
}

// maxFooterBytes bounds the memory for Footers, by the files' row groups and columns: beyond it, footers
// are read every time.
const maxFooterBytes = 256 << 20

// open opens a file and takes its footer from memory if it is known. A nil Footers knows none.
func (c *Footers) open(path string, open Opener) (r *parquetFile, err error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return openParquet(path, f, nil)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	now := footer{size: info.Size(), modified: info.ModTime().UnixNano()}
	c.mu.Lock()
	was, ok := c.known[path]
	c.mu.Unlock()
	if ok && was.size == now.size && was.modified == now.modified {
		return openParquet(path, f, was.metadata)
	}
	if r, err = openParquet(path, f, nil); err != nil {
		return nil, err
	}
	now.metadata = r.MetaData()
	const perColumnChunk = 600 // bytes, measured
	bytes := int64(r.NumRowGroups()) * int64(r.MetaData().Schema.NumColumns()) * perColumnChunk
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes+bytes <= maxFooterBytes {
		if c.known == nil {
			c.known = map[string]footer{}
		}
		c.known[path] = now
		c.bytes += bytes
	}
	return r, nil
}
