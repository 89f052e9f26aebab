package simkernel

import (
	"fmt"
	"math/bits"
)

// netMaxHops bounds the hops of a path, and with it the memory of a flow.
const netMaxHops = 250

// netHop is what a port needs to know of a flow at one hop.
type netHop struct {
	waitPS   int64 // sum of its packets' waits here so far
	forward  int32 // port that a data packet goes to after this hop
	backward int32 // port that an ACK goes to after the reverse of this hop
}

// netSender is the sending end of a flow.
type netSender struct {
	dctcp
	gap         wireTime // pacing time per byte at the present rate
	sizeBytes   int64
	sentBytes   int64
	ackedBytes  int64
	windowBytes int64 // at the present rate
	place       int32 // in the NIC's list
}

// netFlowTable holds the flows in the network by slot. A slot is taken when its flow starts and
// freed when its last ACK is home, both between windows. During a window each entry has one
// owner: senders the source's domain, toCome the destination's, hops[...].waitPS and lastPS the
// domain of that hop's port; everything else only changes between windows.
type netFlowTable struct {
	senders []netSender
	toCome  []int64 // bytes to be delivered yet
	rows    []int64 // the flow's row in the workload: its place in the start order
	startPS []int64
	idealNS []int64
	hopsOf  []int32
	shift   uint     // of the two below: hop h of a flow's path is at slot << shift + h
	hops    []netHop
	lastPS  []int64  // wait of the flow's last packet at that hop
	unused  []int32
}

func (t *netFlowTable) init() { t.shift = 3 }

// row is the row of the flow whose hop that is.
func (t *netFlowTable) row(hop int32) int64 { return t.rows[hop>>t.shift] }

func (t *netFlowTable) live() int { return len(t.rows) - len(t.unused) }

// take answers an unused slot with room for that many hops.
func (t *netFlowTable) take(hops int) int32 {
	if need := uint(bits.Len(uint(hops))); need > t.shift { // one more than hops: where the path ends
		panic("simkernel: flow table is too narrow")
	}
	if k := len(t.unused); k > 0 {
		slot := t.unused[k-1]
		t.unused = t.unused[:k-1]
		return slot
	}
	slot := int32(len(t.rows))
	t.senders = append(t.senders, netSender{})
	t.toCome = append(t.toCome, 0)
	t.rows = append(t.rows, 0)
	t.startPS = append(t.startPS, 0)
	t.idealNS = append(t.idealNS, 0)
	t.hopsOf = append(t.hopsOf, 0)
	t.hops = append(t.hops, make([]netHop, 1<<t.shift)...)
	t.lastPS = append(t.lastPS, make([]int64, 1<<t.shift)...)
	return slot
}

func (t *netFlowTable) free(slot int32) { t.unused = append(t.unused, slot) }

// result appends a finished flow's row.
func (t *netFlowTable) result(f netFinish, r *NetResults) {
	r.Row = append(r.Row, t.rows[f.slot])
	r.FCTNS = append(r.FCTNS, ceilNS(f.atPS-t.startPS[f.slot]))
	r.IdealNS = append(r.IdealNS, t.idealNS[f.slot])
	base := int(f.slot) << t.shift
	for h := base; h < base+int(t.hopsOf[f.slot]); h++ {
		r.WaitNS = append(r.WaitNS, t.hops[h].waitPS/psPerNS)
		r.LastWaitNS = append(r.LastWaitNS, t.lastPS[h]/psPerNS)
	}
	r.HopEnds = append(r.HopEnds, int32(len(r.WaitNS)))
}

// admit takes up the next pending flow: a slot, and a start on its way to the source's NIC.
func (n *Network) admit() error {
	c, i := n.pending, n.next
	begin := int32(0)
	if i > 0 {
		begin = c.PathEnds[i-1]
	}
	end := c.PathEnds[i]
	if begin > end || int(end) > len(c.PathLinks) {
		return fmt.Errorf("flow row %d: its path is rows %d to %d of %d", n.rows, begin, end, len(c.PathLinks))
	}
	path, size, startNS := c.PathLinks[begin:end], c.SizeBytes[i], c.StartNS[i]
	if err := n.checkPath(path); err != nil {
		return fmt.Errorf("flow row %d: %w", n.rows, err)
	}
	n.ideal.Reset(&n.params)
	slowest := n.links[path[0]].BandwidthBps
	for _, l := range path {
		n.ideal.Add(n.links[l].BandwidthBps, n.links[l].DelayNS)
		slowest = min(slowest, n.links[l].BandwidthBps)
	}
	wire := float64(size) * (1 + float64(n.params.HeaderBytes)/float64(n.params.PayloadBytes))
	if size < 1 || wire*8e12/float64(slowest) > netHorizonPS/2 {
		return fmt.Errorf("flow row %d: size_bytes is %d, must be above 0 and take under 13 days at %d bps", n.rows, size, slowest)
	}

	t := &n.flows
	slot := t.take(len(path))
	t.toCome[slot], t.rows[slot], t.startPS[slot] = size, n.rows, startNS*psPerNS
	t.idealNS[slot], t.hopsOf[slot] = n.ideal.FCTNS(size), int32(len(path))
	base := int(slot) << t.shift
	for h := range path {
		hop := netHop{forward: path[h] ^ 1, backward: path[0]}
		if h+1 < len(path) {
			hop.forward = path[h+1]
		}
		if h > 0 {
			hop.backward = path[h-1] ^ 1
		}
		t.hops[base+h], t.lastPS[base+h] = hop, 0
	}
	s := &t.senders[slot]
	*s = netSender{sizeBytes: size}
	first := &n.ports[path[0]]
	s.start(float64(n.links[path[0]].BandwidthBps))
	s.gap = first.wire
	s.windowBytes = s.window(&n.params)

	n.domains[first.domain].deliver(path[0], netItem{atPS: startNS * psPerNS, hop: int32(base), flags: netAck | netStart})
	n.rows++
	n.lastNS = startNS
	n.next++
	return nil
}
