package queries

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
	"parsimon/schema/units"
)

// Query is one question of the library. To add one, add a file NAME.sql to this folder: parseQuery describes it, and
// questions_test.go needs its answer.
type Query struct {
	Name     string // the file's name without .sql, and the name of the view
	Question string // the question in words
	Grain    string // what one row of the answer is
	Units    string // units of the answer's columns
	SQL      string // one SELECT over the catalog's views, with parameters as $name
	Params   []Param
}

//go:embed *.sql fragments/*.sql macros/*.sql macros/few/*.sql own/*.sql *.vl.json theme_light.json theme_dark.json
var files embed.FS

// library parses the embedded files, once. They are part of the program: a malformed one is a bug, and a
// test parses them all.
var library = sync.OnceValue(func() []Query {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("queries: " + err.Error())
	}
	var all []Query
	for _, e := range entries { // sorted by name
		if path.Ext(e.Name()) != ".sql" {
			continue
		}
		text := include.ReplaceAllFunc(read(e.Name()), func(line []byte) []byte {
			return read("fragments/" + string(include.FindSubmatch(line)[1]) + ".sql")
		})
		q, err := parseQuery(e.Name(), string(text))
		if _, known := files.ReadFile("own/" + e.Name()); err == nil && known == nil {
			err = fmt.Errorf("%s: a statement of a command has that name (own/%s)", e.Name(), e.Name())
		}
		if err != nil {
			panic("queries: " + err.Error())
		}
		all = append(all, q)
	}
	return all
})

// include is a line of a question in the place of which a file of folder fragments is read.
var include = regexp.MustCompile(`-- include (\w+)\n`)

func read(file string) []byte {
	text, err := files.ReadFile(file)
	if err != nil {
		panic("queries: " + err.Error())
	}
	return text
}

// List returns all questions, sorted by name.
func List() []Query { return slices.Clone(library()) }

// Get returns the question of that name. The error for an unknown name suggests similar ones.
func Get(name string) (Query, error) {
	all := library()
	if at := slices.IndexFunc(all, func(q Query) bool { return q.Name == name }); at >= 0 {
		return all[at], nil
	}
	if strings.Contains(name, " ") {
		return Query{}, fmt.Errorf("no query %q: text in SQL goes with --sql", name)
	}
	return Query{}, fmt.Errorf("no query %q%s (parsimon query --list lists all)", name,
		names.DidYouMean(name, names.Of(all, func(q Query) string { return q.Name })))
}

// Known returns a question that a command asks: one of the library, or file own/NAME.sql, which has no view and whose
// parameters are texts.
func Known(name string) Query {
	if q, err := Get(name); err == nil {
		return q
	}
	q := Query{Name: name, SQL: strings.TrimSpace(string(read("own/" + name + ".sql")))}
	for _, use := range paramUse.FindAllString(q.SQL, -1) {
		if !q.hasParam(use[1:]) {
			q.Params = append(q.Params, Param{Name: use[1:], Type: "text"})
		}
	}
	return q
}

// Param is one parameter of a question.
type Param struct {
	Name    string
	Default string // as text; empty for other types than text: NULL, which the question finds a value for
	Doc     string
	// Type is the set of allowed values: text; count (integer from 1 to 100,000); positive (number
	// above 0); fraction (number above 0 and below 1); time (integer of ns, 0 or
	// more, or a time of RFC 3339 such as 2026-01-31T09:00:00.5Z, as ns since 1970).
	Type string
}

// maxCount limits the parameters of type count, which are numbers of rows and of bins. Memory grows with them.
const maxCount = 100_000

// literal returns a value of the parameter, given as text, as SQL.
func (p Param) literal(text string) (string, error) {
	want, sql := "", ""
	switch p.Type {
	case "text":
		return duckdb.Quote(text), nil
	case "count", "time":
		n, err := strconv.ParseInt(text, 10, 64)
		if date, none := units.ParseDate(text); p.Type == "time" && none == nil {
			n, err = date, nil
		}
		sql = fmt.Sprintf("CAST(%d AS BIGINT)", n)
		switch {
		case p.Type == "count" && (err != nil || n < 1 || n > maxCount):
			want = fmt.Sprintf("a whole number from 1 to %d", maxCount)
		case err != nil || n < 0:
			want = "a whole number of ns, 0 or more, or a time such as 2026-01-31T09:00:00Z"
		}
	default:
		f, err := strconv.ParseFloat(text, 64)
		sql = "CAST(" + strconv.FormatFloat(f, 'e', -1, 64) + " AS DOUBLE)"
		switch {
		case p.Type == "fraction" && (err != nil || !(f > 0 && f < 1)):
			want = "a number above 0 and below 1"
		case err != nil || !(f > 0) || f > 1e12: // milliseconds of up to 1e12 fit 64 bits as nanoseconds
			want = "a number above 0, at most 1e12"
		}
	}
	if want != "" {
		return "", fmt.Errorf("parameter %s: want %s, got %q", p.Name, want, text)
	}
	return sql, nil
}

var (
	questionHead = regexp.MustCompile(`^-- question: (.+)\n-- grain: (.+)\n-- units: (.+)\n((?:-- .+\n)*)$`)
	paramLine    = regexp.MustCompile(
		`^-- param: ([a-z][a-z0-9_]*) (text|count|positive|fraction|time) = (\S+) : (.+)\n$`)
	paramUse = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
)

// parseQuery parses the file of a question: a header, an empty line, and one SELECT without a semicolon.
//
//	-- question: one line
//	-- grain: one line
//	-- units: one line
//	-- param: NAME TYPE = DEFAULT : what it is     (any number of them; DEFAULT '' is the empty string)
//
//	SELECT … WHERE column = $NAME
//
// Every parameter must be declared and used.
func parseQuery(file, text string) (Query, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	m := questionHead.FindStringSubmatch(head + "\n")
	if m == nil || body == "" || strings.Contains(body, ";") {
		return Query{}, fmt.Errorf("%s: want lines question, grain, units and param, an empty line, and one "+
			"SELECT without a semicolon", file)
	}
	q := Query{Name: strings.TrimSuffix(file, ".sql"), Question: m[1], Grain: m[2], Units: m[3],
		SQL: strings.TrimSpace(body)}
	uses := paramUse.FindAllString(q.SQL, -1)
	for line := range strings.Lines(m[4]) {
		p := paramLine.FindStringSubmatch(line)
		if p == nil || q.hasParam(p[1]) || !slices.Contains(uses, "$"+p[1]) {
			return q, fmt.Errorf("%s: want `-- param: NAME TYPE = DEFAULT : what it is`, once and used, got %q", file, line)
		}
		q.Params = append(q.Params, Param{Name: p[1], Type: p[2], Default: strings.TrimPrefix(p[3], "''"), Doc: p[4]})
	}
	if _, err := q.With(nil); err != nil {
		return q, fmt.Errorf("%s: %w", file, err)
	}
	return q, nil
}

// OfEvent reports whether the question is about events, by default those of the scenario.
func (q Query) OfEvent() bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Type == "time" && p.Default == "" })
}

func (q Query) hasParam(name string) bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name })
}

// Chart returns the Vega-Lite specification that draws the answer of a question. It stands beside the question:
// X.vl.json draws X.sql.
//
// A specification has no rows: its data has the name of the question, and a page binds the rows of the answer
// to that name. It has no colours either: a theme gives them. The width "container" stands for the width that the page
// has. Charts with parameters service and vnet show one group of flows: null is all of them. The description says what
// the chart shows.
func Chart(name string) json.RawMessage { return read(name + ".vl.json") }

// Theme returns a Vega-Lite configuration that gives charts their colours, which colour-blind readers can
// distinguish, on a light or a dark page.
func Theme(dark bool) json.RawMessage {
	if dark {
		return read("theme_dark.json")
	}
	return read("theme_light.json")
}
