package network

import (
	"cmp"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A Fault is a time in which a link loses packets. With Share 1 the link is down: everything that is on it at
// any time in [FromNS, ToNS) is lost. Otherwise a packet or an ACK whose transmission starts in that time is
// lost with probability Share. Without BurstNS each transmission is a draw of its own. With BurstNS it is
// lost if the link is in a burst.
//
// Bursts follow Gilbert's model (Bell System Technical Journal 39, 1960), in continuous time: bursts, in
// which all is lost, and the times between them have exponential lengths. BurstNS is the mean length of a
// burst.
type Fault struct {
	Link         int32
	FromNS, ToNS int64
	Share        float64
	BurstNS      int64 // 0 or at least MinBurstNS
}

// MinBurstNS is the least mean length of bursts. It bounds their number.
const MinBurstNS = 1000

// A Rate changes a link from a time on: its bandwidth, to at most that of the Link of the network, or its
// delay, to at least that of the Link. 0 changes nothing. If the delay falls, packets overtake those that are
// on the link.
type Rate struct {
	Link         int32
	FromNS       int64
	BandwidthBps int64
	DelayNS      int64
}

// set applies the change to a link.
func (r *Rate) set(link *Link) {
	link.BandwidthBps = cmp.Or(r.BandwidthBps, link.BandwidthBps)
	link.DelayNS = cmp.Or(r.DelayNS, link.DelayNS)
}

// Both ends of a link ask what it loses, each in order of time: the sending end only if flows wait for others
// (dependencies.go).
const (
	sending = iota
	arriving
	askers
)

// A linkFault is a Fault with the burst that each end has asked about last.
type linkFault struct {
	Fault
	bursts *[askers]burst // each is changed by one asker, while others read the fault
}

// A burst is a time in which a link loses all packets, or the time between two.
type burst struct {
	untilPS int64
	loses   bool
	drawn   uint64
}

// Failures are the cables that fail, lose packets or change their rate.
type Failures struct {
	Faults []Fault
	Rates  []Rate
	// RepairNS is how long the two ends of a cable take to stop using it after it went down, and to use it
	// again after it came up. With 0 they wait until the routes change.
	RepairNS int64
}

// failures is the state of Failures.
type failures struct {
	*Failures
	seed   uint64
	faults [][]linkFault // by link, in order of time; nil where there is none
	rates  [][]Rate
	wires  []simkernel.WireTime // by link, without rates
}

// init sorts faults and rates by link and time.
func (m *failures) init(n *Network, f *Failures, seed uint64) {
	m.Failures = f
	m.seed = seed
	m.faults = make([][]linkFault, len(n.links))
	m.rates = make([][]Rate, len(n.links))
	for _, fault := range f.Faults {
		m.faults[fault.Link] = append(m.faults[fault.Link], linkFault{fault, &[askers]burst{}})
	}
	for _, r := range f.Rates {
		m.rates[r.Link] = append(m.rates[r.Link], r)
	}
	for l, link := range n.links {
		m.wires = append(m.wires, simkernel.NewWireTime(float64(link.BandwidthBps)))
		slices.SortStableFunc(m.faults[l], func(a, b linkFault) int { return cmp.Compare(a.FromNS, b.FromNS) })
		slices.SortStableFunc(m.rates[l], func(a, b Rate) int { return cmp.Compare(a.FromNS, b.FromNS) })
	}
}

// isLost reports whether what arrives over a link was lost on it.
func (m *failures) isLost(d *domain, a *arrival, key uint64, asker int) bool {
	leftPS := d.paths.leftPS(a)
	fromPS := leftPS - m.sendTime(a.link, d.wireBytes(&a.item), leftPS)
	for i := range m.faults[a.link] {
		switch f := &m.faults[a.link][i]; {
		case psOf(f.FromNS) > a.atPS:
			return false
		case f.Share == 1:
			if psOf(f.ToNS) > fromPS {
				return true
			}
		case psOf(f.FromNS) > fromPS || fromPS >= psOf(f.ToNS):
		case f.BurstNS > 0:
			if m.inBurst(f, fromPS, asker) {
				return true
			}
		case unit(hashOf(m.seed, ^key, uint64(fromPS), a.link)) < f.Share: // each transmission is a draw
			return true
		}
	}
	return false
}

// inBurst reports whether a link is in a burst at a time. An asker never asks for an earlier time than
// before.
func (m *failures) inBurst(f *linkFault, atPS int64, asker int) bool {
	b := &f.bursts[asker]
	for b.drawn == 0 || b.untilPS <= atPS {
		u := unit(hashOf(m.seed, uint64(f.FromNS), b.drawn, ^f.Link))
		b.drawn++
		if b.drawn == 1 {
			b.untilPS = psOf(f.FromNS)
			b.loses = u >= f.Share // before the first time, which is a burst with this probability
			continue
		}
		meanPS := float64(psOf(f.BurstNS))
		b.loses = !b.loses
		if !b.loses {
			meanPS *= (1 - f.Share) / f.Share
		}
		b.untilPS += 1 + int64(min(-math.Log(u)*meanPS, horizonPS))
	}
	return b.loses
}

// sendTime returns how long a link takes to send bytes, the last of which leaves at leftPS.
func (m *failures) sendTime(link int32, bytes, leftPS int64) int64 {
	rates := m.rates[link]
	for i := len(rates) - 1; i >= 0; i-- {
		if rates[i].BandwidthBps == 0 {
			continue
		}
		ps := simkernel.NewWireTime(float64(rates[i].BandwidthBps)).PS(bytes)
		if psOf(rates[i].FromNS) <= leftPS-ps {
			return ps
		}
	}
	return m.wires[link].PS(bytes)
}

// initRates schedules the first change of a port's rate.
func (m *failures) initRates(n *Network, p *port) {
	link := n.links[p.link]
	for _, r := range m.rates[p.link] {
		r.set(&link)
		n.kindOf(link)
		p.bits |= portChanges
	}
	if p.bits&portChanges != 0 {
		p.rateAtPS = psOf(m.rates[p.link][0].FromNS)
		p.changeAtPS = p.rateAtPS
	}
}

// changeRate makes the change of a port's rate that is due at p.rateAtPS.
func (w *forwarding) changeRate(p *port) {
	nowPS := p.rateAtPS
	rates := w.net.failures.rates[p.link]
	p.kind = w.kindAt(p.link, nowPS)
	p.rateAtPS = never
	next := slices.IndexFunc(rates, func(r Rate) bool { return psOf(r.FromNS) > nowPS })
	if next >= 0 {
		p.rateAtPS, p.changeAtPS = psOf(rates[next].FromNS), psOf(rates[next].FromNS)
		p.bits |= portChanges
	}
}

// kindAt returns the kind that the port of a link has at a time.
func (w *forwarding) kindAt(id int32, atPS int64) *portKind {
	d := w.domain
	link := d.net.links[id]
	rates := w.net.failures.rates[id]
	for i := 0; i < len(rates) && psOf(rates[i].FromNS) <= atPS; i++ {
		rates[i].set(&link)
	}
	return d.net.kinds[d.net.kind(link)]
}

// worst returns a link with the least bandwidth and the longest delay that it has at any time.
func (n *Network) worst(link int32) Link {
	l := n.links[link]
	if n.paths != nil {
		for _, r := range n.paths.failures.rates[link] {
			l.BandwidthBps = min(l.BandwidthBps, cmp.Or(r.BandwidthBps, l.BandwidthBps))
			l.DelayNS = max(l.DelayNS, r.DelayNS)
		}
	}
	return l
}

// avoids reports whether the ends of a link's cable know that the cable is down.
func (m *failures) avoids(link int32, atPS int64) bool {
	if m.RepairNS == 0 {
		return false
	}
	knowPS := atPS - psOf(m.RepairNS)
	down := func(f linkFault) bool { return f.Share == 1 && psOf(f.FromNS) <= knowPS && knowPS < psOf(f.ToNS) }
	return slices.ContainsFunc(m.faults[link], down) || slices.ContainsFunc(m.faults[link^1], down)
}
