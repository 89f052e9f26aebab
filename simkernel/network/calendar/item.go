// Package calendar has what moves through a network and waits in it, and the order in which ports process it.
//
//	Item, Arrival    a packet, an ACK or a control, and its way to a port
//	Calendar         the future arrivals of a domain, by window of time
//	Sorter           the arrivals of one window, by port and time
//	Fifo, MinHeap    queues
//
// Arrivals with equal times are ordered by the link that they come over. Those of one link keep their order.
// Results therefore do not depend on how a network is divided into domains.
package calendar

import (
	"cmp"
)

// An Item travels over links and waits in queues. It is a packet, an ACK, or one of two controls: the start
// of a flow on its way to the source's NIC, or a pause frame of PFC. It has 16 bytes, because queues are most
// of the memory of a loaded network.
//
//	bits   31 … numberShift   number of the packet in its flow; of an ACK: of the packet that it answers
//	       16 … 10            with PLB and CONGA: tag
//	       9 … 5              with recovery: the attempt in which the packet was sent, 0 the first
//	       4 … 0              flags
//
// All packets of a flow are full but the last, so that the size on the wire follows from the flags.
type Item struct {
	AtPS int64  // when the port's node has received all of it
	Hop  int32  // its place on the data path (ACKs: on the reverse): an index of the network's hop entries
	Bits uint32 // see above
}

// The flags of an item, and the lengths of its other parts.
const (
	FlagAck     uint32 = 1 << iota // an ACK, on the reverse path
	FlagMarked                     // the packet has been marked (an ACK: the packet that it answers)
	FlagLast                       // the last packet of its flow
	flagControl                    // not a packet
	FlagNack                       // with FlagAck: the packet that it answers was not the expected one

	// FlagThrough in an ACK means that the receiver, which accepts packets in any order, has all packets up
	// to the number.
	FlagThrough = FlagLast

	// The controls. A NIC receives starts like ACKs.
	FlagStart = flagControl | FlagAck
	flagPause = flagControl

	FlagBits    = 5
	AttemptBits = 5 // with recovery
	AttemptMask = (1<<AttemptBits - 1) << FlagBits
	TagBits     = 7 // with PLB and CONGA
)

// IsControl reports whether an item is a start or a pause frame.
func (it *Item) IsControl() bool { return it.Bits&flagControl != 0 }

// IsPause reports whether an item is a pause frame.
func (it *Item) IsPause() bool { return it.Bits&(flagControl|FlagAck) == flagPause }

// A Toggle is the beginning or the end of a pause.
type Toggle struct {
	AtPS  int64
	Class int32
	Pause bool
}

// PauseFrame returns a frame that begins or ends the pause of a class. PauseOf reads it.
func PauseFrame(t Toggle) Item {
	bits := flagPause | uint32(t.Class)<<(FlagBits+1)
	if t.Pause {
		bits |= 1 << FlagBits
	}
	return Item{AtPS: t.AtPS, Bits: bits}
}

// PauseOf returns the class and the toggle of a pause frame.
func (it *Item) PauseOf() Toggle {
	return Toggle{it.AtPS, int32(it.Bits >> (FlagBits + 1)), it.Bits>>FlagBits&1 != 0}
}

// An Arrival is an item on its way to a port.
type Arrival struct {
	Item
	Port int32
	Link int32 // the link on which it arrives: the order of items with equal times
}

// These are the links of arrivals that cross no link.
const (
	// StartLink is the link of flow starts, which orders them behind what arrives at the same time.
	StartLink = 1<<31 - 1
	// AnswerBit is set in the link of the ACK of data that arrived over it. The host has answered the data
	// before its NIC is served: the NIC only sends the ACK.
	AnswerBit = -1 << 31
)

// IsAnswer reports whether the arrival is an ACK that the NIC must send.
func (a *Arrival) IsAnswer() bool { return a.Link < 0 }

// before is the order in which items arrive at a port. Items of one link with equal times keep their order.
func (a *Arrival) before(b *Arrival) bool {
	return a.AtPS < b.AtPS || a.AtPS == b.AtPS && a.Link < b.Link
}

// CompareArrivals compares two arrivals in that order.
func CompareArrivals(a, b Arrival) int {
	return cmp.Or(cmp.Compare(a.AtPS, b.AtPS), cmp.Compare(a.Link, b.Link))
}

// sortArrivals sorts a few arrivals. Equal arrivals keep their order.
func sortArrivals(s []Arrival) {
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
