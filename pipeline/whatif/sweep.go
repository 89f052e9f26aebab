package whatif

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/units"
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
		kind, all.AllowUnreachable = "fail", true
	default:
		cable += "=" + value
	}
	change, err := scenario.ParseChange(kind, cable)
	all.Do = []scenario.Change{change}
	return all, err
}

// otherAnswer returns a note if an estimate in a sweep is made with a different variant than the answer of
// the base. Otherwise, or if the base has no answer, it returns an empty string.
func otherAnswer(e *pipeline.Estimation, base lake.ScenarioID) string {
	answer, variant := e.Lake.Answer(base), e.Variant().String()
	if answer == "" || answer == variant {
		return ""
	}
	return fmt.Sprintf("the answer of scenario %s is by %s, and this sweep is by %s: compare its rows with each other, not with "+
		"that answer", base, answer, variant)
}

// AllFlows stands for the flows of all services.
const AllFlows = "all"

// A Sweep has the effect of the failure of each cable of a tier.
type Sweep struct {
	Base    string       `json:"base_scenario"`
	Variant string       `json:"variant"`
	Plan    SweepPlan    `json:"plan"`
	Cables  []SweptCable `json:"cables"` // the worst first
	Reused  int          `json:"reused"` // number of estimates that were complete before
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

// sweeper is a running sweep. It holds the lock of the base scenario.
type sweeper struct {
	*Sweep
	o    Settings
	base *pipeline.Estimation
	dir  string // directory of the records, in the state of the base, relative to the lake
}

// RunSweep fails every cable of a tier that is up, one at a time. It estimates the remaining network in the
// same way as the base, and ranks the cables by the effect on a percentile of slowdown. Only the percentiles
// and, in the cache, the results of link cases are kept. An interrupted sweep continues when it is started
// again.
func RunSweep(ctx context.Context, base string, plan SweepPlan, o Settings) (*Sweep, error) {
	began := time.Now()
	if !slices.Contains(pipeline.Quantiles, plan.Quantile) {
		return nil, fmt.Errorf("quantile %v: must be one of %v", plan.Quantile, pipeline.Quantiles)
	}
	if plan.Service == "" {
		plan.Service = AllFlows
	}
	o.For = pipeline.ForDifference
	run, err := pipeline.Resume(ctx, o.Lake, base, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	s := &sweeper{Sweep: &Sweep{Base: string(run.ID()), Variant: run.Variant().String(), Plan: plan}, o: o, base: run}
	cables, err := run.Network.SelectUp(plan.Tier)
	var first scenario.Changes
	if err == nil {
		first, err = plan.Changes(cables[0])
	}
	if err == nil {
		_, err = run.CheckChanges(ctx, first, o.Variant, o.Settings)
	}
	if err == nil {
		err = run.Estimate(ctx)
	}
	var db *sql.DB
	if err == nil {
		db, err = run.OpenDuckDB(ctx)
	}
	if err == nil {
		s.before, err = servicePercentiles(ctx, db, run)
		_ = db.Close() // nothing was written
	}
	if err != nil {
		return nil, err
	}
	if _, ok := s.before[plan.Service]; !ok {
		return nil, fmt.Errorf("no flow is of service %q; the services are %q", plan.Service, slices.Sorted(maps.Keys(s.before)))
	}
	s.o.Variant = run.Variant()
	s.Variant = run.Variant().String()
	s.dir = lake.Of(run.ID()).StatePath(fmt.Sprintf("sweep-%d", pipeline.MethodVersion), s.Variant)
	if plan.Each != "" {
		s.dir += "/" + strings.ReplaceAll(plan.Each, " ", "-")
	}
	if err := s.estimateEach(ctx, cables); err != nil {
		return nil, err
	}
	// The worst first: by flows without a path, then by the change.
	q := slices.Index(pipeline.Quantiles, plan.Quantile)
	slices.SortStableFunc(s.Cables, func(a, b SweptCable) int {
		return cmp.Or(cmp.Compare(b.Unreachable, a.Unreachable),
			cmp.Compare(s.changeOf(&b, plan.Service, q, plan.byFCT()), s.changeOf(&a, plan.Service, q, plan.byFCT())))
	})
	s.Seconds, s.Note = time.Since(began).Seconds(), otherAnswer(run, run.ID())
	return s.Sweep, s.write()
}

// Confirm simulates the whole network with each of the first count cables failing, unless this sweep
// simulated the whole network already.
func (s *Sweep) Confirm(ctx context.Context, count int, o Settings) (err error) {
	o.Variant = pipeline.Variant{Estimator: estimators.Exact}
	if count == 0 || s.Variant == o.Variant.String() {
		return nil
	}
	plan, ends := s.Plan, func(c SweptCable) string { return fmt.Sprintf("%d:%d", c.A, c.B) }
	cables := names.Of(s.Cables[:min(count, len(s.Cables))], ends)
	plan.worst, plan.Tier = fmt.Sprintf("%d worst of %s", len(cables), plan.Tier), strings.Join(cables, ",")
	s.Confirmed, err = RunSweep(ctx, s.Base, plan, o)
	return err
}

func (s *sweeper) estimateEach(ctx context.Context, cables [][2]int32) error {
	s.base.Progress.Begin("sweep", "cables", int64(len(cables)))
	defer s.base.Progress.End()
	for _, c := range cables {
		swept, err := s.one(ctx, c)
		if err != nil {
			return err
		}
		s.Cables = append(s.Cables, swept)
		s.base.Progress.Add(1)
	}
	return nil
}

// one estimates the failure of one cable, unless its estimate is complete already.
func (s *sweeper) one(ctx context.Context, c [2]int32) (swept SweptCable, err error) {
	began := time.Now()
	record := s.dir + fmt.Sprintf("/cable-%d-%d.json", c[0], c[1])
	if ok, err := s.base.Lake.ReadState(record, &swept); err == nil && ok {
		s.Reused++
		return swept, nil
	}
	how := s.o.Settings
	how.Log, how.Progress, how.Ephemeral = how.Log.Level(zerolog.WarnLevel), nil, true
	changes, err := s.Plan.Changes(c)
	if err != nil {
		return swept, err
	}
	run, err := pipeline.Derive(ctx, s.base.Model, changes, s.o.Variant, how)
	if err != nil {
		return swept, err
	}
	defer run.Close()
	n := s.base.Network
	swept = SweptCable{A: c[0], B: c[1], NameA: n.Name(c[0]), NameB: n.Name(c[1])}
	if err := run.Estimate(ctx); err != nil {
		return swept, fmt.Errorf("cable %s of %s: %w", n.Ends(c[0], c[1]), s.Plan.what(), err)
	}
	if err := s.read(ctx, run, &swept); err != nil {
		return swept, err
	}
	swept.Seconds = time.Since(began).Seconds()
	// Delete the scenario before its record is written, so that a killed sweep estimates and deletes it
	// again.
	if err := run.Forget(); err != nil {
		return swept, err
	}
	return swept, s.base.Executor().Session().WriteState(record, swept)
}

// read reads the results of the estimate of a cable.
func (s *sweeper) read(ctx context.Context, run *pipeline.Estimation, swept *SweptCable) error {
	db, err := run.OpenDuckDB(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var wrong [4]error // the first error is returned
	swept.Full, wrong[0] = servicePercentiles(ctx, db, run)
	swept.Intervals, wrong[1] = s.intervals(ctx, db, run)
	swept.Cases, wrong[2] = run.Cases()
	swept.Unreachable, _, wrong[3] = run.Unreachable()
	return cmp.Or(wrong[:]...)
}

// servicePercentiles returns the slowdowns of the run's estimate at pipeline.Quantiles, for each service and
// for all flows.
func servicePercentiles(ctx context.Context, db *sql.DB, e *pipeline.Estimation) (percentilesOf, error) {
	slowdowns, err := e.Scan(schema.Slowdowns)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE VIEW slowdowns AS FROM "+slowdowns); err != nil {
		return nil, duckdb.FirstLine(err)
	}
	out := percentilesOf{}
	return out, duckdb.Each(ctx, db, queries.Known("service_percentiles").SQL, func(rows *sql.Rows) error {
		var service string
		var flows int64
		s, f := make([]float64, len(pipeline.Quantiles)), make([]float64, len(pipeline.Quantiles))
		err := rows.Scan(&service, &flows, &s[0], &s[1], &s[2], &s[3], &f[0], &f[1], &f[2], &f[3])
		if flows > out[service].Flows { // a service may have the name of all flows
			out[service] = newPercentiles(flows, s, f)
		}
		return err
	})
}

// intervals returns the intervals of a SweptCable. Flows are drawn in pairs, as in Compare.
func (s *sweeper) intervals(ctx context.Context, db *sql.DB, run *pipeline.Estimation) (
	map[string][][2]float64, error,
) {
	of := func(e *pipeline.Estimation) (*side, error) {
		scan, err := e.Scan(schema.Slowdowns)
		return &side{scans: map[string]string{schema.Slowdowns.Name: scan}}, err
	}
	g, err := run.Generated()
	base, baseErr := of(s.base)
	other, otherErr := of(run)
	if err := errors.Join(err, baseErr, otherErr); err != nil {
		return nil, err
	}
	c := Comparison{joined: &join{base: base, other: other, byRow: g.Closed()}, by: []string{"service"}}
	out := map[string][][2]float64{}
	err = c.percentiles(ctx, db, filepath.Join(run.Executor().Session().TmpPath(), "pairs.parquet"))
	for _, r := range c.Rows {
		if s.Plan.byFCT() {
			r.Lo, r.Hi = r.FCTLo, r.FCTHi
		}
		out[r.Group[0]] = append(out[r.Group[0]], [2]float64{r.Lo, r.Hi})
	}
	return out, err
}

// byFCT reports whether cables are ranked by FCT.
func (p *SweepPlan) byFCT() bool { return changesIdeal(p.Each) }

// changesIdeal reports whether a change, given by the start of its name, changes the ideal FCT of flows.
func changesIdeal(change string) bool {
	return strings.HasPrefix(change, "bandwidth") || strings.HasPrefix(change, "delay")
}

// changeOf returns the change of quantile q of a service's slowdowns or, with fct, of its FCTs. It returns
// NaN if the service has no flow left.
func (s *Sweep) changeOf(c *SweptCable, service string, q int, fct bool) float64 {
	before, ok := s.before[service]
	after, still := c.Full[service]
	switch {
	case !ok || !still:
		return math.NaN()
	case fct:
		return after.fct(q)/before.fct(q) - 1
	}
	return after.Slowdowns[q]/before.Slowdowns[q] - 1
}

func (p ServicePercentiles) fct(q int) float64 {
	return []float64{p.P50FCT, p.P90FCT, p.P99FCT, p.P999FCT}[q]
}

func (s *sweeper) write() error {
	var rows []columns.Row
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
				row[name+"_slowdown"], row[name+"_change"] = now[service].Slowdowns[q], s.changeOf(c, service, q, false)
			}
			row["p50_fct_ns"], row["p99_fct_ns"] = now[service].P50FCT*1e6, now[service].P99FCT*1e6
			rows = append(rows, row)
		}
	}
	at := lake.Place{Scenario: s.base.ID(), Variant: s.Variant}
	return s.base.Executor().Session().PublishRows(at, fileSafe(s.Plan.what()),
		columns.RecordOf(schema.Sweeps, rows, func(r columns.Row) columns.Row { return r }))
}

// Text formats the ranking of the worst cables for users.
func (s *Sweep) Text(most int) *text.Answer {
	a, q := &text.Answer{}, slices.Index(pipeline.Quantiles, s.Plan.Quantile)
	before, down := s.before[s.Plan.Service], ""
	if s.Plan.Each == "" {
		down = " down"
	}
	ranked := map[bool]string{true: "FCT", false: "slowdown"}[s.Plan.byFCT()]
	a.Linef("base %s, each of %d cables of %s%s, ranked by the change of quantile %g of %s (flows: %s)",
		s.Base, len(s.Cables), s.Plan.what(), down, s.Plan.Quantile, ranked, s.Plan.Service)
	a.Linef("that quantile in the base: slowdown %s, FCT %s ms (%s); from and to: 95%% bootstrap interval of the change of %s",
		text.Figure(before.Slowdowns[q]), text.Figure(before.fct(q)), s.Variant, ranked)
	if s.Note != "" {
		a.Linef("warning: %s", s.Note)
	}
	names := []string{"place", "cable", "slowdown", "change", "fct_ms", "fct_change", "from", "to", "no_path"}
	if s.Confirmed != nil {
		names = append(names, "change_exact")
	}
	table := a.Table(names...)
	for i := range s.Cables[:min(most, len(s.Cables))] {
		c := &s.Cables[i]
		var slowdown, fct, from, to any
		if p, ok := c.Full[s.Plan.Service]; ok {
			slowdown, fct = text.Figure(p.Slowdowns[q]), text.Figure(p.fct(q))
		}
		if of := c.Intervals[s.Plan.Service]; of != nil {
			from, to = text.Percent(of[q][0]), text.Percent(of[q][1])
		}
		row := []any{i + 1, c.NameA + ":" + c.NameB, slowdown, text.Percent(s.changeOf(c, s.Plan.Service, q, false)), fct,
			text.Percent(s.changeOf(c, s.Plan.Service, q, true)), from, to, c.Unreachable}
		if x := s.Confirmed; x != nil {
			row = append(row, nil)
			for k := range x.Cables {
				if confirmed := &x.Cables[k]; confirmed.A == c.A && confirmed.B == c.B {
					row[len(row)-1] = text.Percent(x.changeOf(confirmed, x.Plan.Service, q, x.Plan.byFCT()))
				}
			}
		}
		table.Add(row...)
	}
	var cases linksim.Stats
	var seconds float64
	for i := range s.Cables {
		cases.Add(s.Cables[i].Cases)
		seconds += s.Cables[i].Seconds
	}
	a.Linef("\n%d cables, %d of them done by an earlier sweep; %.1f s now, %.1f s in all, %.2f s per cable", len(s.Cables), s.Reused,
		s.Seconds, seconds, seconds/float64(len(s.Cables)))
	if cases.Cases+cases.CachedCases > 0 {
		a.Linef("link cases: %d simulated (%s packet-hops), %d found in the cache (%s)", cases.Cases, units.Human(float64(cases.PacketHops)), cases.CachedCases, units.Human(float64(cases.CachedHops)))
	}
	return a
}

// An Axis is a key of a scenario file and the values that a sweep gives it.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// ParseAxis parses KEY=V,V. Commas within brackets and braces do not separate values.
func ParseAxis(axis string) (a Axis, err error) {
	key, list, ok := strings.Cut(axis, "=")
	a.Key = strings.TrimSpace(key)
	depth, from := 0, 0
	for i, c := range list + "," {
		switch {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth < 0 {
				return a, axisError(axis)
			}
		case c == ',' && depth == 0:
			a.Values = append(a.Values, strings.TrimSpace((list + ",")[from:i]))
			from = i + 1
		}
	}
	if !ok || a.Key == "" || depth != 0 || slices.Contains(a.Values, "") {
		return a, axisError(axis)
	}
	for i, value := range a.Values {
		if slices.Contains(a.Values[:i], value) {
			return a, fmt.Errorf("%q: the value %s stands twice", axis, value)
		}
	}
	return a, nil
}

func axisError(axis string) error {
	return fmt.Errorf("%q: want KEY=VALUE,VALUE such as workload.max_load=20%%,40%%", axis)
}

// A ParameterPlan is the plan of a parameter sweep, which runs every combination of the values of its axes.
type ParameterPlan struct {
	Scenario string // a scenario file or the name of a built-in scenario
	Axes     []Axis
	// Change converts settings to changes of Scenario if that is a scenario of the lake; nil: Scenario is a
	// file.
	Change func(settings []scenario.Setting) (scenario.Changes, error)
	// Until makes the sweep search, by bisection, for the first value of the only axis for which this
	// condition is true. The condition must stay true for all later values. nil: every value is run.
	Until   *gate.Gate
	Exact   bool // also simulate the whole network, and compare each estimate with it
	MaxRuns int  // maximum number of combinations

	base *pipeline.Model // set with Change
}

// Parameters is the result of a parameter sweep.
type Parameters struct {
	Name  string         `json:"sweep"`
	Axes  []Axis         `json:"axes"`
	Runs  []ParameterRun `json:"runs"`
	Until string         `json:"until,omitempty"`
	Found *ParameterRun  `json:"found,omitempty"` // the first run for which Until is true
	// OverSeeds has the results of jobs over the seeds, if one of the axes is the seed.
	OverSeeds []JobSpread `json:"over_seeds,omitempty"`
	// Set if the answer of the scenario in the lake was made by another estimator.
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds"`
}

// A ParameterRun is the run of one combination.
type ParameterRun struct {
	ScenarioID string            `json:"scenario_id"`
	Variant    string            `json:"variant"`
	Settings   map[string]string `json:"settings"`
	summary.PercentilesResult
	Exact []float64 `json:"exact,omitempty"` // the same percentiles of a simulation of the whole network
	// The verdict of condition Until, which is true if Failed is set.
	Until *gate.Verdict `json:"until,omitempty"`
	// Jobs is set if flows wait for others.
	Jobs    []summary.JobResult `json:"jobs,omitempty"`
	Seconds float64             `json:"seconds"`

	scenario *scenario.Scenario // set for a scenario file
	changes  scenario.Changes   // set for a scenario of the lake
}

// SweepParameters estimates every combination. It checks all scenarios before the first run. An interrupted
// sweep continues when it is started again: complete runs are only read.
func SweepParameters(ctx context.Context, plan ParameterPlan, o Settings) (*Parameters, error) {
	began := time.Now()
	if !plan.Exact { // with Exact, the sweep shows the errors of estimates by link cases
		o.For = pipeline.ForDifference
	}
	p := &Parameters{Axes: plan.Axes}
	var err error
	if plan.Change != nil {
		plan.base, err = pipeline.OpenModelIn(ctx, o.Lake, plan.Scenario)
	}
	if err == nil {
		err = p.combine(ctx, plan, o)
	}
	if err != nil {
		return nil, err
	}
	// Distinguishes several sweeps of one scenario.
	p.Name = plan.Scenario + ": " + strings.Join(p.keys(), ", ")
	run := func(i int) (bool, error) {
		until, err := p.run(ctx, i, plan, o)
		if err != nil {
			return false, fmt.Errorf("run %d of %d (%s): %w", i+1, len(p.Runs), p.SettingsOf(i), err)
		}
		line := o.Log.Info().Int("run", i+1).Int("of", len(p.Runs)).Str("settings", p.SettingsOf(i))
		if v := p.Runs[i].Until; v != nil {
			line = line.Str("condition", v.Gate).Any("value", v.Value).Bool("true", v.Failed)
		}
		line.Float64("p99", p.Runs[i].P99).Msg("sweep")
		return until, nil
	}
	if err := p.runAll(plan, run); err != nil {
		return nil, err
	}
	p.OverSeeds, p.Seconds = p.overSeeds(), time.Since(began).Seconds()
	return p, nil
}

// runAll runs all combinations or, with Until, those that the bisection needs.
func (p *Parameters) runAll(plan ParameterPlan, run func(i int) (bool, error)) error {
	if plan.Until == nil {
		for i := range p.Runs {
			if _, err := run(i); err != nil {
				return err
			}
		}
		return nil
	}
	p.Until = plan.Until.Text
	var failed error
	first := sort.Search(len(p.Runs), func(i int) (until bool) {
		if failed == nil {
			until, failed = run(i)
		}
		return until
	})
	if failed != nil {
		return failed
	}
	if first < len(p.Runs) {
		found := p.Runs[first]
		p.Found = &found
	}
	p.Runs = slices.DeleteFunc(p.Runs, func(r ParameterRun) bool { return r.ScenarioID == "" })
	return nil
}

// combine creates and checks the scenario of every combination.
func (p *Parameters) combine(ctx context.Context, plan ParameterPlan, o Settings) error {
	if plan.Until != nil && len(plan.Axes) != 1 {
		return errors.New("a search for the first value has one parameter")
	}
	count := 1
	keys := map[string]bool{}
	for _, a := range plan.Axes {
		key := scenario.Setting{Key: a.Key}.FullKey()
		if keys[key] {
			return fmt.Errorf("more than one axis is %s", key)
		}
		keys[key] = true
		if count *= len(a.Values); count > plan.MaxRuns {
			return fmt.Errorf("%d or more combinations, --max-runs allows %d", count, plan.MaxRuns)
		}
	}
	for n := range count {
		run := ParameterRun{Settings: map[string]string{}}
		var settings []scenario.Setting
		rest := n
		for _, a := range slices.Backward(plan.Axes) { // the last axis changes fastest
			settings = append(settings, scenario.Setting{Key: a.Key, Value: a.Values[rest%len(a.Values)]})
			run.Settings[a.Key] = a.Values[rest%len(a.Values)]
			rest /= len(a.Values)
		}
		slices.Reverse(settings)
		if err := run.check(ctx, plan, o, settings); err != nil {
			return err
		}
		p.Runs = append(p.Runs, run)
	}
	return nil
}

// check creates the scenario of a combination, or its changes of a scenario of the lake.
func (r *ParameterRun) check(
	ctx context.Context, plan ParameterPlan, o Settings, settings []scenario.Setting,
) (err error) {
	if plan.Change != nil {
		if r.changes, err = plan.Change(settings); err == nil {
			_, err = plan.base.CheckChanges(ctx, r.changes, o.Variant, o.Settings)
		}
		return err
	}
	if r.scenario, err = scenario.LoadWith(plan.Scenario, settings); err != nil {
		return err
	}
	if err := pipeline.CheckScenario(ctx, r.scenario, o.Variant, o.Settings); err != nil {
		return fmt.Errorf("%s: %w", r.scenario.Name, err)
	}
	return nil
}

// open opens a combination for an estimate. A combination without changes is the scenario of the lake itself.
func (r *ParameterRun) open(ctx context.Context, plan ParameterPlan, o Settings) (*pipeline.Estimation, error) {
	if plan.Change == nil {
		return pipeline.Begin(ctx, o.Lake, r.scenario, o.Variant, o.Settings)
	}
	e, err := pipeline.Derive(ctx, plan.base, r.changes, o.Variant, o.Settings)
	if errors.Is(err, pipeline.ErrUnchanged) {
		return plan.base.Resume(ctx, o.Variant, o.Settings)
	}
	return e, err
}

func (p *Parameters) keys() []string { return names.Of(p.Axes, func(a Axis) string { return a.Key }) }

// valuesOf returns the values of a run, in the order of keys.
func (p *Parameters) valuesOf(r *ParameterRun) []any {
	return names.Of(p.Axes, func(a Axis) any { return r.Settings[a.Key] })
}

// SettingsOf returns the settings of a run, in the order of the axes.
func (p *Parameters) SettingsOf(i int) string {
	setting := func(a Axis) string { return a.Key + "=" + p.Runs[i].Settings[a.Key] }
	return strings.Join(names.Of(p.Axes, setting), ", ")
}

// run estimates one combination and publishes its row. until reports whether condition Until is true for it.
func (p *Parameters) run(ctx context.Context, i int, plan ParameterPlan, o Settings) (until bool, err error) {
	began := time.Now()
	run := &p.Runs[i]
	e, err := run.open(ctx, plan, o)
	if err != nil {
		return false, err
	}
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return false, err
	}
	other := ""
	if plan.Change != nil {
		other = otherAnswer(e, cmp.Or(e.Base, e.ID()))
		p.Note = cmp.Or(p.Note, other)
	}
	if other == "" || e.Base != "" { // a combination without changes must not change the answer of the base
		if err := e.MakeAnswer(); err != nil {
			return false, err
		}
	}
	var gates []gate.Gate
	if plan.Until != nil {
		gates = append(gates, *plan.Until)
	}
	r, err := summary.Read(ctx, e, summary.Options{Gates: gates})
	switch {
	case r == nil:
		return false, err
	case len(r.Percentiles) == 0:
		return false, errors.New("no flow has a path")
	case gates != nil:
		run.Until, until = &r.Gates[0], r.Gates[0].Failed
	}
	run.ScenarioID, run.Variant, run.Jobs = r.ScenarioID, r.Variant, r.Jobs
	run.PercentilesResult = r.Percentiles[len(r.Percentiles)-1] // of all flows
	if plan.Exact {
		if err := e.Exact(ctx); err != nil {
			return false, err
		}
		v, err := Validate(ctx, e, "")
		if err != nil {
			return false, err
		}
		for _, row := range v.Rows[len(v.Rows)-len(pipeline.Quantiles):] { // all flows
			run.Exact = append(run.Exact, row.True)
		}
	}
	run.Seconds = time.Since(began).Seconds()
	return until, p.publish(e, i)
}

// publish writes the rows of one run to table sweep_runs: one row for each axis.
func (p *Parameters) publish(e *pipeline.Estimation, i int) error {
	run := &p.Runs[i]
	rows := columns.RecordOf(schema.SweepRuns, p.Axes, func(a Axis) columns.Row {
		row := columns.Row{
			"sweep": p.Name, "settings": p.SettingsOf(i), "parameter": a.Key, "value": run.Settings[a.Key],
			"value_number": numberOf(run.Settings[a.Key]), "flows": run.Flows, "seconds": run.Seconds,
			"p50_slowdown": run.P50, "p90_slowdown": run.P90, "p99_slowdown": run.P99, "p999_slowdown": run.P999,
			"p50_fct_ns": *run.P50FCT * 1e6, "p99_fct_ns": *run.P99FCT * 1e6,
		}
		for q, x := range run.Exact { // nil: not simulated
			row[[]string{"p50_exact", "p90_exact", "p99_exact", "p999_exact"}[q]] = x
		}
		return row
	})
	// The start of the sweep's name is for users, and the digest makes the name unique.
	digest := sha256.Sum256([]byte(p.Name))
	file := fmt.Sprintf("%.40s-%x", fileSafe(p.Name), digest[:8])
	return e.Executor().Session().PublishRows(lake.Place{Scenario: e.ID(), Variant: run.Variant}, file, rows)
}

// numberOf returns the number that a value starts with. A percentage is converted to a share. It returns NaN
// if there is no number.
func numberOf(value string) float64 {
	var x float64
	var unit string
	if n, _ := fmt.Sscanf(value, "%g%s", &x, &unit); n == 0 {
		return math.NaN()
	}
	if unit == "%" {
		x /= 100
	}
	return x
}

// Text formats the runs for users, in the order of the combinations.
func (p *Parameters) Text() *text.Answer {
	a, head := &text.Answer{}, p.keys()
	exact := len(p.Runs) > 0 && p.Runs[0].Exact != nil
	if exact {
		head = append(head, "exact_p50", "exact_p90", "exact_p99", "exact_p999", "error_p99")
	}
	mixed := slices.ContainsFunc(p.Runs, func(r ParameterRun) bool { return r.Variant != p.Runs[0].Variant })
	if p.Until != "" {
		head = append(head, "tested", "true")
	}
	if mixed {
		head = append(head, "variant")
	}
	table := a.Table(append(head, "p50", "p90", "p99", "p99_lo", "p99_hi", "p999", "p50_fct_ms", "p99_fct_ms", "seconds",
		"scenario")...)
	for _, r := range p.Runs {
		row := append(p.valuesOf(&r), names.Of(r.Exact, func(x float64) any { return text.Figure(x) })...)
		if exact {
			row = append(row, text.Percent(r.P99/r.Exact[2]-1))
		}
		if r.Until != nil {
			row = append(row, figureOrNil(r.Until.Value), map[bool]string{true: "yes", false: "no"}[r.Until.Failed])
		}
		if mixed {
			row = append(row, r.Variant)
		}
		figures := []*float64{&r.P50, &r.P90, &r.P99, r.P99Lo, r.P99Hi, &r.P999, r.P50FCT, r.P99FCT}
		table.Add(slices.Concat(row, names.Of(figures, figureOrNil), []any{r.Seconds, r.ScenarioID})...)
	}
	if mixed {
		a.Linef("the runs have different estimators (column variant), which also differ: --estimator sets one for all")
	}
	if p.Note != "" {
		a.Linef("warning: %s", p.Note)
	}
	p.addJobs(a)
	switch {
	case p.Found != nil:
		a.Linef("\nthe first value with %s: %s=%s", p.Until, p.Axes[0].Key, p.Found.Settings[p.Axes[0].Key])
	case p.Until != "":
		a.Linef("\nno value of %s has %s", p.Axes[0].Key, p.Until)
	}
	if slices.ContainsFunc(p.Axes, func(x Axis) bool { return changesIdeal(x.Key) }) {
		a.Linef("\nslowdowns are relative to each run's own ideal FCT, which bandwidths and delays change: compare the FCTs")
	}
	a.Linef("\np99_lo and p99_hi: the 95%% interval of p99 for other traffic of the same kind. Runs whose intervals overlap may " +
		"be alike; where their flows are the same, parsimon compare has the interval of the difference, which is narrower")
	a.Linef("%d runs in %.1f s", len(p.Runs), p.Seconds)
	return a
}

func figureOrNil(x *float64) any {
	if x == nil {
		return nil
	}
	return text.Figure(*x)
}

// Slowest returns the run with the highest p99.
func (p *Parameters) Slowest() ParameterRun {
	return slices.MaxFunc(p.Runs, func(a, b ParameterRun) int { return cmp.Compare(a.P99, b.P99) })
}

// notFileSafe matches all characters except letters, digits and dashes. fileSafe replaces them with dashes.
var notFileSafe = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func fileSafe(name string) string { return notFileSafe.ReplaceAllString(name, "-") }
