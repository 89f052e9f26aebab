package queries

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
)

func listed(t testing.TB) []Query {
	t.Helper()
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// commonTable matches the name of a common table expression.
var commonTable = regexp.MustCompile(
	`(?m)(?:^WITH |^WITH RECURSIVE |^|, )([a-z_0-9]+) AS (?:(?:NOT )?MATERIALIZED )?\($`)

// Every file of the folder has a correct header, the two parameters of all questions, and a name that no
// other view has. Its common tables have other names than views, because the views that it reads become
// common tables, too.
func TestLibrary(t *testing.T) {
	paths, err := filepath.Glob("*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != len(listed(t)) || len(paths) < 10 {
		t.Fatalf("%d files, %d questions", len(paths), len(listed(t)))
	}
	names := map[string]bool{"variants": true, "size_bins": true, "link_names": true,
		"intervals_by_group": true, "intervals_by_group_all": true, "crossings": true, "crossings_all": true}
	for _, table := range schema.Tables() {
		for _, v := range table.Views() {
			names[v.Name] = true
		}
	}
	for _, q := range listed(t) {
		path := q.Name + ".sql"
		if names[q.Name] {
			t.Errorf("%s: the name is taken", path)
		}
		names[q.Name] = true
		if len(q.Params) < 2 || q.Params[0].Name != "scenario" || q.Params[1].Name != "variant" {
			t.Errorf("%s: the first parameters are not scenario and variant", path)
		}
		if !strings.HasSuffix(q.Question, "?") || !strings.HasPrefix(q.Grain, "one row per scenario") {
			t.Errorf("%s: question %q, grain %q", path, q.Question, q.Grain)
		}
	}
	statements, err := filepath.Glob("own/*.sql")
	if err != nil || len(statements) == 0 {
		t.Fatalf("%d statements of commands, %v", len(statements), err)
	}
	for _, path := range append(statements, paths...) {
		for _, m := range commonTable.FindAllStringSubmatch(string(read(path)), -1) {
			if names[m[1]] {
				t.Errorf("%s: its common table %s has the name of a view", path, m[1])
			}
		}
	}
	for _, name := range []string{"slowdown_by_size", "hottest_links", "load_top10"} {
		if _, err := Get(name); err != nil {
			t.Error(err)
		}
	}
}

func TestBadHeaders(t *testing.T) {
	const good = "-- question: Q?\n-- grain: g\n-- units: u\n-- param: n count = 3 : doc\n\nSELECT $n"
	q, err := parseQuery("x.sql", good)
	if err != nil {
		t.Fatal(err)
	}
	if q.Name != "x" || q.SQL != "SELECT $n" || !slices.Equal(q.Params, []Param{{"n", "3", "doc", "count"}}) {
		t.Errorf("got %+v", q)
	}
	for want, change := range map[string][2]string{
		"want lines question":              {"\n\n", "\n"},
		"x.sql: want lines":                {"-- question", "# question"},
		"and param, an empty":              {"-- grain: g\n", ""},
		"SELECT without a semicolon":       {"$n", "$n; SELECT 1"},
		"want `-- param: NAME":             {"count =", "number ="},
		"x.sql: parameter n: want a whole": {"= 3", "= x"},
		"once and used":                    {"param: n", "param: m"},
		"$m is used but not declared":      {"$n", "$n + $m"},
		"want one of a, b":                 {"count = 3", "a|b = c"},
	} {
		_, err := parseQuery("x.sql", strings.Replace(good, change[0], change[1], 1))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A fragment that does not exist is an error that names it, not a stack trace.
func TestMissingFragment(t *testing.T) {
	if _, err := withFragments("-- include nothing\nSELECT 1"); err == nil ||
		!strings.Contains(err.Error(), "nothing.sql") {
		t.Errorf("got %v", err)
	}
	text, err := withFragments("WITH\n-- include path_parts\nSELECT 1")
	if err != nil || strings.Contains(text, "include") || len(text) < 100 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestGetSuggests(t *testing.T) {
	for asked, want := range map[string]string{
		"slowdown_by_sizes": "did you mean \"slowdown_by_size\"", "hotest_links": "did you mean \"hottest_links\"",
		"p99": "did you mean \"p99_links\"",
	} {
		_, err := Get(asked)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", asked, want, err)
		}
	}
}

// A time is given in ns or in RFC 3339, and is exact to the ns.
func TestTimesOfParameters(t *testing.T) {
	p := Param{Name: "from_ns", Type: "time"}
	for text, want := range map[string]string{"5": "CAST(5 AS BIGINT)",
		"2001-09-09T01:46:40.000000005Z": "CAST(1000000000000000005 AS BIGINT)",
		"2001-09-09T03:46:40+02:00":      "CAST(1000000000000000000 AS BIGINT)"} {
		if got, err := p.literal(text); got != want || err != nil {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{"-1", "1969-01-01T00:00:00Z", "2400-01-01T00:00:00Z", "2001-09-09", "0.5"} {
		if got, err := p.literal(bad); err == nil {
			t.Errorf("%s is %s", bad, got)
		}
	}
}

// Parameters and relations are found by their exact names. Otherwise a question would keep a $, or DuckDB
// would not know a view.
func TestNamesInQuestions(t *testing.T) {
	const text = "SELECT '$', $1, $a_1.b FROM links AS l JOIN nodes2) ON $a_1$B WHERE FROM = x_FROM y " +
		"JOIN (SELECT"
	want := []string{"$a_1", "$a_1", "$B"}
	uses := usesIn(text)
	if !slices.Equal(uses, want) {
		t.Errorf("uses %q, want %q", uses, want)
	}
	want = []string{"links", "nodes2"}
	relations := namesIn(text)
	if !slices.Equal(relations, want) {
		t.Errorf("relations %q, want %q", relations, want)
	}
	got := replaceRelations(text, func(name string) string { return name + "_all" })
	got = replaceUses(got, func(use string) string { return "<" + use[1:] + ">" })
	whole := strings.NewReplacer("$a_1", "<a_1>", "$B", "<B>", "links", "links_all", "nodes2", "nodes2_all").
		Replace(text)
	if got != whole {
		t.Errorf("got  %s\nwant %s", got, whole)
	}
}
