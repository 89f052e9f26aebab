package exact

import (
	"math"

	"parsimon/stages/step"
)

// Constants of the processor time, in ns with one worker, of a simulation of the whole network.
// exact-cores.md has the measurements. datasets/results/forecast.md has the errors of the predictions.
//
// A packet-hop costs more with more hosts, because their state does not fit into the caches. The cost is
// interpolated between two measured numbers of hosts, in the logarithm of the number of hosts. Flows that are
// in the network at the same time have state, too, with the packets that they have in flight: 20,000 flows of
// a burst took 500 MB. So each doubling of the number of flows beyond usualFlows adds a share to the cost of
// a packet-hop. A window costs the same regardless of the number of packets in it. In tiny or idle networks,
// most of the time is that of windows: there a packet-hop takes up to 504 ns.
const (
	hopNS      = 67  // with smallHosts or fewer
	hopMostNS  = 108 // with largeHosts or more
	smallHosts = 256
	largeHosts = 6144
	windowNS   = 220

	usualFlows      = 1280 // 32 MB of state, about as much as the caches hold
	usualOfHosts    = 0.25 // flows for each host that large networks have at these costs anyway
	doublingShare   = 0.6
	demandingFactor = 1.4 // buffers, classes and TCP: 1.3 to 1.5

	// Processor time of the steps beside the simulation, for each flow and for each link of its path.
	flowNS    = 1_500
	flowHopNS = 900

	// Bytes on disk for each flow and link of its path, on scenario small with 60 ms: 96,494 hops, 1.79 MB.
	flowHopBytes = 19
)

// With w workers, a simulation of the whole network is w^gain times as fast as with one. The exponent grows
// with the logarithm of the number of hosts. It was measured with two workers: 1.34 times as fast at 256
// hosts, 1.57 at 2,048 and 1.71 at 6,144. Workers that wait for each other use their cores.
const (
	gain           = 0.42  // with smallHosts
	gainMost       = 0.774 // with largeHosts
	portsOfADomain = 16    // a worker has at least this number of ports
)

// cost predicts the cost of an estimate.
func cost(w *step.WorkloadSize, cores int) step.PredictedCost {
	workers := float64(max(1, min(cores, w.Links/portsOfADomain)))
	elapsedNS := simulationNS(w) / speedup(w, workers)
	others := step.OfTasks(float64(w.Flows)*flowNS+float64(w.Hops)*flowHopNS, cores)
	return step.PredictedCost{
		CPUNS:     elapsedNS*workers + others.CPUNS,
		ElapsedNS: elapsedNS + others.ElapsedNS,
		DiskBytes: w.Hops * flowHopBytes,
	}
}

// simulationNS predicts the time, in ns with one worker, of a simulation of the whole network.
func simulationNS(w *step.WorkloadSize) float64 {
	perHopNS := hopNS + min(1, max(0, position(w.Hosts)))*(hopMostNS-hopNS)
	usual := usualFlows + usualOfHosts*float64(w.Hosts)
	if w.Active > usual {
		perHopNS *= 1 + doublingShare*math.Log2(w.Active/usual)
	}
	if w.Demanding {
		perHopNS *= demandingFactor
	}
	return float64(w.PacketHops)*perHopNS + w.Windows*windowNS
}

// speedup returns how many times as fast as one worker a number of workers is.
func speedup(w *step.WorkloadSize, workers float64) float64 {
	exponent := gain + position(w.Hosts)*(gainMost-gain)
	return math.Pow(workers, max(0, min(1, exponent)))
}

// position returns the position of a number of hosts between smallHosts and largeHosts, in logarithms. It is
// negative below smallHosts.
func position(hosts int) float64 {
	return math.Log(float64(max(1, hosts))/smallHosts) / math.Log(float64(largeHosts)/smallHosts)
}
