package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// An estimate is what a run of parsimon reports.
type estimate struct {
	Scenario string `json:"scenario_id"`
	Variant  string
	Flows    float64
	Seconds  float64
	Stages   []stage
	Cases    struct {
		PacketHops float64 `json:"packet_hops"`
	} `json:"link_cases"`
	Whole     float64 `json:"whole_network_packet_hops"`
	processor float64 // seconds of the process, user and system
}

// where selects the estimate's rows in SQL.
func (e estimate) where() string {
	return fmt.Sprintf("scenario = '%s' AND variant = '%s'", e.Scenario, e.Variant)
}

type stage struct {
	Seconds  float64
	Critical float64 `json:"critical_seconds"` // with a core for every task
}

// run estimates a scenario. The arguments are those of parsimon run.
func (b *bench) run(ctx context.Context, lake string, args ...string) (e estimate) {
	text, processor := b.parsimon(ctx, append([]string{"run", "--lake", lake, "--format", "json"}, args...)...)
	b.decode(text, &e)
	e.processor = processor
	return e
}

// percentiles are errors of p50, p90, p99 and p99.9 of slowdown: estimate / truth - 1.
type percentiles [4]float64

func (p percentiles) String() string {
	return fmt.Sprintf("%s / %s / %s / %s", percent(p[0]), percent(p[1]), percent(p[2]), percent(p[3]))
}

func (p percentiles) p99() float64 { return p[2] }

// percent prints an error with its sign.
func percent(x float64) string {
	if text := fmt.Sprintf("%+.1f%%", 100*x); text != "+0.0%" && text != "-0.0%" {
		return text
	}
	return "0.0%"
}

// share prints a fraction without decimals.
func share(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

// sizeBins are the bins of flow size in the lake.
var sizeBins = []string{"<10 KB", "10-100 KB", "100 KB-1 MB", ">1 MB"}

// A validation is the errors of an estimate against a truth, by flow size and for "all".
type validation map[string]bin

type bin struct {
	flows  int64
	errors percentiles
}

// worstBin returns the p99 error of the flow size where it is largest, among those with over 1,000 flows.
func (v validation) worstBin() (worst float64) {
	for _, name := range sizeBins {
		if bin := v[name]; bin.flows > 1000 && abs(bin.errors.p99()) >= abs(worst) {
			worst = bin.errors.p99()
		}
	}
	return worst
}

// bins prints the p99 errors by flow size, – for bins of 1,000 flows or fewer.
func (v validation) bins() string {
	var text []string
	for _, name := range sizeBins {
		if v[name].flows > 1000 {
			text = append(text, percent(v[name].errors.p99()))
		} else {
			text = append(text, "–")
		}
	}
	return strings.Join(text, " / ")
}

// validate compares an estimate, made with the flags how, with a truth: exact or a Parquet file.
func (b *bench) validate(ctx context.Context, lake string, e estimate, how []string, truth string) validation {
	if slices.Contains(how, "auto") { // what it chose
		how = []string{"--estimator", e.Variant}
		if passes, ok := strings.CutPrefix(e.Variant, "flow-"); ok {
			how = []string{"--estimator", "flow", "--passes", passes}
		}
	}
	b.parsimon(ctx, append([]string{"validate", "--lake", lake, "--scenario", e.Scenario, "--truth", truth}, how...)...)
	v := validation{}
	for _, r := range query[struct {
		Bin    string `json:"size_bin"`
		Flows  int64
		Errors percentiles
	}](ctx, b, lake, fmt.Sprintf(`
		SELECT size_bin, any_value(flows) AS flows, list(error ORDER BY quantile) AS errors FROM validations
		WHERE %s AND (truth = 'exact') = %t
		GROUP BY size_bin`, e.where(), truth == "exact")) {
		v[r.Bin] = bin{r.Flows, r.Errors}
	}
	if _, ok := v["all"]; !ok {
		b.fail(fmt.Errorf("validation of %s %s has no row for all flows", e.Scenario, e.Variant))
	}
	return v
}

// Figures have names.
type figures struct {
	values []float64
	names  []string
}

func (f *figures) add(name string, value float64) {
	f.values, f.names = append(f.values, value), append(f.names, name)
}

// magnitudes returns the mean of the absolute values, and the largest with its name.
func (f figures) magnitudes() (mean, worst float64, name string) {
	for i, v := range f.values {
		mean += abs(v) / float64(len(f.values))
		if abs(v) >= worst {
			worst, name = abs(v), f.names[i]
		}
	}
	return mean, worst, name
}

func (f figures) median() float64 {
	v := slices.Sorted(slices.Values(f.values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// over prints the ratios to other figures of the same rounds: median, least and greatest.
func (f figures) over(o figures) string {
	var ratio figures
	for i := range f.values {
		ratio.add("", f.values[i]/o.values[i])
	}
	return fmt.Sprintf("**%.1f** (%.1f to %.1f)", ratio.median(), slices.Min(ratio.values), slices.Max(ratio.values))
}

func abs(x float64) float64 { return max(x, -x) }

func decimal(x float64) string { return fmt.Sprintf("%.1f", x) }

// si prints a number with three digits and a prefix.
func si(x float64) string {
	prefixes := []string{"", " k", " M", " G", " T"}
	i := 0
	for ; x >= 1000 && i < len(prefixes)-1; i++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g%s", x, prefixes[i])
}
