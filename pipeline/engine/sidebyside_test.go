package engine

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Several concurrent runs are shown on one line: the number of complete runs, and the stage of each run that
// is in progress. Otherwise, a sweep of long runs would show nothing until the first of them is complete.
func TestSideBySideShowsEveryRun(t *testing.T) {
	var out bytes.Buffer
	p := TerminalProgress(&out).(*ticker)
	p.every = time.Hour
	all := NewSideBySide(p)
	all.Begin("sweep", "cables", 96)
	first := all.Run(1)
	second := all.Run(2)
	third := all.Run(3)
	first.Begin("exact", "packet-hops", 1000)
	first.Add(450)
	second.Begin("route", "flows", 0)
	third.Close()
	all.Add(12)
	p.show()
	for _, want := range []string{"12 of 96 cables", "(1: exact 45%, 2: route)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	first.Close()
	second.Close()
	text := all.String()
	if text != "" {
		t.Errorf("runs that have ended are shown: %q", text)
	}
	all.End()
	if p.detail != nil {
		t.Error("the next stage shows the runs of this one")
	}
	NewSideBySide(nil).Begin("sweep", "cables", 1) // shows nothing
}
