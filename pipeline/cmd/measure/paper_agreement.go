package main

import (
	"fmt"
	"math"

	"parsimon/pipeline/sampling"
)

// The paper has one draw of each scenario, and this program has one or several. Their difference is compared
// with the sampling error: the 95% interval of the difference between one draw and the mean of the others. It
// supposes that the error of the paper's draw varies as ours do.

// A pool is the variance of an error between draws, pooled over scenarios.
type pool struct {
	variance, freedom float64 // and its degrees of freedom
}

// add adds the errors of the draws of one scenario.
func (p *pool) add(errors []float64) {
	freedom := float64(len(errors) - 1)
	if freedom < 1 {
		return
	}
	p.variance = (p.variance*p.freedom + variance(errors)*freedom) / (p.freedom + freedom)
	p.freedom += freedom
}

// margin returns the sampling error of the difference between the paper's draw and the mean of n draws.
func (p *pool) margin(n int) float64 {
	if p.freedom == 0 {
		return math.NaN()
	}
	return sampling.StudentT(0.95, p.freedom) * math.Sqrt(p.variance*(1+1/float64(n)))
}

// A verdict says whether errors of ours agree with those of the paper.
type verdict string

const (
	agrees    verdict = "agrees"
	differs   verdict = "differs"
	undecided verdict = "not decided"
)

// decisiveMargin is the largest sampling error at which a small difference counts as agreement. The paper
// calls an estimate accurate within this share.
const decisiveMargin = 0.1

// decide returns the verdict about a difference that has a sampling error.
func decide(difference, margin float64) verdict {
	switch {
	case abs(difference) > margin:
		return differs
	case margin <= decisiveMargin:
		return agrees
	}
	return undecided // also if the margin is NaN
}

// against compares the errors of draws with the paper's error, or with the range from lo to hi of several
// errors.
func (p *pool) against(errors []float64, lo, hi float64) verdict {
	m := mean(errors)
	return decide(max(lo-m, m-hi, 0), p.margin(len(errors)))
}

// paired compares two sets of errors of the same scenarios. It returns the mean difference, and its sampling
// error by Student's test at 95%. The sampling error is NaN for fewer than two scenarios.
func paired(ours, theirs []float64) (difference, margin float64) {
	var differences []float64
	for i := range ours {
		differences = append(differences, ours[i]-theirs[i])
	}
	n := float64(len(differences))
	if n < 2 {
		return mean(differences), math.NaN()
	}
	return mean(differences), sampling.StudentT(0.95, n-1) * math.Sqrt(variance(differences)/n)
}

// A betweenPrograms is the mean difference at p99 between independent and the published code on the same
// flows, those of section ns3, with its sampling error. The difference is NaN if no scenario is measured.
type betweenPrograms struct {
	difference, margin float64
	scenarios          int
}

func (p *paper) comparePrograms() betweenPrograms {
	records := p.measuredIn("ns3")
	if len(records) == 0 {
		return betweenPrograms{math.NaN(), math.NaN(), 0}
	}
	published := map[string]float64{}
	for _, s := range p.sources(p.groundTruths()) {
		published[s.name] = s.repaired.p99()
	}
	var ours, theirs []float64
	for _, r := range records {
		their, known := published[r.Item.Name]
		if known { // the published code has an estimate with this transport
			ours = append(ours, mean(r.p99Errors(byIndependent, "all")))
			theirs = append(theirs, their)
		}
	}
	difference, margin := paired(ours, theirs)
	return betweenPrograms{difference, margin, len(ours)}
}

// restText says how much of a difference from the paper the rules of DCTCP explain, in which the two programs
// differ, and whether the rest is within the sampling error. It is empty if the programs were not compared.
func (b betweenPrograms) restText(difference, margin float64) string {
	if math.IsNaN(b.difference) {
		return ""
	}
	known := "is within the sampling error"
	if abs(difference-b.difference) > margin {
		known = "is not explained"
	}
	return fmt.Sprintf("the rules of DCTCP explain about %s of the difference (section on ns-3), and the rest, "+
		"%s, %s", percent(b.difference), percent(difference-b.difference), known)
}

// deviation returns the standard deviation between draws. It is NaN if no scenario has several draws.
func (p *pool) deviation() float64 {
	if p.freedom == 0 {
		return math.NaN()
	}
	return math.Sqrt(p.variance)
}

// sampledError prints the mean of errors and its standard error.
func sampledError(errors []float64) string {
	if len(errors) == 0 {
		return "–"
	}
	if len(errors) == 1 {
		return percent(errors[0])
	}
	return fmt.Sprintf("%s ±%.1f%%", percent(mean(errors)), 100*math.Sqrt(variance(errors)/float64(len(errors))))
}

// exceeds reports whether the mean of some values is above that of others, by Student's test at 95%. Others
// that are one value are exact.
func exceeds(values, others []float64) verdict {
	if len(values) < 2 {
		return undecided
	}
	freedom := float64(len(values) - 1)
	squares := variance(values) / float64(len(values))
	if len(others) > 1 {
		freedom += float64(len(others) - 1)
		squares += variance(others) / float64(len(others))
	}
	difference := mean(values) - mean(others)
	switch {
	case abs(difference) <= sampling.StudentT(0.95, freedom)*math.Sqrt(squares):
		return undecided
	case difference > 0:
		return agrees
	}
	return differs
}
