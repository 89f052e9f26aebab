package simkernel

import (
	"math"
	"slices"
)

// The order of events. A case is exactly what a simulator with one global queue of events would do
// that takes them by (time in ps, kind, source, sequence), where at equal times
//
//  1. the target ends one packet and starts the next: the mark of the next is decided here, so a
//     packet that arrives at the very moment is not among the bytes left behind,
//  2. hosts take ACKs, in the order in which their packets left the target,
//  3. hosts take up flows, in row order,
//  4. hosts whose link is free send: the first sendable flow, by row, after the one served last,
//     and from the first row again after the last; a flow is sendable if its pacing time has come
//     and less than its window is out, and then sends a full packet, or what it has left,
//  5. packets arrive at the target, by source row; at an idle target one starts at once, unmarked.
//
// A packet takes at least 1 ps on every link, so nothing an event causes can precede it. twin_test.go
// is that simulator; Kernel has no such queue, and must answer the same to the last bit.
//
// Kernel knows one kind of event only: the next packet of a source reaches the target. Whatever
// decides when that is (ACKs, pacing, the window) concerns packets that left the target earlier, and
// is looked up when it is needed. See Kernel.relay.

// horizonPS ends a case, counted from its first start (26.7 days). A packet that would leave the
// target (FirstHop: the host) later is not sent any more, and the flows that still had bytes to
// deliver are unfinished. It keeps every sum of times inside an int64.
const horizonPS = 1 << 61

// unbounded is later than every time of a case.
const unbounded = math.MaxInt64

// A Kernel simulates link cases, one at a time. It holds the scratch memory, which grows to what the
// largest case so far needed and is then reused: in steady state nothing is allocated. Kernels
// share nothing; use one per worker.
type Kernel struct {
	params Params
	traits traits // of params.Transport

	// The case at hand.
	c        *Case
	r        *Result
	firstNS  int64 // the first flow's start; the case's clock begins there
	nextRow  int   // the next flow to start
	nextPS   int64 // its start, unbounded if there is none
	finished int64
	// Blocks are counted only in cases that know what was met elsewhere or record what is met here.
	blocks    bool
	nextBlock uint32 // the next flow's first

	sources        []source
	feeders        []feeder
	flows          []flow // the active flows and those that were: slots
	free           []int32
	retired        []retiredSlot   // slots whose last packet was not yet in service when it was sent, oldest first
	retiredAt      int             // the first of them
	acks           []ack           // the ACK rings of all slots
	senders        []sender        // by slot; none for DCTCP
	stamps         []stamp         // like acks: what else is known of their packets; not for DCTCP
	reductions     []reductionMean // by slot; HPCC
	watchesService bool            // what packets leave behind them decides something when they start to be sent
	ackScratch     ackInfo         // scratch

	target target
	picker picker
	ideal  IdealPath

	hostFlows []hostFlow // of a first hop
	busyPS    int64      // of a first hop
}

// NewKernel checks the constants and returns a kernel for cases that share them.
func NewKernel(p Params) (*Kernel, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	t := p.Transport.spec().traits
	return &Kernel{params: p, traits: t, watchesService: t.randomMarks || t.telemetry}, nil
}

// Simulate answers the case into r, whose slices it reuses. A case with a bad column is an error
// that names the source or flow row (from 0); r is then undefined. The answer is a pure function of
// the case and the kernel's Params, whatever was simulated before.
func (k *Kernel) Simulate(c *Case, r *Result) error {
	if err := k.prepare(c, r); err != nil {
		return err
	}
	if len(c.StartNS) > 0 {
		if c.Kind == FirstHop {
			k.runFirstHop()
			r.BusyNS = k.busyPS / psPerNS
		} else {
			k.runQueue()
			if k.watchesService {
				k.advanceService(unbounded)
			}
			k.target.count(r, k.firstNS)
		}
	}
	r.Unfinished = int64(len(c.StartNS)) - k.finished
	k.c, k.r = nil, nil
	return nil
}

// prepare validates the case, computes the ideals, and sets the clock to the first flow's start.
func (k *Kernel) prepare(c *Case, r *Result) error {
	if err := k.checkSources(c); err != nil {
		return err
	}
	n := len(c.StartNS)
	r.FCTNS = resize(r.FCTNS, n)
	r.IdealNS = resize(r.IdealNS, n)
	r.WaitNS = resize(r.WaitNS, n)
	r.Unfinished = 0
	r.Counters = Counters{}
	if err := k.checkFlows(c, r.IdealNS); err != nil {
		return err
	}
	blocks, err := k.checkFeedback(c)
	if err != nil {
		return err
	}
	k.blocks = c.Record || len(c.Feedback) > 0
	r.Observed = r.Observed[:0]
	if c.Record {
		r.Observed = resize(r.Observed, int(blocks))
		clear(r.Observed)
	}
	for i := range n {
		r.FCTNS[i] = -1
		r.WaitNS[i] = 0
	}
	k.c, k.r = c, r
	k.finished = 0
	k.busyPS = 0
	k.nextRow, k.nextBlock = 0, 0
	k.nextPS = unbounded
	if n > 0 {
		k.firstNS = c.StartNS[0]
		k.nextPS = 0
	}
	k.freeSlots()
	return nil
}

// resize returns s with n elements: its own first ones, then any values.
func resize[T any](s []T, n int) []T {
	return slices.Grow(s, max(0, n-len(s)))[:n]
}

// relay simulates a case whose target lies behind the sources' links.
//
// Every source with active flows has a key: when its next packet will reach the target. The least
// key is the next arrival of all, so everything the target did before that moment is final: the
// departures, and the marks of packets that were in service by then. The ACKs that source's host
// must have seen before it sends its following packet belong to such packets, so that packet's key
// can be computed right away; where it cannot (a queue so long that an ACK's mark is still open),
// the key is a lower bound at which to look again.
func (k *Kernel) runQueue() {
	k.target.reset(k.c, &k.params)
	p := &k.picker
	p.reset(len(k.c.SourceBps))
	for {
		if !p.many && k.traits.embedded {
			if now, deep := k.cruise(); deep {
				k.target.onDeepQueue(k.acks, k.r.Observed, now)
			}
		}
		root := p.least()
		if root >= p.stop {
			if k.nextPS == unbounded && root == noKey {
				return
			}
			k.startNext(root)
			continue
		}
		now := p.base + root>>p.bits
		s := &k.sources[root&p.mask]
		if s.known {
			if s.feeder >= 0 {
				if at := k.feed(s, now); at > now {
					p.replace(s, p.key(s, at))
					continue
				}
			}
			last, sent := now, false
			if p.lone() && s.count == 1 {
				last, sent = k.train(s, now)
			}
			if !sent && !k.forward(s, now) {
				return
			}
			if s.count == 0 {
				p.drop(s)
				continue
			}
			now = max(now, last)
		}
		p.replace(s, k.plan(s, now))
	}
}

// startNext starts the next flow, if that is what comes next, and otherwise moves the picker's base.
func (k *Kernel) startNext(root int64) {
	p := &k.picker
	startPS := k.nextPS
	now := startPS
	if root != noKey {
		now = p.base + root>>p.bits
	}
	if root == noKey || startPS > now {
		p.rebase(now, startPS)
		if startPS > now {
			return
		}
	}
	if k.watchesService {
		k.advanceService(startPS)
	}
	sourceRow := k.c.Source[k.nextRow]
	s := &k.sources[sourceRow]
	active := s.count > 0
	// A packet that the host sends before the flow starts is not changed by it.
	unaffected := active && s.known && s.sendPS < startPS
	k.start(s, startPS)
	s.plain = false
	if !unaffected {
		p.put(s, active, k.plan(s, startPS))
	}
	p.next(k.nextPS)
}

// forward sends the packet that the source has planned and that reaches the target now. It answers
// false if the packet would leave the target after the horizon.
func (k *Kernel) forward(s *source, now int64) bool {
	t := &k.target
	f := &k.flows[s.planned]
	payload := min(k.params.PayloadBytes, f.left)
	wire := payload + k.params.HeaderBytes
	startPS := max(now, t.freePS)
	departPS := startPS + t.wire.ps(wire)
	if departPS > horizonPS {
		return false
	}
	if f.head-f.tail > f.mask {
		k.growRing(f)
	}
	if !k.traits.embedded {
		k.onSend(f, s.sendPS)
		if k.watchesService {
			k.advanceService(now)
		}
	}
	f.left -= payload
	place := f.head & f.mask
	entry := f.base + place
	downstreamPS := f.downstreamPS
	marked := int64(f.marks>>(place%blockPackets)) & ackMarked
	k.acks[entry] = ack{departPS + f.ackPS + downstreamPS, f.endsWindow | marked | downstreamPS<<ackShift}
	alonePS := max(now, f.alonePS)
	f.alonePS = alonePS + departPS - startPS
	f.waitPS += startPS - alonePS
	if k.traits.hint == hintFirstWait && len(k.r.Observed) > 0 && f.head == blockStart(f.head) {
		k.r.Observed[f.block].Hint = waitHint(startPS - alonePS)
	}
	f.endsWindow = 0

	if t.arrived == t.full {
		t.trimLog(now)
	}
	t.log[t.arrived&t.logMask] = logEntry{startPS, t.bytes, entry, f.block}
	t.arrived++
	t.bytes += wire
	t.busyPS += departPS - startPS
	t.waitPS += startPS - now
	t.freePS = departPS
	if k.watchesService {
		k.drawMark(f, f.head, now)
	} else if departPS-now > t.shallowPS {
		t.onDeepQueue(k.acks, k.r.Observed, now)
	}

	s.freePS = s.sendPS + s.wire.ps(wire)
	f.readyPS = s.sendPS + f.gapPS // a shorter packet is the flow's last
	f.head++
	if f.head == f.nextBlockAt && k.blocks && f.left > 0 {
		k.advanceBlock(f)
	}
	s.next = f.nextSlot
	s.served = f.row
	if f.left == 0 {
		k.finish(s, s.planned, departPS+downstreamPS, startPS-now)
		k.retire(s.planned, startPS)
	}
	return true
}

// finish takes the flow from its source, whose last packet left the last link at departPS.
func (k *Kernel) finish(s *source, slot int32, departPS, waitPS int64) {
	f := &k.flows[slot]
	if k.blocks {
		k.recordBlock(f, f.head-blockStart(f.head-1))
	}
	k.record(f.row, departPS+f.downPS, waitPS)
	s.remove(k.flows, slot)
}

// record answers a flow whose last byte is delivered at endPS, and whose last packet waited. FCTs
// are rounded up, like the ideal, and waits down, so that no wait is longer than the delay it is in.
func (k *Kernel) record(row int32, endPS, waitPS int64) {
	startPS := (k.c.StartNS[row] - k.firstNS) * psPerNS
	k.r.FCTNS[row] = ceilNS(endPS - startPS)
	k.r.WaitNS[row] = waitPS / psPerNS
	k.finished++
}
