package exact

import (
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/simkernel/network"
	"parsimon/stages/methodtest"
	"parsimon/stages/moves"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

// A stepTask is a task of step exact in memory.
type stepTask struct {
	step.Task
	tables   map[string]func() schema.Batches
	closed   bool
	written  map[string]*tables.Memory
	warnings []string
	stats    Stats
	progress int64
}

func (t *stepTask) Read(_ step.Selection, of ...step.Output) schema.Batches {
	return t.tables[of[0].Table.Name]()
}

func (t *stepTask) Workload() (step.Workload, error) {
	return step.Workload{Flows: 2, Closed: t.closed}, nil
}

func (t *stepTask) Sink(of schema.Table) schema.Sink {
	if t.written[of.Name] == nil {
		return nil
	}
	return t.written[of.Name]
}

func (t *stepTask) Workers() int            { return 1 }
func (t *stepTask) Add(n int64)             { t.progress += n }
func (t *stepTask) Warn(text string)        { t.warnings = append(t.warnings, text) }
func (t *stepTask) Note(stats any, _ int64) { t.stats = stats.(Stats) }

// The step only reads dependencies of closed workloads, and warns of the smallest buffer before it starts.
// Its length is its number of packet-hops. It only writes tables of what the model has.
func TestStepOfTheWholeNetwork(t *testing.T) {
	for _, c := range []stepCase{
		{name: "plain", lastEnd: 5 + 5354},
		// Flow 2 starts 1,000 ns after flow 1 has ended, and takes two packets.
		{name: "closed", closed: true, lastEnd: 5 + 3677 + 1000 + 3677 + 839},
		{name: "events", model: func(m *step.Model) { *m = *moving(t, m.Network, distantEvent) }, lastEnd: 5 + 5354,
			extra: "link_slots"},
		{name: "classes", model: func(m *step.Model) { m.Classes = []step.TrafficClass{{Name: "default"}} },
			lastEnd: 5 + 5354, extra: "link_classes"},
		{name: "small buffers", model: func(m *step.Model) {
			m.Buffers = network.BufferParams{SwitchBytes: 30_000, Alpha: 1, PFC: true}
		}, lastEnd: 5 + 5354, warnings: 1},
		{name: "no events", model: func(m *step.Model) { m.Moves = &moves.Moves{} }, lastEnd: 5 + 5354},
	} {
		t.Run(c.name, c.test)
	}
}

// A stepCase is a model, and what step exact does with two flows.
type stepCase struct {
	name     string
	model    func(m *step.Model)
	closed   bool
	lastEnd  int64  // flow 1 takes 3,677 ns, and flow 2 two packets more behind it
	extra    string // table that is written beside the usual ones
	warnings int
}

func (c *stepCase) test(t *testing.T) {
	flows := methodtest.FlowRecord(smallFlow(1, 0, 1000, 5), smallFlow(2, 1, 2000, 5))
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	if c.model != nil {
		c.model(m)
	}
	s := steps(m, step.Options{}, &step.Step{Writes: []schema.Table{schema.Flows, schema.Dependencies}})[1]
	var loads tables.Memory
	in := route.Chunk{Flows: methodtest.Table(flows).Read()}
	if _, err := route.Flows(t.Context(), m, in, route.Sink{Loads: &loads}); err != nil {
		t.Fatal(err)
	}
	task := &stepTask{closed: c.closed, written: map[string]*tables.Memory{}}
	task.tables = map[string]func() schema.Batches{
		"flows": methodtest.Table(flows).Read, "link_loads": loads.Read,
		"dependencies": dependencies(t, dependency{1, 0, 1000}),
	}
	var names []string
	for _, table := range s.Writes {
		task.written[table.Name] = &tables.Memory{}
		names = append(names, table.Name)
	}
	want := strings.Fields("exact_fcts exact_hops link_stats " + c.extra)
	if !slices.Equal(names, want) {
		t.Errorf("writes %v, want %v", names, want)
	}
	rows, cost, err := s.Cut.Size(task)
	if err != nil || rows != (step.Range{}) || cost != 6 {
		t.Errorf("rows %v, a cost of %d, %v", rows, cost, err)
	}
	work, err := s.Open(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if task.stats.LastEndNS != c.lastEnd || task.progress != 6 || len(task.warnings) != c.warnings {
		t.Errorf("an end at %d, want %d; progress %d, warnings %q", task.stats.LastEndNS, c.lastEnd, task.progress,
			task.warnings)
	}
	for name, table := range task.written {
		if len(table.Records) == 0 || table.Records[0].NumRows() == 0 {
			t.Errorf("table %s is empty", name)
		}
	}
}

// Without intervals, the simulation writes the slowdowns itself. Confidence intervals and warnings are
// computed unless they are left out.
func TestStepsWithoutIntervals(t *testing.T) {
	m := methodtest.DCTCP(t, topologytest.SmallNetwork(t))
	source := &step.Step{Writes: []schema.Table{schema.Flows, schema.Dependencies}}
	for intervals, want := range map[step.Intervals]int{step.WithIntervals: 4, step.WithoutIntervals: 2} {
		all := steps(m, step.Options{Intervals: intervals}, source)
		if len(all) != want || all[len(all)-1].WritesTable(schema.Warnings) != (want == 4) {
			t.Errorf("%v: %d steps", intervals, len(all))
		}
	}
}
