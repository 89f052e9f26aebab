package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"parsimon/pipeline/cache"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/variant"
	"parsimon/stages/estimators"
	"parsimon/stages/exact"
	"parsimon/stages/linksim"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// A planner builds the stages of one estimate from the steps of its estimator.
type planner struct {
	*Model
	variant Variant
	Settings
	source *source // provides the flows; nil: the lake holds them

	generate *engine.Stage
	flows    *step.Step // stage generate as a step of the method
	stages   map[*step.Step]*engine.Stage
}

func newPlanner(model *Model, v Variant, o Settings, flows *source) *planner {
	p := &planner{Model: model, variant: v, Settings: o, source: flows}
	p.generate = p.generateStage()
	p.flows = &step.Step{Name: p.generate.Name, Writes: p.generate.Writes}
	p.stages = map[*step.Step]*engine.Stage{p.flows: p.generate}
	return p
}

// plan returns the stages of the estimate, in order.
func (p *planner) plan() engine.Plan {
	if p.Spec.Windows != nil {
		return engine.Plan{p.generate, p.windowsStage()}
	}
	plan := engine.Plan{p.generate}
	for _, s := range p.variant.Estimator.Estimator().Plan(p.method(), p.options(), p.flows) {
		stage := p.stage(s)
		if stage.Name == routeName {
			stage.Check = p.checkReachable
		}
		plan = append(plan, stage)
	}
	return plan
}

// routeName is the name of the step that finds the paths of flows.
const routeName = "route"

// route returns the stage that finds the paths of flows, which all estimates of the scenario share; nil for a
// scenario of windows, which takes the paths inside its simulation.
func (p *planner) route() *engine.Stage { return p.plan().Find(routeName, 0) }

// exactStage returns the stage that simulates the whole network packet by packet. It exists for every
// estimator.
func (p *planner) exactStage() *engine.Stage {
	return newPlanner(p.Model, Variant{Estimator: estimators.Exact}, p.Settings, p.source).plan().Find(exactName,
		0)
}

// options returns the options of the estimator.
func (p *planner) options() step.Options {
	o := step.Options{Passes: p.variant.Passes}
	if p.variant.Cluster != nil {
		o.ClusterError = p.variant.Cluster.Error
	}
	if p.Ephemeral {
		o.Intervals = step.WithoutIntervals
	}
	if p.Cache != nil {
		o.Cache = p.Cache
	}
	return o
}

// method converts the model to the scenario type of the method.
func (m *Model) method() *step.Model {
	x := &step.Model{
		Network: m.Network, Router: m.Router, Params: m.Spec.Params, Buffers: m.Spec.Switches,
		Classes: m.Spec.Classes,
		Moves:   m.Spec.Moves, Seed: m.Spec.Seed,
	}
	if m.Spec.AllowUnreachable {
		x.Unreachable = step.CountUnreachable
	}
	if m.Spec.FoundStarts {
		x.Acks = step.SimultaneousAcks
	}
	return x
}

// Settings control how an estimate is run. None of them changes its rows.
type Settings struct {
	engine.Settings
	Partitions int           // number of partitions of the links; 0: by size
	Cache      *cache.Cache  // of link-case results; nil: none
	Wait       time.Duration // how long to wait while another process works on the scenario
	// ExactLimit is the number of packet-hops up to which an automatic estimate (Variant.Auto) simulates the
	// whole network if two passes are not accurate enough; 0: DefaultExactLimit.
	ExactLimit int64
	Ephemeral  bool    // the scenario is deleted after the estimate, so it has no intervals and no views
	For        Feature // the purpose of the estimate; empty: its own answer
	// Base is the scenario from which this one was made; empty: none.
	Base lake.ScenarioID
}

// DefaultMemory is the default memory limit of an estimate.
const DefaultMemory = 4 << 30

// command returns the command line that runs one stage.
func (p *planner) command(name string, v Variant) string {
	if strings.HasPrefix(name, exactName) { // "parsimon stage" runs neither it nor exact-slowdowns
		return fmt.Sprintf("parsimon validate --lake %s --scenario %s --truth exact", p.Lake.Path(), p.ID())
	}
	return p.baseCommand(name) + " " + v.Flags()
}

// baseCommand returns the command line that runs one stage that does not depend on the variant.
func (p *planner) baseCommand(name string) string {
	return fmt.Sprintf("parsimon stage %s --lake %s --scenario %s", name, p.Lake.Path(), p.ID())
}

// generated returns stage generate of a scenario, to read what it wrote.
func generated(l *lake.Lake, id lake.ScenarioID) *engine.Stage {
	return newPlanner(&Model{Lake: l, Spec: Spec{ScenarioID: id}}, Variant{}, Settings{}, nil).generate
}

// MaxPasses is the default number of passes of estimator flow. A user can request one pass to see the effect
// of feedback.
const MaxPasses = 2

// MethodVersion is raised whenever the results of a scenario change. Results of other versions are ignored.
// TestVersionsFollowTheRows fails if it was not raised.
const MethodVersion = 41

// A Variant is a choice of how to estimate all flows of a scenario. It contains everything, except for the
// scenario, that determines the rows. Stored returns it as the lake records it.
//
// Variants flow-1 and flow-2 share the stored tables of the first pass.
type Variant struct {
	Estimator estimators.Name
	Passes    int // of estimator flow: 1 or 2; 0: 2
	Cluster   *linksim.Clustering
	// Auto is set until an automatic estimate has chosen between link cases (flow) and the whole network
	// (exact).
	Auto bool
}

// CombineStage returns the stage that writes the tables of an estimate from windows. The returned stage
// cannot run.
func CombineStage(id lake.ScenarioID, v variant.Variant) *engine.Stage {
	return &engine.Stage{
		Name: "combine", Place: lake.Place{Scenario: id, Variant: v}, Unit: "flows",
		Command: "parsimon run --within",
		Writes:  []schema.Table{schema.Intervals, schema.Windows, schema.SampledSlowdowns},
	}
}

// Stored returns the variant as the lake records it.
func (v Variant) Stored() variant.Variant {
	stored := variant.Variant{Estimator: v.Estimator.String()}
	if v.Estimator.Estimator().Passes > 0 {
		stored.Passes = v.Passes
	}
	if v.Cluster != nil {
		stored.ClusterError = v.Cluster.Error
	}
	return stored
}

// String returns the name of the variant in the lake.
func (v Variant) String() string { return v.Stored().String() }

// pass returns the variant with n passes and otherwise the same settings. It stores the tables of pass n.
func (v Variant) pass(n int) Variant {
	v.Passes = n
	return v
}

// variantOf returns the variant of an estimator's steps with their options.
func variantOf(o *step.Owner) Variant {
	v := Variant{Passes: o.Options.Passes}
	for _, name := range estimators.All() {
		if name.String() == o.Estimator {
			v.Estimator = name
		}
	}
	if o.Options.ClusterError > 0 {
		v.Cluster = &linksim.Clustering{Error: o.Options.ClusterError}
	}
	return v
}

// place returns where the lake stores the variant's tables of a scenario.
func (v Variant) place(id lake.ScenarioID) lake.Place {
	return lake.Place{Scenario: id, Variant: v.Stored()}
}

// ParseVariant is the inverse of String.
func ParseVariant(name string) (Variant, error) {
	stored, err := variant.Parse(name)
	if err != nil {
		return Variant{}, err
	}
	return VariantOf(stored)
}

// VariantOf is the inverse of Stored. It returns an error for an estimate from windows, which no plan can
// make alone, and for an estimator or a number of passes that this version does not have.
func VariantOf(stored variant.Variant) (v Variant, err error) {
	v.Passes = stored.Passes
	if stored.ClusterError > 0 {
		v.Cluster = &linksim.Clustering{Error: stored.ClusterError}
	}
	v.Estimator, err = estimators.Parse(stored.Estimator)
	most := v.Estimator.Estimator().Passes
	unknown := most > 0 && (v.Passes < 1 || v.Passes > most)
	if err != nil || unknown || v.Stored() != stored || checkVariant(v) != nil {
		return Variant{}, fmt.Errorf("no variant %q", stored)
	}
	return v, nil
}

// Flags returns the command-line flags that select the variant.
func (v Variant) Flags() string {
	flags := "--estimator " + v.Estimator.String()
	if v.Estimator.Estimator().Passes > 0 {
		flags += fmt.Sprintf(" --passes %d", v.Passes)
	}
	if v.Cluster != nil {
		flags += " --cluster=" + v.Cluster.String()
	}
	return flags
}

// withDefaults returns the variant with the default number of passes if none is set.
func (v Variant) withDefaults() Variant {
	if v.Passes == 0 {
		v.Passes = v.Estimator.Estimator().Passes
	}
	return v
}

// A Feature is a property of a scenario or of a request that conflicts with some other feature. Its text is
// shown to users.
type Feature string

// Purposes of an estimate other than its own answer.
const (
	ForWindows    Feature = "windows of time (--within)"
	ForDifference Feature = "a comparison of estimates by link cases"
)

// Features of scenarios and changes, and the estimators that use link cases.
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

// conflicts lists pairs of features that exclude each other, and what to do instead.
var conflicts = []struct {
	a, b    Feature
	instead string
}{
	{waiting, linkCases, "only the whole network finds their starts: use --estimator exact; with --starts-from " +
		"exact others take them from there"},
	{waiting, ForWindows, "estimate the whole workload, without --within; or --starts-from exact first"},
	{waiting, scaled, "change the workload, or a scenario made with --starts-from exact"},
	{waiting, unreachable, "flows that wait for one without a path would wait forever"},
	{moving, linkCases, "only the whole network has that: use --estimator exact, or --balance ecmp or wcmp and " +
		"no events"},
	{timed, ForWindows, "a sample of windows meets them by chance: estimate the whole workload, without --within"},
	{sprayed, telemetry, "its senders compare what switches report of one path: use dctcp, or a balance by " +
		"flow or flowlet"},
	{inOrder, tcp, "TCP's receivers take packets in any order (SACK): use another transport, or --set " +
		"receivers=any-order"},
	{inOrder, selective, "selective recovery needs receivers that accept any order: use one of the two"},
	{tcp, linkCases, "its senders send when ACKs come, which link cases do not model: use --estimator exact or " +
		"auto"},
	{classed, linkCases, "link cases have one queue at each port: use --estimator exact or auto"},
	{classed, ForDifference, "link cases have one queue at each port: use --estimator exact"},
	{limited, ForDifference, "link cases have unlimited buffers: use --estimator exact"},
}

// Refuse returns a scenario.Refusal if features of the scenario, of an estimate with the variant, and the
// other given features conflict. The refusal names two features and what to do instead. An automatic estimate
// accepts every option that at least one of its estimators accepts.
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
	spec := &m.Spec
	t := m.Spec.Params.Transport
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

// check returns an error for conflicting settings and features. It also returns an error if only a simulation
// of the whole network can be used and the network does not support it.
func (m *Model) check(v Variant, o Settings) error {
	err := errors.Join(checkVariant(v), m.Refuse(v, o.For))
	// What-if then uses link cases, except with limited buffers.
	asked := v.Estimator == estimators.Exact && (o.For != ForDifference || !m.Spec.Switches.IsZero())
	whole := v.Auto && (m.Refuse(Variant{Estimator: estimators.Flow}) != nil || !m.Spec.Switches.IsZero())
	if err != nil || !asked && !whole {
		return err
	}
	err = exact.Check(m.method(), &route.Loads{})
	if err != nil && (m.Spec.Classes != nil || !m.Spec.Switches.IsZero()) {
		return scenario.Refusal{Err: fmt.Errorf("switches: %w", err)}
	}
	return err
}

// checkVariant returns an error if settings of the variant conflict.
func checkVariant(v Variant) error {
	if v.Cluster != nil && !v.Estimator.Estimator().Clusters {
		return fmt.Errorf("links are not clustered for estimator %s", v.Estimator)
	}
	return nil
}

// refuseFlows is Refuse for a workload. It also returns an error for events outside the time of the workload.
func (p *planner) refuseFlows(g *Generated) error {
	p.waits = g.Closed()
	if err := p.Refuse(p.variant, p.For); err != nil || !p.Spec.Moves.Whole() {
		return err
	}
	return p.Spec.Moves.CheckSpan(p.Network, g.FirstStartNS, g.LastStartNS, p.latestEndNS(g))
}

// latestEndNS returns a time by which all flows have certainly finished. It is a multiple of the time in
// which the slowest link could transmit all flows one after the other, plus the time for which events delay
// them. If flows wait for others, or the lake does not know their size, there is no such time, and it returns
// math.MaxInt64.
func (p *planner) latestEndNS(g *Generated) int64 {
	if p.waits || g.Bytes == 0 {
		return math.MaxInt64
	}
	slowest := int64(math.MaxInt64)
	for _, l := range p.Network.Links {
		slowest = min(slowest, l.BandwidthBps)
	}
	heldUpNS := 0.0
	for _, e := range p.Spec.Moves.Events {
		if e.BandwidthBps > 0 {
			slowest = min(slowest, e.BandwidthBps)
		}
		if e.FromNS <= g.LastStartNS {
			heldUpNS += float64(max(0, e.ToNS-e.FromNS))
		}
	}
	const times, moreNS = 10, 1e9 // slow start, timeouts
	end := float64(g.LastStartNS) + times*float64(g.Bytes)*8e9/float64(slowest) + heldUpNS + moreNS
	if end >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(end)
}

// Closed reports whether flows of the workload wait for others or are compute steps.
func (g *Generated) Closed() bool { return g.Dependencies > 0 || g.ComputeSteps > 0 }
