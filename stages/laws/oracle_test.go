// Package laws has only tests. They check the FCTs of a workload against two laws that every network of
// store-and-forward links obeys. An estimate that contradicts one of them is wrong, regardless of the true
// FCTs. The laws have no parameters to tune.
//
// # Too early
//
// All packets of a flow cross each link of its path after the flow's start and before its end. Consider a
// flow with start s and FCT t on a path with propagation delays d. Its first packet takes the time a on a
// link, and its last packet the time z.
//
//	at link h it sends for   p = the time to send all of its packets there
//	not before               r = s + Σ (a + d) over the links before h
//	not after                e = s + t − d(h) − Σ (z + d) over the links behind h
//
// Theorem (Horn, Naval Research Logistics Quarterly 21(1), 1974): one link can send every flow for p within
// [r, e] if and only if it can do so by always sending the available flow with the smallest e. If a flow
// then ends L later than e, the estimate of some flow that must end by e is at least L too early: the flows
// that the link has sent without a pause, and that must end by e, take L longer than the available time. The
// link may interrupt packets in this schedule, which can only make flows end earlier.
//
// # Too late
//
// A link cannot send for longer than it has packets. Consider a flow that is alone at all links of its path
// but link h.
//
//	D   the round trip of a packet and its ACK if each of them waits for at most one packet, or the time
//	    between two packets at the minimum rate of the transport, if that is longer
//	k   the minimum number of packets that the flow sends within D, from the transport's minimum window and rate
//	a   the time to send a packet at link h
//
// Theorem: if such flows have each been present for longer than D, and Σ k·a > max D, link h is sending. If
// it were idle, it would have no packet of these flows. Only their windows and rates would have limited them
// for the last D, so each would have sent k packets over h in that time, which takes longer than D.
//
// The total time between two times for which this condition holds therefore cannot exceed the time to send
// everything that can have been at the link between them. This includes the packets of all flows that
// started before the second time and had not ended a D before the first. It also includes the ACKs of flows
// that cross the cable in the other direction. The excess is the time by which the estimates of the present
// flows are together too late.
//
// The premises are that the sender's rate and window have a minimum (simkernel.Params.MinRateBps), that ACKs
// are sent first, and that they do not wait for other ACKs. The ACKs of DCQCN share the queue of data in
// switches, so the second law is not checked for DCQCN.
package laws

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

const (
	psPerNS = 1000

	// tolerancePS covers the rounding of starts and FCTs to ns.
	tolerancePS = 2 * psPerNS

	// MaterialShare is the smallest share of an FCT at which a contradiction counts.
	MaterialShare = 0.01
)

// A Flow is one flow of an estimate.
type Flow struct {
	Row            int64 // in table flows
	StartNS, FCTNS int64
	SizeBytes      int64
	Path           []int32 // link ids; not kept
}

// A Finding describes the contradictions of one law.
type Finding struct {
	Flows      int64   // that take part in contradictions of more than MaterialShare
	WorstNS    int64   // the largest contradiction
	WorstShare float64 // the largest contradiction relative to the longest FCT that it can be due to
	WorstLink  int32   // of WorstShare; -1: no contradiction
	WorstRow   int64   // a flow with that slowdown
}

// add notes that FCTs of up to fctPS are wrong by at least offPS, if that exceeds what rounding explains. It
// reports whether the contradiction is material.
func (f *Finding) add(link int32, row, offPS, fctPS int64) bool {
	if offPS <= tolerancePS {
		return false
	}
	share := float64(offPS) / float64(max(1, fctPS))
	f.WorstNS = max(f.WorstNS, offPS/psPerNS)
	if share > f.WorstShare {
		f.WorstShare = share
		f.WorstLink = link
		f.WorstRow = row
	}
	return share > MaterialShare
}

// A Report is what a Checker found.
type Report struct {
	Flows       int64 // that were checked
	Early, Late Finding
}

// A Checker checks the flows of an estimate against the laws. Its memory grows with the flows that are active
// at a time. It is used by one goroutine at a time: Begin for every run of flows, then Report.
type Checker struct {
	net    *topology.Network
	params simkernel.Params
	early  earlyCheck
	late   *lateCheck // nil: not checked
	// Times count from the start of the first flow, because times since 1970 would not fit in ps.
	firstNS, lastNS int64
	flows           int64
	checks          sync.WaitGroup // of the flows of the last Begin
}

// New returns a checker for estimates of a network.
func New(n *topology.Network, p simkernel.Params) *Checker {
	c := &Checker{net: n, params: p, early: newEarlyCheck(n, p)}
	if p.Transport != simkernel.DCQCN {
		c.late = newLateCheck(n, p)
	}
	return c
}

// Begin checks flows, which come in start order. The laws are independent: a separate goroutine checks each,
// which Wait, Report and the next Begin wait for. Until then the flows must not change. If a flow is not
// valid, none of them is checked.
func (c *Checker) Begin(flows []Flow) error {
	lastNS := c.lastNS
	for i := range flows {
		if err := c.valid(&flows[i], c.flows+int64(i) > 0, lastNS); err != nil {
			return err
		}
		lastNS = flows[i].StartNS
	}
	c.Wait()
	if len(flows) == 0 {
		return nil
	}
	if c.flows == 0 {
		c.firstNS = flows[0].StartNS
	}
	c.lastNS = lastNS
	c.flows += int64(len(flows))
	if c.late != nil { // first, because it takes longest
		c.check(flows, c.late.add)
	}
	c.check(flows, c.early.add)
	return nil
}

// check gives the flows to one check, with times since the first start.
func (c *Checker) check(flows []Flow, add func(Flow)) {
	firstNS := c.firstNS
	c.checks.Go(func() {
		for i := range flows {
			since := flows[i]
			since.StartNS -= firstNS
			add(since)
		}
	})
}

// Wait returns when the flows of the last Begin are checked.
func (c *Checker) Wait() { c.checks.Wait() }

// valid checks a flow that begins not before lastNS, if it is not the first.
func (c *Checker) valid(f *Flow, notFirst bool, lastNS int64) error {
	if notFirst && f.StartNS < lastNS {
		return fmt.Errorf("flow row %d starts at %d ns, before the flow ahead of it (%d ns)", f.Row, f.StartNS,
			lastNS)
	}
	if f.FCTNS < 0 || f.SizeBytes <= 0 || len(f.Path) == 0 {
		return fmt.Errorf("flow row %d has %d bytes, an FCT of %d ns and %d hops", f.Row, f.SizeBytes, f.FCTNS,
			len(f.Path))
	}
	for _, id := range f.Path {
		if id < 0 || int(id) >= len(c.net.Links) {
			return fmt.Errorf("flow row %d crosses link %d of %d", f.Row, id, len(c.net.Links))
		}
	}
	return nil
}

// Report ends the check.
func (c *Checker) Report() Report {
	c.Wait()
	r := Report{Flows: c.flows, Early: c.early.finish(), Late: Finding{WorstLink: -1}}
	if c.late != nil {
		r.Late = c.late.finish()
	}
	return r
}

// earlyCheck sends the flows of each link in the order of their estimated ends.
type earlyCheck struct {
	trip  trip
	links []schedule
	found Finding
	late  map[int64]bool // rows of flows that end later than estimated at some link
}

func newEarlyCheck(n *topology.Network, p simkernel.Params) earlyCheck {
	return earlyCheck{trip: newTrip(n, p), links: make([]schedule, len(n.Links)), found: Finding{WorstLink: -1},
		late: map[int64]bool{}}
}

// schedule is what one link has sent up to now, and has yet to send.
type schedule struct {
	nowPS   int64
	future  heap[job] // by release
	ready   heap[job] // by end
	longest job       // by FCT, of those sent or ready without a pause
}

// job is a flow at a link, in ps.
type job struct{ end, work, fct, row int64 }

func (c *earlyCheck) add(f Flow) {
	t := &c.trip
	t.set(f.SizeBytes, f.Path)
	start := f.StartNS * psPerNS
	release := start
	behind := int64(0)
	for h := range f.Path {
		behind += t.last[h] + t.delay[h]
	}
	for h, id := range f.Path {
		behind -= t.last[h] // from the end of the last packet's transmission here to its delivery
		l := &c.links[id]
		l.advance(id, start, c) // no later flow is released before this one starts
		l.future.push(release, job{start + f.FCTNS*psPerNS - behind, t.work(h), f.FCTNS * psPerNS, f.Row})
		behind -= t.delay[h]
		release += t.full[h] + t.delay[h]
	}
}

// advance sends until a time.
func (l *schedule) advance(id int32, toPS int64, c *earlyCheck) {
	for {
		if len(l.ready) == 0 {
			if len(l.future) == 0 || l.future[0].key > toPS {
				return
			}
			l.nowPS = max(l.nowPS, l.future[0].key)
			l.longest = job{}
		}
		for len(l.future) > 0 && l.future[0].key <= l.nowPS {
			j := l.future.pop()
			l.ready.push(j.end, j)
			if j.fct > l.longest.fct {
				l.longest = j
			}
		}
		next := toPS
		if len(l.future) > 0 {
			next = min(next, l.future[0].key)
		}
		j := &l.ready[0].value
		done := l.nowPS + j.work
		if done <= next {
			l.nowPS = done
			if c.found.add(id, j.row, done-j.end, l.longest.fct) {
				c.late[j.row] = true
			}
			l.ready.pop()
			continue
		}
		j.work -= max(0, next-l.nowPS)
		l.nowPS = max(l.nowPS, next)
		if l.nowPS >= toPS {
			return
		}
	}
}

func (c *earlyCheck) finish() Finding {
	for id := range c.links {
		c.links[id].advance(int32(id), math.MaxInt64, c)
	}
	c.found.Flows = int64(len(c.late))
	return c.found
}

// lateCheck tracks which flows are present at each link, by their estimates.
type lateCheck struct {
	trip   trip
	links  []presence
	flows  []pending
	free   []int32 // places of flows that have ended
	events heap[event]
	found  Finding
}

// pending is a flow from its start until all of its ACKs are back.
type pending struct {
	row, fctPS   int64
	path         []int32
	work, full   []int64 // by hop
	packets      int64
	cycle, parts int64
	crossings    int   // links at which other flows are present
	counted      int32 // the hop at which the flow is known to send; -1: none
	stopped      bool  // its last packets are in flight
	epoch        uint32
}

type event struct {
	kind  eventKind
	place int32
	epoch uint32
}

type eventKind uint8

const (
	stops   eventKind = iota // the flow's last packet may have left the link that it shares
	ends                     // the flow
	retires                  // its ACKs are back
	counts                   // the flow has been alone at its other links for a cycle
)

func newLateCheck(n *topology.Network, p simkernel.Params) *lateCheck {
	c := &lateCheck{trip: newTrip(n, p), links: make([]presence, len(n.Links)), found: Finding{WorstLink: -1}}
	for i := range c.links {
		c.links[i].sincePS = -1
	}
	return c
}

// add begins a flow. Events up to its start are handled first, then it joins every link of its path and, with
// its ACKs, of the reverse path. Flows come in order of their starts.
func (c *lateCheck) add(f Flow) {
	t := &c.trip
	t.set(f.SizeBytes, f.Path)
	now := f.StartNS * psPerNS
	c.until(now)
	if len(c.free) == 0 {
		c.free = append(c.free, int32(len(c.flows)))
		c.flows = append(c.flows, pending{})
	}
	place := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	p := &c.flows[place]
	*p = pending{row: f.Row, fctPS: f.FCTNS * psPerNS, path: append(p.path[:0], f.Path...), work: p.work[:0],
		full: append(p.full[:0], t.full...), packets: t.packets, cycle: t.cycle, parts: t.parts, counted: -1,
		epoch: p.epoch + 1}
	for h, id := range f.Path {
		p.work = append(p.work, t.work(h))
		c.began(id, p.work[h], now)
		c.began(id^1, c.ackWork(id^1, p.packets), now)
		other := c.links[id].join(place)
		if other >= 0 {
			c.crossed(other, 1, now)
		}
		if c.links[id].flows > 1 {
			p.crossings++
		}
	}
	c.await(place, now)
	end := now + p.fctPS
	c.events.push(max(now, end-t.oneWay), event{stops, place, 0})
	c.events.push(end, event{ends, place, 0})
	c.events.push(end+p.cycle, event{retires, place, 0})
}

// ackWork returns the time to send ACKs for a number of packets on a link.
func (c *lateCheck) ackWork(link int32, packets int64) int64 {
	return packets * c.trip.links[link].ack
}

// until handles the events up to a time.
func (c *lateCheck) until(now int64) {
	for len(c.events) > 0 && c.events[0].key <= now {
		at := c.events[0].key
		e := c.events.pop()
		p := &c.flows[e.place]
		switch e.kind {
		case counts:
			if e.epoch == p.epoch && !p.stopped {
				c.count(p, at)
			}
		case stops:
			p.stopped = true
			c.uncount(p, at)
		case ends:
			for _, id := range p.path {
				other := c.links[id].leave(e.place)
				if other >= 0 {
					c.crossed(other, -1, at)
				}
			}
		case retires:
			for h, id := range p.path {
				c.ended(id, p.work[h], at)
				c.ended(id^1, c.ackWork(id^1, p.packets), at)
			}
			c.free = append(c.free, e.place)
		}
	}
}

// crossed changes the number of links at which a flow meets others.
func (c *lateCheck) crossed(place int32, by int, now int64) {
	p := &c.flows[place]
	c.uncount(p, now)
	p.crossings += by
	c.await(place, now)
}

// await counts a flow that now meets others at one link, a cycle later if it still does.
func (c *lateCheck) await(place int32, now int64) {
	p := &c.flows[place]
	if p.crossings == 1 && !p.stopped {
		c.events.push(now+p.cycle, event{counts, place, p.epoch})
	}
}

func (c *lateCheck) count(p *pending, now int64) {
	hop := slices.IndexFunc(p.path, func(id int32) bool { return c.links[id].flows > 1 })
	c.links[p.path[hop]].count(p, p.parts*p.full[hop], now)
	p.counted = int32(hop)
	c.settle(p.path[hop])
}

func (c *lateCheck) uncount(p *pending, now int64) {
	p.epoch++
	if p.counted >= 0 {
		id := p.path[p.counted]
		c.links[id].uncount(p.parts*p.full[p.counted], now)
		p.counted = -1
		c.settle(id)
	}
}

// began and ended note the time to send a flow's packets or ACKs on a link.
func (c *lateCheck) began(id int32, work, now int64) {
	c.links[id].touch(now)
	c.links[id].beganPS += work
	c.settle(id)
}

func (c *lateCheck) ended(id int32, work, now int64) {
	l := &c.links[id]
	l.touch(now)
	l.endedPS += work
	l.least = min(l.least, l.busyPS-l.endedPS)
	c.settle(id)
}

// settle records an excess when no flow is counted any more.
func (c *lateCheck) settle(id int32) {
	l := &c.links[id]
	if l.counted == 0 && l.excess > 0 {
		if c.found.add(id, l.longest.row, l.excess, l.longest.fctPS) {
			c.found.Flows += l.most
		}
		l.excess = 0
		l.most = 0
	}
}

func (c *lateCheck) finish() Finding {
	c.until(math.MaxInt64)
	return c.found
}

// presence is the state of one link for the second law. Times are in ps.
type presence struct {
	flows   int64 // present
	members int64 // the sum of their places, so that the last one is known
	counted int64 // flows that are known to send over the link
	push    int64 // their Σ k·a
	horizon int64 // their max D, or more
	sincePS int64 // since when the link is certainly sending; -1: it may be idle

	busyPS           int64 // time for which it has certainly been sending
	beganPS, endedPS int64 // to send the packets of all flows that have started, that are over
	least            int64 // of busyPS - endedPS

	excess  int64 // excess of busyPS over the time for the available packets, while flows are counted
	most    int64 // flows counted when there was excess
	longest pending
}

// join adds a flow and returns the one that was alone before, or -1.
func (l *presence) join(place int32) (other int32) {
	other = -1
	if l.flows == 1 {
		other = int32(l.members)
	}
	l.flows++
	l.members += int64(place)
	return other
}

// leave removes a flow and returns the one that is alone now, or -1.
func (l *presence) leave(place int32) (other int32) {
	l.flows--
	l.members -= int64(place)
	if l.flows == 1 {
		return int32(l.members)
	}
	return -1
}

func (l *presence) count(p *pending, push, now int64) {
	l.touch(now)
	if l.counted == 0 {
		l.horizon = 0
		l.longest = pending{}
	}
	l.counted++
	l.push += push
	l.horizon = max(l.horizon, p.cycle)
	if p.fctPS > l.longest.fctPS {
		l.longest = pending{row: p.row, fctPS: p.fctPS}
	}
	l.resume(now)
}

func (l *presence) uncount(push, now int64) {
	l.touch(now)
	l.counted--
	l.push -= push
	l.sincePS = -1
	l.resume(now)
}

func (l *presence) resume(now int64) {
	if l.counted > 0 && l.push > l.horizon {
		l.sincePS = now
	} else {
		l.sincePS = -1
	}
}

// touch updates the excess to the present time.
func (l *presence) touch(now int64) {
	if l.sincePS < 0 {
		return
	}
	l.busyPS += now - l.sincePS
	l.sincePS = now
	over := l.busyPS - l.beganPS - l.least
	if over > 0 {
		l.excess += over
		l.least += over // the next excess begins from here
		l.most = max(l.most, l.counted)
	}
}

// trip has the times that the packets of a flow need on its path, in ps.
type trip struct {
	net    *topology.Network
	params simkernel.Params
	links  []linkTimes
	alone  simkernel.IdealPath

	packets    int64
	full, last []int64 // by hop: to send a full packet, the last packet; the same for a flow of one packet
	delay      []int64 // by hop: propagation
	oneWay     int64   // of a full packet that waits nowhere
	cycle      int64   // the time D of the second law
	parts      int64   // its k
}

// linkTimes are the times to send a packet of the largest size, an ACK, and an ACK behind such a packet.
type linkTimes struct{ largest, ack, both int64 }

func newTrip(n *topology.Network, p simkernel.Params) trip {
	t := trip{net: n, params: p, links: make([]linkTimes, len(n.Links))}
	largest := p.PayloadBytes + p.HeaderBytes
	for i := range n.Links {
		bps := n.Links[i].BandwidthBps
		t.links[i] = linkTimes{sendPS(largest, bps), sendPS(p.AckBytes, bps), sendPS(p.AckBytes+largest, bps)}
	}
	return t
}

func (t *trip) set(sizeBytes int64, path []int32) {
	p := &t.params
	t.packets = p.Packets(sizeBytes)
	largest := p.PayloadBytes + p.HeaderBytes
	lastBytes := sizeBytes - (t.packets-1)*p.PayloadBytes + p.HeaderBytes
	t.full = t.full[:0]
	t.last = t.last[:0]
	t.delay = t.delay[:0]
	t.oneWay = 0
	back := int64(0)
	for _, id := range path {
		l := &t.net.Links[id]
		last := sendPS(lastBytes, l.BandwidthBps)
		full := last
		if t.packets > 1 {
			full = t.links[id].largest
		}
		delay := l.DelayNS * psPerNS
		t.full = append(t.full, full)
		t.last = append(t.last, last)
		t.delay = append(t.delay, delay)
		t.oneWay += full + delay
		back += t.links[id].both + delay
	}
	limits := p.Limits(float64(t.net.Links[path[0]].BandwidthBps), t.path(path))
	line := limits.LineBps
	rate := min(p.MinRateBps, line)
	gap := int64(float64(8*largest) * 1e12 / rate)
	window := max(1, int64(float64(limits.WindowBytes)*rate/line))
	t.cycle = max(t.oneWay+back, gap)
	t.parts = max(1, min((window+p.PayloadBytes-1)/p.PayloadBytes, t.cycle/gap))
}

// path returns the properties of a path that the sender knows.
func (t *trip) path(links []int32) simkernel.Path {
	t.alone.Reset(&t.params)
	for _, id := range links {
		t.alone.Add(t.net.Links[id].BandwidthBps, t.net.Links[id].DelayNS)
	}
	return t.alone.Path()
}

// work is the time to send all packets at a hop.
func (t *trip) work(hop int) int64 { return (t.packets-1)*t.full[hop] + t.last[hop] }

// sendPS rounds down. The products of packets do not overflow.
func sendPS(bytes, bps int64) int64 { return bytes * 8_000_000_000_000 / bps }

// A heap holds values by key, the least first.
type heap[T any] []keyed[T]

type keyed[T any] struct {
	key   int64
	value T
}

func (h *heap[T]) push(key int64, value T) {
	*h = append(*h, keyed[T]{key, value})
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if a[up].key <= a[i].key {
			return
		}
		a[up], a[i] = a[i], a[up]
		i = up
	}
}

func (h *heap[T]) pop() T {
	a := *h
	top := a[0].value
	n := len(a) - 1
	a[0] = a[n]
	a = a[:n]
	for i := 0; ; {
		least := 2*i + 1
		if least >= n {
			break
		}
		if least+1 < n && a[least+1].key < a[least].key {
			least++
		}
		if a[i].key <= a[least].key {
			break
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
	*h = a
	return top
}
