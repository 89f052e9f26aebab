package network

import (
	"cmp"
)

// An item is what travels over links and waits in queues: a packet or an ACK, or one of two controls: the
// start of a flow on its way to the source's NIC, and a pause frame of PFC. It has 16 bytes, because queues
// are most of the memory of a loaded network.
//
//	bits   31 … numberShift   number of the packet in its flow; of an ACK: of the packet that it answers
//	       16 … 10            with PLB and CONGA: tag (balance.go)
//	       9 … 5              with recovery: the attempt in which the packet was sent, 0 the first (recovery.go)
//	       4 … 0              flags
//
// All packets of a flow are full but the last, so that the size on the wire follows from the flags
// (wireBytes).
type item struct {
	atPS int64  // when it is at the port: wholly received by the port's node
	hop  int32  // index of flowTable.hops: its place on the data path (ACKs: on the reverse)
	bits uint32 // see above
}

const (
	flagAck     uint32 = 1 << iota // an ACK, on the reverse path
	flagMarked                     // the packet has been marked (an ACK: the packet that it answers)
	flagLast                       // the last packet of its flow
	flagControl                    // not a packet
	flagNack                       // with flagAck: the packet that it answers was not the expected one

	// flagThrough, on the ACK of a receiver that takes packets in any order: it has all packets up to the
	// number.
	flagThrough = flagLast

	// The controls. A NIC receives starts like ACKs.
	flagStart = flagControl | flagAck
	flagPause = flagControl

	flagBits    = 5
	attemptBits = 5 // with recovery
	attemptMask = (1<<attemptBits - 1) << flagBits
	tagBits     = 7 // with PLB and CONGA
)

// isControl reports whether an item is a start or a pause frame.
func (it *item) isControl() bool { return it.bits&flagControl != 0 }

// isPause reports whether an item is a pause frame.
func (it *item) isPause() bool { return it.bits&(flagControl|flagAck) == flagPause }

// pauseFrame returns a frame that begins or ends the pause of a class. pauseOf reads it.
func pauseFrame(t toggle) item {
	bits := flagPause | uint32(t.class)<<(flagBits+1)
	if t.pause {
		bits |= 1 << flagBits
	}
	return item{atPS: t.atPS, bits: bits}
}

func (it *item) pauseOf() toggle {
	return toggle{it.atPS, int32(it.bits >> (flagBits + 1)), it.bits>>flagBits&1 != 0}
}

// An arrival is an item on its way to a port.
type arrival struct {
	item
	port int32
	link int32 // the link that it comes over: the order of items with equal times
}

const (
	// startLink is the link of flow starts, which orders them behind what arrives at the same time.
	startLink = 1<<31 - 1
	// answerBit is set in the link of the ACK of data that arrived over it. The host has answered the data
	// before its NIC is served (forwarding.choosePorts): the NIC only sends the ACK.
	answerBit = -1 << 31
)

// isAnswer reports whether what arrives at a NIC is an ACK that it is to send.
func (a *arrival) isAnswer() bool { return a.link < 0 }

// before is the order in which items arrive at a port. Items of one link with equal times keep their order.
func (a *arrival) before(b *arrival) bool {
	return a.atPS < b.atPS || a.atPS == b.atPS && a.link < b.link
}

func compareArrivals(a, b arrival) int {
	return cmp.Or(cmp.Compare(a.atPS, b.atPS), cmp.Compare(a.link, b.link))
}

// sortArrivals sorts a few arrivals and keeps the order of equals.
func sortArrivals(s []arrival) {
	for i := 1; i < len(s); i++ {
		if !s[i].before(&s[i-1]) {
			continue
		}
		a := s[i]
		k := i
		for ; k > 0 && a.before(&s[k-1]); k-- {
			s[k] = s[k-1]
		}
		s[k] = a
	}
}
