package pipeline

import (
	"errors"
	"fmt"
	"path/filepath"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/topology"
)

// This file is what packages above read of an estimate.

// Records are the records of the last stage of the plan that writes a table. It must be complete. A table that no stage
// writes has none.
func (e *Estimation) Records(t schema.Table) (engine.Records, error) {
	writer := e.Plan().Writer(t)
	if writer == nil {
		return engine.Records{}, fmt.Errorf("variant %s has no table %s", e.variant, t.Name)
	}
	return e.exec.Records(writer)
}

// Files are the data files of one of the estimate's tables; of a table that several stages write, those of the last.
func (e *Estimation) Files(t schema.Table) ([]lake.DataFile, error) {
	r, err := e.Records(t)
	if err != nil {
		return nil, err
	}
	return r.Files(t), nil
}

// Read streams columns (all if nil) of one of the estimate's tables. The caller closes the stream.
func (e *Estimation) Read(t schema.Table, columns []string, keep *lake.Range) (schema.Batches, error) {
	files, err := e.Files(t)
	if err != nil {
		return nil, err
	}
	return e.Lake.Read(t, files, columns, keep), nil
}

// Scan is the SQL that reads one of the estimate's tables. Its files are verified.
func (e *Estimation) Scan(t schema.Table) (string, error) {
	files, err := e.Files(t)
	for _, f := range files {
		err = errors.Join(err, e.Lake.Check(f))
	}
	return ScanFiles(e.Lake, files), err
}

// ScanFiles is the SQL that reads data files.
func ScanFiles(l *lake.Lake, files []lake.DataFile) string {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = filepath.Join(l.Path(), f.Path)
	}
	return duckdb.ScanParquet(paths...)
}

// Generated is what is known of the scenario's flows.
func (e *Estimation) Generated() (Generated, error) {
	r, err := e.Records(schema.Flows)
	if err != nil {
		return Generated{}, err
	}
	return readGenerated(e.Lake, r)
}

// Unreachable counts the flows without a path, and finds the first of them.
func (e *Estimation) Unreachable() (n int64, first *topology.UnreachableError, err error) {
	generate, err := e.Records(schema.Flows)
	if err != nil {
		return 0, nil, err
	}
	loads, err := Loads(e)
	if err != nil {
		return 0, nil, err
	}
	return e.unreachable(generate, loads)
}

// Loads is what each link of an estimate carries: flows, bytes and packets by link id, summed over the chunks of route.
func Loads(e *Estimation) (*stages.Loads, error) {
	in, err := e.Read(schema.LinkLoads, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read to its end, or an error is reported
	return stages.ReadLoads(e.Network, in)
}

// CaseStages are the stages of a plan that run link cases. Their statistics are stages.SimulateStats.
func CaseStages(p engine.Plan) (all []*engine.Stage) {
	for _, s := range p {
		if s.WritesTable(schema.LinkStats) && s.Name != exactName || s.WritesTable(schema.SenderFCTs) {
			all = append(all, s)
		}
	}
	return all
}

// Cases adds up the link cases of some complete stages.
func Cases(l *lake.Lake, of ...*engine.Stage) (all stages.SimulateStats, err error) {
	for _, s := range of {
		r, err := engine.Complete(l, s, methodVersion)
		if err != nil {
			return all, err
		}
		tasks, err := engine.Stats[stages.SimulateStats](r)
		if err != nil {
			return all, err
		}
		for _, t := range tasks {
			all.Add(t)
		}
	}
	return all, nil
}

// Quantiles are the quantiles of slowdown that answers report.
var Quantiles = []float64{0.5, 0.9, 0.99, 0.999}

// MethodVersion is the version of the method: results of another one do not count.
const MethodVersion = methodVersion

// NewTaskRunner makes a task runner for a scenario whose flows the lake holds.
func NewTaskRunner(dir, scenario string, v Variant, o Settings) (*engine.TaskRunner, error) {
	if v.Auto {
		return nil, errors.New("an estimate that chooses its estimator has no steps that are known in advance: name one")
	}
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	model, err := OpenModel(l, scenario)
	if err != nil {
		return nil, err
	}
	if v.Estimator == stages.WholeNetwork {
		return nil, errors.New("estimator exact is one task: parsimon run does it")
	}
	e := ReadOnly(model, v, o)
	return engine.NewTaskRunner(l, lake.Of(model.ID()), e.Plan(), e.Settings.Settings), nil
}
