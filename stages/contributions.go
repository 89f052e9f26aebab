package stages

import (
	"parsimon/schema"
	"parsimon/schema/columns"
)

// contributionRows are rows of table hop_contributions under construction: how much each hop adds to the FCT
// of each flow, and how much of that is waiting.
type contributionRows struct {
	flowRow     []int64
	hop, hops   []int16
	link        []int32
	delay, wait []float64 // ns
	sorter      sorter
}

func (c *contributionRows) append(flowRow int64, hop, hops int16, link int32, delayNS, waitNS float64) {
	c.flowRow, c.hop, c.hops = append(c.flowRow, flowRow), append(c.hop, hop), append(c.hops, hops)
	c.link, c.delay, c.wait = append(c.link, link), append(c.delay, delayNS), append(c.wait, waitNS)
}

func (c *contributionRows) reset() {
	c.flowRow, c.hop, c.hops, c.link = c.flowRow[:0], c.hop[:0], c.hops[:0], c.link[:0]
	c.delay, c.wait = c.delay[:0], c.wait[:0]
}

// flush writes the rows in the order in which they were appended, and removes them.
func (c *contributionRows) flush(out schema.Sink) error {
	if len(c.flowRow) == 0 {
		return nil
	}
	err := columns.Write(out, schema.HopContributions, len(c.flowRow), columns.Of(c.flowRow), columns.Of(c.hop),
		columns.Of(c.hops), columns.Of(c.link), columns.Of(c.delay), columns.Of(c.wait))
	c.reset()
	return err
}

// writeByFlow writes the rows by flow_row and hop.
func (c *contributionRows) writeByFlow(out schema.Sink) error {
	if len(c.flowRow) == 0 {
		return nil
	}
	return inBatches(c.sorter.byFlow(c.flowRow, c.hop), func(rows []int32) error {
		return columns.Write(out, schema.HopContributions, len(rows), columns.Take(c.flowRow, rows),
			columns.Take(c.hop, rows),
			columns.Take(c.hops, rows), columns.Take(c.link, rows), columns.Take(c.delay, rows),
			columns.Take(c.wait, rows))
	})
}
