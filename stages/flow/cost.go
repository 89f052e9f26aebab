package flow

import "parsimon/stages/step"

// Costs of two passes of link cases, measured on scenario small: processor time in ns, and bytes on disk.
const (
	packetHopNS = 30
	// For each flow and link with a load of 1, to observe the queues that a flow meets there.
	loadedHopNS = 20_000
	// For each flow and link of its path: 96,494 hops take 1.05 MB.
	flowHopBytes = 11
)

// cost predicts the cost of an estimate in two passes.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	c := step.OfTasks(float64(w.PacketHops)*packetHopNS+w.LoadedHops*loadedHopNS, cores)
	c.DiskBytes = w.Hops * flowHopBytes
	return c
}
