package workloads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/stages/ingest"
)

// shardTrace is a trace of five files with rejects and notes.
func shardTrace(t *testing.T, format string) (traceDir, Trace) {
	t.Helper()
	d := newTrace(t, 0)
	random := rand.New(rand.NewPCG(1, 2))
	tr := d.trace(0, 1, 2, 3, 4)
	for i := range tr.Sources {
		text := vpcFlows(random, []int{i})
		odd := "2 1 eni 10.0.0.9 10.0.0.1 1 443 6 10 5000 1769905000 1769905001 ACCEPT OK"
		if format == "csv" {
			text = csvFlows(random, i*1e9, 1.2e9, fmt.Sprint(i*900+1000))
			odd = "1,1,5,7,s,v,1"
		}
		lines := strings.SplitAfterN(text, "\n", 1000)
		d.write(t, fmt.Sprintf("day%d.log", i), strings.Join(lines[:999], "")+odd)
	}
	m, err := ingest.FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	tr.Mappings = []*ingest.Mapping{m}
	tr.MaxRejects = 0.5
	d.write(t, "hosts.csv", "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2") // a note about the table
	if format == "csv" {
		tr.Hosts = ""
	}
	return d, tr
}

// shard reads one shard of a trace into a lake.
func (d traceDir) shard(t *testing.T, tr Trace, lakeName string, index, count int) *Report {
	t.Helper()
	r, err := Ingest(t.Context(), tr, Settings{Lake: d.path(lakeName),
		Settings: engine.Settings{Shard: engine.Shard{Index: index, Count: count}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// content ingests a trace. It returns the report, and what the workload has: tables, rows and digests of the
// data files, and remarks. The names of the data files depend on how often a file was read.
func (d traceDir) content(t *testing.T, tr Trace, lakeName string) (*Report, string) {
	t.Helper()
	files, r := d.ingested(t, tr, lakeName)
	var b strings.Builder
	fmt.Fprintln(&b, r.NewFiles, r.Rows, r.Flows, r.Merged, r.Rejects, r.Reasons, r.Notes, r.Skipped, r.Labels)
	for _, f := range files {
		table, err := f.Table()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, table.Name, f.Rows, f.Digest)
	}
	return r, b.String()
}

// The data files of a workload whose files were read in shards are those of an ingest in one process, for any
// order of the shards, with shards that were read twice or with another N, and with shards that are missing.
func TestShards(t *testing.T) {
	for _, format := range []string{"vpc", "csv"} {
		d, tr := shardTrace(t, format)
		_, want := d.content(t, tr, "whole")
		if strings.Count(want, "\nrejects ") < 5 {
			t.Fatalf("files of %s without rejects:\n%s", format, want)
		}
		for name, c := range map[string]struct{ shards, taken []int }{
			"in order":       {[]int{0, 1, 2}, []int{0, 0, 0}},
			"reversed":       {[]int{2, 1, 0}, []int{0, 0, 0}},
			"twice":          {[]int{0, 1, 0, 2, 2}, []int{0, 0, 2, 0, 1}},
			"one is missing": {[]int{2, 0}, []int{0, 0}},
		} {
			taken := 5
			if name == "one is missing" {
				taken = 3
			}
			for i, shard := range c.shards {
				r := d.shard(t, tr, name, shard, 3)
				if r.TakenFiles != c.taken[i] || r.NewFiles != []int{2, 2, 1}[shard] {
					t.Errorf("%s, %s, shard %d: %+v", format, name, shard, r)
				}
			}
			r, have := d.content(t, tr, name)
			if have != want || r.TakenFiles != taken {
				t.Errorf("%s, %s: %d files taken, want %d\n%s\nwant\n%s", format, name, r.TakenFiles, taken, have,
					want)
			}
			d.onlyListed(t, name)
		}
		if testing.Short() {
			return
		}
	}
}

// onlyListed checks that a lake has the data files of the workload's manifest, and no record of a read file.
func (d traceDir) onlyListed(t *testing.T, lakeName string) {
	t.Helper()
	l, err := lake.Open(d.path(lakeName), false)
	if err != nil {
		t.Fatal(err)
	}
	place := lake.Place{Workload: "days"}
	m, _, err := l.ReadManifest(place)
	if err != nil {
		t.Fatal(err)
	}
	listed := pathsOf(m.Files)
	err = l.EachFile(place, func(f lake.FileUsage) error {
		isState := f.Table == "_state" && !strings.Contains(f.Path, "/read/")
		if !isState && !slices.Contains(listed, f.Path) {
			t.Errorf("%s: %s is left", lakeName, f.Path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Shards that run at the same time, two of them the same one, neither lose nor double rows. Meanwhile an
// ingest of all files is refused, and leaves their files alone.
func TestShardsSideBySide(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	_, want := d.content(t, tr, "whole")
	l, err := lake.Open(d.path("lake"), true)
	if err != nil {
		t.Fatal(err)
	}
	working, err := l.LockShared(t.Context(), lake.Place{Workload: "days"})
	if err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for _, shard := range []int{0, 1, 1, 0} {
		all.Go(func() error {
			_, err := Ingest(t.Context(), tr, Settings{Lake: d.path("lake"),
				Settings: engine.Settings{Shard: engine.Shard{Index: shard, Count: 2}}})
			return err
		})
	}
	_, busy := Ingest(t.Context(), tr, d.settings())
	if err := all.Wait(); err != nil || !errors.Is(busy, lake.ErrBusy) {
		t.Errorf("shards: %v; an ingest beside them: %v", err, busy)
	}
	working.Close()
	d.expect(t, tr, want, 5)
}

// A process that knows the lake alone can read the shards that others have not, and complete the workload.
func TestBegunShards(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	_, want := d.content(t, tr, "whole")
	d.shard(t, tr, "lake", 2, 3)
	l, err := lake.Open(d.path("lake"), false)
	if err != nil {
		t.Fatal(err)
	}
	again, shards, err := Begun(l, "days")
	if err != nil || shards != 3 {
		t.Fatalf("%d shards, %v", shards, err)
	}
	for shard := range 2 {
		d.shard(t, again, "lake", shard, shards)
	}
	d.expect(t, again, want, 5)
	_, _, err = Begun(l, "days")
	if err == nil || !strings.Contains(err.Error(), "was begun in") {
		t.Errorf("the shards of a complete workload: %v", err)
	}
	t.Chdir(string(d))
	tr.Sources = []string{"day1.log", d.path("day2.log")}
	d.shard(t, tr, "lake", 0, 1)
	_, _, err = Begun(l, "days")
	if err == nil || !strings.Contains(err.Error(), "source day1.log") {
		t.Errorf("a relative path: %v", err)
	}
}

// Processes refuse an ingest that they cannot share, such as one with temporary copies of tables.
func TestBegunThatDoesNotFit(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	d.shard(t, tr, "lake", 0, 3)
	l, err := lake.Open(d.path("lake"), false)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(b *begun){
		`"-1/0": want I/N`:       func(b *begun) { b.Shards = 0 },
		`"-3/-2": want I/N`:      func(b *begun) { b.Shards = -2 },
		"N (1 to ":               func(b *begun) { b.Shards = 1e9 },
		`of workload "other"`:    func(b *begun) { b.Trace.Workload = "other" },
		"a mapping is missing":   func(b *begun) { b.Trace.Mappings = []*ingest.Mapping{nil} },
		"no such file":           func(b *begun) { b.Trace.Labels = d.path("gone.csv") },
		"gone.json: no such":     func(b *begun) { b.Trace.Topology = d.path("gone.json") },
		"do not find source day": func(b *begun) { b.Trace.Sources[1] = "day1.log" },
	} {
		d.state(t, "read/shards.json", func(s *lake.Session, path string) error {
			var b begun
			if _, err := s.ReadState(path, &b); err != nil {
				return err
			}
			before := b
			before.Trace.Sources = slices.Clone(b.Trace.Sources)
			change(&b)
			err := s.WriteState(path, b)
			_, shards, begunErr := Begun(l, "days")
			if shards != 0 || begunErr == nil || !strings.Contains(begunErr.Error(), want) {
				t.Errorf("%d shards, %v; want %q", shards, begunErr, want)
			}
			return errors.Join(err, s.WriteState(path, before))
		})
	}
}

// Records of files count only for the same content, setting and number, and while their data files are sound.
// Otherwise the file is read again.
func TestShardsThatDoNotFit(t *testing.T) {
	for name, change := range map[string]func(d traceDir, tr *Trace){
		"files": func(d traceDir, _ *Trace) {
			d.write(t, "day0.log", vpcHeader+
				"2 1 eni-1 10.0.0.1 10.0.0.2 1 2 6 10 5000 1769817600 1769817601 ACCEPT OK\n")
			flip(t, d.path("lake/records/workload=days/part-00002.parquet"))
			flip(t, d.path("lake/_state/workload=days/read/00003.json"))
		},
		"off-fabric": func(_ traceDir, tr *Trace) { tr.OffFabric = []string{"10.0.0.9/32"} },
		"mapping": func(_ traceDir, tr *Trace) {
			m := *tr.Mappings[0]
			m.Rows = strings.Replace(m.Rows, "vpc_id AS vnet", "interface_id AS vnet", 1)
			tr.Mappings = []*ingest.Mapping{&m}
		},
		"numbers": func(_ traceDir, tr *Trace) { tr.Sources = tr.Sources[1:] },
	} {
		if testing.Short() && name != "files" {
			continue
		}
		d, tr := shardTrace(t, "vpc")
		d.shard(t, tr, "lake", 0, 1)
		change(d, &tr)
		_, want := d.content(t, tr, "whole")
		taken := 0
		if name == "files" {
			taken = 2
		}
		d.expect(t, tr, want, taken)
	}
}

// A record counts only if it names the data files of its file, with the rows that it counts. The data files
// of a record that does not count are removed, and none of another workload.
func TestRecordsThatDoNotFit(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	_, want := d.content(t, tr, "whole")
	other := tr
	other.Workload = "other"
	d.shard(t, other, "lake", 0, 1)
	for name, change := range map[string]func(f *readFile){
		"files of another workload": func(f *readFile) {
			for i := range f.Files {
				f.Files[i].Path = strings.Replace(f.Files[i].Path, "=days/", "=other/", 1)
			}
		},
		"rejects alone":    func(f *readFile) { f.Files = f.Files[1:] },
		"records alone":    func(f *readFile) { f.Files = f.Files[:1] },
		"records twice":    func(f *readFile) { f.Files[1] = f.Files[0] },
		"another number":   func(f *readFile) { f.N++ },
		"no records":       func(f *readFile) { f.Rows -= f.Records; f.Records = 0 },
		"more rows":        func(f *readFile) { f.Rows++ },
		"more set aside":   func(f *readFile) { f.SetAside = f.Rejects + 1 },
		"negative reverse": func(f *readFile) { f.Rows += 2; f.Reverse = -2 },
	} {
		d.shard(t, tr, "lake", 0, 1)
		d.state(t, "read/00002.json", func(s *lake.Session, path string) error {
			var f readFile
			_, err := s.ReadState(path, &f)
			if err != nil || len(f.Files) != 2 {
				return fmt.Errorf("%+v, %w", f, err)
			}
			change(&f)
			return s.WriteState(path, f)
		})
		t.Log(name)
		d.expect(t, tr, want, 4)
		d.state(t, "", func(s *lake.Session, _ string) error { return s.RemovePlace(lake.Place{Workload: "days"}) })
	}
	r, err := Ingest(t.Context(), other, d.settings())
	if err != nil || r.TakenFiles != 5 {
		t.Errorf("the other workload: %+v, %v", r, err)
	}
}

// state calls a function with a session of the workload and the path of one of its state files.
func (d traceDir) state(t *testing.T, name string, do func(s *lake.Session, path string) error) {
	t.Helper()
	place := lake.Place{Workload: "days"}
	l, err := lake.Open(d.path("lake"), false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Lock(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := do(s, place.StatePath(name)); err != nil {
		t.Fatal(err)
	}
}

// expect ingests a trace into the lake in which files were read before. It checks the content, the number of
// files that are taken, and that nothing else is left.
func (d traceDir) expect(t *testing.T, tr Trace, want string, taken int) {
	t.Helper()
	r, have := d.content(t, tr, "lake")
	if have != want || r.TakenFiles != taken {
		t.Errorf("%d files taken, want %d\n%s\nwant\n%s", r.TakenFiles, taken, have, want)
	}
	d.onlyListed(t, "lake")
}

// A failed ingest leaves what shards have read, and nothing else. An ingest that ends before it is complete
// leaves what it has read itself.
func TestWhatIsReadStays(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	_, want := d.content(t, tr, "whole")
	strict := tr
	strict.MaxRejects = 0
	for _, known := range []bool{false, true} {
		if known {
			d.shard(t, tr, "lake", 0, 2)
		}
		read := d.onDisk(t)
		_, err := Ingest(t.Context(), strict, d.settings())
		if err == nil || !strings.Contains(err.Error(), "--max-rejects") {
			t.Errorf("no rejects are allowed: %v", err)
		}
		left := d.onDisk(t)
		if !slices.Equal(left, read) {
			t.Errorf("left: %v, want what the shard has read: %v", left, read)
		}
	}
	settings := d.settings()
	var ctx context.Context
	ctx, settings.Progress = stopped(t)
	_, err := Ingest(ctx, tr, settings)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was ended: %v", err)
	}
	d.expect(t, tr, want, 5)
	tr.Workload = ""
	var log strings.Builder
	settings.Log = zerolog.New(&log)
	ctx, settings.Progress = stopped(t)
	_, err = Ingest(ctx, tr, settings)
	l, lakeErr := lake.Open(settings.Lake, false)
	if lakeErr != nil {
		t.Fatal(lakeErr)
	}
	ids, _ := l.BegunWorkloads()
	ids = slices.DeleteFunc(ids, func(id lake.WorkloadID) bool { return id == "days" })
	if !errors.Is(err, context.Canceled) || len(ids) != 1 || !strings.Contains(log.String(), string(ids[0])) {
		t.Fatalf("a call without a name that was ended: %v, workloads %v, log %s", err, ids, log.String())
	}
	state := ReadStatus(l, ids[0], lake.ByContent)
	if state.State != "partial" || state.Damage != nil {
		t.Errorf("status of a workload whose first ingest was ended: %+v", state)
	}
}

// stopped returns a context, and a stopper that ends it.
func stopped(t *testing.T) (context.Context, *stopper) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	return ctx, &stopper{stop: stop}
}

// A stopper ends an ingest when the merge begins.
type stopper struct {
	engine.Silent
	stop func()
}

func (s *stopper) Begin(stage, _ string, _ int64) {
	if stage == "merge" {
		s.stop()
	}
}

// Shards of files that are added to a workload have the numbers of new files. Known files are not read, and
// other settings are refused.
func TestShardsOfMoreFiles(t *testing.T) {
	d, tr := shardTrace(t, "vpc")
	few := tr
	few.Sources = tr.Sources[1:3]
	d.content(t, few, "whole")
	_, want := d.content(t, tr, "whole")
	d.content(t, few, "lake")
	for shard := range 2 {
		r := d.shard(t, tr, "lake", shard, 2)
		if r.NewFiles != 2-shard {
			t.Errorf("shard %d: %+v", shard, r)
		}
	}
	d.expect(t, tr, want, 3)
	other := tr
	other.Seed = 2
	unnamed := tr
	unnamed.Workload = ""
	objects := tr
	objects.Objects = []string{"s3://logs/x"}
	for want, tr := range map[string]Trace{
		"other settings of merging": other, "--shard needs --workload": unnamed,
		"ingest s3://logs/x without": objects,
	} {
		_, err := Ingest(t.Context(), tr, Settings{Lake: d.path("lake"),
			Settings: engine.Settings{Shard: engine.Shard{Count: 1}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
