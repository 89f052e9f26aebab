package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
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
	p.ns3Section(ctx)
	p.detailSection(ctx)
	p.transportsSection()
	p.mixSection()
	p.failuresSection()
	p.parkingSection(ctx)
	p.timesSection()
	if p.err == nil {
		blank := regexp.MustCompile(`\n{3,}`)
		page := strings.TrimSpace(blank.ReplaceAllString(p.out.String(), "\n\n")) + "\n"
		p.fail(os.WriteFile(filepath.Join("datasets", "PAPER.md"), []byte(page), 0o644))
	}
}

func (p *paper) introduction(ctx context.Context) {
	command := "make paper"
	if p.short {
		command += " ARGS=--short"
	}
	p.printf("# The paper's evaluation again\n\nWritten by `%s`. %s The program: %s.\n", command,
		p.provenance(ctx), strings.Join(p.programs(), "; "))
	p.text("intro")
	p.text("rule")
	if p.short {
		p.text("short")
	}
	p.printf("\n**Measured: %d of the %d items of this form.** Each section names the others.",
		len(p.records), len(p.items))
	for _, what := range p.missing {
		p.printf("Left out, because the folder --shared is not there: %s.", what)
	}
}

// programs returns the programs that made the runs, with their commits. All have the same version of the
// method.
func (p *paper) programs() []string {
	found := map[string]bool{}
	for _, r := range p.records {
		for _, runs := range r.Runs {
			for _, run := range runs {
				found[run.Program] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
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

// section begins a section of paper.txt, names the items that are not measured, and returns the records of
// the others.
func (p *paper) section(text, items string) (records []*paperRecord) {
	p.text(text)
	var missing []string // names of items without a record
	for _, item := range p.items {
		if item.Section != items {
			continue
		}
		r := p.records[item.key()]
		if r == nil {
			missing = append(missing, "`"+strings.ReplaceAll(item.Name, "~", ":")+"`")
			continue
		}
		records = append(records, r)
	}
	if len(records)+len(missing) == 0 {
		p.printf("\nNot part of this form.")
	}
	if len(missing) > 0 {
		p.printf("\nNot measured yet: %s.\n", strings.Join(missing, ", "))
	}
	return records
}

// errorsOf returns the errors of a kind of estimate for a group of flows, one for each draw. They are
// relative to exact, or to ns-3 if the item has that reference.
func (r *paperRecord) errorsOf(way, group string, of grouping) (all []percentiles) {
	for i, run := range r.Runs[way] {
		if run.Estimate.Errors != nil {
			all = append(all, run.Estimate.Errors[group])
			continue
		}
		all = append(all, relative(of(run.Estimate)[group], of(r.Runs[byExact][i].Estimate)[group]))
	}
	return all
}

// errorOf returns the mean of the errors over the draws, of flows of a size bin.
func (r *paperRecord) errorOf(way, bin string) percentiles {
	return meanOf(r.errorsOf(way, bin, paperEstimate.bySize))
}

// p99Errors returns the errors of p99 of the draws, of flows of a size bin.
func (r *paperRecord) p99Errors(way, bin string) []float64 {
	return at(r.errorsOf(way, bin, paperEstimate.bySize), 2)
}

// truth returns the mean of the true percentiles over the draws.
func (r *paperRecord) truth(group string, of grouping) percentiles {
	var all []percentiles
	for _, run := range r.Runs[byExact] {
		all = append(all, of(run.Estimate)[group])
	}
	return meanOf(all)
}

// maxLoad is the mean load of the busiest link over the draws, and top10 that of the busiest tenth.
func (r *paperRecord) maxLoad() float64 {
	return r.meanRun(func(run paperRun) float64 { return run.MaxLoad })
}
func (r *paperRecord) top10() float64 {
	return r.meanRun(func(run paperRun) float64 { return run.Top10Load })
}

func (r *paperRecord) meanRun(of func(paperRun) float64) float64 {
	var values []float64
	for _, run := range r.Runs[r.Item.Ways[0]] {
		values = append(values, of(run))
	}
	return mean(values)
}

// flows is the number of flows of the first draw.
func (r *paperRecord) flows() int64 { return r.Runs[r.Item.Ways[0]][0].Flows }

// settled says which length the rule gave, and how much the truth deviates.
func (r *paperRecord) settled() string {
	if r.Item.Given {
		return "given flows"
	}
	if len(r.Draws.Seeds) == 1 {
		return fmt.Sprintf("1 draw of %v", r.Draws.Length)
	}
	return fmt.Sprintf("%d draws of %v, true p99 ±%s", len(r.Draws.Seeds), r.Draws.Length,
		share(r.Deviation.share))
}

// at returns one of the four percentiles.
func at(all []percentiles, quantile int) (values []float64) {
	for _, p := range all {
		values = append(values, p[quantile])
	}
	return values
}

func meanOf(all []percentiles) (m percentiles) {
	for q := range m {
		m[q] = mean(at(all, q))
	}
	return m
}

// drawnErrors prints mean errors of four percentiles, and the standard error of p99.
func drawnErrors(all []percentiles) string {
	text := meanOf(all).String()
	if len(all) > 1 {
		text += fmt.Sprintf(" (p99 ±%.1f%%)", 100*math.Sqrt(variance(at(all, 2))/float64(len(all))))
	}
	return text
}

func (p percentiles) slowdowns() string {
	return fmt.Sprintf("%.2f / %.2f / %.2f / %.2f", p[0], p[1], p[2], p[3])
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
	median := v[min(len(v)-1, len(v)/2)]
	return fmt.Sprintf("%s (%s to %s), %s within 10%%", percent(median), percent(v[0]), percent(v[len(v)-1]),
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
		"oversubscription and load. Median error of p99 (least to greatest), and how many are within 10%%:",
		len(all))
	p.header(append([]string{"load asked", "scenarios"}, ways...)...)
	for _, r := range loadRanges {
		name := r.name
		in := slices.DeleteFunc(slices.Clone(all), func(s comparedScenario) bool {
			return loadRange(s.asked) != name
		})
		p.errorRow(name, in, ways)
	}
	p.errorRow("all", all, ways)
	p.agreementTable(all)
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
	p.draw(ctx, "beside", "Our error and the paper's, scenario by scenario",
		besideChart(beside, "error of p99 in the paper", map[string]any{
			"color": field("oversub", "nominal", "oversubscription"),
			"shape": field("sizes", "nominal", "flow sizes"),
		}))
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
	p.text("worst")
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

// A betweenDraws has the variances between draws of scenarios of a range of load: of the error of
// independent, and of the true p99 relative to its mean.
type betweenDraws struct {
	errors, truth pool
}

// betweenDrawsOf returns the variances by range of load.
func betweenDrawsOf(all []comparedScenario) map[string]*betweenDraws {
	of := map[string]*betweenDraws{}
	for _, s := range all {
		name := loadRange(s.asked)
		if of[name] == nil {
			of[name] = &betweenDraws{}
		}
		of[name].errors.add(s.p99Errors(byIndependent, "all"))
		truth := s.truth("all", paperEstimate.bySize).p99()
		var shares []float64
		for _, run := range s.Runs[byExact] {
			shares = append(shares, run.Estimate.Sizes["all"].p99()/truth)
		}
		of[name].truth.add(shares)
	}
	return of
}

// loaded reports whether the busiest link of the draws has the load of the paper's draw.
func (s comparedScenario) loaded() bool { return abs(s.maxLoad()/s.load-1) <= loadTolerance }

// agrees compares independent with the paper's Parsimon. At another load, nothing is decided.
func (s comparedScenario) agrees(of map[string]*betweenDraws) verdict {
	if !s.loaded() {
		return undecided
	}
	return of[loadRange(s.asked)].errors.against(s.p99Errors(byIndependent, "all"), s.independent, s.independent)
}

// why says what is known about a difference from the paper.
func (s comparedScenario) why(v verdict) string {
	switch {
	case !s.loaded():
		return fmt.Sprintf("the busiest link has a load of %s, in the paper %s", share(s.maxLoad()),
			share(s.load))
	case v != differs:
		return ""
	case abs(s.top10()/s.topLoad-1) > loadTolerance:
		return fmt.Sprintf("the busiest tenth of the links has a load of %s, in the paper %s", share(s.top10()),
			share(s.topLoad))
	}
	return fmt.Sprintf("not known: the loads are the paper's; the workload lasts %v", s.Draws.Length)
}

// agreementTable says how many scenarios agree with the paper, and what the sampling error is.
func (p *paper) agreementTable(all []comparedScenario) {
	p.text("agreement")
	p.header("load asked", "scenarios", "mean difference from the paper", "all together",
		"sampling error of one scenario", string(agrees), string(differs), string(undecided),
		"deviation of the true p99 between draws")
	of := betweenDrawsOf(all)
	for _, r := range loadRanges {
		if of[r.name] == nil {
			continue
		}
		counts := map[verdict]int{}
		var ours, theirs []float64
		for _, s := range all {
			if loadRange(s.asked) != r.name {
				continue
			}
			counts[s.agrees(of)]++
			ours = append(ours, s.p99(byIndependent))
			theirs = append(theirs, s.independent)
		}
		difference, margin := paired(ours, theirs)
		p.row(r.name, len(ours), percent(difference)+" "+marginText(margin), decide(difference, margin),
			marginText(of[r.name].errors.margin(1)), counts[agrees], counts[differs], counts[undecided],
			marginText(of[r.name].truth.deviation()))
	}
}

// marginText prints a sampling error, which is NaN if it is not known.
func marginText(margin float64) string {
	if math.IsNaN(margin) {
		return "(not measured)"
	}
	return fmt.Sprintf("±%.1f%%", 100*margin)
}

func (p *paper) scenarioTable(all []comparedScenario) {
	p.text("scenarios")
	p.header("id", "matrix", "sizes", "σ", "oversubscription", "workload", "flows", "busiest link",
		"busiest tenth", "true p99", "the paper's", "independent", "difference", "verdict", "why",
		"the paper's, clustered", "clustered", "flow")
	of := betweenDrawsOf(all)
	for _, s := range all {
		v := s.agrees(of)
		errors := s.p99Errors(byIndependent, "all")
		margin := of[loadRange(s.asked)].errors.margin(len(errors))
		p.row(s.id, s.matrix, s.sizes, s.sigma, s.oversub, s.settled(), s.flows(),
			share(s.load)+", "+share(s.maxLoad()), share(s.topLoad)+", "+share(s.top10()),
			fmt.Sprintf("%.1f", s.truth("all", paperEstimate.bySize).p99()), percent(s.independent),
			sampledError(errors), percent(mean(errors)-s.independent)+" "+marginText(margin), v, s.why(v),
			percent(s.clustered), percent(s.p99(byClustered)), percent(s.p99(byFlow)))
	}
}

func (p *paper) ns3Section(ctx context.Context) {
	records := p.section("ns3", "ns3")
	if len(records) == 0 {
		return
	}
	p.printf("Errors of p50 / p90 / p99 / p99.9 against the FCTs of that ns-3 on the same flows:")
	p.header("scenario", "load", byExact, byIndependent, byClustered, byFlow, "published code", "ECMP repaired",
		"difference at p99", "verdict")
	references := map[string]source{}
	for _, s := range p.sources(p.groundTruths()) {
		references[s.name] = s
	}
	var of pool
	for _, r := range records {
		of.add(r.p99Errors(byIndependent, "all"))
	}
	var ours, theirs []float64
	var data []point
	for _, r := range records {
		cells := []any{r.Item.Name, share(r.maxLoad())}
		for _, way := range allWays {
			if _, measured := r.Runs[way]; measured {
				cells = append(cells, drawnErrors(r.errorsOf(way, "all", paperEstimate.bySize)))
			} else {
				cells = append(cells, "–")
			}
		}
		s, known := references[r.Item.Name]
		if !known { // the published code has no estimate with this transport
			p.row(append(cells, "–", "–", "–", "–")...)
			continue
		}
		errors := r.p99Errors(byIndependent, "all")
		ours = append(ours, mean(errors))
		theirs = append(theirs, s.repaired.p99())
		data = append(data, point{"ours": mean(errors), "paper": s.beside.p99(), "code": "as published"},
			point{"ours": mean(errors), "paper": s.repaired.p99(), "code": "ECMP repaired"})
		p.row(append(cells, s.beside, s.repaired, percent(mean(errors)-s.repaired.p99())+" "+
			marginText(of.margin(len(errors))), of.against(errors, s.repaired.p99(), s.repaired.p99()))...)
	}
	difference, margin := paired(ours, theirs)
	together := decide(difference, margin)
	p.printf("\nAll %d together: **%s**. The mean difference at p99 is %s, sampling error %s.", len(ours),
		together, percent(difference), marginText(margin))
	if together == differs {
		p.text("ns3-differs")
	}
	p.draw(ctx, "published", "Errors of p99 of the published code and of ours, on the same flows",
		besideChart(data, "error of p99, the published code", map[string]any{
			"color": field("code", "nominal", "published code"),
		}))
	p.text("ns3-end")
}

func (p *paper) detailSection(ctx context.Context) {
	for _, r := range p.section("detail", "detail") {
		p.printf("Ours, %d flows, %s, busiest link %s, top 10%% %s:", r.flows(), r.settled(), share(r.maxLoad()),
			share(r.top10()))
		p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
		p.againstPaper(r, "all", 0.1, 0.1)
		p.draw(ctx, "detail", "Tails of slowdown by flow size", tailChart(r))
	}
}

// againstPaper says whether the error of independent at p99 agrees with the paper's, which is between lo and
// hi.
func (p *paper) againstPaper(r *paperRecord, bin string, lo, hi float64) {
	var of pool
	errors := r.p99Errors(byIndependent, bin)
	of.add(errors)
	p.printf("\n`independent` and the paper's Parsimon (%s at p99): **%s**. Ours is %s, sampling error %s.",
		errorRange(lo, hi), of.against(errors, lo, hi), sampledError(errors), marginText(of.margin(len(errors))))
}

func errorRange(lo, hi float64) string {
	if lo == hi {
		return percent(lo)
	}
	return percent(lo) + " to " + percent(hi)
}

// estimateTable prints percentiles of the truth, and the errors of the estimates, by size or by service.
func (p *paper) estimateTable(r *paperRecord, groups []string,
	of grouping) {
	head := []string{"", "`exact`: p50 / p90 / p99 / p99.9"}
	head = append(head, r.Item.Ways[1:]...)
	p.header(head...)
	for _, group := range groups {
		truth := r.truth(group, of)
		if truth.p99() == 0 {
			continue
		}
		cells := []any{group, truth.slowdowns()}
		for _, way := range r.Item.Ways[1:] {
			cells = append(cells, drawnErrors(r.errorsOf(way, group, of)))
		}
		p.row(cells...)
	}
}

// middleBin is a size bin of the paper that the lake divides.
const middleBin = "10 KB-1 MB"

// paperTransports has the errors of p99 in the paper, by transport and load, and by size.
var paperTransports = map[string][3]float64{
	"dctcp-45":  {0.014, 0.092, 0.159},
	"timely-45": {0.040, 0.179, 0.137},
	"dcqcn-45":  {0.059, 0.116, 0.128},
	"dctcp-56":  {0.028, 0.092, 0.146},
	"timely-56": {0.081, 0.200, 0.113},
	"dcqcn-56":  {0.076, 0.146, 0.122},
	"dctcp-67":  {0.138, 0.113, 0.136},
	"timely-67": {0.133, 0.182, 0.050},
	"dcqcn-67":  {0.180, 0.152, 0.136},
}

func (p *paper) transportsSection() {
	records := p.section("transports", "transports")
	if len(records) == 0 {
		return
	}
	bins := [3]string{"<10 KB", middleBin, ">1 MB"}
	var pools [3]pool
	for _, r := range records {
		for i, bin := range bins {
			pools[i].add(r.p99Errors(byIndependent, bin))
		}
	}
	p.printf("Ours, error of p99 by size (%s):", strings.Join(bins[:], " / "))
	p.header("transport and load", "workload", "true p99", "the paper's", byIndependent, "verdict", byFlow)
	for _, r := range records {
		var truths, theirs, ours, verdicts, flows []string
		for i, bin := range bins {
			paper := paperTransports[r.Item.Name][i]
			errors := r.p99Errors(byIndependent, bin)
			truths = append(truths, fmt.Sprintf("%.1f", r.truth(bin, paperEstimate.bySize).p99()))
			theirs = append(theirs, percent(paper))
			ours = append(ours, sampledError(errors))
			verdicts = append(verdicts, string(pools[i].against(errors, paper, paper)))
			flows = append(flows, percent(r.errorOf(byFlow, bin).p99()))
		}
		cells := []any{r.Item.Name, r.settled()}
		for _, texts := range [][]string{truths, theirs, ours, verdicts, flows} {
			cells = append(cells, strings.Join(texts, " / "))
		}
		p.row(cells...)
	}
	p.printf("\nSampling errors, pooled over the rows: %s / %s / %s.", marginText(pools[0].margin(drawsCount)),
		marginText(pools[1].margin(drawsCount)), marginText(pools[2].margin(drawsCount)))
}

func (p *paper) mixSection() {
	for _, r := range p.section("mix", "mix") {
		p.printf("Ours, `mixed`, %d flows, %s, busiest link %s. The paper gives no numbers to compare with:",
			r.flows(), r.settled(), share(r.maxLoad()))
		services := slices.Sorted(maps.Keys(r.Runs[byExact][0].Estimate.Services))
		p.estimateTable(r, services, paperEstimate.byService)
	}
}

func (p *paper) failuresSection() {
	records := p.section("failures", "failures")
	if len(records) == 0 {
		return
	}
	var of pool
	for _, r := range records {
		of.add(r.p99Errors(byIndependent, "all"))
	}
	p.printf("Ours, `failures`, errors of p50 / p90 / p99 / p99.9. The sampling error of p99, pooled over the "+
		"rows, is %s:", marginText(of.margin(drawsCount)))
	p.header("cable down", "workload", "busiest link", "`exact`", "the paper's p99", byIndependent, "verdict",
		byFlow)
	for _, r := range records {
		lo := 0.11
		hi := 0.14
		if r.Item.Name == "none" {
			lo = 0.1
			hi = 0.1
		}
		p.row(strings.ReplaceAll(r.Item.Name, "~", ":"), r.settled(), share(r.maxLoad()),
			r.truth("all", paperEstimate.bySize).slowdowns(), errorRange(lo, hi),
			drawnErrors(r.errorsOf(byIndependent, "all", paperEstimate.bySize)),
			of.against(r.p99Errors(byIndependent, "all"), lo, hi),
			drawnErrors(r.errorsOf(byFlow, "all", paperEstimate.bySize)))
	}
}

// A finding is what the paper says about a microbenchmark, as a condition on the errors of p90 by scenario.
type finding struct {
	says string
	true func(errors map[string][]float64) verdict
}

// accurateShare is the error up to which an estimate of a microbenchmark counts as accurate. The paper has
// pictures instead of numbers.
const accurateShare = 0.05

// paperFindings are those of the paper's figures 15 to 18.
var paperFindings = map[string]finding{
	"short": {"accurate", func(e map[string][]float64) verdict {
		if abs(mean(e["short"])) <= accurateShare {
			return agrees
		}
		return differs
	}},
	"first-hop":        {"too high", above("first-hop", "")},
	"short-correlated": {"slightly too high", above("short-correlated", "")},
	"long":             {"too high", above("long", "")},
	"long-correlated":  {"more than `long`", above("long-correlated", "long")},
	"long-bursty":      {"less than `long`", above("long", "long-bursty")},
	"long-bursty-correlated": {
		"more than `long-bursty`", above("long-bursty-correlated", "long-bursty"),
	},
}

// above is the condition that the error of one scenario is above that of another, or above 0 if other is
// empty.
func above(name, other string) func(map[string][]float64) verdict {
	return func(errors map[string][]float64) verdict {
		if other == "" {
			return exceeds(errors[name], []float64{0})
		}
		if len(errors[other]) == 0 {
			return undecided
		}
		return exceeds(errors[name], errors[other])
	}
}

func (p *paper) parkingSection(ctx context.Context) {
	records := p.section("parking", "parking")
	if len(records) == 0 {
		return
	}
	errors := map[string][]float64{}
	for _, r := range records {
		errors[r.Item.Name] = at(r.errorsOf(byIndependent, "main", paperEstimate.byService), 1)
	}
	p.text("parking-rule")
	p.printf("Ours, errors of p50 / p90 / p99 / p99.9 of the main traffic:")
	p.header("scenario", "workload", "`exact`", "the paper's Parsimon", byIndependent, "verdict", byFlow)
	for _, r := range records {
		f := paperFindings[r.Item.Name]
		p.row(r.Item.Name, r.settled(), r.truth("main", paperEstimate.byService).slowdowns(), f.says,
			drawnErrors(r.errorsOf(byIndependent, "main", paperEstimate.byService)), f.true(errors),
			drawnErrors(r.errorsOf(byFlow, "main", paperEstimate.byService)))
	}
	p.draw(ctx, "parking", "Tails of the main traffic's slowdown", parkingChart(records))
}

func (p *paper) largeSection(ctx context.Context) {
	for _, r := range p.section("large", "large") {
		p.printf("\nOurs, `large`, %d flows, %s, busiest link %s, top 10%% %s:", r.flows(), r.settled(),
			share(r.maxLoad()), share(r.top10()))
		if slices.Contains(r.Item.Ways, byExact) {
			p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
			p.againstPaper(r, "all", 0.088, 0.088)
		}
		p.timeTable([]*paperRecord{r})
		if r.Item.Tails {
			p.draw(ctx, "large", "Tails of slowdown by flow size, 6,144 hosts", tailChart(r))
		}
	}
}

// timeTable prints the times of the estimates of the first draws.
func (p *paper) timeTable(records []*paperRecord) {
	p.header("item", "way", "time, s", "processor, s", "link cases", "longest link case, s")
	for _, r := range records {
		for _, way := range r.Item.Ways {
			e := r.Runs[way][0].Estimate
			cases := "–"
			longest := "–"
			if e.Cases > 0 {
				cases = fmt.Sprint(e.Cases)
				longest = fmt.Sprintf("%.2f", e.LongestCase)
			}
			p.row(r.Item.key(), way, decimal(e.Seconds), decimal(e.Processor), cases, longest)
		}
	}
}

func (p *paper) timesSection() {
	p.text("times")
	var records []*paperRecord
	for _, item := range p.items {
		r := p.records[item.key()]
		if r != nil && item.Section == "192" {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		p.printf("Not measured.")
		return
	}
	p.printf("Ours, sums over the first draws of %d scenarios. Other programs ran on the machine where "+
		"times are far above processor times. All runs of this page together took %.1f hours of a core.",
		len(records), p.processorHours())
	p.header("way", "time, s", "processor, s", "link cases")
	for _, way := range allWays {
		var seconds, processor float64
		var cases int64
		for _, r := range records {
			e := r.Runs[way][0].Estimate
			seconds += e.Seconds
			processor += e.Processor
			cases += e.Cases
		}
		p.row(way, decimal(seconds), decimal(processor), cases)
	}
}

// processorHours is the time that the runs of the page took, in hours of a core.
func (p *paper) processorHours() (hours float64) {
	for _, r := range p.records {
		for _, runs := range r.Runs {
			for _, run := range runs {
				hours += run.Estimate.Processor / 3600
			}
		}
	}
	return hours
}
