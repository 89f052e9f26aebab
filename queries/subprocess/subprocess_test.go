package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// The test binary is the executable of the children.
func TestMain(m *testing.M) {
	Main(func(_ string, limits duckdb.Options) (queries.Options, func() error, error) {
		return queries.Options{Options: limits}, func() error { return nil }, nil
	})
	if lake := os.Getenv("TEST_PARENT_OF"); lake != "" { // see TestChildEndsWithParent
		_ = Run(context.Background(), Request{Lake: lake, SQL: forever, Format: "csv"}, os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const forever = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE hash(i) = 7"

// makeLake writes a lake with table nodes of one scenario and returns its path.
func makeLake(t *testing.T) string {
	t.Helper()
	lake := t.TempDir()
	dir := filepath.Join(lake, "nodes", "scenario=a")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := duckdb.Open(t.Context(), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec("COPY (SELECT 1::INT AS node_id, 'h' AS name, 'host' AS kind, 0::INT AS pod, 0::INT AS rack, 'r' AS rack_name) TO " +
		duckdb.Quote(filepath.Join(dir, "part-00000.parquet")) + " (FORMAT parquet)")
	if err != nil {
		t.Fatal(err)
	}
	return lake
}

func TestAnswers(t *testing.T) {
	lake := makeLake(t)
	for want, r := range map[string]Request{
		"n\n1\n": {SQL: "SELECT count(*) AS n FROM nodes", Format: "csv"},
		"scenario,variant,links,top_links,max_load,top10_mean_load,mean_load\n": {
			Question: queries.LoadTop10, Params: map[string]string{"scenario": "a"}, Format: "csv"},
		"[\n{\"a\":1}\n]\n": {SQL: "SELECT 1 AS a", Format: "json", MemoryBytes: 100 << 20, Threads: 1},
	} {
		r.Lake = lake
		var b strings.Builder
		if err := Run(t.Context(), r, &b); err != nil || b.String() != want {
			t.Errorf("%+v: got %q, %v; want %q", r, b.String(), err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	lake := makeLake(t)
	for _, c := range []struct {
		r    Request
		kind error
		want string
	}{
		{Request{SQL: "DROP VIEW nodes"}, queries.ErrRefused, "refused"},
		{Request{SQL: "SELECT nothing"}, nil, `column "nothing" not found`},
		{Request{SQL: "SELECT 1", MemoryBytes: 5}, nil, "at least 64 MiB"},
		{Request{Question: "nope"}, nil, "no query"},
		{Request{Question: queries.LoadTop10, Params: map[string]string{"scenario": "b"}}, nil, `no scenario "b" in the lake; it has a`},
		{Request{SQL: "SELECT CAST(chr(27) || '[2J' AS INT)"}, nil, `\x1b[2J`},
	} {
		c.r.Lake, c.r.Format = lake, "csv"
		var b strings.Builder
		err := Run(t.Context(), c.r, &b)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
	if err := Run(t.Context(), Request{Lake: filepath.Join(lake, "none"), SQL: "SELECT 1", Format: "csv"}, os.Stdout); err == nil {
		t.Error("answered about no lake")
	}
}

// A query that DuckDB does not count cannot hold much more than the limit.
func TestMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process is limited on Linux only")
	}
	lake := makeLake(t)
	const limit = 300 << 20
	for _, text := range []string{
		"SELECT len(range(2000000000)) AS n",
		"SELECT len(list(i)) AS n FROM range(4000000000) AS r(i)",
		"SELECT quantile_cont(i, 0.5) AS q FROM range(200000000) AS r(i)",
		"SELECT count(*) FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS r FROM range(100000000) AS t(i)) WHERE r % 2 = 0",
	} {
		var b strings.Builder
		err := Run(t.Context(), Request{Lake: lake, SQL: text, Format: "csv", MemoryBytes: limit, Threads: 2}, &b)
		if !errors.As(err, new(*MemoryError)) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		t.Fatal(err)
	}
	peak, most := usage.Maxrss<<10, int64(limit)+(duckdb.Options{Threads: 2}).Allowance()+128<<20
	if peak > most {
		t.Errorf("a child held %d MiB, the limit is %d MiB", peak>>20, most>>20)
	}
	// A smaller query of the same kind has room.
	var b strings.Builder
	r := Request{Lake: lake, SQL: "SELECT len(range(1000000)) AS n", Format: "csv", MemoryBytes: limit, Threads: 2}
	if err := Run(t.Context(), r, &b); err != nil || b.String() != "n\n1000000\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// The context ends a query at once, whatever DuckDB is doing, with its cause.
func TestCancel(t *testing.T) {
	lake := makeLake(t)
	late := errors.New("too late")
	for _, text := range []string{forever, "SELECT sum(len(range(i % 1000000))) FROM range(100000000) AS r(i)"} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, late)
		began := time.Now()
		err := Run(ctx, Request{Lake: lake, SQL: text, Format: "csv"}, os.Stdout)
		cancel()
		if !errors.Is(err, late) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v after %v", text, err, time.Since(began))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Request{Lake: lake, SQL: forever, Format: "csv"}, os.Stdout); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled before the start: %v", err)
	}
}

// A child does not outlive its parent.
func TestChildEndsWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(executable)
	parent.Env = append(os.Environ(), "TEST_PARENT_OF="+makeLake(t))
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for tries := 0; child == 0 && tries < 200; tries++ {
		time.Sleep(20 * time.Millisecond)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent.Process.Pid))
		for _, file := range threads {
			pids, _ := os.ReadFile(file)
			if fields := strings.Fields(string(pids)); len(fields) > 0 {
				child, _ = strconv.Atoi(fields[0])
			}
		}
	}
	if child == 0 {
		t.Fatal("no child")
	}
	time.Sleep(300 * time.Millisecond) // until it counts
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for range 250 {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("child %d still runs", child)
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// A reader that closes the answer gives EPIPE, not a failure of the query.
func TestClosedPipe(t *testing.T) {
	lake := makeLake(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	err = Run(t.Context(), Request{Lake: lake, SQL: "SELECT i FROM range(1000000) AS r(i)", Format: "csv"}, out)
	_ = out.Close()
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}

func TestCrashes(t *testing.T) {
	run := func(script string) error {
		t.Helper()
		return exec.Command("sh", "-c", script).Run()
	}
	for _, c := range []struct {
		script, stderr string
		memory         bool
		want           string
	}{
		{"kill -9 $$", "", true, "killed"},
		{"exit 2", "fatal error: runtime: out of memory\n\ngoroutine 1", true, "out of memory"},
		{"kill -6 $$", "terminate called after throwing an instance of 'std::bad_alloc'", true, "bad_alloc"},
		{"kill -11 $$", "last words", false, "crashed: signal: segmentation fault\nlast words"},
	} {
		err := crash(run(c.script), c.stderr)
		if errors.As(err, new(*MemoryError)) != c.memory || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
	long := &tail{}
	_, _ = long.Write([]byte(strings.Repeat("x", 10*tailBytes) + "end"))
	if long.Len() != tailBytes || !strings.HasSuffix(long.String(), "xend") {
		t.Errorf("%d bytes", long.Len())
	}
}
