package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
)

// minMemory is the least --memory-limit: below it DuckDB does not work.
const minMemory = 128 << 20

// autoMemory as --memory-limit is defaultMemory.
const autoMemory = "auto"

const autoMemoryDoc = "auto: 4GiB, or less where the control group (container) or ulimit -v leaves less"

// declareMemory declares --memory-limit.
func declareMemory(f *pflag.FlagSet, to *int64, byDefault, usage string) {
	parse(f, to, "string", func(text string) (int64, error) {
		if text == autoMemory {
			return defaultMemory("/"), nil
		}
		return sizeOf("128MiB")(text)
	}, "memory-limit", byDefault, usage)
}

// defaultMemory is what a command may use unless it is told otherwise. root is where the file systems /proc and /sys
// are.
func defaultMemory(root string) int64 {
	limit := int64(pipeline.DefaultMemory)
	if allowed := cgroupLimit(root); allowed > 0 {
		limit = min(limit, allowed/4*3)
	}
	var space syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &space); err == nil && space.Cur < math.MaxInt64 {
		limit = min(limit, memoryWithin(int64(space.Cur), runtime.NumCPU()))
	}
	return max(limit, minMemory)
}

// memoryWithin is what a command may use of an address space. What it reserves at rest, 2.0 GB on two cores in "run
// small", is not available. Of the rest it may use half: the stages' heap stays reserved when DuckDB begins.
func memoryWithin(addressSpace int64, cores int) int64 {
	return (addressSpace - 1<<30 - int64(cores)*(512<<20)) / 2
}

// cgroupLimit is the least memory limit of the control groups of this process, of version 2 or 1; 0: none.
func cgroupLimit(root string) (limit int64) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(fields) != 3 {
			continue
		}
		mount, file := filepath.Join(root, "sys/fs/cgroup"), "memory.max"
		if fields[1] == "memory" {
			mount, file = filepath.Join(mount, "memory"), "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		// In a container, only the last of these may be visible.
		for dir := filepath.Clean("/" + fields[2]); ; dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(mount, dir, file))
			bytes, nerr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no number
			if err == nil && nerr == nil && bytes > 0 && (limit == 0 || bytes < limit) {
				limit = bytes
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
