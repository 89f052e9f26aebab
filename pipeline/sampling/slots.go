package sampling

import "slices"

// A Slot is a part of the workload between two times: the cluster that is drawn or not.
type Slot struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"` // excluded
	Flows  int64 `json:"flows"`
	Bytes  int64 `json:"bytes"`
}

// A Cutter cuts a workload into slots of about the same number of flows. Flows that start at the same time are in the
// same slot. A Cutter is used by one goroutine at a time: Add for every flow in start order, then Slots.
type Cutter struct {
	most  int64 // flows of a slot
	slots []Slot
	last  int64 // start of the last flow
}

// NewCutter cuts slots of so many flows, at least one.
func NewCutter(flows int64) *Cutter { return &Cutter{most: max(1, flows)} }

// Add adds a flow. Starts do not descend.
func (c *Cutter) Add(startNS, bytes int64) {
	n := len(c.slots) - 1
	if n < 0 || c.slots[n].Flows >= c.most && startNS > c.last {
		if n >= 0 {
			c.slots[n].ToNS = startNS
		}
		c.slots = append(c.slots, Slot{FromNS: startNS})
		n++
	}
	c.slots[n].Flows++
	c.slots[n].Bytes += bytes
	c.last = startNS
}

// Slots returns the slots in order. They cover the time from the first start to the last without gaps.
func (c *Cutter) Slots() []Slot {
	if n := len(c.slots) - 1; n >= 0 {
		c.slots[n].ToNS = c.last + 1
	}
	return c.slots
}

// Recount counts the flows of another workload in slots of the same times.
func Recount(slots []Slot) *Recounter {
	r := &Recounter{slots: slices.Clone(slots)}
	for i := range r.slots {
		r.slots[i].Flows, r.slots[i].Bytes = 0, 0
	}
	return r
}

// A Recounter is used like a Cutter.
type Recounter struct {
	slots []Slot
	at    int
}

// Add adds a flow. Starts do not descend; flows outside all slots are not counted.
func (r *Recounter) Add(startNS, bytes int64) {
	for r.at < len(r.slots) && r.slots[r.at].ToNS <= startNS {
		r.at++
	}
	if r.at < len(r.slots) && r.slots[r.at].FromNS <= startNS {
		r.slots[r.at].Flows++
		r.slots[r.at].Bytes += bytes
	}
}

// Slots returns the slots.
func (r *Recounter) Slots() []Slot { return r.slots }
