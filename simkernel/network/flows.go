package network

import (
	"fmt"
	"math/bits"

	"parsimon/simkernel"
)

// MaxHops is the most links that a path in a Network can have. It bounds the memory per flow.
const MaxHops = 250

// netHop is the state of a flow at one hop. A flow with H hops has H + 1 of them: data that waits for hop h is at
// entry h, delivered data at H; its ACK starts at H, waits for the reverse of hop h at entry h + 1, and
// reaches the host at 0.
type netHop struct {
	waitPS   int64 // sum of its packets' waits for this hop
	forward  int32 // port that data is sent to from here
	backward int32 // port that an ACK is sent to from here
}

// netSender is the sending end of a flow.
type netSender struct {
	dctcp       simkernel.DCTCPSender
	external    *externalSender    // nil if the embedded dctcp is used
	gap         simkernel.WireTime // pacing time per byte at the present rate
	sizeBytes   int64
	sentBytes   int64
	ackedBytes  int64
	windowBytes int64 // at the present rate
	place       int32 // index of netNIC.places
}

// netFlowTable holds the flows in the network by slot. A slot is taken when its flow starts and freed when its
// last ACK is received, both between windows. During a window each entry has one owner: senders the source's
// domain, undelivered the destination's, hops[...].waitPS, lastPS and marks that of the hop's port. Everything else
// only changes between windows.
type netFlowTable struct {
	senders     []netSender
	undelivered []int64 // bytes not delivered yet
	rows        []int64 // the flow's row in the workload, which is its rank in the start order
	startPS     []int64
	idealNS     []int64
	hopsOf      []int32
	shift       uint // of the slices below: a flow's entries begin at slot << shift
	hops        []netHop
	lastPS      []int64  // wait of the flow's last packet for that hop
	marks       []int32  // number of the flow's packets that the hop marked
	crossed     []uint32 // random marks, telemetry: number of the flow's packets sent on that hop
	keys        []uint64 // of flows, in random marks
	kind        simkernel.Transport
	unused      []int32
}

func (t *netFlowTable) init(kind simkernel.Transport) { t.shift, t.kind = 3, kind }

// arrivalLink returns the link that an item in a queue came over, and for a flow start its row, counted from where
// links end.
func (t *netFlowTable) arrivalLink(it *netItem) int64 {
	hop := int(it.hop) & (1<<t.shift - 1)
	switch {
	case it.flags&netStart != 0:
		return 1<<32 + t.rows[it.hop>>t.shift]
	case it.flags&netAck != 0 && hop == 0:
		return int64(t.hops[it.hop+1].backward ^ 1)
	case it.flags&netAck != 0:
		return int64(t.hops[it.hop-1].forward ^ 1)
	case hop == 1:
		return int64(t.hops[it.hop].backward)
	default:
		return int64(t.hops[it.hop-2].forward)
	}
}

func (t *netFlowTable) live() int { return len(t.rows) - len(t.unused) }

// take returns a free slot.
func (t *netFlowTable) take() int32 {
	if k := len(t.unused); k > 0 {
		slot := t.unused[k-1]
		t.unused = t.unused[:k-1]
		return slot
	}
	slot := int32(len(t.rows))
	s := netSender{}
	if !t.kind.Traits().Embedded {
		s.external = &externalSender{Sender: simkernel.NewSender(t.kind)}
	}
	t.senders = append(t.senders, s)
	t.keys = append(t.keys, 0)
	t.undelivered = append(t.undelivered, 0)
	t.rows = append(t.rows, 0)
	t.startPS = append(t.startPS, 0)
	t.idealNS = append(t.idealNS, 0)
	t.hopsOf = append(t.hopsOf, 0)
	t.hops = append(t.hops, make([]netHop, 1<<t.shift)...)
	t.lastPS = append(t.lastPS, make([]int64, 1<<t.shift)...)
	t.marks = append(t.marks, make([]int32, 1<<t.shift)...)
	t.crossed = append(t.crossed, make([]uint32, 1<<t.shift)...)
	return slot
}

// widen makes space for longer paths. Every item in the network refers to an entry of hops, so all are changed.
func (n *Network) widen(shift uint) {
	t := &n.flows
	hops := make([]netHop, len(t.rows)<<shift)
	lastPS := make([]int64, len(t.rows)<<shift)
	marks := make([]int32, len(t.rows)<<shift)
	crossed := make([]uint32, len(t.rows)<<shift)
	for s := range t.rows {
		copy(hops[s<<shift:], t.hops[s<<t.shift:(s+1)<<t.shift])
		copy(lastPS[s<<shift:], t.lastPS[s<<t.shift:(s+1)<<t.shift])
		copy(marks[s<<shift:], t.marks[s<<t.shift:(s+1)<<t.shift])
		copy(crossed[s<<shift:], t.crossed[s<<t.shift:(s+1)<<t.shift])
	}
	move := func(it *netItem) { it.hop = it.hop>>t.shift<<shift + it.hop&(1<<t.shift-1) }
	for i := range n.ports {
		p := &n.ports[i]
		for _, r := range []*netRing{&p.rings[0], &p.rings[1], &p.transit} {
			for k := r.head; k != r.tail; k++ {
				move(r.at(k))
			}
		}
	}
	for i := range n.domains {
		for _, boxes := range n.domains[i].outbox { // items that have been read already are changed needlessly
			for _, box := range boxes {
				for k := range box {
					move(&box[k].item)
				}
			}
		}
	}
	t.hops, t.lastPS, t.marks, t.crossed, t.shift = hops, lastPS, marks, crossed, shift
}

func (t *netFlowTable) free(slot int32) { t.unused = append(t.unused, slot) }

// result appends a finished flow's row.
func (t *netFlowTable) result(f netFinish, r *Results) {
	r.Row = append(r.Row, t.rows[f.slot])
	r.FCTNS = append(r.FCTNS, simkernel.CeilNS(f.atPS-t.startPS[f.slot]))
	r.IdealNS = append(r.IdealNS, t.idealNS[f.slot])
	base := int(f.slot) << t.shift
	for h := base; h < base+int(t.hopsOf[f.slot]); h++ {
		r.WaitNS = append(r.WaitNS, t.hops[h].waitPS/simkernel.PSPerNS)
		r.LastWaitNS = append(r.LastWaitNS, t.lastPS[h]/simkernel.PSPerNS)
		r.Marks = append(r.Marks, t.marks[h])
	}
	r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
}

// pathOf returns the path of row i of a chunk, which must be the next flow, and validates the row.
func (n *Network) pathOf(c *Flows, i int) ([]int32, error) {
	begin := int32(0)
	if i > 0 {
		begin = c.PathEnds[i-1]
	}
	end := c.PathEnds[i]
	if begin > end || int(end) > len(c.PathLinks) {
		return nil, fmt.Errorf("flow row %d: its path is rows %d to %d of %d", n.rows, begin, end, len(c.PathLinks))
	}
	path, size := c.PathLinks[begin:end], c.SizeBytes[i]
	if err := n.checkPath(path); err != nil {
		return nil, fmt.Errorf("flow row %d: %w", n.rows, err)
	}
	slowest := n.links[path[0]].BandwidthBps
	for _, l := range path {
		slowest = min(slowest, n.links[l].BandwidthBps)
	}
	wire := float64(size) * (1 + float64(n.params.HeaderBytes)/float64(n.params.PayloadBytes))
	if size < 1 || wire*8e12/float64(slowest) > netHorizonPS/2 {
		return nil, fmt.Errorf("flow row %d: size_bytes is %d, must be above 0 and take under 13 days at %d bps",
			n.rows, size, slowest)
	}
	return path, nil
}

// admit starts the next pending flow: it takes a slot and sends the start to the source's NIC.
func (n *Network) admit() error {
	c, i := n.pending, n.next
	path, err := n.pathOf(c, i)
	if err != nil {
		return err
	}
	size, startNS := c.SizeBytes[i], c.StartNS[i]
	n.ideal.Reset(&n.params)
	for _, l := range path {
		n.ideal.Add(n.links[l].BandwidthBps, n.links[l].DelayNS)
	}

	t := &n.flows
	if shift := uint(bits.Len(uint(len(path)))); shift > t.shift {
		n.widen(shift)
	}
	slot := t.take()
	t.undelivered[slot], t.rows[slot], t.startPS[slot] = size, n.rows, startNS*simkernel.PSPerNS
	t.idealNS[slot], t.hopsOf[slot] = n.ideal.FCTNS(size), int32(len(path))
	base := int(slot) << t.shift
	hops, after := t.hops[base:][:len(path)+1], path[0]
	for h, l := range path {
		hops[h].waitPS, hops[h].forward = 0, l^1
		if h > 0 {
			hops[h-1].forward = l
		}
		hops[h+1].backward = after
		after = l ^ 1
	}
	clear(t.lastPS[base:][:len(path)])
	clear(t.marks[base:][:len(path)])
	clear(t.crossed[base:][:len(path)])
	if t.keys[slot] = uint64(n.rows); c.Key != nil {
		t.keys[slot] = c.Key[i]
	}
	s := &t.senders[slot]
	*s = netSender{sizeBytes: size, external: s.external}
	first := &n.ports[path[0]]
	lineBps := float64(n.links[path[0]].BandwidthBps)
	if s.external != nil {
		s.external.start(&n.params, lineBps, len(path))
		if n.params.Transport.HasTelemetry() {
			s.external.makeTelemetry(&n.params, size, path, n.links)
		}
	}
	s.dctcp.Start(&n.params, lineBps, len(path))
	s.gap = first.wire
	s.windowBytes = s.dctcp.Window(&n.params)

	n.domains[first.domain].deliver(path[0], netItem{atPS: startNS * simkernel.PSPerNS, hop: int32(base),
		flags: netAck | netStart})
	n.rows++
	n.lastNS = startNS
	n.next++
	return nil
}
