package main

import (
	"os"
	"path/filepath"
	"testing"
)

// If a record kept verdicts of code that has changed, the score would be that of another program. If
// survivors kept theirs when a test was added, no test could raise the score.
func TestRecordForgetsWhatChanged(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "p.go")
	tests := filepath.Join(dir, "p_test.go")
	name := filepath.Join(t.TempDir(), "record")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(source, "package p\n\nvar x = 1 + 2\n")
	write(tests, "package p\n")
	mutants := map[verdict]site{}
	for i, v := range []verdict{killed, alive, unseen, invalid, undecided} {
		mutants[v] = site{pkg: "example.com/p", file: source, line: 3, offset: i, text: "+", other: "-"}
	}
	r, err := openRecord(name)
	if err != nil {
		t.Fatal(err)
	}
	for v, s := range mutants {
		if err := r.add(s, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	expect := func(kept ...verdict) {
		t.Helper()
		r, err := openRecord(name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		want := map[verdict]bool{}
		for _, v := range kept {
			want[v] = true
		}
		for v, s := range mutants {
			found, ok, err := r.find(s)
			if err != nil || ok != want[v] || ok && found != v {
				t.Errorf("%s: found %s, %t, %v; want %t", v.word(), found.word(), ok, err, want[v])
			}
		}
	}
	expect(killed, alive, unseen, invalid)
	write(tests, "package p\n\n// A new test.\n")
	expect(killed, invalid)
	write(source, "package p\n\nvar x = 1 + 3\n")
	expect()
	write(name, "slain\texample.com/p/p.go\n")
	if _, err := openRecord(name); err == nil {
		t.Error("a damaged record is read")
	}
}
