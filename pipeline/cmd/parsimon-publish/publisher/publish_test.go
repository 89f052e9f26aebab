package publisher

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"

	"parsimon/pipeline/cmd/parsimon-publish/store"
	"parsimon/pipeline/cmd/parsimon-publish/tables"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/variant"
)

// Scenarios of test lakes.
const (
	first  lake.ScenarioID = "00000000000000a1"
	second lake.ScenarioID = "00000000000000b2"
)

// The variants of fill.
var (
	onePass   = variant.Variant{Estimator: "flow", Passes: 1}
	twoPasses = variant.Variant{Estimator: "flow", Passes: 2}
)

// fill commits random rows of all tables for a scenario, in two variants. The answer is flow-2.
func fill(t *testing.T, dir string, id lake.ScenarioID, rows int) *lake.Lake {
	t.Helper()
	l, err := lake.Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Lock(t.Context(), lake.Of(id))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(uint64(rows), 1))
	commit := func(p lake.Place, ofVariants bool) {
		var files []lake.DataFile
		for _, table := range schema.Tables() {
			if table.Temporary || table.Scope == schema.OfWorkload || table.Variant != ofVariants {
				continue
			}
			for n := range 2 {
				rec := fixture.Batch(table, rng, rows+n)
				d, err := s.WriteFile(table, p, p.File(table, n), rec)
				rec.Release()
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, d)
			}
		}
		if err := s.Commit(p, files); err != nil {
			t.Fatal(err)
		}
	}
	commit(lake.Of(id), false)
	for _, v := range []variant.Variant{onePass, twoPasses} {
		commit(lake.Place{Scenario: id, Variant: v}, true)
	}
	if err := s.SetAnswer(id, twoPasses); err != nil {
		t.Fatal(err)
	}
	return l
}

// publisherTo returns a publisher of a lake to a directory or bucket, without a catalog.
func publisherTo(t testing.TB, l *lake.Lake, to string) *Publisher {
	t.Helper()
	return publisherWith(t, l, to, "none")
}

// publisherWith returns a publisher of a lake to a directory or bucket. The catalog is one of --catalog.
func publisherWith(t testing.TB, l *lake.Lake, to, catalog string) *Publisher {
	t.Helper()
	s, err := store.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	p := &Publisher{Lake: l, Store: s, AtOnce: 4, Log: zerolog.Nop()}
	p.Catalog, err = store.OpenCatalog(t.Context(), s, catalog)
	if err != nil {
		t.Fatal(err)
	}
	p.Tables = tables.Of(tables.Selection{})
	return p
}

func publishAll(t testing.TB, p *Publisher, ids ...lake.ScenarioID) []Change {
	t.Helper()
	changes, err := p.Publish(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// bringAll brings all tables of a publisher, without the Inputs for pull, which need a scenario file.
func bringAll(t *testing.T, p *Publisher, ids ...lake.ScenarioID) {
	t.Helper()
	want, err := p.wanted(ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, published := range p.Tables {
		err := p.bring(t.Context(), published, want, everything, &Change{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// rowsOf returns the number of rows of each scenario and variant that a reader of the table finds.
func rowsOf(t *testing.T, c store.Catalog, name string) map[string]int64 {
	t.Helper()
	now, err := c.LoadTable(t.Context(), store.Identify(name))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filesOf(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int64{}
	for _, f := range files {
		var key []string
		for _, id := range slices.Sorted(maps.Keys(f.Partition())) {
			key = append(key, f.Partition()[id].(string))
		}
		rows[strings.Join(key, "/")] += f.Count()
	}
	return rows
}

// A table has the rows of its scenarios once. A reader that counted those of all variants would count each
// flow several times.
func TestTablesHaveOneAnswerOfAScenario(t *testing.T) {
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	fill(t, dir, second, 7)
	p := publisherTo(t, l, t.TempDir())
	publishAll(t, p, first, second)
	for name, want := range map[string]map[string]int64{
		"slowdowns": {string(first) + "/flow-2": 81, string(second) + "/flow-2": 15},
		"links":     {string(first): 81, string(second): 15},
		"job_flows": {string(first): 81, string(second): 15},
		"scenarios": {string(first): 81, string(second): 15},
	} {
		got := rowsOf(t, p.Catalog, name)
		if !maps.Equal(got, want) {
			t.Errorf("%s has rows %v, want %v", name, got, want)
		}
	}
	p.Tables = tables.Of(tables.Selection{AllVariants: true})
	publishAll(t, p, first)
	want := map[string]int64{string(first) + "/flow-1": 81, string(first) + "/flow-2": 81}
	got := rowsOf(t, p.Catalog, "slowdowns_all")
	if !maps.Equal(got, want) {
		t.Errorf("slowdowns_all has rows %v, want %v", got, want)
	}
}

// Every type of column can be read back. Readers of other programs are asked for the values (make
// publish-readers).
func TestTablesCanBeRead(t *testing.T) {
	l := fill(t, t.TempDir(), first, 40)
	p := publisherTo(t, l, t.TempDir())
	publishAll(t, p, first)
	for _, published := range p.Tables {
		now, err := p.Catalog.LoadTable(t.Context(), store.Identify(published.Name))
		if err != nil {
			t.Fatal(err)
		}
		read, err := now.Scan().ToArrowTable(t.Context())
		if err != nil {
			t.Errorf("%s: %v", published.Name, err)
			continue
		}
		want := int64(81)
		if published.Table.Variant && !published.Table.OfAnswer() {
			want *= 2 // commands write it for each variant
		}
		if read.NumRows() != want {
			t.Errorf("%s has %d rows, want %d", published.Name, read.NumRows(), want)
		}
		read.Release()
	}
}

// Bounds of columns let readers skip files. A file without them is read for every query.
func TestEntriesHaveBounds(t *testing.T) {
	l := fill(t, t.TempDir(), first, 40)
	p := publisherTo(t, l, t.TempDir())
	publishAll(t, p, first)
	now, err := p.Catalog.LoadTable(t.Context(), store.Identify("slowdowns"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filesOf(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, column := range []string{"flow_id", "flow_row", "slowdown", "service"} {
			field, _ := now.Schema().FindFieldByName(column)
			if f.LowerBoundValues()[field.ID] == nil && column != "service" || f.ValueCounts()[field.ID] != f.Count() {
				t.Errorf("%s: no bounds or counts of %s", f.FilePath(), column)
			}
		}
		id := f.SortOrderID()
		if id == nil || *id != now.SortOrder().OrderID() || *id == 0 {
			t.Errorf("%s: sort order %v", f.FilePath(), id)
		}
	}
}

// Publishing what is published sends nothing and commits nothing, so it may run every hour.
func TestPublishingAgainChangesNothing(t *testing.T) {
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	p := publisherTo(t, l, t.TempDir())
	before := publishAll(t, p, first)
	for i, c := range publishAll(t, p, first) {
		if c.Added+c.Removed != 0 || c.Bytes != 0 || c.Snapshot != before[i].Snapshot {
			t.Errorf("published again: %+v, before %+v", c, before[i])
		}
	}
	fill(t, dir, first, 12) // estimated again
	publishAll(t, p, first)
	got := rowsOf(t, p.Catalog, "slowdowns")[string(first)+"/flow-2"]
	if got != 25 {
		t.Errorf("%d rows of the second estimate, want 25", got)
	}
}

// A scenario that the lake no longer has leaves the tables only on request: another lake may have published
// it.
func TestPruneFollowsTheLake(t *testing.T) {
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	fill(t, dir, second, 7)
	p := publisherTo(t, l, t.TempDir())
	publishAll(t, p, first, second)
	s, err := l.Lock(t.Context(), lake.Of(second))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RemovePlace(lake.Of(second)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	publishAll(t, p, first)
	got := rowsOf(t, p.Catalog, "scenarios")
	if len(got) != 2 {
		t.Errorf("without --prune: %v", got)
	}
	for _, published := range p.Tables {
		done := Change{}
		w := &wanted{known: map[string]bool{string(first): true}, chosen: map[string]bool{}}
		if err := p.bring(t.Context(), published, w, removals, &done); err != nil {
			t.Fatal(err)
		}
		for of := range rowsOf(t, p.Catalog, published.Name) {
			if strings.HasPrefix(of, string(second)) {
				t.Errorf("with --prune, %s has rows of %s", published.Name, of)
			}
		}
	}
}

// A table that this call does not publish, such as that of the flows, must not keep the scenarios that the
// lake has removed: their owner asked for the removal of all of their rows.
func TestPruneCoversTablesOfOtherCalls(t *testing.T) {
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	fill(t, dir, second, 7)
	p := publisherTo(t, l, t.TempDir())
	p.Tables = tables.Of(tables.Selection{Flows: true, AllVariants: true})
	bringAll(t, p, first, second)
	p.Tables = tables.Of(tables.Selection{})
	w := &wanted{known: map[string]bool{string(first): true}, chosen: map[string]bool{}}
	changes, err := p.prune(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"flows", "dependencies", "rejects", "slowdowns_all", "link_stats_all"} {
		for of := range rowsOf(t, p.Catalog, name) {
			if strings.HasPrefix(of, string(second)) {
				t.Errorf("%s has rows of %s", name, of)
			}
		}
		if !slices.ContainsFunc(changes, func(c Change) bool { return c.Table == name && c.Removed > 0 }) {
			t.Errorf("no change of %s is reported: %+v", name, changes)
		}
	}
}

// A publisher that fails halfway leaves every table as it was, and the next one sends only what is missing.
func TestFailedPublishIsContinued(t *testing.T) {
	dir := t.TempDir()
	l := fill(t, dir, first, 40)
	p := publisherTo(t, l, t.TempDir())
	p.AtOnce = 1
	slowdowns := lake.Place{Scenario: first, Variant: twoPasses}.File(schema.Slowdowns, 1)
	path := filepath.Join(dir, slowdowns)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	overwrite(t, path, bad)
	_, err = p.Publish(t.Context(), []lake.ScenarioID{first})
	if !errors.As(err, new(*lake.DamageError)) || !strings.Contains(err.Error(), slowdowns) {
		t.Fatalf("error %v, want damage of %s", err, slowdowns)
	}
	got := rowsOf(t, p.Catalog, "slowdowns")
	if len(got) != 0 {
		t.Errorf("half of an estimate is visible: %v", got)
	}
	if _, err := p.Catalog.LoadTable(t.Context(), store.Identify("scenarios")); err == nil {
		t.Error("the scenario is visible before its rows")
	}
	overwrite(t, path, good)
	for _, c := range publishAll(t, p, first) {
		if c.Table == "slowdowns" && (c.Added != 2 || c.Bytes != int64(len(good))) {
			t.Errorf("continued: %+v; want only %d bytes", c, len(good))
		}
	}
	after := rowsOf(t, p.Catalog, "slowdowns")[string(first)+"/flow-2"]
	if after != 81 {
		t.Errorf("%d rows after the second call, want 81", after)
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil { // hard links keep the old bytes
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// If several publishers change the same tables at once, one commits and the others compare again. Nothing is
// lost or duplicated.
func TestPublishersAtOnce(t *testing.T) {
	rounds := 3
	if !testing.Short() {
		rounds = 20
	}
	lakes := fillAtOnce(t)
	for range rounds {
		publishAtOnce(t, lakes, t.TempDir(), "none")
	}
}

// few returns some of the tables, with that of scenarios.
func few() []tables.Published {
	all := tables.Of(tables.Selection{})
	return append(all[3:7:7], tables.Published{Name: "scenarios", Table: schema.Scenarios})
}

// atOnce has the scenarios of the publishers of publishAtOnce: three, each by two publishers.
var atOnce = []lake.ScenarioID{first, second, "00000000000000c3", first, second, "00000000000000c3"}

// fillAtOnce returns a lake for each publisher of publishAtOnce.
func fillAtOnce(t *testing.T) (lakes []*lake.Lake) {
	t.Helper()
	for _, id := range atOnce {
		lakes = append(lakes, fill(t, t.TempDir(), id, 5))
	}
	return lakes
}

// publishAtOnce publishes each lake by its own publisher, and checks the tables.
func publishAtOnce(t *testing.T, lakes []*lake.Lake, to, catalog string) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, len(lakes))
	for i, l := range lakes {
		p := publisherWith(t, l, to, catalog)
		p.Tables = few()
		all.Go(func() { _, errs[i] = p.Publish(t.Context(), []lake.ScenarioID{atOnce[i]}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	check := publisherWith(t, nil, to, catalog)
	for _, name := range []string{"slowdowns", "scenarios"} {
		for of, n := range rowsOf(t, check.Catalog, name) {
			if n != 11 {
				t.Errorf("%s has %d rows of %s, want 11", name, n, of)
			}
		}
		got := rowsOf(t, check.Catalog, name)
		if len(got) != 3 {
			t.Errorf("%s has %v, want three scenarios", name, got)
		}
	}
}

// A later version of the lake has more columns. The table gets them, the ids of the others stay, and an old
// snapshot is still read.
func TestNewColumnsAreAdded(t *testing.T) {
	l := fill(t, t.TempDir(), first, 40)
	checkNewColumns(t, publisherTo(t, l, t.TempDir()))
}

// checkNewColumns publishes table warnings after it was made without its last column.
func checkNewColumns(t *testing.T, p *Publisher) {
	t.Helper()
	old := schema.Warnings
	old.Columns = slices.Clone(old.Columns[:len(old.Columns)-1])
	older := tables.Published{Name: "warnings", Table: old}
	before, err := p.open(t.Context(), older, everything)
	if err != nil {
		t.Fatal(err)
	}
	p.Tables = []tables.Published{{Name: "warnings", Table: schema.Warnings},
		{Name: "scenarios", Table: schema.Scenarios}}
	publishAll(t, p, first)
	after, err := p.Catalog.LoadTable(t.Context(), store.Identify("warnings"))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range before.Schema().Fields() {
		now, _ := after.Schema().FindFieldByName(field.Name)
		if now.ID != field.ID {
			t.Errorf("column %s had id %d, and has %d", field.Name, field.ID, now.ID)
		}
	}
	added := schema.Warnings.Columns[len(schema.Warnings.Columns)-1].Name
	field, ok := after.Schema().FindFieldByName(added)
	if !ok || field.Required {
		t.Fatalf("column %s: %v", added, field)
	}
	mapping := after.Properties()[table.DefaultNameMappingKey]
	if !strings.Contains(mapping, `"`+added+`"`) {
		t.Errorf("the name mapping lacks %s: %s", added, mapping)
	}
	rows, err := after.Scan().ToArrowTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Release()
	at := rows.Schema().FieldIndices(added)
	if len(at) != 1 || rows.Column(at[0]).NullN() == int(rows.NumRows()) {
		t.Errorf("column %s has no values", added)
	}
}

// A hint that is missing or old, because a publisher was killed before it wrote it, is repaired, and no
// version is made twice.
func TestHintIsRepaired(t *testing.T) {
	l := fill(t, t.TempDir(), first, 40)
	to := t.TempDir()
	p := publisherTo(t, l, to)
	p.Tables = []tables.Published{{Name: "scenarios", Table: schema.Scenarios}}
	publishAll(t, p, first)
	hint := filepath.Join(to, "scenarios", "metadata", "version-hint.text")
	for _, broken := range []string{"", "1"} {
		if err := os.Remove(hint); err != nil {
			t.Fatal(err)
		}
		if broken != "" {
			if err := os.WriteFile(hint, []byte(broken), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := publishAll(t, p, first)
		if c[0].Added != 0 {
			t.Errorf("hint %q: published again: %+v", broken, c)
		}
		if now, err := os.ReadFile(hint); err != nil || string(now) != "2" {
			t.Errorf("hint %q became %q, error %v", broken, now, err)
		}
	}
}
