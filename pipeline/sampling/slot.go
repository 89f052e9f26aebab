package sampling

import (
	"slices"
)

// A Slot is a part of the workload between two times: the cluster that is drawn or not.
type slot struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"` // excluded
	Flows  int64 `json:"flows"`
	Bytes  int64 `json:"bytes"`
}

// A cutter cuts a workload into slots of about the same number of flows. Flows that start at the same time are in the
// same slot. A cutter is used by one goroutine at a time: Add for every flow in start order, then Slots.
type cutter struct {
	most  int64 // flows of a slot
	slots []slot
	last  int64 // start of the last flow
	given bool  // the slots are
	at    int
}

// newCutter cuts slots of so many flows, at least one.
func newCutter(flows int64) *cutter { return &cutter{most: max(1, flows), at: -1} }

// recount counts the flows of another workload in slots of the same times. Flows outside all slots are not counted.
func recount(slots []slot) *cutter {
	c := &cutter{slots: slices.Clone(slots), given: true}
	for i := range c.slots {
		c.slots[i].Flows, c.slots[i].Bytes = 0, 0
	}
	return c
}

// Add adds a flow. Starts do not descend.
func (c *cutter) Add(startNS, bytes int64) {
	switch {
	case c.given:
		for c.at < len(c.slots) && c.slots[c.at].ToNS <= startNS {
			c.at++
		}
		if c.at == len(c.slots) || c.slots[c.at].FromNS > startNS {
			return
		}
	case c.at < 0 || c.slots[c.at].Flows >= c.most && startNS > c.last:
		if c.at >= 0 {
			c.slots[c.at].ToNS = startNS
		}
		c.slots = append(c.slots, slot{FromNS: startNS})
		c.at++
	}
	c.slots[c.at].Flows++
	c.slots[c.at].Bytes += bytes
	c.last = startNS
}

// Slots returns the slots in order. Those that were cut cover the time from the first start to the last without gaps.
func (c *cutter) Slots() []slot {
	if n := len(c.slots) - 1; n >= 0 && !c.given {
		c.slots[n].ToNS = c.last + 1
	}
	return c.slots
}
