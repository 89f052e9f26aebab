package simkernel

// A netItem is a packet in flight or in a queue of the whole-network engine, or the start of a
// flow on its way to the source's NIC. 16 bytes: queues are most of what a loaded network is.
//
// An ACK carries the payload of the packet it acknowledges: packets of a flow stay in order on
// their one path, so the sender adds up what it has been told and needs no sequence numbers.
type netItem struct {
	atPS    int64  // when it is at the port: wholly received by the node that the port belongs to
	hop     int32  // in netFlowTable.hops: where its flow is on the data path (ACKs: on its reverse)
	payload uint16 // payload in bytes, less 1
	flags   uint8
}

// Ring 0 of a port takes data, ring 1 what has netAck set.
const (
	netAck    uint8 = 1 << iota // an ACK, on the reverse path
	netMarked                   // a switch has marked the packet (an ACK: the packet it acknowledges)
	netLast                     // the last packet of its flow
	netStart                    // not a packet: the flow starts
)

func (it *netItem) payloadBytes() int64 { return int64(it.payload) + 1 }

// A netRing is a queue of items ordered by time of arrival; the buffer's length is a power of two.
// Items that have not arrived yet stand in it too, behind all that have. Positions grow, and begin
// again from 0 when it has drained, so that a calm port keeps to one cache line of its buffer.
type netRing struct {
	buf        []netItem
	head, tail uint32
}

const netRingMin = 4 // items: a cache line

func (r *netRing) at(pos uint32) *netItem {
	return &r.buf[pos&uint32(len(r.buf)-1)]
}

// push puts an item at its place by (time, where it comes from). Two items over one link with one
// time keep the order in which they come, which is that in which they left the one port. So the
// order is total, and does not depend on which domain or worker brings an item first.
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
