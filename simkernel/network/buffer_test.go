package network

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
)

func runBuffered(t testing.TB, e *netExample, b BufferParams, chunk int) *Buffered {
	t.Helper()
	n, err := NewBuffered(e.params, b, e.classes, e.links, e.hosts, chunks(&e.flows, chunk))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(nil); err != nil {
		t.Fatal(err)
	}
	return n
}

// With limited buffers, the network agrees in every bit with a slow simulator that has one heap of events.
// Without limits it agrees as long as the slow one loses nothing.
func TestBufferedAgreesWithTwin(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(300, 11) {
			e := randomNetworkOf(kind, seed)
			rng := rand.New(rand.NewPCG(seed, 10))
			kerneltest.RandomConstants(rng, &e.params)
			rtts := int64(1) // of long paths, so that not every packet is sent many times
			if slices.ContainsFunc(e.links, func(l Link) bool { return l.DelayNS >= 100_000 }) {
				rtts = 100
			}
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			for _, b := range []BufferParams{{SwitchBytes: 1 << 50, Alpha: 8}, {
				SwitchBytes:  packet * kerneltest.Pick[int64](rng, 4, 5, 20, 60),
				Alpha:        kerneltest.Pick(rng, 0.5, 1, 2, 8),
				RetransmitNS: kerneltest.Pick[int64](rng, 0, 0, 20_000, 100_000) * rtts,
			}, reservedBuffer(&e, rng, 1)} {
				want := runBuffered(t, &e, b, 3)
				n, got := runIn(t, &e, b, nil, 1, 1000)
				got.StartNS = nil
				got.Again = nil
				got.Reordered = nil // the twin does not report them
				if !reflect.DeepEqual(got, &want.Results) || n.Losses() != want.Losses {
					t.Fatalf("%v, seed %d, %+v: %s\n%+v\ntwin:\n%+v", kind, seed, b,
						kerneltest.FirstDifference(got, &want.Results), n.Losses(), want.Losses)
				}
				for l := range int32(len(e.links)) {
					if n.Counters(l) != want.Counters(l) || n.Dropped(l) != want.Dropped(l) {
						t.Fatalf("%v, seed %d, link %d: %+v, twin %+v", kind, seed, l, n.Counters(l), want.Counters(l))
					}
				}
				for node := range int32(len(e.hosts)) {
					if n.MostBytes(node) != want.MostBytes(node) {
						t.Fatalf("%v, seed %d, node %d: peak %d bytes, twin %d", kind, seed, node, n.MostBytes(node),
							want.MostBytes(node))
					}
				}
				if b.Alpha == 8 && b.SwitchBytes == 1<<50 {
					_, free := runIn(t, &e, BufferParams{}, nil, 1, 1000)
					free.StartNS = nil
					free.Again = nil
					free.Reordered = nil
					if !reflect.DeepEqual(free, got) {
						t.Fatalf("%v, seed %d: unlimited buffers yield another result", kind, seed)
					}
				}
			}
		}
	}
}

// reservedBuffer draws a small buffer of which the ports of all classes reserve a part.
func reservedBuffer(e *netExample, rng *rand.Rand, classes int64) BufferParams {
	packet := e.params.PayloadBytes + e.params.HeaderBytes
	ports := make([]int64, len(e.hosts))
	for _, l := range e.links {
		ports[l.SrcNode] += classes
	}
	reserved := packet * kerneltest.Pick[int64](rng, 1, 2, 5) / 2
	return BufferParams{SwitchBytes: slices.Max(ports)*reserved + packet*kerneltest.Pick[int64](rng, 2, 5, 20),
		ReservedBytes: reserved, Alpha: kerneltest.Pick(rng, 0.5, 1, 8)}
}

// With small buffers every flow finishes, and not before its ideal FCT. Every packet is delivered once and in
// order. Every packet that was sent was delivered, dropped or discarded. No buffer ever holds more than its
// size. The results do not depend on the chunks in which the flows arrive.
func TestBufferedLaws(t *testing.T) {
	var all Losses
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(120, 7) {
			e := randomNetworkOf(kind, seed)
			rng := rand.New(rand.NewPCG(seed, 31))
			kerneltest.RandomConstants(rng, &e.params)
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b := BufferParams{SwitchBytes: packet * kerneltest.Pick[int64](rng, 2, 3, 5, 20),
				Alpha: kerneltest.Pick(rng, 0.5, 1, 2, 8), RetransmitNS: kerneltest.Pick[int64](rng, 0, 0, 1000, 100_000)}
			n, r := runIn(t, &e, b, nil, 1, 1000)
			packets := int64(0)
			for i, row := range r.Row {
				packets += e.params.Packets(e.flows.SizeBytes[row])
				if r.FCTNS[i] < r.IdealNS[i] {
					t.Fatalf("%v, seed %d, flow %d: FCT %d ns, ideal %d", kind, seed, row, r.FCTNS[i], r.IdealNS[i])
				}
			}
			for i, row := range slices.Sorted(slices.Values(r.Row)) {
				if int(row) != i || len(r.Row) != len(e.flows.StartNS) {
					t.Fatalf("%v, seed %d: of %d flows these finished: %v", kind, seed, len(e.flows.StartNS), r.Row)
				}
			}
			l := n.Losses()
			if l.Delivered != packets || l.Sent != l.Delivered+l.Dropped+l.Discarded || l.Again != l.Sent-packets {
				t.Fatalf("%v, seed %d: %d packets: %+v", kind, seed, packets, l)
			}
			dropped := int64(0)
			for link := range e.links {
				dropped += n.Dropped(int32(link))
				p := &n.ports[link]
				if p.heldBytes != 0 || p.leftBytes != 0 || !p.data.Empty() || !p.acks.Empty() {
					t.Fatalf("%v, seed %d: link %d is not empty: %+v", kind, seed, link, p)
				}
			}
			if dropped != l.Dropped {
				t.Fatalf("%v, seed %d: links dropped %d packets, %d in all", kind, seed, dropped, l.Dropped)
			}
			for node := range e.hosts {
				if n.MostBytes(int32(node)) > b.SwitchBytes || n.buffers[node].usedBytes != 0 {
					t.Fatalf("%v, seed %d: node %d had up to %d of %d bytes, and has %d at the end", kind, seed, node,
						n.MostBytes(int32(node)), b.SwitchBytes, n.buffers[node].usedBytes)
				}
			}
			m, again := runIn(t, &e, b, nil, 1, 1+rng.IntN(4))
			if !reflect.DeepEqual(r, again) || m.Losses() != l {
				t.Fatalf("%v, seed %d: another result the second time", kind, seed)
			}
			all.Dropped += l.Dropped
			all.NACKs += l.NACKs
			all.Timeouts += l.Timeouts
			all.Discarded += l.Discarded
		}
	}
	if all.Dropped < 1000 || all.NACKs == 0 || all.Timeouts == 0 || all.Discarded == 0 {
		t.Errorf("hardly anything is lost, the test tests nothing: %+v", all)
	}
}

// Two hosts send to a third at the same time, over a switch with room for three packets and alpha 1. The
// packets that wait at a port may use half of that, which is one packet. Each step is worked out by hand.
//
//	0        both begin; a packet takes 838.4 ns, on every link, and 1 µs on the way
//	1,838.4  the first packets of both arrive: one is sent at once, the other waits
//	2,676.8  the second of both arrive, as the wire gets free: the queue has the first of flow 1. There is
//	         room for one packet beside it only if 2 × 1048 ≤ 3 × 1048 − 1048, which holds for the first
//	         that comes and not for the second
func TestBufferedIncastByHand(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, true, false}}
	for h := range int32(3) {
		e.links = append(e.links, Link{h, 3, 10e9, 1000}, Link{3, h, 10e9, 1000})
	}
	e.flows = Flows{SizeBytes: []int64{2000, 2000}, StartNS: []int64{0, 0}, PathEnds: []int32{2, 4},
		PathLinks: []int32{0, 5, 2, 5}}
	n, r := runIn(t, &e, BufferParams{SwitchBytes: 3 * 1048, Alpha: 1}, nil, 1, 10)
	// The last packet of flow 1 is lost and no packet follows it, so the timer expires. It was set when the
	// first packet was sent, and reset when the ACK of that packet arrived.
	l := n.Losses()
	if l != (Losses{Sent: 5, Delivered: 4, Dropped: 1, Again: 1, Timeouts: 1}) {
		t.Errorf("%+v", l)
	}
	if n.Dropped(5) != 1 || n.MostBytes(3) != 2*1048 {
		t.Errorf("dropped %d, peak %d bytes", n.Dropped(5), n.MostBytes(3))
	}
	// On an idle path, a packet and its ACK need 2 × (838.4 + 48 + 2,000) ns. The timeout is twice that plus,
	// for each of the two links, the time to send half of the buffer in both directions.
	idleNS := 2 * (838.4 + 48 + 2000)
	deepestNS := 3 * 1048 * 8 / 10.0 / 2
	timeoutNS := 2*idleNS + 2*2*deepestNS
	ackNS := 838.4*3 + 48*2 + 4*1000 // of flow 1's first packet, which waited for one
	want := ackNS + timeoutNS + 2*(838.4+1000)
	got := float64(r.FCTNS[slices.Index(r.Row, 1)])
	if got < want-1 || got > want+1 {
		t.Errorf("FCT %v ns, want %v", got, want)
	}

	// A third packet behind the lost one reveals the loss: the receiver requests the lost packet.
	e.flows.SizeBytes = []int64{2000, 4000}
	n, _ = runIn(t, &e, BufferParams{SwitchBytes: 3 * 1048, Alpha: 1}, nil, 1, 10)
	if l := n.Losses(); l.Dropped != 1 || l.NACKs != 1 || l.Timeouts != 0 || l.Discarded != 2 || l.Again != 3 {
		t.Errorf("%+v", l)
	}
}

// A smaller alpha leaves more free space for other ports: a lone queue gets alpha / (1 + alpha) of the
// buffer.
func TestBufferedAlpha(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, true, true, true, false}}
	e.params.MarkBytesPerGbps = 1 << 20 // queues grow
	for h := range int32(5) {
		e.links = append(e.links, Link{h, 5, 10e9, 1000}, Link{5, h, 10e9, 1000})
	}
	for h := range int32(4) {
		for range 4 {
			e.flows.SizeBytes = append(e.flows.SizeBytes, 300_000)
			e.flows.StartNS = append(e.flows.StartNS, 0)
			e.flows.PathLinks = append(e.flows.PathLinks, 2*h, 9)
			e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
		}
	}
	peak := int64(0)
	for _, alpha := range []float64{0.25, 1, 4} {
		n, _ := runIn(t, &e, BufferParams{SwitchBytes: 100_000, Alpha: alpha}, nil, 1, 100)
		limit := int64(alpha / (1 + alpha) * 100_000)
		if n.Losses().Dropped == 0 || n.MostBytes(5) <= peak ||
			n.MostBytes(5) > limit+1048 {
			t.Errorf("alpha %v: dropped %d, peak %d (before: %d) of %d", alpha, n.Losses().Dropped, n.MostBytes(5),
				peak, limit)
		}
		peak = n.MostBytes(5)
	}
}

func TestBufferedRefuses(t *testing.T) {
	e := randomNetworkOf(simkernel.DCTCP, 1)
	for want, b := range map[string]BufferParams{
		"must hold a packet":    {SwitchBytes: 100, Alpha: 1},
		"at most 2^60":          {SwitchBytes: 1 << 61, Alpha: 1},
		"alpha":                 {SwitchBytes: 1 << 20},
		"never admits a packet": {SwitchBytes: 1100, Alpha: 0.5},
	} {
		if _, err := New(e.params, b, e.links, e.hosts, chunks(&e.flows, 1)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", b, err, want)
		}
	}
	e.flows.SizeBytes[0] = 0
	n, err := New(e.params, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, e.links, e.hosts, chunks(&e.flows, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Run(context.Background(), 1, nil); err == nil ||
		!strings.Contains(err.Error(), "flow row 0: size_bytes is 0") {
		t.Errorf("bad row: %v", err)
	}
}

// A simulation whose senders retransmit without end is stopped, after 10 million packets. A few losses do not
// stop it.
func TestStorm(t *testing.T) {
	n := &Network{layout: layout{domains: make([]domain, 2)}}
	n.domains[0].journal.storming = 5_000_000
	n.domains[1].journal.storming = 5_000_000
	if err := n.storm(); err == nil || !strings.Contains(err.Error(), "retransmission storm") {
		t.Error(err)
	}
	n.domains[0].journal.storming--
	if err := n.storm(); err != nil {
		t.Error(err)
	}
}

// Settings at their limits are simulated, and those beyond are refused. A packet has 1,048 bytes.
func TestLimitsOfBuffers(t *testing.T) {
	p := simkernel.DefaultParams()
	for _, c := range []struct {
		b    BufferParams
		want string
	}{
		{BufferParams{SwitchBytes: 1048, Alpha: 1}, ""},
		{BufferParams{SwitchBytes: 1047, Alpha: 1}, "must hold a packet"},
		{BufferParams{SwitchBytes: 1 << 60, Alpha: 1}, ""},
		{BufferParams{SwitchBytes: 1<<60 + 1, Alpha: 1}, "at most 2^60"},
		{BufferParams{SwitchBytes: 5000, Alpha: 1, ReservedBytes: -1}, "reserved is -1"},
		{BufferParams{SwitchBytes: 5000, Alpha: 1, ReservedBytes: 1 << 40}, ""},
		{BufferParams{SwitchBytes: 5000, Alpha: 1, ReservedBytes: 1<<40 + 1}, "reserved is"},
		{BufferParams{SwitchBytes: 2096, Alpha: 0.5}, ""},
		{BufferParams{SwitchBytes: 2095, Alpha: 0.5}, "never admits a packet of 1048"},
		{BufferParams{SwitchBytes: 2095, Alpha: 0.5, PFC: true}, ""},
	} {
		err := c.b.Validate(&p)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.b, err, c.want)
		}
	}
	if !(BufferParams{}).IsZero() || (BufferParams{RestoreNS: 1}).IsZero() {
		t.Error("only the zero value has unlimited buffers")
	}
}

// The reserves of all queues of a switch must leave room for a packet in the least queue. The bytes with
// which no queue is above its threshold are one less than the share of a lone queue.
func TestPoolsOfBuffers(t *testing.T) {
	two := []Class{{Weight: 1, Alpha: 0.5}, {Weight: 1, Alpha: 2}}
	for _, c := range []struct {
		b       BufferParams
		classes []Class
		pool    int64
		free    int64
		alpha   float64
		want    string
	}{
		{BufferParams{SwitchBytes: 9000, Alpha: 1}, nil, 9000, 4499, 1, ""},
		{BufferParams{SwitchBytes: 9000, Alpha: 2, ReservedBytes: 1500}, nil, 6000, 3999, 2, ""},
		{BufferParams{SwitchBytes: 4048, Alpha: 1, ReservedBytes: 1500}, nil, 1048, 523, 1, ""},
		{BufferParams{SwitchBytes: 4047, Alpha: 1, ReservedBytes: 1500}, nil, 0, 0, 0, "each of 2 queues"},
		{BufferParams{SwitchBytes: 9000, Alpha: 1, ReservedBytes: 1500}, two, 3000, 999, 0.5, ""},
		{BufferParams{SwitchBytes: 8096, Alpha: 1, ReservedBytes: 1500}, two, 2096, 697, 0.5, ""},
		{BufferParams{SwitchBytes: 8095, Alpha: 1, ReservedBytes: 1500}, two, 0, 0, 0, "each of 4 queues"},
	} {
		e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
		n, err := New(e.params, c.b, e.links, e.hosts, nil)
		if err == nil && c.classes != nil {
			err = n.Classify(c.classes)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.b, err, c.want)
		}
		if err != nil {
			continue
		}
		b := &n.buffers[2]
		if b.poolBytes != c.pool || b.freeBytes != c.free || b.alpha != c.alpha {
			t.Errorf("%+v: %+v", c.b, b)
		}
	}
}

// A packet of 1,048 bytes is admitted if its port then has at most alpha times the free bytes, and if it fits
// into them. What a port has beyond its reserve counts. Within the reserve it is always admitted. With
// classes, each queue has its own alpha and reserve.
func TestAdmissionByHand(t *testing.T) {
	plain := BufferParams{SwitchBytes: 10_000, Alpha: 1}
	wide := BufferParams{SwitchBytes: 10_000, Alpha: 8}
	reserved := BufferParams{SwitchBytes: 10_000, Alpha: 1, ReservedBytes: 2000} // a pool of 6,000 bytes
	queues := BufferParams{SwitchBytes: 14_000, Alpha: 1, ReservedBytes: 2000}   // a pool of 6,000 bytes
	two := []Class{{Weight: 1}, {Weight: 1, Alpha: 0.5}}
	for _, c := range []struct {
		name        string
		b           BufferParams
		classes     []Class
		class       int32
		held, other int64 // bytes of the queue, and of one of the other port
		want        bool
	}{
		{"a half", plain, nil, 0, 2952, 3048, true}, {"more than a half", plain, nil, 0, 2953, 3048, false},
		{"a half, and less is free", plain, nil, 0, 2952, 3049, false},
		{"the last bytes", wide, nil, 0, 5000, 3952, true}, {"too few bytes", wide, nil, 0, 5000, 3953, false},
		{"within its reserve", reserved, nil, 0, 952, 8000, true},
		{"a byte beyond its reserve", reserved, nil, 0, 953, 8000, false},
		{"a byte beyond its reserve, and one is free", reserved, nil, 0, 953, 7999, true},
		{"within its reserve, and the pool is too full", reserved, nil, 0, 952, 9000, true},
		{"a half of the pool", reserved, nil, 0, 3952, 2000 + 1048, true},
		{"more than a half of the pool", reserved, nil, 0, 3952, 2000 + 1049, false},
		{"the first class", queues, two, 0, 3952, 2000 + 1048, true},
		{"the second class", queues, two, 1, 2952, 2000 + 1048, true},
		{"too much of the second class", queues, two, 1, 2952, 2000 + 1049, false},
		{"a reserve of the second class", queues, two, 1, 952, 9000, true},
	} {
		e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
		e.classes = c.classes
		n := newExampleNetwork(t, &e, c.b, 1)
		n.setRules()
		n.layOut(make([]int32, len(e.hosts)))
		n.flows.hops = []hop{{last: uint32(c.class)}}
		d := &n.domains[0]
		b := &n.buffers[2]
		for link, bytes := range map[int32]int64{3: c.held, 1: c.other} {
			d.buffers.hold(b, &n.ports[n.portOf[link]], &calendar.Item{}, bytes, 0)
		}
		got := d.buffers.admits(b, &n.ports[n.portOf[3]], &calendar.Item{}, 1048)
		if got != c.want || b.usedBytes != c.held+c.other {
			t.Errorf("%s: admitted %v", c.name, got)
		}
	}
}

// The arrivals of a window all fit if each port would be within alpha times what all of them leave free,
// although nothing leaves. Otherwise they are admitted one by one.
func TestWindowsThatFit(t *testing.T) {
	for _, c := range []struct {
		name      string
		b         BufferParams
		held      int64
		packets   int32
		mostBytes int64
		want      bool
	}{
		{"as much as is free", BufferParams{SwitchBytes: 10_000, Alpha: 1}, 1904, 2, 6000, true},
		{"a byte more", BufferParams{SwitchBytes: 10_000, Alpha: 1}, 1905, 2, 6000, false},
		{"a byte less is free", BufferParams{SwitchBytes: 10_000, Alpha: 1}, 1904, 2, 6001, false},
		{"alpha 2", BufferParams{SwitchBytes: 10_000, Alpha: 2}, 5904, 2, 6000, true},
		{"a byte is free", BufferParams{SwitchBytes: 10_000, Alpha: 1}, 1, 0, 9999, true},
		{"nothing is free", BufferParams{SwitchBytes: 10_000, Alpha: 1}, 0, 0, 10_000, false},
		{"with PFC", BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true}, 0, 0, 0, false},
	} {
		e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
		n := newExampleNetwork(t, &e, c.b, 1)
		n.setRules()
		n.layOut(make([]int32, len(e.hosts)))
		d := &n.domains[0]
		u := n.portOf[3]
		n.ports[u].heldBytes = c.held
		d.sorter.Ends[u] = 5 + c.packets
		d.buffers.active = []calendar.DuePort{{Port: u, From: 5}}
		got := d.buffers.fits(&n.buffers[2], c.mostBytes)
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The maximum of the bytes in a buffer is that of a sum in order of time, in which arrivals precede
// departures at the same time. The sum by parts of a window, of which few are sorted, must agree with it.
func TestPeakOfABuffer(t *testing.T) {
	higher := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := &domain{Calendar: calendar.New(1, 1000+rng.Int64N(5000))}
		d.SetWindow(d.LengthPS * rng.Int64N(50))
		s := &sharedBuffers{domain: d}
		bytes := rng.Int64N(4000)
		before := 4000 + rng.Int64N(6000)
		for range rng.IntN(150) {
			atPS := d.StartPS + rng.Int64N(d.LengthPS)/kerneltest.Pick[int64](rng, 1, 1, 500)
			s.levels = append(s.levels, level{atPS, (1 - 2*rng.Int64N(2)) * (1 + rng.Int64N(1000))})
		}
		sorted := slices.Clone(s.levels)
		slices.SortFunc(sorted, func(a, b level) int {
			if a.atPS != b.atPS {
				return int(a.atPS - b.atPS)
			}
			return int(b.bytes - a.bytes)
		})
		want := before
		now := bytes
		for _, l := range sorted {
			now += l.bytes
			want = max(want, now)
		}
		b := &buffer{peakBytes: before}
		s.notePeak(b, bytes)
		if b.peakBytes != want {
			t.Fatalf("seed %d: %d bytes, want %d", seed, b.peakBytes, want)
		}
		if want > before {
			higher++
		}
	}
	if higher < 40 {
		t.Errorf("%d of 200 windows have a new maximum", higher)
	}
}

// The maximum of a buffer counts each byte: a packet of 1,049 bytes after one of 1,048.
func TestPeakOfOnePacket(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 2, 1000, 100_000)
	e.params.PayloadBytes = 1001
	e.flows.SizeBytes[1] = 1001
	n, _ := runIn(t, &e, BufferParams{SwitchBytes: 1 << 20, Alpha: 1}, nil, 1, 1)
	if n.MostBytes(2) != 1049 {
		t.Errorf("%d bytes", n.MostBytes(2))
	}
}
