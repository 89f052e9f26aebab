package pipeline

import "syscall"

// processorSeconds is what all threads of this process have used of all cores so far, in user and
// system mode (getrusage(2)).
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // only for a pointer that is none
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakBytes is the most memory that this process has had resident so far.
func peakBytes() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss << 10 // kilobytes on Linux
}
