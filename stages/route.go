package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
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
	UnreachableExamples []*topology.UnreachableError
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

// RouteColumns are the columns of table flows that Route looks at.
func RouteColumns() []string {
	return []string{"flow_id", "src", "dst", "size_bytes", "start_ns"}
}

// Route picks the paths of one chunk of the workload: the flows of in (batches of table flows, at
// least its RouteColumns), which are rows firstRow and on of that table. It writes their hops to hops
// (table hops), sorted by link and flow, and to loads what every link with a flow carries of this chunk
// (table link_loads), sorted by link.
//
// It holds the chunk in memory: about 50 bytes a flow and 30 a hop. A source or destination that is
// no host, or is the same, and a size below 1 are errors naming the flow, as is a pair of hosts that
// no path joins unless opt allows it. Nothing is written before the whole chunk has its paths.
func Route(ctx context.Context, r *topology.Router, p *simkernel.Params, in schema.Batches, chunk int32, firstRow int64, hops, loads schema.Sink, opt RouteOptions) (RouteStats, error) {
	c := chunkPool.Get().(*routeChunk)
	defer chunkPool.Put(c)
	c.reset(r.Net, p)
	var stats RouteStats
	err := columns.ForEach(in, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.add(r, p, rec, opt, &stats)
	})
	if err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	c.sortByLink()
	if err := c.writeHops(ctx, firstRow, hops); err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	if err := c.writeLoads(chunk, loads); err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	return stats, nil
}

// chunkPool keeps chunks' memory from one chunk to the next.
var chunkPool = sync.Pool{New: func() any { return new(routeChunk) }}

// A routeChunk holds a chunk's flows and their hops. Both are rows, not columns: the hops of a link
// come from flows all over the chunk, and a row is a cache line or two where columns were five.
type routeChunk struct {
	links []chunkLink // by link id
	flows []chunkFlow
	paths []int32    // links of all paths, flow by flow
	hops  []chunkHop // sorted by link and flow

	gathered []chunkFlow // of the hops of a batch
	out      hopRows
}

// A chunkLink is what is known of a link beforehand, and what the chunk's flows add to it.
type chunkLink struct {
	delayNS int64
	sendNS  int64 // of a full packet, and of its ACK on the way back
	bps     int64
	load    LinkLoad
	hopAt   int // its next hop is to stand at hops[hopAt]
}

type chunkFlow struct {
	id, sizeBytes, startNS  int64
	pathDelayNS, pathSendNS int64
	firstLink               int32 // -1: no path
	hops                    int16
}

type chunkHop struct {
	delayToNS        int64 // propagation before the link
	upBps, downBps   int64 // slowest links before and behind it: see slowestLinks
	flow, link, prev int32
	hop              int16
}

func (c *routeChunk) reset(n *topology.Network, p *simkernel.Params) {
	c.flows, c.paths = c.flows[:0], c.paths[:0]
	c.links = resize(c.links, len(n.Links))
	for id, l := range n.Links {
		c.links[id] = chunkLink{
			delayNS: l.DelayNS, bps: l.BandwidthBps,
			sendNS: p.SendNS(p.PayloadBytes+p.HeaderBytes, l.BandwidthBps) + p.SendNS(p.AckBytes, n.Links[topology.Reverse(l.ID)].BandwidthBps),
		}
	}
}

// add picks the paths of a batch of flows.
func (c *routeChunk) add(r *topology.Router, p *simkernel.Params, rec arrow.Record, opt RouteOptions, stats *RouteStats) error {
	ids, sizes, starts := columns.Int64s(rec, "flow_id"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
	srcs, dsts := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
	for i, id := range ids {
		if sizes[i] < 1 {
			return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", id, sizes[i])
		}
		before := len(c.paths)
		paths, err := r.AppendPath(id, srcs[i], dsts[i], c.paths)
		c.paths = paths
		if err != nil {
			var no *topology.UnreachableError
			if !opt.AllowUnreachable || !errors.As(err, &no) {
				return err
			}
			stats.Unreachable++
			if len(stats.UnreachableExamples) < unreachableExamples {
				stats.UnreachableExamples = append(stats.UnreachableExamples, no)
			}
		}
		if len(paths) > math.MaxInt32 || len(c.flows) == math.MaxInt32 {
			return errors.New("a chunk has more than 2^31 hops; route smaller chunks")
		}
		path := paths[before:]
		f := chunkFlow{id: id, sizeBytes: sizes[i], startNS: starts[i], firstLink: -1, hops: int16(len(path))}
		if len(path) > 0 {
			f.firstLink = path[0]
		}
		packets := p.Packets(sizes[i])
		for _, id := range path {
			l := &c.links[id]
			f.pathDelayNS += l.delayNS
			f.pathSendNS += l.sendNS
			l.load.add(LinkLoad{1, sizes[i], packets, starts[i], starts[i]})
		}
		c.flows = append(c.flows, f)
		stats.Flows++
		stats.Hops += int64(len(path))
		stats.PacketHops += int64(len(path)) * packets
	}
	return nil
}

// sortByLink is a counting sort of the hops by link: each link has as many as it has flows. It is
// stable, so each link's hops stay in the order of their flows.
func (c *routeChunk) sortByLink() {
	at := 0
	for id := range c.links {
		c.links[id].hopAt = at
		at += int(c.links[id].load.Flows)
	}
	c.hops = resize(c.hops, at)
	paths := c.paths
	bps := func(link int32) int64 { return c.links[link].bps }
	for i := range c.flows {
		path := paths[:c.flows[i].hops]
		paths = paths[len(path):]
		h := chunkHop{flow: int32(i), prev: -1}
		for hop, id := range path {
			l := &c.links[id]
			h.link, h.hop = id, int16(hop)
			h.upBps, h.downBps = slowestLinks(path, hop, bps)
			c.hops[l.hopAt] = h
			l.hopAt++
			h.delayToNS += l.delayNS
			h.prev = id
		}
	}
}

// hopRows are the columns of a batch of hops.
type hopRows struct {
	link, firstLink, prevLink                    []int32
	flowRow, id, size, start, delayTo, pathDelay []int64
	pathSend, upBps, downBps                     []int64
	hop, hops                                    []int16
}

func (o *hopRows) resize(n int) {
	o.link, o.firstLink, o.prevLink = resize(o.link, n), resize(o.firstLink, n), resize(o.prevLink, n)
	o.flowRow, o.id, o.size = resize(o.flowRow, n), resize(o.id, n), resize(o.size, n)
	o.start, o.delayTo, o.pathDelay = resize(o.start, n), resize(o.delayTo, n), resize(o.pathDelay, n)
	o.pathSend, o.upBps, o.downBps = resize(o.pathSend, n), resize(o.upBps, n), resize(o.downBps, n)
	o.hop, o.hops = resize(o.hop, n), resize(o.hops, n)
}

// hopBatchRows is how many hops are written at a time: few enough that their columns are still in
// the processor's second-level cache when the sink looks at them.
const hopBatchRows = 4_096

func (c *routeChunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	o := &c.out
	for lo := 0; lo < len(c.hops); lo += hopBatchRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := c.hops[lo:min(lo+hopBatchRows, len(c.hops))]
		o.resize(len(rows))
		// The flows are fetched in a loop that does nothing else, so that the processor waits for many
		// of them at once.
		c.gathered = resize(c.gathered, len(rows))
		for k := range rows {
			c.gathered[k] = c.flows[rows[k].flow]
		}
		for k := range rows {
			h, f := &rows[k], &c.gathered[k]
			o.link[k], o.firstLink[k], o.prevLink[k] = h.link, f.firstLink, h.prev
			o.flowRow[k], o.id[k] = firstRow+int64(h.flow), f.id
			o.hop[k], o.hops[k] = h.hop, f.hops
			o.size[k], o.start[k] = f.sizeBytes, f.startNS
			o.delayTo[k], o.pathDelay[k] = h.delayToNS, f.pathDelayNS
			o.pathSend[k], o.upBps[k], o.downBps[k] = f.pathSendNS, h.upBps, h.downBps
		}
		err := columns.Write(hops, schema.Hops, len(rows), columns.Of(o.link), columns.Of(o.flowRow), columns.Of(o.id),
			columns.Of(o.hop), columns.Of(o.hops), columns.Of(o.size), columns.Of(o.start), columns.Of(o.firstLink),
			columns.Of(o.prevLink), columns.Of(o.delayTo), columns.Of(o.pathDelay), columns.Of(o.pathSend),
			columns.Of(o.upBps), columns.Of(o.downBps))
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *routeChunk) writeLoads(chunk int32, loads schema.Sink) error {
	var link, chunks []int32
	var flows, bytes, packets, first, last []int64
	for id := range c.links {
		l := &c.links[id].load
		if l.Flows == 0 {
			continue
		}
		link, chunks = append(link, int32(id)), append(chunks, chunk)
		flows, bytes, packets = append(flows, l.Flows), append(bytes, l.Bytes), append(packets, l.Packets)
		first, last = append(first, l.FirstStartNS), append(last, l.LastStartNS)
	}
	if len(link) == 0 {
		return nil
	}
	return columns.Write(loads, schema.LinkLoads, len(link), columns.Of(link), columns.Of(chunks), columns.Of(flows),
		columns.Of(bytes), columns.Of(packets), columns.Of(first), columns.Of(last))
}
