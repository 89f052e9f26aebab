// Package route finds the hops of flows and the load of each link.
package route

import (
	"context"
	"errors"
	"fmt"
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
type chunk struct {
	model     *step.Model
	simulated bool // flows will be simulated, so they must not be too large
	stats     Stats

	links []chunkLink // by link id
	flows []chunkFlow
	paths []int32    // links of all paths, flow by flow
	hops  []chunkHop // sorted by link and flow

	batchFlows []chunkFlow // by hop of a batch
	out        []tables.Hop
}

// A chunkLink is a link with the load by the chunk's flows.
type chunkLink struct {
	delayNS int64
	// Transmission times of a full packet, and of its ACK on the reverse link.
	sendNS  int64
	bps     int64
	load    LinkLoad
	sentNS  int64 // when it has sent all flows so far, if it does nothing else
	nextHop int   // index of its next hop in chunk.hops
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
	c.paths = c.paths[:0]
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
	before := len(c.paths)
	paths, err := c.model.Router.Path(f.Connection, f.Src, f.Dst, c.paths)
	c.paths = paths
	if err != nil {
		if c.model.Unreachable == step.RefuseUnreachable || !IsUnreachable(err) {
			return err
		}
		c.stats.Unreachable++
	}
	c.load(&f, paths[before:], packets)
	c.flows = append(columns.Grow(c.flows, 1), f)
	c.stats.PacketHops += int64(len(paths)-before) * packets
	return nil
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

// sortByLink sorts the hops by link with a counting sort: a link has as many hops as flows. The sort is
// stable, so the hops of a link stay in the order of their flows.
func (c *chunk) sortByLink() {
	at := 0
	for id := range c.links {
		c.links[id].nextHop = at
		at += int(c.links[id].load.Flows)
	}
	c.hops = columns.Resize(c.hops, at)
	paths := c.paths
	var bps []int64 // by hop of the path
	for i := range c.flows {
		path := paths[:c.flows[i].hops]
		paths = paths[len(path):]
		bps = bps[:0]
		for _, id := range path {
			bps = append(bps, c.links[id].bps)
		}
		h := chunkHop{flow: int32(i)}
		for hop, id := range path {
			l := &c.links[id]
			h.link = id
			h.hop = int16(hop)
			h.upBps, h.downBps = slowestLinks(bps, hop)
			h.betweenPS = betweenPS(bps, hop)
			c.hops[l.nextHop] = h
			l.nextHop++
			h.delayToNS += l.delayNS
		}
	}
}

// IsUnreachable reports whether an error means that a flow has no path.
func IsUnreachable(err error) bool {
	var unreachable *topology.UnreachableError
	return errors.As(err, &unreachable)
}

func (c *chunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	for lo := 0; lo < len(c.hops); lo += tables.SmallBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := c.hops[lo:min(lo+tables.SmallBatch, len(c.hops))]
		c.out = c.out[:0]
		// A loop that does nothing else allows the processor to fetch many flows at the same time.
		c.batchFlows = columns.Resize(c.batchFlows, len(rows))
		for k := range rows {
			c.batchFlows[k] = c.flows[rows[k].flow]
		}
		for k := range rows {
			h := &rows[k]
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
