package network

import (
	"math/bits"
)

// A ring is the flows of a NIC, or of one of its classes, that have bytes to send, in start order, which is
// the order of the round robin.
type ring struct {
	sendPS    int64 // when the next data packet can be sent, or never; unknown if before the wire is free
	sendAt    int   // the place of its flow
	nextPlace int   // the place after the one served last
	vacated   int   // number of places whose flows have sent everything
	places    []nicPlace
	open      []uint64 // bit per place: the flow has bytes to send and its window is open
}

// unknown is a value of ring.sendPS before any time at which a wire is free.
const unknown = -1

// A nicPlace is one flow of a NIC.
type nicPlace struct {
	readyPS int64 // earliest time by pacing and by the ACK that opened the window
	slot    int32
}

// add appends a flow to the round robin.
func (c *ring) add(slot int32, nowPS int64) (place int32) {
	k := len(c.places)
	c.places = append(c.places, nicPlace{nowPS, slot})
	if k%64 == 0 {
		c.open = append(c.open, 0)
	}
	c.open[k/64] |= 1 << (k % 64)
	c.sendPS = unknown
	return int32(k)
}

func (c *ring) isOpen(place int32) bool { return c.open[place/64]>>(place%64)&1 != 0 }

func (c *ring) close(place int32) {
	c.open[place/64] &^= 1 << (place % 64)
	c.sendPS = unknown
}

func (c *ring) reopen(place int32, nowPS int64) {
	c.open[place/64] |= 1 << (place % 64)
	c.places[place].readyPS = max(c.places[place].readyPS, nowPS)
	c.sendPS = unknown
}

// choose selects the flow that sends next, and when, if the wire is free from freePS on. It is the flow that
// is ready first. All flows that are ready by freePS are equal: of these it is the next one after the flow
// that was served last.
func (c *ring) choose(freePS int64) {
	c.sendPS = never
	words := len(c.open)
	k := c.nextPlace / 64
	if words == 1 { // as most have: its places in their order
		switch word := c.open[0]; {
		case word == 0:
		case word&(word-1) == 0:
			c.sendAt = bits.TrailingZeros64(word)
			c.sendPS = max(freePS, c.places[c.sendAt].readyPS)
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

// chooseIn chooses among the open places of a rotated word, and reports whether one of them is ready by
// freePS.
func (c *ring) chooseIn(word uint64, rotated, first int, freePS int64) bool {
	for ; word != 0; word &= word - 1 {
		place := first + (bits.TrailingZeros64(word)+rotated)%64
		readyPS := max(freePS, c.places[place].readyPS)
		if readyPS < c.sendPS {
			c.sendPS = readyPS
			c.sendAt = place
			if readyPS == freePS {
				return true
			}
		}
	}
	return false
}

// compact removes the places of flows that have sent everything, and keeps the order of the others. It calls
// moved with the new place of each remaining slot.
func (c *ring) compact(moved func(slot, place int32)) {
	kept := 0
	after := -1
	for i, p := range c.places {
		if i == c.nextPlace {
			after = kept
		}
		if p.slot < 0 {
			continue
		}
		open := c.isOpen(int32(i))
		if open {
			c.open[kept/64] |= 1 << (kept % 64)
		} else {
			c.open[kept/64] &^= 1 << (kept % 64)
		}
		moved(p.slot, int32(kept))
		c.places[kept] = p
		kept++
	}
	if after < 0 {
		after = kept
	}
	c.nextPlace = after
	c.vacated = 0
	c.places = c.places[:kept]
	c.open = c.open[:(kept+63)/64]
	if kept%64 != 0 {
		c.open[kept/64] &= 1<<(kept%64) - 1
	}
	c.sendPS = unknown
}

// vacate removes the place of a flow that has nothing left to send.
func (c *ring) vacate(place int32) {
	c.close(place)
	c.places[place].slot = -1
	c.vacated++
	if c.vacated == len(c.places) {
		c.places = c.places[:0]
		c.open = c.open[:0]
		c.nextPlace = 0
		c.vacated = 0
	}
}
