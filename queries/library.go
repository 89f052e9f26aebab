package queries

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Names of the questions whose answers `parsimon run` prints at its end.
const (
	SlowdownBySize = "slowdown_by_size"
	HottestLinks   = "hottest_links"
	LoadTop10      = "load_top10"
)

// SummaryQueries lists the questions a run is summed up with, in the order they are printed.
func SummaryQueries() []string { return []string{SlowdownBySize, HottestLinks, LoadTop10} }

// Query is one question to the lake.
type Query struct {
	Name     string // the file's name without .sql, and the name of the view
	Question string // the question in words
	Grain    string // what one row of the answer is
	Units    string // units of the answer's columns
	SQL      string // one SELECT over the catalog's views; parameters stand in it as $name
	Params   []Param
}

// Param is one parameter of a question.
type Param struct {
	Name    string
	Default string // as text; for type text it may be empty
	Doc     string
	// Type says which values are allowed: text; count (integer, 1 to 100,000); positive (number
	// above 0); fraction (number above 0 and below 1); time (integer, ns, 0 or more).
	Type string
}

//go:embed *.sql
var files embed.FS

// library parses the embedded files once. They are part of the program, so a bad one is a broken
// invariant of ours; a test reads them all.
var library = sync.OnceValue(func() []Query {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("queries: " + err.Error())
	}
	var all []Query
	for _, e := range entries { // sorted by name
		text, err := files.ReadFile(e.Name())
		if err != nil {
			panic("queries: " + err.Error())
		}
		q, err := parseQuery(e.Name(), string(text))
		if err != nil {
			panic("queries: " + err.Error())
		}
		all = append(all, q)
	}
	return all
})

// List returns every question, sorted by name.
func List() []Query {
	all := slices.Clone(library())
	for i := range all {
		all[i].Params = slices.Clone(all[i].Params)
	}
	return all
}

// Get returns the question of that name. The error for an unknown one suggests the nearest names.
func Get(name string) (Query, error) {
	all := List()
	names := make([]string, len(all))
	for i, q := range all {
		if q.Name == name {
			return q, nil
		}
		names[i] = q.Name
	}
	return Query{}, fmt.Errorf("no query %q; nearest: %s", name, strings.Join(nearest(name, names, 3), ", "))
}

var (
	headerLine = regexp.MustCompile(`^-- (question|grain|units|param): (.+)$`)
	paramLine  = regexp.MustCompile(`^([a-z][a-z0-9_]*) (text|count|positive|fraction|time) = (\S+) : (.+)$`)
	paramUse   = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
)

// parseQuery reads a question from the text of its file. The file opens with a header,
//
//	-- question: one line
//	-- grain: one line
//	-- units: one line
//	-- param: NAME TYPE = DEFAULT : what it is     (any number; DEFAULT ” is the empty text)
//
// then an empty line, then one SELECT without a semicolon.
func parseQuery(file, text string) (Query, error) {
	q := Query{Name: strings.TrimSuffix(file, ".sql")}
	header, body, found := strings.Cut(text, "\n\n")
	if !found {
		return q, fmt.Errorf("%s: no empty line after the header", file)
	}
	fields := map[string]*string{"question": &q.Question, "grain": &q.Grain, "units": &q.Units}
	for i, line := range strings.Split(header, "\n") {
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			return q, fmt.Errorf("%s:%d: want a header line `-- question|grain|units|param: …`, got %q", file, i+1, line)
		}
		if m[1] != "param" {
			if *fields[m[1]] != "" {
				return q, fmt.Errorf("%s:%d: second %s", file, i+1, m[1])
			}
			*fields[m[1]] = m[2]
			continue
		}
		p := paramLine.FindStringSubmatch(m[2])
		if p == nil {
			return q, fmt.Errorf("%s:%d: want `NAME TYPE = DEFAULT : what it is`, got %q", file, i+1, m[2])
		}
		param := Param{Name: p[1], Type: p[2], Default: p[3], Doc: p[4]}
		if param.Default == "''" {
			param.Default = ""
		}
		if _, err := param.value(param.Default); err != nil {
			return q, fmt.Errorf("%s:%d: default: %w", file, i+1, err)
		}
		if q.hasParam(param.Name) {
			return q, fmt.Errorf("%s:%d: second parameter %s", file, i+1, param.Name)
		}
		q.Params = append(q.Params, param)
	}
	for _, name := range []string{"question", "grain", "units"} {
		if *fields[name] == "" {
			return q, fmt.Errorf("%s: header has no %s", file, name)
		}
	}
	q.SQL = strings.TrimSpace(body)
	if q.SQL == "" || strings.Contains(q.SQL, ";") {
		return q, fmt.Errorf("%s: want one SELECT without a semicolon", file)
	}
	used := map[string]bool{}
	for _, use := range paramUse.FindAllString(q.SQL, -1) {
		used[use[1:]] = true
		if !q.hasParam(use[1:]) {
			return q, fmt.Errorf("%s: %s is used but not in the header", file, use)
		}
	}
	for _, p := range q.Params {
		if !used[p.Name] {
			return q, fmt.Errorf("%s: parameter %s is never used", file, p.Name)
		}
	}
	return q, nil
}

func (q Query) hasParam(name string) bool {
	return slices.ContainsFunc(q.Params, func(p Param) bool { return p.Name == name })
}

// maxCount bounds counts of rows or bins: an answer is for people to read, and a question with a
// thousand million bins would take the machine's memory before it took its time.
const maxCount = 100_000

// value reads a value of the parameter: string, int64 or float64 by its type.
func (p Param) value(text string) (any, error) {
	bad := func(want string) error {
		return fmt.Errorf("parameter %s: want %s, got %q", p.Name, want, text)
	}
	switch p.Type {
	case "text":
		return text, nil
	case "count":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > maxCount {
			return nil, bad(fmt.Sprintf("a whole number from 1 to %d", maxCount))
		}
		return n, nil
	case "positive":
		f, err := strconv.ParseFloat(text, 64)
		// The bound keeps milliseconds that become nanoseconds within 64 bits.
		if err != nil || !(f > 0) || f > 1e12 {
			return nil, bad("a number above 0, at most 1e12")
		}
		return f, nil
	case "time":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return nil, bad("a whole number of ns, 0 or more")
		}
		return n, nil
	case "fraction":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f > 0 && f < 1) {
			return nil, bad("a number above 0 and below 1")
		}
		return f, nil
	}
	return nil, fmt.Errorf("parameter %s: unknown type %q", p.Name, p.Type)
}

// literal writes the parameter's default as SQL, for the views, which cannot have parameters.
func (p Param) literal() string {
	switch p.Type {
	case "text":
		return quote(p.Default)
	case "count", "time":
		return "CAST(" + p.Default + " AS BIGINT)"
	default:
		return "CAST(" + p.Default + " AS DOUBLE)"
	}
}

// nearest returns the n names with the smallest edit distance to name, nearest first. A name that
// contains what was asked for (or the other way round) counts as near.
func nearest(name string, names []string, n int) []string {
	distance := func(other string) int {
		d := editDistance(name, other)
		if name != "" && (strings.Contains(other, name) || strings.Contains(name, other)) {
			d /= 4
		}
		return d
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return distance(a) - distance(b) })
	return sorted[:min(n, len(sorted))]
}

// editDistance is Levenshtein's: insertions, deletions and replacements of bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
