package network

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parsimon/simkernel"
	"parsimon/simkernel/network/workers"
)

// BenchmarkSpeedup computes the speed-up of more workers than a machine has cores. One worker simulates the
// domains of this number. This yields the items of each domain in each step, the processor time of an item
// and of a step of a domain, and the time between epochs, in which one worker acts alone. The schedule of
// package workers is then computed from these values. Runs with two workers show how much more expensive an
// item becomes if its packet comes from another core. This cost grows with the share of neighbors that belong
// to other workers. Their processor time includes their waits, so this yields a lower bound of the speed-up.
// Items that cost no more than with one worker yield an upper bound. The measured speed-up of two workers is
// compared with both bounds.
func BenchmarkSpeedup(b *testing.B) {
	for _, c := range []*clos{newClos(2, 8), newClos(8, 16), newClos(8, 48)} {
		params := simkernel.DefaultParams()
		hosts := c.pods * c.racks * closHosts
		flows, _ := c.flows(&params, 0.2, 8e9/float64(hosts))
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			for range b.N {
				var took, processor [3]time.Duration // by workers
				for workers := 1; workers <= 2; workers++ {
					n, err := New(params, BufferParams{}, c.links, c.hosts, once(flows))
					must(b, err)
					start := time.Now()
					startCPU := cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)
					must(b, n.run(context.Background(), workers, nil, nil))
					took[workers], processor[workers] = time.Since(start), cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID)-startCPU
				}
				b.ReportMetric(took[1].Seconds()/took[2].Seconds(), "measured-2")
				dearer := max(1, processor[2].Seconds()/processor[1].Seconds())
				for _, workers := range []int{2, 4, 8, 16} {
					n, err := New(params, BufferParams{}, c.links, c.hosts, once(flows))
					must(b, err)
					one := traceOf(b, n, workers)
					b.ReportMetric(one.alone/one.with(workers, dearer), fmt.Sprintf("least-%d", workers))
					b.ReportMetric(one.alone/one.with(workers, 1), fmt.Sprintf("most-%d", workers))
				}
			}
		})
	}
}

// BenchmarkWorkers reports how much faster two workers are than one. As a bound, it also reports the speed-up
// of simulating two networks at once, which share only the machine. It runs all alternately and reports
// medians of the ratios.
func BenchmarkWorkers(b *testing.B) {
	for _, c := range []*clos{newClos(2, 8), newClos(8, 16), newClos(8, 48)} {
		params := simkernel.DefaultParams()
		hosts := c.pods * c.racks * closHosts
		flows, _ := c.flows(&params, 0.2, 8e9/float64(hosts))
		once := func(workers int) {
			n, err := New(params, BufferParams{}, c.links, c.hosts, once(flows))
			must(b, err)
			must(b, n.Run(context.Background(), workers, nil))
		}
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			var two, apart []float64
			for range b.N {
				var took [3]float64
				for i, run := range []func(){func() { once(1) }, func() { once(2) }, func() {
					var both sync.WaitGroup
					both.Go(func() { once(1) })
					both.Go(func() { once(1) })
					both.Wait()
				}} {
					runtime.GC()
					start := time.Now()
					run()
					took[i] = float64(time.Since(start))
				}
				two = append(two, took[0]/took[1])
				apart = append(apart, 2*took[0]/took[2])
			}
			slices.Sort(two)
			slices.Sort(apart)
			b.ReportMetric(two[b.N/2], "two-workers")
			b.ReportMetric(apart[b.N/2], "two-networks")
		})
	}
}

func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// A trace has the work of the domains in each epoch of a simulation.
type trace struct {
	net     *Network
	epochs  [][][]int32 // items by epoch, step and domain
	serial  []float64   // ns before each epoch
	alone   float64     // ns of one worker
	perItem float64     // ns
	perStep float64     // ns of a domain in a step, without any work
}

// traceOf simulates with one worker, in the epochs of several. Costs are the least-squares fit of the epochs'
// processor time.
func traceOf(b *testing.B, n *Network, count int) *trace {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	n.setRules()
	f := &feed{net: n, batches: make(chan *batch, batchesAhead)}
	first := f.next()
	n.layOut(n.partition(n.domainsFor(count), first.flows))
	var feeding sync.WaitGroup
	f.batches <- first
	stop := make(chan struct{})
	feeding.Go(func() { f.run(stop) })
	defer feeding.Wait()
	defer close(stop)
	c := &collector{parts: make(chan []resultPart, 1<<20)}
	p := &pacer{net: n, feed: f, steps: 1}
	t := &trace{net: n}
	var xx, xy, yy, xt, yt float64 // sums of products of steps x, items y, ns t
	for {
		began := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		fromPS, err := p.advance()
		must(b, err)
		if fromPS == never {
			break
		}
		n.passOn(c, resultsAtOnce)
		ready := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		var epoch [][]int32
		items := 0.0
		for range p.steps {
			n.step++
			did := make([]int32, len(n.domains))
			for i := range n.domains {
				before := n.domains[i].journal.work
				n.domains[i].Begin(n.step, fromPS)
				n.domains[i].Run(fromPS + n.stepPS)
				did[i] = int32(n.domains[i].journal.work - before)
				items += float64(did[i])
			}
			epoch = append(epoch, did)
			fromPS += n.stepPS
		}
		end := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		x := float64(len(epoch) * len(n.domains))
		ns := float64(end - ready)
		xx = xx + x*x
		xy = xy + x*items
		yy = yy + items*items
		xt = xt + x*ns
		yt = yt + items*ns
		work := int64(0)
		for i := range n.domains {
			work += n.domains[i].TakeWork()
		}
		p.steps = workers.NextSteps(work, p.steps, count)
		t.epochs = append(t.epochs, epoch)
		t.serial = append(t.serial, float64(ready-began+cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)-end))
		t.alone += ns + t.serial[len(t.serial)-1]
	}
	t.perStep = max(0, (xt*yy-yt*xy)/(xx*yy-xy*xy))
	t.perItem = (yt - t.perStep*xy) / yy
	return t
}

const (
	lookNS      = 60  // to read a neighbor's progress in another core's cache
	foreignItem = 1.4 // cost of an item of another worker's domain: measured, 50 ns instead of 36
)

// with returns the time, in ns, that a number of workers take, if an item costs this factor more with two.
func (t *trace) with(count int, dearer float64) (ns float64) {
	dearer = 1 + (dearer-1)*2*(1-1/float64(count))
	var owned [][]int32
	var owners []int32
	work := make([]int64, len(t.net.domains))
	for i, epoch := range t.epochs {
		ns += t.serial[i]
		if i%10 == 0 {
			clear(work)
			for _, epoch := range t.epochs[max(0, i-10):max(1, i)] {
				for _, did := range epoch {
					for d, items := range did {
						work[d] += int64(items)
					}
				}
			}
			owned = workers.Share(work, count)
			owners = slices.Repeat([]int32{0}, len(work))
			for worker, of := range owned {
				for _, d := range of {
					owners[d] = int32(worker)
				}
			}
		}
		ns += t.follow(epoch, owned, owners, dearer)
	}
	return ns
}

// follow returns the time of an epoch, in ns. The worker whose clock is least simulates the next of its
// domains that can be simulated.
func (t *trace) follow(epoch [][]int32, owned [][]int32, owners []int32, dearer float64) float64 {
	domains := t.net.domains
	clock := make([]float64, len(owned))
	next := make([]int, len(owned))
	done := make([]int, len(domains))
	doneAt := make([]float64, len(domains)) // steps
	left := len(domains) * len(epoch)
	isReady := func(d int32, at float64) bool {
		ready := done[d] < len(epoch) && doneAt[d] <= at
		for _, from := range domains[d].mail.neighbors {
			ready = ready && (done[from] > done[d] || done[from] == done[d] && doneAt[from] <= at)
		}
		return ready
	}
	pick := func(worker int) (domain int32, item float64) {
		for range owned[worker] {
			d := owned[worker][next[worker]]
			next[worker] = (next[worker] + 1) % len(owned[worker])
			if isReady(d, clock[worker]) {
				return d, 1
			}
		}
		for other := 1; other < len(owned); other++ {
			list := owned[(worker+other)%len(owned)]
			for i := len(list) - 1; i > 0; i-- {
				if done[list[i-1]] <= done[list[i]] && isReady(list[i], clock[worker]) {
					return list[i], foreignItem
				}
			}
		}
		return -1, 0
	}
	for left > 0 {
		worker := slices.Index(clock, slices.Min(clock))
		ran := false
		d, item := pick(worker)
		if d >= 0 {
			foreign := 0.0
			for _, from := range domains[d].mail.neighbors {
				if owners[from] != owners[d] {
					foreign++
				}
			}
			clock[worker] += lookNS*foreign + t.perStep + t.perItem*dearer*item*float64(epoch[done[d]][d])
			done[d]++
			doneAt[d] = clock[worker]
			left--
			ran = true
		}
		if !ran { // until another has done something
			later := 0.0
			for _, at := range doneAt {
				if at > clock[worker] && (later == 0 || at < later) {
					later = at
				}
			}
			for _, at := range clock {
				if at > clock[worker] && (later == 0 || at < later) {
					later = at
				}
			}
			if later == 0 {
				later = clock[worker] + lookNS
			}
			clock[worker] = later
		}
	}
	return slices.Max(doneAt)
}
