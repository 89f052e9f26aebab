package laws

import (
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// trip is what the packets of a flow need on its path, in ps.
type trip struct {
	packets    int64
	full, last []int64 // by hop: to send a full packet, the last packet; the same for a flow of one packet
	delay      []int64 // by hop: propagation
	oneWay     int64   // of a full packet that waits nowhere
	cycle      int64   // the time D of the second law
	parts      int64   // its k
}

func (t *trip) set(n *topology.Network, p *simkernel.Params, sizeBytes int64, path []int32) {
	t.packets = p.Packets(sizeBytes)
	largest := p.PayloadBytes + p.HeaderBytes
	full, last := largest, sizeBytes-(t.packets-1)*p.PayloadBytes+p.HeaderBytes
	if t.packets == 1 {
		full = last
	}
	t.full, t.last, t.delay, t.oneWay = t.full[:0], t.last[:0], t.delay[:0], 0
	back := int64(0)
	for _, id := range path {
		l := &n.Links[id]
		t.full, t.last = append(t.full, sendPS(full, l.BandwidthBps)), append(t.last, sendPS(last, l.BandwidthBps))
		t.delay = append(t.delay, l.DelayNS*psPerNS)
		t.oneWay += sendPS(full, l.BandwidthBps) + l.DelayNS*psPerNS
		back += sendPS(p.AckBytes+largest, l.BandwidthBps) + l.DelayNS*psPerNS
	}
	line := float64(n.Links[path[0]].BandwidthBps)
	rate := min(p.MinRateBps, line)
	gap := int64(float64(8*largest) * 1e12 / rate)
	window := max(1, int64(float64(p.WindowBytes)*rate/line))
	t.cycle = max(t.oneWay+back, gap)
	t.parts = max(1, min((window+p.PayloadBytes-1)/p.PayloadBytes, t.cycle/gap))
}

// work is the time to send all packets at a hop.
func (t *trip) work(hop int) int64 { return (t.packets-1)*t.full[hop] + t.last[hop] }

// sendPS is rounded down; the products of packets fit.
func sendPS(bytes, bps int64) int64 { return bytes * 8_000_000_000_000 / bps }
