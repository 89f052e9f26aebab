package stages

import (
	"context"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// hopBatch has the columns of a batch of table hops.
type hopBatch struct {
	link, firstLink, prevLink, betweenPS         []int32
	flowRow, id, size, start, delayTo, pathDelay []int64
	pathSend, upBps, downBps                     []int64
	hop, hops                                    []int16
}

func (o *hopBatch) resize(n int) {
	o.link, o.firstLink, o.prevLink = resize(o.link, n), resize(o.firstLink, n), resize(o.prevLink, n)
	o.flowRow, o.id, o.size = resize(o.flowRow, n), resize(o.id, n), resize(o.size, n)
	o.start, o.delayTo, o.pathDelay = resize(o.start, n), resize(o.delayTo, n), resize(o.pathDelay, n)
	o.pathSend, o.upBps, o.downBps = resize(o.pathSend, n), resize(o.upBps, n), resize(o.downBps, n)
	o.betweenPS = resize(o.betweenPS, n)
	o.hop, o.hops = resize(o.hop, n), resize(o.hops, n)
}

// hopBatchRows is the number of hops that are written at a time: few enough that their columns are still in the
// processor's second-level cache when the sink reads them.
const hopBatchRows = 4_096

// writeHops writes table hops.
func (c *routeChunk) writeHops(ctx context.Context, firstRow int64, hops schema.Sink) error {
	o := &c.out
	for lo := 0; lo < len(c.hops); lo += hopBatchRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := c.hops[lo:min(lo+hopBatchRows, len(c.hops))]
		o.resize(len(rows))
		// A loop that does nothing else lets the processor fetch many flows at the same time.
		c.batchFlows = resize(c.batchFlows, len(rows))
		for k := range rows {
			c.batchFlows[k] = c.flows[rows[k].flow]
		}
		for k := range rows {
			h, f := &rows[k], &c.batchFlows[k]
			o.link[k], o.firstLink[k], o.prevLink[k] = h.link, f.firstLink, h.prev
			o.flowRow[k], o.id[k] = firstRow+int64(h.flow), f.id
			o.hop[k], o.hops[k] = h.hop, f.hops
			o.size[k], o.start[k] = f.sizeBytes, f.startNS
			o.delayTo[k], o.pathDelay[k] = h.delayToNS, f.pathDelayNS
			o.pathSend[k], o.upBps[k], o.downBps[k] = f.pathSendNS, h.upBps, h.downBps
			o.betweenPS[k] = h.betweenPS
		}
		err := columns.Write(hops, schema.Hops, len(rows), columns.Of(o.link), columns.Of(o.flowRow), columns.Of(o.id),
			columns.Of(o.hop), columns.Of(o.hops), columns.Of(o.size), columns.Of(o.start), columns.Of(o.firstLink),
			columns.Of(o.prevLink), columns.Of(o.delayTo), columns.Of(o.pathDelay), columns.Of(o.pathSend),
			columns.Of(o.upBps), columns.Of(o.downBps), columns.Of(o.betweenPS))
		if err != nil {
			return err
		}
	}
	return nil
}

// writeLoads writes table link_loads.
func (c *routeChunk) writeLoads(chunk int32, loads schema.Sink) error {
	var link, chunks []int32
	var flows, bytes, packets, first, last []int64
	for id := range c.links {
		l := &c.links[id].load
		if l.Flows == 0 {
			continue
		}
		link, chunks = append(link, int32(id)), append(chunks, chunk)
		flows, bytes, packets = append(flows, l.Flows), append(bytes, l.Bytes), append(packets, l.Packets)
		first, last = append(first, l.FirstStartNS), append(last, l.LastStartNS)
	}
	if len(link) == 0 {
		return nil
	}
	return columns.Write(loads, schema.LinkLoads, len(link), columns.Of(link), columns.Of(chunks), columns.Of(flows),
		columns.Of(bytes), columns.Of(packets), columns.Of(first), columns.Of(last))
}
