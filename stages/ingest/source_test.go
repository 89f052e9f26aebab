package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Arguments name files, directories and patterns. A file is listed once. Names that begin with a dot or an
// underscore are not sources, and an argument without files is an error.
func TestFilesThatArgumentsName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv", ".hidden.csv", "_SUCCESS", "day=1/c.csv", "day=1/_d.csv",
		"_temporary/e.csv"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "day=1", "again")); err != nil { // an endless path
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want []string
		fault      string
	}{
		{[]string{""}, []string{"a.csv", "b.csv", "day=1/c.csv"}, ""},
		{[]string{"b.csv", ""}, []string{"b.csv", "a.csv", "day=1/c.csv"}, ""},
		{[]string{"*.csv"}, []string{".hidden.csv", "a.csv", "b.csv"}, ""},
		{[]string{".hidden.csv"}, []string{".hidden.csv"}, ""},
		{[]string{"none*"}, nil, "none*: matches no file"},
		{[]string{"_temporary/none"}, nil, "no such file"},
		{[]string{"[a"}, nil, "syntax error in pattern"},
	} {
		var args, want []string
		for _, a := range c.args {
			args = append(args, filepath.Join(dir, a))
		}
		for _, w := range c.want {
			want = append(want, filepath.Join(dir, w))
		}
		got, err := FindSources(args)
		if !slices.Equal(got, want) || (err == nil) != (c.fault == "") ||
			err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, want)
		}
	}
}
