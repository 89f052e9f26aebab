package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

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
	compared := func(records []*paperRecord) (all []comparedScenario) {
		for _, r := range records {
			all = append(all, comparedScenario{published[r.Item.Name], r})
		}
		return all
	}
	all := compared(longestOnly(records))
	ways := []string{paperParsimon, byIndependent, byClustered, byFlow}
	p.printf("Ours: %d of the 192 scenarios, drawn anew with the same matrix, sizes, burstiness, "+
		"oversubscription and load. A scenario that is measured in both forms counts once, with its longer "+
		"workload. Median error of p99 (least to greatest), and how many are within 10%%:", len(all))
	p.header(append([]string{"load asked", "scenarios"}, ways...)...)
	for _, r := range loadRanges {
		name := r.name
		in := slices.DeleteFunc(slices.Clone(all), func(s comparedScenario) bool {
			return loadRange(s.asked) != name
		})
		p.errorRow(name, in, ways)
	}
	p.errorRow("all", all, ways)
	p.agreementTable(compared(records))
	p.bucketTable(compared(records))
	p.errorPictures(ctx, all, ways)
	p.parameterTable(all, ways)
	p.worstTable(all)
	p.scenarioTable(compared(records))
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

// A betweenDraws has the variances between draws: of the error of independent, and of the true p99 relative
// to its mean.
type betweenDraws struct {
	errors, truth pool
}

// group is the form and the range of load of a scenario, whose draws deviate alike.
func (s comparedScenario) group() string { return s.Form + ", " + loadRange(s.asked) }

// betweenDrawsOf returns the variances by group. The variances of a form are those of all its groups.
func betweenDrawsOf(all []comparedScenario) map[string]*betweenDraws {
	of := map[string]*betweenDraws{}
	for _, s := range all {
		truth := s.truth("all", paperEstimate.bySize).p99()
		var shares []float64
		for _, run := range s.Runs[byExact] {
			shares = append(shares, run.Estimate.Sizes["all"].p99()/truth)
		}
		for _, name := range []string{s.group(), s.Form} {
			if of[name] == nil {
				of[name] = &betweenDraws{}
			}
			of[name].errors.add(s.p99Errors(byIndependent, "all"))
			of[name].truth.add(shares)
		}
	}
	return of
}

// sampling returns the variance of the error between draws of the scenario's group or, if none of the group
// has several draws, of its form.
func (s comparedScenario) sampling(of map[string]*betweenDraws) *pool {
	if of[s.group()].errors.freedom > 0 {
		return &of[s.group()].errors
	}
	return &of[s.Form].errors
}

// agrees compares independent with the paper's Parsimon.
func (s comparedScenario) agrees(of map[string]*betweenDraws) verdict {
	return s.against(s.sampling(of), "all", s.independent, s.independent)
}

// drawing returns the part of the error of p99 that comes from drawing delays from buckets, as a mean over
// the draws. It is NaN if a run did not store the slowdowns without draws.
func (r *paperRecord) drawing() float64 {
	var parts []float64
	for i, run := range r.Runs[byIndependent] {
		if run.Estimate.Undrawn == nil {
			return math.NaN()
		}
		truth := r.Runs[byExact][i].Estimate.Sizes["all"].p99()
		parts = append(parts, (run.Estimate.Sizes["all"].p99()-run.Estimate.Undrawn.p99())/truth)
	}
	return mean(parts)
}

// hostFlows is the number of flows of the first draw by host.
func (s comparedScenario) hostFlows() float64 { return float64(s.flows()) / smallHosts }

// These constants describe the 192 scenarios, and what their table names as a reason.
const (
	smallHosts     = 256  // of their network
	namedByDrawing = 0.05 // smallest part of an error that is named
)

// why says what is known about a row that does not agree with the paper.
func (s comparedScenario) why(v verdict, margin float64) string {
	if v == agrees {
		return ""
	}
	var reasons []string
	if !s.loaded() {
		reasons = append(reasons, s.otherLoad())
	}
	if abs(s.drawing()) > namedByDrawing {
		reasons = append(reasons, fmt.Sprintf("drawing from buckets causes %+.0f points of the error (%.0f flows "+
			"a host)", 100*s.drawing(), s.hostFlows()))
	}
	switch {
	case v == undecided && s.loaded() && math.IsNaN(margin):
		reasons = append(reasons, "no sampling error is measured")
	case v == undecided && s.loaded():
		reasons = append(reasons, fmt.Sprintf("the sampling error is above %s", share(decisiveMargin)))
	case v == differs && len(reasons) == 0 && abs(s.top10()/s.topLoad-1) > loadTolerance:
		reasons = append(reasons, fmt.Sprintf("the busiest tenth of the links has a load of %s, in the paper %s",
			share(s.top10()), share(s.topLoad)))
	case len(reasons) == 0:
		reasons = append(reasons, fmt.Sprintf("not known: the loads are the paper's; the workload lasts %v",
			s.Draws.Length))
	}
	return strings.Join(reasons, "; ")
}

// agreementTable says how many scenarios agree with the paper, and what the sampling error is.
func (p *paper) agreementTable(all []comparedScenario) {
	p.text("agreement")
	p.header("form", "load asked", "scenarios", "mean difference from the paper", "all together",
		"sampling error of one scenario", string(agrees), string(differs), string(undecided),
		"deviation of the true p99 between draws")
	of := betweenDrawsOf(all)
	for _, form := range p.forms() {
		for _, r := range loadRanges {
			group := form.name + ", " + r.name
			if of[group] == nil {
				continue
			}
			counts := map[verdict]int{}
			var ours, theirs []float64
			var margin float64
			for _, s := range all {
				if s.group() != group {
					continue
				}
				counts[s.agrees(of)]++
				ours = append(ours, s.p99(byIndependent))
				theirs = append(theirs, s.independent)
				margin = s.sampling(of).margin(1)
			}
			difference, together := paired(ours, theirs)
			p.row(form.name, r.name, len(ours), percent(difference)+" "+marginText(together),
				decide(difference, together), marginText(margin), counts[agrees], counts[differs],
				counts[undecided], marginText(of[group].truth.deviation()))
		}
	}
}

// hostFlowRanges divide scenarios by the number of flows of a host.
var hostFlowRanges = []struct {
	name string
	hi   float64
}{{"below 100", 100}, {"100 to 400", 400}, {"400 to 1,600", 1600}, {"above 1,600", math.Inf(1)}}

// An errorParts has errors of p99 of several scenarios: the whole error, and its parts with
// and without draws from buckets.
type errorParts struct {
	paper, ours, drawing, undrawn, flow []float64
}

func (e *errorParts) add(s comparedScenario) {
	e.paper = append(e.paper, s.independent)
	e.ours = append(e.ours, s.p99(byIndependent))
	e.drawing = append(e.drawing, s.drawing())
	e.undrawn = append(e.undrawn, s.p99(byIndependent)-s.drawing())
	e.flow = append(e.flow, s.p99(byFlow))
}

// bucketTable shows how the error, and the part of it that comes from the draws, depend on the number of
// flows. Rows at another load than the paper's are separate.
func (p *paper) bucketTable(all []comparedScenario) {
	p.text("buckets")
	p.header("busiest link", "flows of a host", "rows", paperParsimon, byIndependent, "caused by draws",
		"without draws", byFlow)
	for _, load := range []struct {
		name   string
		loaded bool
	}{{"as in the paper", true}, {"other", false}} {
		lo := 0.0
		for _, r := range hostFlowRanges {
			var e errorParts
			for _, s := range all {
				flows := s.hostFlows()
				if s.loaded() == load.loaded && flows >= lo && flows < r.hi && !math.IsNaN(s.drawing()) {
					e.add(s)
				}
			}
			lo = r.hi
			if len(e.ours) > 0 {
				p.row(load.name, r.name, len(e.ours), middleAndRange(e.paper), middleAndRange(e.ours),
					middleAndRange(e.drawing), middleAndRange(e.undrawn), middleAndRange(e.flow))
			}
		}
	}
	p.text("buckets-code")
}

// middleAndRange prints the median, the least and the greatest value.
func middleAndRange(values []float64) string {
	v := sorted(values)
	return fmt.Sprintf("%s (%s to %s)", percent(v[len(v)/2]), percent(v[0]), percent(v[len(v)-1]))
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
		"busiest tenth", "true p99", "the paper's", "independent", "difference", "verdict", "why not",
		"the paper's, clustered", "clustered", "flow")
	of := betweenDrawsOf(all)
	for _, s := range all {
		v := p.judged("192", s.agrees(of))
		errors := s.p99Errors(byIndependent, "all")
		margin := s.sampling(of).margin(len(errors))
		p.row(s.id, s.matrix, s.sizes, s.sigma, s.oversub, s.settled(), s.flows(),
			share(s.load)+", "+share(s.maxLoad()), share(s.topLoad)+", "+share(s.top10()),
			fmt.Sprintf("%.1f", s.truth("all", paperEstimate.bySize).p99()), percent(s.independent),
			sampledError(errors), percent(mean(errors)-s.independent)+" "+marginText(margin), v, s.why(v, margin),
			percent(s.clustered), percent(s.p99(byClustered)), percent(s.p99(byFlow)))
	}
}
