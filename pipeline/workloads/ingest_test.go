package workloads

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages/ingest"
)

// killedIn names an environment variable with the directory of a traceDir. If it is set, the test binary
// ingests the second day and kills itself.
const killedIn = "PARSIMON_TEST_KILLED_INGEST"

func TestMain(m *testing.M) {
	dir := os.Getenv(killedIn)
	if dir != "" {
		tr := traceDir(dir).trace(0, 1)
		settings := traceDir(dir).settings()
		settings.Progress = &killer{}
		_, err := Ingest(context.Background(), tr, settings)
		fmt.Println("the ingest was not killed:", err)
		os.Exit(1)
	}
	parquet.PoisonFreed = true
	os.Exit(m.Run())
}

// A killer kills its own process, like kill -9, when the merge reports the first flows. By then, the merge
// has written them.
type killer struct{ stage string }

func (k *killer) Begin(stage, _ string, _ int64) { k.stage = stage }
func (k *killer) End()                           {}
func (k *killer) Add(int64) {
	if k.stage == "merge" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal ends the process here
	}
}

// A traceDir is a directory with a hosts table, daily logs and a lake.
type traceDir string

// newTrace writes logs for the given number of days: 100 flows between three hosts, each logged at both ends.
func newTrace(t *testing.T, days int) traceDir {
	t.Helper()
	d := traceDir(t.TempDir())
	d.write(t, "hosts.csv", "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2\n")
	for day := range days {
		var b strings.Builder
		b.WriteString(vpcHeader)
		for i := range 100 {
			start := 1769817600 + day*86400 + i
			for eni := range 2 {
				fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n",
					eni, 1+i%3, 1+(i+1)%3, 40000+i, 5000+i, start, start+1)
			}
		}
		d.write(t, fmt.Sprintf("day%d.log", day), b.String())
	}
	return d
}

func (d traceDir) path(name string) string { return filepath.Join(string(d), name) }

func (d traceDir) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// trace returns the trace of the given days.
func (d traceDir) trace(days ...int) Trace {
	mapping, err := ingest.FormatMapping("vpc")
	if err != nil {
		panic(err) // it is built in
	}
	tr := Trace{Topology: "small-2to1", Workload: "days", Mappings: []*ingest.Mapping{mapping},
		Options: ingest.Options{Hosts: d.path("hosts.csv"), Seed: 1, GapSigma: 1, IdleNS: ingest.DefaultIdleNS}}
	for _, day := range days {
		tr.Sources = append(tr.Sources, d.path(fmt.Sprintf("day%d.log", day)))
	}
	return tr
}

func (d traceDir) settings() Settings {
	return Settings{Lake: d.path("lake")}
}

func (d traceDir) ingest(t *testing.T, days ...int) *Report {
	t.Helper()
	r, err := Ingest(t.Context(), d.trace(days...), d.settings())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// open returns the lake, and the files of the workload's manifest, which readers see.
func (d traceDir) open(t *testing.T) (*lake.Lake, []lake.DataFile) {
	t.Helper()
	l, err := lake.Open(d.path("lake"), false)
	if err != nil {
		t.Fatal(err)
	}
	m, found, err := l.ReadManifest(lake.Place{Workload: "days"})
	if err != nil || !found {
		t.Fatalf("manifest found: %v, %v", found, err)
	}
	return l, m.Files
}

// count returns the number of the workload's flows, as a query computes it.
func (d traceDir) count(t *testing.T) string {
	t.Helper()
	l, _ := d.open(t)
	text, err := ask(t, l, "SELECT count(*) FROM workload_flows")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ask returns the result of a query that has one value.
func ask(t *testing.T, l *lake.Lake, sql string) (string, error) {
	t.Helper()
	o, err := catalog.Options(l, duckdb.Options{MemoryBytes: 256 << 20, SpillDir: t.TempDir()})
	if err != nil {
		return "", err
	}
	db, err := queries.Open(t.Context(), l.Path(), o)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	found, err := db.SQL(t.Context(), sql)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(found.Rows[0][0]), nil
}

func pathsOf(files []lake.DataFile) []string {
	var paths []string
	for _, f := range files {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	return paths
}

// onDisk returns the workload's Parquet files in the lake, committed or not.
func (d traceDir) onDisk(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(d.path("lake/*/workload=days/*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		if paths[i], err = filepath.Rel(d.path("lake"), p); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(paths)
	return paths
}

// Ingesting a second day adds a file of records, and the flows get new numbers. The records of the first day
// stay as they are.
func TestAppend(t *testing.T) {
	d := newTrace(t, 2)
	d.ingest(t, 0)
	_, before := d.open(t)
	r := d.ingest(t, 0, 1)
	if r.NewFiles != 1 || r.KnownFiles != 1 || r.Flows != 200 || r.Rows != 400 {
		t.Errorf("report %+v", r)
	}
	_, after := d.open(t)
	records := lake.FilesOf(after, schema.Records)
	if old := lake.FilesOf(before, schema.Records); len(old) != 1 || len(records) != 2 ||
		records[0].Path != old[0].Path ||
		records[0].Digest != old[0].Digest || records[1].Path == old[0].Path {
		t.Errorf("records %v, before %v", pathsOf(records), pathsOf(old))
	}
	old := map[string]bool{}
	for _, f := range before {
		old[f.Path] = true
	}
	for _, table := range []schema.Table{schema.Flows, schema.LinkLoads, schema.Workloads} {
		found := lake.FilesOf(after, table)
		if len(found) == 0 {
			t.Errorf("the manifest lists no file of %s", table.Name)
		}
		for _, f := range found {
			if old[f.Path] {
				t.Errorf("%s has the number of a file of the first day", f.Path)
			}
		}
	}
	disk, listed := d.onDisk(t), pathsOf(after)
	if !slices.Equal(disk, listed) {
		t.Errorf("files %v, the manifest lists %v", disk, listed)
	}
	n := d.count(t)
	if n != "200" {
		t.Errorf("%s flows, want 200", n)
	}
}

// Files that are read side by side give the same data files and remarks as one after the other. With a file
// that cannot be read, the error and the list of skipped files are the same, too.
func TestFilesSideBySide(t *testing.T) {
	d := newTrace(t, 4)
	d.write(t, "day1.log", vpcHeader+
		"2 1 eni 10.0.0.9 10.0.0.1 1 443 6 10 5000 1769905000 1769905001 ACCEPT OK\n"+
		"2 1 eni 10.0.0.1 10.0.0.2 1 443 6 10 5000 1769905000 1769905001 ACCEPT OK")
	d.write(t, "day4.log", "srcaddr srcaddr dstaddr bytes start end\n1 2 3 4 5 6\n")
	d.write(t, "day5.log", "srcaddr dstaddr dstaddr bytes start end\n1 2 3 4 5 6\n")
	workerCounts := []int{1, 2, 4}
	if testing.Short() {
		workerCounts = []int{1, 4}
	}
	var first string
	for _, workers := range workerCounts {
		tr := d.trace(0, 1, 2, 3, 4, 5)
		tr.MaxRejects = 0.5
		settings := d.settings()
		settings.Lake = d.path(fmt.Sprintf("lake%d", workers))
		settings.Workers = workers
		settings.MemoryBytes = 1 << 30
		_, err := Ingest(t.Context(), tr, settings)
		if err == nil || !strings.Contains(err.Error(), "day4.log") {
			t.Errorf("%d workers: error %v", workers, err)
		}
		tr.SkipDamaged = true
		r, err := Ingest(t.Context(), tr, settings)
		if err != nil {
			t.Fatal(err)
		}
		l, err := lake.Open(settings.Lake, false)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := l.ReadManifest(lake.Place{Workload: "days"})
		if err != nil {
			t.Fatal(err)
		}
		found := fmt.Sprintln(r.Rows, r.Flows, r.Rejects, r.Notes, r.Skipped)
		for _, f := range m.Files {
			found += fmt.Sprintln(f.Path, f.Rows, f.Digest)
		}
		if len(r.Notes) == 0 || len(r.Skipped) != 2 || r.Rejects == 0 {
			t.Errorf("%d workers: %s", workers, found)
		}
		if first == "" {
			first = found
		}
		if found != first {
			t.Errorf("%d workers:\n%s\nwant\n%s", workers, found, first)
		}
	}
}

// Files of several formats form one workload, whether they are ingested at once or one after the other. Each
// file is read in the format that fits it.
func TestSeveralFormats(t *testing.T) {
	mappings := func(names ...string) (all []*ingest.Mapping) {
		for _, name := range names {
			m, err := ingest.FormatMapping(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		return all
	}
	d := newTrace(t, 1)
	d.write(t, "gcp.json", `{"jsonPayload":{"connection":{"src_ip":"10.0.0.1","dest_ip":"10.0.0.2","src_port":1,"dest_port":2,"protocol":6},`+
		`"bytes_sent":"5000","packets_sent":"5","start_time":"2026-01-31T00:00:00.5Z","end_time":"2026-01-31T00:00:01Z"}}`)
	d.write(t, "nfdump.csv", "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes\n"+
		"2026-01-31 00:00:05.000,1.0,TCP,10.0.0.1,7,10.0.0.3,9,5,5000") // no newline at the end
	d.write(t, "other.txt", "one two\n")
	run := func(names []string, files ...string) (*Report, error) {
		tr := d.trace()
		tr.Mappings = mappings(names...)
		for _, f := range files {
			tr.Sources = append(tr.Sources, d.path(f))
		}
		return Ingest(t.Context(), tr, d.settings())
	}
	if r, err := run([]string{"gcp", "vpc"}, "day0.log", "gcp.json"); err != nil || r.Flows != 101 ||
		r.Rows != 201 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err := run([]string{"nfdump", "vpc"}, "nfdump.csv", "day0.log")
	if err != nil || r.Flows != 102 || r.NewFiles != 1 || r.KnownFiles != 1 ||
		!slices.Equal(r.Notes, []string{d.path("nfdump.csv") + " does not end with a line end: its last row may " +
			"have been cut"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	l, _ := d.open(t)
	s := ReadStatus(l, "days", lake.ByContent)
	if s.Format != "gcp,nfdump,vpc" {
		t.Errorf("%+v", s)
	}
	for want, c := range map[string][2]string{
		"is none of gcp, vpc: leave it out":        {"gcp,vpc", "other.txt"},
		"one has records of flow logs, the other ": {"csv,vpc", "day0.log"},
		"records of flow logs, not whole flows":    {"csv", "other.txt"},
	} {
		if _, err := run(strings.Split(c[0], ","), c[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// If a flow is in two logs, its start is taken from the log with the more precise time, even if the other log
// has an earlier time.
func TestStartOfSeveralObservers(t *testing.T) {
	d := newTrace(t, 1)
	d.write(t, "nfdump.csv", "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes\n"+
		"2026-01-31 00:00:00.302,0.6,TCP,10.0.0.1,40000,10.0.0.2,443,10,5000\n")
	tr := d.trace(0)
	m, err := ingest.FormatMapping("nfdump")
	if err != nil {
		t.Fatal(err)
	}
	tr.Mappings, tr.Sources = append(tr.Mappings, m), append(tr.Sources, d.path("nfdump.csv"))
	if r, err := Ingest(t.Context(), tr, d.settings()); err != nil || r.Flows != 100 {
		t.Fatalf("%+v, %v", r, err)
	}
	l, _ := d.open(t)
	start, err := ask(t, l, "SELECT start_ns // 1000000 FROM workload_flows WHERE size_bytes = 5000")
	if err != nil || start != "1769817600302" {
		t.Errorf("start %s ms, %v", start, err)
	}
}

// A workload has one mapping of each format. Ingesting known files with another mapping is an error, because
// their records in the workload would not change.
func TestOtherMapping(t *testing.T) {
	d := newTrace(t, 1)
	d.ingest(t, 0)
	tr := d.trace(0)
	other := *tr.Mappings[0]
	other.Rows = strings.Replace(other.Rows, "vpc_id AS vnet", "interface_id AS vnet", 1)
	tr.Mappings = []*ingest.Mapping{&other}
	_, err := Ingest(t.Context(), tr, d.settings())
	want := "workload days was ingested with another mapping vpc"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	r := d.ingest(t, 0)
	if r.NewFiles != 0 || r.KnownFiles != 1 || d.count(t) != "100" {
		t.Errorf("the same mapping again: %+v", r)
	}
}

// Each row counts once, even if it is in several files: a log that has grown since it was ingested, a
// compressed log, or a log that was split differently.
func TestRowsCountOnce(t *testing.T) {
	d := newTrace(t, 1)
	first := d.ingest(t, 0)
	text, err := os.ReadFile(d.path("day0.log"))
	if err != nil {
		t.Fatal(err)
	}
	row := "2 1 eni-9 10.0.0.1 10.0.0.2 40999 443 6 10 5000 1769819000 1769819001 ACCEPT OK\n"
	d.write(t, "day0.log", string(text)+row)
	grown := d.ingest(t, 0)
	if grown.Flows != first.Flows+1 || grown.NewFiles != 1 || grown.Repeated == 0 ||
		grown.Rows != 2*first.Rows+1 ||
		grown.Rows != grown.Flows+grown.Merged+grown.Rejects {
		t.Errorf("first %+v\ngrown %+v", first, grown)
	}
	flows := d.count(t)
	if err := os.Remove(d.path("day0.log")); err != nil { // logrotate
		t.Fatal(err)
	}
	f, err := os.Create(d.path("day0.log.1.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	_, _ = z.Write([]byte(string(text) + row))
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	tr := d.trace()
	tr.Sources = []string{d.path("day0.log.1.gz")}
	again, err := Ingest(t.Context(), tr, Settings{Lake: d.path("lake")})
	if err != nil || again.NewFiles != 0 || again.KnownFiles != 1 {
		t.Errorf("the compressed log: %+v, %v", again, err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	d.write(t, "day0.log", lines[0]+strings.Join(lines[len(lines)/2:], ""))
	half := d.ingest(t, 0)
	if half.Flows != grown.Flows || d.count(t) != flows {
		t.Errorf("half of the log again: %+v", half)
	}
}

// flip changes one byte in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func isDamage(err error, path string) bool {
	var damage *lake.DamageError
	return errors.As(err, &damage) && strings.Contains(err.Error(), path)
}

// Every reader finds a flipped byte in the records of the first day. An ingest of the next day asks for the
// damaged source and reads it again.
func TestFlippedByteInRecords(t *testing.T) {
	d := newTrace(t, 2)
	d.ingest(t, 0)
	l, files := d.open(t)
	file := lake.FilesOf(files, schema.Records)[0]
	flip(t, filepath.Join(l.Path(), file.Path))
	if err := l.Check(file); !isDamage(err, file.Path) {
		t.Errorf("check: %v", err)
	}
	if _, err := ask(t, l, "SELECT count(*) FROM records"); err == nil ||
		!strings.Contains(err.Error(), file.Path) {
		t.Errorf("query: %v", err)
	}
	s := ReadStatus(l, "days", lake.ByContent)
	if s.State != "damaged" || len(s.Damage) != 1 || !strings.Contains(s.Damage[0], file.Path) {
		t.Errorf("status %+v", s)
	}
	_, err := Ingest(t.Context(), d.trace(1), d.settings())
	if !isDamage(err, file.Path) || !strings.Contains(err.Error(), "give that file again") {
		t.Errorf("ingest of the next day: %v", err)
	}
	r := d.ingest(t, 0, 1)
	if r.DamagedFiles != 1 || r.Flows != 200 {
		t.Errorf("ingest of both days: %+v", r)
	}
	s = ReadStatus(l, "days", lake.ByContent)
	if s.State != "complete" {
		t.Errorf("status after the repair %+v", s)
	}
}

// A run that reads flows with a flipped byte fails.
func TestFlippedByteInFlows(t *testing.T) {
	d := newTrace(t, 1)
	d.ingest(t, 0)
	l, files := d.open(t)
	file := lake.FilesOf(files, schema.Flows)[0]
	flip(t, filepath.Join(l.Path(), file.Path))
	state, err := Resolve(l, "days")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := FlowFiles(l, state.Ingested()); !isDamage(err, file.Path) {
		t.Errorf("flow files: %v", err)
	}
}

// A log without any flow is rejected with the reasons for its rows, and creates no workload.
func TestLogWithoutFlows(t *testing.T) {
	d := newTrace(t, 0)
	row := "2 1 eni-1 - - - - - - - 1769817600 1769817660 - NODATA\n"
	d.write(t, "day0.log", vpcHeader+strings.Repeat(row, 3))
	_, err := Ingest(t.Context(), d.trace(0), d.settings())
	want := "has no flow that can be simulated: all of its 3 rows are rejected, 3 of them no flows by their " +
		"own account"
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "3 × log-status is NODATA") {
		t.Errorf("error %v, want %q", err, want)
	}
	left := d.onDisk(t)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	l, err := lake.Open(d.path("lake"), false)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := l.Workloads(); err != nil || len(ids) > 0 {
		t.Errorf("workloads %v, %v", ids, err)
	}
}

// Readers do not see an ingest that was killed while it wrote flows. Repeating the ingest completes it and
// does not read the file again.
func TestKilledIngestIsInvisible(t *testing.T) {
	d := newTrace(t, 2)
	d.ingest(t, 0)
	_, before := d.open(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killedIn+"="+string(d))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	disk := d.onDisk(t)
	if len(disk) <= len(before) {
		t.Fatalf("the child wrote no data file: %v", disk)
	}
	l, after := d.open(t)
	same := func(a, b lake.DataFile) bool { return a.Path == b.Path && a.Digest == b.Digest }
	if !slices.EqualFunc(before, after, same) {
		t.Errorf("the manifest lists %v, before %v", pathsOf(after), pathsOf(before))
	}
	n := d.count(t)
	if n != "100" {
		t.Errorf("%s flows, want the first day's 100", n)
	}
	s := ReadStatus(l, "days", lake.ByContent)
	if s.State != "complete" || s.Sources != 1 || s.Flows != 100 {
		t.Errorf("status %+v", s)
	}
	state, err := Resolve(l, "days")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := FlowFiles(l, state.Ingested()); err != nil {
		t.Error(err)
	}
	r := d.ingest(t, 0, 1)
	if r.TakenFiles != 1 || r.NewFiles != 1 {
		t.Errorf("the second day, which the killed process had read: %+v", r)
	}
	_, after = d.open(t)
	if disk, listed := d.onDisk(t), pathsOf(after); !slices.Equal(disk, listed) {
		t.Errorf("files %v, the manifest lists %v", disk, listed)
	}
	if n := d.count(t); n != "200" {
		t.Errorf("%s flows, want 200", n)
	}
}

// A failed ingest leaves nothing of a new workload, and does not change an existing workload.
func TestFailedIngest(t *testing.T) {
	d := newTrace(t, 1)
	d.write(t, "day1.log", vpcHeader+"2 1 eni-1 10.9.9.9 10.0.0.1 1 2 6 10 5000 1769817600 1769817601 ACCEPT "+
		"OK\n")
	for _, known := range []bool{false, true} {
		if known {
			d.ingest(t, 0)
		}
		if _, err := Ingest(t.Context(), d.trace(1), d.settings()); err == nil ||
			!strings.Contains(err.Error(), "--max-rejects") {
			t.Fatalf("rows of no host: %v", err)
		}
		left, err := filepath.Glob(d.path("lake/*/workload=*"))
		if err != nil || !known && len(left) > 0 || known && d.count(t) != "100" {
			t.Errorf("known %v: %q, %v", known, left, err)
		}
	}
}

// An error of the records that all files share ends an ingest that skips damaged files. Otherwise records of
// files that were read before would be lost.
func TestLostRecordsEndTheIngest(t *testing.T) {
	in := &ingestion{}
	in.SkipDamaged = true
	lost := fmt.Errorf("flow file a.log: %w", &ingest.CollectError{Err: syscall.EIO})
	if in.maySkip(t.Context(), lost) {
		t.Error("a file is skipped although records of others may be lost")
	}
	if !in.maySkip(t.Context(), fmt.Errorf("flow file a.log: %w", syscall.EIO)) {
		t.Error("a file that cannot be read is not skipped")
	}
}
