package pipeline

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/rs/zerolog"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/stages"
)

// A SweepPlan says what fails, one after the other, and what makes a failure bad.
type SweepPlan struct {
	Tier     string  // of the cables, in either direction
	Quantile float64 // of slowdown: 0.5, 0.9, 0.99 or 0.999
	Service  string  // whose flows count; empty: all
	Worst    int     // how many are estimated in full after the screening
}

// SweepQuantiles lists the quantiles a sweep can rank by.
func SweepQuantiles() []float64 { return answerQuantiles }

// allFlows stands for the flows of all services.
const allFlows = "all"

// A Sweep is what the failure of each cable of a tier, alone, does.
type Sweep struct {
	Base, Variant string
	Plan          SweepPlan
	Cables        []SweptCable // the worst first; those estimated in full before the others
	Reused        int          // cables whose screening was found done
	Seconds       float64

	before, screenedBefore percentilesOf // of the base; the latter to within spreadStep, as Screened is
}

// A SweptCable is what the failure of one cable does.
type SweptCable struct {
	A, B         int32
	NameA, NameB string
	Unreachable  int64
	Screened     percentilesOf // to within spreadStep
	Full         percentilesOf // nil unless among the worst
	Cases        stages.SimulateStats
	Seconds      float64
}

// percentilesOf are the flows and the slowdowns at answerQuantiles of each service, and of all.
type percentilesOf map[string]servicePercentiles

type servicePercentiles struct {
	Flows     int64
	Slowdowns []float64
}

// sweeper is a sweep at work. It keeps the base's scenario locked.
type sweeper struct {
	*Sweep
	o     Options
	base  *Run
	dir   string // of the records, in the base's state
	names map[int32]string
}

// RunSweep takes every cable of a tier that is up down, one at a time, and ranks them by what that does
// to a percentile of slowdown. All are screened (Run.screen), and the worst estimated in full. Of each,
// only percentiles and, in the cache, link cases stay. What is done stays done: the same sweep, given
// again, continues.
func RunSweep(ctx context.Context, base string, plan SweepPlan, o Options) (*Sweep, error) {
	began := time.Now()
	if o.Passes == AutoPasses {
		return nil, errors.New("a sweep needs a number of passes, the same for all")
	}
	if !slices.Contains(answerQuantiles, plan.Quantile) {
		return nil, fmt.Errorf("quantile %v: must be one of %v", plan.Quantile, answerQuantiles)
	}
	if plan.Service == "" {
		plan.Service = allFlows
	}
	if o.Cache != "" {
		cache, err := OpenCache(o.Cache, o.Log)
		if err != nil {
			return nil, err
		}
		defer cache.Close()
		o.shared = cache
	}
	run, err := Resume(base, o)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	s := &sweeper{Sweep: &Sweep{Base: run.ScenarioID(), Variant: run.Variant(), Plan: plan}, o: o, base: run, names: map[int32]string{}}
	if err = run.Estimate(ctx); err == nil {
		s.before, err = run.servicePercentiles(ctx)
	}
	if err != nil {
		return nil, err
	}
	if _, ok := s.before[plan.Service]; !ok {
		return nil, fmt.Errorf("no flow is of service %q; the services are %q", plan.Service, slices.Sorted(maps.Keys(s.before)))
	}
	for _, v := range s.base.net.Nodes {
		s.names[v.ID] = v.Name
	}
	s.dir = s.base.lake.statePath(s.base.base(), fmt.Sprintf("sweep-%d", methodVersion))
	if err := s.screen(ctx); err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	s.Seconds = time.Since(began).Seconds()
	return s.Sweep, s.write()
}

// screen looks at every cable's failure the quick way, some at a time.
func (s *sweeper) screen(ctx context.Context) error {
	cables, err := s.upCables()
	if err != nil {
		return err
	}
	before, err := s.base.slowdownSpreads()
	if err != nil {
		return err
	}
	s.screenedBefore = before.percentiles()
	var left [][2]int32
	for _, c := range cables {
		var swept SweptCable
		if ok, err := s.base.lake.readState(s.screenedPath(c), &swept); err != nil || !ok {
			left = append(left, c)
			continue
		}
		s.Reused++
		s.Cables = append(s.Cables, swept)
	}
	_, loads, err := s.base.routed()
	if err != nil {
		return err
	}
	s.base.progress.begin("sweep", "cables", int64(len(left)))
	defer s.base.progress.end()
	for _, batch := range s.base.together(left, loads) {
		swept, err := s.base.screen(ctx, batch, before)
		if err != nil {
			return whileScreening(batch, err)
		}
		for i := range swept {
			c := &swept[i]
			c.NameA, c.NameB = s.names[c.A], s.names[c.B]
			if err := s.base.lake.writeState(s.screenedPath([2]int32{c.A, c.B}), c); err != nil {
				return err
			}
		}
		s.Cables = append(s.Cables, swept...)
		s.base.progress.add(int64(len(batch)))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	s.rank()
	return nil
}

// upCables are the cables of the tier that are up, by their ends.
func (s *sweeper) upCables() ([][2]int32, error) {
	cables, err := s.base.net.Select(s.Plan.Tier)
	if err != nil {
		return nil, err
	}
	up := map[[2]int32]bool{}
	for _, l := range s.base.net.Links {
		if !l.Failed {
			up[[2]int32{min(l.Src, l.Dst), max(l.Src, l.Dst)}] = true
		}
	}
	cables = slices.DeleteFunc(cables, func(c [2]int32) bool { return !up[c] })
	if len(cables) == 0 {
		return nil, fmt.Errorf("all cables of %q are down", s.Plan.Tier)
	}
	return cables, nil
}

// confirm estimates the worst in full.
func (s *sweeper) confirm(ctx context.Context) error {
	worst := s.Cables[:min(s.Plan.Worst, len(s.Cables))]
	s.base.progress.begin("sweep: the worst", "cables", int64(len(worst)))
	defer s.base.progress.end()
	for i := range worst {
		full, err := s.one(ctx, [2]int32{worst[i].A, worst[i].B})
		if err != nil {
			return err
		}
		worst[i].Full = full.Full
		worst[i].Cases.Add(full.Cases)
		worst[i].Seconds += full.Seconds
		s.base.progress.add(1)
	}
	s.rank()
	return nil
}

// one estimates one cable's failure in full, or finds it done.
func (s *sweeper) one(ctx context.Context, c [2]int32) (swept SweptCable, err error) {
	began := time.Now()
	record := filepath.Join(s.dir, s.Variant, fmt.Sprintf("cable-%d-%d.json", c[0], c[1]))
	if ok, err := s.base.lake.readState(record, &swept); err == nil && ok {
		return swept, nil
	}
	how := s.o
	how.Log, how.Progress, how.passing = how.Log.Level(zerolog.WarnLevel), nil, true
	run, err := Derive(s.Base, Changes{Fail: []string{fmt.Sprintf("%d:%d", c[0], c[1])}, AllowUnreachable: true}, how)
	if err != nil {
		return swept, err
	}
	defer run.Close()
	swept = SweptCable{A: c[0], B: c[1], NameA: s.names[c[0]], NameB: s.names[c[1]]}
	if err := run.Estimate(ctx); err != nil {
		return swept, fmt.Errorf("cable %d:%d down: %w", c[0], c[1], err)
	}
	if swept.Full, err = run.servicePercentiles(ctx); err != nil {
		return swept, err
	}
	if swept.Cases, err = run.casesDone(); err != nil {
		return swept, err
	}
	routed, err := run.routeStats()
	if err != nil {
		return swept, err
	}
	swept.Unreachable = routed.Unreachable
	swept.Seconds = time.Since(began).Seconds()
	if err := s.base.lake.writeState(record, swept); err != nil {
		return swept, err
	}
	return swept, run.forgetPassing()
}

// passingState marks a scenario that a sweep has made and will delete. What a user has made of the same
// failure stays.
const passingState = "passing.json"

// forgetPassing deletes the run's scenario if it was made to be deleted.
func (r *Run) forgetPassing() error {
	var passing bool
	if found, err := r.lake.readState(r.lake.statePath(r.base(), passingState), &passing); err != nil || !found {
		return err
	}
	var errs error
	for _, t := range schema.Tables() {
		errs = errors.Join(errs, os.RemoveAll(filepath.Join(r.lake.root, t.Name, "scenario="+r.spec.ScenarioID)))
	}
	return errors.Join(errs, os.RemoveAll(r.lake.statePath(r.base())))
}

// servicePercentiles are the slowdowns of the run's estimate at answerQuantiles, by service and of all.
func (r *Run) servicePercentiles(ctx context.Context) (percentilesOf, error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`
		SELECT CASE grouping(service) WHEN 1 THEN '%s' ELSE service END, count(*), quantile_cont(slowdown, 0.5), quantile_cont(slowdown, 0.9),
			quantile_cont(slowdown, 0.99), quantile_cont(slowdown, 0.999)
		FROM %s GROUP BY GROUPING SETS ((service), ())`, allFlows, Side{r.spec.ScenarioID, r.Variant()}.scan(r.lake, schema.Slowdowns)))
	if err != nil {
		return nil, stages.FirstLine(err)
	}
	defer rows.Close()
	out := percentilesOf{}
	for rows.Next() {
		var service string
		p := servicePercentiles{Slowdowns: make([]float64, len(answerQuantiles))}
		if err := rows.Scan(&service, &p.Flows, &p.Slowdowns[0], &p.Slowdowns[1], &p.Slowdowns[2], &p.Slowdowns[3]); err != nil {
			return nil, err
		}
		if old, ok := out[service]; !ok || p.Flows > old.Flows { // a service may be named like all
			out[service] = p
		}
	}
	return out, rows.Err()
}

// casesDone adds up the link cases behind the run's estimate.
func (r *Run) casesDone() (all stages.SimulateStats, err error) {
	for _, s := range r.caseStages() {
		_, done, err := s.complete(r.lake)
		if err != nil {
			return all, err
		}
		for _, rec := range done {
			var x stages.SimulateStats
			if err := json.Unmarshal(rec.Stats, &x); err != nil {
				return all, err
			}
			all.Add(x)
		}
	}
	return all, nil
}

// changeOf is what a cable's failure does to quantile q of a service; NaN if it has no flow left.
func (s *Sweep) changeOf(c *SweptCable, service string, q int) float64 {
	base := s.before
	if c.Full == nil {
		base = s.screenedBefore
	}
	now, _ := s.estimateOf(c)
	before, ok := base[service]
	after, still := now[service]
	if !ok || !still {
		return math.NaN()
	}
	return after.Slowdowns[q]/before.Slowdowns[q] - 1
}

// estimateOf is the best there is of a cable, and what it is called.
func (s *Sweep) estimateOf(c *SweptCable) (percentilesOf, string) {
	if c.Full == nil {
		return c.Screened, screening
	}
	return c.Full, s.Variant
}

// rank puts the worst first: those without a path for some flows by how many, then by the change.
func (s *Sweep) rank() {
	q := slices.Index(answerQuantiles, s.Plan.Quantile)
	slices.SortStableFunc(s.Cables, func(a, b SweptCable) int {
		full := func(c *SweptCable) int {
			if c.Full != nil {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(full(&b), full(&a)), cmp.Compare(b.Unreachable, a.Unreachable),
			cmp.Compare(s.changeOf(&b, s.Plan.Service, q), s.changeOf(&a, s.Plan.Service, q)))
	})
}

// write puts the sweep into the lake.
func (s *sweeper) write() error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Sweeps.Arrow())
	defer b.Release()
	t := schema.Sweeps
	text := func(column, v string) { b.Field(t.Index(column)).(*array.StringBuilder).Append(v) }
	whole := func(column string, v int64) { b.Field(t.Index(column)).(*array.Int64Builder).Append(v) }
	for i := range s.Cables {
		c := &s.Cables[i]
		now, variant := s.estimateOf(c)
		for _, service := range slices.Sorted(maps.Keys(now)) {
			if _, ok := s.before[service]; !ok {
				continue
			}
			text("tier", s.Plan.Tier)
			b.Field(t.Index("node_a")).(*array.Int32Builder).Append(c.A)
			b.Field(t.Index("node_b")).(*array.Int32Builder).Append(c.B)
			text("service", service)
			whole("flows", now[service].Flows)
			whole("unreachable", c.Unreachable)
			text("estimated", variant)
			for q, name := range []string{"p50", "p90", "p99", "p999"} {
				b.Field(t.Index(name + "_slowdown")).(*array.Float64Builder).Append(now[service].Slowdowns[q])
				b.Field(t.Index(name + "_change")).(*array.Float64Builder).Append(s.changeOf(c, service, q))
			}
			whole("simulated_cases", c.Cases.Cases)
			whole("remembered_cases", c.Cases.RememberedCases)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	if _, err := s.base.lake.writePart(t, place{s.Base, s.Variant}.dir(t)+"/part-"+fileSafe(s.Plan.Tier)+".parquet", rec); err != nil {
		return err
	}
	return queries.WriteCatalog(s.base.lake.root)
}

// Write writes the ranking as a table.
func (s *Sweep) Write(w io.Writer, most int) error {
	p := printer{w: w}
	q := slices.Index(answerQuantiles, s.Plan.Quantile)
	p.linef("base %s, each of %d cables of %s down, by what it does to quantile %g of slowdown (flows: %s)", s.Base, len(s.Cables), s.Plan.Tier, s.Plan.Quantile, s.Plan.Service)
	p.linef("base slowdown there: %.3f (%s)", s.before[s.Plan.Service].Slowdowns[q], s.Variant)
	p.linef("%5s  %-13s %-34s %-10s %10s %8s %10s %11s", "place", "cable", "ends", "estimated", "slowdown", "change", "no_path", "screened_as")
	for i := range s.Cables[:min(most, len(s.Cables))] {
		c := &s.Cables[i]
		now, variant := s.estimateOf(c)
		screened := *c
		screened.Full = nil
		p.linef("%5d  %-13s %-34s %-10s %10.3f %+7.2f%% %10d %+10.2f%%", i+1, fmt.Sprintf("%d:%d", c.A, c.B), c.NameA+" – "+c.NameB, variant,
			slowdownAt(now[s.Plan.Service], q), 100*s.changeOf(c, s.Plan.Service, q), c.Unreachable, 100*s.changeOf(&screened, s.Plan.Service, q))
	}
	var cases stages.SimulateStats
	var seconds float64
	for i := range s.Cables {
		cases.Add(s.Cables[i].Cases)
		seconds += s.Cables[i].Seconds
	}
	p.linef("\n%d cables, %d of them found done; this time %.1f s, in all %.1f s, %.2f s a cable", len(s.Cables), s.Reused, s.Seconds, seconds, seconds/float64(len(s.Cables)))
	p.linef("link cases: %d simulated (%s packet-hops), %d found in the cache (%s)", cases.Cases, Human(float64(cases.PacketHops)), cases.RememberedCases, Human(float64(cases.RememberedHops)))
	return p.err
}

func slowdownAt(p servicePercentiles, q int) float64 {
	if p.Slowdowns == nil {
		return math.NaN()
	}
	return p.Slowdowns[q]
}
