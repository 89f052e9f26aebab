package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/lake"
	"parsimon/schema/together"
)

// freshFor is the time for which a copy is used after it was written, if no version of the table has it.
// Expire removes such copies only when they are older than a day, so that no copy is removed while a
// publisher refers to it.
const freshFor = 12 * time.Hour

// copyAll copies files to a table, and returns their entries for a manifest, in order. sent has the copies
// that earlier calls have made.
func (p *Publisher) copyAll(ctx context.Context, t *table.Table, files []lakeFile, sent map[string]string,
) (entries []iceberg.DataFile, bytes int64, err error) {
	entries = make([]iceberg.DataFile, len(files))
	var lock sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, p.AtOnce))
	for i, f := range files {
		send := func() error {
			lock.Lock()
			at, known := sent[f.name()]
			lock.Unlock()
			if !known {
				at = p.placeOf(t, f)
				copied, err := p.copyOne(ctx, f.data, at)
				lock.Lock()
				bytes += copied
				if err == nil {
					sent[f.name()] = at
				}
				lock.Unlock()
				if err != nil {
					return err
				}
			}
			var err error
			entries[i], err = p.entry(t, f, at)
			return err
		}
		group.Go(func() error { return together.Do(send) })
	}
	return entries, bytes, group.Wait()
}

// placeOf returns the path of a new copy. It has the number of the next version of the table, so that it is
// not the path of a file that an earlier version had, which Expire may be removing.
func (p *Publisher) placeOf(t *table.Table, f lakeFile) string {
	next := strconv.FormatInt(t.Metadata().LastSequenceNumber()+1, 10)
	return t.Location() + "/data/" + f.name() + "-" + next + ".parquet"
}

// copyOne copies a file, unless a killed publisher has, and returns the number of bytes sent. It verifies the
// bytes that it sends.
func (p *Publisher) copyOne(ctx context.Context, d lake.DataFile, to string) (int64, error) {
	bytes, written, err := p.Store.Stat(to)
	if err == nil && bytes == d.Bytes && time.Since(written) < freshFor {
		return 0, p.Lake.Check(d)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	in, err := p.Lake.OpenFile(d)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // only read
	err = p.Store.Put(ctx, to, func(w io.Writer) error { return copyVerified(w, in, d) })
	if err != nil {
		return 0, fmt.Errorf("%s: %w", to, err)
	}
	return d.Bytes, nil
}

// copyVerified copies the bytes of a file, and returns an error if they are not those that were committed.
func copyVerified(w io.Writer, r io.Reader, d lake.DataFile) error {
	hash := xxh3.New()
	n, err := io.Copy(io.MultiWriter(w, hash), r)
	if err != nil {
		return err
	}
	if n != d.Bytes || fmt.Sprintf("%016x", hash.Sum64()) != d.Digest {
		return &lake.DamageError{Path: d.Path, Why: "its bytes are not those that were committed"}
	}
	return nil
}

// entry returns the entry of a manifest for the copy of a file.
func (p *Publisher) entry(t *table.Table, f lakeFile, at string) (iceberg.DataFile, error) {
	in, err := p.Lake.OpenFile(f.data)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // only read
	copied := tables.File{Path: at, Bytes: f.data.Bytes, Partition: f.partition(), ReadSeeker: in}
	entry, err := tables.DataFile(t, copied)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return entry, nil
}
