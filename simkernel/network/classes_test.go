package network

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
)

// classify gives an example random classes.
func classify(e *netExample, rng *rand.Rand, b *BufferParams) {
	marks := e.params.Transport.Marks()
	for range 1 + rng.IntN(MaxClasses) {
		c := Class{Weight: kerneltest.Pick[int64](rng, 0, 1, 2, 7)}
		if marks && rng.IntN(2) == 0 {
			c.MarkPerGbps = kerneltest.Pick[int64](rng, 1, 300, 3000)
			if e.params.Transport.Traits().RandomMarks && rng.IntN(2) == 0 {
				c.MaxMarkPerGbps = 2 * c.MarkPerGbps
			}
		}
		if rng.IntN(2) == 0 {
			c.Alpha = kerneltest.Pick(rng, 0.5, 1, 4)
		}
		c.Lossy = b.PFC && e.classes != nil && rng.IntN(4) == 0
		if c.Lossy {
			c.Alpha = 4
		}
		e.classes = append(e.classes, c)
	}
	for range e.flows.StartNS {
		e.flows.Class = append(e.flows.Class, uint8(rng.IntN(len(e.classes))))
	}
}

// With classes, the network agrees with the slow simulator in every bit, for any division among domains and
// workers. This holds with unlimited and small buffers, with PFC, with lossy classes beside it, and with a
// watchdog.
func TestClassesAgreeWithTwin(t *testing.T) {
	paused := int64(0)
	dropped := int64(0)
	storms := int64(0)
	seeds := kerneltest.Seeds(200, 7)
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range seeds {
			e, rng, tree := pfcExample(kind, seed+1000)
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b := BufferParams{SwitchBytes: 1 << 50, Alpha: 8}
			switch pfc := tree && seed%4 > 1; {
			case pfc: // the watchdog is faster than packets of slow links
				b.PFC = true
				classify(&e, rng, &b)
				b = pfcBuffer(t, &e, rng, kerneltest.Pick(rng, 0, packet, 2*packet))
				if seed%4 == 3 {
					b.WatchdogNS, b.RestoreNS = kerneltest.Pick[int64](rng, 2000, 20_000),
						kerneltest.Pick[int64](rng, 1, 5000, 100_000)
				}
			case seed%2 == 0:
				b.SwitchBytes, b.Alpha = packet*kerneltest.Pick[int64](rng, 4, 20, 60), kerneltest.Pick(rng, 0.5, 1, 8)
				classify(&e, rng, &b)
				if seed%8 == 0 {
					b = reservedBuffer(&e, rng, int64(len(e.classes)))
				}
			default:
				classify(&e, rng, &b)
			}
			want := runBuffered(t, &e, b, 3)
			n, got := runIn(t, &e, b, nil, 1, 1000)
			_, divided := runIn(t, &e, b, randomDomains(rng, len(e.hosts)), 2, 7)
			if !reflect.DeepEqual(got, divided) {
				t.Fatalf("%v, seed %d: other results in several domains", kind, seed)
			}
			got.StartNS = nil
			got.Again = nil
			got.Reordered = nil // the twin does not report them
			if !reflect.DeepEqual(got, &want.Results) || n.Losses() != want.Losses {
				t.Fatalf("%v, seed %d, %+v: %+v, %s\n%+v\ntwin:\n%+v", kind, seed, b, e.classes,
					kerneltest.FirstDifference(got, &want.Results), n.Losses(), want.Losses)
			}
			l := n.Losses()
			if l.Sent != l.Delivered+l.Dropped+l.Discarded || len(got.Row) != len(e.flows.StartNS) {
				t.Fatalf("%v, seed %d: %d of %d flows, %+v", kind, seed, len(got.Row), len(e.flows.StartNS), l)
			}
			for l := range int32(len(e.links)) {
				if n.Counters(l) != want.Counters(l) {
					t.Fatalf("%v, seed %d, link %d: %+v, twin %+v", kind, seed, l, n.Counters(l), want.Counters(l))
				}
				marks := n.Counters(l).PacketsMarked
				for q := range e.classes {
					marked, dropped := n.CountersOf(l, q)
					marks -= marked
					if dropped != want.ports[l].classes[q].dropped ||
						b.PFC && n.PausedOf(l, q) != want.pfc.of(l, q).pausedPS/simkernel.PSPerNS {
						t.Fatalf("%v, seed %d, link %d, class %d: other drops or pauses", kind, seed, l, q)
					}
				}
				if marks != 0 {
					t.Fatalf("%v, seed %d, link %d: the marks of the classes are %d less than all", kind, seed, l, marks)
				}
				paused += n.PausedNS(l)
			}
			dropped += want.Losses.Dropped
			storms += n.storms()
		}
	}
	if paused < 100_000 || dropped == 0 || storms == 0 && len(seeds) == 200 {
		t.Errorf("hardly anything is paused (%d ns), dropped (%d) or stormy (%d): the test tests nothing", paused,
			dropped, storms)
	}
}

// A single class, of any weight, yields the same results as no classes.
func TestOneClassIsNone(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(40, 5) {
			e, rng, _ := pfcExample(kind, seed)
			for _, b := range []BufferParams{
				{}, {SwitchBytes: 20 * (e.params.PayloadBytes + e.params.HeaderBytes), Alpha: 1,
					RetransmitNS: 2_000_000}} {
				n, want := runIn(t, &e, b, nil, 1, 1000)
				one := e
				one.classes = []Class{{Weight: rng.Int64N(3)}}
				m, got := runIn(t, &one, b, nil, 1, 1000)
				if !reflect.DeepEqual(got, want) || n.Losses() != m.Losses() {
					t.Fatalf("%v, seed %d, %+v: other results with one class", kind, seed, b)
				}
				for l := range int32(len(e.links)) {
					if n.Counters(l) != m.Counters(l) {
						t.Fatalf("%v, seed %d, link %d: %+v, with one class %+v", kind, seed, l, n.Counters(l), m.Counters(l))
					}
				}
			}
		}
	}
}

// With classes, paths that move, every balance, events and small buffers, all packets are accounted for. The
// drops of the classes add up to those of their ports, and results do not depend on domains or workers.
func TestClassesOnMovingPaths(t *testing.T) {
	var lost, dropped, moved int64
	for _, seed := range kerneltest.Seeds(60, 7) {
		e := leafSpine(transportOf(seed), seed)
		b, m := movesExample(t, &e, seed)
		if b.PFC {
			b.SwitchBytes = 2 << 20
		}
		classify(&e, rand.New(rand.NewPCG(seed, 15)), &b)
		for i := range e.classes {
			if b.SwitchBytes == 0 {
				e.classes[i].Alpha = 0
			}
		}
		one, want := runMoving(t, &e, b, m, nil, 1)
		l := one.Losses()
		if l.Sent != l.Delivered+l.Dropped+l.Discarded+l.Lost || one.live() != 0 ||
			len(want.Row) != len(e.flows.StartNS) {
			t.Fatalf("seed %d: %+v, %d of %d flows", seed, l, len(want.Row), len(e.flows.StartNS))
		}
		for link := range int32(len(e.links)) {
			for q := range e.classes {
				_, drops := one.CountersOf(link, q)
				l.Dropped -= drops
			}
		}
		if l.Dropped != 0 {
			t.Fatalf("seed %d: the drops of the classes are %d less than all", seed, l.Dropped)
		}
		lost = lost + l.Lost
		dropped = dropped + one.Losses().Dropped
		for _, n := range want.Reordered {
			moved += int64(n)
		}
		for workers := 1; workers <= 3; workers++ {
			n, got := runMoving(t, &e, b, m, domainsOf(len(e.hosts), 2*workers-1, seed), workers)
			if !reflect.DeepEqual(want, got) || n.Losses() != one.Losses() ||
				!reflect.DeepEqual(n.paths.traffic, one.paths.traffic) {
				t.Fatalf("seed %d: %d workers yield other results than one", seed, workers)
			}
		}
	}
	if lost == 0 || dropped == 0 || moved == 0 {
		t.Errorf("%d packets lost, %d dropped, %d reordered: the examples test little", lost, dropped, moved)
	}
}

// star is a switch with hosts at 10 Gbps and a delay of 1 µs. A packet takes 838.4 ns. Link 2h leads from
// host h, link 2h + 1 to it. No flow is limited by its window or marked.
func star(hosts int32) netExample {
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, hosts+1)}
	e.params.MarkBytesPerGbps = 1 << 20
	e.params.SetWindow(1 << 20)
	for h := range hosts {
		e.hosts[h] = true
		e.links = append(e.links, Link{h, hosts, 10e9, 1000}, Link{hosts, h, 10e9, 1000})
	}
	return e
}

// add adds a flow of full packets.
func (e *netExample) add(packets, startNS int64, class uint8, path ...int32) {
	f := &e.flows
	f.SizeBytes = append(f.SizeBytes, packets*e.params.PayloadBytes)
	f.StartNS = append(f.StartNS, startNS)
	f.PathLinks = append(f.PathLinks, path...)
	f.Class = append(f.Class, class)
	f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
}

const starPacketNS = 838.4

// byRow returns FCTs by row.
func byRow(r *Results) []int64 {
	fcts := make([]int64, len(r.Row))
	for i, row := range r.Row {
		fcts[row] = r.FCTNS[i]
	}
	return fcts
}

// At each hop, NIC and switch, a flow waits for at most one packet of classes below its own.
func TestPriorityDelaysByOnePacket(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		e := star(4)
		e.classes = make([]Class, 3)
		e.classes[0].Weight = 1
		for range 20 { // from three hosts to the fourth
			e.add(1+rng.Int64N(200), 0, uint8(rng.IntN(2)), 2*rng.Int32N(3), 7)
		}
		e.add(1+rng.Int64N(100), 1+rng.Int64N(50_000), 2, 0, 7)
		_, r := runIn(t, &e, BufferParams{}, nil, 1, 1000)
		last := len(r.Row) - 1
		for r.Row[last] != 20 {
			last--
		}
		most := float64(r.IdealNS[last]) + 2*starPacketNS + 1
		if float64(r.FCTNS[last]) > most {
			t.Errorf("seed %d: the flow of the highest class takes %d ns, at most %g were right", seed, r.FCTNS[last],
				most)
		}
	}
}

// The bytes that two backlogged classes send deviate from the shares given by their weights by at most a
// quantum and a packet, for packets of equal and of other sizes. This holds for the scheduler itself, and for
// flows that share a NIC or a switch's port.
func TestDWRRShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	e := star(3)
	for range 30 {
		n := newExampleNetwork(t, &e, BufferParams{}, 1)
		classes := make([]Class, 2+rng.IntN(7))
		for i := range classes {
			classes[i].Weight = 1 + rng.Int64N(20)
		}
		if err := n.Classify(classes); err != nil {
			t.Fatal(err)
		}
		var c portClasses
		var heads [MaxClasses]int64
		sent := make([]float64, len(classes)) // bytes per quantum
		for i := range heads {
			heads[i] = 1 + rng.Int64N(n.fullBytes)
		}
		for range 3000 {
			q := n.pick(&c, 1<<len(classes)-1, &heads)
			sent[q] += float64(heads[q]) / float64(n.quantum[q])
			heads[q] = 1 + rng.Int64N(n.fullBytes)
			for i := range sent {
				for k := range sent {
					packets := float64(n.fullBytes)/float64(n.quantum[i]) + float64(n.fullBytes)/float64(n.quantum[k])
					diff := math.Abs(sent[i] - sent[k])
					if diff > 1+packets {
						t.Fatalf("weights %d and %d have sent %g and %g quanta", classes[i].Weight, classes[k].Weight, sent[i],
							sent[k])
					}
				}
			}
		}
	}
	for _, from := range []int32{0, 2} { // of one host, and of two
		e := star(3)
		e.classes = []Class{{Weight: 2}, {Weight: 6}}
		e.add(100, 0, 0, 0, 5)
		e.add(300, 0, 1, from, 5)
		_, r := runIn(t, &e, BufferParams{}, nil, 1, 1000)
		fcts := byRow(r)
		diff := math.Abs(float64(fcts[0] - fcts[1]))
		if diff > 5*starPacketNS {
			t.Errorf("flows of weights 1 and 3 with 1 to 3 bytes end %g ns apart", diff)
		}
	}
}

// An incast of one class pauses that class at its senders, which are hosts and a switch, but not the other
// class of the same links.
func TestPFCPausesOneClass(t *testing.T) {
	e := star(4)
	e.hosts = append(e.hosts, false, true) // behind the switch another, with host 6
	e.links = append(e.links, Link{5, 4, 20e9, 1000}, Link{4, 5, 20e9, 1000}, Link{6, 5, 10e9, 1000},
		Link{5, 6, 10e9, 1000})
	e.classes = []Class{{Weight: 1}, {Weight: 1}}
	for range 10 {
		e.add(200, 0, 0, 0, 7)
		e.add(200, 0, 0, 2, 7)
		e.add(200, 0, 0, 10, 8, 7)
	}
	e.add(100, 100_000, 1, 10, 8, 5)
	b := BufferParams{SwitchBytes: 400_000, Alpha: DefaultPFCAlpha, PFC: true}
	n, r := runIn(t, &e, b, nil, 1, 1000)
	for _, l := range []int32{0, 2, 8, 10} {
		if n.PausedOf(l, 0) == 0 || n.PausedOf(l, 1) != 0 {
			t.Errorf("link %d: class 0 was paused for %d ns, class 1 for %d", l, n.PausedOf(l, 0), n.PausedOf(l, 1))
		}
	}
	l := n.Losses()
	if l.Dropped != 0 || l.Sent != l.Delivered {
		t.Errorf("%+v", l)
	}
	// The other class has half of the host's NIC, and later everything that pauses leave free.
	got := byRow(r)[30]
	most := int64(2*100*starPacketNS + 10*starPacketNS)
	if got > most {
		t.Errorf("the flow of the other class takes %d ns, at most %d were right", got, most)
	}
}

// Flows around a ring of switches, each over two of its links, wait for each other's pauses forever. Without
// a watchdog this is an error. With one, all flows finish.
func TestPFCDeadlockOnRing(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{false, false, false, true, true, true}}
	e.params.MarkBytesPerGbps = 1 << 20
	e.params.SetWindow(1 << 20)
	for i := range int32(3) {
		e.links = append(e.links, Link{i, (i + 1) % 3, 10e9, 1000}, Link{(i + 1) % 3, i, 10e9, 1000})
	}
	for i := range int32(3) {
		e.links = append(e.links, Link{3 + i, i, 40e9, 1000}, Link{i, 3 + i, 40e9, 1000})
	}
	for i := range int32(3) { // from host i over two links of the ring to host i + 2
		e.add(400, 0, 0, 6+2*i, 2*i, 2*((i+1)%3), 7+2*((i+2)%3))
	}
	b := BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true, XOFFBytes: 5000}
	n := newExampleNetwork(t, &e, b, 10)
	err := n.Run(context.Background(), 1, nil)
	if err == nil || !strings.Contains(err.Error(), "3 flows never end: the pauses of links [0 2 4] between "+
		"switches wait for each other in a circle") {
		t.Errorf("without a watchdog: %v", err)
	}
	b.WatchdogNS = 1_000_000
	b.RestoreNS = 1_000_000
	n, r := runIn(t, &e, b, nil, 1, 10)
	l := n.Losses()
	if len(r.Row) != 3 || n.storms() == 0 || l.Dropped == 0 || l.Sent != l.Delivered+l.Dropped+l.Discarded {
		t.Errorf("with a watchdog: %d flows, %d storms, %+v", len(r.Row), n.storms(), l)
	}
}

func TestClassesRefused(t *testing.T) {
	e := star(2)
	small := BufferParams{SwitchBytes: 10_000, Alpha: 1}
	pfc := BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true}
	for want, c := range map[string]struct {
		b       BufferParams
		classes []Class
	}{
		"classes are 0, must be 1 to 8":      {classes: []Class{}},
		"classes are 9, must be 1 to 8":      {classes: make([]Class, 9)},
		"mark_per_gbps is -1, max":           {classes: []Class{{MarkPerGbps: -1}}},
		"max_mark_per_gbps is 5, must be at": {classes: []Class{{MarkPerGbps: 1, MaxMarkPerGbps: 5}}},
		"unlimited buffers":                  {classes: []Class{{Alpha: 1}}},
		"never admits a packet of 1048":      {small, []Class{{Alpha: 0.01}}},
		"classes are all without pfc":        {pfc, []Class{{Lossy: true}}},
		"classes without pfc have":           {pfc, []Class{{}, {Lossy: true, Alpha: 0.011}}},
	} {
		n, err := New(e.params, c.b, e.links, e.hosts, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Classify(c.classes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	e.add(1, 0, 1, 0, 3)
	n, err := New(e.params, small, e.links, e.hosts, once(&e.flows))
	if err == nil {
		err = n.Run(context.Background(), 1, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "flow row 0: its class is 1, of 0") {
		t.Errorf("a flow of an unknown class: %v", err)
	}
}

// storms returns how many times the watchdog has found a queue that was paused for too long, after Run.
func (n *Network) storms() (count int64) {
	for i := range n.pausers {
		count += n.pausers[i].storms
	}
	return count
}

// The order of classes, by hand. Of the classes without a weight, the last one precedes. Then a class with
// weight 1 sends one full packet, and one with weight 2 sends two. A class that is not ready passes, and one
// of which nothing waits gives its rest away.
func TestOrderOfClasses(t *testing.T) {
	e := star(2)
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	if err := n.Classify([]Class{{Weight: 1}, {}, {Weight: 2}, {}}); err != nil {
		t.Fatal(err)
	}
	if n.strict != 0b1010 || n.quantum != [MaxClasses]int64{1048, 0, 2096} {
		t.Errorf("classes %b without a weight, quanta %v", n.strict, n.quantum)
	}
	var c portClasses
	full := [MaxClasses]int64{1048, 1048, 1048, 1048}
	half := [MaxClasses]int64{524, 1048, 524, 1048}
	for i, x := range []struct {
		ready   uint32
		bytes   *[MaxClasses]int64
		want    int
		emptied bool
	}{
		{0b1111, &full, 3, false}, {0b0111, &full, 1, false},
		{0b0101, &full, 0, false}, {0b0101, &full, 2, false}, {0b0101, &full, 2, false}, {0b0101, &full, 0, false},
		{0b0101, &half, 2, false}, {0b0101, &half, 2, false}, {0b0101, &half, 2, false}, {0b0101, &half, 2, false},
		{0b0101, &half, 0, false}, {0b0101, &half, 0, true}, // its second half is the last
		{0b0101, &full, 2, true}, // its rest is given away
		{0b0001, &full, 0, false}, {0b0001, &full, 0, false}, {0b0100, &half, 2, false},
	} {
		got := n.pick(&c, x.ready, x.bytes)
		if got != x.want {
			t.Errorf("packet %d is of class %d, want %d", i, got, x.want)
		}
		if x.emptied {
			n.emptied(&c, got)
			if c.deficit[got] != 0 || c.granted || c.turn != (got+1)%4 {
				t.Errorf("after packet %d: %+v", i, c)
			}
		}
	}
	before := c
	n.emptied(&c, 0) // it is not its turn
	if c.turn != before.turn || c.granted != before.granted || c.deficit[0] != 0 {
		t.Errorf("%+v, before %+v", c, before)
	}
}

// Thresholds of a class are bytes for each Gbps of a link. Without them, a class has those of the transport.
// A class without a share of the buffer has that of the switch, or the common one of lossy traffic with PFC.
func TestThresholdsOfClasses(t *testing.T) {
	e := star(2)
	e.params.MarkBytesPerGbps = 3000
	b := BufferParams{SwitchBytes: 1 << 20, Alpha: 0.25, PFC: true}
	n := newExampleNetwork(t, &e, b, 1)
	err := n.Classify([]Class{{MarkPerGbps: 500}, {}, {Alpha: 3}, {Lossy: true}, {Lossy: true, Alpha: 5}})
	if err != nil {
		t.Fatal(err)
	}
	rules := n.rulesOf(Link{0, 1, 40e9, 1000})
	if rules[0].MinBytes != 20_000 || rules[1].MinBytes != 120_000 {
		t.Errorf("marks from %d and %d bytes on", rules[0].MinBytes, rules[1].MinBytes)
	}
	for i, want := range []float64{0.25, 0.25, 3, 1, 5} {
		got := n.alphaOf(&n.classes[i])
		if got != want {
			t.Errorf("class %d: alpha %v, want %v", i, got, want)
		}
	}
}

// Settings of classes at their limits are simulated, and those beyond are refused. A packet of DCTCP has
// 1,048 bytes.
func TestLimitsOfClasses(t *testing.T) {
	limited := BufferParams{SwitchBytes: 20_960, Alpha: 1}
	pfc := BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true}
	for _, c := range []struct {
		kind simkernel.Transport
		b    BufferParams
		is   Class
		want string
	}{
		{simkernel.DCTCP, BufferParams{}, Class{MarkPerGbps: 1 << 30}, ""},
		{simkernel.DCTCP, BufferParams{}, Class{MarkPerGbps: 1<<30 + 1}, "mark_per_gbps is 1073741825"},
		{simkernel.DCTCP, BufferParams{}, Class{MaxMarkPerGbps: -1}, "max_mark_per_gbps -1"},
		{simkernel.DCTCP, BufferParams{}, Class{MarkPerGbps: 5, MaxMarkPerGbps: 5}, "max_mark_per_gbps is 5"},
		{simkernel.TIMELY, BufferParams{}, Class{MarkPerGbps: 1}, "switches do not mark for transport timely"},
		{simkernel.TIMELY, BufferParams{}, Class{}, ""},
		{simkernel.DCQCN, BufferParams{}, Class{MarkPerGbps: 5, MaxMarkPerGbps: 5}, ""},
		{simkernel.DCQCN, BufferParams{}, Class{MarkPerGbps: 5, MaxMarkPerGbps: 1 << 30}, ""},
		{simkernel.DCQCN, BufferParams{}, Class{MarkPerGbps: 5, MaxMarkPerGbps: 1<<30 + 1},
			"bytes, must be 0 to 2^30"},
		{simkernel.DCQCN, BufferParams{}, Class{MarkPerGbps: 5, MaxMarkPerGbps: 4}, "max_mark_per_gbps is 4"},
		{simkernel.DCQCN, BufferParams{}, Class{MaxMarkPerGbps: 4}, "max_mark_per_gbps is 4"},
		{simkernel.DCTCP, limited, Class{Alpha: 0.05}, ""},
		{simkernel.DCTCP, limited, Class{Alpha: 0.0499}, "never admits a packet of 1048"},
		{simkernel.DCTCP, BufferParams{}, Class{Alpha: 1}, "unlimited buffers"},
		{simkernel.DCTCP, pfc, Class{Alpha: 0.001}, ""},
		{simkernel.DCTCP, pfc, Class{Alpha: 0.001, Lossy: true}, "never admits a packet of 1048"},
	} {
		e := star(2)
		e.params = simkernel.ParamsOf(c.kind)
		n := newExampleNetwork(t, &e, c.b, 1)
		err := n.Classify([]Class{{Weight: 1}, c.is})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %+v: %v, want %q", c.kind, c.is, err, c.want)
		}
	}
	if MaxWeight != 1000 {
		t.Errorf("weights are at most %d", MaxWeight)
	}
}

// A packet that is served while nothing else waits ends the turn of its class. One of a class without a
// weight leaves the turn to another class that has it.
func TestTurnsOfPacketsThatDoNotWait(t *testing.T) {
	e := star(2)
	e.classes = []Class{{Weight: 1}, {}, {Weight: 2}}
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.flows.hops = []hop{{last: 0}, {last: 1}, {last: 2}}
	q := &classQueues{domain: &domain{net: n}}
	for _, c := range []struct {
		turn, class, want int
		granted           bool
	}{{0, 0, 1, false}, {2, 0, 1, false}, {0, 1, 0, true}, {1, 1, 2, false}, {2, 1, 2, true}, {1, 2, 0, false}} {
		p := &port{portRest: &portRest{classes: &portClasses{turn: c.turn, granted: true}}}
		q.servedInTurn(p, &calendar.Item{Hop: int32(c.class)})
		if p.classes.turn != c.want || p.classes.granted != c.granted {
			t.Errorf("%+v: the turn is that of class %d", c, p.classes.turn)
		}
	}
}

// An error about a switch or about a class names it, and nothing else: -1 stands for no class, or no switch.
func TestPlacesOfErrors(t *testing.T) {
	e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
	pfc := BufferParams{SwitchBytes: 16_000, Alpha: 1, PFC: true}
	xoff := pfc
	xoff.HeadroomBytes = 1048
	xoff.XOFFBytes = 6000
	small := pfc
	small.SwitchBytes = 9000
	lossy := pfc
	lossy.SwitchBytes = 100_000
	for _, c := range []struct {
		b           BufferParams
		classes     []Class
		node, class int
		want        string
	}{
		{BufferParams{SwitchBytes: 4047, Alpha: 1, ReservedBytes: 1500}, nil, 2, -1, "the rest never admits"},
		{xoff, nil, 2, -1, "xoff is 6000 bytes, more than the pool"}, {small, nil, 2, -1, "leave no packet"},
		{lossy, []Class{{}, {Lossy: true, Alpha: 0.011}}, 2, -1, "classes without pfc have"},
		{lossy, []Class{{}, {MarkPerGbps: -1}}, -1, 1, "mark_per_gbps is -1"},
	} {
		n, err := New(e.params, c.b, e.links, e.hosts, nil)
		if err == nil && c.classes != nil {
			err = n.Classify(c.classes)
		}
		var place *PlaceError
		if !errors.As(err, &place) || place.Node != c.node || place.Class != c.class ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q at node %d, class %d", c.b, err, c.want, c.node, c.class)
		}
	}
}
