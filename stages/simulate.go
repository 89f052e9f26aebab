package stages

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// SimulateStats says what one partition's simulation did. Times are wall-clock and differ from run
// to run; everything else is a function of the input.
type SimulateStats struct {
	Cases         int64 // simulated
	PacketHops    int64 // of them
	KernelNS      int64
	LongestCaseNS int64
	LongestLink   int32
	// Cases that were not simulated, because their results were found in a CaseStore.
	CachedCases int64
	CachedHops  int64
	CachedNS    int64
}

// Add adds up what several partitions did.
func (s *SimulateStats) Add(o SimulateStats) {
	s.Cases += o.Cases
	s.PacketHops += o.PacketHops
	s.KernelNS += o.KernelNS
	if o.LongestCaseNS > s.LongestCaseNS {
		s.LongestCaseNS, s.LongestLink = o.LongestCaseNS, o.LongestLink
	}
	s.CachedCases += o.CachedCases
	s.CachedHops += o.CachedHops
	s.CachedNS += o.CachedNS
}

// Simulator runs the link cases of one scenario, a partition of links at a time. Its scratch memory
// is reused: one Simulator serves one goroutine.
type Simulator struct {
	net       *topology.Network
	params    simkernel.Params
	loads     *Loads
	estimator Estimator
	ablation  Ablation
	kernel    *simkernel.Kernel

	rows     hopColumns
	given    columns.Arena // what the rows' packets met elsewhere, as read
	toldAt   []int32       // by place in order: its place in told
	order    []int32       // rows by link, each link's in start order
	starts   []int32       // where each link of the partition begins in order
	sourceOf []int32       // by link id: the case's source, if stamp says so
	stamp    []int32
	caseNo   int32

	feederOf    []int32 // by link id: the case's feeder, if feederStamp says so
	feederStamp []int32

	c          simkernel.Case
	result     simkernel.Result
	out        delayColumns
	stats      statColumns
	waits      observationRows
	senders    senderRows
	caseDigest caseDigest
	solver     CaseSolver // nil: the link kernel
	of         []int32    // by link: whose case answers for it; nil: its own
	bps        []int64    // by link: what is available of it; 0: not worked out yet
	send       []int64    // by link: what a full packet needs on it; 0: not worked out yet
}

// HopColumns names the columns of table hops that Simulate and Senders read: for Flow, all.
func HopColumns(e Estimator) []string {
	columns := []string{"link_id", "flow_row", "flow_id", "hop", "hops", "size_bytes", "start_ns", "first_link", "delay_to_link_ns", "path_delay_ns"}
	if e == Flow {
		columns = append(columns, "prev_link", "path_send_ns")
	}
	return columns
}

// NewSimulator prepares a simulator for the scenario's link cases, built as the estimator wants them:
// for Independent as the paper does; for Flow also with the link before the target, the part of the
// round trip that the case leaves out, and what the packets met elsewhere, except without some of it.
func NewSimulator(n *topology.Network, p simkernel.Params, loads *Loads, e Estimator, w Ablation) (*Simulator, error) {
	k, err := simkernel.NewKernel(p)
	if err != nil {
		return nil, err
	}
	return &Simulator{
		net: n, params: p, loads: loads, estimator: e, ablation: w, kernel: k,
		bps: make([]int64, len(n.Links)), send: make([]int64, len(n.Links)),
		sourceOf: make([]int32, len(n.Links)), stamp: make([]int32, len(n.Links)), feederOf: make([]int32, len(n.Links)), feederStamp: make([]int32, len(n.Links)),
	}, nil
}

// Simulate runs the link case of every link in [lo, hi) that carries flows. It reads hops (the
// partition's rows of table hops; rows of other links are passed over; each link's rows must come
// in flow_row order) and writes link_stats, one row for every link in [lo, hi), and to out, for
// Independent, hop_delays, by link and flow_row, or, for Flow, hop_observations, by flow_row and hop. For
// Flow it may be told what the packets met elsewhere: the same rows of table elsewhere (nil: nothing).
//
// Each answer is a pure function of one link's rows and of the loads, so that neither the
// partition nor the worker shows in it. progress, if not nil, is told the packet-hops of each case
// when it is done.
func (s *Simulator) Simulate(ctx context.Context, lo, hi int32, hops, given schema.Batches, out, stats schema.Sink, progress func(packetHops int64)) (SimulateStats, error) {
	done, err := s.cases(ctx, lo, hi, hops, given, s.answersForItself, func(link topology.Link, rows []int32, cached bool) error {
		s.count(link, rows, cached)
		if s.estimator == Independent {
			return s.emit(link, rows, out)
		}
		s.waits.add(s, link, rows)
		return nil
	}, s.countNothing, progress)
	if err == nil && s.estimator == Independent {
		err = s.out.flush(out)
	} else if err == nil {
		err = s.waits.flush(out)
	}
	if err != nil {
		return done, err
	}
	return done, s.stats.flush(stats)
}

// UseNS3 makes the simulator have its link cases answered by ns-3. Only for Independent.
func (s *Simulator) UseSolver(c CaseSolver) { s.solver = c }

// Represent leaves out the cases of links that another answers for (of: by link id, ReadClusters).
func (s *Simulator) Represent(of []int32) { s.of = of }

// answersForItself says whether a link's case is simulated.
func (s *Simulator) answersForItself(id int32) bool { return !isImputed(s.of, id) }

// countNothing puts a link whose case was not simulated into the output columns.
func (s *Simulator) countNothing(link topology.Link) {
	s.stats.append(link, s.loads.Links[link.ID], s.loads.AvailableBps(&s.params, link), s.loads.Load(link), simkernel.Counters{}, false)
}

// Senders runs the link cases of the hosts' own links in [lo, hi), told all that the packets met
// elsewhere, and writes sender_fcts, by flow_row.
func (s *Simulator) Replay(ctx context.Context, lo, hi int32, hops, given schema.Batches, out schema.Sink, progress func(packetHops int64)) (SimulateStats, error) {
	done, err := s.cases(ctx, lo, hi, hops, given, s.net.FromHost, func(_ topology.Link, rows []int32, _ bool) error {
		s.senders.add(s, rows)
		return nil
	}, nil, progress)
	if err != nil {
		return done, err
	}
	return done, s.senders.flush(out)
}

// cases runs the wanted link cases of [lo, hi) that carry flows; each is taken before the next. skip, if
// not nil, is told of the links in between.
func (s *Simulator) cases(ctx context.Context, lo, hi int32, hops, given schema.Batches, want func(int32) bool, take func(link topology.Link, rows []int32, cached bool) error, skip func(topology.Link), progress func(int64)) (SimulateStats, error) {
	var done SimulateStats
	s.waits.reset()
	s.senders.reset()
	if err := s.gather(lo, hi, hops, want); err != nil {
		return done, err
	}
	if err := s.gatherFeedback(lo, hi, given, want); err != nil {
		return done, err
	}
	for id := lo; id < hi; id++ {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		if !want(id) {
			if skip != nil {
				skip(s.net.Links[id])
			}
			continue
		}
		link := s.net.Links[id]
		from, to := s.starts[id-lo], s.starts[id-lo+1]
		rows := s.order[from:to]
		began := time.Now()
		packets := s.loads.Links[id].Packets
		cached := false
		err := s.buildCase(link, int(from), int(to))
		if err == nil {
			cached, err = s.solve(ctx, link, rows, packets)
		}
		if err != nil {
			return done, fmt.Errorf("link %d (%d → %d): %w", link.ID, link.Src, link.Dst, err)
		}
		took := time.Since(began).Nanoseconds()
		if err := take(link, rows, cached); err != nil {
			return done, err
		}
		if len(rows) == 0 {
			continue
		}
		if cached {
			done.CachedCases++
			done.CachedHops += packets
			done.CachedNS += took
		} else {
			done.Cases++
			done.PacketHops += packets
			done.KernelNS += took
		}
		if took > done.LongestCaseNS {
			done.LongestCaseNS, done.LongestLink = took, id
		}
		if progress != nil {
			progress(packets)
		}
	}
	return done, nil
}

// gather reads the partition's hops of the wanted links and orders them by link (a stable counting sort).
func (s *Simulator) gather(lo, hi int32, hops schema.Batches, want func(int32) bool) error {
	r := &s.rows
	r.reset()
	var expected int64
	for id := lo; id < hi; id++ {
		if want(id) {
			expected += s.loads.Links[id].Flows
		}
	}
	r.grow(int(expected), s.estimator)
	counts := make([]int32, hi-lo+1)
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		link := columns.Int32s(rec, "link_id")
		// Rows are sorted by link within a file: the wanted ones are one stretch of the batch.
		from, to := 0, len(link)
		for from < to && link[from] < lo {
			from++
		}
		for to > from && link[to-1] >= hi {
			to--
		}
		in := hopColumnsOf(rec, s.estimator)
		for from < to { // a stretch at a time that is wanted, or not
			wanted, end := want(link[from]), from
			for ; end < to; end++ {
				id := link[end]
				if id < lo || id >= hi {
					return fmt.Errorf("table hops is not sorted by link: found link %d among %d to %d", id, lo, hi-1)
				}
				if end > from && id != link[end-1] && want(id) != wanted {
					break
				}
				if wanted {
					counts[id-lo]++
				}
			}
			if wanted {
				r.append(&in, from, end)
			}
			from = end
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

// gatherTold reads what the partition's packets met elsewhere, and orders it as gather ordered hops.
func (s *Simulator) gatherFeedback(lo, hi int32, given schema.Batches, want func(int32) bool) error {
	s.given.Reset()
	s.toldAt = s.toldAt[:0]
	if given == nil {
		return nil
	}
	next := slices.Clone(s.starts[:hi-lo])
	s.toldAt = resize(s.toldAt, len(s.order))
	n := 0
	err := columns.ForEach(given, func(rec arrow.Record) error {
		link, row := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row")
		observed := columns.Named(rec, "observed").(*array.Binary)
		for i, id := range link {
			if id < lo || id >= hi || !want(id) {
				continue
			}
			at := next[id-lo]
			if at >= s.starts[id-lo+1] || s.rows.flowRow[s.order[at]] != row[i] {
				return fmt.Errorf("table elsewhere has flow row %d on link %d where table hops has not", row[i], id)
			}
			next[id-lo]++
			s.toldAt[at] = int32(n)
			s.given.Add(observed.Value(i))
			n++
		}
		return nil
	})
	if err == nil && n != len(s.order) {
		err = fmt.Errorf("table elsewhere has %d rows of links %d to %d, table hops has %d", n, lo, hi-1, len(s.order))
	}
	return err
}

// buildCase builds the link case of the rows at places from to to of the order (paper, §3.2).
func (s *Simulator) buildCase(link topology.Link, from, to int) error {
	r, c := &s.rows, &s.c
	c.SourceBps, c.SourceDelayNS = c.SourceBps[:0], c.SourceDelayNS[:0]
	c.Source, c.SizeBytes, c.StartNS, c.PathDelayNS = c.Source[:0], c.SizeBytes[:0], c.StartNS[:0], c.PathDelayNS[:0]
	c.Feeder, c.FeederBps, c.ReturnNS, c.Feedback = c.Feeder[:0], c.FeederBps[:0], c.ReturnNS[:0], c.Feedback[:0]
	s.caseNo++
	c.Record = s.estimator == Flow
	c.Kind = simkernel.Behind
	if from < to && r.hop[s.order[from]] == 0 {
		c.Kind = simkernel.FirstHop
	}
	c.TargetBps = s.loads.AvailableBps(&s.params, link)
	c.MarkBytes, c.MaxMarkBytes = s.params.MarkBytes(link.BandwidthBps), s.params.MaxMarkBytes(link.BandwidthBps)
	c.MarkKey, c.FlowKey = simkernel.MarkKey(s.params.Seed, link.ID), c.FlowKey[:0]
	c.Hops = c.Hops[:0]
	for _, i := range s.order[from:to] {
		first := r.firstLink[i]
		if s.stamp[first] != s.caseNo {
			s.stamp[first], s.sourceOf[first] = s.caseNo, int32(len(c.SourceBps))
			c.SourceBps = append(c.SourceBps, s.availableBps(first))
			// Where equally long paths differ in propagation or in the link before the target, a
			// source's first flow speaks for all; each flow's round trip stays its own.
			c.SourceDelayNS = append(c.SourceDelayNS, r.delayToLink[i])
			if s.estimator == Flow && c.Kind == simkernel.Behind && s.ablation&AblateFeeder == 0 {
				c.Feeder = append(c.Feeder, s.feeder(r.prevLink[i], first))
			}
		}
		src := s.sourceOf[first]
		c.Source = append(c.Source, src)
		c.SizeBytes = append(c.SizeBytes, r.size[i])
		c.FlowKey = append(c.FlowKey, uint64(r.flowRow[i]))
		c.Hops = append(c.Hops, r.hops[i])
		c.StartNS = append(c.StartNS, r.start[i])
		c.PathDelayNS = append(c.PathDelayNS, max(r.pathDelay[i], c.SourceDelayNS[src]))
		if s.estimator == Flow && s.ablation&AblateRoundTrip == 0 {
			c.ReturnNS = append(c.ReturnNS, s.returnNS(link, first, r.pathSend[i]))
		}
	}
	if len(s.toldAt) == 0 {
		return nil
	}
	for at := from; at < to; at++ {
		i := s.order[at]
		was := int64(len(c.Feedback))
		var err error
		if c.Feedback, err = readBlocks(c.Feedback, s.given.At(int(s.toldAt[at]))); err != nil {
			return fmt.Errorf("flow row %d: %w", r.flowRow[i], err)
		}
		want := was + simkernel.Blocks(s.params.Packets(r.size[i]))
		if int64(len(c.Feedback)) > want {
			return fmt.Errorf("flow row %d: %w", r.flowRow[i], errBlocks)
		}
		for int64(len(c.Feedback)) < want {
			c.Feedback = append(c.Feedback, simkernel.Block{})
		}
	}
	return nil
}

// feeder is the case's feeder for a source whose packets come over that link: -1 if that is the
// source's own.
func (s *Simulator) feeder(prev, first int32) int32 {
	if prev == first {
		return -1
	}
	if s.feederStamp[prev] != s.caseNo {
		s.feederStamp[prev], s.feederOf[prev] = s.caseNo, int32(len(s.c.FeederBps))
		s.c.FeederBps = append(s.c.FeederBps, s.availableBps(prev))
	}
	return s.feederOf[prev]
}

// availableBps is what is available of a link, which many cases ask for.
func (s *Simulator) availableBps(id int32) int64 {
	if s.bps[id] == 0 {
		s.bps[id] = s.loads.AvailableBps(&s.params, s.net.Links[id])
	}
	return s.bps[id]
}

// sendNS is what a full packet needs to be sent on a link, which many cases ask for.
func (s *Simulator) sendNS(id int32) int64 {
	if s.send[id] == 0 {
		s.send[id] = s.params.SendNS(s.params.PayloadBytes+s.params.HeaderBytes, s.net.Links[id].BandwidthBps)
	}
	return s.send[id]
}

// returnNS is what a full packet and its ACK need to be sent on the links of a path that the case of
// the link does not simulate: all but the source's own and the link.
func (s *Simulator) returnNS(link topology.Link, first int32, pathSendNS int64) int64 {
	left := pathSendNS - s.sendNS(first)
	if link.ID != first {
		left -= s.sendNS(link.ID)
	}
	return max(0, left)
}

// simulateCase runs the case of those rows.
func (s *Simulator) simulateCase(ctx context.Context, link topology.Link, rows []int32) error {
	if s.solver != nil {
		return s.solver.Simulate(ctx, &s.c, link.DelayNS, &s.params, &s.result)
	}
	if err := s.kernel.Simulate(&s.c, &s.result); err != nil {
		return err
	}
	if s.result.Unfinished > 0 {
		var ids []int64
		for k, i := range rows {
			if s.result.FCTNS[k] < 0 && len(ids) < 10 {
				ids = append(ids, s.rows.flowID[i])
			}
		}
		return fmt.Errorf("%d flows cannot drain within the longest time the kernel can express, among them %v: the link is too slow for them", s.result.Unfinished, ids)
	}
	return nil
}

// emit puts the delays of a finished case into the output columns.
func (s *Simulator) emit(link topology.Link, rows []int32, delays schema.Sink) error {
	r, res := &s.rows, &s.result
	for k, i := range rows {
		s.out.append(link.ID, r.flowRow[i], r.flowID[i], r.hop[i], r.hops[i], r.size[i], res.FCTNS[k], res.IdealNS[k], res.WaitNS[k])
		if len(s.out.link) == columns.BatchRows {
			if err := s.out.flush(delays); err != nil {
				return err
			}
		}
	}
	return nil
}

// count puts what a finished case's link saw into the output columns.
func (s *Simulator) count(link topology.Link, rows []int32, cached bool) {
	counters := s.result.Counters
	if len(rows) == 0 {
		counters = simkernel.Counters{}
	}
	s.stats.append(link, s.loads.Links[link.ID], s.c.TargetBps, s.loads.Load(link), counters, cached)
}

// resize is a slice of that length, its contents unspecified, in the old memory where it fits.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}
