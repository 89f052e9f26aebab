package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
)

// A sweeper is a running sweep, or the part of it that one of several processes runs. The estimates of the
// cables share data that is made once: the flows, whose files they link to, the network, and the percentiles
// of the base. They share no views, because they are deleted.
type sweeper struct {
	*Sweep
	o        Settings
	deadline time.Time // no cable begins after it; zero: none
	base     *pipeline.Estimation
	session  *lake.Session // of the base: nobody estimates the base again during the sweep
	cables   [][2]int32    // by their numbers
	dir      string        // directory of the records, in the state of the base, relative to the lake
	flows    []sweptFlow   // of the base
}

func newSweeper(base *pipeline.Estimation, session *lake.Session, plan SweepPlan, o Settings) (
	s *sweeper, err error,
) {
	plan.Service = cmp.Or(plan.Service, AllFlows)
	s = &sweeper{Sweep: &Sweep{Base: string(base.ID()), Plan: plan}, o: o, base: base, session: session}
	s.cables, err = base.Network.SelectUp(plan.Tier)
	return s, err
}

// check checks the sweep before any work.
func (s *sweeper) check(ctx context.Context) error {
	if !slices.Contains(pipeline.Quantiles, s.Plan.Quantile) {
		return fmt.Errorf("quantile %v: must be one of %v", s.Plan.Quantile, pipeline.Quantiles)
	}
	first, err := s.Plan.Changes(s.cables[0])
	if err == nil {
		_, _, err = s.base.CheckChanges(ctx, first, s.o.Variant, s.o.Settings)
	}
	return err
}

// openBase finds the records of the cables. The base must be estimated.
func (s *sweeper) openBase() (err error) {
	run := s.base
	s.o.Variant = run.Variant()
	s.Variant = run.Variant().String()
	s.dir = lake.Of(run.ID()).StatePath(fmt.Sprintf("sweep-%d", pipeline.MethodVersion), s.Variant)
	if s.Plan.Each != "" {
		s.dir += "/" + strings.ReplaceAll(s.Plan.Each, " ", "-")
	}
	_, err = run.Records(schema.Slowdowns)
	return err
}

// readBase reads the flows of the base and their percentiles.
func (s *sweeper) readBase() (err error) {
	if s.flows, err = readSwept(s.base, 0); err != nil {
		return err
	}
	s.before = servicePercentiles(s.flows)
	if _, ok := s.before[s.Plan.Service]; !ok {
		return s.unknownService()
	}
	return nil
}

// todo reads the records of the cables and returns the numbers of those without one.
func (s *sweeper) todo() (todo []int) {
	s.Cables = make([]SweptCable, len(s.cables))
	for n, c := range s.cables {
		if !s.recorded(c, &s.Cables[n]) {
			todo = append(todo, n)
		}
	}
	s.Reused = len(s.cables) - len(todo)
	return todo
}

// estimateEach estimates the failure of each cable without a record, several side by side. It drops the
// cables that do not begin before the deadline.
func (s *sweeper) estimateEach(ctx context.Context) error {
	todo := s.todo()
	needBytes, err := s.base.PeakBytes()
	if err != nil {
		return err
	}
	needBytes = max(needBytes, bytesPerSwept*int64(len(s.flows)))
	o := s.o.Settings
	o.MemoryBytes = memoryBeside(o.MemoryBytes, sweptFlowBytes*int64(len(s.flows)))
	schedule := newSchedule(o, len(todo), needBytes)
	schedule.deadline = s.deadline
	s.AtOnce = schedule.atOnce
	cost, err := schedule.cost(ctx, s.base)
	if err != nil {
		return err
	}
	schedule.announce(cost)
	err = schedule.each(ctx, "cables", func(ctx context.Context, i int, o pipeline.Settings) (err error) {
		n := todo[i]
		s.Cables[n], err = s.one(ctx, s.cables[n], o)
		return err
	})
	s.Left = schedule.left
	s.Cables = slices.DeleteFunc(s.Cables, func(c SweptCable) bool { return c.Full == nil })
	if err == nil && len(s.Cables) == 0 {
		err = &budgetError{s.o.Budget, "cable"}
	}
	return err
}

// record returns the path of the record of a cable.
func (s *sweeper) record(c [2]int32) string {
	return s.dir + fmt.Sprintf("/cable-%d-%d.json", c[0], c[1])
}

// recorded reads the record of a cable, and reports whether there is one. A damaged record does not count.
func (s *sweeper) recorded(c [2]int32, swept *SweptCable) bool {
	var read SweptCable
	ok, err := s.base.Lake.ReadState(s.record(c), &read)
	if err != nil || !ok {
		return false
	}
	*swept = read
	return true
}

// one estimates the failure of one cable.
func (s *sweeper) one(ctx context.Context, c [2]int32, o pipeline.Settings) (swept SweptCable, err error) {
	began := time.Now()
	o.Log = o.Log.Level(zerolog.WarnLevel)
	o.Ephemeral = true
	changes, err := s.Plan.Changes(c)
	if err != nil {
		return swept, err
	}
	run, err := pipeline.Derive(ctx, s.base.Model, changes, s.o.Variant, o)
	if err != nil {
		return swept, err
	}
	defer run.Close()
	n := s.base.Network
	swept = SweptCable{A: c[0], B: c[1], NameA: n.Name(c[0]), NameB: n.Name(c[1])}
	if err := run.Estimate(ctx); err != nil {
		return swept, fmt.Errorf("cable %s of %s: %w", n.Ends(c[0], c[1]), s.Plan.what(), err)
	}
	if err := s.read(run, &swept); err != nil {
		return swept, err
	}
	swept.Seconds = time.Since(began).Seconds()
	// Delete the scenario before its record is written, so that a killed sweep estimates and deletes it
	// again.
	if err := run.Forget(); err != nil {
		return swept, err
	}
	return swept, s.session.WriteState(s.record(c), swept)
}

// read reads the results of the estimate of a cable.
func (s *sweeper) read(run *pipeline.Estimation, swept *SweptCable) error {
	flows, err := readSwept(run, len(s.flows))
	if err != nil {
		return err
	}
	swept.Full = servicePercentiles(flows)
	var wrong [3]error // the first error is returned
	swept.Intervals, wrong[0] = s.intervals(flows)
	swept.Cases, wrong[1] = run.Cases()
	swept.Unreachable, _, wrong[2] = run.Unreachable()
	return cmp.Or(wrong[:]...)
}

// intervals returns the intervals of a SweptCable whose flows are given. Flows are drawn in pairs, as in
// Compare.
func (s *sweeper) intervals(flows []sweptFlow) (map[string][][2]float64, error) {
	c := Comparison{joined: &join{}, by: []string{"service"}}
	out := map[string][][2]float64{}
	err := c.percentilesOf(func(do func(p *pair) error) error { return eachPair(s.flows, flows, do) })
	for _, r := range c.Rows {
		interval := [2]float64{r.Lo, r.Hi}
		if s.Plan.byFCT() {
			interval = [2]float64{r.FCTLo, r.FCTHi}
		}
		out[r.Group[0]] = append(out[r.Group[0]], interval)
	}
	return out, err
}

// write publishes the rows of table sweeps.
func (s *sweeper) write() error {
	var rows []columns.Row
	for i := range s.Cables {
		c := &s.Cables[i]
		for _, service := range slices.Sorted(maps.Keys(c.Full)) {
			if _, ok := s.before[service]; ok {
				rows = append(rows, s.row(c, service))
			}
		}
	}
	at := lake.Place{Scenario: s.base.ID(), Variant: s.base.Variant().Stored()}
	return s.session.PublishRows(at, fileSafe(s.Plan.what()),
		columns.RecordOf(schema.Sweeps, rows, func(r columns.Row) columns.Row { return r }))
}

// row returns the row of table sweeps of one service.
func (s *sweeper) row(c *SweptCable, service string) columns.Row {
	now := c.Full[service]
	row := columns.Row{
		"tier": s.Plan.what(), "node_a": c.A, "node_b": c.B, "service": service, "estimated": s.Variant,
		"flows": now.Flows, "unreachable": c.Unreachable,
		"simulated_cases": c.Cases.Cases, "cached_cases": c.Cases.CachedCases,
		"p50_fct_ns": now.P50FCT * 1e6, "p99_fct_ns": now.P99FCT * 1e6,
	}
	for q, name := range []string{"p50", "p90", "p99", "p999"} {
		row[name+"_slowdown"] = now.Slowdowns[q]
		row[name+"_change"] = s.slowdownChange(c, service, q)
	}
	return row
}
