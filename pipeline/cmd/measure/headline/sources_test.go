package headline

import (
	"os"
	"path/filepath"
	"testing"
)

// A figure is not older because a comment or the layout of the code changed, and it is older if a token, an
// embedded file or an imported package changed.
func TestDigestFollowsTheCode(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &goPackage{ImportPath: "parsimon/x", Dir: folder, GoFiles: []string{"a.go"},
		EmbedFiles: []string{"a.txt"}}
	const code = "package x\n\n//go:noinline\nfunc f() int { return 1 }\n"
	content := func(source, embedded string) string {
		t.Helper()
		write("a.go", source)
		write("a.txt", embedded)
		found, err := p.content()
		if err != nil {
			t.Fatal(err)
		}
		return string(found)
	}
	first := content(code, "text")
	for name, source := range map[string]string{
		"a comment": "// Package x.\n" + code + "\n/* the end */\n",
		"layout":    "package x\n\n\n//go:noinline\nfunc f()   int { return   1 }\n",
	} {
		if content(source, "text") != first {
			t.Errorf("%s changes the digest", name)
		}
	}
	for name, source := range map[string]string{
		"a constant":     "package x\n\n//go:noinline\nfunc f() int { return 2 }\n",
		"an instruction": "package x\n\nfunc f() int { return 1 }\n",
	} {
		if content(source, "text") == first {
			t.Errorf("%s does not change the digest", name)
		}
	}
	if content(code, "other") == first {
		t.Error("an embedded file does not change the digest")
	}
}

// The closure has what is imported, but neither the standard library nor what is left out.
func TestClosure(t *testing.T) {
	graph := packageGraph{
		"parsimon/a": {ImportPath: "parsimon/a", Imports: []string{"fmt", "parsimon/b", "parsimon/c/d",
			"other/e"}},
		"parsimon/b":   {ImportPath: "parsimon/b", Imports: []string{"parsimon/f"}},
		"parsimon/c/d": {ImportPath: "parsimon/c/d"},
		"parsimon/f":   {ImportPath: "parsimon/f"},
		"other/e":      {ImportPath: "other/e"},
		"fmt":          {ImportPath: "fmt", Standard: true},
	}
	var got []string
	for _, p := range graph.closure(Sources{Packages: []string{"a"}, Without: []string{"c"}}) {
		got = append(got, p.ImportPath)
	}
	want := []string{"other/e", "parsimon/a", "parsimon/b", "parsimon/f"}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
