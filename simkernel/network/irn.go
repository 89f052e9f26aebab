package network

// Selective recovery of paced transports follows IRN (Mittal et al., SIGCOMM'18, §3). Receivers accept
// packets in any order, and each ACK names its packet. A packet counts as lost if a packet that was sent
// later is acknowledged. The sender then retransmits all such packets once. It sends new packets again when
// everything that it had sent is acknowledged. At most a window (Params.Limits) lies between the first packet
// that is not acknowledged and the last one sent. The timeout is RTO_low with up to irnFew packets in flight.
// Otherwise it is RTO_high, which is RetransmitNS. After a timeout, all unacknowledged packets count as lost,
// as in TCP (RFC 6675, §5.1). IRN retransmits only the first packet. If the end of a window is lost, this
// costs a timeout for each packet.
//
// If switches balance packets, packets overtake each other, and only timeouts and full windows reveal losses.
const (
	irnFew = 3 // N (§3.1)
	// RTO_low (§4.1) of paths whose round trip is a third of it or less; else three round trips
	irnLowNS = 100_000
)

// findLosses updates, after an ACK, the set of lost packets.
func (s *sender) findLosses(f *recoveryFlow) {
	top := f.acked.Highest(1)
	if top <= f.una {
		return
	}
	if f.una >= f.recoverTo {
		f.recoverTo = f.maxSent
		f.sentAgain = f.una
		s.begin(f)
	}
	f.lostTo = max(f.lostTo, top)
}

// patiencePS returns the timeout for the packets that are in flight.
func (f *recoveryFlow) patiencePS() int64 {
	if f.lowPS > 0 && f.maxSent-f.una <= irnFew {
		return min(f.lowPS, f.timeoutPS)
	}
	return f.timeoutPS
}

// tooEarly extends the timer of a flow that had few packets in flight when the timer was set and has more
// now. It reports whether it did.
func (f *recoveryFlow) tooEarly(c *nic, t timer) bool {
	if f.lowPS == 0 || f.lowPS >= f.timeoutPS || f.patiencePS() < f.timeoutPS || f.waited {
		f.waited = false
		return false
	}
	f.waited = true
	f.timerSet = true
	f.deadlinePS = t.atPS + f.timeoutPS - f.lowPS
	c.timerPS = min(c.timerPS, f.deadlinePS)
	c.timers.Push(timer{f.deadlinePS, t.row, t.slot})
	return true
}
