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
	slope float64 // of the paper's error by load, for similar scenarios
}

// measured reports whether there is an error of a kind of estimate.
func (s comparedScenario) measured(way string) bool {
	return way == paperParsimon || len(s.errorsOf(way, "all", paperEstimate.bySize)) > 0
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
	all := p.compared(longestOnly(records))
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
	both := p.compared(records)
	of := betweenDrawsOf(both)
	p.agreementTable(all, of)
	p.samplingTable(both, of)
	p.lengthTable(both)
	p.bucketTable(both)
	p.errorPictures(ctx, all, ways)
	p.parameterTable(all, ways)
	p.worstTable(all)
	p.text("programs")
	p.scenarioTable(all, of)
}

// compared returns the scenarios of records, each with what the paper says about it.
func (p *paper) compared(records []*paperRecord) (all []comparedScenario) {
	published := map[string]publishedScenario{}
	list := p.published()
	for _, s := range list {
		published[fmt.Sprintf("%03d", s.id)] = s
	}
	for _, r := range records {
		s := published[r.Item.Name]
		all = append(all, comparedScenario{s, r, loadSlope(list, s)})
	}
	return all
}

func (p *paper) errorRow(name string, in []comparedScenario, ways []string) {
	cells := []any{name, len(in)}
	for _, way := range ways {
		var errors []float64
		for _, s := range in {
			if s.measured(way) {
				errors = append(errors, s.p99(way))
			}
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
				if loadRange(s.asked) == r.name && s.measured(way) {
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
	p.header("id", "load of the paper's draw", "matrix", "sizes", "oversubscription", "σ", "independent",
		"the paper's", "flow")
	byError := slices.SortedFunc(slices.Values(all), func(a, b comparedScenario) int {
		return cmp.Compare(abs(b.p99(byIndependent)), abs(a.p99(byIndependent)))
	})
	for _, s := range byError[:min(5, len(byError))] {
		p.row(s.id, share(s.load), s.matrix, s.sizes, s.oversub, s.sigma, percent(s.p99(byIndependent)),
			percent(s.independent), p99Text(s.errorsOf(byFlow, "all", paperEstimate.bySize)))
	}
}

// drawing returns the part of the error of p99 that comes from drawing delays from buckets, as a mean over
// the draws. It is NaN if a run did not store the slowdowns without draws.
func (r *paperRecord) drawing() float64 {
	var parts []float64
	for i, run := range r.Runs[byIndependent] {
		if run.Estimate.Undrawn == nil {
			return math.NaN()
		}
		truth := r.truthOf(i, "all", paperEstimate.bySize).p99()
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

// why says what is known about a row that does not agree with the paper and, if it is not decided, what the
// decision takes. The rest of the difference is described by restText.
func (s comparedScenario) why(v verdict, margin float64, rest string) string {
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
	case v == undecided && math.IsNaN(margin):
		reasons = append(reasons, "no sampling error is measured")
	case v == undecided:
		reasons = append(reasons, fmt.Sprintf("the sampling error is above %s", share(decisiveMargin)))
	case len(reasons) == 0 && abs(s.top10()/s.topLoad-1) > loadTolerance:
		reasons = append(reasons, fmt.Sprintf("the busiest tenth of the links has a load of %s, in the paper %s",
			share(s.top10()), share(s.topLoad)))
	case len(reasons) == 0:
		reasons = append(reasons, fmt.Sprintf("the loads are the paper's, and the workload lasts %v: %s",
			s.Draws.Length, cmp.Or(rest, "the reason is not known")))
	}
	if v == undecided && s.Form == "short" {
		reasons = append(reasons, "it takes the whole form, whose workload is 16 times as long")
	} else if v == undecided {
		reasons = append(reasons, "it takes more draws, or a longer workload")
	}
	return strings.Join(reasons, "; ")
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
	if s.measured(byFlow) {
		e.flow = append(e.flow, s.p99(byFlow))
	}
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
	if len(values) == 0 {
		return "–"
	}
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

func (p *paper) scenarioTable(all []comparedScenario, of map[string]*betweenDraws) {
	p.text("scenarios")
	p.header("id", "matrix", "sizes", "σ", "oversubscription", "workload", "flows", "busiest link",
		"busiest tenth", "true p99", "the paper's", "independent", "difference", "verdict", "why not",
		"the paper's, clustered", "clustered", "flow")
	programs := p.comparePrograms()
	for _, s := range all {
		margin := s.margin(of)
		v := p.judged("192", s.agrees(of))
		errors := s.p99Errors(byIndependent, "all")
		difference := mean(errors) - s.independent
		p.row(s.id, s.matrix, s.sizes, s.sigma, s.oversub, s.settled(), s.flows(),
			share(s.load)+", "+share(s.maxLoad()), share(s.topLoad)+", "+share(s.top10()),
			fmt.Sprintf("%.1f", s.truth("all", paperEstimate.bySize).p99()), percent(s.independent),
			sampledError(errors), percent(difference)+" "+marginText(margin), v,
			s.why(v, margin, programs.restText(difference, margin)),
			percent(s.clustered), p99Text(s.errorsOf(byClustered, "all", paperEstimate.bySize)),
			p99Text(s.errorsOf(byFlow, "all", paperEstimate.bySize)))
	}
}

// p99Text prints the mean error of p99, if it is measured.
func p99Text(errors []percentiles) string {
	if len(errors) == 0 {
		return "–"
	}
	return percent(meanOf(errors).p99())
}
