package faults

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// long is set where all rounds run.
var long = os.Getenv("PARSIMON_LONG") != ""

// program is the path of the program under test, built once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "parsimon")
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "faults", "-o", path, "parsimon/pipeline/cmd/parsimon")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// scratch is a directory for all tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "parsimon-faults-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		return m.Run()
	}())
}

// A campaign is the rounds of one kind of fault.
type campaign struct {
	t             *testing.T
	kind          string
	seed          uint64
	rng           *mathrand.Rand
	tried, failed int
}

// newCampaign begins a campaign, whose numbers are printed when the test ends.
func newCampaign(t *testing.T, kind string) *campaign {
	t.Helper()
	c := &campaign{t: t, kind: kind, seed: 1}
	if long { // other rounds each time
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			t.Fatal(err)
		}
		c.seed = uint64(binary.LittleEndian.Uint32(random[:]))
	}
	if text := os.Getenv("PARSIMON_SEED"); text != "" {
		var err error
		if c.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("PARSIMON_SEED: %v", err)
		}
	}
	c.rng = mathrand.New(mathrand.NewPCG(c.seed, 17))
	t.Cleanup(c.end)
	return c
}

func (c *campaign) end() {
	fmt.Printf("faults: %s: seed %d, %d tried, %d failed\n", c.kind, c.seed, c.tried, c.failed)
	path := os.Getenv("PARSIMON_FAULTS_TABLE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Error(err)
		return
	}
	_, err = fmt.Fprintf(f, "%s\t%d\t%d\t%d\n", c.kind, c.tried, c.failed, c.seed)
	if cerr := f.Close(); err != nil || cerr != nil {
		c.t.Error(err, cerr)
	}
}

// timeLeft reports whether there is time for another round before the deadline of the test run (go test -timeout).
func (c *campaign) timeLeft() bool {
	deadline, set := c.t.Deadline()
	return !set || time.Until(deadline) > 90*time.Second
}

// round counts a round and reports its error.
func (c *campaign) round(what string, err error) {
	c.t.Helper()
	c.tried++
	if err != nil {
		c.failed++
		c.t.Errorf("seed %d, round %d, %s: %v", c.seed, c.tried, what, err)
	}
}
