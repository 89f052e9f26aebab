package publisher

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go/catalog"

	"parsimon/pipeline/cmd/parsimon-publish/s3test"
	"parsimon/pipeline/cmd/parsimon-publish/servertest"
	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/schema"
)

// catalogs are the catalogs of a service or database. start starts a server, and returns the value of
// --catalog. moto, the mock of Glue, does not compare the version of a table with that of a change, as Glue
// does: it is no server for several publishers.
var catalogs = []struct {
	name   string
	start  func(*testing.T) string
	atOnce bool
}{
	{"sqlite", sqlite, true},
	{"postgres", func(t *testing.T) string { return servertest.Postgres(t) }, true},
	{"rest", func(t *testing.T) string { return "rest:" + servertest.Rest(t, companyURL) }, true},
	{"glue", func(t *testing.T) string { return servertest.Glue(t) }, false},
}

func sqlite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "catalog.db") }

// The promises of publish hold with every catalog: one answer of a scenario, nothing to do for the second
// call, no loss by publishers at once or killed ones, added columns, removal and expiry. Each catalog reports
// in its own way that another publisher has changed a table.
func TestCatalogs(t *testing.T) {
	for _, c := range catalogs {
		t.Run(c.name, func(t *testing.T) {
			server := s3test.Start(t)
			at := c.start(t)
			law := func(name string, check func(*testing.T)) {
				t.Run(name, func(t *testing.T) {
					dropTables(t, at)
					check(t)
				})
			}
			if c.atOnce {
				checkOpenedAtOnce(t, at)
				law("new columns at once", func(t *testing.T) { checkEvolvedAtOnce(t, at) })
				law("published at once", func(t *testing.T) { checkRounds(t, at) })
			}
			law("names of columns", func(t *testing.T) { checkNames(t, at) })
			law("published", func(t *testing.T) { checkPublished(t, at) })
			law("new columns", func(t *testing.T) {
				checkNewColumns(t, publisherWith(t, fill(t, t.TempDir(), first, 40), companyURL, at))
			})
			law("killed", func(t *testing.T) { checkKilled(t, server, at, 5) })
		})
	}
}

// dropTables removes all tables from a catalog.
func dropTables(t *testing.T, at string) {
	t.Helper()
	p := publisherWith(t, nil, companyURL, at)
	all, ok := p.Catalog.(catalog.Catalog)
	if !ok {
		t.Fatalf("catalog %s has no tables to drop", at)
	}
	for _, published := range append(p.others(), p.Tables...) {
		err := all.DropTable(t.Context(), store.Identify(published.Name))
		if err != nil && !errors.Is(err, catalog.ErrNoSuchTable) {
			t.Fatal(err)
		}
	}
}

// checkNames creates all tables. The REST catalog of Iceberg gives the columns after a list other ids than
// those that it is asked for. If the name mapping kept the old ones, a reader would find column crowded_bytes
// empty, and drops under another name.
func checkNames(t *testing.T, at string) {
	t.Helper()
	p := publisherWith(t, nil, companyURL, at)
	for _, published := range tables.Of(tables.Selection{Flows: true}) {
		now, err := p.open(t.Context(), published, everything)
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]int{}
		for _, f := range now.NameMapping() {
			if f.FieldID != nil {
				ids[f.Names[0]] = *f.FieldID
			}
		}
		for _, f := range now.Schema().Fields() {
			if ids[f.Name] != f.ID {
				t.Errorf("%s: column %s has id %d, and id %d in the name mapping", published.Name, f.Name,
					f.ID, ids[f.Name])
			}
		}
	}
}

// checkOpenedAtOnce opens a catalog that has no namespace yet by several publishers at once.
func checkOpenedAtOnce(t *testing.T, at string) {
	t.Helper()
	s, err := store.Open(t.Context(), companyURL)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		all.Go(func() { _, errs[i] = store.OpenCatalog(t.Context(), s, at) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// checkPublished publishes two scenarios, an estimate again and without one of the scenarios.
func checkPublished(t *testing.T, at string) {
	t.Helper()
	dir := t.TempDir()
	p := publisherWith(t, fill(t, dir, first, 40), companyURL, at)
	fill(t, dir, second, 7)
	p.Tables = few()
	before := publishAll(t, p, first, second)
	want := map[string]int64{string(first) + "/flow-2": 81, string(second) + "/flow-2": 15}
	got := rowsOf(t, p.Catalog, "slowdowns")
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	for i, c := range publishAll(t, p, first, second) {
		if c.Added+c.Removed != 0 || c.Snapshot != before[i].Snapshot {
			t.Errorf("published again: %+v", c)
		}
	}
	fill(t, dir, first, 12) // estimated again
	publishAll(t, p, first)
	old := snapshots(t, p, "slowdowns")
	if len(old) != 2 {
		t.Errorf("%d snapshots, want 2", len(old))
	}
	w := &wanted{known: map[string]bool{string(first): true}, chosen: map[string]bool{}}
	for _, published := range p.Tables {
		if err := p.bring(t.Context(), published, w, removals, &Change{}); err != nil {
			t.Fatal(err)
		}
	}
	expire(t, p, noAge)
	left := snapshots(t, p, "slowdowns")
	if len(left) != 1 {
		t.Errorf("%d snapshots after expiry, want 1", len(left))
	}
	checkReadable(t, p, map[string]int64{string(first) + "/flow-2": 25})
}

// checkReadable checks the rows of table slowdowns, and reads them.
func checkReadable(t *testing.T, p *Publisher, want map[string]int64) {
	t.Helper()
	got := rowsOf(t, p.Catalog, "slowdowns")
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	now, err := p.Catalog.LoadTable(t.Context(), store.Identify("slowdowns"))
	if err != nil {
		t.Fatal(err)
	}
	read, err := now.Scan().ToArrowTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer read.Release()
	all := int64(0)
	for _, n := range want {
		all += n
	}
	if read.NumRows() != all {
		t.Errorf("%d rows can be read, want %d", read.NumRows(), all)
	}
}

// checkEvolvedAtOnce publishes to a table of an older version by several publishers at once. One of them adds
// the column.
func checkEvolvedAtOnce(t *testing.T, at string) {
	t.Helper()
	old := schema.Warnings
	old.Columns = slices.Clone(old.Columns[:len(old.Columns)-1])
	older := publisherWith(t, nil, companyURL, at)
	_, err := older.open(t.Context(), tables.Published{Name: "warnings", Table: old}, everything)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	lakes := fillAtOnce(t)
	errs := make([]error, len(lakes))
	for i, l := range lakes {
		p := publisherWith(t, l, companyURL, at)
		p.Tables = []tables.Published{{Name: "warnings", Table: schema.Warnings},
			{Name: "scenarios", Table: schema.Scenarios}}
		all.Go(func() { _, errs[i] = p.Publish(t.Context(), atOnce[i:i+1]) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	got := rowsOf(t, older.Catalog, "scenarios")
	if len(got) != 3 {
		t.Errorf("scenarios %v, want three", got)
	}
}

// checkRounds has several publishers of the same tables at once, several times.
func checkRounds(t *testing.T, at string) {
	t.Helper()
	rounds := 1
	if !testing.Short() {
		rounds = 3
	}
	lakes := fillAtOnce(t)
	for round := range rounds {
		dropTables(t, at)
		publishAtOnce(t, lakes, fmt.Sprintf("%s/%d", companyURL, round), at)
	}
}

// A REST server may fail before or after a commit, or commit and lose the answer. A publisher then fails or
// completes. It never leaves a half, and never adds a file twice.
func TestFaultsOfRestServer(t *testing.T) {
	s3test.Start(t)
	behind, err := url.Parse(servertest.Rest(t, companyURL))
	if err != nil {
		t.Fatal(err)
	}
	to := httputil.NewSingleHostReverseProxy(behind)
	var requests, lost, refused atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		switch {
		case r.Method == http.MethodPost && n%5 == 0:
			lost.Add(1)
			to.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case n%7 == 0:
			refused.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			to.ServeHTTP(w, r)
		}
	}))
	defer front.Close()
	at := "rest:" + front.URL
	l := fill(t, t.TempDir(), first, 40)
	watch := publisherWith(t, l, companyURL, "rest:"+behind.String())
	calls := 0
	for complete := false; !complete; calls++ {
		if calls == 50 {
			t.Fatalf("50 calls do not complete: %v", err)
		}
		err = publishOnce(t, watch, at)
		complete = err == nil
		for _, name := range []string{"slowdowns", "scenarios"} {
			checkWhole(t, watch, name)
		}
	}
	checkReadable(t, watch, map[string]int64{string(first) + "/flow-2": 81})
	watch.Tables = few()
	for _, c := range publishAll(t, watch, first) {
		if c.Added+c.Removed != 0 {
			t.Errorf("published again: %+v", c)
		}
	}
	t.Logf("%d calls, %d requests, %d answers lost, %d refused", calls, requests.Load(), lost.Load(),
		refused.Load())
	if lost.Load() == 0 || refused.Load() == 0 {
		t.Error("there were no faults")
	}
}

// A publisher often has the right to change tables, and not the right to create namespaces. It must be able
// to publish to a namespace that exists.
func TestNamespaceThatExistsIsNotCreated(t *testing.T) {
	s3test.Start(t)
	behind, err := url.Parse(servertest.Rest(t, companyURL))
	if err != nil {
		t.Fatal(err)
	}
	publisherWith(t, nil, companyURL, "rest:"+behind.String()) // creates it
	to := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/namespaces") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		to.ServeHTTP(w, r)
	}))
	defer front.Close()
	p := publisherWith(t, fill(t, t.TempDir(), first, 40), companyURL, "rest:"+front.URL)
	p.Tables = few()
	publishAll(t, p, first)
	checkReadable(t, p, map[string]int64{string(first) + "/flow-2": 81})
}

// publishOnce publishes the lake of another publisher with a catalog that may fail.
func publishOnce(t *testing.T, like *Publisher, at string) error {
	t.Helper()
	p := *like
	p.Tables = few()
	var err error
	p.Catalog, err = store.OpenCatalog(t.Context(), p.Store, at)
	if err != nil {
		return err
	}
	_, err = p.Publish(t.Context(), atOnce[:1])
	return err
}

// A password on the command line is visible to all users of a machine, and would be in error messages.
func TestCatalogsRefusePasswords(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{
		"postgres://me:hunter2@db/parsimon", "postgres://me@db/parsimon?password=hunter2",
	} {
		_, err := store.OpenCatalog(t.Context(), s, at)
		if err == nil || !strings.Contains(err.Error(), "PGPASSWORD") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
