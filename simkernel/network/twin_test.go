package network

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// The twin is a simple simulator of the whole network, with one heap of events, packets as objects and queues
// as slices. It shares only the transport, the wires and the ideal FCT with the engine.
type netTwin struct {
	params simkernel.Params
	links  []Link
	hosts  []bool
	queue  twinEvents
	serial int
	ports  []twinPort
	flows  []*twinFlow
}

type twinFlow struct {
	row              int
	path             []int32
	sizeBytes        int64
	startPS          int64
	sender           simkernel.Sender
	limits           simkernel.Limits
	sent, acked, got int64
	packets          uint64
	readyPS          int64
	window           int64
	finishPS         int64
	waitPS, lastPS   []int64
	marks            []int32
	left             int // flows that it waits for
	next             []twinNext
}

// A twinNext is a flow that waits for another, and then for a time.
type twinNext struct {
	flow    *twinFlow
	delayPS int64
}

type twinPacket struct {
	flow    *twinFlow
	hop     int
	payload int64
	ack     bool
	marked  bool
	last    bool
	atPS    int64
	sentPS  int64
	n       uint64 // number in its flow
	links   []simkernel.Telemetry
}

type twinPort struct {
	freePS     int64
	sent       int64 // wire bytes so far
	acks, data []*twinPacket
	flows      []*twinFlow // at a host: in the order of their starts
	served     int         // place in flows of the one served last
}

// A twinEvent is the arrival of a packet or a flow at a port (phase 0), or a check whether the port can send
// (phase 1). At equal times all arrivals come first, in the order of their links, and then starts by row.
type twinEvent struct {
	atPS   int64
	phase  int
	rank   int
	serial int
	port   int32
	packet *twinPacket
	start  *twinFlow
}

type twinEvents []twinEvent

func (h twinEvents) Len() int { return len(h) }
func (h twinEvents) Less(i, j int) bool {
	a := h[i]
	b := h[j]
	if a.atPS != b.atPS {
		return a.atPS < b.atPS
	}
	if a.phase != b.phase {
		return a.phase < b.phase
	}
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.serial < b.serial
}
func (h twinEvents) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *twinEvents) Push(x any)   { *h = append(*h, x.(twinEvent)) }
func (h *twinEvents) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (w *netTwin) at(e twinEvent) {
	w.serial++
	e.serial = w.serial
	heap.Push(&w.queue, e)
}

func (w *netTwin) look(port int32, atPS int64) { w.at(twinEvent{atPS: atPS, phase: 1, port: port}) }

func runTwin(params simkernel.Params, links []Link, hosts []bool, flows *Flows) *netTwin {
	w := &netTwin{params: params, links: links, hosts: hosts, ports: make([]twinPort, len(links))}
	for i := range w.ports {
		w.ports[i].served = -1
	}
	begin := int32(0)
	for i, end := range flows.PathEnds {
		f := &twinFlow{row: i, path: flows.PathLinks[begin:end], sizeBytes: flows.SizeBytes[i],
			startPS: flows.StartNS[i] * simkernel.PSPerNS}
		begin = end
		f.waitPS = make([]int64, len(f.path))
		f.lastPS = make([]int64, len(f.path))
		f.marks = make([]int32, len(f.path))
		f.sender = simkernel.NewSender(params.Transport)
		var alone simkernel.IdealPath
		alone.Reset(&params)
		for _, l := range f.path {
			alone.Add(links[l].BandwidthBps, links[l].DelayNS)
		}
		if len(f.path) == 0 {
			w.flows = append(w.flows, f)
			continue
		}
		f.limits = params.Limits(float64(links[f.path[0]].BandwidthBps), alone.Path())
		f.sender.Start(&params, f.limits)
		f.window = f.limits.WindowAt(rateOf(f.sender))
		w.flows = append(w.flows, f)
	}
	from := int32(0)
	for i, end := range flows.AfterEnds {
		for k := from; k < end; k++ {
			before := w.flows[flows.After[k]]
			before.next = append(before.next, twinNext{w.flows[i], flows.DelayNS[k] * simkernel.PSPerNS})
			w.flows[i].left++
		}
		from = end
	}
	for _, f := range slices.Clone(w.flows) {
		if f.left == 0 {
			w.start(f)
		}
	}
	for len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(twinEvent)
		switch {
		case e.start != nil:
			p := &w.ports[e.port]
			p.flows = append(p.flows, e.start)
			e.start.readyPS = e.atPS
			w.look(e.port, max(e.atPS, p.freePS))
		case e.packet != nil:
			w.arrive(e.port, e.packet, e.atPS)
		default:
			w.send(e.port, e.atPS)
		}
	}
	return w
}

// start starts a flow that no longer waits.
func (w *netTwin) start(f *twinFlow) {
	f.left = -1
	if len(f.path) == 0 {
		w.finish(f, f.startPS)
		return
	}
	w.at(twinEvent{atPS: f.startPS, rank: 1<<32 + f.row, port: f.path[0], start: f})
}

// finish ends a flow and starts those that waited for it.
func (w *netTwin) finish(f *twinFlow, nowPS int64) {
	f.finishPS = nowPS
	for _, n := range f.next {
		n.flow.startPS = max(n.flow.startPS, simkernel.CeilNS(nowPS)*simkernel.PSPerNS+n.delayPS)
		n.flow.left--
		if n.flow.left == 0 {
			w.start(n.flow)
		}
	}
}

func rateOf(s simkernel.Sender) float64 {
	rateBps, _ := s.Rate()
	return rateBps
}

func (w *netTwin) arrive(port int32, k *twinPacket, nowPS int64) {
	p := &w.ports[port]
	f := k.flow
	k.atPS = nowPS
	switch {
	case k.ack && k.hop < 0: // home
		f.acked += k.payload
		if f.sent < f.sizeBytes { // later ACKs change nothing, and must not make a difference
			f.sender.Tick(&w.params, nowPS)
			f.sender.OnAck(&w.params, &simkernel.AckInfo{NowPS: nowPS, RTTPS: nowPS - k.sentPS, AckedBytes: f.acked,
				SentBytes: f.sent, Marked: k.marked, Links: k.links})
			f.window = f.limits.WindowAt(rateOf(f.sender))
		}
		w.look(port, max(nowPS, p.freePS))
		w.look(port, max(nowPS, p.freePS, f.readyPS))
		return
	case !k.ack && k.hop == len(f.path): // delivered
		f.got += k.payload
		if f.got == f.sizeBytes {
			w.finish(f, nowPS)
		}
		k = &twinPacket{flow: f, hop: k.hop - 1, payload: k.payload, ack: true, marked: k.marked, atPS: nowPS,
			sentPS: k.sentPS, links: k.links}
	}
	if k.ack && (!w.params.Transport.Traits().AcksQueue || w.hosts[w.links[port].SrcNode]) {
		p.acks = append(p.acks, k)
	} else {
		p.data = append(p.data, k)
	}
	w.look(port, max(nowPS, p.freePS))
}

func (w *netTwin) send(port int32, nowPS int64) {
	p := &w.ports[port]
	link := w.links[port]
	if p.freePS > nowPS {
		return
	}
	if len(p.acks) > 0 {
		k := p.acks[0]
		p.acks = p.acks[1:]
		k.hop--
		to := k.flow.path[0]
		if k.hop >= 0 {
			to = k.flow.path[k.hop] ^ 1
		}
		w.transmit(port, to, k, w.params.AckBytes, nowPS)
		return
	}
	var k *twinPacket
	if w.hosts[link.SrcNode] {
		f := w.choose(p, nowPS)
		if f == nil {
			return
		}
		p.served = slices.Index(p.flows, f)
		payload := min(w.params.PayloadBytes, f.sizeBytes-f.sent)
		f.sent += payload
		f.sender.Tick(&w.params, nowPS)
		rateBps := rateOf(f.sender)
		f.window = f.limits.WindowAt(rateBps)
		f.readyPS = nowPS + simkernel.NewWireTime(rateBps).PS(payload+w.params.HeaderBytes)
		if f.sent < f.sizeBytes {
			w.look(port, f.readyPS)
		}
		k = &twinPacket{flow: f, payload: payload, last: f.sent == f.sizeBytes, atPS: nowPS, sentPS: nowPS,
			n: f.packets}
		f.packets++
	} else {
		if len(p.data) == 0 {
			return
		}
		k = p.data[0]
		p.data = p.data[1:]
		left := int64(0)
		for _, other := range p.data {
			if other.atPS < nowPS {
				left += w.wire(other)
			}
		}
		if k.ack {
			k.hop--
			to := k.flow.path[0]
			if k.hop >= 0 {
				to = k.flow.path[k.hop] ^ 1
			}
			w.transmit(port, to, k, w.params.AckBytes, nowPS)
			return
		}
		if w.marks(port, k, left) {
			k.marked = true
			k.flow.marks[k.hop]++
		}
		k.links = append(k.links, simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sent, LeftBytes: left,
			Bps: float64(link.BandwidthBps)})
	}
	k.flow.waitPS[k.hop] += nowPS - k.atPS
	if k.last {
		k.flow.lastPS[k.hop] = nowPS - k.atPS
	}
	k.hop++
	to := port ^ 1
	if k.hop < len(k.flow.path) {
		to = k.flow.path[k.hop]
	}
	w.transmit(port, to, k, k.payload+w.params.HeaderBytes, nowPS)
}

func (w *netTwin) wire(k *twinPacket) int64 {
	if k.ack {
		return w.params.AckBytes
	}
	return k.payload + w.params.HeaderBytes
}

// marks reports whether a port marks a packet behind which this many bytes remain.
func (w *netTwin) marks(port int32, k *twinPacket, left int64) bool {
	from, always := w.params.MarkBytes(w.links[port].BandwidthBps, w.links[port].DelayNS)
	if w.params.Transport.Traits().RandomMarks {
		rule := w.params.MarkRule(from, always)
		key := simkernel.MixKey(simkernel.MarkKey(w.params.Seed, port), uint64(k.flow.row))
		return rule.Marks(left, simkernel.MixKey(key, k.n))
	}
	return left > from
}

// choose is the host's round robin. It returns the first sendable flow that started after the one served
// last, or else the first sendable flow.
func (w *netTwin) choose(p *twinPort, nowPS int64) *twinFlow {
	var first *twinFlow
	for _, f := range p.flows {
		if f.sent < f.sizeBytes {
			f.sender.Tick(&w.params, nowPS)
			f.window = f.limits.WindowAt(rateOf(f.sender))
		}
	}
	for i, f := range p.flows {
		if f.sent == f.sizeBytes || f.readyPS > nowPS || f.sent-f.acked >= f.window {
			continue
		}
		if i > p.served {
			return f
		}
		if first == nil {
			first = f
		}
	}
	return first
}

func (w *netTwin) transmit(port, to int32, k *twinPacket, wireBytes, nowPS int64) {
	p := &w.ports[port]
	link := w.links[port]
	p.sent += wireBytes
	p.freePS = nowPS + simkernel.NewWireTime(float64(link.BandwidthBps)).PS(wireBytes)
	w.look(port, p.freePS)
	w.at(twinEvent{atPS: p.freePS + link.DelayNS*simkernel.PSPerNS, rank: int(port), port: to, packet: k})
}

// netExample is a random network and its workload.
type netExample struct {
	params simkernel.Params
	links  []Link
	hosts  []bool
	flows  Flows

	classes []Class // nil: none
}

// randomNetworkOf makes a connected network of switches, hosts with one cable each, and flows on random
// shortest paths. It favors coincidences: equal times, equal speeds and tiny windows.
func randomNetworkOf(t simkernel.Transport, seed uint64) netExample {
	rng := rand.New(rand.NewPCG(seed, 5))
	pick := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	e := netExample{params: simkernel.ParamsOf(t)}
	e.params.Seed = seed
	e.params.SetWindow(pick(simkernel.AutoWindow, 500, 2500, 18_000, 18_000, 100_000))
	if rng.IntN(4) == 0 {
		e.params.WANWindowBytes = pick(simkernel.AutoWindow, 40_000)
	}
	e.params.AckBytes = pick(0, 60, 60, 60)
	e.params.MarkBytesPerGbps = pick(0, 300, 3000)
	switches := 1 + rng.IntN(6)
	hostCount := 2 + rng.IntN(8)
	e.hosts = make([]bool, switches+hostCount)
	delays := [][]int64{{1000}, {1000, 2000}, {1, 1000}, {7, 300_000}}[rng.IntN(4)]
	speeds := [][]int64{{10e9}, {10e9, 40e9}, {1e9, 10e9, 3_333_333_333}}[rng.IntN(3)]
	cable := func(a, b int) {
		l := Link{int32(a), int32(b), pick(speeds...), pick(delays...)}
		back := Link{int32(b), int32(a), l.BandwidthBps, l.DelayNS}
		if rng.IntN(4) == 0 {
			back.BandwidthBps = pick(speeds...)
		}
		e.links = append(e.links, l, back)
	}
	for s := 1; s < switches; s++ {
		cable(s, rng.IntN(s))
	}
	for range rng.IntN(switches) {
		a := rng.IntN(switches)
		b := rng.IntN(switches)
		if a != b {
			cable(a, b)
		}
	}
	for h := switches; h < len(e.hosts); h++ {
		e.hosts[h] = true
		cable(h, rng.IntN(switches))
	}
	startNS := rng.Int64N(1e9)
	for range 1 + rng.IntN(40) {
		src := switches + rng.IntN(hostCount)
		dst := switches + rng.IntN(hostCount)
		if rng.IntN(3) == 0 {
			dst = switches
		}
		if src == dst {
			continue
		}
		e.flows.SizeBytes = append(e.flows.SizeBytes, 1+rng.Int64N(pick(10, 1000, 3000, 100_000)))
		e.flows.StartNS = append(e.flows.StartNS, startNS)
		e.flows.PathLinks = append(e.flows.PathLinks, randomPath(rng, e.links, e.hosts, src, dst)...)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
		startNS += pick(0, 0, 1, 500, 5000, 200_000) * rng.Int64N(3)
	}
	return e
}

// randomPath is a path that a search in random order finds.
func randomPath(rng *rand.Rand, links []Link, hosts []bool, src, dst int) []int32 {
	seen := map[int]bool{src: true}
	var walk func(at int) []int32
	walk = func(at int) []int32 {
		for _, l := range rng.Perm(len(links)) {
			if int(links[l].SrcNode) != at {
				continue
			}
			next := int(links[l].DstNode)
			if next == dst {
				return []int32{int32(l)}
			}
			if seen[next] || hosts[next] {
				continue
			}
			seen[next] = true
			rest := walk(next)
			if rest != nil {
				return append([]int32{int32(l)}, rest...)
			}
		}
		return nil
	}
	return walk(src)
}

// chunks is a source of the workload in chunks of at most size flows.
func chunks(flows *Flows, size int) func() (*Flows, error) {
	row := 0
	return func() (*Flows, error) {
		if row == len(flows.StartNS) {
			return nil, nil
		}
		end := min(row+size, len(flows.StartNS))
		c := &Flows{SizeBytes: flows.SizeBytes[row:end], StartNS: flows.StartNS[row:end]}
		if flows.Class != nil {
			c.Class = flows.Class[row:end]
		}
		if flows.AfterEnds != nil {
			c.After = flows.After
			c.DelayNS = flows.DelayNS
			c.AfterEnds = flows.AfterEnds[row:end]
			if row > 0 { // as if the chunk began with what it waits for
				c.After = c.After[flows.AfterEnds[row-1]:]
				c.DelayNS = c.DelayNS[flows.AfterEnds[row-1]:]
				c.AfterEnds = slices.Clone(c.AfterEnds)
				for i := range c.AfterEnds {
					c.AfterEnds[i] -= flows.AfterEnds[row-1]
				}
			}
		}
		base := int32(0)
		if row > 0 {
			base = flows.PathEnds[row-1]
		}
		c.PathLinks = flows.PathLinks[base:flows.PathEnds[end-1]]
		for _, e := range flows.PathEnds[row:end] {
			c.PathEnds = append(c.PathEnds, e-base)
		}
		row = end
		return c, nil
	}
}

func newExampleNetwork(t testing.TB, e *netExample, b BufferParams, chunk int) *Network {
	t.Helper()
	n, err := New(e.params, b, e.links, e.hosts, chunks(&e.flows, chunk))
	if err != nil {
		t.Fatal(err)
	}
	if e.classes != nil {
		if err := n.Classify(e.classes); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// runIn simulates an example with the given domains (one if nil) and workers.
func runIn(t testing.TB, e *netExample, b BufferParams, domainOf []int32, workers, chunk int) (*Network,
	*Results) {
	t.Helper()
	n := newExampleNetwork(t, e, b, chunk)
	if e.flows.AfterEnds != nil {
		n.WaitFor()
	}
	if domainOf == nil {
		domainOf = make([]int32, len(e.hosts))
	}
	all := &Results{}
	n.leastWork = 0
	if err := n.run(context.Background(), workers, domainOf, all.join); err != nil {
		t.Fatal(err)
	}
	return n, all
}

func runExample(t testing.TB, e *netExample, chunk int) *Results {
	t.Helper()
	_, r := runIn(t, e, BufferParams{}, nil, 1, chunk)
	return r
}

// join appends other results.
func (r *Results) join(more *Results) error {
	base := int32(len(r.WaitNS))
	r.Row = append(r.Row, more.Row...)
	r.StartNS = append(r.StartNS, more.StartNS...)
	r.FCTNS = append(r.FCTNS, more.FCTNS...)
	r.IdealNS = append(r.IdealNS, more.IdealNS...)
	for _, end := range more.HopEnds {
		r.HopEnds = append(r.HopEnds, base+end)
	}
	r.WaitNS = append(r.WaitNS, more.WaitNS...)
	r.LastWaitNS = append(r.LastWaitNS, more.LastWaitNS...)
	r.Marks = append(r.Marks, more.Marks...)
	r.Again = append(r.Again, more.Again...)
	r.Reordered = append(r.Reordered, more.Reordered...)
	return nil
}

func TestNetworkAgreesWithTwin(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		t.Run(kind.String(), func(t *testing.T) {
			for _, seed := range kerneltest.Seeds(600/min(4, uint64(kind)+1), 13) {
				e := randomNetworkOf(kind, seed)
				kerneltest.RandomConstants(rand.New(rand.NewPCG(seed, 10)), &e.params)
				if err := agree(t, &e); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// The list of flows of a host with one long flow and hundreds of short ones is compacted.
func TestNetworkBusyHostAgreesWithTwin(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true, true, false}}
	e.params.SetWindow(5000)
	for h := range int32(3) {
		e.links = append(e.links, Link{h, 3, 10e9, 1000}, Link{3, h, 10e9, 1000})
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for i := range int64(500) {
		size := 1 + rng.Int64N(9000)
		if i%100 == 3 {
			size = 1_000_000
		}
		e.flows.SizeBytes = append(e.flows.SizeBytes, size)
		e.flows.StartNS = append(e.flows.StartNS, i/7*25_000)
		e.flows.PathLinks = append(e.flows.PathLinks, 0, 3+2*int32(rng.IntN(2)))
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
	}
	if err := agree(t, &e); err != nil {
		t.Fatal(err)
	}
}

func agree(t testing.TB, e *netExample) error {
	w := runTwin(e.params, e.links, e.hosts, &e.flows)
	r := runExample(t, e, 1000)
	if len(r.Row) != len(w.flows) {
		return fmt.Errorf("%d flows finished, twin %d", len(r.Row), len(w.flows))
	}
	begin := int32(0)
	for i, row := range r.Row {
		f := w.flows[row]
		fct := simkernel.CeilNS(f.finishPS - f.startPS)
		if fct != r.FCTNS[i] {
			return fmt.Errorf("flow %d: FCT %d ns, twin %d", row, r.FCTNS[i], fct)
		}
		for h := range f.path {
			sum := r.WaitNS[int(begin)+h]
			last := r.LastWaitNS[int(begin)+h]
			if sum != f.waitPS[h]/simkernel.PSPerNS || last != f.lastPS[h]/simkernel.PSPerNS {
				return fmt.Errorf("flow %d hop %d: waits %d, last %d; twin %d, %d", row, h, sum, last,
					f.waitPS[h]/simkernel.PSPerNS, f.lastPS[h]/simkernel.PSPerNS)
			}
			marks := r.Marks[int(begin)+h]
			if marks != f.marks[h] {
				return fmt.Errorf("flow %d hop %d: %d marks, twin %d", row, h, marks, f.marks[h])
			}
		}
		begin = r.HopEnds[i]
		if i > 0 {
			before := w.flows[r.Row[i-1]]
			c := f.finishPS - before.finishPS
			if c < 0 || c == 0 && f.row < before.row {
				return fmt.Errorf("flow %d comes after flow %d, which finished later", row, before.row)
			}
		}
	}
	for i, row := range slices.Sorted(slices.Values(r.Row)) {
		if int(row) != i {
			return fmt.Errorf("flow %d did not finish, or twice", i)
		}
	}
	return nil
}
