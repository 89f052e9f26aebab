package summary

import (
	"context"
	"errors"
	"slices"
	"time"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/stages"
)

// A JobResult is how long a job took.
type JobResult struct {
	Name string `json:"name"`
	// Iterations are their times in ns: from the end of the one before, or the start of the job, to the last delivery.
	Iterations   []int64 `json:"iterations"`
	CompletionNS int64   `json:"completion_ns"` // from the start of the job
}

// MeanNS is the mean time of an iteration.
func (j *JobResult) MeanNS() float64 { return float64(j.CompletionNS) / float64(len(j.Iterations)) }

// Jobs reads the times of the jobs of a complete estimate; none if no flow waits for others.
func Jobs(ctx context.Context, e *pipeline.Estimation) (all []JobResult, err error) {
	if g, err := e.Generated(); err != nil || !g.Closed() {
		return nil, err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return nil, err
	}
	all, err = jobResults(ctx, e, db)
	return all, errors.Join(err, db.Close())
}

// jobResults reads the times of the jobs; none if no flow waits for others.
func jobResults(ctx context.Context, e *pipeline.Estimation, db *queries.DB) (all []JobResult, err error) {
	g, err := e.Generated()
	if err != nil || g.Dependencies == 0 || e.Variant().Estimator != stages.WholeNetwork {
		return nil, err
	}
	type iteration struct {
		Job          string
		IterationNS  int64 `json:"iteration_ns"`
		CompletionNS int64 `json:"completion_ns"`
	}
	rows, err := answers[iteration](ctx, e, db, queries.JobIterations)
	for _, r := range rows {
		if len(all) == 0 || all[len(all)-1].Name != r.Job {
			all = append(all, JobResult{Name: r.Job, CompletionNS: r.CompletionNS})
		}
		j := &all[len(all)-1]
		j.Iterations = append(j.Iterations, r.IterationNS)
	}
	return all, err
}

// addJobs adds the times of the jobs.
func addJobs(ctx context.Context, a *text.Answer, e *pipeline.Estimation, db *queries.DB) error {
	all, err := jobResults(ctx, e, db)
	if err != nil || len(all) == 0 {
		return err
	}
	a.Linef("\nJobs (parsimon query job_links: the links that cost them time; job_critical_path: on what)")
	t := a.Table("job", "iterations", "first_iteration", "shortest", "longest", "completion")
	for _, j := range all {
		say := func(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
		t.Add(j.Name, int64(len(j.Iterations)), say(j.Iterations[0]), say(slices.Min(j.Iterations)),
			say(slices.Max(j.Iterations)), say(j.CompletionNS))
	}
	return nil
}
