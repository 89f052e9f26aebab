// Package pipeline composes the stages: the plan, the run order, the lake's layout and commits,
// and progress. The method itself is in package stages, the link simulator in package simkernel.
package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/rs/zerolog"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/simkernel"
	"parsimon/stages"
	"parsimon/stages/ns3"
	"parsimon/stages/topology"
)

// Options are what a run needs besides its scenario. None of them changes the results, except
// Estimator, Passes, Without, Cluster and LinkBackend.
type Options struct {
	Lake      string // directory; made if it does not exist
	Estimator stages.Estimator
	// Passes over all link cases that estimator Flow makes; 0: DefaultPasses; AutoPasses: until the
	// percentiles of slowdown stop moving.
	Passes   int
	Ablation stages.Ablation // ingredients of estimator Flow to leave out
	// Cluster says which links are alike, so that one link case answers for all of them; nil: none.
	Cluster *stages.Clustering
	// LinkBackend runs the link cases: for Independent also ns-3, the program NS3, as many processes at
	// once as there are workers. NS3Timeout is what one case may take; 0: without end.
	LinkBackend stages.Backend
	NS3         string
	NS3Timeout  time.Duration

	Workers    int // goroutines; default one per core
	Partitions int // partitions of links; default by size
	// ExactWorkers share a whole-network simulation; default 1. They meet once every microsecond of
	// simulated time, so that more than one pays only on cores that have nothing else to do.
	ExactWorkers int
	// SwitchBuffer is what switches have to hold packets in, in a whole-network simulation; its zero value:
	// without end.
	SwitchBuffer simkernel.BufferParams
	// Cache is a directory of results of link cases, which runs look into before they simulate; made if
	// it does not exist. Empty: none.
	Cache string
	// Share says which tasks of a stage this process does, while others do the rest; the zero value: all.
	Share Share
	// Keep everything: without it, what only passes tell each other (hop_observations, elsewhere, sender_feedback) goes as
	// soon as the stages that read it are complete: by Estimate, a Hand or a Share, not by a stage by itself.
	Keep     bool
	ReadOnly bool // neither writes nor locks: for Ask
	// AnyEstimate works on the best estimate that the lake holds of the scenario, whatever Estimator and
	// Passes say: for Resume.
	AnyEstimate bool
	MemoryBytes int64 // what a run keeps to, DuckDB included; default DefaultMemory
	Log         zerolog.Logger
	Progress    Progress // nil: none

	shared  *Cache // an open cache, instead of Cache
	passing bool   // the scenario is deleted after the run: no views of it are needed
}

// A spec is what the lake keeps of a scenario, beside its tables, so that every stage can run on
// what the lake holds.
type spec struct {
	ScenarioID       string           `json:"scenario_id"`
	Name             string           `json:"name"`
	Seed             uint64           `json:"seed"`
	Params           simkernel.Params `json:"params"`
	AllowUnreachable bool             `json:"allow_unreachable"`
	MaxRejects       float64          `json:"max_rejects"`
	MaxLoad          float64          `json:"max_load"` // 0 for traces
	Canonical        json.RawMessage  `json:"canonical"`
}

// A Run works on one scenario of one lake, which it keeps locked until Close.
type Run struct {
	lake       *Lake
	spec       spec
	net        *topology.Network
	router     *topology.Router
	source     *Scenario // nil when the scenario was read from the lake, or
	from       *origin   // made from another; else nil
	estimator  stages.Estimator
	passes     int // of estimator Flow; AutoPasses until they are known
	ablation   stages.Ablation
	cluster    *stages.Clustering
	backend    stages.Backend
	ns3        *ns3.Simulator // what runs the link cases of backend NS3Backend
	program    string         // its identity
	workers    int
	partitions int
	domains    int
	buffer     simkernel.BufferParams
	memory     int64
	unlimit    func()  // undoes the limit of Go's heap
	linkFlows  []int64 // by link, known after routing
	log        zerolog.Logger
	progress   Progress
	reports    []StageReport
	reported   map[string]bool // stages, by path
	sound      map[string]bool // parts written or checked in this run
	began      time.Time
	beganCPU   float64
	unlock     func()
	cache      *Cache // nil: none
	ownCache   bool   // Close closes it
	passing    bool
	keep       bool
	estimating bool // Estimate is at work, and not a single stage
	existed    bool // the lake knew the scenario before Derive
	share      Share
	choose     choice // nil: a process on its own
	planning   bool   // stages are planned, and todo is what they would do
	todo       []int
}

// Estimate is the whole method. Flows become hops, hops become link cases, every link case is
// simulated on its own, and each flow's delays are put together again. Two barriers hold anything
// back: a link case needs all of its flows, and a flow needs all of its hops. Estimator Flow goes
// through both once a pass, and again for the hosts' own cases.
func (r *Run) Estimate(ctx context.Context) error {
	r.estimating = true
	defer func() { r.estimating = false }()
	passes := r.passes
	return r.restoring(func() error {
		r.passes = passes
		return r.steps(ctx)
	})
}

func (r *Run) steps(ctx context.Context) error {
	steps := []func(context.Context) error{
		r.Generate, // a traffic matrix or a flow file → flows, in start order
		r.Route,    // flows → hops by link, each flow's path chosen once
	}
	// barrier 1
	steps = append(steps, r.Cluster) // with clustering: links that are alike → one that answers for them
	if r.estimator == stages.Flow {
		steps = append(steps, r.passesUntilDone)
	} else {
		steps = append(steps,
			r.Simulate, // each link case on its own → hop delays
			r.Bucket,   // hop delays → distributions by flow size → what each hop adds to each flow
			r.Draw,     // with clustering: what each hop adds, from the distributions of representatives
			// barrier 2
			r.Sample,    // a flow's hops → its FCT and slowdown
			r.Intervals, // slowdowns → intervals of their percentiles, and what to beware of
		)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Begin opens a scenario for a run that starts at its beginning.
func Begin(s *Scenario, o Options) (*Run, error) {
	if err := queries.CheckLakePath(o.Lake); err != nil { // before the work, not after it
		return nil, err
	}
	if err := queries.CheckVersion(context.Background(), o.Lake); err != nil {
		return nil, err
	}
	net, err := s.Network()
	if err != nil {
		return nil, err
	}
	id, err := s.ID()
	if err != nil {
		return nil, err
	}
	canonical, err := s.Canonical()
	if err != nil {
		return nil, err
	}
	sp := spec{
		ScenarioID: id, Name: s.Name, Seed: s.Seed, Params: s.Params(),
		AllowUnreachable: s.AllowUnreachable, MaxRejects: s.MaxRejects, MaxLoad: s.MaxLoad(), Canonical: canonical,
	}
	lake, err := OpenLake(o.Lake, true)
	if err != nil {
		return nil, err
	}
	r, err := newRun(lake, sp, net, o)
	if err != nil {
		return nil, err
	}
	r.source = s
	if err := lake.writeState(lake.statePath(place{scenario: id}, "spec.json"), sp); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Resume opens a scenario the lake holds ("" for the only one or the one last worked on), for
// running single stages.
func Resume(scenario string, o Options) (*Run, error) {
	lake, err := OpenLake(o.Lake, false)
	if err != nil {
		return nil, err
	}
	if scenario, err = lake.resolve(scenario); err != nil {
		return nil, err
	}
	var sp spec
	if _, err := lake.readState(lake.statePath(place{scenario: scenario}, "spec.json"), &sp); err != nil {
		return nil, err
	}
	net, err := lake.readNetwork(scenario)
	if err != nil {
		return nil, err
	}
	r, err := newRun(lake, sp, net, o)
	if err != nil {
		return nil, err
	}
	if o.AnyEstimate {
		if err := r.pickVariant(); err != nil {
			r.Close()
			return nil, err
		}
	}
	if o.ReadOnly {
		return r, nil
	}
	now := time.Now() // the scenario last worked on
	return r, os.Chtimes(lake.statePath(place{scenario: scenario}, "spec.json"), now, now)
}

func newRun(lake *Lake, sp spec, net *topology.Network, o Options) (*Run, error) {
	r := &Run{
		lake: lake, spec: sp, net: net, estimator: o.Estimator, passes: o.Passes, ablation: o.Ablation, workers: o.Workers, partitions: o.Partitions, domains: max(1, o.ExactWorkers), buffer: o.SwitchBuffer,
		memory: o.MemoryBytes, log: o.Log, progress: o.Progress, began: time.Now(), beganCPU: processorSeconds(), sound: map[string]bool{}, passing: o.passing, cluster: o.Cluster, keep: o.Keep, share: o.Share, choose: o.Share.choice(),
		backend: o.LinkBackend, ns3: &ns3.Simulator{Path: o.NS3, Timeout: o.NS3Timeout},
	}
	if err := stages.CheckBackend(r.backend, r.estimator); err != nil {
		return nil, err
	}
	if r.passes == 0 {
		r.passes = DefaultPasses
	}
	if r.workers <= 0 {
		r.workers = runtime.GOMAXPROCS(0)
	}
	if r.memory <= 0 {
		r.memory = DefaultMemory
	}
	if r.progress == nil {
		r.progress = silent{}
	}
	r.unlimit = func() {}
	var err error
	if r.router, err = topology.NewRouter(net, sp.Seed); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		r.unlock = func() {}
		return r, nil
	}
	lock := lake.lock
	if r.shared() {
		lock = lake.lockShared
	}
	if r.unlock, err = lock(sp.ScenarioID); err != nil {
		return nil, err
	}
	if !o.passing { // what somebody works on is no longer a sweep's to delete
		if err := os.Remove(lake.statePath(r.base(), passingState)); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.unlock()
			return nil, err
		}
	}
	r.unlimit = limitGo(r.memory)
	if o.shared != nil {
		r.cache = o.shared
	} else if o.Cache != "" {
		if r.cache, err = OpenCache(o.Cache, o.Log); err != nil {
			r.unlimit()
			r.unlock()
			return nil, err
		}
		r.ownCache = true
	}
	return r, nil
}

// Close lets go of the scenario, and puts what the run has simulated into the cache.
func (r *Run) Close() {
	if r.ownCache {
		r.cache.Close()
	}
	r.unlimit()
	r.unlock()
}

// simulator prepares one worker's simulator.
func (r *Run) simulator(loads *stages.Loads) (*stages.Simulator, error) {
	sim, err := stages.NewSimulator(r.net, r.spec.Params, loads, r.estimator, r.ablation)
	if err == nil && r.backend == stages.NS3Backend {
		r.ns3.Scratch = r.lake.tmp
		sim.UseSolver(r.ns3)
	}
	if err == nil && r.cache != nil {
		err = sim.UseCache(r.cache, r.program)
	}
	return sim, err
}

// ScenarioID is the id of the run's scenario.
func (r *Run) ScenarioID() string { return r.spec.ScenarioID }

// Variant is the name under which the run's estimates stand in the lake.
func (r *Run) Variant() string { return r.variant().variant }

func (r *Run) report(s StageReport) {
	r.reports = append(r.reports, s)
	r.log.Info().Str("stage", s.Stage).Int("tasks", s.Tasks).Int("reused", s.Reused).Float64("seconds", round3(s.Seconds)).Float64("cpu_seconds", round3(s.CPU)).Msg("stage done")
}

// base and variant are where the run's tables stand.
func (r *Run) base() place { return place{scenario: r.spec.ScenarioID} }
func (r *Run) variant() place {
	if r.estimator == stages.Flow {
		return r.pass(r.passes)
	}
	name := independentVariant
	if r.backend != stages.Kernel {
		name += "-" + r.backend.String()
	}
	return r.clustered(name)
}

func (r *Run) generateStage() stage {
	return stage{"generate", r.base(), []schema.Table{schema.Scenarios, schema.Nodes, schema.Links, schema.Flows, schema.Rejects}}
}

// closeQuietly closes a stream that was read to its end or is given up: its errors were reported.
func closeQuietly(c io.Closer) { _ = c.Close() }

// IsInterrupt says whether an error is a run's being told to stop.
func IsInterrupt(err error) bool { return errors.Is(err, context.Canceled) }

func round3(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }
