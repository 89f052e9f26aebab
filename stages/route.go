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
// It holds the chunk in memory: about 50 bytes a flow and 20 a hop. A source or destination that is
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

// A routeChunk holds a chunk's flows and their hops. Both are rows, not columns: the hops of a link
// come from flows all over the chunk, and a row is one cache line where columns were five.
type routeChunk struct {
	flows  []chunkFlow
	hops   []chunkHop // flow by flow
	linkAt []int32    // by link, and one more: its hops are linkAt[l] to linkAt[l+1] of byLink
	byLink []int32    // places in hops, sorted by link and flow
	path   []int32

	out hopRows
}

type chunkFlow struct {
	id, sizeBytes, startNS, pathDelayNS int64
	pathSendNS                          int64
	hopAt, hops                         int32 // its hops are hops[hopAt : hopAt+hops] of the chunk
	firstLink                           int32
}

type chunkHop struct {
	delayToNS  int64 // propagation before the link
	link, flow int32
}

func (c *routeChunk) reset() { c.flows, c.hops = c.flows[:0], c.hops[:0] }

// add picks the paths of a batch of flows.
func (c *routeChunk) add(r *Router, p *simkernel.Params, rec arrow.Record, opt RouteOptions, stats *RouteStats) error {
	ids, sizes, starts := int64s(rec, "flow_id"), int64s(rec, "size_bytes"), int64s(rec, "start_ns")
	srcs, dsts := int32s(rec, "src"), int32s(rec, "dst")
	links := r.net.Links
	for i, id := range ids {
		if sizes[i] < 1 {
			return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", id, sizes[i])
		}
		path, err := r.Path(id, srcs[i], dsts[i], c.path)
		c.path = path
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
		if len(c.hops)+len(path) > math.MaxInt32 || len(c.flows) == math.MaxInt32 {
			return errors.New("a chunk has more than 2^31 hops; route smaller chunks")
		}
		f := chunkFlow{id: id, sizeBytes: sizes[i], startNS: starts[i], hopAt: int32(len(c.hops)), hops: int32(len(path)), firstLink: -1}
		if len(path) > 0 {
			f.firstLink = path[0]
		}
		for _, l := range path {
			c.hops = append(c.hops, chunkHop{f.pathDelayNS, l, int32(len(c.flows))})
			f.pathDelayNS += links[l].DelayNS
			f.pathSendNS += p.SendNS(p.PayloadBytes+p.HeaderBytes, links[l].BandwidthBps) + p.SendNS(p.AckBytes, links[Reverse(l)].BandwidthBps)
		}
		c.flows = append(c.flows, f)
		stats.Flows++
		stats.Hops += int64(len(path))
		stats.PacketHops += int64(len(path)) * p.Packets(sizes[i])
	}
	return nil
}

// sortByLink is a counting sort of the hops by link. It is stable, so each link's hops stay in the
// order of their flows.
func (c *routeChunk) sortByLink(links int) {
	c.linkAt = resize(c.linkAt, links+1)
	clear(c.linkAt)
	for i := range c.hops {
		c.linkAt[c.hops[i].link+1]++
	}
	for l := range links {
		c.linkAt[l+1] += c.linkAt[l]
	}
	c.byLink = resize(c.byLink, len(c.hops))
	for i := range c.hops {
		l := c.hops[i].link
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
	pathSend                                     []int64
	hop, hops                                    []int16
}

func (o *hopRows) resize(n int) {
	o.link, o.firstLink, o.prevLink = resize(o.link, n), resize(o.firstLink, n), resize(o.prevLink, n)
	o.flowRow, o.id, o.size = resize(o.flowRow, n), resize(o.id, n), resize(o.size, n)
	o.start, o.delayTo, o.pathDelay = resize(o.start, n), resize(o.delayTo, n), resize(o.pathDelay, n)
	o.pathSend = resize(o.pathSend, n)
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
		for k, at := range rows {
			h := &c.hops[at]
			f := &c.flows[h.flow]
			prev := int32(-1)
			if at > f.hopAt {
				prev = c.hops[at-1].link
			}
			o.link[k], o.firstLink[k], o.prevLink[k] = h.link, f.firstLink, prev
			o.flowRow[k], o.id[k] = firstRow+int64(h.flow), f.id
			o.hop[k], o.hops[k] = int16(at-f.hopAt), int16(f.hops)
			o.size[k], o.start[k] = f.sizeBytes, f.startNS
			o.delayTo[k], o.pathDelay[k] = h.delayToNS, f.pathDelayNS
			o.pathSend[k] = f.pathSendNS
		}
		err := writeColumns(hops, schema.Hops, len(rows), column(o.link), column(o.flowRow), column(o.id),
			column(o.hop), column(o.hops), column(o.size), column(o.start), column(o.firstLink),
			column(o.prevLink), column(o.delayTo), column(o.pathDelay), column(o.pathSend))
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
			f := &c.flows[c.hops[h].flow]
			sumBytes += f.sizeBytes
			sumPackets += p.Packets(f.sizeBytes)
			firstStart = min(firstStart, f.startNS)
			lastStart = max(lastStart, f.startNS)
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
