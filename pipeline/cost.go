package pipeline

import (
	"math"

	"parsimon/stages/estimators"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// choosingWorkers is the number of workers that an automatic estimate chooses for, on every machine.
const choosingWorkers = 2

// ExactSeconds predicts the processor time of a simulation of the whole network, in seconds.
func ExactSeconds(hosts int, flows, packetHops int64) float64 {
	const hopsOfAFlow = 4
	w := step.WorkloadSize{
		Hosts: hosts, Links: 2 * hosts, Flows: flows, Hops: hopsOfAFlow * flows, PacketHops: packetHops,
	}
	return estimators.Exact.Estimator().Cost(&w, choosingWorkers).CPUNS / 1e9
}

// A Cost is the predicted time of an estimate.
type Cost struct {
	CPUSeconds float64 `json:"cpu_seconds"` // summed over the cores
	Seconds    float64 `json:"seconds"`     // if no other program uses the cores
}

// costOf predicts how long an estimate by an estimator takes on a number of cores, with the start of the run.
func costOf(by estimators.Name, w *step.WorkloadSize, cores int) Cost {
	return withStart(by.Estimator().Cost(w, cores))
}

// withStart adds the start of the program and of the run to the cost of the steps.
func withStart(c step.PredictedCost) Cost {
	const start = ProgramSeconds + runSeconds
	return Cost{CPUSeconds: start + c.CPUNS/1e9, Seconds: start + c.ElapsedNS/1e9}
}

// sizeOf returns the size of an estimate of flows with these loads.
func (e *Estimation) sizeOf(loads *route.Loads) (step.WorkloadSize, error) {
	g, err := e.Generated()
	if err != nil {
		return step.WorkloadSize{}, err
	}
	w := step.WorkloadSize{Hosts: len(e.Network.Hosts()), Links: len(e.Network.Links), Flows: g.Flows}
	_, w.PacketHops = loads.Totals(e.Network)
	delayNS := 0.0
	for id, l := range loads.Links {
		link := e.Network.Links[id]
		w.Hops += l.Flows
		delayNS += float64(l.Flows) * float64(link.DelayNS)
	}
	w.Limited = !e.Spec.Switches.IsZero() || e.Spec.Classes != nil
	w.AckClocked = e.Spec.Params.Transport.Traits().AckClocked
	w.Moving = e.Spec.Moves.Whole()
	f := &fluid{params: &e.Spec.Params, accessBps: accessBps(e.Network), flowsOf: g.Flows}
	f.roundTripNS = int64(2 * delayNS / float64(max(1, g.Flows)))
	err = f.read(e)
	if g.Closed() { // flows do not start together
		w.Waiting = g.Flows
	} else {
		w.Active = f.meanActive()
	}
	w.Windows = f.windows(e.windowNS(loads), float64(2*w.PacketHops))
	return w, err
}

// windowNS returns the length of a window of the simulation of the whole network: the least time from the
// start of a transmission to the arrival at the other end, over the links that flows cross.
func (e *Estimation) windowNS(loads *route.Loads) float64 {
	least := math.Inf(1)
	for id, l := range loads.Links {
		if l.Flows > 0 {
			link := e.Network.Links[id]
			ackNS := float64(e.Spec.Params.AckBytes) * 8e9 / float64(link.BandwidthBps)
			least = min(least, float64(link.DelayNS)+ackNS)
		}
	}
	return least
}
