// Package rows opens a lake and asks it, for tests.
package rows

import (
	"fmt"
	"testing"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// Open opens a lake that exists.
func Open(t testing.TB, dir string) *lake.Lake {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ask is the first row that a SELECT over the views of a lake returns, in brackets, values parted by spaces.
func Ask(t testing.TB, dir, text string) string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	o, err := catalog.Options(Open(t, dir), duckdb.Options{})
	check(err)
	db, err := queries.Open(t.Context(), dir, o)
	check(err)
	answer, err := db.SQL(t.Context(), text)
	check(err)
	check(db.Close())
	return fmt.Sprint(answer.Rows[0])
}
