// Package route finds the hops of flows, and what each link carries of them.
package route

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// Options change how Flows treats flows without a path, and what it finds about links.
type Options struct {
	// AllowUnreachable counts flows between hosts without a path instead of refusing them.
	AllowUnreachable bool
	// Simultaneous finds LinkLoad.BothNS.
	Simultaneous bool
}

// Stats counts what Flows did.
type Stats struct {
	PacketHops  int64 // packets × links crossed, the cost of the link cases
	Unreachable int64 // flows without a path; they have no hops
}

// A Flow has the columns of table flows that routing reads.
type Flow struct {
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
}

// ComputeStep reports whether a flow is a compute step: no bytes on one host. It has no path, and ends when it starts.
func ComputeStep(src, dst int32, sizeBytes int64) bool { return sizeBytes == 0 && src == dst }

// Flows lists the hops of one chunk of the workload; the router chooses the paths (topology.Router). in is
// table flows, at least the columns of a Flow; the first row is row firstRow of the table. It writes table
// hops, by link and flow_row, and table link_loads, what each link carries of this chunk, by link. A nil sink for hops
// writes loads only, also of flows that are too large to be simulated.
//
// It holds the chunk in memory: about 50 bytes per flow and 30 per hop. Errors name the flow: a source or
// destination that is not a host, a source that is the destination, a size below 1, and a pair of hosts
// without a path unless opt allows it. Nothing is written before all flows have their paths.
func Flows(ctx context.Context, r *topology.Router, p *simkernel.Params, in schema.Batches, number int32,
	firstRow int64, hops, loads schema.Sink, opt Options) (Stats, error) {
	c := chunkPool.Get().(*chunk)
	defer chunkPool.Put(c)
	c.reset(r.Net, p)
	var stats Stats
	err := columns.Each(in, func(f *Flow) error {
		if len(c.flows)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return c.add(r, p, f, hops != nil, opt, &stats)
	})
	if err == nil && hops != nil {
		c.sortByLink()
		err = c.writeHops(ctx, firstRow, hops)
	}
	if err == nil {
		err = c.writeLoads(number, loads)
	}
	if err != nil {
		return stats, fmt.Errorf("route: %w", err)
	}
	return stats, nil
}

var chunkPool = sync.Pool{New: func() any { return new(chunk) }}

// chunk holds the flows of a chunk and their hops. Both are rows rather than columns: the hops of a link
// come from flows all over the chunk, and reading a row costs one or two cache lines, five columns cost five.
type chunk struct {
	links []chunkLink // by link id
	flows []chunkFlow
	paths []int32    // links of all paths, flow by flow
	hops  []chunkHop // sorted by link and flow

	batchFlows []chunkFlow // by hop of a batch
	out        []tables.Hop
}

// chunkLink is a link, and what the chunk's flows add to it.
type chunkLink struct {
	delayNS int64
	sendNS  int64 // transmission times of a full packet, and of its ACK on the reverse link
	bps     int64
	load    LinkLoad
	sentNS  int64 // when it has sent what started so far, if it does nothing else
	nextHop int   // place of its next hop in chunk.hops
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
	c.flows, c.paths = c.flows[:0], c.paths[:0]
	c.links = columns.Resize(c.links, len(n.Links))
	for id, l := range n.Links {
		c.links[id] = chunkLink{delayNS: l.DelayNS, sendNS: sendAndAckNS(p, n, l), bps: l.BandwidthBps}
	}
}

// sendAndAckNS returns the transmission time of a full packet on a link plus that of its ACK on the reverse link.
func sendAndAckNS(p *simkernel.Params, n *topology.Network, l topology.Link) int64 {
	return p.SendNS(p.PayloadBytes+p.HeaderBytes, l.BandwidthBps) +
		p.SendNS(p.AckBytes, n.Links[topology.Reverse(l.ID)].BandwidthBps)
}

func (c *chunk) add(r *topology.Router, p *simkernel.Params, of *Flow, simulated bool, opt Options,
	stats *Stats) error {
	f := chunkFlow{Flow: *of, firstLink: -1}
	if ComputeStep(f.Src, f.Dst, f.SizeBytes) {
		c.flows = append(c.flows, f)
		return nil
	}
	if f.SizeBytes < 1 {
		return fmt.Errorf("flow %d: size of %d bytes, must be at least 1", f.ID, f.SizeBytes)
	}
	packets := p.Packets(f.SizeBytes)
	if simulated && packets > simkernel.MaxPackets {
		return fmt.Errorf("flow %d: %d bytes are %d packets, and a simulation takes at most 2^28 (%d bytes) of one flow: "+
			"leave it out, or divide it", f.ID, f.SizeBytes, packets, simkernel.MaxPackets*p.PayloadBytes)
	}
	before := len(c.paths)
	paths, err := r.Path(f.ID, f.Src, f.Dst, c.paths)
	c.paths = paths
	if err != nil {
		if !opt.AllowUnreachable || !IsUnreachable(err) {
			return err
		}
		stats.Unreachable++
	}
	if len(paths) > math.MaxInt32 || len(c.flows) == math.MaxInt32 {
		return errors.New("a chunk has more than 2^31 hops: use smaller chunks")
	}
	path := paths[before:]
	f.hops = int16(len(path))
	if len(path) > 0 {
		f.firstLink = path[0]
	}
	for _, id := range path {
		l := &c.links[id]
		f.pathDelayNS += l.delayNS
		f.pathSendNS += l.sendNS
		load := LinkLoad{1, f.SizeBytes, packets, f.StartNS, f.StartNS, 0}
		if opt.Simultaneous {
			back, beginNS := &c.links[topology.Reverse(id)], max(l.sentNS, f.StartNS)
			l.sentNS = beginNS + int64(load.BusyNS(l.bps, p))
			load.BothNS = max(0, min(l.sentNS, back.sentNS)-beginNS)
			back.load.BothNS += load.BothNS
		}
		l.load.add(load)
	}
	c.flows = append(columns.Grow(c.flows, 1), f)
	stats.PacketHops += int64(len(path)) * packets
	return nil
}

// sortByLink sorts the hops by link (a counting sort: a link has as many hops as flows). It is stable, so the
// hops of a link stay in the order of their flows.
func (c *chunk) sortByLink() {
	at := 0
	for id := range c.links {
		c.links[id].nextHop = at
		at += int(c.links[id].load.Flows)
	}
	c.hops = columns.Resize(c.hops, at)
	paths := c.paths
	bps := func(link int32) int64 { return c.links[link].bps }
	for i := range c.flows {
		path := paths[:c.flows[i].hops]
		paths = paths[len(path):]
		h := chunkHop{flow: int32(i)}
		for hop, id := range path {
			l := &c.links[id]
			h.link, h.hop = id, int16(hop)
			h.upBps, h.downBps = slowestLinks(path, hop, bps)
			h.betweenPS = betweenPS(path, hop, bps)
			c.hops[l.nextHop] = h
			l.nextHop++
			h.delayToNS += l.delayNS
		}
	}
}

// IsUnreachable reports whether an error says that a flow has no path.
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
		// A loop that does nothing else lets the processor fetch many flows at the same time.
		c.batchFlows = columns.Resize(c.batchFlows, len(rows))
		for k := range rows {
			c.batchFlows[k] = c.flows[rows[k].flow]
		}
		for k := range rows {
			h, f := &rows[k], &c.batchFlows[k]
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
		if l := &c.links[id].load; l.Flows > 0 {
			rows = append(rows, linkLoad{int32(id), number, *l})
		}
	}
	return loadTable.Write(loads, rows)
}

// RoundTripNS returns the round trip on a path without waits: of a full packet, and of its ACK on the way back.
func RoundTripNS(n *topology.Network, p *simkernel.Params, path []int32) (ns int64) {
	for _, id := range path {
		l := n.Links[id]
		ns += l.DelayNS + n.Links[topology.Reverse(id)].DelayNS + sendAndAckNS(p, n, l)
	}
	return ns
}

// SlowestHop returns the last hop of least bandwidth behind hop 0; 0 if the path has one hop only.
func SlowestHop(path []int32, bps func(link int32) int64) int {
	slowest := min(1, len(path)-1)
	for h := 2; h < len(path); h++ {
		if bps(path[h]) <= bps(path[slowest]) {
			slowest = h
		}
	}
	return slowest
}

// betweenPS returns the time per byte, in ps, of the links between hop 0 and a hop, as simkernel.Case.BetweenPS; for
// hop 0, between it and the slowest hop.
func betweenPS(path []int32, hop int, bps func(link int32) int64) int32 {
	if hop == 0 {
		hop = SlowestHop(path, bps)
	}
	var ps float64
	for h := 1; h < hop; h++ {
		ps += 8e12 / float64(bps(path[h]))
	}
	return int32(min(math.Round(ps), math.MaxInt32))
}

// slowestLinks returns the bandwidths of the slowest link before and of the slowest link behind a hop, as
// simkernel.Case.UpstreamBps and DownstreamBps; 0 where the link case need not know.
//
// A link matters where it is slower than the links that the case simulates: those space a flow's packets
// already. Before the hop this is the source, behind it the target. At hop 0 the slowest link counts even if it is as
// fast as the source, because waits before it move packets together.
func slowestLinks(path []int32, hop int, bps func(link int32) int64) (upstream, downstream int64) {
	if hop == 0 {
		if slowest := SlowestHop(path, bps); slowest > 0 {
			downstream = bps(path[slowest])
		}
		return 0, downstream
	}
	slower := func(links []int32, than int64) (slowest int64) {
		for _, link := range links {
			if b := bps(link); b < than {
				than, slowest = b, b
			}
		}
		return slowest
	}
	return slower(path[1:hop], bps(path[0])), slower(path[hop+1:], bps(path[hop]))
}

// LinkLoad is what one link carries: its flows, and the starts of the first and of the last of them.
type LinkLoad struct {
	Flows        int64 `col:"flows"`
	Bytes        int64 `col:"bytes"`
	Packets      int64 `col:"packets"`
	FirstStartNS int64 `col:"first_start_ns"`
	LastStartNS  int64 `col:"last_start_ns"`
	// BothNS is the time in which the link and its reverse send, if each sends its flows one after the other
	// (Options.Simultaneous).
	BothNS int64 `col:"both_ns"`
}

// BusyNS returns the time in which a link of a bandwidth sends what it carries, with headers.
func (x *LinkLoad) BusyNS(bps int64, p *simkernel.Params) float64 {
	return float64(x.Bytes+x.Packets*p.HeaderBytes) * 8e9 / float64(bps)
}

func (x *LinkLoad) add(y LinkLoad) {
	if x.Flows == 0 {
		x.FirstStartNS, x.LastStartNS = y.FirstStartNS, y.LastStartNS
	}
	x.Flows += y.Flows
	x.Bytes += y.Bytes
	x.Packets += y.Packets
	x.BothNS += y.BothNS
	x.FirstStartNS = min(x.FirstStartNS, y.FirstStartNS)
	x.LastStartNS = max(x.LastStartNS, y.LastStartNS)
}

// Loads is what every link carries, by link id, and the time from the first start to the last.
type Loads struct {
	Links                     []LinkLoad
	FirstStartNS, LastStartNS int64
	Simultaneous              bool // BothNS is known, and not 0 everywhere

	// The link that needs the longest time to send the bytes that it carries, and its bandwidth.
	busiest    LinkLoad
	busiestBps int64
}

// ReadLoads reads table link_loads and adds up the rows of all chunks. A link id that the topology does not have
// is an error.
func ReadLoads(n *topology.Network, in schema.Batches) (*Loads, error) {
	l := &Loads{Links: make([]LinkLoad, len(n.Links)), FirstStartNS: math.MaxInt64, LastStartNS: math.MinInt64}
	err := columns.Each(in, func(r *linkLoad) error {
		if r.LinkID < 0 || int(r.LinkID) >= len(l.Links) {
			return fmt.Errorf("link_loads: link %d is not in the topology, which has %d links", r.LinkID, len(l.Links))
		}
		l.Links[r.LinkID].add(r.LinkLoad)
		l.Simultaneous = l.Simultaneous || r.BothNS > 0
		l.FirstStartNS, l.LastStartNS = min(l.FirstStartNS, r.FirstStartNS), max(l.LastStartNS, r.LastStartNS)
		return nil
	})
	for id, x := range l.Links {
		bps := n.Links[id].BandwidthBps
		if l.busiestBps == 0 || float64(x.Bytes)*float64(l.busiestBps) > float64(l.busiest.Bytes)*float64(bps) {
			l.busiest = x
			l.busiestBps = bps
		}
	}
	return l, err
}

// Totals adds up the links: flows that have a path, and packets × links crossed.
func (l *Loads) Totals(n *topology.Network) (flows, packetHops int64) {
	for id, x := range l.Links {
		if n.FromHost(int32(id)) { // the first of a path, since hosts do not forward
			flows += x.Flows
		}
		packetHops += x.Packets
	}
	return flows, packetHops
}

// Load returns the link's offered load, as the paper measures it: the bytes of its flows, without headers,
// relative to its capacity from the workload's first start to its last; 0 if these are the same.
func (l *Loads) Load(link topology.Link) float64 {
	span := l.LastStartNS - l.FirstStartNS
	if x := l.Links[link.ID]; x.Flows+x.Packets == 0 || span <= 0 {
		return 0
	}
	return float64(l.Links[link.ID].Bytes) * 8e9 / float64(span) / float64(link.BandwidthBps)
}

// ReportedLoad is column load of a link: Load, or that of a burst. If all flows start at the same time, the load is over
// the time in which the busiest link sends what it carries, with headers. The flows live at least that long.
func (l *Loads) ReportedLoad(p *simkernel.Params, link topology.Link) float64 {
	x := l.Links[link.ID]
	if l.LastStartNS > l.FirstStartNS || x.Flows+x.Packets == 0 || l.busiestBps == 0 {
		return l.Load(link)
	}
	return float64(x.Bytes) * 8e9 / l.busiest.BusyNS(l.busiestBps, p) / float64(link.BandwidthBps)
}

// minAvailable is the least fraction of a link's bandwidth that ACKs leave to data. ACKs of one-byte packets take
// more bandwidth than the packets; in the network they would then slow the reverse direction, which a link case
// does not model. The minimum keeps such a case solvable.
const minAvailable = 0.1

// AvailableBps returns the link's bandwidth less that of the ACKs on it: one ACK for each packet of the flows on the
// reverse link, which come while that sends. It is their mean rate (paper, §3.2, "Correcting for ACK traffic"): the
// flows of the reverse link are spread from the first start to the last, but not sent faster than it can. Where BothNS
// is known, ACKs come in the part of the time in which the link sends while the reverse one sends data and ACKs, too.
// Both directions of a cable have the same bandwidth.
func (l *Loads) AvailableBps(p *simkernel.Params, link topology.Link) int64 {
	reverse := &l.Links[topology.Reverse(link.ID)]
	if reverse.Flows+reverse.Packets == 0 {
		return link.BandwidthBps
	}
	bps := float64(link.BandwidthBps)
	busyNS := reverse.BusyNS(link.BandwidthBps, p)
	if l.Simultaneous {
		own := l.Links[link.ID].BusyNS(link.BandwidthBps, p)
		acks := float64(reverse.Packets*p.AckBytes) / (float64(reverse.Bytes + reverse.Packets*(p.HeaderBytes+p.AckBytes)))
		return max(simkernel.MinBps, int64(bps*(1-acks*float64(reverse.BothNS)/max(1, own))))
	}
	share := busyNS / max(1, busyNS, float64(reverse.LastStartNS-reverse.FirstStartNS)) // of the time, in which it sends
	ackBps := math.Round(float64(reverse.Packets*p.AckBytes) * 8e9 / busyNS * share)
	return max(simkernel.MinBps, int64(max(bps-ackBps, bps*minAvailable)))
}

// Stat returns the row of a link in table link_stats. Counters are zero for a link without flows.
func (l *Loads) Stat(p *simkernel.Params, link topology.Link, counters tables.LinkCounters) tables.LinkStat {
	x := &l.Links[link.ID]
	return tables.LinkStat{
		LinkID: link.ID, SrcNode: link.Src, DstNode: link.Dst, Tier: link.Tier,
		BandwidthBps: link.BandwidthBps, AvailableBps: l.AvailableBps(p, link),
		Flows: x.Flows, Bytes: x.Bytes, Packets: x.Packets, Load: l.ReportedLoad(p, link), LinkCounters: counters,
	}
}
