package network

// A netItem is a packet in flight or in a queue, or the start of a flow on its way to the source's NIC. It has 16
// bytes, because queues are most of the memory of a loaded network.
//
// An ACK carries the payload size of the packet that it acknowledges: packets of a flow stay in order on their
// single path, so the sender adds up the sizes and needs no sequence numbers.
type netItem struct {
	atPS    int64  // when it is at the port: wholly received by the port's node
	hop     int32  // index of netFlowTable.hops: its place on the data path (ACKs: on the reverse)
	payload uint16 // payload in bytes, minus 1
	flags   uint8
}

// Ring 0 of a port takes data, ring 1 items with netAck.
const (
	netAck    uint8 = 1 << iota // an ACK, on the reverse path
	netMarked                   // the packet has been marked (an ACK: the packet that it acknowledges)
	netLast                     // the last packet of its flow
	netStart                    // not a packet: the flow starts
)

func (it *netItem) payloadBytes() int64 { return int64(it.payload) + 1 }

// A netRing is a queue of items ordered by time of arrival; the length of the buffer is a power of two. It
// includes items that have not arrived yet, behind all that have. Positions grow, and restart from 0
// when the queue drains, so that a port with little traffic uses one cache line of its buffer.
type netRing struct {
	buf        []netItem
	head, tail uint32
}

const netRingMin = 4 // items: one cache line

func (r *netRing) at(pos uint32) *netItem {
	return &r.buf[pos&uint32(len(r.buf)-1)]
}

// push inserts an item by (time, link that it came over). Items of one link with equal time keep the order of the
// calls, which is the order in which they left one port. So the order is total and independent of which
// domain or worker delivers an item first.
func (r *netRing) push(it netItem, t *netFlowTable) {
	if int(r.tail-r.head) == len(r.buf) {
		r.grow()
	}
	buf := r.buf
	mask := uint32(len(buf) - 1)
	pos := r.tail
	r.tail++
	for pos != r.head {
		prev := buf[(pos-1)&mask]
		if prev.atPS < it.atPS || prev.atPS == it.atPS && t.arrivalLink(&prev) <= t.arrivalLink(&it) {
			break
		}
		buf[pos&mask] = prev
		pos--
	}
	buf[pos&mask] = it
}

func (r *netRing) grow() {
	buf := make([]netItem, max(netRingMin, 2*len(r.buf)))
	for i := r.head; i != r.tail; i++ {
		buf[i&uint32(len(buf)-1)] = *r.at(i)
	}
	r.buf = buf
}
