package exact

import (
	"math"

	"parsimon/stages/step"
)

// Constants of the processor time, in ns with one worker, of an estimate. They are fitted to measured runs:
// datasets/results/forecast-fit.md has the measurements and the errors, also of runs that were not fitted.
const (
	packetHopNS = 80    // if the state of hosts and flows fits into the caches
	windowNS    = 53    // regardless of the number of packets in the window
	hopNS       = 2_000 // a link of the path of a flow, in all steps
	waitingNS   = 4_500 // a flow that waits for others

	// State beyond that of cachedFlows flows is in memory. Each doubling makes a packet-hop take doublingNS
	// longer. The state of a host, with its links, is as large as that of hostFlows flows.
	cachedFlows = 640
	hostFlows   = 0.125
	doublingNS  = 28

	// What a packet-hop takes longer with limited buffers or classes, with TCP, and if paths change.
	limitedNS    = 48
	ackClockedNS = 40
	movingNS     = 165

	// Bytes on disk for each flow and link of its path, on scenario small with 60 ms: 95,950 hops, 1.66 MB.
	flowHopBytes = 17
)

// With w workers, a simulation of the whole network is w^gain times as fast as with one. Two workers are 1.4
// to 1.7 times as fast for 256 to 6,144 hosts (datasets/results/headline.md). Workers that wait for each
// other use their cores.
const (
	gain           = 0.6
	portsOfADomain = 16 // a worker has at least this number of ports
)

// cost predicts the cost of an estimate.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	workers := float64(max(1, min(cores, w.Links/portsOfADomain)))
	elapsedNS := simulationNS(w) / math.Pow(workers, gain)
	others := step.OfTasks(float64(w.Hops)*hopNS, cores)
	return step.PredictedCost{
		CPUNS:     elapsedNS*workers + others.CPUNS,
		ElapsedNS: elapsedNS + others.ElapsedNS,
		DiskBytes: w.Hops * flowHopBytes,
	}
}

// simulationNS predicts the time, in ns with one worker, of a simulation of the whole network.
func simulationNS(w *step.WorkloadSize) float64 {
	state := w.Active + hostFlows*float64(w.Hosts)
	ns := packetHopNS + doublingNS*math.Log2(max(1, state/cachedFlows))
	for _, more := range []struct {
		is bool
		ns float64
	}{
		{w.Limited, limitedNS}, {w.AckClocked, ackClockedNS}, {w.Moving, movingNS},
	} {
		if more.is {
			ns += more.ns
		}
	}
	return float64(w.PacketHops)*ns + w.Windows*windowNS + float64(w.Waiting)*waitingNS
}
