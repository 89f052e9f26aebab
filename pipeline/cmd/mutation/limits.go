package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"time"
)

// limits end tests of a mutant that never finish. Such a mutant is killed if the tests have used up their
// processor time. Tests that wait are ended by the wall clock. Because they may wait for a busy machine, the
// mutant is killed only if the tests then pass without it in a tenth of that time.
type limits struct{ processor, wall time.Duration }

// limitsFor returns the limits of tests that take some seconds of processor time without a mutant.
func limitsFor(seconds float64) limits {
	second := float64(time.Second)
	return limits{
		processor: time.Duration((5 + 10*seconds) * second), wall: time.Duration((60 + 100*seconds) * second),
	}
}

// addressKiB limits the memory of a mutant that allocates without end.
const addressKiB = 16 << 20

// command returns a command that the system kills after its processor time.
func (l limits) command(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	const script = `ulimit -v "$1" && ulimit -t "$2" && shift 2 && exec "$@"`
	seconds := max(1, int(l.processor.Seconds()))
	arguments = append([]string{"-c", script, "sh", strconv.Itoa(addressKiB), strconv.Itoa(seconds), name},
		arguments...)
	return exec.CommandContext(ctx, "sh", arguments...)
}

// verdict returns the verdict of tests that have ended with an error or without one. The system counts the
// processor time of its limit in ticks of its clock. On a busy machine this is more than the process has had.
func (l limits) verdict(test *exec.Cmd, err error) (verdict, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return alive, nil
	case !errors.As(err, &exit):
		return undecided, err
	case exit.Exited() || processorTime(test) >= l.processor/2:
		return killed, nil
	}
	return undecided, nil
}

// processorTime returns the processor time of a command that has ended.
func processorTime(c *exec.Cmd) time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}
