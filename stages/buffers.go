package stages

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
)

const (
	// By how much limited buffers raise a percentile, to first order, from which on there is a warning: halfway between an
	// error that does not matter (5%) and one that does (10%). Hits and false alarms: datasets/results/buffers.md.
	overflowRise = 0.075

	// What can be in flight on a cable, relative to what its port's buffer holds, from which on senders that go back may
	// not come to an end.
	goBackFlight = 1.0
)

// Overflow is what link cases, whose buffers have no end, say of flows in a network whose buffers do, to first order.
//
// A flow is hit by drops at a hop where one of its packets waits for longer than the buffer has room for, by x. While
// the port turns away what is beyond, receivers of go-back-N may discard all that it sends, so that the flow ends by up
// to x later. If its last packet is turned away no later one tells the receiver: it waits for the timeout, too.
//
// With PFC nothing is lost, and flows that wait at the full port end when they did, for it is never idle. Hit are flows
// that cross a link that is paused for it and do not go there. A flow meets a pause with the part of the time that the
// pauses and its own FCT have of the workload's, and at any place in the longest pause.
type Overflow struct {
	links      []overflowLink
	params     *simkernel.Params
	buffer     network.BufferParams
	estimator  Estimator
	spanNS     float64 // of the workload
	hit, flows int64
	estimate   CaseSlowdowns // of all flows
	limited    CaseSlowdowns // with what they end later
}

type overflowLink struct {
	Link      int32 `col:"link_id"`
	LongestB  int64 `col:"max_queue_bytes"`
	CrowdedNS int64 `col:"crowded_ns"`
	roomB     int64
	roomNS    float64
	pausedNS  float64 // with PFC: sum of its pauses
	pauseNS   float64 // the longest
}

// overflowed describes a flow at full buffers and under pauses.
type overflowed struct {
	of               watchedRow
	beyondNS, backNS float64      // x; the timeout
	lost             bool         // its last packet
	crowded          uint64       // by hop: whether the port is full
	pauses           [][2]float64 // that it meets: hop, and for how long
}

// NewOverflow reads table link_stats of the last link cases. rooms are Rooms.
func NewOverflow(n *topology.Network, p *simkernel.Params, b network.BufferParams, rooms []int64, loads *Loads,
	e Estimator, stats schema.Batches) (*Overflow, error) {
	o := &Overflow{links: make([]overflowLink, len(n.Links)), params: p, buffer: b, estimator: e,
		estimate: CaseSlowdowns{}, limited: CaseSlowdowns{}, spanNS: float64(max(1, loads.LastStartNS-loads.FirstStartNS))}
	err := columns.Each(stats, func(q *overflowLink) error {
		if q.Link < 0 || int(q.Link) >= len(rooms) {
			return fmt.Errorf("link_stats: link %d is not in the topology, which has %d links", q.Link, len(rooms))
		}
		o.links[q.Link] = *q
		return nil
	})
	into := map[int32][]int32{} // links that can be paused, by the switch that does it
	for id, l := range n.Links {
		q := &o.links[id]
		q.roomB, q.roomNS = rooms[id], float64(rooms[id])*8e9/float64(l.BandwidthBps)
		// A host is, if what it may have in flight is more than its link may have in the switch.
		if b.PFC && loads.Links[id].Flows > 0 && (!n.FromHost(l.ID) || p.NominalWindow() > q.roomB) {
			into[l.Dst] = append(into[l.Dst], l.ID)
		}
	}
	for id, l := range n.Links {
		q := &o.links[id]
		for _, up := range into[l.Src] {
			if u := &o.links[up]; q.CrowdedNS > 0 && up != topology.Reverse(l.ID) {
				u.pausedNS += float64(q.CrowdedNS)
				u.pauseNS = max(u.pauseNS, float64(q.LongestB-q.roomB)*8e9/float64(l.BandwidthBps))
			}
		}
	}
	return o, err
}

// addHop adds what a hop adds to a flow.
func (o *Overflow) addHop(f *overflowed, r *contributionRow) {
	q := &o.links[r.LinkID]
	f.backNS += 2 * q.roomNS // as network.timeoutPS
	if share := min(1, (q.pausedNS+float64(f.of.FCT))/o.spanNS); q.pausedNS > 0 {
		draw := rng.New(o.params.Seed, rng.Pauses, uint64(r.FlowRow), uint64(r.Hop))
		if at := draw.Float64() / share; at < 1 {
			f.pauses = append(f.pauses, [2]float64{float64(r.Hop), q.pauseNS * at})
		}
	}
	longest, last := float64(r.LongestNS), r.WaitNS
	if o.estimator == Independent {
		longest, last = r.DelayNS, r.DelayNS
	}
	if q.CrowdedNS > 0 {
		f.crowded |= 1 << uint16(r.Hop)
	}
	if r.Hop > 0 && !o.buffer.PFC {
		f.beyondNS = max(f.beyondNS, longest-q.roomNS)
		f.lost = f.lost || last > q.roomNS
	}
}

// add adds a flow whose hops have been added.
func (o *Overflow) add(f *overflowed) {
	later := f.beyondNS
	if f.lost {
		later += cmp.Or(float64(o.buffer.RetransmitNS), f.backNS)
	}
	for _, p := range f.pauses {
		if f.crowded>>uint16(p[0]+1)&1 == 0 { // it does not go there
			later = max(later, p[1])
		}
	}
	if o.flows++; later > 0 {
		o.hit++
	}
	o.estimate.count(f.of.Size, f.of.Slowdown)
	o.limited.count(f.of.Size, f.of.Slowdown*(1+later/float64(f.of.FCT)))
}

// warnings returns a row for each port whose queue is longer than its buffer has room for, the longest crowded first,
// if that raises a percentile of the slowdowns of all flows.
func (o *Overflow) warnings(n *topology.Network) (out []Warning) {
	if o == nil {
		return nil
	}
	rise, quantile := 0.0, 0.0
	for _, p := range intervalQuantiles {
		estimate, _ := o.estimate.quantile(sizebin.Count, p)
		limited, _ := o.limited.quantile(sizebin.Count, p)
		if r := cells.Slowdown(limited, 0.5)/cells.Slowdown(estimate, 0.5) - 1; r > rise {
			rise, quantile = r, p
		}
	}
	if rise < overflowRise {
		return nil
	}
	slices.SortStableFunc(o.links, func(a, b overflowLink) int { return cmp.Compare(b.CrowdedNS, a.CrowdedNS) })
	for _, q := range o.links {
		if q.CrowdedNS == 0 {
			break
		}
		out = append(out, Warning{"buffers", rise, overflowRise, q.Link, fmt.Sprintf(
			"the queue of %s (link %d) is longer than the %d bytes that its switch's buffer has room for there for %v in %v (the "+
				"longest has %d): drops and pauses are not in the estimate, concern %d of %d flows, and may raise p%g of all by %.0f%% "+
				"or more; use --estimator exact", n.LinkName(q.Link), q.Link, q.roomB, time.Duration(q.CrowdedNS),
			time.Duration(o.spanNS), q.LongestB, o.hit, o.flows, 100*quantile, 100*rise)})
	}
	return out
}

// HeadroomWarnings returns a row if buffers of switches do not hold the headroom of PFC: that of the worst.
func HeadroomWarnings(n *topology.Network, p simkernel.Params, b network.BufferParams,
	classes []TrafficClass) []Warning {
	if !b.PFC {
		return nil
	}
	links, hosts := engineTopology(n)
	engine, err := network.New(p, b, links, hosts, nil)
	if err == nil {
		_, err = classify(engine, classes)
	}
	if err != nil || len(engine.Shortfalls()) == 0 { // the simulation reports the error
		return nil
	}
	all := engine.Shortfalls()
	worst := slices.MinFunc(all, func(a, b network.Shortfall) int { return cmp.Compare(a.Share, b.Share) })
	return []Warning{{"buffers", worst.Share, 1, -1, fmt.Sprintf(
		"PFC is not lossless: a buffer of %d bytes has %.0f%% of the headroom that %s needs, which drops nothing with %d bytes; "+
			"it is too small for %s", b.SwitchBytes, 100*worst.Share, n.Name(n.Nodes[worst.Node].ID), worst.LeastSafe,
		topology.Count(len(all), "switch"))}}
}

// GoBackWarnings returns a row for each port of a switch with a limited buffer that holds less than what can be in
// flight on its cable, where senders send all of that again after a loss and do not slow down, the worst first.
func GoBackWarnings(n *topology.Network, p *simkernel.Params, b network.BufferParams, loads *Loads) (out []Warning) {
	if b.IsZero() || b.PFC || b.Selective || p.Transport.Traits().AckClocked {
		return nil
	}
	_, fastest := n.HostBps()
	for id := range n.Links {
		l := &n.Links[id]
		flight := 2 * float64(l.DelayNS) * float64(min(fastest, l.BandwidthBps)) / 8e9
		if p.WANWindowBytes != simkernel.AutoWindow {
			flight = min(flight, float64(max(p.WindowBytes, p.WANWindowBytes)))
		}
		room := b.Alpha/(1+b.Alpha)*float64(b.SwitchBytes) + float64(b.ReservedBytes)
		share := flight / room
		if share < goBackFlight || loads.Links[id].Flows == 0 || n.FromHost(l.ID) {
			continue
		}
		out = append(out, Warning{"buffers", share, goBackFlight, l.ID, fmt.Sprintf(
			"%.0f bytes can be in flight on %s (link %d, %d ns), and its switch's buffer of %d holds %.0f there: senders of %s go "+
				"back after a loss and send all of that again, which may come to no end; use --transport cubic or newreno, or "+
				"--selective-recovery", flight, n.LinkName(l.ID), l.ID, l.DelayNS, b.SwitchBytes, room, p.Transport)})
	}
	slices.SortStableFunc(out, func(a, b Warning) int { return cmp.Compare(b.Measure, a.Measure) })
	return out
}
