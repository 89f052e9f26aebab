package stages

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// The rows of the tables that the simulation of link cases reads and writes, as columns.

// hopColumns are the columns of table hops that a link case needs.
type hopColumns struct {
	link, firstLink, prevLink        []int32
	flowRow, flowID, size, start     []int64
	delayToLink, pathDelay, pathSend []int64
	hop, hops                        []int16
}

func (h *hopColumns) reset() {
	h.link, h.firstLink, h.prevLink = h.link[:0], h.firstLink[:0], h.prevLink[:0]
	h.flowRow, h.flowID, h.size, h.start = h.flowRow[:0], h.flowID[:0], h.size[:0], h.start[:0]
	h.delayToLink, h.pathDelay, h.pathSend = h.delayToLink[:0], h.pathDelay[:0], h.pathSend[:0]
	h.hop, h.hops = h.hop[:0], h.hops[:0]
}

// grow makes room for so many rows at once.
func (h *hopColumns) grow(rows int, e Estimator) {
	for _, column := range []*[]int32{&h.link, &h.firstLink, &h.prevLink} {
		if column != &h.prevLink || e == Flow {
			*column = slices.Grow(*column, rows)
		}
	}
	for _, column := range []*[]int64{&h.flowRow, &h.flowID, &h.size, &h.start, &h.delayToLink, &h.pathDelay, &h.pathSend} {
		if column != &h.pathSend || e == Flow {
			*column = slices.Grow(*column, rows)
		}
	}
	h.hop, h.hops = slices.Grow(h.hop, rows), slices.Grow(h.hops, rows)
}

// hopColumnsOf are the columns of a batch, valid until it is released.
func hopColumnsOf(rec arrow.Record, e Estimator) hopColumns {
	h := hopColumns{
		link: columns.Int32s(rec, "link_id"), firstLink: columns.Int32s(rec, "first_link"),
		flowRow: columns.Int64s(rec, "flow_row"), flowID: columns.Int64s(rec, "flow_id"), size: columns.Int64s(rec, "size_bytes"), start: columns.Int64s(rec, "start_ns"),
		delayToLink: columns.Int64s(rec, "delay_to_link_ns"), pathDelay: columns.Int64s(rec, "path_delay_ns"),
		hop: columns.Int16s(rec, "hop"), hops: columns.Int16s(rec, "hops"),
	}
	if e == Flow {
		h.prevLink, h.pathSend = columns.Int32s(rec, "prev_link"), columns.Int64s(rec, "path_send_ns")
	}
	return h
}

func (h *hopColumns) append(in *hopColumns, from, to int) {
	h.link = append(h.link, in.link[from:to]...)
	h.firstLink = append(h.firstLink, in.firstLink[from:to]...)
	h.flowRow = append(h.flowRow, in.flowRow[from:to]...)
	h.flowID = append(h.flowID, in.flowID[from:to]...)
	h.size = append(h.size, in.size[from:to]...)
	h.start = append(h.start, in.start[from:to]...)
	h.delayToLink = append(h.delayToLink, in.delayToLink[from:to]...)
	h.pathDelay = append(h.pathDelay, in.pathDelay[from:to]...)
	if in.prevLink != nil {
		h.prevLink = append(h.prevLink, in.prevLink[from:to]...)
		h.pathSend = append(h.pathSend, in.pathSend[from:to]...)
	}
	h.hop = append(h.hop, in.hop[from:to]...)
	h.hops = append(h.hops, in.hops[from:to]...)
}

// delayColumns are the columns of table hop_delays under construction.
type delayColumns struct {
	link                           []int32
	flowRow, flowID                []int64
	hop, hops                      []int16
	size, fctNS, idealNS, waitedNS []int64
}

func (d *delayColumns) append(link int32, flowRow, flowID int64, hop, hops int16, size, fct, ideal, wait int64) {
	d.link = append(d.link, link)
	d.flowRow, d.flowID = append(d.flowRow, flowRow), append(d.flowID, flowID)
	d.hop, d.hops = append(d.hop, hop), append(d.hops, hops)
	d.size, d.fctNS = append(d.size, size), append(d.fctNS, fct)
	d.idealNS, d.waitedNS = append(d.idealNS, ideal), append(d.waitedNS, wait)
}

func (d *delayColumns) flush(out schema.Sink) error {
	if len(d.link) == 0 {
		return nil
	}
	err := columns.Write(out, schema.HopDelays, len(d.link), columns.Of(d.link), columns.Of(d.flowRow), columns.Of(d.flowID),
		columns.Of(d.hop), columns.Of(d.hops), columns.Of(d.size), columns.Of(d.fctNS), columns.Of(d.idealNS), columns.Of(d.waitedNS))
	d.link, d.flowRow, d.flowID, d.hop, d.hops = d.link[:0], d.flowRow[:0], d.flowID[:0], d.hop[:0], d.hops[:0]
	d.size, d.fctNS, d.idealNS, d.waitedNS = d.size[:0], d.fctNS[:0], d.idealNS[:0], d.waitedNS[:0]
	return err
}

// statColumns are the rows of table link_stats under construction.
type statColumns struct {
	link, src, dst                        []int32
	tier                                  []string
	bandwidth, available                  []int64
	flows, bytes, packets                 []int64
	load                                  []float64
	sent, marked, busy, maxQueue, atQueue []int64
	meanQueue, meanWait                   []float64
	cached                                []bool
}

func (t *statColumns) append(link topology.Link, carried LinkLoad, availableBps int64, load float64, c simkernel.Counters, cached bool) {
	t.link, t.src, t.dst = append(t.link, link.ID), append(t.src, link.Src), append(t.dst, link.Dst)
	t.tier = append(t.tier, link.Tier)
	t.bandwidth, t.available = append(t.bandwidth, link.BandwidthBps), append(t.available, availableBps)
	t.flows, t.bytes, t.packets = append(t.flows, carried.Flows), append(t.bytes, carried.Bytes), append(t.packets, carried.Packets)
	t.load = append(t.load, load)
	t.sent, t.marked, t.busy = append(t.sent, c.PacketsSent), append(t.marked, c.PacketsMarked), append(t.busy, c.BusyNS)
	t.maxQueue, t.atQueue = append(t.maxQueue, c.MaxQueueBytes), append(t.atQueue, c.MaxQueueAtNS)
	// Little's law: the time packets spend waiting is the number waiting, integrated over time.
	t.meanQueue = append(t.meanQueue, float64(c.WaitSumNS)/float64(max(1, c.BusyNS)))
	t.meanWait = append(t.meanWait, float64(c.WaitSumNS)/float64(max(1, c.PacketsSent)))
	t.cached = append(t.cached, cached)
}

func (t *statColumns) flush(out schema.Sink) error {
	err := columns.Write(out, schema.LinkStats, len(t.link), columns.Of(t.link), columns.Of(t.src), columns.Of(t.dst), columns.Strings(t.tier),
		columns.Of(t.bandwidth), columns.Of(t.available), columns.Of(t.flows), columns.Of(t.bytes), columns.Of(t.packets), columns.Of(t.load),
		columns.Of(t.sent), columns.Of(t.marked), columns.Of(t.busy), columns.Of(t.maxQueue), columns.Of(t.atQueue), columns.Of(t.meanQueue), columns.Of(t.meanWait), columns.Bools(t.cached))
	*t = statColumns{}
	return err
}

// waitRows are the rows of table hop_observations under construction.
type observationRows struct {
	observed  columns.Arena
	row       []int64
	hop, hops []int16
	link      []int32
	sorter    sorter
	column    columns.Binary
}

func (w *observationRows) reset() {
	w.observed.Reset()
	w.row, w.hop, w.hops, w.link = w.row[:0], w.hop[:0], w.hops[:0], w.link[:0]
}

// add takes what the packets of a finished case met.
func (w *observationRows) add(s *Simulator, link topology.Link, rows []int32) {
	at := int64(0)
	for _, i := range rows {
		n := simkernel.Blocks(s.params.Packets(s.rows.size[i]))
		w.observed.Bytes = appendBlocks(w.observed.Bytes, s.result.Observed[at:at+n])
		w.observed.Done()
		at += n
		w.row, w.hop, w.hops = append(w.row, s.rows.flowRow[i]), append(w.hop, s.rows.hop[i]), append(w.hops, s.rows.hops[i])
		w.link = append(w.link, link.ID)
	}
}

// flush writes the rows by flow and hop.
func (w *observationRows) flush(out schema.Sink) error {
	if len(w.row) == 0 {
		return nil
	}
	least := slices.Min(w.row)
	order := w.sorter.order(len(w.row), func(i int) uint64 { return uint64(w.row[i]-least)<<10 | uint64(w.hop[i]) })
	var row []int64
	var hop, hops []int16
	var link []int32
	for at := 0; at < len(order); at += columns.BatchRows {
		rows := order[at:min(len(order), at+columns.BatchRows)]
		row, hop, hops, link = row[:0], hop[:0], hops[:0], link[:0]
		for _, i := range rows {
			row, hop, hops, link = append(row, w.row[i]), append(hop, w.hop[i]), append(hops, w.hops[i]), append(link, w.link[i])
		}
		if err := columns.Write(out, schema.HopObservations, len(rows), columns.Of(row), columns.Of(hop), columns.Of(hops), columns.Of(link), w.column.Of(&w.observed, rows)); err != nil {
			return err
		}
	}
	return nil
}

// senderRows are the rows of table sender_fcts under construction.
type senderRows struct {
	row, fctNS, idealNS []int64
	sorter              sorter
}

func (w *senderRows) reset() { w.row, w.fctNS, w.idealNS = w.row[:0], w.fctNS[:0], w.idealNS[:0] }

// add takes the answers of a finished case.
func (w *senderRows) add(s *Simulator, rows []int32) {
	for k, i := range rows {
		w.row = append(w.row, s.rows.flowRow[i])
		w.fctNS, w.idealNS = append(w.fctNS, s.result.FCTNS[k]), append(w.idealNS, s.result.IdealNS[k])
	}
}

// flush writes the rows by flow.
func (w *senderRows) flush(out schema.Sink) error {
	if len(w.row) == 0 {
		return nil
	}
	least := slices.Min(w.row)
	order := w.sorter.order(len(w.row), func(i int) uint64 { return uint64(w.row[i] - least) })
	var row, fct, ideal []int64
	for at := 0; at < len(order); at += columns.BatchRows {
		rows := order[at:min(len(order), at+columns.BatchRows)]
		row, fct, ideal = row[:0], fct[:0], ideal[:0]
		for _, i := range rows {
			row, fct, ideal = append(row, w.row[i]), append(fct, w.fctNS[i]), append(ideal, w.idealNS[i])
		}
		if err := columns.Write(out, schema.SenderFCTs, len(rows), columns.Of(row), columns.Of(fct), columns.Of(ideal)); err != nil {
			return err
		}
	}
	return nil
}
