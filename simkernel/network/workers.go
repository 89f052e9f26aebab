package network

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Workers simulate the domains of a step at the same time. Each has domains of its own, so that these stay in its
// core's cache, and takes over others' when it is done with them. So a worker whose core was taken away delays a
// step by one domain at most. Who waits long sleeps, and how many workers take part follows from what is measured: on a
// machine whose cores are busy fewer of them are faster.
const (
	spinFor       = 30 * time.Microsecond // before a worker sleeps
	leastWork     = 64                    // items: a step of less is not worth the exchange between cores
	balanceEvery  = 64                    // steps
	unbalanced    = 1.1                   // most of a worker over the mean, for domains to change hands
	trialFor      = 3 * time.Millisecond  // to measure a number of workers
	trialsBetween = 40                    // times trialFor, from one measurement of another number to the next
	better        = 1.1                   // rate of another number over that of the present one, to take it
)

type workers struct {
	net     *Network
	helpers []helper      // all workers but the one that calls run
	order   []int32       // domains, those with most work first
	owner   []int32       // by domain: the worker that takes it first
	claimed []atomicInt64 // by domain: the last step in which it was taken
	work    []int64       // by domain: since the last balance

	fromPS  int64
	step    atomic.Int64 // 0 before the first; stopped
	active  atomic.Int32 // workers that take part
	left    atomic.Int32 // domains that are not done
	waiting atomic.Bool  // run sleeps until left is 0
	done    chan struct{}
	all     sync.WaitGroup

	chosen trials
}

// An atomicInt64 has a cache line of its own.
type atomicInt64 struct {
	atomic.Int64
	_ [56]byte
}

// A helper is a worker's goroutine.
type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [40]byte
}

const stopped = -1

func (n *Network) startWorkers(count int) *workers {
	count = max(1, min(count, len(n.domains)))
	w := &workers{net: n, helpers: make([]helper, count-1), claimed: make([]atomicInt64, len(n.domains)),
		owner: make([]int32, len(n.domains)), work: make([]int64, len(n.domains)), done: make(chan struct{}, 1)}
	for d := range n.domains {
		w.order = append(w.order, int32(d))
		w.owner[d] = int32(d * count / len(n.domains))
	}
	w.active.Store(int32(count))
	w.chosen.init(count)
	for i := range w.helpers {
		h := &w.helpers[i]
		h.wake = make(chan struct{}, 1)
		w.all.Go(func() { w.help(h, int32(i+1)) })
	}
	return w
}

// run simulates a step of all domains.
func (w *workers) run(fromPS int64) {
	n := w.net
	active := w.active.Load()
	work := int64(0)
	for i := range n.domains {
		work += n.domains[i].work
		w.work[i] += n.domains[i].work
	}
	n.alone = active == 1 || work < n.leastWork
	if n.alone {
		for i := range n.domains {
			n.domains[i].run(n.step, fromPS, fromPS+n.stepPS)
			w.claimed[i].Store(n.step)
		}
	} else {
		if n.step%balanceEvery == 0 {
			w.balance(active)
		}
		w.fromPS = fromPS
		w.left.Store(int32(len(n.domains)))
		w.step.Store(n.step)
		for i := range w.helpers[:active-1] {
			w.helpers[i].rouse()
		}
		w.take(0, n.step)
		w.wait()
	}
	if len(w.helpers) > 0 {
		if count := w.chosen.next(work); count != active {
			w.active.Store(count)
			w.balance(count)
		}
	}
}

// take simulates domains that nobody has taken in a step: first those of a worker, then the others.
func (w *workers) take(worker int32, step int64) {
	n := w.net
	for _, own := range [...]bool{true, false} {
		for _, d := range w.order {
			if own != (w.owner[d] == worker) || !w.claimed[d].CompareAndSwap(step-1, step) {
				continue
			}
			n.domains[d].run(step, w.fromPS, w.fromPS+n.stepPS)
			if w.left.Add(-1) == 0 && w.waiting.Swap(false) {
				w.done <- struct{}{}
			}
		}
	}
}

// wait returns when all domains of the step are done.
func (w *workers) wait() {
	if spin(func() bool { return w.left.Load() == 0 }) {
		return
	}
	w.waiting.Store(true)
	if w.left.Load() == 0 && w.waiting.Swap(false) {
		return
	}
	<-w.done
}

// help takes part in steps until they are stopped.
func (w *workers) help(h *helper, worker int32) {
	last := int64(0)
	for {
		ready := func() bool {
			s := w.step.Load()
			return s == stopped || s != last && worker < w.active.Load()
		}
		if !spin(ready) {
			h.asleep.Store(true)
			if !ready() || !h.asleep.Swap(false) {
				<-h.wake
			}
		}
		switch s := w.step.Load(); {
		case s == stopped:
			return
		case s != last:
			last = s
			w.take(worker, s)
		}
	}
}

// rouse wakes a helper that sleeps.
func (h *helper) rouse() {
	if h.asleep.Load() && h.asleep.Swap(false) {
		h.wake <- struct{}{}
	}
}

func (w *workers) stop() {
	w.step.Store(stopped)
	for i := range w.helpers {
		w.helpers[i].rouse()
	}
	w.all.Wait()
}

// spin waits for a condition for a short while and reports whether it holds.
func spin(ready func() bool) bool {
	var since time.Time
	for i := 0; !ready(); i++ {
		if i%128 != 127 {
			continue
		}
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > spinFor {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// balance gives the domains with most work, one after the other, to the worker with the least so far, if the present
// owners are not balanced.
func (w *workers) balance(active int32) {
	slices.SortFunc(w.order, func(a, b int32) int { return cmp.Or(cmp.Compare(w.work[b], w.work[a]), cmp.Compare(a, b)) })
	load, total := make([]int64, active), int64(0)
	for d, work := range w.work {
		total += work
		if w.owner[d] < active {
			load[w.owner[d]] += work
		} else {
			load[0] += total // nobody's
		}
	}
	if float64(slices.Max(load)) > unbalanced*float64(total)/float64(active) {
		clear(load)
		for _, d := range w.order {
			least := slices.Index(load, slices.Min(load))
			w.owner[d] = int32(least)
			load[least] += w.work[d]
		}
	}
	clear(w.work)
}

// Trials choose the number of workers by what is measured. Now and then another number than the best one has a period
// of its own, between two of the best. It is taken if its rate is better than both of theirs, which differ with the
// traffic. Rates are items per ns.
type trials struct {
	counts []int32 // that are tried: 1, 2, 4, … and all
	at     int     // the present one
	best   int
	tried  int     // whose trial has just ended; none
	before float64 // rate of the best one before the trial
	trial  float64 // rate of the trial
	since  time.Time
	steps  int
	items  int64
	left   int // periods of the best one until the next trial
	up     bool
}

// none is no number of workers.
const none = -1

func (t *trials) init(count int) {
	for k := 1; k < count; k *= 2 {
		t.counts = append(t.counts, int32(k))
	}
	t.counts = append(t.counts, int32(count))
	t.at, t.best, t.tried, t.left = len(t.counts)-1, len(t.counts)-1, none, 2
}

// next counts a step and returns how many workers take part in the next one.
func (t *trials) next(items int64) int32 {
	t.items += items
	if t.steps++; t.steps%16 != 0 {
		return t.counts[t.at]
	}
	now := time.Now()
	if t.since.IsZero() {
		t.since, t.items = now, 0
	}
	if took := now.Sub(t.since); took > trialFor {
		t.choose(float64(t.items) / float64(took))
		t.since, t.items = now, 0
	}
	return t.counts[t.at]
}

// choose chooses the number for the next period from the rate of the last.
func (t *trials) choose(rate float64) {
	switch {
	case t.at != t.best: // a trial has ended: the best one again, to compare with
		t.tried, t.trial, t.at = t.at, rate, t.best
	case t.tried != none:
		if t.trial > better*max(t.before, rate) {
			t.best, t.at = t.tried, t.tried
		}
		t.tried, t.left = none, trialsBetween
	default:
		t.before = rate
		if t.left--; t.left > 0 {
			return
		}
		t.up = !t.up
		if t.at == 0 || t.up && t.at+1 < len(t.counts) {
			t.at++
		} else {
			t.at--
		}
	}
}
