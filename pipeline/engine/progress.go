package engine

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"parsimon/schema/units"
)

// Progress shows how far a stage is. A stage begins with the total of its work in some unit; add
// may be called by several goroutines at once.
type Progress interface {
	Begin(stage, unit string, total int64)
	Add(n int64)
	End()
}

// Silent shows nothing.
var Silent Progress = silent{}

type silent struct{}

func (silent) Begin(string, string, int64) {}
func (silent) Add(int64)                   {}
func (silent) End()                        {}

// NewProgress shows progress on a terminal as one line that is written over, and otherwise as a
// log line every few seconds.
func NewProgress(w io.Writer, terminal bool, log zerolog.Logger) Progress {
	p := &ticker{out: w, terminal: terminal, log: log, every: 5 * time.Second}
	if terminal {
		p.every = 200 * time.Millisecond
	}
	return p
}

type ticker struct {
	out      io.Writer
	terminal bool
	log      zerolog.Logger
	every    time.Duration

	stage, unit string
	total       int64
	done        atomic.Int64
	began       time.Time
	seen        []mark // of late, oldest first
	stop        chan struct{}
	wg          sync.WaitGroup
}

// A mark is how much was done at a time.
type mark struct {
	at   time.Time
	done int64
}

// rateSpan is how far back the rate looks: what the beginning of a stage took (reading, a part found in
// the cache) says nothing of what is left.
const rateSpan = 30 * time.Second

func (t *ticker) Begin(stage, unit string, total int64) {
	t.stage, t.unit, t.total, t.began, t.stop = stage, unit, total, time.Now(), make(chan struct{})
	t.seen = []mark{{t.began, 0}}
	t.done.Store(0)
	t.wg.Go(func() {
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
	})
}

func (t *ticker) Add(n int64) { t.done.Add(n) }

func (t *ticker) End() {
	close(t.stop)
	t.wg.Wait()
	if t.terminal {
		_, _ = fmt.Fprint(t.out, "\r\x1b[K") // a line that cannot be shown is no reason to fail
	}
}

func (t *ticker) show() {
	done := t.done.Load()
	rate := t.rate(time.Now(), done)
	left := "?"
	if rate > 0 && t.total > 0 {
		seconds := float64(max(0, t.total-done)) / rate
		left = (time.Duration(seconds*float64(time.Second)) + time.Second/2).Truncate(time.Second).String()
	}
	share := 0.0
	if t.total > 0 {
		share = min(1, float64(done)/float64(t.total))
	}
	if !t.terminal {
		e := t.log.Info().Str("stage", t.stage).Int64("done", done).Str("unit", t.unit).Int64("per_second", int64(rate))
		if t.total > 0 {
			e = e.Int64("total", t.total).Str("left", left)
		}
		e.Msg("working")
		return
	}
	if t.total == 0 { // how much there is to do is not known
		_, _ = fmt.Fprintf(t.out, "\r\x1b[K%-9s %s %s  %s/s", t.stage, units.Human(float64(done)), t.unit, units.Human(rate))
		return
	}
	bar := int(share * 24)
	_, _ = fmt.Fprintf(t.out, "\r\x1b[K%-9s [%s%s] %3.0f%%  %s of %s %s  %s/s  left %s", t.stage, strings.Repeat("█", bar), strings.Repeat("·", 24-bar), 100*share, units.Human(float64(done)), units.Human(float64(t.total)), t.unit, units.Human(rate), left)
}

// rate is how much is done a second, of late.
func (t *ticker) rate(now time.Time, done int64) float64 {
	t.seen = append(t.seen, mark{now, done})
	for len(t.seen) > 2 && now.Sub(t.seen[1].at) >= rateSpan {
		t.seen = t.seen[1:]
	}
	first := t.seen[0]
	return float64(done-first.done) / max(1e-9, now.Sub(first.at).Seconds())
}
