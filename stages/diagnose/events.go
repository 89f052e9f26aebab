package diagnose

import (
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
)

// eventShare returns the share of all flows that belongs to one event of congestion, at the link where it is
// largest. An event lasts for the relaxation time of the link's queue:
//
//	time to send a flow × load / (1 - load)²
//
// The flow has the mean size, weighted by size (Whitt, Planning queueing simulations, Management Science
// 35(11), 1989, with Poisson arrivals). An event does not last longer than the workload.
func eventShare(m *step.Model, l *route.Loads, of confidence.Traffic) float64 {
	spanNS := float64(l.LastStartNS - l.FirstStartNS)
	largest := 0.0
	for id, link := range m.Network.Links {
		load := offered(l, &m.Params, link)
		if load == 0 {
			continue
		}
		lasts := 1.0 // as a share of the workload
		if load < 1 {
			sendNS := of.ByteMeanBytes * 8e9 / float64(link.BandwidthBps)
			lasts = min(1, sendNS*load/((1-load)*(1-load))/spanNS)
		}
		largest = max(largest, lasts*float64(l.Links[id].Flows)/float64(max(1, of.Flows)))
	}
	return largest
}
