package network

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// Priority flow control (IEEE 802.1Qbb) follows the HPCC simulator. A switch counts the packets that wait in
// it by the link on which they arrived and by their class (classes.go). Below, "link" stands for both:
//
//	SwitchBytes ─┬─ reserve of each link: ReservedBytes or pfcReserve
//	             ├─ headroom of each link
//	             └─ shared pool
//
// A packet uses the remaining reserve of its link, and then the pool. If the pool part of its link is above
// the threshold, it uses headroom, and is dropped if the headroom is full. At the threshold, the switch
// pauses the sender of the link. It resumes the sender when a packet of the link has left, no headroom is in
// use, and the pool part is 0 or at least pfcHysteresis below the threshold. The threshold is XOFFBytes or
// dynamic: Alpha × the free bytes of the pool, multiplied by the ratio of the link's speed to that of the
// slowest link of a host. A lossy class has neither reserve nor headroom. Its packets use the pool, and are
// dropped if their queue would hold more than Alpha × the free bytes.
//
// A pause frame takes the transmission time of pauseBytes plus the propagation delay. It neither waits for
// packets nor delays them. A paused port, of a switch or a NIC, finishes the packet that it is sending, and
// starts no other packet of the class. ACKs with a separate queue are not paused. Pauses do not expire. A
// watchdog (WatchdogNS) checks the paused queues of switches. It drops a queue that has waited for this time,
// and the port then ignores pauses for RestoreNS.
//
// Order of events: departures from a switch are counted before thresholds are compared, and a pause that
// arrives at the time at which a packet would be sent delays the packet. The watchdog acts after arrivals and
// before services.
const (
	pfcReserve    = 4096
	pfcHysteresis = 3072
	pauseBytes    = 64
	// pfcTimeoutNS is the default retransmission timeout with PFC, where only insufficient headroom causes
	// losses and pauses can be long. It is the InfiniBand local ACK timeout with exponent 14, 4.096 µs ×
	// 2^14, the usual value of RDMA NICs.
	pfcTimeoutNS = 67_108_864
)

// DefaultWatchdogNS is the detection time and the restoration time of SONiC's watchdog (sonic-utilities,
// pfcwd/main.py).
const DefaultWatchdogNS = 200_000_000

// DefaultPFCAlpha is Alpha in the HPCC simulator for links with the speed of hosts' links.
const DefaultPFCAlpha = 1.0 / 8

// A pauser is the state of PFC at a port: the node's counts of packets that arrived over the other direction
// of its cable, and the pauses of its transmissions.
type pauser struct {
	bytes     int64 // in the reserve and in the pool
	headBytes int64 // in the headroom
	reserve   int64
	headroom  int64
	alpha     float64
	pausing   bool  // the sender must pause
	toldPS    int64 // when the frame arrives, at the earliest: frames keep their order where a delay falls

	toggles  []calendar.Toggle // of the first class: of all, that have arrived, or will in the current window
	asked    bool              // the last toggle began a pause
	paused   bool
	ignores  bool  // the watchdog has found a storm
	lookPS   int64 // with paused and ignores: next check of the watchdog
	sincePS  int64
	pausedPS int64 // sum of the ended pauses
	storms   int64
}

// pausing is PFC in a domain.
type pausing struct {
	domain  *domain
	merging bool      // settleLeaving counts packets that leave
	leaving []leaving // packets that have left and are not counted
}

// A leaving is a packet of a class that arrived over a link and leaves the switch.
type leaving struct {
	atPS, bytes int64
	back, class int32 // the other direction of the link
}

// pauserOf returns the state of PFC of a class at the port of a link.
func (x *pausing) pauserOf(link, class int32) *pauser {
	d := x.domain
	return &d.net.pausers[int(link)*len(d.net.classes)+int(class)]
}

// paused reports whether a class of a port is paused. x is nil without PFC.
func (x *pausing) paused(p *port, class int) bool {
	return p.bits&portPaused != 0 && x.pauserOf(p.link, int32(class)).paused
}

// poolPart returns the bytes of the pool that the packets of a link use.
func (u *pauser) poolPart() int64 { return max(0, u.bytes-u.reserve) }

// add counts a packet that does not use headroom.
func (b *buffer) add(u *pauser, bytes int64) {
	b.sharedBytes -= u.poolPart()
	u.bytes += bytes
	b.sharedBytes += u.poolPart()
}

// remove counts a packet that leaves. It releases headroom first.
func (b *buffer) remove(u *pauser, bytes int64) {
	head := min(u.headBytes, bytes)
	u.headBytes -= head
	b.add(u, head-bytes)
}

// checkPFC returns an error for the first setting of PFC that cannot be simulated.
func (b *BufferParams) checkPFC(packetBytes int64) error {
	switch {
	case !b.PFC && (b.XOFFBytes != 0 || b.HeadroomBytes != 0):
		return fmt.Errorf("pfc is false, and xoff is %d bytes, headroom %d", b.XOFFBytes, b.HeadroomBytes)
	case b.WatchdogNS < 0 || b.RestoreNS < 0 || b.WatchdogNS > 0 && !b.PFC ||
		b.WatchdogNS == 0 && b.RestoreNS > 0:
		return fmt.Errorf("watchdog is %d ns, restore %d, must be above 0, and with pfc (which is %v)",
			b.WatchdogNS, b.RestoreNS, b.PFC)
	case b.XOFFBytes < 0 || b.XOFFBytes > b.SwitchBytes:
		return fmt.Errorf("xoff is %d bytes, must be within the buffer of %d", b.XOFFBytes, b.SwitchBytes)
	case b.HeadroomBytes < 0 || b.HeadroomBytes > 0 && b.HeadroomBytes < packetBytes ||
		b.HeadroomBytes > b.SwitchBytes:
		return fmt.Errorf("headroom is %d bytes, must hold a packet of %d and be within the buffer of %d",
			b.HeadroomBytes, packetBytes, b.SwitchBytes)
	}
	return nil
}

// Headroom returns the headroom of a link. By default it is everything that can arrive after the threshold
// was exceeded: what is sent during a round trip of propagation and pause frame, the packet in transmission
// at either end, and the packet that exceeded the threshold. A configured headroom is that of the slowest
// link of a host, and grows with the speed of the link as alpha does.
func (n *Network) Headroom(link Link) int64 {
	if n.buffer.HeadroomBytes > 0 {
		return n.buffer.HeadroomBytes
	}
	ps := 2*link.DelayNS*simkernel.PSPerNS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(pauseBytes)
	return int64(float64(ps)*float64(link.BandwidthBps)/8e12) + 1 + 3*n.fullBytes
}

// A Shortfall is a switch whose buffer is too small for the default headroom of PFC, so that it drops
// packets.
type Shortfall struct {
	Node      int32
	Share     float64 // of its headroom
	LeastSafe int64   // number of bytes from which on it has all of it
}

// Shortfalls returns the switches whose buffers are too small for the headroom of all their links, in the
// order of nodes.
func (n *Network) Shortfalls() []Shortfall { return n.shortfalls }

// initPFC divides the buffers of switches. It returns an error for the first one that is too small. If a
// buffer is too small for the default headroom, half of what the reserves leave becomes headroom. Such a
// switch drops packets that arrive after a pause.
func (n *Network) initPFC() error {
	n.pausers = make([]pauser, len(n.links)*len(n.classes))
	needs := make([]pfcNeeds, len(n.host))
	slowest := n.slowestHostLink()
	for l := range n.links {
		faster := max(1, float64(n.links[l].BandwidthBps)/float64(slowest))
		for i := range n.classes {
			u := &n.pausers[(l^1)*len(n.classes)+i] // at the port of the other direction
			n.initPauser(u, n.links[l], &n.classes[i], faster)
			needs[n.links[l].DstNode].add(u, n.classes[i].Lossy || n.buffer.XOFFBytes == 0)
		}
	}
	share := make([]float64, len(n.host)) // of the default headroom
	n.shortfalls = nil
	for v := range n.buffers {
		var err error
		if share[v], err = n.divide(int32(v), needs[v].reserve, needs[v].headroom); err != nil {
			return err
		}
		if err := n.initPool(v, needs[v].alpha); err != nil {
			return err
		}
	}
	for i := range n.pausers {
		u := &n.pausers[i]
		u.headroom = int64(float64(u.headroom) * share[n.links[i/len(n.classes)].SrcNode])
	}
	return nil
}

// pfcNeeds are the needs of PFC for buffer space at a node.
type pfcNeeds struct {
	reserve, headroom int64
	alpha             float64 // the least of dynamic thresholds; 0: there are none
}

func (x *pfcNeeds) add(u *pauser, dynamic bool) {
	x.reserve += u.reserve
	x.headroom += u.headroom
	if dynamic && (x.alpha == 0 || u.alpha < x.alpha) {
		x.alpha = u.alpha
	}
}

func (n *Network) slowestHostLink() int64 {
	slowest := int64(never)
	for _, link := range n.links {
		if n.host[link.SrcNode] {
			slowest = min(slowest, link.BandwidthBps)
		}
	}
	return slowest
}

// initPauser sets the shares of packets of a class that arrive over a link. factor is the ratio of the link's
// speed to that of the slowest link of a host.
func (n *Network) initPauser(u *pauser, link Link, c *Class, faster float64) {
	u.alpha = n.alphaOf(c)
	if c.Lossy {
		return
	}
	u.alpha *= faster
	u.reserve = cmp.Or(n.buffer.ReservedBytes, pfcReserve)
	u.headroom = n.Headroom(link)
	if n.buffer.HeadroomBytes > 0 {
		u.headroom = int64(float64(u.headroom) * faster)
	}
}

// initPool checks the shared pool of a node, and sets the number of its bytes that are always free. alpha is
// the smallest of its dynamic thresholds, or 0.
func (n *Network) initPool(v int, alpha float64) error {
	b := &n.buffers[v]
	if !n.host[v] {
		if n.buffer.XOFFBytes > b.poolBytes {
			return &PlaceError{v, -1,
				fmt.Errorf("xoff is %d bytes, more than the pool of %d that reserve and headroom leave",
					n.buffer.XOFFBytes, b.poolBytes)}
		}
		most := n.leastLossyAlpha() * float64(b.poolBytes)
		if most < float64(n.fullBytes) {
			return &PlaceError{v, -1,
				fmt.Errorf("classes without pfc have %.0f bytes of the shared pool, which never admits a packet of %d",
					most, n.fullBytes)}
		}
	}
	b.freeBytes = min(b.poolBytes, cmp.Or(n.buffer.XOFFBytes, b.poolBytes)) - 1
	if alpha != 0 {
		b.freeBytes = min(b.freeBytes, int64(loneQueue(alpha, b.poolBytes))-1)
	}
	return nil
}

// leastLossyAlpha returns the smallest alpha of classes without PFC, or infinity if there are none.
func (n *Network) leastLossyAlpha() float64 {
	least := math.Inf(1)
	for i := range n.classes {
		if n.classes[i].Lossy {
			least = min(least, n.alphaOf(&n.classes[i]))
		}
	}
	return least
}

// divide sets the pool of a node from the total reserve and headroom of its links, and returns the share of
// the headroom that fits.
func (n *Network) divide(v int32, reserve, headroom int64) (share float64, err error) {
	left := n.buffer.SwitchBytes - reserve
	safe := reserve + headroom + n.fullBytes
	least := safe
	pool := left - headroom
	share = 1
	if n.buffer.HeadroomBytes == 0 {
		least = min(safe, reserve+2*n.fullBytes)
	}
	if n.buffer.SwitchBytes >= least && pool < n.fullBytes {
		share = float64(left/2) / float64(headroom)
		pool = left - left/2
		if !n.host[v] {
			n.shortfalls = append(n.shortfalls, Shortfall{v, share, safe})
		}
	}
	n.buffers[v].poolBytes = pool
	if !n.host[v] && pool < n.fullBytes {
		err = &PlaceError{int(v), -1,
			fmt.Errorf("buffer is %d bytes, %d are the least, and with %d PFC drops nothing: the ports' %d bytes of "+
				"reserve and PFC headroom leave no packet", n.buffer.SwitchBytes, least, safe,
				reserve+headroom)}
	}
	return share, err
}

// pfcThreshold returns the threshold of a link's part of the pool, of which freeBytes are free.
func (n *Network) pfcThreshold(u *pauser, freeBytes int64) float64 {
	if n.buffer.XOFFBytes > 0 {
		return float64(n.buffer.XOFFBytes)
	}
	return u.alpha * float64(freeBytes)
}

// crosses reports whether a packet that is counted now can pause its sender or lack room. The counts may
// include packets that have left, so it may report true in other cases, too.
func (n *Network) crosses(b *buffer, u *pauser, bytes int64) bool {
	part := max(0, u.bytes+bytes-u.reserve)
	free := b.poolBytes - b.sharedBytes + u.poolPart() - part
	return part > 0 && (free < 0 || u.reserve == 0 || float64(part) >= n.pfcThreshold(u, free))
}

// takeIn counts a packet that arrives at a switch's port with PFC. It returns false if there is no room.
func (x *pausing) takeIn(b *buffer, p *port, a *calendar.Arrival, bytes int64) bool {
	d := x.domain
	n := d.net
	class := d.classOf(&a.Item)
	u := x.pauserOf(a.Link^1, class)
	if b.pausing > 0 || n.crosses(b, u, bytes) {
		d.buffers.serveActive(a.AtPS)
		x.settleLeaving(b)
	}
	part := max(0, u.bytes+bytes-u.reserve)
	free := b.poolBytes - b.sharedBytes
	if n.classes[class].Lossy {
		fits := bytes <= free && float64(p.classes.queues[class].heldBytes+bytes) <= u.alpha*float64(free)
		if fits {
			b.add(u, bytes)
		}
		return fits
	}
	switch above := float64(part) > n.pfcThreshold(u, free) || part-u.poolPart() > free; {
	case part == 0 || !above:
		b.add(u, bytes)
	case u.headBytes+bytes <= u.headroom:
		u.headBytes += bytes
	default:
		return false
	}
	part = u.poolPart()
	free = b.poolBytes - b.sharedBytes
	if !u.pausing && (u.headBytes > 0 || part > 0 && float64(part) >= n.pfcThreshold(u, free)) {
		u.pausing = true
		b.pausing++
		x.signal(a.Link^1, calendar.Toggle{AtPS: a.AtPS, Class: class, Pause: true})
	}
	return true
}

// signal sends a toggle to the sender over the other direction of a link.
func (x *pausing) signal(link int32, t calendar.Toggle) {
	d := x.domain
	p := &d.net.ports[d.net.portOf[link]]
	u := x.pauserOf(link, t.Class)
	k := p.kind
	// the port may have been served to another time
	if d.paths != nil && d.paths.net.failures.RatesOf(link) != nil {
		k = d.paths.kindAt(link, t.AtPS)
	}
	u.toldPS = max(u.toldPS, t.AtPS+k.wire.PS(pauseBytes)+k.delayPS)
	t.AtPS = u.toldPS
	d.forward(k.far, calendar.Arrival{Item: calendar.PauseFrame(t), Port: d.net.portOf[link^1], Link: p.link})
}

// leaves counts a packet that leaves a switch. It does so when the order of events is known (settleLeaving),
// or immediately if no sender can be paused. back is the other direction of the link on which the packet
// arrived.
func (x *pausing) leaves(node, back int32, it *calendar.Item, bytes, nowPS int64) {
	d := x.domain
	if x.merging {
		x.leaving = append(x.leaving, leaving{nowPS, bytes, back, d.classOf(it)})
		return
	}
	d.net.buffers[node].remove(x.pauserOf(back, d.classOf(it)), bytes)
}

// settleLeaving counts departures, in order of time, and resumes senders.
func (x *pausing) settleLeaving(b *buffer) {
	d := x.domain
	left := x.leaving
	slices.SortFunc(left, func(x, y leaving) int {
		return cmp.Or(cmp.Compare(x.atPS, y.atPS), cmp.Compare(x.back, y.back))
	})
	for len(left) > 0 {
		k := 0
		for ; k < len(left) && left[k].atPS == left[0].atPS; k++ {
			b.remove(x.pauserOf(left[k].back, left[k].class), left[k].bytes)
		}
		for _, l := range left[:k] {
			u := x.pauserOf(l.back, l.class)
			part := u.poolPart()
			free := b.poolBytes - b.sharedBytes
			if u.pausing && u.headBytes == 0 &&
				(part == 0 || float64(part+pfcHysteresis) <= d.net.pfcThreshold(u, free)) {
				u.pausing = false
				b.pausing--
				x.signal(l.back, calendar.Toggle{AtPS: l.atPS, Class: l.class, Pause: false})
			}
		}
		left = left[k:]
	}
	x.leaving = x.leaving[:0]
}

// takeToggles is the part of runWindow that depends on PFC. It passes arriving pauses to ports, and returns
// the other arrivals.
func (x *pausing) takeToggles(arrivals []calendar.Arrival, work *calendar.PortSet) []calendar.Arrival {
	d := x.domain
	some := false
	for i := range arrivals {
		a := &arrivals[i]
		if a.IsPause() {
			at := a.Port - d.low
			p := &d.ports[at]
			u := x.pauserOf(p.link, 0)
			u.toggles = append(u.toggles, a.PauseOf())
			slices.SortStableFunc(u.toggles, func(x, y calendar.Toggle) int { return cmp.Compare(x.AtPS, y.AtPS) })
			x.setNextPause(p)
			work.Add(at)
			some = true
		}
	}
	if some {
		arrivals = slices.DeleteFunc(arrivals, func(a calendar.Arrival) bool { return a.IsPause() })
	}
	return arrivals
}

// setNextPause sets the time of the next change of a port: a change of its rate, the begin or end of a pause,
// or a check by the watchdog.
func (x *pausing) setNextPause(p *port) {
	d := x.domain
	p.bits &^= portChanges | portPaused
	p.changeAtPS = p.rateAtPS
	t := x.pauserOf(p.link, 0).toggles
	if len(t) > 0 {
		p.changeAtPS = min(p.changeAtPS, t[0].AtPS)
	}
	for i := range d.net.classes {
		u := x.pauserOf(p.link, int32(i))
		if u.paused {
			p.bits |= portPaused
		}
		if (u.paused || u.ignores) && d.net.buffer.WatchdogNS > 0 && p.classes.queues != nil {
			p.changeAtPS = min(p.changeAtPS, u.lookPS)
		}
	}
	if p.changeAtPS != never {
		p.bits |= portChanges
	}
}

// changePauses begins and ends the pauses of a port that are due at a time.
func (x *pausing) changePauses(p *port, nowPS int64) {
	d := x.domain
	first := x.pauserOf(p.link, 0)
	for len(first.toggles) > 0 && first.toggles[0].AtPS == nowPS {
		t := first.toggles[0]
		first.toggles = first.toggles[:copy(first.toggles, first.toggles[1:])]
		u := x.pauserOf(p.link, t.Class)
		u.asked = t.Pause
		x.setPaused(p, u, t.Pause && !u.ignores, nowPS)
	}
	for i := range p.classes.queues {
		switch u := x.pauserOf(p.link, int32(i)); {
		case u.lookPS != nowPS || d.net.buffer.WatchdogNS == 0:
		case u.ignores:
			u.ignores = false
			x.setPaused(p, u, u.asked, nowPS)
		case u.paused:
			x.watch(p, u, i, nowPS)
		}
	}
	x.setNextPause(p)
}

// setPaused begins or ends a pause of a class of a port.
func (x *pausing) setPaused(p *port, u *pauser, paused bool, nowPS int64) {
	d := x.domain
	switch {
	case paused && !u.paused:
		u.sincePS = nowPS
		u.lookPS = nowPS + d.net.buffer.WatchdogNS*simkernel.PSPerNS
	case !paused && u.paused:
		u.pausedPS += nowPS - u.sincePS
		p.freePS = max(p.freePS, nowPS)
	}
	u.paused = paused
}

// watch is the check by the watchdog of a queue that has been paused for WatchdogNS: the waiting packets are
// dropped, and pauses are ignored for RestoreNS.
func (x *pausing) watch(p *port, u *pauser, class int, nowPS int64) {
	d := x.domain
	f := &p.classes.queues[class]
	if f.Empty() || f.Buf[f.Head].AtPS > nowPS {
		u.lookPS += d.net.buffer.WatchdogNS * simkernel.PSPerNS
		return
	}
	u.storms++
	x.setPaused(p, u, false, nowPS)
	u.ignores = true
	u.lookPS = nowPS + d.net.buffer.RestoreNS*simkernel.PSPerNS
	kept := f.Buf[:0]
	came := f.came[:0]
	for i, it := range f.Buf[f.Head:] {
		over := f.came[int(f.Head)+i]
		if it.Bits&calendar.FlagAck != 0 || it.AtPS > nowPS {
			kept = append(kept, it)
			came = append(came, over)
			continue
		}
		bytes := d.wireBytes(&it)
		d.buffers.drop(p, &it)
		d.buffers.hold(&d.net.buffers[p.node], p, &it, -bytes, nowPS)
		x.leaves(p.node, over^1, &it, bytes, nowPS)
	}
	f.Buf = kept
	f.came = came
	f.Head = 0
	f.Arrived = 0
	f.leftBytes = 0
	d.net.emptied(p.classes, class)
}

// deadlock returns the error for flows that do not finish with PFC.
func (n *Network) deadlock(flows int64) error {
	var links []int32
	for l := range n.links {
		p := &n.ports[n.portOf[l]]
		if p.bits&portPaused != 0 && p.classes.queues != nil {
			links = append(links, int32(l))
		}
	}
	return fmt.Errorf("%d flows never end: the pauses of links %v between switches wait for each other in a "+
		"circle (a watchdog would drop packets there)", flows, links)
}

// PausedNS returns the total time for which the classes of the sending end of a link were paused, after Run.
func (n *Network) PausedNS(link int32) (ns int64) {
	for i := range n.classes {
		ns += n.PausedOf(link, i)
	}
	return ns
}

// PausedOf is PausedNS for one class.
func (n *Network) PausedOf(link int32, class int) int64 {
	if n.pausers == nil {
		return 0
	}
	return n.pausers[int(link)*len(n.classes)+class].pausedPS / simkernel.PSPerNS
}
