package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
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
		v.Truth, truth = stages.WholeNetwork.String(), pipeline.ScanFiles(e.Lake, r.Files(schema.ExactFCTs))
	} else if truth, err = openTruth(ctx, db, truthFile); err != nil {
		return nil, fmt.Errorf("truth %s: %w", truthFile, err)
	}
	if v.Rows, v.Matched, err = compareQuantiles(ctx, e, db, truth); err != nil {
		return nil, fmt.Errorf("estimate against %s: %w", v.Truth, duckdb.FirstLine(err))
	}
	if v.Rows == nil {
		return nil, fmt.Errorf("truth %s: no flow has both an estimate and a truth: do the flow ids agree?", v.Truth)
	}
	rows := columns.NewRows(schema.Validations)
	for _, row := range v.Rows {
		rows.Add(columns.Row{
			"truth": v.Truth, "size_bin": row.Name, "flows": row.Flows, "quantile": row.Quantile,
			"estimate": row.Estimate, "true_slowdown": row.True,
			"error": row.Error, "error_lo": row.ErrorLo, "error_hi": row.ErrorHi, "wasserstein": row.Wasserstein,
		})
	}
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
	truth := duckdb.ScanParquet(file)
	from := " FROM " + truth
	var wrong sql.NullString
	err = db.QueryRowContext(ctx, `
		SELECT min('column ' || column_name || ' is of type ' || column_type || ', want numbers')
		FROM (DESCRIBE SELECT flow_id, fct_ns`+from+`)
		WHERE NOT regexp_matches(column_type, '^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$')
			AND NOT (column_name = 'fct_ns' AND regexp_matches(column_type, '^(FLOAT|DOUBLE|DECIMAL)'))`).Scan(&wrong)
	switch {
	case err != nil:
		return "", duckdb.FirstLine(err)
	case wrong.Valid:
		return "", errors.New(wrong.String)
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

// matchTable has a row for each flow that has an estimate and a truth.
var matchTable = schema.Table{Name: "matches", Columns: []schema.Column{
	{Name: "flow_row", Type: arrow.PrimitiveTypes.Int64}, {Name: "size_bytes", Type: arrow.PrimitiveTypes.Int64},
	{Name: "estimate", Type: arrow.PrimitiveTypes.Float64}, {Name: "truth", Type: arrow.PrimitiveTypes.Float64},
}}

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
	var bins []*sample
	for _, b := range sizebin.Bins() {
		bins = append(bins, &sample{name: b.Name, most: b.MaxBytes})
	}
	all := &sample{name: sizebin.All}
	file := filepath.Join(e.Executor().Session().TmpPath(), "matches.parquet")
	err = eachRow(ctx, db, file, matchTable, fmt.Sprintf(`
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
	a.Linef("estimate against %s (slowdowns over the same ideal; error with its 95%% bootstrap interval); %.4g%% of the estimated flows have a truth", v.Truth, 100*v.Matched)
	table := a.Table("size_bin", "flows", "quantile", "estimate", "truth", "error", "from", "to", "w1_log")
	for _, r := range v.Rows {
		table.Add(r.Name, r.Flows, r.Quantile, r.Estimate, r.True, text.Percent(r.Error),
			text.Percent(r.ErrorLo), text.Percent(r.ErrorHi), r.Wasserstein)
	}
}
