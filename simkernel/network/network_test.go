package network

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/linkcase"
	"parsimon/simkernel/network/calendar"
)

// A lone flow has exactly its ideal FCT, on any path and with any transport, if its window never binds and
// its transport does not react to the queue at a slower link or to a long round trip.
func TestNetworkLoneFlowTakesItsIdeal(t *testing.T) {
	for _, seed := range kerneltest.Seeds(500, 7) {
		e := randomNetworkOf(kerneltest.Paced(seed), seed)
		p := &e.params
		p.MarkBytesPerGbps = 1 << 30
		p.SetWindow(1 << 40)
		p.DCQCN.MinMarkPerGbps = 1 << 30
		p.DCQCN.MaxMarkPerGbps = 1 << 30
		p.TIMELY.LowNS = 1e12
		p.TIMELY.HighNS = 1e12
		p.HPCC.Target = 2
		p.HPCC.MaxStage = 1e9
		p.HPCC.BaseRTTNS = 1e12
		p.Swift.BaseTargetNS = 1e12
		for i, size := range e.flows.SizeBytes {
			begin := int32(0)
			if i > 0 {
				begin = e.flows.PathEnds[i-1]
			}
			path := e.flows.PathLinks[begin:e.flows.PathEnds[i]]
			lone := e
			lone.flows = Flows{SizeBytes: []int64{size}, StartNS: e.flows.StartNS[i : i+1],
				PathEnds: []int32{int32(len(path))}, PathLinks: path}
			r := runExample(t, &lone, 1)
			if r.FCTNS[0] != r.IdealNS[0] {
				t.Fatalf("seed %d flow %d: FCT %d ns, ideal %d", seed, i, r.FCTNS[0], r.IdealNS[0])
			}
		}
	}
}

// No FCT is below its ideal, no wait is negative, and a flow of one packet is delayed by at least its waits.
func TestNetworkNeverBeatsTheIdeal(t *testing.T) {
	waited := false
	for seed := range uint64(300) {
		e := randomNetworkOf(kerneltest.Paced(seed), seed)
		r := runExample(t, &e, 1000)
		begin := int32(0)
		for i, row := range r.Row {
			if r.FCTNS[i] < r.IdealNS[i] {
				t.Fatalf("seed %d flow %d: FCT %d ns, ideal %d", seed, row, r.FCTNS[i], r.IdealNS[i])
			}
			sum := int64(0)
			for h := begin; h < r.HopEnds[i]; h++ {
				if r.WaitNS[h] < r.LastWaitNS[h] || r.LastWaitNS[h] < 0 {
					t.Fatalf("seed %d flow %d: waits %d, last %d", seed, row, r.WaitNS[h], r.LastWaitNS[h])
				}
				sum += r.LastWaitNS[h]
			}
			waited = waited || sum > 0
			slack := r.FCTNS[i] - r.IdealNS[i] - sum
			if e.flows.SizeBytes[row] <= e.params.PayloadBytes && slack < -1 {
				t.Fatalf("seed %d flow %d: FCT %d ns, ideal %d, but waited %d", seed, row, r.FCTNS[i], r.IdealNS[i],
					sum)
			}
			begin = r.HopEnds[i]
		}
	}
	if !waited {
		t.Error("no flow ever waited: the examples test nothing")
	}
}

// Every byte that is sent is delivered and acknowledged once. Nothing is left in the network.
func TestNetworkConservesBytes(t *testing.T) {
	marked := int64(0)
	for seed := range uint64(300) {
		e := randomNetworkOf(kerneltest.Paced(seed), seed)
		n, r := runIn(t, &e, BufferParams{}, nil, 1, 1000)
		for slot, s := range n.flows.senders {
			if s.sentBytes != s.sizeBytes || s.ackedBytes != s.sizeBytes {
				t.Fatalf("seed %d slot %d: of %d bytes sent %d, acknowledged %d",
					seed, slot, s.sizeBytes, s.sentBytes, s.ackedBytes)
			}
		}
		for l := range n.ports {
			p := &n.ports[l]
			marked += p.marked
			if !p.data.Empty() || !p.acks.Empty() || p.leftBytes != 0 {
				t.Fatalf("seed %d link %d: something is left: %+v", seed, p.link, p)
			}
		}
		if n.live() != 0 || len(r.Row) != len(e.flows.StartNS) {
			t.Fatalf("seed %d: %d flows are left, %d finished", seed, n.live(), len(r.Row))
		}
	}
	if marked == 0 {
		t.Error("no packet was ever marked: the examples test nothing")
	}
}

// The results do not depend on the assignment of nodes to domains, the number of workers or the chunks in
// which the flows arrive, with and without limited buffers.
func TestNetworkIsTheSameForAnyDomains(t *testing.T) {
	for _, seed := range kerneltest.Seeds(240, 7) {
		e := randomNetworkOf(kerneltest.Paced(seed), seed)
		rng := rand.New(rand.NewPCG(seed, 6))
		var b BufferParams
		if seed%2 == 0 {
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			b = BufferParams{SwitchBytes: packet * kerneltest.Pick[int64](rng, 2, 5, 20), Alpha: 1,
				RetransmitNS: kerneltest.Pick[int64](rng, 0, 20_000)}
		}
		one, want := runIn(t, &e, b, nil, 1, 1000)
		for _, domains := range []int{1, 2, 4} {
			n := newExampleNetwork(t, &e, b, 1+rng.IntN(5))
			domainOf := n.partition(domains, nil)
			if rng.IntN(2) == 0 {
				for node := range domainOf {
					domainOf[node] = int32(rng.IntN(domains))
				}
			}
			got := &Results{}
			if err := n.run(context.Background(), 1+rng.IntN(4), domainOf, got.join); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(want, got) || n.Losses() != one.Losses() {
				t.Fatalf("seed %d: %d domains yield other results than one", seed, domains)
			}
			for l := range e.links {
				if n.Counters(int32(l)) != one.Counters(int32(l)) || n.Dropped(int32(l)) != one.Dropped(int32(l)) {
					t.Fatalf("seed %d, link %d: %d domains yield other counters than one", seed, l, domains)
				}
			}
			for node := range n.buffers {
				if n.MostBytes(int32(node)) != one.MostBytes(int32(node)) {
					t.Fatalf("seed %d, node %d: %d domains yield another peak than one", seed, node, domains)
				}
			}
		}
	}
}

// If a path is longer than the flow table has room for, all entries of the flows in the network move.
func TestNetworkWidensForLongPaths(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, 42)}
	e.hosts[0] = true
	e.hosts[1] = true
	cable := func(a, b int32) int32 {
		e.links = append(e.links, Link{a, b, 10e9, 1000}, Link{b, a, 10e9, 1000})
		return int32(len(e.links) - 2)
	}
	first := cable(0, 2)
	last := cable(2, 1)
	long := []int32{first}
	for s := int32(2); s < 41; s++ {
		long = append(long, cable(s, s+1))
	}
	long = append(long, cable(41, 2)) // round, and through the first switch again
	e.flows = Flows{
		SizeBytes: []int64{200_000, 50_000, 30_000},
		StartNS:   []int64{0, 20_000, 21_000},
		PathEnds:  []int32{2, 2 + int32(len(long)) + 1, 4 + int32(len(long)) + 1},
	}
	e.flows.PathLinks = append([]int32{first, last}, append(append(long, last), first, last)...)
	if err := agree(t, &e); err != nil {
		t.Fatal(err)
	}
}

// A network of one queue yields the results of its link case, flow by flow. With timers, this holds if no
// window is full.
func TestNetworkOfOneQueueIsTheLinkKernel(t *testing.T) {
	marked := int64(0)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := simkernel.ParamsOf(kerneltest.Paced(seed))
		kerneltest.RandomConstants(rng, &p)
		p.Seed = seed
		p.AckBytes = 0 // the link kernel's ACKs take no bandwidth
		if seed%4 == 0 {
			p.SetWindow(1 + rng.Int64N(40_000))
		}
		if p.Transport.Traits().Timers {
			p.SetWindow(1 << 30) // without a limit: the two check windows at different times
		}
		c, e := oneQueue(rng, p)
		k, err := linkcase.NewKernel(p)
		if err != nil {
			t.Fatal(err)
		}
		var want linkcase.Result
		if err := k.Simulate(&c, &want); err != nil {
			t.Fatal(err)
		}
		marked += want.PacketsMarked
		got := runExample(t, &e, 100)
		if len(got.Row) != len(want.FCTNS) {
			t.Fatalf("seed %d: %d flows finished, %d in the kernel", seed, len(got.Row), len(want.FCTNS))
		}
		waitNS := 0.0
		for i, row := range got.Row {
			if got.FCTNS[i] != want.FCTNS[row] || got.IdealNS[i] != want.IdealNS[row] {
				t.Fatalf("seed %d, behind %v, flow %d: FCT %d ns, ideal %d; the kernel's %d, %d",
					seed, c.Behind, row, got.FCTNS[i], got.IdealNS[i], want.FCTNS[row], want.IdealNS[row])
			}
			waitNS += float64(got.WaitNS[got.HopEnds[i]-1]) // rounded down
		}
		if c.Behind && (waitNS > want.WaitSumNS || waitNS < want.WaitSumNS-float64(len(got.Row))) {
			t.Fatalf("seed %d: packets wait for %v ns in all, the kernel's for %v", seed, waitNS, want.WaitSumNS)
		}
	}
	if marked == 0 {
		t.Error("no packet was ever marked: the examples test little")
	}
}

// oneQueue makes the same case for both simulators. The sources have separate cables to a switch whose link
// to the only destination is the target. For a first hop, there are two hosts and a cable.
func oneQueue(rng *rand.Rand, p simkernel.Params) (linkcase.Case, netExample) {
	pick := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	e := netExample{params: p}
	c := linkcase.Case{Behind: true}
	sources := 1 + rng.IntN(6)
	hops := int16(2)
	targetDelayNS := pick(500, 1000, 3001)
	if rng.IntN(4) == 0 {
		c.Behind = false
		sources = 1
		hops = 1
		c.SourceBps = []int64{10e9}
		c.SourceDelayNS = []int64{0}
		e.hosts = []bool{true, true}
		e.links = []Link{{0, 1, 10e9, targetDelayNS}, {1, 0, 10e9, targetDelayNS}}
	} else {
		c.TargetBps = pick(5e9, 10e9, 40e9)
		c.MarkBytes, c.MaxMarkBytes = p.MarkBytes(c.TargetBps, 0)
		c.MarkKey = simkernel.MarkKey(p.Seed, int32(2*sources))
		e.hosts = make([]bool, sources+2) // the sources, the destination, the switch
		for s := range sources + 1 {
			e.hosts[s] = true
		}
		middle := int32(sources + 1)
		dst := int32(sources)
		for s := range sources {
			bps := pick(5e9, 10e9, 9_999_999_937)
			delayNS := pick(500, 1000, 1000, 2003)
			c.SourceBps = append(c.SourceBps, bps)
			c.SourceDelayNS = append(c.SourceDelayNS, delayNS)
			e.links = append(e.links, Link{int32(s), middle, bps, delayNS}, Link{middle, int32(s), bps, delayNS})
		}
		e.links = append(e.links, Link{middle, dst, c.TargetBps, targetDelayNS}, Link{dst, middle, c.TargetBps,
			targetDelayNS})
	}
	startNS := rng.Int64N(1e6)
	for range 1 + rng.IntN(60) {
		s := int32(rng.IntN(sources))
		c.Source = append(c.Source, s)
		c.StartNS = append(c.StartNS, startNS)
		c.SizeBytes = append(c.SizeBytes, 1+rng.Int64N(p.PayloadBytes*pick(1, 5, 50, 300)))
		c.PathDelayNS = append(c.PathDelayNS, c.SourceDelayNS[s]+targetDelayNS)
		e.flows.PathLinks = append(e.flows.PathLinks, 2*s)
		if c.Behind {
			e.flows.PathLinks = append(e.flows.PathLinks, int32(2*sources))
		}
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
		c.Hops = append(c.Hops, hops)
		startNS += pick(0, 1, 900, 10_000) * rng.Int64N(4)
	}
	e.flows.SizeBytes = c.SizeBytes
	e.flows.StartNS = c.StartNS
	return c, e
}

// The memory of a network depends on the flows in it: a long trace of short flows needs few slots.
func TestNetworkForgetsFlows(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true}}
	e.links = []Link{{0, 1, 10e9, 1000}, {1, 0, 10e9, 1000}}
	for i := range int64(20_000) {
		e.flows.SizeBytes = append(e.flows.SizeBytes, 1000+i%2000)
		e.flows.StartNS = append(e.flows.StartNS, i*4000)
		e.flows.PathLinks = append(e.flows.PathLinks, 0)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(i+1))
	}
	n, _ := runIn(t, &e, BufferParams{}, nil, 1, 100)
	slots := len(n.flows.info)
	if slots > 200 {
		t.Errorf("%d slots for flows that hardly overlap", slots)
	}
	places := cap(n.domains[0].nics[0].Places)
	if places > 200 {
		t.Errorf("room for %d flows at a NIC that has one or two", places)
	}
}

func TestNetworkRefusesBadInput(t *testing.T) {
	hosts := []bool{true, false, true}
	links := func() []Link {
		return []Link{{0, 1, 10e9, 1000}, {1, 0, 10e9, 1000}, {1, 2, 10e9, 1000}, {2, 1, 10e9, 1000}}
	}
	flow := func(size, start int64, path ...int32) *Flows {
		return &Flows{SizeBytes: []int64{size}, StartNS: []int64{start}, PathEnds: []int32{int32(len(path))},
			PathLinks: path}
	}
	boom := errors.New("the file is torn")
	for name, c := range map[string]struct {
		links func(l []Link) []Link
		flows *Flows
		err   error
		want  string
	}{
		"no links":    {links: func(l []Link) []Link { return l[:0] }, want: "two for every cable"},
		"odd links":   {links: func(l []Link) []Link { return l[:3] }, want: "two for every cable"},
		"not reverse": {links: func(l []Link) []Link { l[1] = l[3]; return l }, want: "other direction"},
		"no delay": {links: func(l []Link) []Link { l[3].DelayNS = 0; return l },
			want: "link 3: delay_ns is 0"},
		"no bytes":         {flows: flow(0, 0, 0, 2), want: "flow row 0: size_bytes is 0"},
		"too many bytes":   {flows: flow(1<<62, 0, 0, 2), want: "flow row 0: size_bytes"},
		"negative start":   {flows: flow(1, -1, 0, 2), want: "flow row 0: start_ns is -1"},
		"late start":       {flows: flow(1, 1<<62, 0, 2), want: "flow row 0: start_ns"},
		"no path":          {flows: flow(1, 0), want: "flow row 0: the path is empty"},
		"no such link":     {flows: flow(1, 0, 0, 4), want: "flow row 0: hop 1 is link 4"},
		"broken path":      {flows: flow(1, 0, 0, 3), want: "hop 1 starts at node 2, but hop 0 ends at node 1"},
		"path from switch": {flows: flow(1, 0, 2), want: "starts at node 1, which is not a host"},
		"path to switch":   {flows: flow(1, 0, 0), want: "ends at node 1, which is not a host"},
		"path over host":   {flows: flow(1, 0, 0, 2, 3), want: "host 2 before the path does"},
		"unsorted": {flows: &Flows{SizeBytes: []int64{1, 1}, StartNS: []int64{5, 4}, PathEnds: []int32{2,
			4}, PathLinks: []int32{0, 2, 0, 2}}, want: "flow row 1: start_ns is 4, before"},
		"short column": {flows: &Flows{SizeBytes: []int64{1, 1}, StartNS: []int64{5}, PathEnds: []int32{2},
			PathLinks: []int32{0, 2}}, want: "columns differ"},
		"path rows": {flows: &Flows{SizeBytes: []int64{1}, StartNS: []int64{5}, PathEnds: []int32{3},
			PathLinks: []int32{0, 2}}, want: "flow row 0: its path is rows 0 to 3 of 2"},
		"source fails": {err: boom, want: "torn"},
	} {
		l := links()
		if c.links != nil {
			l = c.links(l)
		}
		n, err := New(simkernel.DefaultParams(), BufferParams{}, l, hosts, func() (*Flows, error) {
			f := c.flows
			c.flows = nil
			return f, c.err
		})
		if err == nil {
			err = n.Run(context.Background(), 2, nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// A simulation that ends early has the flows that end before that time, and the remaining bytes of the
// others. A flow alone has sent at the rate of its link until one round trip ago.
func TestEnd(t *testing.T) {
	links := []Link{{0, 1, 1e10, 1000}, {1, 0, 1e10, 1000}, {1, 2, 1e10, 1000}, {2, 1, 1e10, 1000}}
	chunks := []*Flows{{SizeBytes: []int64{50_000, 4e6, 1000}, StartNS: []int64{0, 200_000, 1_100_000},
		PathLinks: []int32{0, 2, 0, 2, 0, 2}, PathEnds: []int32{2, 4, 6}}, nil}
	n, err := New(simkernel.DefaultParams(), BufferParams{}, links, []bool{true, false, true},
		func() (*Flows, error) {
			c := chunks[0]
			chunks = chunks[1:]
			return c, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	n.EndNS = 1_000_000
	var ended []int64
	err = n.Run(context.Background(), 1, func(r *Results) error {
		ended = append(ended, r.Row...)
		return nil
	})
	var rows, left []int64
	n.Left(func(row int64, _ int32, _, bytes int64) {
		rows = append(rows, row)
		left = append(left, bytes)
	})
	if err != nil || !slices.Equal(ended, []int64{0}) || !slices.Equal(rows, []int64{1}) {
		t.Fatalf("flows %v ended and %v are left (%v), want 0 and 1", ended, rows, err)
	}
	want := 4e6 - 800_000*1.25/1.048
	if math.Abs(float64(left[0])-want) > 25_000 {
		t.Errorf("%d bytes are left, want about %.0f", left[0], want)
	}
}

// TestPartition divides networks of two pods with even traffic between, and with traffic in one pod only.
func TestPartition(t *testing.T) {
	c := newClos(2, 8)
	hosts := c.pods * c.racks * closHosts
	params := simkernel.DefaultParams()
	n, err := New(params, BufferParams{}, c.links, c.hosts, nil)
	if err != nil {
		t.Fatal(err)
	}
	passes := func(of []int32, flows []newFlow) (cut, all, most float64) {
		load := make([]float64, slices.Max(of)+1)
		for _, f := range flows {
			for _, l := range f.path {
				link := n.links[l]
				if of[link.SrcNode] != of[link.DstNode] {
					cut++
				}
				all++
				load[of[link.SrcNode]]++
				load[of[link.DstNode]]++ // the ACK
			}
		}
		return cut, all, slices.Max(load) / 2
	}
	rng := rand.New(rand.NewPCG(1, 8))
	for name, pods := range map[string]int{"both pods": 2, "one pod": 1} {
		var flows []newFlow
		for range 4000 {
			from := rng.IntN(hosts / c.pods * pods)
			to := (from + 1 + rng.IntN(hosts/c.pods*pods-1)) % (hosts / c.pods * pods)
			path := c.path(nil, from, to, rng.IntN(closFabrics), rng.IntN(closSpines))
			flows = append(flows, newFlow{size: 1000, path: path})
		}
		for domains := 2; domains <= 4; domains++ {
			of := n.partition(domains, flows)
			if len(of) != len(c.hosts) || slices.Max(of) != int32(domains-1) || slices.Min(of) != 0 {
				t.Fatalf("%s, %d domains: %v", name, domains, of)
			}
			cut, all, most := passes(of, flows)
			uneven := most / all * float64(domains)
			if uneven > 1.3 || cut > 0.4*all {
				t.Errorf("%s, %d domains: %.2f of the packets pass between domains, one has %.2f times the mean work",
					name, domains, cut/all, uneven)
			}
			for h := range hosts {
				if of[h] != of[hosts+h/closHosts] {
					t.Fatalf("%s, %d domains: host %d is not in the domain of its switch", name, domains, h)
				}
			}
		}
		of := n.partition(2, flows)
		cut, all, _ := passes(of, flows)
		if pods == 2 && cut > 0.14*all {
			t.Errorf("%s: %.2f of the packets pass between two domains, 0.10 do between pods", name, cut/all)
		}
	}
}

// All columns of flows have one row each. A shorter one would end in a panic, and a longer one is an error of
// the caller.
func TestColumnsOfFlowsHaveOneLength(t *testing.T) {
	for column, change := range map[string]func(f *Flows){
		"sizes":        func(f *Flows) { f.SizeBytes = []int64{1} },
		"starts":       func(f *Flows) { f.StartNS = []int64{1} },
		"paths":        func(f *Flows) { f.PathEnds = []int32{0, 0, 0} },
		"keys":         func(f *Flows) { f.Key = []uint64{1, 2, 3} },
		"classes":      func(f *Flows) { f.Class = []uint8{1} },
		"tags":         func(f *Flows) { f.Tag = []int32{} },
		"dependencies": func(f *Flows) { f.AfterEnds = []int32{0} },
	} {
		flows := &Flows{SizeBytes: []int64{1, 1}, StartNS: []int64{1, 1}, PathEnds: []int32{0, 0}}
		change(flows)
		f := &feed{net: &Network{more: func() (*Flows, error) { return flows, nil }}}
		b := f.next()
		if b.err == nil || !strings.Contains(b.err.Error(), "columns differ in length") {
			t.Errorf("%s of another length: %v", column, b.err)
		}
	}
}

// The bit of a port with a full packet is that of an ACK: a comparison of ACKs with ports tests both at once.
func TestBitOfFullPorts(t *testing.T) {
	if uint32(portFull) != calendar.FlagAck {
		t.Errorf("portFull is %d, and FlagAck %d", portFull, calendar.FlagAck)
	}
}

// A flow may take 13 days at the slowest link of its path, with headers. A longer one would end after the
// last time of the clock.
func TestLargestFlow(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, false, true}}
	e.links = []Link{{0, 1, 40e9, 1000}, {1, 0, 40e9, 1000}, {1, 2, 10e9, 1000}, {2, 1, 10e9, 1000}}
	f := feed{net: newExampleNetwork(t, &e, BufferParams{}, 1)}
	p := &e.params
	seconds := float64(horizonPS) / 2 / 1e12
	largest := int64(seconds * 10e9 / 8 * float64(p.PayloadBytes) / float64(p.PayloadBytes+p.HeaderBytes))
	for size, ok := range map[int64]bool{largest - 1_000_000: true, largest + 1_000_000: false} {
		err := f.setPath(&newFlow{}, []int32{0, 2}, size)
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A link is at most a minute long, and a flow starts 13 days after the first at the latest: half of the time
// that the clock has.
func TestLimitsOfTime(t *testing.T) {
	for delayNS, want := range map[int64]string{
		1: "", 60_000_000_000: "", 60_000_000_001: "must be at most a minute", 0: "must be at least 1",
	} {
		links := []Link{{0, 1, 10e9, delayNS}, {1, 0, 10e9, delayNS}}
		_, err := New(simkernel.DefaultParams(), BufferParams{}, links, []bool{true, true}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a delay of %d ns: %v, want %q", delayNS, err, want)
		}
	}
	if int64(MaxNS)/86_400_000_000_000 != 13 {
		t.Errorf("the latest start is %d ns", int64(MaxNS))
	}
}

// Flows that are left are those in slots that are not free. A flow whose packets have all arrived, but not
// its last ACK, has a byte left.
func TestFlowsThatAreLeft(t *testing.T) {
	n := &Network{layout: layout{domains: make([]domain, 2)}}
	n.domains[0].pool.slots = []int32{2}
	n.domains[1].pool.slots = []int32{0, 4}
	n.flows.senders = make([]sender, 5)
	for slot := range int64(5) {
		n.flows.info = append(n.flows.info, flowInfo{row: 10 + slot, tag: int32(20 + slot), idealNS: 30 + slot})
	}
	n.flows.senders[1] = sender{sizeBytes: 900, ackedBytes: 400}
	n.flows.senders[3] = sender{sizeBytes: 900, ackedBytes: 900}
	var got [][4]int64
	n.Left(func(row int64, tag int32, idealNS, bytes int64) {
		got = append(got, [4]int64{row, int64(tag), idealNS, bytes})
	})
	if !slices.Equal(got, [][4]int64{{11, 21, 31, 500}, {13, 23, 33, 1}}) {
		t.Errorf("%v", got)
	}
}
