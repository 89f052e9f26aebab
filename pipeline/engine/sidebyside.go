package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// SideBySide shows the progress of several runs at once. It shows how many runs are complete and, if the
// Progress can show details, the stage of each run that is under way and the share of that stage that is
// done. It is safe for concurrent use.
type SideBySide struct {
	Progress // counts complete runs

	mu      sync.Mutex
	running []*RunProgress // in the order in which they began
}

// detailed is a Progress that shows a text beside the amount of work.
type detailed interface {
	// Detail sets the function that returns the text.
	Detail(text func() string)
}

// NewSideBySide returns the progress of several runs, which p shows; nil: nothing is shown.
func NewSideBySide(p Progress) *SideBySide {
	return &SideBySide{Progress: cmp.Or[Progress](p, Silent{})}
}

// Begin implements Progress.
func (s *SideBySide) Begin(stage, unit string, total int64) {
	if d, ok := s.Progress.(detailed); ok {
		d.Detail(s.String)
	}
	s.Progress.Begin(stage, unit, total)
}

// End implements Progress.
func (s *SideBySide) End() {
	s.Progress.End()
	if d, ok := s.Progress.(detailed); ok {
		d.Detail(nil)
	}
}

// Run returns the progress of the run with this number. The caller closes it when the run ends.
func (s *SideBySide) Run(number int) *RunProgress {
	r := &RunProgress{of: s, number: number}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = append(s.running, r)
	return r
}

// shownRuns is the largest number of runs whose stages are shown.
const shownRuns = 4

// String returns the stages of the runs that are under way, such as "3: exact 45%, 4: route".
func (s *SideBySide) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for n, r := range s.running {
		if n == shownRuns {
			all = append(all, fmt.Sprintf("%d more", len(s.running)-n))
			break
		}
		text := fmt.Sprintf("%d: %s", r.number, cmp.Or(r.stage, "…"))
		if r.total > 0 {
			text += fmt.Sprintf(" %d%%", min(100, 100*r.done/r.total))
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// A RunProgress is the progress of one of several runs. It implements Progress.
type RunProgress struct {
	of     *SideBySide
	number int

	// Guarded by the mutex of SideBySide.
	stage       string
	total, done int64
}

// Begin implements Progress.
func (r *RunProgress) Begin(stage, _ string, total int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.stage = stage
	r.total = total
	r.done = 0
}

// Add implements Progress.
func (r *RunProgress) Add(n int64) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.done += n
}

// End implements Progress.
func (r *RunProgress) End() {}

// Close removes the run from those that are shown.
func (r *RunProgress) Close() {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.running = slices.DeleteFunc(r.of.running, func(o *RunProgress) bool { return o == r })
}
