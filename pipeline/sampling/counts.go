package sampling

import (
	"math"
	"slices"
	"sort"
)

// Step is the relative width of a cell of slowdown.
const Step = 2e-4

// CellOf returns the cell of a slowdown of at least 1: cell 0 is exactly 1, and cell k ends at exp(k × Step).
func CellOf(slowdown float64) int32 {
	if !(slowdown > 1) {
		return 0
	}
	return 1 + int32(math.Log(slowdown)/Step)
}

// Slowdown returns the slowdown at a fraction of a cell's width.
func Slowdown(cell int32, fraction float64) float64 {
	if cell == 0 {
		return 1
	}
	return math.Exp((float64(cell-1) + fraction) * Step)
}

// Counts are the slowdowns of a group of flows in one slot. The zero value is empty. Add, then Seal, then the others.
type Counts struct {
	cells []int32 // ascending once sealed
	upTo  []int64 // flows up to and including the cell
}

// Add adds a flow.
func (c *Counts) Add(cell int32) { c.cells = append(c.cells, cell) }

// Seal sorts the flows.
func (c *Counts) Seal() {
	slices.Sort(c.cells)
	cells := c.cells[:0]
	c.upTo = nil
	for i, cell := range c.cells {
		if n := len(cells) - 1; n >= 0 && cells[n] == cell {
			c.upTo[n] = int64(i) + 1
			continue
		}
		cells, c.upTo = append(cells, cell), append(c.upTo, int64(i)+1)
	}
	c.cells = slices.Clip(cells)
}

// Flows is the number of flows.
func (c *Counts) Flows() int64 {
	if len(c.upTo) == 0 {
		return 0
	}
	return c.upTo[len(c.upTo)-1]
}

// UpTo is the number of flows up to and including a cell.
func (c *Counts) UpTo(cell int32) int64 {
	n := sort.Search(len(c.cells), func(i int) bool { return c.cells[i] > cell })
	if n == 0 {
		return 0
	}
	return c.upTo[n-1]
}

// last is the greatest cell with a flow; -1 without flows.
func (c *Counts) last() int32 {
	if len(c.cells) == 0 {
		return -1
	}
	return c.cells[len(c.cells)-1]
}
