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

// jobResults reads the times of the jobs; none if no flow waits for others.
func jobResults(ctx context.Context, e *pipeline.Estimation, db *queries.DB) (all []JobResult, err error) {
	g, err := e.Generated()
	if err != nil || g.Dependencies == 0 || e.Variant().Estimator != stages.WholeNetwork {
		return nil, err
	}
	q, err := queries.Get(queries.JobIterations)
	if err != nil {
		return nil, err
	}
	rows, err := db.Run(ctx, q, map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	column := func(row []any, name string) any { return row[slices.Index(rows.Columns(), name)] }
	err = rows.Each(func(row []any) error {
		name, _ := column(row, "job").(string)
		took, _ := column(row, "iteration_ns").(int64)
		if len(all) == 0 || all[len(all)-1].Name != name {
			completion, _ := column(row, "completion_ns").(int64)
			all = append(all, JobResult{Name: name, CompletionNS: completion})
		}
		j := &all[len(all)-1]
		j.Iterations = append(j.Iterations, took)
		return nil
	})
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
