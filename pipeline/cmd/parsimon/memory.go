package main

/*
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// With less address space, the Go runtime cannot start, or ends later with a stack trace: it reserves 0.6 GB
// at once, and malloc and the stacks reserve more for each thread. On two cores, "run small" fails with 2 GB
// and completes with 2.5 GB.
static const unsigned long base = 2UL << 30;
static const unsigned long per_core = 512UL << 20;

// If the standard output is closed, the Go runtime opens /dev/null instead.
static int output_closed;

__attribute__((constructor)) static void check_output(void) {
	output_closed = fcntl(STDOUT_FILENO, F_GETFD) == -1;
}

static int is_output_closed(void) { return output_closed; }

// A constructor runs before the Go runtime.
__attribute__((constructor)) static void check_address_space(void) {
	struct rlimit limit;
	unsigned long need = base + per_core * (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need) {
		return;
	}
	fprintf(stderr, "parsimon: the address space is limited to %lu MiB (ulimit -v), and parsimon reserves "
		"%lu MiB here: raise that limit, and limit memory by --memory-limit\n",
		(unsigned long)limit.rlim_cur >> 20, need >> 20);
	_exit(1);
}
*/
import "C"

import (
	"errors"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/schema/units"
)

// standardOutputClosed reports whether the process was started with its standard output closed.
func standardOutputClosed() bool { return C.is_output_closed() != 0 }

// minMemory is the smallest --memory-limit with which DuckDB works.
const minMemory = 128 << 20

// autoMemory, as a value of --memory-limit, means defaultMemory.
const autoMemory = "auto"

const autoMemoryDoc = "auto: 4GiB, or less where the control group (container) or ulimit -v leaves less"

// declareMemory declares --memory-limit.
func declareMemory(f *pflag.FlagSet, to *int64, byDefault, usage string) {
	parse(f, to, func(text string) (int64, error) {
		if text == autoMemory {
			return defaultMemory(groupLimit), nil
		}
		bytes, err := units.Parse(text, units.Bytes)
		if err != nil || bytes < minMemory {
			err = errors.New("want a size of at least 128MiB, such as 2GB")
		}
		return bytes, err
	}, flagSpec{name: "memory-limit", byDefault: byDefault, usage: usage})
}

// groupLimit returns the limit of the control groups of the process. Several commands have the flag, so it
// reads the limit once.
var groupLimit = sync.OnceValues(memlimit.FromCgroup)

// defaultMemory returns the memory limit of a command without --memory-limit. groups reads the limit of the
// control groups of the process.
func defaultMemory(groups memlimit.Provider) int64 {
	limit := int64(pipeline.DefaultMemory)
	if allowed, err := groups(); err == nil && allowed < math.MaxInt64 { // else there is no limit
		limit = min(limit, int64(allowed)/4*3)
	}
	var space syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &space); err == nil && space.Cur < math.MaxInt64 {
		limit = min(limit, memoryWithin(int64(space.Cur), runtime.NumCPU()))
	}
	return max(limit, minMemory)
}

// memoryWithin returns the memory that a command may use if its address space is limited. The process
// reserves some address space from the start: 2.0 GB on two cores in "run small". It may use half of the
// remainder, because the heap of the stages stays reserved when DuckDB starts.
func memoryWithin(addressSpace int64, cores int) int64 {
	return (addressSpace - 1<<30 - int64(cores)*(512<<20)) / 2
}

// These are the percentages of the memory in use by which the heap may grow before a garbage collection.
const (
	// On an estimate of 200,000 flows, this takes 4% less processor time than Go's default of 100.
	growthOfEstimates = 200
	// Most of the memory of ingest are rows that are sorted. They have no pointers, so a collection is cheap.
	growthOfIngest = 25
)

// leastGrowth is the number of bytes by which the heap grows before a garbage collection, however small it
// is. With growthOfIngest alone, it is 1 MB at the start, and ingest of a CSV file of 500,000 rows takes 17%
// more processor time.
const leastGrowth = 8 << 20

// limitHeap limits Go's heap to 90% of the given number of bytes, until undo is called. The rest is for
// memory outside the heap: the program itself, an idle DuckDB, and what the garbage collector has not freed
// yet. Within the limit, the heap grows by a percentage before a collection, unless the user has chosen
// another one in GOGC.
func limitHeap(bytes int64, growth int) (undo func()) {
	limit := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(growth)
	if os.Getenv("GOGC") != "" {
		debug.SetGCPercent(percent)
	}
	// Nothing is written to this memory, so it takes only address space. It counts as a part of the heap.
	unused := make([]byte, leastGrowth*100/growth)
	bytes += int64(len(unused)) - bytes/10
	if bytes < limit {
		debug.SetMemoryLimit(bytes)
	}
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
		runtime.KeepAlive(unused)
	}
}
