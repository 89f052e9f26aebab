package network

// PLB (Qureshi et al., SIGCOMM'22): the tag of a packet is the flow label that switches hash with the flow. A
// sender counts rounds. A round lasts until all packets that were in flight when it began are acknowledged.
// It is congested if half of its ACKs or more are marked. The sender takes the next label after
// plbRoundsLimit congested rounds in a row, after plbIdleRounds if nothing is in flight, and after each
// timeout. The constants are the defaults of Linux (tcp_plb_cong_thresh 128 of 256, tcp_plb_rehash_rounds 12,
// tcp_plb_idle_rehash_rounds 3). Linux suspends PLB after a timeout, which is not modeled.
const (
	plbRoundsLimit = 12
	plbIdleRounds  = 3
)

// plbRounds is PLB of a sender.
type plbRounds struct {
	label        uint32
	acks, marks  int32 // of the present round
	congested    int32 // rounds in a row
	untilPackets int64 // the round ends with the ACK of a packet from this one on
}

// repath processes an ACK.
func (w *forwarding) repath(f *recoveryFlow, number int64, marked bool) {
	if w.net.Balance != PLB {
		return
	}
	p := &f.plb
	p.acks++
	if marked {
		p.marks++
	}
	if number < p.untilPackets {
		return
	}
	p.congested++
	if 2*p.marks < p.acks {
		p.congested = 0
	}
	idle := number+1 >= f.next
	if p.congested >= plbRoundsLimit || idle && p.congested >= plbIdleRounds {
		p.label++
		p.congested = 0
	}
	p.acks = 0
	p.marks = 0
	p.untilPackets = f.next
}
