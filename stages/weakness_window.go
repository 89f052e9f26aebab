package stages

import (
	"fmt"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Part of all flows' FCT that is due to windows smaller than their paths need, from which on it is a warning.
const windowShare = 0.01

// windowLimits are flows whose window is smaller than their path needs.
type windowLimits struct {
	flows, limited int64
	fctNS, ownNS   float64 // sums of FCTs, and of the parts that are the window's
	worstNS        int64   // the longest such part
	worstPath      []int32 // of that flow
}

// add counts a flow.
func (w *windowLimits) add(fctNS, windowNS int64, path []int32) {
	w.flows++
	w.fctNS += float64(fctNS)
	if windowNS == 0 {
		return
	}
	w.limited++
	w.ownNS += float64(windowNS)
	if windowNS > w.worstNS {
		w.worstNS, w.worstPath = windowNS, append(w.worstPath[:0], path...)
	}
}

// warnings returns a row if windows cost much.
func (w *windowLimits) warnings(n *topology.Network, p *simkernel.Params) []Weakness {
	share := w.ownNS / max(1, w.fctNS)
	if share < windowShare {
		return nil
	}
	var alone simkernel.IdealPath
	alone.Reset(p)
	for _, id := range w.worstPath {
		alone.Add(n.Links[id].BandwidthBps, n.Links[id].DelayNS)
	}
	path := alone.Path()
	first, last := n.Links[w.worstPath[0]], n.Links[w.worstPath[len(w.worstPath)-1]]
	return []Weakness{{"window", share, windowShare, -1, fmt.Sprintf(
		"the window is smaller than the paths of %.0f%% of the flows need, which makes %.0f%% of all FCT: most on the path from %s "+
			"to %s, whose round trip of %.4g µs at %s needs %s where %s are stated. Fit it to each path with --window auto "+
			"(scenario file: transport.window)", 100*float64(w.limited)/float64(max(1, w.flows)), 100*share, n.Name(first.Src),
		n.Name(last.Dst), float64(path.RoundTripNS)/1000, topology.FormatBps(path.SlowestBps),
		sizeOf(p.NeededWindow(path)),
		sizeOf(p.Limits(float64(first.BandwidthBps), path).WindowBytes))}}
}

// sizeOf writes a size in bytes for people.
func sizeOf(bytes int64) string {
	switch {
	case bytes >= 1e6:
		return fmt.Sprintf("%.3g MB", float64(bytes)/1e6)
	case bytes >= 1e3:
		return fmt.Sprintf("%.3g KB", float64(bytes)/1e3)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
