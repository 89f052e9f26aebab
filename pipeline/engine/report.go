package engine

import "syscall"

// A Report says what a stage did in this run.
type Report struct {
	Stage           string  `json:"stage"`
	Tasks           int     `json:"tasks"`
	Reused          int     `json:"reused"` // tasks found done
	Seconds         float64 `json:"seconds"`
	CPUSeconds      float64 `json:"cpu_seconds"`      // of all cores, of the whole process
	CriticalSeconds float64 `json:"critical_seconds"` // what it would take with a core for every task or link case
	PeakBytes       int64   `json:"peak_bytes"`       // the most memory the process has had resident so far
}

// ProcessorSeconds is what all threads of this process have used of all cores so far, in user and system mode.
func ProcessorSeconds() float64 {
	u := usage()
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// PeakBytes is the most memory that this process has had resident so far.
func PeakBytes() int64 { return usage().Maxrss << 10 } // kilobytes on Linux

// usage is what getrusage(2) says of this process.
func usage() (u syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for an invalid pointer
	return u
}
