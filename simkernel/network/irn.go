package network

// Selective recovery of transports with a rate is that of IRN (Mittal et al., SIGCOMM'18, §3). Receivers take
// packets in any order, and each ACK names its packet. A packet is lost if one that was sent behind it is
// acknowledged. The sender then sends all such packets again, each once, and new ones again until all that it had
// sent is acknowledged. At most a window, by default one bandwidth-delay product (Params.WindowBytes), is between
// the first packet that is not acknowledged and the last that was sent. The timeout is RTO_low with up to irnFew
// packets in flight and RTO_high, which is RetransmitNS, with more. After it all that is not acknowledged is lost, as
// in TCP (RFC 6675, §5.1), where IRN takes the first packet only: of a window whose end is lost it would then wait for
// a timeout for each packet.
//
// Where paths move, packets overtake each other, and only timeouts and full windows find losses (moves.go).
const (
	irnFew   = 3       // N (§3.1)
	irnLowNS = 100_000 // RTO_low (§4.1) of paths whose round trip is a third of it or less; else three round trips
)

// findLosses follows an ACK.
func (s *sender) findLosses(f *recoveryFlow) {
	top := f.acked.highest(1)
	if top <= f.una {
		return
	}
	if f.una >= f.recoverTo {
		f.recoverTo, f.sentAgain = f.maxSent, f.una
		s.begin(f)
	}
	f.lostTo = max(f.lostTo, top)
}

// patiencePS returns the timeout with the packets that are in flight.
func (f *recoveryFlow) patiencePS() int64 {
	if f.lowPS > 0 && f.maxSent-f.una <= irnFew {
		return min(f.lowPS, f.timeoutPS)
	}
	return f.timeoutPS
}

// tooEarly sets the timer of a flow again that had few packets in flight when it was set, and has more now.
func (f *recoveryFlow) tooEarly(c *nic, t timer) bool {
	if f.lowPS == 0 || f.lowPS >= f.timeoutPS || f.patiencePS() < f.timeoutPS || f.waited {
		f.waited = false
		return false
	}
	f.waited, f.timerSet = true, true
	f.deadlinePS = t.atPS + f.timeoutPS - f.lowPS
	c.timerPS = min(c.timerPS, f.deadlinePS)
	c.timers.push(timer{f.deadlinePS, t.row, t.slot})
	return true
}
