package network

import (
	"math"
	"math/bits"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// A hop has the data that a packet needs at one hop of its flow's path. A flow with H hops has H + 1 entries.
// Data that waits for hop h is at entry h, and delivered data is at entry H. Its ACK starts at entry H, waits
// for the reverse of hop h at entry h + 1, and reaches the host at entry 0. Entries do not change while the
// flow is in the network, so that all workers can read them.
type hop struct {
	to   [2]int32 // port that data (forward) or an ACK (backward) is sent to from here
	flow int32    // its slot
	last uint32   // bytes on the wire of the flow's last packet × MaxClasses, and its class
}

func (h *hop) lastWire() int64 { return int64(h.last / MaxClasses) }

const forward, backward = 0, 1 // backward is calendar.FlagAck

// A hopStat has the counts of a flow's packets at one hop. It is owned by the domain of the hop's port.
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

// waitNS returns the sum of the waits in whole ns, or the largest int64 if the sum is larger.
func (s *hopStat) waitNS() int64 {
	if s.waitHigh >= simkernel.PSPerNS/2 {
		return math.MaxInt64
	}
	ns, _ := bits.Div64(uint64(s.waitHigh), s.waitPS, simkernel.PSPerNS)
	return int64(ns)
}

// flowInfo has the data of a flow that is known when it starts.
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

// hopUnit is the alignment of a flow's entries. With it, the entries in a cache line of stats mostly belong
// to one domain.
const hopUnit = 4

// A flowTable has the flows in the network. Slots and hop entries belong to the source's domain. The domain
// allocates them when a flow starts and frees them when the last ACK of the flow is received. The slices grow
// only between epochs.
type flowTable struct {
	senders []sender // by slot
	info    []flowInfo
	hops    []hop // by hop entry
	stats   []hopStat
	lastPS  []int64 // wait of the flow's last packet for that hop
}

// count counts the wait of a packet.
func (t *flowTable) count(it *calendar.Item, waitPS int64) {
	t.stats[it.Hop].addWait(waitPS)
	if it.Bits&calendar.FlagLast != 0 {
		t.lastPS[it.Hop] = waitPS
	}
}

// A flowPool is the free part of the flow table from which a domain allocates.
type flowPool struct {
	slots   []int32
	hops    [MaxHops/hopUnit + 2][]int32 // first entries of free blocks, by length / hopUnit
	low, hi int32                        // entries that were never used
	live    int64

	starting  []*newFlow // flows of its hosts that start in this epoch
	needUnits int        // of hop entries, for them
}

// units returns the number of units of hop entries that a path uses.
func units(hops int) int { return (hops + hopUnit) / hopUnit } // one entry more than hops, rounded up

// reserve makes room for the flows that start in the next epoch.
func (n *Network) reserve(pool *flowPool) {
	t := &n.flows
	count := len(pool.starting)
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
			pool.low = int32(len(t.hops)) // the rest of the old region is not used again
		}
		t.hops = append(t.hops, make([]hop, add)...)
		t.stats = append(t.stats, make([]hopStat, add)...)
		t.lastPS = append(t.lastPS, make([]int64, add)...)
		pool.hi = int32(len(t.hops))
	}
	pool.needUnits = 0
}

// admit starts a flow: it allocates a slot and sends the start to the source's NIC.
func (d *domain) admit(f *newFlow) {
	n := d.net
	pool := &d.pool
	path := f.path
	t := &n.flows
	slot := pool.slots[len(pool.slots)-1]
	pool.slots = pool.slots[:len(pool.slots)-1]
	u := units(len(path))
	var base int32
	free := pool.hops[u]
	if len(free) > 0 {
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
		ahead := path[len(path)-1] ^ 1
		back := path[0]
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
	d.Insert(calendar.Arrival{
		Item: calendar.Item{AtPS: f.startPS, Hop: base, Bits: calendar.FlagStart},
		Port: n.portOf[path[0]], Link: calendar.StartLink,
	})
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
		if d.traits.Telemetry {
			s.external.startTelemetry(&n.params, f.size, f.path)
		}
	}
	s.dctcp.Start(&n.params, f.limits)
	s.gap = simkernel.NewWireTime(f.limits.LineBps)
	s.windowBytes = s.dctcp.Window()
	if d.tcp != nil {
		s.gap = 0
	}
}

// free frees the slot and the entries of a flow of this domain that has no packets or ACKs left in the
// network.
func (d *domain) free(slot int32) {
	info := &d.net.flows.info[slot]
	u := units(int(info.hops))
	d.pool.hops[u] = append(d.pool.hops[u], info.firstHop)
	d.pool.slots = append(d.pool.slots, slot)
	d.pool.live--
}
