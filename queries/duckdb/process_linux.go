package duckdb

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// limitData lets the process allocate so many more bytes than it has now, until undo. It limits RLIMIT_DATA, private
// writable memory, and not RLIMIT_AS, which also counts what Go's runtime and malloc reserve and never use.
// A limit that is already lower stays.
func limitData(more int64) (undo func() error, err error) {
	now, err := dataBytes()
	if err != nil {
		return nil, err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &was); err != nil {
		return nil, err
	}
	limit := was
	limit.Cur = min(limit.Cur, limit.Max, uint64(now+more))
	undo = func() error { return syscall.Setrlimit(syscall.RLIMIT_DATA, &was) }
	return undo, syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

// dataBytes returns the size of the process's private writable memory.
func dataBytes() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(status), "\n") {
		if text, ok := strings.CutPrefix(line, "VmData:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status: no line VmData")
}
