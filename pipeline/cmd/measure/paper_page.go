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
	"strconv"
	"strings"
)

// writePage writes datasets/PAPER.md and its pictures from the records.
func (p *paper) writePage(ctx context.Context) {
	p.out.Reset()
	p.workloadSection(ctx)
	p.largeSection(ctx)
	p.sensitivitySection(ctx)
	p.ns3Section(ctx)
	p.detailSection(ctx)
	p.transportsSection()
	p.mixSection(ctx)
	p.failuresSection(ctx)
	p.parkingSection(ctx)
	p.timesSection()
	sections := p.out.String()
	p.out.Reset()
	p.introduction(ctx) // it counts the verdicts of the sections
	if p.err == nil {
		blank := regexp.MustCompile(`\n{3,}`)
		page := strings.TrimSpace(blank.ReplaceAllString(p.out.String()+sections, "\n\n")) + "\n"
		p.fail(os.WriteFile(filepath.Join("datasets", "PAPER.md"), []byte(page), 0o644))
	}
}

func (p *paper) introduction(ctx context.Context) {
	p.printf("# The paper's evaluation again\n\nWritten by `make paper`. %s The program: %s.\n",
		p.provenance(ctx), strings.Join(p.programs(), "; "))
	p.text("intro")
	p.text("rule")
	p.coverage()
	for _, what := range p.missing {
		p.printf("Left out, because the folder --shared is not there: %s.", what)
	}
}

// judged counts the verdict of a row of a section, and returns it.
func (p *paper) judged(section string, v verdict) verdict {
	if p.verdicts[section] == nil {
		p.verdicts[section] = map[verdict]int{}
	}
	p.verdicts[section][v]++
	return v
}

// coverage prints how many items of each section are measured, in both forms, and what their rows show.
func (p *paper) coverage() {
	p.text("coverage")
	p.header("section", "short form", "whole form", string(agrees), string(differs), string(undecided))
	var total [2][2]int // by form: items that are measured, and all
	for _, section := range []string{"large", "192", "ns3", "detail", "transports", "mix", "failures",
		"parking"} {
		cells := []any{strings.Split(textTitle(section), " (")[0]}
		for i, form := range p.forms() {
			measured := 0
			all := 0
			for _, item := range form.items {
				if item.Section != section {
					continue
				}
				all++
				if p.records[form.key(item)] != nil {
					measured++
				}
			}
			total[i][0] += measured
			total[i][1] += all
			cells = append(cells, fmt.Sprintf("%d of %d", measured, all))
		}
		of := p.verdicts[section]
		p.row(append(cells, of[agrees], of[differs], of[undecided])...)
	}
	p.row("all", fmt.Sprintf("%d of %d", total[0][0], total[0][1]), fmt.Sprintf("%d of %d", total[1][0],
		total[1][1]), "", "", "")
}

// textTitle is the title of a part of paper.txt.
func textTitle(name string) string {
	_, rest, _ := strings.Cut(paperText, "== "+name+": ")
	title, _, _ := strings.Cut(rest, "\n")
	return title
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

// mostNamed is the largest number of items that a section names as not measured.
const mostNamed = 12

// section begins a section of paper.txt, says which items are not measured, and returns the records of the
// others (measuredIn).
func (p *paper) section(text, items string) []*paperRecord {
	p.text(text)
	missing := map[string][]string{} // names of items without a record, by form
	count := map[string]int{}
	shortItems := map[string]paperItem{}
	for _, item := range p.shortForm.items {
		shortItems[item.key()] = item
	}
	for _, item := range p.wholeForm.items {
		if item.Section != items {
			continue
		}
		whole := p.records[p.wholeForm.key(item)]
		_, inShort := shortItems[item.key()]
		short := p.records[p.shortForm.key(item)]
		name := "`" + strings.ReplaceAll(item.Name, "~", ":") + "`"
		if inShort {
			count["short"]++
		}
		count["whole"]++
		if inShort && short == nil {
			missing["short"] = append(missing["short"], name)
		}
		if whole == nil {
			missing["whole"] = append(missing["whole"], name)
		}
	}
	for _, form := range p.forms() {
		p.missingItems(form.name, missing[form.name], count[form.name])
	}
	return p.measuredIn(items)
}

// measuredIn returns the records of a section, item by item and the short form first. Given flows have the
// same length in both forms, so the record with more estimates counts.
func (p *paper) measuredIn(section string) (records []*paperRecord) {
	for _, item := range p.wholeForm.items {
		if item.Section != section {
			continue
		}
		whole := p.records[p.wholeForm.key(item)]
		short := p.records[p.shortForm.key(item)]
		if short != nil && (whole == nil || !item.Given) {
			records = append(records, short)
		}
		if whole != nil {
			records = append(records, whole)
		}
	}
	return records
}

// missingItems says which of the items of a section are not measured.
func (p *paper) missingItems(form string, names []string, of int) {
	switch {
	case len(names) == 0:
	case len(names) == of && of > 1:
		p.printf("\nThe %s form is not measured yet.\n", form)
	case len(names) > mostNamed:
		p.printf("\nNot measured yet in the %s form: %d of %d.\n", form, len(names), of)
	default:
		p.printf("\nNot measured yet in the %s form: %s.\n", form, strings.Join(names, ", "))
	}
}

// longestOnly keeps one record of each item: that of the whole form, if it is measured.
func longestOnly(records []*paperRecord) (longest []*paperRecord) {
	for i, r := range records {
		if i+1 < len(records) && records[i+1].Item.key() == r.Item.key() {
			continue
		}
		longest = append(longest, r)
	}
	return longest
}

// errorsOf returns the errors of a kind of estimate for a group of flows, one for each draw. They are
// relative to the truth (truthOf), or to ns-3 if the item has that reference.
func (r *paperRecord) errorsOf(way, group string, of grouping) (all []percentiles) {
	for i, run := range r.Runs[way] {
		switch {
		case run.Estimate.Errors != nil:
			all = append(all, run.Estimate.Errors[group])
		case way == byFlow && i >= len(r.Runs[byExact]): // the truth follows from flow
		default:
			all = append(all, relative(of(run.Estimate)[group], r.truthOf(i, group, of)))
		}
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
	for draw := range r.Runs[byIndependent] {
		all = append(all, r.truthOf(draw, group, of))
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

// sectionLoads are the loads of the busiest link in the paper, for sections of one load.
var sectionLoads = map[string]float64{"large": 0.5, "failures": 0.68}

// paperLoad is the load of the busiest link in the paper. Names of transports end with theirs.
func (r *paperRecord) paperLoad() float64 {
	_, load, _ := strings.Cut(r.Item.Name, "-")
	percent, err := strconv.ParseFloat(load, 64)
	if r.Item.Section == "transports" && err == nil {
		return percent / 100
	}
	return cmp.Or(r.Item.Load, sectionLoads[r.Item.Section])
}

// loaded reports whether the busiest link of the draws has the load that it has in the paper.
func (r *paperRecord) loaded() bool { return abs(r.maxLoad()/r.paperLoad()-1) <= loadTolerance }

// otherLoad says that a row is not decided because of its load.
func (r *paperRecord) otherLoad() string {
	return fmt.Sprintf("the busiest link has a load of %s, in the paper %s", share(r.maxLoad()),
		share(r.paperLoad()))
}

// whyNot says what is known about a row with a verdict that does not agree. The rest of a difference is
// described by restText; it is empty if the row has several differences.
func (r *paperRecord) whyNot(rest string, verdicts ...verdict) string {
	if !slices.ContainsFunc(verdicts, func(v verdict) bool { return v != agrees }) {
		return ""
	}
	if !r.loaded() {
		return r.otherLoad()
	}
	return "the load is the paper's, and " + cmp.Or(rest, "the reason is not known")
}

// margin returns the sampling error of the difference from the paper. The effect of another load than the
// paper's is added, because it is not random. slope is that of loadSlope.
func (r *paperRecord) margin(sampling *pool, slope float64) float64 {
	return sampling.margin(len(r.Runs[byIndependent])) + abs(slope*(r.maxLoad()-r.paperLoad()))
}

// against compares the error of independent at p99 with the paper's, which is between lo and hi.
func (r *paperRecord) against(margin float64, bin string, lo, hi float64) verdict {
	m := mean(r.p99Errors(byIndependent, bin))
	return decide(max(lo-m, m-hi, 0), margin)
}

func (r *paperRecord) meanRun(of func(paperRun) float64) float64 {
	var values []float64
	for _, run := range r.Runs[byIndependent] {
		values = append(values, of(run))
	}
	return mean(values)
}

// flows is the number of flows of the first draw.
func (r *paperRecord) flows() int64 { return r.Runs[byIndependent][0].Flows }

// settled says which length the rule gave, and how much the truth deviates.
func (r *paperRecord) settled() string {
	if r.Item.Given {
		return "given flows"
	}
	if len(r.Draws.Seeds) == 1 {
		return fmt.Sprintf("%s: 1 draw of %v", r.Form, r.Draws.Length)
	}
	return fmt.Sprintf("%s: %d draws of %v, true p99 ±%s", r.Form, len(r.Draws.Seeds), r.Draws.Length,
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
	if len(all) == 0 {
		return "–"
	}
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
	return fmt.Sprintf("%s, %s within 10%%", middleAndRange(v), share(float64(within)/float64(len(v))))
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
	var data []point
	for _, r := range records {
		cells := []any{r.Item.Name, share(r.maxLoad())}
		for _, way := range allWays {
			cells = append(cells, drawnErrors(r.errorsOf(way, "all", paperEstimate.bySize)))
		}
		s, known := references[r.Item.Name]
		if !known { // the published code has no estimate with this transport
			p.row(append(cells, "–", "–", "–", "–")...)
			continue
		}
		errors := r.p99Errors(byIndependent, "all")
		data = append(data, point{"ours": mean(errors), "paper": s.beside.p99(), "code": "as published"},
			point{"ours": mean(errors), "paper": s.repaired.p99(), "code": "ECMP repaired"})
		p.row(append(cells, s.beside, s.repaired, percent(mean(errors)-s.repaired.p99())+" "+
			marginText(of.margin(len(errors))), p.judged("ns3", of.against(errors, s.repaired.p99(),
			s.repaired.p99())))...)
	}
	programs := p.comparePrograms()
	together := decide(programs.difference, programs.margin)
	p.printf("\nAll %d together: **%s**. The mean difference at p99 is %s, sampling error %s.",
		programs.scenarios, together, percent(programs.difference), marginText(programs.margin))
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
	records := longestOnly(p.section("detail", "detail"))
	for _, r := range records {
		p.printf("\nOurs, %d flows, %s, busiest link %s, top 10%% %s:", r.flows(), r.settled(),
			share(r.maxLoad()), share(r.top10()))
		p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
		p.againstPaper(r, p.slopeOf(detailSizes, "2-to-1"), 0.1, p.similarDraws(r))
		p.draw(ctx, "detail", "Tails of slowdown by flow size, "+r.settled(), tailChart(r))
	}
}

// similarDraws returns the variance between draws of the 192 scenarios with the form and the flow sizes of
// the scenario in detail, which is one of them.
func (p *paper) similarDraws(r *paperRecord) pool {
	similar := betweenDrawsOf(p.compared(p.measuredIn("192")))[r.Form+", "+detailSizes]
	if similar == nil {
		return pool{}
	}
	return similar.errors
}

// againstPaper says whether the error of independent at p99 agrees with the paper's. slope is that of
// loadSlope. others is the variance between draws of similar scenarios.
func (p *paper) againstPaper(r *paperRecord, slope, paper float64, others pool) {
	of := others
	errors := r.p99Errors(byIndependent, "all")
	of.add(errors)
	margin := r.margin(&of, slope)
	v := p.judged(r.Item.Section, r.against(margin, "all", paper, paper))
	p.printf("\n`independent` and the paper's Parsimon (%s at p99): **%s**. Ours is %s, sampling error %s%s.",
		percent(paper), v, sampledError(errors), marginText(margin),
		after(": ", r.whyNot(p.comparePrograms().restText(mean(errors)-paper, margin), v)))
}

// after returns a text after a separator, or nothing if there is no text.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
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
	records := longestOnly(p.section("transports", "transports"))
	if len(records) == 0 {
		return
	}
	bins := [3]string{"<10 KB", middleBin, ">1 MB"}
	pools := map[string]*[3]pool{} // by form
	for _, r := range records {
		if pools[r.Form] == nil {
			pools[r.Form] = &[3]pool{}
		}
		for i, bin := range bins {
			pools[r.Form][i].add(r.p99Errors(byIndependent, bin))
		}
	}
	slope := p.slopeOf(detailSizes, "2-to-1")
	p.printf("Ours, error of p99 by size (%s):", strings.Join(bins[:], " / "))
	p.header("transport and load", "workload", "busiest link", "true p99", "the paper's", byIndependent,
		"sampling error", "verdict", "why not", byFlow)
	for _, r := range records {
		var truths, theirs, ours, margins, flows []string
		var verdicts []verdict
		for i, bin := range bins {
			paper := paperTransports[r.Item.Name][i]
			errors := r.p99Errors(byIndependent, bin)
			truths = append(truths, fmt.Sprintf("%.1f", r.truth(bin, paperEstimate.bySize).p99()))
			theirs = append(theirs, percent(paper))
			ours = append(ours, sampledError(errors))
			margin := r.margin(&pools[r.Form][i], slope)
			margins = append(margins, marginText(margin))
			v := p.judged("transports", r.against(margin, bin, paper, paper))
			verdicts = append(verdicts, v)
			flows = append(flows, percent(r.errorOf(byFlow, bin).p99()))
		}
		cells := []any{r.Item.Name, r.settled(), share(r.maxLoad())}
		for _, texts := range [][]string{truths, theirs, ours, margins} {
			cells = append(cells, strings.Join(texts, " / "))
		}
		p.row(append(cells, fmt.Sprintf("%s / %s / %s", verdicts[0], verdicts[1], verdicts[2]),
			r.whyNot("", verdicts...), strings.Join(flows, " / "))...)
	}
}

func (p *paper) mixSection(ctx context.Context) {
	records := longestOnly(p.section("mix", "mix"))
	for _, r := range records {
		p.printf("\nOurs, `mixed`, %d flows, %s, busiest link %s. The paper gives no numbers to compare with:",
			r.flows(), r.settled(), share(r.maxLoad()))
		services := slices.Sorted(maps.Keys(r.Runs[byExact][0].Estimate.Services))
		p.estimateTable(r, services, paperEstimate.byService)
		p.draw(ctx, "mix", "Tails of slowdown by workload and flow size, "+r.settled(), mixChart(r))
	}
}

func (p *paper) failuresSection(ctx context.Context) {
	records := longestOnly(p.section("failures", "failures"))
	if len(records) == 0 {
		return
	}
	of := map[string]*pool{} // by form
	for _, r := range records {
		if of[r.Form] == nil {
			of[r.Form] = &pool{}
		}
		of[r.Form].add(r.p99Errors(byIndependent, "all"))
	}
	slope := p.slopeOf(detailSizes, "2-to-1")
	p.printf("Ours, `failures`, errors of p50 / p90 / p99 / p99.9. Sampling errors of p99 are pooled over " +
		"the rows of a form:")
	p.header("cable down", "workload", "busiest link", "`exact`", "the paper's p99", byIndependent, "verdict",
		"why not", "sampling error", byFlow)
	for _, r := range records {
		lo := 0.11
		hi := 0.14
		if r.Item.Name == "none" {
			lo = 0.1
			hi = 0.1
		}
		margin := r.margin(of[r.Form], slope)
		v := p.judged("failures", r.against(margin, "all", lo, hi))
		p.row(strings.ReplaceAll(r.Item.Name, "~", ":"), r.settled(), share(r.maxLoad()),
			r.truth("all", paperEstimate.bySize).slowdowns(), errorRange(lo, hi),
			drawnErrors(r.errorsOf(byIndependent, "all", paperEstimate.bySize)),
			v, r.whyNot("", v), marginText(margin),
			drawnErrors(r.errorsOf(byFlow, "all", paperEstimate.bySize)))
	}
	p.failurePictures(ctx, records)
}

// failurePictures draws the errors of the trials, and the tails of the trial with the greatest error.
func (p *paper) failurePictures(ctx context.Context, records []*paperRecord) {
	worst := records[0]
	var data []point
	for _, r := range records {
		cable := "down"
		if r.Item.Name == "none" {
			cable = "none down"
		}
		for _, way := range []string{byIndependent, byFlow} {
			data = append(data, point{"way": way, "cable": cable, "error": r.errorOf(way, "all").p99()})
		}
		if abs(r.errorOf(byIndependent, "all").p99()) > abs(worst.errorOf(byIndependent, "all").p99()) {
			worst = r
		}
	}
	p.draw(ctx, "failures", "Errors of p99 with one cable down", trialChart(data))
	p.draw(ctx, "failure-tails", "Tails of slowdown by flow size in the trial with the greatest error, cable "+
		strings.ReplaceAll(worst.Item.Name, "~", ":"), tailChart(worst))
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
	errors := map[string]map[string][]float64{"short": {}, "whole": {}} // by form and scenario
	for _, r := range records {
		errors[r.Form][r.Item.Name] = at(r.errorsOf(byIndependent, "main", paperEstimate.byService), 1)
	}
	p.text("parking-rule")
	p.printf("Ours, errors of p50 / p90 / p99 / p99.9 of the main traffic:")
	p.header("scenario", "workload", "`exact`", "the paper's Parsimon", byIndependent, "verdict", byFlow)
	for _, r := range records {
		f := paperFindings[r.Item.Name]
		p.row(r.Item.Name, r.settled(), r.truth("main", paperEstimate.byService).slowdowns(), f.says,
			drawnErrors(r.errorsOf(byIndependent, "main", paperEstimate.byService)),
			p.judged("parking", f.true(errors[r.Form])),
			drawnErrors(r.errorsOf(byFlow, "main", paperEstimate.byService)))
	}
	p.draw(ctx, "parking", "Tails of the main traffic's slowdown", parkingChart(longestOnly(records)))
}

func (p *paper) largeSection(ctx context.Context) {
	for _, r := range p.section("large", "large") {
		p.printf("\nOurs, `large`, %d flows, %s, busiest link %s, top 10%% %s:", r.flows(), r.settled(),
			share(r.maxLoad()), share(r.top10()))
		if slices.Contains(r.Item.Ways, byExact) {
			p.estimateTable(r, append(slices.Clone(sizeBins), "all"), paperEstimate.bySize)
			p.againstPaper(r, p.slopeOf("WebServer", "2-to-1"), 0.088, pool{})
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
	p.printf("Ours, sums over the first draws of the scenarios. Other programs ran on the machine where " +
		"times are far above processor times:")
	p.header("form", "scenarios", "way", "time, s", "processor, s", "link cases")
	for _, form := range p.forms() {
		for _, way := range allWays {
			var seconds, processor float64
			var cases int64
			count := 0
			for _, item := range form.items {
				r := p.records[form.key(item)]
				if r == nil || item.Section != "192" {
					continue
				}
				if len(r.Runs[way]) == 0 {
					continue
				}
				count++
				e := r.Runs[way][0].Estimate
				seconds += e.Seconds
				processor += e.Processor
				cases += e.Cases
			}
			if count > 0 {
				p.row(form.name, count, way, decimal(seconds), decimal(processor), cases)
			}
		}
	}
	p.printf("\nAll runs of this page took %.1f hours of a core for the short form and %.1f for the whole "+
		"form.", p.processorHours(p.shortForm), p.processorHours(p.wholeForm))
}

// processorHours is the time that the runs of a form took, in hours of a core.
func (p *paper) processorHours(form *paperForm) (hours float64) {
	for _, r := range p.records {
		if r.Form != form.name {
			continue
		}
		for _, runs := range r.Runs {
			for _, run := range runs {
				hours += run.Estimate.Processor / 3600
			}
		}
	}
	return hours
}
