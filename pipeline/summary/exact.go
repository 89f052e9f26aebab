package summary

import (
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/text"
	"parsimon/schema/units"
	"parsimon/stages"
)

// exactCost is what a complete whole-network simulation did, and how long it took.
func exactCost(e *pipeline.Estimation, x pipeline.Exact) (did stages.ExactStats, seconds float64, err error) {
	r, err := e.ExactRecords(x)
	if err != nil {
		return did, 0, err
	}
	all, err := engine.Stats[stages.ExactStats](r)
	if err != nil || len(all) == 0 {
		return did, 0, err
	}
	return all[0], r.Done[0].Seconds, nil
}

// AddExact adds what the whole-network simulation did and cost.
func AddExact(a *text.Answer, e *pipeline.Estimation, x pipeline.Exact) error {
	s, seconds, err := exactCost(e, x)
	if err != nil {
		return err
	}
	buffer := e.BufferOf(x)
	a.Linef("whole network: %d flows reported, %d of warm-up; %s packet-hops in %s, %.0f ns each", s.Flows, s.Warmup,
		units.Human(float64(s.PacketHops)), time.Duration(seconds*1e9).Round(time.Millisecond),
		seconds*1e9/float64(max(1, s.PacketHops)))
	a.Linef("no switch held more than %d bytes (switch %d)", s.DeepestSwitchBytes, s.DeepestSwitch)
	if l := s.Losses; !buffer.IsZero() {
		a.Linef("switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d sent again; %d NACKs, %d timeouts",
			buffer.SwitchBytes, buffer.Alpha, l.Dropped, l.Sent, l.Discarded, l.Again, l.NACKs, l.Timeouts)
		if buffer.PFC {
			a.Linef("PFC: links were paused for %s in all", time.Duration(s.PausedNS))
		}
		if l.Dropped > 0 {
			a.Linef("most drops, %d, before %s (link %d); link cases have unlimited buffers: the estimate does not model drops", s.MostDropped, e.Network.LinkName(s.MostDroppedLink), s.MostDroppedLink)
		}
	}
	if e.Variant().Estimator == stages.WholeNetwork && x.Buffer.IsZero() {
		what := "is this simulation, and its errors below are 0"
		if x.Window != (pipeline.Window{}) {
			what = "is such a simulation of all flows: differences come from the start of the stretch"
		}
		a.Linef("the estimate %s (--estimator flow holds link cases against it)", what)
	}
	return nil
}
