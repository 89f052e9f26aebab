package stages

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// Rows of the tables that the simulation of link cases writes, under construction.

// delayRows are rows of table hop_delays.
type delayRows struct {
	link                         []int32
	flowRow, flowID              []int64
	hop, hops                    []int16
	size, fctNS, idealNS, waitNS []int64
}

func (d *delayRows) append(link int32, flowRow, flowID int64, hop, hops int16, size, fctNS, idealNS, waitNS int64) {
	d.link = append(d.link, link)
	d.flowRow, d.flowID = append(d.flowRow, flowRow), append(d.flowID, flowID)
	d.hop, d.hops = append(d.hop, hop), append(d.hops, hops)
	d.size, d.fctNS = append(d.size, size), append(d.fctNS, fctNS)
	d.idealNS, d.waitNS = append(d.idealNS, idealNS), append(d.waitNS, waitNS)
}

func (d *delayRows) flush(out schema.Sink) error {
	if len(d.link) == 0 {
		return nil
	}
	err := columns.Write(out, schema.HopDelays, len(d.link), columns.Of(d.link), columns.Of(d.flowRow),
		columns.Of(d.flowID),
		columns.Of(d.hop), columns.Of(d.hops), columns.Of(d.size), columns.Of(d.fctNS), columns.Of(d.idealNS),
		columns.Of(d.waitNS))
	d.reset()
	return err
}

func (d *delayRows) reset() {
	d.link, d.flowRow, d.flowID, d.hop, d.hops = d.link[:0], d.flowRow[:0], d.flowID[:0], d.hop[:0], d.hops[:0]
	d.size, d.fctNS, d.idealNS, d.waitNS = d.size[:0], d.fctNS[:0], d.idealNS[:0], d.waitNS[:0]
}

// addDelays appends the result of the current case to table hop_delays.
func (s *Simulator) addDelays(link topology.Link, rows []int32, out schema.Sink) error {
	r, res := &s.input.rows, &s.result
	for k, i := range rows {
		s.delays.append(link.ID, r.flowRow[i], r.flowID[i], r.hop[i], r.hops[i], r.size[i], res.FCTNS[k],
			res.IdealNS[k], res.WaitNS[k])
		if len(s.delays.link) == columns.BatchRows {
			if err := s.delays.flush(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// statRows are rows of table link_stats.
type statRows struct {
	link, src, dst                        []int32
	tier                                  []string
	bandwidth, available                  []int64
	flows, bytes, packets                 []int64
	load                                  []float64
	sent, marked, busy, maxQueue, atQueue []int64
	meanQueue, meanWait                   []float64
	share                                 []float64
	cached                                []bool
}

// linkCounters are the columns of table link_stats that come from the link's case.
type linkCounters struct {
	sent, marked, busyNS, maxQueueBytes, maxQueueAtNS int64
	meanQueue, meanWaitNS, feedbackShare              float64
	cached                                            bool
}

// countersOf returns the columns that describe the result of a case.
func countersOf(c *linkcase.Counters, feedbackShare float64, cached bool) linkCounters {
	return linkCounters{
		c.PacketsSent, c.PacketsMarked, c.BusyNS, c.MaxQueueBytes, c.MaxQueueAtNS,
		// Little's law: the sum of waits is the number of waiting packets, integrated over time.
		float64(c.WaitSumNS) / float64(max(1, c.BusyNS)),
		float64(c.WaitSumNS) / float64(max(1, c.PacketsSent)), feedbackShare, cached,
	}
}

func (t *statRows) append(link topology.Link, carried LinkLoad, availableBps int64, load float64, c linkCounters) {
	t.link, t.src, t.dst = append(t.link, link.ID), append(t.src, link.Src), append(t.dst, link.Dst)
	t.tier = append(t.tier, link.Tier)
	t.bandwidth, t.available = append(t.bandwidth, link.BandwidthBps), append(t.available, availableBps)
	t.flows, t.bytes = append(t.flows, carried.Flows), append(t.bytes, carried.Bytes)
	t.packets, t.load = append(t.packets, carried.Packets), append(t.load, load)
	t.sent, t.marked, t.busy = append(t.sent, c.sent), append(t.marked, c.marked), append(t.busy, c.busyNS)
	t.maxQueue, t.atQueue = append(t.maxQueue, c.maxQueueBytes), append(t.atQueue, c.maxQueueAtNS)
	t.meanQueue, t.meanWait = append(t.meanQueue, c.meanQueue), append(t.meanWait, c.meanWaitNS)
	t.share, t.cached = append(t.share, c.feedbackShare), append(t.cached, c.cached)
}

func (t *statRows) flush(out schema.Sink) error {
	err := columns.Write(out, schema.LinkStats, len(t.link), columns.Of(t.link), columns.Of(t.src), columns.Of(t.dst),
		columns.Strings(t.tier), columns.Of(t.bandwidth), columns.Of(t.available), columns.Of(t.flows),
		columns.Of(t.bytes),
		columns.Of(t.packets), columns.Of(t.load), columns.Of(t.sent), columns.Of(t.marked), columns.Of(t.busy),
		columns.Of(t.maxQueue), columns.Of(t.atQueue), columns.Of(t.meanQueue), columns.Of(t.meanWait),
		columns.Of(t.share), columns.Bools(t.cached))
	*t = statRows{}
	return err
}

// addStats appends the counters of the current case to table link_stats.
func (s *Simulator) addStats(link topology.Link, rows []int32, cached bool) {
	counters := countersOf(&s.result.Counters, s.feedbackShare(rows), cached)
	if len(rows) == 0 {
		counters = linkCounters{}
	}
	s.stats.append(link, s.loads.Links[link.ID], s.c.TargetBps, s.loads.Load(link), counters)
}

// observationRows are rows of table hop_observations.
type observationRows struct {
	observed  columns.Arena
	row       []int64
	hop, hops []int16
	link      []int32
	delayNS   []int64 // of table hop_observations only
	sorter    sorter
	column    columns.Binary
}

func (w *observationRows) reset() {
	w.observed.Reset()
	w.row, w.hop, w.hops, w.link, w.delayNS = w.row[:0], w.hop[:0], w.hops[:0], w.link[:0], w.delayNS[:0]
}

// add appends what the packets of the current case observed.
func (w *observationRows) add(s *Simulator, link topology.Link, rows []int32) {
	in := &s.input.rows
	s.encodeObservations()
	if s.onlyUplinks {
		for k, i := range rows {
			if waits := s.observed.At(k); len(waits) > 0 {
				w.observed.Add(waits)
				w.append(in.flowRow[i], in.hop[i], in.hops[i], link.ID)
			}
		}
		return
	}
	w.observed.AddArena(&s.observed)
	for k, i := range rows {
		w.delayNS = append(w.delayNS, s.result.FCTNS[k]-s.result.IdealNS[k])
		w.append(in.flowRow[i], in.hop[i], in.hops[i], link.ID)
	}
}

// append appends the other columns of a row whose blocks are the last string of w.observed.
func (w *observationRows) append(row int64, hop, hops int16, link int32) {
	w.row, w.hop, w.hops, w.link = append(w.row, row), append(w.hop, hop), append(w.hops, hops), append(w.link, link)
}

// flush writes the rows by flow_row and hop.
func (w *observationRows) flush(t schema.Table, out schema.Sink) error {
	if len(w.row) == 0 {
		return nil
	}
	return inBatches(w.sorter.byFlow(w.row, w.hop), func(rows []int32) error {
		all := []arrow.Array{columns.Take(w.row, rows), columns.Take(w.hop, rows), columns.Take(w.hops, rows),
			columns.Take(w.link, rows), w.column.Of(&w.observed, rows)}
		if len(w.delayNS) > 0 {
			all = append(all, columns.Take(w.delayNS, rows))
		}
		return columns.Write(out, t, len(rows), all...)
	})
}

// senderRows are rows of table sender_fcts.
type senderRows struct {
	row, fctNS, idealNS []int64
	sorter              sorter
}

func (w *senderRows) reset() { w.row, w.fctNS, w.idealNS = w.row[:0], w.fctNS[:0], w.idealNS[:0] }

// add appends the FCTs of the current case.
func (w *senderRows) add(s *Simulator, rows []int32) {
	for k, i := range rows {
		w.row = append(w.row, s.input.rows.flowRow[i])
		w.fctNS, w.idealNS = append(w.fctNS, s.result.FCTNS[k]), append(w.idealNS, s.result.IdealNS[k])
	}
}

// flush writes the rows by flow_row.
func (w *senderRows) flush(out schema.Sink) error {
	if len(w.row) == 0 {
		return nil
	}
	return inBatches(w.sorter.byFlow(w.row, nil), func(rows []int32) error {
		return columns.Write(out, schema.SenderFCTs, len(rows), columns.Take(w.row, rows), columns.Take(w.fctNS, rows),
			columns.Take(w.idealNS, rows))
	})
}

// exchangeRows is how many rows of a table that only stages exchange are written at a time. A reader takes whole
// batches, and those that hold rows of several ranges of links or flows are read once for each.
const exchangeRows = 4_096

// inBatches calls write with exchangeRows rows at a time.
func inBatches(rows []int32, write func(rows []int32) error) error {
	for batch := range slices.Chunk(rows, exchangeRows) {
		if err := write(batch); err != nil {
			return err
		}
	}
	return nil
}
