package pipeline

import (
	"context"

	"parsimon/stages/estimators"
)

// A Forecast is what an estimate is expected to take.
type Forecast struct {
	Hosts      int              `json:"hosts"`
	Flows      int64            `json:"flows"`
	PacketHops int64            `json:"packet_hops"`
	Estimators []EstimatorCosts `json:"estimators"` // exact, if it is possible, and flow, if it is
	// Estimator is the one with which an estimate with Auto begins, and Reason says why.
	Estimator string `json:"estimator"`
	Reason    string `json:"reason"`
	// MaxLoad is the load of the most loaded link, headers included, and AskedLoad the load that the flows were drawn
	// for: 0 for traces.
	MaxLoad   float64 `json:"max_load"`
	AskedLoad float64 `json:"asked_load,omitempty"`
}

// EstimatorCosts are what one estimator is expected to take.
type EstimatorCosts struct {
	Estimator  string  `json:"estimator"`
	CPUSeconds float64 `json:"cpu_seconds"`
	DiskBytes  int64   `json:"disk_bytes"` // of the tables that remain
}

// Costs that do not depend on the packets. startSeconds is the processor time that every run takes (prediction.md). The
// bytes on disk for each hop of a flow, beside the tables of flows and hops, are those of scenario small with 60 ms: 96,494
// hops, 1.79 MB by exact and 1.05 MB by two passes.
const (
	startSeconds  = 0.7
	exactHopBytes = 19
	flowHopBytes  = 11
)

// Forecast runs the first stages of the plan, up to route, and predicts the rest.
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
