package pipeline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/stages/ingest"
	"parsimon/stages/rng"

	_ "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// the engine behind database/sql

// A Validation holds an estimate against a truth.
type Validation struct {
	Truth   string
	Matched float64 // share of the estimated flows that have a truth
	Rows    []ValidationRow
	Tiers   []TierQueueing // empty unless the truth is our own
}

// ValidationRow compares one quantile of the slowdowns of one size bin. Both slowdowns are over the
// estimate's ideal FCT, so that only FCTs are compared.
type ValidationRow struct {
	SizeBin     string
	Flows       int64
	Quantile    float64
	Estimate    float64
	True        float64
	Error       float64 // Estimate / True - 1
	ErrorLo     float64 // 95% bootstrap interval of Error
	ErrorHi     float64
	Wasserstein float64 // W1 of the logarithms of the slowdowns in the bin
}

// TierQueueing compares, over the flows that have both, what the last packets of flows waited in the
// queues of one tier of links.
type TierQueueing struct {
	Tier                     string
	Hops                     int64
	EstimateMeanNS, TrueNS   float64
	EstimateP99NS, TrueP99NS float64
}

// replicates is the number of bootstrap samples behind an interval: enough for the ends of a 95%
// interval, the 3rd and the 98th of 100.
const replicates = 100

// Validate holds the run's estimates against a truth: the variant of exact_fcts that Exact made
// of the window, or a Parquet file with flow_id and fct_ns. It writes table validations.
func (r *Run) Validate(ctx context.Context, truthFile string, w Window) (*Validation, error) {
	if _, _, err := r.sampleStage().complete(r.lake); err != nil {
		return nil, err
	}
	v := &Validation{Truth: truthFile}
	var truth string
	if truthFile == "" {
		if _, _, err := r.exactStage(w).complete(r.lake); err != nil {
			return nil, err
		}
		v.Truth = r.exactVariant(w)
		truth = filepath.Join(r.lake.root, filepath.FromSlash(r.exactStage(w).place.dir(schema.ExactFCTs)), "*.parquet")
	} else if info, err := os.Stat(truthFile); err != nil {
		return nil, fmt.Errorf("truth: %w", err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("truth %s: is a directory, want a Parquet file", truthFile)
	} else {
		truth = ingest.EscapeGlob(truthFile)
	}
	db, err := r.openDuckDB(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	estimates := filepath.Join(r.lake.root, filepath.FromSlash(r.variant().dir(schema.Slowdowns)), "*.parquet")
	if truthFile != "" {
		if err := checkTruth(ctx, db, truth); err != nil {
			return nil, fmt.Errorf("truth %s: %w", truthFile, err)
		}
	}
	if v.Rows, v.Matched, err = compareQuantiles(ctx, db, estimates, truth); err != nil {
		return nil, fmt.Errorf("estimate against %s: %w", v.Truth, ingest.FirstLine(err))
	}
	switch {
	case v.Rows != nil:
	case w != Window{}:
		return nil, errors.New("no flow starts in the sampled stretch")
	default:
		return nil, fmt.Errorf("truth %s: no flow has both an estimate and a truth: do the flow ids agree?", v.Truth)
	}
	if truthFile == "" {
		if v.Tiers, err = r.compareTiers(ctx, db, w); err != nil {
			return nil, err
		}
	}
	return v, r.writeValidation(v)
}

// truthTypes are the types that the columns of a truth file may have.
var truthTypes = map[string][]string{
	"flow_id": {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"},
	"fct_ns":  {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"},
}

// checkTruth checks a truth file, its path escaped: that it has flow_id, unique, and fct_ns, positive.
func checkTruth(ctx context.Context, db *sql.DB, truth string) error {
	from := " FROM read_parquet(" + ingest.QuoteSQL(truth) + ", hive_partitioning=false)"
	rows, err := db.QueryContext(ctx, "SELECT *"+from+" LIMIT 0")
	if err != nil {
		return ingest.FirstLine(err)
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err := errors.Join(err, rows.Err()); err != nil {
		return ingest.FirstLine(err)
	}
	have, names := map[string]string{}, []string(nil)
	for _, t := range types {
		names = append(names, t.Name())
		have[strings.ToLower(t.Name())], _, _ = strings.Cut(t.DatabaseTypeName(), "(") // DECIMAL(18,3)
	}
	for _, c := range []string{"flow_id", "fct_ns"} {
		if have[c] == "" {
			return fmt.Errorf("no column %s (it has %s)", c, strings.Join(names, ", "))
		}
		if !slices.Contains(truthTypes[c], have[c]) {
			return fmt.Errorf("column %s is of type %s, want numbers", c, have[c])
		}
	}
	var nulls, bad, repeated int64
	var badID, repeatedID sql.NullString
	err = db.QueryRowContext(ctx, `WITH t AS (SELECT flow_id, fct_ns`+from+`),
		r AS (SELECT flow_id FROM t GROUP BY flow_id HAVING count(*) > 1)
		SELECT count(*) FILTER (flow_id IS NULL OR fct_ns IS NULL),
			count(*) FILTER (NOT (fct_ns > 0 AND CAST(fct_ns AS DOUBLE) < CAST('inf' AS DOUBLE))),
			CAST(min(flow_id) FILTER (NOT (fct_ns > 0 AND CAST(fct_ns AS DOUBLE) < CAST('inf' AS DOUBLE))) AS VARCHAR),
			(SELECT count(*) FROM r), (SELECT CAST(min(flow_id) AS VARCHAR) FROM r)
		FROM t`).Scan(&nulls, &bad, &badID, &repeated, &repeatedID)
	switch {
	case err != nil:
		return ingest.FirstLine(err)
	case nulls > 0:
		return fmt.Errorf("%d rows have no flow_id or no fct_ns", nulls)
	case bad > 0:
		return fmt.Errorf("fct_ns is not above 0 and finite in %d rows (first: flow_id %s)", bad, badID.String)
	case repeated > 0:
		return fmt.Errorf("%d flow ids stand there more than once (first: %s)", repeated, repeatedID.String)
	}
	return nil
}

// compareQuantiles joins estimate and truth and compares the quantiles of every size bin; no rows if
// no flow has both. matched is the share of the estimated flows that have a truth.
func compareQuantiles(ctx context.Context, db *sql.DB, estimates, truth string) (out []ValidationRow, matched float64, err error) {
	var estimated int64
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM read_parquet("+ingest.QuoteSQL(estimates)+")").Scan(&estimated); err != nil {
		return nil, 0, err
	}
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`
		SELECT e.flow_row, e.size_bytes, e.slowdown, t.fct_ns / e.ideal_ns
		FROM read_parquet(%s) e JOIN read_parquet(%s, hive_partitioning=false) t USING (flow_id) ORDER BY e.flow_row`, ingest.QuoteSQL(estimates), ingest.QuoteSQL(truth)))
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	var bins []*sample
	for _, b := range sizebin.Bins() {
		bins = append(bins, &sample{name: b.Name, most: b.MaxBytes})
	}
	bins = append(bins, &sample{name: sizebin.All})
	for rows.Next() {
		var row, size int64
		var estimate, tru float64
		if err := rows.Scan(&row, &size, &estimate, &tru); err != nil {
			return nil, 0, err
		}
		at := slices.IndexFunc(bins, func(b *sample) bool { return size <= b.most })
		bins[at].add(row, estimate, tru)
		bins[len(bins)-1].add(row, estimate, tru)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, err
	}
	for _, b := range bins {
		if len(b.estimate) > 0 {
			out = append(out, b.compare()...)
		}
	}
	return out, float64(len(bins[len(bins)-1].estimate)) / float64(max(1, estimated)), nil
}

// A sample is the flows of one size bin, with estimate and truth.
type sample struct {
	name          string
	most          int64 // size
	rows          []int64
	estimate, tru []float64
}

func (s *sample) add(row int64, estimate, tru float64) {
	s.rows, s.estimate, s.tru = append(s.rows, row), append(s.estimate, estimate), append(s.tru, tru)
}

// compare answers a row for each quantile. The intervals are of a Poisson bootstrap: each replicate
// gives each flow a weight drawn from a Poisson distribution of mean 1, keyed by flow and replicate,
// the same for its estimate and its truth, so that what is common to both cancels.
func (s *sample) compare() []ValidationRow {
	n := len(s.estimate)
	byEstimate, byTruth := ranked(s.estimate), ranked(s.tru)
	errorsOf := make([][]float64, len(answerQuantiles))
	weight := make([]uint8, n)
	for rep := range replicates {
		total := 0
		for i, row := range s.rows {
			u := rng.New(uint64(rep), rng.Bootstrap, uint64(row))
			weight[i] = stages.PoissonOne(u.Uint64())
			total += int(weight[i])
		}
		est, tru := weighted(s.estimate, byEstimate, weight, total), weighted(s.tru, byTruth, weight, total)
		for q := range answerQuantiles {
			errorsOf[q] = append(errorsOf[q], est[q]/tru[q]-1)
		}
	}
	var distance float64
	for i := range n {
		distance += math.Abs(math.Log(s.estimate[byEstimate[i]]) - math.Log(max(1e-9, s.tru[byTruth[i]])))
	}
	var out []ValidationRow
	for q, p := range answerQuantiles {
		est, tru := quantileOf(s.estimate, byEstimate, p), quantileOf(s.tru, byTruth, p)
		slices.Sort(errorsOf[q])
		out = append(out, ValidationRow{
			SizeBin: s.name, Flows: int64(n), Quantile: p, Estimate: est, True: tru, Error: est/tru - 1,
			ErrorLo: errorsOf[q][replicates*25/1000], ErrorHi: errorsOf[q][replicates-1-replicates*25/1000], Wasserstein: distance / float64(n),
		})
	}
	return out
}

// ranked orders the places of values by value.
func ranked(values []float64) []int32 {
	order := make([]int32, len(values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return int(a - b)
	})
	return order
}

// quantileOf interpolates between order statistics, as the queries do (quantile_cont).
func quantileOf(values []float64, order []int32, p float64) float64 {
	at := p * float64(len(order)-1)
	lo := int(at)
	hi := min(lo+1, len(order)-1)
	return values[order[lo]] + (at-float64(lo))*(values[order[hi]]-values[order[lo]])
}

// weighted answers the quantiles of weighted values.
func weighted(values []float64, order []int32, weight []uint8, total int) []float64 {
	out := make([]float64, len(answerQuantiles))
	q, seen := 0, 0
	for _, i := range order {
		seen += int(weight[i])
		for q < len(out) && float64(seen) >= answerQuantiles[q]*float64(total) && seen > 0 {
			out[q] = values[i]
			q++
		}
	}
	for ; q < len(out); q++ {
		out[q] = values[order[len(order)-1]]
	}
	return out
}

// compareTiers compares the waits of the flows' last packets by tier of links.
func (r *Run) compareTiers(ctx context.Context, db *sql.DB, w Window) ([]TierQueueing, error) {
	if r.backend != stages.Kernel {
		return nil, nil // it answers no waits
	}
	glob := func(dir string) string {
		return ingest.QuoteSQL(filepath.Join(r.lake.root, filepath.FromSlash(dir), "*.parquet"))
	}
	waits := glob(r.variant().dir(schema.HopContributions))
	if r.estimator == stages.Independent { // what it draws is no wait of the flow's own
		waits = glob(r.variant().dir(schema.HopDelays))
	}
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`
		SELECT l.tier, count(*), avg(d.wait_ns), avg(x.last_wait_ns), quantile_cont(d.wait_ns, 0.99), quantile_cont(x.last_wait_ns, 0.99)
		FROM read_parquet(%s) x JOIN read_parquet(%s) d ON d.flow_row = x.flow_row AND d.link_id = x.link_id
		JOIN read_parquet(%s) l ON l.link_id = x.link_id
		WHERE x.hop > 0 GROUP BY l.tier ORDER BY avg(x.last_wait_ns) DESC, l.tier`,
		glob(r.exactStage(w).place.dir(schema.ExactHops)), waits, glob(r.base().dir(schema.Links))))
	if err != nil {
		return nil, fmt.Errorf("queueing by tier: %w", ingest.FirstLine(err))
	}
	defer rows.Close()
	var out []TierQueueing
	for rows.Next() {
		var t TierQueueing
		if err := rows.Scan(&t.Tier, &t.Hops, &t.EstimateMeanNS, &t.TrueNS, &t.EstimateP99NS, &t.TrueP99NS); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// writeValidation puts the comparison into the lake.
func (r *Run) writeValidation(v *Validation) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Validations.Arrow())
	defer b.Release()
	for _, row := range v.Rows {
		b.Field(0).(*array.StringBuilder).Append(v.Truth)
		b.Field(1).(*array.StringBuilder).Append(row.SizeBin)
		b.Field(2).(*array.Int64Builder).Append(row.Flows)
		for i, x := range []float64{row.Quantile, row.Estimate, row.True, row.Error, row.ErrorLo, row.ErrorHi, row.Wasserstein} {
			b.Field(3 + i).(*array.Float64Builder).Append(x)
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	name := fileSafe(filepath.Base(v.Truth))
	_, err := r.lake.writePart(schema.Validations, r.variant().dir(schema.Validations)+"/part-"+name+".parquet", []arrow.Record{rec}...)
	if err != nil {
		return err
	}
	return queries.WriteCatalog(r.lake.root)
}

// fileSafe is a text with all but letters, digits and dashes made dashes.
func fileSafe(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}, text)
}

// Write writes the comparison as a table.
func (v *Validation) Write(w io.Writer) error {
	p := printer{w: w}
	p.linef("estimate against %s (slowdowns over the same ideal; error with its 95%% bootstrap interval); %.4g%% of the estimated flows have a truth", v.Truth, 100*v.Matched)
	p.linef("%-12s %9s %8s %10s %10s %8s %19s %8s", "size_bin", "flows", "quantile", "estimate", "truth", "error", "interval", "w1_log")
	for _, r := range v.Rows {
		p.linef("%-12s %9d %8g %10.3f %10.3f %+7.1f%% %+8.1f%% to %+6.1f%% %8.4f", r.SizeBin, r.Flows, r.Quantile, r.Estimate, r.True, 100*r.Error, 100*r.ErrorLo, 100*r.ErrorHi, r.Wasserstein)
	}
	if len(v.Tiers) > 0 {
		p.linef("\nwait of a flow's last packet in the queues of each tier, ns")
		p.linef("%-14s %9s %14s %10s %14s %10s", "tier", "hops", "estimate_mean", "true_mean", "estimate_p99", "true_p99")
		for _, t := range v.Tiers {
			p.linef("%-14s %9d %14.0f %10.0f %14.0f %10.0f", t.Tier, t.Hops, t.EstimateMeanNS, t.TrueNS, t.EstimateP99NS, t.TrueP99NS)
		}
	}
	return p.err
}
