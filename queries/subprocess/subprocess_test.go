package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parsimon/queries/duckdb"
	"parsimon/schema/daily"
)

// The children run the test binary. Its argument is the SQL to run.
func TestMain(m *testing.M) {
	switch {
	case IsChild():
		os.Exit(ExitCode(answer(os.Args[1])))
	case os.Getenv("TEST_PARENT") != "": // see TestChildEndsWithParent
		c := Child{Args: []string{forever}, SpillDir: os.Getenv("TEST_PARENT")}
		_, _ = Run(context.Background(), c, os.Stdout, os.Stderr)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const forever = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE hash(i) = 7"

var limits = duckdb.Options{MemoryBytes: 300 << 20, Threads: 2}

// answer runs a statement in a child and writes its number. It returns 7 for an error of DuckDB.
func answer(text string) int {
	limits := limits
	err := Begin(&limits)
	db, openErr := duckdb.Open(context.Background(), limits)
	n := 0
	if err = errors.Join(err, openErr); err == nil {
		err = db.QueryRow(text).Scan(&n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	fmt.Println(n)
	return 0
}

func run(t *testing.T, text string) (code int, out, log string, err error) {
	t.Helper()
	var o, l strings.Builder
	code, err = Run(t.Context(), Child{Args: []string{text}}, &o, &l)
	return code, o.String(), l.String(), err
}

// A query whose memory DuckDB does not count must not exceed the limit by much. A smaller query of the same
// kind must succeed. Short tests have one of the large queries each day.
func TestMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process is limited on Linux only")
	}
	large := []string{
		"SELECT len(range(2000000000)) AS n",
		"SELECT len(list(i)) AS n FROM range(4000000000) AS r(i)",
		"SELECT quantile_cont(i, 0.5) AS q FROM range(200000000) AS r(i)",
		"SELECT count(*) FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS r FROM range(100000000) AS t(i)) " +
			"WHERE r % 2 = 0",
	}
	if testing.Short() {
		large = daily.Today(len(large), large...)
	}
	for _, text := range large {
		code, _, log, err := run(t, text)
		said := code == 7 && (strings.Contains(log, "Out of Memory") || strings.Contains(log, "bad_alloc"))
		if !said && !errors.As(err, new(*MemoryError)) {
			t.Errorf("%s: exit %d, %s, %v", text, code, log, err)
		}
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		t.Fatal(err)
	}
	peak := usage.Maxrss << 10
	most := limits.MemoryBytes + limits.Allowance() + 128<<20
	if peak > most {
		t.Errorf("a child held %d MiB, the limit is %d MiB", peak>>20, most>>20)
	}
	code, out, log, err := run(t, "SELECT len(range(1000000)) AS n")
	if code != 0 || out != "1000000\n" || log != "" || err != nil {
		t.Errorf("exit %d, %q, %q, %v", code, out, log, err)
	}
}

// The end of the context ends a query at once, with its cause, even inside a long call of a function.
func TestCancel(t *testing.T) {
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, late)
	defer cancel()
	began := time.Now()
	inside := "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000)) AS n"
	_, err := Run(ctx, Child{Args: []string{inside}}, os.Stdout, os.Stderr)
	if !errors.Is(err, late) || time.Since(began) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if _, err := Run(ctx, Child{Args: []string{forever}}, os.Stdout, os.Stderr); !errors.Is(err, late) {
		t.Errorf("ended before the start: %v", err)
	}
}

// slowReader is a writer that pauses once before it accepts data.
type slowReader struct {
	pause time.Duration
	got   strings.Builder
}

func (r *slowReader) Write(p []byte) (int, error) {
	time.Sleep(r.pause)
	r.pause = 0
	return r.got.Write(p)
}

// A loader or pager may pause for longer than the query takes. It must then get the whole answer.
func TestSlowReaderGetsTheWholeAnswer(t *testing.T) {
	t.Parallel()
	out := &slowReader{pause: 6 * time.Second}
	code, err := Run(t.Context(), Child{Args: []string{"SELECT 7 AS n"}}, out, os.Stderr)
	if code != 0 || err != nil || out.got.String() != "7\n" {
		t.Errorf("exit %d, %v, got %q", code, err, out.got.String())
	}
}

// A reader that pauses must not delay the end of the context.
func TestCancelWhileReaderPauses(t *testing.T) {
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
	defer cancel()
	began := time.Now()
	_, err := Run(ctx, Child{Args: []string{"SELECT 7 AS n"}}, &slowReader{pause: time.Minute}, os.Stderr)
	if !errors.Is(err, late) || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// An answer that cannot be written is an error, also when the query itself has succeeded.
func TestFailedWriteIsAnError(t *testing.T) {
	_, err := Run(t.Context(), Child{Args: []string{"SELECT 7 AS n"}}, fullDisk{}, os.Stderr)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
}

// A child does not outlive its parent, and neither do its temporary files.
func TestChildEndsWithParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spilled := filepath.Join(dir, "duckdb_temp_storage_DEFAULT-0.tmp")
	other := filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(spilled, nil, 0o600), os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(executable)
	parent.Env = append(os.Environ(), "TEST_PARENT="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	for tries := 0; child == 0 && tries < 200; tries++ {
		time.Sleep(20 * time.Millisecond)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent.Process.Pid))
		for _, file := range threads {
			pids, _ := os.ReadFile(file)
			fields := strings.Fields(string(pids))
			if len(fields) > 0 {
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
	var left []string
	for range 250 {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		left, _ = filepath.Glob(dir + "/*")
		ended := err != nil || strings.Contains(string(state), ") Z ")
		if ended && slices.Equal(left, []string{other}) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("child %d still runs, or has left more than %q: %q", child, other, left)
	_ = syscall.Kill(child, syscall.SIGKILL)
}

func TestCrashes(t *testing.T) {
	for _, c := range []struct {
		script, stderr string
		memory         bool
		want           string
	}{
		{"kill -9 $$", "", true, "killed"},
		{"exit 2", "fatal error: runtime: out of memory\n\ngoroutine 1", true, "out of memory"},
		{"kill -6 $$", "terminate called after throwing an instance of 'std::bad_alloc'", true, "bad_alloc"},
		{"kill -11 $$", "last words\ngoroutine 1", false, "crashed: signal: segmentation fault (last words)"},
	} {
		err := crash(exec.Command("sh", "-c", c.script).Run(), c.stderr)
		if errors.As(err, new(*MemoryError)) != c.memory || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
}
