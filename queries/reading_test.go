package queries

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var sqlExample = regexp.MustCompile("(?s)```sql\n(.*?);\n```")

// The page about reading a lake shows statements that run, and the rows of its estimates.
func TestExamplesOfReadingPage(t *testing.T) {
	page, err := os.ReadFile("../notebooks/READING.md")
	if err != nil {
		t.Fatal(err)
	}
	lake := makeKnownLake(t)
	if err := writeCatalog(lake); err != nil {
		t.Fatal(err)
	}
	db := openCatalog(t, filepath.Join(lake, CatalogFile))
	defer db.Close()
	wants := []string{
		"007 own 3.9699999999999998, aaa own 9.759999999999998", // the answers alone
		"own 9.759999999999998, paper 10.759999999999998",       // all variants of a scenario that is not derived
		"0.5 4 3 5, 0.9 8 7 9, 0.99 9 8 10, 0.999 10 9 11",
	}
	examples := sqlExample.FindAllStringSubmatch(string(page), -1)
	if len(examples) != len(wants) {
		t.Fatalf("%d examples, want %d", len(examples), len(wants))
	}
	for i, example := range examples {
		got := rowsOf(t, db, example[1])
		if got != wants[i] {
			t.Errorf("%s\ngives %s, want %s", example[1], got, wants[i])
		}
	}
}

// rowsOf returns the rows of an answer as one line.
func rowsOf(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	rows, err := db.Query(text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for rows.Next() {
		values := make([]string, len(columns))
		slots := make([]any, len(columns))
		for i := range slots {
			slots[i] = &values[i]
		}
		if err := rows.Scan(slots...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Join(values, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, ", ")
}
