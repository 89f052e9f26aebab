package simkernel

// A feeder is the link before the target, which some sources share. Traffic reaches the target
// already in the order and at the pace that this link gives it; without it, packets that came one
// after the other would queue at the target too, and be charged twice.
type feeder struct {
	wire   wireTime
	freePS int64 // when it is free again, on the clock of the target: propagation added
}

// feed answers when the source's planned packet, which would reach the target now, does so after its
// feeder. It takes the packet into the feeder when asked first; asked before that time again, it
// says the same.
func (k *Kernel) feed(s *source, now int64) int64 {
	f := &k.flows[s.planned]
	if s.fed {
		return f.openPS
	}
	fd := &k.feeders[s.feeder]
	at := max(now, fd.freePS)
	fd.freePS = at + fd.wire.ps(min(k.params.PayloadBytes, f.left)+k.params.HeaderBytes)
	s.fed = true
	f.openPS = at
	return at
}
