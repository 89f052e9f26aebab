package linkcase

import "parsimon/simkernel"

// aloneTimes has the speeds of the links that space a flow's packets in a case. A speed is 0 if the case does
// not have the link.
type aloneTimes struct {
	source, upstream, target, downstream simkernel.WireTime

	pace simkernel.WireTime // between packets, at line rate, where that is below the source's bandwidth
}

// of sets the speeds to those of a flow's links, except target.
func (a *aloneTimes) of(k *Kernel, c *Case, row int) {
	s := &k.sources[c.Source[row]]
	a.source, a.downstream, a.pace = s.wire, slowestWire(c.DownstreamBps, row), 0
	if k.needsPaths {
		limits := k.limitsOf(c, row)
		if limits.LineBps < float64(c.SourceBps[c.Source[row]]) {
			a.pace = simkernel.NewWireTime(limits.LineBps)
		}
	}
	if c.Behind {
		a.upstream = slowestWire(c.UpstreamBps, row)
	}
}

// fctPS returns the FCT, without propagation, of a flow that is alone and whose window never binds. It has n
// packets, which are full except the last. The last one arrives earlyPS earlier than a full packet. Full
// packets arrive at intervals of the longest transmission time of the links before. The arrival of the last
// packet follows from that.
func (a *aloneTimes) fctPS(n, fullBytes, lastBytes, earlyPS int64) int64 {
	if n == 1 {
		return a.source.PS(lastBytes) - earlyPS + a.target.PS(lastBytes)
	}
	sourcePS := a.source.PS(fullBytes)
	targetPS := a.target.PS(fullBytes)
	downPS := a.downstream.PS(fullBytes)
	gapPS := max(sourcePS, a.pace.PS(fullBytes))     // between packets that leave the host
	arrivePS := max(gapPS, a.upstream.PS(fullBytes)) // and that arrive at the target
	before := n - 2                                  // packets between the first and the last

	arrived := sourcePS + before*arrivePS // the packet before the last, at the target
	at := max(arrived, (before+1)*gapPS+a.source.PS(lastBytes)-earlyPS, arrived+a.upstream.PS(lastBytes))
	departPS := arrivePS
	if a.target > 0 {
		departPS = max(arrivePS, targetPS)
		at = max(at, sourcePS+targetPS+before*departPS) + a.target.PS(lastBytes)
	}
	if a.downstream > 0 {
		at = max(at, sourcePS+targetPS+before*max(departPS, downPS)+downPS) // see behindTarget
	}
	return at
}
