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
func exactCost(e *pipeline.Estimation) (did stages.ExactStats, seconds float64, err error) {
	r, err := e.ExactRecords()
	if err != nil {
		return did, 0, err
	}
	all, err := engine.Stats[stages.ExactStats](r)
	if err != nil || len(all) == 0 {
		return did, 0, err
	}
	return all[0], r.Done[0].Seconds, nil
}

// addWhole adds what a whole-network simulation did and cost.
func addWhole(a *text.Answer, e *pipeline.Estimation) error {
	s, seconds, err := exactCost(e)
	if err != nil {
		return err
	}
	a.Linef("whole network: %d flows; %s packet-hops in %s, %.0f ns each", s.Flows, units.Human(float64(s.PacketHops)),
		time.Duration(seconds*1e9).Round(time.Millisecond), seconds*1e9/float64(max(1, s.PacketHops)))
	a.Linef("no switch held more than %d bytes (switch %d)", s.DeepestSwitchBytes, s.DeepestSwitch)
	l, buffer := s.Losses, e.Spec.Switches
	if !buffer.IsZero() {
		a.Linef("switch buffers of %d bytes, alpha %g: %d of %d packets dropped, %d discarded out of order, %d sent again; "+
			"%d NACKs, %d timeouts; links were paused for %s in all", buffer.SwitchBytes, buffer.Alpha, l.Dropped, l.Sent,
			l.Discarded, l.Again, l.NACKs, l.Timeouts, time.Duration(s.PausedNS))
	}
	if l.Dropped > 0 {
		a.Linef("most drops, %d, before %s (link %d)", s.MostDropped, e.Network.LinkName(s.MostDroppedLink),
			s.MostDroppedLink)
	}
	if m := e.Spec.Moves; m.Whole() {
		a.Linef("%s: %d packets sent again, %d reordered; of %d sent in all %d were lost; %d timeouts", m.Said(e.Network),
			s.Retransmissions, s.Reordered, l.Sent, l.Lost, l.Timeouts)
	}
	return nil
}

// AddExact adds what a whole-network simulation that an estimate is held against did and cost.
func AddExact(a *text.Answer, e *pipeline.Estimation) error {
	if err := addWhole(a, e); err != nil {
		return err
	}
	if e.Variant().Estimator == stages.WholeNetwork {
		a.Linef("the estimate is this simulation, and its errors below are 0 (--estimator flow holds link cases against it)")
	}
	return nil
}
