package stages

import (
	"context"

	"parsimon/schema"
)

// hopBatchRows is the number of hops that are written at a time: few enough that their columns are still in the
// processor's second-level cache when the sink reads them.
const hopBatchRows = 4_096

// writeHops writes table hops.
func (c *routeChunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	for lo := 0; lo < len(c.hops); lo += hopBatchRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := c.hops[lo:min(lo+hopBatchRows, len(c.hops))]
		c.out = c.out[:0]
		// A loop that does nothing else lets the processor fetch many flows at the same time.
		c.batchFlows = resize(c.batchFlows, len(rows))
		for k := range rows {
			c.batchFlows[k] = c.flows[rows[k].flow]
		}
		for k := range rows {
			h, f := &rows[k], &c.batchFlows[k]
			c.out = append(c.out, hopRow{h.link, firstRow + int64(h.flow), f.id, h.hop, f.hops, f.sizeBytes, f.startNS,
				f.firstLink, h.prev, h.delayToNS, f.pathDelayNS, f.pathSendNS, h.upBps, h.downBps, h.betweenPS})
		}
		err := hopTable.Write(hops, c.out)
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLoads writes table link_loads.
func (c *routeChunk) writeLoads(chunk int32, loads schema.Sink) error {
	var rows []loadRow
	for id := range c.links {
		if l := &c.links[id].load; l.Flows > 0 {
			rows = append(rows, loadRow{int32(id), chunk, l.Flows, l.Bytes, l.Packets, l.FirstStartNS, l.LastStartNS})
		}
	}
	return loadTable.Write(loads, rows)
}
