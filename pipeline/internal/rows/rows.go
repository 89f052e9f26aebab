// Package rows opens a lake and asks it, for tests.
package rows

import (
	"fmt"
	"slices"
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
	o, err := catalog.Options(Open(t, dir), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := queries.Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	answer, err := db.SQL(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	values, err := answer.Next()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	line := fmt.Sprint(slices.Clone(values))
	if err := answer.Close(); err != nil {
		t.Fatal(err)
	}
	return line
}
