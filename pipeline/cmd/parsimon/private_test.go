package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Outputs are as private as asked: a new file has the permissions that the umask leaves, and a file that is replaced
// keeps its own. An answer about a company's traffic would otherwise become readable for everyone on the machine.
func TestOutputsAreAsPrivateAsAsked(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) os.FileMode {
		t.Helper()
		path := filepath.Join(dir, name)
		out, err := openOutput(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.WriteString("text"); err != nil {
			t.Fatal(err)
		}
		if err := out.commit(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	if mode := write("new"); mode != 0o600 {
		t.Errorf("a new file with umask 077 has mode %o", mode)
	}
	syscall.Umask(0o022)
	if mode := write("usual"); mode != 0o644 {
		t.Errorf("a new file with umask 022 has mode %o", mode)
	}
	if mode := write("new"); mode != 0o600 {
		t.Errorf("a file of mode 600 has mode %o after it was replaced", mode)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files in the directory, want 2: %v", len(entries), err)
	}
}
