package confidence

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
)

// CaseSlowdowns counts flows by size bin and cell of slowdown, where the slowdown is that of one link case.
// Estimator flow computes FCTs from the replay of the host's uplink, which receives the waits and marks of
// the other hops in blocks. The case of the hop where a flow waits longest simulates that hop's queue packet
// by packet and receives the other hops as feedback. At the fixed point of the passes, with blocks of one
// packet, all cases of a flow agree. Their disagreement measures the error of the method.
type CaseSlowdowns map[caseCell]int64

// A caseRow is a row of table case_slowdowns.
type caseRow struct {
	caseCell
	Flows int64 `col:"flows"`
}

var caseTable = columns.TableOf[caseRow](schema.CaseSlowdowns)

type caseCell struct {
	Bin  int32 `col:"bin"`
	Cell int32 `col:"cell"`
}

// Count counts a flow of the given size and slowdown.
func (c CaseSlowdowns) Count(sizeBytes int64, slowdown float64) {
	c[caseCell{int32(sizebin.Of(sizeBytes)), int32(cells.Of(slowdown))}]++
}

// cellsOf returns the cells of one size bin that have flows, in ascending order. sizebin.Count stands for all
// bins.
func (c CaseSlowdowns) cellsOf(bin int) []caseCell {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(c)), func(cell caseCell) bool {
		return bin != sizebin.Count && bin != int(cell.Bin)
	})
	slices.SortFunc(all, func(a, b caseCell) int { return cmp.Compare(a.Cell, b.Cell) })
	return all
}

// Write writes table case_slowdowns.
func (c CaseSlowdowns) Write(out schema.Sink) error {
	var rows []caseRow
	for bin := range sizebin.Count {
		for _, cell := range c.cellsOf(bin) {
			rows = append(rows, caseRow{cell, c[cell]})
		}
	}
	return caseTable.Write(out, rows)
}

// ReadCaseSlowdowns reads table case_slowdowns and sums the rows of all chunks.
func ReadCaseSlowdowns(in schema.Batches) (CaseSlowdowns, error) {
	c := CaseSlowdowns{}
	return c, columns.Each(in, func(r *caseRow) error {
		c[r.caseCell] += r.Flows
		return nil
	})
}

// Quantile returns the slowdown at a quantile of the flows of one size bin. sizebin.Count stands for all
// bins. If there are no flows, ok is false.
func (c CaseSlowdowns) Quantile(bin int, p float64) (slowdown float64, ok bool) {
	cell, ok := c.quantile(bin, p)
	return cells.Slowdown(cell, 0.5), ok
}

// quantile returns the cell at a quantile.
func (c CaseSlowdowns) quantile(bin int, p float64) (cell int, ok bool) {
	ascending := c.cellsOf(bin)
	total := int64(0)
	for _, cell := range ascending {
		total += c[cell]
	}
	want := int64(math.Ceil(p * float64(total)))
	for _, cell := range ascending {
		want -= c[cell]
		if want <= 0 {
			return int(cell.Cell), total > 0
		}
	}
	return 0, false
}
