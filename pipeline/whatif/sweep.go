package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema/names"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
	"parsimon/stages/moves"
)

// A SweepPlan says which cables fail, one at a time, and how failures are ranked.
type SweepPlan struct {
	Tier     string  `json:"tier"`     // of the cables, in either direction, as for topology.Network.Select
	Quantile float64 `json:"quantile"` // quantile of slowdown: 0.5, 0.9, 0.99 or 0.999
	Service  string  `json:"service"`  // the service whose flows are used; empty: all
	// Each is the change that is applied to one cable at a time: "loss SHARE" (estimator exact), "bandwidth
	// SPEED" or "delay TIME". If it is empty, the cable fails.
	Each string `json:"each,omitempty"`

	worst string // describes the cables if Tier lists the cables that another sweep found (Confirm)
}

// what describes the cables and their change.
func (p *SweepPlan) what() string { return strings.TrimSpace(cmp.Or(p.worst, p.Tier) + " " + p.Each) }

// Changes returns the changes that are applied to a cable.
func (p *SweepPlan) Changes(c [2]int32) (all scenario.Changes, err error) {
	cable := fmt.Sprintf("%d:%d", c[0], c[1])
	kind, value, _ := strings.Cut(p.Each, " ")
	switch kind {
	case moves.Loss:
		all.PathMoves.Events = []string{cable + " " + p.Each}
		_, _, err = moves.ParseEvent(all.PathMoves.Events[0])
		return all, err
	case "":
		kind = "fail"
		all.AllowUnreachable = true
	default:
		cable += "=" + value
	}
	change, err := scenario.ParseChange(kind, cable)
	all.Do = []scenario.Change{change}
	return all, err
}

// byFCT reports whether cables are ranked by FCT.
func (p *SweepPlan) byFCT() bool { return changesIdeal(p.Each) }

// changesIdeal reports whether a change, given by the start of its name, changes the ideal FCT of flows.
func changesIdeal(change string) bool {
	return strings.HasPrefix(change, "bandwidth") || strings.HasPrefix(change, "delay")
}

// AllFlows stands for the flows of all services.
const AllFlows = "all"

// A Sweep has the effect of the failure of each cable of a tier.
type Sweep struct {
	Base    string       `json:"base_scenario"`
	Variant string       `json:"variant"`
	Plan    SweepPlan    `json:"plan"`
	Cables  []SweptCable `json:"cables"` // the worst first
	Left    int          `json:"left"`   // number of cables that are not estimated, because the budget was over
	Reused  int          `json:"reused"` // number of estimates that were complete before
	AtOnce  int          `json:"at_once"`
	Seconds float64      `json:"seconds"`

	Note string `json:"note,omitempty"` // set if the answer of the base was made by another estimator

	// Confirmed is the sweep of the worst cables with a simulation of the whole network; nil before Confirm.
	Confirmed *Sweep `json:"confirmed,omitempty"`

	before percentilesOf // of the base
}

// A SweptCable is the effect of the failure of one cable.
type SweptCable struct {
	A           int32         `json:"node_a"`
	B           int32         `json:"node_b"`
	NameA       string        `json:"name_a"`
	NameB       string        `json:"name_b"`
	Unreachable int64         `json:"unreachable"`
	Full        percentilesOf `json:"full"`
	// Intervals are 95% bootstrap intervals of the changes at pipeline.Quantiles, by service. They are
	// changes of FCT or of slowdown, depending on how the plan ranks cables.
	Intervals map[string][][2]float64 `json:"change_intervals,omitempty"`
	Cases     linksim.Stats           `json:"link_cases"`
	Seconds   float64                 `json:"seconds"`
}

// percentilesOf maps each service, and AllFlows, to its percentiles.
type percentilesOf map[string]ServicePercentiles

// ServicePercentiles are the percentiles of slowdown and FCT of a service's flows.
type ServicePercentiles struct {
	Flows     int64     `json:"flows"`
	Slowdowns []float64 `json:"slowdowns"` // at pipeline.Quantiles
	P50       float64   `json:"p50_slowdown"`
	P90       float64   `json:"p90_slowdown"`
	P99       float64   `json:"p99_slowdown"`
	P999      float64   `json:"p999_slowdown"`
	P50FCT    float64   `json:"p50_fct_ms"`
	P90FCT    float64   `json:"p90_fct_ms"`
	P99FCT    float64   `json:"p99_fct_ms"`
	P999FCT   float64   `json:"p999_fct_ms"`
}

// newPercentiles returns the percentiles with slowdowns s and FCTs f, in ms, at pipeline.Quantiles.
func newPercentiles(flows int64, s, f []float64) ServicePercentiles {
	return ServicePercentiles{flows, s, s[0], s[1], s[2], s[3], f[0], f[1], f[2], f[3]}
}

// fct returns the FCT at an index of pipeline.Quantiles, in ms.
func (p ServicePercentiles) fct(q int) float64 {
	return []float64{p.P50FCT, p.P90FCT, p.P99FCT, p.P999FCT}[q]
}

// slowdown returns the slowdown at an index of pipeline.Quantiles.
func (p ServicePercentiles) slowdown(q int) float64 { return p.Slowdowns[q] }

// RunSweep fails every cable of a tier that is up, one at a time. It estimates the remaining network in the
// same way as the base, several cables side by side, and ranks the cables by the effect on a percentile of
// slowdown. Only the percentiles and, in the cache, the results of link cases are kept. An interrupted sweep
// continues when it is started again. If the budget is over, it ranks the cables that are complete.
func RunSweep(ctx context.Context, base string, plan SweepPlan, o Settings) (*Sweep, error) {
	began := time.Now()
	o.For = pipeline.ForDifference
	run, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	s, err := newSweeper(run, run.Executor().Session(), plan, o)
	s.deadline = o.deadline(began)
	if err == nil {
		err = s.check(ctx)
	}
	if err == nil {
		err = run.Estimate(ctx)
	}
	if err == nil {
		err = s.openBase()
	}
	if err == nil {
		err = s.readBase()
	}
	if err == nil {
		err = s.estimateEach(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.rank()
	s.Seconds = time.Since(began).Seconds()
	s.Note = otherAnswer(run, run.ID())
	return s.Sweep, s.write()
}

// rank sorts the cables, the worst first: by flows without a path, then by the change.
func (s *Sweep) rank() {
	q := slices.Index(pipeline.Quantiles, s.Plan.Quantile)
	change := s.slowdownChange
	if s.Plan.byFCT() {
		change = s.fctChange
	}
	slices.SortStableFunc(s.Cables, func(a, b SweptCable) int {
		return cmp.Or(cmp.Compare(b.Unreachable, a.Unreachable),
			cmp.Compare(change(&b, s.Plan.Service, q), change(&a, s.Plan.Service, q)))
	})
}

// Confirm simulates the whole network with each of the first count cables failing, unless this sweep
// simulated the whole network already. If the budget is over, it only reads what the lake has.
func (s *Sweep) Confirm(ctx context.Context, count int, o Settings) (err error) {
	o.Variant = pipeline.Variant{Estimator: estimators.Exact}
	if count == 0 || s.Variant == o.Variant.String() {
		return nil
	}
	ends := func(c SweptCable) string { return fmt.Sprintf("%d:%d", c.A, c.B) }
	cables := names.Of(s.Cables[:min(count, len(s.Cables))], ends)
	plan := s.Plan
	plan.worst = fmt.Sprintf("%d worst of %s", len(cables), plan.Tier)
	plan.Tier = strings.Join(cables, ",")
	if o.Budget > 0 { // it is that of both sweeps
		o.Budget -= time.Duration(s.Seconds * float64(time.Second))
		// After the budget, only records of cables are read, and the base is not simulated for them.
		if o.Budget <= 0 {
			model, err := pipeline.OpenModelIn(ctx, o.Lake, s.Base)
			if err != nil || !model.Estimated(o.Variant) {
				s.Confirmed = &Sweep{Left: len(cables)}
				return err
			}
			o.Budget = 1
		}
	}
	s.Confirmed, err = RunSweep(ctx, s.Base, plan, o)
	if _, ok := errors.AsType[*budgetError](err); ok {
		s.Confirmed = &Sweep{Left: len(cables)}
		return nil
	}
	return err
}

// otherAnswer returns a note if an estimate in a sweep is made with a different variant than the answer of
// the base. Otherwise, or if the base has no answer, it returns an empty string.
func otherAnswer(e *pipeline.Estimation, base lake.ScenarioID) string {
	answer := e.Lake.Answer(base)
	variant := e.Variant().Stored()
	if answer.IsZero() || answer == variant {
		return ""
	}
	return fmt.Sprintf("the answer of scenario %s is by %s, and this sweep is by %s: compare its rows with each "+
		"other, not with that answer", base, answer, variant)
}

// slowdownChange returns the change of quantile q of a service's slowdowns. It returns NaN if the service has
// no flow left.
func (s *Sweep) slowdownChange(c *SweptCable, service string, q int) float64 {
	return s.changeOf(c, service, func(p ServicePercentiles) float64 { return p.slowdown(q) })
}

// fctChange is slowdownChange for FCTs.
func (s *Sweep) fctChange(c *SweptCable, service string, q int) float64 {
	return s.changeOf(c, service, func(p ServicePercentiles) float64 { return p.fct(q) })
}

func (s *Sweep) changeOf(c *SweptCable, service string, value func(ServicePercentiles) float64) float64 {
	before, ok := s.before[service]
	after, still := c.Full[service]
	if !ok || !still {
		return math.NaN()
	}
	return value(after)/value(before) - 1
}

// unknownService returns the error for a service without flows.
func (s *Sweep) unknownService() error {
	return fmt.Errorf("no flow is of service %q; the services are %q", s.Plan.Service,
		slices.Sorted(maps.Keys(s.before)))
}
