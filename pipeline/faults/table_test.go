package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// tablePath is the file that records the rounds. Its lines have these fields, separated by tabs: kind, seed,
// round, number of planned rounds, 0 or 1 if the round failed, and a description. If a round has several
// lines, the last one is used.
var tablePath = os.Getenv("PARSIMON_FAULTS_TABLE")

// readTable reads the seed and the rounds of this kind of fault from the table.
func (c *campaign) readTable() error {
	c.survived = map[int]bool{}
	f, err := os.Open(tablePath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) != 6 || cells[0] != c.kind {
			continue
		}
		var round, failed int
		if _, err := fmt.Sscan(strings.Join(cells[1:5], " "), &c.seed, &round, &c.planned, &failed); err != nil {
			return fmt.Errorf("%s: line %q: %w", tablePath, lines.Text(), err)
		}
		delete(c.survived, round)
		if failed == 0 {
			c.survived[round] = true
		}
	}
	return lines.Err()
}

// writeTable appends a round to the table.
func (c *campaign) writeTable(round int, what string, failure error) error {
	if tablePath == "" {
		return nil
	}
	f, err := os.OpenFile(tablePath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	failed := 0
	if failure != nil {
		failed = 1
	}
	_, err = fmt.Fprintf(f, "%s\t%d\t%d\t%d\t%d\t%s\n", c.kind, c.seed, round, c.planned, failed, what)
	return errors.Join(err, f.Close())
}

// shares divides the time of a long run. The tests run one after the other (go test -parallel 1). Each test
// gets a part of the remaining time, by its weight among the tests that have not ended. Time that a test does
// not use is left for the others.
var shares = &clock{
	weights: map[string]float64{ // approximate duration of all rounds, in hundreds of seconds
		killedKind: 3, operationFaults[0].kind: 3, operationFaults[1].kind: 7, operationFaults[2].kind: 3,
		durableKind: 1,
		bytesKind:   2, hostileKind: 1, togetherKind: 15,
	},
}

type clock struct {
	mu      sync.Mutex
	weights map[string]float64
	ends    time.Time
}

// begin returns a function that reports whether a kind of fault has time for another round.
func (c *clock) begin(kind string) (inTime func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit, err := time.ParseDuration(os.Getenv("PARSIMON_FAULTS_TIME")); c.ends.IsZero() && err == nil {
		c.ends = processStarted.Add(limit)
	}
	sum := 0.0
	for _, w := range c.weights {
		sum += w
	}
	until := time.Now().Add(time.Duration(float64(time.Until(c.ends)) * c.weights[kind] / sum))
	unlimited := c.ends.IsZero()
	return func() bool { return unlimited || time.Now().Before(until) }
}

// end leaves the remaining time to the other kinds.
func (c *clock) end(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.weights, kind)
}

var processStarted = time.Now()
