package whatif

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
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
	scan     string        // SQL that reads table slowdowns of the base
	closed   bool          // flows wait for others

	mu        sync.Mutex // guards the databases
	databases []*sql.DB  // those that no cable uses
	opened    int        // number of databases
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

// openBase finds what all cables need of the base, which is estimated.
func (s *sweeper) openBase() error {
	run := s.base
	s.o.Variant = run.Variant()
	s.Variant = run.Variant().String()
	s.dir = lake.Of(run.ID()).StatePath(fmt.Sprintf("sweep-%d", pipeline.MethodVersion), s.Variant)
	if s.Plan.Each != "" {
		s.dir += "/" + strings.ReplaceAll(s.Plan.Each, " ", "-")
	}
	g, err := run.Generated()
	if err != nil {
		return err
	}
	s.closed = g.Closed()
	s.scan, err = run.Scan(schema.Slowdowns)
	return err
}

// readBase reads the percentiles of the base.
func (s *sweeper) readBase(ctx context.Context) error {
	db, err := s.base.OpenDuckDB(ctx)
	if err != nil {
		return err
	}
	s.before, err = servicePercentiles(ctx, db, s.scan)
	_ = db.Close() // nothing was written
	if _, ok := s.before[s.Plan.Service]; err == nil && !ok {
		err = s.unknownService()
	}
	return err
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
	schedule := newSchedule(s.o.Settings, len(todo), needBytes)
	schedule.deadline = s.deadline
	s.AtOnce = schedule.atOnce
	if err := schedule.announce(ctx, s.base); err != nil {
		return err
	}
	defer s.closeDatabases()
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
	if err := s.read(ctx, run, &swept); err != nil {
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
func (s *sweeper) read(ctx context.Context, run *pipeline.Estimation, swept *SweptCable) error {
	scan, err := run.Scan(schema.Slowdowns)
	if err != nil {
		return err
	}
	run.FreeMemory()
	db, err := s.takeDatabase(ctx, &run.Settings)
	if err != nil {
		return err
	}
	defer s.giveDatabase(db)
	var wrong [4]error // the first error is returned
	swept.Full, wrong[0] = servicePercentiles(ctx, db, scan)
	pairs := filepath.Join(run.Executor().Session().TmpPath(), "pairs.parquet")
	swept.Intervals, wrong[1] = s.intervals(ctx, db, scan, pairs)
	swept.Cases, wrong[2] = run.Cases()
	swept.Unreachable, _, wrong[3] = run.Unreachable()
	return cmp.Or(wrong[:]...)
}

// takeDatabase returns a database for the results of a cable. To open one takes a tenth of the processor time
// of a small estimate, so a later cable uses it again.
func (s *sweeper) takeDatabase(ctx context.Context, o *pipeline.Settings) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.databases) - 1
	if last >= 0 {
		db := s.databases[last]
		s.databases = s.databases[:last]
		return db, nil
	}
	s.opened++
	spill := filepath.Join(s.session.TmpPath(), fmt.Sprintf("duckdb-%d", s.opened))
	return duckdb.Open(ctx, duckdb.Options{MemoryBytes: max(128<<20, o.MemoryBytes), Threads: o.Workers,
		SpillDir: spill})
}

// giveDatabase returns a database that a later cable may use.
func (s *sweeper) giveDatabase(db *sql.DB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.databases = append(s.databases, db)
}

// closeDatabases closes the databases of the cables, to which nothing was written.
func (s *sweeper) closeDatabases() {
	for _, db := range s.databases {
		_ = db.Close()
	}
}

// servicePercentiles returns the slowdowns at pipeline.Quantiles, for each service and for all flows. scan is
// SQL that reads table slowdowns.
func servicePercentiles(ctx context.Context, db *sql.DB, scan string) (percentilesOf, error) {
	if _, err := db.ExecContext(ctx, "CREATE OR REPLACE VIEW slowdowns AS FROM "+scan); err != nil {
		return nil, duckdb.FirstLine(err)
	}
	out := percentilesOf{}
	return out, duckdb.Each(ctx, db, queries.Known("service_percentiles").SQL, func(rows *sql.Rows) error {
		var service string
		var flows int64
		s := make([]float64, len(pipeline.Quantiles))
		f := make([]float64, len(pipeline.Quantiles))
		err := rows.Scan(&service, &flows, &s[0], &s[1], &s[2], &s[3], &f[0], &f[1], &f[2], &f[3])
		if flows > out[service].Flows { // a service may have the name of all flows
			out[service] = newPercentiles(flows, s, f)
		}
		return err
	})
}

// intervals returns the intervals of a SweptCable, whose slowdowns scan reads. Flows are drawn in pairs, as
// in Compare. pairs is a file that it may write.
func (s *sweeper) intervals(
	ctx context.Context, db *sql.DB, scan, pairs string,
) (map[string][][2]float64, error) {
	of := func(scan string) *side { return &side{scans: map[string]string{schema.Slowdowns.Name: scan}} }
	joined := &join{base: of(s.scan), other: of(scan), byRow: s.closed}
	c := Comparison{joined: joined, by: []string{"service"}}
	out := map[string][][2]float64{}
	err := c.percentiles(ctx, db, pairs)
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
