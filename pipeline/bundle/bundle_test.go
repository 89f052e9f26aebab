package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/internal/estimates"
	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/estimators"
	"parsimon/stages/ingest"
)

// A bundle repeats an estimate in another lake, with another number of workers and partitions, and with the
// same bytes if it is exported again. Otherwise, nobody could check the figures of others. What the bundle
// claims and the canonical form determines does not count. Otherwise, a false claim would yield other rows
// under the same id.
func TestABundleRepeatsAnEstimate(t *testing.T) {
	file, _ := bundled(t)
	b := opened(t, file)
	b.Scenario.FoundStarts = !b.Scenario.FoundStarts
	b.Scenario.MaxLoad += 0.5
	dir := t.TempDir()
	e := repeated(t, b, dir, pipeline.Settings{Settings: engine.Settings{Workers: 3}, Partitions: 5})
	c, err := b.Compare(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Err(); err != nil || len(c.OtherVersions) > 0 {
		t.Errorf("%v, other versions %q, tables %+v", err, c.OtherVersions, c.Tables)
	}
	for _, name := range []string{"nodes", "links", "flows", "hops", "slowdowns", "link_stats", "intervals"} {
		at := slices.IndexFunc(c.Tables, func(t TableComparison) bool { return t.Table == name && t.Rows > 0 })
		if at < 0 {
			t.Errorf("no rows of table %s were compared: %+v", name, c.Tables)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := written(t, e)
	if !bytes.Equal(got, want) {
		t.Errorf("exporting the repeated estimate gives other bytes: %d instead of %d", len(got), len(want))
	}
}

// A bundle of an estimate that the lake has is compared, and no stage runs again. Otherwise checking a bundle
// twice would cost twice.
func TestABundleInItsOwnLakeRunsNothing(t *testing.T) {
	file, from := bundled(t)
	dir := filepath.Join(t.TempDir(), "lake")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	b := opened(t, file)
	e := repeated(t, b, dir, pipeline.Settings{})
	after := tree(t, dir)
	if !slices.Equal(after, before) {
		t.Errorf("files before %q\nafter %q", before, after)
	}
	if c, err := b.Compare(t.Context(), e); err != nil || !c.Equal {
		t.Errorf("%v, %+v", err, c)
	}
}

// tree lists the data files below a directory with their times.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".parquet" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files = append(files, path+" "+info.ModTime().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// waitingFlows has flows that wait for others, a compute step, and a row that cannot be simulated.
const waitingFlows = `flow_id,src,dst,size_bytes,start_ns,after,delay_ns
1,0,1,100000,0,,
2,1,2,100000,0,1,
3,2,2,0,0,2,50000
4,2,3,100000,0,2 3,100
5,3,0,100000,0,4,
6,0,2,50000,5000,,
7,0,99,50000,5000,,
`

// Flows that wait for others, rejected rows, switch buffers and changes by a what-if are part of what a
// bundle repeats. If one of these were missing, rows would differ.
func TestABundleHasEverythingThatRowsDependOn(t *testing.T) {
	topology, flows := fixture.Trace(t, 1)
	fixture.WriteFile(t, flows, waitingFlows)
	s := estimates.Trace(t, topology, flows)
	s.MaxRejects = 0.5
	if err := s.SetAll([]scenario.Setting{{Key: "switches.buffer", Value: "200KB"}}); err != nil {
		t.Fatal(err)
	}
	exact := pipeline.Variant{Estimator: estimators.Exact}
	base := estimates.Of(t, t.TempDir(), s, exact, pipeline.Settings{})
	change, err := scenario.ParseChange("bandwidth", "*:*=50%")
	if err != nil {
		t.Fatal(err)
	}
	changes := scenario.Changes{Do: []scenario.Change{change}}
	e, err := pipeline.Derive(t.Context(), base.Model, changes, exact, pipeline.Settings{})
	if err == nil {
		defer e.Close()
		err = e.Estimate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "what-if.tar.zst")
	if err := os.WriteFile(file, written(t, e), 0o644); err != nil {
		t.Fatal(err)
	}
	b := opened(t, file)
	again := repeated(t, b, t.TempDir(), pipeline.Settings{})
	c, err := b.Compare(t.Context(), again)
	if err != nil || !c.Equal {
		t.Errorf("%v, %+v", err, c)
	}
	for _, name := range []string{"dependencies", "rejects", "slowdowns"} {
		hasRows := func(t TableComparison) bool { return t.Table == name && t.Rows > 0 }
		if !slices.ContainsFunc(c.Tables, hasRows) {
			t.Errorf("table %s has no rows: %+v", name, c.Tables)
		}
	}
	want, wantErr := e.Generated()
	got, err := again.Generated()
	if err := errors.Join(wantErr, err); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nthe repeated scenario has %+v\nwant %+v", err, got, want)
	}
}

// Rows that differ are an error that names the table. The error is another one if another version of the
// method made the bundle, because then rows may differ.
func TestRowsThatDifferAreNamed(t *testing.T) {
	file, from := bundled(t)
	model, err := pipeline.OpenModel(t.Context(), estimates.Open(t, from), "")
	if err != nil {
		t.Fatal(err)
	}
	e := pipeline.ReadOnly(model, pipeline.Variant{Estimator: estimators.Independent}, pipeline.Settings{})
	b := opened(t, file)
	at := slices.IndexFunc(b.Tables, func(d TableDigest) bool { return d.Table == "slowdowns" })
	b.Tables[at].Digest = strings.Repeat("0", 32)
	check := func(other bool, wants ...string) {
		t.Helper()
		c, err := b.Compare(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		found, ok := errors.AsType[*DifferenceError](c.Err())
		if !ok || found.OtherVersion != other {
			t.Fatalf("%v", c.Err())
		}
		for _, want := range wants {
			if !strings.Contains(found.Error(), want) {
				t.Errorf("no %q in %q", want, found)
			}
		}
	}
	check(false, "slowdowns", "although the versions are equal", "abc")
	b.MadeBy.Method--
	b.MadeBy.Processor = "pdp11"
	check(true, "slowdowns", "method", "processor pdp11, here ", "commit abc")
	b.Tables[at].Columns = []string{"flow_id", "colour"}
	check(true, "slowdowns")
	b.Tables = slices.Delete(b.Tables, at, at+1)
	check(true, "slowdowns")
}

// A bundle whose inputs cannot be simulated, or belong to another scenario, leaves no lake behind.
func TestWrongInputsLeaveTheLakeAlone(t *testing.T) {
	file, _ := bundled(t)
	const flows = "inputs/flows/part-00000.parquet"
	none := func(b *Bundle) {}
	for _, c := range []struct {
		want   string
		change func(b *Bundle)
		flows  []inputFlow // instead of those of the bundle
	}{
		{"has id", func(b *Bundle) { b.Scenario.ScenarioID = "0123456789abcdef" }, nil},
		{"its content has id", func(b *Bundle) { b.Scenario.Canonical = json.RawMessage(`{"version":1}`) }, nil},
		{"canonical scenario", func(b *Bundle) { b.Scenario.Canonical = nil }, nil},
		{"windows of", func(b *Bundle) { b.Scenario.Windows = &windows.Spec{} }, nil},
		{"no variant", func(b *Bundle) { b.Variant = "../../x" }, nil},
		{"node", func(b *Bundle) { b.Files = b.Files[1:] }, nil},
		{"payload", func(b *Bundle) { b.Scenario.Params.PayloadBytes = -1 }, nil},
		{"seed of the scenario", func(b *Bundle) { b.Scenario.Seed++ }, nil},
		{"transport of the scenario", func(b *Bundle) { b.Scenario.Params.Gain /= 2 }, nil},
		{"1 rows are set aside", func(b *Bundle) { b.Workload.SetAside = 1 }, nil},
		{"-1 rows were merged", func(b *Bundle) { b.Workload.Merged = -1 }, nil},
		{"is the reason of 3 rows", func(b *Bundle) {
			b.Workload.RejectReasons = []ingest.RejectCount{{Reason: "x", Rows: 3}}
		}, nil},
		{"flow 2: node 99 is not a host", none, []inputFlow{{1, 0, 1, 5}, {2, 99, 1, 5}}},
		{"flow 3: node 8 is not a host", none, []inputFlow{{3, 0, 8, 5}}},
		{"flow 2 starts at 4 ns", none, []inputFlow{{1, 0, 1, 5}, {2, 1, 0, 4}}},
		{"start_ns is -5", none, []inputFlow{{1, 0, 1, -5}}},
	} {
		b := opened(t, file)
		c.change(b)
		if c.flows != nil {
			writeFlows(t, filepath.Join(b.dir, flows), c.flows)
		}
		dir := filepath.Join(t.TempDir(), "lake")
		e, err := b.Begin(t.Context(), dir, pipeline.Settings{})
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%v, want %q of %s", err, c.want, file)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a lake was made: %v", c.want, err)
		}
	}
}

// An inputFlow has the columns of a flow that are checked.
type inputFlow struct {
	id       int64
	src, dst int32
	startNS  int64
}

// writeFlows replaces a data file of table flows.
func writeFlows(t *testing.T, path string, flows []inputFlow) {
	t.Helper()
	rec := columns.RecordOf(schema.Flows, flows, func(f inputFlow) columns.Row {
		return columns.Row{
			"flow_id": f.id, "src": f.src, "dst": f.dst, "size_bytes": int64(1000), "start_ns": f.startNS,
			"service": "", "vnet": "", "synthetic_start": false, "connection_id": f.id, "background": false,
		}
	})
	defer rec.Release()
	var out bytes.Buffer
	w := parquet.NewWriter(schema.Flows, &out)
	if err := errors.Join(w.Write(rec), w.Close(), os.WriteFile(path, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A digest does not depend on the order of rows or on batches, and changes with every value. Otherwise,
// different rows would count as equal.
func TestDigestsFollowTheRows(t *testing.T) {
	tables := []schema.Table{schema.LinkStats, schema.Flows, schema.Hops, schema.JobFlows, schema.Intervals}
	for _, table := range tables {
		rec := fixture.Batch(table, rand.New(rand.NewPCG(1, 2)), 50)
		half := []arrow.Record{rec.NewSlice(20, 50), rec.NewSlice(0, 20)}
		want := digestOf(t, table, rec)
		got := digestOf(t, table, half...)
		if got != want {
			t.Errorf("%s: %s in another order, %s before", table.Name, got, want)
		}
		if digestOf(t, table, rec.NewSlice(0, 49)) == want {
			t.Errorf("%s: the same digest without a row", table.Name)
		}
		other := fixture.Batch(table, rand.New(rand.NewPCG(3, 4)), 50)
		for k, c := range table.Columns {
			values := slices.Clone(rec.Columns())
			values[k] = other.Column(k)
			changed := array.NewRecord(rec.Schema(), values, rec.NumRows())
			got := digestOf(t, table, changed)
			if (got == want) != (c.Name == "cached") {
				t.Errorf("%s: digest %s with another column %s, %s before", table.Name, got, c.Name, want)
			}
		}
	}
}

// digestOf returns the digest of batches of a table.
func digestOf(t *testing.T, table schema.Table, batches ...arrow.Record) string {
	t.Helper()
	_, digest, err := digestRows(t.Context(), &stream{batches}, digestColumns(table))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// A stream streams batches.
type stream struct{ rest []arrow.Record }

// Next implements schema.Batches.
func (s *stream) Next(...string) (arrow.Record, error) {
	if len(s.rest) == 0 {
		return nil, io.EOF
	}
	rec := s.rest[0]
	s.rest = s.rest[1:]
	rec.Retain()
	return rec, nil
}

// Close implements schema.Batches.
func (s *stream) Close() error { return nil }
