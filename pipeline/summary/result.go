package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/stages"
)

// A Result is the answer of an estimate, for scripts.
type Result struct {
	ScenarioID  string               `json:"scenario_id"`
	Name        string               `json:"name"`
	Variant     string               `json:"variant"`
	Lake        string               `json:"lake"`
	Flows       int64                `json:"flows"`
	Percentiles []PercentilesResult  `json:"percentiles"`
	Warnings    []string             `json:"warnings"`
	Stages      []engine.Report      `json:"stages"`
	Cases       stages.SimulateStats `json:"link_cases"`
	WholeHops   int64                `json:"whole_network_packet_hops,omitempty"` // of estimator exact
	Gates       []gate.Verdict       `json:"gates,omitempty"`
	Seconds     float64              `json:"seconds"`
}

// PercentilesResult are the percentiles of slowdown of one size bin, with their 95% intervals; all flows are bin "all".
type PercentilesResult struct {
	SizeBin string   `json:"size_bin"`
	Flows   int64    `json:"flows"`
	P50     float64  `json:"p50"`
	P90     float64  `json:"p90"`
	P99     float64  `json:"p99"`
	P999    float64  `json:"p999"`
	P50Lo   *float64 `json:"p50_lo"`
	P50Hi   *float64 `json:"p50_hi"`
	P90Lo   *float64 `json:"p90_lo"`
	P90Hi   *float64 `json:"p90_hi"`
	P99Lo   *float64 `json:"p99_lo"`
	P99Hi   *float64 `json:"p99_hi"`
	P999Lo  *float64 `json:"p999_lo"`
	P999Hi  *float64 `json:"p999_hi"`
}

// ReadResult reads the answer of a complete estimate.
func ReadResult(ctx context.Context, e *pipeline.Estimation) (_ *Result, err error) {
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	r := &Result{
		ScenarioID: string(e.ID()), Name: e.Spec.Name, Variant: e.Variant().String(), Lake: e.Lake.Path(), Flows: g.Flows,
		Stages: e.Executor().Reports,
	}
	r.Seconds, _ = e.Took()
	if r.Cases, err = pipeline.Cases(e.Lake, pipeline.CaseStages(e.Plan())...); err != nil {
		return nil, err
	}
	if e.Variant().Estimator == stages.WholeNetwork {
		did, _, err := exactCost(e, pipeline.Exact{})
		if err != nil {
			return nil, err
		}
		r.WholeHops = did.PacketHops
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r.Percentiles, err = percentilesBySize(ctx, e, db); err != nil {
		return nil, err
	}
	r.Warnings, err = warnings(ctx, e, db)
	return r, err
}

// warnings reads table warnings and, as kind "few flows", the percentiles for which the workload is too short, by size
// bin.
func warnings(ctx context.Context, e *pipeline.Estimation, db *queries.DB) (_ []string, err error) {
	of := fmt.Sprintf("scenario = %s AND variant = %s", duckdb.Quote(string(e.ID())), duckdb.Quote(e.Variant().String()))
	rows, err := db.SQL(ctx, `SELECT kind, warning FROM (
			SELECT 0 AS part, kind, link_id, warning FROM warnings_all WHERE `+of+`
			UNION ALL
			SELECT 1, 'few flows', NULL, size_bin || ': ' || string_agg(warning, '; ' ORDER BY quantile) FROM intervals_all
			WHERE `+of+` AND service IS NULL AND vnet IS NULL AND warning <> '' GROUP BY size_bin)
		ORDER BY part, kind, link_id, warning`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	all := []string{}
	err = rows.Each(func(row []any) error {
		all = append(all, fmt.Sprintf("%v: %v", row[0], row[1]))
		return nil
	})
	return all, err
}

// percentilesBySize reads the percentiles of every size bin, and of all flows.
func percentilesBySize(ctx context.Context, e *pipeline.Estimation, db *queries.DB) (
	all []PercentilesResult, err error,
) {
	q, err := queries.Get(queries.SlowdownBySize)
	if err != nil {
		return nil, err
	}
	rows, err := db.Run(ctx, q, map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names := rows.Columns()
	err = rows.Each(func(row []any) error {
		var p PercentilesResult
		numbers := map[string]*float64{"p50_slowdown": &p.P50, "p90_slowdown": &p.P90, "p99_slowdown": &p.P99,
			"p999_slowdown": &p.P999}
		bounds := map[string]**float64{"p50_lo": &p.P50Lo, "p50_hi": &p.P50Hi, "p90_lo": &p.P90Lo, "p90_hi": &p.P90Hi,
			"p99_lo": &p.P99Lo, "p99_hi": &p.P99Hi, "p999_lo": &p.P999Lo, "p999_hi": &p.P999Hi}
		for i, name := range names {
			switch x := row[i].(type) {
			case string:
				if name == "size_bin" {
					p.SizeBin = x
				}
			case int64:
				if name == "flows" {
					p.Flows = x
				}
			case float64:
				if to, ok := numbers[name]; ok {
					*to = x
				}
				if to, ok := bounds[name]; ok {
					*to = &x
				}
			}
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// Judge holds gates on slowdowns against the estimate.
func Judge(ctx context.Context, e *pipeline.Estimation, gates []gate.Gate) ([]gate.Verdict, error) {
	if len(gates) == 0 {
		return nil, nil
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return gate.Judge(gates, func(g gate.Gate) (float64, error) {
		if g.Change {
			return 0, errors.New("a change needs a base: what-if and compare have one")
		}
		return quantile(ctx, e, db, g)
	})
}

// quantile is a quantile of the slowdowns that a gate selects.
func quantile(ctx context.Context, e *pipeline.Estimation, db *queries.DB, g gate.Gate) (float64, error) {
	where := fmt.Sprintf("scenario = %s AND variant = %s", duckdb.Quote(string(e.ID())), duckdb.Quote(e.Variant().String()))
	columns := map[string]string{"service": "service", "vnet": "vnet", "size_bin": "(SELECT size_bin FROM size_bins AS b WHERE b.bin = size_bin_of(size_bytes))"}
	var said []string
	for _, name := range gate.Columns() {
		if value, ok := g.Filter[name]; ok {
			where += fmt.Sprintf(" AND %s = %s", columns[name], duckdb.Quote(value))
			said = append(said, name+"="+value)
		}
	}
	rows, err := db.SQL(ctx, fmt.Sprintf("SELECT quantile_cont(slowdown, %v) FROM slowdowns_all WHERE %s", g.Quantile, where))
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }() // only read
	row, err := rows.Next()
	if err != nil {
		return 0, err
	}
	x, ok := row[0].(float64)
	if !ok {
		return 0, fmt.Errorf("no flow is of %s", strings.Join(said, ", "))
	}
	return x, nil
}
