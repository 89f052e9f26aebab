// Package roundrobin chooses which flow of a NIC sends next. Flows that may send alternate, with one packet
// each.
package roundrobin

import (
	"math/bits"

	"parsimon/simkernel"
)

// A Ring is the flows of a NIC, or of one of its classes, that have bytes to send, in start order, which is
// the order of the round robin.
type Ring struct {
	SendPS    int64 // when the next data packet can be sent, or never; Unknown if before the wire is free
	SendAt    int   // the place of its flow
	nextPlace int   // the place after the one served last
	vacated   int   // number of places whose flows have sent everything
	Places    []Place
	open      []uint64 // bit per place: the flow has bytes to send and its window is open
}

// Unknown is a value of Ring.SendPS before any time at which a wire is free.
const Unknown = -1

// A Place is one flow of a NIC.
type Place struct {
	ReadyPS int64 // earliest time by pacing and by the ACK that opened the window
	Slot    int32
}

// Add appends a flow to the round robin.
func (c *Ring) Add(slot int32, nowPS int64) (place int32) {
	k := len(c.Places)
	c.Places = append(c.Places, Place{nowPS, slot})
	if k%64 == 0 {
		c.open = append(c.open, 0)
	}
	c.open[k/64] |= 1 << (k % 64)
	c.SendPS = Unknown
	return int32(k)
}

// IsOpen reports whether the window of the flow is open.
func (c *Ring) IsOpen(place int32) bool { return c.open[place/64]>>(place%64)&1 != 0 }

// Close notes that the window of a flow is closed.
func (c *Ring) Close(place int32) {
	c.open[place/64] &^= 1 << (place % 64)
	c.SendPS = Unknown
}

// Reopen notes that the window of a flow is open again.
func (c *Ring) Reopen(place int32, nowPS int64) {
	c.open[place/64] |= 1 << (place % 64)
	c.Places[place].ReadyPS = max(c.Places[place].ReadyPS, nowPS)
	c.SendPS = Unknown
}

// Sent notes that the flow of a place has sent a packet, and that its pacing ends at readyPS.
func (c *Ring) Sent(place int, readyPS int64) {
	c.nextPlace = place + 1
	c.SendPS = Unknown
	c.Places[place].ReadyPS = readyPS
}

// Choose selects the flow that sends next, and when, if the wire is free from freePS on. It is the flow that
// is ready first. All flows that are ready by freePS are equal. Among them, it is the next one after the flow
// that was served last.
func (c *Ring) Choose(freePS int64) {
	c.SendPS = simkernel.Never
	words := len(c.open)
	k := c.nextPlace / 64
	if words == 1 { // as most have: its places in their order
		switch word := c.open[0]; {
		case word == 0:
		case word&(word-1) == 0:
			c.SendAt = bits.TrailingZeros64(word)
			c.SendPS = max(freePS, c.Places[c.SendAt].ReadyPS)
		default:
			c.chooseIn(bits.RotateLeft64(word, -c.nextPlace), c.nextPlace, 0, freePS)
		}
		return
	}
	rest := uint64(1)<<(c.nextPlace%64) - 1 // places before the one served last, in its word
	for i := 0; i <= words && words > 0; i++ {
		if k >= words {
			k = 0
		}
		word := c.open[k]
		switch i {
		case 0:
			word &^= rest
		case words:
			word &= rest
		}
		if c.chooseIn(word, 0, k*64, freePS) {
			return
		}
		k++
	}
}

// chooseIn chooses among the open positions of a rotated word, and reports whether one of them is ready by
// freePS.
func (c *Ring) chooseIn(word uint64, rotated, first int, freePS int64) bool {
	for ; word != 0; word &= word - 1 {
		place := first + (bits.TrailingZeros64(word)+rotated)%64
		readyPS := max(freePS, c.Places[place].ReadyPS)
		if readyPS < c.SendPS {
			c.SendPS = readyPS
			c.SendAt = place
			if readyPS == freePS {
				return true
			}
		}
	}
	return false
}

// Sparse reports whether most places have no flow: Compact is due.
func (c *Ring) Sparse() bool { return c.vacated > 32 && c.vacated*2 > len(c.Places) }

// Compact removes the places of flows that have sent everything, and keeps the order of the others. It calls
// moved with the new position of each remaining slot.
func (c *Ring) Compact(moved func(slot, place int32)) {
	kept := 0
	after := -1
	for i, p := range c.Places {
		if i == c.nextPlace {
			after = kept
		}
		if p.Slot < 0 {
			continue
		}
		open := c.IsOpen(int32(i))
		if open {
			c.open[kept/64] |= 1 << (kept % 64)
		} else {
			c.open[kept/64] &^= 1 << (kept % 64)
		}
		moved(p.Slot, int32(kept))
		c.Places[kept] = p
		kept++
	}
	if after < 0 {
		after = kept
	}
	c.nextPlace = after
	c.vacated = 0
	c.Places = c.Places[:kept]
	c.open = c.open[:(kept+63)/64]
	if kept%64 != 0 {
		c.open[kept/64] &= 1<<(kept%64) - 1
	}
	c.SendPS = Unknown
}

// Vacate removes the place of a flow that has nothing left to send.
func (c *Ring) Vacate(place int32) {
	c.Close(place)
	c.Places[place].Slot = -1
	c.vacated++
	if c.vacated == len(c.Places) {
		c.Places = c.Places[:0]
		c.open = c.open[:0]
		c.nextPlace = 0
		c.vacated = 0
	}
}
