package network

import (
	"math"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// Balancing contains the settings of load balancing by switches.
type Balancing struct {
	Balance Balance
	At      []Balance // by node, instead of Balance: ECMP, Flowlet, Spray or Adaptive; nil: Balance at all
	GapNS   int64     // with Flowlet and CONGA: a longer pause of a flow at a switch begins a new flowlet
	Weights []float64 // by link: the share of the flows that choose it; nil: all equal
	// InOrder makes receivers of paced transports accept packets in order only. Senders then use go-back-N.
	InOrder bool
}

// A Balance is a method by which a switch chooses a link for a data packet.
type Balance uint8

// The balances. All except ECMP reorder packets. Receivers then accept them in any order, unless
// Balancing.InOrder is set.
const (
	// ECMP keeps a flow on its first path.
	ECMP Balance = iota
	// Flowlet chooses at random for each flowlet (LetFlow: Vanini et al., NSDI'17). The first flowlet takes
	// the first path.
	Flowlet
	// Spray uses each of the n links of a switch once in a round of n packets. Each round begins with a random
	// link. If all rounds began with the same one, senders in lockstep would each keep to one path.
	Spray
	// Adaptive chooses the link whose port would be idle first. Waits count in whole packets, and among equal
	// ports it prefers that of Spray. If waits were compared exactly, senders in lockstep would each keep to
	// one path. It counts dropped packets as sent, and assumes that a port with PFC sends nothing while any of
	// its classes is paused.
	Adaptive
	// Random chooses a random link for each packet.
	Random
	// PLB is ECMP with senders that choose another path after congested rounds and timeouts.
	PLB
	// CONGA chooses for each flowlet, at the first switch of a flow, the path with the least congestion.
	CONGA
)

// balancing is the state of Balancing.
type balancing struct {
	*Balancing
	seed    uint64
	busyPS  []int64  // Adaptive and CONGA, by port: when it will have sent all that has arrived, ACKs included
	pauses  []int32  // Adaptive and CONGA, by port: number of its classes that are paused
	sincePS []int64  // Adaptive and CONGA, by port: when the first of them was paused
	turns   []uint32 // by set of links: the number of packets that it has sprayed
	rate    []dre    // CONGA, by port
}

// A flowlet records when the last packet of a flow passed a switch, and its link.
type flowlet struct {
	atPS int64
	link int32
}

type flowletKey struct {
	row  int64
	node int32
}

// selective reports whether receivers accept packets in any order, and senders retransmit only packets that
// were not received.
func (m *paths) selective() bool {
	return m != nil && !m.InOrder && slices.ContainsFunc(m.At, func(b Balance) bool { return b != ECMP })
}

// clock returns the time up to which a port can have sent. A paused port has sent nothing since its pause
// began.
func (m *balancing) clock(port int32, nowPS int64) int64 {
	if m.pauses[port] > 0 {
		return m.sincePS[port]
	}
	return nowPS
}

// notePause counts the pauses of a port if the arrival is a pause frame.
func (m *balancing) notePause(a *calendar.Arrival) {
	if !a.IsPause() {
		return
	}
	m.utilization(a.Port, a.AtPS)
	pauses := &m.pauses[a.Port]
	if a.PauseOf().Pause {
		if *pauses == 0 {
			m.sincePS[a.Port] = a.AtPS
		}
		*pauses++
		return
	}
	*pauses--
	if *pauses == 0 {
		m.busyPS[a.Port] += a.AtPS - m.sincePS[a.Port]
	}
}

// choose returns one of the links of a set. stays is the link of the flow's first path, or -1 if the set does
// not contain it.
func (m *balancing) choose(
	d *domain, a *calendar.Arrival, info *flowInfo, set int32, links []int32, stays int32,
) int32 {
	node := d.net.links[a.Link].DstNode
	ack := a.Bits&calendar.FlagAck != 0
	label := uint64(a.Bits & d.tagMask)
	balance := m.At[node]
	switch {
	case len(links) == 1:
		return links[0]
	case !ack && (balance == Flowlet || balance == CONGA && m.congaLeaf(d, a)):
		return m.flowletLink(d, a, info, links, stays)
	case !ack && balance == PLB && label > 0:
		return m.byHash(simkernel.MixKey(info.key, label), links)
	case !ack && balance == Random:
		return links[m.hash(info.key, uint64(a.Bits&^calendar.FlagMarked), node)%uint64(len(links))]
	case ack || balance != Spray && balance != Adaptive:
		if stays >= 0 {
			return stays
		}
		return m.byHash(info.key, links)
	}
	at := m.nextTurn(set, len(links))
	if balance == Adaptive {
		best := int64(never)
		from := at
		for i := range links {
			k := (from + i) % len(links)
			port := d.net.portOf[links[k]]
			wait := max(0, m.busyPS[port]-m.clock(port, a.AtPS))
			wait -= wait % max(1, d.net.ports[port].kind.wire.PS(d.net.fullBytes))
			if wait < best {
				at = k
				best = wait
			}
		}
	}
	return links[at]
}

// nextTurn returns the place of the link that Spray chooses for the next packet of a set of links.
func (m *balancing) nextTurn(set int32, links int) int {
	turn := m.turns[set]
	m.turns[set]++
	round := uint64(turn) / uint64(links)
	first := simkernel.MixKeys(m.seed, uint64(set), round) % uint64(links)
	return int((uint64(turn) + first) % uint64(links))
}

// flowletLink returns the link of a packet's flowlet.
func (m *balancing) flowletLink(
	d *domain, a *calendar.Arrival, info *flowInfo, links []int32, stays int32,
) int32 {
	node := d.net.links[links[0]].SrcNode
	gapPS := faults.PS(m.GapNS)
	key := flowletKey{info.row, node}
	f, known := d.paths.flowlets[key]
	if !known || a.AtPS-f.atPS > gapPS || !slices.Contains(links, f.link) {
		number := uint64(a.Bits &^ d.tagMask >> calendar.FlagBits)
		before := f.link
		if !known {
			before = stays
		}
		f.link = links[m.hash(info.key, number, node)%uint64(len(links))]
		switch {
		case m.Balance == CONGA:
			f.link = m.leastCongested(d, a, links, before, f.link)
		case stays >= 0 && number == 0:
			f.link = stays
		}
	}
	f.atPS = a.AtPS
	if m.Balance == CONGA {
		place := uint32(slices.Index(links, f.link)) << congaBits
		a.Bits = a.Bits&^(d.tagMask&^(congaMax<<recoveryShift)) | place<<recoveryShift&d.tagMask
	}
	if !known && len(d.paths.flowlets) >= d.paths.flowletsUntil { // packets that have left count as unknown
		for k, old := range d.paths.flowlets {
			if a.AtPS-old.atPS > gapPS {
				delete(d.paths.flowlets, k)
			}
		}
		d.paths.flowletsUntil = max(1024, 2*len(d.paths.flowlets))
	}
	if d.paths.flowlets == nil {
		d.paths.flowlets = map[flowletKey]flowlet{}
	}
	d.paths.flowlets[key] = f
	return f.link
}

// byHash returns a link by weighted rendezvous hashing (Schindelhauer and Schomaker, SPAA'05): the link with
// the smallest -ln(u) / weight, where u is a hash of key and link in (0, 1).
func (m *balancing) byHash(key uint64, links []int32) int32 {
	best := links[0]
	least := math.Inf(1)
	for _, l := range links {
		weight := 1.0
		if m.Weights != nil {
			weight = m.Weights[l]
		}
		x := -math.Log(simkernel.Uniform(m.hash(key, 0, l))) / weight
		if x < least {
			best = l
			least = x
		}
	}
	return best
}

func (m *balancing) hash(key, number uint64, of int32) uint64 {
	return simkernel.MixKeys(m.seed, key, number, uint64(of))
}

// tagMask returns the bits of items that contain the tag of the balance.
func (m *paths) tagMask() uint32 {
	if m.Balance == PLB || m.Balance == CONGA {
		return (1<<calendar.TagBits - 1) << recoveryShift
	}
	return 0
}

// PLB follows Qureshi et al. (SIGCOMM'22). The tag of a packet is the flow label, which switches hash
// together with the flow. A sender counts rounds. A round lasts until all packets that were in flight at its
// beginning are acknowledged. It is congested if at least half of its ACKs are marked. The sender uses the
// next label after plbRoundsLimit congested rounds in a row, after plbIdleRounds if nothing is in flight, and
// after each timeout. The constants are the defaults of Linux (tcp_plb_cong_thresh 128 of 256,
// tcp_plb_rehash_rounds 12, tcp_plb_idle_rehash_rounds 3). Linux suspends PLB after a timeout, which is not
// modeled.
const (
	plbRoundsLimit = 12
	plbIdleRounds  = 3
)

// plbRounds is the state of PLB at a sender.
type plbRounds struct {
	label        uint32
	acks, marks  int32 // of the current round
	congested    int32 // rounds in a row
	untilPackets int64 // the round ends with the ACK of a packet from this one on
}

// repath updates the label of a flow after an ACK.
func (w *forwarding) repath(f *recoveryFlow, number int64, marked bool) {
	if w.net.Balance != PLB {
		return
	}
	p := &f.plb
	p.acks++
	if marked {
		p.marks++
	}
	if number < p.untilPackets {
		return
	}
	p.congested++
	if 2*p.marks < p.acks {
		p.congested = 0
	}
	idle := number+1 >= f.next
	if p.congested >= plbRoundsLimit || idle && p.congested >= plbIdleRounds {
		p.label++
		p.congested = 0
	}
	p.acks = 0
	p.marks = 0
	p.untilPackets = f.next
}
