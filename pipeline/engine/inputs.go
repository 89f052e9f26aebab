package engine

import (
	"fmt"

	"parsimon/pipeline/lake"
	"parsimon/schema"
)

// Inputs are the records of the stages that a stage reads from, read and verified once, when the stage begins.
type Inputs struct {
	lake   *lake.Lake
	stages map[*Stage]Records
}

// inputs reads the records of all stages that s reads from.
func (e *Executor) inputs(s *Stage) (*Inputs, error) {
	in := &Inputs{lake: e.lake, stages: map[*Stage]Records{}}
	for _, o := range s.Reads {
		if _, ok := in.stages[o.Stage]; ok {
			continue
		}
		r, err := e.Records(o.Stage)
		if err != nil {
			return nil, err
		}
		in.stages[o.Stage] = r
	}
	return in, nil
}

// Records are the records of a stage that s reads from.
func (in *Inputs) Records(s *Stage) Records {
	r, ok := in.stages[s]
	if !ok {
		panic(fmt.Sprintf("engine: stage %s is not declared as an input", s))
	}
	return r
}

// Files are the data files of a table, in the order of the tasks that wrote them.
func (in *Inputs) Files(o Output) []lake.DataFile { return in.Records(o.Stage).Files(o.Table) }

// Read streams columns (all if nil) of a table; see lake.Lake.Read. The caller closes the stream.
func (in *Inputs) Read(o Output, columns []string, keep *lake.Range) schema.Batches {
	return in.lake.Read(o.Table, in.Files(o), columns, keep)
}
