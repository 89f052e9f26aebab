package ingest

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
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

// Choose returns the mapping, of several, whose columns a file has the most of; the first of equal ones.
func Choose(file string, of []*Mapping) (best *Mapping, err error) {
	if len(of) == 1 {
		return of[0], nil
	}
	most := 0
	var names []string
	for _, m := range of {
		names = append(names, m.Name)
		n, err := m.fits(file)
		if err != nil {
			return nil, fmt.Errorf("flow file %s: %w", file, err)
		}
		if n > most {
			best, most = m, n
		}
	}
	if best == nil {
		return nil, fmt.Errorf("flow file %s: is none of %s: leave it out, or give its format too", file, strings.Join(names, ", "))
	}
	return best, nil
}

// fits returns how many columns of the mapping the first row of a file has; 0 for a file of another format.
func (m *Mapping) fits(file string) (n int, err error) {
	var names []string
	if isParquet(file) {
		if names, err = parquetColumns(file); err != nil || m.reads == "json" {
			return 0, err
		}
		return m.found(names), nil
	}
	in, err := openText(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // read only
	r := &lineReader{r: bufio.NewReaderSize(in, 1<<20)}
	for r.next() {
		line := bytes.TrimSpace(r.line)
		isJSON := bytes.HasPrefix(line, []byte("{")) || bytes.HasPrefix(line, []byte("["))
		switch {
		case len(line) == 0, line[0] == '#' && m.reads == "csv":
			continue
		case isJSON != (m.reads == "json"):
			return 0, nil
		case isJSON:
			return m.keysOf(io.MultiReader(bytes.NewReader(line), strings.NewReader("\n"), r.r), line[0] == '['), nil
		case m.reads == "csv":
			if names, err = csvSplitter(string(line))(line); err != nil {
				return 0, nil
			}
			return m.found(names), nil
		}
		if names = headerOf(m, line); names != nil {
			return m.found(names), nil
		}
		if width := len(bytes.Fields(line)); width == len(m.names) || slices.Contains(m.widths, width) {
			return 1, nil
		}
		return 0, nil
	}
	return 0, r.err
}

// found counts the mapping's columns among those of a file; 0 if it lacks one that the mapping needs.
func (m *Mapping) found(names []string) (n int) {
	places, err := m.places(names)
	for _, at := range places {
		if err == nil && at >= 0 {
			n++
		}
	}
	return n
}

// keysOf counts the mapping's columns that the first JSON object of a text has.
func (m *Mapping) keysOf(text io.Reader, isList bool) (n int) {
	d := json.NewDecoder(&elementReader{r: text, left: maxLine})
	var first any
	if isList {
		if _, err := d.Token(); err != nil {
			return 0
		}
	}
	if err := d.Decode(&first); err != nil {
		return 0
	}
	for _, c := range m.columns {
		if slices.ContainsFunc(c.paths, func(path string) bool {
			at := first
			for _, key := range strings.Split(strings.TrimPrefix(path, "$."), ".") {
				object, _ := at.(map[string]any)
				at = object[key]
			}
			return at != nil
		}) {
			n++
		}
	}
	return n
}

// parquetColumns lists the columns of a Parquet file.
func parquetColumns(file string) (names []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	for _, field := range p.Schema().Fields() {
		names = append(names, field.Name())
	}
	return names, nil
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
