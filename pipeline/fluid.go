package pipeline

// fluidStepNS is the time step of a fluid. A flow begins with the first step after its start, half a step later on
// average, which stands for the delays of the path, and ends at a step.
const fluidStepNS = int64(20_000)

// fluidRounds is how many times hosts divide among others what flows cannot use on their other side. With 3 rounds
// flows have 0.8% more bytes left than with 8 (scenario small).
const fluidRounds = 6

// fluidVersion is part of the id of a scenario of windows: its carried flows and their starts depend on the fluid.
const fluidVersion = 8

// goodput is the share of a link's capacity that carries payload: 1,000 of 1,048 bytes of a packet.
const goodput = 1000.0 / 1048

// ackShare is how many bytes of payload the ACKs of a byte of payload in the other direction replace on a link: of 60
// bytes for a packet of 1,000 bytes of payload.
const ackShare = 60 * goodput / 1000

// A fluid approximates which flows are active at a time, and how many bytes they have left: hosts divide their
// bandwidth in equal parts among the flows that they send, and among those that they receive, and what a flow cannot
// use on one side is divided once more among the others. ACKs of what a host receives take bandwidth from what it
// sends, and the other way round. The network between hosts is not modelled.
//
// Flows arrive in start order. Work grows with the flows that are active at a time, in steps of fluidStepNS.
type fluid struct {
	bps      map[int32]int64 // access bandwidth by host
	now      int64
	steps    int64
	active   []carried
	begun    []carried // in the present step
	sending  map[int32]*fluidHost
	receives map[int32]*fluidHost
}

// A fluidHost is one side of a host: its bytes in a step, the flows that share them and what they have left over.
type fluidHost struct {
	capacity, left float64
	flows          float64
	other          *fluidHost // the other side of the host
	used           float64    // bytes in step usedAt
	usedAt         int64
}

// usedIn is how many bytes the side carried in a step.
func (h *fluidHost) usedIn(step int64) float64 {
	if h.usedAt != step {
		return 0
	}
	return h.used
}

// use counts bytes in a step.
func (h *fluidHost) use(step int64, bytes float64) {
	if h.usedAt != step {
		h.used, h.usedAt = 0, step
	}
	h.used += bytes
	h.left -= bytes
}

func newFluid(bps map[int32]int64) *fluid {
	return &fluid{bps: bps, sending: map[int32]*fluidHost{}, receives: map[int32]*fluidHost{}}
}

// add begins a flow at a time.
func (f *fluid) add(ns int64, c carried) {
	f.advance(ns)
	c.from, c.to = f.host(c.Src, f.sending, f.receives), f.host(c.Dst, f.receives, f.sending)
	f.begun = append(f.begun, c)
}

// host is one side of a host.
func (f *fluid) host(id int32, side, other map[int32]*fluidHost) *fluidHost {
	h := side[id]
	if h == nil {
		capacity := goodput * float64(f.bps[id]) * float64(fluidStepNS) / 8e9
		h = &fluidHost{capacity: capacity}
		h.other = &fluidHost{capacity: capacity, other: h}
		side[id], other[id] = h, h.other
	}
	return h
}

// advance lets the active flows send until a time.
func (f *fluid) advance(ns int64) {
	for f.now+fluidStepNS <= ns {
		if len(f.active)+len(f.begun) == 0 {
			f.now = ns - ns%fluidStepNS
			return
		}
		f.step()
		for _, c := range f.begun {
			c.from.flows++
			c.to.flows++
		}
		f.active, f.begun = append(f.active, f.begun...), f.begun[:0]
		f.now += fluidStepNS
	}
}

// each calls do with the flows that have begun and not ended.
func (f *fluid) each(do func(*carried)) {
	for _, flows := range [][]carried{f.active, f.begun} {
		for i := range flows {
			do(&flows[i])
		}
	}
}

func (f *fluid) step() {
	before := f.steps
	f.steps++
	for i := range f.active {
		c := &f.active[i]
		c.from.left = c.from.capacity - ackShare*c.from.other.usedIn(before)
		c.to.left = c.to.capacity - ackShare*c.to.other.usedIn(before)
	}
	for i := range f.active {
		c := &f.active[i]
		c.sent = min(c.remaining, c.from.left/c.from.flows, c.to.left/c.to.flows)
	}
	for round := range fluidRounds {
		for i := range f.active {
			c := &f.active[i]
			c.from.use(f.steps, c.sent)
			c.to.use(f.steps, c.sent)
			c.remaining -= c.sent
		}
		if round == fluidRounds-1 {
			break
		}
		for i := range f.active {
			c := &f.active[i]
			c.sent = max(0, min(c.remaining, c.from.left/c.from.flows, c.to.left/c.to.flows))
		}
	}
	kept := f.active
	f.active = kept[:0]
	for _, c := range kept {
		if c.remaining >= 1 {
			f.active = append(f.active, c)
			continue
		}
		c.from.flows--
		c.to.flows--
	}
}
