package simkernel

import "math"

// AutoWindow as Params.WindowBytes or Params.WANWindowBytes fits the window of each flow to its path.
const AutoWindow = 0

const (
	// WANRoundTripNS is the round trip of 20 km of fiber. Paths whose round trip is this long or longer have
	// WANWindowBytes. Paths within a data center have round trips of tens of µs.
	WANRoundTripNS = 200_000

	// leastWindow is the minimum number of packets of such a window. With it a sender can notice the loss of
	// a packet, which takes three later packets (RFC 5681, §3.2).
	leastWindow = 4

	// usualRoundTripNS is the round trip of the networks that the defaults of transports are for (the
	// paper's).
	usualRoundTripNS = 14_400

	// nominalWindow is the bandwidth-delay product at 10 Gbps of the usual round trip.
	nominalWindow = 18_000

	// MaxWindowBytes bounds a stated window.
	MaxWindowBytes = 1 << 40

	// A port marks from this part of the round trip over its link on, if that is more than its threshold by
	// bandwidth. K > C × RTT / 7 keeps a link busy (Alizadeh et al., SIGCOMM'10, §3.4, eq. 13). At 3 KB per
	// Gbps, which is 24 µs, this applies from a delay of 84 µs on.
	markRoundTrips = 1.0 / 7
)

// A Path has the properties of a flow's idle path that its sender depends on.
type Path struct {
	Hops        int
	SlowestBps  int64 // bandwidth of the slowest link
	RoundTripNS int64 // of a full packet and its ACK; sending, propagation and forwarding included
	SendNS      int64 // part of RoundTripNS: transmission of the packet and of its ACK at all hops
}

// Limits are the limits of a sender.
type Limits struct {
	LineBps     float64 // the rate never exceeds it, and begins there
	WindowBytes int64   // payload in flight at LineBps
	RoundTripNS int64   // of the idle path, if the window is fitted to it; otherwise 0
	ReturnNS    int64   // wait of an ACK on its way back (Path), if the window is fitted; otherwise 0
	Hops        int
}

// Limits returns the limits of a flow on a path, whose host's link has the bandwidth lineBps. A stated window
// applies at the rate of the host's link, as in the paper. A window that is fitted to the path applies at the
// rate of its slowest link, because a burst at a higher rate would only queue there and be marked. Constants
// that are delays (of TIMELY, HPCC and Swift) are then relative to the path's round trip, too.
func (p *Params) Limits(lineBps float64, path Path) Limits {
	l := Limits{LineBps: lineBps, WindowBytes: p.statedWindow(path), Hops: path.Hops}
	if l.WindowBytes == AutoWindow {
		l.LineBps = min(lineBps, float64(path.SlowestBps))
		l.WindowBytes = p.neededWindow(path)
		l.RoundTripNS = path.RoundTripNS
		l.ReturnNS = p.returnNS(path)
	}
	return l
}

// WindowAt returns how much payload may be in flight at a rate.
func (l *Limits) WindowAt(rateBps float64) int64 { return windowAt(l.WindowBytes, rateBps, l.LineBps) }

func windowAt(atLine int64, rateBps, lineBps float64) int64 {
	return max(1, int64(float64(atLine)*rateBps/lineBps))
}

// moreNS returns how much higher thresholds of delay are on the path than on the paths that their defaults
// are for. Otherwise a sender would slow down for the packets that its ACKs wait behind, which are no
// congestion.
func (l *Limits) moreNS() int64 { return max(0, l.RoundTripNS+l.ReturnNS-usualRoundTripNS) }

// NominalWindow is the window by which flows are divided into blocks and queues are estimated. If windows are
// fitted to paths, it is the paper's.
func (p *Params) NominalWindow() int64 {
	if p.WindowBytes == AutoWindow {
		return nominalWindow
	}
	return p.WindowBytes
}

// NeedsPaths reports whether windows depend on paths, which simulators must then be given.
func (p *Params) NeedsPaths() bool {
	return p.WindowBytes == AutoWindow || p.WANWindowBytes != p.WindowBytes
}

// SetWindow states one window for all paths, or AutoWindow.
func (p *Params) SetWindow(bytes int64) {
	p.WindowBytes = bytes
	p.WANWindowBytes = bytes
}

// statedWindow returns the window of flows on a path; AutoWindow if it is fitted.
func (p *Params) statedWindow(path Path) int64 {
	if path.RoundTripNS >= WANRoundTripNS {
		return p.WANWindowBytes
	}
	return p.WindowBytes
}

// neededWindow returns the least window, in whole packets, with which a flow sends without pause while its
// destination sends as fast in the other direction. A flow alone needs the bandwidth-delay product of its
// path; the window also has room for the packets that an ACK waits behind. A flow alone leaves no queue with
// it, because it sends at the rate of the slowest link.
func (p *Params) neededWindow(path Path) int64 {
	fullPS := NewWireTime(float64(path.SlowestBps)).PS(p.PayloadBytes + p.HeaderBytes)
	packets := ((path.RoundTripNS+p.returnNS(path))*PSPerNS + fullPS - 1) / fullPS
	return max(leastWindow, packets) * p.PayloadBytes
}

// returnNS returns how long an ACK may wait on its way back although it has priority. At each hop it waits
// for the packet in service, which takes up to the transmission time of one full packet.
func (p *Params) returnNS(path Path) int64 {
	full := p.PayloadBytes + p.HeaderBytes
	return path.SendNS * full / (full + p.AckBytes)
}

// WindowDelayNS returns how much longer a flow alone on a path takes because its window is smaller than the
// path needs. With w packets in flight, every w-th packet waits for an ACK. It leaves a round trip R after
// the packet w positions before it, where the slowest link would have sent w packets in w·T.
//
//	⌊(n − 1) / w⌋ · max(0, R − w·T)
//
// A sender of TCP has a receive window, which it reaches after slow start. Until then it sends about a
// window, which n leaves out.
func (p *Params) WindowDelayNS(path Path, sizeBytes int64) int64 {
	window := p.statedWindow(path)
	w := p.Packets(window)
	n := p.Packets(sizeBytes)
	if p.Transport.Traits().AckClocked {
		window = p.TCP.ReceiveWindow
		w = max(1, window/p.PayloadBytes)
		n -= w
	}
	fullPS := NewWireTime(float64(path.SlowestBps)).PS(p.PayloadBytes + p.HeaderBytes)
	if window == AutoWindow || w > path.RoundTripNS*PSPerNS/fullPS {
		return 0
	}
	return max(0, n-1) / w * (path.RoundTripNS - w*fullPS/PSPerNS)
}

// An IdealPath computes the FCT of a flow alone on a path of store-and-forward hops, exactly as the
// simulators of this package do:
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
	p.propPS = 0
	p.path = Path{}
}

// An IdealLink has what an IdealPath needs of a link. Callers with many paths over the same links compute it
// once per link.
type IdealLink struct {
	wire         WireTime
	bandwidthBps int64
	delayNS      int64
	sendNS       int64 // of a full packet and of its ACK
}

// IdealLink returns the IdealLink of a link.
func (p *Params) IdealLink(bandwidthBps, delayNS int64) IdealLink {
	wire := NewWireTime(float64(bandwidthBps))
	sendNS := wire.sendNS(p.PayloadBytes+p.HeaderBytes) + wire.sendNS(p.AckBytes)
	return IdealLink{wire, bandwidthBps, delayNS, sendNS}
}

// Add appends a link to the path.
func (p *IdealPath) Add(bandwidthBps, delayNS int64) {
	link := p.params.IdealLink(bandwidthBps, delayNS)
	p.AddLink(&link)
}

// AddLink appends a link to the path. Its packets must have the sizes of the path's params.
func (p *IdealPath) AddLink(l *IdealLink) {
	p.hops = append(p.hops, l.wire)
	p.propPS += l.delayNS * PSPerNS
	if p.path.Hops == 0 || l.bandwidthBps < p.path.SlowestBps {
		p.path.SlowestBps = l.bandwidthBps
	}
	p.path.Hops++
	p.path.SendNS += l.sendNS
	p.path.RoundTripNS += 2*l.delayNS + l.sendNS
}

// Path returns what senders know of the path, given that both directions of its cables have the same
// bandwidth and delay.
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

// PSPerNS is the resolution of time inside the simulators, an integer number of picoseconds: a full packet
// takes 838.4 ns at 10 Gbps, and rounding to 838 ns would make every link 0.05% faster.
const PSPerNS = 1000

// A WireTime converts bytes on the wire to the time that a link of one bandwidth needs to send them. It is a
// fixed-point number, picoseconds per byte times 2^16, which saves divisions in the loops. Its relative error
// is below 1e-5 up to 100 Tbps.
type WireTime int64

const wireTimeBits = 16

// MinBps is the least bandwidth that can be expressed without overflow for packets of up to 69 KB.
const MinBps = 10_000

// NewWireTime returns the WireTime of a bandwidth of at least MinBps.
func NewWireTime(bps float64) WireTime {
	return WireTime(math.Round(8e12 * (1 << wireTimeBits) / bps))
}

// PS returns the time to send wireBytes, in ps.
func (w WireTime) PS(wireBytes int64) int64 {
	return (wireBytes*int64(w) + 1<<(wireTimeBits-1)) >> wireTimeBits
}

// sendNS returns the time to send wireBytes, rounded to ns.
func (w WireTime) sendNS(wireBytes int64) int64 { return (w.PS(wireBytes) + PSPerNS/2) / PSPerNS }
