package main

/*
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// With less address space, the Go runtime cannot start, or ends later with a stack trace: it reserves 0.6 GB at once,
// and malloc and the stacks reserve more for each thread. On two cores, "run small" fails with 2 GB and completes with 2.5 GB.
static const unsigned long base = 2UL << 30, per_core = 512UL << 20;

// If the standard output is closed, the Go runtime opens /dev/null instead.
static int output_closed;

__attribute__((constructor)) static void check_output(void) { output_closed = fcntl(STDOUT_FILENO, F_GETFD) == -1; }
static int is_output_closed(void) { return output_closed; }

// A constructor runs before the Go runtime.
__attribute__((constructor)) static void check_address_space(void) {
	struct rlimit limit;
	unsigned long need = base + per_core * (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
	if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need) {
		return;
	}
	fprintf(stderr, "parsimon: the address space is limited to %lu MiB (ulimit -v), and parsimon reserves %lu MiB here: "
		"raise that limit, and limit memory by --memory-limit\n", (unsigned long)limit.rlim_cur >> 20, need >> 20);
	_exit(1);
}
*/
import "C"

// standardOutputClosed reports whether the process was started with its standard output closed.
func standardOutputClosed() bool { return C.is_output_closed() != 0 }
