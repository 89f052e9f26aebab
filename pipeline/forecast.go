package pipeline

import (
	"context"
	"errors"
	"runtime"
	"strconv"

	"github.com/rs/zerolog"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/stages/diagnose"
	"parsimon/stages/estimators"
	"parsimon/stages/step"
)

// A Forecast predicts the costs of an estimate.
type Forecast struct {
	// EstimatedFrom is the number of flows from which the size of a large scenario is estimated: those that
	// start first. If it is 0, all flows were drawn and routed.
	EstimatedFrom int64 `json:"estimated_from_flows,omitempty"`

	Hosts      int   `json:"hosts"`
	Flows      int64 `json:"flows"`
	PacketHops int64 `json:"packet_hops"`
	// SharedBytes is the size of the tables that all estimates of the scenario share, such as flows and hops.
	SharedBytes int64            `json:"shared_bytes"`
	Estimators  []EstimatorCosts `json:"estimators"` // those that can estimate the scenario
	// Estimator is the estimator with which an automatic estimate begins. Reason explains the choice.
	Estimator string `json:"estimator"`
	Reason    string `json:"reason"`
	// MaxLoad is the load of the most loaded link, without headers; 0 if it is not known, because the size is
	// estimated. AskedLoad is the load for which the flows were drawn; 0 for traces.
	MaxLoad   float64 `json:"max_load,omitempty"`
	AskedLoad float64 `json:"asked_load,omitempty"`
	// PeakBytes is the peak memory of an estimate by exact with one worker. Link cases need less.
	PeakBytes int64 `json:"peak_bytes"`
}

// EstimatorCosts are the predicted costs of one estimator.
type EstimatorCosts struct {
	Estimator string `json:"estimator"`
	Cost
	DiskBytes int64 `json:"disk_bytes"` // of the tables that are kept, with those that estimates share
}

// Together, these are the processor time of a run of one packet. The runs of a sweep share a program.
const (
	ProgramSeconds = 0.1
	runSeconds     = 0.1
)

// ForecastOf predicts the costs of a scenario on o.Workers cores. It draws and routes the first mostFlows
// flows, or all of a trace or of jobs, in the lake in directory dir. It removes them unless the lake had the
// scenario before, also if it fails.
func ForecastOf(ctx context.Context, dir string, s *scenario.Scenario, v Variant, o Settings) (*Forecast,
	error) {
	cores := o.Workers
	o.Workers = min(cores, runtime.GOMAXPROCS(0))
	first := s.Beginning(mostFlows)
	e, err := Begin(ctx, dir, first, v, o)
	if err != nil {
		return nil, err
	}
	f, err := e.forecast(ctx, s, first, cores)
	e.Close()
	if e.isNew && e.Lake.Exists(lake.Of(e.ID()).SpecPath()) { // a failed stage may have removed it
		_, removing := Remove(context.WithoutCancel(ctx), e.Lake, Removal{Scenarios: []string{string(e.ID())}})
		err = errors.Join(err, removing)
	}
	return f, err
}

// forecast predicts the costs of a scenario on a number of cores. The estimation has the beginning of its
// flows.
func (e *Estimation) forecast(ctx context.Context, s, beginning *scenario.Scenario, cores int) (*Forecast,
	error) {
	e.variant = Variant{Estimator: estimators.Exact}
	first, err := look(ctx, e)
	if err != nil {
		return nil, err
	}
	g, err := e.Generated()
	if err != nil {
		return nil, err
	}
	loads, err := Loads(e)
	if err != nil {
		return nil, err
	}
	f := &Forecast{AskedLoad: g.ExpectedMaxLoad}
	for id := range loads.Links {
		f.MaxLoad = max(f.MaxLoad, loads.Load(e.Network.Links[id]))
	}
	times := s.TimesBeginning(beginning, g.Flows, g.LastStartNS)
	if times > 1 {
		first.size.Multiply(times)
		// The most loaded link of the beginning has its load by chance.
		loads.Stretch(max(1, f.MaxLoad/f.AskedLoad))
		first.insufficient = len(diagnose.ReasonsForWholeNetwork(e.method(), loads)) > 0
		f.EstimatedFrom = g.Flows
		f.MaxLoad = 0
	}
	exact, why, err := e.choose(&first)
	if err != nil {
		return nil, err
	}
	f.Reason = why
	f.Estimator = estimators.Flow.String()
	if exact {
		f.Estimator = estimators.Exact.String()
	}
	status, err := ReadScenarioStatus(e.Lake, e.ID(), lake.BySize)
	if err != nil {
		return nil, err
	}
	for _, s := range status.Stages {
		f.SharedBytes += int64(times * float64(s.Bytes))
	}
	e.addCosts(f, &first, cores)
	return f, nil
}

// addCosts adds the size of the scenario, and the costs of the estimators that can estimate it.
func (e *Estimation) addCosts(f *Forecast, first *firstLook, cores int) {
	f.Hosts = first.size.Hosts
	f.Flows = first.size.Flows
	f.PacketHops = first.size.PacketHops
	f.PeakBytes = PeakBytes(f.Hosts, f.Flows)
	for _, by := range estimators.All() {
		if !e.possible(by, first) {
			continue
		}
		steps := by.Estimator().Cost(&first.size, cores)
		f.Estimators = append(f.Estimators, EstimatorCosts{
			Estimator: by.String(),
			Cost:      withStart(steps),
			DiskBytes: f.SharedBytes + steps.DiskBytes,
		})
	}
}

// possible reports whether an estimator can estimate the scenario.
func (e *Estimation) possible(by estimators.Name, first *firstLook) bool {
	if by.Estimator().WholeNetwork {
		return first.unable == nil
	}
	return e.Refuse(Variant{Estimator: by}, e.For) == nil
}

// Cost predicts how long the estimate takes on a number of cores. It runs the first stages of the plan, up to
// and including route. It is that of the estimator with which an automatic estimate begins.
func (e *Estimation) Cost(ctx context.Context, cores int) (Cost, error) {
	asked := e.variant
	if asked.Auto {
		e.variant = Variant{Estimator: estimators.Exact}
	}
	first, err := look(ctx, e)
	e.variant = asked
	if err != nil {
		return Cost{}, err
	}
	by := asked.Estimator
	if asked.Auto {
		exact, _, err := e.choose(&first)
		if err != nil {
			return Cost{}, err
		}
		by = estimators.Flow
		if exact {
			by = estimators.Exact
		}
	}
	return costOf(by, &first.size, cores), nil
}

// announces reports whether the estimate logs how long it is expected to take. It does not if it is complete
// or if only a part of it runs in this process.
func (e *Estimation) announces() bool {
	_, incomplete := e.Records(schema.Slowdowns)
	return incomplete != nil && !e.Ephemeral && e.Shard.Count == 0
}

// announce logs how long the estimate is expected to take.
func (e *Estimation) announce(w *step.WorkloadSize) {
	if e.announces() {
		costOf(e.variant.Estimator, w, e.Workers).Announce(e.Log.Info())
	}
}

// Announce logs a predicted cost, before the work begins.
func (c Cost) Announce(line *zerolog.Event) {
	line.Float64("seconds", round(c.Seconds)).Float64("cpu_seconds", round(c.CPUSeconds)).
		Msg("forecast: the seconds that this will take if no other program uses the cores")
}

// round returns a number with two digits.
func round(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(max(0, x), 'g', 2, 64), 64) // it is a number
	return rounded
}

// The peak memory of an estimate with one worker, DuckDB included: memoryBase, and an amount for each host
// and flow. Whole runs of scenarios small (256 hosts) and large (6,144 hosts, 1 s and 5 s) by estimator exact
// were measured; PERFORMANCE.md lists them. Estimates by link cases need less, because they keep to their
// memory limit by running fewer tasks at once.
const (
	memoryBase    = 200 << 20
	memoryPerHost = 150 << 10
	memoryPerFlow = 70
)

// PeakBytes predicts the peak memory of an estimate. If the number of flows is not known, it is 0.
func PeakBytes(hosts int, flows int64) int64 {
	return memoryBase + memoryPerHost*int64(hosts) + memoryPerFlow*flows
}

// PeakBytes predicts the peak memory of an estimate of the scenario.
func (m *Model) PeakBytes() (int64, error) {
	_, g, err := completeGenerated(m.Lake, generated(m.Lake, m.ID()))
	if err != nil {
		return 0, err
	}
	return PeakBytes(len(m.Network.Hosts()), g.Flows), nil
}
