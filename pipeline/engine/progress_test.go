package engine

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The rate is that of the last half minute. After a slow start, the remaining time is not overestimated.
func TestProgressRate(t *testing.T) {
	var out bytes.Buffer
	p := TerminalProgress(&out).(*ticker)
	p.every = time.Hour
	p.Begin("simulate", "packet-hops", 4_000_000)
	at := p.began.Add(10 * time.Second)
	rate := p.rate(at, 10)
	if rate < 0.99 || rate > 1.01 {
		t.Errorf("rate %v after 10 in 10 s", rate)
	}
	for s := range 60 {
		p.rate(at.Add(time.Duration(s)*time.Second), int64(10+1000*s))
	}
	if rate := p.rate(at.Add(60*time.Second), 60_010); rate < 990 || rate > 1010 {
		t.Errorf("rate %v after a minute at 1000 a second", rate)
	}
	if len(p.seen) > 40 {
		t.Errorf("%d marks are kept", len(p.seen))
	}
	p.seen = []mark{{time.Now().Add(-10 * time.Second), 0}}
	p.done.Store(1_000_000)
	p.show()
	for _, want := range []string{" 25%", "1 M of 4 M packet-hops", "100 k/s", "left 30s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	p.End()
}
