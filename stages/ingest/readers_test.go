package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"parsimon/stages/topology/topologytest"
)

// Readers divide threads and memory, and there are only as many as files, threads and memory allow. Without
// the first rule they exceed the limits of the program, without the second some of them fail.
func TestReadersDivideTheLimits(t *testing.T) {
	const readerBytes = 256 << 20
	foreign := &Mapping{foreign: true}
	for _, c := range []struct {
		files, threads int
		memory         int64
		of             []*Mapping
		want           int   // readers, 1 if in reads the files
		each           int64 // bytes of a reader
		threadsOfEach  int
	}{
		{1, 4, 4 * readerBytes, nil, 1, 0, 0},
		{2, 5, 4 * readerBytes, nil, 2, 2 * readerBytes, 2},
		{9, 3, 9 * readerBytes, nil, 3, 3 * readerBytes, 1},
		{9, 9, 3*readerBytes - 1, nil, 2, (3*readerBytes - 1) / 2, 4},
		{9, 9, 2*readerBytes - 1, nil, 1, 0, 0},
		{9, 9, 9 * readerBytes, []*Mapping{{}, foreign}, 1, 0, 0},
	} {
		in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t),
			Options{TmpDir: t.TempDir(), MemoryBytes: c.memory, Threads: c.threads})
		if err != nil {
			t.Fatal(err)
		}
		in.note("end", "a table", " may be cut")
		r, err := in.Readers(t.Context(), c.of, c.files)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.All) != c.want || (r.All[0] == in) != (c.want == 1) {
			t.Errorf("%+v: %d readers", c, len(r.All))
		}
		for i, reader := range r.All {
			if reader == in {
				continue
			}
			if reader.o.MemoryBytes != c.each || reader.o.Threads != c.threadsOfEach ||
				reader.collector != in.collector || len(reader.Notes()) != 0 {
				t.Errorf("%+v: reader %d has %d bytes and %d threads, notes %q", c, i, reader.o.MemoryBytes,
					reader.o.Threads, reader.Notes())
			}
			_, err := os.Stat(filepath.Join(in.o.TmpDir, fmt.Sprint("reader-", i)))
			if err != nil {
				t.Error(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := in.exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%+v: the first Ingester was closed, too: %v", c, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Only a text file of one built-in format can have regular rows. Others are read by SQL.
func TestFilesThatMayBeRegular(t *testing.T) {
	vpc, err := FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	zeek, err := FormatMapping("zeek")
	if err != nil {
		t.Fatal(err)
	}
	own := *vpc
	own.foreign = true
	for _, c := range []struct {
		name string
		of   []*Mapping
		file string
		want bool
	}{
		{"a format", []*Mapping{vpc}, "a.log", true},
		{"no format", nil, "a.log", false},
		{"two formats", []*Mapping{vpc, vpc}, "a.log", false},
		{"a format without regular rows", []*Mapping{zeek}, "a.log", false},
		{"a mapping of the user", []*Mapping{&own}, "a.log", false},
		{"Parquet", []*Mapping{vpc}, "a.parquet", false},
	} {
		got := MayBeRegular(c.of, filepath.Join(t.TempDir(), c.file))
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
