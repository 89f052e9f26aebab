package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a mutant that tests find were called alive, or one that they do not find killed, the score would be
// meaningless. The package under test has functions that are tested, run but not checked, and never run. It
// has an addition of texts, whose subtraction does not compile, and functions of every form. Copies of most
// of them can be called. A number in the text of an error is no mutant.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/sample\n\ngo 1.21\n",
		"sample.go": `package sample

import "fmt"

const limit = 10

func Tested(x int) bool { return x < limit }

func Unchecked(x int) int { return x * 7 }

func Unseen(x int) int {
	return x - x
}

func Text(a, b string) string { return a + b }

func Message(x int) error { return fmt.Errorf("%d of %d", x*100, 3) }

func Which(x int) string {
	switch {
	case x == 5:
		return "five"
	}
	return "other"
}

type list[T any] []T

func (l *list[T]) grow(by ...T) {
	if *l = append(*l, by...); len(*l) > 2 {
		*l = (*l)[:2]
	}
}

func Sum[K ~int](_ string, by K) K { return by << 3 }

func Twice[K ~int](by K) K { return by >> 4 }
`,
		"sample_test.go": `package sample

import "testing"

func TestSample(t *testing.T) {
	Unchecked(1)
	if Which(4) != "other" {
		t.Fail()
	}
	var l list[int]
	if l.grow(1, 2, 3); len(l) != 2 || Sum("", 1) != 8 || Twice(64) != 4 {
		t.Fail()
	}
	if Tested(10) || !Tested(9) || Text("a", "b") != "ab" {
		t.Fail()
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ctx := context.Background()
	sites, err := findSites(ctx, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	tester, err := newTester(&record{})
	if err != nil {
		t.Fatal(err)
	}
	defer tester.close()
	verdicts, err := tester.verdicts(ctx, "example.com/sample", sites)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]verdict{}
	for s, v := range verdicts {
		got[s.text+" -> "+s.other] = v
	}
	want := map[string]verdict{
		"10 -> 11": killed, "< -> <=": killed, "* -> /": alive, "7 -> 8": alive, "- -> +": unseen,
		"+ -> -":  invalid,
		"> -> >=": alive, "2 -> 3": killed, "<< -> >>": killed, "3 -> 4": killed, ">> -> <<": killed,
		"4 -> 5": killed, "== -> !=": killed, "5 -> 6": alive,
	}
	for change, v := range want {
		if found, ok := got[change]; !ok || found != v {
			t.Errorf("%s: %v, want %v", change, found, v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d changes, want %d: %v", len(got), len(want), got)
	}
}

// An entry of the list whose line has changed would have no effect, and stay forever.
func TestEquivalentsExist(t *testing.T) {
	for _, e := range equivalents {
		source, err := os.ReadFile(filepath.Join("..", "..", "..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(source)) {
			found = found || strings.TrimSpace(line) == e.line && strings.Contains(line, e.text)
		}
		if !found || e.why == "" {
			t.Errorf("%s has no line %q", e.file, e.line)
		}
		if !isEquivalent("/root/"+e.file, "\t"+e.line, e.text) || isEquivalent("/root/x.go", e.line, e.text) {
			t.Errorf("%+v lists other changes", e)
		}
	}
}
