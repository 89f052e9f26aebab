package pipeline

import (
	"container/heap"
	"errors"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/estimators"
	"parsimon/stages/route"
	"parsimon/stages/topology"
)

// A workSize holds the quantities that determine how long an estimate takes. The flows and their loads are
// known after stage route.
type workSize struct {
	hosts      int
	links      int
	flows      int64
	hops       int64   // of all flows: links of their paths
	packetHops int64   // packets × links of their paths
	loadedHops float64 // flows × the loads of the links of their paths
	windows    float64 // windows of the simulation of the whole network in which it has work
	active     float64 // flows in the network when a packet is sent, on average
	demanding  bool    // buffers, classes or TCP: ports and senders do more for a packet
}

// Constants of the processor time, in ns with one worker, of a simulation of the whole network (exact).
// exact-cores.md has the measurements. datasets/results/forecast.md has the errors of the predictions.
//
// A packet-hop costs more with more hosts, because their state does not fit into the caches. The cost is
// interpolated between two measured numbers of hosts, in the logarithm of the number of hosts. Flows that are
// in the network at the same time have state, too, with the packets that they have in flight: 20,000 flows of
// a burst took 500 MB. So each doubling of the number of flows beyond usualFlows adds a share to the cost of
// a packet-hop. A window costs the same regardless of the number of packets in it. In tiny or idle networks,
// most of the time is that of windows: there a packet-hop takes up to 504 ns.
const (
	exactHopNS     = 67  // with smallHosts or fewer
	exactHopMostNS = 108 // with largeHosts or more
	smallHosts     = 256
	largeHosts     = 6144
	exactWindowNS  = 220

	usualFlows      = 460  // 12 MB of state, about as much as the caches hold
	usualOfHosts    = 0.25 // flows for each host that large networks have at these costs anyway
	doublingShare   = 0.47
	demandingFactor = 1.4 // buffers, classes and TCP: 1.3 to 1.5

	// Processor time of the stages beside the simulation, for each flow and for each link of its path.
	exactFlowNS    = 1_500
	exactFlowHopNS = 900
)

// With w workers, a simulation of the whole network is w^gain times as fast as with one. The exponent grows
// with the logarithm of the number of hosts. It was measured with two workers: 1.34 times as fast at 256
// hosts, 1.57 at 2,048 and 1.71 at 6,144. Workers that wait for each other use their cores. Link cases are
// independent of each other: two workers are 1.9 times as fast.
const (
	exactGain       = 0.42 // with smallHosts
	exactGainMost   = 0.774
	linkCaseGain    = 0.93
	portsOfADomain  = 16 // a worker has at least this number of ports
	choosingWorkers = 2  // an automatic estimate chooses as if it ran on these
)

// Constants of two passes of link cases and of estimator independent, in ns of processor time on two workers.
const (
	passesHopNS = 30
	// Processor time of two passes, per flow and link with a load of 1, for observing the queues that a flow
	// meets there.
	passesLoadedHopNS = 20_000

	independentHopNS     = 11
	independentFlowHopNS = 1_300
)

// grown returns the position of a number of hosts between smallHosts and largeHosts, in logarithms. It is
// negative below smallHosts.
func (w workSize) grown() float64 {
	return math.Log(float64(max(1, w.hosts))/smallHosts) / math.Log(float64(largeHosts)/smallHosts)
}

// exactOneNS predicts the time, in ns with one worker, of a simulation of the whole network.
func (w workSize) exactOneNS() float64 {
	hopNS := exactHopNS + min(1, max(0, w.grown()))*(exactHopMostNS-exactHopNS)
	usual := usualFlows + usualOfHosts*float64(w.hosts)
	if w.active > usual {
		hopNS *= 1 + doublingShare*math.Log2(w.active/usual)
	}
	if w.demanding {
		hopNS *= demandingFactor
	}
	return float64(w.packetHops)*hopNS + w.windows*exactWindowNS
}

// exactSpeedup returns how many times as fast as one worker a number of workers is.
func (w workSize) exactSpeedup(workers int) float64 {
	used := max(1, min(workers, w.links/portsOfADomain))
	gain := exactGain + w.grown()*(exactGainMost-exactGain)
	return math.Pow(float64(used), max(0, min(1, gain)))
}

// flowsNS predicts the processor time, in ns, of the stages of estimator exact beside the simulation.
func (w workSize) flowsNS() float64 {
	return float64(w.flows)*exactFlowNS + float64(w.hops)*exactFlowHopNS
}

// exactNS predicts the processor time, in ns, of an estimate by simulation of the whole network. Workers that
// wait for others take processor time, too.
func (w workSize) exactNS(workers int) float64 {
	used := max(1, min(workers, w.links/portsOfADomain))
	return w.exactOneNS()*float64(used)/w.exactSpeedup(workers) + w.flowsNS()
}

// ExactSeconds predicts the processor time of a simulation of the whole network, in seconds.
func ExactSeconds(hosts int, flows, packetHops int64) float64 {
	const hopsOfAFlow = 4
	w := workSize{
		hosts: hosts, links: 2 * hosts, flows: flows, hops: hopsOfAFlow * flows, packetHops: packetHops,
	}
	return w.exactNS(choosingWorkers) / 1e9
}

// twoPassesNS predicts the processor time, in ns, of two passes of link cases.
func (w workSize) twoPassesNS() float64 {
	return float64(w.packetHops)*passesHopNS + w.loadedHops*passesLoadedHopNS
}

// independentNS predicts the processor time, in ns, of estimator independent.
func (w workSize) independentNS() float64 {
	return float64(w.packetHops)*independentHopNS + float64(w.hops)*independentFlowHopNS
}

// A Cost is the predicted time of an estimate.
type Cost struct {
	CPUSeconds float64 `json:"cpu_seconds"` // summed over the cores
	Seconds    float64 `json:"seconds"`     // if no other program uses the cores
}

// cost predicts how long an estimate by an estimator takes on a number of cores.
func (w workSize) cost(by estimators.Name, cores int) Cost {
	gained := math.Pow(float64(cores), linkCaseGain)
	cpu := 0.0
	seconds := 0.0
	switch by {
	case estimators.Exact:
		cpu = w.exactNS(cores) / 1e9
		seconds = (w.exactOneNS()/w.exactSpeedup(cores) + w.flowsNS()/gained) / 1e9
	case estimators.Flow:
		cpu = w.twoPassesNS() / 1e9
		seconds = cpu / gained
	default:
		cpu = w.independentNS() / 1e9
		seconds = cpu / gained
	}
	return Cost{CPUSeconds: startSeconds + cpu, Seconds: startSeconds + seconds}
}

// sizeOf returns the size of an estimate of flows with these loads.
func (e *Estimation) sizeOf(loads *route.Loads) (workSize, error) {
	g, err := e.Generated()
	if err != nil {
		return workSize{}, err
	}
	w := workSize{hosts: len(e.Network.Hosts()), links: len(e.Network.Links), flows: g.Flows}
	_, w.packetHops = loads.Totals(e.Network)
	delayNS := 0.0
	for id, l := range loads.Links {
		link := e.Network.Links[id]
		w.hops += l.Flows
		w.loadedHops += float64(float64(l.Flows) * loads.Load(link))
		delayNS += float64(l.Flows) * float64(link.DelayNS)
	}
	traits := e.Spec.Params.Transport.Traits()
	w.demanding = !e.Spec.Switches.IsZero() || e.Spec.Classes != nil || traits.AckClocked
	f := &fluid{params: &e.Spec.Params, accessBps: accessBps(e.Network), flowsOf: g.Flows}
	f.roundTripNS = int64(2 * delayNS / float64(max(1, g.Flows)))
	err = f.read(e)
	if !g.Closed() { // otherwise flows wait for others and do not start together
		w.active = f.meanActive()
	}
	w.windows = f.windows(e.windowNS(loads), float64(2*w.packetHops))
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

// accessBps returns the bandwidth of each host, the sum over its links, by node.
func accessBps(n *topology.Network) map[int32]float64 {
	bps := map[int32]float64{}
	for _, host := range n.Hosts() {
		bps[host] = 0
	}
	for _, l := range n.Links {
		if _, isHost := bps[l.Src]; isHost {
			bps[l.Src] += float64(l.BandwidthBps)
		}
	}
	return bps
}

// A fluid follows the flows of a workload as if each had an equal part of the bandwidth of its hosts, which
// it shares with the flows that are there when it starts. It is far simpler than a simulation and shows
// bursts: many flows that are in the network at the same time.
type fluid struct {
	params      *simkernel.Params
	accessBps   map[int32]float64
	roundTripNS int64 // without queues, of an average path

	atHost         map[int32]int // flows in the network that a host sends or receives
	inNetwork      endHeap
	packets        float64
	activePackets  float64 // packets × flows in the network
	busyNS         float64 // time in which flows are in the network
	busyUntilNS    float64
	flows, flowsOf int64 // flows that were read, and all
}

// mostFlows is the number of flows that a fluid reads, which takes a tenth of a second.
const mostFlows = 1_000_000

var errEnough = errors.New("enough flows")

// read reads the first flows of an estimate.
func (f *fluid) read(e *Estimation) error {
	f.atHost = map[int32]int{}
	in, err := e.Read(schema.Flows)
	if err != nil {
		return err
	}
	type row struct {
		Src   int32 `col:"src"`
		Dst   int32 `col:"dst"`
		Bytes int64 `col:"size_bytes"`
		Start int64 `col:"start_ns"`
	}
	f.busyUntilNS = math.Inf(-1)
	err = columns.Each(in, func(r *row) error {
		if f.flows == mostFlows {
			return errEnough
		}
		f.add(r.Src, r.Dst, r.Bytes, float64(r.Start))
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// add adds the next flow in order of their starts.
func (f *fluid) add(src, dst int32, bytes int64, startNS float64) {
	f.flows++
	if bytes <= 0 || src == dst {
		return
	}
	for len(f.inNetwork) > 0 && f.inNetwork[0].endNS <= startNS {
		done := heap.Pop(&f.inNetwork).(flowEnd)
		f.atHost[done.src]--
		f.atHost[done.dst]--
	}
	packets := float64(f.params.Packets(bytes))
	f.packets += packets
	f.activePackets += packets * float64(len(f.inNetwork)+1)
	bps := max(1, min(f.accessBps[src], f.accessBps[dst]))
	sharing := 1 + max(f.atHost[src], f.atHost[dst])
	end := startNS + float64(bytes)*8e9/bps*float64(sharing) + float64(f.roundTripNS)
	heap.Push(&f.inNetwork, flowEnd{end, src, dst})
	f.atHost[src]++
	f.atHost[dst]++
	f.busyNS += max(0, end-max(startNS, f.busyUntilNS))
	f.busyUntilNS = max(f.busyUntilNS, end)
}

// meanActive returns the number of flows in the network when a packet is sent, on average.
func (f *fluid) meanActive() float64 { return f.activePackets / max(1, f.packets) }

// windows returns the number of windows of a length in which at least one of the items arrives somewhere. An
// item is a packet or an ACK on a link. Items are spread at random over the time in which flows are in the
// network.
func (f *fluid) windows(lengthNS, items float64) float64 {
	if f.flows == 0 || math.IsInf(lengthNS, 1) {
		return 0
	}
	busy := f.busyNS / lengthNS
	if f.flowsOf > f.flows {
		busy *= float64(f.flowsOf) / float64(f.flows)
	}
	return busy * -math.Expm1(-items/max(1, busy))
}

// A flowEnd is the end of a flow between two hosts.
type flowEnd struct {
	endNS    float64
	src, dst int32
}

// An endHeap is a heap of flows, the one that ends first on top.
type endHeap []flowEnd

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].endNS < h[j].endNS }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *endHeap) Push(x any) { *h = append(*h, x.(flowEnd)) }

// Pop implements heap.Interface.
func (h *endHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
