package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
)

// This file decides whether the errors of the 192 scenarios agree with those of the paper, by scenario and by
// the groups of the paper's figures.

// A betweenDraws has the variances between draws: of the error of independent, and of the true p99 relative
// to its mean.
type betweenDraws struct {
	scenarios     int // with several draws
	errors, truth pool
}

// group is the form and the flow sizes of a scenario. Draws of such scenarios deviate alike, because the
// number of flows decides.
func (s comparedScenario) group() string { return s.Form + ", " + s.sizes }

// betweenDrawsOf returns the variances by group. The variances of a form are those of all its groups.
func betweenDrawsOf(all []comparedScenario) map[string]*betweenDraws {
	of := map[string]*betweenDraws{}
	for _, s := range all {
		truth := s.truth("all", paperEstimate.bySize).p99()
		errors := s.p99Errors(byIndependent, "all")
		var shares []float64
		for draw := range s.Runs[byIndependent] {
			shares = append(shares, s.truthOf(draw, "all", paperEstimate.bySize).p99()/truth)
		}
		for _, name := range []string{s.group(), s.Form} {
			if of[name] == nil {
				of[name] = &betweenDraws{}
			}
			if len(errors) > 1 {
				of[name].scenarios++
			}
			of[name].errors.add(errors)
			of[name].truth.add(shares)
		}
	}
	return of
}

// sampling returns the variance of the error between draws of the scenario's group or, if none of the group
// has several draws, of its form.
func (s comparedScenario) sampling(of map[string]*betweenDraws) pool {
	if of[s.group()].errors.freedom > 0 {
		return of[s.group()].errors
	}
	return of[s.Form].errors
}

// loadSlope returns by how much the paper's error grows with the load of the busiest link: the slope of the
// regression line over its scenarios with the same flow sizes and oversubscription.
func loadSlope(all []publishedScenario, of publishedScenario) float64 {
	var loads, errors []float64
	for _, s := range all {
		if s.sizes == of.sizes && s.oversub == of.oversub {
			loads = append(loads, s.load)
			errors = append(errors, s.independent)
		}
	}
	return regressionSlope(loads, errors)
}

// regressionSlope returns the slope of the least-squares line through points, and 0 if all have the same x.
func regressionSlope(x, y []float64) float64 {
	product := 0.0
	square := 0.0
	for i := range x {
		product += (x[i] - mean(x)) * (y[i] - mean(y))
		square += (x[i] - mean(x)) * (x[i] - mean(x))
	}
	if square == 0 {
		return 0
	}
	return product / square
}

// slopeOf is loadSlope for scenarios with given flow sizes and oversubscription. It is 0 without the shared
// folder.
func (p *paper) slopeOf(sizes, oversub string) float64 {
	if _, err := os.Stat(p.shared); err != nil {
		return 0
	}
	return loadSlope(p.published(), publishedScenario{sizes: sizes, oversub: oversub})
}

// margin returns the sampling error of the difference from the paper. If the truth follows from flow, its
// deviation is part of it. The effect of another load than the paper's is added, because it is not random.
func (s comparedScenario) margin(of map[string]*betweenDraws) float64 {
	n := float64(len(s.Runs[byIndependent]))
	random := s.sampling(of).times(math.Sqrt(1 + 1/n))
	if s.Control != nil {
		random = random.plus(s.Control.deviation(s.maxLoad()))
	}
	return random.interval() + abs(s.slope*(s.maxLoad()-s.load))
}

// agrees compares independent with the paper's Parsimon.
func (s comparedScenario) agrees(of map[string]*betweenDraws) verdict {
	return decide(mean(s.p99Errors(byIndependent, "all"))-s.independent, s.margin(of))
}

// figureGroups returns the groups of the paper's figures that a scenario belongs to.
func (s comparedScenario) figureGroups() []string {
	groups := []string{"all", "load " + loadRange(s.asked)}
	parameters := s.parameters()
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		groups = append(groups, parameter+" "+parameters[parameter])
	}
	return groups
}

// agreementTable compares the groups of the paper's figures, and says how many of their scenarios agree.
func (p *paper) agreementTable(all []comparedScenario, of map[string]*betweenDraws) {
	p.text("agreement")
	p.header("group", "scenarios", "of them whole", paperParsimon, byIndependent, "mean difference",
		"all together", string(agrees), string(differs), string(undecided))
	groups := map[string][]comparedScenario{}
	for _, s := range all {
		for _, group := range s.figureGroups() {
			groups[group] = append(groups[group], s)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		counts := map[verdict]int{}
		whole := 0
		var ours, theirs []float64
		for _, s := range groups[group] {
			counts[s.agrees(of)]++
			ours = append(ours, s.p99(byIndependent))
			theirs = append(theirs, s.independent)
			if s.Form == "whole" {
				whole++
			}
		}
		difference, margin := paired(ours, theirs)
		p.row(group, len(ours), whole, percent(mean(theirs)), percent(mean(ours)),
			percent(difference)+" "+marginText(margin), decide(difference, margin), counts[agrees],
			counts[differs], counts[undecided])
	}
}

// samplingTable says how much draws deviate, by form and flow sizes.
func (p *paper) samplingTable(all []comparedScenario, of map[string]*betweenDraws) {
	p.text("sampling")
	p.header("form", "flow sizes", "scenarios with several draws", "deviation of the error between draws",
		"sampling error of one draw", "deviation of the true p99 between draws")
	for _, form := range p.forms() {
		for _, sizes := range []string{"CacheFollower", "Hadoop", "WebServer"} {
			b := of[form.name+", "+sizes]
			if b == nil {
				continue
			}
			p.row(form.name, sizes, b.scenarios, marginText(b.errors.deviation()),
				marginText(b.errors.margin(1)), marginText(b.truth.deviation()))
		}
	}
	for _, s := range all {
		if s.Control != nil {
			c := s.Control
			lo := slices.Min(c.loads)
			hi := slices.Max(c.loads)
			rest := c.deviation(mean(c.loads))
			p.printf("\nWhere only `flow` has simulated the whole network, its error at p99 is that of a line "+
				"through %d scenarios: %s at a load of %.0f%%, and %s at %.0f%%. At the mean of these loads, the error "+
				"deviates from the line by %s.", len(c.loads), percent(c.at(lo).p99()), 100*lo,
				percent(c.at(hi).p99()), 100*hi, marginText(rest.deviation()))
			break
		}
	}
}

// lengthTable compares both forms of the scenarios that are measured in both.
func (p *paper) lengthTable(all []comparedScenario) {
	type both struct{ paper, short, whole []float64 }
	of := map[string]*both{} // by flow sizes
	for i, whole := range all {
		if i == 0 || whole.Form != "whole" || all[i-1].id != whole.id {
			continue
		}
		if of[whole.sizes] == nil {
			of[whole.sizes] = &both{}
		}
		b := of[whole.sizes]
		b.paper = append(b.paper, whole.independent)
		b.short = append(b.short, all[i-1].p99(byIndependent))
		b.whole = append(b.whole, whole.p99(byIndependent))
	}
	if len(of) == 0 {
		return
	}
	p.text("lengths")
	p.header("flow sizes", "scenarios", paperParsimon, "short form", "whole form")
	for _, sizes := range slices.Sorted(maps.Keys(of)) {
		b := of[sizes]
		p.row(sizes, fmt.Sprint(len(b.paper)), middleAndRange(b.paper), middleAndRange(b.short),
			middleAndRange(b.whole))
	}
}
