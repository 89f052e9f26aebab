package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// If the address space is too small for the Go runtime, the program reports that. This is the test program
// itself.
func TestLimitedAddressSpace(t *testing.T) {
	for _, kib := range []string{"200000", "700000", "1000000", "2000000"} {
		out, err := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$1" -test.run '^$'`, kib,
			os.Args[0]).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || strings.Count(string(out), "\n") != 1 ||
			!strings.HasPrefix(string(out), "parsimon: the address space is limited to ") {
			t.Errorf("ulimit -v %s: %v\n%s", kib, err, out)
		}
	}
}

// The default memory limit fits into a limited address space. 2 GiB more than parsimon needs to start leave 3
// GiB beyond its reservations at rest.
func TestMemoryOfAddressSpace(t *testing.T) {
	const child = "PARSIMON_TEST_ADDRESS_SPACE"
	if os.Getenv(child) != "" {
		fmt.Println("default", defaultMemory(memlimit.Limit(64<<30)))
		return
	}
	kib := fmt.Sprint(4<<20 + runtime.NumCPU()*(512<<10))
	c := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$1" -test.run "$2"`, kib, os.Args[0],
		"^"+t.Name()+"$")
	c.Env = append(os.Environ(), child+"=1")
	out, err := c.CombinedOutput()
	want := fmt.Sprintf("default %d\n", 3<<29)
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
}

// The default memory limit is three quarters of what the control groups allow.
func TestMemoryOfControlGroups(t *testing.T) {
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	for want, groups := range map[int64]memlimit.Provider{
		4 << 30: none, 3 << 29: memlimit.Limit(2 << 30), minMemory: memlimit.Limit(64 << 20),
	} {
		got := defaultMemory(groups)
		if got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}
