package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Under a limit of the address space that the Go runtime cannot start or work in, the program says so. This is the test
// program itself.
func TestLimitedAddressSpace(t *testing.T) {
	for _, kib := range []string{"200000", "700000", "1000000", "2000000"} {
		out, err := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$1" -test.run '^$'`, kib, os.Args[0]).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || strings.Count(string(out), "\n") != 1 ||
			!strings.HasPrefix(string(out), "parsimon: the address space is limited to ") {
			t.Errorf("ulimit -v %s: %v\n%s", kib, err, out)
		}
	}
}
