package engine

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"parsimon/schema/together"
	"parsimon/schema/units"
)

// Progress shows the progress of a stage. Begin receives the total work in some unit. Several goroutines may
// call Add at once.
type Progress interface {
	Begin(stage, unit string, total int64)
	Add(n int64)
	End()
}

// Silent shows nothing.
type Silent struct{}

// Begin shows nothing.
func (Silent) Begin(string, string, int64) {}

// Add shows nothing.
func (Silent) Add(int64) {}

// End shows nothing.
func (Silent) End() {}

// TerminalProgress shows progress on a terminal as one line that is updated.
func TerminalProgress(w io.Writer) Progress {
	return &ticker{out: w, terminal: true, every: 200 * time.Millisecond}
}

// LoggedProgress writes progress as a log line every few seconds.
func LoggedProgress(log zerolog.Logger) Progress {
	return &ticker{log: log, every: 5 * time.Second}
}

type ticker struct {
	out      io.Writer
	terminal bool
	log      zerolog.Logger
	every    time.Duration

	stage, unit string
	detail      func() string // nil: no detail is shown
	total       int64
	done        atomic.Int64
	began       time.Time
	seen        []mark // recent marks, oldest first
	stop        chan struct{}
	wg          sync.WaitGroup
	fault       *together.Panic // of the goroutine that shows progress; valid after wg
}

// A mark records how much work was done at a point in time.
type mark struct {
	at   time.Time
	done int64
}

// rateSpan is the period over which the rate is computed. The speed at the start of a stage, where it reads
// input or finds results in the cache, does not predict the rest.
const rateSpan = 30 * time.Second

func (t *ticker) Begin(stage, unit string, total int64) {
	t.stage, t.unit, t.total, t.began, t.stop = stage, unit, total, time.Now(), make(chan struct{})
	t.seen = []mark{{t.began, 0}}
	t.done.Store(0)
	t.wg.Go(func() { t.fault = together.Catch(t.showUntilStop) })
}

func (t *ticker) showUntilStop() {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			t.show()
		}
	}
}

func (t *ticker) Add(n int64) { t.done.Add(n) }

// Detail sets the function that returns a text to show beside the amount of work, until it is set again. It
// is not called between Begin and End.
func (t *ticker) Detail(text func() string) { t.detail = text }

func (t *ticker) End() {
	close(t.stop)
	t.wg.Wait()
	if t.fault != nil {
		panic(t.fault)
	}
	if t.terminal {
		_, _ = fmt.Fprint(t.out, "\r\x1b[K") // a progress line that cannot be shown is not an error
	}
}

func (t *ticker) show() {
	done := t.done.Load()
	now := time.Now()
	rate := t.rate(now, done)
	if rate == 0 { // a unit of work takes longer than rateSpan
		rate = float64(done) / max(1e-9, now.Sub(t.began).Seconds())
	}
	left := "?"
	if rate > 0 {
		seconds := float64(max(0, t.total-done)) / rate
		left = time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	}
	detail := ""
	if t.detail != nil {
		detail = t.detail()
	}
	if !t.terminal {
		e := t.log.Info().Str("stage", t.stage).Int64("done", done).Str("unit", t.unit)
		e = e.Int64("per_second", int64(rate))
		if t.total > 0 {
			e = e.Int64("total", t.total).Str("left", left)
		}
		if detail != "" {
			e = e.Str("running", detail)
		}
		e.Msg("working")
		return
	}
	line := fmt.Sprintf("%s %s  %s/s", units.Human(float64(done)), t.unit, units.Human(rate))
	if t.total > 0 {
		share := min(1, float64(done)/float64(t.total))
		bar := int(share * 24)
		line = fmt.Sprintf("[%s%s] %3.0f%%  %s of %s %s  %s/s  left %s",
			strings.Repeat("█", bar), strings.Repeat("·", 24-bar), 100*share, units.Human(float64(done)),
			units.Human(float64(t.total)), t.unit, units.Human(rate), left)
	}
	if detail != "" {
		line += "  (" + detail + ")"
	}
	_, _ = fmt.Fprintf(t.out, "\r\x1b[K%-9s %s", t.stage, line)
}

// rate returns the recent amount of work per second.
func (t *ticker) rate(now time.Time, done int64) float64 {
	t.seen = append(t.seen, mark{now, done})
	for len(t.seen) > 2 && now.Sub(t.seen[1].at) >= rateSpan {
		t.seen = t.seen[1:]
	}
	first := t.seen[0]
	return float64(done-first.done) / max(1e-9, now.Sub(first.at).Seconds())
}

// A Report describes what a stage did in this run.
type Report struct {
	Stage           string  `json:"stage"`
	Pass            int     `json:"pass,omitempty"` // from 1, of a stage that runs in each pass
	Tasks           int     `json:"tasks"`
	Reused          int     `json:"reused"` // tasks that were complete before
	Seconds         float64 `json:"seconds"`
	CPUSeconds      float64 `json:"cpu_seconds"`      // of all cores, for the whole process
	CriticalSeconds float64 `json:"critical_seconds"` // with one core for every task or link case
	PeakBytes       int64   `json:"peak_bytes"`       // peak resident memory of the process so far
}

// ProcessorSeconds returns the processor time that all threads of this process have used so far, in user and
// system mode.
func ProcessorSeconds() float64 {
	u := usage()
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// PeakBytes returns the peak resident memory of this process so far.
func PeakBytes() int64 { return usage().Maxrss << 10 } // kilobytes on Linux

// usage returns the result of getrusage(2) for this process.
func usage() (u syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails only for an invalid pointer
	return u
}
