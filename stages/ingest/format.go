package ingest

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed mappings/*.sql
var mappingFiles embed.FS

// A Mapping says how rows of a kind of file become flows: how the file is read, and one SELECT from
// the view source, all of whose columns are text, that yields the canonical columns:
//
//	"row"                 the row's number, as it stands in source
//	src, dst              hosts: addresses, names or node ids
//	size_bytes            bytes
//	start_ns, end_ns      start, and end if known, in ns
//	start_resolution_ns   the start lies in [start_ns, start_ns + this); 0 or none: it is start_ns
//	sampled               the row stands for packets that were sampled: the true start is not known
//	sampling_rate         how many packets one sampled packet stands for; size_bytes is multiplied by it
//	flow_id               id, for whole flows
//	protocol, src_port, dst_port    what tells connections of two hosts apart
//	observer              who saw the record; what several saw of one connection is taken once
//	service, vnet         labels
//	set_aside             why the row is no flow, and is not to count as a mistake either
//
// All but the first five and end_ns may be left out. Helpers: whole(text) is a whole number,
// seconds_ns(text) ns from decimal seconds, rfc3339_ns(text) ns from a timestamp and
// rfc3339_resolution_ns(text) what its fraction leaves open; all are NULL for what is none.
type Mapping struct {
	Name, Title, From string
	// Records: rows are records of a flow log, which are merged to flows; else each row is a flow.
	Records bool
	Text    string // the whole file

	reads   string // csv, words or json
	names   []string
	columns []mappingColumn
	needs   [][]string // alternatives
	widths  []int      // of words: how many a line may have; nil: as many as names
	count   bool       // of words: the first line is the number of rows
	query   string
}

type mappingColumn struct {
	name  string
	paths []string // of JSON
}

var (
	mappingLine  = regexp.MustCompile(`^-- (format|title|from|rows|reads|names|widths|count|column|needs): (.+)$`)
	sqlComment   = regexp.MustCompile(`(?m)--.*$`)
	mappingField = regexp.MustCompile(`^([a-z_][a-z0-9_]*)(?: = (.+))?$`)
)

// Formats lists the names of the built-in mappings, in alphabetical order.
func Formats() []string {
	entries, err := mappingFiles.ReadDir("mappings")
	if err != nil {
		panic("stages: " + err.Error()) // they are part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".sql"))
	}
	slices.Sort(names)
	return names
}

// FormatMapping is a built-in mapping by its name.
func FormatMapping(name string) (*Mapping, error) {
	if !slices.Contains(Formats(), name) {
		return nil, fmt.Errorf("no format %q; there are %s", name, strings.Join(Formats(), ", "))
	}
	text, err := mappingFiles.ReadFile(path.Join("mappings", name+".sql"))
	if err != nil {
		return nil, err
	}
	return parseMapping(name+".sql", string(text))
}

// ReadMapping reads a mapping from a file.
func ReadMapping(file string) (*Mapping, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return parseMapping(file, string(text))
}

// parseMapping reads a mapping file: header lines, an empty line, one SELECT.
//
//	-- format: its name
//	-- title: what it reads
//	-- from: where the format is documented
//	-- rows: flows | records
//	-- reads: csv (or Parquet) | words (lines cut at blanks, or Parquet) | json (JSON lines, or one list)
//	-- column: NAME            of CSV and Parquet: matched without regard to case, - and _ alike
//	-- column: NAME = $.path | $.other     of JSON: the first of the paths that is there
//	-- names: a b c            of words without a header line: the columns in order
//	-- widths: 6 7             of words: how many a line may have
//	-- count: 1                of words: the first line is the number of rows
//	-- needs: a|b c            columns without which a file is refused
func parseMapping(file, text string) (*Mapping, error) {
	m := &Mapping{Name: strings.TrimSuffix(filepath.Base(file), ".sql"), Text: text}
	header, body, found := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	if !found {
		return nil, fmt.Errorf("mapping %s: no empty line after the header; parsimon ingest --show-mapping csv prints one to start from", file)
	}
	rows := ""
	for i, line := range strings.Split(header, "\n") {
		bad := func(format string, args ...any) error {
			return fmt.Errorf("mapping %s:%d: %s", file, i+1, fmt.Sprintf(format, args...))
		}
		h := mappingLine.FindStringSubmatch(line)
		if h == nil {
			return nil, bad("want a header line such as \"-- reads: csv\", got %q", line)
		}
		value := strings.TrimSpace(h[2])
		switch h[1] {
		case "format":
			m.Name = value
		case "title":
			m.Title = value
		case "from":
			m.From = value
		case "rows":
			rows = value
			if rows != "flows" && rows != "records" {
				return nil, bad("rows are flows or records, not %q", rows)
			}
			m.Records = rows == "records"
		case "reads":
			m.reads = value
			if !slices.Contains([]string{"csv", "words", "json"}, value) {
				return nil, bad("reads csv, words or json, not %q", value)
			}
		case "names":
			m.names = strings.Fields(value)
		case "count":
			m.count = value == "1"
		case "widths":
			for _, w := range strings.Fields(value) {
				n, err := strconv.Atoi(w)
				if err != nil || n < 1 || n > 1000 {
					return nil, bad("widths are whole numbers, not %q", w)
				}
				m.widths = append(m.widths, n)
			}
		case "column":
			c := mappingField.FindStringSubmatch(value)
			if c == nil {
				return nil, bad("want NAME or NAME = $.path, got %q", value)
			}
			col := mappingColumn{name: c[1]}
			for _, p := range strings.Split(c[2], "|") {
				if p = strings.TrimSpace(p); p != "" {
					col.paths = append(col.paths, p)
				}
			}
			m.columns = append(m.columns, col)
		case "needs":
			for _, n := range strings.Fields(value) {
				m.needs = append(m.needs, strings.Split(n, "|"))
			}
		}
	}
	m.query = strings.TrimSpace(body) + "\n"
	switch {
	case rows == "" || m.reads == "":
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
		for _, n := range m.names {
			m.columns = append(m.columns, mappingColumn{name: n})
		}
	}
	return m, nil
}

// DetectFormat is the built-in mapping for a file's name: csv, jsonl or parquet.
func DetectFormat(file string) (*Mapping, error) {
	base := strings.ToLower(filepath.Base(file))
	for _, z := range []string{".gz", ".zst"} {
		base = strings.TrimSuffix(base, z)
	}
	switch filepath.Ext(base) {
	case ".csv", ".tsv":
		return FormatMapping("csv")
	case ".parquet":
		return FormatMapping("parquet")
	case ".jsonl", ".ndjson":
		return FormatMapping("jsonl")
	}
	return nil, fmt.Errorf("%s: its name does not say what it holds: give the format (%s) or a mapping", file, strings.Join(Formats(), ", "))
}

// columnName is how mappings call a file's column.
func columnName(s string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(strings.TrimPrefix(s, "\ufeff"))), "-", "_")
}
