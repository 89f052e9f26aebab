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
	params Params
	hops   []WireTime
	propPS int64
}

// Reset empties the path.
func (p *IdealPath) Reset(params *Params) {
	p.params = *params
	p.hops = p.hops[:0]
	p.propPS = 0
}

// Add appends a link to the path.
func (p *IdealPath) Add(bandwidthBps, delayNS int64) {
	p.hops = append(p.hops, NewWireTime(float64(bandwidthBps)))
	p.propPS += delayNS * PSPerNS
}

// FCTNS returns the ideal FCT in ns, rounded up, of a flow of sizeBytes > 0 whose window never binds.
func (p *IdealPath) FCTNS(sizeBytes int64) int64 {
	return CeilNS(p.fctPS(sizeBytes))
}

func (p *IdealPath) fctPS(sizeBytes int64) int64 {
	n := p.params.Packets(sizeBytes)
	last := p.params.LastBytes(sizeBytes)
	var lastSum int64
	for _, h := range p.hops {
		lastSum += h.PS(last)
	}
	if n == 1 {
		return p.propPS + lastSum
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
	return p.propPS + best
}

// CeilNS rounds a duration up to whole ns. FCTs and ideals use the same rule, which keeps FCT >= ideal.
func CeilNS(ps int64) int64 {
	return (ps + PSPerNS - 1) / PSPerNS
}
