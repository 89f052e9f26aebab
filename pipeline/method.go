package pipeline

import (
	"fmt"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/ns3"
)

// A method is what the stages of one plan share.
type method struct {
	*Model
	variant Variant
	Settings
	source source // of the flows; nil: the lake holds them

	route   *engine.Stage
	cluster *engine.Stage // nil without clustering

	loadsOf string // digest of the files that loads was read from
	loads   *stages.Loads
}

// Settings say how an estimate is worked on. None of them changes its rows.
type Settings struct {
	engine.Settings
	Partitions int            // partitions of the links; 0: by size
	Cache      *cache.Cache   // of link-case results; nil: none
	NS3        *ns3.Simulator // the program behind backend ns3
	Wait       time.Duration  // while another process works on the scenario
	// LeastPasses is the least number of passes that AutoPasses makes; 0: as few as it finds enough.
	LeastPasses int
	Ephemeral   bool // the scenario is deleted after the estimate: no intervals, no views
	// Donor is a scenario of the lake with the same flows (scenario.FlowsKey), whose files a new scenario shares, and
	// whose other results where they depend on the same; empty: none.
	Donor lake.ScenarioID
}

// DefaultMemory is the default memory limit of an estimate.
const DefaultMemory = 4 << 30

// command is the command line that runs a stage alone.
func (m *method) command(name string, v Variant) string {
	return m.baseCommand(name) + " " + v.Flags()
}

// baseCommand is the command line that runs a stage alone that does not depend on the variant.
func (m *method) baseCommand(name string) string {
	return fmt.Sprintf("parsimon %s --lake %s --scenario %s", name, m.Lake.Path(), m.ID())
}

// chunkTasks are the chunks of table flows as tasks: one for each data file.
func chunkTasks(files []lake.DataFile) []engine.Task {
	tasks := make([]engine.Task, len(files))
	var row int64
	for n, f := range files {
		tasks[n] = engine.Task{Lo: row, Hi: row + f.Rows, Cost: f.Rows, Rows: f.Rows}
		row += f.Rows
	}
	return tasks
}

// byChunk cuts a stage into one task for each data file of table flows.
func byChunk(flows engine.Output) func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
	return func(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
		return chunkTasks(in.Files(flows)), nil
	}
}

// readLoads reads what each link carries.
func (m *method) readLoads(in *engine.Inputs) (*stages.Loads, error) {
	files := in.Files(m.route.Output(schema.LinkLoads))
	digest := ""
	for _, f := range files {
		digest += f.Digest
	}
	if m.loads != nil && m.loadsOf == digest {
		return m.loads, nil
	}
	rows := in.Read(m.route.Output(schema.LinkLoads), nil, nil)
	defer func() { _ = rows.Close() }() // read to its end, or an error is reported
	loads, err := stages.ReadLoads(m.Network, rows)
	if err != nil {
		return nil, err
	}
	if m.Spec.Windows != nil {
		if err := m.spread(loads); err != nil {
			return nil, err
		}
	}
	m.loads, m.loadsOf = loads, digest
	return loads, nil
}

// spread spreads the loads of windows over their time, also on a link whose flows are all in one of them, for the rates
// of ACKs to be about those of the whole workload. Flows that outlast their window have bytes that are not sent in it.
func (m *method) spread(loads *stages.Loads) error {
	r, err := engine.Complete(m.Lake, m.generateStage(), methodVersion)
	if err != nil {
		return err
	}
	g, err := generateStats(r)
	if err != nil {
		return err
	}
	spanNS := m.Spec.Windows.ActiveNS
	if g.SentShare > 0 {
		spanNS = int64(min(float64(maxSpanNS), float64(spanNS)/g.SentShare))
	}
	for i, x := range loads.Links {
		loads.Links[i].LastStartNS = x.FirstStartNS + spanNS
	}
	loads.LastStartNS = loads.FirstStartNS + m.Spec.Windows.ActiveNS
	return nil
}

// representatives returns, by link id, the link whose case stands for it; nil without clustering.
func (m *method) representatives(in *engine.Inputs) ([]int32, error) {
	if m.cluster == nil {
		return nil, nil
	}
	rows := in.Read(m.cluster.Output(schema.LinkClusters), []string{"link_id", "representative"}, nil)
	defer func() { _ = rows.Close() }() // read to its end, or an error is reported
	return stages.ReadClusters(m.Network, rows)
}

// simulator prepares one worker's simulator.
func (m *method) simulator(loads *stages.Loads, program string) (*stages.Simulator, error) {
	sim, err := stages.NewSimulator(m.Network, m.Spec.Params, loads, m.variant.Estimator, m.variant.Ablation)
	if err == nil && m.variant.Backend == stages.NS3Backend {
		sim.UseSolver(m.NS3)
	}
	if err == nil && m.Cache != nil {
		err = sim.UseCache(m.Cache, program)
	}
	return sim, err
}

// withCluster adds the table of clusters to what a stage reads.
func (m *method) withCluster(reads ...engine.Output) []engine.Output {
	if m.cluster != nil {
		reads = append(reads, m.cluster.Output(schema.LinkClusters))
	}
	return reads
}
