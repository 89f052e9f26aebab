package network

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// twinMoves implements Forwarding for the twin with buffers: balances, cables that go down, and the recovery
// of senders and receivers. It processes events in one order of time and stores nothing that can be derived.
// It does not support shares of losses or changed rates.
type twinMoves struct {
	Forwarding
	hashes   balancing // its hash functions
	of       map[*bufferedFlow]*twinMovesFlow
	last     map[[2]int64]flowlet // by row and node
	turns    map[int32]int
	busy     [][][2]int64 // CONGA, by link: when it sent
	share    []float64
	tick     []int64
	reported map[congaKey]congaMetric
	carried  []LinkTraffic
	order    map[int64]int32 // by row: packets that were overtaken
	work     []twinWork      // by link
}

// twinWork is the work that an adaptive switch attributes to a port with PFC: its packets, and the time for
// which it was paused while it had any.
type twinWork struct {
	untilPS, sincePS int64
	pauses           int
}

func (m *twinMoves) toggle(link int32, pause bool, nowPS int64) {
	w := &m.work[link]
	if pause {
		if w.pauses == 0 {
			w.sincePS = nowPS
		}
		w.pauses++
		return
	}
	w.pauses--
	if w.pauses == 0 && w.untilPS > w.sincePS {
		w.untilPS += nowPS - w.sincePS
	}
}

// left returns the time that a port needs to send its packets.
func (m *twinMoves) left(link int32, nowPS int64) int64 {
	w := m.work[link]
	if w.pauses > 0 {
		return max(0, w.untilPS-w.sincePS)
	}
	return max(0, m.work[link].untilPS-nowPS)
}

func (m *twinMoves) give(n *Buffered, link int32, bytes, nowPS int64) {
	w := &m.work[link]
	fromPS := nowPS
	if w.pauses > 0 {
		fromPS = w.sincePS
	}
	w.untilPS = fromPS + m.left(link, nowPS) + n.ports[link].wire.PS(bytes)
}

// twinMovesFlow is the state of a flow that bufferedFlow does not have.
type twinMovesFlow struct {
	got, acked          map[int64]bool
	highest             int64
	attempt             uint32
	label               uint32
	acks, marks, rounds int
	roundEnds           int64
}

func newTwinMoves(n *Buffered, m Forwarding) *twinMoves {
	links := len(n.links)
	if m.At == nil {
		m.At = slices.Repeat([]Balance{m.Balance}, len(n.host))
	}
	return &twinMoves{Forwarding: m, hashes: balancing{Balancing: &m.Balancing, seed: m.Seed},
		of: map[*bufferedFlow]*twinMovesFlow{}, turns: map[int32]int{}, last: map[[2]int64]flowlet{},
		busy: make([][][2]int64, links), share: make([]float64, links),
		tick:     make([]int64, links),
		reported: map[congaKey]congaMetric{}, carried: make([]LinkTraffic, links), order: map[int64]int32{},
		work: make([]twinWork, links)}
}

func (m *twinMoves) flow(f *bufferedFlow) *twinMovesFlow {
	if m.of[f] == nil {
		m.of[f] = &twinMovesFlow{got: map[int64]bool{}, acked: map[int64]bool{}}
	}
	return m.of[f]
}

func (m *twinMoves) down(link int32, fromPS, toPS int64) bool {
	return slices.ContainsFunc(m.Faults, func(f faults.Fault) bool {
		return f.Link == link && faults.PS(f.FromNS) <= toPS && faults.PS(f.ToNS) > fromPS
	})
}

// avoids reports whether the ends of a cable have known for a while that it is down.
func (m *twinMoves) avoids(link int32, nowPS int64) bool {
	at := nowPS - faults.PS(m.RepairNS)
	return m.RepairNS > 0 && (m.down(link, at, at) || m.down(link^1, at, at))
}

// place chooses the port for an arrival over a link. It returns false if the arrival is lost.
func (m *twinMoves) place(n *Buffered, port int32, k *bufferedPacket, nowPS int64, over int32) (int32, bool) {
	path := k.flow.path
	node := n.links[over].DstNode
	leftPS := nowPS - n.links[over].DelayNS*simkernel.PSPerNS
	if !k.ack {
		m.carried[over].Sent++
	}
	if m.down(over, leftPS-n.ports[over].wire.PS(k.wire), nowPS) {
		return 0, m.lose(n, k, over)
	}
	switch {
	case n.host[node] && k.ack:
		k.hop = -1
		return path[0], true
	case n.host[node]:
		k.hop = len(path)
		return over ^ 1, true
	case k.ack:
		k.hop = max(k.hop, 0)
	case k.hop == len(path):
		port = path[len(path)-1] ^ 1
	}
	k.hop = min(k.hop, len(path)-1)
	host := n.links[path[len(path)-1]].DstNode
	if k.ack {
		host = n.links[path[0]].SrcNode
	}
	state := 0
	for i, ns := range m.Routes.Starts() {
		if faults.PS(ns) <= nowPS {
			state = i
		}
	}
	first := n.links[port].SrcNode == node
	if !first || state > 0 || !k.ack && m.At[node] != ECMP || m.avoids(port, nowPS) {
		set, all := m.Routes.Links(state, node, host)
		var links []int32
		for _, l := range all {
			if !m.avoids(l, nowPS) {
				links = append(links, l)
			}
		}
		if len(links) == 0 {
			return 0, m.lose(n, k, over)
		}
		stays := int32(-1)
		if first && slices.Contains(links, port) {
			stays = port
		}
		port = m.choose(n, k, node, set, links, stays, nowPS)
	}
	if m.At[node] == Adaptive {
		m.give(n, port, k.wire, nowPS)
	}
	if m.Balance == CONGA {
		metric := m.metric(port, nowPS)
		leaf := n.links[path[0]].DstNode
		if !k.ack {
			k.metric = max(k.metric, metric)
		} else if node == leaf {
			m.reported[congaKey{leaf, n.links[path[len(path)-1]].SrcNode, k.way}] = congaMetric{k.metric, nowPS}
		}
	}
	return port, true
}

func (m *twinMoves) lose(n *Buffered, k *bufferedPacket, over int32) bool {
	if !k.ack {
		n.Losses.Lost++
		m.carried[over].Lost++
	}
	return false
}

func (m *twinMoves) choose(n *Buffered, k *bufferedPacket, node, set int32, links []int32, stays int32,
	nowPS int64) int32 {
	f := k.flow
	balance := m.At[node]
	switch leaf := n.links[f.path[0]].DstNode; {
	case len(links) == 1:
		return links[0]
	case !k.ack && (balance == Flowlet || m.Balance == CONGA && node == leaf):
		key := [2]int64{f.row, int64(node)}
		was, known := m.last[key]
		link := was.link
		if !known || nowPS-was.atPS > faults.PS(m.GapNS) || !slices.Contains(links, link) {
			bits := uint64(k.number)<<calendar.AttemptBits | uint64(k.attempt)
			if m.Balance == CONGA {
				bits = uint64(k.number)<<(calendar.AttemptBits+calendar.TagBits) | uint64(k.attempt)
			}
			link = links[m.hashes.hash(f.key, bits, node)%uint64(len(links))]
			if m.Balance == CONGA {
				former := was.link
				if !known {
					former = stays
				}
				link = m.leastCongested(n, f, links, former, link, nowPS)
			} else if stays >= 0 && bits == 0 {
				link = stays
			}
		}
		m.last[key] = flowlet{nowPS, link}
		if m.Balance == CONGA {
			k.way = uint32(slices.Index(links, link))
		}
		return link
	case !k.ack && m.Balance == PLB && k.label > 0:
		return m.hashes.byHash(simkernel.MixKey(f.key, uint64(k.label)<<recoveryShift), links)
	case !k.ack && balance == Random:
		bits := uint64(k.number)<<recoveryShift | uint64(k.attempt)<<calendar.FlagBits
		if k.number == f.packets-1 {
			bits |= uint64(calendar.FlagLast)
		}
		return links[m.hashes.hash(f.key, bits, node)%uint64(len(links))]
	case k.ack || balance != Spray && balance != Adaptive:
		if stays >= 0 {
			return stays
		}
		return m.hashes.byHash(f.key, links)
	}
	turn := m.turns[set]
	m.turns[set]++
	first := simkernel.MixKeys(m.Seed, uint64(set), uint64(turn/len(links)))
	at := (turn + int(first%uint64(len(links)))) % len(links)
	from := at
	least := int64(math.MaxInt64)
	if balance == Adaptive { // the port whose queue will be empty first
		for i := range links {
			l := links[(from+i)%len(links)]
			p := &n.ports[l]
			idlePS := max(nowPS, p.freePS)
			queues := []*bufferedQueue{&p.acks}
			for q := range p.classes {
				queues = append(queues, &p.classes[q].data)
			}
			for _, q := range queues {
				for _, waiting := range q.items[q.head:] {
					idlePS += p.wire.PS(waiting.wire)
				}
			}
			waitPS := idlePS - nowPS
			if n.pfc != nil {
				waitPS = m.left(l, nowPS)
			}
			waitPS -= waitPS % p.wire.PS(n.params.PayloadBytes+n.params.HeaderBytes)
			if waitPS < least {
				at = (from + i) % len(links)
				least = waitPS
			}
		}
	}
	return links[at]
}

// metric discounts the time in which a port sent, tick by tick.
func (m *twinMoves) metric(port int32, nowPS int64) uint32 {
	during := func(fromPS, toPS int64) (sum int64) {
		for _, s := range m.busy[port] {
			sum += max(0, min(toPS, s[1])-max(fromPS, s[0]))
		}
		return sum
	}
	for ; m.tick[port]+20e6 <= nowPS; m.tick[port] += 20e6 {
		m.share[port] = (m.share[port] + float64(during(m.tick[port], m.tick[port]+20e6))) * 7 / 8
		m.busy[port] = slices.DeleteFunc(m.busy[port], func(s [2]int64) bool { return s[1] <= m.tick[port]+20e6 })
	}
	return uint32(min(7, (m.share[port]+float64(during(m.tick[port], nowPS)))/160e6*8))
}

func (m *twinMoves) leastCongested(n *Buffered, f *bufferedFlow, links []int32, former, other int32,
	nowPS int64) int32 {
	of := map[int32]uint32{}
	for i, l := range links {
		of[l] = m.metric(l, nowPS)
		r := m.reported[congaKey{n.links[f.path[0]].DstNode, n.links[f.path[len(f.path)-1]].SrcNode, uint32(i)}]
		for ; r.atPS+10e9 <= nowPS; r.atPS += 10e9 {
			r.value /= 2
		}
		of[l] = max(of[l], r.value)
	}
	least := uint32(8)
	for _, x := range of {
		least = min(least, x)
	}
	if x, there := of[former]; there && x == least {
		return former
	}
	from := slices.Index(links, other)
	for _, l := range append(slices.Clone(links[from:]), links[:from]...) {
		if of[l] == least {
			return l
		}
	}
	panic("no link is the least congested")
}

// sent updates the state after a packet was sent.
func (m *twinMoves) sent(f *bufferedFlow, k *bufferedPacket) {
	x := m.flow(f)
	if m.Balance == PLB {
		k.label = x.label % 128
	}
	k.links = make([]simkernel.Telemetry, len(f.path)-1)
	m.skip(f)
}

func (m *twinMoves) skip(f *bufferedFlow) {
	for f.nxt < f.maxSent && m.flow(f).acked[f.nxt] {
		f.nxt++
	}
}

func (m *twinMoves) goBack(f *bufferedFlow) {
	x := m.flow(f)
	if f.nxt > f.una {
		x.attempt = x.attempt%31 + 1
	}
	f.nxt = f.una
}

// receiveData answers a packet. It accepts packets in any order, except with ECMP. It returns false if it
// sends no answer.
func (m *twinMoves) receiveData(n *Buffered, k *bufferedPacket, nowPS int64) bool {
	f := k.flow
	x := m.flow(k.flow)
	if k.attempt == 0 && k.number >= f.expected && !x.got[k.number] {
		if k.number < x.highest {
			m.order[f.row]++
		}
		x.highest = max(x.highest, k.number)
	}
	switch inOrder := m.inOrder(); {
	case x.got[k.number]:
		n.Losses.Discarded++
	case inOrder && k.number > f.expected:
		n.Losses.Discarded++
		if f.nacked == f.expected+1 && nowPS < f.nackPS {
			return false
		}
		f.nacked = f.expected + 1
		f.nackPS = nowPS + f.nackWaitPS
		k.nack = true
		n.Losses.NACKs++
	default:
		n.Losses.Delivered++
		x.got[k.number] = true
		for x.got[f.expected] {
			f.expected++
		}
		if f.expected == f.packets {
			n.finished = append(n.finished, bufferedFinish{f, nowPS})
		}
	}
	k.ack = true
	k.wire = n.params.AckBytes
	k.through = !m.inOrder() && k.number < f.expected
	k.hop--
	return true
}

// receiveAck processes the answer to a packet.
func (m *twinMoves) receiveAck(n *Buffered, port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	f := k.flow
	x := m.flow(k.flow)
	if m.Balance == PLB {
		m.countRound(f, x, k)
	}
	known := !k.nack && x.acked[k.number] && (!k.through || k.number < f.una)
	switch {
	case k.nack:
		m.goBack(f)
	case !known:
		before := f.una
		x.acked[k.number] = true
		if m.inOrder() || k.through {
			for i := before; i <= k.number; i++ { // the receiver has all before
				x.acked[i] = true
			}
		}
		for x.acked[f.una] {
			f.una++
		}
		if f.una > before {
			f.backoff = 0
			f.deadlinePS = nowPS + f.timeoutPS
		} else if k.number == f.nxt-1 && !n.open(f) && f.nxt < f.packets {
			m.goBack(f)
		}
		f.nxt = max(f.nxt, f.una)
		m.skip(f)
	}
	if f.una == f.packets {
		n.endFlow(p, f)
		return
	}
	if !known {
		changed := f.sender.Tick(&n.params, nowPS)
		h := simkernel.AckInfo{NowPS: nowPS, RTTPS: nowPS - k.sentPS, AckedBytes: n.bytes(f, f.una),
			SentBytes: n.bytes(f, f.nxt), Marked: k.marked, Links: k.links}
		if f.sender.OnAck(&n.params, &h) || changed {
			n.setRate(f)
		}
	}
	n.updateOpen(p, f, nowPS)
	n.scheduleSend(port, max(nowPS, p.freePS))
}

// inOrder reports whether no switch changes the order of packets.
func (m *twinMoves) inOrder() bool {
	return m.InOrder || !slices.ContainsFunc(m.At, func(b Balance) bool { return b != ECMP })
}

func (m *twinMoves) countRound(f *bufferedFlow, x *twinMovesFlow, k *bufferedPacket) {
	x.acks++
	if k.marked {
		x.marks++
	}
	if k.number < x.roundEnds {
		return
	}
	x.rounds++
	if x.marks*2 < x.acks {
		x.rounds = 0
	}
	if x.rounds >= 12 || x.rounds >= 3 && k.number+1 >= f.nxt {
		x.label = x.label + 1
		x.rounds = 0
	}
	x.acks = 0
	x.marks = 0
	x.roundEnds = f.nxt
}

// Networks whose paths move agree with a slow and obvious simulation: FCTs, overtaken packets, the traffic
// and losses of each link, and all counts. The cases have every balance, also of single switches, both kinds
// of receivers, and cables that go down, before and after routes change. Seeds from 180 on have classes, and
// seeds from 270 on PFC.
func TestMovesAgreeWithTwin(t *testing.T) {
	var lost, again, pausedNS int64
	for _, seed := range kerneltest.Seeds(390, 13) {
		kind := []simkernel.Transport{simkernel.DCTCP, simkernel.HPCC, simkernel.Swift, simkernel.TIMELY}[seed/6%4]
		m := Forwarding{Seed: 5, Balancing: Balancing{Balance: Balance(seed % 7), GapNS: int64(seed%8) * 1500}}
		if kind == simkernel.HPCC && (m.Balance >= Spray && m.Balance <= Random || seed%5 == 4) {
			kind = simkernel.DCTCP
		}
		e := leafSpine(kind, seed)
		// the twin does not know for how long the engine thinks that a paused port sends
		if seed >= 270 && m.Balance == CONGA {
			m.Balance = PLB
		}
		if seed%5 == 4 { // switches differ
			m.Balance = ECMP
			for node := range e.hosts {
				m.At = append(m.At, Balance((seed+uint64(node*node))%5))
			}
		}
		m.InOrder = seed%11 == 3
		m.Routes = routesOf(e.links, e.hosts, []int64{0}, nil)
		if seed/2%3 > 0 {
			m.Faults = []faults.Fault{{Link: 0, FromNS: 10_000, ToNS: 60_000, Share: 1},
				{Link: 1, FromNS: 10_000, ToNS: 60_000, Share: 1}}
			m.Routes = routesOf(e.links, e.hosts, []int64{0, 30_000, 80_000}, nil, []int32{0, 1}, nil)
			m.RepairNS = int64(seed/2%3-1) * 4000
		}
		if seed >= 180 {
			classify(&e, rand.New(rand.NewPCG(seed, 14)), &BufferParams{})
			for i := range e.classes { // buffers have no end
				e.classes[i].Alpha = 0
			}
		}
		b := BufferParams{}
		ofTwin := BufferParams{SwitchBytes: 1 << 40, Alpha: 1, RetransmitNS: recoverNS}
		if seed >= 270 {
			b = pfcBuffer(t, &e, rand.New(rand.NewPCG(seed, 15)), int64(seed/2%2)*5000)
			b.RetransmitNS = recoverNS
			if m.Faults != nil { // detours can close circles of pauses
				b.WatchdogNS = 100_000
				b.RestoreNS = 100_000
			}
			ofTwin = b
		}
		twin, err := NewBuffered(e.params, ofTwin, e.classes, e.links, e.hosts, chunks(&e.flows, 1000))
		if err != nil {
			t.Fatal(err)
		}
		twin.moves = newTwinMoves(twin, m)
		if err := twin.Run(nil); err != nil {
			t.Fatal(err)
		}
		n, got := runMoving(t, &e, b, m, nil, 1)
		fct := map[int64]int64{}
		for i, row := range twin.Results.Row {
			fct[row] = twin.Results.FCTNS[i]
		}
		for i, row := range got.Row {
			if got.FCTNS[i] != fct[row] || got.Reordered[i] != twin.moves.order[row] {
				t.Fatalf("seed %d, balance %d, row %d: FCT %d, twin %d; overtaken %d, twin %d", seed, m.Balance, row,
					got.FCTNS[i], fct[row], got.Reordered[i], twin.moves.order[row])
			}
		}
		for l := range e.links {
			x := n.Traffic(int32(l))
			y := twin.moves.carried[l]
			if x.Sent != y.Sent || x.Lost != y.Lost {
				t.Fatalf("seed %d, balance %d, link %d: %+v, twin %+v", seed, m.Balance, l, x, y)
			}
			if b.PFC && n.PausedNS(int32(l)) != twin.pausedNS(int32(l)) {
				t.Fatalf("seed %d, balance %d, link %d: paused for %d ns, twin %d", seed, m.Balance, l,
					n.PausedNS(int32(l)), twin.pausedNS(int32(l)))
			}
			pausedNS += n.PausedNS(int32(l))
		}
		if n.Losses() != twin.Losses || len(fct) != len(got.Row) {
			t.Fatalf("seed %d, balance %d: %+v, twin %+v", seed, m.Balance, n.Losses(), twin.Losses)
		}
		lost = lost + twin.Losses.Lost
		again = again + twin.Losses.Again
	}
	if lost == 0 || again == 0 || pausedNS == 0 {
		t.Errorf("%d packets lost, %d retransmitted, pauses of %d ns: the examples test little", lost, again,
			pausedNS)
	}
}
