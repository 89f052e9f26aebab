// Package slowdown writes the results of an estimator about each flow to table slowdowns, and divides delays
// among the hops of a path.
package slowdown

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// A Writer writes table slowdowns and the contributions of hops. It reuses its memory and must not be used by
// several goroutines at a time. The zero value is ready.
type Writer struct {
	rows          []tables.SlowdownRow     // not written yet
	contributions []tables.ContributionRow // not written yet
	flow          Flow
}

// A Flow is an estimator's result for a flow.
type Flow struct {
	Hops            int16 // number of links on the path; 0: no estimate
	StartNS         int64
	IdealNS         int64 // FCT alone in the network
	DelayNS         int64 // FCT minus the ideal FCT
	WindowNS        int64 // part of the delay caused by a window smaller than the path needs
	Retransmissions int32 // packets
	Reordered       int32 // packets
}

// A Hop is what an estimator knows about a flow at a hop.
type Hop struct {
	Index     int16 // on the path, from 0
	Link      int32
	LastNS    int64 // wait of the last packet; 0 at hop 0, whose only wait is the NIC wait
	LongestNS int64 // wait of the block that waits longest; 0 if it does not matter
	Marks     int64 // marked packets
}

// A Chunk has rows FirstRow to FirstRow+Rows-1 of table flows.
type Chunk struct {
	FirstRow, Rows int64
	Flows          schema.Batches
}

// A Sink receives what a Writer writes. If Contributions is nil, they are not written.
type Sink struct {
	Slowdowns     schema.Sink
	Contributions schema.Sink
}

// An Estimate sets the result for flow f of a chunk. If the flow has no path, it leaves Hops at 0.
type Estimate func(f int, sizeBytes int64, to *Flow) error

type flowRow struct {
	workload.Labels
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`

	Background bool `col:"background"`
}

// Write writes a row for every flow of a chunk that has a path, except for background flows, in the order of
// the flows. It calls estimate for each flow. The contributions are those that estimate passes to Attribute.
// Errors name the flow.
func (w *Writer) Write(ctx context.Context, c Chunk, out Sink, estimate Estimate) error {
	w.contributions = w.contributions[:0]
	at := int64(0)
	err := columns.EachRows(c.Flows, tables.SmallBatch, func(part []flowRow) error {
		if at+int64(len(part)) > c.Rows {
			return fmt.Errorf("flows: the chunk at row %d has more flows than the %d that were routed", c.FirstRow,
				c.Rows)
		}
		w.rows = w.rows[:0]
		for i := range part {
			if err := w.add(&part[i], c.FirstRow, at, estimate); err != nil {
				return fmt.Errorf("flow %d: %w", part[i].ID, err)
			}
			at++
		}
		err := cmp.Or(ctx.Err(), tables.Slowdowns.Write(out.Slowdowns, w.rows))
		if err == nil && out.Contributions != nil {
			err = tables.HopContributions.Write(out.Contributions, w.contributions)
			w.contributions = w.contributions[:0]
		}
		return err
	})
	if err == nil && at != c.Rows {
		err = fmt.Errorf("flows: the chunk at row %d has %d flows, %d were routed", c.FirstRow, at, c.Rows)
	}
	return err
}

// add adds the row of a flow, if it has a path. The flow is in row at of the chunk, which begins at row
// chunkRow of table flows.
func (w *Writer) add(f *flowRow, chunkRow, at int64, estimate Estimate) error {
	x := &w.flow
	*x = Flow{StartNS: f.StartNS}
	before := len(w.contributions)
	err := estimate(int(at), f.SizeBytes, x)
	if err != nil || x.Hops == 0 {
		return err
	}
	if f.Background {
		w.contributions = w.contributions[:before]
		return nil
	}
	fct := x.IdealNS + x.DelayNS
	w.rows = append(w.rows, tables.SlowdownRow{
		FlowID: f.ID, FlowRow: chunkRow + at, Src: f.Src, Dst: f.Dst, Labels: f.Labels,
		SizeBytes: f.SizeBytes, StartNS: x.StartNS, Hops: x.Hops,
		IdealNS: x.IdealNS, FCTNS: fct, WindowNS: x.WindowNS, Slowdown: float64(fct) / float64(x.IdealNS),
		Retransmissions: x.Retransmissions, Reordered: x.Reordered,
	})
	return nil
}

// Attribute divides the delay of a flow, a row of table flows, among its window and its hops, for table
// hop_contributions. Each hop contributes the wait of the flow's last packet there. Of the remaining delay,
// the part caused by a window smaller than the path needs belongs to no hop. It is at most windowNS, the
// delay by such a window of the flow alone. The sender lost the rest by reducing its rate. This rest is
// divided in proportion to the hops' marks. If there are no marks, it belongs to hop 0, where the flow
// competes with other flows of its host.
//
// hops are in the order of the path. They are hop 0 and those where the flow waited or was marked.
func (w *Writer) Attribute(row, windowNS int64, hops []Hop, to *Flow) {
	rest := to.DelayNS
	allMarks := int64(0)
	for h := range hops {
		hops[h].LastNS = min(hops[h].LastNS, rest)
		rest -= hops[h].LastNS
		allMarks += hops[h].Marks
	}
	to.WindowNS = min(windowNS, rest)
	rest -= to.WindowNS
	for h := range hops {
		hop := &hops[h]
		share := 0.0
		if allMarks > 0 {
			share = float64(rest) * (float64(hop.Marks) / float64(allMarks))
		} else if hop.Index == 0 {
			share = float64(rest)
		}
		wait := float64(hop.LastNS)
		w.contributions = tables.AppendContribution(w.contributions, tables.ContributionRow{
			Contribution: tables.Contribution{
				FlowRow: row, Hop: hop.Index, Hops: to.Hops, LinkID: hop.Link, DelayNS: wait + share,
			},
			WaitNS:    wait,
			LongestNS: hop.LongestNS,
		})
	}
}

// Routed is what route wrote about a chunk of flows: tables flow_paths and link_loads.
type Routed struct {
	Paths, Loads schema.Batches
}

// ReadPaths reads table flow_paths of a chunk of flows. Element f of the result, which uses the memory of
// paths, is about flow f of the chunk. It has no hops if the flow has no path. A path without a row is an
// error: table link_loads has the number of hops.
func (c *Chunk) ReadPaths(paths []tables.FlowPath, in Routed) ([]tables.FlowPath, error) {
	paths = columns.Resize(paths, int(c.Rows))
	clear(paths)
	last := int64(-1)
	hops := int64(0)
	err := columns.Each(in.Paths, func(p *tables.FlowPath) error {
		at := p.FlowRow - c.FirstRow
		if at < 0 || at >= c.Rows {
			return fmt.Errorf("flow_paths: flow row %d is not in the chunk of %d flows at row %d", p.FlowRow,
				c.Rows, c.FirstRow)
		}
		if p.Hops < 1 || p.SlowestHop < 0 || p.SlowestHop >= p.Hops || p.IdealNS < 1 {
			return fmt.Errorf("flow_paths: flow row %d has an ideal FCT of %d ns over %d hops, of which hop %d is "+
				"the slowest", p.FlowRow, p.IdealNS, p.Hops, p.SlowestHop)
		}
		if at <= last {
			return fmt.Errorf("flow_paths: flow row %d follows flow row %d", p.FlowRow, c.FirstRow+last)
		}
		last = at
		hops += int64(p.Hops)
		paths[at] = *p
		return nil
	})
	if err != nil {
		return paths, errors.Join(err, in.Loads.Close())
	}
	type load struct {
		Flows int64 `col:"flows"`
	}
	crossed := int64(0)
	err = columns.Each(in.Loads, func(l *load) error {
		crossed += l.Flows
		return nil
	})
	if err == nil && hops != crossed {
		err = fmt.Errorf("flow_paths: paths of the chunk at row %d have %d hops, and table link_loads has %d",
			c.FirstRow, hops, crossed)
	}
	return paths, err
}

// ChunkOf returns the chunk of flows of a task.
func ChunkOf(t step.Task, flows *step.Step) Chunk {
	rows := t.Range()
	return Chunk{rows.Lo, rows.Hi - rows.Lo, t.Part(flows.Output(schema.Flows), t.Number())}
}

// RoutedOf returns what route wrote about the chunk of a task.
func RoutedOf(t step.Task, routed *step.Step) Routed {
	return Routed{
		t.Part(routed.Output(schema.FlowPaths), t.Number()), t.Part(routed.Output(schema.LinkLoads), t.Number()),
	}
}

// SinkOf returns the sinks of a task.
func SinkOf(t step.Task) Sink {
	return Sink{t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions)}
}

// Step returns a step that computes slowdowns of flows from the outputs in reads, and writes them and other
// tables.
func Step(flows *step.Step, reads []step.Output, writes []schema.Table, work step.Work) *step.Step {
	return &step.Step{
		Name:        "sample",
		Reads:       append([]step.Output{flows.Output(schema.Flows)}, reads...),
		Writes:      writes,
		Cut:         step.Cut{By: step.ByFlows},
		Unit:        "flows",
		BytesPerRow: 900,
		Open:        step.Always(work),
	}
}
