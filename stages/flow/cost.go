package flow

import "parsimon/stages/step"

// Costs of two passes of link cases: processor time in ns, fitted to measured runs
// (datasets/results/forecast-fit.md), and bytes on disk.
const (
	packetHopNS = 53
	hopNS       = 520   // a link of the path of a flow, in all steps
	crowdedNS   = 3_900 // the same for each doubling of the flows at a host, whose queues a flow observes
	// For each flow and link of its path: 95,950 hops of scenario small take 0.87 MB.
	flowHopBytes = 9
)

// cost predicts the cost of an estimate in two passes.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	ns := float64(w.PacketHops)*packetHopNS + float64(w.Hops)*(hopNS+crowdedNS*w.Crowding())
	c := step.OfTasks(ns, cores)
	c.DiskBytes = w.Hops * flowHopBytes
	return c
}
