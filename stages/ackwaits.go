package stages

import (
	"math"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// ackWaits returns, by link, what the ACKs of its packets wait for data on the reverse link, in ns and in the mean; nil
// if it is not known when the reverse links send (Loads.BothBusy).
//
// ACKs come before all data (package simkernel), so an ACK waits at most for the packet that is being sent. (At
// switches with DCQCN they do not, and this is less than they wait.) If one is being sent, which has the probability
// BothBusy, and the ACK comes at any time, the rest of a full packet takes half of its time in the mean (Kleinrock,
// Queueing Systems 1, §5.2: residual life). It is more where an ACK follows the same packet from link to link. Flows
// without feedback are not given the wait: they meet no queue but that of one case.
func ackWaits(n *topology.Network, p *simkernel.Params, loads *Loads) []float64 {
	if loads.BothBusy == nil {
		return nil
	}
	ns := make([]float64, len(n.Links))
	for id := range ns {
		if p.Transport.AcksQueue() && !n.FromHost(topology.Reverse(int32(id))) {
			continue
		}
		sendNS := p.SendNS(p.PayloadBytes+p.HeaderBytes, n.Links[id].BandwidthBps)
		ns[id] = float64(loads.BothBusy[id] * float64(sendNS) / 2)
	}
	return ns
}

// ackWaitNS returns what an ACK of the current path waits.
func (x *FeedbackBuilder) ackWaitNS() int32 {
	if x.ackWaits == nil {
		return 0
	}
	ns := 0.0
	for _, id := range x.path {
		ns += x.ackWaits[id]
	}
	return int32(min(math.Round(ns), math.MaxInt32))
}
