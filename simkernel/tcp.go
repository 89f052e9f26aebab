package simkernel

// TCPParams are the constants of the transports that are clocked by ACKs (Transport.AckClocked): newreno and cubic.
type TCPParams struct {
	InitialWindow   int64 // packets (RFC 6928)
	MinTimeoutNS    int64 // least retransmission timeout: Linux's 200 ms instead of the second of RFC 6298, §2.4
	DelayedAckNS    int64 // longest delay of an ACK (RFC 5681, §4.2: at most 500 ms; Linux: 40 ms)
	ReceiveWindow   int64 // bytes that a receiver takes: Linux's default for the largest buffer
	DuplicateAckMax int64 // duplicate ACKs that give a loss away (RFC 5681, §3.2: 3)
}

func tcpSpec(name string, newGrowth func() growth) transportSpec {
	return transportSpec{
		name: name, version: 1,
		// Those of Linux.
		defaults: func(p *Params) {
			p.TCP = TCPParams{InitialWindow: 10, MinTimeoutNS: 200e6, DelayedAckNS: 40e6, ReceiveWindow: 6 << 20,
				DuplicateAckMax: 3}
		},
		constants: func(p *Params) any { return &p.TCP },
		keys: func(p *Params) []Key {
			c := &p.TCP
			return []Key{
				{Name: "initial_window", Unit: Count, Int: &c.InitialWindow, Min: 1, Max: 1000},
				{Name: "min_timeout", Unit: Nanoseconds, Int: &c.MinTimeoutNS, Min: 1000, Max: maxTimeNS},
				{Name: "delayed_ack", Unit: Nanoseconds, Int: &c.DelayedAckNS, Max: 500e6},
				{Name: "receive_window", Unit: Bytes, Int: &c.ReceiveWindow, Min: 1 << 16, Max: 1 << 30},
				{Name: "duplicate_acks", Unit: Count, Int: &c.DuplicateAckMax, Min: 1, Max: 1000},
			}
		},
		newSender: func() Sender { return &TCP{growth: newGrowth()} },
		Traits:    Traits{AckClocked: true, AcksQueue: true},
	}
}

// A growth is the part of congestion control that TCPs differ in.
type growth interface {
	start()
	// avoid returns the window after an ACK for so many new bytes in congestion avoidance.
	avoid(t *TCP, nowPS, newBytes int64) (windowBytes int64)
	// reduce returns the slow start threshold after a loss with so many bytes in flight. timeout: found by the timer.
	reduce(t *TCP, flightBytes int64, timeout bool) (thresholdBytes int64)
}

// TCP is the sending end of a TCP connection: slow start (RFC 5681, §3.1), fast retransmit and fast recovery without
// SACK (RFC 6582, §3.2), and the retransmission timeout (RFC 6298). A growth does the rest. All packets but the last
// are full (SMSS is Params.PayloadBytes), sequence numbers are bytes from 0, and there is no handshake: the timeout
// before the first sample is that of a sample of the idle path. Not done: limited transmit (RFC 3042), SACK, time
// stamps, ECN, pacing, a restart after idle times.
type TCP struct {
	Rates     // none
	growth    growth
	smss      int64
	most      int64 // of the receiver's window
	dupMost   int64
	windowB   int64 // cwnd
	threshold int64 // ssthresh
	acked     int64 // SND.UNA
	dups      int64 // duplicate ACKs in a row
	recover   int64 // SND.NXT when the last recovery began: up to there losses are of the same event
	recovers  bool
	credit    int64 // bytes acknowledged in congestion avoidance that have not raised the window

	timedEnd       int64 // the packet that is timed ends there; 0: none is
	timedPS        int64 // and was sent then
	srttPS, varPS  int64
	minTimeoutPS   int64
	timeoutPS      int64
	lastTimeoutEnd int64 // SND.UNA at the last timeout, plus 1: the next one of the same packet reduces nothing
}

// Start implements Sender.
func (t *TCP) Start(p *Params, l Limits) {
	g := t.growth
	g.start()
	c := &p.TCP
	*t = TCP{growth: g, smss: p.PayloadBytes, most: c.ReceiveWindow, dupMost: c.DuplicateAckMax,
		windowB: c.InitialWindow * p.PayloadBytes, threshold: c.ReceiveWindow, recover: -1,
		minTimeoutPS: c.MinTimeoutNS * PSPerNS}
	t.windowB = min(t.windowB, t.most)
	t.setTimeout(l.RoundTripNS*PSPerNS, l.RoundTripNS*PSPerNS/2)
}

// OnAck implements Sender for simulators of rates, which do not run this transport.
func (t *TCP) OnAck(*Params, *AckInfo) bool { return false }

// Window returns how many bytes may be in flight.
func (t *TCP) Window() int64 { return min(t.windowB, t.most) }

// TimeoutPS returns the retransmission timeout, before it is doubled.
func (t *TCP) TimeoutPS() int64 { return t.timeoutPS }

// OnSend notes a packet that is sent for the first time and ends at byte end: one in a round trip is timed.
func (t *TCP) OnSend(end, nowPS int64) {
	if t.timedEnd == 0 {
		t.timedEnd, t.timedPS = end, nowPS
	}
}

// OnACK processes an ACK for all bytes before ackedBytes. sentBytes have been sent at least once. resend: the packet
// at ackedBytes is to be sent again, at once.
func (t *TCP) OnACK(nowPS, ackedBytes, sentBytes int64) (resend bool) {
	newBytes := ackedBytes - t.acked
	if newBytes <= 0 {
		return sentBytes > t.acked && t.duplicate(sentBytes)
	}
	t.acked, t.dups = ackedBytes, 0
	if t.timedEnd != 0 && ackedBytes >= t.timedEnd {
		t.sample(nowPS - t.timedPS)
		t.timedEnd = 0
	}
	switch {
	case t.recovers && ackedBytes < t.recover: // partial: the next hole (RFC 6582, §3.2, step 3)
		t.windowB = max(t.smss, t.windowB-newBytes)
		if newBytes >= t.smss {
			t.windowB += t.smss
		}
		t.timedEnd = 0
		return true
	case t.recovers:
		t.recovers = false
		t.windowB = min(t.threshold, max(sentBytes-ackedBytes, t.smss)+t.smss)
	case t.windowB < t.threshold:
		t.windowB += min(newBytes, t.smss)
	default:
		t.windowB = t.growth.avoid(t, nowPS, newBytes)
	}
	t.windowB = min(t.windowB, t.most)
	return false
}

// duplicate processes a duplicate ACK. One that is for what the last recovery ended with counts, too: a packet lost
// right behind is found, at the price of a needless cut where packets were sent twice (RFC 6582, §4.1).
func (t *TCP) duplicate(sentBytes int64) (resend bool) {
	t.dups++
	switch {
	case t.recovers:
		t.windowB += t.smss
	case t.dups == t.dupMost && t.acked >= t.recover:
		t.threshold = t.growth.reduce(t, sentBytes-t.acked, false)
		t.windowB = t.threshold + t.dupMost*t.smss
		t.recover, t.recovers, t.timedEnd = sentBytes, true, 0
		return true
	}
	return false
}

// OnTimeout processes a timeout: all is sent again from the first byte that is not acknowledged, in slow start (RFC
// 5681, §3.1, eq. 4).
func (t *TCP) OnTimeout(sentBytes int64) {
	if t.lastTimeoutEnd != t.acked+1 {
		t.threshold = t.growth.reduce(t, sentBytes-t.acked, true)
		t.lastTimeoutEnd = t.acked + 1
	}
	t.windowB = t.smss
	t.recover, t.recovers, t.dups, t.timedEnd = sentBytes, false, 0, 0
}

// sample takes a round-trip time (RFC 6298, §2).
func (t *TCP) sample(rttPS int64) {
	if t.srttPS == 0 {
		t.setTimeout(rttPS, rttPS/2)
		return
	}
	diff := t.srttPS - rttPS
	t.setTimeout((7*t.srttPS+rttPS)/8, (3*t.varPS+max(diff, -diff))/4)
}

func (t *TCP) setTimeout(srttPS, varPS int64) {
	t.srttPS, t.varPS = srttPS, varPS
	t.timeoutPS = max(t.minTimeoutPS, srttPS+4*varPS)
}
