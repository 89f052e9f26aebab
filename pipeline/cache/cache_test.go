package cache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parsimon/stages"
)

// Pruning takes the packs that were of no use for longest, and those of other versions; one being written stays.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	key := func(i int) stages.CaseKey { return stages.CaseKey{byte(i)} }
	for i := range 4 {
		c, err := Open(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		c.Store(key(i), bytes.Repeat([]byte{byte(i)}, 1000))
		c.Close()
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"+packSuffix))
	if err != nil || len(names) != 4 {
		t.Fatalf("packs %v, %v", names, err)
	}
	for i, n := range names { // pack 0 was used last
		at := time.Unix(int64(1000+(i+3)%4), 0)
		if err := os.Chtimes(n, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ffff"+packSuffix), []byte(packFamily+"2\nold"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "pack-of-git"+packSuffix)
	if err := os.WriteFile(other, []byte("PACK"), 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := Open(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	open.Store(key(9), []byte("being written"))
	report, err := Prune(dir, 2500)
	if err != nil || report.Packs != 2 || report.RemovedPacks != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file of another program: %v", err)
	}
	open.Close()
	c, err := Open(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var found []int
	for i := range 10 {
		if _, ok := c.Lookup(key(i), nil); ok {
			found = append(found, i)
		}
	}
	if fmt.Sprint(found) != "[0 3 9]" {
		t.Errorf("found %v", found)
	}
}
