package network

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// Losses are counts of packets. When all flows have finished, Sent = Delivered + Dropped + Discarded + Lost.
type Losses struct {
	Sent      int64 // by hosts, retransmissions included
	Delivered int64 // in order
	Dropped   int64 // by switches
	Discarded int64 // by receivers: out of order or duplicate
	Lost      int64 // on links that were down or lost packets, and where no route was left (Move)
	Again     int64 // retransmissions
	NACKs     int64 // sent by receivers
	Timeouts  int64
}

func (l *Losses) add(o *Losses) {
	l.Sent += o.Sent
	l.Delivered += o.Delivered
	l.Dropped += o.Dropped
	l.Discarded += o.Discarded
	l.Lost += o.Lost
	l.Again += o.Again
	l.NACKs += o.NACKs
	l.Timeouts += o.Timeouts
}

// A lateStat records a mark or the wait of a retransmitted packet at a hop. It also records the
// retransmission itself.
type lateStat struct {
	calendar.Item
	startPS     int64
	link        int32 // where it waited
	mark, again bool
}

// A finish is the delivery of the last packet of a flow.
type finish struct {
	atPS int64
	slot int32
}

// settleLasts sets the waits of last packets. If a last packet was sent several times, the latest one counts.
func (r *recovery) settleLasts() {
	slices.SortFunc(r.lasts, func(a, b lateStat) int {
		return cmp.Or(cmp.Compare(a.startPS, b.startPS), cmp.Compare(a.link, b.link))
	})
	for _, l := range r.lasts {
		r.net.flows.lastPS[l.Hop] = l.startPS - l.AtPS
	}
	r.lasts = r.lasts[:0]
}

// settle counts, between epochs, events of flows in several domains, and frees the flows that have left the
// network.
func (r *recovery) settle() {
	n := r.net
	t := &n.flows
	for i := range n.domains {
		for _, e := range n.domains[i].journal.finished {
			r.flows[e.slot].deliverPS = e.atPS
		}
	}
	for i := range n.domains {
		d := &n.domains[i]
		for k := range d.journal.late {
			l := &d.journal.late[k]
			if n.paths != nil && !l.mark && !l.again {
				n.paths.waits[l.link].Add(l.startPS - l.AtPS)
			}
			switch f := &r.flows[t.hops[l.Hop].flow]; {
			case l.startPS > f.deliverPS:
			case l.again:
				f.again++
			case l.mark:
				t.stats[l.Hop].marks++
			default:
				t.stats[l.Hop].addWait(l.startPS - l.AtPS)
				if l.Bits&calendar.FlagLast != 0 {
					r.lasts = append(r.lasts, *l)
				}
			}
		}
		d.journal.late = d.journal.late[:0]
	}
	r.settleLasts()
	for i := range n.domains {
		d := &n.domains[i]
		for _, e := range d.journal.finished {
			d.journal.results.add(t, e.slot, e.atPS)
			row := &d.journal.results.rows[len(d.journal.results.rows)-1]
			if n.paths != nil { // packets that overtake each other, or a faster path
				row.idealNS = min(row.idealNS, simkernel.CeilNS(row.atPS-row.startPS))
			}
			row.again = r.flows[e.slot].again
			row.reordered = r.receivers[e.slot].reordered
		}
		d.journal.finished = d.journal.finished[:0]
		for _, slot := range d.journal.gone {
			n.domains[t.info[slot].domain].recovery.returned(slot, &r.flows[slot])
		}
		d.journal.gone = d.journal.gone[:0]
	}
}

// A run is declared a retransmission storm when senders that retransmit each packet more than stormRatio
// times have retransmitted stormLeast packets. Such senders rarely finish: they do not slow down after a
// loss, so senders that go back can keep a link busy forever. The number never decreases, so the time of the
// comparison does not matter.
const (
	stormRatio = 20
	stormLeast = 10_000_000
	stormSteps = 1024 // between two checks, which read the counters of all domains
)

// ErrStorm is the error of a simulation in which senders only retransmit lost packets.
var ErrStorm = errors.New("a retransmission storm")

// storm reports whether there is a retransmission storm.
func (n *Network) storm() error {
	packets := int64(0)
	for i := range n.domains {
		packets += n.domains[i].journal.storming
	}
	if packets < stormLeast {
		return nil
	}
	return fmt.Errorf("%w: switches drop packets faster than their senders, which do not slow down after a "+
		"loss, recover: packets were retransmitted more than %d times each; selective recovery "+
		"(--selective-recovery), TCP (--transport cubic or newreno) or a larger --switch-buffer avoid it", ErrStorm,
		stormRatio)
}
