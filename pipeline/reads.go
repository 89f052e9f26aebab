package pipeline

import (
	"errors"
	"strings"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/ingest"
)

// This file is what packages above read of an estimate.

// Files are the data files of one of the estimate's tables; of a table that several stages write, those of the last.
func (e *Estimation) Files(t schema.Table) ([]lake.DataFile, error) {
	r, err := e.exec.Records(e.writer(t))
	if err != nil {
		return nil, err
	}
	return r.Files(t), nil
}

// writer is the last stage of the plan that writes a table.
func (e *Estimation) writer(t schema.Table) (writer *engine.Stage) {
	for _, s := range e.plan() {
		for _, w := range s.Writes {
			if w.Name == t.Name {
				writer = s
			}
		}
	}
	if writer == nil {
		panic("pipeline: no stage of the plan writes table " + t.Name)
	}
	return writer
}

// Read streams columns (all if nil) of one of the estimate's tables. The caller closes the stream.
func (e *Estimation) Read(t schema.Table, columns []string, keep *lake.Range) (schema.Batches, error) {
	files, err := e.Files(t)
	if err != nil {
		return nil, err
	}
	return e.Lake.Read(t, files, columns, keep), nil
}

// Scan is the SQL that reads data files.
func (e *Estimation) Scan(files []lake.DataFile) string {
	quoted := make([]string, len(files))
	for i, f := range files {
		quoted[i] = ingest.QuoteSQL(ingest.EscapeGlob(e.Lake.Path() + "/" + f.Path))
	}
	return "read_parquet([" + strings.Join(quoted, ", ") + "], hive_partitioning = false)"
}

// ScanTable is Scan of one of the estimate's tables.
func (e *Estimation) ScanTable(t schema.Table) (string, error) {
	files, err := e.Files(t)
	return e.Scan(files), err
}

// Loads is what each link carries.
func (e *Estimation) Loads() (*stages.Loads, error) {
	in, err := e.Read(schema.LinkLoads, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // read to its end, or an error is reported
	return stages.ReadLoads(e.Network, in)
}

// Simulator prepares one worker's simulator of link cases.
func (e *Estimation) Simulator(loads *stages.Loads) (*stages.Simulator, error) {
	return e.simulator(loads, "")
}

// FlowChunks are the tasks of the stages that work on a data file of flows at a time, with the files.
func (e *Estimation) FlowChunks() ([]engine.Task, []lake.DataFile, error) {
	files, err := e.Files(schema.Flows)
	return chunkTasks(files), files, err
}

// MethodVersion is the version of the method: results of another one do not count.
const MethodVersion = methodVersion

// NewTaskRunner makes a task runner for a scenario whose flows the lake holds.
func NewTaskRunner(dir, scenario string, v Variant, o Settings) (*engine.TaskRunner, error) {
	if v.Passes == AutoPasses {
		return nil, errors.New("with passes made until the percentiles settle, the steps are not known in advance: ask for a number of passes")
	}
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil, err
	}
	model, err := OpenModel(l, scenario)
	if err != nil {
		return nil, err
	}
	e := ReadOnly(model, v, o)
	return engine.NewTaskRunner(l, lake.Of(model.ID()), e.plan(), e.Settings.Settings), nil
}
