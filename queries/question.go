package queries

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parsimon/queries/duckdb"
	"parsimon/schema/names"
	"parsimon/schema/units"
)

// Query is one question of the library. To add one, add a file NAME.sql to this folder, as parseQuery
// describes, and its answer to knownAnswers or chartAnswers of the tests.
type Query struct {
	Name     string // name of the file without .sql, and of the view
	Question string // the question in words
	Grain    string // meaning of a row of the answer
	Units    string // units of the answer's columns
	SQL      string // one SELECT over the views of the catalog, with parameters as $name
	Params   []Param
}

//go:embed *.sql fragments/*.sql macros/*.sql macros/few/*.sql own/*.sql *.vl.json theme_light.json theme_dark.json
var files embed.FS

// library parses the embedded questions once. They are sorted by name.
var library = sync.OnceValues(func() (all []Query, err error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != ".sql" {
			continue
		}
		q, err := readQuery(e.Name())
		if err != nil {
			return nil, fmt.Errorf("question %w", err)
		}
		all = append(all, q)
	}
	return all, nil
})

// readQuery reads the embedded file of a question with the fragments that it includes.
func readQuery(file string) (Query, error) {
	text, err := files.ReadFile(file)
	if err != nil {
		return Query{}, err
	}
	if _, err := files.ReadFile("own/" + file); err == nil {
		return Query{}, fmt.Errorf("%s: own/%s, a statement of a command, has the same name", file, file)
	}
	whole, err := withFragments(string(text))
	if err != nil {
		return Query{}, fmt.Errorf("%s: %w", file, err)
	}
	return parseQuery(file, whole)
}

// include begins a line of a question that stands for a file of folder fragments.
const include = "-- include "

// withFragments replaces the lines include by the files that they name.
func withFragments(text string) (string, error) {
	var whole strings.Builder
	for {
		before, after, found := strings.Cut(text, include)
		whole.WriteString(before)
		if !found {
			return whole.String(), nil
		}
		name, rest, _ := strings.Cut(after, "\n")
		fragment, err := files.ReadFile("fragments/" + name + ".sql")
		if err != nil {
			return "", err
		}
		whole.Write(fragment)
		text = rest
	}
}

// read returns an embedded file that the program itself names. A missing one is a bug.
func read(file string) []byte {
	text, err := files.ReadFile(file)
	if err != nil {
		panic("queries: " + err.Error())
	}
	return text
}

// List returns all questions, sorted by name. It returns an error if the header of one is malformed.
func List() ([]Query, error) {
	all, err := library()
	return slices.Clone(all), err
}

// Get returns the question of that name. The error for an unknown name suggests similar ones.
func Get(name string) (Query, error) {
	all, err := library()
	if err != nil {
		return Query{}, err
	}
	at := slices.IndexFunc(all, func(q Query) bool { return q.Name == name })
	if at >= 0 {
		return all[at], nil
	}
	if strings.Contains(name, " ") {
		return Query{}, fmt.Errorf("no query %q: use --sql for SQL", name)
	}
	return Query{}, fmt.Errorf("no query %q%s (parsimon query --list lists all)", name,
		names.DidYouMean(name, names.Of(all, func(q Query) string { return q.Name })))
}

// Known returns a question that a command asks. It is one of the library or the file own/NAME.sql, which has
// no view and whose parameters are of type text. An unknown name is a bug.
func Known(name string) Query {
	if q, err := Get(name); err == nil {
		return q
	}
	q := Query{Name: name, SQL: strings.TrimSpace(string(read("own/" + name + ".sql")))}
	for _, use := range usesIn(q.SQL) {
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
	// Type is the set of allowed values: text; count (integer from 1 to 100,000); positive (number above 0);
	// fraction (number above 0 and below 1); time (integer of ns, 0 or more, or a time of RFC 3339 such as
	// 2026-01-31T09:00:00.5Z, as ns since 1970); or two or more words or numbers with | between them, one of
	// which is the value.
	Type string
}

// maxCount limits the parameters of type count, which are numbers of rows and of bins. Memory grows with
// them.
const maxCount = 100_000

// literal returns a value of the parameter, given as text, as SQL.
func (p Param) literal(text string) (string, error) {
	var sql, want string
	choices := strings.Split(p.Type, "|")
	switch {
	case p.Type == "text":
		return duckdb.Quote(text), nil
	case len(choices) > 1:
		sql = duckdb.Quote(text)
		if !slices.Contains(choices, text) {
			want = "one of " + strings.Join(choices, ", ")
		}
	case p.Type == "count":
		n, err := strconv.ParseInt(text, 10, 64)
		sql = fmt.Sprintf("CAST(%d AS BIGINT)", n)
		if err != nil || n < 1 || n > maxCount {
			want = fmt.Sprintf("a whole number from 1 to %d", maxCount)
		}
	case p.Type == "time":
		n, err := parseTime(text)
		sql = fmt.Sprintf("CAST(%d AS BIGINT)", n)
		if err != nil || n < 0 {
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

// parseTime returns ns, given as a number or as a time of RFC 3339.
func parseTime(text string) (ns int64, err error) {
	if ns, err := units.ParseDate(text); err == nil {
		return ns, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// replaceUses replaces every use of a parameter, $NAME, in the SQL of a question. A name is one of Go's, of
// ASCII characters.
func replaceUses(text string, value func(use string) string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := at + 1
		for end < len(text) && inName(text[end]) && (end > at+1 || !isDigit(text[end])) {
			end++
		}
		out.WriteString(text[:at])
		if end == at+1 {
			out.WriteByte('$')
		} else {
			out.WriteString(value(text[at:end]))
		}
		text = text[end:]
	}
}

// usesIn returns the uses of parameters in the SQL of a question, with $.
func usesIn(text string) (uses []string) {
	replaceUses(text, func(use string) string {
		uses = append(uses, use)
		return use
	})
	return uses
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// inName reports whether an ASCII character may be in the name of a parameter or of a relation.
func inName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_'
}

// parseQuery parses the file of a question: a header, an empty line, and one SELECT without a semicolon.
//
//	-- question: one line
//	-- grain: one line
//	-- units: one line
//	-- param: NAME TYPE = DEFAULT : what it is     (any number of lines; DEFAULT '' is the empty string)
//
//	SELECT … WHERE column = $NAME
//
// Types are those of Param. Every parameter must be declared and used.
func parseQuery(file, text string) (Query, error) {
	head, body, _ := strings.Cut(text, "\n\n")
	q := Query{Name: strings.TrimSuffix(file, ".sql"), SQL: strings.TrimSpace(body)}
	lines := strings.Split(head, "\n")
	for i, line := range []struct {
		key string
		to  *string
	}{{"question", &q.Question}, {"grain", &q.Grain}, {"units", &q.Units}} {
		var found bool
		if i < len(lines) {
			*line.to, found = strings.CutPrefix(lines[i], "-- "+line.key+": ")
		}
		if !found || *line.to == "" || body == "" || strings.Contains(body, ";") {
			return Query{}, fmt.Errorf("%s: want lines question, grain, units and param, an empty line, and one "+
				"SELECT without a semicolon", file)
		}
	}
	uses := usesIn(q.SQL)
	for _, line := range lines[3:] {
		p, ok := parseParam(line)
		if !ok || q.hasParam(p.Name) || !slices.Contains(uses, "$"+p.Name) {
			return q, fmt.Errorf("%s: want `-- param: NAME TYPE = DEFAULT : what it is`, once and used, got %q", file,
				line)
		}
		q.Params = append(q.Params, p)
	}
	if _, err := q.With(nil); err != nil {
		return q, fmt.Errorf("%s: %w", file, err)
	}
	return q, nil
}

// parseParam parses the line of a parameter.
func parseParam(line string) (p Param, ok bool) {
	line, isParam := strings.CutPrefix(line, "-- param: ")
	declared, doc, hasDoc := strings.Cut(line, " : ")
	left, value, hasValue := strings.Cut(declared, " = ")
	name, kind, hasType := strings.Cut(left, " ")
	p = Param{Name: name, Type: kind, Default: strings.TrimPrefix(value, "''"), Doc: doc}
	known := slices.Contains([]string{"text", "count", "positive", "fraction", "time"}, kind)
	ok = isParam && hasDoc && hasValue && hasType && doc != "" && value != "" && !strings.Contains(value, " ") &&
		isWord(name) && !isDigit(name[0]) && (known || isChoice(kind))
	return p, ok
}

// isChoice reports whether the type of a parameter is a list of words or numbers.
func isChoice(kind string) bool {
	words := strings.Split(kind, "|")
	return len(words) > 1 && !slices.ContainsFunc(words, func(word string) bool {
		return word == "" || strings.Trim(word, lowerCase+".") != ""
	})
}

// isWord reports whether a text has lower-case letters, digits and _ only.
func isWord(text string) bool {
	return text != "" && strings.Trim(text, lowerCase+"_") == ""
}

const lowerCase = "abcdefghijklmnopqrstuvwxyz0123456789"

// OfEvent reports whether the question is about events, which are by default those of the scenario.
func (q Query) OfEvent() bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Type == "time" && p.Default == "" })
}

func (q Query) hasParam(name string) bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name })
}

// Chart returns the Vega-Lite specification that draws the answer of a question. X.vl.json draws the answer
// of X.sql.
//
// A specification has neither rows nor colors. Its data has the name of the question, to which a page binds
// the rows of the answer; a theme gives the colors. The width "container" is the width that the page has. A
// chart with the parameters service and vnet shows one group of flows; null means all flows. The description
// says what the chart shows.
func Chart(name string) json.RawMessage { return read(name + ".vl.json") }

// LightTheme returns a Vega-Lite configuration with the colors of charts on a light page. Color-blind
// readers can distinguish them.
func LightTheme() json.RawMessage { return read("theme_light.json") }

// DarkTheme returns the configuration for a dark page.
func DarkTheme() json.RawMessage { return read("theme_dark.json") }
