package sampled

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/zeebo/xxh3"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/stages"
)

// An estimate that is asked for one service or virtual network estimates the first round of windows in whole, which
// other asks can take over, and the windows of later rounds for the flows of this group only (pipeline.OnlyGroup).
// Percentiles of other flows are those of the first round.

// everywhere is the share of the first round's flows, of hosts that send flows of the group, from which on later rounds
// are estimated in whole, too: what could be left out is not worth that other asks cannot take over the rounds.
const everywhere = 0.75

// LeftOut says what later rounds have left out.
type LeftOut struct {
	Group string `json:"group"` // such as "service storage"
	// Bound is on the relative error of the group's percentiles (stages.Relevance), the greatest of all rounds. Intervals
	// of the group are wider by it.
	Bound float64 `json:"bound"`
	// Shares of the link cases of rounds after the first, and of the packets of these.
	LinkCasesShare  float64 `json:"link_cases_share"`
	PacketHopsShare float64 `json:"packet_hops_share"`

	cases, leftCases int
	hops, leftHops   int64
}

// tolerance is how much of the asked precision link cases that are left out may take: a tenth of it, but equal for asks
// that are nearly as precise, so that they share rounds: 0.2% for 2% and more, 0.02% for 0.2% and more.
func (a Ask) tolerance() float64 {
	return 0.2 * math.Pow(10, math.Floor(math.Log10(a.Within/0.02)+1e-9)-2)
}

// group is the service or virtual network that is asked for alone.
func (a Ask) group() (g stages.FlowGroup, ok bool) {
	column, label, one := strings.Cut(a.By, "=")
	return stages.FlowGroup{Column: column, Label: label}, one && (column == byService || column == byVNet)
}

// answers reports whether all rounds estimate the flows of a group of flows.
func (s *sampler) answers(k Key) bool {
	return s.only == nil || k.Label == s.only.Label &&
		(k.By == stages.ByService && s.only.Column == byService || k.By == stages.ByVNet && s.only.Column == byVNet)
}

// restrict decides after the first round whether later ones are for the asked group only.
func (s *sampler) restrict(ctx context.Context, first *round) error {
	g, one := s.ask.group()
	v := s.base.Variant()
	if !one || v.Estimator != stages.Flow || v.Cluster != nil {
		return nil
	}
	type sent struct {
		flows int
		group bool
	}
	hosts, flows, ofHosts := map[int32]*sent{}, 0, 0
	err := s.each(ctx, first, func(_ int, f flow) {
		h := hosts[f.src]
		if h == nil {
			h = &sent{}
			hosts[f.src] = h
		}
		h.flows++
		h.group = h.group || g.Column == byService && f.service == g.Label || g.Column == byVNet && f.vnet == g.Label
	})
	for _, h := range hosts {
		flows += h.flows
		if h.group {
			ofHosts += h.flows
		}
	}
	if err == nil && float64(ofHosts) < everywhere*float64(flows) {
		s.first = s.drawn
		s.only = &pipeline.OnlyGroup{FlowGroup: g, Like: first.run.ID(), Tolerance: s.ask.tolerance()}
		s.leftOut = &LeftOut{Group: s.ask.groupName()}
	}
	return err
}

// groupName is the name of the group that is asked for alone.
func (a Ask) groupName() string {
	g, _ := a.group()
	return g.Column + " " + g.Label
}

// countLeftOut counts the link cases of a round.
func (s *sampler) countLeftOut(r *round) error {
	x, err := r.run.Relevance()
	if err != nil || x == nil {
		return err
	}
	l := s.leftOut
	r.bound = x.Bound
	l.Bound = max(l.Bound, x.Bound)
	l.cases, l.leftCases = l.cases+x.Cases, l.leftCases+x.LeftOutCases
	l.hops, l.leftHops = l.hops+x.PacketHops, l.leftHops+x.LeftOutPacketHops
	l.LinkCasesShare = float64(l.leftCases) / float64(max(1, l.cases))
	l.PacketHopsShare = float64(l.leftHops) / float64(max(1, l.hops))
	return nil
}

// bound is what link cases that are left out add to the interval of a group.
func (s *sampler) bound(k Key) (most float64) {
	if s.answers(k) {
		for _, r := range s.rounds {
			most = max(most, r.bound)
		}
	}
	return most
}

// suffix tells the estimate for a group apart from others in the lake.
func (s *sampler) suffix() string {
	if s.only == nil {
		return ""
	}
	return fmt.Sprintf("-only-%08x", uint32(xxh3.HashString(fmt.Sprint(s.only.Column, "=", s.only.Label, " ", s.only.Tolerance))))
}

// write says what was left out, if anything was.
func (l *LeftOut) write(p *text.Printer) {
	if l == nil || l.cases == 0 {
		return
	}
	p.Linef("Rounds after the first are of %s only. They leave out %.0f%% of the link cases, which change its percentiles by up "+
		"to %.2g%%\n(estimated); percentiles of other flows are of the first round.", l.Group, 100*l.LinkCasesShare, 100*l.Bound)
}
