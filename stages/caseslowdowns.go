package stages

import (
	"maps"
	"math"
	"slices"

	"parsimon/schema/sizebin"
)

// CaseSlowdowns counts flows by size bin and cell of slowdown, the slowdown being that of one link case: estimator Flow
// takes FCTs from the replay of the host's uplink, which is given the waits and marks of the other hops in blocks. The
// case of the hop where a flow waits longest has that hop's queue packet by packet, and is given the others. At the
// fixed point of the passes, with blocks of one packet, all cases of a flow agree; how far they disagree measures the
// method's own error.
type CaseSlowdowns []map[int]int64

func (c *CaseSlowdowns) count(sizeBytes int64, slowdown float64) {
	if *c == nil {
		*c = make(CaseSlowdowns, sizebin.Count)
		for i := range *c {
			(*c)[i] = map[int]int64{}
		}
	}
	(*c)[sizebin.Of(sizeBytes)][cellOf(slowdown)]++
}

// Add adds the counts of another chunk of flows.
func (c *CaseSlowdowns) Add(more CaseSlowdowns) {
	if *c == nil && more != nil {
		*c = make(CaseSlowdowns, sizebin.Count)
	}
	for bin := range min(len(more), len(*c)) {
		if (*c)[bin] == nil {
			(*c)[bin] = map[int]int64{}
		}
		for cell, flows := range more[bin] {
			(*c)[bin][cell] += flows
		}
	}
}

// quantile returns the cell of a quantile of one size bin; sizebin.Count is all of them. ok is false without flows.
func (c CaseSlowdowns) quantile(bin int, p float64) (cell int, ok bool) {
	sum, total := map[int]int64{}, int64(0)
	for b, counts := range c {
		if b != bin && bin != sizebin.Count {
			continue
		}
		for cell, flows := range counts {
			sum[cell] += flows
			total += flows
		}
	}
	want := int64(math.Ceil(p * float64(total)))
	for _, cell := range slices.Sorted(maps.Keys(sum)) {
		if want -= sum[cell]; want <= 0 {
			return cell, total > 0
		}
	}
	return 0, false
}
