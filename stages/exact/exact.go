// Package exact is the estimator that simulates every packet of every flow over all hops of its path.
//
// It adds no error, but one simulation cannot be divided into link cases. On many cores, it takes
// longer than a few passes of link cases.
package exact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// Options control a simulation of the whole network.
type Options struct {
	// Workers is the number of goroutines that simulate parts of the network at the same time, or 0 for one
	// per processor. The result does not depend on it.
	Workers int
	// Counts selects the flows that are reported, by their start. The simulation ends when these have
	// finished, even if other flows have not. If Counts is nil, all flows are reported.
	Counts func(startNS int64) bool
	// EndNS, if not 0, is the latest time at which the simulation ends. Tables.Left receives the flows that
	// have not finished.
	EndNS int64
	// Dependencies opens table dependencies, sorted by flow_row, of a workload with Flows flows. If it is
	// nil, no flow waits for others. Otherwise all flows are simulated and reported, and each flow has a path
	// or is a compute step.
	Dependencies func() schema.Batches
	Flows        int64
	// Loads has the load of each link. Only table link_stats needs it.
	Loads *route.Loads
	// Progress, if not nil, is called with the number of packet-hops simulated since the last call.
	Progress func(packetHops int64)
}

func (o *Options) reports(startNS int64) bool {
	return o.Counts == nil || o.Counts(startNS)
}

// Tables are the tables that a simulation of the whole network writes.
type Tables struct {
	FCTs, Hops schema.Sink // exact_fcts and exact_hops; Hops may be nil
	Links      schema.Sink // link_stats, or nil
	Classes    schema.Sink // link_classes, or nil
	Slots      schema.Sink // link_slots, or nil
	// Report, if not nil, receives the rows, as in table slowdowns, instead of FCTs. They are valid until it
	// returns. Background flows have none.
	Report func(rows []tables.SlowdownRow) error
	// Left receives each flow that has not finished at EndNS.
	Left func(f LeftFlow)
}

// A LeftFlow is a flow that has not finished. Its row has no FCT.
type LeftFlow struct {
	tables.SlowdownRow
	Connection int64 // determines the path
	Background bool  // no row of the flow is reported
	Bytes      int64 // not acknowledged yet
}

// Stats counts the work of a simulation of the whole network.
type Stats struct {
	Flows       int64 `json:"flows"` // reported
	Unreachable int64 `json:"unreachable"`
	PacketHops  int64 `json:"packet_hops"` // packets × links crossed, of all simulated flows
	LastEndNS   int64 `json:"last_end_ns"` // of the reported flows
	// Of the reported flows, if senders recover from losses.
	Retransmissions int64 `json:"retransmissions"`
	Reordered       int64 `json:"reordered"`

	// The switch that held the most bytes at a time. With a limited buffer this is the largest occupancy of
	// the buffer. Otherwise it is an upper bound: the sum of the longest queues of its ports.
	DeepestSwitch      int32 `json:"deepest_switch"`
	DeepestSwitchBytes int64 `json:"deepest_switch_bytes"`

	// Set if buffers are limited or paths change.
	Losses          network.Losses `json:"losses"`
	MostDroppedLink int32          `json:"most_dropped_link"` // meaningless if MostDropped is 0
	MostDropped     int64          `json:"most_dropped"`
	PausedNS        int64          `json:"paused_ns"` // sum over the links
}

type classRow struct {
	LinkID   int32  `col:"link_id"`
	Class    string `col:"class"`
	Marks    int64  `col:"marks"`
	Drops    int64  `col:"drops"`
	PausedNS int64  `col:"paused_ns"`
}

type slotRow struct {
	LinkID int32   `col:"link_id"`
	FromNS int64   `col:"from_ns"`
	ToNS   int64   `col:"to_ns"`
	Bytes  int64   `col:"bytes"`
	Load   float64 `col:"load"`
}

type hopRow struct {
	FlowRow       int64 `col:"flow_row"`
	Hop           int16 `col:"hop"`
	LinkID        int32 `col:"link_id"`
	WaitNS        int64 `col:"wait_ns"`
	LastWaitNS    int64 `col:"last_wait_ns"`
	PacketsMarked int32 `col:"packets_marked"`
}

var (
	fctTable   = columns.TableOf[tables.SlowdownRow](schema.ExactFCTs)
	hopTable   = columns.TableOf[hopRow](schema.ExactHops)
	classTable = columns.TableOf[classRow](schema.LinkClasses)
	slotTable  = columns.TableOf[slotRow](schema.LinkSlots)
)

// Simulate simulates every packet of every flow over all hops of the path that the router chooses. It writes
// table exact_fcts, in the order in which flows finish, and table exact_hops, which has the waits of each
// flow at each hop. Other estimates are compared with its result, and estimator exact reports it.
// network.Network lists the mechanisms.
//
// flows is table flows in start order. Memory grows with the number of flows that are active at the same
// time, not with the workload.
func Simulate(ctx context.Context, m *step.Model, flows schema.Batches, o Options, out Tables) (
	Stats, error) {
	x := &simulation{
		model: m, net: m.Network, params: m.Params, in: flows, options: o, out: out,
		waitNS: make([]simkernel.Sum, len(m.Network.Links)), alone: slowdown.NewWriter(m),
	}
	if o.Dependencies != nil {
		var err error
		if x.waits, err = newDependencies(o.Dependencies, o.Flows); err != nil {
			return x.stats, err
		}
	}
	err := x.simulate(ctx)
	ended := errors.Is(err, errCounted)
	if err != nil && !ended {
		return x.stats, fmt.Errorf("whole-network simulation: %w", err)
	}
	if o.EndNS != 0 && !ended {
		x.engine.Left(func(row int64, tag int32, idealNS, bytes int64) {
			f := &x.flows[tag]
			if f.number == row { // otherwise its last packet was delivered
				left := LeftFlow{f.slowdown(), f.connection, f.background, bytes}
				left.IdealNS = idealNS
				left.WindowNS = x.alone.WindowNS(f.path, f.size)
				x.out.Left(left)
			}
		})
		ended = true
	}
	active := len(x.flows) - len(x.free)
	if active > 0 && !ended {
		return x.stats, fmt.Errorf("whole-network simulation: %d flows did not finish", active)
	}
	if err = x.flush(); err == nil && out.Links != nil {
		err = x.writeLinks()
	}
	if err == nil && out.Classes != nil {
		err = x.writeClasses()
	}
	if err == nil && out.Slots != nil {
		err = x.writeSlots()
	}
	return x.stats, err
}

// A simulation is one run of Simulate. The engine numbers flows in the order in which it receives them, and
// counts time from the start of the first flow.
type simulation struct {
	net     *topology.Network
	model   *step.Model
	params  simkernel.Params
	in      schema.Batches
	options Options
	out     Tables
	stats   Stats

	waits    *dependencyReader // nil: no flow waits for others
	classOf  func(f *workload.Row) uint8
	routes   *moves.Routes  // nil: paths do not change
	first    *network.Flows // chunk that was read before the simulation, or nil
	row      int64          // rows of table flows that have been read
	started  int64          // flows that the engine has received
	originNS int64
	alone    *slowdown.Writer // computes the delay of windows without other flows
	batch    arrow.Record     // current batch of table flows; nil before the first
	read     []workload.Row   // all rows of the batch
	rows     []workload.Row   // rows of the batch that the engine has not received
	chunk    network.Flows
	flows    []activeFlow // by tag; only nextFlows appends

	mu                     sync.Mutex // protects the fields below: flows are read while results arrive
	free                   []int32    // tags that no flow uses
	awaited                int        // flows that have been read, must be reported and have not finished
	allRead                bool
	waitNS                 []simkernel.Sum // by link: sum of the waits of its packets
	engine                 *network.Network
	items, finished, shown int64 // see show
	outFCT                 []tables.SlowdownRow
	outHops                []hopRow
}

// An activeFlow has what the engine does not store about a flow in the network.
type activeFlow struct {
	number               int64 // of the engine
	row, id, size, start int64
	path                 []int32
	src, dst             int32
	connection           int64
	background           bool
	labels               workload.Labels // if Tables.Report is set
}

// reports reports whether a flow has a row in the results.
func (x *simulation) reports(f *activeFlow) bool {
	return x.options.reports(f.start) && (x.out.Report == nil || !f.background)
}

// slowdown returns the flow's row without the results of the simulation.
func (f *activeFlow) slowdown() tables.SlowdownRow {
	return tables.SlowdownRow{FlowID: f.id, FlowRow: f.row, Src: f.src, Dst: f.dst, Labels: f.labels,
		SizeBytes: f.size, StartNS: f.start, Hops: int16(len(f.path))}
}

// nextFlows returns the next flows to simulate, or nil after the last. They are valid until the next call.
func (x *simulation) nextFlows() (*network.Flows, error) {
	first := x.first
	if first != nil {
		x.first = nil
		return first, nil
	}
	for {
		if len(x.rows) == 0 {
			x.release()
			rows, rec, err := columns.Next(x.in, x.read)
			if errors.Is(err, io.EOF) {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.allRead = true
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			x.batch = rec
			x.read = rows
			x.rows = rows
		}
		rows := x.rows[:min(tables.SmallBatch, len(x.rows))]
		x.rows = x.rows[len(rows):]
		if chunk, err := x.flowsOf(rows); err != nil || len(chunk.SizeBytes) > 0 {
			return chunk, err
		}
	}
}

// release releases the current batch of flows.
func (x *simulation) release() {
	if x.batch != nil {
		x.batch.Release()
		x.batch = nil
	}
}

// flowsOf returns the flows of a batch that have a path. They are valid until the next call.
func (x *simulation) flowsOf(batch []workload.Row) (*network.Flows, error) {
	c := &x.chunk
	*c = network.Flows{SizeBytes: c.SizeBytes[:0], StartNS: c.StartNS[:0], PathEnds: c.PathEnds[:0],
		PathLinks: c.PathLinks[:0], Key: c.Key[:0], Class: c.Class[:0], Tag: c.Tag[:0]}
	tags := x.newTags(c.Tag, len(batch))
	reported := 0
	packetHops := int64(0)
	for i := range batch {
		f := &batch[i]
		row := x.row
		x.row++
		begin := len(c.PathLinks)
		routed, err := x.addPath(c, f)
		if err != nil {
			return nil, fmt.Errorf("flow %d: %w", f.ID, err)
		}
		if !routed {
			x.stats.Unreachable++
			continue
		}
		of := &x.flows[tags[len(c.Tag)]]
		c.Tag = tags[:len(c.Tag)+1]
		path := c.PathLinks[begin:]
		*of = activeFlow{
			number: x.started, row: row, id: f.ID, size: f.SizeBytes, start: f.StartNS, src: f.Src, dst: f.Dst,
			path: append(of.path[:0], path...), connection: f.Connection, background: f.Background,
		}
		if x.out.Report != nil {
			of.labels = f.Labels.Clone()
		}
		if err := x.addFlow(c, f, row); err != nil {
			return nil, err
		}
		packetHops += x.params.Packets(f.SizeBytes) * int64(len(path))
		if x.reports(of) {
			reported++
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.free = append(x.free, tags[len(c.Tag):]...)
	x.awaited += reported
	x.stats.PacketHops += packetHops
	return c, nil
}

// addPath appends the links of a flow's path to the chunk. A step of computation has none. routed is false if
// the flow has no path and the model counts such flows.
func (x *simulation) addPath(c *network.Flows, f *workload.Row) (routed bool, err error) {
	if x.waits != nil && route.ComputeStep(f.Src, f.Dst, f.SizeBytes) {
		return true, nil
	}
	begin := len(c.PathLinks)
	c.PathLinks, err = x.model.Router.Path(f.Connection, f.Src, f.Dst, c.PathLinks)
	if x.model.Unreachable == step.CountUnreachable && x.waits == nil && route.IsUnreachable(err) {
		return false, nil
	}
	if err != nil || x.routes == nil || len(c.PathLinks) == begin {
		return true, err
	}
	_, ends := x.routes.Last().Path(f.Connection, f.Src, f.Dst, nil)
	if ends != nil {
		err = fmt.Errorf("with the cables that go down and stay down it would never end: %w", ends)
	}
	return true, err
}

// addFlow appends a flow whose path is in the chunk.
func (x *simulation) addFlow(c *network.Flows, f *workload.Row, row int64) error {
	if x.started == 0 {
		x.originNS = f.StartNS
	}
	x.started++
	c.SizeBytes = append(c.SizeBytes, f.SizeBytes)
	c.StartNS = append(c.StartNS, f.StartNS-x.originNS)
	c.Key = append(c.Key, uint64(row))
	c.Class = append(c.Class, x.classOf(f))
	c.PathEnds = append(c.PathEnds, int32(len(c.PathLinks)))
	if x.waits == nil {
		return nil
	}
	return x.waits.add(c, row)
}

// newTags appends n tags that no flow uses and removes them from the free ones.
func (x *simulation) newTags(tags []int32, n int) []int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.free) < n {
		x.free = append(x.free, int32(len(x.flows)))
		x.flows = append(x.flows, activeFlow{})
	}
	rest := len(x.free) - n
	tags = append(tags, x.free[rest:]...)
	x.free = x.free[:rest]
	return tags
}

func (x *simulation) take(r *network.Results) error {
	finished := int64(0)
	x.mu.Lock()
	from := int32(0)
	for i, tag := range r.Tag {
		f := &x.flows[tag]
		to := r.HopEnds[i]
		for h := from; h < to; h++ {
			x.waitNS[f.path[h-from]].Add(r.WaitNS[h])
		}
		finished += x.params.Packets(f.size) * int64(len(f.path))
		if x.reports(f) {
			x.awaited--
			x.stats.Flows++
			row := f.slowdown()
			row.StartNS = x.originNS + r.StartNS[i]
			row.IdealNS = r.IdealNS[i]
			row.FCTNS = r.FCTNS[i]
			row.Slowdown = 1
			row.Retransmissions = r.Again[i]
			row.Reordered = r.Reordered[i]
			x.stats.Retransmissions += int64(r.Again[i])
			x.stats.Reordered += int64(r.Reordered[i])
			if len(f.path) > 0 {
				row.WindowNS = min(x.alone.WindowNS(f.path, f.size), row.FCTNS-row.IdealNS)
				row.Slowdown = float64(row.FCTNS) / float64(row.IdealNS)
			}
			x.stats.LastEndNS = max(x.stats.LastEndNS, row.StartNS+row.FCTNS)
			x.outFCT = append(x.outFCT, row)
			for h := from; h < to && x.out.Hops != nil; h++ {
				x.outHops = append(x.outHops, hopRow{f.row, int16(h - from), f.path[h-from], r.WaitNS[h], r.LastWaitNS[h],
					r.Marks[h]})
			}
		}
		f.number = -1
		from = to
	}
	x.free = append(x.free, r.Tag...)
	ended := x.options.Counts != nil && x.allRead && x.awaited == 0
	x.mu.Unlock()
	x.show(0, finished)
	if ended {
		return errCounted
	}
	if len(x.outFCT) < tables.SmallBatch && len(x.outHops) < tables.SmallBatch {
		return nil
	}
	return x.flush()
}

// show updates the progress. items is the number of items that the engine has simulated, two per packet-hop:
// a packet, and its ACK on the way back. finished is the number of packet-hops of flows that have finished.
// Without items, the progress bar does not move until the first large flow finishes.
func (x *simulation) show(items, finished int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items = x.items + items
	x.finished = x.finished + finished
	now := max(x.finished, min(x.items/2, x.stats.PacketHops))
	if x.options.Progress != nil && now > x.shown {
		x.options.Progress(now - x.shown)
		x.shown = now
	}
}

// errCounted ends a simulation once all flows that count have finished.
var errCounted = errors.New("all flows that count have finished")

func (x *simulation) flush() error {
	report := x.out.Report
	if report == nil {
		report = func(rows []tables.SlowdownRow) error { return fctTable.Write(x.out.FCTs, rows) }
	}
	err := report(x.outFCT)
	if err == nil && x.out.Hops != nil {
		err = hopTable.Write(x.out.Hops, x.outHops)
	}
	x.outFCT = x.outFCT[:0]
	x.outHops = x.outHops[:0]
	return err
}

// writeLinks writes table link_stats: what each link carried, and its queue. It covers data packets only. If
// paths change, it counts packets where they were sent.
func (x *simulation) writeLinks() error {
	var rows []tables.LinkStat
	loads := x.options.Loads
	if x.waits != nil { // the offered load depends on what the network delivers
		loads.LastStartNS = x.stats.LastEndNS
	}
	for i := range loads.Links {
		if x.routes == nil {
			break
		}
		m := x.engine.Traffic(int32(i))
		l := &loads.Links[i]
		l.Packets = m.Sent
		l.Bytes = -m.Sent * x.params.HeaderBytes
		for _, bytes := range m.SentBytes {
			l.Bytes += bytes
		}
		if l.Flows == 0 {
			l.FirstStartNS = loads.FirstStartNS
			l.LastStartNS = loads.LastStartNS
		}
	}
	for _, l := range x.net.Links {
		carried := &loads.Links[l.ID]
		waitNS := x.waitNS[l.ID].Float64()
		c := tables.LinkCounters{}
		if carried.Packets > 0 {
			queue := x.engine.Counters(l.ID)
			busyNS := int64(carried.BusyNS(l.BandwidthBps, &x.params))
			if x.routes != nil {
				waitNS, busyNS = x.engine.Traffic(l.ID).WaitNS, x.engine.Traffic(l.ID).BusyNS
			}
			c = tables.LinkCounters{
				PacketsSent: carried.Packets, PacketsMarked: queue.PacketsMarked, BusyNS: busyNS,
				MaxQueueBytes:    queue.MaxQueueBytes,
				MeanQueuePackets: waitNS / float64(max(1, busyNS)), // Little's law, as in linksim.Simulator
				MeanWaitNS:       waitNS / float64(carried.Packets),
			}
			if queue.MaxQueueBytes > 0 {
				c.MaxQueueAtNS = x.originNS + queue.MaxQueueAtNS
			}
		}
		row := loads.Stat(&x.params, l, c)
		row.Drops, row.PausedNS = x.engine.Dropped(l.ID), x.engine.PausedNS(l.ID)
		rows = append(rows, row)
	}
	return tables.LinkStats.Write(x.out.Links, rows)
}

func (x *simulation) writeClasses() error {
	var rows []classRow
	for _, l := range x.net.Links {
		for i, c := range x.model.Classes {
			marked, dropped := x.engine.CountersOf(l.ID, i)
			rows = append(rows, classRow{l.ID, c.Name, marked, dropped, x.engine.PausedOf(l.ID, i)})
		}
	}
	return classTable.Write(x.out.Classes, rows)
}

// writeSlots writes table link_slots. All links use the slots of the link whose slots are longest.
func (x *simulation) writeSlots() error {
	slotNS := int64(0)
	for _, l := range x.net.Links {
		slotNS = max(slotNS, x.engine.Traffic(l.ID).SlotNS)
	}
	var rows []slotRow
	for _, l := range x.net.Links {
		m := x.engine.Traffic(l.ID)
		sums := [network.LoadSlots]int64{}
		for i, bytes := range m.SentBytes {
			sums[int64(i)*m.SlotNS/slotNS] += bytes
		}
		for i, bytes := range sums {
			fromNS := x.originNS + int64(i)*slotNS
			if bytes > 0 {
				rows = append(rows, slotRow{l.ID, fromNS, fromNS + slotNS, bytes,
					float64(bytes) * 8e9 / float64(slotNS) / float64(l.BandwidthBps)})
			}
		}
	}
	return slotTable.Write(x.out.Slots, rows)
}

func (x *simulation) simulate(ctx context.Context) error {
	engine, classOf, err := newEngine(x.model, x.nextFlows)
	if err != nil {
		return err
	}
	defer x.release()
	x.engine = engine
	x.classOf = classOf
	engine.Progress = func(items int64) { x.show(items, 0) }
	m := x.model.Moves
	if m.Whole() {
		if x.routes, err = m.NewRoutes(ctx, x.model.Router, x.model.Seed); err != nil {
			return err
		}
	}
	if m.Whole() || x.options.EndNS != 0 { // times of the engine begin with the first flow
		if x.first, err = x.nextFlows(); err != nil {
			return err
		}
	}
	if x.options.EndNS != 0 {
		engine.EndNS = max(1, x.options.EndNS-x.originNS)
	}
	if m.Whole() {
		engine.Forward(m.Engine(x.net, x.routes, x.model.Seed, x.originNS))
	}
	if x.waits != nil {
		engine.WaitFor()
	}
	if err := engine.Run(ctx, cmp.Or(x.options.Workers, runtime.GOMAXPROCS(0)), x.take); err != nil {
		return err
	}
	x.stats.Losses = engine.Losses()
	x.findDeepest(engine)
	if x.model.Buffers.IsZero() {
		return nil
	}
	for _, l := range x.net.Links {
		dropped := engine.Dropped(l.ID)
		if dropped > x.stats.MostDropped {
			x.stats.MostDroppedLink = l.ID
			x.stats.MostDropped = dropped
		}
		x.stats.PausedNS += engine.PausedNS(l.ID)
	}
	return nil
}

// Check returns an error if Simulate cannot simulate flows with these loads, for example because a link has
// no delay.
func Check(m *step.Model, loads *route.Loads) error {
	span := loads.LastStartNS - loads.FirstStartNS
	if span > network.MaxNS {
		return fmt.Errorf("the flows start within %d s, more than %d", span/1e9, network.MaxNS/int64(1e9))
	}
	n := m.Network
	b := m.Buffers
	engine, _, err := newEngine(m, nil)
	if err != nil || !b.PFC {
		return withName(err, m)
	}
	links, hosts := engineTopology(n)
	for id, link := range links {
		l := n.Links[id]
		if !hosts[link.DstNode] && engine.Headroom(link) > b.SwitchBytes {
			return fmt.Errorf("%s (link %d, %d ns) sends %d bytes before a pause reaches it: PFC needs that "+
				"headroom, and the buffer is %d bytes; use a larger buffer, state a headroom (--set "+
				"switches.headroom=200KB), or leave out PFC (--pfc)",
				n.LinkName(l.ID), l.ID, l.DelayNS, engine.Headroom(link), b.SwitchBytes)
		}
	}
	return nil
}

// Rooms returns the buffer space, in bytes, that each link has in its switch, by link id
// (network.Network.Rooms). It returns nil if buffers are unlimited or the whole network cannot be simulated.
func Rooms(m *step.Model) []int64 {
	if m.Buffers.IsZero() {
		return nil
	}
	engine, err := withoutClasses(m)
	if err != nil {
		return nil
	}
	return engine.Rooms()
}

// withoutClasses returns a simulation of the model with a single queue at each port.
func withoutClasses(m *step.Model) (*network.Network, error) {
	one := *m
	one.Classes = nil
	engine, _, err := newEngine(&one, nil)
	return engine, err
}

// shortfalls returns the switches whose buffers are smaller than the headroom of PFC. It returns nil if the
// whole network cannot be simulated.
func shortfalls(m *step.Model) []network.Shortfall {
	engine, _, err := newEngine(m, nil)
	if err != nil {
		return nil // the simulation reports the error
	}
	return engine.Shortfalls()
}

// findDeepest finds the switch that held the most bytes. Without a limited buffer it finds the switch that
// may have held the most: the length of a queue is recorded when the transmission of a packet starts, so each
// port may have held one more packet.
func (x *simulation) findDeepest(engine *network.Network) {
	held := map[int32]int64{}
	for _, l := range x.net.Links {
		v, _ := x.net.Node(l.Src)
		if v.Kind != topology.KindHost {
			deepest := engine.Counters(l.ID).MaxQueueBytes
			if deepest > 0 {
				held[l.Src] += deepest + x.params.PayloadBytes + x.params.HeaderBytes
			}
		}
	}
	for i, v := range x.net.Nodes { // of equal switches, the one with the lowest index
		if !x.model.Buffers.IsZero() {
			held[v.ID] = engine.MostBytes(int32(i))
		}
		if held[v.ID] > x.stats.DeepestSwitchBytes {
			x.stats.DeepestSwitch = v.ID
			x.stats.DeepestSwitchBytes = held[v.ID]
		}
	}
}

// newEngine returns a simulation of the whole network, and a function that returns the class of a flow.
func newEngine(
	m *step.Model, next func() (*network.Flows, error),
) (*network.Network, func(*workload.Row) uint8, error) {
	links, hosts := engineTopology(m.Network)
	engine, err := network.New(m.Params, m.Buffers, links, hosts, next)
	if err != nil {
		return nil, nil, err
	}
	of, err := classify(engine, m.Classes)
	return engine, of, err
}

// engineTopology returns the network as the engine expects it, with indexes of nodes instead of ids.
func engineTopology(n *topology.Network) (links []network.Link, hosts []bool) {
	place := make(map[int32]int32, len(n.Nodes))
	hosts = make([]bool, len(n.Nodes))
	for i, v := range n.Nodes {
		place[v.ID] = int32(i)
		hosts[i] = v.Kind == topology.KindHost
	}
	return names.Of(n.Links, func(l topology.Link) network.Link {
		return network.Link{SrcNode: place[l.Src], DstNode: place[l.Dst], BandwidthBps: l.BandwidthBps,
			DelayNS: l.DelayNS}
	}), hosts
}
