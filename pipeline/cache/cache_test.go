package cache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"parsimon/stages/linksim"
)

// Pruning removes the least recently used packs, including those of other versions. A pack that is being
// written stays.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	key := func(i int) linksim.CaseKey { return linksim.CaseKey{byte(i)} }
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
	old := filepath.Join(dir, "ffff"+packSuffix)
	if err := os.WriteFile(old, []byte(packFamily+"3\nold"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "pack-of-git"+packSuffix)
	if err := os.WriteFile(other, []byte("PACK"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, file := range []string{old, other} {
		if err := os.Chtimes(file, time.Unix(int64(i), 0), time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	writing, err := Open(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	writing.Store(key(9), []byte("being written"))
	at := time.Unix(0, 0) // it would be the first to be removed
	if names, err = filepath.Glob(filepath.Join(dir, "*"+packSuffix)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, writing.packs[len(writing.packs)-1].name), at, at); err != nil {
		t.Fatal(err)
	}
	pruned, err := open(dir, 2500, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	pruned.Close()
	if left, err := filepath.Glob(filepath.Join(dir, "*"+packSuffix)); err != nil || len(left) != len(names)-3 {
		t.Fatalf("%v left of %v, %v", left, names, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file of another program: %v", err)
	}
	writing.Close()
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
