// Package route finds the paths of flows and the load of each link.
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

// A Sink receives what Flows writes: table hops, by link and flow_row, table flow_paths, by flow_row, and
// table link_loads, the load of each link by the chunk, by link. If Hops is nil, only the loads are computed,
// also of flows that are too large to be simulated. Paths may be nil.
type Sink struct {
	Hops, Paths, Loads schema.Sink
}

// Flows lists the hops of one chunk of the workload on the paths that the model's router chooses
// (topology.Router).
//
// It keeps the chunk in memory, about 40 bytes per flow and 30 per hop. If all links have different speeds or
// delays, each path has its own class, which takes about 200 bytes, and 60 per hop. An error names the flow.
// Errors are a source or destination that is not a host, a source that equals the destination, a size below
// 1, and two hosts without a path, unless the model counts such flows. Nothing is written before all flows
// have their paths.
func Flows(ctx context.Context, m *step.Model, in Chunk, out Sink) (Stats, error) {
	c := chunkPool.Get().(*chunk)
	defer chunkPool.Put(c)
	c.reset(m.Network, &m.Params)
	c.model = m
	c.simulated = out.Hops != nil
	c.stats = Stats{}
	err := columns.EachRows(in.Flows, routedRows, func(flows []Flow) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return c.addAll(flows)
	})
	if err == nil && out.Hops != nil {
		c.sortByLink()
		err = c.writeHops(ctx, in.FirstRow, out.Hops)
	}
	if err == nil && out.Paths != nil {
		err = c.writePaths(ctx, in.FirstRow, out.Paths)
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

// A chunk has the flows of a Chunk and their hops. Both are stored as rows instead of columns: the hops of a
// link belong to flows all over the chunk, and reading a row takes one cache line instead of five. A hop
// refers to a place, so that its row is small.
type chunk struct {
	model     *step.Model
	simulated bool // flows will be simulated, so they must not be too large
	stats     Stats

	loads  []LinkLoad // by link id
	counts []int32    // by link id: hops
	sentNS []int64    // by link id: when it has sent all flows so far (SimultaneousAcks)
	flows  []chunkFlow
	pathOf []int32    // by flow: index of its class in places.paths; -1: no path
	hops   []chunkHop // flow by flow, in the order of the path
	byLink []chunkHop // by link and flow
	places places

	queries   [routedRows]topology.PathQuery
	out       []hopRow
	paths     []tables.FlowPath
	linkLoads []linkLoad
}

// routedRows is the number of flows that are routed at a time.
const routedRows = 256

type chunkFlow struct {
	id        int64 `col:"flow_id"`
	sizeBytes int64 `col:"size_bytes"`
	startNS   int64 `col:"start_ns"`
	firstLink int32 `col:"first_link"`
	packets   int32
}

type chunkHop struct {
	flow  int32
	link  int32
	place int32 // index in places.all
}

// A hopRow is a row of table hops.
type hopRow struct {
	flowRow int64 `col:"flow_row"`
	link    int32 `col:"link_id"`
	place
	chunkFlow
}

var hopTable = columns.TableOf[hopRow](schema.Hops)

func (c *chunk) reset(n *topology.Network, p *simkernel.Params) {
	c.flows = c.flows[:0]
	c.pathOf = c.pathOf[:0]
	c.hops = c.hops[:0]
	c.loads = columns.Resize(c.loads, len(n.Links))
	c.counts = columns.Resize(c.counts, len(n.Links))
	c.sentNS = columns.Resize(c.sentNS, len(n.Links))
	clear(c.loads)
	clear(c.counts)
	clear(c.sentNS)
	c.places.reset(n, p)
}

// sendAndAckNS returns the transmission time, in ns, of a full packet on a link plus that of its ACK on the
// reverse link.
func sendAndAckNS(p *simkernel.Params, n *topology.Network, l topology.Link) int64 {
	return p.SendNS(p.PayloadBytes+p.HeaderBytes, l.BandwidthBps) +
		p.SendNS(p.AckBytes, n.Links[topology.Reverse(l.ID)].BandwidthBps)
}

// addAll adds at most routedRows flows with their paths.
func (c *chunk) addAll(flows []Flow) error {
	queries := c.queries[:0]
	for i := range flows {
		f := &flows[i]
		if !ComputeStep(f.Src, f.Dst, f.SizeBytes) {
			queries = queries[:len(queries)+1]
			q := &queries[len(queries)-1]
			q.FlowID = f.Connection
			q.Src = f.Src
			q.Dst = f.Dst
		}
	}
	c.model.Router.Paths(queries)
	for i := range flows {
		f := &flows[i]
		if ComputeStep(f.Src, f.Dst, f.SizeBytes) {
			c.flows = append(c.flows, chunkFlow{})
			c.pathOf = append(c.pathOf, -1)
			continue
		}
		if err := c.add(f, queries[0].Path, queries[0].Err); err != nil {
			return err
		}
		queries = queries[1:]
	}
	return nil
}

// add adds a flow with its path, or with the error that says why it has none.
func (c *chunk) add(of *Flow, path []int32, err error) error {
	p := &c.model.Params
	if of.SizeBytes < 1 {
		return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", of.ID, of.SizeBytes)
	}
	packets := p.Packets(of.SizeBytes)
	if c.simulated && packets > simkernel.MaxPackets {
		return fmt.Errorf("flow %d: %d bytes are %d packets, and a simulation takes at most 2^28 (%d bytes) of "+
			"one flow: leave it out, or divide it", of.ID, of.SizeBytes, packets, simkernel.MaxPackets*p.PayloadBytes)
	}
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
		id: of.ID, sizeBytes: of.SizeBytes, startNS: of.StartNS, packets: int32(packets),
	})
	class := int32(-1)
	if c.simulated && len(path) > 0 {
		class = c.addHops(path)
	}
	c.pathOf = append(columns.Grow(c.pathOf, 1), class)
	c.stats.PacketHops += int64(len(path)) * packets
	return nil
}

// addHops adds the hops of the last flow. It returns the class of its path.
func (c *chunk) addHops(path []int32) (class int32) {
	c.flows[len(c.flows)-1].firstLink = path[0]
	class = c.places.of(path)
	first := c.places.paths[class].first
	c.hops = columns.Grow(c.hops, len(path))
	for hop, id := range path {
		c.hops = append(c.hops, chunkHop{flow: int32(len(c.flows) - 1), link: id, place: first + int32(hop)})
		c.counts[id]++
	}
	return class
}

// addLoads adds the load by one flow to the links of its path.
func (c *chunk) addLoads(path []int32, load LinkLoad) {
	for _, id := range path {
		if c.model.Acks == step.SimultaneousAcks {
			back := topology.Reverse(id)
			beginNS := max(c.sentNS[id], load.FirstStartNS)
			c.sentNS[id] = beginNS + int64(load.BusyNS(c.model.Network.Links[id].BandwidthBps, &c.model.Params))
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
	c.byLink = columns.Resize(c.byLink, len(c.hops))
	for _, h := range c.hops {
		c.byLink[next[h.link]] = h
		next[h.link]++
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
	for part := range slices.Chunk(c.byLink, tables.SmallBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.out = columns.Resize(c.out, len(part))
		// A loop that does nothing else allows the processor to fetch many flows at the same time.
		for k := range part {
			c.out[k].chunkFlow = c.flows[part[k].flow]
		}
		for k, h := range part {
			row := &c.out[k]
			row.flowRow = firstRow + int64(h.flow)
			row.link = h.link
			row.place = c.places.all[h.place]
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

// writePaths writes the ideal FCT, the window delay and the round trip of each flow that has a path, as if it
// were alone in the network.
func (c *chunk) writePaths(ctx context.Context, firstRow int64, paths schema.Sink) error {
	for from := 0; from < len(c.flows); from += tables.SmallBatch {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.paths = c.paths[:0]
		for f := from; f < min(from+tables.SmallBatch, len(c.flows)); f++ {
			if c.pathOf[f] < 0 {
				continue
			}
			of := &c.places.paths[c.pathOf[f]]
			size := c.flows[f].sizeBytes
			c.paths = append(c.paths, tables.FlowPath{
				FlowRow: firstRow + int64(f), FirstLink: c.flows[f].firstLink, Hops: of.hops, SlowestHop: of.slowest,
				IdealNS: of.ideal.FCTNS(size), WindowNS: c.model.Params.WindowDelayNS(of.ideal.Path(), size),
				RoundTripNS: of.roundTripNS,
			})
		}
		if err := tables.FlowPaths.Write(paths, c.paths); err != nil {
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
	c.linkLoads = c.linkLoads[:0]
	for id := range c.loads {
		l := &c.loads[id]
		if l.Flows > 0 {
			c.linkLoads = append(c.linkLoads, linkLoad{int32(id), number, *l})
		}
	}
	return loadTable.Write(loads, c.linkLoads)
}
