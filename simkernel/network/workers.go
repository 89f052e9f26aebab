package network

import (
	"cmp"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Workers simulate the domains of an epoch, which is one step or several. A domain can be simulated to the
// end of a step when its neighbors, from which its packets come, have been simulated to the beginning of it.
// No worker waits for other domains. Each worker owns domains, so that these stay in its core's cache. While
// they wait, it simulates domains that other workers have no time for yet.
//
// How many workers take part follows from trials: on a machine whose cores are busy, fewer are faster. On two
// cores with a load of 20, a network of 2,048 hosts took 1.35 times as long without trials (median of six
// alternating pairs).
const (
	leastWork     = 32                     // items of a domain in a step: with less, one worker simulates all domains
	idleWork      = 4                      // items in a step: with less, an epoch is one step
	epochWork     = 20_000                 // items of an epoch, for each worker
	epochSteps    = 64                     // at most
	balanceEvery  = 20 * epochWork         // items
	unbalanced    = 1.1                    // most work of a worker over the mean, to redistribute domains
	looksAtOnce   = 128                    // looks for work, before a worker takes the last domain of another one
	spinFor       = 200 * time.Microsecond // before a waiting worker sleeps
	progressEvery = 1 << 18                // items
	trialFor      = 15 * time.Millisecond  // a period: several time slices of an operating system
	trialsBetween = 4                      // periods, at least
	trialCost     = 0.005                  // share of the time that trials take at most
	leastGain     = 0.05                   // logarithm of the ratio of two rates that changes the number of workers
	mostGain      = 0.25                   // limit of what one trial counts: another process may have used its core
)

type workers struct {
	net          *Network
	owned        [][]int32  // by worker: the domains that it takes first
	work         []int64    // by domain: since the last balance
	progress     []progress // by domain
	most, active int        // workers, and how many of them take part
	alone        bool       // one of them simulates the next epoch
	sinceBalance int64      // items
	unreported   int64      // items since the last call of Progress
	epoch        atomic.Pointer[epoch]
	all          sync.WaitGroup
	trial        trial
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

// progress is that of a domain. It has a cache line of its own.
type progress struct {
	taken atomic.Int64 // the last step that was begun
	done  atomic.Int64 // the last step that has ended
	_     [48]byte
}

func (n *Network) startWorkers(count int) *workers {
	count = max(1, min(count, len(n.domains)))
	w := &workers{net: n, progress: make([]progress, len(n.domains)), work: make([]int64, len(n.domains)), most: count,
		active: count, owned: make([][]int32, count), trial: trial{left: 3}, alone: count == 1}
	for d := range n.domains {
		w.owned[d*count/len(n.domains)] = append(w.owned[d*count/len(n.domains)], int32(d))
	}
	w.epoch.Store(&epoch{})
	for i := 1; i < count; i++ {
		w.all.Go(func() { w.takePart(i) })
	}
	return w
}

// run simulates an epoch of steps.
func (w *workers) run(fromPS, steps int64) {
	n := w.net
	e := &epoch{fromPS: fromPS, first: n.step + 1, last: n.step + steps, owned: w.owned}
	n.step = e.last
	n.alone = w.alone
	if n.alone {
		for step := e.first; step <= e.last; step++ {
			for i := range n.domains {
				n.domains[i].beginStep(step, fromPS)
			}
			for i := range n.domains {
				n.domains[i].run(fromPS + n.stepPS)
			}
			fromPS += n.stepPS
		}
		return
	}
	for i := range w.progress {
		w.progress[i].taken.Store(e.first - 1)
		w.progress[i].done.Store(e.first - 1)
	}
	e.left.Store(int32(len(n.domains)))
	w.epoch.Store(e)
	w.take(e, 0)
}

// settle counts the work of an epoch, and chooses workers and number of steps of the next.
func (w *workers) settle(steps int64) int64 {
	n := w.net
	work := int64(0)
	for i := range n.domains {
		work += n.domains[i].journal.work
		w.work[i] += n.domains[i].journal.work
		n.domains[i].journal.work = 0
	}
	w.unreported += work
	if n.Progress != nil && w.unreported >= progressEvery {
		n.Progress(w.unreported)
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
	w.alone = w.active == 1 || work < n.leastWork*int64(len(n.domains))*steps
	if n.frontier != nil || work < idleWork*steps { // the frontier acts on all domains between steps
		return 1
	}
	return max(1, min(epochSteps, steps*epochWork*int64(w.active)/max(1, work)))
}

// take simulates domains until the epoch has ended.
func (w *workers) take(e *epoch, worker int) {
	var wait waiting
	for e.left.Load() > 0 {
		some := false
		for _, d := range e.owned[worker] {
			some = w.advance(e, d) || some
		}
		if some || w.help(e, worker, wait.looks%looksAtOnce == looksAtOnce-1) {
			wait = waiting{}
		} else {
			wait.pause()
		}
	}
}

// advance simulates a step of a domain, if it can be, and reports whether it was.
func (w *workers) advance(e *epoch, d int32) bool {
	n := w.net
	p := &w.progress[d]
	step := p.done.Load() + 1
	if step > e.last || p.taken.Load() != step-1 {
		return false
	}
	for _, from := range n.domains[d].mail.neighbors {
		if w.progress[from].done.Load() < step-1 {
			return false
		}
	}
	if !p.taken.CompareAndSwap(step-1, step) {
		return false
	}
	fromPS := e.fromPS + (step-e.first)*n.stepPS
	n.domains[d].beginStep(step, fromPS)
	n.domains[d].run(fromPS + n.stepPS)
	p.done.Store(step)
	if step == e.last {
		e.left.Add(-1)
	}
	return true
}

// help simulates a step of a domain of another worker, and reports whether it did. It takes domains for which
// that worker has an earlier one to simulate, and with last any domain.
func (w *workers) help(e *epoch, worker int, last bool) bool {
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
func (w *workers) takePart(worker int) {
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

func (w *workers) stop() {
	w.epoch.Store(&stopped)
	w.all.Wait()
}

// waiting is the wait of a worker for work.
type waiting struct {
	looks int
	since time.Time
}

// pause is called after a look that found no work. A waiting worker first yields its core to other
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

// balance redistributes the domains if the work of the present owners is unbalanced: it assigns each domain,
// in descending order of work, to the worker with the least work so far.
func (w *workers) balance() {
	load := make([]int64, w.active)
	total := int64(0)
	order := make([]int32, len(w.work))
	for d, work := range w.work {
		total += work
		order[d] = int32(d)
	}
	for i, owned := range w.owned {
		for _, d := range owned {
			load[min(i, w.active-1)] += w.work[d]
		}
	}
	if len(w.owned) != w.active || float64(slices.Max(load)) > unbalanced*float64(total)/float64(w.active) {
		clear(load)
		w.owned = make([][]int32, w.active)
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(w.work[b], w.work[a]) })
		for _, d := range order {
			least := slices.Index(load, slices.Min(load))
			w.owned[least] = append(w.owned[least], d)
			load[least] += w.work[d]
		}
	}
	clear(w.work)
}

// A trial compares another number of workers with the present one: it has a period between two periods of the
// present number. Results of trials are averaged, because the rate of a period depends on the traffic and on
// other processes.
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

// next counts items, and returns how many workers take part from now on, at most that many.
func (t *trial) next(active, most int, items int64) int {
	t.items += items
	took := time.Since(t.since)
	if took < trialFor {
		return active
	}
	rate := float64(t.items) / float64(took)
	t.since = time.Now()
	t.items = 0
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
