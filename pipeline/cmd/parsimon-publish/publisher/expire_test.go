package publisher

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"

	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
)

// An age for tests. Snapshots of the test are older, and none is an hour old.
const (
	noAge  = time.Nanosecond
	anHour = time.Hour
)

// ageDataFiles sets the time of the data files of a table to 60 days ago, and returns their paths.
func ageDataFiles(t *testing.T, dir, name string) (found []string) {
	t.Helper()
	old := time.Now().Add(-60 * 24 * time.Hour)
	root := filepath.Join(dir, name, "data")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found = append(found, path)
		return os.Chtimes(path, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// snapshots returns the snapshots of a table, oldest first.
func snapshots(t *testing.T, p *Publisher, name string) []table.Snapshot {
	t.Helper()
	now, err := p.Catalog.LoadTable(t.Context(), store.Identify(name))
	if err != nil {
		t.Fatal(err)
	}
	return now.Metadata().Snapshots()
}

// Without expiry, a table that is published every night grows forever. If expiry removes too much, readers of
// the current snapshot fail. Snapshots of tables that this call does not publish, here the flows, expire as
// well.
func TestExpireKeepsWhatReadersNeed(t *testing.T) {
	dir := t.TempDir()
	out := t.TempDir()
	l := fill(t, dir, first, 40)
	p := publisherTo(t, l, out)
	p.Tables = tables.Of(tables.Selection{Flows: true})
	bringAll(t, p, first)
	fill(t, dir, first, 12) // estimated again
	bringAll(t, p, first)
	p.Tables = tables.Of(tables.Selection{})
	names := []string{"slowdowns", "flows"}
	before := map[string]map[string]int64{}
	for _, name := range names {
		before[name] = rowsOf(t, p.Catalog, name)
		n := len(ageDataFiles(t, out, name))
		if n != 4 {
			t.Fatalf("%s has %d data files before, want 2 of each estimate", name, n)
		}
		stray := filepath.Join(out, name, "data", "scenario=killed.parquet")
		err := os.WriteFile(stray, []byte("half"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		ageDataFiles(t, out, name)
	}
	expire(t, p, anHour)
	for _, name := range names {
		n := len(snapshots(t, p, name))
		if n < 2 {
			t.Errorf("%s has %d snapshots: one that is younger than the age is gone", name, n)
		}
	}
	expire(t, p, noAge)
	for _, name := range names {
		n := len(snapshots(t, p, name))
		if n != 1 {
			t.Errorf("%s has %d snapshots, want the current one", name, n)
		}
		left := ageDataFiles(t, out, name)
		if len(left) != 2 || strings.Contains(strings.Join(left, " "), "killed") {
			t.Errorf("%s has the files %v, want those of the current snapshot", name, left)
		}
		got := rowsOf(t, p.Catalog, name)
		if !maps.Equal(got, before[name]) {
			t.Errorf("%s has rows %v after, %v before", name, got, before[name])
		}
	}
	for _, c := range publishAll(t, p, first) {
		if c.Added+c.Removed != 0 || c.Bytes != 0 {
			t.Errorf("published again after expiry: %+v", c)
		}
	}
}

func expire(t *testing.T, p *Publisher, age time.Duration) {
	t.Helper()
	err := p.Expire(t.Context(), age)
	if err != nil {
		t.Fatal(err)
	}
}
