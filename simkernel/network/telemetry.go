package network

import (
	"math/bits"
	"slices"

	"parsimon/simkernel"
)

// startTelemetry makes space for as many packets as can be in flight.
func (o *externalSender) startTelemetry(p *simkernel.Params, sizeBytes int64, path []int32) {
	o.hops = len(path) - 1
	o.telemetryRing = 1 << bits.Len(uint(min(p.Packets(sizeBytes), p.Packets(o.limits.WindowBytes))))
	for a := range o.telemetry {
		o.telemetry[a] = o.telemetry[a][:0]
	}
	o.makeTelemetry(0)
}

// makeTelemetry makes the ring of an attempt, unless there is one.
func (o *externalSender) makeTelemetry(attempt uint32) {
	t := &o.telemetry[attempt]
	if len(*t) == 0 {
		size := int(o.telemetryRing) * o.hops
		*t = slices.Grow(*t, size)[:size]
	}
}

// telemetryOf returns the telemetry of a packet.
func (o *externalSender) telemetryOf(d *rules, itemBits uint32) []simkernel.Telemetry {
	attempt := itemBits & d.againMask >> flagBits
	place := itemBits >> d.numberShift & (o.telemetryRing - 1)
	return o.telemetry[attempt][int(place)*o.hops:][:o.hops]
}

// writeTelemetry writes the port's telemetry into a packet.
func (p *port) writeTelemetry(d *domain, it *item, nowPS int64) {
	t := &d.net.flows
	s := &t.senders[t.hops[it.hop].flow]
	hop := int(it.hop - s.firstHop)
	s.external.telemetryOf(&d.rules, it.bits)[hop-1] = simkernel.Telemetry{AtPS: nowPS, SentBytes: p.sentBytes,
		LeftBytes: p.leftBytes, Bps: p.kind.bps, Link: p.link}
	p.sentBytes += d.wireBytes(it)
}
