package pipeline

import (
	"errors"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
	"parsimon/stages/topology"
)

// accessBps returns the bandwidth of each node, the sum over its links.
func accessBps(n *topology.Network) []float64 {
	bps := make([]float64, len(n.Nodes))
	for _, l := range n.Links {
		bps[l.Src] += float64(l.BandwidthBps)
	}
	return bps
}

// A fluid follows the flows of a workload as if each had an equal part of the bandwidth of its hosts, which
// it shares with the flows that are there when it starts. It is far simpler than a simulation and shows
// bursts: many flows that are in the network at the same time.
type fluid struct {
	params      *simkernel.Params
	accessBps   []float64 // of each node
	roundTripNS int64     // without queues, of an average path

	atHost         []int // flows in the network that a node sends or receives
	inNetwork      calendar.MinHeap[flowEnd]
	packets        float64
	activePackets  float64 // packets × flows in the network
	busyNS         float64 // time in which flows are in the network
	busyUntilNS    float64
	flows, flowsOf int64 // flows that were read, and all
}

// mostFlows is the number of flows of a workload that forecasts consider. To draw and route them takes 3 s of
// processor time with 6,144 hosts, and to read them a tenth of a second.
const mostFlows = 1_000_000

var errEnough = errors.New("enough flows")

// read reads the first flows of an estimate.
func (f *fluid) read(e *Estimation) error {
	f.atHost = make([]int, len(f.accessBps))
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
		done := f.inNetwork.Pop()
		f.atHost[done.src]--
		f.atHost[done.dst]--
	}
	packets := float64(f.params.Packets(bytes))
	f.packets += packets
	f.activePackets += packets * float64(len(f.inNetwork)+1)
	bps := max(1, min(f.accessBps[src], f.accessBps[dst]))
	sharing := 1 + max(f.atHost[src], f.atHost[dst])
	end := startNS + float64(bytes)*8e9/bps*float64(sharing) + float64(f.roundTripNS)
	f.inNetwork.Push(flowEnd{end, src, dst})
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

// Before reports whether the flow ends before another one.
func (e flowEnd) Before(other flowEnd) bool { return e.endNS < other.endNS }
