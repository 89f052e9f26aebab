package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/simkernel/network"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

const (
	// By how much limited buffers raise a percentile, to first order, from which on there is a warning: halfway between an
	// error that does not matter (5%) and one that does (10%). Hits and false alarms: datasets/results/buffers.md.
	overflowRise = 0.075
)

// Overflow is what link cases, whose buffers have no end, say of flows in a network whose buffers do, to first order.
//
// The ports of a switch share its buffer: what one has room for follows from the queues of all in the same slot of
// linkcase.CrowdSlotNS. A flow is hit by drops at a hop if one of its packets waits for longer there than a slot of its
// time has room for. Its sender learns of a loss a round trip later, behind the full queue, and while the port turns
// away what is beyond, receivers of go-back-N may discard all that it sends: together, the flow ends by up to that wait
// and a round trip later. If its last packet is turned away no later one shows that: the flow waits for the timeout.
//
// With PFC nothing is lost, and flows that wait at the full port end when they did, for it is never idle. Hit are flows
// that cross a link to its switch in that slot and do not go there: for as long as it takes to send what is beyond,
// which waits in the switches before, and may be beyond there, too.
type Overflow struct {
	net        *topology.Network
	links      []overflowLink
	full       map[int32][]int32 // by switch: its links with full slots
	into       map[int32][]int32 // with PFC: by switch, the links from others
	params     *simkernel.Params
	buffer     network.BufferParams
	waits      Waits
	spanNS     float64 // of the workload
	hit, flows int64
	estimate   confidence.CaseSlowdowns // of all flows
	limited    confidence.CaseSlowdowns // with what they end later
}

type overflowLink struct {
	id       int32
	longestB int64
	roomB    float64     // while other ports of its switch are empty
	full     []queueSlot // ascending
}

// A queueSlot is a queue at a time, what there is room for, and how many bytes a ns it is served.
type queueSlot struct {
	link                     int32
	atNS, bytes, roomB, rate float64
}

type crowdedRow struct {
	Link    int32     `col:"link_id"`
	Longest int64     `col:"max_queue_bytes"`
	AtNS    []float64 `col:"crowded_at_ns"`
	Bytes   []float64 `col:"crowded_bytes"`
}

// overflowed describes a flow at full buffers and under pauses.
type overflowed struct {
	of   watchedRow
	hops []tables.ContributionRow
}

// Waits says which columns of table hop_contributions have the waits of packets.
type Waits uint8

const (
	// OwnColumns: wait_ns is the wait of the last packet, and longest_wait_ns the longest of all.
	OwnColumns Waits = iota
	// DelayAsWait: only delay_ns is known, and stands for both.
	DelayAsWait
)

// NewOverflow reads table link_stats of the last link cases. rooms are exact.Rooms.
func NewOverflow(m *step.Model, rooms []int64, loads *route.Loads, w Waits, stats schema.Batches) (*Overflow, error) {
	n := m.Network
	o := &Overflow{net: n, links: make([]overflowLink, len(n.Links)), full: map[int32][]int32{}, into: map[int32][]int32{},
		params: &m.Params, buffer: m.Buffers, waits: w, estimate: confidence.CaseSlowdowns{}, limited: confidence.CaseSlowdowns{},
		spanNS: float64(max(1, loads.LastStartNS-loads.FirstStartNS))}
	for id, l := range n.Links {
		o.links[id] = overflowLink{id: int32(id), roomB: float64(rooms[id])}
		if loads.Links[id].Flows > 0 && !n.FromHost(l.ID) {
			o.into[l.Dst] = append(o.into[l.Dst], l.ID)
		}
	}
	var queues []queueSlot
	err := columns.Each(stats, func(r *crowdedRow) error {
		if r.Link < 0 || int(r.Link) >= len(rooms) || len(r.AtNS) != len(r.Bytes) {
			return fmt.Errorf("link_stats: link %d, with %d queues at %d times, is not in the topology, which has %d links",
				r.Link, len(r.Bytes), len(r.AtNS), len(rooms))
		}
		o.links[r.Link].longestB = r.Longest
		for i, at := range r.AtNS {
			slot := int64(at) / linkcase.CrowdSlotNS * linkcase.CrowdSlotNS
			queues = append(queues, queueSlot{r.Link, float64(slot), r.Bytes[i], 0, float64(n.Links[r.Link].BandwidthBps) / 8e9})
		}
		return nil
	})
	slices.SortFunc(queues, func(a, b queueSlot) int {
		return cmp.Or(cmp.Compare(a.atNS, b.atNS), cmp.Compare(a.link, b.link), cmp.Compare(a.bytes, b.bytes))
	})
	slot := map[int32]queueSlot{}
	for i, q := range queues {
		slot[q.link] = q // cases count from their first flows: there may be two of a link, the longer last
		if i+1 < len(queues) && queues[i+1].atNS == q.atNS {
			continue
		}
		for _, q := range o.fill(slot) {
			if to := &o.links[q.link]; len(to.full) == 0 {
				o.full[n.Links[q.link].Src] = append(o.full[n.Links[q.link].Src], q.link)
			}
			o.links[q.link].full = append(o.links[q.link].full, q)
		}
		clear(slot)
	}
	return o, err
}

// pauseSwitches is over how many switches pauses are followed.
const pauseSwitches = 3

// fill returns which of the queues of a slot are full. With PFC, what is beyond at a switch waits in those before it.
func (o *Overflow) fill(queues map[int32]queueSlot) (full []queueSlot) {
	switchOf := func(q queueSlot) int32 { return o.net.Links[q.link].Src }
	all := maps.Clone(queues)
	for range pauseSwitches {
		full = full[:0]
		sorted := slices.SortedFunc(maps.Values(all), func(a, b queueSlot) int {
			return cmp.Or(cmp.Compare(switchOf(a), switchOf(b)), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.link, b.link))
		})
		for from, to := 0, 0; from < len(sorted); from = to {
			for to = from; to < len(sorted) && switchOf(sorted[to]) == switchOf(sorted[from]); to++ {
			}
			full = o.fillSwitch(full, sorted[from:to])
		}
		if !o.buffer.PFC {
			break
		}
		all = maps.Clone(queues)
		for _, q := range full {
			before := o.into[switchOf(q)]
			for _, id := range before {
				if x := all[id]; id != topology.Reverse(q.link) {
					bytes := x.bytes + (q.bytes-q.roomB)/float64(len(before))
					all[id] = queueSlot{id, q.atNS, bytes, 0, min(q.rate, cmp.Or(x.rate, q.rate))}
				}
			}
		}
	}
	return full
}

// fillSwitch appends which queues of a switch, the longest first, are full: each of k that are has alpha / (1 + k
// alpha) of what the others leave of the buffer (Choudhury and Hahne).
func (o *Overflow) fillSwitch(full, queues []queueSlot) []queueSlot {
	alpha := o.buffer.Alpha
	if o.buffer.XOFFBytes > 0 {
		alpha = 1e-9 // thresholds are what they are
	}
	for _, q := range queues {
		left := o.links[q.link].roomB * (1 + alpha) / alpha
		for _, x := range queues {
			left -= x.bytes
		}
		for k, x := range queues {
			if k > 0 && x.bytes <= q.roomB {
				break
			}
			left += x.bytes
			q.roomB = alpha * max(0, left) / (1 + float64(k+1)*alpha)
		}
		if q.bytes > q.roomB {
			full = append(full, q)
		}
	}
	return full
}

// mostFull is how many full slots of a port are looked at for a flow.
const mostFull = 256

// during returns the full slots of a link from one time to another.
func (q *overflowLink) during(fromNS, toNS float64) []queueSlot {
	at := func(ns float64) int {
		return sort.Search(len(q.full), func(i int) bool { return q.full[i].atNS >= ns })
	}
	from := at(fromNS - linkcase.CrowdSlotNS)
	return q.full[from:min(from+mostFull, max(from, at(toNS)))]
}

// dropped returns how much later a flow ends because of drops.
func (o *Overflow) dropped(f *overflowed) (laterNS float64) {
	start, end := float64(f.of.Start), float64(f.of.Start+f.of.FCT)
	timeoutNS, tripNS, lost := 0.0, 0.0, false
	for i := range f.hops {
		h := &f.hops[i]
		q, l := &o.links[h.LinkID], &o.net.Links[h.LinkID]
		longest, last, rate := float64(h.LongestNS), h.WaitNS, float64(l.BandwidthBps)/8e9
		if o.waits == DelayAsWait {
			longest, last = h.DelayNS, h.DelayNS
		}
		timeoutNS += 2 * q.roomB / rate // as network.timeoutPS
		tripNS += float64(2 * l.DelayNS)
		if h.Hop == 0 {
			continue
		}
		full := func(s queueSlot, waitNS float64) bool { return waitNS*rate > s.roomB }
		if slices.ContainsFunc(q.during(start, end), func(s queueSlot) bool { return full(s, longest) }) {
			laterNS = max(laterNS, longest)
		}
		ending := q.during(max(start, end-last-linkcase.CrowdSlotNS), end)
		lost = lost || slices.ContainsFunc(ending, func(s queueSlot) bool { return full(s, last) })
	}
	if lost {
		laterNS += cmp.Or(float64(o.buffer.RetransmitNS), timeoutNS)
	}
	if laterNS > 0 {
		laterNS += tripNS
	}
	return laterNS
}

// paused returns how much later a flow ends because links are paused for others.
func (o *Overflow) paused(f *overflowed) (laterNS float64) {
	slices.SortFunc(f.hops, func(a, b tables.ContributionRow) int { return cmp.Compare(a.Hop, b.Hop) })
	for i, h := range f.hops {
		l := &o.net.Links[h.LinkID]
		// Before a host is paused for a port to another, switches are, unless it may have more in flight than its link may
		// have in the switch.
		spared := o.net.FromHost(l.ID) && float64(o.params.NominalWindow()) <= o.links[l.ID].roomB
		for _, id := range o.full[l.Dst] {
			if id == topology.Reverse(l.ID) || i+1 < len(f.hops) && f.hops[i+1].LinkID == id ||
				spared && o.net.FromHost(topology.Reverse(id)) {
				continue
			}
			for _, s := range o.links[id].during(float64(f.of.Start), float64(f.of.Start+f.of.FCT)) {
				laterNS = max(laterNS, (s.bytes-s.roomB)/s.rate)
			}
		}
	}
	return laterNS
}

// add adds a flow whose hops have been added.
func (o *Overflow) add(f *overflowed) {
	later := o.dropped
	if o.buffer.PFC {
		later = o.paused
	}
	laterNS := later(f)
	if o.flows++; laterNS > 0 {
		o.hit++
	}
	o.estimate.Count(f.of.Size, f.of.Slowdown)
	o.limited.Count(f.of.Size, f.of.Slowdown*(1+laterNS/float64(f.of.FCT)))
}

// warnings returns a row for each port whose queue is longer than its buffer has room for, the longest crowded first,
// if that raises a percentile of the slowdowns of all flows.
func (o *Overflow) warnings(n *topology.Network) (out []Warning) {
	if o == nil {
		return nil
	}
	rise, quantile := 0.0, 0.0
	for _, p := range confidence.Quantiles {
		estimate, _ := o.estimate.Quantile(sizebin.Count, p)
		limited, _ := o.limited.Quantile(sizebin.Count, p)
		r := limited/estimate - 1
		if r > rise {
			rise = r
			quantile = p
		}
	}
	if rise < overflowRise {
		return nil
	}
	slices.SortStableFunc(o.links, func(a, b overflowLink) int { return cmp.Compare(len(b.full), len(a.full)) })
	for _, q := range o.links {
		if len(q.full) == 0 || float64(q.longestB) <= q.full[0].roomB { // by pauses alone
			continue
		}
		out = append(out, Warning{"buffers", rise, overflowRise, q.id, fmt.Sprintf(
			"the queue of %s (link %d) is longer than its switch's buffer has room for, at most %.0f bytes, in %d slots of %v in %v "+
				"(the longest has %d): drops and pauses are not in the estimate, concern %d of %d flows, and may raise p%g of all by "+
				"%.0f%%, or more; use --estimator exact", n.LinkName(q.id), q.id, q.roomB, len(q.full),
			time.Duration(linkcase.CrowdSlotNS), time.Duration(o.spanNS), q.longestB, o.hit, o.flows, 100*quantile, 100*rise)})
	}
	return out
}
