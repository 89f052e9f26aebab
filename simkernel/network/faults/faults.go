// Package faults knows when the links of a network are down, lose packets, or have another bandwidth or
// delay. What a link does at a time depends on the seed, the link and the time alone.
package faults

import (
	"cmp"
	"math"
	"slices"

	"parsimon/simkernel"
)

// A Fault is a period in which a link loses packets. With Share 1 the link is down: everything that is on it
// at any time in [FromNS, ToNS) is lost. Otherwise a packet or an ACK whose transmission starts in that
// period is lost with probability Share. Without BurstNS, each transmission is drawn independently. With
// BurstNS, it is lost if the link is in a burst.
//
// Bursts follow Gilbert's model (Bell System Technical Journal 39, 1960) in continuous time. Bursts, in which
// everything is lost, and the times between them have exponential lengths. BurstNS is the mean length of a
// burst.
type Fault struct {
	Link         int32
	FromNS, ToNS int64
	Share        float64
	BurstNS      int64 // 0 or at least MinBurstNS
}

// MinBurstNS is the minimum of the mean length of bursts. It limits their number.
const MinBurstNS = 1000

// A Rate changes a link from a time on: its bandwidth, to at most that of the Link of the network, or its
// delay, to at least that of the Link. 0 means no change. If the delay decreases, packets overtake those that
// are on the link.
type Rate struct {
	Link         int32
	FromNS       int64
	BandwidthBps int64
	DelayNS      int64
}

// An Asker is an end of a link that asks what the link loses. Each asks in order of time.
type Asker int

// The ends of a link. The sending end asks only if flows wait for others.
const (
	Sending Asker = iota
	Arriving
	askers
)

// A linkFault is a Fault together with the burst that each end has asked about last.
type linkFault struct {
	Fault
	bursts *[askers]burst // each is changed by one asker, while others read the fault
}

// A burst is a period in which a link loses all packets, or the period between two bursts.
type burst struct {
	untilPS int64
	loses   bool
	drawn   uint64
}

// Failures are the cables that fail, lose packets or change their rate.
type Failures struct {
	Faults []Fault
	Rates  []Rate
	// RepairNS is the time that the two ends of a cable take to stop using it after it has gone down, and to
	// use it again after it has come up. With 0, they wait until the routes change.
	RepairNS int64
}

// State is the state of Failures.
type State struct {
	*Failures
	seed   uint64
	faults [][]linkFault // by link, in order of time; nil where there is none
	rates  [][]Rate
	wires  []simkernel.WireTime // by link, without rates
}

// New returns the failures of links with these bandwidths, sorted by link and time.
func New(f *Failures, seed uint64, bps []int64) *State {
	m := &State{
		Failures: f, seed: seed,
		faults: make([][]linkFault, len(bps)), rates: make([][]Rate, len(bps)),
	}
	for _, fault := range f.Faults {
		m.faults[fault.Link] = append(m.faults[fault.Link], linkFault{fault, &[askers]burst{}})
	}
	for _, r := range f.Rates {
		m.rates[r.Link] = append(m.rates[r.Link], r)
	}
	for l := range bps {
		m.wires = append(m.wires, simkernel.NewWireTime(float64(bps[l])))
		slices.SortStableFunc(m.faults[l], func(a, b linkFault) int { return cmp.Compare(a.FromNS, b.FromNS) })
		slices.SortStableFunc(m.rates[l], func(a, b Rate) int { return cmp.Compare(a.FromNS, b.FromNS) })
	}
	return m
}

// CanLose reports whether a link can lose packets.
func (m *State) CanLose(link int32) bool { return m.faults[link] != nil }

// RatesOf returns the changes of a link, in order of time.
func (m *State) RatesOf(link int32) []Rate { return m.rates[link] }

// LeftPS returns when the last byte was sent of what arrives over a link at a time, under the latest delay
// that was in force by then. delayNS is that of the link without changes.
func (m *State) LeftPS(link int32, delayNS, atPS int64) int64 {
	left := atPS - delayNS*simkernel.PSPerNS
	for _, r := range m.rates[link] {
		by := atPS - r.DelayNS*simkernel.PSPerNS
		if r.DelayNS > 0 && PS(r.FromNS) <= by {
			left = by
		}
	}
	return left
}

// A Transit is something that crosses a link: a packet or an ACK of a flow.
type Transit struct {
	Link      int32
	Key       uint64 // of its flow
	Bytes     int64  // on the wire
	LeftPS    int64  // when its last byte is sent
	ArrivesPS int64  // when its last byte arrives
}

// IsLost reports whether something is lost on its link.
func (m *State) IsLost(t *Transit, by Asker) bool {
	fromPS := t.LeftPS - m.SendTime(t.Link, t.Bytes, t.LeftPS)
	for i := range m.faults[t.Link] {
		switch f := &m.faults[t.Link][i]; {
		case PS(f.FromNS) > t.ArrivesPS:
			return false
		case f.Share == 1:
			if PS(f.ToNS) > fromPS {
				return true
			}
		case PS(f.FromNS) > fromPS || fromPS >= PS(f.ToNS):
		case f.BurstNS > 0:
			if m.inBurst(f, fromPS, by) {
				return true
			}
		default: // each transmission is a draw
			random := simkernel.MixKeys(m.seed, ^t.Key, uint64(fromPS), uint64(t.Link))
			if simkernel.Uniform(random) < f.Share {
				return true
			}
		}
	}
	return false
}

// inBurst reports whether a link is in a burst at a time. Each asker's times must not decrease.
func (m *State) inBurst(f *linkFault, atPS int64, by Asker) bool {
	b := &f.bursts[by]
	for b.drawn == 0 || b.untilPS <= atPS {
		u := simkernel.Uniform(simkernel.MixKeys(m.seed, uint64(f.FromNS), b.drawn, uint64(^f.Link)))
		b.drawn++
		if b.drawn == 1 {
			b.untilPS = PS(f.FromNS)
			b.loses = u >= f.Share // before the first time, which is a burst with this probability
			continue
		}
		meanPS := float64(PS(f.BurstNS))
		b.loses = !b.loses
		if !b.loses {
			meanPS *= (1 - f.Share) / f.Share
		}
		b.untilPS += 1 + int64(min(-math.Log(u)*meanPS, simkernel.HorizonPS))
	}
	return b.loses
}

// SendTime returns how long a link takes to send bytes, the last of which leaves at leftPS.
func (m *State) SendTime(link int32, bytes, leftPS int64) int64 {
	rates := m.rates[link]
	for i := len(rates) - 1; i >= 0; i-- {
		if rates[i].BandwidthBps == 0 {
			continue
		}
		ps := simkernel.NewWireTime(float64(rates[i].BandwidthBps)).PS(bytes)
		if PS(rates[i].FromNS) <= leftPS-ps {
			return ps
		}
	}
	return m.wires[link].PS(bytes)
}

// Avoids reports whether the ends of a link's cable know that the cable is down.
func (m *State) Avoids(link int32, atPS int64) bool {
	if m.RepairNS == 0 {
		return false
	}
	knowPS := atPS - PS(m.RepairNS)
	down := func(f linkFault) bool { return f.Share == 1 && PS(f.FromNS) <= knowPS && knowPS < PS(f.ToNS) }
	return slices.ContainsFunc(m.faults[link], down) || slices.ContainsFunc(m.faults[link^1], down)
}

// PS converts a time to ps. A time beyond the horizon becomes simkernel.Never.
func PS(ns int64) int64 {
	if ns >= simkernel.HorizonPS/simkernel.PSPerNS {
		return simkernel.Never
	}
	return ns * simkernel.PSPerNS
}
