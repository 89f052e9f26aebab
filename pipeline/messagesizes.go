package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/lake/parquet"
	"parsimon/pipeline/sampling/windows"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
	"parsimon/stages/traffic"
)

// MessageSizesStage returns the stage that writes table message_sizes of an estimate. The returned stage
// cannot run.
func MessageSizesStage(id lake.ScenarioID, v variant.Variant) *engine.Stage {
	return &engine.Stage{
		Name: "message_sizes", Place: lake.Place{Scenario: id, Variant: v}, Unit: "windows",
		Command: "parsimon run", Writes: []schema.Table{schema.MessageSizes}, Cut: oneTask,
	}
}

// A BurstEffect is the effect on p99 of slowdown of a service if several messages begin at a time. The stage
// of table message_sizes records it.
type BurstEffect struct {
	Service *string `json:"service"` // nil: all services
	Burst   int64   `json:"burst"`   // messages that begin at a time
	Change  float64 `json:"change"`  // of p99, relative
	Lo      float64 `json:"change_lo"`
	Hi      float64 `json:"change_hi"`
}

// BurstEffects returns the effects of bursts on an estimate. If they were not estimated, it returns none.
func (m *Model) BurstEffects(v variant.Variant) ([]BurstEffect, error) {
	records, err := engine.Complete(m.Lake, MessageSizesStage(m.ID(), v), MethodVersion)
	if err != nil {
		return nil, nil
	}
	tasks, err := engine.Stats[[]BurstEffect](records)
	return slices.Concat(tasks...), err
}

// CheckWindows returns an error if windows of time of the scenario cannot be simulated packet by packet.
func (m *Model) CheckWindows() error {
	return m.check(Variant{Estimator: estimators.Exact}, Settings{For: ForWindows})
}

// AssumedSizes returns the message sizes, in bytes, that the flows of an ingested workload have only by
// assumption, by service. It returns none for other flows.
func (e *Estimation) AssumedSizes() (map[string]int64, error) {
	if e.source == nil || e.source.ingested == nil {
		return nil, nil
	}
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, x := range g.Traffic {
		if x.Model == traffic.Messages.String() && e.source.ingested.rules.Assumes(x.Service) {
			sizes[x.Service], _ = traffic.DefaultSize(x.Service)
		}
	}
	return sizes, nil
}

// windowFlows returns the source of the flows of the workload within windows, with messages of other sizes or
// in bursts. The connections of base are divided once. The flows of the ranges that windows read are written
// again for each selection, and are kept in a file for each range.
func (in *ingested) windowFlows(base *Estimation, m *Model, w windows.Selection) *source {
	return &source{write: func(ctx context.Context, t *engine.Attempt, out *lake.FlowWriter) (
		_ *Generated, err error,
	) {
		if in.forWindows == nil {
			in.forWindows, err = in.divideAgain(ctx, base.Executor().Session().TmpPath())
			if err != nil {
				return nil, err
			}
		}
		kept := &rangeSink{dir: t.Session().TmpPath(), ranges: m.windowsScenario().Reads(w)}
		defer func() { err = errors.Join(err, kept.remove()) }()
		input := in.forWindows.input
		input.Starts = kept.ranges
		input.Variation = traffic.Variation{SizeFactor: w.SizeFactor, Burst: w.Burst}
		err = in.forWindows.write(ctx, input, m.Spec.Seed, traffic.Sinks{Flows: kept})
		if err = errors.Join(err, kept.close()); err != nil {
			return nil, err
		}
		return &Generated{}, m.windowsScenario().WriteFlows(ctx, w, kept.read, out)
	}}
}

// divideAgain divides the connections of the workload after its flows were written.
func (in *ingested) divideAgain(ctx context.Context, dir string) (*division, error) {
	defer in.Lake.LockForReading().Close() // an ingest that adds to the workload keeps its old files
	files, state, err := workloads.FlowFiles(in.Lake, in.workload)
	if err != nil {
		return nil, err
	}
	return in.divide(ctx, dir, dividedFiles{files, state})
}

// A rangeSink keeps the flows that start in some ranges of time, in a temporary file for each range. Flows
// come in start order, and ranges are ascending and disjoint.
type rangeSink struct {
	dir    string
	ranges [][2]int64
	at     int // index of the range that is written
	file   *os.File
	out    *parquet.Writer
}

// path returns the file of a range.
func (s *rangeSink) path(i int) string {
	return filepath.Join(s.dir, fmt.Sprintf("range-%d.parquet", i))
}

// Write implements schema.Sink.
func (s *rangeSink) Write(rec arrow.Record) error {
	starts := columns.Int64s(rec, "start_ns")
	for at := 0; at < len(starts) && s.at < len(s.ranges); {
		from, _ := slices.BinarySearch(starts, s.ranges[s.at][0])
		to, _ := slices.BinarySearch(starts, s.ranges[s.at][1])
		from = max(from, at)
		if from < to {
			if err := s.add(rec.NewSlice(int64(from), int64(to))); err != nil {
				return err
			}
		}
		at = max(at, to)
		if at < len(starts) { // the next flow starts after the range
			if err := s.close(); err != nil {
				return err
			}
			s.at++
		}
	}
	return nil
}

// add writes flows of the current range, and releases them.
func (s *rangeSink) add(rec arrow.Record) (err error) {
	defer rec.Release()
	if s.file == nil {
		s.file, err = os.Create(s.path(s.at))
		if err != nil {
			return err
		}
		s.out = parquet.NewWriter(schema.Flows, s.file)
	}
	return s.out.Write(rec)
}

// close ends the file of the current range, if it has one.
func (s *rangeSink) close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.out.Close(), s.file.Close())
	s.file = nil
	return err
}

// read reads the flows of a range.
func (s *rangeSink) read(fromNS, toNS int64) schema.Batches {
	i := slices.Index(s.ranges, [2]int64{fromNS, toNS})
	if _, err := os.Stat(s.path(i)); errors.Is(err, os.ErrNotExist) {
		return parquet.NewReader(schema.Flows, os.Open, nil, nil, nil) // no flow starts in the range
	}
	return parquet.OpenFile(schema.Flows, s.path(i))
}

// remove removes the files.
func (s *rangeSink) remove() (errs error) {
	for i := range s.ranges {
		if err := os.Remove(s.path(i)); !errors.Is(err, os.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}
