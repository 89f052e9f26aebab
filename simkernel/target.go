package simkernel

import (
	"math/bits"
)

// A target is the FIFO under study. It never holds packets: a packet's departure is known when it
// arrives. What it keeps is a log of arrivals, for the marks, which are decided when a packet starts
// to be sent by how many bytes arrived behind it until then.
//
// Only an arrival that finds more than the marking threshold in the queue can mark a packet, and
// only one that finds nearly the deepest queue so far can make a new deepest. All others are
// shallow: they cost one comparison, and an entry of the log.
type target struct {
	wire      wireTime
	freePS    int64 // when the last packet so far departs
	bytes     int64 // wire bytes arrived so far
	busyPS    int64
	waitPS    int64
	waitNS    int64 // whole ns taken out of waitPS, so that it cannot overflow
	shallowPS int64 // at most so much work in the queue means nothing to decide
	log       []logEntry
	logMask   uint64
	arrived   uint64 // packets; the number of the next one
	full      uint64 // the log has no room for the packet of this number
	waiting   uint64 // no packet before this number still waits
	unmarked  uint64 // no packet before this number can still be marked by an arrival

	markBytes int64
	markPS    int64 // a queue of at most that much work holds at most markBytes behind any packet
	header    int64
	wireMax   int64
	marked    int64
	maxBytes  int64
	maxAtPS   int64

	red   redMark  // DCQCN
	draws []uint64 // likewise; by packet, as log
}

// A logEntry is one packet's arrival.
type logEntry struct {
	startPS int64  // start of its service
	before  int64  // wire bytes that arrived before it
	entry   uint32 // its ACK, an index of Kernel.acks
	block   uint32 // of Result.Here
}

// maxShallowPS bounds the waits that are summed without care for overflow.
const maxShallowPS = 1 << 31

func (t *target) reset(c *Case, p *Params) {
	log := t.log
	if log == nil {
		log = make([]logEntry, 256)
	}
	draws := t.draws
	*t = target{
		wire:      newWireTime(float64(c.TargetBps)),
		log:       log,
		logMask:   uint64(len(log) - 1),
		full:      uint64(len(log) - 1),
		markBytes: c.MarkBytes,
		wireMax:   p.PayloadBytes + p.HeaderBytes,
		header:    p.HeaderBytes,
		red:       redMark{c.MarkBytes, c.MaxMarkBytes, p.DCQCN.MaxMarking},
		draws:     draws,
	}
	if !p.Transport.spec().embedded {
		t.markBytes = unreachable // Kernel.advanceService marks
	}
	t.markPS = t.least(t.markBytes)
	t.shallowPS = min(t.markPS, t.least(0))
}

// least is a lower bound of the time to send that many bytes, in packets of any sizes, cut to
// maxShallowPS. Rounding to ps takes at most half a ps from a packet.
func (t *target) least(bytes int64) int64 {
	if hi, _ := bits.Mul64(uint64(max(bytes, 0)), uint64(t.wire)); hi != 0 {
		return maxShallowPS
	}
	return max(-1, min(maxShallowPS, t.wire.ps(bytes)-bytes/(t.header+1)-2))
}

// deep decides what the packet that has just arrived changes: marks, and the deepest queue. Marks are
// recorded in here, if there is anything.
func (t *target) onDeepQueue(acks []ack, observed []Block, now int64) {
	w := t.waiting
	for w != t.arrived && t.log[w&t.logMask].startPS <= now {
		w++
	}
	t.waiting = w
	// The packet before the first that waits is in service: an idle target starts at once, so there
	// is one.
	if queue := t.bytes - t.log[(w-1)&t.logMask].before; queue > t.maxBytes {
		t.maxBytes = queue
		t.maxAtPS = now
		t.shallowPS = min(t.markPS, t.least(queue-t.wireMax))
	}
	m := max(w, t.unmarked)
	for m+1 < t.arrived {
		if t.bytes-t.log[(m+1)&t.logMask].before <= t.markBytes {
			break
		}
		e := &t.log[m&t.logMask]
		acks[e.entry].flags |= ackMarked
		if len(observed) > 0 {
			observed[e.block].Marks |= 1 << (e.entry % blockPackets)
		}
		t.marked++
		m++
	}
	t.unmarked = m
	t.waitNS += t.waitPS / psPerNS
	t.waitPS %= psPerNS
}

// trimLog drops the packets that do not wait any more from the log, or doubles it. The last one that
// does not stays: it may be in service.
func (t *target) trimLog(now int64) {
	for t.waiting != t.arrived && t.log[t.waiting&t.logMask].startPS <= now {
		t.waiting++
	}
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

// count reports the case's counters.
func (t *target) count(r *Result, firstNS int64) {
	r.PacketsSent = int64(t.arrived)
	r.PacketsMarked = t.marked
	r.BusyNS = t.busyPS / psPerNS
	r.MaxQueueBytes = t.maxBytes
	r.MaxQueueAtNS = firstNS + t.maxAtPS/psPerNS
	r.WaitSumNS = t.waitNS + t.waitPS/psPerNS
}
