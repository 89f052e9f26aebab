package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// m3Bins are the flow sizes of m3's table.
var m3Bins = []string{"<1 KB", "1-10 KB", "10-50 KB", "≥50 KB"}

// m3Table estimates scenarios of m3 (Li et al., SIGCOMM'24) and compares p99 with their ns-3, beside the published
// errors of Parsimon and of m3. Without arguments it takes 24 of the 96 mixes, at most one of each combination of
// oversubscription, matrix and sizes; "all" takes all, numbers those.
func m3Table(ctx context.Context, b *bench) {
	s := b.readM3()
	ids := b.names([]string{"3"}, s.stratified(24))
	if b.short && len(b.args) == 0 {
		ids = s.stratified(1)
	}
	if len(b.args) == 1 && b.args[0] == "all" {
		ids = s.ids()
	}
	b.printf("Errors of p99 of slowdown.")
	b.header("mix", "network", "matrix, sizes", "σ", "load", "window", "Parsimon", "m3", "ours",
		strings.Join(m3Bins, " / "))
	var ours, theirs, parsimon tally
	bins := make([]tally, len(m3Bins))
	for _, id := range ids {
		m, ok := s.mixes[id]
		if !ok {
			b.fail(fmt.Errorf("no mix %s: the shared folder has %v", id, s.ids()))
			return
		}
		errors := b.m3Errors(ctx, s, m)
		truth := s.truth[id]
		if b.err != nil {
			return
		}
		all := errors[0]/truth[0] - 1
		var text []string
		for i := range m3Bins {
			off := errors[i+1]/truth[i+1] - 1
			text = append(text, percent(off))
			bins[i].add(id, off)
		}
		ours.add(id, all)
		parsimon.add(id, s.published[id][0])
		theirs.add(id, s.published[id][1])
		b.row(id, fmt.Sprintf("%d:1", m.oversubscription()), m.matrix()+", "+m.sizes(), m.Sigma, share(m.MaxLoad), fmt.Sprintf("%d B", m.Window),
			percent(s.published[id][0]), percent(s.published[id][1]), percent(all), strings.Join(text, " / "))
	}
	b.printf("")
	b.verdict("Parsimon, as published", parsimon)
	b.verdict("m3, as published", theirs)
	b.verdict("ours", ours)
	for i, name := range m3Bins {
		b.verdict("ours, "+name, bins[i])
	}
}

// m3Flows is how many flows a mix needs for its p99 to be stable: sizes of Hadoop have 63% of their bytes in flows
// above 50 MB. --rounds N takes N times as many: at 73% load (mix 184) p99 of this many still differs by 10% from draw
// to draw.
var m3Flows = map[string]int{"webserver": 300_000, "hadoop": 500_000, "cachefollower": 200_000}

// generatedGbps returns the byte rate of the only scenario of a lake, whose flows have been generated.
func (b *bench) generatedGbps(lake string) float64 {
	files, err := filepath.Glob(filepath.Join(lake, "flows", "*", "*.parquet"))
	b.fail(err)
	var bytes, first, last int64
	for i, f := range files {
		rows, err := parquet.ReadFile[struct {
			Size  int64 `parquet:"size_bytes"`
			Start int64 `parquet:"start_ns"`
		}](f)
		b.fail(err)
		for k, r := range rows {
			bytes += r.Size
			if first = min(first, r.Start); i+k == 0 {
				first = r.Start
			}
			last = max(last, r.Start)
		}
	}
	if last == first {
		b.fail(fmt.Errorf("%s has no flows", lake))
		return 0
	}
	return 8 * float64(bytes) / float64(last-first)
}

// m3Errors returns the p99 of slowdown of all flows and of each size. Flows of the warm-up, the time that the longest
// flow takes at least, are left out.
func (b *bench) m3Errors(ctx context.Context, s *m3Scenarios, m m3Mix) (p99 [5]float64) {
	lake, load := b.lake(), m.MaxLoad
	flows := m3Flows[m.sizes()] * b.count(1)
	if b.short {
		flows = 20_000
	}
	ours, published := b.m3LinkShares(m)
	// A draw of heavy-tailed sizes misses the expected bytes by some percent. Starts scale with the load, sizes do not
	// change with it: the second load makes the byte rate that of the mix.
	load *= ours / published
	drawn := b.m3Scenario(m, flows, load)
	b.parsimon(ctx, "generate", drawn, "--lake", lake)
	gbps := b.generatedGbps(lake)
	if b.err != nil {
		return p99
	}
	load *= m.MaxLoad / published / gbps
	lake = b.lake()
	e := b.run(ctx, lake, append([]string{b.m3Scenario(m, flows, load)}, estimator(b.ways("flow")[0])...)...)
	const warmupOfWindowNS = 14_700 // a window a round trip
	for _, r := range query[struct {
		Bin *int    `json:"bin"`
		P99 float64 `json:"p99"`
	}](ctx, b, lake, fmt.Sprintf(`
		WITH f AS (SELECT *, (size_bytes >= 1000)::INT + (size_bytes >= 10000)::INT + (size_bytes >= 50000)::INT AS bin FROM slowdowns
			WHERE scenario = '%s' AND variant = '%s'),
		kept AS (SELECT * FROM f WHERE start_ns >= (SELECT min(start_ns) + max(size_bytes) * %d / %d FROM f))
		SELECT NULL AS bin, quantile_cont(slowdown, 0.99) AS p99 FROM kept
		UNION ALL SELECT bin, quantile_cont(slowdown, 0.99) FROM kept GROUP BY bin`,
		e.Scenario, e.Variant, warmupOfWindowNS, m.Window)) {
		if r.Bin == nil {
			p99[0] = r.P99
		} else {
			p99[*r.Bin+1] = r.P99
		}
	}
	if slices.Contains(p99[:], 0) {
		b.fail(fmt.Errorf("mix %s has no flows of some size after its warm-up: %v", strconv.Itoa(m.ID), p99))
	}
	return p99
}
