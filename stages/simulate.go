package stages

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/simkernel"
)

// SimulateStats says what one partition's simulation did. Times are wall-clock and differ from run
// to run; everything else is a function of the input.
type SimulateStats struct {
	Cases         int64
	PacketHops    int64
	KernelNS      int64
	LongestCaseNS int64
	LongestLink   int32
}

// Simulator runs the link cases of one scenario, a partition of links at a time. Its scratch memory
// is reused: one Simulator serves one goroutine.
type Simulator struct {
	net    *Network
	params simkernel.Params
	loads  *Loads
	kernel *simkernel.Kernel

	rows     hopColumns
	order    []int32 // rows by link, each link's in start order
	starts   []int32 // where each link of the partition begins in order
	sourceOf []int32 // by link id: the case's source, if stamp says so
	stamp    []int32
	caseNo   int32
	c        simkernel.Case
	result   simkernel.Result
	out      delayColumns
	stats    statColumns
}

// hopColumns are the columns of table hops that a link case needs.
type hopColumns struct {
	link, firstLink              []int32
	flowRow, flowID, size, start []int64
	delayToLink, pathDelay       []int64
	hop, hops                    []int16
}

// HopColumns names the columns of table hops that Simulate reads.
func HopColumns() []string {
	return []string{"link_id", "flow_row", "flow_id", "hop", "hops", "size_bytes", "start_ns", "first_link", "delay_to_link_ns", "path_delay_ns"}
}

// NewSimulator prepares a simulator for the scenario's link cases.
func NewSimulator(n *Network, p simkernel.Params, loads *Loads) (*Simulator, error) {
	k, err := simkernel.NewKernel(p)
	if err != nil {
		return nil, err
	}
	return &Simulator{
		net: n, params: p, loads: loads, kernel: k,
		sourceOf: make([]int32, len(n.Links)), stamp: make([]int32, len(n.Links)),
	}, nil
}

// Simulate runs the link case of every link in [lo, hi) that carries flows. It reads hops (the
// partition's rows of table hops; rows of other links are passed over; each link's rows must come
// in flow_row order) and writes hop_delays, by link and flow_row, and link_stats, one row for every
// link in [lo, hi).
//
// Each answer is a pure function of one link's rows and of the loads, so that neither the
// partition nor the worker shows in it. progress, if not nil, is told the packet-hops of each case
// when it is done.
func (s *Simulator) Simulate(ctx context.Context, lo, hi int32, hops schema.Batches, delays, stats schema.Sink, progress func(packetHops int64)) (SimulateStats, error) {
	var done SimulateStats
	if err := s.gather(lo, hi, hops); err != nil {
		return done, err
	}
	for id := lo; id < hi; id++ {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		link := s.net.Links[id]
		rows := s.order[s.starts[id-lo]:s.starts[id-lo+1]]
		began := time.Now()
		if err := s.simulateLink(link, rows); err != nil {
			return done, fmt.Errorf("link %d (%d → %d): %w", link.ID, link.Src, link.Dst, err)
		}
		took := time.Since(began).Nanoseconds()
		if err := s.emit(link, rows, delays); err != nil {
			return done, err
		}
		if len(rows) == 0 {
			continue
		}
		packets := s.loads.Links[id].Packets
		done.Cases++
		done.PacketHops += packets
		done.KernelNS += took
		if took > done.LongestCaseNS {
			done.LongestCaseNS, done.LongestLink = took, id
		}
		if progress != nil {
			progress(packets)
		}
	}
	if err := s.out.flush(delays); err != nil {
		return done, err
	}
	return done, s.stats.flush(stats)
}

// gather reads the partition's hops and orders them by link (a stable counting sort).
func (s *Simulator) gather(lo, hi int32, hops schema.Batches) error {
	r := &s.rows
	r.reset()
	counts := make([]int32, hi-lo+1)
	err := forEach(hops, func(rec arrow.Record) error {
		link := int32s(rec, "link_id")
		// Rows are sorted by link within a file: the wanted ones are one stretch of the batch.
		from, to := 0, len(link)
		for from < to && link[from] < lo {
			from++
		}
		for to > from && link[to-1] >= hi {
			to--
		}
		r.append(rec, from, to)
		for _, id := range link[from:to] {
			if id < lo || id >= hi {
				return fmt.Errorf("table hops is not sorted by link: found link %d among %d to %d", id, lo, hi-1)
			}
			counts[id-lo]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.starts = append(s.starts[:0], 0)
	for i, n := range counts[:hi-lo] {
		s.starts = append(s.starts, s.starts[i]+n)
	}
	copy(counts, s.starts)
	s.order = resize(s.order, len(r.link))
	for i, id := range r.link {
		s.order[counts[id-lo]] = int32(i)
		counts[id-lo]++
	}
	return nil
}

// simulateLink builds the link case of those rows (paper, §3.2) and runs it.
func (s *Simulator) simulateLink(link Link, rows []int32) error {
	r, c := &s.rows, &s.c
	c.SourceBps, c.SourceDelayNS = c.SourceBps[:0], c.SourceDelayNS[:0]
	c.Source, c.SizeBytes, c.StartNS, c.PathDelayNS = c.Source[:0], c.SizeBytes[:0], c.StartNS[:0], c.PathDelayNS[:0]
	s.caseNo++
	c.Kind = simkernel.Behind
	if len(rows) > 0 && r.hop[rows[0]] == 0 {
		c.Kind = simkernel.FirstHop
	}
	c.TargetBps = s.loads.AvailableBps(s.net, &s.params, link)
	c.MarkBytes = s.params.MarkBytes(link.BandwidthBps)
	for _, i := range rows {
		first := r.firstLink[i]
		if s.stamp[first] != s.caseNo {
			s.stamp[first], s.sourceOf[first] = s.caseNo, int32(len(c.SourceBps))
			c.SourceBps = append(c.SourceBps, s.loads.AvailableBps(s.net, &s.params, s.net.Links[first]))
			// Where equally long paths differ in propagation, a source's first flow speaks for
			// all; each flow's round trip stays its own.
			c.SourceDelayNS = append(c.SourceDelayNS, r.delayToLink[i])
		}
		src := s.sourceOf[first]
		c.Source = append(c.Source, src)
		c.SizeBytes = append(c.SizeBytes, r.size[i])
		c.StartNS = append(c.StartNS, r.start[i])
		c.PathDelayNS = append(c.PathDelayNS, max(r.pathDelay[i], c.SourceDelayNS[src]))
	}
	if err := s.kernel.Simulate(c, &s.result); err != nil {
		return err
	}
	if s.result.Unfinished > 0 {
		var ids []int64
		for k, i := range rows {
			if s.result.FCTNS[k] < 0 && len(ids) < 10 {
				ids = append(ids, r.flowID[i])
			}
		}
		return fmt.Errorf("%d flows cannot drain within the longest time the kernel can express, among them %v: the link is too slow for them", s.result.Unfinished, ids)
	}
	return nil
}

// emit puts a finished case into the output columns.
func (s *Simulator) emit(link Link, rows []int32, delays schema.Sink) error {
	r, res, load := &s.rows, &s.result, s.loads.Links[link.ID]
	for k, i := range rows {
		s.out.append(link.ID, r.flowRow[i], r.flowID[i], r.hop[i], r.hops[i], r.size[i], res.FCTNS[k], res.IdealNS[k], res.WaitNS[k])
		if len(s.out.link) == batchRows {
			if err := s.out.flush(delays); err != nil {
				return err
			}
		}
	}
	counters := res.Counters
	if len(rows) == 0 {
		counters = simkernel.Counters{}
	}
	s.stats.append(link, load, s.c.TargetBps, s.loads.Load(link), counters)
	return nil
}

func (h *hopColumns) reset() {
	h.link, h.firstLink = h.link[:0], h.firstLink[:0]
	h.flowRow, h.flowID, h.size, h.start = h.flowRow[:0], h.flowID[:0], h.size[:0], h.start[:0]
	h.delayToLink, h.pathDelay = h.delayToLink[:0], h.pathDelay[:0]
	h.hop, h.hops = h.hop[:0], h.hops[:0]
}

func (h *hopColumns) append(rec arrow.Record, from, to int) {
	h.link = append(h.link, int32s(rec, "link_id")[from:to]...)
	h.firstLink = append(h.firstLink, int32s(rec, "first_link")[from:to]...)
	h.flowRow = append(h.flowRow, int64s(rec, "flow_row")[from:to]...)
	h.flowID = append(h.flowID, int64s(rec, "flow_id")[from:to]...)
	h.size = append(h.size, int64s(rec, "size_bytes")[from:to]...)
	h.start = append(h.start, int64s(rec, "start_ns")[from:to]...)
	h.delayToLink = append(h.delayToLink, int64s(rec, "delay_to_link_ns")[from:to]...)
	h.pathDelay = append(h.pathDelay, int64s(rec, "path_delay_ns")[from:to]...)
	h.hop = append(h.hop, int16s(rec, "hop")[from:to]...)
	h.hops = append(h.hops, int16s(rec, "hops")[from:to]...)
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
	err := writeColumns(out, schema.HopDelays, len(d.link), column(d.link), column(d.flowRow), column(d.flowID),
		column(d.hop), column(d.hops), column(d.size), column(d.fctNS), column(d.idealNS), column(d.waitedNS))
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
}

func (t *statColumns) append(link Link, carried LinkLoad, availableBps int64, load float64, c simkernel.Counters) {
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
}

func (t *statColumns) flush(out schema.Sink) error {
	err := writeColumns(out, schema.LinkStats, len(t.link), column(t.link), column(t.src), column(t.dst), stringColumn(t.tier),
		column(t.bandwidth), column(t.available), column(t.flows), column(t.bytes), column(t.packets), column(t.load),
		column(t.sent), column(t.marked), column(t.busy), column(t.maxQueue), column(t.atQueue), column(t.meanQueue), column(t.meanWait))
	*t = statColumns{}
	return err
}

// resize is a slice of that length, its contents unspecified, in the old memory where it fits.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
