package exact

import (
	"fmt"
	"slices"

	"parsimon/schema/columns"
	"parsimon/stages/slowdown"
)

// A hopIndex finds the rows of table exact_hops by flow and hop, for one chunk of flows.
type hopIndex struct {
	firstRow int64
	hops     []slowdown.Hop // of all flows, grouped by flow; without a row, the link is below 0
	flows    []hopsOf       // by flow of the chunk
	path     []int32        // links of the flow of the last call of of
}

// hopsOf says where the hops of a flow are.
type hopsOf struct {
	first  int32 // index of hop 0
	length int16 // 0: no path
}

// begin removes all rows and prepares for rows about the chunk of flows that starts at row firstRow.
func (x *hopIndex) begin(firstRow, flows int64) {
	x.firstRow = firstRow
	x.hops = x.hops[:0]
	x.flows = columns.Resize(x.flows, int(flows))
	clear(x.flows)
}

// usualHops is the largest number of hops for which memory is reserved per flow that has not been read.
const usualHops = 8

// reserve allocates the hops of flow f of the chunk.
func (x *hopIndex) reserve(f int, hops int16) {
	x.flows[f] = hopsOf{int32(len(x.hops)), hops}
	if cap(x.hops)-len(x.hops) < int(hops) { // later flows have about as many hops
		x.hops = slices.Grow(x.hops, max(int(hops), min(int(hops), usualHops)*(len(x.flows)-f)))
	}
	for h := range hops {
		x.hops = append(x.hops, slowdown.Hop{Index: h, Link: -1})
	}
}

// add adds a row about a flow of the chunk at a hop. If there are several such rows, the first is kept.
func (x *hopIndex) add(row int64, hop slowdown.Hop) error {
	of := x.flows[row-x.firstRow]
	if hop.Index < 0 || hop.Index >= of.length {
		return fmt.Errorf("exact_hops: flow row %d has hop %d, which is not on its path of %d", row, hop.Index,
			of.length)
	}
	at := &x.hops[int(of.first)+int(hop.Index)]
	if at.Link < 0 {
		*at = hop
	}
	return nil
}

// of returns the hops of flow f of the chunk, and sets path. If the flow has no path, it returns none. A hop
// without a row is an error. The caller may change the result.
func (x *hopIndex) of(f int) ([]slowdown.Hop, error) {
	x.path = x.path[:0]
	of := x.flows[f]
	hops := x.hops[of.first:][:of.length]
	for h := range hops {
		if hops[h].Link >= 0 {
			x.path = append(x.path, hops[h].Link)
		}
	}
	if len(x.path) != len(hops) {
		row := x.firstRow + int64(f)
		return nil, fmt.Errorf("exact_hops has %d of the %d hops of flow row %d", len(x.path), len(hops), row)
	}
	return hops, nil
}
