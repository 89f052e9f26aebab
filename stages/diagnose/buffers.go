package diagnose

import (
	"cmp"
	"errors"
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
	// The smallest rise of a percentile by limited buffers, to first order, that causes a warning. It lies
	// halfway between an error that does not matter (5%) and one that does (10%). Hits and false alarms:
	// datasets/results/buffers.md.
	overflowRise = 0.075
)

// Overflow estimates, to first order, how the limited buffers of a network affect its flows. Link cases do
// not show this, because their buffers are unlimited.
//
// The ports of a switch share its buffer. The space of a port depends on the queues of all ports in the same
// slot of linkcase.CrowdSlotNS. Drops affect a flow at a hop if one of its packets waits longer there than
// the space allows in one of the slots of its lifetime. The sender detects a loss one round trip later,
// behind the full queue. Until then the port drops packets, and receivers of go-back-N may discard everything
// that the flow sends. Together these delay the flow by up to that wait and one round trip. If the last
// packet is dropped, no later packet reveals the loss, and the flow waits for the timeout.
//
// With PFC nothing is lost. Flows that wait at the full port finish when they would have finished anyway,
// because the port is never idle. PFC delays flows that cross a link to the port's switch in that slot and
// leave the switch by another port. The delay is the time that it takes to send the bytes that exceed the
// space. These bytes wait in the upstream switches, whose space they may exceed, too.
type Overflow struct {
	net        *topology.Network
	links      []overflowLink
	full       map[int32][]int32 // by switch: its output links with full slots
	into       map[int32][]int32 // with PFC, by switch: its links from other switches
	params     *simkernel.Params
	buffer     network.BufferParams
	waits      Waits
	spanNS     float64 // of the workload
	hit, flows int64
	estimate   confidence.CaseSlowdowns // of all flows
	limited    confidence.CaseSlowdowns // of all flows, with the delays by limited buffers
}

type overflowLink struct {
	id       int32
	longestB int64
	roomB    float64     // while the other ports of its switch are empty
	full     []queueSlot // in ascending order of time
}

// A queueSlot is the queue of a link in a slot, with the space for it in bytes and its rate in bytes per ns.
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

// An overflowed is a flow that may be affected by full buffers and pauses.
type overflowed struct {
	of   watchedRow
	hops []tables.ContributionRow // of all hops of its path
}

// Waits says which columns of table hop_contributions have the waits of packets.
type Waits uint8

const (
	// OwnColumns means that wait_ns has the wait of the last packet, and longest_wait_ns the longest wait of all
	// packets.
	OwnColumns Waits = iota
	// DelayAsWait means that only delay_ns is known, and is used for both.
	DelayAsWait
)

// NewOverflow reads table link_stats of the last link cases. rooms is the result of exact.Rooms.
func NewOverflow(m *step.Model, rooms []int64, loads *route.Loads, w Waits, stats schema.Batches) (*Overflow,
	error) {
	n := m.Network
	o := &Overflow{
		net: n, links: make([]overflowLink, len(n.Links)), full: map[int32][]int32{}, into: map[int32][]int32{},
		params: &m.Params, buffer: m.Buffers, waits: w,
		estimate: confidence.CaseSlowdowns{}, limited: confidence.CaseSlowdowns{},
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
			return fmt.Errorf("link_stats: link %d, with %d queues at %d times, is not in the topology, which has %d "+
				"links",
				r.Link, len(r.Bytes), len(r.AtNS), len(rooms))
		}
		o.links[r.Link].longestB = r.Longest
		for i, at := range r.AtNS {
			slot := int64(at) / linkcase.CrowdSlotNS * linkcase.CrowdSlotNS
			queues = append(queues, queueSlot{r.Link, float64(slot), r.Bytes[i], 0,
				float64(n.Links[r.Link].BandwidthBps) / 8e9})
		}
		return nil
	})
	slices.SortFunc(queues, func(a, b queueSlot) int {
		return cmp.Or(cmp.Compare(a.atNS, b.atNS), cmp.Compare(a.link, b.link), cmp.Compare(a.bytes, b.bytes))
	})
	slot := map[int32]queueSlot{}
	for i, q := range queues {
		// Cases count slots from their first flows, so a link may have two queues in a slot. The longer one
		// is last.
		slot[q.link] = q
		if i+1 < len(queues) && queues[i+1].atNS == q.atNS {
			continue
		}
		for _, q := range o.fill(slot) {
			to := &o.links[q.link]
			if len(to.full) == 0 {
				o.full[n.Links[q.link].Src] = append(o.full[n.Links[q.link].Src], q.link)
			}
			o.links[q.link].full = append(o.links[q.link].full, q)
		}
		clear(slot)
	}
	return o, err
}

// pauseSwitches is the number of switches that pauses are followed across.
const pauseSwitches = 3

// fill returns the queues of a slot that are full. With PFC, the excess at a switch waits in the switches
// before it.
func (o *Overflow) fill(queues map[int32]queueSlot) (full []queueSlot) {
	switchOf := func(q queueSlot) int32 { return o.net.Links[q.link].Src }
	all := maps.Clone(queues)
	for range pauseSwitches {
		full = full[:0]
		sorted := slices.SortedFunc(maps.Values(all), func(a, b queueSlot) int {
			return cmp.Or(cmp.Compare(switchOf(a), switchOf(b)), cmp.Compare(b.bytes, a.bytes),
				cmp.Compare(a.link, b.link))
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
				x := all[id]
				if id != topology.Reverse(q.link) {
					bytes := x.bytes + (q.bytes-q.roomB)/float64(len(before))
					all[id] = queueSlot{id, q.atNS, bytes, 0, min(q.rate, cmp.Or(x.rate, q.rate))}
				}
			}
		}
	}
	return full
}

// fillSwitch appends the queues of a switch that are full. queues has the longest first. Each of k full
// queues gets alpha / (1 + k alpha) of the space that the other queues leave (Choudhury and Hahne).
func (o *Overflow) fillSwitch(full, queues []queueSlot) []queueSlot {
	alpha := o.buffer.Alpha
	if o.buffer.XOFFBytes > 0 {
		alpha = 1e-9 // thresholds are fixed
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

// mostFull is the largest number of full slots of a port that are examined for a flow.
const mostFull = 256

// during returns the full slots of a link between two times.
func (q *overflowLink) during(fromNS, toNS float64) []queueSlot {
	at := func(ns float64) int {
		return sort.Search(len(q.full), func(i int) bool { return q.full[i].atNS >= ns })
	}
	from := at(fromNS - linkcase.CrowdSlotNS)
	return q.full[from:min(from+mostFull, max(from, at(toNS)))]
}

// dropped returns how much later a flow finishes because of drops, in ns.
func (o *Overflow) dropped(f *overflowed) (laterNS float64) {
	start := float64(f.of.Start)
	end := float64(f.of.Start + f.of.FCT)
	timeoutNS := 0.0
	tripNS := 0.0
	lost := false
	for i := range f.hops {
		h := &f.hops[i]
		q := &o.links[h.LinkID]
		l := &o.net.Links[h.LinkID]
		longest := float64(h.LongestNS)
		last := h.WaitNS
		rate := float64(l.BandwidthBps) / 8e9
		if o.waits == DelayAsWait {
			longest = h.DelayNS
			last = h.DelayNS
		}
		timeoutNS += 2 * q.roomB / rate // as in network.timeoutPS
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

// readHops reads the hops of the watched flows, for limited buffers, and what they contribute.
func (w *TailWatch) readHops(hops, contributions schema.Batches) error {
	type crossed struct {
		FlowRow int64 `col:"flow_row"`
		Hop     int16 `col:"hop"`
		LinkID  int32 `col:"link_id"`
	}
	err := columns.Each(hops, func(h *crossed) error {
		f, err := w.flowOf(schema.Hops, h.FlowRow, h.LinkID)
		if f != nil {
			at := tables.Contribution{FlowRow: h.FlowRow, Hop: h.Hop, LinkID: h.LinkID}
			f.hit.hops = append(f.hit.hops, tables.ContributionRow{Contribution: at})
		}
		return err
	})
	if err != nil {
		return errors.Join(err, contributions.Close())
	}
	return columns.Each(contributions, func(r *tables.ContributionRow) error {
		f, err := w.addHop(&watchedHop{r.FlowRow, r.Hop, r.LinkID, r.DelayNS})
		if f == nil {
			return err
		}
		at := slices.IndexFunc(f.hit.hops, func(h tables.ContributionRow) bool { return h.Hop == r.Hop })
		if at < 0 {
			return fmt.Errorf("hop_contributions: flow row %d has hop %d, which is not in table hops", r.FlowRow,
				r.Hop)
		}
		f.hit.hops[at] = *r
		return nil
	})
}

// paused returns how much later a flow finishes because links are paused for other flows, in ns.
func (o *Overflow) paused(f *overflowed) (laterNS float64) {
	for i, h := range f.hops {
		l := &o.net.Links[h.LinkID]
		// PFC pauses switches before it pauses a host for a port to another host. The exception is a host
		// that may have more bytes in flight than its link has space for in the switch.
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
	slices.SortFunc(f.hops, func(a, b tables.ContributionRow) int { return cmp.Compare(a.Hop, b.Hop) })
	later := o.dropped
	if o.buffer.PFC {
		later = o.paused
	}
	laterNS := later(f)
	o.flows++
	if laterNS > 0 {
		o.hit++
	}
	o.estimate.Count(f.of.Size, f.of.Slowdown)
	o.limited.Count(f.of.Size, f.of.Slowdown*(1+laterNS/float64(f.of.FCT)))
}

// warnings returns a warning for each port whose queue is longer than its buffer space, if this raises a
// percentile of the slowdowns of all flows. The port that is crowded for the longest time is first.
func (o *Overflow) warnings(n *topology.Network) (out []Warning) {
	if o == nil {
		return nil
	}
	rise := 0.0
	quantile := 0.0
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
		if len(q.full) == 0 || float64(q.longestB) <= q.full[0].roomB { // full by pauses alone
			continue
		}
		out = append(out, Warning{"buffers", rise, overflowRise, q.id, fmt.Sprintf(
			"the queue of %s (link %d) is longer than its switch's buffer has room for, at most %.0f bytes, in %d "+
				"slots of %v in %v (the longest has %d): drops and pauses are not in the estimate, concern %d of %d "+
				"flows, and may raise p%g of all by %.0f%%, or more; use --estimator exact", n.LinkName(q.id), q.id,
			q.roomB, len(q.full),
			time.Duration(linkcase.CrowdSlotNS), time.Duration(o.spanNS), q.longestB, o.hit, o.flows, 100*quantile,
			100*rise)})
	}
	return out
}
