package queries

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parsimon/schema"
	"parsimon/schema/names"
)

// File is one data file of a lake, with the ids of all its rows. The ids are values of the columns scenario,
// variant and workload in the views. They are never read from the path: neither a folder above the lake
// nor a file that two scenarios share can change them.
type File struct {
	Table    string // name of a table of package schema
	Scenario string // empty for a table of a workload
	Variant  string // empty for a table that has none
	Workload string // empty for a table of a scenario
	Path     string // relative to the lake, with slashes
	// Answer says that the variant is the answer of its scenario: what views without _all show.
	Answer bool
}

func (f File) id(column string) string {
	switch column {
	case "scenario":
		return f.Scenario
	case "variant":
		return f.Variant
	}
	return f.Workload
}

// check returns an error unless the file is inside the lake and DuckDB takes its path for itself.
func (f File) check() error {
	if _, err := schema.ByName(f.Table); err != nil {
		return fmt.Errorf("file %q: %w", f.Path, err)
	}
	if !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path {
		return fmt.Errorf("file %q: not a clean path inside the lake", f.Path)
	}
	if strings.ContainsAny(f.Path, `*?[]\:`) || strings.ContainsFunc(f.Path, unicode.IsControl) {
		return fmt.Errorf("file %q: must not have * ? [ ] \\ : or control characters in its path", f.Path)
	}
	return nil
}

// checkInside returns an error for a path of something else than a regular file, since DuckDB would wait for the writer
// of a named pipe, and for one that leads out of the lake over a symbolic link: DuckDB compares paths as strings. A
// file that is not there is left to DuckDB.
func checkInside(root string, paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: not a regular file", path)
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || !strings.HasPrefix(target, root+string(filepath.Separator)) {
			return fmt.Errorf("%s leads out of the lake over a symbolic link, to %s, where queries may not read: "+
				"move the files into the lake", path, target)
		}
	}
	return nil
}

// MarkAnswers sets Answer of the files of each scenario's answer: the given variant if it has the tables of an
// estimate, or else the best that has: of the whole network, of the most passes, of every flow.
func MarkAnswers(files []File, answerOf map[string]string) {
	best := map[string]string{}
	for _, f := range files {
		if f.Table != schema.Slowdowns.Name && f.Table != schema.SampledSlowdowns.Name {
			continue
		}
		known, found := best[f.Scenario]
		if asked := answerOf[f.Scenario]; !found || f.Variant == asked || known != asked && better(f.Variant, known) {
			best[f.Scenario] = f.Variant
		}
	}
	for i := range files {
		variant, found := best[files[i].Scenario]
		files[i].Answer = found && files[i].Variant == variant
	}
}

// better orders variants by their names.
func better(variant, than string) bool {
	rank := func(name string) int {
		if strings.Contains(name, "-sampled-") {
			return -2
		}
		return slices.Index([]string{"flow-1", "flow-2", "exact"}, name) // -1: independent, or another
	}
	return cmp.Or(cmp.Compare(rank(than), rank(variant)), strings.Compare(variant, than)) < 0
}

// maxListed is the number of ids that an error lists.
const maxListed = 20

// checkIDs returns an error if the parameter scenario or variant is not empty and no data file of the lake has
// that id. The error lists those that it has, the most similar ones first.
func (db *DB) checkIDs(params map[string]string) error {
	for _, column := range []string{"scenario", "variant"} {
		asked, of := params[column], "in the lake"
		if asked == "" {
			continue
		}
		if scenario := params["scenario"]; column == "variant" && scenario != "" {
			of = "of scenario " + scenario
		}
		var known []string
		for _, f := range db.files {
			if id := f.id(column); id != "" && (of == "in the lake" || params["scenario"] == f.Scenario) {
				known = append(known, id)
			}
		}
		if slices.Sort(known); !slices.Contains(known, asked) {
			known = slices.Compact(known)
			return fmt.Errorf("no %s %q %s; it has %s", column, asked, of,
				strings.Join(names.Nearest(asked, known, maxListed), ", "))
		}
	}
	return nil
}

// CheckLakePath returns an error if the absolute path of a lake, symbolic links resolved, has characters with
// a meaning in DuckDB's paths: * ? [ ] \ are patterns, a comma separates paths, % begins an escape. Control
// characters and bytes that are not UTF-8 are refused too. The lake need not exist yet.
func CheckLakePath(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("lake %s: %w", dir, err)
	}
	// Symbolic links are resolved in the part of the path that exists.
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return fmt.Errorf("lake %s: %w", dir, err)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
	if !utf8.ValidString(path) {
		return fmt.Errorf("lake %q: its path %q must be UTF-8, or DuckDB cannot read it", dir, path)
	}
	for _, c := range path {
		if strings.ContainsRune(`*?[]\,%`, c) || unicode.IsControl(c) {
			return fmt.Errorf(`lake %q: its path %q must not have the character %q: DuckDB reads * ? [ ] \ , %% as `+
				`patterns, lists and escapes, and control characters are not allowed`, dir, path, c)
		}
	}
	return nil
}

// lakeRoot returns the absolute path of a lake, symbolic links resolved. The lake must be a directory.
func lakeRoot(lake string) (string, error) {
	root, err := filepath.Abs(lake)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no lake at %s: no such directory", lake)
	}
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("lake %s is not a directory", lake)
	}
	return root, nil
}
