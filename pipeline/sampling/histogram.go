package sampling

import (
	"slices"
	"sort"

	"parsimon/stages/confidence"
)

// cells divide slowdowns logarithmically: a cell is 0.02% wide.
const cells = confidence.Cells(2e-4)

// cellOf returns the cell of a slowdown of at least 1.
func cellOf(slowdown float64) int32 { return int32(cells.Of(slowdown)) }

// A histogram counts the slowdowns of a group of flows in one slot. The zero value is empty. Call Add for
// every flow, then Seal, then the other methods, which treat nil as empty.
type histogram struct {
	cells []int32 // ascending once sealed
	upTo  []int64 // flows up to and including the cell
}

// Add adds a flow.
func (c *histogram) Add(cell int32) { c.cells = append(c.cells, cell) }

// Seal ends the adding of flows.
func (c *histogram) Seal() {
	slices.Sort(c.cells)
	cells := c.cells[:0]
	c.upTo = nil
	for i, cell := range c.cells {
		last := len(cells) - 1
		if last >= 0 && cells[last] == cell {
			c.upTo[last] = int64(i) + 1
			continue
		}
		cells = append(cells, cell)
		c.upTo = append(c.upTo, int64(i)+1)
	}
	c.cells = slices.Clip(cells)
}

// Flows returns the number of flows.
func (c *histogram) Flows() int64 {
	if c == nil || len(c.upTo) == 0 {
		return 0
	}
	return c.upTo[len(c.upTo)-1]
}

// UpTo returns the number of flows up to and including a cell.
func (c *histogram) UpTo(cell int32) int64 {
	if c == nil || len(c.cells) == 0 || c.cells[0] > cell {
		return 0
	}
	above := sort.Search(len(c.cells), func(i int) bool { return c.cells[i] > cell })
	return c.upTo[above-1]
}

// last returns the greatest cell with a flow, or -1 without flows.
func (c *histogram) last() int32 {
	if c == nil || len(c.cells) == 0 {
		return -1
	}
	return c.cells[len(c.cells)-1]
}
