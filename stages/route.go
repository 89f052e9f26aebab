package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/simkernel"
)

// RouteOptions change how Route treats flows without a path.
type RouteOptions struct {
	// AllowUnreachable counts flows between hosts that no path joins instead of refusing them.
	AllowUnreachable bool
}

// RouteStats counts what Route did.
type RouteStats struct {
	Flows       int64 // with a path or not
	Hops        int64 // rows of table hops
	PacketHops  int64 // packets × links crossed: what the link cases will cost
	Unreachable int64 // flows without a path; they have no hops
	// UnreachableExamples are the first few flows without a path.
	UnreachableExamples []*UnreachableError
}

// unreachableExamples is how many flows without a path are kept by name.
const unreachableExamples = 10

// Add sums the counts of two chunks; chunks are added in order.
func (s *RouteStats) Add(t RouteStats) {
	s.Flows += t.Flows
	s.Hops += t.Hops
	s.PacketHops += t.PacketHops
	s.Unreachable += t.Unreachable
	room := max(0, unreachableExamples-len(s.UnreachableExamples))
	s.UnreachableExamples = append(s.UnreachableExamples, t.UnreachableExamples[:min(room, len(t.UnreachableExamples))]...)
}

// Route picks the paths of one chunk of the workload: the flows of in (batches of table flows),
// which are rows firstRow and on of that table. It writes their hops to hops (table hops), sorted
// by link and flow, and to loads what every link with a flow carries of this chunk (table
// link_loads), sorted by link.
//
// It holds the chunk in memory: about 60 bytes a flow and 24 a hop. A source or destination that is
// no host, or is the same, and a size below 1 are errors naming the flow, as is a pair of hosts that
// no path joins unless opt allows it. Nothing is written before the whole chunk has its paths.
func Route(ctx context.Context, r *Router, p *simkernel.Params, in schema.Batches, chunk int32, firstRow int64, hops, loads schema.Sink, opt RouteOptions) (RouteStats, error) {
	c := chunkPool.Get().(*routeChunk)
	defer chunkPool.Put(c)
	c.reset()
	var stats RouteStats
	err := forEach(in, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.add(r, p, rec, opt, &stats)
	})
	if err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	c.sortByLink(len(r.net.Links))
	if err := c.writeHops(ctx, r.net, firstRow, hops); err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	if err := c.writeLoads(p, chunk, loads); err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	return stats, nil
}

// chunkPool keeps chunks' memory from one chunk to the next.
var chunkPool = sync.Pool{New: func() any { return new(routeChunk) }}

// A routeChunk holds a chunk's flows and hops as columns, hops flow by flow.
type routeChunk struct {
	id, size, start []int64 // by flow
	pathAt          []int32 // by flow, and one more: its hops are pathAt[i] to pathAt[i+1]
	link            []int32 // by hop
	flow            []int32 // by hop
	delayToNS       []int64 // by hop: propagation before the link
	pathDelayNS     []int64 // by flow
	linkAt          []int32 // by link, and one more: its hops are linkAt[l] to linkAt[l+1] of byLink
	byLink          []int32 // hops sorted by link and flow

	out hopRows
}

func (c *routeChunk) reset() {
	c.id, c.size, c.start, c.pathDelayNS = c.id[:0], c.size[:0], c.start[:0], c.pathDelayNS[:0]
	c.pathAt = append(c.pathAt[:0], 0)
	c.link, c.flow, c.delayToNS = c.link[:0], c.flow[:0], c.delayToNS[:0]
}

// add picks the paths of a batch of flows.
func (c *routeChunk) add(r *Router, p *simkernel.Params, rec arrow.Record, opt RouteOptions, stats *RouteStats) error {
	ids, sizes, starts := int64s(rec, "flow_id"), int64s(rec, "size_bytes"), int64s(rec, "start_ns")
	srcs, dsts := int32s(rec, "src"), int32s(rec, "dst")
	links := r.net.Links
	for i, id := range ids {
		if sizes[i] < 1 {
			return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", id, sizes[i])
		}
		from := len(c.link)
		path, err := r.appendPath(id, srcs[i], dsts[i], c.link)
		c.link = path
		if err != nil {
			var no *UnreachableError
			if !opt.AllowUnreachable || !errors.As(err, &no) {
				return err
			}
			stats.Unreachable++
			if len(stats.UnreachableExamples) < unreachableExamples {
				stats.UnreachableExamples = append(stats.UnreachableExamples, no)
			}
		}
		if len(path) > math.MaxInt32 || len(c.id) == math.MaxInt32 {
			return errors.New("a chunk has more than 2^31 hops; route smaller chunks")
		}
		flow := int32(len(c.id))
		delay := int64(0)
		for _, l := range path[from:] {
			c.flow = append(c.flow, flow)
			c.delayToNS = append(c.delayToNS, delay)
			delay += links[l].DelayNS
		}
		c.id = append(c.id, id)
		c.size = append(c.size, sizes[i])
		c.start = append(c.start, starts[i])
		c.pathDelayNS = append(c.pathDelayNS, delay)
		c.pathAt = append(c.pathAt, int32(len(path)))
		stats.Flows++
		stats.Hops += int64(len(path) - from)
		stats.PacketHops += int64(len(path)-from) * p.Packets(sizes[i])
	}
	return nil
}

// sortByLink is a counting sort of the hops by link. It is stable, so each link's hops stay in the
// order of their flows.
func (c *routeChunk) sortByLink(links int) {
	c.linkAt = resize(c.linkAt, links+1)
	clear(c.linkAt)
	for _, l := range c.link {
		c.linkAt[l+1]++
	}
	for l := range links {
		c.linkAt[l+1] += c.linkAt[l]
	}
	c.byLink = resize(c.byLink, len(c.link))
	for i, l := range c.link {
		c.byLink[c.linkAt[l]] = int32(i)
		c.linkAt[l]++
	}
	// Every entry has moved up to the start of the next.
	copy(c.linkAt[1:], c.linkAt[:links])
	c.linkAt[0] = 0
}

// hopRows are the columns of a batch of hops.
type hopRows struct {
	link, firstLink, prevLink                    []int32
	flowRow, id, size, start, delayTo, pathDelay []int64
	hop, hops                                    []int16
}

func (o *hopRows) resize(n int) {
	o.link, o.firstLink, o.prevLink = resize(o.link, n), resize(o.firstLink, n), resize(o.prevLink, n)
	o.flowRow, o.id, o.size = resize(o.flowRow, n), resize(o.id, n), resize(o.size, n)
	o.start, o.delayTo, o.pathDelay = resize(o.start, n), resize(o.delayTo, n), resize(o.pathDelay, n)
	o.hop, o.hops = resize(o.hop, n), resize(o.hops, n)
}

func (c *routeChunk) writeHops(ctx context.Context, n *Network, firstRow int64, hops schema.Sink) error {
	o := &c.out
	for lo := 0; lo < len(c.byLink); lo += batchRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := c.byLink[lo:min(lo+batchRows, len(c.byLink))]
		o.resize(len(rows))
		for k, h := range rows {
			f := c.flow[h]
			from, to := c.pathAt[f], c.pathAt[f+1]
			o.link[k] = c.link[h]
			o.flowRow[k] = firstRow + int64(f)
			o.id[k] = c.id[f]
			o.hop[k] = int16(h - from)
			o.hops[k] = int16(to - from)
			o.size[k] = c.size[f]
			o.start[k] = c.start[f]
			o.firstLink[k] = c.link[from]
			o.prevLink[k] = -1
			if h > from {
				o.prevLink[k] = c.link[h-1]
			}
			o.delayTo[k] = c.delayToNS[h]
			o.pathDelay[k] = c.pathDelayNS[f]
		}
		err := writeColumns(hops, schema.Hops, len(rows), column(o.link), column(o.flowRow), column(o.id),
			column(o.hop), column(o.hops), column(o.size), column(o.start), column(o.firstLink),
			column(o.prevLink), column(o.delayTo), column(o.pathDelay))
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *routeChunk) writeLoads(p *simkernel.Params, chunk int32, loads schema.Sink) error {
	var link, chunks []int32
	var flows, bytes, packets, first, last []int64
	for l := range len(c.linkAt) - 1 {
		hops := c.byLink[c.linkAt[l]:c.linkAt[l+1]]
		if len(hops) == 0 {
			continue
		}
		var sumBytes, sumPackets int64
		firstStart, lastStart := int64(math.MaxInt64), int64(math.MinInt64)
		for _, h := range hops {
			f := c.flow[h]
			sumBytes += c.size[f]
			sumPackets += p.Packets(c.size[f])
			firstStart = min(firstStart, c.start[f])
			lastStart = max(lastStart, c.start[f])
		}
		link, chunks = append(link, int32(l)), append(chunks, chunk)
		flows, bytes, packets = append(flows, int64(len(hops))), append(bytes, sumBytes), append(packets, sumPackets)
		first, last = append(first, firstStart), append(last, lastStart)
	}
	if len(link) == 0 {
		return nil
	}
	return writeColumns(loads, schema.LinkLoads, len(link), column(link), column(chunks), column(flows),
		column(bytes), column(packets), column(first), column(last))
}
