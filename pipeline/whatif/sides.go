package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
)

// SideOf names an estimate.
func SideOf(e *pipeline.Estimation) Side { return Side{string(e.ID()), e.Variant().String()} }

// A side is an estimate as it was committed when it was opened: another process that works on the scenario meanwhile
// may do stages again.
type side struct {
	*pipeline.Estimation
	flows int64             // that have an estimate
	scans map[string]string // SQL that reads a table, by its name
}

// openSide opens an estimate and verifies the files of the tables that are compared.
func openSide(l *lake.Lake, of Side) (*side, error) {
	model, err := pipeline.OpenModel(l, of.Scenario)
	if err != nil {
		return nil, err
	}
	v, err := pipeline.ParseVariant(of.Variant)
	if err != nil {
		return nil, err
	}
	m, _, err := l.ReadManifest(lake.Place{Scenario: model.ID(), Variant: of.Variant})
	if err != nil {
		return nil, err
	}
	s := &side{Estimation: pipeline.ReadOnly(model, v, pipeline.Settings{}), scans: map[string]string{}}
	for _, t := range []schema.Table{schema.Slowdowns, schema.HopContributions, schema.LinkStats} {
		files := lake.FilesOf(m.Files, t)
		if len(files) == 0 {
			return nil, fmt.Errorf("scenario %s has no table %s of variant %s: run it again", s.ID(), t.Name, of.Variant)
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
	}
	return s, nil
}

// A join is two estimates whose flows are joined: a flow is in both if its id, size and start are. Flows that wait for
// others start at other times in each: the same row is the same flow. Unpaired, they are all flows of both.
type join struct {
	base, other     *side
	byRow, unpaired bool
}

func openJoin(l *lake.Lake, base, other Side) (j *join, err error) {
	j = &join{}
	if j.base, err = openSide(l, base); err == nil {
		j.other, err = openSide(l, other)
	}
	if err != nil {
		return nil, err
	}
	a, err := j.base.Generated()
	b, otherErr := j.other.Generated()
	if err := errors.Join(err, otherErr); err != nil {
		return nil, err
	}
	if j.byRow = a.Closed(); j.byRow != b.Closed() {
		return nil, fmt.Errorf("flows wait for others in one of %s and %s: such a scenario is compared with one of the "+
			"same flows that wait, too", base.Scenario, other.Scenario)
	}
	return j, nil
}

// A pair is a flow that is in both: its row of table flows of the base, groups (hops are the base's), slowdowns; or a
// flow of one, whose slowdown in the other is 0.
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

// create makes the views base_TABLE and other_TABLE of both estimates, and view pairs, whose rows are pairs.
func (j *join) create(ctx context.Context, db *sql.DB) error {
	text := "CREATE MACRO size_bin_name(bytes) AS CASE"
	for _, b := range sizebin.Bins() {
		text += fmt.Sprintf(" WHEN bytes <= %d THEN %s", b.MaxBytes, duckdb.Quote(b.Name))
	}
	text += " END"
	for of, scans := range map[string]map[string]string{"base": j.base.scans, "other": j.other.scans} {
		for table, scan := range scans {
			text += "; CREATE VIEW " + of + "_" + table + " AS FROM " + scan
		}
	}
	pairs, same := "pairs", "flow_id, size_bytes, start_ns"
	if j.byRow {
		same = "flow_id, size_bytes, flow_row"
	}
	if j.unpaired {
		pairs = "unpaired"
	}
	text += "; CREATE VIEW pairs AS " + strings.ReplaceAll(queries.Known(pairs).SQL, "$same", same)
	_, err := db.ExecContext(ctx, text)
	return duckdb.FirstLine(err)
}

// eachRow has DuckDB write the rows of a SELECT to a file and calls do with each of them, which is many times faster
// than through database/sql. The file is removed.
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
