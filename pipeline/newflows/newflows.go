// Package newflows estimates flows that are not in the workload of an estimate: what a flow of some size between two
// hosts would see.
//
//	question: src, dst, size ─► N draws, each a path (ECMP) and a moment
//	draw ─► at each link of its path, the delay of a donor ─► + ideal FCT ─► quantiles of slowdown
//
// A donor is a flow that crossed the link, of about the size asked about: within a factor of √2, or one of the nearest
// 100, as in the paper's buckets (§3.3). Of these it is the last that had started at the moment; before any had, the
// first. All hops of a draw have one moment, so that a burst at one link meets the same burst at the next. Where the
// estimator drew delays independently at each hop (§3.4), so does this.
//
// Of a donor's delay the wait of its last packet is taken as it is, and only the rest, which is rate lost, per packet:
// a wait is a property of the queue at a moment.
package newflows

import (
	"context"
	_ "embed" // for question.sql
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// A Question asks about flows that need not be in the workload.
type Question struct {
	Src, Dst  int32
	SizeBytes int64
	N         int // how many such flows to draw
	Seed      uint64
}

// An Answer is the distribution of FCT and slowdown of the flows asked about.
type Answer struct {
	Paths     int // different paths the draws took
	Quantiles []AnswerQuantile
}

// AnswerQuantile is one quantile of an Answer: the value that a share P of the flows do not exceed.
type AnswerQuantile struct {
	P        float64 `json:"quantile"`
	Slowdown float64 `json:"slowdown"`
	FCTNS    int64   `json:"fct_ns"`
	IdealNS  int64   `json:"ideal_ns"` // of the flow that has this slowdown
}

//go:embed question.sql
var question string

// Ask estimates flows outside the workload of a complete estimate, of any estimator. A link that no flow of the
// workload crosses adds nothing. The answer depends on the estimate and the question only. Hosts without a path between
// them, and a size or a number of draws that is not positive, are errors.
func Ask(ctx context.Context, e *pipeline.Estimation, q Question) (_ *Answer, err error) {
	switch {
	case q.SizeBytes <= 0:
		return nil, fmt.Errorf("size is %d bytes, must be positive", q.SizeBytes)
	case q.N <= 0:
		return nil, fmt.Errorf("number of draws is %d, must be positive", q.N)
	case q.Src == q.Dst:
		return nil, fmt.Errorf("source and destination are the same host %d", q.Src)
	}
	if err := e.Refuse(e.Variant(), pipeline.ForNewFlows); err != nil {
		return nil, err
	}
	paths, err := drawPaths(ctx, e, q)
	if err != nil {
		return nil, err
	}
	sql := []string{"{paths}", strings.Join(paths, ", "), "{size}", fmt.Sprint(q.SizeBytes),
		"{packets}", fmt.Sprint(e.Spec.Params.Packets(q.SizeBytes)), "{payload}", fmt.Sprint(e.Spec.Params.PayloadBytes)}
	for _, t := range []schema.Table{schema.Slowdowns, schema.HopContributions} {
		scan, err := e.Scan(t)
		if err != nil {
			return nil, err
		}
		sql = append(sql, "{"+t.Name+"}", scan)
	}
	var ranks []string
	for _, p := range pipeline.Quantiles {
		ranks = append(ranks, fmt.Sprint(max(1, int(math.Ceil(p*float64(q.N))))))
	}
	db, err := e.OpenDuckDB(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sql = append(sql, "{ranks}", strings.Join(ranks, ", "))
	rows, err := db.QueryContext(ctx, strings.NewReplacer(sql...).Replace(question))
	if err != nil {
		return nil, duckdb.FirstLine(duckdb.OrCause(ctx, err))
	}
	defer rows.Close()
	a := &Answer{Paths: len(paths)}
	for rows.Next() {
		x := AnswerQuantile{P: pipeline.Quantiles[len(a.Quantiles)]}
		if err := rows.Scan(&x.Slowdown, &x.FCTNS, &x.IdealNS); err != nil {
			return nil, err
		}
		a.Quantiles = append(a.Quantiles, x)
	}
	return a, duckdb.FirstLine(duckdb.OrCause(ctx, rows.Err()))
}

// drawPaths draws the paths of the flows. Each different one is a row of SQL: its number, how many flows take it, where
// in the workload their moments begin, its ideal FCT and its links.
func drawPaths(ctx context.Context, e *pipeline.Estimation, q Question) (rows []string, err error) {
	number, taken := map[string]int{}, []int{}
	var paths [][]int32
	var path []int32
	for i := range q.N {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		flow := rng.New(q.Seed, rng.Sample, uint64(i))
		if path, err = e.Router.Path(int64(flow.Uint64()>>1), q.Src, q.Dst, path); err != nil {
			return nil, err
		}
		at, known := number[fmt.Sprint(path)]
		if !known {
			at = len(paths)
			number[fmt.Sprint(path)] = at
			paths, taken = append(paths, slices.Clone(path)), append(taken, 0)
		}
		taken[at]++
	}
	for i, path := range paths {
		var ideal simkernel.IdealPath
		ideal.Reset(&e.Spec.Params)
		for _, id := range path {
			ideal.Add(e.Network.Links[id].BandwidthBps, e.Network.Links[id].DelayNS)
		}
		begin := rng.New(q.Seed, rng.Sample, uint64(i), 0)
		rows = append(rows, fmt.Sprintf("(%d, %d, %v::DOUBLE, %d::BIGINT, [%s])", i, taken[i], begin.Float64(),
			ideal.FCTNS(q.SizeBytes), strings.Join(strings.Fields(strings.Trim(fmt.Sprint(path), "[]")), ", ")))
	}
	return rows, nil
}
