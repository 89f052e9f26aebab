// Package faults contains only tests. They check the guarantees of a lake under faults, such as killed
// processes, failing disks, damaged bytes, lakes and traces from untrusted sources, and several commands at
// once.
//
//	kill_test.go        kill -9 at a random moment
//	operations_test.go  a crash, an I/O error and a full disk at every file operation, one after the other
//	bytes_test.go       flipped bytes and truncation in every kind of file
//	hostile_test.go     lakes that an attacker made to write outside, to mislead or to block
//	together_test.go    every pair of commands at once, with readers
//
// The tests run the program parsimon, which is linked so that it can fail file operations (package disk), and
// read lakes like queries.
// After each fault, readers must see the snapshot from before or after the command. Running the same command
// again must complete it. The rows must be those of an undisturbed run.
//
// The worlds of the tests are in memory (/dev/shm) if there is room. In each round, readers verify the bytes
// of every file, and decode the files that they have not seen before.
//
// By default, about a tenth of the rounds run, drawn with seed 1, and fewer with -short. PARSIMON_LONG=1
// (make faults) runs all rounds, as many at once as there are cores. Each test then draws and prints its own
// seed. PARSIMON_FAULTS_TIME is the approximate duration of such a run. Each test has a share of it, and
// reports the rounds for which it had no time. PARSIMON_SEED sets the seed. PARSIMON_FAULTS_TABLE names a
// file in which the completed rounds are recorded. If the file has rounds of an earlier run, the tests run
// only the rounds that are missing or failed.
package faults

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// long is set if all rounds are to run.
var long = os.Getenv("PARSIMON_LONG") != ""

// The programs under test. Each is built once, with file operations that can be made to fail. parsimon-beam
// runs an estimate as an Apache Beam job on Prism, whose workers are in the same process.
var programs = map[string]func() (string, error){
	"parsimon":  sync.OnceValues(func() (string, error) { return built("parsimon") }),
	beamProgram: sync.OnceValues(func() (string, error) { return built(beamProgram) }),
}

const beamProgram = "parsimon-beam"

// built builds a program and returns its path.
func built(name string) (string, error) {
	path := filepath.Join(scratch, name)
	linker, err := exec.Command(filepath.Join("..", "..", ".ci", "linker")).Output()
	if err != nil {
		return "", err
	}
	flags := strings.TrimPrefix(strings.TrimSpace(string(linker)), "-ldflags=")
	build := exec.Command("go", "build", "-buildvcs=false",
		"-ldflags", "-X parsimon/pipeline/lake/disk.injects=true "+flags, "-o", path, ".")
	build.Dir = filepath.Join("..", "cmd", name) // parsimon-beam is a separate module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}

// scratch and worlds are the directories of programs and of worlds, for all tests. Worlds are in memory if
// there is room. What a process has written there also survives its death, and fsync is fast.
var scratch, worlds string

const (
	memoryDir  = "/dev/shm"
	worldBytes = 1 << 30 // for all worlds at one time
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "parsimon-faults-"); err == nil {
			defer func() { _ = os.RemoveAll(scratch) }()
			worlds, err = os.MkdirTemp(worldsParent(), "parsimon-faults-worlds-")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(worlds) }()
		return m.Run()
	}())
}

func worldsParent() string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &s); err == nil && s.Bavail*uint64(s.Bsize) >= worldBytes {
		return memoryDir
	}
	return scratch
}

// A campaign runs the rounds of one kind of fault.
type campaign struct {
	t    *testing.T
	kind string
	seed uint64
	rng  *mathrand.Rand
	// survived has the rounds, counted from 0, that earlier runs have recorded in the table.
	survived map[int]bool
	planned  int

	mu            sync.Mutex // guards the fields below
	tried, failed int
}

// A round is the environment of one round: its random source, and the worlds that it removes at its end.
type round struct {
	testing.TB
	number   int // from 0
	rng      *mathrand.Rand
	cleanups *[]func()
}

// Cleanup registers a function that is called at the end of the round.
func (r round) Cleanup(f func()) { *r.cleanups = append(*r.cleanups, f) }

// workers is the number of rounds of one kind that run at once. By default, the different kinds also run at
// the same time.
var workers = func() int {
	if long {
		return runtime.NumCPU()
	}
	return 1
}()

// newCampaign begins a campaign. If the table already has rounds of this kind, their seed is used again.
func newCampaign(t *testing.T, kind string) *campaign {
	t.Helper()
	c := &campaign{t: t, kind: kind, seed: 1}
	if long { // a different seed each time
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			t.Fatal(err)
		}
		c.seed = uint64(binary.LittleEndian.Uint32(random[:]))
	}
	text := os.Getenv("PARSIMON_SEED")
	if text != "" {
		var err error
		if c.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PARSIMON_SEED: %v", err)
		}
	}
	if err := c.readTable(); err != nil {
		t.Fatal(err)
	}
	c.rng = mathrand.New(mathrand.NewPCG(c.seed, 17))
	return c
}

// complete reports whether the table already has all rounds.
func (c *campaign) complete() bool {
	done := c.planned > 0 && len(c.survived) == c.planned
	if done {
		shares.end(c.kind)
	}
	return done
}

// rounds runs rounds 0 to n-1, except those in the table, several at once. It stops when the time for this
// kind of fault is over. The random choices of a round depend only on the seed and the number of the round.
// do returns a description of the round and its error.
func (c *campaign) rounds(n int, do func(r round) (what string, err error)) {
	c.t.Helper()
	c.planned = n
	inTime := shares.begin(c.kind)
	defer shares.end(c.kind)
	left := 0
	numbers := make(chan int)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for i := range numbers {
				c.round(i, do)
			}
		})
	}
	for i := range n {
		switch {
		case c.survived[i]:
		case !inTime():
			left++
		default:
			numbers <- i
		}
	}
	close(numbers)
	working.Wait()
	fmt.Printf("faults: %s: seed %d, %d of %d rounds, %d failed", c.kind, c.seed, c.tried, n, c.failed)
	if len(c.survived) > 0 {
		fmt.Printf(", %d were done before", len(c.survived))
	}
	if left > 0 {
		fmt.Printf(", no time for %d", left)
	}
	fmt.Println()
}

// round runs one round.
func (c *campaign) round(i int, do func(r round) (what string, err error)) {
	r := round{c.t, i, mathrand.New(mathrand.NewPCG(c.seed, 1000+uint64(i))), new([]func())}
	what, err := do(r)
	for _, f := range *r.cleanups {
		f()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried++
	if err != nil {
		c.failed++
		c.t.Errorf("seed %d, round %d, %s: %v", c.seed, i, what, err)
	}
	if err := c.writeTable(i, what, err); err != nil {
		c.t.Error(err)
	}
}
