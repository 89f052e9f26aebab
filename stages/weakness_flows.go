package stages

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/laws"
)

// watchedFlows are the flows of a chunk, in start order, and their paths.
type watchedFlows struct {
	flows    []laws.Flow
	windowNS []int64
	slowest  []bool  // of all flows
	at       []int32 // by row of the chunk: place in flows; -1: no estimate
	width    int     // hops of the longest path
	link     []int32 // flow × width + hop; -1: no such hop
	delayNS  []float64

	slowestOfBin []bool
}

// Tails are the slowdowns from which on flows are among the slowest 1%.
type Tails struct {
	All  float64
	Bins [sizebin.Count]float64 // +Inf for size bins with few flows
}

// fewInBin is the number of flows up to which the slowest 1% of a size bin say nothing.
const fewInBin = 1000

func (c *watchedFlows) readFlows(firstRow, rows int64, tails *Tails, in schema.Batches) error {
	c.flows, c.windowNS, c.slowest, c.slowestOfBin = c.flows[:0], c.windowNS[:0], c.slowest[:0], c.slowestOfBin[:0]
	c.at = resize(c.at, int(rows))
	for i := range c.at {
		c.at[i] = -1
	}
	return columns.ForEach(in, func(rec arrow.Record) error {
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		fct, slowdown := columns.Int64s(rec, "fct_ns"), columns.Float64s(rec, "slowdown")
		window := columns.Int64s(rec, "window_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if row < firstRow || row >= firstRow+rows {
				continue
			}
			c.at[row-firstRow] = int32(len(c.flows))
			c.flows = append(c.flows, laws.Flow{Row: row, StartNS: start[i], FCTNS: fct[i], SizeBytes: size[i]})
			c.windowNS = append(c.windowNS, window[i])
			late := slowdown[i] > 1
			c.slowest = append(c.slowest, late && slowdown[i] >= tails.All)
			c.slowestOfBin = append(c.slowestOfBin, late && slowdown[i] >= tails.Bins[sizebin.Of(size[i])])
		}
		return nil
	})
}

func (c *watchedFlows) readHops(firstRow, rows int64, in schema.Batches) error {
	c.width = 0
	return columns.ForEach(in, func(rec arrow.Record) error {
		hop, count := columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops")
		link, delay := columns.Int32s(rec, "link_id"), columns.Float64s(rec, "delay_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if row < firstRow || row >= firstRow+rows || c.at[row-firstRow] < 0 {
				continue
			}
			if hop[i] < 0 || hop[i] >= count[i] {
				return fmt.Errorf("hop_contributions: flow row %d has hop %d of %d", row, hop[i], count[i])
			}
			if int(count[i]) > c.width {
				c.widen(int(count[i]))
			}
			place := int(c.at[row-firstRow])*c.width + int(hop[i])
			c.link[place], c.delayNS[place] = link[i], delay[i]
		}
		return nil
	})
}

// widen makes room for longer paths.
func (c *watchedFlows) widen(width int) {
	link, delay := make([]int32, len(c.flows)*width), make([]float64, len(c.flows)*width)
	for i := range link {
		link[i] = -1
	}
	for f := range c.flows {
		if c.width > 0 {
			copy(link[f*width:], c.link[f*c.width:(f+1)*c.width])
			copy(delay[f*width:], c.delayNS[f*c.width:(f+1)*c.width])
		}
	}
	c.width, c.link, c.delayNS = width, link, delay
}
