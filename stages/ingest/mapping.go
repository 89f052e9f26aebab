package ingest

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/schema/footer"
	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// Mapping defines how the rows of a file become flows. It states how the file is read, and has one SELECT
// from view source, whose columns are text, that yields the canonical columns. README.md, "Mappings",
// documents both.
type Mapping struct {
	Name string
	// Records means that rows are records of a flow log, which are merged to flows. Otherwise each row is a
	// flow.
	Records bool
	Text    string // the whole file
	Rows    string // text without notes, which determines the rows that it yields

	reads   string // csv, words or json
	names   []string
	columns []mappingColumn
	needs   [][]string // alternatives
	widths  []int      // of words: how many words a line may have; nil: as many as names
	count   bool       // of words: the first line is the number of rows
	end     string     // a line that ends the rows
	null    []string   // of fields: texts that stand for no value
	mark    string     // of fields: the beginning of a header line; other lines that begin with # are comments
	timed   bool       // of words: a time may stand before a row
	each    [][]string // of JSON: the keys from the outermost list to that of the rows
	note    [2]string  // a column, and the note about a file in which it has a number above 0
	numbers bool       // whole numbers of Parquet are numbers in source, too
	query   string
	foreign bool // not part of the program: its SQL has more limits than DuckDB's
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
		`^-- (format|title|from|rows|reads|names|widths|count|end|numbers|column|needs|note|null|header|timed|each): (.+)$`)
	sqlComment   = regexp.MustCompile(`(?m)--.*$`)
	mappingField = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.]*)(?: = (.+))?$`)
)

// parseMapping parses a mapping file: header lines, an empty line, one SELECT.
func parseMapping(file, text string) (*Mapping, error) {
	m := &Mapping{Name: strings.TrimSuffix(filepath.Base(file), ".sql"), Text: text, Rows: text}
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
			m.Rows = strings.Replace(m.Rows, line+"\n", "", 1)
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

func (m *Mapping) setHeader(key, value string) (err error) {
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
	case "timed":
		m.timed = value == "1"
	case "null":
		m.null = strings.Fields(value)
	case "header":
		m.mark = value
	case "each":
		m.each, err = parseEach(value)
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
	return err
}

// addColumn adds a column from "NAME" or "NAME = $.path | $.other". The case of names is ignored.
func (m *Mapping) addColumn(text string) error {
	c := mappingField.FindStringSubmatch(text)
	if c == nil {
		return fmt.Errorf("want NAME or NAME = $.path, got %q", text)
	}
	column := mappingColumn{name: strings.ToLower(c[1])}
	for _, p := range strings.Split(c[2], "|") {
		p = strings.TrimSpace(p)
		if p != "" {
			column.paths = append(column.paths, p)
		}
	}
	m.columns = append(m.columns, column)
	return nil
}

// columnName returns the name of a file's column in the form that mappings use.
func columnName(s string) string {
	return underscores.Replace(strings.ToLower(strings.TrimSpace(strings.TrimPrefix(s, "\ufeff"))))
}

var underscores = strings.NewReplacer("-", "_", " ", "_")

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

// MarshalText returns the name and the text of a mapping.
func (m *Mapping) MarshalText() ([]byte, error) { return []byte(m.Name + "\n" + m.Text), nil }

// UnmarshalText is the inverse of MarshalText.
func (m *Mapping) UnmarshalText(data []byte) error {
	name, text, _ := strings.Cut(string(data), "\n")
	read, err := parseMapping(name+".sql", text)
	if err != nil {
		return err
	}
	builtIn, err := FormatMapping(name)
	read.foreign = err != nil || builtIn.Text != text
	*m = *read
	return nil
}

// DetectFormat returns the built-in mapping for the extension of a file: csv, jsonl or parquet.
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

// rowSource is a staged file: a relation with columns "row" and raw, the columns of the mapping as text, and
// broken, which has the reason for which a row cannot be read.
type rowSource struct {
	relation string // SELECT
	file     string // the Parquet file that it reads
	rows     int64  // including broken ones
	broken   int64
	noted    int64  // see Mapping
	openEnd  bool   // see textFile
	xxh3     uint64 // see textFile
}

// stage prepares a file so that it can be read several times, with row numbers.
func (in *Ingester) stage(ctx context.Context, m *Mapping, file, dir string) (src rowSource, err error) {
	if isParquet(file) {
		return in.stageParquet(ctx, m, file)
	}
	return in.stageText(ctx, fileWork{m: m, file: file, dir: dir})
}

// stageText stages the rows of a text file, except for those that w.regular takes.
func (in *Ingester) stageText(ctx context.Context, w fileWork) (src rowSource, err error) {
	m := w.m
	src.file = filepath.Join(w.dir, "lines.parquet")
	text, err := readLines(ctx, w, src.file)
	if err != nil {
		return src, err
	}
	src.rows = text.rows
	src.openEnd = text.openEnd
	src.xxh3 = text.xxh3
	if m.reads == "json" {
		src.relation = jsonRelation(m, src.file)
	} else if src.relation, err = fieldsRelation(m, src.file, text.layouts); err != nil {
		return src, err
	}
	if src.rows == 0 {
		return src, nil
	}
	noted := "false"
	if m.note[0] != "" {
		noted = "whole(" + duckdb.Ident(m.note[0]) + ") > 0"
	}
	return src, in.query(ctx, "SELECT count(*) FILTER (broken <> ''), count(*) FILTER (broken = '' AND "+noted+
		") FROM ("+src.relation+")", &src.broken, &src.noted)
}

// chosenBy is the number of rows that decide which of several mappings applies to a file.
const chosenBy = 100

// choose stages a file with one of several mappings: the one for whose columns the first rows have the most
// values, or the first of several.
func (in *Ingester) choose(ctx context.Context, of []*Mapping, file, dir string) (best *Mapping,
	src rowSource, err error) {
	if len(of) == 1 {
		src, err = in.stage(ctx, of[0], file, dir)
		return of[0], src, err
	}
	var most int64
	for i, m := range of {
		own := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(own, 0o755); err != nil {
			return nil, src, err
		}
		staged, failed := in.stage(ctx, m, file, own)
		if err := ctx.Err(); err != nil {
			return nil, src, err
		}
		if failed != nil { // it is of another format, or damaged
			err = failed
			continue
		}
		has := names.Of(m.columns, func(c mappingColumn) string {
			return "CAST(" + duckdb.Ident(c.name) + " IS NOT NULL AS BIGINT)"
		})
		var values int64
		query := fmt.Sprintf(`SELECT CAST(coalesce(sum(n), 0) AS BIGINT)
FROM (SELECT %s AS n FROM (%s) WHERE broken = '' LIMIT %d)`, strings.Join(has, " + "), staged.relation, chosenBy)
		if err := in.query(ctx, query, &values); err != nil {
			return nil, src, err
		}
		if values > most {
			best = m
			src = staged
			most = values
		}
	}
	if best != nil {
		return best, src, nil
	}
	none := fmt.Errorf("is none of %s: leave it out, or give its format too",
		strings.Join(names.Of(of, func(m *Mapping) string { return m.Name }), ", "))
	if err != nil {
		none = fmt.Errorf("%w: %w", none, err)
	}
	return nil, src, none
}

func (in *Ingester) stageParquet(ctx context.Context, m *Mapping, file string) (src rowSource, err error) {
	src.file = file
	if err := footer.CheckFile(file); err != nil {
		return src, err
	}
	read := duckdb.ScanParquet(file)
	columns, err := in.columns(ctx, "SELECT * FROM "+read)
	var of duckdriver.Composite[[]string] // DuckDB renames columns whose names differ only in case
	if err == nil {
		err = in.query(ctx, "SELECT list(name) FROM parquet_schema("+duckdb.Quote(duckdb.EscapeGlob(file))+")", &of)
	}
	if err != nil {
		return src, err
	}
	names := make([]string, len(columns))
	texts := make([]string, len(columns))
	for i, c := range columns {
		names[i], texts[i] = c.name, "coalesce(CAST("+duckdb.Ident(c.name)+" AS VARCHAR), '')"
		if !slices.Contains(of.Get(), c.name) {
			names[i] = strings.TrimSuffix(strings.TrimRight(c.name, "0123456789"), "_")
		}
	}
	list, err := m.selectColumns(names, func(at int) (string, error) {
		c := columns[at]
		text := c.asText()
		switch {
		case text == "":
			return "", fmt.Errorf("column %s is of type %s, want numbers, text or timestamps", names[at], c.typ)
		case m.numbers && (c.whole() || c.epochNS() != ""):
			text = duckdb.Ident(c.name)
		}
		return text, nil
	})
	if err != nil {
		return src, err
	}
	for i, c := range m.columns {
		list[i] += " AS " + duckdb.Ident(c.name)
	}
	// A column of the file may have the name of DuckDB's row number, but the order of rows is always that of
	// the file.
	row := "file_row_number + 1"
	if slices.Contains(names, "file_row_number") {
		row = "row_number() OVER ()"
	} else {
		read = strings.TrimSuffix(read, ")") + ", file_row_number = true)"
	}
	src.relation = fmt.Sprintf(`SELECT %s AS "row", %s, concat_ws(',', %s) AS raw, '' AS broken FROM %s`,
		row, strings.Join(list, ", "), strings.Join(texts, ", "), read)
	return src, in.query(ctx, "SELECT count(*) FROM "+duckdb.ScanParquet(file), &src.rows)
}

// missing returns the columns that the mapping needs and a file lacks.
func (m *Mapping) missing(has map[string]bool) (missing []string) {
	for _, alternatives := range m.needs {
		if !slices.ContainsFunc(alternatives, func(name string) bool { return has[name] }) {
			missing = append(missing, strings.Join(alternatives, " or "))
		}
	}
	return missing
}

// selectColumns returns the SQL of each of the mapping's columns, given those of a file. value returns the
// SQL of the column at a place, and columns that the file lacks are NULL.
func (m *Mapping) selectColumns(names []string, value func(at int) (string, error)) (list []string,
	err error) {
	places, err := m.placesIn(names)
	if err != nil {
		return nil, err
	}
	list = make([]string, len(places))
	for i, at := range places {
		list[i] = "CAST(NULL AS VARCHAR)"
		if at < 0 {
			continue
		}
		if list[i], err = value(at); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// placesIn returns where each of the mapping's columns is among those of a file; -1: the file lacks it. Two
// columns of one meaning, and the lack of one that the mapping needs, are errors.
func (m *Mapping) placesIn(names []string) (places []int, err error) {
	of := map[string]int{}
	has := map[string]bool{}
	for i, name := range names {
		key := columnName(name)
		has[key] = true
		if !slices.ContainsFunc(m.columns, func(c mappingColumn) bool { return c.name == key }) {
			continue
		}
		if first, twice := of[key]; twice {
			return nil, fmt.Errorf("columns %d, %q, and %d, %q, have one meaning: which one counts?", first+1,
				names[first], i+1, name)
		}
		of[key] = i
	}
	missing := m.missing(has)
	if missing != nil {
		instead := ""
		if m.Name == "" { // the hosts or the labels table, to which mappings do not apply
			return nil, fmt.Errorf("no column %s (it has %s)", strings.Join(missing, ", "), strings.Join(names, ", "))
		}
		for _, name := range Formats() {
			if other, err := FormatMapping(name); err == nil && other.needs != nil && other.missing(has) == nil {
				instead += ", the columns of --format " + name
			}
		}
		return nil, fmt.Errorf("no column %s (it has %s%s); for a format of your own, start from parsimon ingest "+
			"--show-mapping %s and give --mapping FILE.sql", strings.Join(missing, ", "), strings.Join(names, ", "),
			instead, m.Name)
	}
	places = make([]int, len(m.columns))
	for i, c := range m.columns {
		at, has := of[c.name]
		if !has {
			at = -1
		}
		places[i] = at
	}
	return places, nil
}

// jsonRelation returns the SQL that reads the columns of staged JSON objects. All paths are read in one pass.
func jsonRelation(m *Mapping, staged string) string {
	var paths, list []string
	for _, c := range m.columns {
		var values []string
		for _, p := range c.paths {
			paths = append(paths, duckdb.Quote(p))
			values = append(values, fmt.Sprintf("nullif(found[%d], '')", len(paths)))
		}
		list = append(list, "coalesce("+strings.Join(values, ", ")+") AS "+duckdb.Ident(c.name))
	}
	return step("json", values{"columns": strings.Join(list, ", "), "paths": strings.Join(paths, ", "),
		"staged": duckdb.ScanParquet(staged)})
}

// fieldsRelation returns the SQL that reads the columns of staged lines of fields. layouts are the headers of
// the file, nil if it has none. A column is where the header of its line has it.
func fieldsRelation(m *Mapping, staged string, layouts [][]string) (string, error) {
	null := m.null
	between := " "
	if m.reads == "csv" {
		between = ","
	}
	if m.mark != "" {
		between = chr9
	}
	if null == nil {
		null = []string{map[string]string{"csv": "", "words": "-"}[m.reads]}
	}
	if layouts == nil {
		layouts = [][]string{m.names}
	}
	of := make([][]string, len(m.columns)) // by column and layout: the SQL of the value
	for _, names := range layouts {
		values, err := m.selectColumns(names, func(at int) (string, error) {
			return fmt.Sprintf("fields[%d]", at+1),
				nil
		})
		if err != nil {
			return "", err
		}
		for i, v := range values {
			of[i] = append(of[i], v)
		}
	}
	list := make([]string, len(m.columns))
	for i, c := range m.columns {
		value := of[i][0]
		if slices.ContainsFunc(of[i], func(v string) bool { return v != value }) {
			value = "CASE layout"
			for layout, v := range of[i] {
				value += fmt.Sprintf(" WHEN %d THEN %s", layout, v)
			}
			value += " END"
		}
		for _, text := range null {
			value = "nullif(" + value + ", " + duckdb.Quote(text) + ")"
		}
		list[i] = value + " AS " + duckdb.Ident(c.name)
	}
	return step("fields", values{"columns": strings.Join(list, ", "), "between": duckdb.Quote(between),
		"staged": duckdb.ScanParquet(staged)}), nil
}

const chr9 = "\t"
