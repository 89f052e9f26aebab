package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages/estimators"
	"parsimon/stages/exact"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
)

// A method makes the stages of one estimate. Those that every plan has are made with it.
type method struct {
	*Model
	variant Variant
	Settings
	source *source // of the flows; nil: the lake holds them

	generate, route *engine.Stage
	cluster         *engine.Stage // nil without clustering
}

func newMethod(model *Model, v Variant, o Settings, flows *source) *method {
	m := &method{Model: model, variant: v, Settings: o, source: flows}
	m.generate = m.generateStage()
	m.route = m.routeStage()
	if v.Cluster != nil {
		m.cluster = m.clusterStage()
	}
	return m
}

// Settings say how an estimate is worked on. None of them changes its rows.
type Settings struct {
	engine.Settings
	Partitions int           // partitions of the links; 0: by size
	Cache      *cache.Cache  // of link-case results; nil: none
	Wait       time.Duration // while another process works on the scenario
	// ExactLimit is the number of packet-hops up to which an estimate that chooses (Variant.Auto) is of the whole
	// network where two passes do not suffice; 0: DefaultExactLimit.
	ExactLimit int64
	Ephemeral  bool    // the scenario is deleted after the estimate: no intervals, no views
	For        Feature // what the estimate is for; empty: its own answer
	// Base is the scenario that this one was made from; empty: none.
	Base lake.ScenarioID
}

// DefaultMemory is the default memory limit of an estimate.
const DefaultMemory = 4 << 30

// command is the command line that runs a stage alone.
func (m *method) command(name string, v Variant) string {
	return m.baseCommand(name) + " " + v.Flags()
}

// baseCommand is the command line that runs a stage alone that does not depend on the variant.
func (m *method) baseCommand(name string) string {
	return fmt.Sprintf("parsimon stage %s --lake %s --scenario %s", name, m.Lake.Path(), m.ID())
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
func (m *method) byChunk(in *engine.Inputs, _ []engine.Task) ([]engine.Task, error) {
	return chunkTasks(in.Files(m.generate.Output(schema.Flows))), nil
}

// oneTask is the Cut of a stage that is not divided.
func oneTask(*engine.Inputs, []engine.Task) ([]engine.Task, error) { return []engine.Task{{}}, nil }

// readLoads reads what each link carries.
func (m *method) readLoads(in *engine.Inputs) (*route.Loads, error) {
	return route.ReadLoads(m.Network, in.Read(m.route.Output(schema.LinkLoads), nil))
}

// representatives returns, by link id, the link whose case stands for it; nil without clustering.
func (m *method) representatives(in *engine.Inputs) ([]int32, error) {
	if m.cluster == nil {
		return nil, nil
	}
	return linksim.ReadClusters(m.Network, in.Read(m.cluster.Output(schema.LinkClusters), nil))
}

// withCluster adds the table of clusters to what a stage reads.
func (m *method) withCluster(reads ...engine.Output) []engine.Output {
	if m.cluster != nil {
		reads = append(reads, m.cluster.Output(schema.LinkClusters))
	}
	return reads
}

// plan is the list of stages of an estimate, in order.
func (m *method) plan() engine.Plan {
	switch m.variant.Estimator {
	case estimators.Flow:
		return m.flowPlan()
	case estimators.Exact:
		return m.exactPlan()
	}
	return m.independentPlan()
}

// independentPlan is the paper's method (§3): each link case runs once, and delays are drawn from each link's
// distribution, independently.
func (m *method) independentPlan() engine.Plan {
	plan := engine.Plan{m.generate, m.route}
	// barrier: a link case needs all of its flows
	if m.cluster != nil {
		plan = append(plan, m.cluster)
	}
	simulate := m.caseStage(m.variant, engine.Output{}, nil, schema.HopDelays)
	bucket := m.bucketStage(simulate)
	contributions := bucket
	plan = append(plan, simulate, bucket)
	if m.cluster != nil {
		contributions = m.drawStage(bucket)
		plan = append(plan, contributions)
	}
	// barrier: a flow needs all of its hops
	sample := m.sampleDrawsStage(contributions)
	plan = append(plan, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, contributions, simulate))
	}
	return plan
}

// flowPlan is waveform relaxation over the link cases: two passes exchange observations, then the hosts' uplinks are
// replayed with complete feedback.
func (m *method) flowPlan() engine.Plan {
	// barrier: a link case needs all of its flows
	first := m.passStage(1, engine.Output{}, nil)
	plan := engine.Plan{m.generate, m.route, first}
	last := first
	observed := []engine.Output{first.Output(schema.HopObservations)}
	if m.variant.Passes > 1 {
		// barrier: a flow needs all of its hops
		feedback := m.feedbackStage("feedback", m.variant.pass(1), observed, schema.Feedback, first)
		last = m.passStage(2, feedback.Output(schema.Feedback), first)
		plan = append(plan, feedback, last)
		observed = append([]engine.Output{last.Output(schema.HopObservations)}, observed...) // the newest first
	}
	// barrier: a flow needs all of its hops
	sender := m.feedbackStage("sender-feedback", m.variant, observed, schema.SenderFeedback, nil)
	replay := m.replayStage(sender)
	sample := m.sampleReplaysStage(observed, replay)
	plan = append(plan, sender, replay, sample)
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, sample, last))
	}
	return plan
}

// exactPlan simulates the whole network, without link cases.
func (m *method) exactPlan() engine.Plan {
	if m.Spec.Windows != nil {
		return engine.Plan{m.generate, m.exactWindowsStage()}
	}
	exact := m.exactStage()
	sample := m.sampleExactStage(exact)
	plan := engine.Plan{m.generate, m.route, exact, sample}
	if !m.Ephemeral {
		plan = append(plan, m.intervalsStage(sample, sample, nil))
	}
	return plan
}

// generated is stage generate of a scenario, for reading what it wrote.
func generated(l *lake.Lake, id lake.ScenarioID) *engine.Stage {
	return newMethod(&Model{Lake: l, Spec: Spec{ScenarioID: id}}, Variant{}, Settings{}, nil).generate
}

// MaxPasses are the passes of estimator flow, unless one is asked for to see what feedback is worth.
const MaxPasses = 2

// MethodVersion changes whenever the same scenario would get other numbers than before. Results of another version do
// not count.
const MethodVersion = 34

// A Variant says how an estimate is made: everything but the scenario that its rows depend on.
type Variant struct {
	Estimator estimators.Name
	Passes    int // of estimator flow: 1 or 2; 0: 2
	Cluster   *linksim.Clustering
	// Auto is set while it is not known whether the estimate is by estimator Flow or WholeNetwork: the estimate chooses.
	Auto bool
}

// Names of variants: "exact", "flow-2" and "flow-1", "independent", the latter with
// "-cluster-10%" where links were clustered. The first pass of flow-2 is stored as, and shared with, that of flow-1.
const clusterPart = "-cluster-"

// SampledPart marks the names of estimates from windows (package sampled): the variant of the windows, SampledPart, how
// many windows, and their warm-up.
const SampledPart = "-sampled-"

// CombineStage is the stage that writes the tables of an estimate from windows, without what it does.
func CombineStage(id lake.ScenarioID, variant string) *engine.Stage {
	return &engine.Stage{
		Name: "combine", Place: lake.Place{Scenario: id, Variant: variant}, Unit: "flows",
		Command: "parsimon run --within",
		Writes:  []schema.Table{schema.Intervals, schema.Windows, schema.SampledSlowdowns},
	}
}

// String is the name of the variant's directory in the lake.
func (v Variant) String() string {
	name := v.Estimator.String()
	if v.Estimator == estimators.Flow {
		name += "-" + strconv.Itoa(v.Passes)
	}
	if v.Cluster != nil {
		name += clusterPart + v.Cluster.String()
	}
	return name
}

// pass is the variant of the same settings with n passes, where the tables of pass n are stored.
func (v Variant) pass(n int) Variant {
	v.Passes = n
	return v
}

// place is where the variant's tables of a scenario are stored.
func (v Variant) place(id lake.ScenarioID) lake.Place {
	return lake.Place{Scenario: id, Variant: v.String()}
}

// ParseVariant is the inverse of String. Names of whole-network simulations of windows or with switch buffers, and of
// estimates from windows, are no variants, and errors.
func ParseVariant(name string) (v Variant, err error) {
	whole, setting, clustered := strings.Cut(name, clusterPart)
	if clustered {
		if v.Cluster, err = linksim.ParseClustering(setting); err != nil {
			return v, err
		}
	}
	estimator, passes, _ := strings.Cut(whole, "-")
	v.Estimator, err = estimators.Parse(estimator)
	v.Passes, _ = strconv.Atoi(passes) // 0 where there are none
	unknown := v.Estimator == estimators.Flow && (v.Passes < 1 || v.Passes > MaxPasses)
	if err != nil || unknown || v.String() != name || checkVariant(v) != nil {
		return v, fmt.Errorf("no variant %q", name)
	}
	return v, nil
}

// Flags are the command-line flags that name the variant.
func (v Variant) Flags() string {
	flags := "--estimator " + v.Estimator.String()
	if v.Estimator == estimators.Flow {
		flags += fmt.Sprintf(" --passes %d", v.Passes)
	}
	if v.Cluster != nil {
		flags += " --cluster=" + v.Cluster.String()
	}
	return flags
}

// withDefaults completes a variant whose settings leave the passes open.
func (v Variant) withDefaults() Variant {
	if v.Passes == 0 && v.Estimator == estimators.Flow {
		v.Passes = MaxPasses
	}
	return v
}

// A Feature is something that a scenario has or that is asked of it, and that not every other feature goes with. Its
// text is for people.
type Feature string

// Purposes of an estimate other than its own answer.
const (
	ForWindows    Feature = "windows of time (--within)"
	ForDifference Feature = "a comparison of estimates by link cases"
)

// Features of scenarios and of changes, and the estimators by link cases.
const (
	linkCases   Feature = "estimator %s"
	waiting     Feature = "flows that wait for the delivery of others"
	moving      Feature = "paths that move (%s)"
	sprayed     Feature = "packets of a flow on several paths (%s)"
	timed       Feature = "events at given times (%s)"
	inOrder     Feature = "receivers that take packets in order only"
	limited     Feature = "switches with buffers of %d bytes"
	selective   Feature = "selective recovery"
	classed     Feature = "traffic classes"
	tcp         Feature = "TCP %v"
	telemetry   Feature = "transport %v"
	unreachable Feature = "--allow-unreachable"
	scaled      Feature = "services that are scaled"
)

// conflicts lists the features that do not go together, and what to do instead.
var conflicts = []struct {
	a, b    Feature
	instead string
}{
	{waiting, linkCases, "only the whole network finds their starts: use --estimator exact; with --starts-from exact " +
		"others take them from there"},
	{waiting, ForWindows, "estimate the whole workload, without --within; or --starts-from exact first"},
	{waiting, scaled, "change the workload, or a scenario made with --starts-from exact"},
	{waiting, unreachable, "flows that wait for one without a path would wait for ever"},
	{moving, linkCases, "only the whole network has that: use --estimator exact, or --balance ecmp or wcmp and no events"},
	{timed, ForWindows, "a sample of windows meets them by chance: estimate the whole workload, without --within"},
	{sprayed, telemetry, "its senders compare what switches report of one path: use dctcp, or a balance by flow or flowlet"},
	{inOrder, tcp, "TCP's receivers take packets in any order (SACK): use another transport, or --receivers any-order"},
	{inOrder, selective, "selective recovery is of receivers that take packets in any order: use one of them"},
	{tcp, linkCases, "its senders send when ACKs come, which link cases do not model: use --estimator exact or auto"},
	{classed, linkCases, "link cases have one queue at each port: use --estimator exact or auto"},
	{classed, ForDifference, "link cases have one queue at each port: use --estimator exact"},
	{limited, ForDifference, "link cases have buffers without an end: use --estimator exact"},
}

// Refuse is a scenario.Refusal, which names two features and what to do instead, if the scenario, an estimate of a
// variant and other features do not go together. A variant that chooses accepts every option that one of its choices
// accepts.
func (m *Model) Refuse(v Variant, others ...Feature) error {
	has := map[Feature]string{}
	add := func(is bool, f Feature, args ...any) {
		if is {
			has[f] = fmt.Sprintf(string(f), args...)
		}
	}
	for _, f := range others {
		add(f != "", f)
	}
	spec, t := &m.Spec, m.Spec.Params.Transport
	byLinkCases := !v.Auto && v.Estimator != estimators.Exact
	add(m.waits, waiting)
	add(byLinkCases, linkCases, v.Estimator)
	add(spec.Windows != nil, ForWindows)
	if spec.Moves.Whole() {
		described := spec.Moves.Describe(m.Network)
		add(true, moving, described)
		add(spec.Moves.Sprays(), sprayed, described)
		add(spec.Moves.Timed(), timed, described)
		add(spec.Moves.Receivers != "", inOrder)
	}
	add(!spec.Switches.IsZero(), limited, spec.Switches.SwitchBytes)
	add(spec.Switches.Selective, selective)
	add(spec.Classes != nil, classed)
	add(t.Traits().AckClocked, tcp, t)
	add(t.Traits().Telemetry, telemetry, t)
	add(spec.AllowUnreachable, unreachable)
	if !byLinkCases {
		delete(has, ForDifference)
	}
	for _, c := range conflicts {
		if has[c.a] != "" && has[c.b] != "" {
			return scenario.Refusal{Err: fmt.Errorf("%s and %s do not go together: %s", has[c.a], has[c.b], c.instead)}
		}
	}
	return nil
}

// check reports settings that do not go together, what Refuse reports, and a network that cannot be simulated whole
// where only that answers.
func (m *Model) check(v Variant, o Settings) error {
	err := errors.Join(checkVariant(v), m.Refuse(v, o.For))
	// What-if then takes link cases, but with limited buffers.
	asked := v.Estimator == estimators.Exact && (o.For != ForDifference || !m.Spec.Switches.IsZero())
	whole := v.Auto && (m.Refuse(Variant{Estimator: estimators.Flow}) != nil || !m.Spec.Switches.IsZero())
	if err != nil || !asked && !whole {
		return err
	}
	err = exact.CheckWholeNetwork(m.Network, m.Spec.Params, m.Spec.Switches, m.Spec.Classes, &route.Loads{})
	if err != nil && (m.Spec.Classes != nil || !m.Spec.Switches.IsZero()) {
		return scenario.Refusal{Err: fmt.Errorf("switches: %w", err)}
	}
	return err
}

// checkVariant reports settings that do not go together.
func checkVariant(v Variant) error {
	if v.Cluster != nil && v.Estimator != estimators.Independent {
		return errors.New("links are clustered for estimator independent only")
	}
	return nil
}

// refuseFlows is Refuse for a workload, and an error for events outside its time.
func (m *method) refuseFlows(g *Generated) error {
	m.waits = g.Closed()
	if err := m.Refuse(m.variant, m.For); err != nil || !m.Spec.Moves.Whole() {
		return err
	}
	return m.Spec.Moves.CheckSpan(m.Network, g.FirstStartNS, g.LastStartNS, m.latestEndNS(g))
}

// latestEndNS is a time by which all flows have surely finished: a multiple of the time in which the slowest link would
// send them one after the other, and the time in which events hold them up. math.MaxInt64: there is none, because flows
// wait for others or the lake does not know their size.
func (m *method) latestEndNS(g *Generated) int64 {
	if m.waits || g.Bytes == 0 {
		return math.MaxInt64
	}
	slowest := int64(math.MaxInt64)
	for _, l := range m.Network.Links {
		slowest = min(slowest, l.BandwidthBps)
	}
	heldUpNS := 0.0
	for _, e := range m.Spec.Moves.Events {
		if e.BandwidthBps > 0 {
			slowest = min(slowest, e.BandwidthBps)
		}
		if e.FromNS <= g.LastStartNS {
			heldUpNS += float64(max(0, e.ToNS-e.FromNS))
		}
	}
	const times, moreNS = 10, 1e9 // slow starts, timeouts
	end := float64(g.LastStartNS) + times*float64(g.Bytes)*8e9/float64(slowest) + heldUpNS + moreNS
	if end >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(end)
}

// Closed reports whether flows of the workload wait for others, or are compute steps.
func (g *Generated) Closed() bool { return g.Dependencies > 0 || g.ComputeSteps > 0 }
