package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writePage writes datasets/PAPER.md and its pictures from the records.
func (p *paper) writePage(ctx context.Context) {
	p.out.Reset()
	p.introduction(ctx)
	p.workloadSection(ctx)
	p.largeSection(ctx)
	p.sensitivitySection(ctx)
	p.ns3Section()
	p.detailSection(ctx)
	p.transportsSection()
	p.mixSection()
	p.failuresSection()
	p.parkingSection(ctx)
	p.timesSection()
	if p.err == nil {
		page := strings.TrimSpace(p.out.String()) + "\n"
		p.fail(os.WriteFile(filepath.Join("datasets", "PAPER.md"), []byte(page), 0o644))
	}
}

func (p *paper) introduction(ctx context.Context) {
	command := "make paper"
	if p.short {
		command += " ARGS=--short"
	}
	p.printf("# The paper's evaluation again\n\nWritten by `%s`. %s The program: %s.\n", command, p.provenance(ctx),
		p.program)
	p.text("intro")
	left := map[string]int{}
	for _, item := range p.items {
		if p.records[item.Section+"/"+item.Name] == nil {
			left[item.Section]++
		}
	}
	if p.short {
		p.text("short")
	}
	for _, section := range slices.Sorted(maps.Keys(left)) {
		p.printf("Not measured yet: %d of the items `%s`.", left[section], section)
	}
	for _, what := range p.missing {
		p.printf("Left out, because the folder --shared is not there: %s.", what)
	}
}

//go:embed paper.txt
var paperText string

// text prints a part of paper.txt, with its title if it has one.
func (p *paper) text(name string) {
	for part := range strings.SplitSeq(paperText, "== ") {
		head, body, _ := strings.Cut(part, "\n")
		of, title, titled := strings.Cut(head, ": ")
		if of != name {
			continue
		}
		if titled {
			p.printf("\n## %s\n", title)
		}
		p.printf("%s", body)
	}
}

// section begins a section of paper.txt, and returns the records of its items.
func (p *paper) section(text, items string) (records []*paperRecord) {
	p.text(text)
	for _, item := range p.items {
		r := p.records[item.Section+"/"+item.Name]
		if r != nil && item.Section == items {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		p.printf("Not measured in this form.")
	}
	return records
}

// errorOf returns the error of an estimate relative to exact, or to ns-3 if the record has that reference.
func (r *paperRecord) errorOf(way, bin string) percentiles {
	e := r.Estimates[way]
	if e.Errors != nil {
		return e.Errors[bin]
	}
	return relative(e.Sizes[bin], r.Estimates[byExact].Sizes[bin])
}

func relative(estimate, truth percentiles) (errors percentiles) {
	for i := range estimate {
		if truth[i] > 0 {
			errors[i] = estimate[i]/truth[i] - 1
		}
	}
	return errors
}

func sorted(values []float64) []float64 { return slices.Sorted(slices.Values(values)) }

// spread prints the distribution of errors.
func spread(values []float64) string {
	if len(values) == 0 {
		return "–"
	}
	v := sorted(values)
	within := 0
	for _, x := range v {
		if abs(x) <= 0.1 {
			within++
		}
	}
	at := func(q float64) float64 { return v[min(len(v)-1, int(q*float64(len(v))))] }
	return fmt.Sprintf("%s (%s to %s), %s within 10%%", percent(at(0.5)), percent(v[0]), percent(v[len(v)-1]),
		share(float64(within)/float64(len(v))))
}

// loadRanges are the ranges of load in the paper's figure.
var loadRanges = []struct {
	name   string
	lo, hi float64
}{{"26% to 41%", 0.26, 0.41}, {"41% to 56%", 0.41, 0.56}, {"56% to 83%", 0.56, 0.84}}

func loadRange(load float64) string {
	for _, r := range loadRanges {
		if load < r.hi {
			return r.name
		}
	}
	return loadRanges[len(loadRanges)-1].name
}

// A comparedScenario is one of the 192 scenarios, with the results of the paper and of this program.
type comparedScenario struct {
	publishedScenario
	*paperRecord
}

func (s comparedScenario) p99(way string) float64 {
	if way == paperParsimon {
		return s.independent
	}
	return s.errorOf(way, "all").p99()
}

const paperParsimon = "the paper's Parsimon"

func (p *paper) sensitivitySection(ctx context.Context) {
	records := p.section("192", "192")
	if len(records) == 0 {
		return
	}
	published := map[string]publishedScenario{}
	for _, s := range p.published() {
		published[fmt.Sprintf("%03d", s.id)] = s
	}
	var all []comparedScenario
	for _, r := range records {
		all = append(all, comparedScenario{published[r.Item.Name], r})
	}
	ways := []string{paperParsimon, byIndependent, byClustered, byFlow}
	p.printf("Ours: %d of the 192 scenarios, drawn anew with the same matrix, sizes, burstiness, "+
		"oversubscription and "+
		"load. Median error of p99 (least to greatest), and how many are within 10%%:", len(all))
	p.header(append([]string{"load asked", "scenarios"}, ways...)...)
	for _, r := range loadRanges {
		name := r.name
		in := slices.DeleteFunc(slices.Clone(all), func(s comparedScenario) bool {
			return loadRange(s.asked) != name
		})
		p.errorRow(name, in, ways)
	}
	p.errorRow("all", all, ways)
	p.errorPictures(ctx, all, ways)
	p.parameterTable(all, ways)
	p.worstTable(all)
	p.scenarioTable(all)
}

func (p *paper) errorRow(name string, in []comparedScenario, ways []string) {
	cells := []any{name, len(in)}
	for _, way := range ways {
		var errors []float64
		for _, s := range in {
			errors = append(errors, s.p99(way))
		}
		cells = append(cells, spread(errors))
	}
	p.row(cells...)
}

func (p *paper) errorPictures(ctx context.Context, all []comparedScenario, ways []string) {
	var steps, boxes, beside []point
	for _, r := range loadRanges {
		for _, way := range ways {
			var errors []float64
			for _, s := range all {
				if loadRange(s.asked) == r.name {
					errors = append(errors, s.p99(way))
				}
			}
			steps = append(steps, cumulative(errors, point{"way": way, "load": r.name})...)
		}
	}
	for _, s := range all {
		beside = append(beside, point{"paper": s.independent, "ours": s.p99(byIndependent), "oversub": s.oversub,
			"sizes": s.sizes})
		load := "50% and less"
		if s.asked > 0.5 {
			load = "above 50%"
		}
		for _, way := range []string{paperParsimon, byIndependent} {
			for parameter, value := range s.parameters() {
				boxes = append(boxes, point{"way": way, "parameter": parameter, "value": value, "load": load,
					"error": s.p99(way)})
			}
		}
	}
	p.draw(ctx, "errors", "Distribution of the errors of p99 by load", errorChart(steps))
	p.draw(ctx, "parameters", "Errors of p99 by matrix, flow sizes, oversubscription and burstiness",
		parameterChart(boxes))
	p.draw(ctx, "beside", "Our error and the paper's, scenario by scenario", besideChart(beside))
}

// parameters are the parameters that the paper varies, except the load.
func (s publishedScenario) parameters() map[string]string {
	return map[string]string{"matrix": s.matrix, "sizes": s.sizes, "oversubscription": s.oversub,
		"burstiness": fmt.Sprintf("σ = %v", s.sigma)}
}

func (p *paper) parameterTable(all []comparedScenario, ways []string) {
	p.printf("\nBy parameter, loads above 50%% only, where the paper finds the differences:")
	p.header(append([]string{"parameter", "scenarios"}, ways...)...)
	high := slices.DeleteFunc(slices.Clone(all), func(s comparedScenario) bool { return s.asked <= 0.5 })
	for _, parameter := range []string{"matrix", "sizes", "oversubscription", "burstiness"} {
		values := map[string][]comparedScenario{}
		for _, s := range high {
			value := s.parameters()[parameter]
			values[value] = append(values[value], s)
		}
		for _, value := range slices.Sorted(maps.Keys(values)) {
			p.errorRow(parameter+" "+value, values[value], ways)
		}
	}
}

func (p *paper) worstTable(all []comparedScenario) {
	p.printf("\nThe five scenarios with the greatest errors of our `independent` (the paper's five: four with matrix A, " +
		"all with WebServer sizes and 4-to-1, at loads of 66%% to 78%%):")
	p.header("id", "load asked", "matrix", "sizes", "oversubscription", "σ", "independent", "the paper's",
		"flow")
	byError := slices.SortedFunc(slices.Values(all), func(a, b comparedScenario) int {
		return cmp.Compare(abs(b.p99(byIndependent)), abs(a.p99(byIndependent)))
	})
	for _, s := range byError[:min(5, len(byError))] {
		p.row(s.id, share(s.asked), s.matrix, s.sizes, s.oversub, s.sigma, percent(s.p99(byIndependent)),
			percent(s.independent), percent(s.p99(byFlow)))
	}
}

func (p *paper) scenarioTable(all []comparedScenario) {
	p.printf("\n<details><summary>Scenario by scenario</summary>\n\nColumn asked is the load asked for the " +
		"busiest link. The next two are the loads of the paper's draw and of ours, without headers.")
	p.header("id", "matrix", "sizes", "σ", "oversubscription", "asked", "paper's", "ours", "paper's error",
		"paper's, clustered", "independent", "clustered", "flow")
	for _, s := range all {
		p.row(s.id, s.matrix, s.sizes, s.sigma, s.oversub, share(s.asked), share(s.load), share(s.MaxLoad),
			percent(s.independent), percent(s.clustered), percent(s.p99(byIndependent)), percent(s.p99(byClustered)),
			percent(s.p99(byFlow)))
	}
	p.printf("\n</details>")
}

func (p *paper) ns3Section() {
	records := p.section("ns3", "ns3")
	if len(records) == 0 {
		return
	}
	p.printf("Errors of p50 / p90 / p99 / p99.9 against the FCTs of that ns-3 on the same flows, and the " +
		"published code's own:")
	p.header("scenario", "load", byExact, byIndependent, byClustered, byFlow, "published code")
	published := map[string]string{}
	for _, s := range p.sources(p.groundTruths()) {
		published[s.name] = s.beside
	}
	for _, r := range records {
		cells := []any{r.Item.Name, share(r.MaxLoad)}
		for _, way := range allWays {
			if _, measured := r.Estimates[way]; measured {
				cells = append(cells, r.errorOf(way, "all"))
			} else {
				cells = append(cells, "–")
			}
		}
		p.row(append(cells, cmp.Or(published[r.Item.Name], "–"))...)
	}
	p.printf("\n`exact` stands for ns-3 on the rest of this page: where the two differ here, errors elsewhere are " +
		"uncertain by as much.")
}

func (p *paper) detailSection(ctx context.Context) {
	records := p.section("detail", "detail")
	for _, r := range records {
		p.printf("Ours, %d flows; busiest link %s, top 10%% %s:", r.Flows, share(r.MaxLoad), share(r.Top10Load))
		p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
		p.draw(ctx, "detail", "Tails of slowdown by flow size", tailChart(r))
	}
}

func (e paperEstimate) bySize() map[string]percentiles    { return e.Sizes }
func (e paperEstimate) byService() map[string]percentiles { return e.Services }

// estimateTable prints percentiles of the reference, and the errors of the estimates, by size or by service.
func (p *paper) estimateTable(r *paperRecord, groups []string,
	of func(paperEstimate) map[string]percentiles) {
	head := []string{"", "`exact`: p50 / p90 / p99 / p99.9"}
	head = append(head, r.Item.Ways[1:]...)
	p.header(head...)
	for _, group := range groups {
		truth, measured := of(r.Estimates[byExact])[group]
		if !measured {
			continue
		}
		cells := []any{group, fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", truth[0], truth[1], truth[2], truth[3])}
		for _, way := range r.Item.Ways[1:] {
			cells = append(cells, relative(of(r.Estimates[way])[group], truth))
		}
		p.row(cells...)
	}
}

func (p *paper) transportsSection() {
	records := p.section("transports", "transports")
	if len(records) == 0 {
		return
	}
	p.printf("Ours, error of p99 by size (%s):", strings.Join(sizeBins, " / "))
	p.header("transport and load", byIndependent, byFlow)
	for _, r := range records {
		cells := []any{r.Item.Name}
		for _, way := range []string{byIndependent, byFlow} {
			var text []string
			for _, bin := range sizeBins {
				text = append(text, percent(r.errorOf(way, bin).p99()))
			}
			cells = append(cells, strings.Join(text, " / "))
		}
		p.row(cells...)
	}
}

func (p *paper) mixSection() {
	for _, r := range p.section("mix", "mix") {
		p.printf("Ours, `mixed`, %d flows, busiest link %s:", r.Flows, share(r.MaxLoad))
		services := slices.Sorted(maps.Keys(r.Estimates[byExact].Services))
		p.estimateTable(r, services, paperEstimate.byService)
	}
}

func (p *paper) failuresSection() {
	records := p.section("failures", "failures")
	if len(records) == 0 {
		return
	}
	p.printf("Ours, `failures`, errors of p50 / p90 / p99 / p99.9:")
	p.header("cable down", "busiest link", byIndependent, byFlow)
	for _, r := range records {
		p.row(strings.ReplaceAll(r.Item.Name, "~", ":"), share(r.MaxLoad), r.errorOf(byIndependent, "all"),
			r.errorOf(byFlow, "all"))
	}
}

func (p *paper) parkingSection(ctx context.Context) {
	records := p.section("parking", "parking")
	if len(records) == 0 {
		return
	}
	p.printf("Ours, errors of p50 / p90 / p99 / p99.9 of the main traffic:")
	p.header("scenario", "`exact`", byIndependent, byFlow)
	for _, r := range records {
		truth := r.Estimates[byExact].Services["main"]
		p.row(r.Item.Name, fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", truth[0], truth[1], truth[2], truth[3]),
			relative(r.Estimates[byIndependent].Services["main"], truth),
			relative(r.Estimates[byFlow].Services["main"], truth))
	}
	p.draw(ctx, "parking", "Tails of the main traffic's slowdown", parkingChart(records))
}

func (p *paper) largeSection(ctx context.Context) {
	for _, r := range p.section("large", "large") {
		p.printf("\nOurs, `large`, %s, %d flows, busiest link %s, top 10%% %s:", r.Item.Name, r.Flows,
			share(r.MaxLoad), share(r.Top10Load))
		if slices.Contains(r.Item.Ways, byExact) {
			p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
		}
		p.timeTable([]*paperRecord{r})
		if r.Item.Tails {
			p.draw(ctx, "large", "Tails of slowdown by flow size, 6,144 hosts", tailChart(r))
		}
	}
}

// timeTable prints the times of the estimates.
func (p *paper) timeTable(records []*paperRecord) {
	p.header("item", "way", "time, s", "processor, s", "link cases", "longest link case, s")
	for _, r := range records {
		for _, way := range r.Item.Ways {
			e := r.Estimates[way]
			cases := "–"
			longest := "–"
			if e.Cases > 0 {
				cases = fmt.Sprint(e.Cases)
				longest = fmt.Sprintf("%.2f", e.LongestCase)
			}
			p.row(r.Item.Section+"/"+r.Item.Name, way, decimal(e.Seconds), decimal(e.Processor), cases, longest)
		}
	}
}

func (p *paper) timesSection() {
	records := p.section("times", "192")
	if len(records) == 0 {
		return
	}
	p.printf("Ours, sums over %d scenarios. Other programs ran on the machine where times are far above "+
		"processor times:", len(records))
	p.header("way", "time, s", "processor, s", "link cases")
	for _, way := range allWays {
		var seconds, processor float64
		var cases int64
		for _, r := range records {
			seconds += r.Estimates[way].Seconds
			processor += r.Estimates[way].Processor
			cases += r.Estimates[way].Cases
		}
		p.row(way, decimal(seconds), decimal(processor), cases)
	}
}
