package summary

import (
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/text"
	"parsimon/schema/units"
	"parsimon/stages"
)

// AddCost adds what each stage took, and what it would take if every link case and chunk of flows had a core of its
// own: the paper's Parsimon/inf, the longest piece plus what is not parallel.
func AddCost(a *text.Answer, e *pipeline.Estimation) {
	reports := e.Executor().Reports
	if len(reports) == 0 {
		return
	}
	a.Linef("\nTime and memory; unlimited_s: with every link case and chunk of flows on a core of its own (%d workers now)", e.Workers)
	table := a.Table("stage", "seconds", "cpu_s", "unlimited_s", "tasks", "reused", "peak_mb")
	var seconds, cpu, critical float64
	for _, s := range reports {
		table.Add(s.Stage, s.Seconds, s.CPUSeconds, s.CriticalSeconds, s.Tasks, s.Reused, s.PeakBytes/1e6)
		seconds += s.Seconds
		cpu += s.CPUSeconds
		critical += s.CriticalSeconds
	}
	wall, process := e.Took()
	other, otherCPU := max(0, wall-seconds), max(0, process-cpu)
	table.Add("other", other, otherCPU, other, nil, nil, engine.PeakBytes()/1e6)
	table.Add("all", seconds+other, cpu+otherCPU, critical+other, nil, nil, nil)
	writeCases(a, e)
	if e.Variant().Estimator == stages.WholeNetwork {
		_ = addWhole(a, e) // status reports it
	}
}

// TableBytes are the bytes of the tables that the plan wrote and that were not collected.
func TableBytes(e *pipeline.Estimation) (bytes int64) {
	for _, s := range e.Plan() {
		r, _, err := engine.ReadRecords(e.Lake, s)
		if err != nil {
			continue // status reports it
		}
		for _, rec := range r.Done {
			if rec == nil {
				continue
			}
			for _, f := range rec.Files {
				if !e.Lake.Collected(f) {
					bytes += f.Bytes
				}
			}
		}
	}
	return bytes
}

// writeCases writes how many packet-hops were simulated, and how many link cases were found in the cache.
func writeCases(a *text.Answer, e *pipeline.Estimation) {
	all, err := pipeline.Cases(e.Lake, pipeline.CaseStages(e.Plan())...)
	if err != nil {
		return // status reports it
	}
	if all.PacketHops > 0 {
		a.Linef("%s packet-hops simulated at %.1f ns each", units.Human(float64(all.PacketHops)), float64(all.KernelNS)/float64(all.PacketHops))
	}
	if all.LongestCaseNS > 0 {
		link := e.Network.Links[all.LongestLink]
		a.Linef("longest link case: %s (link %d, %s), %.3f s: no number of cores makes its pass shorter", e.Network.LinkName(link.ID), link.ID, link.Tier, float64(all.LongestCaseNS)/1e9)
	}
	if n := all.CachedCases; all.CachedHops > 0 {
		a.Linef("%d of %d link cases (%s packet-hops) found in the cache, at %.2f ns a packet-hop", n, n+all.Cases,
			units.Human(float64(all.CachedHops)), float64(all.CachedNS)/float64(all.CachedHops))
	}
}

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
	l, buffer, deepest := s.Losses, e.Spec.Switches, e.Network.Name(s.DeepestSwitch)
	if buffer.IsZero() {
		a.Linef("the longest queues of a switch's ports, at different times, add up to %d bytes (%s)", s.DeepestSwitchBytes,
			deepest)
	} else {
		a.Linef("no switch held more than %d bytes at a time (%s)", s.DeepestSwitchBytes, deepest)
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
