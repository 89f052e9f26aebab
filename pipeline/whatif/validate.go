package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
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
)

// A Validation compares an estimate with a reference.
type Validation struct {
	Scenario string          `json:"scenario"` // its name
	Variant  string          `json:"variant"`
	Program  string          `json:"program"` // that made the comparison, with its commit and method version
	Truth    string          `json:"truth"`
	Matched  float64         `json:"matched"` // share of the estimated flows that have a reference
	Rows     []ValidationRow `json:"percentiles"`
}

// noEstimate replaces the error of the last stage if the estimate does not exist. The command of that stage
// alone would not make the estimate.
func noEstimate(e *pipeline.Estimation, err error) error {
	var incomplete *engine.IncompleteError
	if errors.As(err, &incomplete) && incomplete.Why == "" {
		return fmt.Errorf("scenario %s has no estimate by %s: run it with %s first", e.ID(), e.Variant(),
			e.Variant().Flags())
	}
	return err
}

// Validate compares an estimate with a reference: a simulation of the whole network of the scenario, or a
// Parquet file with flow_id and fct_ns. It writes table validations. ValidateLog compares with a flow log.
func Validate(ctx context.Context, e *pipeline.Estimation, truthFile string) (*Validation, error) {
	if _, err := e.Records(schema.Slowdowns); err != nil {
		return nil, noEstimate(e, err)
	}
	db, err := e.OpenDuckDB(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	v := &Validation{Scenario: e.Spec.Name, Variant: e.Variant().String(), Truth: truthFile}
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
		return nil, fmt.Errorf("truth %s: no flow has both an estimate and a truth: do the flow ids "+
			"agree?", v.Truth)
	}
	at := lake.Place{Scenario: e.ID(), Variant: e.Variant().Stored()}
	return v, e.Executor().Session().PublishRows(at, fileSafe(filepath.Base(v.Truth)), v.record())
}

// record returns the rows of table validations.
func (v *Validation) record() arrow.Record {
	return columns.RecordOf(schema.Validations, v.Rows, func(row ValidationRow) columns.Row {
		return columns.Row{
			"truth": v.Truth, "size_bin": row.Name, "flows": row.Flows, "quantile": row.Quantile,
			"estimate": row.Estimate, "true_slowdown": row.True,
			"error": row.Error, "error_lo": row.ErrorLo, "error_hi": row.ErrorHi, "wasserstein": row.Wasserstein,
		}
	})
}

// openTruth returns SQL that reads a reference file. The file must have the columns flow_id, with unique
// integers, and fct_ns, with positive values.
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
	row := db.QueryRowContext(ctx, queries.Known("truth_rows").SQL)
	err = row.Scan(&nulls, &bad, &badID, &repeated, &repeatedID)
	switch {
	case err != nil:
		return "", duckdb.FirstLine(err)
	case nulls > 0:
		return "", fmt.Errorf("%d rows have no flow_id or no fct_ns", nulls)
	case bad > 0:
		return "", fmt.Errorf("fct_ns is not above 0 and finite in %d rows (first: flow_id %s)", bad, badID.String)
	case repeated > 0:
		return "", fmt.Errorf("%d flow ids occur more than once (first: %s)", repeated, repeatedID.String)
	}
	return truth, nil
}

// A match is a flow with an estimate and a reference.
type match struct {
	Row      int64   `col:"flow_row"`
	Size     int64   `col:"size_bytes"`
	Estimate float64 `col:"estimate"`
	Truth    float64 `col:"truth"`
}

// compareQuantiles joins the estimate and the reference, and compares the quantiles of every size bin. It
// returns no rows if no flow has both. matched is the share of the estimated flows that have a reference.
// DuckDB joins within its memory limit. In addition, compareQuantiles needs 24 bytes per flow.
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
	bins := names.Of(sizebin.Bins(), func(b sizebin.Bin) *sample {
		return &sample{name: b.Name, most: b.MaxBytes}
	})
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
			out = append(out, b.validate()...)
		}
	}
	return out, float64(len(all.estimate)) / float64(max(1, estimated)), nil
}

// AddTo adds the comparison to a text for users.
func (v *Validation) AddTo(a *text.Answer) {
	a.Linef("estimate against %s (slowdowns over the same ideal; error with its 95%% bootstrap interval); "+
		"%.4g%% of "+
		"the flows are in both", v.Truth, 100*v.Matched)
	table := a.Table("size_bin", "flows", "quantile", "estimate", "truth", "error", "from", "to", "w1_log")
	for _, r := range v.Rows {
		table.Add(r.Name, r.Flows, r.Quantile, r.Estimate, r.True, text.Percent(r.Error),
			text.Percent(r.ErrorLo), text.Percent(r.ErrorHi), r.Wasserstein)
	}
}

// A ValidationRow compares one quantile of the slowdowns of the same flows, in one size bin, by the estimate
// and by the reference. Both slowdowns are relative to the estimate's ideal FCT, so that only FCTs are
// compared.
type ValidationRow struct {
	Name        string  `json:"size_bin"`
	Flows       int64   `json:"flows"`
	Quantile    float64 `json:"quantile"`
	Estimate    float64 `json:"estimate"`
	True        float64 `json:"truth"`
	Error       float64 `json:"error"`    // Estimate / True - 1
	ErrorLo     float64 `json:"error_lo"` // 95% bootstrap interval of Error
	ErrorHi     float64 `json:"error_hi"`
	Wasserstein float64 `json:"w1_log"` // W1 distance of the logarithms of the slowdowns
}

// A sample is a group of flows with two slowdowns or two FCTs each, or two groups of flows with one value
// each.
type sample struct {
	name          string
	most          int64 // largest size
	rows, truRows []int64
	estimate, tru []float64
}

// add adds a flow. A value of 0 means that there is none.
func (s *sample) add(row int64, estimate, tru float64) {
	if estimate > 0 {
		s.rows = append(s.rows, row)
		s.estimate = append(s.estimate, estimate)
	}
	if tru > 0 {
		s.truRows = append(s.truRows, row)
		s.tru = append(s.tru, tru)
	}
}

// samples returns the flows with a reference, and those with an estimate.
func (s *sample) samples() (truth, estimate *confidence.Sample) {
	return confidence.NewSample(s.truRows, s.tru), confidence.NewSample(s.rows, s.estimate)
}

// changes returns the changes of pipeline.Quantiles.
func (s *sample) changes() []confidence.Change {
	truth, estimate := s.samples()
	return confidence.Changes(truth, estimate, pipeline.Quantiles)
}

// validate returns a row for each of pipeline.Quantiles, with the intervals of confidence.Changes.
func (s *sample) validate() (out []ValidationRow) {
	truth, estimate := s.samples()
	n := len(s.estimate)
	var distance float64
	for i := range min(n, len(s.tru)) { // of the same flows
		distance += math.Abs(math.Log(estimate.Rank(i)) - math.Log(max(1e-9, truth.Rank(i))))
	}
	for q, c := range confidence.Changes(truth, estimate, pipeline.Quantiles) {
		out = append(out, ValidationRow{
			Name: s.name, Flows: int64(n), Quantile: pipeline.Quantiles[q], Estimate: c.To, True: c.From,
			Error: c.Relative, ErrorLo: c.Lo, ErrorHi: c.Hi, Wasserstein: distance / float64(n),
		})
	}
	return out
}
