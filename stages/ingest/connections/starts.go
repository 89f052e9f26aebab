package connections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest/extsort"
	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// A draw has a random order in its high bits and a log-normal gap in fixed point in its low bits, so that
// sums of gaps are exact in any order.
const (
	drawGapBits  = 43
	drawGaps     = int64(1) << drawGapBits
	drawGapScale = 1 << 24
)

// startDraw draws the starts of flows within the resolution of their log.
type startDraw struct {
	seed uint64
	gap  workload.LogNormal
}

// of returns a draw from a random stream that is keyed by all arguments.
func (d *startDraw) of(c *connection, protocol int16, startNS int64) int64 {
	known := func(v, null int32) uint64 {
		if v == null {
			return math.MaxUint64 // -1
		}
		return uint64(int64(v))
	}
	s := rng.New(d.seed, rng.Start, uint64(int64(c.src)), uint64(int64(c.dst)),
		known(int32(protocol), noProtocol), known(c.srcPort, noPort), known(c.dstPort, noPort), uint64(startNS))
	order := int64(s.Uint64() >> (64 - 20))
	gap := int64(math.Min(d.gap.Draw(&s)*drawGapScale, float64(drawGaps-2))) + 1
	return order<<drawGapBits | gap
}

// each sets the draws of flows.
func (d *startDraw) each(flows []flow) {
	for i := range flows {
		f := &flows[i]
		if f.resolutionNS > 0 {
			f.draw = d.of(&f.connection, f.protocol, f.startNS)
		}
	}
}

// afterLast returns the gap after the last flow that a host starts within one resolution.
func (d *startDraw) afterLast(src int32, startNS int64) int64 {
	none := connection{src, -1, noPort, noPort}
	return d.of(&none, noProtocol, startNS) & (drawGaps - 1)
}

// byLoggedStart orders flows for drawing their starts: those that a host starts within one resolution follow
// each other, in random order.
var byLoggedStart = extsort.Order[flow]{
	Key:    func(f *flow) uint64 { return uint64(f.loggedNS) },
	Second: func(f *flow) uint64 { return uint64(int64(f.src) + 1<<31) },
	Compare: func(a, b *flow) int {
		return cmp.Or(cmp.Compare(a.src, b.src), cmp.Compare(a.resolutionNS, b.resolutionNS),
			cmp.Compare(a.draw>>drawGapBits, b.draw>>drawGapBits),
			compareConnections(&a.connection, &b.connection, a.protocol, b.protocol))
	},
}

// byStart orders flows as table flows has them.
var byStart = extsort.Order[flow]{
	Key: func(f *flow) uint64 { return uint64(f.startNS) },
	Compare: func(a, b *flow) int {
		return cmp.Or(compareConnections(&a.connection, &b.connection, a.protocol, b.protocol),
			cmp.Compare(a.loggedNS, b.loggedNS))
	},
}

// drawing draws the starts of flows. Flows that a host starts within one resolution are put in random order.
// Their gaps, and one more at the end, are scaled to the resolution.
type drawing struct {
	*startDraw
	started *extsort.Sorter[flow]
	lastNS  int64  // the last start in started
	group   []flow // of one host and resolution, without their starts
}

// drawStarts calls do with each flow and its start, in the order of table flows. A flow starts at its logged
// time or later. Once all flows so far start before the next logged time, they are passed to do, so that few
// flows are sorted at a time.
func (m *merging) drawStarts(ctx context.Context, logged *extsort.Sorter[flow],
	do func(f *flow) error) (err error) {
	d := &drawing{startDraw: &m.draw}
	d.started = extsort.New(&m.Memory, m.TmpDir, m.MemoryBytes/8, byStart)
	defer func() { err = errors.Join(err, d.started.Close()) }()
	err = logged.Drain(ctx, func(f *flow) error {
		if !d.belongs(f) {
			if err := d.flush(); err != nil {
				return err
			}
		}
		if d.started.Len() >= batchRows && d.lastNS < f.loggedNS {
			if err := d.started.Drain(ctx, do); err != nil {
				return err
			}
		}
		if f.resolutionNS == 0 {
			return d.add(f)
		}
		d.group = append(d.group, *f)
		return nil
	})
	if err == nil {
		err = d.flush()
	}
	if err == nil {
		err = d.started.Drain(ctx, do)
	}
	return err
}

// belongs reports whether a flow belongs to the group. Each flow belongs to an empty one.
func (d *drawing) belongs(f *flow) bool {
	if len(d.group) == 0 {
		return true
	}
	first := &d.group[0]
	return first.loggedNS == f.loggedNS && first.src == f.src && first.resolutionNS == f.resolutionNS
}

// add adds a flow with its start.
func (d *drawing) add(f *flow) error {
	d.lastNS = max(d.lastNS, f.startNS)
	return d.started.Add(*f)
}

// flush draws the starts of the group.
func (d *drawing) flush() error {
	all := uint64(0)
	for i := range d.group {
		all += uint64(d.group[i].draw & (drawGaps - 1))
	}
	reached := uint64(0)
	for i := range d.group {
		f := &d.group[i]
		reached += uint64(f.draw & (drawGaps - 1))
		if i == 0 {
			all += uint64(d.afterLast(f.src, f.loggedNS))
		}
		f.startNS += int64(math.Floor(float64(reached) / float64(all) * float64(f.resolutionNS)))
		if err := d.add(f); err != nil {
			return err
		}
	}
	d.group = d.group[:0]
	return nil
}

// write draws the starts, and writes both tables.
func (m *merging) write(ctx context.Context, logged *extsort.Sorter[flow],
	flows, intervals schema.Sink) (err error) {
	byFlow := idsByFlow.Within(0, uint64(logged.Len()))
	ids := extsort.New(&m.Memory, m.TmpDir, m.MemoryBytes/8, byFlow)
	defer func() { err = errors.Join(err, ids.Close()) }()
	out := &flowWriter{merging: m, counts: map[[2]int32]*Label{}}
	out.rows = NewRowWriter(batchRows, func(rows []flowRow) error { return flowTable.Write(flows, rows) })
	defer func() { err = cmp.Or(err, out.rows.Finish()) }()
	err = m.drawStarts(ctx, logged, func(f *flow) error {
		if f.hasSpans {
			if err := ids.Add(flowID{f.number, m.result.Flows}); err != nil {
				return err
			}
		}
		return out.add(f)
	})
	if err == nil {
		err = out.finish()
	}
	if err == nil {
		err = logged.Close()
	}
	if err != nil {
		return err
	}
	return m.writeIntervals(ctx, ids, intervals)
}

// A flowRow is a row of table flows.
type flowRow struct {
	FlowID     int64  `col:"flow_id"`
	Src        int32  `col:"src"`
	Dst        int32  `col:"dst"`
	Bytes      int64  `col:"size_bytes"`
	StartNS    int64  `col:"start_ns"`
	Service    string `col:"service"`
	VNet       string `col:"vnet"`
	Synthetic  bool   `col:"synthetic_start"`
	DSCP       int16  `col:"dscp"`
	Connection int64  `col:"connection_id"`
	Background bool   `col:"background"`
}

var flowTable = columns.TableOf[flowRow](schema.Flows)

// A flowWriter writes table flows, and counts.
type flowWriter struct {
	*merging
	rows   *RowWriter[flowRow]
	counts map[[2]int32]*Label // by numbers of service and network
	bytes  uint128
	gaps   gaps
}

func (w *flowWriter) add(f *flow) error {
	r := &w.result
	if r.Flows == 0 {
		r.FirstStartNS = f.startNS
	}
	r.LastStartNS = f.startNS
	if f.synthetic {
		r.Synthetic++
	}
	r.LargestBytes = max(r.LargestBytes, f.bytes)
	w.bytes = w.bytes.plus(uint128{lo: uint64(f.bytes)})
	w.gaps.add(f.startNS / 1e9)
	key := [2]int32{f.service, f.vnet}
	label := w.counts[key]
	if label == nil {
		label = &Label{Service: w.texts.labels.all[f.service], VNet: w.texts.labels.all[f.vnet]}
		w.counts[key] = label
	}
	label.Flows++
	label.Bytes += f.bytes
	id := r.Flows
	r.Flows++
	return w.rows.Add(flowRow{
		FlowID: id, Src: f.src, Dst: f.dst, Bytes: f.bytes, StartNS: f.startNS, Service: label.Service,
		VNet: label.VNet, Synthetic: f.synthetic, DSCP: f.dscp, Connection: id,
	})
}

func (w *flowWriter) finish() error {
	r := &w.result
	r.Bytes = w.bytes.float()
	for _, l := range w.counts {
		r.Labels = append(r.Labels, *l)
	}
	slices.SortFunc(r.Labels, Label.Compare)
	r.Gaps = w.gaps.find()
	r.Sampled = w.sampled.result()
	return w.rows.Finish()
}

// gaps has the number of flows of each second that has any, in order.
type gaps struct{ seconds, flows []int64 }

func (g *gaps) add(second int64) {
	last := len(g.seconds) - 1
	if last >= 0 && g.seconds[last] == second {
		g.flows[last]++
		return
	}
	g.seconds = append(g.seconds, second)
	g.flows = append(g.flows, 1)
}

// MostGaps is the maximum number of gaps that are kept. If there are as many, there may be more.
const MostGaps = 1000

// find returns the gaps: seconds without a flow, in a row, in which a complete log would have some, the
// longest first. At the mean rate, the number of flows in a gap is eight standard deviations above 0, so that
// only longer gaps count in logs with bursts. Rate and variance are those of all seconds but empty ones that
// are up to a tenth of the time. The variance is at least that of independent starts, because a regular log
// whose period is not a second has empty seconds, too.
func (g *gaps) find() (found []Gap) {
	if len(g.seconds) == 0 {
		return nil
	}
	var n, squares int64
	for _, flows := range g.flows {
		n += flows
		squares += flows * flows
	}
	all := g.seconds[len(g.seconds)-1] - g.seconds[0] + 1
	time := max(float64(len(g.seconds)), 0.9*float64(all))
	mean := float64(n) / time
	variance := float64(squares)/time - mean*mean
	for i, second := range g.seconds {
		if i == 0 {
			continue
		}
		gap := second - 1 - g.seconds[i-1]
		if gap > 0 && float64(gap)*mean*mean > 64*max(variance, mean) {
			found = append(found, Gap{(second - gap) * 1e9, second * 1e9})
		}
	}
	slices.SortFunc(found, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.ToNS-b.FromNS, a.ToNS-a.FromNS), cmp.Compare(a.ToNS, b.ToNS))
	})
	return found[:min(len(found), MostGaps)]
}

// A flowID is the id of a flow.
type flowID struct{ number, id int64 }

var idsByFlow = extsort.Order[flowID]{
	Key:     func(f *flowID) uint64 { return uint64(f.number) },
	Compare: func(*flowID, *flowID) int { return 0 },
}

var spansByFlow = extsort.Order[span]{
	Key:     func(s *span) uint64 { return uint64(s.flow) },
	Compare: func(a, b *span) int { return cmp.Compare(a.startNS, b.startNS) },
}

var spansByStart = extsort.Order[span]{
	Key:     func(s *span) uint64 { return uint64(s.startNS) },
	Second:  func(s *span) uint64 { return uint64(s.flow) },
	Compare: func(a, b *span) int { return cmp.Compare(a.flow, b.flow) },
}

// writeIntervals writes table workload_intervals. ids has the flows that have any.
func (m *merging) writeIntervals(ctx context.Context, ids *extsort.Sorter[flowID],
	out schema.Sink) (err error) {
	if out == nil {
		return nil
	}
	byTime := spansByStart.Within(m.sums.starts())
	sorted := extsort.New(&m.Memory, m.TmpDir, m.MemoryBytes/4, byTime)
	defer func() { err = errors.Join(err, sorted.Close()) }()
	toSorted := NewRowWriter(batchRows, sorted.AddAll)
	next := ids.Pull(ctx)
	of := &flowID{number: -1}
	err = m.spans.Drain(ctx, func(s *span) error {
		if of.number < s.flow {
			var err error
			if of, err = next(); err != nil {
				return fmt.Errorf("id of a flow: %w", err)
			}
		}
		identified := *s
		identified.flow = of.id
		m.result.LastEndNS = max(m.result.LastEndNS, s.endNS)
		return toSorted.Add(identified)
	})
	err = cmp.Or(err, toSorted.Finish())
	if err != nil {
		return err
	}
	m.result.Intervals = sorted.Len()
	rows := NewRowWriter(batchRows, func(rows []intervalRow) error { return intervalTable.Write(out, rows) })
	err = sorted.Drain(ctx, func(s *span) error {
		return rows.Add(intervalRow{s.flow, s.startNS, s.endNS, s.bytes, s.packets})
	})
	return cmp.Or(err, rows.Finish())
}

// batchRows is the number of rows that are written at a time. They fit in the second-level cache.
const batchRows = 4096

// An intervalRow is a row of table workload_intervals.
type intervalRow struct {
	FlowID  int64 `col:"flow_id"`
	StartNS int64 `col:"start_ns"`
	EndNS   int64 `col:"end_ns"`
	Bytes   int64 `col:"bytes"`
	Packets int64 `col:"packets"`
}

var intervalTable = columns.TableOf[intervalRow](schema.WorkloadIntervals)
