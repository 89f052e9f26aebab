package whatif

import (
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/schema/units"
	"parsimon/stages/linksim"
	"parsimon/stages/topology"
)

// Text formats the ranking of the worst cables for users.
func (s *Sweep) Text(most int) *text.Answer {
	a := &text.Answer{}
	q := slices.Index(pipeline.Quantiles, s.Plan.Quantile)
	before := s.before[s.Plan.Service]
	down := ""
	if s.Plan.Each == "" {
		down = " down"
	}
	ranked := "slowdown"
	if s.Plan.byFCT() {
		ranked = "FCT"
	}
	a.Linef("base %s, each of %s of %s%s, ranked by the change of quantile %g of %s (flows: %s)",
		s.Base, topology.Count(len(s.Cables), "cable"), s.Plan.what(), down, s.Plan.Quantile, ranked,
		s.Plan.Service)
	a.Linef("that quantile in the base: slowdown %s, FCT %s ms (%s); from and to: 95%% bootstrap interval of "+
		"the change of %s", text.Figure(before.Slowdowns[q]), text.Figure(before.fct(q)), s.Variant, ranked)
	if s.Note != "" {
		a.Linef("warning: %s", s.Note)
	}
	if s.Left > 0 {
		a.Linef("%s", stoppedByBudget(len(s.Cables), s.Left, "cables"))
	}
	if s.Confirmed != nil && s.Confirmed.Left > 0 {
		a.Linef("%s", stoppedByBudget(len(s.Confirmed.Cables), s.Confirmed.Left, "cables of --confirm"))
	}
	names := []string{"place", "cable", "slowdown", "change", "fct_ms", "fct_change", "from", "to", "no_path"}
	if s.Confirmed != nil {
		names = append(names, "change_exact")
	}
	table := a.Table(names...)
	for i := range s.Cables[:min(most, len(s.Cables))] {
		table.Add(s.textRow(i, q)...)
	}
	s.addCost(a)
	return a
}

// textRow returns the row of the cable in a place of the ranking.
func (s *Sweep) textRow(place, q int) []any {
	c := &s.Cables[place]
	service := s.Plan.Service
	var slowdown, fct, from, to any
	if p, ok := c.Full[service]; ok {
		slowdown = text.Figure(p.Slowdowns[q])
		fct = text.Figure(p.fct(q))
	}
	of := c.Intervals[service]
	if of != nil {
		from = text.Percent(of[q][0])
		to = text.Percent(of[q][1])
	}
	change := text.Percent(s.slowdownChange(c, service, q))
	fctChange := text.Percent(s.fctChange(c, service, q))
	cable := c.NameA + ":" + c.NameB
	row := []any{place + 1, cable, slowdown, change, fct, fctChange, from, to, c.Unreachable}
	if s.Confirmed == nil {
		return row
	}
	return append(row, s.Confirmed.changeOfCable(c.A, c.B, q))
}

// changeOfCable returns the change by which a cable is ranked, or nil if the sweep does not have the cable.
func (s *Sweep) changeOfCable(a, b int32, q int) any {
	at := slices.IndexFunc(s.Cables, func(c SweptCable) bool { return c.A == a && c.B == b })
	switch {
	case at < 0:
		return nil
	case s.Plan.byFCT():
		return text.Percent(s.fctChange(&s.Cables[at], s.Plan.Service, q))
	}
	return text.Percent(s.slowdownChange(&s.Cables[at], s.Plan.Service, q))
}

// addCost adds the cost of the sweep.
func (s *Sweep) addCost(a *text.Answer) {
	var cases linksim.Stats
	var seconds float64
	for i := range s.Cables {
		cases.Add(s.Cables[i].Cases)
		seconds += s.Cables[i].Seconds
	}
	cables := topology.Count(len(s.Cables), "cable")
	a.Linef("\n%s, %d of them done by an earlier sweep; %.1f s now, up to %d at once; %.1f s of runs in all, "+
		"%.2f s per cable", cables, s.Reused, s.Seconds, s.AtOnce, seconds, seconds/float64(len(s.Cables)))
	if cases.Cases+cases.CachedCases > 0 {
		a.Linef("link cases: %d simulated (%s packet-hops), %d found in the cache (%s)", cases.Cases,
			units.Human(float64(cases.PacketHops)), cases.CachedCases, units.Human(float64(cases.CachedHops)))
	}
}
