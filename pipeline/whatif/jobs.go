package whatif

import (
	"math"
	"slices"
	"strings"

	"parsimon/pipeline/sampling"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
)

// A JobComparison has the times of a job in both estimates.
type JobComparison struct {
	Job    string            `json:"job"`
	Base   summary.JobResult `json:"base"`
	Other  summary.JobResult `json:"other"`
	Change float64           `json:"change"` // of the mean iteration, Other / Base - 1
}

func compareJobs(base, other []summary.JobResult) (out []JobComparison) {
	for _, b := range base {
		i := slices.IndexFunc(other, func(o summary.JobResult) bool { return o.Name == b.Name })
		if i >= 0 {
			out = append(out, JobComparison{b.Name, b, other[i], other[i].MeanNS()/b.MeanNS() - 1})
		}
	}
	return out
}

func (c *Comparison) addJobs(a *text.Answer) {
	if len(c.Jobs) == 0 {
		return
	}
	a.Linef("\nIterations of the jobs, mean and longest")
	t := a.Table("job", "iterations", "base_mean_ns", "mean_ns", "change", "base_longest_ns", "longest_ns",
		"base_completion_ns", "completion_ns")
	for _, j := range c.Jobs {
		t.Add(j.Job, int64(len(j.Other.Iterations)), j.Base.MeanNS(), j.Other.MeanNS(), text.Percent(j.Change),
			slices.Max(j.Base.Iterations), slices.Max(j.Other.Iterations), j.Base.CompletionNS, j.Other.CompletionNS)
	}
}

// A JobSpread is the mean iteration of a job over runs that differ in their seed, and its 95% interval.
type JobSpread struct {
	Settings string  `json:"settings"` // all but the seed
	Job      string  `json:"job"`
	Seeds    int     `json:"seeds"`
	MeanNS   float64 `json:"mean_ns"`
	LoNS     float64 `json:"lo_ns"`
	HiNS     float64 `json:"hi_ns"`
}

// overSeeds are the jobs over the seeds of a sweep, in the order of the runs; none without an axis seed. Intervals are
// by Student's t of the means of independent runs.
func (p *Parameters) overSeeds() (out []JobSpread) {
	var means [][]float64
	for i, run := range p.Runs {
		settings := strings.Split(p.SettingsOf(i), ", ")
		others := slices.DeleteFunc(slices.Clone(settings), func(s string) bool { return strings.HasPrefix(s, "seed=") })
		for _, j := range run.Jobs {
			key := strings.Join(others, ", ")
			at := slices.IndexFunc(out, func(s JobSpread) bool { return s.Settings == key && s.Job == j.Name })
			if at < 0 {
				at = len(out)
				out, means = append(out, JobSpread{Settings: key, Job: j.Name}), append(means, nil)
			}
			means[at] = append(means[at], j.MeanNS())
		}
		if len(others) == len(settings) {
			return nil
		}
	}
	for i, x := range means {
		n := float64(len(x))
		mean, squares := 0.0, 0.0
		for _, v := range x {
			mean += v / n
		}
		for _, v := range x {
			squares += (v - mean) * (v - mean)
		}
		half := 0.0
		if n > 1 {
			half = sampling.StudentT(0.95, n-1) * math.Sqrt(squares/(n-1)/n)
		}
		out[i].Seeds, out[i].MeanNS, out[i].LoNS, out[i].HiNS = len(x), mean, mean-half, mean+half
	}
	return out
}

// addJobs adds the jobs of each run, and how much longer their iterations are than in the best run of a job.
func (p *Parameters) addJobs(a *text.Answer) {
	best := map[string]float64{}
	for _, r := range p.Runs {
		for _, j := range r.Jobs {
			if least, known := best[j.Name]; !known || j.MeanNS() < least {
				best[j.Name] = j.MeanNS()
			}
		}
	}
	if len(best) == 0 {
		return
	}
	a.Linef("\nIterations of the jobs; over_best: the mean against the run where it is the shortest")
	t := a.Table(append(p.keys(), "job", "iterations", "mean_ns", "shortest_ns", "longest_ns", "completion_ns",
		"over_best")...)
	for _, r := range p.Runs {
		for _, j := range r.Jobs {
			t.Add(append(p.valuesOf(&r), j.Name, int64(len(j.Iterations)), j.MeanNS(), slices.Min(j.Iterations), slices.Max(j.Iterations),
				j.CompletionNS, text.Percent(j.MeanNS()/best[j.Name]-1))...)
		}
	}
	if len(p.OverSeeds) == 0 {
		return
	}
	a.Linef("\nMean iterations over the seeds, with 95%% intervals")
	t = a.Table("settings", "job", "seeds", "mean_ns", "lo_ns", "hi_ns")
	for _, s := range p.OverSeeds {
		t.Add(s.Settings, s.Job, int64(s.Seeds), s.MeanNS, s.LoNS, s.HiNS)
	}
}
