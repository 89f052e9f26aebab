package whatif

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
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
// others start at other times in each: the same row is the same flow.
type join struct {
	base, other *side
	byRow       bool
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

// pairTable has a row for each flow that is in both.
var pairTable = schema.Table{Name: "pairs", Columns: []schema.Column{
	{Name: "flow_row", Type: arrow.PrimitiveTypes.Int64}, {Name: "other_row", Type: arrow.PrimitiveTypes.Int64},
	{Name: "service", Type: arrow.BinaryTypes.String}, {Name: "vnet", Type: arrow.BinaryTypes.String},
	{Name: "size_bin", Type: arrow.BinaryTypes.String}, {Name: "hops", Type: arrow.BinaryTypes.String},
	{Name: "base", Type: arrow.PrimitiveTypes.Float64}, {Name: "other", Type: arrow.PrimitiveTypes.Float64},
	{Name: "base_fct_ms", Type: arrow.PrimitiveTypes.Float64}, {Name: "other_fct_ms", Type: arrow.PrimitiveTypes.Float64},
	{Name: "ideal_changed", Type: arrow.PrimitiveTypes.Int64},
}}

// A pair is a row of pairTable: the row of table flows of the base, groups (hops are the base's), slowdowns.
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

// sql selects the rows of pairTable.
func (j *join) sql() string {
	bin := "CASE"
	for _, b := range sizebin.Bins() {
		bin += fmt.Sprintf(" WHEN size_bytes <= %d THEN %s", b.MaxBytes, duckdb.Quote(b.Name))
	}
	same := "flow_id, size_bytes, start_ns"
	if j.byRow {
		same = "flow_id, size_bytes, flow_row"
	}
	return fmt.Sprintf(`SELECT b.flow_row, o.flow_row AS other_row, b.service, b.vnet, %s END AS size_bin,
			CAST(b.hops AS VARCHAR) AS hops, b.slowdown AS base, o.slowdown AS other, b.fct_ns / 1e6 AS base_fct_ms,
			o.fct_ns / 1e6 AS other_fct_ms, CAST(b.ideal_ns <> o.ideal_ns AS BIGINT) AS ideal_changed
		FROM %s b JOIN %s o USING (%s)`,
		bin, j.base.scans[schema.Slowdowns.Name], j.other.scans[schema.Slowdowns.Name], same)
}

// eachRow has DuckDB write the rows of a SELECT to a file and calls do with each of them, which is many times faster
// than through database/sql. The file is removed.
func eachRow[T any](
	ctx context.Context, db *sql.DB, file string, t schema.Table, rows string, do func(r *T) error,
) error {
	_, err := db.ExecContext(ctx, fmt.Sprintf("COPY (%s) TO %s (FORMAT parquet)", rows, duckdb.Quote(file)))
	if err != nil {
		return duckdb.FirstLine(err)
	}
	return errors.Join(columns.Each(parquet.OpenForeign(t, file), do), os.Remove(file))
}

// findLinks finds where the flows of the tail, those above the p99 slowdown in either estimate, are delayed more or
// less: the links with the largest differences. Sums are of whole 1/1000 ns: they are the same in any order.
func (c *Comparison) findLinks(ctx context.Context, db *sql.DB, p99 ComparisonRow, most int) error {
	tail := fmt.Sprintf("SELECT flow_row, other_row FROM (%s) WHERE base > '%v'::DOUBLE OR other > '%v'::DOUBLE",
		c.joined.sql(), p99.Base, p99.Other)
	if _, err := db.ExecContext(ctx, "CREATE TEMP TABLE tail AS "+tail); err != nil {
		return duckdb.FirstLine(err)
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM tail").Scan(&c.TailFlows); err != nil {
		return duckdb.FirstLine(err)
	}
	part := func(s *side, row string) string {
		return fmt.Sprintf(`(SELECT link_id, sum(round(delay_ns * 1000)::BIGINT)::BIGINT::DOUBLE / 1000 AS ns
			FROM %s h SEMI JOIN tail ON tail.%s = h.flow_row GROUP BY link_id)`, s.scans[schema.HopContributions.Name], row)
	}
	rows, err := db.QueryContext(ctx, fmt.Sprintf(`
		SELECT link_id, coalesce(b.ns, 0) AS base, coalesce(o.ns, 0) AS other, coalesce(k.load, 0), coalesce(l.load, 0)
		FROM %s b FULL JOIN %s o USING (link_id)
		LEFT JOIN %s k USING (link_id) LEFT JOIN %s l USING (link_id)
		WHERE base <> other ORDER BY abs(other - base) DESC, link_id LIMIT %d`,
		part(c.joined.base, "flow_row"), part(c.joined.other, "other_row"), c.joined.base.scans[schema.LinkStats.Name],
		c.joined.other.scans[schema.LinkStats.Name], most))
	if err != nil {
		return duckdb.FirstLine(err)
	}
	defer rows.Close()
	n := c.joined.other.Network
	if base := c.joined.base.Network; len(base.Links) > len(n.Links) { // cables were added to the base
		n = base
	}
	for rows.Next() {
		var d LinkDifference
		if err := rows.Scan(&d.Link, &d.BaseDelayNS, &d.DelayNS, &d.BaseLoad, &d.Load); err != nil {
			return err
		}
		l := n.Links[d.Link]
		d.Src, d.Dst, d.Tier = n.Name(l.Src), n.Name(l.Dst), l.Tier
		d.BaseDelayNS /= float64(c.TailFlows)
		d.DelayNS /= float64(c.TailFlows)
		c.Links = append(c.Links, d)
	}
	return rows.Err()
}

// fileSafe is a text with all but letters, digits and dashes made dashes.
func fileSafe(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}, name)
}
