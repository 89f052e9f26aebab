package workers

import (
	"slices"
	"sync/atomic"
	"testing"
)

// A chained domain has the one before and the one after it as neighbors.
type chained struct {
	all       []*chained
	neighbors []int32
	begun     atomic.Int64 // the last step
	done      atomic.Int64
	fromPS    int64
	work      int64
	faults    atomic.Int64
}

func (c *chained) Neighbors() []int32 { return c.neighbors }

func (c *chained) Begin(step, fromPS int64) {
	if c.begun.Add(1) != step || c.done.Load() != step-1 {
		c.faults.Add(1)
	}
	for _, n := range c.neighbors {
		if c.all[n].done.Load() < step-1 {
			c.faults.Add(1)
		}
	}
	c.fromPS = fromPS
}

func (c *chained) Run(toPS int64) {
	if toPS != c.fromPS+10 || c.fromPS != 100+10*(c.begun.Load()-1) {
		c.faults.Add(1)
	}
	c.work += 3
	c.done.Add(1)
}

func (c *chained) TakeWork() int64 {
	work := c.work
	c.work = 0
	return work
}

// Each domain is simulated once in each step, in order, and not before its neighbors have finished the
// previous step. This holds for any number of workers. Otherwise packets would be lost between domains.
func TestEveryStepFollowsThoseOfItsNeighbors(t *testing.T) {
	for _, count := range []int{1, 2, 3, 20} {
		const domains, epochs, steps = 7, 30, 5
		all := make([]*chained, domains)
		pool := make([]Domain, domains)
		for i := range all {
			all[i] = &chained{all: all}
			pool[i] = all[i]
			if i > 0 {
				all[i].neighbors = append(all[i].neighbors, int32(i-1))
			}
			if i < domains-1 {
				all[i].neighbors = append(all[i].neighbors, int32(i+1))
			}
		}
		w := Start(pool, count, Settings{StepPS: 10, OneStep: true})
		for e := range int64(epochs) {
			w.Alone = count == 1 || e%3 == 2
			w.Run(1+e*steps, 100+10*e*steps, steps)
			next := w.Settle(steps)
			if next != 1 {
				t.Errorf("%d workers: %d steps follow, want 1", count, next)
			}
		}
		w.Stop()
		for i, c := range all {
			if c.done.Load() != epochs*steps || c.faults.Load() > 0 || c.work != 0 {
				t.Errorf("%d workers, domain %d: %d steps of %d, %d faults, work %d left", count, i, c.done.Load(),
					epochs*steps, c.faults.Load(), c.work)
			}
		}
	}
}

// An epoch has as many steps as give each worker some work, and at most 64. With too few steps workers would
// only wait for each other.
func TestNextSteps(t *testing.T) {
	for _, c := range []struct {
		work, steps int64
		workers     int
		want        int64
	}{
		{work: 7, steps: 2, workers: 2, want: 1}, // fewer than four items a step
		{work: 8, steps: 2, workers: 2, want: 64},
		{work: 40_000, steps: 10, workers: 2, want: 10},
		{work: 40_000, steps: 10, workers: 4, want: 20},
		{work: 200_000, steps: 10, workers: 2, want: 2},
		{work: 200_005, steps: 10, workers: 2, want: 1}, // 10,000.25 items a step of each worker
		{work: 4_000_000, steps: 10, workers: 2, want: 1},
	} {
		got := NextSteps(c.work, c.steps, c.workers)
		if got != c.want {
			t.Errorf("%+v: %d steps", c, got)
		}
	}
}

// The domain with the most work goes to the worker with the least. If all large domains had one owner, the
// others would wait for it.
func TestShare(t *testing.T) {
	got := Share([]int64{1, 9, 4, 5, 3}, 2)
	want := [][]int32{{1, 4}, {3, 2, 0}} // 9 + 3, and 5 + 4 + 1
	if !slices.EqualFunc(got, want, slices.Equal[[]int32]) {
		t.Errorf("workers own %v, want %v", got, want)
	}
}

// Progress is reported once enough items have been processed, and counts each item once.
func TestProgressCountsItems(t *testing.T) {
	reported := int64(0)
	c := &chained{}
	w := Start([]Domain{c}, 1, Settings{StepPS: 10, Progress: func(items int64) { reported += items }})
	defer w.Stop()
	c.work = progressEvery - 1
	w.Settle(1)
	if reported != 0 {
		t.Errorf("%d items are reported too early", reported)
	}
	c.work = 1
	w.Settle(1)
	if reported != progressEvery {
		t.Errorf("%d items are reported, want %d", reported, progressEvery)
	}
	c.work = progressEvery + 7
	w.Settle(1)
	if reported != 2*progressEvery+7 {
		t.Errorf("%d items are reported in two calls, want %d", reported, 2*progressEvery+7)
	}
}

// At first, each worker owns neighboring domains, and about as many as the others.
func TestFirstOwners(t *testing.T) {
	var domains []Domain
	for range 7 {
		domains = append(domains, &chained{})
	}
	w := Start(domains, 3, Settings{StepPS: 10})
	defer w.Stop()
	want := [][]int32{{0, 1, 2}, {3, 4}, {5, 6}}
	if !slices.EqualFunc(w.owned, want, slices.Equal[[]int32]) {
		t.Errorf("workers own %v, want %v", w.owned, want)
	}
}

// A worker helps with the last domain of another worker, if the owner has an earlier one to simulate. Only
// after many looks does it take the owner's next domain. Its own domains are no help.
func TestHelp(t *testing.T) {
	domains := make([]*chained, 4)
	w := &Pool{progress: make([]progress, len(domains))}
	w.StepPS = 10
	for i := range domains {
		domains[i] = &chained{}
		w.domains = append(w.domains, domains[i])
	}
	e := &epoch{fromPS: 100, first: 1, last: 1, owned: [][]int32{{0, 1}, {2, 3}}}
	e.left.Store(4)
	for i, c := range []struct {
		last bool
		want []int64 // steps of the domains
	}{
		{false, []int64{0, 0, 0, 1}},
		{false, []int64{0, 0, 0, 1}}, // the owner has no earlier one
		{true, []int64{0, 0, 1, 1}},
		{true, []int64{0, 0, 1, 1}},
	} {
		before := e.left.Load()
		helped := w.help(e, 0, c.last)
		var steps []int64
		for _, d := range domains {
			steps = append(steps, d.done.Load())
		}
		if !slices.Equal(steps, c.want) || helped != (e.left.Load() < before) {
			t.Errorf("call %d: helped %v, the domains have %v steps, want %v", i, helped, steps, c.want)
		}
	}
}

// A worker that waits looks for work 127 times before it yields its core for the first time. If it yielded at
// once, each step would take a time slice of the operating system.
func TestWaitingWorkerLooksBeforeItYields(t *testing.T) {
	var wait waiting
	for looks := 1; looks <= 128; looks++ {
		wait.pause()
		if wait.looks != looks || wait.since.IsZero() != (looks < 128) {
			t.Fatalf("after %d looks: %d are counted, it has not yielded: %v", looks, wait.looks, wait.since.IsZero())
		}
	}
}
