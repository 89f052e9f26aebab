package network

import "parsimon/simkernel"

// loadSlots is how many slots of time the load of a link is counted in at most. Their length doubles when time outgrows
// them.
const (
	loadSlots  = 128
	loadSlotPS = 1000 * simkernel.PSPerNS // at first
)

// A linkLoad is the data that a link has sent in each slot of loadSlotPS << wider. It is counted at the link's far end,
// so that one domain does.
type linkLoad struct {
	bytes [loadSlots]int64
	wider int
}

func (l *linkLoad) widen() {
	for i := range loadSlots / 2 {
		l.bytes[i] = l.bytes[2*i] + l.bytes[2*i+1]
	}
	clear(l.bytes[loadSlots/2:])
	l.wider++
}

// CountLoads makes Run count for LoadsOverTime.
func (n *Network) CountLoads() { n.loads = make([]linkLoad, len(n.links)) }

// LoadsOverTime returns the bytes of data, headers included, that each link has sent in each slot of slotNS, after Run.
// What was lost on the link is among them.
func (n *Network) LoadsOverTime() (slotNS int64, bytes [][]int64) {
	widest := 0
	for i := range n.loads {
		widest = max(widest, n.loads[i].wider)
	}
	for i := range n.loads {
		l := &n.loads[i]
		for l.wider < widest {
			l.widen()
		}
		bytes = append(bytes, l.bytes[:])
	}
	return loadSlotPS / simkernel.PSPerNS << widest, bytes
}

// countLoads counts what arrives in a window.
func (d *domain) countLoads(arrivals []arrival) {
	for i := range arrivals {
		a := &arrivals[i]
		if a.hop == pauseHop || a.bits&flagAck != 0 { // so has the start of a flow
			continue
		}
		l := &d.net.loads[a.link]
		for d.leftPS(a)/loadSlotPS>>l.wider >= loadSlots {
			l.widen()
		}
		l.bytes[d.leftPS(a)/loadSlotPS>>l.wider] += d.wireBytes(&a.item)
	}
}
