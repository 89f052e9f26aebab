package diagnose

import (
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// readingTask is a task that can only read one table.
type readingTask struct {
	step.Task
	table tables.Memory
}

func (t *readingTask) Read(step.Selection, ...step.Output) schema.Batches { return t.table.Read() }

// The warning of clusters counts the links that draw the delays of others. An estimate without clusters has
// no such warning.
func TestWarningOfClusters(t *testing.T) {
	type member struct {
		Link           int32   `col:"link_id"`
		Representative int32   `col:"representative"`
		Distance       float64 `col:"distance"`
		Members        int32   `col:"members"`
	}
	var task readingTask
	err := columns.TableOf[member](schema.LinkClusters).Write(&task.table, []member{
		{0, 0, 0, 3}, {1, 0, 0.5, 3}, {2, 2, 0, 1}, {3, 0, 0.25, 3}, {4, 4, 0, 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &Estimate{Clusters: &step.Step{}}
	got, err := e.clusters(&task)
	if err != nil || len(got) != 1 || got[0].Link != -1 ||
		!strings.Contains(got[0].Text, "with --cluster, 2 of 5 links draw the delays of other links") {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = (&Estimate{}).clusters(nil)
	if got != nil || err != nil {
		t.Errorf("without clusters: %+v, %v", got, err)
	}
}

// The delays that flows had in their link cases are summed by flow, for the flows of the chunk only. A read
// may also yield rows of others.
func TestCaseDelaysOfAChunk(t *testing.T) {
	var rows []tables.ContributionRow
	for flow := range int64(9) {
		for hop := range int16(2) {
			row := tables.ContributionRow{Contribution: tables.Contribution{FlowRow: flow, Hop: hop}}
			row.CaseDelayNS = 10*flow + int64(hop)
			rows = append(rows, row)
		}
	}
	var task readingTask
	if err := tables.HopContributions.Write(&task.table, rows); err != nil {
		t.Fatal(err)
	}
	r := reader{Estimate: &Estimate{Contributions: &step.Step{}}, task: &task}
	got, err := r.caseDelays(step.Range{Lo: 5, Hi: 8})
	if err != nil || !slices.Equal(got, []int64{101, 121, 141}) {
		t.Errorf("%v, %v", got, err)
	}
}
