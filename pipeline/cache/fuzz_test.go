package cache

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"parsimon/stages/linksim"
)

// packOf returns the bytes of a pack with two results.
func packOf(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	c, err := Open(dir, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	c.Store(linksim.CaseKey{1}, []byte("first"))
	c.Store(linksim.CaseKey{2}, bytes.Repeat([]byte("second"), 50))
	c.Close()
	names, err := filepath.Glob(filepath.Join(dir, "*"+packSuffix))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// FuzzPack opens arbitrary bytes as a pack. A result is either found exactly as it was stored, or not found.
// Lengths in headers are checked.
func FuzzPack(f *testing.F) {
	good := packOf(f)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte(packMagic + packMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1"+packSuffix), data, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for key := range c.found {
			if result, ok := c.Lookup(key, nil); ok && !bytes.Contains(data, result) {
				t.Errorf("result %q is not in the pack", result)
			}
		}
	})
}

// In a pack that a killed run was writing, all results before the last one are found.
func TestTornPack(t *testing.T) {
	good := packOf(t)
	for cut := range good {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "1"+packSuffix), good[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		first, ok := c.Lookup(linksim.CaseKey{1}, nil)
		whole := cut >= len(packMagic)+headerBytes+len("first")
		if ok != whole || ok && string(first) != "first" {
			t.Errorf("of %d bytes: %q, %v", cut, first, ok)
		}
		if _, ok := c.Lookup(linksim.CaseKey{2}, nil); ok {
			t.Errorf("of %d bytes the second result is found", cut)
		}
		c.Close()
	}
}

// A changed byte anywhere in a pack can lose results, but never changes a result.
func TestChangedPacks(t *testing.T) {
	good := packOf(t)
	want := map[linksim.CaseKey][]byte{{1}: []byte("first"), {2}: bytes.Repeat([]byte("second"), 50)}
	dir := t.TempDir()
	file := filepath.Join(dir, "1"+packSuffix)
	for i := range good {
		data := bytes.Clone(good)
		data[i] ^= 0x41
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		for key, result := range want {
			if got, ok := c.Lookup(key, nil); ok && !bytes.Equal(got, result) {
				t.Errorf("byte %d: %q instead of %q", i, got, result)
			}
		}
		c.Close()
	}
}
