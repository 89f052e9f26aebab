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
	"runtime"
	"sync"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/moves"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
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
		model:    m,
		options:  o,
		out:      out,
		alone:    newAlone(m),
		feed:     feed{rows: rowReader{in: flows}},
		waitNS:   make([]simkernel.Sum, len(m.Network.Links)),
		progress: progress{report: o.Progress},
	}
	if o.Dependencies != nil {
		var err error
		if x.feed.waits, err = newDependencies(o.Dependencies, o.Flows); err != nil {
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
			f := &x.active.flows[tag]
			if f.number == row { // otherwise its last packet was delivered
				left := LeftFlow{f.slowdown(), f.connection, f.background, bytes}
				left.IdealNS = idealNS
				left.WindowNS = x.alone.windowNS(f.path, f.size)
				x.out.Left(left)
			}
		})
		ended = true
	}
	if x.active.count() > 0 && !ended {
		return x.stats, fmt.Errorf("whole-network simulation: %d flows did not finish", x.active.count())
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
	model   *step.Model
	options Options
	out     Tables
	engine  *network.Network
	routes  *moves.Routes // nil: paths do not change
	alone   *alone
	feed    feed

	mu       sync.Mutex // protects the fields below: flows are read while results arrive
	stats    Stats
	active   activeFlows
	waitNS   []simkernel.Sum // by link: sum of the waits of its packets
	results  results
	progress progress
}

// simulate runs the engine over all flows.
func (x *simulation) simulate(ctx context.Context) error {
	engine, classOf, err := newEngine(x.model, x.nextFlows)
	if err != nil {
		return err
	}
	defer x.feed.rows.release()
	x.engine = engine
	x.feed.classOf = classOf
	engine.Progress = func(items int64) { x.progress.add(items, 0) }
	m := x.model.Moves
	if m.Whole() {
		if x.routes, err = m.NewRoutes(ctx, x.model.Router, x.model.Seed); err != nil {
			return err
		}
	}
	if m.Whole() || x.options.EndNS != 0 { // times of the engine begin with the first flow
		if x.feed.first, err = x.nextFlows(); err != nil {
			return err
		}
	}
	if x.options.EndNS != 0 {
		engine.EndNS = max(1, x.options.EndNS-x.feed.originNS)
	}
	if m.Whole() {
		engine.Forward(m.Engine(x.model.Network, x.routes, x.model.Seed, x.feed.originNS))
	}
	if x.feed.waits != nil {
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
	for _, l := range x.model.Network.Links {
		dropped := engine.Dropped(l.ID)
		if dropped > x.stats.MostDropped {
			x.stats.MostDroppedLink = l.ID
			x.stats.MostDropped = dropped
		}
		x.stats.PausedNS += engine.PausedNS(l.ID)
	}
	return nil
}
