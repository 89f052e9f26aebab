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

// A sweeper is a running sweep. It holds the lock of the base scenario. The estimates of the cables share
// data that is made once: the flows, whose files they link to, the network, and the percentiles of the base.
// They share no views, because they are deleted.
type sweeper struct {
	*Sweep
	o      Settings
	base   *pipeline.Estimation
	dir    string // directory of the records, in the state of the base, relative to the lake
	scan   string // SQL that reads table slowdowns of the base
	closed bool   // flows wait for others

	mu sync.Mutex // guards Reused
}

// check checks the sweep before any work and returns its cables.
func (s *sweeper) check(ctx context.Context) ([][2]int32, error) {
	cables, err := s.base.Network.SelectUp(s.Plan.Tier)
	if err != nil {
		return nil, err
	}
	first, err := s.Plan.Changes(cables[0])
	if err != nil {
		return nil, err
	}
	_, err = s.base.CheckChanges(ctx, first, s.o.Variant, s.o.Settings)
	return cables, err
}

// estimateBase estimates the base, unless it is estimated already, and reads what all cables need of it.
func (s *sweeper) estimateBase(ctx context.Context) error {
	run := s.base
	if err := run.Estimate(ctx); err != nil {
		return err
	}
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
	if s.scan, err = run.Scan(schema.Slowdowns); err != nil {
		return err
	}
	db, err := run.OpenDuckDB(ctx)
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

// estimateEach estimates the failure of each cable, several side by side.
func (s *sweeper) estimateEach(ctx context.Context, cables [][2]int32) error {
	needBytes, err := s.base.PeakBytes()
	if err != nil {
		return err
	}
	schedule := newSchedule(s.o.Settings, len(cables), needBytes)
	s.AtOnce = schedule.atOnce
	if err := schedule.announce(ctx, s.base, s.o.Settings); err != nil {
		return err
	}
	s.Cables = make([]SweptCable, len(cables))
	return schedule.each(ctx, "cables", func(ctx context.Context, i int, o pipeline.Settings) (err error) {
		s.Cables[i], err = s.one(ctx, cables[i], o)
		return err
	})
}

// one estimates the failure of one cable, unless its estimate is complete already.
func (s *sweeper) one(ctx context.Context, c [2]int32, o pipeline.Settings) (swept SweptCable, err error) {
	began := time.Now()
	record := s.dir + fmt.Sprintf("/cable-%d-%d.json", c[0], c[1])
	if ok, err := s.base.Lake.ReadState(record, &swept); err == nil && ok {
		s.mu.Lock()
		s.Reused++
		s.mu.Unlock()
		return swept, nil
	}
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
	return swept, s.base.Executor().Session().WriteState(record, swept)
}

// read reads the results of the estimate of a cable.
func (s *sweeper) read(ctx context.Context, run *pipeline.Estimation, swept *SweptCable) error {
	scan, err := run.Scan(schema.Slowdowns)
	if err != nil {
		return err
	}
	db, err := run.OpenDuckDB(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var wrong [4]error // the first error is returned
	swept.Full, wrong[0] = servicePercentiles(ctx, db, scan)
	pairs := filepath.Join(run.Executor().Session().TmpPath(), "pairs.parquet")
	swept.Intervals, wrong[1] = s.intervals(ctx, db, scan, pairs)
	swept.Cases, wrong[2] = run.Cases()
	swept.Unreachable, _, wrong[3] = run.Unreachable()
	return cmp.Or(wrong[:]...)
}

// servicePercentiles returns the slowdowns at pipeline.Quantiles, for each service and for all flows. scan is
// SQL that reads table slowdowns.
func servicePercentiles(ctx context.Context, db *sql.DB, scan string) (percentilesOf, error) {
	if _, err := db.ExecContext(ctx, "CREATE VIEW slowdowns AS FROM "+scan); err != nil {
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
	return s.base.Executor().Session().PublishRows(at, fileSafe(s.Plan.what()),
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
