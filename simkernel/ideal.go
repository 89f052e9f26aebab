package simkernel

// An IdealPath computes the FCT of a flow alone on a path of store-and-forward hops, exactly as the simulators of
// this package do:
//
//	n packets, all full but the last, over hops with per-packet times full_i and last_i:
//	propagation + max over m of ( Σ_{i≤m} full_i + (n−2)·max_{i≤m} full_i + Σ_{i≥m} last_i )
//	n = 1: propagation + Σ last_i
//
// m is the hop at which the last packet catches up with the one before it for the last time. The zero value
// is an empty path; Reset and Add build one without allocating.
type IdealPath struct {
	params *Params
	hops   []WireTime
	propPS int64
	path   Path
}

// Reset empties the path. It keeps params, which must not change.
func (p *IdealPath) Reset(params *Params) {
	p.params = params
	p.hops = p.hops[:0]
	p.propPS, p.path = 0, Path{}
}

// Add appends a link to the path.
func (p *IdealPath) Add(bandwidthBps, delayNS int64) {
	wire := NewWireTime(float64(bandwidthBps))
	p.hops = append(p.hops, wire)
	p.propPS += delayNS * PSPerNS
	if p.path.Hops == 0 || bandwidthBps < p.path.SlowestBps {
		p.path.SlowestBps = bandwidthBps
	}
	p.path.Hops++
	p.path.RoundTripNS += 2*delayNS + wire.sendNS(p.params.PayloadBytes+p.params.HeaderBytes) +
		wire.sendNS(p.params.AckBytes)
}

// Path returns what senders know of the path, given that both directions of its cables have the same bandwidth and
// delay.
func (p *IdealPath) Path() Path { return p.path }

// FCTNS returns the ideal FCT in ns, rounded up, of a flow of sizeBytes > 0 whose window never binds.
func (p *IdealPath) FCTNS(sizeBytes int64) int64 {
	n := p.params.Packets(sizeBytes)
	last := p.params.LastBytes(sizeBytes)
	var lastSum int64
	for _, h := range p.hops {
		lastSum += h.PS(last)
	}
	if n == 1 {
		return CeilNS(p.propPS + lastSum)
	}
	full := p.params.PayloadBytes + p.params.HeaderBytes
	var best, fullSum, fullMax int64
	for _, h := range p.hops {
		f := h.PS(full)
		fullSum += f
		fullMax = max(fullMax, f)
		best = max(best, fullSum+(n-2)*fullMax+lastSum)
		lastSum -= h.PS(last)
	}
	return CeilNS(p.propPS + best)
}

// CeilNS rounds a duration up to whole ns. FCTs and ideals use the same rule, which keeps FCT >= ideal.
func CeilNS(ps int64) int64 {
	return (ps + PSPerNS - 1) / PSPerNS
}
