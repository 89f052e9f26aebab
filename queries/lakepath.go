package queries

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
