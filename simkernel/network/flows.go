package network

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// MaxHops is the most links that a path in a Network can have. It bounds the memory per flow.
const MaxHops = 250

// A hop is what a packet needs to know at one hop of its flow's path. A flow with H hops has H + 1 of them: data that
// waits for hop h is at entry h, delivered data at H; its ACK starts at H, waits for the reverse of hop h at entry
// h + 1, and reaches the host at 0. Nothing changes them while the flow lives: all workers read them.
type hop struct {
	to   [2]int32 // port that data (forward) or an ACK (backward) is sent to from here
	flow int32    // its slot
	last uint32   // bytes on the wire of the flow's last packet × MaxClasses, and its class
}

func (h *hop) lastWire() int64 { return int64(h.last / MaxClasses) }

const forward, backward = 0, 1 // backward is flagAck

// A hopStat counts what a flow's packets met at one hop. Its owner is the domain of the hop's port.
type hopStat struct {
	waitPS   uint64 // sum of its packets' waits for this hop, modulo 2^64
	waitHigh uint32 // and the bits above
	marks    int32  // number of its packets that the hop marked
}

// addWait adds the wait of a packet.
func (s *hopStat) addWait(waitPS int64) {
	sum, carry := bits.Add64(s.waitPS, uint64(waitPS), 0)
	s.waitPS = sum
	s.waitHigh += uint32(carry)
}

// waitNS returns the sum of the waits in whole ns, or the largest int64 if that is less.
func (s *hopStat) waitNS() int64 {
	if s.waitHigh >= simkernel.PSPerNS/2 {
		return math.MaxInt64
	}
	ns, _ := bits.Div64(uint64(s.waitHigh), s.waitPS, simkernel.PSPerNS)
	return int64(ns)
}

// flowInfo is what is known of a flow when it starts.
type flowInfo struct {
	row      int64 // its row in the workload, which is its rank in the start order
	startPS  int64
	idealNS  int64
	key      uint64 // in random marks
	firstHop int32
	hops     int32
	domain   int32 // of its source
	tag      int32
}

// A sender is the sending end of a flow. Its owner is the domain of its host.
type sender struct {
	sizeBytes   int64
	sentBytes   int64 // with recovery: before the next packet to send
	ackedBytes  int64
	windowBytes int64              // at the present rate
	gap         simkernel.WireTime // pacing time per byte at the present rate
	external    *externalSender    // nil if dctcp is used
	next        uint32             // number of the next packet
	place       int32              // index of ring.places
	class       int32
	firstHop    int32 // that of flowInfo
	dctcp       simkernel.DCTCPSender
}

// hopUnit: the entries of a flow begin at a multiple of it. Those of one cache line of stats are mostly of one domain.
const hopUnit = 4

// A flowTable holds the flows in the network. Slots and hop entries belong to the source's domain, which takes them
// when a flow starts and frees them when its last ACK is received. The slices grow between windows only.
type flowTable struct {
	senders []sender // by slot
	info    []flowInfo
	hops    []hop // by hop entry
	stats   []hopStat
	lastPS  []int64 // wait of the flow's last packet for that hop
}

// count counts the wait of a packet.
func (t *flowTable) count(it *item, waitPS int64) {
	t.stats[it.hop].addWait(waitPS)
	if it.bits&flagLast != 0 {
		t.lastPS[it.hop] = waitPS
	}
}

// A flowPool is the free part of the flow table that a domain may take.
type flowPool struct {
	slots   []int32
	hops    [MaxHops/hopUnit + 2][]int32 // first entries of free blocks, by length / hopUnit
	low, hi int32                        // entries that were never used
	live    int64

	starting  []*newFlow // flows of its hosts that start in this epoch
	needUnits int        // of hop entries, for them
}

// units returns how many units of hop entries a path takes.
func units(hops int) int { return (hops + hopUnit) / hopUnit } // one entry more than hops, rounded up

// reserve makes room for the flows that start in the next epoch.
func (n *Network) reserve(pool *flowPool) {
	t, count := &n.flows, len(pool.starting)
	for len(pool.slots) < count {
		add := max(64, count-len(pool.slots))
		for i := range add {
			pool.slots = append(pool.slots, int32(len(t.info)+add-1-i))
		}
		t.senders = append(t.senders, make([]sender, add)...)
		t.info = append(t.info, make([]flowInfo, add)...)
		if n.recovery != nil {
			n.recovery.flows = append(n.recovery.flows, make([]recoveryFlow, add)...)
			n.recovery.receivers = append(n.recovery.receivers, make([]receiver, add)...)
		}
	}
	if int(pool.hi-pool.low) < pool.needUnits*hopUnit {
		add := max(1024, pool.needUnits*hopUnit)
		if int(pool.hi) != len(t.hops) {
			pool.low = int32(len(t.hops)) // what is left of the old region is lost
		}
		t.hops = append(t.hops, make([]hop, add)...)
		t.stats = append(t.stats, make([]hopStat, add)...)
		t.lastPS = append(t.lastPS, make([]int64, add)...)
		pool.hi = int32(len(t.hops))
	}
	pool.needUnits = 0
}

// admit starts a flow: it takes a slot and sends the start to the source's NIC.
func (d *domain) admit(f *newFlow) {
	n, pool, path := d.net, &d.pool, f.path
	t := &n.flows
	slot := pool.slots[len(pool.slots)-1]
	pool.slots = pool.slots[:len(pool.slots)-1]
	u := units(len(path))
	var base int32
	if free := pool.hops[u]; len(free) > 0 {
		base = free[len(free)-1]
		pool.hops[u] = free[:len(free)-1]
	} else {
		base = pool.low
		pool.low += int32(u * hopUnit)
	}
	pool.live++
	t.info[slot] = flowInfo{row: f.row, startPS: f.startPS, idealNS: f.idealNS, key: f.key, firstHop: base,
		hops: int32(len(path)), domain: d.id, tag: f.tag}
	last := uint32(n.params.LastBytes(f.size)*MaxClasses) + uint32(f.class)
	for h := range len(path) + 1 {
		ahead, back := path[len(path)-1]^1, path[0]
		if h+1 < len(path) {
			ahead = path[h+1]
		}
		if h > 1 {
			back = path[h-2] ^ 1
		}
		t.hops[int(base)+h] = hop{[2]int32{n.portOf[ahead], n.portOf[back]}, slot, last}
	}
	clear(t.stats[base:][:len(path)])
	clear(t.lastPS[base:][:len(path)])
	d.startSender(slot, f)
	if n.recovery != nil {
		n.recovery.start(slot, f)
	}
	d.insert(arrival{item{f.startPS, base, flagAck | flagStart}, n.portOf[path[0]], startLink})
}

// startSender sets up the sender of a new flow.
func (d *domain) startSender(slot int32, f *newFlow) {
	n := d.net
	s := &n.flows.senders[slot]
	*s = sender{sizeBytes: f.size, external: s.external, class: f.class,
		firstHop: n.flows.info[slot].firstHop}
	if !n.traits.Embedded {
		if s.external == nil {
			s.external = &externalSender{Sender: simkernel.NewSender(n.params.Transport)}
			s.external.tcp, _ = s.external.Sender.(*simkernel.TCP)
		}
		s.external.start(&n.params, f.limits)
		if d.telemetry {
			s.external.startTelemetry(&n.params, f.size, f.path)
		}
	}
	s.dctcp.Start(&n.params, f.limits)
	s.gap = simkernel.NewWireTime(f.limits.LineBps)
	s.windowBytes = s.dctcp.Window()
	if d.clocked {
		s.gap = 0
	}
}

// free frees a flow of this domain. Nothing of it is left in the network.
func (d *domain) free(slot int32) {
	info := &d.net.flows.info[slot]
	u := units(int(info.hops))
	d.pool.hops[u] = append(d.pool.hops[u], info.firstHop)
	d.pool.slots = append(d.pool.slots, slot)
	d.pool.live--
}

// Flows is a chunk of the workload, one row per flow, in start order within and across chunks. The links of
// flow i's path are PathLinks[PathEnds[i-1]:PathEnds[i]] (from 0 for the first flow), from the source's uplink to
// the link that ends at the destination. A Network does not keep or change a chunk.
type Flows struct {
	SizeBytes []int64
	StartNS   []int64
	PathEnds  []int32
	PathLinks []int32
	Key       []uint64 // identifies the flow in random marks, together with Params.Seed; nil: its row
	Class     []uint8  // index of the classes of Classify; nil: 0
	Tag       []int32  // for the caller, in Results; nil: 0

	// With Network.WaitFor flow i starts DelayNS[k] after the delivery of the flow in row After[k] of the workload, for k
	// in AfterEnds[i-1]:AfterEnds[i], and not before StartNS; nil: flows wait for none. A flow of 0 bytes without a path
	// is a compute step. No flow of this chunk or a later one waits for a row below KeepRow; none starts before a flow in
	// row HeldBy or a later one has ended, so that the chunk is not read before. 0 is right for both.
	After, DelayNS  []int64
	AfterEnds       []int32
	KeepRow, HeldBy int64
}

// A newFlow is a checked row of the workload.
type newFlow struct {
	row       int64
	startPS   int64
	size      int64
	idealNS   int64
	key       uint64
	timeoutPS int64 // with recovery
	lowPS     int64 // with IRN
	nackPS    int64 // with recovery: from one NACK for a packet to the next
	limits    simkernel.Limits
	path      []int32 // empty: a compute step
	class     int32
	tag       int32
	after     []after
	waits     int // for so many flows that have not ended, once it is read
}

// A batch is a checked chunk of the workload. After the one with err, or last, there is none.
type batch struct {
	flows []newFlow
	err   error
	last  bool

	keepRow, heldBy int64
}

// ends reports whether there is no batch after it.
func (b *batch) ends() bool { return b.err != nil || b.last }

// batchesAhead is how many batches the feed prepares ahead of the simulation.
const batchesAhead = 3

// A feed reads and checks the workload beside the simulation.
type feed struct {
	net     *Network
	rows    int64
	lastNS  int64
	ideal   simkernel.IdealPath
	batches chan *batch
}

// run sends batches until the workload ends, a row is invalid, or stop is closed.
func (f *feed) run(stop <-chan struct{}) {
	for {
		b := f.next()
		select {
		case f.batches <- b:
		case <-stop:
			return
		}
		if b.ends() {
			return
		}
	}
}

func (f *feed) next() *batch {
	c, err := f.net.more()
	if err != nil || c == nil {
		return &batch{err: err, last: true}
	}
	rows := len(c.StartNS)
	if rows != len(c.SizeBytes) || rows != len(c.PathEnds) || c.Key != nil && rows != len(c.Key) ||
		c.Class != nil && rows != len(c.Class) || c.Tag != nil && rows != len(c.Tag) ||
		c.AfterEnds != nil && rows != len(c.AfterEnds) {
		return &batch{err: fmt.Errorf("flow columns differ in length: %d starts, %d sizes, %d paths", rows,
			len(c.SizeBytes), len(c.PathEnds))}
	}
	b := &batch{flows: make([]newFlow, 0, rows), keepRow: c.KeepRow, heldBy: min(c.HeldBy, f.rows-1)}
	links := slices.Clone(c.PathLinks)
	for i := range rows {
		if err := f.add(b, c, links, i); err != nil {
			b.err = fmt.Errorf("flow row %d: %w", f.rows, err)
			return b
		}
	}
	return b
}

// add checks row i of a chunk with these links of paths, which must be the next flow, and appends it to the batch.
func (f *feed) add(b *batch, c *Flows, links []int32, i int) error {
	n := f.net
	startNS, size := c.StartNS[i], c.SizeBytes[i]
	switch {
	case startNS < 0 || startNS > MaxNS:
		return fmt.Errorf("start_ns is %d, must be 0 to 13 days", startNS)
	case startNS < f.lastNS:
		return fmt.Errorf("start_ns is %d, before the flow above it (%d)", startNS, f.lastNS)
	}
	begin := int32(0)
	if i > 0 {
		begin = c.PathEnds[i-1]
	}
	end := c.PathEnds[i]
	if begin < 0 || begin > end || int(end) > len(links) {
		return fmt.Errorf("its path is rows %d to %d of %d", begin, end, len(links))
	}
	path := links[begin:end]
	if size == 0 && len(path) == 0 && n.frontier != nil {
		return f.append(b, c, i, newFlow{row: f.rows, startPS: startNS * simkernel.PSPerNS})
	}
	if err := n.checkPath(path); err != nil {
		return err
	}
	slowest := n.links[path[0]].BandwidthBps
	f.ideal.Reset(&n.params)
	for _, l := range path {
		slowest = min(slowest, n.links[l].BandwidthBps)
		f.ideal.Add(n.links[l].BandwidthBps, n.links[l].DelayNS)
	}
	wire := float64(size) * (1 + float64(n.params.HeaderBytes)/float64(n.params.PayloadBytes))
	if size < 1 || wire*8e12/float64(slowest) > horizonPS/2 {
		return fmt.Errorf("size_bytes is %d, must be above 0 and take under 13 days at %d bps", size, slowest)
	}
	flow := newFlow{row: f.rows, startPS: startNS * simkernel.PSPerNS, size: size, idealNS: f.ideal.FCTNS(size),
		key: uint64(f.rows), path: path,
		limits: n.params.Limits(float64(n.links[path[0]].BandwidthBps), f.ideal.Path())}
	if n.traits.AckClocked { // the timeout before the first sample
		flow.limits.RoundTripNS = f.ideal.Path().RoundTripNS
	}
	if c.Key != nil {
		flow.key = c.Key[i]
	}
	if c.Class != nil {
		if flow.class = int32(c.Class[i]); int(flow.class) >= max(1, len(n.classes)) {
			return fmt.Errorf("its class is %d, of %d", flow.class, len(n.classes))
		}
	}
	if n.recovery != nil {
		if err := n.recovery.check(size); err != nil {
			return err
		}
		roundTripNS := f.ideal.Path().RoundTripNS
		flow.timeoutPS, flow.nackPS = n.timeoutPS(path), max(nackEveryNS, roundTripNS)*simkernel.PSPerNS
		if n.irn {
			flow.lowPS = max(irnLowNS, 3*roundTripNS) * simkernel.PSPerNS
		}
	}
	return f.append(b, c, i, flow)
}

// append appends a checked row to the batch.
func (f *feed) append(b *batch, c *Flows, i int, flow newFlow) error {
	if err := f.addAfter(c, i, &flow); err != nil {
		return err
	}
	if c.Tag != nil {
		flow.tag = c.Tag[i]
	}
	b.flows = append(b.flows, flow)
	f.rows++
	f.lastNS = c.StartNS[i]
	return nil
}

var errPathEmpty = errors.New("the path is empty")

// checkPath checks that a path leads from a host over adjacent links and switches to a host.
func (n *Network) checkPath(path []int32) error {
	if len(path) == 0 {
		return errPathEmpty
	}
	if len(path) > MaxHops {
		return fmt.Errorf("the path has %d hops, at most %d can be simulated", len(path), MaxHops)
	}
	for i, l := range path {
		if l < 0 || int(l) >= len(n.links) {
			return fmt.Errorf("hop %d is link %d, links are 0 to %d", i, l, len(n.links)-1)
		}
		link := n.links[l]
		if i == 0 && !n.host[link.SrcNode] {
			return fmt.Errorf("the path starts at node %d, which is no host", link.SrcNode)
		}
		if i > 0 && n.links[path[i-1]].DstNode != link.SrcNode {
			return fmt.Errorf("hop %d starts at node %d, but hop %d ends at node %d", i, link.SrcNode, i-1,
				n.links[path[i-1]].DstNode)
		}
		if last := i == len(path)-1; n.host[link.DstNode] != last {
			if last {
				return fmt.Errorf("the path ends at node %d, which is no host", link.DstNode)
			}
			return fmt.Errorf("hop %d ends at host %d before the path does: hosts do not forward", i, link.DstNode)
		}
	}
	return nil
}
