package whatif

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/footer"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
	"parsimon/stages/estimators"
	"parsimon/stages/rng"
)

// A Validation holds an estimate against a truth.
type Validation struct {
	Truth   string          `json:"truth"`
	Matched float64         `json:"matched"` // share of the estimated flows that have a truth
	Rows    []ValidationRow `json:"percentiles"`
}

// Validate holds an estimate against a truth: the whole-network simulation of the scenario, or a Parquet file with
// flow_id and fct_ns. It writes table validations.
func Validate(ctx context.Context, e *pipeline.Estimation, truthFile string) (*Validation, error) {
	if _, err := e.Records(schema.Slowdowns); err != nil {
		return nil, err
	}
	db, err := e.OpenDuckDB(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	v := &Validation{Truth: truthFile}
	var truth string
	if truthFile == "" {
		r, err := e.ExactRecords()
		if err != nil {
			return nil, err
		}
		v.Truth, truth = estimators.Exact.String(), pipeline.ScanFiles(e.Lake, r.Files(schema.ExactFCTs))
	} else if truth, err = openTruth(ctx, db, truthFile); err != nil {
		return nil, fmt.Errorf("truth %s: %w", truthFile, err)
	}
	if v.Rows, v.Matched, err = compareQuantiles(ctx, e, db, truth); err != nil {
		return nil, fmt.Errorf("estimate against %s: %w", v.Truth, duckdb.FirstLine(err))
	}
	if v.Rows == nil {
		return nil, fmt.Errorf("truth %s: no flow has both an estimate and a truth: do the flow ids agree?", v.Truth)
	}
	rows := columns.RecordOf(schema.Validations, v.Rows, func(row ValidationRow) columns.Row {
		return columns.Row{
			"truth": v.Truth, "size_bin": row.Name, "flows": row.Flows, "quantile": row.Quantile,
			"estimate": row.Estimate, "true_slowdown": row.True,
			"error": row.Error, "error_lo": row.ErrorLo, "error_hi": row.ErrorHi, "wasserstein": row.Wasserstein,
		}
	})
	at := lake.Place{Scenario: e.ID(), Variant: e.Variant().String()}
	return v, e.Executor().Session().PublishRows(at, fileSafe(filepath.Base(v.Truth)), rows)
}

// openTruth returns the SQL that reads a truth file, which has flow_id, whole and unique, and fct_ns, positive.
func openTruth(ctx context.Context, db *sql.DB, file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", errors.New("is a directory, want a Parquet file")
	}
	if err := footer.CheckFile(file); err != nil {
		return "", err
	}
	truth := duckdb.ScanParquet(file)
	var wrong sql.NullString
	if _, err = db.ExecContext(ctx, "CREATE VIEW truth AS FROM "+truth); err == nil {
		err = db.QueryRowContext(ctx, queries.Known("truth_types").SQL).Scan(&wrong)
	}
	switch {
	case err != nil:
		return "", duckdb.FirstLine(err)
	case wrong.Valid:
		return "", errors.New(wrong.String)
	}
	var nulls, bad, repeated int64
	var badID, repeatedID sql.NullString
	err = db.QueryRowContext(ctx, queries.Known("truth_rows").SQL).Scan(&nulls, &bad, &badID, &repeated, &repeatedID)
	switch {
	case err != nil:
		return "", duckdb.FirstLine(err)
	case nulls > 0:
		return "", fmt.Errorf("%d rows have no flow_id or no fct_ns", nulls)
	case bad > 0:
		return "", fmt.Errorf("fct_ns is not above 0 and finite in %d rows (first: flow_id %s)", bad, badID.String)
	case repeated > 0:
		return "", fmt.Errorf("%d flow ids stand there more than once (first: %s)", repeated, repeatedID.String)
	}
	return truth, nil
}

// A match is a flow that has an estimate and a truth.
type match struct {
	Row      int64   `col:"flow_row"`
	Size     int64   `col:"size_bytes"`
	Estimate float64 `col:"estimate"`
	Truth    float64 `col:"truth"`
}

// compareQuantiles joins estimate and truth and compares the quantiles of every size bin; no rows if no flow has both.
// matched is the share of the estimated flows that have a truth. DuckDB joins within its memory; what is held here is
// 24 bytes a flow.
func compareQuantiles(ctx context.Context, e *pipeline.Estimation, db *sql.DB,
	truth string) (out []ValidationRow, matched float64, err error) {
	estimates, err := e.Files(schema.Slowdowns)
	if err != nil {
		return nil, 0, err
	}
	var estimated int64
	for _, f := range estimates {
		estimated += f.Rows
	}
	bins := names.Of(sizebin.Bins(), func(b sizebin.Bin) *sample { return &sample{name: b.Name, most: b.MaxBytes} })
	all := &sample{name: sizebin.All}
	file := filepath.Join(e.Executor().Session().TmpPath(), "matches.parquet")
	err = eachRow(ctx, db, file, fmt.Sprintf(`
		SELECT e.flow_row, e.size_bytes, e.slowdown AS estimate, CAST(t.fct_ns / e.ideal_ns AS DOUBLE) AS truth
		FROM %s e JOIN %s t USING (flow_id)`, pipeline.ScanFiles(e.Lake, estimates), truth), func(m *match) error {
		at := slices.IndexFunc(bins, func(b *sample) bool { return m.Size <= b.most })
		bins[at].add(m.Row, m.Estimate, m.Truth)
		all.add(m.Row, m.Estimate, m.Truth)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, b := range append(bins, all) {
		if len(b.estimate) > 0 {
			out = append(out, b.compare()...)
		}
	}
	return out, float64(len(all.estimate)) / float64(max(1, estimated)), nil
}

// AddTo adds the comparison to an answer for people.
func (v *Validation) AddTo(a *text.Answer) {
	a.Linef("estimate against %s (slowdowns over the same ideal; error with its 95%% bootstrap interval); %.4g%% of the flows are in both", v.Truth, 100*v.Matched)
	table := a.Table("size_bin", "flows", "quantile", "estimate", "truth", "error", "from", "to", "w1_log")
	for _, r := range v.Rows {
		table.Add(r.Name, r.Flows, r.Quantile, r.Estimate, r.True, text.Percent(r.Error),
			text.Percent(r.ErrorLo), text.Percent(r.ErrorHi), r.Wasserstein)
	}
}

// replicates is the number of bootstrap samples behind an interval: enough for the ends of a 95%
// interval, the 3rd and the 98th of 100.
const replicates = 100

// weightsPerDraw weights come from 64 random bits. With 16 bits each, the probability of a weight is off by less than
// 2^-16.
const weightsPerDraw = 4

// A ValidationRow compares one quantile of two sets of slowdowns of the same flows: of one size bin, by an estimate and
// by the truth. Both slowdowns are over the estimate's ideal FCT, so that only FCTs are compared.
type ValidationRow struct {
	Name        string  `json:"size_bin"`
	Flows       int64   `json:"flows"`
	Quantile    float64 `json:"quantile"`
	Estimate    float64 `json:"estimate"`
	True        float64 `json:"truth"`
	Error       float64 `json:"error"`    // Estimate / True - 1
	ErrorLo     float64 `json:"error_lo"` // 95% bootstrap interval of Error
	ErrorHi     float64 `json:"error_hi"`
	Wasserstein float64 `json:"w1_log"` // W1 of the logarithms of the slowdowns
}

// A sample is a group of flows with two slowdowns each, or two FCTs; or two groups of flows with one each.
type sample struct {
	name          string
	most          int64 // largest size
	rows, truRows []int64
	estimate, tru []float64
}

// A draw gives flows the weights of one replicate of the bootstrap after the other.
type draw struct {
	rows   []int64
	weight []uint8
	random []uint64
	total  int // of the weights
}

func newDraw(rows []int64) *draw {
	return &draw{rows: rows, weight: make([]uint8, len(rows)), random: make([]uint64, len(rows))}
}

// next draws the weights of the next replicate.
func (d *draw) next(replicate int) {
	d.total = 0
	for i, row := range d.rows {
		if replicate%weightsPerDraw == 0 {
			u := rng.New(uint64(replicate), rng.Bootstrap, uint64(row))
			d.random[i] = u.Uint64()
		}
		d.weight[i] = confidence.PoissonOne(d.random[i])
		d.random[i] <<= 64 / weightsPerDraw
		d.total += int(d.weight[i])
	}
}

// add adds a flow. A value of 0 is none.
func (s *sample) add(row int64, estimate, tru float64) {
	if estimate > 0 {
		s.rows, s.estimate = append(s.rows, row), append(s.estimate, estimate)
	}
	if tru > 0 {
		s.truRows, s.tru = append(s.truRows, row), append(s.tru, tru)
	}
}

// compare returns a row for each of pipeline.Quantiles. The intervals are of a Poisson bootstrap: each replicate
// gives each flow a weight drawn from a Poisson distribution of mean 1, keyed by flow and replicate,
// the same for its estimate and its truth, so that common parts cancel.
func (s *sample) compare() []ValidationRow {
	n := len(s.estimate)
	byEstimate, byTruth := ranked(s.estimate), ranked(s.tru)
	errorsOf := make([][]float64, len(pipeline.Quantiles))
	of, ofTruth := newDraw(s.rows), newDraw(s.truRows)
	if slices.Equal(s.rows, s.truRows) {
		ofTruth = of
	}
	for rep := range replicates {
		of.next(rep)
		if ofTruth != of {
			ofTruth.next(rep)
		}
		est, tru := of.weighted(s.estimate, byEstimate), ofTruth.weighted(s.tru, byTruth)
		for q := range pipeline.Quantiles {
			errorsOf[q] = append(errorsOf[q], est[q]/tru[q]-1)
		}
	}
	var distance float64
	for i := range min(n, len(s.tru)) { // of the same flows
		distance += math.Abs(math.Log(s.estimate[byEstimate[i]]) - math.Log(max(1e-9, s.tru[byTruth[i]])))
	}
	var out []ValidationRow
	for q, p := range pipeline.Quantiles {
		est, tru := quantileOf(s.estimate, byEstimate, p), quantileOf(s.tru, byTruth, p)
		slices.Sort(errorsOf[q])
		out = append(out, ValidationRow{
			Name: s.name, Flows: int64(n), Quantile: p, Estimate: est, True: tru, Error: est/tru - 1,
			ErrorLo: errorsOf[q][replicates*25/1000], ErrorHi: errorsOf[q][replicates-1-replicates*25/1000],
			Wasserstein: distance / float64(n),
		})
	}
	return out
}

func ranked(values []float64) []int32 {
	order := make([]int32, len(values))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b)) })
	return order
}

// quantileOf interpolates between order statistics, as the queries do (quantile_cont).
func quantileOf(values []float64, order []int32, p float64) float64 {
	at := p * float64(len(order)-1)
	lo := int(at)
	hi := min(lo+1, len(order)-1)
	return values[order[lo]] + (at-float64(lo))*(values[order[hi]]-values[order[lo]])
}

// weighted are the quantiles of values with the weights of the replicate.
func (d *draw) weighted(values []float64, order []int32) []float64 {
	out := make([]float64, len(pipeline.Quantiles))
	q, seen := 0, 0
	for _, i := range order {
		seen += int(d.weight[i])
		for q < len(out) && float64(seen) >= pipeline.Quantiles[q]*float64(d.total) && seen > 0 {
			out[q] = values[i]
			q++
		}
	}
	for ; q < len(out); q++ {
		out[q] = values[order[len(order)-1]]
	}
	return out
}
