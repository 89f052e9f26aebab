package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"parsimon/simkernel"
)

// Run simulates the whole workload with at most that many workers at a time, and not more than there are processors.
// It calls finished, if not nil, with a few thousand flows at a time in the order of their delivery, from another
// goroutine but never from two at once; the Results are valid until it returns. Invalid rows of the workload, errors of
// its source and of finished, and the end of ctx end the simulation.
func (n *Network) Run(ctx context.Context, workers int, finished func(*Results) error) error {
	return n.run(ctx, min(workers, runtime.GOMAXPROCS(0)), nil, finished)
}

// run is Run with given domains of the nodes, unless domainOf is nil.
func (n *Network) run(ctx context.Context, workers int, domainOf []int32, finished func(*Results) error) error {
	n.setRules()
	f := &feed{net: n, batches: make(chan *batch, batchesAhead)}
	first := f.next()
	f.batches <- first
	if domainOf == nil {
		domainOf = n.partition(n.domainsFor(workers), first.flows)
	}
	n.layOut(domainOf)
	var all sync.WaitGroup
	stop := make(chan struct{})
	if !first.ends() {
		all.Go(func() { f.run(stop) })
	}
	c := &collector{finished: finished, parts: make(chan []resultPart, 2)}
	var collectErr error
	collected := make(chan struct{}) // closed when the collector has stopped
	all.Go(func() {
		defer close(collected)
		collectErr = c.run()
	})
	err := n.steps(ctx, workers, f, c)
	close(c.parts)
	<-collected
	close(stop)
	all.Wait()
	if err == nil {
		err = collectErr
	}
	return err
}

// A pacer sets the steps of a simulation.
type pacer struct {
	net     *Network
	feed    *feed
	pending *batch // the present batch of flows; next is the next of them
	next    int
	doneTo  int64 // the end of the present epoch
	steps   int64 // of the present epoch
}

// steps simulates step by step.
func (n *Network) steps(ctx context.Context, workers int, f *feed, c *collector) error {
	p := &pacer{net: n, feed: f, steps: 1}
	w := n.startWorkers(workers)
	defer w.stop()
	for {
		fromPS, err := p.advance()
		if err != nil {
			return err
		}
		ended := n.EndNS > 0 && fromPS >= n.EndNS*simkernel.PSPerNS
		if fromPS == never || ended {
			n.passOn(c, 1)
			return n.storm()
		}
		n.passOn(c, resultsAtOnce)
		if c.failed.Load() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ran := p.steps
		if n.EndNS > 0 {
			ran = min(ran, (n.EndNS*simkernel.PSPerNS-fromPS-1)/n.stepPS+1)
		}
		w.run(fromPS, ran)
		p.steps = w.settle(ran)
		if n.recovery != nil {
			n.recovery.settle()
			if n.step/stormSteps != (n.step-ran)/stormSteps {
				if err := n.storm(); err != nil {
					return err
				}
			}
		}
	}
}

// From so many packets on that were sent again by senders that had sent each of theirs again stormRatio times in the
// mean, these are not expected to come to an end: without losses being taken as congestion, those that go back can send
// as much as a link carries for ever. The number never falls, so that it does not matter when one looks.
const (
	stormRatio = 20
	stormLeast = 10_000_000
	stormSteps = 1024 // between two looks, which read the counters of all domains
)

// ErrStorm is the error of a simulation in which senders only send lost packets again.
var ErrStorm = errors.New("a retransmission storm")

// storm reports a retransmission storm.
func (n *Network) storm() error {
	packets := int64(0)
	for i := range n.domains {
		packets += n.domains[i].storming
	}
	if packets < stormLeast {
		return nil
	}
	return fmt.Errorf("%w: switches drop packets faster than their senders, which do not slow down after a loss, recover: "+
		"packets were sent again more than %d times each; selective recovery (--selective-recovery), TCP (--transport cubic or "+
		"newreno) or a larger --switch-buffer avoid it", ErrStorm, stormRatio)
}

// advance sets the next step and returns when it begins; never if every flow has finished and every ACK was received.
func (p *pacer) advance() (fromPS int64, err error) {
	n := p.net
	if err := p.fill(); err != nil {
		return 0, err
	}
	next := int64(never)
	if n.frontier != nil {
		n.frontier.settle()
		if err := p.take(p.doneTo); err != nil {
			return 0, err
		}
		next = n.frontier.nextPS()
	}
	for i := range n.domains {
		d := &n.domains[i]
		next = min(next, d.mailPS, d.nextPS())
	}
	next = min(next, p.nextStart())
	if n.frontier != nil && next != never {
		n.frontier.receive((next/n.stepPS + 1) * n.stepPS)
	}
	if next == never {
		if x := n.frontier; x != nil && (x.held > 0 || p.pending != nil) {
			return 0, x.stuck()
		}
		if live := n.live(); live != 0 {
			if n.pausers != nil {
				return 0, n.deadlock(live)
			}
			panic(fmt.Sprintf("network: idle with %d unfinished flows", live))
		}
		return never, nil
	}
	fromPS = next / n.stepPS * n.stepPS
	if fromPS+n.stepPS > horizonPS {
		if n.pausers != nil {
			return 0, n.deadlock(n.live())
		}
		return 0, fmt.Errorf("%d flows have not drained after 26 days of simulated time", n.live())
	}
	p.doneTo = fromPS + p.steps*n.stepPS
	if err := p.take(p.doneTo); err != nil {
		return 0, err
	}
	if n.frontier != nil {
		p.startReady(p.doneTo)
	}
	for i := range n.domains {
		n.reserve(&n.domains[i].pool)
	}
	return fromPS, nil
}

// start passes a flow on to its source's domain.
func (p *pacer) start(f *newFlow) {
	n := p.net
	pool := &n.domains[n.domainOf[n.links[f.path[0]].SrcNode]].pool
	pool.starting = append(pool.starting, f)
	pool.needUnits += units(len(f.path))
}

// fill receives batches until pending contains the next flow; pending is nil after the last.
func (p *pacer) fill() error {
	for p.pending == nil || p.next == len(p.pending.flows) {
		if p.pending != nil && p.pending.ends() {
			err := p.pending.err
			p.pending, p.next = nil, 0
			p.feed = nil
			return err
		}
		if p.feed == nil {
			return nil
		}
		p.pending, p.next = <-p.feed.batches, 0
	}
	return nil
}

func (n *Network) live() (flows int64) {
	for i := range n.domains {
		flows += n.domains[i].pool.live
	}
	return flows
}

// passOn passes results on if there are at least so many.
func (n *Network) passOn(c *collector, least int) {
	rows := 0
	for i := range n.domains {
		rows += len(n.domains[i].results.rows)
	}
	if rows < least {
		return
	}
	parts := make([]resultPart, len(n.domains))
	if spare, ok := c.spare.Get().(*[]resultPart); ok {
		parts = *spare
	}
	for i := range n.domains {
		parts[i], n.domains[i].results = n.domains[i].results, parts[i]
	}
	c.parts <- parts
}

// Results are results, one row per finished flow, by time and then row.
type Results struct {
	Row     []int64 // the flow's row in the workload, counted from 0 over all chunks
	Tag     []int32 // Flows.Tag
	StartNS []int64 // when it started
	FCTNS   []int64 // from its start to the delivery of its last byte, rounded up
	IdealNS []int64 // of the flow alone on its first path, with a window that never binds; at most FCTNS
	// The waits of flow i are in rows HopEnds[i-1]:HopEnds[i], one per hop. Hop 0 is the NIC, whose wait is 0: a packet
	// exists from the time when it is sent.
	HopEnds    []int32
	WaitNS     []int64 // sum over the flow's packets of their waits in the hop's queue; at most MaxInt64
	LastWaitNS []int64 // wait of its last packet
	Marks      []int32 // number of its packets that the hop marked; 0 at hop 0
	// Packets that were sent again, and packets received after one that was sent later; 0 where nothing is lost.
	Again, Reordered []int32
}

// resultsAtOnce is how many flows are collected before they are passed on.
const resultsAtOnce = 4096

// A resultPart is the results of flows that were delivered in one domain.
type resultPart struct {
	rows []resultRow
	hops []hopResult // of all rows, one after the other
}

type resultRow struct {
	atPS, row, startPS, idealNS int64 // delivered at atPS
	tag, firstHop, hops         int32
	again, reordered            int32
}

type hopResult struct {
	hopStat
	lastPS int64
}

// add appends a delivered flow.
func (r *resultPart) add(t *flowTable, slot int32, atPS int64) {
	info := &t.info[slot]
	r.rows = append(r.rows, resultRow{atPS: atPS, row: info.row, tag: info.tag, startPS: info.startPS,
		idealNS: info.idealNS, firstHop: int32(len(r.hops)), hops: info.hops})
	for h := info.firstHop; h < info.firstHop+info.hops; h++ {
		r.hops = append(r.hops, hopResult{t.stats[h], t.lastPS[h]})
	}
}

// A collector orders results and passes them on, beside the simulation.
type collector struct {
	finished func(*Results) error
	parts    chan []resultPart // one per domain
	spare    sync.Pool         // of *[]resultPart: empty parts, for their memory
	failed   atomic.Bool       // finished has returned an error
	order    []resultRef
	merged   Results // memory
}

// A resultRef is a row of a part.
type resultRef struct {
	atPS, row  int64
	part, line int32
}

// run passes results on until parts is closed. It reads on after an error, which it returns.
func (c *collector) run() error {
	var err error
	for parts := range c.parts {
		if err == nil && c.finished != nil {
			err = c.finished(c.merge(parts))
			c.failed.Store(err != nil)
		}
		for i := range parts {
			parts[i].rows, parts[i].hops = parts[i].rows[:0], parts[i].hops[:0]
		}
		c.spare.Put(&parts)
	}
	return err
}

// merge sorts the rows of several domains. They are valid until it is called again.
func (c *collector) merge(parts []resultPart) *Results {
	c.order = c.order[:0]
	for i := range parts {
		for k := range parts[i].rows {
			o := &parts[i].rows[k]
			c.order = append(c.order, resultRef{o.atPS, o.row, int32(i), int32(k)})
		}
	}
	slices.SortFunc(c.order, func(a, b resultRef) int {
		return cmp.Or(cmp.Compare(a.atPS, b.atPS), cmp.Compare(a.row, b.row))
	})
	r := &c.merged
	*r = Results{r.Row[:0], r.Tag[:0], r.StartNS[:0], r.FCTNS[:0], r.IdealNS[:0], r.HopEnds[:0], r.WaitNS[:0],
		r.LastWaitNS[:0], r.Marks[:0], r.Again[:0], r.Reordered[:0]}
	for _, ref := range c.order {
		p := &parts[ref.part]
		o := &p.rows[ref.line]
		r.Row, r.Tag = append(r.Row, o.row), append(r.Tag, o.tag)
		r.StartNS = append(r.StartNS, o.startPS/simkernel.PSPerNS)
		r.FCTNS = append(r.FCTNS, simkernel.CeilNS(o.atPS-o.startPS))
		r.IdealNS = append(r.IdealNS, o.idealNS)
		for _, h := range p.hops[o.firstHop:][:o.hops] {
			r.WaitNS = append(r.WaitNS, h.waitNS())
			r.LastWaitNS = append(r.LastWaitNS, h.lastPS/simkernel.PSPerNS)
			r.Marks = append(r.Marks, h.marks)
		}
		r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
		r.Again, r.Reordered = append(r.Again, o.again), append(r.Reordered, o.reordered)
	}
	return r
}
