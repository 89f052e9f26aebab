package step

import "math"

// A WorkloadSize holds the quantities that determine how long an estimate takes. They are known after the
// flows are routed.
type WorkloadSize struct {
	Hosts      int
	Links      int
	Flows      int64
	Hops       int64   // of all flows: links of their paths
	PacketHops int64   // packets × links of their paths
	Windows    float64 // windows of the simulation of the whole network in which it has work
	Active     float64 // flows in the network when a packet is sent, on average
	Waiting    int64   // flows that may wait for others

	// What ports and senders do more for a packet.
	Limited    bool // buffers are limited, or ports have classes
	AckClocked bool // TCP
	Moving     bool // a flow has more than one path
}

// Crowding returns the doublings of the flows that a host has in the network, beyond one.
func (w *WorkloadSize) Crowding() float64 {
	return math.Log2(1 + w.Active/float64(max(1, w.Hosts)))
}

// Multiply scales the size to times as many flows.
func (w *WorkloadSize) Multiply(times float64) {
	for _, count := range []*int64{&w.Flows, &w.Hops, &w.PacketHops, &w.Waiting} {
		*count = int64(times * float64(*count))
	}
	w.Windows *= times
}

// A PredictedCost is the predicted cost of the steps of an estimate.
type PredictedCost struct {
	CPUNS     float64 // processor time, summed over the cores
	ElapsedNS float64 // time if no other program uses the cores
	DiskBytes int64   // of the tables that are kept, excluding those of flows and hops
}

// tasksGain is the measured gain of workers that run independent tasks: two are 1.9 times as fast as one.
const tasksGain = 0.93

// OfTasks returns the cost of independent tasks, such as link cases, that take cpuNS of processor time.
func OfTasks(cpuNS float64, cores int) PredictedCost {
	return PredictedCost{CPUNS: cpuNS, ElapsedNS: cpuNS / math.Pow(float64(cores), tasksGain)}
}
