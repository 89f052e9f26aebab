package network

import (
	"parsimon/simkernel"
)

// A portKind is common to the ports of all links with the same bandwidth and delay that end in the same
// domain.
type portKind struct {
	sendPS  [2]int64 // time to send a full packet (forward) or an ACK (backward)
	delayPS int64
	far     int32 // domain of the far end
	wire    simkernel.WireTime
	rule    simkernel.MarkRule
	bps     float64

	classRules *[MaxClasses]simkernel.MarkRule // with classes
}

// kind returns the kind of a link's port.
func (n *Network) kind(link Link) portKind {
	p := &n.params
	from, always := p.MarkBytes(link.BandwidthBps, link.DelayNS)
	k := portKind{wire: simkernel.NewWireTime(float64(link.BandwidthBps)), delayPS: link.DelayNS * simkernel.PSPerNS,
		far: n.domainOf[link.DstNode], rule: p.MarkRule(from, always), bps: float64(link.BandwidthBps)}
	k.sendPS = [2]int64{k.wire.PS(n.fullBytes), k.wire.PS(p.AckBytes)}
	return k
}

// kindOf returns the kind of a link's port, with the rules of classes.
func (n *Network) kindOf(link Link) *portKind {
	k := n.kind(link)
	if n.kinds[k] == nil {
		of := k
		rules := n.rulesOf(link)
		of.classRules = &rules
		n.kinds[k] = &of
	}
	return n.kinds[k]
}
