// Package route finds the hops of flows and the load of each link.
package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// Stats counts the work of Flows.
type Stats struct {
	PacketHops  int64 // packets × links crossed, the cost of the link cases
	Unreachable int64 // flows without a path, which have no hops
}

// A Flow has the columns of table flows that routing reads.
type Flow struct {
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
	// Connection determines the path.
	Connection int64 `col:"connection_id"`
}

// ComputeStep reports whether a flow is a compute step: no bytes, from a host to itself. It has no path and
// finishes when it starts.
func ComputeStep(src, dst int32, sizeBytes int64) bool { return sizeBytes == 0 && src == dst }

// A Chunk is a part of table flows that begins at row FirstRow. It has at least the columns of a Flow. Number
// counts the chunks.
type Chunk struct {
	Number   int32
	FirstRow int64
	Flows    schema.Batches
}

// A Sink receives what Flows writes: table hops, by link and flow_row, and table link_loads, the load of each
// link by the chunk, by link. If Hops is nil, only the loads are computed, also of flows that are too large
// to be simulated.
type Sink struct {
	Hops, Loads schema.Sink
}

// Flows lists the hops of one chunk of the workload on the paths that the model's router chooses
// (topology.Router).
//
// It keeps the chunk in memory, about 50 bytes per flow and 30 per hop. An error names the flow. Errors are a
// source or destination that is not a host, a source that equals the destination, a size below 1, and two
// hosts without a path, unless the model counts such flows. Nothing is written before all flows have their
// paths.
func Flows(ctx context.Context, m *step.Model, in Chunk, out Sink) (Stats, error) {
	c := chunkPool.Get().(*chunk)
	defer chunkPool.Put(c)
	c.reset(m.Network, &m.Params)
	c.model = m
	c.simulated = out.Hops != nil
	c.stats = Stats{}
	err := columns.Each(in.Flows, func(f *Flow) error {
		if len(c.flows)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return c.add(f)
	})
	if err == nil && out.Hops != nil {
		c.sortByLink()
		err = c.writeHops(ctx, in.FirstRow, out.Hops)
	}
	if err == nil {
		err = c.writeLoads(in.Number, out.Loads)
	}
	if err != nil {
		return c.stats, fmt.Errorf("route: %w", err)
	}
	return c.stats, nil
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

// A chunk has the flows of a Chunk and their hops. Both are stored as rows instead of columns. The hops of a
// link belong to flows all over the chunk, and reading a row takes one or two cache lines instead of five.
// Only their numbers are sorted by link, so that the order fits into the second-level cache.
type chunk struct {
	model     *step.Model
	simulated bool // flows will be simulated, so they must not be too large
	stats     Stats

	links []chunkLink // by link id
	flows []chunkFlow
	hops  []chunkHop // flow by flow, in the order of the path
	order []int32    // indexes of hops, by link and flow

	path       []int32     // of the current flow
	bps        []int64     // bandwidths of its links
	batchHops  []chunkHop  // of a batch that is written
	batchFlows []chunkFlow // by hop of the batch
	out        []tables.Hop
}

// A chunkLink is a link with the load by the chunk's flows.
type chunkLink struct {
	delayNS int64
	// Transmission times of a full packet, and of its ACK on the reverse link.
	sendNS int64
	bps    int64
	load   LinkLoad
	sentNS int64 // when it has sent all flows so far, if it does nothing else
}

type chunkFlow struct {
	Flow
	pathDelayNS, pathSendNS int64
	firstLink               int32 // -1: no path
	hops                    int16
}

type chunkHop struct {
	delayToNS      int64 // propagation before the link
	upBps, downBps int64 // see slowestLinks
	betweenPS      int32 // see betweenPS
	flow, link     int32
	hop            int16
}

func (c *chunk) reset(n *topology.Network, p *simkernel.Params) {
	c.flows = c.flows[:0]
	c.hops = c.hops[:0]
	c.links = columns.Resize(c.links, len(n.Links))
	for id, l := range n.Links {
		c.links[id] = chunkLink{delayNS: l.DelayNS, sendNS: sendAndAckNS(p, n, l), bps: l.BandwidthBps}
	}
}

// sendAndAckNS returns the transmission time, in ns, of a full packet on a link plus that of its ACK on the
// reverse link.
func sendAndAckNS(p *simkernel.Params, n *topology.Network, l topology.Link) int64 {
	return p.SendNS(p.PayloadBytes+p.HeaderBytes, l.BandwidthBps) +
		p.SendNS(p.AckBytes, n.Links[topology.Reverse(l.ID)].BandwidthBps)
}

// add adds a flow with its path.
func (c *chunk) add(of *Flow) error {
	p := &c.model.Params
	f := chunkFlow{Flow: *of, firstLink: -1}
	if ComputeStep(f.Src, f.Dst, f.SizeBytes) {
		c.flows = append(c.flows, f)
		return nil
	}
	if f.SizeBytes < 1 {
		return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", f.ID, f.SizeBytes)
	}
	packets := p.Packets(f.SizeBytes)
	if c.simulated && packets > simkernel.MaxPackets {
		return fmt.Errorf("flow %d: %d bytes are %d packets, and a simulation takes at most 2^28 (%d bytes) of "+
			"one flow: leave it out, or divide it", f.ID, f.SizeBytes, packets, simkernel.MaxPackets*p.PayloadBytes)
	}
	path, err := c.model.Router.Path(f.Connection, f.Src, f.Dst, c.path[:0])
	c.path = path
	if err != nil {
		if c.model.Unreachable == step.RefuseUnreachable || !IsUnreachable(err) {
			return err
		}
		c.stats.Unreachable++
	}
	c.load(&f, path, packets)
	if c.simulated {
		c.addHops(path)
	}
	c.flows = append(columns.Grow(c.flows, 1), f)
	c.stats.PacketHops += int64(len(path)) * packets
	return nil
}

// addHops adds the hops of the next flow.
func (c *chunk) addHops(path []int32) {
	c.bps = c.bps[:0]
	for _, id := range path {
		c.bps = append(c.bps, c.links[id].bps)
	}
	c.hops = columns.Grow(c.hops, len(path))
	h := chunkHop{flow: int32(len(c.flows))}
	for hop, id := range path {
		h.link = id
		h.hop = int16(hop)
		h.upBps, h.downBps = slowestLinks(c.bps, hop)
		h.betweenPS = betweenPS(c.bps, hop)
		c.hops = append(c.hops, h)
		h.delayToNS += c.links[id].delayNS
	}
}

// load adds a flow to the loads of the links of its path.
func (c *chunk) load(f *chunkFlow, path []int32, packets int64) {
	f.hops = int16(len(path))
	if len(path) > 0 {
		f.firstLink = path[0]
	}
	for _, id := range path {
		l := &c.links[id]
		f.pathDelayNS += l.delayNS
		f.pathSendNS += l.sendNS
		load := LinkLoad{1, f.SizeBytes, packets, f.StartNS, f.StartNS, 0}
		if c.model.Acks == step.SimultaneousAcks {
			back := &c.links[topology.Reverse(id)]
			beginNS := max(l.sentNS, f.StartNS)
			l.sentNS = beginNS + int64(load.BusyNS(l.bps, &c.model.Params))
			load.BothNS = max(0, min(l.sentNS, back.sentNS)-beginNS)
			back.load.BothNS += load.BothNS
		}
		l.load.add(load)
	}
}

// sortByLink orders the hops by link with a counting sort: a link has as many hops as flows. The sort is
// stable, so the hops of a link stay in the order of their flows.
func (c *chunk) sortByLink() {
	next := make([]int32, len(c.links)) // by link: place of its next hop
	at := int32(0)
	for id := range c.links {
		next[id] = at
		at += int32(c.links[id].load.Flows)
	}
	c.order = columns.Resize(c.order, len(c.hops))
	for i := range c.hops {
		link := c.hops[i].link
		c.order[next[link]] = int32(i)
		next[link]++
	}
}

// IsUnreachable reports whether an error means that a flow has no path.
func IsUnreachable(err error) bool {
	var unreachable *topology.UnreachableError
	return errors.As(err, &unreachable)
}

func (c *chunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	for rows := range slices.Chunk(c.order, tables.SmallBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.out = c.out[:0]
		// Loops that do nothing else allow the processor to fetch many hops and flows at the same time.
		c.batchHops = columns.Resize(c.batchHops, len(rows))
		for k, i := range rows {
			c.batchHops[k] = c.hops[i]
		}
		c.batchFlows = columns.Resize(c.batchFlows, len(rows))
		for k := range c.batchHops {
			c.batchFlows[k] = c.flows[c.batchHops[k].flow]
		}
		for k := range c.batchHops {
			h := &c.batchHops[k]
			f := &c.batchFlows[k]
			at := tables.FlowAtHop{
				LinkID: h.link, FlowRow: firstRow + int64(h.flow), FlowID: f.ID, Hop: h.hop, Hops: f.hops,
				SizeBytes: f.SizeBytes,
			}
			c.out = append(c.out, tables.Hop{
				LocalHop: tables.LocalHop{
					FlowAtHop: at, StartNS: f.StartNS, FirstLink: f.firstLink, DelayToLinkNS: h.delayToNS,
					PathDelayNS: f.pathDelayNS,
				},
				PathSendNS: f.pathSendNS, UpstreamBps: h.upBps, DownstreamBps: h.downBps, BetweenPS: h.betweenPS,
			})
		}
		if err := tables.Hops.Write(hops, c.out); err != nil {
			return err
		}
	}
	return nil
}

// A linkLoad is a row of table link_loads.
type linkLoad struct {
	LinkID int32 `col:"link_id"`
	Chunk  int32 `col:"chunk"`
	LinkLoad
}

var loadTable = columns.TableOf[linkLoad](schema.LinkLoads)

func (c *chunk) writeLoads(number int32, loads schema.Sink) error {
	var rows []linkLoad
	for id := range c.links {
		l := &c.links[id].load
		if l.Flows > 0 {
			rows = append(rows, linkLoad{int32(id), number, *l})
		}
	}
	return loadTable.Write(loads, rows)
}
