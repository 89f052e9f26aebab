package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An estimate is what a run of parsimon prints.
type estimate struct {
	scenario, variant      string
	seconds, cpu, critical float64 // critical: the longest chain of tasks
	packetHops, nsPerHop   float64 // of the simulation
	peakMB                 float64
	flows                  float64
	tables, cache          float64 // bytes per flow on disk
	stages                 string  // the table of stages, as printed
	processor              float64 // seconds of the process, user and system
}

// run estimates a scenario. The arguments are those of parsimon run.
func (b *bench) run(ctx context.Context, lake string, args ...string) estimate {
	text, processor := b.parsimon(ctx, append([]string{"run", "--lake", lake}, args...)...)
	e := b.parseSummary(text)
	e.processor = processor
	return e
}

// parseSummary reads the summary of parsimon run, or of what-if.
func (b *bench) parseSummary(text string) (e estimate) {
	ids := regexp.MustCompile(`(?m)^(?:scenario|other) +(\S+) \(.*variant ([^ ,;\n]+)`).FindStringSubmatch(text)
	_, stages, ok := strings.Cut(text, "\nstage ")
	if ids == nil || !ok {
		b.fail(fmt.Errorf("no summary of an estimate: %s", text))
		return e
	}
	e.scenario, e.variant = ids[1], ids[2]
	stages, _, _ = strings.Cut(stages, "\n\n")
	e.stages = "stage " + stages
	e.flows = b.number(text, `^(\d+) flows (?:over|are in both)`)
	all := b.match(stages, `^all +([\d.]+) +([\d.]+) +([\d.]+) .*workers`)
	e.seconds, e.cpu, e.critical = b.parse(all[0]), b.parse(all[1]), b.parse(all[2])
	e.peakMB = b.number(stages, `^other .* (\d+)$`)
	hops := b.match(stages, `^([\d.]+) ?([kMGT]?) packet-hops simulated at ([\d.]+) ns each`)
	e.packetHops, e.nsPerHop = b.parse(hops[0]), b.parse(hops[2])
	for range strings.Index(" kMGT", hops[1]) {
		e.packetHops *= 1000
	}
	disk := b.match(stages, `^disk: (\d+) bytes a flow in tables(?:, (\d+) in the cache)?`)
	e.tables = b.parse(disk[0])
	if disk[1] != "" {
		e.cache = b.parse(disk[1])
	}
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
	b.parsimon(ctx, append([]string{"validate", "--lake", lake, "--scenario", e.scenario, "--truth", truth}, how...)...)
	v := validation{}
	for _, r := range query[struct {
		Bin    string `json:"size_bin"`
		Flows  int64
		Errors percentiles
	}](ctx, b, lake, fmt.Sprintf(`
		SELECT size_bin, any_value(flows) AS flows, list(error ORDER BY quantile) AS errors FROM validations
		WHERE scenario = '%s' AND variant = '%s' AND (truth = 'exact') = %t
		GROUP BY size_bin`, e.scenario, e.variant, truth == "exact")) {
		v[r.Bin] = bin{r.Flows, r.Errors}
	}
	if _, ok := v["all"]; !ok {
		b.fail(fmt.Errorf("validation of %s %s has no row for all flows", e.scenario, e.variant))
	}
	return v
}

// A tally collects figures with their names.
type tally struct {
	values []float64
	names  []string
}

func (t *tally) add(name string, value float64) {
	t.values, t.names = append(t.values, value), append(t.names, name)
}

// magnitudes returns the mean of the absolute values, and the largest with its name.
func (t *tally) magnitudes() (mean, worst float64, name string) {
	for i, v := range t.values {
		mean += abs(v) / float64(len(t.values))
		if abs(v) >= worst {
			worst, name = abs(v), t.names[i]
		}
	}
	return mean, worst, name
}

// spread returns the median, the least and the greatest.
func (t *tally) spread() (median, least, greatest float64) {
	if len(t.values) == 0 {
		return 0, 0, 0
	}
	v := slices.Sorted(slices.Values(t.values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]
}

func abs(x float64) float64 { return max(x, -x) }
