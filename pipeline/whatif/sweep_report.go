package whatif

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/units"
	"parsimon/stages"
)

// changeOf is what a cable's failure does to quantile q of a service; NaN if it has no flow left.
func (s *Sweep) changeOf(c *SweptCable, service string, q int) float64 {
	before, ok := s.before[service]
	after, still := c.Full[service]
	if !ok || !still {
		return math.NaN()
	}
	return after.Slowdowns[q]/before.Slowdowns[q] - 1
}

func (p ServicePercentiles) fct(q int) float64 {
	return []float64{p.P50FCT, p.P90FCT, p.P99FCT, p.P999FCT}[q]
}

// rank puts the worst first: those without a path for some flows by how many, then by the change.
func (s *Sweep) rank() {
	q := slices.Index(pipeline.Quantiles, s.Plan.Quantile)
	slices.SortStableFunc(s.Cables, func(a, b SweptCable) int {
		return cmp.Or(cmp.Compare(b.Unreachable, a.Unreachable),
			cmp.Compare(s.changeOf(&b, s.Plan.Service, q), s.changeOf(&a, s.Plan.Service, q)))
	})
}

// write puts the sweep into the lake.
func (s *sweeper) write() error {
	rows := columns.NewRows(schema.Sweeps)
	for i := range s.Cables {
		c := &s.Cables[i]
		now := c.Full
		for _, service := range slices.Sorted(maps.Keys(now)) {
			if _, ok := s.before[service]; !ok {
				continue
			}
			row := columns.Row{
				"tier": s.Plan.what(), "node_a": c.A, "node_b": c.B, "service": service, "estimated": s.Variant,
				"flows": now[service].Flows, "unreachable": c.Unreachable,
				"simulated_cases": c.Cases.Cases, "cached_cases": c.Cases.CachedCases,
			}
			for q, name := range []string{"p50", "p90", "p99", "p999"} {
				row[name+"_slowdown"], row[name+"_change"] = now[service].Slowdowns[q], s.changeOf(c, service, q)
			}
			row["p50_fct_ns"], row["p99_fct_ns"] = now[service].P50FCT*1e6, now[service].P99FCT*1e6
			rows.Add(row)
		}
	}
	at := lake.Place{Scenario: s.base.ID(), Variant: s.Variant}
	return s.base.Executor().Session().PublishRows(at, fileSafe(s.Plan.what()), rows)
}

// Text is the ranking for people, of the worst cables.
func (s *Sweep) Text(most int) *text.Answer {
	a, q := &text.Answer{}, slices.Index(pipeline.Quantiles, s.Plan.Quantile)
	before, down := s.before[s.Plan.Service], ""
	if s.Plan.Loss == 0 {
		down = " down"
	}
	a.Linef("base %s, each of %d cables of %s%s, by what it does to quantile %g of slowdown (flows: %s)",
		s.Base, len(s.Cables), s.Plan.what(), down, s.Plan.Quantile, s.Plan.Service)
	a.Linef("there the base has slowdown %.3f, FCT %.4g ms (%s)", before.Slowdowns[q], before.fct(q), s.Variant)
	table := a.Table("place", "cable", "slowdown", "change", "fct_ms", "no_path")
	for i := range s.Cables[:min(most, len(s.Cables))] {
		c := &s.Cables[i]
		var slowdown, fct any
		if p, ok := c.Full[s.Plan.Service]; ok {
			slowdown, fct = p.Slowdowns[q], p.fct(q)
		}
		table.Add(i+1, c.NameA+":"+c.NameB, slowdown, text.Percent(s.changeOf(c, s.Plan.Service, q)), fct, c.Unreachable)
	}
	var cases stages.SimulateStats
	var seconds float64
	for i := range s.Cables {
		cases.Add(s.Cables[i].Cases)
		seconds += s.Cables[i].Seconds
	}
	a.Linef("\n%d cables, %d answers found done; this time %.1f s, in all %.1f s, %.2f s a cable", len(s.Cables), s.Reused, s.Seconds, seconds, seconds/float64(len(s.Cables)))
	a.Linef("link cases: %d simulated (%s packet-hops), %d found in the cache (%s)", cases.Cases, units.Human(float64(cases.PacketHops)), cases.CachedCases, units.Human(float64(cases.CachedHops)))
	return a
}
