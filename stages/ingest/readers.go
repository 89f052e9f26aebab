package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// readerBytes is the memory that each of several Ingesters needs to read files side by side.
const readerBytes = 256 << 20

// Readers are Ingesters that read files side by side.
type Readers struct {
	All []*Ingester
	own bool // they are closed by Close
}

// Readers returns as many Ingesters as files can be read side by side: at most Options.Threads and as many as
// there are files, and each has readerBytes. They divide the memory and the threads. A mapping of the user is
// run by one Ingester at a time, because its memory is limited by that of the process. The caller closes the
// result.
func (in *Ingester) Readers(ctx context.Context, of []*Mapping, files int) (_ *Readers, err error) {
	n := min(files, in.o.Threads, int(in.o.MemoryBytes/readerBytes))
	isForeign := func(m *Mapping) bool { return m.foreign }
	if n < 2 || slices.ContainsFunc(of, isForeign) {
		return &Readers{All: []*Ingester{in}}, nil
	}
	r := &Readers{own: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for i := range n {
		o := in.o
		o.MemoryBytes /= int64(n)
		o.Threads = max(1, o.Threads/n)
		o.TmpDir = filepath.Join(in.o.TmpDir, fmt.Sprintf("reader-%d", i))
		if err := os.Mkdir(o.TmpDir, 0o755); err != nil {
			return nil, err
		}
		reader, err := NewIngester(ctx, in.net, o)
		if err != nil {
			return nil, err
		}
		reader.notes = nil // in has those of the tables
		reader.collector = in.collector
		r.All = append(r.All, reader)
	}
	return r, nil
}

// Close closes the Ingesters that Readers has made.
func (r *Readers) Close() (err error) {
	if !r.own {
		return nil
	}
	for _, in := range r.All {
		err = errors.Join(err, in.closeDuckDB())
	}
	return err
}

// Notes are remarks about files. They can be stored as JSON.
type Notes []note

// TakeNotes removes the remarks about the files that were read, for AddNotes.
func (in *Ingester) TakeNotes() Notes {
	notes := in.notes
	in.notes = nil
	return notes
}

// AddNotes adds remarks to those that Notes returns.
func (in *Ingester) AddNotes(notes Notes) { in.notes = append(in.notes, notes...) }
