package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/rs/zerolog"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/workloads"
)

func init() {
	register.DoFn2x0[[]byte, func(int)](&eachShard{})
	register.DoFn2x1[context.Context, int, error](&readShard{})
}

// An Ingest is a workload of which a shard was begun ("parsimon ingest --shard"). Its trace is in the lake.
type Ingest struct {
	Lake     string // a path that all workers share
	Workload string
}

// begun returns the trace and the number of shards.
func (i Ingest) begun() (t workloads.Trace, shards int, err error) {
	l, err := lake.Open(i.Lake, false)
	if err != nil {
		return t, 0, err
	}
	id, err := lake.ParseWorkloadID(i.Workload)
	if err != nil {
		return t, 0, err
	}
	return workloads.Begun(l, id)
}

// eachShard emits the numbers of the shards.
type eachShard struct{ Shards int }

// ProcessElement emits them for the one element of beam.Impulse.
func (e *eachShard) ProcessElement(_ []byte, emit func(int)) {
	for n := range e.Shards {
		emit(n)
	}
}

// readShard reads the files of shards.
type readShard struct{ Ingest Ingest }

// ProcessElement reads shard n. Files that were read before, also by another attempt, are not read again.
func (r *readShard) ProcessElement(ctx context.Context, n int) error {
	t, shards, err := r.Ingest.begun()
	if err != nil {
		return fmt.Errorf("lake %s, which every worker must see under this path: %w", r.Ingest.Lake, err)
	}
	if n >= shards { // without a valid shard, Ingest reads all files
		return fmt.Errorf("shard %d of workload %s is left, and its ingest was begun again with %d shards: submit "+
			"the job again", n, r.Ingest.Workload, shards)
	}
	o := workloads.Settings{Lake: r.Ingest.Lake}
	o.Shard = engine.Shard{Index: n, Count: shards}
	o.Workers = 1 // a worker of the runner is a core
	_, err = workloads.Ingest(ctx, t, o)
	return err
}

// buildIngest makes the Beam pipeline that reads the shards of an ingest, each as an element.
func buildIngest(i Ingest, shards int) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	numbers := beam.Reshuffle(s, beam.ParDo(s, &eachShard{shards}, beam.Impulse(s)))
	beam.ParDo0(s, &readShard{i}, numbers)
	return p
}

// ingest reads the shards of an ingest on the workers. Unless --async is set, it then merges their records
// here, because flows are one stream, and writes the report.
func (f *flags) ingest(ctx context.Context, j Job, log zerolog.Logger, out io.Writer) error {
	i := Ingest{Lake: j.Lake, Workload: f.workload}
	t, shards, err := i.begun()
	if err != nil {
		return err
	}
	build := func() *beam.Pipeline { return buildIngest(i, shards) }
	err = f.submit(ctx, log, build, func() error { return nil }) // workloads.Ingest checks the files
	if err != nil || *jobopts.Async {
		return err
	}
	o := workloads.Settings{Lake: i.Lake}
	o.Log = log
	o.Workers = j.Workers
	report, err := workloads.Ingest(ctx, t, o)
	if err != nil {
		return err
	}
	report.Predict(pipeline.ExactSeconds)
	err = report.Text().Write(out, "text")
	if len(report.Skipped) > 0 {
		err = errors.Join(err, &workloads.SkippedError{Files: report.Skipped})
	}
	return err
}
