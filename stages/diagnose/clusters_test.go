package diagnose

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
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

// sparseTask is a task that reads the slowdowns of flows in chunks. The first row of each is a flow.
type sparseTask struct {
	readingTask
	each  int64 // rows of a chunk
	flows []tables.SlowdownRow
}

func (t *sparseTask) Tasks(*step.Step) (chunks []step.Range) {
	for i := range int64(len(t.flows)) {
		chunks = append(chunks, step.Range{Lo: i * t.each, Hi: (i + 1) * t.each})
	}
	return chunks
}

func (t *sparseTask) Part(_ step.Output, n int) schema.Batches {
	var part tables.Memory
	if err := tables.Slowdowns.Write(&part, t.flows[n:n+1]); err != nil {
		panic(err)
	}
	return part.Read()
}

func (t *sparseTask) Add(int64) {}

// drawnReader reads flows in chunks of the given number of rows. Their slowdowns are 2, and would be 4 with
// the delays that they had in their link cases.
func drawnReader(t *testing.T, count, each int64) *reader {
	t.Helper()
	task := &sparseTask{each: each}
	var hops []tables.ContributionRow
	for i := range count {
		task.flows = append(task.flows, tables.SlowdownRow{FlowRow: i * each, StartNS: i, SizeBytes: 500,
			IdealNS: 1000, FCTNS: 2000, Slowdown: 2})
		row := tables.ContributionRow{Contribution: tables.Contribution{FlowRow: i * each}}
		row.CaseDelayNS = 3000
		hops = append(hops, row)
	}
	if err := tables.HopContributions.Write(&task.table, hops); err != nil {
		t.Fatal(err)
	}
	n := topologytest.SmallNetwork(t)
	return &reader{
		Estimate: &Estimate{Slowdowns: &step.Step{}, Contributions: &step.Step{}, Buckets: &step.Step{}},
		model:    &step.Model{Network: n, Params: simkernel.DefaultParams()}, task: task,
		workload: step.Workload{Flows: count, LastStartNS: count - 1},
		loads:    &route.Loads{Links: make([]route.LinkLoad, len(n.Links)), LastStartNS: count - 1},
	}
}

// The effect of drawn delays is that on all flows, also on the first one of each part that is read. With
// clusters, the delays in link cases are not known.
func TestEffectOfDrawsOnEachFlow(t *testing.T) {
	r := drawnReader(t, 24, readFlows)
	groups, err := r.groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	effects := groups.DrawEffects()
	for _, e := range effects {
		if math.Abs(e.Drawn-2) > 0.01 || math.Abs(e.Own-4) > 0.02 {
			t.Errorf("%+v", e)
		}
	}
	r.Clusters = &step.Step{}
	clustered, err := r.groups(t.Context())
	if err != nil || len(effects) == 0 || len(clustered.DrawEffects()) > 0 {
		t.Errorf("%d effects, with clusters %d (%v)", len(effects), len(clustered.DrawEffects()), err)
	}
}

// With clusters, percentiles have no intervals: it is not known how much other links would have delayed the
// flows.
func TestIntervalsOfClusters(t *testing.T) {
	for _, clusters := range []*step.Step{nil, {}} {
		r := drawnReader(t, 200, 1)
		r.Clusters = clusters
		found, err := r.findings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range found.Intervals {
			if i.Quantile == 0.5 && math.IsNaN(i.Lo) != (clusters != nil) || i.Flows != 200 {
				t.Errorf("clusters %v: an interval from %v to %v of %d flows", clusters != nil, i.Lo, i.Hi, i.Flows)
			}
		}
		if len(found.Intervals) == 0 || found.Watch.flows != 200 {
			t.Errorf("%d intervals, %d flows were watched", len(found.Intervals), found.Watch.flows)
		}
	}
}
