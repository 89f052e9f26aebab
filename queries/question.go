package queries

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"parsimon/schema/names"
)

// Names of the questions whose answers `parsimon run` prints when it is done.
const (
	SlowdownBySize    = "slowdown_by_size"
	SlowdownByService = "slowdown_by_service"
	HottestLinks      = "hottest_links"
	LoadTop10         = "load_top10"
	JobIterations     = "job_iterations"
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

//go:embed *.sql fragments/*.sql macros/*.sql *.vl.json theme_light.json theme_dark.json
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
		if err != nil {
			panic("queries: " + err.Error())
		}
		all = append(all, q)
	}
	return all
})

// include is a line of a question in the place of which a file of folder fragments is read.
var include = regexp.MustCompile(`(?m)^-- include (\w+)\n`)

func read(file string) []byte {
	text, err := files.ReadFile(file)
	if err != nil {
		panic("queries: " + err.Error())
	}
	return text
}

// List returns all questions, sorted by name.
func List() []Query {
	all := slices.Clone(library())
	for i := range all {
		all[i].Params = slices.Clone(all[i].Params)
	}
	return all
}

// Get returns the question of that name. The error for an unknown name suggests similar ones.
func Get(name string) (Query, error) {
	all := List()
	known := make([]string, len(all))
	for i, q := range all {
		if q.Name == name {
			return q, nil
		}
		known[i] = q.Name
	}
	return Query{}, fmt.Errorf("no query %q; did you mean %s?", name, strings.Join(names.Nearest(name, known, 3), ", "))
}
