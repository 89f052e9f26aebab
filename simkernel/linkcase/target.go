package linkcase

import (
	"math/bits"

	"parsimon/simkernel"
)

// A target is the queue under study, a FIFO. It does not hold packets, because the departure of a packet is
// known when it arrives. It keeps a log of arrivals, because a packet is marked when its service starts,
// depending on the number of bytes that have arrived behind it.
//
// An arrival can cause a mark only if the queue is longer than the marking threshold. It can be a new maximum
// only if the queue is nearly as long as the maximum so far. All other arrivals are shallow. They take one
// comparison and a log entry.
type target struct {
	wire      simkernel.WireTime
	freePS    int64 // departure of the last packet so far
	bytes     int64 // wire bytes that have arrived
	busyPS    int64
	waitPS    int64         // waits that are not in waits yet
	waits     simkernel.Sum // of packets, in ps
	shallowPS int64         // an arrival with at most this much work in the queue decides nothing: see deep
	// an arrival with more than that may: markPS once maxPackets is known, before that shallowPS
	deepPS   int64
	log      []logEntry
	logMask  uint64
	arrived  uint64 // number of packets that have arrived
	full     uint64 // number of the packet for which the log has no space
	waiting  uint64 // no packet before this number is still waiting
	unmarked uint64 // no packet before this number can still be marked

	markBytes int64
	markPS    int64 // a queue with at most this much work has at most markBytes behind any packet, and roomBytes
	header    int64
	wireMax   int64
	marked    int64
	maxBytes  int64
	maxAtPS   int64
	roomBytes int64 // Case.RoomBytes; Unreachable: there is no limit
	// While at most maxPackets packets wait or are in service, no queue is longer than maxBytes. 0 means
	// unknown.
	maxPackets uint64

	rule simkernel.MarkRule // where Kernel.advanceService decides marks
}

// A logEntry is the arrival of one packet.
type logEntry struct {
	startPS int64  // when its service starts
	before  int64  // wire bytes that arrived before it
	entry   uint32 // its ACK, an index of Kernel.acks
	block   uint32 // index of Result.Observed
}

// maxShallowPS is the upper bound of waits that are summed without a check for overflow.
const maxShallowPS = 1 << 31

func (t *target) reset(c *Case, p *simkernel.Params, watchesService bool) {
	log := t.log
	if log == nil {
		log = make([]logEntry, 256)
	}
	*t = target{
		wire:      simkernel.NewWireTime(float64(c.TargetBps)),
		log:       log,
		logMask:   uint64(len(log) - 1),
		full:      uint64(len(log) - 1),
		markBytes: c.MarkBytes,
		roomBytes: simkernel.Unreachable,
		wireMax:   p.PayloadBytes + p.HeaderBytes,
		header:    p.HeaderBytes,
	}
	always := c.MarkBytes
	if p.Transport.Traits().RandomMarks {
		always = c.MaxMarkBytes
	}
	if !p.Transport.Marks() {
		t.markBytes = simkernel.Unreachable
		always = simkernel.Unreachable
	}
	t.rule = p.MarkRule(t.markBytes, always)
	if watchesService { // then Kernel.advanceService decides marks
		t.markBytes = simkernel.Unreachable
	}
	if c.RoomBytes > 0 {
		t.roomBytes = max(c.RoomBytes, t.wireMax)
	}
	t.markPS = t.least(min(t.markBytes, t.roomBytes-t.wireMax))
	t.shallowPS = min(t.markPS, t.least(0))
	t.deepPS = t.shallowPS
}

// least returns a lower bound of the time to send a number of bytes in packets of any size, limited to
// maxShallowPS. Rounding to ps makes a packet shorter by at most half a ps.
func (t *target) least(bytes int64) int64 {
	hi, _ := bits.Mul64(uint64(max(bytes, 0)), uint64(t.wire))
	if hi != 0 {
		return maxShallowPS
	}
	return max(-1, min(maxShallowPS, t.wire.PS(bytes)-bytes/(t.header+1)-2))
}

// deep reports whether the packet that was logged last can decide a mark, the maximum queue, or whether there
// is room. It arrives now and finds workPS of work, including itself. More than maxPackets packets are in the
// queue only if the packet that arrived maxPackets before is still in service, so that the next one has not
// started. Rare conditions come first, because a branch that depends on shallowPS alone cannot be predicted.
func (t *target) deep(workPS, now int64) bool {
	return workPS > t.deepPS || t.log[(t.arrived-t.maxPackets)&t.logMask].startPS > now && workPS > t.shallowPS
}

// decideMarks decides the marks of packets ahead of the one that has just arrived, and updates the maximum
// queue. It sets the marks in acks and, if it is not empty, in observed.
func (t *target) decideMarks(acks []ack, observed []simkernel.Block, now int64) {
	w := t.waiting
	for w != t.arrived && t.log[w&t.logMask].startPS <= now {
		w++
	}
	t.waiting = w
	t.noteQueue(now)
	if t.maxBytes >= t.wireMax {
		t.shallowPS = min(t.markPS, t.least(t.maxBytes))
		t.maxPackets = uint64(t.maxBytes/t.wireMax) + 1
		t.deepPS = t.markPS
	}
	m := max(w, t.unmarked)
	for m+1 < t.arrived {
		if t.bytes-t.log[(m+1)&t.logMask].before <= t.markBytes {
			break
		}
		e := &t.log[m&t.logMask]
		acks[e.entry].flags |= ackMarked
		if len(observed) > 0 {
			observed[e.block].Marks |= 1 << (e.entry % simkernel.MarkBits)
		}
		t.marked++
		m++
	}
	t.unmarked = m
	t.sumWaits()
}

// noteQueue updates the maximum queue for the packet that was logged last and arrives now. The queue counts
// when the next service starts: that of the first packet that waits or, if none does, of the packet itself.
func (t *target) noteQueue(now int64) {
	first := min(t.waiting, t.arrived-1)
	e := &t.log[first&t.logMask]
	queue := t.bytes - e.before
	if queue > t.maxBytes {
		t.maxBytes = queue
		t.maxAtPS = max(now, e.startPS)
	}
}

// sumWaits adds waitPS to waits and clears it. It is called before waitPS can overflow.
func (t *target) sumWaits() {
	t.waits.Add(t.waitPS)
	t.waitPS = 0
}

// queueBytes returns the bytes in the queue. waiting is the first packet that waits. The packet before it is
// in service. It exists, because an idle target starts service immediately.
func (t *target) queueBytes() int64 { return t.bytes - t.log[(t.waiting-1)&t.logMask].before }

// noteCrowded records a queue, which a packet has just joined, if it exceeds the room and is the longest of
// its slot.
func (t *target) noteCrowded(r *Result, queueBytes, now int64) {
	if queueBytes <= t.roomBytes {
		return
	}
	at := float64(now / simkernel.PSPerNS)
	bytes := float64(queueBytes)
	last := len(r.CrowdedAtNS) - 1
	switch {
	case last < 0 || int64(r.CrowdedAtNS[last])/CrowdSlotNS < int64(at)/CrowdSlotNS && last < maxCrowded-1:
		r.CrowdedAtNS = append(r.CrowdedAtNS, at)
		r.CrowdedBytes = append(r.CrowdedBytes, bytes)
	case bytes > r.CrowdedBytes[last] && int64(r.CrowdedAtNS[last])/CrowdSlotNS == int64(at)/CrowdSlotNS:
		r.CrowdedAtNS[last] = at
		r.CrowdedBytes[last] = bytes
	}
}

// skip counts full packets that need no log entries. The service of the last one starts at startPS. No packet
// that arrives before then finds a deep queue.
func (t *target) skip(packets, startPS, servicePS int64) {
	t.bytes += packets * t.wireMax
	t.arrived += uint64(packets)
	t.waiting = t.arrived
	t.full = t.arrived + t.logMask
	t.log[(t.arrived-1)&t.logMask] = logEntry{startPS: startPS, before: t.bytes - t.wireMax}
	t.busyPS += packets * servicePS
	t.freePS = startPS + servicePS
}

// trimLog removes packets that no longer wait from the log, or doubles the size of the log. It keeps the last
// packet that does not wait, which may be in service.
func (t *target) trimLog(now int64) {
	waiting := t.arrived
	for waiting != t.waiting && t.log[(waiting-1)&t.logMask].startPS > now {
		waiting--
	}
	t.waiting = waiting
	if t.arrived-t.waiting > uint64(len(t.log))/2 {
		log := make([]logEntry, 2*len(t.log))
		for i := t.waiting - min(t.waiting, 1); i != t.arrived; i++ {
			log[i&uint64(len(log)-1)] = t.log[i&t.logMask]
		}
		t.log = log
		t.logMask = uint64(len(log) - 1)
	}
	t.full = t.waiting + t.logMask
}

func (t *target) count(r *Result, firstNS int64) {
	r.PacketsSent = int64(t.arrived)
	r.PacketsMarked = t.marked
	r.BusyNS = t.busyPS / simkernel.PSPerNS
	r.MaxQueueBytes = t.maxBytes
	r.MaxQueueAtNS = firstNS + t.maxAtPS/simkernel.PSPerNS
	for i := range r.CrowdedAtNS {
		r.CrowdedAtNS[i] += float64(firstNS)
	}
	t.sumWaits()
	r.WaitSumNS = t.waits.PSToNS().Float64()
}
