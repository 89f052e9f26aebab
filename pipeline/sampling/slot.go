package sampling

import "slices"

// A slot is the part of the workload between two times. It is the cluster that the design draws. A drawn slot
// is a window.
type slot struct {
	FromNS int64
	ToNS   int64 // excluded
	Flows  int64
	Bytes  int64
}

// A cutter cuts a workload into slots of about the same number of flows. Flows that start at the same time
// are in the same slot. A cutter is used by one goroutine at a time: Add for every flow in start order, then
// Slots.
type cutter struct {
	flowsPerSlot int64
	slots        []slot
	lastNS       int64 // start of the last flow
	fixed        bool  // the times of the slots are given
	at           int   // index of the slot of the last flow
}

// newCutter returns a cutter for slots of the given number of flows, at least one.
func newCutter(flows int64) *cutter { return &cutter{flowsPerSlot: max(1, flows), at: -1} }

// recount returns a cutter that counts the flows of another workload in slots of the same times. It ignores
// flows outside all slots.
func recount(slots []slot) *cutter {
	c := &cutter{slots: slices.Clone(slots), fixed: true}
	for i := range c.slots {
		c.slots[i].Flows = 0
		c.slots[i].Bytes = 0
	}
	return c
}

// Add adds a flow. Starts must not decrease.
func (c *cutter) Add(startNS, bytes int64) {
	switch {
	case c.fixed:
		for c.at < len(c.slots) && c.slots[c.at].ToNS <= startNS {
			c.at++
		}
		if c.at == len(c.slots) || c.slots[c.at].FromNS > startNS {
			return
		}
	case c.at < 0 || c.slots[c.at].Flows >= c.flowsPerSlot && startNS > c.lastNS:
		if c.at >= 0 {
			c.slots[c.at].ToNS = startNS
		}
		c.slots = append(c.slots, slot{FromNS: startNS})
		c.at++
	}
	c.slots[c.at].Flows++
	c.slots[c.at].Bytes += bytes
	c.lastNS = startNS
}

// Slots returns the slots in order of time. Slots that were cut cover the time from the first start to the
// last without gaps.
func (c *cutter) Slots() []slot {
	last := len(c.slots) - 1
	if last >= 0 && !c.fixed {
		c.slots[last].ToNS = c.lastNS + 1
	}
	return c.slots
}
