package pipeline

import (
	"cmp"
	"errors"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/workload"
	"parsimon/stages/workload/jobs"
)

// A jobWriter writes flows of services and of jobs in start order; of those that start at the same time services come
// first, then jobs in the order of the scenario.
type jobWriter struct {
	jobs  []jobs.Job // not yet written, by start
	flows schema.Sink
	waits schema.Sink // dependencies
	parts schema.Sink // job_flows
	rows  int64       // written
	stats *Generated

	stopped func() error
	job     []jobFlow
	after   []jobWait
}

// A jobFlow is a row of tables flows and job_flows.
type jobFlow struct {
	workload.Row
	FlowRow   int64  `col:"flow_row"`
	Job       string `col:"job"`
	Iteration int32  `col:"iteration"`
	Kind      string `col:"kind"`
}

type jobWait struct {
	FlowRow     int64 `col:"flow_row"`
	FlowID      int64 `col:"flow_id"`
	AfterRow    int64 `col:"after_row"`
	AfterFlowID int64 `col:"after_flow_id"`
	DelayNS     int64 `col:"delay_ns"`
}

var (
	jobAsFlow = columns.TableOf[jobFlow](schema.Flows)
	jobAsPart = columns.TableOf[jobFlow](schema.JobFlows)
	jobWaits  = columns.TableOf[jobWait](schema.Dependencies)
)

// newJobWriter returns a writer of jobs. stats counts what they have.
func newJobWriter(all []jobs.Job, flows, waits, parts schema.Sink, stats *Generated) *jobWriter {
	byStart := slices.SortedStableFunc(slices.Values(all),
		func(a, b jobs.Job) int { return cmp.Compare(a.StartNS, b.StartNS) })
	return &jobWriter{jobs: byStart, flows: flows, waits: waits, parts: parts, stats: stats}
}

// Write writes flows of services, and before each the jobs that start before it.
func (w *jobWriter) Write(rec arrow.Record) error {
	starts := columns.Int64s(rec, "start_ns")
	for at := 0; at < len(starts); {
		to := len(starts)
		if len(w.jobs) > 0 {
			to, _ = slices.BinarySearch(starts, w.jobs[0].StartNS+1)
		}
		if to > at {
			part := rec.NewSlice(int64(at), int64(to))
			err := w.flows.Write(part)
			part.Release()
			if err != nil {
				return err
			}
			w.rows += int64(to - at)
		}
		if at = to; at < len(starts) {
			if err := w.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish writes the jobs that are left.
func (w *jobWriter) finish() error {
	for len(w.jobs) > 0 {
		if err := w.next(); err != nil {
			return err
		}
	}
	return nil
}

// next writes the next job.
func (w *jobWriter) next() error {
	j := w.jobs[0]
	w.jobs = w.jobs[1:]
	row, id := w.rows, int64(j.ID+1)<<40
	err := j.Generate(func(f *jobs.Flow) error {
		n := w.rows - row
		for _, a := range f.After {
			w.after = append(w.after, jobWait{w.rows, id + n, row + a, id + a, f.DelayNS})
		}
		w.job = append(w.job, jobFlow{workload.Row{ID: id + n, Src: f.Src, Dst: f.Dst, SizeBytes: f.Bytes, StartNS: j.StartNS,
			Service: j.Name}, w.rows, j.Name, f.Iteration, f.Kind})
		w.rows++
		w.stats.Dependencies += int64(len(f.After))
		if f.Bytes == 0 {
			w.stats.ComputeSteps++
		}
		if len(w.job) < columns.BatchRows {
			return nil
		}
		return w.flush()
	})
	if w.rows > row {
		w.stats.add(w.rows-row, j.StartNS, j.StartNS)
	}
	return errors.Join(err, w.flush())
}

func (w *jobWriter) flush() error {
	err := errors.Join(w.stopped(), jobAsFlow.Write(w.flows, w.job), jobAsPart.Write(w.parts, w.job),
		jobWaits.Write(w.waits, w.after))
	w.job, w.after = w.job[:0], w.after[:0]
	return err
}
