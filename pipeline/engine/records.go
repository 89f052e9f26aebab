package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/names"
)

// A Record says that a task is done.
type Record struct {
	Task       int             `json:"task"` // its number, from 1
	Files      []lake.DataFile `json:"files"`
	Seconds    float64         `json:"seconds"`
	CriticalNS int64           `json:"critical_ns"` // the longest piece that cannot be divided further
	Stats      json.RawMessage `json:"stats,omitempty"`
}

// layout is the content of plan.json: how a stage is cut into tasks.
type layout struct {
	Stage  string `json:"stage"`
	Method int    `json:"method"`
	Tasks  []Task `json:"tasks"`
}

func (l layout) equal(m layout) bool {
	return l.Stage == m.Stage && l.Method == m.Method && slices.Equal(l.Tasks, m.Tasks)
}

// Records are the tasks of a stage with their records: nil for a task that is not done.
type Records struct {
	Stage *Stage
	layout
	Done []*Record
}

// Files are the data files of one table, in the order of the tasks.
func (r Records) Files(t schema.Table) []lake.DataFile { return lake.FilesOf(r.AllFiles(), t) }

// AllFiles are the data files of all tables, by task.
func (r Records) AllFiles() (files []lake.DataFile) {
	for _, rec := range r.Done {
		if rec != nil {
			files = append(files, rec.Files...)
		}
	}
	return files
}

// Complete reports whether all tasks are done, by this version of the method.
func (r Records) Complete(method int) bool {
	return len(r.Tasks) > 0 && r.Method == method && !slices.Contains(r.Done, nil)
}

// Stats decodes the statistics of each task that is done.
func Stats[T any](r Records) ([]T, error) {
	var all []T
	for n, rec := range r.Done {
		if rec == nil {
			continue
		}
		var x T
		if err := json.Unmarshal(rec.Stats, &x); err != nil {
			return nil, fmt.Errorf("statistics of stage %s, task %d: %w", r.Stage, n+1, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// ReadRecords reads the records of a stage. found is false for a stage that was never begun. A damaged record
// counts as a task that is not done; an error of the disk does not.
func ReadRecords(l *lake.Lake, s *Stage) (r Records, found bool, err error) {
	r.Stage = s
	if r.layout, found, err = readLayout(l, s); err != nil || !found {
		return r, false, err
	}
	there, err := l.StateFiles(s.StatePath()) // one listing: a plan may name millions of tasks that never ran
	if err != nil {
		return r, true, err
	}
	r.Done = make([]*Record, len(r.Tasks))
	for n := range r.Tasks {
		if !there[recordName(n)] {
			continue
		}
		if r.Done[n], err = readRecord(l, s, n); err != nil {
			return r, true, err
		}
	}
	return r, true, nil
}

// readLayout reads how a stage is cut into tasks.
func readLayout(l *lake.Lake, s *Stage) (now layout, found bool, err error) {
	found, err = l.ReadState(s.StatePath("plan.json"), &now)
	return now, found, err
}

// readRecord reads the record of a task; nil if there is none, it is damaged, or it is that of another task.
func readRecord(l *lake.Lake, s *Stage, n int) (*Record, error) {
	var rec Record
	ok, err := l.ReadState(s.StatePath(recordName(n)), &rec)
	if lake.IsReadError(err) {
		return nil, err
	}
	if err != nil || !ok || rec.Task != n+1 {
		return nil, nil
	}
	return &rec, nil
}

// An IncompleteError is the error of reading from a stage whose tasks are not all done.
type IncompleteError struct {
	Stage  *Stage
	Why    string // what is missing, if the stage was begun
	Shards string // which shards are missing, if it was begun in shards
}

// Error names the missing stage and the command that runs it.
func (e *IncompleteError) Error() string {
	text := fmt.Sprintf("stage %s of scenario %s is not complete: ", e.Stage.Name, e.Stage.Place.Scenario)
	if e.Why != "" {
		text += e.Why + ": "
	}
	if e.Shards != "" {
		return fmt.Sprintf("%srun \"%s --shard %s\" first, with the --partitions of the others", text, e.Stage.Command, e.Shards)
	}
	return fmt.Sprintf("%srun \"%s\" first", text, e.Stage.Command)
}

// Complete reads the records of a stage that must be complete.
func Complete(l *lake.Lake, s *Stage, method int) (Records, error) {
	r, found, err := ReadRecords(l, s)
	if err != nil {
		return r, err
	}
	if found && r.Complete(method) {
		return r, nil
	}
	incomplete := &IncompleteError{Stage: s}
	switch {
	case found && r.Method == method:
		incomplete.Why, incomplete.Shards = missing(l, r)
	case found:
		incomplete.Why = fmt.Sprintf("it was made by version %d of the method, and this program has version %d", r.Method,
			method)
	}
	return r, incomplete
}

// missing describes the tasks that are not done, and the shards they belong to ("1, 3/4") if the stage was last run
// in shards.
func missing(l *lake.Lake, r Records) (text, shards string) {
	var tasks []int
	for n, rec := range r.Done {
		if rec == nil {
			tasks = append(tasks, n+1)
		}
	}
	const most = 12 // tasks, or shards, that are named
	text = fmt.Sprintf("%d of %d tasks are not done (%s)", len(tasks), len(r.Done),
		names.Listed(names.Of(tasks, strconv.Itoa), most))
	var count int
	ok, err := l.ReadState(r.Stage.StatePath(shardsState), &count)
	if err != nil || !ok || count < 1 || count > maxShards {
		return text, ""
	}
	shard := assign(r.Tasks, count)
	of := slices.Sorted(slices.Values(names.Of(tasks, func(n int) int { return shard[n-1] })))
	return text, fmt.Sprintf("%s/%d", names.Listed(names.Of(slices.Compact(of), strconv.Itoa), most), count)
}
