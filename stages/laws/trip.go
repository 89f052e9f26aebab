package laws

import (
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// trip is what the packets of a flow need on its path, in ps.
type trip struct {
	net    *topology.Network
	params simkernel.Params
	links  []linkTimes
	alone  simkernel.IdealPath

	packets    int64
	full, last []int64 // by hop: to send a full packet, the last packet; the same for a flow of one packet
	delay      []int64 // by hop: propagation
	oneWay     int64   // of a full packet that waits nowhere
	cycle      int64   // the time D of the second law
	parts      int64   // its k
}

// linkTimes are the times to send a packet of the largest size, an ACK, and an ACK behind such a packet.
type linkTimes struct{ largest, ack, both int64 }

func newTrip(n *topology.Network, p simkernel.Params) trip {
	t := trip{net: n, params: p, links: make([]linkTimes, len(n.Links))}
	largest := p.PayloadBytes + p.HeaderBytes
	for i := range n.Links {
		bps := n.Links[i].BandwidthBps
		t.links[i] = linkTimes{sendPS(largest, bps), sendPS(p.AckBytes, bps), sendPS(p.AckBytes+largest, bps)}
	}
	return t
}

func (t *trip) set(sizeBytes int64, path []int32) {
	p := &t.params
	t.packets = p.Packets(sizeBytes)
	largest := p.PayloadBytes + p.HeaderBytes
	lastBytes := sizeBytes - (t.packets-1)*p.PayloadBytes + p.HeaderBytes
	t.full, t.last, t.delay, t.oneWay = t.full[:0], t.last[:0], t.delay[:0], 0
	back := int64(0)
	for _, id := range path {
		l := &t.net.Links[id]
		last := sendPS(lastBytes, l.BandwidthBps)
		full := last
		if t.packets > 1 {
			full = t.links[id].largest
		}
		delay := l.DelayNS * psPerNS
		t.full, t.last, t.delay = append(t.full, full), append(t.last, last), append(t.delay, delay)
		t.oneWay += full + delay
		back += t.links[id].both + delay
	}
	limits := p.Limits(float64(t.net.Links[path[0]].BandwidthBps), t.path(path))
	line := limits.LineBps
	rate := min(p.MinRateBps, line)
	gap := int64(float64(8*largest) * 1e12 / rate)
	window := max(1, int64(float64(limits.WindowBytes)*rate/line))
	t.cycle = max(t.oneWay+back, gap)
	t.parts = max(1, min((window+p.PayloadBytes-1)/p.PayloadBytes, t.cycle/gap))
}

// path returns what the sender knows of a path.
func (t *trip) path(links []int32) simkernel.Path {
	t.alone.Reset(&t.params)
	for _, id := range links {
		t.alone.Add(t.net.Links[id].BandwidthBps, t.net.Links[id].DelayNS)
	}
	return t.alone.Path()
}

// work is the time to send all packets at a hop.
func (t *trip) work(hop int) int64 { return (t.packets-1)*t.full[hop] + t.last[hop] }

// sendPS is rounded down; the products of packets fit.
func sendPS(bytes, bps int64) int64 { return bytes * 8_000_000_000_000 / bps }
