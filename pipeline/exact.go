package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages"
)

// A Window is a stretch of the workload to simulate whole, in ns of flow starts; the zero Window is
// all of it. Flows up to WarmupNS before it are simulated too, but not reported.
type Window struct {
	FromNS, ToNS, WarmupNS int64
}

// Variant is the name under which the truth of the window stands in the lake.
func (w Window) Variant() string {
	if w == (Window{}) {
		return "exact"
	}
	return fmt.Sprintf("exact-%d-%d", w.FromNS, w.ToNS)
}

// exactVariant is the name of the truth in the lake, which switch buffers are part of.
func (r *Run) exactVariant(w Window) string {
	name := w.Variant()
	if b := r.buffer; b != (simkernel.BufferParams{}) {
		name += fmt.Sprintf("-buffer-%d-alpha-%g", b.SwitchBytes, b.Alpha)
		if b.RetransmitNS > 0 {
			name += fmt.Sprintf("-retransmit-%d", b.RetransmitNS)
		}
	}
	return name
}

func (r *Run) exactStage(w Window) stage {
	return stage{"exact", place{r.spec.ScenarioID, r.exactVariant(w)}, []schema.Table{schema.ExactFCTs, schema.ExactHops}}
}

// Exact simulates the whole network packet by packet, every flow of the window through every hop
// of the path Route gave it. It is one task: the network cannot be cut in time, only in space,
// which is what its workers do.
func (r *Run) Exact(ctx context.Context, w Window) error {
	flows, err := r.flowParts()
	if err != nil {
		return err
	}
	routed, err := r.routeStats()
	if err != nil {
		return err
	}
	s := r.exactStage(w)
	return r.perform(ctx, s, []task{{w.FromNS, w.ToNS, routed.PacketHops}}, "packet-hops", func() (work, error) {
		return func(ctx context.Context, n int, _ task) ([]part, int64, any, error) {
			return r.produce(s, n, func(out []*partWriter) (int64, any, error) {
				in := r.lake.read(schema.Flows, flows, nil, nil)
				defer closeQuietly(in)
				stats, err := stages.Exact(ctx, r.net, r.router, r.spec.Params, in, stages.ExactOptions{
					Domains: r.domains, FromNS: w.FromNS, ToNS: w.ToNS, WarmupNS: w.WarmupNS, AllowUnreachable: r.spec.AllowUnreachable,
					Buffer: r.buffer,
				}, out[0], out[1], r.progress.add)
				return 0, stats, err
			})
		}, nil
	})
}

// exactStats is what the whole-network simulation of a window did.
func (r *Run) exactStats(w Window) (s stages.ExactStats, err error) {
	_, records, err := r.exactStage(w).complete(r.lake)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(records[0].Stats, &s)
}

// WriteExactSummary says what the whole-network simulation did and cost.
func (r *Run) WriteExactSummary(w io.Writer, window Window) error {
	_, records, err := r.exactStage(window).complete(r.lake)
	if err != nil {
		return err
	}
	s, err := r.exactStats(window)
	if err != nil {
		return err
	}
	domains := r.domains
	if r.buffer != (simkernel.BufferParams{}) {
		domains = 1
	}
	_, err = fmt.Fprintf(w, "whole network: %d flows reported, %d of warm-up; %s packet-hops in %s, %.0f ns each (%d workers)\nno switch held more than %d bytes (switch %d)\n",
		s.Flows, s.Warmup, Human(float64(s.PacketHops)), time.Duration(records[0].Seconds*1e9).Round(time.Millisecond),
		records[0].Seconds*1e9/float64(max(1, s.PacketHops)), domains, s.DeepestSwitchBytes, s.DeepestSwitch)
	if l := s.Losses; err == nil && r.buffer != (simkernel.BufferParams{}) {
		_, err = fmt.Fprintf(w, "switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d sent again; %d NACKs, %d timeouts\n",
			r.buffer.SwitchBytes, r.buffer.Alpha, l.Dropped, l.Sent, l.Discarded, l.Again, l.NACKs, l.Timeouts)
		if err == nil && l.Dropped > 0 {
			link := r.net.Links[s.MostDroppedLink]
			_, err = fmt.Fprintf(w, "most, %d, before link %d (%d → %d); link cases have buffers without end: the estimate cannot follow drops\n", s.MostDropped, link.ID, link.Src, link.Dst)
		}
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// SampleWindow is a stretch of that length from the middle of the workload, with as long a warm-up
// unless another is given; all of the workload for a length of 0 or of the workload or more.
func (r *Run) SampleWindow(length, warmup time.Duration) (Window, error) {
	g, err := r.generated()
	if err != nil {
		return Window{}, err
	}
	if length == 0 || int64(length) > g.LastStartNS-g.FirstStartNS {
		return Window{}, nil
	}
	if warmup == 0 {
		warmup = length
	}
	from := g.FirstStartNS + (g.LastStartNS-g.FirstStartNS-int64(length))/2
	return Window{FromNS: from, ToNS: from + int64(length), WarmupNS: int64(warmup)}, nil
}
