package independent

import "parsimon/stages/step"

// Costs of an estimate, measured on scenario small: processor time in ns, and bytes on disk.
const (
	packetHopNS = 11
	// For each flow and link of its path: 83,648 of them take 1.13 MB, which are mostly contributions of hops.
	flowHopNS    = 1_150
	flowHopBytes = 14
)

// cost predicts the cost of an estimate.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	c := step.OfTasks(float64(w.PacketHops)*packetHopNS+float64(w.Hops)*flowHopNS, cores)
	c.DiskBytes = w.Hops * flowHopBytes
	return c
}
