package main

import (
	"math"
	"slices"

	"parsimon/pipeline/sampling"
)

// The truth of a long workload takes ten times as long as the estimate by independent. This file has the rule
// that saves most of this time in the whole form:
//
//	exact of some draws ─► error of flow on the same flows ─► truth of a draw without exact: flow / (1 + error)
//
// So flow is a control variate. Its error varies little between draws, and grows with the load. In the
// sections of controlledSections, exact simulates the first draw only. Of the 192 scenarios, those with
// several draws are measured in the first pass. The others have the error that a line through these predicts
// at their load, until the second pass simulates them, too. The deviation from the line is part of the
// sampling error.
const passesCount = 2

var controlledSections = []string{"192", "detail", "transports", "failures"}

// controlled reports whether the truth of some draws of an item follows from flow.
func (f *paperForm) controlled(item paperItem) bool {
	return f.name != "short" && slices.Contains(controlledSections, item.Section)
}

// ofEveryDraw reports whether a kind of estimate is made for every draw of an item. The other kinds are made
// for the first draw only.
func (f *paperForm) ofEveryDraw(item paperItem, way string) bool {
	switch way {
	case byIndependent:
		return true
	case byExact:
		return !f.controlled(item)
	case byFlow:
		return f.controlled(item)
	}
	return false
}

// passOf returns the pass in which an estimate of an item is made.
func (f *paperForm) passOf(item paperItem, way string) int {
	decides := way == byIndependent || way == byFlow || way == byExact && item.Draws > 1
	if f.controlled(item) && !decides {
		return 1
	}
	return 0
}

// A flowControl has the errors of flow in the scenarios of a form that exact has simulated. The error at a
// load is that of the regression line.
type flowControl struct {
	loads  []float64     // of the busiest link, by scenario
	errors []percentiles // by scenario
}

// leastControls is the number of scenarios that a line and the deviation from it need.
const leastControls = 3

// at returns the errors of flow at a load of the busiest link.
func (c *flowControl) at(load float64) (errors percentiles) {
	for q := range errors {
		of := at(c.errors, q)
		errors[q] = mean(of) + regressionSlope(c.loads, of)*(load-mean(c.loads))
	}
	return errors
}

// deviation returns the variance of the error of p99 of a scenario with this load around the predicted one:
// that of single errors around the line, and that of the line (the prediction interval of a regression). If
// all loads are equal, the line is the mean.
func (c *flowControl) deviation(load float64) pool {
	n := float64(len(c.loads))
	if n < leastControls {
		return pool{}
	}
	rests := 0.0
	square := 0.0
	for i, of := range c.loads {
		rest := c.errors[i].p99() - c.at(of).p99()
		rests += rest * rest
		square += (of - mean(c.loads)) * (of - mean(c.loads))
	}
	if square == 0 {
		return pool{rests / (n - 1) * (1 + 1/n), n - 1}
	}
	distance := load - mean(c.loads)
	return pool{rests / (n - 2) * (1 + 1/n + distance*distance/square), n - 2}
}

// control gives the records without a truth of their own the errors of flow in others. If these are too few,
// their truth is not known, and the records are left out.
func (p *paper) control() {
	for _, form := range p.forms() {
		c := &flowControl{}
		for _, item := range form.items {
			r := p.records[form.key(item)]
			if item.Section == "192" && r != nil && len(r.Runs[byExact]) > 0 {
				c.loads = append(c.loads, r.Runs[byFlow][0].MaxLoad)
				c.errors = append(c.errors, meanOf(r.errorsOf(byFlow, "all", paperEstimate.bySize)))
			}
		}
		for _, item := range form.items {
			r := p.records[form.key(item)]
			if r == nil || !form.controlled(item) || len(r.Runs[byExact]) > 0 {
				continue
			}
			r.Control = c
			if len(c.loads) < leastControls {
				delete(p.records, form.key(item))
			}
		}
	}
}

// truthOf returns the true percentiles of a group of flows in a draw. If exact has not simulated the draw,
// they are those of flow without its error, which is that in the first draw or the one predicted from others.
func (r *paperRecord) truthOf(draw int, group string, of grouping) percentiles {
	exact := r.Runs[byExact]
	if draw < len(exact) {
		return of(exact[draw].Estimate)[group]
	}
	var errors percentiles
	if len(exact) > 0 {
		errors = relative(of(r.Runs[byFlow][0].Estimate)[group], of(exact[0].Estimate)[group])
	} else {
		errors = r.Control.at(r.Runs[byFlow][draw].MaxLoad)
	}
	truth := of(r.Runs[byFlow][draw].Estimate)[group]
	for q := range truth {
		truth[q] /= 1 + errors[q]
	}
	return truth
}

// plus returns the pool of the sum of two independent errors, with the degrees of freedom of Welch and
// Satterthwaite.
func (p pool) plus(o pool) pool {
	if p.freedom == 0 || o.freedom == 0 {
		return pool{}
	}
	sum := p.variance + o.variance
	if sum == 0 {
		return pool{0, min(p.freedom, o.freedom)}
	}
	return pool{sum, sum * sum / (p.variance*p.variance/p.freedom + o.variance*o.variance/o.freedom)}
}

// times returns the pool of an error that is multiplied by a factor.
func (p pool) times(factor float64) pool { return pool{p.variance * factor * factor, p.freedom} }

// interval returns the half-width of the 95% interval of the error.
func (p pool) interval() float64 {
	if p.freedom == 0 {
		return math.NaN()
	}
	return sampling.StudentT(0.95, p.freedom) * math.Sqrt(p.variance)
}
