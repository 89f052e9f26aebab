// Package whatif answers questions that need several estimates: what changes if a cable fails or a service
// grows (WhatIf, RunSweep), how two estimates differ (Compare), and how accurate an estimate is relative to a
// reference (Validate).
//
//	base ──────────────► estimate ─┐
//	 └─ scenario.Changes ─► estimate ─┴─► join flow by flow ─► percentiles, intervals, links that explain the change
package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/estimators"
)

// Settings control how the estimates are made and run.
type Settings struct {
	pipeline.Settings
	Lake    string // directory
	Variant pipeline.Variant
	// Budget is the time after which no further run of a sweep begins; 0: no limit. Runs that have begun end.
	Budget time.Duration
}

// deadline returns the time at which the budget of a sweep is over; zero: never.
func (o *Settings) deadline(began time.Time) time.Time {
	if o.Budget == 0 {
		return time.Time{}
	}
	return began.Add(o.Budget)
}

// An Answer is the comparison of a what-if, and the estimate of the changed scenario.
type Answer struct {
	*Comparison
	changed *pipeline.Estimation
}

// WhatIf estimates a scenario of the lake, unless it is estimated already, and then estimates the changed
// scenario in the same way. It compares the two. With Auto, the changed scenario is estimated like the base
// or, if that is by flow, as a run chooses. If only one of them can be simulated as a whole network, both use
// link cases. If two passes are accurate enough for only one of them, both are simulated as whole networks.
func WhatIf(ctx context.Context, base string, c scenario.Changes, o Settings, how CompareOptions) (*Answer,
	error) {
	o.For = pipeline.ForDifference
	model, err := pipeline.OpenModelIn(ctx, o.Lake, base)
	if err != nil {
		return nil, err
	}
	return whatIf(ctx, model, c, o, how)
}

func whatIf(
	ctx context.Context, base *pipeline.Model, c scenario.Changes, o Settings, how CompareOptions,
) (*Answer, error) {
	_, cables, err := base.CheckChanges(ctx, c, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	how.ofChange = true
	how.changed = cables
	before, err := base.Resume(ctx, o.Variant, o.Settings)
	if err != nil {
		return nil, err
	}
	finishBefore := finish // a what-if does not change the answer of a run
	if before.Lake.Answer(before.ID()).IsZero() {
		finishBefore = finishAsAnswer
	}
	if err := finishBefore(ctx, before); err != nil {
		return nil, err
	}
	same := before.Variant()
	chosen := o.Variant.Auto && same.Estimator == estimators.Flow
	if chosen {
		same = o.Variant // this may choose the whole network
	}
	changed, err := pipeline.Derive(ctx, base, c, same, o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Variant.Auto && !chosen {
		if ok, err := changed.CanBeExact(ctx); err != nil || !ok {
			changed.Close()
			if err != nil {
				return nil, err
			}
			// Its warnings are in table warnings.
			o.Variant = pipeline.Variant{Estimator: estimators.Flow}
			o.For = ""
			return whatIf(ctx, base, c, o, how)
		}
	}
	if err := finishAsAnswer(ctx, changed); err != nil {
		return nil, err
	}
	if changed.Variant().String() != before.Variant().String() {
		o.Variant = changed.Variant()
		return whatIf(ctx, base, c, o, how)
	}
	how.MemoryBytes = o.MemoryBytes
	compared, err := Compare(ctx, before.Lake, SideOf(before), SideOf(changed), how)
	if err != nil {
		return nil, err
	}
	return &Answer{compared, changed}, nil
}

// finish runs and closes an estimate.
func finish(ctx context.Context, e *pipeline.Estimation) error {
	defer e.Close()
	return e.Estimate(ctx)
}

// finishAsAnswer runs and closes an estimate, and makes it the answer of its scenario.
func finishAsAnswer(ctx context.Context, e *pipeline.Estimation) error {
	defer e.Close()
	if err := e.Estimate(ctx); err != nil {
		return err
	}
	return e.MakeAnswer()
}

// Text formats the comparison and the cost of the second estimate for users.
func (a *Answer) Text() *text.Answer {
	out := a.Comparison.Text()
	for _, line := range a.Warnings {
		out.Linef("warning: %s", line)
	}
	summary.AddCost(out, a.changed)
	l := a.changed.Lake
	base := pipeline.ShellName(l, lake.ScenarioID(a.Base.Scenario))
	other := pipeline.ShellName(l, lake.ScenarioID(a.Other.Scenario))
	out.Linef("\nNext:\n  parsimon compare %s %s --by service,size_bin --lake %s\n  parsimon report %s "+
		"--compare %s --lake %s",
		base, other, l.Path(), other, base, l.Path())
	return out
}

// SideOf returns the Side of an estimate.
func SideOf(e *pipeline.Estimation) Side { return Side{string(e.ID()), e.Variant().String(), e.Model} }

// A side is an estimate as it was committed when it was opened. Another process that works on the scenario
// may repeat stages in the meantime.
type side struct {
	*pipeline.Estimation
	flows int64             // number of flows with an estimate
	scans map[string]string // SQL that reads a table, by the name of the table
	files []lake.DataFile   // the files in the manifest
}

// place returns where the lake has the tables of the estimate.
func (s *side) place() lake.Place { return lake.Place{Scenario: s.ID(), Variant: s.Variant().Stored()} }

// confirm returns an error if the committed files of an estimate have changed since it was opened. The rows
// of a comparison are published beside the estimate that they describe, so they must match it.
func (s *side) confirm() error {
	at := s.place()
	now, _, err := s.Lake.ReadManifest(at)
	if err != nil {
		return err
	}
	for _, f := range s.files {
		if !slices.ContainsFunc(now.Files, func(n lake.DataFile) bool {
			return n.Path == f.Path &&
				n.Digest == f.Digest
		}) {
			return fmt.Errorf("%s was estimated again or removed while it was being compared: compare it again", at)
		}
	}
	return nil
}

// openSide opens an estimate and verifies the files of the tables to compare.
func openSide(ctx context.Context, l *lake.Lake, of Side) (*side, error) {
	model := of.model
	err := error(nil)
	if model == nil {
		model, err = pipeline.OpenModel(ctx, l, of.Scenario)
	}
	if err != nil {
		return nil, err
	}
	v, err := pipeline.ParseVariant(of.Variant)
	if err != nil {
		return nil, err
	}
	s := &side{Estimation: pipeline.ReadOnly(model, v, pipeline.Settings{}), scans: map[string]string{}}
	m, _, err := l.ReadManifest(s.place())
	if err != nil {
		return nil, err
	}
	for _, t := range []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats} {
		files := lake.FilesOf(m.Files, t)
		if len(files) == 0 {
			return nil, fmt.Errorf("scenario %s has no table %s of variant %s: run it again", s.ID(), t.Name,
				of.Variant)
		}
		for _, f := range files {
			if err := l.Check(f); err != nil {
				return nil, fmt.Errorf("scenario %s, variant %s: %w: run it again to repair it", s.ID(), of.Variant, err)
			}
			if t.Name == schema.Slowdowns.Name {
				s.flows += f.Rows
			}
		}
		s.scans[t.Name] = pipeline.ScanFiles(l, files)
		s.files = append(s.files, files...)
	}
	return s, nil
}

// A join joins the flows of two estimates. A flow is in both estimates if its id, size and start are the
// same. Flows that wait for others start at other times in each estimate, so they are joined by row. If the
// flows cannot be paired, the join has all flows of both estimates.
type join struct {
	base, other     *side
	byRow, unpaired bool
}

func openJoin(ctx context.Context, l *lake.Lake, base, other Side) (j *join, err error) {
	j = &join{}
	if j.base, err = openSide(ctx, l, base); err == nil {
		j.other, err = openSide(ctx, l, other)
	}
	if err != nil {
		return nil, err
	}
	a, err := j.base.Generated()
	b, otherErr := j.other.Generated()
	if err := errors.Join(err, otherErr); err != nil {
		return nil, err
	}
	j.byRow = a.Closed()
	if j.byRow != b.Closed() {
		return nil, fmt.Errorf("flows wait for others in one of %s and %s: such a scenario is compared with one "+
			"of the same flows that wait, too", base.Scenario, other.Scenario)
	}
	return j, nil
}

// A pair is a flow that is in both estimates: its row of table flows of the base, its groups (hops are those
// of the base), and its slowdowns. For a flow that is in only one estimate, the slowdown in the other is 0.
type pair struct {
	Row      int64   `col:"flow_row"`
	Service  string  `col:"service"`
	VNet     string  `col:"vnet"`
	SizeBin  string  `col:"size_bin"`
	Hops     string  `col:"hops"`
	Base     float64 `col:"base"`
	Other    float64 `col:"other"`
	BaseFCT  float64 `col:"base_fct_ms"`
	OtherFCT float64 `col:"other_fct_ms"`
	Ideal    int64   `col:"ideal_changed"` // 0 or 1
}

// create creates the views base_TABLE and other_TABLE of both estimates, and view pairs, whose rows are
// pairs. It replaces those of another join.
func (j *join) create(ctx context.Context, db *sql.DB) error {
	text := "CREATE OR REPLACE MACRO size_bin_name(bytes) AS CASE"
	for _, b := range sizebin.Bins() {
		text += fmt.Sprintf(" WHEN bytes <= %d THEN %s", b.MaxBytes, duckdb.Quote(b.Name))
	}
	text += " END"
	for of, scans := range map[string]map[string]string{"base": j.base.scans, "other": j.other.scans} {
		for table, scan := range scans {
			text += "; CREATE OR REPLACE VIEW " + of + "_" + table + " AS FROM " + scan
		}
	}
	pairs := "pairs"
	same := "flow_id, size_bytes, start_ns"
	if j.byRow {
		same = "flow_id, size_bytes, flow_row"
	}
	if j.unpaired {
		pairs = "unpaired"
	}
	text += "; CREATE OR REPLACE VIEW pairs AS " + strings.ReplaceAll(queries.Known(pairs).SQL, "$same", same)
	_, err := db.ExecContext(ctx, text)
	return duckdb.FirstLine(err)
}

// eachRow makes DuckDB write the rows of a SELECT statement to a file, and calls do for each row. This is
// many times faster than database/sql. It removes the file.
func eachRow[T any](ctx context.Context, db *sql.DB, file, rows string, do func(r *T) error) error {
	types := map[reflect.Kind]arrow.DataType{reflect.Int64: arrow.PrimitiveTypes.Int64,
		reflect.Float64: arrow.PrimitiveTypes.Float64, reflect.String: arrow.BinaryTypes.String}
	t := schema.Table{Name: reflect.TypeFor[T]().Name()}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		t.Columns = append(t.Columns, schema.Column{Name: f.Tag.Get("col"), Type: types[f.Type.Kind()]})
	}
	_, err := db.ExecContext(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet)", rows, duckdb.Quote(file)))
	if err != nil {
		return duckdb.FirstLine(err)
	}
	return errors.Join(columns.Each(parquet.OpenForeign(t, file), do), os.Remove(file))
}

// A JobComparison has the times of a job in both estimates.
type JobComparison struct {
	Job    string            `json:"job"`
	Base   summary.JobResult `json:"base"`
	Other  summary.JobResult `json:"other"`
	Change float64           `json:"change"` // of the mean duration of an iteration, Other / Base - 1
}

func compareJobs(base, other []summary.JobResult) (out []JobComparison) {
	for _, b := range base {
		i := slices.IndexFunc(other, func(o summary.JobResult) bool { return o.Name == b.Name })
		if i >= 0 {
			out = append(out, JobComparison{b.Name, b, other[i], other[i].MeanNS()/b.MeanNS() - 1})
		}
	}
	return out
}

func (c *Comparison) addJobs(a *text.Answer) {
	if len(c.Jobs) == 0 {
		return
	}
	a.Linef("\nIterations of the jobs, mean and longest")
	t := a.Table("job", "iterations", "base_mean_ns", "mean_ns", "change", "base_longest_ns", "longest_ns",
		"base_completion_ns", "completion_ns")
	for _, j := range c.Jobs {
		t.Add(j.Job, int64(len(j.Other.Iterations)), j.Base.MeanNS(), j.Other.MeanNS(), text.Percent(j.Change),
			slices.Max(j.Base.Iterations), slices.Max(j.Other.Iterations), j.Base.CompletionNS, j.Other.CompletionNS)
	}
}

// A JobSpread is the mean duration of a job's iterations over runs that differ only in their seed, and its
// 95% interval.
type JobSpread struct {
	Settings string  `json:"settings"` // without the seed
	Job      string  `json:"job"`
	Seeds    int     `json:"seeds"`
	MeanNS   float64 `json:"mean_ns"`
	LoNS     float64 `json:"lo_ns"`
	HiNS     float64 `json:"hi_ns"`
}

// overSeeds returns the results of jobs over the seeds of a sweep, in the order of the runs. Without an axis
// for the seed, it returns none. The intervals are those of Student's t distribution for the means of
// independent runs.
func (p *Parameters) overSeeds() (out []JobSpread) {
	var means [][]float64
	for i, run := range p.Runs {
		settings := strings.Split(p.SettingsOf(i), ", ")
		others := slices.DeleteFunc(slices.Clone(settings),
			func(s string) bool { return strings.HasPrefix(s, "seed=") })
		for _, j := range run.Jobs {
			key := strings.Join(others, ", ")
			at := slices.IndexFunc(out, func(s JobSpread) bool { return s.Settings == key && s.Job == j.Name })
			if at < 0 {
				at = len(out)
				out = append(out, JobSpread{Settings: key, Job: j.Name})
				means = append(means, nil)
			}
			means[at] = append(means[at], j.MeanNS())
		}
		if len(others) == len(settings) {
			return nil
		}
	}
	for i, x := range means {
		n := float64(len(x))
		mean := 0.0
		squares := 0.0
		for _, v := range x {
			mean += v / n
		}
		for _, v := range x {
			squares += (v - mean) * (v - mean)
		}
		half := 0.0
		if n > 1 {
			half = sampling.StudentT(0.95, n-1) * math.Sqrt(squares/(n-1)/n)
		}
		out[i].Seeds = len(x)
		out[i].MeanNS = mean
		out[i].LoNS = mean - half
		out[i].HiNS = mean + half
	}
	return out
}

// addJobs adds the jobs of each run, and by how much their iterations are longer than in the best run of the
// job.
func (p *Parameters) addJobs(a *text.Answer) {
	best := map[string]float64{}
	for _, r := range p.Runs {
		for _, j := range r.Jobs {
			if least, known := best[j.Name]; !known || j.MeanNS() < least {
				best[j.Name] = j.MeanNS()
			}
		}
	}
	if len(best) == 0 {
		return
	}
	a.Linef("\nIterations of the jobs; over_best: the mean against the run where it is the shortest")
	t := a.Table(append(p.keys(), "job", "iterations", "mean_ns", "shortest_ns", "longest_ns", "completion_ns",
		"over_best")...)
	for _, r := range p.Runs {
		for _, j := range r.Jobs {
			t.Add(append(p.valuesOf(&r), j.Name, int64(len(j.Iterations)), j.MeanNS(), slices.Min(j.Iterations),
				slices.Max(j.Iterations), j.CompletionNS, text.Percent(j.MeanNS()/best[j.Name]-1))...)
		}
	}
	if len(p.OverSeeds) == 0 {
		return
	}
	a.Linef("\nMean iterations over the seeds, with 95%% intervals")
	t = a.Table("settings", "job", "seeds", "mean_ns", "lo_ns", "hi_ns")
	for _, s := range p.OverSeeds {
		t.Add(s.Settings, s.Job, int64(s.Seeds), s.MeanNS, s.LoNS, s.HiNS)
	}
}
