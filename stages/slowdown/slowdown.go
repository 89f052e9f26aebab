// Package slowdown turns what an estimator found about each flow into rows of table slowdowns, and divides delays among
// the hops of a path.
package slowdown

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// A Writer writes table slowdowns, and what each hop contributes. It reuses its memory and is used by one goroutine at a
// time.
type Writer struct {
	model *step.Model
	ideal simkernel.IdealPath
	path  []int32 // of ideal

	rows          []tables.SlowdownRow     // not written yet
	contributions []tables.ContributionRow // not written yet
	flow          Flow
}

// NewWriter returns a writer for flows of a scenario.
func NewWriter(m *step.Model) *Writer {
	return &Writer{model: m}
}

// A Flow is what an estimator says of a flow.
type Flow struct {
	Path            []int32 // empty: it has no estimate
	StartNS         int64
	IdealNS         int64 // FCT alone in the network
	DelayNS         int64 // FCT less the ideal FCT
	WindowNS        int64 // the part of the delay that is due to a window that is smaller than the path needs
	Retransmissions int32 // packets
	Reordered       int32 // packets
}

// A Chunk is rows FirstRow to FirstRow+Rows-1 of table flows.
type Chunk struct {
	FirstRow, Rows int64
	Flows          schema.Batches
}

// A Sink takes what a Writer writes. Contributions nil: they are not written.
type Sink struct {
	Slowdowns     schema.Sink
	Contributions schema.Sink
}

// An Estimate says of flow f of a chunk, of a size in bytes, how long it takes. A flow without a path keeps an empty
// one.
type Estimate func(f int, sizeBytes int64, to *Flow) error

type flowRow struct {
	workload.Labels
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
}

// Write writes a row for every flow of a chunk that has a path, in the order of the flows, as estimate finds it. The
// contributions are those that estimate gives to Attribute. Errors name the flow.
func (w *Writer) Write(ctx context.Context, c Chunk, out Sink, estimate Estimate) error {
	w.contributions = w.contributions[:0]
	at := int64(0)
	err := columns.EachRows(c.Flows, tables.SmallBatch, func(part []flowRow) error {
		if at+int64(len(part)) > c.Rows {
			return fmt.Errorf("flows: the chunk at row %d has more flows than the %d that were routed", c.FirstRow, c.Rows)
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

// add adds the row of a flow, if it has a path. The chunk begins at row chunkRow of table flows. The flow is in row at of
// the chunk.
func (w *Writer) add(f *flowRow, chunkRow, at int64, estimate Estimate) error {
	x := &w.flow
	*x = Flow{StartNS: f.StartNS}
	err := estimate(int(at), f.SizeBytes, x)
	if err != nil || len(x.Path) == 0 {
		return err
	}
	fct := x.IdealNS + x.DelayNS
	w.rows = append(w.rows, tables.SlowdownRow{
		FlowID: f.ID, FlowRow: chunkRow + at, Src: f.Src, Dst: f.Dst, Labels: f.Labels,
		SizeBytes: f.SizeBytes, StartNS: x.StartNS, Hops: int16(len(x.Path)),
		IdealNS: x.IdealNS, FCTNS: fct, WindowNS: x.WindowNS, Slowdown: float64(fct) / float64(x.IdealNS),
		Retransmissions: x.Retransmissions, Reordered: x.Reordered,
	})
	return nil
}

// setPath sets ideal to a path.
func (w *Writer) setPath(path []int32) {
	if slices.Equal(path, w.path) {
		return
	}
	w.path = append(w.path[:0], path...)
	w.ideal.Reset(&w.model.Params)
	for _, l := range path {
		link := &w.model.Network.Links[l]
		w.ideal.Add(link.BandwidthBps, link.DelayNS)
	}
}

// IdealNS returns the FCT of a flow that is alone in the network.
func (w *Writer) IdealNS(path []int32, sizeBytes int64) int64 {
	w.setPath(path)
	return w.ideal.FCTNS(sizeBytes)
}

// WindowNS returns the delay of a flow that is alone in the network by a window that is smaller than the path needs.
func (w *Writer) WindowNS(path []int32, sizeBytes int64) int64 {
	w.setPath(path)
	return w.model.Params.WindowDelayNS(w.ideal.Path(), sizeBytes)
}

// Attribute divides the delay of a flow, a row of table flows, among its window and its hops, for table
// hop_contributions. Each hop contributes the wait of the flow's last packet there. Of the rest, the delay by a window
// that is smaller than the path needs belongs to no hop (WindowNS). What remains, which the sender lost by reducing its
// rate, is divided in proportion to the hops' marks. If there are none, it belongs to hop 0, where the host's other flows
// compete with it.
func (w *Writer) Attribute(row, sizeBytes int64, hops []Hop, to *Flow) {
	rest, allMarks := to.DelayNS, int64(0)
	for h := range hops {
		hops[h].LastNS = min(hops[h].LastNS, rest)
		rest -= hops[h].LastNS
		allMarks += hops[h].Marks
	}
	to.WindowNS = min(w.WindowNS(to.Path, sizeBytes), rest)
	rest -= to.WindowNS
	for h := range hops {
		hop := &hops[h]
		share := 0.0
		if allMarks > 0 {
			share = float64(rest) * (float64(hop.Marks) / float64(allMarks))
		} else if h == 0 {
			share = float64(rest)
		}
		wait := float64(hop.LastNS)
		w.contributions = append(w.contributions, tables.ContributionRow{
			Contribution: tables.Contribution{
				FlowRow: row, Hop: int16(h), Hops: int16(len(hops)), LinkID: hop.Link, DelayNS: wait + share,
			},
			WaitNS:    wait,
			LongestNS: hop.LongestNS,
		})
	}
}

// ChunkOf is the task's chunk of flows.
func ChunkOf(t step.Task, flows *step.Step) Chunk {
	rows := t.Range()
	return Chunk{rows.Lo, rows.Hi - rows.Lo, t.Part(flows.Output(schema.Flows), t.Number())}
}

// SinkOf takes what the task writes.
func SinkOf(t step.Task) Sink {
	return Sink{t.Sink(schema.Slowdowns), t.Sink(schema.HopContributions)}
}

// Step returns a step that writes the slowdowns of flows, and other tables, from what the given outputs say of them.
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
