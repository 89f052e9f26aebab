package ingest

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// Mapping says how the rows of a kind of file become flows: how the file is read, and one SELECT from the view source,
// whose columns are text, that yields the canonical columns. README.md, "Mappings", documents both.
type Mapping struct {
	Name string
	// Records says that rows are records of a flow log, which are merged to flows. Else each row is a flow.
	Records bool
	Text    string // the whole file, but for notes: what says which rows it yields

	reads   string // csv, words or json
	names   []string
	columns []mappingColumn
	needs   [][]string // alternatives
	widths  []int      // of words: how many words a line may have; nil: as many as names
	count   bool       // of words: the first line is the number of rows
	end     string     // a line that ends the rows
	note    [2]string  // a column, and what is said of a file where it has a number above 0
	numbers bool       // whole numbers of Parquet are numbers in source, too
	query   string
	foreign bool // not part of the program: its SQL is bounded by more than DuckDB
}

type mappingColumn struct {
	name  string
	paths []string // of JSON
}

// ReadMapping reads a mapping from a file. Errors name the file and the line.
func ReadMapping(file string) (*Mapping, error) {
	text, err := topology.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	m, err := parseMapping(file, string(text))
	if err == nil {
		m.foreign = true
	}
	return m, err
}

var (
	mappingLine = regexp.MustCompile(
		`^-- (format|title|from|rows|reads|names|widths|count|end|numbers|column|needs|note): (.+)$`)
	sqlComment   = regexp.MustCompile(`(?m)--.*$`)
	mappingField = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)(?: = (.+))?$`)
)

// parseMapping parses a mapping file: header lines, an empty line, one SELECT.
func parseMapping(file, text string) (*Mapping, error) {
	m := &Mapping{Name: strings.TrimSuffix(filepath.Base(file), ".sql"), Text: text}
	header, body, found := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	if !found {
		return nil, fmt.Errorf("mapping %s: no empty line after the header; "+
			"parsimon ingest --show-mapping csv prints one to start from", file)
	}
	hasRows := false
	for i, line := range strings.Split(header, "\n") {
		h := mappingLine.FindStringSubmatch(line)
		err := fmt.Errorf("want a header line such as \"-- reads: csv\", got %q", line)
		if h != nil {
			hasRows = hasRows || h[1] == "rows"
			err = m.setHeader(h[1], strings.TrimSpace(h[2]))
		}
		if h != nil && h[1] == "note" {
			m.Text = strings.Replace(m.Text, line+"\n", "", 1)
		}
		if err != nil {
			return nil, fmt.Errorf("mapping %s:%d: %w", file, i+1, err)
		}
	}
	m.query = strings.TrimSpace(body) + "\n"
	switch {
	case !hasRows || m.reads == "":
		return nil, fmt.Errorf("mapping %s: the header lacks rows or reads", file)
	case strings.TrimSpace(m.query) == "" || strings.Contains(sqlComment.ReplaceAllString(m.query, ""), ";"):
		return nil, fmt.Errorf("mapping %s: want one SELECT without a semicolon after the header", file)
	case len(m.columns) == 0 && len(m.names) == 0:
		return nil, fmt.Errorf("mapping %s: names no column", file)
	}
	for _, c := range m.columns {
		if m.reads == "json" && len(c.paths) == 0 {
			return nil, fmt.Errorf("mapping %s: column %s has no JSON path", file, c.name)
		}
	}
	if len(m.columns) == 0 {
		m.columns = names.Of(m.names, func(n string) mappingColumn { return mappingColumn{name: n} })
	}
	return m, nil
}

func (m *Mapping) setHeader(key, value string) error {
	switch key {
	case "format":
		m.Name = value
	case "end":
		m.end = value
	case "rows":
		if value != "flows" && value != "records" {
			return fmt.Errorf("rows are flows or records, not %q", value)
		}
		m.Records = value == "records"
	case "reads":
		if !slices.Contains([]string{"csv", "words", "json"}, value) {
			return fmt.Errorf("reads csv, words or json, not %q", value)
		}
		m.reads = value
	case "names":
		m.names = strings.Fields(strings.ToLower(value))
	case "count":
		m.count = value == "1"
	case "numbers":
		m.numbers = value == "1"
	case "widths":
		for _, w := range strings.Fields(value) {
			n, err := strconv.Atoi(w)
			if err != nil || n < 1 || n > 1000 {
				return fmt.Errorf("widths are whole numbers, not %q", w)
			}
			m.widths = append(m.widths, n)
		}
	case "note":
		m.note[0], m.note[1], _ = strings.Cut(value, " ")
		return m.addColumn(m.note[0])
	case "column":
		return m.addColumn(value)
	case "needs":
		for _, n := range strings.Fields(strings.ToLower(value)) {
			m.needs = append(m.needs, strings.Split(n, "|"))
		}
	}
	return nil
}

// addColumn adds a column from "NAME" or "NAME = $.path | $.other". The case of names is ignored.
func (m *Mapping) addColumn(text string) error {
	c := mappingField.FindStringSubmatch(text)
	if c == nil {
		return fmt.Errorf("want NAME or NAME = $.path, got %q", text)
	}
	column := mappingColumn{name: strings.ToLower(c[1])}
	for _, p := range strings.Split(c[2], "|") {
		if p = strings.TrimSpace(p); p != "" {
			column.paths = append(column.paths, p)
		}
	}
	m.columns = append(m.columns, column)
	return nil
}

// columnName returns the name of a file's column as mappings write it.
func columnName(s string) string {
	s = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(s, "\ufeff")))
	return strings.NewReplacer("-", "_", " ", "_").Replace(s)
}

//go:embed mappings/*.sql
var mappingFiles embed.FS

// Formats lists the names of the built-in mappings, in alphabetical order.
func Formats() []string {
	entries, err := mappingFiles.ReadDir("mappings")
	if err != nil {
		panic("ingest: " + err.Error()) // embedded in the program
	}
	return names.Of(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".sql") })
}

// FormatMapping returns a built-in mapping by its name.
func FormatMapping(name string) (*Mapping, error) {
	text, err := mappingFiles.ReadFile(path.Join("mappings", name+".sql"))
	if err != nil {
		return nil, fmt.Errorf("no format %q: must be one of %s", name, strings.Join(Formats(), ", "))
	}
	return parseMapping(name+".sql", string(text))
}

// DetectFormat returns the built-in mapping for the name of a file: csv, jsonl or parquet.
func DetectFormat(file string) (*Mapping, error) {
	base := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(file), ".gz"), ".zst")
	formats := map[string]string{
		".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
	}
	if name, known := formats[filepath.Ext(base)]; known {
		return FormatMapping(name)
	}
	return nil, fmt.Errorf("%s: the name does not identify the format: give a format (%s) or a mapping", file,
		strings.Join(Formats(), ", "))
}
