package independent

import "parsimon/stages/step"

// Costs of an estimate: processor time in ns, fitted to measured runs (datasets/results/forecast-fit.md), and
// bytes on disk.
const (
	packetHopNS = 18
	hopNS       = 860   // a link of the path of a flow, in all steps
	crowdedNS   = 1_100 // the same for each doubling of the flows at a host
	// For each flow and link of its path: 95,950 hops of scenario small take 0.92 MB, most of it for delays.
	flowHopBytes = 10
)

// cost predicts the cost of an estimate.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	ns := float64(w.PacketHops)*packetHopNS + float64(w.Hops)*(hopNS+crowdedNS*w.Crowding())
	c := step.OfTasks(ns, cores)
	c.DiskBytes = w.Hops * flowHopBytes
	return c
}
