package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
	"parsimon/stages/estimators"
	"parsimon/stages/method"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// The coverage measurement draws workloads of several kinds, estimates each with independent, and counts how
// many 95% intervals contain the mean of the percentile over all draws of the kind:
//
//	kind ─ seeds ─→ flows ─ independent ─→ intervals of each draw ─→ share that contains the mean of all draws

// coverageKinds are scenarios, one file each. They take their seeds from the measurement.
//
//go:embed coverage/*.yaml
var coverageKinds embed.FS

const (
	coverageDraws      = 200 // of each kind
	coverageShortDraws = 8
)

// An intervalCell is a percentile of the flows of a size bin.
type intervalCell struct {
	bin      string
	quantile float64
}

// A coverageCount counts the intervals of one percentile of one size bin.
type coverageCount struct {
	draws     int
	intervals int     // draws that have an interval
	hits      int     // intervals that contain the mean of the draws
	hitsDrawn int     // intervals from the drawn delays alone that contain the mean
	width     float64 // sum of the intervals' widths, relative to their estimates
}

// A coverageDraw has the intervals of one drawn workload, and those computed from the drawn delays alone.
type coverageDraw struct{ intervals, drawn []confidence.Interval }

// measureCoverage prints how often the intervals of estimator independent contain the mean of other draws.
func measureCoverage(ctx context.Context, b *bench) {
	draws := coverageDraws
	if b.short {
		draws = coverageShortDraws
	}
	b.printf("%d workloads of each kind, each with another seed, estimated with `independent`. How many 95%% "+
		"intervals contain the mean of the percentile over all draws of the kind. In brackets: how many would if "+
		"only the drawn delays were resampled, which are independent of each other. A dash: no interval, because "+
		"fewer than 100 flows are beyond the percentile, or because they belong to few bursts.", draws)
	b.header("kind", "flows of", "p50", "p90", "p99", "p99.9")
	total := map[float64]*coverageCount{}
	for _, kind := range coverageNames() {
		counts, err := coverageOf(ctx, b.tmp, kind, draws)
		b.fail(err)
		if b.err != nil {
			return
		}
		for _, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
			row := []any{kind, bin.Name}
			shown := false
			for _, q := range confidence.Quantiles {
				c := counts[intervalCell{bin.Name, q}]
				row = append(row, c.String())
				shown = shown || c != nil
				total[q] = total[q].plus(c)
			}
			if shown {
				b.row(row...)
			}
		}
	}
	row := []any{"all", ""}
	for _, q := range confidence.Quantiles {
		row = append(row, total[q].String())
	}
	b.row(row...)
}

func coverageNames() (names []string) {
	files, err := fs.Glob(coverageKinds, "coverage/*.yaml")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	return names
}

// coverageOf estimates draws of a kind and counts the intervals that contain the mean of the draws.
func coverageOf(ctx context.Context, dir, kind string, draws int) (map[intervalCell]*coverageCount, error) {
	text, err := coverageKinds.ReadFile("coverage/" + kind + ".yaml")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, kind+".yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, err
	}
	s, err := scenario.Load(file)
	if err != nil {
		return nil, err
	}
	var all []coverageDraw
	sums := map[intervalCell]float64{}
	counts := map[intervalCell]*coverageCount{}
	for seed := range draws {
		s.Seed = uint64(1 + seed)
		draw, err := drawIntervals(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s, seed %d: %w", kind, s.Seed, err)
		}
		all = append(all, draw)
		for _, i := range draw.intervals {
			at := intervalCell{i.SizeBin, i.Quantile}
			if counts[at] == nil {
				counts[at] = &coverageCount{}
			}
			counts[at].draws++
			sums[at] += i.Estimate
		}
	}
	for _, draw := range all {
		for n, i := range draw.intervals {
			at := intervalCell{i.SizeBin, i.Quantile}
			counts[at].add(i, draw.drawn[n], sums[at]/float64(counts[at].draws))
		}
	}
	return counts, nil
}

// add counts an interval, and that by the drawn delays alone.
func (c *coverageCount) add(i, drawn confidence.Interval, mean float64) {
	if !(i.Hi >= i.Lo) {
		return // there is none
	}
	c.intervals++
	if i.Lo <= mean && mean <= i.Hi {
		c.hits++
	}
	if drawn.Lo <= mean && mean <= drawn.Hi {
		c.hitsDrawn++
	}
	c.width += (i.Hi - i.Lo) / i.Estimate
}

func (c *coverageCount) plus(o *coverageCount) *coverageCount {
	if c == nil {
		c = &coverageCount{}
	}
	if o == nil {
		return c
	}
	return &coverageCount{
		draws: c.draws + o.draws, intervals: c.intervals + o.intervals, hits: c.hits + o.hits,
		hitsDrawn: c.hitsDrawn + o.hitsDrawn, width: c.width + o.width,
	}
}

// String returns the share of intervals that contain the mean, and their mean width.
func (c *coverageCount) String() string {
	if c == nil || c.intervals == 0 {
		return "–"
	}
	n := float64(c.intervals)
	text := fmt.Sprintf("%.0f%% (%.0f%%), %.0f%% wide", 100*float64(c.hits)/n, 100*float64(c.hitsDrawn)/n,
		100*c.width/n)
	if c.intervals < c.draws {
		text += fmt.Sprintf(", %d of %d", c.intervals, c.draws)
	}
	return text
}

// flowRows is a sink that keeps flows.
type flowRows struct{ rows []workload.Row }

// Write implements schema.Sink.
func (f *flowRows) Write(rec arrow.Record) error {
	before := len(f.rows)
	f.rows = columns.Append(f.rows, rec)
	for i := range f.rows[before:] {
		row := &f.rows[before+i]
		row.Labels = row.Clone()
	}
	return nil
}

// readIntervals reads the rows of table intervals that are about all flows. The bounds of a percentile that
// has no interval are NaN.
func readIntervals(in schema.Batches) (all []confidence.Interval, err error) {
	err = columns.ForEach(in, func(rec arrow.Record) error {
		bins := columns.Named(rec, "size_bin").(*array.String)
		quantiles := columns.Float64s(rec, "quantile")
		estimates := columns.Float64s(rec, "estimate")
		for i := range int(rec.NumRows()) {
			if !columns.Named(rec, "service").IsNull(i) || !columns.Named(rec, "vnet").IsNull(i) {
				continue
			}
			row := confidence.Interval{
				SizeBin: strings.Clone(bins.Value(i)), Quantile: quantiles[i], Estimate: estimates[i],
				Lo: math.NaN(), Hi: math.NaN(),
			}
			if !columns.Named(rec, "lo").IsNull(i) {
				row.Lo = columns.Float64s(rec, "lo")[i]
				row.Hi = columns.Float64s(rec, "hi")[i]
			}
			all = append(all, row)
		}
		return nil
	})
	return all, err
}

// drawIntervals draws the flows of a scenario and estimates them with independent.
func drawIntervals(ctx context.Context, s *scenario.Scenario) (draw coverageDraw, err error) {
	n, err := s.IntactNetwork()
	if err != nil {
		return draw, err
	}
	w, err := s.Workload(n)
	if err != nil {
		return draw, err
	}
	router, err := topology.NewRouter(ctx, n, s.Seed)
	if err != nil {
		return draw, err
	}
	flows := &flowRows{}
	if _, err := workload.Generate(ctx, router, w, s.Seed, flows); err != nil {
		return draw, err
	}
	m := &method.Model{Network: n, Router: router, Params: s.Params(), Seed: s.Seed}
	found, err := method.Run(ctx, m, method.Estimate{Estimator: estimators.Independent}, flows.rows)
	if err != nil {
		return draw, err
	}
	draw.intervals, err = readIntervals(found.Table(schema.Intervals).Read())
	if err != nil {
		return draw, err
	}
	x := confidence.New(flows.rows[0].StartNS, flows.rows[len(flows.rows)-1].StartNS, nil)
	if err := x.Read(found.Table(schema.Slowdowns).Read()); err != nil {
		return draw, err
	}
	for _, i := range x.Rows() {
		if i.By == confidence.ByNothing {
			draw.drawn = append(draw.drawn, i)
		}
	}
	if len(draw.drawn) != len(draw.intervals) {
		return draw, fmt.Errorf("%d intervals by drawn delays, %d by all", len(draw.drawn), len(draw.intervals))
	}
	return draw, nil
}
