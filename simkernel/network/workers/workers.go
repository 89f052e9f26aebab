// Package workers simulates the domains of a network step by step, on several cores.
//
// Workers simulate the domains of an epoch, which is one step or several. A domain can be simulated to the
// end of a step when the neighbors that send packets to it have been simulated to the beginning of the step.
// No worker waits for other domains. Each worker owns domains, so that these stay in the cache of its core.
// While its own domains wait, it simulates domains of other workers that have fallen behind.
//
// Trials determine the number of workers, because on a machine whose cores are busy, fewer workers are
// faster. On two cores with a load of 20, a network of 2,048 hosts took 1.35 times as long without trials
// (median of six alternating pairs).
package workers

import (
	"cmp"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parsimon/schema/together"
)

const (
	// LeastWork is how many items a domain has in a step, at least, if several workers simulate the domains.
	LeastWork = 32

	idleWork     = 4              // items in a step: with less, an epoch is one step
	epochWork    = 20_000         // items of an epoch, for each worker
	epochSteps   = 64             // at most
	balanceEvery = 20 * epochWork // items
	unbalanced   = 1.1            // most work of a worker over the mean, to redistribute domains
	// checks for work before a worker takes the last domain of another one
	looksAtOnce   = 128
	spinFor       = 200 * time.Microsecond // before a waiting worker sleeps
	progressEvery = 1 << 18                // items
	trialFor      = 15 * time.Millisecond  // a period: several time slices of an operating system
	trialsBetween = 4                      // periods, at least
	trialCost     = 0.005                  // maximum share of the time that trials take
	// logarithm of the ratio of two rates that changes the number of workers
	leastGain = 0.05
	// limit of what one trial counts: another process may have used its core
	mostGain = 0.25
)

// A Domain is a part of a network. One worker simulates it at a time.
type Domain interface {
	// Begin begins a step at a time: it takes what the neighbors have sent in the step before.
	Begin(step, fromPS int64)
	// Run simulates the step, to its end.
	Run(toPS int64)
	// Neighbors returns the domains from which packets come.
	Neighbors() []int32
	// TakeWork returns how many items were processed since the last call.
	TakeWork() int64
}

// A Pool is the workers of a simulation. Only the goroutine that has started it calls its methods.
type Pool struct {
	Settings
	Alone bool // one worker simulates the next epoch

	domains  []Domain
	progress []progress // by domain
	epoch    atomic.Pointer[epoch]
	fault    atomic.Pointer[together.Panic] // of a worker's goroutine
	all      sync.WaitGroup
	most     int // workers
	choice
}

// A choice is which workers take part, and which domains they take first.
type choice struct {
	owned        [][]int32 // by worker: the domains that it takes first
	work         []int64   // by domain: since the last balance
	active       int       // number of workers that take part
	sinceBalance int64     // items
	unreported   int64     // items since the last call of Progress
	trial        trial
}

// Settings do not change during a simulation.
type Settings struct {
	StepPS    int64
	LeastWork int64             // usually the constant
	OneStep   bool              // an epoch is always one step
	Progress  func(items int64) // if not nil, it is called with the items since the last call
}

// An epoch is a number of steps that workers simulate. If a worker comes late, no domain of the epoch is
// left.
type epoch struct {
	fromPS      int64
	first, last int64 // steps
	owned       [][]int32
	left        atomic.Int32 // domains that are not done
}

var stopped epoch

// progress is the progress of a domain. It occupies a separate cache line.
type progress struct {
	taken atomic.Int64 // the last step that was begun
	done  atomic.Int64 // the last step that has ended
	_     [48]byte
}

// Start starts at most the given number of workers.
func Start(domains []Domain, count int, settings Settings) *Pool {
	count = max(1, min(count, len(domains)))
	w := &Pool{
		Settings: settings,
		Alone:    count == 1,
		domains:  domains,
		progress: make([]progress, len(domains)),
		most:     count,
		choice: choice{
			owned:  make([][]int32, count),
			work:   make([]int64, len(domains)),
			active: count,
			trial:  trial{left: 3},
		},
	}
	for d := range domains {
		w.owned[d*count/len(domains)] = append(w.owned[d*count/len(domains)], int32(d))
	}
	w.epoch.Store(&epoch{})
	for i := 1; i < count; i++ {
		w.all.Go(func() {
			fault := together.Catch(func() { w.takePart(i) })
			if fault != nil {
				w.fault.Store(fault)
				w.epoch.Store(&stopped)
			}
		})
	}
	return w
}

// Run simulates an epoch: a number of steps. The first has a number and begins at fromPS. A panic of a worker
// is a panic of Run, after which the caller calls Stop only.
func (w *Pool) Run(first, fromPS, steps int64) {
	e := &epoch{fromPS: fromPS, first: first, last: first + steps - 1, owned: w.owned}
	if w.Alone {
		for step := e.first; step <= e.last; step++ {
			for _, d := range w.domains {
				d.Begin(step, fromPS)
			}
			for _, d := range w.domains {
				d.Run(fromPS + w.StepPS)
			}
			fromPS += w.StepPS
		}
		return
	}
	for i := range w.progress {
		w.progress[i].taken.Store(e.first - 1)
		w.progress[i].done.Store(e.first - 1)
	}
	e.left.Store(int32(len(w.domains)))
	w.epoch.Store(e)
	w.take(e, 0)
	fault := w.fault.Load()
	if fault != nil {
		panic(fault)
	}
}

// Settle counts the work of an epoch of this number of steps, chooses the workers of the next one, and
// returns its number of steps.
func (w *Pool) Settle(steps int64) int64 {
	work := int64(0)
	for i, d := range w.domains {
		done := d.TakeWork()
		work += done
		w.work[i] += done
	}
	w.unreported += work
	if w.Progress != nil && w.unreported >= progressEvery {
		w.Progress(w.unreported)
		w.unreported = 0
	}
	if w.most > 1 {
		count := w.trial.next(w.active, w.most, work)
		w.sinceBalance += work
		if w.sinceBalance > balanceEvery || count != w.active {
			w.active = count
			w.sinceBalance = 0
			w.balance()
		}
	}
	w.Alone = w.active == 1 || work < w.LeastWork*int64(len(w.domains))*steps
	if w.OneStep {
		return 1
	}
	return NextSteps(work, steps, w.active)
}

// NextSteps returns the number of steps of the next epoch, given the work and the number of steps of the last
// one.
func NextSteps(work, steps int64, workers int) int64 {
	if work < idleWork*steps {
		return 1
	}
	return max(1, min(epochSteps, steps*epochWork*int64(workers)/max(1, work)))
}

// take simulates domains until the epoch has ended or, after a panic, the workers have stopped.
func (w *Pool) take(e *epoch, worker int) {
	var wait waiting
	for e.left.Load() > 0 {
		some := false
		for _, d := range e.owned[worker] {
			some = w.advance(e, d) || some
		}
		if some || w.help(e, worker, wait.looks%looksAtOnce == looksAtOnce-1) {
			wait = waiting{}
		} else if w.epoch.Load() == &stopped {
			return
		} else {
			wait.pause()
		}
	}
}

// advance simulates a step of a domain if this is possible, and reports whether it did.
func (w *Pool) advance(e *epoch, d int32) bool {
	p := &w.progress[d]
	step := p.done.Load() + 1
	if step > e.last || p.taken.Load() != step-1 {
		return false
	}
	for _, from := range w.domains[d].Neighbors() {
		if w.progress[from].done.Load() < step-1 {
			return false
		}
	}
	if !p.taken.CompareAndSwap(step-1, step) {
		return false
	}
	fromPS := e.fromPS + (step-e.first)*w.StepPS
	w.domains[d].Begin(step, fromPS)
	w.domains[d].Run(fromPS + w.StepPS)
	p.done.Store(step)
	if step == e.last {
		e.left.Add(-1)
	}
	return true
}

// help simulates a step of a domain of another worker, and reports whether it did. It chooses domains for
// which the owner has an earlier one to simulate. With last, it chooses any domain.
func (w *Pool) help(e *epoch, worker int, last bool) bool {
	for other := 1; other < len(e.owned); other++ {
		owned := e.owned[(worker+other)%len(e.owned)]
		for i, d := range slices.Backward(owned) {
			busy := i > 0 && w.progress[owned[i-1]].taken.Load() <= w.progress[d].done.Load()
			if (busy || last) && w.advance(e, d) {
				return true
			}
		}
	}
	return false
}

// takePart simulates epochs until there are no more.
func (w *Pool) takePart(worker int) {
	for seen := (*epoch)(nil); ; {
		var wait waiting
		e := w.epoch.Load()
		for ; e == seen || worker >= len(e.owned) && e != &stopped; e = w.epoch.Load() {
			wait.pause()
		}
		if e == &stopped {
			return
		}
		w.take(e, worker)
		seen = e
	}
}

// Stop ends the workers.
func (w *Pool) Stop() {
	w.epoch.Store(&stopped)
	w.all.Wait()
}

// waiting is the state of a worker that waits for work.
type waiting struct {
	looks int
	since time.Time
}

// pause is called after a check that found no work. A waiting worker first yields its core to other
// goroutines, then to other processes.
func (w *waiting) pause() {
	w.looks++
	if w.looks%looksAtOnce != 0 {
		return
	}
	if w.since.IsZero() {
		w.since = time.Now()
	} else if time.Since(w.since) > spinFor {
		time.Sleep(time.Millisecond)
	} else {
		runtime.Gosched()
	}
}

// balance redistributes the domains if the work of the current owners is unbalanced.
func (w *Pool) balance() {
	load := make([]int64, w.active)
	total := int64(0)
	for _, work := range w.work {
		total += work
	}
	for i, owned := range w.owned {
		for _, d := range owned {
			load[min(i, w.active-1)] += w.work[d]
		}
	}
	if len(w.owned) != w.active || float64(slices.Max(load)) > unbalanced*float64(total)/float64(w.active) {
		w.owned = Share(w.work, w.active)
	}
	clear(w.work)
}

// Share returns the domains of each worker, given their work. It assigns each domain, in descending order of
// work, to the worker with the least work so far.
func Share(work []int64, workers int) [][]int32 {
	load := make([]int64, workers)
	owned := make([][]int32, workers)
	order := make([]int32, len(work))
	for d := range work {
		order[d] = int32(d)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(work[b], work[a]) })
	for _, d := range order {
		least := slices.Index(load, slices.Min(load))
		owned[least] = append(owned[least], d)
		load[least] += work[d]
	}
	return owned
}

// A trial compares another number of workers with the current number. It measures a period between two
// periods of the current number. Results of trials are averaged, because the rate of a period depends on the
// traffic and on other processes.
type trial struct {
	since  time.Time
	items  int64       // in this period
	left   int         // periods until the next trial
	up     bool        // the trial has more workers
	former int         // number of workers before the trial
	before float64     // rate of the period before the trial, in items per ns
	during float64     // rate of the trial; 0: it has not ended
	gains  [64]float64 // by the bits of the fewer workers: logarithm of the ratio of both rates
}

// next counts items, and returns the number of workers that take part from now on, which is at most the given
// one.
func (t *trial) next(active, most int, items int64) int {
	t.items += items
	took := time.Since(t.since)
	if took < trialFor {
		return active
	}
	rate := float64(t.items) / float64(took)
	t.since = time.Now()
	t.items = 0
	return t.after(rate, active, most)
}

// after returns the number of workers of the next period, given the rate of the last one.
func (t *trial) after(rate float64, active, most int) int {
	other := func() int {
		if t.up {
			return min(2*active, most)
		}
		return active / 2
	}
	switch t.left--; {
	case t.left > 0:
		return active
	case t.left == 0:
		t.before = rate
		t.former = active
		t.up = active == 1 || !t.up && active < most
		return other()
	case t.during == 0:
		t.during = rate
		return t.former
	}
	gain := min(mostGain, max(-mostGain, math.Log(2*t.during/(t.before+rate))))
	if !t.up {
		gain = -gain
	}
	mean := &t.gains[bits.Len(uint(min(active, other())))]
	*mean = (*mean + gain) / 2
	t.left = trialsBetween
	t.during = 0
	if t.up && *mean > leastGain || !t.up && *mean < -leastGain {
		return other()
	}
	t.left += int(math.Abs(*mean) / trialCost)
	return active
}
