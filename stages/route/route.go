// Package route finds the hops of flows and the load of each link.
package route

import (
	"context"
	"errors"
	"fmt"
	"math"
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

	links  []chunkLink // by link id
	loads  []LinkLoad  // by link id
	counts []int32     // by link id: hops
	sentNS []int64     // by link id: when it has sent all flows so far (SimultaneousAcks)
	flows  []chunkFlow
	hops   []chunkHop // flow by flow, in the order of the path
	order  []int32    // indexes of hops, by link and flow

	path []int32  // of the current flow
	out  []hopRow // of a batch that is written
}

// A chunkLink has what routing needs of a link.
type chunkLink struct {
	delayNS int64
	sendNS  int64 // of a full packet, and of its ACK on the reverse link
	bps     int64
	bytePS  float64 // transmission time of a byte
}

type chunkFlow struct {
	id          int64 `col:"flow_id"`
	sizeBytes   int64 `col:"size_bytes"`
	startNS     int64 `col:"start_ns"`
	pathDelayNS int64 `col:"path_delay_ns"`
	pathSendNS  int64 `col:"path_send_ns"`
	firstLink   int32 `col:"first_link"`
	packets     int32
	hops        int16 `col:"hops"`
}

type chunkHop struct {
	delayToNS int64 `col:"delay_to_link_ns"` // propagation before the link
	// See simkernel.Case.
	upBps     int64 `col:"upstream_bps"`
	downBps   int64 `col:"downstream_bps"`
	betweenPS int32 `col:"between_ps"`
	link      int32 `col:"link_id"`
	flow      int32
	hop       int16 `col:"hop"`
}

// A hopRow is a row of table hops.
type hopRow struct {
	flowRow int64 `col:"flow_row"`
	chunkHop
	chunkFlow
}

var hopTable = columns.TableOf[hopRow](schema.Hops)

func (c *chunk) reset(n *topology.Network, p *simkernel.Params) {
	c.flows = c.flows[:0]
	c.hops = c.hops[:0]
	c.loads = columns.Resize(c.loads, len(n.Links))
	c.counts = columns.Resize(c.counts, len(n.Links))
	c.sentNS = columns.Resize(c.sentNS, len(n.Links))
	clear(c.loads)
	clear(c.counts)
	clear(c.sentNS)
	c.links = columns.Resize(c.links, len(n.Links))
	for id, l := range n.Links {
		c.links[id] = chunkLink{delayNS: l.DelayNS, sendNS: sendAndAckNS(p, n, l), bps: l.BandwidthBps,
			bytePS: 8e12 / float64(l.BandwidthBps)}
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
	if ComputeStep(of.Src, of.Dst, of.SizeBytes) {
		c.flows = append(c.flows, chunkFlow{})
		return nil
	}
	if of.SizeBytes < 1 {
		return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", of.ID, of.SizeBytes)
	}
	packets := p.Packets(of.SizeBytes)
	if c.simulated && packets > simkernel.MaxPackets {
		return fmt.Errorf("flow %d: %d bytes are %d packets, and a simulation takes at most 2^28 (%d bytes) of "+
			"one flow: leave it out, or divide it", of.ID, of.SizeBytes, packets, simkernel.MaxPackets*p.PayloadBytes)
	}
	path, err := c.model.Router.Path(of.Connection, of.Src, of.Dst, c.path[:0])
	c.path = path
	if err != nil {
		if c.model.Unreachable == step.RefuseUnreachable || !IsUnreachable(err) {
			return err
		}
		c.stats.Unreachable++
	}
	if !c.simulated || c.model.Acks == step.SimultaneousAcks {
		c.addLoads(path, LinkLoad{1, of.SizeBytes, packets, of.StartNS, of.StartNS, 0})
	}
	c.flows = append(columns.Grow(c.flows, 1), chunkFlow{
		id: of.ID, sizeBytes: of.SizeBytes, startNS: of.StartNS, packets: int32(packets), hops: int16(len(path)),
	})
	if c.simulated && len(path) > 0 {
		c.addHops(path)
	}
	c.stats.PacketHops += int64(len(path)) * packets
	return nil
}

// addHops adds the hops of the last flow.
//
// A link before or behind a hop matters if it is slower than the links that the case simulates, because
// those already space a flow's packets (simkernel.Case). Before the hop, it is compared with the source.
// Behind the hop, it is compared with the target. At hop 0, the slowest link matters even if it is as fast
// as the source, because waits before it move packets together.
func (c *chunk) addHops(path []int32) {
	f := &c.flows[len(c.flows)-1]
	f.firstLink = path[0]
	c.hops = columns.Grow(c.hops, len(path))
	first := len(c.hops)
	h := chunkHop{flow: int32(len(c.flows) - 1)}
	slowestBps := c.links[path[0]].bps // of the links so far
	ps := 0.0                          // transmission time of a byte on the links behind hop 0
	for hop, id := range path {
		l := &c.links[id]
		h.link = id
		h.hop = int16(hop)
		h.betweenPS = roundPS(ps)
		c.hops = append(c.hops, h)
		c.counts[id]++
		h.delayToNS += l.delayNS
		f.pathSendNS += l.sendNS
		if hop > 0 {
			ps += l.bytePS
		}
		if l.bps < slowestBps {
			slowestBps = l.bps
			h.upBps = l.bps
		}
	}
	f.pathDelayNS = h.delayToNS
	hops := c.hops[first:]
	slowest := 0 // the last hop with the lowest bandwidth behind hop 0
	behindBps := int64(math.MaxInt64)
	for hop := len(hops) - 1; hop > 0; hop-- {
		bps := c.links[path[hop]].bps
		if behindBps < bps {
			hops[hop].downBps = behindBps
			continue
		}
		if bps < behindBps {
			slowest = hop
		}
		behindBps = bps
	}
	if slowest > 0 {
		hops[0].downBps = behindBps
		hops[0].betweenPS = hops[slowest].betweenPS
	}
}

// addLoads adds the load by one flow to the links of its path.
func (c *chunk) addLoads(path []int32, load LinkLoad) {
	for _, id := range path {
		if c.model.Acks == step.SimultaneousAcks {
			back := topology.Reverse(id)
			beginNS := max(c.sentNS[id], load.FirstStartNS)
			c.sentNS[id] = beginNS + int64(load.BusyNS(c.links[id].bps, &c.model.Params))
			load.BothNS = max(0, min(c.sentNS[id], c.sentNS[back])-beginNS)
			c.loads[back].BothNS += load.BothNS
		}
		c.loads[id].add(load)
	}
}

// sortByLink orders the hops by link with a counting sort. The sort is stable, so the hops of a link stay
// in the order of their flows.
func (c *chunk) sortByLink() {
	next := c.counts // by link: place of its next hop
	at := int32(0)
	for id, n := range c.counts {
		next[id] = at
		at += n
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

// writeHops writes the hops. It also adds the loads of links, because it has the flows of each link at
// hand, unless they are known.
func (c *chunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	for order := range slices.Chunk(c.order, tables.SmallBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.out = columns.Resize(c.out, len(order))
		// Loops that do nothing else allow the processor to fetch many hops and flows at the same time.
		for k, i := range order {
			c.out[k].chunkHop = c.hops[i]
		}
		for k := range c.out {
			row := &c.out[k]
			row.flowRow = firstRow + int64(row.flow)
			row.chunkFlow = c.flows[row.flow]
		}
		if c.model.Acks != step.SimultaneousAcks {
			for k := range c.out {
				r := &c.out[k]
				c.loads[r.link].add(LinkLoad{1, r.sizeBytes, int64(r.packets), r.startNS, r.startNS, 0})
			}
		}
		if err := hopTable.Write(hops, c.out); err != nil {
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
	for id := range c.loads {
		l := &c.loads[id]
		if l.Flows > 0 {
			rows = append(rows, linkLoad{int32(id), number, *l})
		}
	}
	return loadTable.Write(loads, rows)
}
