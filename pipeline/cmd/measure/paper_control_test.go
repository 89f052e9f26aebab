package main

import (
	"math"
	"testing"
)

// In the whole form, exact simulates one draw of a scenario with several draws, and scenarios with one draw
// in the second pass. Otherwise the truth alone would take eight of the sixteen hours of a night.
func TestPassesOfTheWholeForm(t *testing.T) {
	whole := &paperForm{name: "whole"}
	short := &paperForm{name: "short"}
	one := paperItem{Section: "192", Draws: 1}
	several := paperItem{Section: "192", Draws: drawsCount}
	parking := paperItem{Section: "parking", Draws: drawsCount}
	for _, c := range []struct {
		form  *paperForm
		item  paperItem
		way   string
		pass  int
		every bool // every draw
	}{
		{whole, one, byIndependent, 0, true},
		{whole, one, byFlow, 0, true},
		{whole, one, byExact, 1, false},
		{whole, several, byExact, 0, false},
		{whole, several, byClustered, 1, false},
		{whole, parking, byExact, 0, true},
		{whole, parking, byFlow, 0, false},
		{short, one, byExact, 0, true},
		{short, one, byFlow, 0, false},
		{short, one, byClustered, 0, false},
	} {
		pass := c.form.passOf(c.item, c.way)
		every := c.form.ofEveryDraw(c.item, c.way)
		if pass != c.pass || every != c.every {
			t.Errorf("%s, %+v, %s: pass %d, every draw %v", c.form.name, c.item, c.way, pass, every)
		}
	}
}

// controlled returns a record of one scenario whose p99 by flow is 11 in each draw, and whose true p99 is 10
// in the first draws.
func controlledRecord(name string, exact, draws int) *paperRecord {
	r := &paperRecord{Item: paperItem{Section: "192", Name: name}, Form: "whole", Runs: map[string][]paperRun{}}
	run := func(p99 float64) paperRun {
		of := paperRun{}
		of.Estimate.Sizes = map[string]percentiles{"all": {2: p99}}
		return of
	}
	for draw := range draws {
		r.Runs[byIndependent] = append(r.Runs[byIndependent], run(12))
		r.Runs[byFlow] = append(r.Runs[byFlow], run(11+float64(draw)))
		if draw < exact {
			r.Runs[byExact] = append(r.Runs[byExact], run(10))
		}
	}
	return r
}

// The truth of a draw without exact is that of flow without its error: that of the first draw, or the one
// that other scenarios predict. A draw must not be compared with flow itself, whose error would then be that
// of the truth.
func TestTruthFollowsFromFlow(t *testing.T) {
	own := controlledRecord("001", 1, 2)
	for draw, want := range []float64{10, 12 / 1.1} {
		got := own.truthOf(draw, "all", paperEstimate.bySize).p99()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("draw %d: %v, want %v", draw, got, want)
		}
	}
	errors := own.p99Errors(byIndependent, "all")
	if len(errors) != 2 || math.Abs(errors[1]-0.1) > 1e-9 {
		t.Errorf("errors %v, want 20%% and 10%%", errors)
	}
	errors = own.p99Errors(byFlow, "all")
	if len(errors) != 1 {
		t.Errorf("flow has errors %v, but only one draw has a truth", errors)
	}
	// flow has errors of 10%, 5% and 6% at loads of 20%, 40% and 60%. The line has 9% at 20% and 5% at 60%.
	records := []*paperRecord{own, controlledRecord("002", 1, 1), controlledRecord("003", 1, 1),
		controlledRecord("004", 0, 1)}
	records[1].Runs[byExact][0].Estimate.Sizes["all"] = percentiles{2: 11 / 1.05}
	records[2].Runs[byExact][0].Estimate.Sizes["all"] = percentiles{2: 11 / 1.06}
	for i, load := range []float64{0.2, 0.4, 0.6, 0.3} {
		records[i].Runs[byFlow][0].MaxLoad = load
	}
	p := &paper{shortForm: &paperForm{name: "short"}, wholeForm: &paperForm{name: "whole"},
		records: map[string]*paperRecord{}}
	for _, r := range records {
		p.wholeForm.items = append(p.wholeForm.items, r.Item)
		p.records["whole/"+r.Item.key()] = r
	}
	p.control()
	none := records[3]
	got := none.truthOf(0, "all", paperEstimate.bySize).p99()
	if math.Abs(got-11/1.08) > 1e-9 || own.Control != nil {
		t.Errorf("truth %v, want 11 without the line's error of 8%%", got)
	}
	// The errors deviate from the line by 1, -2 and 1 points, with one degree of freedom.
	deviation := none.Control.deviation(0.3)
	want := 0.0006 * (1 + 1.0/3 + 0.01/0.08)
	if math.Abs(deviation.variance-want) > 1e-12 || deviation.freedom != 1 {
		t.Errorf("%+v, want a variance of %v", deviation, want)
	}
	delete(p.records, "whole/192/002")
	p.control()
	if p.records["whole/192/004"] != nil {
		t.Error("the errors of flow in two scenarios are the truth of others")
	}
}

// If all scenarios have the same load, no line goes through their errors. The prediction is then their mean,
// whose deviation has one more degree of freedom, and must not be NaN.
func TestErrorsAtEqualLoads(t *testing.T) {
	c := &flowControl{[]float64{0.5, 0.5, 0.5}, []percentiles{{2: 0.01}, {2: 0.04}, {2: 0.01}}}
	got := c.at(0.3).p99()
	if math.Abs(got-0.02) > 1e-12 {
		t.Errorf("error %v, want the mean 0.02", got)
	}
	deviation := c.deviation(0.3)
	want := 0.0003 * (1 + 1.0/3)
	if math.Abs(deviation.variance-want) > 1e-12 || deviation.freedom != 2 {
		t.Errorf("%+v, want a variance of %v", deviation, want)
	}
}

// Independent variances are added, and their degrees of freedom are those of Welch and Satterthwaite.
func TestSumOfSamplingErrors(t *testing.T) {
	sum := pool{0.0004, 4}.plus(pool{0.0004, 4})
	if math.Abs(sum.variance-0.0008) > 1e-12 || math.Abs(sum.freedom-8) > 1e-9 {
		t.Errorf("%+v", sum)
	}
	got := (pool{0.0004, 4}).plus(pool{})
	if !math.IsNaN(got.interval()) {
		t.Errorf("an unknown error is %v", got.interval())
	}
	exact := pool{0, 4}.plus(pool{0, 2})
	if exact.interval() != 0 || exact.freedom != 2 {
		t.Errorf("%+v", exact)
	}
	// t(4) = 2.776, twice 2%
	double := pool{0.0004, 4}.times(2).interval()
	if math.Abs(double-0.111) > 0.0001 {
		t.Errorf("%v", double)
	}
}

// At another load than the paper's, the effect of the load is part of the sampling error. It is the slope of
// the paper's errors over scenarios of the same kind.
func TestLoadIsPartOfTheSamplingError(t *testing.T) {
	all := []publishedScenario{
		{sizes: "Hadoop", oversub: "1-to-1", load: 0.3, independent: 0.02},
		{sizes: "Hadoop", oversub: "1-to-1", load: 0.5, independent: 0.06},
		{sizes: "Hadoop", oversub: "1-to-1", load: 0.7, independent: 0.1},
		{sizes: "Hadoop", oversub: "4-to-1", load: 0.7, independent: 0.9},
		{sizes: "WebServer", oversub: "1-to-1", load: 0.7, independent: 0.9},
	}
	slope := loadSlope(all, all[0])
	if math.Abs(slope-0.2) > 1e-9 || loadSlope(all, all[3]) != 0 {
		t.Fatalf("slopes %v, %v", slope, loadSlope(all, all[3]))
	}
	r := recordOf(paperItem{Ways: allWays, Load: 0.48}, [drawsCount]float64{0.08, 0.1, 0.12})
	s := comparedScenario{publishedScenario{load: 0.48, independent: 0.1}, r, slope}
	of := betweenDrawsOf([]comparedScenario{s})
	// t(2) = 4.303, √(4/3) · 2%; the busiest link has 68%
	want := 0.0994 + 0.2*(0.68-0.48)
	got := s.margin(of)
	if math.Abs(got-want) > 0.0002 {
		t.Errorf("margin %v, want %v", got, want)
	}
	s.Control = &flowControl{[]float64{0.3, 0.5, 0.7}, []percentiles{{2: 0.01}, {2: 0.11}, {2: 0.01}}}
	got = s.margin(of)
	if got <= want {
		t.Errorf("the deviation of flow is missing: %v", got)
	}
}
