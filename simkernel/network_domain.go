package simkernel

import "math"

// netVisits is how many windows ahead a visit can be noted; one farther off is noted for the last
// of them, finds nothing to do, and notes the next.
const netVisits = 64

// A netDomain is a part of the network's nodes with their ports, simulated by one worker at a time.
type netDomain struct {
	net   *Network
	id    int32
	ports []netPort

	window, startPS, endPS int64 // of the network, copied for the length of a window

	// visits[w % netVisits] are the ports with something to do in window w; ^port is the far end
	// of a far link.
	visits [netVisits][]int32

	// outbox[step % 2][domain] are packets for ports of other domains. They are read in the next
	// window, while this domain fills the other half.
	outbox [2][][]netMail

	finished []netFinish // flows delivered in this window
	home     []int32     // slots of flows whose last ACK came home in this window
}

type netMail struct {
	item netItem
	port int32
}

func (d *netDomain) init(n *Network, id int32) {
	d.net, d.id, d.ports = n, id, n.ports
	d.outbox[0] = make([][]netMail, len(n.domains))
	d.outbox[1] = make([][]netMail, len(n.domains))
	d.window = -1
}

// run simulates the network's window.
func (d *netDomain) run() {
	n := d.net
	out := d.outbox[n.step&1]
	for i := range out {
		out[i] = out[i][:0]
	}
	for i := range n.domains {
		for _, m := range n.domains[i].outbox[n.step&1^1][d.id] {
			d.deliver(m.port, m.item)
		}
	}
	list := &d.visits[d.window%netVisits]
	for i := 0; i < len(*list); i++ {
		u := (*list)[i]
		if u < 0 {
			d.runFar(^u)
			continue
		}
		p := &d.ports[u]
		if p.visit != d.window {
			continue // noted twice: it has been here
		}
		p.visit = netNever
		if p.nic >= 0 {
			d.runNIC(u, p, &n.nics[p.nic])
		} else {
			d.runPort(u, p)
		}
	}
	*list = (*list)[:0]
}

// nextWindow is the first window after the present one with something to do for this domain or,
// because of it, for another.
func (d *netDomain) nextWindow() int64 {
	for _, box := range d.outbox[d.net.step&1] {
		if len(box) > 0 {
			return d.window + 1
		}
	}
	if d.window >= 0 {
		for w := d.window + 1; w < d.window+netVisits; w++ {
			if len(d.visits[w%netVisits]) > 0 {
				return w
			}
		}
	}
	return math.MaxInt64
}

// windowOf is the window of a time that is not before the present one.
func (d *netDomain) windowOf(atPS int64) int64 {
	ahead := atPS - d.endPS
	length := d.endPS - d.startPS
	switch {
	case ahead < 0:
		return d.window
	case ahead < length:
		return d.window + 1
	case ahead < 2*length:
		return d.window + 2
	}
	return d.window + 1 + ahead/length
}

// visitPort notes that the port has something to do at a time, which may be netNever.
func (d *netDomain) visitPort(u int32, p *netPort, atPS int64) {
	if atPS == netNever {
		return
	}
	w := min(d.windowOf(atPS), d.window+netVisits-1)
	if w < p.visit {
		p.visit = w
		list := &d.visits[w%netVisits]
		*list = append(*list, u)
	}
}

// deliver puts an item into the queue of a port of this domain that it reaches at it.atPS.
func (d *netDomain) deliver(u int32, it netItem) {
	p := &d.ports[u]
	if it.flags&netAck != 0 && p.nic < 0 {
		p.acks.insert(it, d.net.flows.rows)
	} else {
		p.data.insert(it, d.net.flows.rows)
	}
	d.visitPort(u, p, it.atPS)
}

// forward sends an item, which has left port p and reaches port to at it.atPS, on its way.
func (d *netDomain) forward(u int32, p *netPort, to int32, it netItem) {
	if p.farLink {
		if p.far.len() == 0 {
			d.visitFar(u, it.atPS)
		}
		p.far.push(it)
	} else if p.onward == d.id {
		d.deliver(to, it)
	} else {
		box := &d.outbox[d.net.step&1][p.onward]
		*box = append(*box, netMail{it, to})
	}
}

// visitFar notes that the first packet on a far link arrives at atPS.
func (d *netDomain) visitFar(u int32, atPS int64) {
	w := min(d.windowOf(atPS)-1, d.window+netVisits-1)
	list := &d.visits[w%netVisits]
	*list = append(*list, ^u)
}

// runFar hands on the packets of a far link that arrive in the next window.
func (d *netDomain) runFar(u int32) {
	p, t := &d.ports[u], &d.net.flows
	for ; p.far.len() > 0; p.far.head++ {
		it := *p.far.at(p.far.head)
		if it.atPS >= 2*d.endPS-d.startPS {
			d.visitFar(u, it.atPS)
			return
		}
		var to int32
		if it.flags&netAck != 0 {
			to = t.hops[int(it.slot)*t.stride+int(it.hop+1)].backward
		} else {
			to = t.hops[int(it.slot)*t.stride+int(it.hop-1)].forward
		}
		if p.onward == d.id {
			d.deliver(to, it)
		} else {
			box := &d.outbox[d.net.step&1][p.onward]
			*box = append(*box, netMail{it, to})
		}
	}
}
