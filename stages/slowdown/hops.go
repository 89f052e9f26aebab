package slowdown

import (
	"fmt"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// A Cell is a row of a table about a flow at a hop. The table defines the meaning of Number and NS.
type Cell struct {
	Link   int32 // below 0: no row
	Number int32
	NS     float64
}

// A Hop is what an estimator knows about a flow at a hop.
type Hop struct {
	Cell
	LastNS    int64   // wait of the last packet; 0 at hop 0, whose only wait is the NIC wait
	LongestNS int64   // wait of the block that waits longest; 0 if it does not matter
	MeanNS    float64 // average wait of the packets
	Marks     int64   // marked packets
}

// A HopIndex finds the rows of a table by flow and hop, for one chunk of flows.
type HopIndex struct {
	table    string // its name, for errors
	firstRow int64
	hops     []Cell   // of all flows, grouped by flow
	flows    []hopsOf // by flow of the chunk
	flow     []Hop    // result of the last call of Hops
	path     []int32  // links of that flow
}

// hopsOf says where the hops of a flow are.
type hopsOf struct {
	first  int32 // index of hop 0
	length int16 // 0: no row
}

// Begin removes all rows and prepares for rows of a table about the chunk of flows that starts at row
// firstRow.
func (x *HopIndex) Begin(table schema.Table, firstRow, flows int64) {
	x.table = table.Name
	x.firstRow = firstRow
	x.hops = x.hops[:0]
	x.flows = columns.Resize(x.flows, int(flows))
	clear(x.flows)
}

// Has reports whether a flow belongs to the chunk.
func (x *HopIndex) Has(row int64) bool {
	return row >= x.firstRow && row-x.firstRow < int64(len(x.flows))
}

// usualHops is the largest number of hops for which memory is reserved per flow that has not been read.
const usualHops = 8

// Reserve allocates the hops of flow f of the chunk.
func (x *HopIndex) Reserve(f int64, hops int16) {
	x.flows[f] = hopsOf{int32(len(x.hops)), hops}
	if cap(x.hops)-len(x.hops) < int(hops) { // later flows have about as many hops
		x.hops = slices.Grow(x.hops, max(int(hops), min(int(hops), usualHops)*(len(x.flows)-int(f))))
	}
	for range hops {
		x.hops = append(x.hops, Cell{Link: -1})
	}
}

// Add adds a row about a flow at a hop, unless the flow belongs to another chunk. If there are several such
// rows, the first is kept.
func (x *HopIndex) Add(row int64, hop, hops int16, is Cell) error {
	if !x.Has(row) {
		return nil
	}
	f := row - x.firstRow
	if x.flows[f].length == 0 {
		x.Reserve(f, max(0, hops))
	}
	of := x.flows[f]
	if hop < 0 || hop >= min(hops, of.length) {
		return fmt.Errorf("%s: flow row %d has hop %d, which is not on its path of %d", x.table, row, hop, hops)
	}
	at := &x.hops[int(of.first)+int(hop)]
	if at.Link < 0 {
		*at = is
	}
	return nil
}

// Cells returns the rows of flow f of the chunk, by hop, and sets Path. If the flow has no path, it returns
// no rows. A hop without a row is an error. The result is valid until the next call.
func (x *HopIndex) Cells(f int) ([]Cell, error) {
	x.path = x.path[:0]
	of := x.flows[f]
	if of.length == 0 {
		return nil, nil
	}
	hops := x.hops[of.first:][:of.length]
	for h := range hops {
		if hops[h].Link >= 0 {
			x.path = append(x.path, hops[h].Link)
		}
	}
	if len(x.path) != len(hops) {
		row := x.firstRow + int64(f)
		return nil, fmt.Errorf("%s has %d of the %d hops of flow row %d", x.table, len(x.path), len(hops), row)
	}
	return hops, nil
}

// Hops is like Cells, but returns hops to which the caller can add more values.
func (x *HopIndex) Hops(f int) ([]Hop, error) {
	cells, err := x.Cells(f)
	x.flow = x.flow[:0]
	for _, c := range cells {
		x.flow = append(x.flow, Hop{Cell: c})
	}
	return x.flow, err
}

// Path returns the links of the flow that Cells or Hops returned last. The result is valid until their next
// call.
func (x *HopIndex) Path() []int32 { return x.path }
