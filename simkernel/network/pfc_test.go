package network

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
	"parsimon/simkernel/network/faults"
)

// A twinPFC is PFC of a Buffered: the rules of the HPCC simulator's SwitchMmu, packet by packet.
type twinPFC struct {
	buffer BufferParams
	pool   []int64       // by node
	links  [][]twinPFCOf // by link, and class
	left   [][2]int32    // links and classes whose packets left at LeftPS
	leftPS int64
}

// A twinPFCOf is the state of a class of a link. The destination of the link counts the packets that arrive
// over it; pausing means that it has requested a pause. The other fields belong to the source.
type twinPFCOf struct {
	headroom, reserve, inBytes, hdrm int64
	alpha                            float64
	pausing, asked, paused, ignores  bool
	sincePS, pausedPS, lookPS        int64
}

// These are items of events that are not packets: a pause of class q is -1 - 2q, and its end is -2 - 2q.
func pauseItem(class int, pause bool) int32 {
	if pause {
		return int32(-1 - 2*class)
	}
	return int32(-2 - 2*class)
}

func newTwinPFC(n *Buffered) *twinPFC {
	q := &twinPFC{buffer: n.buffer, pool: make([]int64, len(n.host)), links: make([][]twinPFCOf, len(n.links))}
	slowest := int64(never)
	for _, l := range n.links {
		if n.host[l.SrcNode] {
			slowest = min(slowest, l.BandwidthBps)
		}
	}
	for v := range q.pool {
		q.pool[v] = n.buffer.SwitchBytes
	}
	for i, l := range n.links {
		for class, c := range n.classes {
			of := twinPFCOf{alpha: n.alpha(class)}
			if !c.Lossy {
				of.reserve = cmp.Or(n.buffer.ReservedBytes, 4096)
				faster := max(1, float64(l.BandwidthBps)/float64(slowest))
				of.headroom = int64(float64(n.buffer.HeadroomBytes) * faster)
				if of.headroom == 0 {
					of.headroom = n.feed.net.Headroom(l)
				}
				of.alpha *= faster
			}
			q.links[i] = append(q.links[i], of)
			q.pool[l.DstNode] -= of.reserve + of.headroom
		}
	}
	return q
}

func (q *twinPFC) of(link int32, class int) *twinPFCOf { return &q.links[link][class] }

func (q *twinPFC) free(n *Buffered, node int32) int64 {
	free := q.pool[node]
	for i, l := range n.links {
		if l.DstNode == node {
			for _, of := range q.links[i] {
				free -= max(0, of.inBytes-of.reserve)
			}
		}
	}
	return free
}

func (q *twinPFC) threshold(n *Buffered, link int32, class int) float64 {
	if q.buffer.XOFFBytes > 0 {
		return float64(q.buffer.XOFFBytes)
	}
	return q.of(link, class).alpha * float64(q.free(n, n.links[link].DstNode))
}

func (q *twinPFC) takeIn(n *Buffered, link int32, p *bufferedPort, k *bufferedPacket, nowPS int64) bool {
	class := k.flow.class
	bytes := k.wire
	free := q.free(n, n.links[link].DstNode)
	of := q.of(link, class)
	if n.classes[class].Lossy {
		if bytes > free || float64(p.classes[class].dataBytes+bytes) > of.alpha*float64(free) {
			return false
		}
		of.inBytes += bytes
		return true
	}
	after := max(0, of.inBytes+bytes-of.reserve)
	takes := after - max(0, of.inBytes-of.reserve)
	switch {
	case after == 0 || float64(after) <= q.threshold(n, link, class) && takes <= free:
		of.inBytes += bytes
	case of.hdrm+bytes <= of.headroom:
		of.hdrm += bytes
	default:
		return false
	}
	part := max(0, of.inBytes-of.reserve)
	if !of.pausing && (of.hdrm > 0 || part > 0 && float64(part) >= q.threshold(n, link, class)) {
		of.pausing = true
		q.signal(n, link, pauseItem(class, true), nowPS)
	}
	return true
}

func (q *twinPFC) signal(n *Buffered, link, item int32, nowPS int64) {
	back := n.links[link^1]
	atPS := nowPS + simkernel.NewWireTime(float64(back.BandwidthBps)).PS(64) + back.DelayNS*simkernel.PSPerNS
	n.push(event{atPS: atPS, rank: rankStart - 1, port: link, item: item})
}

func (q *twinPFC) leave(k *bufferedPacket, nowPS int64) {
	link := k.over
	of := q.of(link, k.flow.class)
	head := min(of.hdrm, k.wire)
	of.hdrm -= head
	of.inBytes -= k.wire - head
	q.left = append(q.left, [2]int32{link, int32(k.flow.class)})
	q.leftPS = nowPS
}

// resume compares the counts with the thresholds after all packets that leave at this time have left.
func (q *twinPFC) resume(n *Buffered) {
	for _, l := range q.left {
		link := l[0]
		class := int(l[1])
		of := q.of(link, class)
		part := max(0, of.inBytes-of.reserve)
		if of.pausing && of.hdrm == 0 && (part == 0 || float64(part+3072) <= q.threshold(n, link, class)) {
			of.pausing = false
			q.signal(n, link, pauseItem(class, false), q.leftPS)
		}
	}
	q.left = q.left[:0]
}

func (q *twinPFC) toggle(n *Buffered, link, item int32, nowPS int64) {
	class := int(-1-item) / 2
	of := q.of(link, class)
	if n.moves != nil {
		n.moves.toggle(link, item == pauseItem(class, true), nowPS)
	}
	of.asked = item == pauseItem(class, true)
	switch {
	case of.asked && !of.paused && !of.ignores:
		q.pause(n, link, class, nowPS)
	case !of.asked && of.paused:
		q.end(n, link, class, nowPS)
	}
}

func (q *twinPFC) pause(n *Buffered, link int32, class int, nowPS int64) {
	of := q.of(link, class)
	of.paused = true
	of.sincePS = nowPS
	q.look(n, link, class, nowPS+q.buffer.WatchdogNS*simkernel.PSPerNS)
}

func (q *twinPFC) end(n *Buffered, link int32, class int, nowPS int64) {
	of := q.of(link, class)
	p := &n.ports[link]
	of.paused = false
	of.pausedPS += nowPS - of.sincePS
	p.freePS = max(p.freePS, nowPS) // of a NIC's flows, all that are ready by now count as equal
	n.scheduleSend(link, p.freePS)
}

func (q *twinPFC) look(n *Buffered, link int32, class int, atPS int64) {
	if q.buffer.WatchdogNS > 0 && !n.ports[link].isHost {
		q.of(link, class).lookPS = atPS
		n.push(event{atPS: atPS, rank: rankWatch, port: link, item: int32(class)})
	}
}

// watch drops a queue that has been paused for the watchdog's time. Later the port obeys pauses again.
func (q *twinPFC) watch(n *Buffered, link int32, class int, nowPS int64) {
	of := q.of(link, class)
	p := &n.ports[link]
	c := &p.classes[class]
	switch {
	case nowPS != of.lookPS:
	case of.ignores:
		of.ignores = false
		if of.asked {
			q.pause(n, link, class, nowPS)
		}
	case of.paused && c.data.empty():
		q.look(n, link, class, nowPS+q.buffer.WatchdogNS*simkernel.PSPerNS)
	case of.paused:
		q.end(n, link, class, nowPS)
		of.ignores = true
		q.look(n, link, class, nowPS+q.buffer.RestoreNS*simkernel.PSPerNS)
		var kept []*bufferedPacket
		for !c.data.empty() {
			k := c.data.take()
			if k.ack {
				kept = append(kept, k)
				continue
			}
			c.queueBytes -= k.wire
			n.leave(p, k, nowPS)
			n.drop(p, k)
		}
		for _, k := range kept {
			c.data.put(k)
		}
		p.ended(class)
	}
}

// pausedNS returns the time for which classes of a link were paused.
func (n *Buffered) pausedNS(link int32) (ns int64) {
	for _, of := range n.pfc.links[link] {
		ns += of.pausedPS / simkernel.PSPerNS
	}
	return ns
}

// pfcExample is a random network without cycles of links, so pauses cannot wait for each other.
func pfcExample(kind simkernel.Transport, seed uint64) (e netExample, rng *rand.Rand, ok bool) {
	e = randomNetworkOf(kind, seed)
	rng = rand.New(rand.NewPCG(seed, 77))
	kerneltest.RandomConstants(rng, &e.params)
	return e, rng, len(e.links)/2 == len(e.hosts)-1
}

// pfcBuffer draws a buffer whose shared pool is small at the switch with the most ports.
func pfcBuffer(t testing.TB, e *netExample, rng *rand.Rand, headroom int64) BufferParams {
	packet := e.params.PayloadBytes + e.params.HeaderBytes
	b := BufferParams{SwitchBytes: 1 << 40, PFC: true, HeadroomBytes: headroom,
		Alpha: kerneltest.Pick(rng, 1.0/8, 0.5, 1, 4)}
	b.ReservedBytes = kerneltest.Pick(rng, 0, 0, packet, 3*packet)
	n := newExampleNetwork(t, e, b, 1)
	least := b.SwitchBytes
	for v := range e.hosts {
		if !e.hosts[v] {
			least = min(least, n.buffers[v].poolBytes)
		}
	}
	pool := packet * kerneltest.Pick[int64](rng, 1, 3, 10, 60)
	b.SwitchBytes += pool - least
	if rng.IntN(3) == 0 {
		b.XOFFBytes = min(pool, packet*kerneltest.Pick[int64](rng, 1, 2, 8)/2)
	}
	return b
}

// With PFC, the network agrees with the slow simulator in every bit, for any domains and workers, also if
// headroom is too small and packets are dropped.
func TestPFCAgreesWithTwin(t *testing.T) {
	paused := int64(0)
	dropped := int64(0)
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(250, 11) {
			e, rng, ok := pfcExample(kind, seed)
			if !ok {
				continue
			}
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b := pfcBuffer(t, &e, rng, kerneltest.Pick(rng, 0, packet, 2*packet))
			want := runBuffered(t, &e, b, 3)
			n, got := runIn(t, &e, b, nil, 1, 1000)
			_, divided := runIn(t, &e, b, randomDomains(rng, len(e.hosts)), 2, 1000)
			if !reflect.DeepEqual(got, divided) {
				t.Fatalf("%v, seed %d: other results in several domains", kind, seed)
			}
			got.StartNS = nil
			got.Again = nil
			got.Reordered = nil // the twin does not report them
			if !reflect.DeepEqual(got, &want.Results) || n.Losses() != want.Losses {
				t.Fatalf("%v, seed %d, %+v: %s\n%+v\ntwin:\n%+v", kind, seed, b,
					kerneltest.FirstDifference(got, &want.Results), n.Losses(), want.Losses)
			}
			for l := range int32(len(e.links)) {
				if n.Counters(l) != want.Counters(l) || n.PausedNS(l) != want.pausedNS(l) {
					t.Fatalf("%v, seed %d, link %d: %+v, paused %d ns, twin %+v, %d ns", kind, seed, l, n.Counters(l),
						n.PausedNS(l), want.Counters(l), want.pausedNS(l))
				}
				paused += n.PausedNS(l)
			}
			dropped += want.Losses.Dropped
		}
	}
	if paused < 1_000_000 || dropped == 0 {
		t.Errorf("hardly anything is paused (%d ns) or dropped (%d): the test tests nothing", paused, dropped)
	}
}

// randomDomains assigns nodes to up to three domains, each of which has a node.
func randomDomains(rng *rand.Rand, nodes int) []int32 {
	of := make([]int32, nodes)
	for i := range of {
		of[i] = min(int32(i), rng.Int32N(3))
	}
	names := map[int32]int32{}
	for i, d := range of {
		if _, ok := names[d]; !ok {
			names[d] = int32(len(names))
		}
		of[i] = names[d]
	}
	return of
}

// With enough headroom nothing is dropped, so nothing is sent twice. At the end no port is paused and all
// buffers are empty. A buffer that never fills causes no pauses and does not change results.
func TestPFCLaws(t *testing.T) {
	paused := 0
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(150, 3) {
			e, rng, ok := pfcExample(kind, seed)
			if !ok {
				continue
			}
			b := pfcBuffer(t, &e, rng, 0)
			n, r := runIn(t, &e, b, nil, 1, 1000)
			l := n.Losses()
			if l.Dropped+l.Again+l.Timeouts != 0 || l.Sent != l.Delivered || len(r.Row) != len(e.flows.StartNS) {
				t.Fatalf("%v, seed %d: %d of %d flows, %+v", kind, seed, len(r.Row), len(e.flows.StartNS), l)
			}
			for l := range n.ports {
				p := &n.ports[l]
				u := &n.pausers[p.link]
				if p.bits&portPaused != 0 || u.pausing || u.bytes+u.headBytes+p.heldBytes != 0 {
					t.Fatalf("%v, seed %d: port %d at the end: %+v", kind, seed, l, u)
				}
			}
			for v := range n.buffers {
				b := &n.buffers[v]
				if b.pausing != 0 || b.sharedBytes != 0 || b.usedBytes != 0 || b.peakBytes > n.buffer.SwitchBytes {
					t.Fatalf("%v, seed %d: switch %d at the end: %+v", kind, seed, v, b)
				}
			}
			for l := range e.links {
				if n.PausedNS(int32(l)) > 0 {
					paused++
				}
			}
			b.SwitchBytes = 1 << 50
			b.XOFFBytes = 0
			n, large := runIn(t, &e, b, nil, 1, 1000)
			_, unlimited := runIn(t, &e, BufferParams{}, nil, 1, 1000)
			if !reflect.DeepEqual(large, unlimited) || n.PausedNS(0) != 0 {
				t.Fatalf("%v, seed %d: a large buffer changes results", kind, seed)
			}
		}
	}
	if paused < 100 {
		t.Errorf("%d links were paused: the test tests nothing", paused)
	}
}

// In an incast over a Clos network of two spines, pauses spread to the spines and to the senders. No packet
// is lost, every flow finishes, and results do not depend on domains or workers.
func TestPFCClos(t *testing.T) {
	// 4 leaves, 2 spines, 12 hosts
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, 4+2+12)}
	e.params.MarkBytesPerGbps = 1 << 20
	up := map[[2]int32]int32{}
	cable := func(a, b int32, bps int64) {
		up[[2]int32{a, b}] = int32(len(e.links))
		up[[2]int32{b, a}] = int32(len(e.links) + 1)
		e.links = append(e.links, Link{a, b, bps, 1000}, Link{b, a, bps, 1000})
	}
	for leaf := range int32(4) {
		cable(leaf, 4, 20e9)
		cable(leaf, 5, 20e9)
		for h := range int32(3) {
			e.hosts[6+3*leaf+h] = true
			cable(6+3*leaf+h, leaf, 10e9)
		}
	}
	for i := range int32(60) {
		src := 9 + i%9
		dst := 6 + i%2
		spine := 4 + i%2
		from := (src - 6) / 3
		to := (dst - 6) / 3
		e.flows.SizeBytes = append(e.flows.SizeBytes, 100_000)
		e.flows.StartNS = append(e.flows.StartNS, int64(i)*500)
		e.flows.PathLinks = append(e.flows.PathLinks, up[[2]int32{src, from}], up[[2]int32{from, spine}],
			up[[2]int32{spine, to}], up[[2]int32{to, dst}])
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
	}
	b := BufferParams{SwitchBytes: 200_000, Alpha: DefaultPFCAlpha, PFC: true}
	n, want := runIn(t, &e, b, nil, 1, 1000)
	l := n.Losses()
	if l.Dropped != 0 || len(want.Row) != 60 {
		t.Errorf("%d flows of 60 ended, %+v", len(want.Row), l)
	}
	for _, l := range []int32{up[[2]int32{4, 0}], up[[2]int32{1, 4}], up[[2]int32{9, 1}]} { // spine, leaf, host
		if n.PausedNS(l) == 0 {
			t.Errorf("link %d was never paused", l)
		}
	}
	for _, domainOf := range [][]int32{{0, 1, 2, 3, 1, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3},
		{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}} {
		_, got := runIn(t, &e, b, domainOf, 2, 7)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("domains %v: other results", domainOf)
		}
	}
}

// By default a link may use an eighth of the free space, and one that is four times as fast as those of hosts
// a half, as in the HPCC simulator.
func TestDefaultThresholdsOfPauses(t *testing.T) {
	if DefaultAlpha != 1 || DefaultPFCAlpha != 0.125 || DefaultWatchdogNS != 200_000_000 {
		t.Error("the defaults are not those of switches for lossy traffic, of the HPCC simulator and of SONiC")
	}
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, false, false}}
	e.links = []Link{{0, 1, 10e9, 1000}, {1, 0, 10e9, 1000}, {1, 2, 40e9, 1000}, {2, 1, 40e9, 1000}}
	n := newExampleNetwork(t, &e, BufferParams{SwitchBytes: 1e6, Alpha: DefaultPFCAlpha, PFC: true}, 1)
	for link, want := range map[int]float64{0: 10_000, 3: 40_000} {
		got := n.pfcThreshold(&n.pausers[link], 80_000)
		if got != want {
			t.Errorf("link %d: a pause at %v bytes, want %v", link, got, want)
		}
	}
}

// Two hosts send to a third over links of 10 Gbps and 1 µs. The threshold of the switch is one byte. Each
// step is worked out by hand: a packet takes 838.4 ns, a pause frame 51.2 ns, and the reserve of 4,096 B
// holds three packets.
//
// The fourth packet of a host that has to wait crosses the threshold. Until then packets 1, 2, … of both
// hosts arrive at 1,838.4 + k × 838.4 ns, and one of them is sent in that time. The queue therefore grows by
// one packet each 838.4 ns, alternately from either host.
func TestPFCByHand(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, true, false}}
	e.params.MarkBytesPerGbps = 1 << 20
	for h := range int32(3) {
		e.links = append(e.links, Link{h, 3, 10e9, 1000}, Link{3, h, 10e9, 1000})
	}
	e.flows = Flows{SizeBytes: []int64{40_000, 40_000}, StartNS: []int64{0, 0}, PathEnds: []int32{2, 4},
		PathLinks: []int32{0, 5, 2, 5}}
	e.params.SetWindow(100_000)
	n, r := runIn(t, &e, BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true, XOFFBytes: 1}, nil, 1, 10)
	l := n.Losses()
	if l.Sent != 80 || l.Delivered != 80 {
		t.Errorf("%+v", l)
	}
	// The switch always has packets, so 80 packets leave without a gap. The last is delivered after the time
	// of 81 packets and 2 µs.
	got := slices.Max(r.FCTNS)
	if got != 69_911 { // 81 × 838.4 + 2,000 = 69,910.4
		t.Errorf("the last flow takes %d ns", got)
	}
	// Both send half of the time from the first pause on.
	for _, l := range []int32{0, 2} {
		ns := n.PausedNS(l)
		if ns < 25_000 || ns > 35_000 {
			t.Errorf("link %d was paused for %d ns", l, ns)
		}
	}
	if n.PausedNS(5) != 0 || n.PausedNS(1) != 0 {
		t.Error("a link to a host was paused")
	}
}

func TestPFCRefuses(t *testing.T) {
	e := randomNetworkOf(simkernel.DCTCP, 1)
	for want, b := range map[string]BufferParams{
		"pfc is false, and xoff is 5":       {SwitchBytes: 1 << 20, Alpha: 1, XOFFBytes: 5},
		"xoff is 2097152 bytes, must be":    {SwitchBytes: 1 << 20, Alpha: 1, PFC: true, XOFFBytes: 1 << 21},
		"xoff is 1048575 bytes, more than":  {SwitchBytes: 1 << 20, Alpha: 1, PFC: true, XOFFBytes: 1<<20 - 1},
		"headroom is 10 bytes, must hold":   {SwitchBytes: 1 << 20, Alpha: 1, PFC: true, HeadroomBytes: 10},
		"bytes of reserve and PFC headroom": {SwitchBytes: 9000, Alpha: 1, PFC: true},
	} {
		if _, err := New(e.params, b, e.links, e.hosts, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
}

// A buffer that is too small for the default headroom is divided nevertheless: it drops packets, and every
// flow finishes.
func TestPFCWithoutRoomForHeadroom(t *testing.T) {
	for seed := range uint64(20) {
		e := randomNetworkOf(simkernel.DCTCP, seed)
		links := make([]int64, len(e.hosts))
		for _, l := range e.links {
			links[l.DstNode]++
		}
		n, r := runIn(t, &e, BufferParams{SwitchBytes: slices.Max(links)*pfcReserve + 5000, Alpha: 1, PFC: true},
			nil, 1, 1000)
		safe := int64(0)
		for _, f := range n.Shortfalls() {
			safe = max(safe, f.LeastSafe)
			if !(f.Share < 1) || e.hosts[f.Node] {
				t.Errorf("seed %d: %+v", seed, f)
			}
		}
		full, err := New(e.params, BufferParams{SwitchBytes: safe, Alpha: 1, PFC: true}, e.links, e.hosts, nil)
		if err != nil || safe == 0 || len(full.Shortfalls()) > 0 {
			t.Errorf("seed %d: a buffer of %d bytes: %v", seed, safe, err)
		}
		for v := range e.hosts {
			sum := links[v] * pfcReserve
			for l := range e.links {
				if e.links[l].DstNode == int32(v) {
					sum += n.pausers[l^1].headroom
				}
			}
			b := &n.buffers[v]
			if !e.hosts[v] && (sum+b.poolBytes > n.buffer.SwitchBytes || b.peakBytes > n.buffer.SwitchBytes) {
				t.Errorf("seed %d, switch %d: %d bytes of reserve and headroom, pool %d, peak %d, buffer %d", seed, v,
					sum, b.poolBytes, b.peakBytes, n.buffer.SwitchBytes)
			}
		}
		l := n.Losses()
		if l.Sent != l.Delivered+l.Dropped+l.Discarded || len(r.Row) != len(e.flows.StartNS) {
			t.Errorf("seed %d: %d of %d flows, %+v", seed, len(r.Row), len(e.flows.StartNS), l)
		}
	}
}

// Rooms returns the bytes that can wait at a port before drops, or before other switches are paused. The
// network is two racks of two hosts below one switch.
func TestRooms(t *testing.T) {
	var links []Link
	for _, c := range [][2]int32{{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 6}, {5, 6}} {
		bps := int64(10e9)
		if c[0] >= 4 {
			bps = 40e9
		}
		links = append(links, Link{c[0], c[1], bps, 1000}, Link{c[1], c[0], bps, 1000})
	}
	hosts := []bool{true, true, true, true, false, false, false}
	const down, up, far = 1, 8, 11 // tor to host, tor to switch, switch to tor
	pool := int64(100_000)
	torPool := pool - 3*1000 - 2*2000 - 8000
	topPool := pool - 2*1000 - 2*8000
	for _, c := range []struct {
		b             BufferParams
		down, up, far int64
	}{
		{BufferParams{SwitchBytes: pool, Alpha: 1}, 50_000, 50_000, 50_000},
		{BufferParams{SwitchBytes: pool, Alpha: 1, ReservedBytes: 5000}, 5000 + (pool-15_000)/2,
			5000 + (pool-15_000)/2, 5000 + (pool-10_000)/2},
		{BufferParams{SwitchBytes: pool, Alpha: 0.125, PFC: true, HeadroomBytes: 2000, ReservedBytes: 1000},
			1000 + torPool/3, 2*1000 + torPool/5, 1000 + topPool/3},
		{BufferParams{SwitchBytes: pool, Alpha: 0.125, PFC: true, HeadroomBytes: 2000, ReservedBytes: 1000,
			XOFFBytes: 3000}, 4000, 2 * 4000, 4000},
	} {
		n, err := New(simkernel.DefaultParams(), c.b, links, hosts, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := n.Rooms()
		if got[down] != c.down || got[up] != c.up || got[far] != c.far {
			t.Errorf("%+v: %d, %d and %d bytes, want %d, %d and %d", c.b, got[down], got[up], got[far], c.down, c.up,
				c.far)
		}
	}
}

// Pauses of links whose delays change end, and results do not depend on the domains. A frame that is sent
// later does not overtake an earlier one. Its delay is that of the link when it is sent.
func TestPausesWithChangingDelays(t *testing.T) {
	var paused int64
	for _, seed := range kerneltest.Seeds(40, 7) {
		e := leafSpine(simkernel.DCTCP, seed)
		rng := rand.New(rand.NewPCG(seed, 99))
		b := pfcBuffer(t, &e, rng, 0)
		b.WatchdogNS = 1_000_000
		b.RestoreNS = 1_000_000
		var m Forwarding
		for l := range e.links {
			atNS := rng.Int64N(10_000)
			for k := range int64(40) {
				delayNS := e.links[l].DelayNS + (1-k%2)*(1+rng.Int64N(2000))
				m.Rates = append(m.Rates, faults.Rate{Link: int32(l), FromNS: atNS, DelayNS: delayNS})
				atNS += 500 + rng.Int64N(8000)
			}
		}
		m.Routes = routesOf(e.links, e.hosts, []int64{0}, nil)
		one, want := runMoving(t, &e, b, m, nil, 1)
		for l := range e.links {
			paused += one.PausedNS(int32(l))
		}
		for _, domains := range []int{2, 7} {
			n, got := runMoving(t, &e, b, m, domainsOf(len(e.hosts), min(domains, len(e.hosts)), seed), 1)
			if !reflect.DeepEqual(want, got) || n.Losses() != one.Losses() {
				t.Errorf("seed %d: results differ by domains", seed)
			}
		}
	}
	if paused == 0 {
		t.Error("nothing was paused")
	}
}

// A packet may pause its sender if its link's part of the pool reaches alpha times the free bytes, its own
// not included, or if the pool has no room for it. Counts that are too old would pause a sender too late.
func TestPacketsThatMayPauseTheirSender(t *testing.T) {
	n := &Network{}
	for _, c := range []struct {
		name   string
		pool   int64
		shared int64
		u      pauser
		bytes  int64
		want   bool
	}{
		// 90 and 60 bytes are 50 above the reserve. 120 - 40 - 50 bytes are free.
		{"below the threshold of 60", 120, 40, pauser{bytes: 90, reserve: 100, alpha: 2}, 60, false},
		{"at the threshold of 50", 130, 55, pauser{bytes: 90, reserve: 100, alpha: 2}, 60, true},
		{"above the threshold of 45", 120, 40, pauser{bytes: 90, reserve: 100, alpha: 1.5}, 60, true},
		// Its own 30 bytes of the 40 in the pool are free for it.
		{"with bytes in the pool", 150, 40, pauser{bytes: 130, reserve: 100, alpha: 1}, 25, false},
		{"with more bytes in the pool", 150, 40, pauser{bytes: 130, reserve: 100, alpha: 1}, 40, true},
		{"within the reserve", 0, 0, pauser{bytes: 40, reserve: 100, alpha: 0.1}, 60, false},
		{"no room", 49, 0, pauser{bytes: 90, reserve: 100, alpha: 1e9}, 60, true},
		{"the last room", 50, 0, pauser{bytes: 90, reserve: 100, alpha: 1e9}, 60, true}, // 50 is above 0
		{"without a reserve", 1e6, 0, pauser{alpha: 8}, 1, true},
	} {
		b := &buffer{poolBytes: c.pool, sharedBytes: c.shared}
		got := n.crosses(b, &c.u, c.bytes)
		if got != c.want {
			t.Errorf("%s: a packet of %d bytes may pause its sender: %v", c.name, c.bytes, got)
		}
	}
	n.buffer.XOFFBytes = 50
	for bytes, want := range map[int64]bool{59: false, 60: true} {
		got := n.crosses(&buffer{poolBytes: 1e6}, &pauser{bytes: 90, reserve: 100}, bytes)
		if got != want {
			t.Errorf("a fixed threshold of 50 bytes, and %d: %v", bytes-10, got)
		}
	}
}

// Without PFC, no link was paused. Another value would be a pause in table link_stats.
func TestWithoutPFCNoLinkWasPaused(t *testing.T) {
	c := newClos(1, 2)
	params := simkernel.DefaultParams()
	n, err := New(params, BufferParams{SwitchBytes: 12e6, Alpha: 1}, c.links, c.hosts, once(&Flows{}))
	if err != nil {
		t.Fatal(err)
	}
	for link := range int32(len(c.links)) {
		if n.PausedOf(link, 0) != 0 || n.PausedNS(link) != 0 {
			t.Fatalf("link %d was paused for %d ns", link, n.PausedOf(link, 0))
		}
	}
}

// smallPFC is a switch between two hosts. A link has a reserve of 1,000 bytes, a headroom of 2,000, and a
// threshold of 5,000 bytes of the pool.
func smallPFC(t *testing.T) (n *Network, d *domain, b *buffer) {
	t.Helper()
	e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
	n = newExampleNetwork(t, &e, BufferParams{SwitchBytes: 50_000, Alpha: 1, PFC: true, XOFFBytes: 5000,
		ReservedBytes: 1000, HeadroomBytes: 2000, WatchdogNS: 40, RestoreNS: 70}, 1)
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	d = &n.domains[0]
	d.pool.starting = []*newFlow{{}}
	d.pool.needUnits = units(2)
	n.reserve(&d.pool)
	d.Begin(1, 0)
	return n, d, &n.buffers[2]
}

// A packet uses the reserve of its link, then the pool up to the threshold, then headroom. It is dropped if
// none has room. Its sender is paused from the threshold on. The frame takes 51.2 ns and 1 µs.
func TestRoomOfAPacketWithPFC(t *testing.T) {
	for _, c := range []struct {
		name              string
		bytes, head       int64 // of the link, before
		others            int64 // bytes of the pool that other links use
		ok, pausing       bool
		bytesNow, headNow int64
	}{
		{"within the reserve", 0, 0, 0, true, false, 1048, 0},
		{"below the threshold", 4951, 0, 0, true, false, 5999, 0},
		{"at the threshold", 4952, 0, 0, true, true, 6000, 0},
		{"above the threshold", 4953, 0, 0, true, true, 4953, 1048},
		{"the last headroom", 4953, 952, 0, true, true, 4953, 2000},
		{"no headroom", 4953, 953, 0, false, false, 4953, 953},
		{"the last room of the pool", 1000, 0, 42_952, true, false, 2048, 0},
		{"no room in the pool", 1000, 0, 42_953, true, true, 1000, 1048},
	} {
		n, d, b := smallPFC(t)
		if b.poolBytes != 44_000 {
			t.Fatalf("a pool of %d bytes", b.poolBytes)
		}
		u := d.pfc.pauserOf(1, 0)
		u.bytes = c.bytes
		u.headBytes = c.head
		shared := c.others + u.poolPart()
		b.sharedBytes = shared
		a := &calendar.Arrival{Item: calendar.Item{AtPS: 7000}, Link: 0}
		ok := d.pfc.takeIn(b, &n.ports[n.portOf[3]], a, 1048)
		if ok != c.ok || u.pausing != c.pausing || u.bytes != c.bytesNow || u.headBytes != c.headNow ||
			b.sharedBytes != c.others+u.poolPart() || (b.pausing == 1) != c.pausing {
			t.Errorf("%s: accepted %v, pool of others %d, %+v", c.name, ok, b.sharedBytes-u.poolPart(), u)
		}
		if c.pausing && u.toldPS != 7000+51_200+1_000_000 {
			t.Errorf("%s: the frame arrives at %d ps", c.name, u.toldPS)
		}
	}
}

// A sender resumes when a packet of its link has left, no headroom is used, and the link is 3,072 bytes below
// its threshold, or has nothing in the pool. Packets that leave at the same time count together. A packet
// leaves headroom first.
func TestWhenSendersResume(t *testing.T) {
	for _, c := range []struct {
		name        string
		bytes, head int64 // before 1,048 bytes leave at 500 ps, and at 500 or 600 ps again
		secondPS    int64
		xoff        int64
		resumes     bool
		toldPS      int64
	}{
		{"far below the threshold", 1000 + 1928 + 1048, 0, 600, 5000, true, 500},
		{"with the second", 1000 + 1929 + 1048, 0, 600, 5000, true, 600},
		{"with both at once", 1000 + 1928 + 2096, 0, 500, 5000, true, 500},
		{"not with both", 1000 + 1929 + 2096, 0, 600, 5000, false, 0},
		{"headroom is used", 2000, 2097, 600, 5000, false, 0},
		{"headroom was used", 2928, 2096, 600, 5000, true, 600},
		{"headroom was used, and the link is too full", 2929, 2096, 600, 5000, false, 0},
		{"little in the pool", 1000 + 1 + 2096, 0, 600, 3000, false, 0},
		{"nothing in the pool", 3096, 0, 600, 3000, true, 600},
	} {
		n, d, b := smallPFC(t)
		n.buffer.XOFFBytes = c.xoff
		u := d.pfc.pauserOf(1, 0)
		u.bytes = c.bytes
		u.headBytes = c.head
		u.pausing = true
		b.pausing = 1
		b.sharedBytes = u.poolPart()
		d.pfc.merging = true
		for _, ps := range []int64{c.secondPS, 500} {
			d.pfc.leaves(2, 1, &calendar.Item{}, 1048, ps)
		}
		d.pfc.settleLeaving(b)
		if u.pausing == c.resumes || (b.pausing == 0) != c.resumes || len(d.pfc.leaving) != 0 ||
			u.bytes+u.headBytes != c.bytes+c.head-2096 || b.sharedBytes != u.poolPart() {
			t.Errorf("%s: %+v, pool %d", c.name, u, b.sharedBytes)
		}
		if c.resumes && u.toldPS != c.toldPS+51_200+1_000_000 {
			t.Errorf("%s: the frame arrives at %d ps", c.name, u.toldPS)
		}
		d.pfc.merging = false
		d.pfc.leaves(2, 1, &calendar.Item{}, 5, 700)
		if u.bytes+u.headBytes != c.bytes+c.head-2101 {
			t.Errorf("%s: a packet that leaves is not counted at once", c.name)
		}
	}
}

// A port changes at the earliest of a change of its rate, the first frame that it has received, and a check
// of the watchdog of a paused class. A port of a host has no watchdog.
func TestNextChangeOfAPort(t *testing.T) {
	for _, c := range []struct {
		name            string
		link            int32
		ratePS, framePS int64 // never: none
		paused, ignores bool
		want            int64
		bits            uint32
	}{
		{"nothing", 3, never, never, false, false, never, 0},
		{"a rate", 3, 80, 90, false, false, 80, portChanges},
		{"a frame", 3, 80, 70, false, false, 70, portChanges},
		{"a check", 3, 80, 70, true, false, 60, portChanges | portPaused},
		{"the end of ignoring", 3, 80, 70, false, true, 60, portChanges},
		{"a host that is paused", 0, 80, never, true, false, 80, portChanges | portPaused},
		{"a host that is paused, and no change", 0, never, never, true, false, never, portPaused},
	} {
		n, d, _ := smallPFC(t)
		p := &n.ports[n.portOf[c.link]]
		u := d.pfc.pauserOf(c.link, 0)
		p.rateAtPS = c.ratePS
		p.bits |= portWaits | portPaused | portChanges
		if c.framePS != never {
			u.toggles = append(u.toggles, calendar.Toggle{AtPS: c.framePS})
		}
		u.paused = c.paused
		u.ignores = c.ignores
		u.lookPS = 60
		d.pfc.setNextPause(p)
		if p.changeAtPS != c.want || p.bits != c.bits|portWaits {
			t.Errorf("%s: at %d, bits %b", c.name, p.changeAtPS, p.bits)
		}
	}
}

// A pause lasts from its first frame to the end of it. The wire is not used for the time of a pause. The
// watchdog checks 40 ns after the begin of a pause, and not at the next frame of it.
func TestTimesOfPauses(t *testing.T) {
	n, d, _ := smallPFC(t)
	p := &n.ports[n.portOf[3]]
	u := d.pfc.pauserOf(3, 0)
	p.freePS = 1500
	for _, c := range []struct {
		atPS    int64
		pause   bool
		pausedS int64 // ps of all pauses that have ended
		lookPS  int64
		freePS  int64
	}{
		{1000, true, 0, 41_000, 1500}, {1200, true, 0, 41_000, 1500}, {1400, false, 400, 41_000, 1500},
		{1450, false, 400, 41_000, 1500}, {2000, true, 400, 42_000, 1500}, {3000, false, 1400, 42_000, 3000},
	} {
		u.toggles = append(u.toggles, calendar.Toggle{AtPS: c.atPS, Pause: c.pause})
		d.pfc.changePauses(p, c.atPS)
		if u.paused != c.pause || u.asked != c.pause || u.pausedPS != c.pausedS || u.lookPS != c.lookPS ||
			p.freePS != c.freePS || len(u.toggles) != 0 {
			t.Errorf("%+v: %+v, free at %d", c, u, p.freePS)
		}
	}
	u.pausedPS = 7999
	if n.PausedOf(3, 0) != 7 || n.PausedNS(3) != 7 {
		t.Errorf("paused for %d ns", n.PausedOf(3, 0))
	}
}

// The watchdog drops what waits in a queue that has been paused for 40 ns, and then pauses are ignored for 70
// ns. If nothing waits yet, it checks again after 40 ns.
func TestWatchdogByHand(t *testing.T) {
	n, d, b := smallPFC(t)
	p := &n.ports[n.portOf[3]]
	u := d.pfc.pauserOf(3, 0)
	from := d.pfc.pauserOf(1, 0)
	u.toggles = append(u.toggles, calendar.Toggle{AtPS: 1000, Pause: true})
	d.pfc.changePauses(p, 1000)
	q := &p.classes.queues[0]
	for _, ps := range []int64{41_001, 41_002, 81_000, 81_001} {
		q.Push(calendar.Item{AtPS: ps})
		q.came = append(q.came, 0)
		d.buffers.hold(b, p, &calendar.Item{}, 1048, ps)
		b.add(from, 1048)
	}
	q.Buf[1].Bits |= calendar.FlagAck // with Traits.AcksQueue
	q.Arrived = 3
	q.leftBytes = 2096
	d.pfc.changePauses(p, 41_000)
	if len(q.Buf) != 4 || u.lookPS != 81_000 || u.storms != 0 || !u.paused {
		t.Errorf("before anything waits: %d packets, %+v", len(q.Buf), u)
	}
	d.pfc.changePauses(p, 81_000)
	if len(q.Buf) != 2 || q.Buf[0].AtPS != 41_002 || q.Buf[1].AtPS != 81_001 || len(q.came) != 2 ||
		u.storms != 1 || u.paused || !u.ignores || u.lookPS != 151_000 || p.dropped != 2 || q.dropped != 2 ||
		q.heldBytes != 2096 || q.Head != 0 || q.Arrived != 0 || q.leftBytes != 0 ||
		from.bytes != 2096 || u.pausedPS != 80_000 {
		t.Errorf("after 80 ns: %d packets, %d dropped, %d bytes are held, %+v", len(q.Buf), p.dropped,
			q.heldBytes, u)
	}
	u.toggles = append(u.toggles, calendar.Toggle{AtPS: 90_000, Pause: true})
	d.pfc.changePauses(p, 90_000)
	if u.paused || !u.asked {
		t.Errorf("a pause that is ignored: %+v", u)
	}
	d.pfc.changePauses(p, 151_000)
	if !u.paused || u.ignores || u.sincePS != 151_000 || u.lookPS != 191_000 {
		t.Errorf("after 70 ns: %+v", u)
	}
}

// Settings at their limits are simulated, and those beyond are refused.
func TestLimitsOfPFC(t *testing.T) {
	pfc := BufferParams{SwitchBytes: 10_000, Alpha: 1, PFC: true}
	for _, c := range []struct {
		change func(b *BufferParams)
		want   string
	}{
		{func(*BufferParams) {}, ""},
		{func(b *BufferParams) { b.XOFFBytes = 10_000 }, ""},
		{func(b *BufferParams) { b.XOFFBytes = 10_001 }, "xoff is 10001"},
		{func(b *BufferParams) { b.XOFFBytes = -1 }, "xoff is -1"},
		{func(b *BufferParams) { b.HeadroomBytes = 1048 }, ""},
		{func(b *BufferParams) { b.HeadroomBytes = 1047 }, "headroom is 1047"},
		{func(b *BufferParams) { b.HeadroomBytes = 1 }, "headroom is 1 "},
		{func(b *BufferParams) { b.HeadroomBytes = -1 }, "headroom is -1"},
		{func(b *BufferParams) { b.HeadroomBytes = 10_000 }, ""},
		{func(b *BufferParams) { b.HeadroomBytes = 10_001 }, "headroom is 10001"},
		{func(b *BufferParams) { b.WatchdogNS = 1 }, ""},
		{func(b *BufferParams) { b.WatchdogNS = 1; b.RestoreNS = 1 }, ""},
		{func(b *BufferParams) { b.WatchdogNS = -1 }, "watchdog is -1"},
		{func(b *BufferParams) { b.WatchdogNS = 1; b.RestoreNS = -1 }, "restore -1"},
		{func(b *BufferParams) { b.RestoreNS = 1 }, "watchdog is 0 ns, restore 1"},
		{func(b *BufferParams) { b.PFC = false; b.WatchdogNS = 1 }, "watchdog is 1 ns"},
		{func(b *BufferParams) { b.PFC = false; b.HeadroomBytes = 1048 }, "pfc is false"},
		{func(b *BufferParams) { b.PFC = false; b.XOFFBytes = 1 }, "pfc is false, and xoff is 1"},
	} {
		b := pfc
		c.change(&b)
		err := b.checkPFC(1048)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", b, err, c.want)
		}
	}
}

// The default headroom has room for what is sent at 10 Gbps in a round trip of 2 µs and a frame of 51.2 ns,
// 2,564 bytes, and for three packets. A stated one belongs to the slowest link of a host. Faster links have
// more in proportion, and larger thresholds.
func TestHeadroomOfALink(t *testing.T) {
	e := twoSwitches(Link{0, 0, 40e9, 1000})
	b := BufferParams{SwitchBytes: 1 << 20, Alpha: 0.5, PFC: true}
	n := newExampleNetwork(t, &e, b, 1)
	tenGbps := n.Headroom(e.links[0])
	if tenGbps != 2564+1+3*1048 {
		t.Errorf("%d bytes", tenGbps)
	}
	// 6 µs and 51.2 ns: 7,564 bytes. 2 µs and 12.8 ns at 40 Gbps: 10,064 bytes.
	for link, want := range map[int]int64{3: 7564 + 1 + 3*1048, 4: 10_064 + 1 + 3*1048} {
		got := n.pausers[link^1].headroom
		if got != want || n.pausers[link].reserve != 4096 {
			t.Errorf("link %d: %d bytes, want %d", link, got, want)
		}
	}
	b.HeadroomBytes = 2000
	n = newExampleNetwork(t, &e, b, 1)
	for link, want := range map[int]pauser{1: {headroom: 2000, alpha: 0.5}, 5: {headroom: 8000, alpha: 2}} {
		u := n.pausers[link]
		if u.headroom != want.headroom || u.alpha != want.alpha {
			t.Errorf("link %d: %+v, want %+v", link, u, want)
		}
	}
	if n.slowestHostLink() != 10e9 || n.Headroom(e.links[4]) != 2000 {
		t.Errorf("the slowest link of a host has %d bps", n.slowestHostLink())
	}
}

// A buffer that has no room for the default headroom and a packet gives half of what the reserves leave to
// headroom. It must have room for two packets beside the reserves. A stated headroom is not divided.
func TestDivisionOfABuffer(t *testing.T) {
	for _, c := range []struct {
		name    string
		buffer  int64
		stated  int64
		node    int32 // 2: the switch, 0: a host
		share   float64
		pool    int64
		short   int
		refused bool
	}{
		{"all of it", 8000 + 6000 + 1048, 0, 2, 1, 1048, 0, false},
		{"a byte less", 8000 + 6000 + 1047, 0, 2, 3523.0 / 6000, 3524, 1, false},
		{"the least", 8000 + 2096, 0, 2, 1048.0 / 6000, 1048, 1, false},
		{"less than the least", 8000 + 2095, 0, 2, 1, -3905, 0, true},
		{"stated, all of it", 8000 + 6000 + 1048, 3000, 2, 1, 1048, 0, false},
		{"stated, a byte less", 8000 + 6000 + 1047, 3000, 2, 1, 1047, 0, true},
		{"a host", 8000, 0, 0, 1, -6000, 0, false},
		{"a host that has to divide", 8000 + 2096, 0, 0, 1048.0 / 6000, 1048, 0, false},
	} {
		n := &Network{rules: rules{fullBytes: 1048}, host: []bool{true, true, false}}
		n.buffers = make([]buffer, 3)
		n.buffer = BufferParams{SwitchBytes: c.buffer, HeadroomBytes: c.stated, PFC: true}
		share, err := n.divide(c.node, 8000, 6000)
		if share != c.share || n.buffers[c.node].poolBytes != c.pool || len(n.shortfalls) != c.short ||
			(err != nil) != c.refused {
			t.Errorf("%s: share %v, pool %d, %v, %v", c.name, share, n.buffers[c.node].poolBytes, n.shortfalls, err)
		}
		if c.short == 1 && n.shortfalls[0] != (Shortfall{2, c.share, 8000 + 6000 + 1048}) {
			t.Errorf("%s: %+v", c.name, n.shortfalls)
		}
	}
}

// The bytes that are always free of pauses and drops are one less than the least threshold of a queue: a
// fixed one, or the share of a lone queue.
func TestBytesWithoutPauses(t *testing.T) {
	for _, c := range []struct {
		xoff, pool int64
		alpha      float64 // of dynamic thresholds; 0: none
		node       int
		free       int64
		refused    bool
	}{
		{0, 9000, 0.5, 2, 2999, false}, {0, 9000, 1, 2, 4499, false}, {5000, 9000, 0, 2, 4999, false},
		{9000, 9000, 0, 2, 8999, false}, {9001, 9000, 0, 2, 0, true}, {9001, 9000, 0, 0, 8999, false},
		{2000, 9000, 0.5, 2, 1999, false}, {4000, 9000, 0.5, 2, 2999, false},
	} {
		n := &Network{rules: rules{fullBytes: 1048}, host: []bool{true, true, false}}
		n.buffers = make([]buffer, 3)
		n.buffer.XOFFBytes = c.xoff
		n.buffers[c.node].poolBytes = c.pool
		err := n.initPool(c.node, c.alpha)
		if (err != nil) != c.refused || n.buffers[c.node].freeBytes != c.free {
			t.Errorf("%+v: %d bytes, %v", c, n.buffers[c.node].freeBytes, err)
		}
	}
	var needs pfcNeeds
	for _, u := range []pauser{{reserve: 1, headroom: 10, alpha: 3}, {reserve: 2, headroom: 20, alpha: 2},
		{reserve: 4, headroom: 40, alpha: 5}} {
		needs.add(&u, true)
	}
	needs.add(&pauser{reserve: 8, headroom: 80, alpha: 1}, false)
	if needs != (pfcNeeds{15, 150, 2}) {
		t.Errorf("%+v", needs)
	}
}
