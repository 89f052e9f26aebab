package stages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// ExactOptions bound a whole-network simulation.
type ExactOptions struct {
	// Domains are simulated at once, a goroutine each; the result does not depend on them.
	Domains int
	// Flows that start in [FromNS, ToNS) are reported; those up to WarmupNS before FromNS are
	// simulated too, so that the first reported flow finds queues in place. ToNS 0: no bound.
	FromNS, ToNS, WarmupNS int64
	AllowUnreachable       bool
	// Buffer is what switches have to hold packets in; its zero value: without end. With an end the
	// simulation has one domain.
	Buffer simkernel.BufferParams
}

// ExactStats counts what a whole-network simulation did.
type ExactStats struct {
	Flows       int64 // reported
	Warmup      int64 // simulated but not reported
	Unreachable int64
	PacketHops  int64 // packets × links crossed, of all simulated flows
	// No switch ever held more bytes than this one: what its buffer held at the most or, where buffers
	// have no end, an upper bound, the deepest queues of its ports added up, whenever each was that deep.
	DeepestSwitch      int32
	DeepestSwitchBytes int64
	Losses             simkernel.Losses // with finite buffers
	MostDroppedLink    int32            // where most packets were dropped; of no meaning if none were
	MostDropped        int64
}

// Exact simulates every packet of every flow through every hop of its path, the path that Route
// chose, and writes table exact_fcts, in order of completion, and exact_hops, what each flow waited
// at each hop. It is the truth that estimates are measured against (simkernel.Network says what is
// modelled). Memory follows the flows in the network, not the trace. progress, if not nil, is told
// the packet-hops of flows as they finish.
func Exact(ctx context.Context, n *topology.Network, r *topology.Router, p simkernel.Params, flows schema.Batches, o ExactOptions, fcts, hops schema.Sink, progress func(int64)) (ExactStats, error) {
	x := &exact{ctx: ctx, net: n, router: r, params: p, in: flows, o: o, fcts: fcts, hops: hops, progress: progress, active: map[int64]exactFlow{}}
	if x.o.ToNS == 0 {
		x.o.ToNS = math.MaxInt64
	}
	simulate := x.unbuffered
	if o.Buffer != (simkernel.BufferParams{}) {
		simulate = x.buffered
	}
	if err := simulate(); err != nil {
		return x.stats, err
	}
	if len(x.active) > 0 {
		return x.stats, fmt.Errorf("whole-network simulation: %d flows did not finish", len(x.active))
	}
	return x.stats, x.flush()
}

// unbuffered simulates switches that never drop.
func (x *exact) unbuffered() error {
	links, hosts, domains := x.engineTopology(x.o.Domains)
	engine, err := simkernel.NewNetwork(x.params, links, hosts, domains, x.more)
	if err != nil {
		return fmt.Errorf("whole-network simulation: %w", err)
	}
	if err := x.run(engine); err != nil {
		return err
	}
	x.deepest(engine)
	return nil
}

// buffered simulates switches with finite buffers.
func (x *exact) buffered() error {
	links, hosts, _ := x.engineTopology(1)
	engine, err := simkernel.NewBufferedNetwork(x.params, x.o.Buffer, links, hosts, x.more)
	if err != nil {
		return fmt.Errorf("whole-network simulation: %w", err)
	}
	err = engine.Run(func(r *simkernel.NetResults) error {
		return errors.Join(x.ctx.Err(), x.take(r))
	})
	if err != nil {
		return fmt.Errorf("whole-network simulation: %w", err)
	}
	for i, v := range x.net.Nodes {
		if held := engine.MostBytes(int32(i)); held > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch, x.stats.DeepestSwitchBytes = v.ID, held
		}
	}
	for _, l := range x.net.Links {
		if dropped := engine.Dropped(l.ID); dropped > x.stats.MostDropped {
			x.stats.MostDroppedLink, x.stats.MostDropped = l.ID, dropped
		}
	}
	x.stats.Losses = engine.Losses
	return nil
}

// deepest finds the switch that may have held most. A port's deepest queue is seen when a packet starts
// to be sent; one more can have been on the wire.
func (x *exact) deepest(engine *simkernel.Network) {
	held := map[int32]int64{}
	for _, l := range x.net.Links {
		if v, _ := x.net.Node(l.Src); v.Kind != topology.KindHost {
			if deepest := engine.Counters(l.ID).MaxQueueBytes; deepest > 0 {
				held[l.Src] += deepest + x.params.PayloadBytes + x.params.HeaderBytes
			}
		}
	}
	for _, v := range x.net.Nodes { // in the order of ids, so that ties fall the same way
		if held[v.ID] > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch, x.stats.DeepestSwitchBytes = v.ID, held[v.ID]
		}
	}
}

// exactFlow is what the engine does not keep of a flow in the network.
type exactFlow struct {
	row, id, size, start int64
	path                 []int32
}

type exact struct {
	ctx        context.Context
	net        *topology.Network
	router     *topology.Router
	params     simkernel.Params
	in         schema.Batches
	o          ExactOptions
	fcts, hops schema.Sink
	progress   func(int64)
	stats      ExactStats

	row   int64 // rows of table flows read
	taken int64 // flows given to the engine
	// The engine counts time from the first flow: a trace may count it from 1970.
	originNS int64
	active   map[int64]exactFlow
	outFCT   exactColumns
	outHops  exactHopColumns
}

// engineTopology is the network as the engine takes it: node places instead of ids.
func (x *exact) engineTopology(parts int) (links []simkernel.NetLink, hosts []bool, domains []int32) {
	place := make(map[int32]int32, len(x.net.Nodes))
	hosts = make([]bool, len(x.net.Nodes))
	for i, v := range x.net.Nodes {
		place[v.ID], hosts[i] = int32(i), v.Kind == topology.KindHost
	}
	for _, l := range x.net.Links {
		links = append(links, simkernel.NetLink{SrcNode: place[l.Src], DstNode: place[l.Dst], BandwidthBps: l.BandwidthBps, DelayNS: l.DelayNS})
	}
	if parts > 1 {
		domains = simkernel.PartitionNodes(links, hosts, parts)
	}
	return links, hosts, domains
}

// run steps the engine from window to window. A domain has a goroutine of its own, which works
// while the others do and waits while the engine advances. A window is a microsecond of simulated
// time and some ten of real time, far too short to sleep in between: the goroutines spin, and give
// their core away when that takes long.
func (x *exact) run(engine *simkernel.Network) error {
	var window, done atomic.Int64 // windows begun; domains that have finished the present one
	const stop = math.MaxInt64
	var wg sync.WaitGroup
	for d := 1; d < engine.Domains(); d++ {
		wg.Go(func() {
			for w := int64(1); ; w++ {
				for spin := 0; window.Load() < w; spin++ {
					pause(spin)
				}
				if window.Load() == stop {
					return
				}
				engine.RunDomain(d)
				done.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer window.Store(stop)
	for step := int64(1); ; step++ {
		more, err := engine.Advance()
		if err != nil {
			return fmt.Errorf("whole-network simulation: %w", err)
		}
		if err := x.take(&engine.Results); err != nil || !more {
			return err
		}
		if step%1024 == 0 {
			if err := x.ctx.Err(); err != nil {
				return err
			}
		}
		done.Store(0)
		window.Store(step)
		engine.RunDomain(0)
		for spin := 0; done.Load() < int64(engine.Domains()-1); spin++ {
			pause(spin)
		}
	}
}

// pause waits a moment in a spin loop, after a while by giving the core to whoever wants it.
func pause(spin int) {
	if spin%64 == 63 {
		runtime.Gosched()
	}
}

// more gives the engine the next batch of flows that are to be simulated.
func (x *exact) more() (*simkernel.NetFlows, error) {
	for {
		rec, err := x.in.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		chunk, err := x.chunk(columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"))
		rec.Release()
		if err != nil || len(chunk.SizeBytes) > 0 {
			return chunk, err
		}
	}
}

func (x *exact) chunk(id []int64, src, dst []int32, size, start []int64) (*simkernel.NetFlows, error) {
	chunk := &simkernel.NetFlows{}
	var path []int32
	for i := range id {
		row := x.row
		x.row++
		if start[i] < x.o.FromNS-x.o.WarmupNS || start[i] >= x.o.ToNS {
			continue
		}
		var err error
		path, err = x.router.Path(id[i], src[i], dst[i], path)
		var unreachable *topology.UnreachableError
		if errors.As(err, &unreachable) && x.o.AllowUnreachable {
			x.stats.Unreachable++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("flow %d: %w", id[i], err)
		}
		if x.taken == 0 {
			x.originNS = start[i]
		}
		chunk.SizeBytes, chunk.StartNS = append(chunk.SizeBytes, size[i]), append(chunk.StartNS, start[i]-x.originNS)
		chunk.Key = append(chunk.Key, uint64(row))
		chunk.PathLinks = append(chunk.PathLinks, path...)
		chunk.PathEnds = append(chunk.PathEnds, int32(len(chunk.PathLinks)))
		x.active[x.taken] = exactFlow{row, id[i], size[i], start[i], chunk.PathLinks[len(chunk.PathLinks)-len(path):]}
		x.taken++
	}
	return chunk, nil
}

// take writes what has finished.
func (x *exact) take(r *simkernel.NetResults) error {
	from := int32(0)
	for i, row := range r.Row {
		f, to := x.active[row], r.HopEnds[i]
		delete(x.active, row)
		packetHops := x.params.Packets(f.size) * int64(len(f.path))
		x.stats.PacketHops += packetHops
		if x.progress != nil {
			x.progress(packetHops)
		}
		if f.start < x.o.FromNS {
			x.stats.Warmup++
		} else {
			x.stats.Flows++
			x.outFCT.append(f, r.FCTNS[i], r.IdealNS[i])
			for h := from; h < to; h++ {
				x.outHops.append(f, h-from, r.WaitNS[h], r.LastWaitNS[h])
			}
		}
		from = to
	}
	r.Reset()
	if len(x.outFCT.row) < columns.BatchRows && len(x.outHops.row) < columns.BatchRows {
		return nil
	}
	return x.flush()
}

func (x *exact) flush() error {
	if err := x.outFCT.flush(x.fcts); err != nil {
		return err
	}
	return x.outHops.flush(x.hops)
}

// exactColumns are the rows of table exact_fcts under construction.
type exactColumns struct {
	id, row, size, start, fct, ideal []int64
	hops                             []int16
	slowdown                         []float64
}

func (c *exactColumns) append(f exactFlow, fctNS, idealNS int64) {
	c.id, c.row, c.size, c.start = append(c.id, f.id), append(c.row, f.row), append(c.size, f.size), append(c.start, f.start)
	c.fct, c.ideal, c.hops = append(c.fct, fctNS), append(c.ideal, idealNS), append(c.hops, int16(len(f.path)))
	c.slowdown = append(c.slowdown, float64(fctNS)/float64(idealNS))
}

func (c *exactColumns) flush(out schema.Sink) error {
	if len(c.row) == 0 {
		return nil
	}
	err := columns.Write(out, schema.ExactFCTs, len(c.row), columns.Of(c.id), columns.Of(c.row), columns.Of(c.size), columns.Of(c.start), columns.Of(c.hops), columns.Of(c.ideal), columns.Of(c.fct), columns.Of(c.slowdown))
	c.id, c.row, c.size, c.start, c.fct, c.ideal = c.id[:0], c.row[:0], c.size[:0], c.start[:0], c.fct[:0], c.ideal[:0]
	c.hops, c.slowdown = c.hops[:0], c.slowdown[:0]
	return err
}

// exactHopColumns are the rows of table exact_hops under construction.
type exactHopColumns struct {
	row, wait, last []int64
	hop             []int16
	link            []int32
}

func (c *exactHopColumns) append(f exactFlow, hop int32, waitNS, lastWaitNS int64) {
	c.row, c.hop, c.link = append(c.row, f.row), append(c.hop, int16(hop)), append(c.link, f.path[hop])
	c.wait, c.last = append(c.wait, waitNS), append(c.last, lastWaitNS)
}

func (c *exactHopColumns) flush(out schema.Sink) error {
	if len(c.row) == 0 {
		return nil
	}
	err := columns.Write(out, schema.ExactHops, len(c.row), columns.Of(c.row), columns.Of(c.hop), columns.Of(c.link), columns.Of(c.wait), columns.Of(c.last))
	c.row, c.hop, c.link, c.wait, c.last = c.row[:0], c.hop[:0], c.link[:0], c.wait[:0], c.last[:0]
	return err
}
