package network

import (
	"math"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// fanOut is leaf 0 with host 5, joined by spines 1 to 3 to leaf 4 with host 6. Link 0 leads from the host to
// its leaf, links 2, 4 and 6 from the leaf to the spines, links 8, 10 and 12 from them to leaf 4, and link 14
// to host 6.
func fanOut(t *testing.T, b Balancing) *Network {
	t.Helper()
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, 7)}
	e.hosts[5] = true
	e.hosts[6] = true
	for _, c := range [][2]int32{{5, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {3, 4}, {4, 6}} {
		e.links = append(e.links, Link{c[0], c[1], 10e9, 1000}, Link{c[1], c[0], 10e9, 1000})
	}
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.Forward(Forwarding{Seed: 5, Routes: routesOf(e.links, e.hosts, []int64{0}, nil), Balancing: b})
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	return n
}

// fromHost is packet number of a flow that arrives at the leaf of fanOut.
func fromHost(n *Network, number uint32, atPS int64) *calendar.Arrival {
	return &calendar.Arrival{Item: calendar.Item{AtPS: atPS, Bits: number << n.numberShift}, Port: n.portOf[4]}
}

// Flows choose links in proportion to their weights. A link that no longer leads to the destination moves
// only its own flows (Schindelhauer and Schomaker, SPAA'05).
func TestSharesByWeight(t *testing.T) {
	const flows = 20_000
	for _, weights := range [][]float64{nil, {1, 1, 2, 0.5, 4}} {
		m := balancing{Balancing: &Balancing{Weights: weights}, seed: 3}
		links := []int32{0, 2, 3, 4}
		of := map[int32]float64{}
		for key := range uint64(flows) {
			l := m.byHash(key, links)
			of[l]++
			without := m.byHash(key, []int32{0, 2, 4})
			if l != 3 && without != l {
				t.Fatalf("flow %d moves from link %d to %d without link 3", key, l, without)
			}
		}
		for _, l := range links {
			share := 0.25
			if weights != nil {
				share = weights[l] / 7.5
			}
			if math.Abs(of[l]-share*flows) > 5*math.Sqrt(flows*share) {
				t.Errorf("weights %v: link %d has %v of %d flows, want %v", weights, l, of[l], flows, share*flows)
			}
		}
	}
}

// A switch with several links chooses by its balance. ACKs stay on the first path, or are hashed with all of
// their flow, with every balance.
func TestChoicesOfABalance(t *testing.T) {
	links := []int32{2, 4, 6}
	info := &flowInfo{row: 3, key: 99}
	const ack = calendar.FlagAck
	for balance := ECMP; balance <= CONGA; balance++ {
		n := fanOut(t, Balancing{Balance: balance, GapNS: 1000})
		m := &n.paths.balance
		d := &n.domains[0]
		hashed := m.byHash(info.key, links)
		choose := func(a *calendar.Arrival, stays int32) int32 { return m.choose(d, a, info, 1, links, stays) }
		back := fromHost(n, 5, 0)
		back.Bits |= ack
		if choose(back, 4) != 4 || choose(back, -1) != hashed {
			t.Errorf("balance %d: ACKs take other links", balance)
		}
		if m.choose(d, fromHost(n, 5, 0), info, 1, links[2:], -1) != 6 {
			t.Errorf("balance %d: another link than the only one", balance)
		}
		if balance == ECMP && (choose(fromHost(n, 5, 0), 6) != 6 || choose(fromHost(n, 5, 0), -1) != hashed) {
			t.Error("ECMP leaves the first path")
		}
	}
	// PLB hashes the label with the flow, unless it is 0.
	n := fanOut(t, Balancing{Balance: PLB})
	m := &n.paths.balance
	for label := range uint32(20) {
		a := fromHost(n, 5, 0)
		a.Bits |= label << recoveryShift
		want := int32(6)
		if label > 0 {
			want = m.byHash(simkernel.MixKey(info.key, uint64(a.Bits&n.tagMask)), links)
		}
		got := m.choose(&n.domains[0], a, info, 1, links, 6)
		if got != want {
			t.Errorf("label %d: link %d, want %d", label, got, want)
		}
	}
	// Random draws by packet, and not by mark: the same packet takes the same link.
	n = fanOut(t, Balancing{Balance: Random})
	m = &n.paths.balance
	used := map[int32]int{}
	for number := range uint32(60) {
		a := fromHost(n, number, 0)
		got := m.choose(&n.domains[0], a, info, 1, links, 2)
		a.Bits |= calendar.FlagMarked
		if m.choose(&n.domains[0], a, info, 1, links, 2) != got {
			t.Errorf("packet %d takes another link if it is marked", number)
		}
		used[got]++
	}
	for _, l := range links {
		if used[l] < 8 {
			t.Errorf("of 60 packets, %d take link %d", used[l], l)
		}
	}
}

// Adaptive takes the port with the fewest whole packets to send, and among equals the first from the one
// whose turn it is. A packet of 1,048 bytes takes 838.4 ns. The time that has passed does not count.
func TestLeastBusyPort(t *testing.T) {
	n := fanOut(t, Balancing{Balance: Adaptive})
	m := &n.paths.balance
	links := []int32{2, 4, 6}
	const nowPS = 5_000_000
	for _, c := range []struct {
		waits [3]int64 // of the ports
		among []int32
	}{
		{[3]int64{838_400, 838_399, 838_400}, []int32{4}},
		{[3]int64{838_400, 2_000_000, 1_676_799}, []int32{2, 6}},
		{[3]int64{1_676_800, 2_000_000, 1_676_799}, []int32{6}},
		{[3]int64{-7, 838_399, 5}, links},
		{[3]int64{-5_000_000, 10_000_000, 838_400}, []int32{2}},
	} {
		used := map[int32]bool{}
		for range 12 {
			for i, l := range links {
				m.busyPS[n.portOf[l]] = nowPS + c.waits[i]
			}
			twin := balancing{seed: m.seed, turns: slices.Clone(m.turns)}
			at := twin.nextTurn(1, len(links))
			for !slices.Contains(c.among, links[at]) {
				at = (at + 1) % len(links)
			}
			got := m.choose(&n.domains[0], fromHost(n, 5, nowPS), &flowInfo{}, 1, links, 2)
			if got != links[at] {
				t.Errorf("%+v: link %d, want %d", c, got, links[at])
			}
			used[got] = true
		}
		if len(used) != len(c.among) {
			t.Errorf("%+v: links %v were used", c, used)
		}
	}
}

// A flowlet ends with a pause of more than the gap, and if its link no longer leads to the destination. The
// next one takes a link by the hash of flow and packet. The first packet of a flow takes the first path.
func TestFlowlets(t *testing.T) {
	n := fanOut(t, Balancing{Balance: Flowlet, GapNS: 1000})
	m := &n.paths.balance
	all := []int32{2, 4, 6}
	hashed := func(row int64, number uint32, links []int32) int32 {
		attempts := uint64(number) << calendar.AttemptBits // each of a packet is another draw
		return links[m.hash(uint64(10*row), attempts, 0)%uint64(len(links))]
	}
	for _, c := range []struct {
		name   string
		row    int64
		number uint32
		atPS   int64
		links  []int32
		stays  int32
		want   int32
	}{
		{"the first packet", 1, 0, 0, all, 4, 4},
		{"as long as the gap", 1, 1, 1_000_000, all, 4, 4},
		{"as long again", 1, 7, 2_000_000, all, 2, 4},
		{"longer than the gap", 1, 8, 3_000_001, all, 4, hashed(1, 8, all)},
		{"its packets", 1, 9, 3_000_002, all, 4, hashed(1, 8, all)},
		{"another flow", 2, 1, 3_000_002, all, 4, hashed(2, 1, all)},
		{"a flow whose first path is gone", 3, 0, 3_000_003, all, -1, hashed(3, 0, all)},
		{"a link that is gone", 1, 10, 3_000_004, []int32{2, 4}, 4, hashed(1, 10, []int32{2, 4})},
	} {
		if c.name == "a link that is gone" {
			n.domains[0].paths.flowlets[flowletKey{c.row, 0}] = flowlet{c.atPS - 1, 6}
		}
		info := &flowInfo{row: c.row, key: uint64(10 * c.row)}
		got := m.flowletLink(&n.domains[0], fromHost(n, c.number, c.atPS), info, c.links, c.stays)
		if got != c.want || n.domains[0].paths.flowlets[flowletKey{c.row, 0}] != (flowlet{c.atPS, got}) {
			t.Errorf("%s: link %d, want %d", c.name, got, c.want)
		}
	}
}

// Flowlets that have ended are removed when there are too many. One that has not ended stays.
func TestFlowletsThatHaveEndedAreRemoved(t *testing.T) {
	n := fanOut(t, Balancing{Balance: Flowlet, GapNS: 1000})
	w := n.domains[0].paths
	w.flowlets = map[flowletKey]flowlet{
		{1, 0}: {4_000_000, 2}, {2, 0}: {3_999_999, 2}, {3, 0}: {1, 2}, {4, 0}: {5_000_000, 2},
	}
	w.flowletsUntil = 5
	pass := func(row, atPS int64) {
		n.paths.balance.flowletLink(&n.domains[0], fromHost(n, 1, atPS), &flowInfo{row: row}, []int32{2, 4}, 2)
	}
	pass(4, 5_000_000) // it is known
	pass(5, 5_000_000) // there is room
	if len(w.flowlets) != 5 || w.flowletsUntil != 5 {
		t.Errorf("%v, until %d", w.flowlets, w.flowletsUntil)
	}
	pass(6, 5_000_000)
	for row, want := range map[int64]bool{1: true, 2: false, 3: false, 4: true, 5: true, 6: true} {
		_, got := w.flowlets[flowletKey{row, 0}]
		if got != want {
			t.Errorf("flow %d has a flowlet: %v", row, got)
		}
	}
	if w.flowletsUntil < len(w.flowlets)*2 {
		t.Errorf("flowlets are looked at again when there are %d", w.flowletsUntil)
	}
}

// A sender of PLB takes the next label after 12 congested rounds in a row, or after 3 if nothing is in
// flight. A round lasts for the packets that were in flight when it began. It is congested if half of its
// ACKs, or more, are marked.
func TestRoundsOfPLB(t *testing.T) {
	w := fanOut(t, Balancing{Balance: PLB}).domains[0].paths
	for _, c := range []struct {
		name              string
		rounds            int
		acks, marks       int
		inFlight          int64 // when the round ends
		label             uint32
		congested, counts int32 // rounds in a row after all; ACKs of a round before its last
	}{
		{"11 of half of the ACKs", 11, 4, 2, 3, 0, 11, 3},
		{"12 of them", 12, 4, 2, 3, 1, 0, 3},
		{"14 of them", 14, 4, 2, 3, 1, 2, 3},
		{"fewer marks", 30, 5, 2, 3, 0, 0, 4},
		{"2, and then nothing is in flight", 2, 4, 4, 0, 0, 2, 3},
		{"3, and then nothing is in flight", 3, 4, 4, 0, 1, 0, 3},
		{"3, and one packet is in flight", 3, 1, 1, 1, 0, 3, 0},
	} {
		f := &recoveryFlow{plb: plbRounds{untilPackets: 10}}
		for range c.rounds {
			last := f.plb.untilPackets
			for i := range c.acks {
				number := last - int64(c.acks-1-i)
				if number == last {
					f.next = last + 1 + c.inFlight
					if f.plb.acks != c.counts {
						t.Errorf("%s: %d ACKs before the last one", c.name, f.plb.acks)
					}
				}
				w.repath(f, number, i < c.marks)
			}
		}
		want := plbRounds{label: c.label, congested: c.congested, untilPackets: f.next}
		if f.plb != want {
			t.Errorf("%s: %+v, want %+v", c.name, f.plb, want)
		}
	}
}

// Senders count rounds with PLB only: without it, a label would be written into the tags of another balance.
func TestSendersWithoutPLB(t *testing.T) {
	w := fanOut(t, Balancing{Balance: ECMP}).domains[0].paths
	f := &recoveryFlow{next: 1}
	for range 50 {
		w.repath(f, 0, true)
	}
	if f.plb != (plbRounds{}) {
		t.Errorf("a sender without PLB counts rounds: %+v", f.plb)
	}
}
