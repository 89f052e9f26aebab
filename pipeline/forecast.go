package pipeline

import (
	"context"

	"parsimon/stages/estimators"
)

// A Forecast predicts the costs of an estimate.
type Forecast struct {
	Hosts      int              `json:"hosts"`
	Flows      int64            `json:"flows"`
	PacketHops int64            `json:"packet_hops"`
	Estimators []EstimatorCosts `json:"estimators"` // exact and flow, each if it is possible
	// Estimator is the estimator with which an automatic estimate begins. Reason explains the choice.
	Estimator string `json:"estimator"`
	Reason    string `json:"reason"`
	// MaxLoad is the load of the most loaded link, including headers. AskedLoad is the load for which the
	// flows were drawn; 0 for traces.
	MaxLoad   float64 `json:"max_load"`
	AskedLoad float64 `json:"asked_load,omitempty"`
}

// EstimatorCosts are the predicted costs of one estimator.
type EstimatorCosts struct {
	Estimator  string  `json:"estimator"`
	CPUSeconds float64 `json:"cpu_seconds"`
	DiskBytes  int64   `json:"disk_bytes"` // of the tables that are kept
}

// Costs that do not depend on the packets. startSeconds is the processor time of the start of every run
// (prediction.md). The bytes on disk per hop of a flow, excluding the tables of flows and hops, were measured
// on scenario small with 60 ms: 96,494 hops take 1.79 MB with exact and 1.05 MB with two passes.
const (
	startSeconds  = 0.7
	exactHopBytes = 19
	flowHopBytes  = 11
)

// Forecast runs the first stages of the plan, up to and including route, and predicts the costs of the
// others.
func (e *Estimation) Forecast(ctx context.Context) (*Forecast, error) {
	e.variant = Variant{Estimator: estimators.Exact}
	first, err := look(ctx, e)
	if err != nil {
		return nil, err
	}
	exact, why, err := e.choose(&first)
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
	f := &Forecast{Hosts: first.hosts, Flows: first.flows, PacketHops: first.packetHops, Reason: why,
		AskedLoad: g.ExpectedMaxLoad}
	var hops int64
	for id, l := range loads.Links {
		hops += l.Flows
		f.MaxLoad = max(f.MaxLoad, loads.Load(e.Network.Links[id]))
	}
	status, err := ReadScenarioStatus(e.Lake, e.ID(), false)
	if err != nil {
		return nil, err
	}
	var bytes int64
	for _, s := range status.Stages {
		bytes += s.Bytes
	}
	if first.unable == nil {
		f.Estimators = append(f.Estimators, EstimatorCosts{estimators.Exact.String(),
			startSeconds + first.exactNS()/1e9, bytes + exactHopBytes*hops})
	}
	if !first.whole {
		f.Estimators = append(f.Estimators, EstimatorCosts{estimators.Flow.String(),
			startSeconds + first.twoPassesNS()/1e9, bytes + flowHopBytes*hops})
	}
	f.Estimator = estimators.Flow.String()
	if exact {
		f.Estimator = estimators.Exact.String()
	}
	return f, nil
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
