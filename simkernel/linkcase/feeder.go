package linkcase

import "parsimon/simkernel"

// A feeder is the link directly before the target, shared by some of the sources. It serialises their packets
// before they arrive: packets that already queued there do not arrive together at the target, where they
// would be charged for the same waiting twice.
type feeder struct {
	wire   simkernel.WireTime
	freePS int64 // free from here on, in the target's time: propagation is added
}

// feed returns when the source's planned packet, which reaches its feeder now, arrives at the target. All times are
// those of full packets: a shorter one leaves the feeder earlier by what it is shorter, which is part of now, and so it
// may reach the feeder earlier by that. The first
// call enters the packet into the feeder; later calls for the same packet return the same time.
func (k *Kernel) feed(s *source, f *flow, now, wireBytes int64) int64 {
	if s.fed {
		return f.openPS
	}
	fd := &k.feeders[s.feeder]
	fullPS := fd.wire.PS(k.params.PayloadBytes + k.params.HeaderBytes)
	at := max(now, fd.freePS-(fullPS-fd.wire.PS(wireBytes)))
	fd.freePS = at + fullPS
	s.fed = true
	f.openPS = at
	f.upPassedPS = now
	return at
}
