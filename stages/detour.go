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

// Detours are the flows that failures move, each a set of cables that are down, one failure at a time. ECMP is
// consistent: only the flows that cross such a cable move.
type Detours struct {
	net      *topology.Network
	params   *simkernel.Params
	base     *topology.Router
	ablation []*topology.Router // by failure: of the network without its cables
	fails    [][]int32          // by link: the failures that take it down

	flows  []detour // by flow row and cable
	links  []int32  // their new paths
	moves  []move   // by link, failure and flow row
	linkAt []int32  // by link, and one more: its moves
}

// A detour is a flow that a failure moves.
type detour struct {
	row, id, size, start int64
	pathDelay, pathSend  int64
	ideal                int64 // ideal FCT on the new path
	path, hops           int32 // the new path, in Detours.links; no hops: no path is left
	failure              int32
}

// A move is a flow that comes to a link, or leaves it, by a failure.
type move struct {
	link, failure, flow int32 // flow: place in Detours.flows
	hop                 int16 // of the new path; leaves: the flow is no longer there
}

const leaves = -1

// NewDetours prepares for failures, each of those cables, by their ends. base is the router of the network as it
// is.
func NewDetours(n *topology.Network, p *simkernel.Params, base *topology.Router, seed uint64, failures [][][2]int32) (*Detours, error) {
	d := &Detours{net: n, params: p, base: base, fails: make([][]int32, len(n.Links))}
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
				d.fails[i] = append(d.fails[i], int32(failure))
			}
		}
		r, err := topology.NewRouter(&failing, seed)
		if err != nil {
			return nil, err
		}
		d.ablation = append(d.ablation, r)
	}
	return d, nil
}

// A DetourChunk is what Route finds in one chunk of the workload.
type DetourChunk struct {
	flows []detour
	links []int32
	moves []move
}

// Route finds the detours of one chunk of table flows, whose first row is firstRow. Several goroutines may
// route chunks at the same time.
func (d *Detours) Route(ctx context.Context, firstRow int64, in schema.Batches) (*DetourChunk, error) {
	c := new(DetourChunk)
	var path, other, failed []int32
	var ideal simkernel.IdealPath
	row := firstRow
	err := columns.ForEach(in, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		ids, sizes, starts := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		srcs, dsts := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		for i, id := range ids {
			var err error
			if path, err = d.base.Path(id, srcs[i], dsts[i], path); err != nil && !isUnreachable(err) {
				return err
			}
			failed = failed[:0]
			for _, l := range path {
				for _, failure := range d.fails[l] {
					if slices.Contains(failed, failure) {
						continue
					}
					failed = append(failed, failure)
					if other, err = d.ablation[failure].Path(id, srcs[i], dsts[i], other); err != nil && !isUnreachable(err) {
						return err
					}
					c.add(d, detour{row: row, id: id, size: sizes[i], start: starts[i], failure: failure}, path, other, &ideal)
				}
			}
			row++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	if len(c.moves) > math.MaxInt32 || len(c.links) > math.MaxInt32 {
		return nil, errors.New("route: more than 2^31 moves: look at fewer failures at a time")
	}
	return c, nil
}

func isUnreachable(err error) bool {
	var no *topology.UnreachableError
	return errors.As(err, &no)
}

// add takes up that f moves from one path to another.
func (c *DetourChunk) add(d *Detours, f detour, from, to []int32, ideal *simkernel.IdealPath) {
	at := int32(len(c.flows))
	f.path, f.hops = int32(len(c.links)), int32(len(to))
	c.links = append(c.links, to...)
	ideal.Reset(d.params)
	for k, l := range to {
		link := &d.net.Links[l]
		f.pathDelay += link.DelayNS
		f.pathSend += d.params.SendNS(d.params.PayloadBytes+d.params.HeaderBytes, link.BandwidthBps) +
			d.params.SendNS(d.params.AckBytes, d.net.Links[topology.Reverse(l)].BandwidthBps)
		ideal.Add(link.BandwidthBps, link.DelayNS)
		if !slices.Contains(from, l) {
			c.moves = append(c.moves, move{l, f.failure, at, int16(k)})
		}
	}
	if len(to) > 0 {
		f.ideal = ideal.FCTNS(f.size)
	}
	for _, l := range from {
		if !slices.Contains(to, l) {
			c.moves = append(c.moves, move{l, f.failure, at, leaves})
		}
	}
	c.flows = append(c.flows, f)
}

// Gather takes up the chunks of the whole workload, in order.
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
	d.linkAt = make([]int32, len(d.net.Links)+1)
	for _, m := range d.moves {
		d.linkAt[m.link+1]++
	}
	for l := range d.net.Links {
		d.linkAt[l+1] += d.linkAt[l]
	}
}

// Changed says whether any of the failures changes which flows cross a link.
func (d *Detours) Changed(link int32) bool { return d.linkAt[link] < d.linkAt[link+1] }

// Lost counts the flows that each failure leaves without a path.
func (d *Detours) Lost() []int64 {
	lost := make([]int64, len(d.ablation))
	for i := range d.flows {
		if d.flows[i].hops == 0 {
			lost[d.flows[i].failure]++
		}
	}
	return lost
}

// movesOf are those of one link and failure.
func (d *Detours) movesOf(link, failure int32) []move {
	all := d.moves[d.linkAt[link]:d.linkAt[link+1]]
	from, _ := slices.BinarySearchFunc(all, failure, func(m move, f int32) int { return cmp.Compare(m.failure, f) })
	to := from
	for to < len(all) && all[to].failure == failure {
		to++
	}
	return all[from:to]
}

// loadAfter is what a link carries after a failure. The time its flows span is taken to be what it
// was, but for those that come.
func (d *Detours) loadAfter(link, failure int32, was LinkLoad) LinkLoad {
	for _, m := range d.movesOf(link, failure) {
		f := &d.flows[m.flow]
		sign := int64(1)
		if m.hop == leaves {
			sign = -1
		} else if was.Flows == 0 {
			was.FirstStartNS, was.LastStartNS = f.start, f.start
		} else {
			was.FirstStartNS, was.LastStartNS = min(was.FirstStartNS, f.start), max(was.LastStartNS, f.start)
		}
		was.Flows += sign
		was.Bytes += sign * f.size
		was.Packets += sign * d.params.Packets(f.size)
	}
	return was
}
