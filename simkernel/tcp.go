package simkernel

import "math"

// TCPParams are the constants of the transports that are clocked by ACKs (Transport.AckClocked): newreno,
// cubic and dctcp-window.
type TCPParams struct {
	InitialWindow int64 // packets (RFC 6928)
	MinTimeoutNS  int64 // least retransmission timeout: Linux's 200 ms instead of the second of RFC 6298, §2.4
	DelayedAckNS  int64 // longest delay of an ACK (RFC 5681, §4.2: at most 500 ms; Linux: 40 ms)
	ReceiveWindow int64 // buffer of a receiver in bytes: Linux's default for the largest buffer
	// packets received behind a missing one that make it a lost one (RFC 6675, §2, DupThresh: 3)
	DuplicateAckMax int64
}

// tcpSpec registers a TCP whose window grows by at most the given number of packets per ACK in slow start (L
// of RFC 3465, §2.2).
func tcpSpec(name string, slowStart int64, newGrowth func() growth) transportSpec {
	return transportSpec{
		name: name, version: 5,
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
		newSender: func() Sender { return &TCP{growth: newGrowth(), slowStart: slowStart} },
		Traits:    Traits{AckClocked: true, AcksQueue: true},
	}
}

// A growth is the part of congestion control in which TCPs differ.
type growth interface {
	start(p *Params)
	// avoid returns the window after an ACK for new bytes in congestion avoidance.
	avoid(t *TCP, nowPS, newBytes int64) (windowBytes int64)
	// reduce returns the slow start threshold after a loss, from the bytes in flight. timeout is set if the
	// timer found the loss.
	reduce(t *TCP, flightBytes int64, timeout bool) (thresholdBytes int64)
	// observe is called for every ACK before the other methods. cut returns the threshold after a mark (RFC
	// 3168, §6.1.2).
	observe(a *TCPAck)
	cut(t *TCP) (thresholdBytes int64)
}

// unmarked is embedded in a growth whose packets switches do not mark.
type unmarked struct{}

func (unmarked) observe(*TCPAck) {}

func (unmarked) cut(t *TCP) int64 { return t.threshold }

// A TCPAck has the content of an ACK, and the state of its receiver at that time.
type TCPAck struct {
	NowPS          int64
	AckedBytes     int64 // all before are acknowledged
	DeliveredBytes int64 // acknowledged by this ACK for the first time, selectively or not
	SentBytes      int64 // have been sent at least once
	PipeBytes      int64 // are in the network (RFC 6675, §4, SetPipe)
	Lost           bool  // the packet at AckedBytes is lost (RFC 6675, §4, IsLost)
	NewLoss        bool  // this ACK is the first to show that a packet is lost
	Marked         bool  // ECN-echo
	Duplicate      bool  // this ACK is the first to acknowledge a packet behind a missing one (RFC 6675, §2)
}

// TCP is the sending end of a connection. It has slow start (RFC 5681, §3.1), loss recovery with SACK (RFC
// 6675) and limited transmit, whose scoreboard the simulator keeps, the window of proportional rate reduction
// (RFC 9937), and the retransmission timeout (RFC 6298). A growth adds the rest. All packets but the last are
// full (SMSS is Params.PayloadBytes), and sequence numbers are bytes from 0. There is no handshake, so the
// timeout before the first sample assumes the round trip of the idle path. Time stamps, pacing and a restart
// after idle times are not modeled.
type TCP struct {
	Rates     // none
	growth    growth
	slowStart int64 // packets
	smss      int64
	most      int64 // of the receiver's window
	windowB   int64 // cwnd
	threshold int64 // ssthresh
	acked     int64 // SND.UNA
	// RecoveryPoint: SND.NXT when the last recovery began; losses before it belong to the same event
	recover   int64
	recovers  bool
	marked    bool  // the recovery began with a mark: nothing is lost
	partial   bool  // an ACK that was partial has restarted the timer in this recovery
	credit    int64 // bytes acknowledged in congestion avoidance that have not raised the window
	flight    int64 // RecoverFS: SND.NXT - SND.UNA when the recovery began
	delivered int64 // prr_delivered
	out       int64 // prr_out

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
	g.start(p)
	c := &p.TCP
	*t = TCP{growth: g, slowStart: t.slowStart, smss: p.PayloadBytes, most: c.ReceiveWindow,
		windowB:   c.InitialWindow * p.PayloadBytes,
		threshold: c.ReceiveWindow, recover: -1, minTimeoutPS: c.MinTimeoutNS * PSPerNS}
	t.windowB = min(t.windowB, t.most)
	t.setTimeout(l.RoundTripNS*PSPerNS, l.RoundTripNS*PSPerNS/2)
}

// OnAck implements Sender for simulators of rates, which do not run this transport.
func (t *TCP) OnAck(*Params, *AckInfo) bool { return false }

// Window returns how many bytes may be in flight.
func (t *TCP) Window() int64 { return min(t.windowB, t.most) }

// Recovers reports whether losses are being recovered without a timeout.
func (t *TCP) Recovers() bool { return t.recovers && !t.marked }

// MayRecover reports whether packets that are lost beyond a byte are recovered without a timeout.
func (t *TCP) MayRecover(ackedBytes int64) bool { return t.recovers || ackedBytes >= t.recover }

// Partial reports whether an ACK up to a byte is partial, so that the packet at this byte is lost (RFC 6582,
// §3.2, step 3).
func (t *TCP) Partial(ackedBytes int64) bool {
	return t.Recovers() && ackedBytes > t.acked && ackedBytes < t.recover
}

// RestartsTimer reports whether an ACK for new bytes restarts the retransmission timer. It does (RFC 6298,
// §5.3), with one exception: of the partial ACKs in a recovery, which alone show that the next packet is
// lost, only the first one does (RFC 6582, §3.2, step 3). If all of a flow's last packets are lost, a timeout
// therefore ends the recovery. No later packet reveals these losses, and each would take a round trip and a
// delayed ACK.
func (t *TCP) RestartsTimer(partial bool) bool {
	restarts := !partial || !t.partial
	t.partial = t.partial || partial
	return restarts
}

// TimeoutPS returns the retransmission timeout, before any doubling.
func (t *TCP) TimeoutPS() int64 { return t.timeoutPS }

// OnSend records a packet that ends at byte end. One packet per round trip is timed, among those that are
// sent for the first time.
func (t *TCP) OnSend(end, bytes, nowPS int64, again bool) {
	t.out += bytes
	if t.timedEnd == 0 && !again && (!t.recovers || t.marked) {
		t.timedEnd = end
		t.timedPS = nowPS
	}
}

// OnACK processes an ACK. If begins is true, lost packets are retransmitted from now on, the first one
// immediately.
func (t *TCP) OnACK(a *TCPAck) (begins bool) {
	newBytes := a.AckedBytes - t.acked
	t.acked = a.AckedBytes
	if t.timedEnd != 0 && t.acked >= t.timedEnd {
		t.sample(a.NowPS - t.timedPS)
		t.timedEnd = 0
	}
	t.growth.observe(a)
	switch {
	case a.Lost && (t.acked >= t.recover || t.marked):
		// a window is reduced once, for marks and losses (RFC 3168, §6.1.2; RFC 8257, §3.5)
		threshold := t.threshold
		if t.acked >= t.recover {
			threshold = t.growth.reduce(t, a.SentBytes-t.acked, false)
		}
		t.begin(a, threshold, false)
		t.timedEnd = 0
		begins = true
	case t.recovers && t.acked >= t.recover:
		t.recovers = false
		t.marked = false
		t.windowB = t.threshold
		if a.Marked && t.acked > t.recover { // the mark is of data that were sent since the last reduction
			t.begin(a, t.growth.cut(t), true)
		}
	case t.recovers:
		t.recoverBy(a, newBytes > 0 && !a.NewLoss)
	case a.Marked && t.acked > t.recover:
		t.begin(a, t.growth.cut(t), true)
	// limited transmit keeps the window (RFC 5681, §3.2, step 1; RFC 6675, §5)
	case newBytes == 0 || a.Duplicate:
	case t.windowB < t.threshold:
		t.windowB += min(newBytes, t.slowStart*t.smss)
	default:
		t.windowB = t.growth.avoid(t, a.NowPS, newBytes)
	}
	t.windowB = min(t.windowB, t.most)
	return begins
}

// begin begins a recovery, or the reduction after a mark.
func (t *TCP) begin(a *TCPAck, threshold int64, marked bool) {
	t.threshold = threshold
	t.marked = marked
	t.recovers = true
	t.partial = false
	t.recover = a.SentBytes
	t.flight = a.SentBytes - t.acked
	t.delivered = 0
	t.out = 0
	t.recoverBy(a, false)
}

// recoverBy sets the window after an ACK in recovery (RFC 9937, §6.2). Below the threshold it grows by the
// delivered bytes, and by one more packet if the ACK is safe: it acknowledges new bytes and shows no new
// loss.
func (t *TCP) recoverBy(a *TCPAck, safe bool) {
	t.delivered += a.DeliveredBytes
	var send int64
	if a.PipeBytes > t.threshold {
		send = (t.delivered*t.threshold+t.flight-1)/t.flight - t.out
	} else {
		send = max(t.delivered-t.out, a.DeliveredBytes)
		if safe {
			send += t.smss
		}
		send = min(send, t.threshold-a.PipeBytes)
	}
	if t.out == 0 && !t.marked { // the first packet is retransmitted at once
		send = max(send, t.smss)
	}
	t.windowB = a.PipeBytes + max(0, send)
}

// OnTimeout processes a timeout. Everything that was not received is retransmitted, in slow start (RFC 5681,
// §3.1, eq. 4).
func (t *TCP) OnTimeout(sentBytes int64) {
	if t.lastTimeoutEnd != t.acked+1 {
		t.threshold = t.growth.reduce(t, sentBytes-t.acked, true)
		t.lastTimeoutEnd = t.acked + 1
	}
	t.windowB = t.smss
	t.recover = sentBytes
	t.recovers = false
	t.marked = false
	t.timedEnd = 0
}

// sample processes a round-trip time (RFC 6298, §2).
func (t *TCP) sample(rttPS int64) {
	if t.srttPS == 0 {
		t.setTimeout(rttPS, rttPS/2)
		return
	}
	diff := t.srttPS - rttPS
	t.setTimeout((7*t.srttPS+rttPS)/8, (3*t.varPS+max(diff, -diff))/4)
}

func (t *TCP) setTimeout(srttPS, varPS int64) {
	t.srttPS = srttPS
	t.varPS = varPS
	t.timeoutPS = max(t.minTimeoutPS, srttPS+4*varPS)
}

// NewReno is TCP with the congestion avoidance of RFC 5681 and the loss recovery of RFC 6675.
const NewReno Transport = 5

var newRenoSpec = tcpSpec("newreno", 1, func() growth { return newReno{} })

type newReno struct{ unmarked }

func (newReno) start(*Params) {}

// avoid raises the window by one packet for each window of bytes that is acknowledged (RFC 5681, §3.1, last
// way).
func (newReno) avoid(t *TCP, _, newBytes int64) int64 {
	t.credit += newBytes
	if t.credit < t.windowB {
		return t.windowB
	}
	t.credit -= t.windowB
	return t.windowB + t.smss
}

// reduce returns half of the bytes in flight (RFC 5681, §3.1, eq. 4).
func (newReno) reduce(t *TCP, flightBytes int64, _ bool) int64 {
	t.credit = 0
	return max(flightBytes/2, 2*t.smss)
}

// CUBIC is TCP with the congestion avoidance of RFC 9438. HyStart++ is not modeled: slow start is that of RFC
// 5681.
const CUBIC Transport = 6

var cubicSpec = tcpSpec("cubic", 2, func() growth { return &cubic{} })

// Constants of RFC 9438: §4.1.2 and §4.6. cubicAlpha is α of the Reno-friendly region, §4.3.
const (
	cubicC     = 0.4
	cubicBeta  = 0.7
	cubicAlpha = 3 * (1 - cubicBeta) / (1 + cubicBeta)
)

// cubic is the state of congestion avoidance. Windows are in packets. The conversions prevent fused
// multiply-add.
type cubic struct {
	unmarked
	window  float64 // cwnd, exactly; 0: no epoch has begun
	maximum float64 // W_max; 0: not known, or after a timeout
	prior   float64 // cwnd_prior
	reno    float64 // W_est
	k       float64 // K, in seconds
	epochPS int64
}

func (c *cubic) start(*Params) { *c = cubic{} }

// at returns W_cubic at a time after the start of the epoch (§4.2, fig. 1).
func (c *cubic) at(seconds float64) float64 {
	x := seconds - c.k
	return float64(float64(cubicC*float64(x*x))*x) + c.maximum
}

func (c *cubic) avoid(t *TCP, nowPS, newBytes int64) int64 {
	if c.window == 0 {
		c.window = float64(t.windowB) / float64(t.smss)
		c.epochPS = nowPS
		c.k = 0
		c.reno = c.window
		if c.maximum > c.window {
			c.k = math.Cbrt((c.maximum - c.window) / cubicC) // §4.2, fig. 2
		} else {
			c.maximum = c.window
		}
	}
	packets := float64(newBytes) / float64(t.smss)
	seconds := float64(nowPS-c.epochPS) / 1e12
	alpha := cubicAlpha
	if c.reno >= c.prior {
		alpha = 1
	}
	c.reno += float64(alpha * packets / c.window)
	if c.at(seconds) < c.reno { // §4.3: Reno-friendly
		c.window = max(c.window, c.reno)
	} else { // §4.4 and §4.5
		target := min(max(c.at(seconds+float64(t.srttPS)/1e12), c.window), 1.5*c.window)
		c.window += float64(packets * (target - c.window) / c.window)
	}
	return int64(float64(c.window * float64(t.smss)))
}

// reduce implements §4.6 with the fast convergence of §4.7, and §4.8 for timeouts.
func (c *cubic) reduce(t *TCP, flightBytes int64, timeout bool) int64 {
	window := float64(t.windowB) / float64(t.smss)
	c.prior = window
	if window < c.maximum {
		window *= (1 + cubicBeta) / 2
	}
	c.maximum = window
	c.window = 0
	if timeout {
		c.maximum = 0
	}
	return max(int64(float64(cubicBeta*float64(flightBytes))), 2*t.smss)
}

// DCTCPWindow is DCTCP with windows that are clocked by ACKs, as in operating systems (RFC 8257). DCTCP, in
// contrast, uses a rate.
const DCTCPWindow Transport = 7

var dctcpWindowSpec = newDCTCPWindowSpec()

func newDCTCPWindowSpec() transportSpec {
	s := tcpSpec("dctcp-window", 2, func() growth { return &dctcpWindow{} })
	s.version = 6
	tcp := s.keys
	s.keys = func(p *Params) []Key {
		return append(tcp(p), Key{Name: "gain", Unit: Number, Float: &p.Gain, Max: 1, Positive: true},
			Key{Name: "mark_per_gbps", Unit: Bytes, Int: &p.MarkBytesPerGbps, Max: maxMark})
	}
	s.markBytes = func(p *Params) (lo, hi int64) { return p.MarkBytesPerGbps, p.MarkBytesPerGbps }
	return s
}

// dctcpWindow is the state of RFC 8257, §3.3. Without marks, its window is that of NewReno.
type dctcpWindow struct {
	newReno
	gain          float64
	alpha         float64
	acked, marked int64 // DCTCP.BytesAcked, DCTCP.BytesMarked
	windowEnd     int64 // DCTCP.WindowEnd
	una           int64 // SND.UNA
}

func (d *dctcpWindow) start(p *Params) { *d = dctcpWindow{gain: p.Gain, alpha: 1} }

// observe implements steps 1 to 8. The conversions prevent fused multiply-add.
func (d *dctcpWindow) observe(a *TCPAck) {
	newBytes := a.AckedBytes - d.una // step 1: SACKs do not count
	d.una = a.AckedBytes
	d.acked += newBytes
	if a.Marked {
		d.marked += newBytes
	}
	if a.AckedBytes > d.windowEnd { // and above what was acknowledged when the window began: d.acked is not 0
		share := float64(d.marked) / float64(d.acked)
		d.alpha = float64((1-d.gain)*d.alpha) + float64(d.gain*share)
		d.windowEnd = a.SentBytes
		d.acked = 0
		d.marked = 0
	}
}

// cut implements step 9: cwnd × (1 - α/2).
func (d *dctcpWindow) cut(t *TCP) int64 {
	t.credit = 0
	return max(int64(float64(t.windowB)*(1-d.alpha/2)), 2*t.smss)
}
