package network

// look opens and closes the windows of flows whose timers had ticked by sawPS, when their NIC last looked at
// them. It returns when the NIC must look again if nothing arrives.
func (c *nic) look(d *domain, p *port, sawPS int64) (nextPS int64) {
	for len(c.ticks) > 0 && c.ticks[0].atPS <= sawPS {
		t := c.ticks[0]
		s := &d.net.flows.senders[t.slot]
		if d.net.flows.info[t.slot].row != t.row || s.ackedBytes == s.sizeBytes {
			c.ticks.pop()
			continue
		}
		if s.external.Tick(&d.net.params, sawPS) {
			s.setRate()
		}
		if s.sentBytes < s.sizeBytes {
			d.updateOpen(c, s, s.sentBytes-s.ackedBytes < s.windowBytes, sawPS)
		}
		t.atPS = s.external.NextTick()
		c.ticks.replace(t)
	}
	if len(c.ticks) == 0 {
		return never
	}
	fromPS := max(sawPS+1, c.ticks[0].atPS)
	if p.freePS >= fromPS {
		return p.freePS
	}
	for ; len(c.ready) > 0; c.ready.pop() {
		t := c.ready[0]
		s := &d.net.flows.senders[t.slot]
		if t.atPS >= fromPS && d.net.flows.info[t.slot].row == t.row && s.sentBytes < s.sizeBytes &&
			c.ringOf(d, s).places[s.place].readyPS == t.atPS {
			return t.atPS
		}
	}
	return never
}

// noteReady notes when the pacing of a flow ends, so that the NIC looks at its timers then. It is called
// after the flow has sent a packet or gone back.
func (c *nic) noteReady(d *domain, s *sender, nowPS int64) {
	for len(c.ready) > 0 && c.ready[0].atPS <= nowPS {
		c.ready.pop()
	}
	at := &c.ringOf(d, s).places[s.place]
	if at.readyPS > nowPS {
		c.ready.push(timer{at.readyPS, d.net.flows.info[at.slot].row, at.slot})
	}
}
