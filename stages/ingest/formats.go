package ingest

import (
	"embed"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed mappings/*.sql
var mappingFiles embed.FS

// Formats lists the names of the built-in mappings, in alphabetical order.
func Formats() []string {
	entries, err := mappingFiles.ReadDir("mappings")
	if err != nil {
		panic("ingest: " + err.Error()) // embedded in the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".sql"))
	}
	slices.Sort(names)
	return names
}

// FormatMapping returns a built-in mapping by its name.
func FormatMapping(name string) (*Mapping, error) {
	if !slices.Contains(Formats(), name) {
		return nil, fmt.Errorf("no format %q: must be one of %s", name, strings.Join(Formats(), ", "))
	}
	text, err := mappingFiles.ReadFile(path.Join("mappings", name+".sql"))
	if err != nil {
		return nil, err
	}
	return parseMapping(name+".sql", string(text))
}

// DetectFormat returns the built-in mapping for the name of a file: csv, jsonl or parquet.
func DetectFormat(file string) (*Mapping, error) {
	base := strings.ToLower(filepath.Base(file))
	for _, z := range []string{".gz", ".zst"} {
		base = strings.TrimSuffix(base, z)
	}
	formats := map[string]string{
		".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
	}
	if name, known := formats[filepath.Ext(base)]; known {
		return FormatMapping(name)
	}
	return nil, fmt.Errorf("%s: the name does not identify the format: give a format (%s) or a mapping", file,
		strings.Join(Formats(), ", "))
}
