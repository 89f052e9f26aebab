package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Detours are the flows that change their paths under each of several failures. A failure is a set of cables
// that are down; failures are looked at one at a time. ECMP is consistent, so only flows that cross a failed
// cable change their paths.
//
//	Route, chunk by chunk → Gather → Simulator.Differences, link by link → Detours.Differences
type Detours struct {
	net     *topology.Network
	params  *simkernel.Params
	base    *topology.Router
	failed  []*topology.Router // by failure: router of the network without the cables
	failsOf [][]int32          // by link id: the failures that include its cable

	flows  []detour // by flow row and failure
	links  []int32  // their new paths
	moves  []move   // by link, failure and flow
	moveAt []int32  // by link id: its first place in moves; one more at the end
}

// detour is a flow that changes its path under a failure.
type detour struct {
	row, id, size, start int64
	pathDelay, pathSend  int64
	ideal                int64 // ideal FCT on the new path
	path, hops           int32 // the new path: place in Detours.links, and length; 0: unreachable
	failure              int32
}

// move is a flow that crosses a link only with a failure, or only without.
type move struct {
	link, failure, flow int32 // flow: place in Detours.flows
	hop                 int16 // on the new path; leaves: the new path does not cross the link
}

const leaves = -1

// NewDetours returns the detours under the given failures, each a list of cables by their two nodes. base is the
// router of the network without failures, whose seed is given too. A cable that the network does not have is an
// error.
func NewDetours(n *topology.Network, p *simkernel.Params, base *topology.Router, seed uint64,
	failures [][][2]int32) (*Detours, error) {
	d := &Detours{net: n, params: p, base: base, failsOf: make([][]int32, len(n.Links))}
	failing := *n
	for failure, cables := range failures {
		failing.Links = slices.Clone(n.Links)
		for _, ends := range cables {
			if err := failing.Fail(ends[0], ends[1]); err != nil {
				return nil, err
			}
		}
		for i := range n.Links {
			if failing.Links[i].Failed != n.Links[i].Failed {
				d.failsOf[i] = append(d.failsOf[i], int32(failure))
			}
		}
		r, err := topology.NewRouter(&failing, seed)
		if err != nil {
			return nil, err
		}
		d.failed = append(d.failed, r)
	}
	return d, nil
}

// DetourChunk is the result of Route for one chunk of the workload.
type DetourChunk struct {
	flows []detour
	links []int32
	moves []move

	path, detoured []int32 // of the current flow: without failures and with the current failure
	failures       []int32 // that affect the current flow
	ideal          simkernel.IdealPath
}

// Route finds the detours of one chunk of table flows, whose first row is firstRow. It may be called by several
// goroutines at a time.
func (d *Detours) Route(ctx context.Context, firstRow int64, in schema.Batches) (*DetourChunk, error) {
	c := new(DetourChunk)
	row := firstRow
	err := columns.ForEach(in, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.addBatch(d, row, rec)
		row += rec.NumRows()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	if len(c.moves) > math.MaxInt32 || len(c.links) > math.MaxInt32 {
		return nil, errors.New("route: more than 2^31 changes of paths: use fewer failures at a time")
	}
	return c, nil
}

// addBatch routes a batch of flows, whose first is row firstRow, without failures and with each failure that
// affects its path.
func (c *DetourChunk) addBatch(d *Detours, firstRow int64, rec arrow.Record) error {
	ids, sizes, starts := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes"),
		columns.Int64s(rec, "start_ns")
	srcs, dsts := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
	for i, id := range ids {
		var err error
		if c.path, err = d.base.Path(id, srcs[i], dsts[i], c.path); err != nil && !isUnreachable(err) {
			return err
		}
		c.failures = c.failures[:0]
		for _, l := range c.path {
			for _, failure := range d.failsOf[l] {
				if slices.Contains(c.failures, failure) {
					continue
				}
				c.failures = append(c.failures, failure)
				c.detoured, err = d.failed[failure].Path(id, srcs[i], dsts[i], c.detoured)
				if err != nil && !isUnreachable(err) {
					return err
				}
				c.add(d, detour{row: firstRow + int64(i), id: id, size: sizes[i], start: starts[i], failure: failure})
			}
		}
	}
	return nil
}

func isUnreachable(err error) bool {
	var unreachable *topology.UnreachableError
	return errors.As(err, &unreachable)
}

// add adds a flow that changes its path from c.path to c.detoured.
func (c *DetourChunk) add(d *Detours, f detour) {
	at := int32(len(c.flows))
	f.path, f.hops = int32(len(c.links)), int32(len(c.detoured))
	c.links = append(c.links, c.detoured...)
	c.ideal.Reset(d.params)
	for hop, l := range c.detoured {
		link := &d.net.Links[l]
		f.pathDelay += link.DelayNS
		f.pathSend += sendAndAckNS(d.params, d.net, *link)
		c.ideal.Add(link.BandwidthBps, link.DelayNS)
		if !slices.Contains(c.path, l) {
			c.moves = append(c.moves, move{l, f.failure, at, int16(hop)})
		}
	}
	if len(c.detoured) > 0 {
		f.ideal = c.ideal.FCTNS(f.size)
	}
	for _, l := range c.path {
		if !slices.Contains(c.detoured, l) {
			c.moves = append(c.moves, move{l, f.failure, at, leaves})
		}
	}
	c.flows = append(c.flows, f)
}

// Gather adds the chunks of the whole workload, in order.
func (d *Detours) Gather(chunks []*DetourChunk) {
	for _, c := range chunks {
		flows, links := int32(len(d.flows)), int32(len(d.links))
		for _, f := range c.flows {
			f.path += links
			d.flows = append(d.flows, f)
		}
		for _, m := range c.moves {
			m.flow += flows
			d.moves = append(d.moves, m)
		}
		d.links = append(d.links, c.links...)
	}
	slices.SortFunc(d.moves, func(a, b move) int {
		return cmp.Or(cmp.Compare(a.link, b.link), cmp.Compare(a.failure, b.failure), cmp.Compare(a.flow, b.flow))
	})
	d.moveAt = make([]int32, len(d.net.Links)+1)
	for _, m := range d.moves {
		d.moveAt[m.link+1]++
	}
	for l := range d.net.Links {
		d.moveAt[l+1] += d.moveAt[l]
	}
}

// Changed reports whether a failure changes which flows cross a link.
func (d *Detours) Changed(link int32) bool { return d.moveAt[link] < d.moveAt[link+1] }

// Lost returns, by failure, the number of flows that it leaves without a path.
func (d *Detours) Lost() []int64 {
	lost := make([]int64, len(d.failed))
	for i := range d.flows {
		if d.flows[i].hops == 0 {
			lost[d.flows[i].failure]++
		}
	}
	return lost
}

// movesOf returns the moves of one link and failure, by flow.
func (d *Detours) movesOf(link, failure int32) []move {
	all := d.moves[d.moveAt[link]:d.moveAt[link+1]]
	from, _ := slices.BinarySearchFunc(all, failure, func(m move, f int32) int { return cmp.Compare(m.failure, f) })
	to := from
	for to < len(all) && all[to].failure == failure {
		to++
	}
	return all[from:to]
}

// availableAfter returns the available bandwidth of a link under a failure, given the loads without. The part of its
// time in which the reverse link sends changes as what that carries.
func (d *Detours) availableAfter(link topology.Link, failure int32, loads *Loads) int64 {
	reverse := topology.Reverse(link.ID)
	was := loads.Links[reverse]
	is := d.loadAfter(reverse, failure, was)
	busyNS, bothBusy := is.busyNS(link.BandwidthBps, d.params), 0.0
	if was.Flows > 0 {
		bothBusy = loads.bothBusy(d.params, link) * busyNS / was.busyNS(link.BandwidthBps, d.params)
	}
	if was.Flows == 0 || loads.Links[link.ID].Flows == 0 { // nothing is known of both
		bothBusy = busyNS / max(1, float64(loads.LastStartNS-loads.FirstStartNS))
	}
	return availableBps(link.BandwidthBps, is, min(1, bothBusy), d.params)
}

// loadAfter returns what a link carries under a failure, given what it carries without. The time from the first
// start to the last is not shortened by flows that leave.
func (d *Detours) loadAfter(link, failure int32, load LinkLoad) LinkLoad {
	for _, m := range d.movesOf(link, failure) {
		f := &d.flows[m.flow]
		sign := int64(1)
		if m.hop == leaves {
			sign = -1
		} else if load.Flows == 0 {
			load.FirstStartNS, load.LastStartNS = f.start, f.start
		} else {
			load.FirstStartNS, load.LastStartNS = min(load.FirstStartNS, f.start), max(load.LastStartNS, f.start)
		}
		load.Flows += sign
		load.Bytes += sign * f.size
		load.Packets += sign * d.params.Packets(f.size)
	}
	return load
}
