package network

import (
	"cmp"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A Fault is a time in which a link loses packets. With Share 1 the link is down: what is on it at any time in
// [FromNS, ToNS) is lost. Else a packet whose transmission starts then is lost with probability Share: each by itself
// or, with BurstNS, if the link is in a burst.
//
// Bursts are those of Gilbert's model (Bell System Technical Journal 39, 1960), which is Elliott's with nothing lost
// between bursts and all in them, in time: bursts, and what is between them, have exponential lengths. BurstNS is the
// mean of the former.
type Fault struct {
	Link         int32
	FromNS, ToNS int64
	Share        float64
	BurstNS      int64 // 0 or at least MinBurstNS
}

// MinBurstNS bounds how many bursts there are.
const MinBurstNS = 1000

// A Rate is what a link has from a time on: a bandwidth, at most that of the network's link, or a delay, at least its.
// 0 is as before. Where the delay falls, packets overtake those that are on the link.
type Rate struct {
	Link         int32
	FromNS       int64
	BandwidthBps int64
	DelayNS      int64
}

// set makes a link what it is from then on.
func (r *Rate) set(link *Link) {
	link.BandwidthBps = cmp.Or(r.BandwidthBps, link.BandwidthBps)
	link.DelayNS = cmp.Or(r.DelayNS, link.DelayNS)
}

// The two who ask what a link loses: its sending end, where flows wait for others (dependencies.go), and its receiving
// end. Each asks in order of time.
const (
	sending = iota
	arriving
	askers
)

// A linkFault is a Fault and the bursts as far as each asker has come.
type linkFault struct {
	Fault
	bursts *[askers]burst // each is changed by one asker, while others read the fault
}

// A burst is a time in which a link loses all packets, or one between two.
type burst struct {
	untilPS int64
	loses   bool
	drawn   uint64
}

// addFaults sorts faults and rates by link and time.
func (m *moves) addFaults(n *Network) {
	for _, f := range m.Faults {
		m.faults[f.Link] = append(m.faults[f.Link], linkFault{f, &[askers]burst{}})
	}
	for _, r := range m.Rates {
		m.rates[r.Link] = append(m.rates[r.Link], r)
	}
	for l, link := range n.links {
		m.wires = append(m.wires, simkernel.NewWireTime(float64(link.BandwidthBps)))
		slices.SortStableFunc(m.faults[l], func(a, b linkFault) int { return cmp.Compare(a.FromNS, b.FromNS) })
		slices.SortStableFunc(m.rates[l], func(a, b Rate) int { return cmp.Compare(a.FromNS, b.FromNS) })
	}
}

// isLost reports whether what arrives over a link was lost on it.
func (m *moves) isLost(d *domain, a *arrival, key uint64, asker int) bool {
	leftPS := d.leftPS(a)
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
		case unit(m.hash(^key, uint64(fromPS), a.link)) < f.Share: // a draw for each transmission
			return true
		}
	}
	return false
}

// inBurst reports whether a link is in a burst at a time, not before the last that the asker asked for.
func (m *moves) inBurst(f *linkFault, atPS int64, asker int) bool {
	b := &f.bursts[asker]
	for b.drawn == 0 || b.untilPS <= atPS {
		u := unit(m.hash(uint64(f.FromNS), b.drawn, ^f.Link))
		if b.drawn++; b.drawn == 1 {
			b.untilPS, b.loses = psOf(f.FromNS), u >= f.Share // before the first time, which is a burst with this probability
			continue
		}
		meanPS := float64(psOf(f.BurstNS))
		if b.loses = !b.loses; !b.loses {
			meanPS *= (1 - f.Share) / f.Share
		}
		b.untilPS += 1 + int64(min(-math.Log(u)*meanPS, horizonPS))
	}
	return b.loses
}

// sendTime returns the time that a link takes for so many bytes, the last of which leaves at leftPS.
func (m *moves) sendTime(link int32, bytes, leftPS int64) int64 {
	rates := m.rates[link]
	for i := len(rates) - 1; i >= 0; i-- {
		if rates[i].BandwidthBps == 0 {
			continue
		}
		if ps := simkernel.NewWireTime(float64(rates[i].BandwidthBps)).PS(bytes); psOf(rates[i].FromNS) <= leftPS-ps {
			return ps
		}
	}
	return m.wires[link].PS(bytes)
}

// initRates prepares a port for the changes of its rate.
func (m *moves) initRates(n *Network, p *port) {
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

// changeRate gives a port the rate that it has from p.rateAtPS on.
func (d *domain) changeRate(p *port) {
	nowPS, rates := p.rateAtPS, d.moves.rates[p.link]
	p.kind = d.kindAt(p.link, nowPS)
	p.rateAtPS = never
	if next := slices.IndexFunc(rates, func(r Rate) bool { return psOf(r.FromNS) > nowPS }); next >= 0 {
		p.rateAtPS, p.changeAtPS = psOf(rates[next].FromNS), psOf(rates[next].FromNS)
		p.bits |= portChanges
	}
}

// kindAt returns the kind that the port of a link has at a time.
func (d *domain) kindAt(id int32, atPS int64) *portKind {
	link, rates := d.net.links[id], d.moves.rates[id]
	for i := 0; i < len(rates) && psOf(rates[i].FromNS) <= atPS; i++ {
		rates[i].set(&link)
	}
	return d.net.kinds[d.net.kind(link)]
}

// worst is a link with the least bandwidth and the longest delay that it has at any time.
func (n *Network) worst(link int32) Link {
	l := n.links[link]
	if n.moves != nil {
		for _, r := range n.moves.rates[link] {
			l.BandwidthBps, l.DelayNS = min(l.BandwidthBps, cmp.Or(r.BandwidthBps, l.BandwidthBps)), max(l.DelayNS, r.DelayNS)
		}
	}
	return l
}
