package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An estimate with an error above the first limit must have a warning, and one below the second should have
// none.
const (
	namedError    = 0.1
	harmlessError = 0.03
)

// loads has the mean load of the 10% most loaded links of an estimate, and the largest load.
type loads struct {
	Top10   float64 `json:"top10_mean_load"`
	Largest float64 `json:"max_load"`
}

func (b *bench) loads(ctx context.Context, lake string, e estimate) loads {
	for _, l := range question[loads](ctx, b, lake, "load_top10", e) {
		return l
	}
	return loads{}
}

// undrawn returns the percentiles of slowdown of an estimate by independent if flows keep the delays that
// were simulated for them, instead of drawing delays from buckets. The delays of links are still added.
func (b *bench) undrawn(ctx context.Context, lake string, e estimate) (of percentiles) {
	for _, row := range query[struct{ Slowdowns percentiles }](ctx, b, lake, `
		SELECT quantile_cont(1 + delay_ns / ideal_ns, [0.5, 0.9, 0.99, 0.999]) AS slowdowns
		FROM (SELECT flow_row, sum(case_delay_ns) AS delay_ns FROM hop_contributions_all WHERE `+e.where()+`
			GROUP BY flow_row)
		JOIN (FROM slowdowns_all WHERE `+e.where()+`) USING (flow_row)`) {
		of = row.Slowdowns
	}
	return of
}

// serviceErrors has the errors of a service relative to a reference.
type serviceErrors struct {
	Service, Truth string
	P50            float64 `json:"p50_error"`
	P90            float64 `json:"p90_error"`
	P99            float64 `json:"p99_error"`
	P999           float64 `json:"p999_error"`
}

// A judged estimate has been compared with a reference.
type judged struct {
	errors   percentiles // of all flows, or of service main
	bySize   validation
	warnings []string
	holds    []bool // the intervals of p50, p90, p99 and p99.9 of all flows contain the truth
}

// judge compares an estimate with the reference. Bounds of intervals are known to the width of a cell of
// slowdown, 0.2%.
func (b *bench) judge(ctx context.Context, lake string, e estimate, truth string) judged {
	j := judged{bySize: b.validate(ctx, lake, e, truth)}
	j.errors = j.bySize["all"].errors
	for _, s := range question[serviceErrors](ctx, b, lake, "error_by_service", e) {
		if s.Service == "main" && s.Truth == "exact" {
			j.errors = percentiles{s.P50, s.P90, s.P99, s.P999}
		}
	}
	for _, r := range query[struct{ Kind string }](ctx, b, lake,
		"SELECT DISTINCT kind FROM warnings_all WHERE "+e.where()+" ORDER BY kind") {
		j.warnings = append(j.warnings, r.Kind)
	}
	for _, r := range query[struct{ Holds bool }](ctx, b, lake, `
		SELECT v.true_slowdown BETWEEN i.lo / 1.002 AND i.hi * 1.002 AS holds
		FROM (FROM intervals_all WHERE `+e.where()+` AND size_bin = 'all' AND service IS NULL AND vnet IS NULL) i
		JOIN validations v USING (scenario, variant, size_bin, quantile) ORDER BY quantile`) {
		j.holds = append(j.holds, r.Holds)
	}
	return j
}

// marks shows which intervals contain the reference.
func (j judged) marks() string {
	var text []string
	for _, holds := range j.holds {
		text = append(text, map[bool]string{true: "yes", false: "no"}[holds])
	}
	return strings.Join(text, " / ")
}

// worst returns the largest error of the four percentiles, and of p99 by flow size.
func (j judged) worst() float64 {
	worst := abs(j.bySize.worstBin())
	for _, x := range j.errors {
		worst = max(worst, abs(x))
	}
	return worst
}

// A tally counts, over scenarios, how accurate an estimate was, and how often its warnings were right.
type tally struct {
	p99                      figures
	unnamed, named, harmless []string
	warned, intervals, held  int
}

func (t *tally) add(name string, j judged) {
	t.p99.add(name, j.errors.p99())
	worst := j.worst()
	warned := len(j.warnings) > 0
	switch {
	case worst >= namedError && !warned:
		t.unnamed = append(t.unnamed, name)
	case worst >= namedError:
		t.named = append(t.named, name)
	case warned && worst < harmlessError:
		t.harmless = append(t.harmless, name)
	}
	if warned {
		t.warned++
	}
	for _, holds := range j.holds {
		t.intervals++
		if holds {
			t.held++
		}
	}
}

func (t *tally) print(b *bench, way string) {
	mean, worst, name := t.p99.magnitudes()
	b.printf("\n%s:\n\n- mean |p99 error| %.1f%%, largest %.1f%% (%s)", way, 100*mean, 100*worst, name)
	b.printf("- errors of %.0f%% and more with a warning: %s; without: %s", 100*namedError, listed(t.named),
		listed(t.unnamed))
	b.printf("- scenarios with warnings: %d; with warnings, and errors below %.0f%% only: %s", t.warned,
		100*harmlessError, listed(t.harmless))
	b.printf("- intervals that contain the truth: %d of %d", t.held, t.intervals)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}

// A source is a scenario with its reference.
type source struct {
	name  string
	flags []string // of parsimon run
	truth string   // exact, or a Parquet file
	// The errors of the published code, and of that code with repaired ECMP. All are 0 if there are none.
	beside, repaired percentiles
}

// published prints the published errors.
func (s source) published() string {
	if s.beside == (percentiles{}) {
		return "–"
	}
	return s.beside.String()
}

// sources finds scenarios. Numbers are those of the paper's evaluation. Names are those of the shared folder
// hard. Both have FCTs of the paper's ns-3 or of a simulation of the whole network. FOLDER/NAME is a shipped
// scenario, whose whole network is simulated.
func (b *bench) sources(names []string) (all []source) {
	for _, name := range names {
		if strings.Contains(name, "/") {
			all = append(all, source{name: name, flags: []string{name}, truth: "exact"})
			continue
		}
		var dir, topology, truth string
		var published, repaired percentiles
		if _, err := strconv.Atoi(name); err != nil {
			dir = b.sharedPath("reference", "hard", name)
			truth = "exact.parquet"
			if _, err := os.Stat(filepath.Join(dir, truth)); err != nil {
				truth = "ns3.parquet"
			}
			topology = filepath.Join(dir, "topology.json")
		} else {
			dir = b.sharedPath("reference", "scenarios", name)
			truth = "ns3.parquet"
			var about struct{ Topology string }
			text, err := os.ReadFile(filepath.Join(dir, "scenario.json"))
			b.fail(err)
			b.decode(string(text), &about)
			topology = b.sharedPath("reference", "topologies", about.Topology+".json")
			baseline, err := os.ReadFile(b.sharedPath("reference", "scenarios", "baseline.csv"))
			b.fail(err)
			published = b.baseline(string(baseline), name+",as published")
			repaired = b.baseline(string(baseline), name+",ECMP repaired")
		}
		// with the paper's window
		all = append(all, source{name: name, truth: filepath.Join(dir, truth), beside: published,
			repaired: repaired,
			flags: []string{"--topology", topology, "--flows", filepath.Join(dir, "flows.parquet"),
				"--window", "18KB"}})
	}
	return all
}

// baseline returns the percentiles that follow a key in a file of errors.
func (b *bench) baseline(text, key string) (of percentiles) {
	for i, x := range b.match(text, "^"+key+strings.Repeat(`,([^,\n]+)`, len(of))) {
		of[i] = b.parse(x)
	}
	return of
}

// groundTruths lists the scenarios of the paper's evaluation, by number.
func (b *bench) groundTruths() (names []string) {
	entries, err := os.ReadDir(b.sharedPath("reference", "scenarios"))
	b.fail(err)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names
}

// shipped lists the shipped scenarios in some folders.
func shipped(folders ...string) func(*bench) []string {
	return func(b *bench) (names []string) {
		for _, folder := range folders {
			files, err := filepath.Glob("datasets/scenarios/" + folder + "/*.yaml")
			b.fail(err)
			for _, f := range files {
				names = append(names, folder+"/"+strings.TrimSuffix(filepath.Base(f), ".yaml"))
			}
		}
		return names
	}
}

// compared is the measurement that compares estimates of scenarios with their references. short names one
// scenario.
func compared(short string, long func(*bench) []string, ways ...string) func(context.Context, *bench) {
	return func(ctx context.Context, b *bench) {
		b.compare(ctx, b.sources(b.names([]string{short}, long(b))), ways...)
	}
}

// otherKinds has networks and traffic that differ from the paper's, and some of the paper's scenarios.
func otherKinds(*bench) []string {
	return []string{"mini-star", "mini-mix", "mini-slow-40-2", "a2a-64k-4x", "chain-60", "fasthosts-60",
		"ft8-ws-60", "incast-64k-30", "onefast-60", "sigma3-60", "slowplane-60", "wan-100us",
		"7", "47", "65", "95", "121", "145", "1001", "1003"}
}

// compare prints the errors of several estimates of each scenario: for the slowdown percentiles of all flows,
// for p99 by flow size, and next to the warnings of the estimate.
func (b *bench) compare(ctx context.Context, from []source, ways ...string) {
	b.printf("Errors of p50 / p90 / p99 / p99.9 of slowdown, and of p99 by flow size, %s; – for 1,000 flows "+
		"or fewer. "+
		"Column interval holds states whether the interval of each of these percentiles of all flows contains "+
		"the truth.", strings.Join(sizeBins, " / "))
	head := []string{"scenario", "busiest link", "mean of the top 10%", "published"}
	for _, way := range ways {
		head = append(head, way, "by size", "warnings", "interval holds")
	}
	b.header(head...)
	tallies := make([]tally, len(ways))
	for _, s := range from {
		lake := b.lake()
		cells := []any{s.name, "", "", s.published()}
		for i, way := range ways {
			e := b.run(ctx, lake, append(slices.Clone(s.flags), "--estimator", way)...)
			j := b.judge(ctx, lake, e, s.truth)
			of := b.loads(ctx, lake, e)
			cells[1] = share(of.Largest)
			cells[2] = share(of.Top10)
			shown := j.errors.String()
			if way == "auto" {
				shown = e.Variant + ": " + shown
			}
			cells = append(cells, shown, j.bySize.bins(), strings.Join(j.warnings, ", "), j.marks())
			tallies[i].add(s.name, j)
		}
		b.row(cells...)
	}
	for i, way := range ways {
		tallies[i].print(b, way)
	}
}

// alternate measures several commands alternately, so that other load on the machine affects all of them.
func (b *bench) alternate(rounds int, sides ...func() float64) []figures {
	all := make([]figures, len(sides))
	if b.short {
		rounds = 1
	}
	for range rounds {
		for i, side := range sides {
			all[i].add("", side())
		}
	}
	return all
}

// benchExact compares the processor time of two passes of link cases with that of the whole network,
// alternating. The prediction by which a run chooses is fitted to this table (pipeline/auto.go).
func benchExact(ctx context.Context, b *bench) {
	b.printf("Medians of whole runs in processor seconds, cache off. Ratios of each round: median, least, " +
		"greatest.")
	b.header("scenario", "`flow`", "`exact`", "`flow` / `exact`")
	names := []string{"chain-60", "slowplane-60", "ft8-ws-60", "95", "47", "7", "1001", "incast-64k-30"}
	for _, s := range b.sources(b.names([]string{"mini-mix"}, names)) {
		side := func(way string) func() float64 {
			return func() float64 {
				b.run(ctx, b.lake(), append(slices.Clone(s.flags), "--cache", "off", "--estimator", way)...)
				return b.processor.Seconds()
			}
		}
		took := b.alternate(3, side("flow"), side("exact"))
		b.row(s.name, decimal(took[0].median()), decimal(took[1].median()), took[0].over(took[1]))
	}
}
