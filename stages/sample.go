package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// Sampler computes the FCT and the slowdown of each flow from its hops. It reuses its memory and is used by
// one goroutine at a time.
type Sampler struct {
	net    *topology.Network
	params simkernel.Params
	ideal  simkernel.IdealPath
	path   []int32 // of ideal

	Limited bool // buffers have an end: contributions have the longest waits

	hops          hopIndex         // of contributions, and of exact_hops
	observed      observationIndex // for Flow
	fcts          []simulatedFCT   // for Flow and WholeNetwork: by flow of the chunk
	blocks        []simkernel.Block
	rows          []SlowdownRow     // not written yet
	contributions []contributionRow // not written yet
	cases         CaseSlowdowns     // for Flow
	flow          sampledFlow
}

// A sampledFlow is what an estimator says of a flow.
type sampledFlow struct {
	path              []int32 // empty: it has no estimate
	startNS           int64
	delayNS, windowNS int64 // FCT less the ideal FCT; the part of it that is the window's
	caseNS            int64 // the delay by the link case where it waits longest; -1: not known
	fasterNS          int64 // where paths move: by so much its FCT was less than the ideal on its first path
	again, reordered  int32 // packets
}

// NewSampler returns a sampler for a scenario.
func NewSampler(n *topology.Network, p simkernel.Params) *Sampler {
	return &Sampler{net: n, params: p}
}

// Sample writes table slowdowns for one chunk of table flows, whose first row is firstRow: a row for every
// flow that has a path, in the order of the flows. The FCT is the ideal FCT on the flow's path plus the sum
// of what its hops contribute (paper, §3.4). The sum is taken in path order, so its bits do not depend on
// how contributions are partitioned.
//
// contributions is table hop_contributions, in any order; rows of other flows before and after the chunk's
// are skipped. A flow whose hops are not all there is an error that names it.
func (s *Sampler) Sample(ctx context.Context, firstRow, rows int64, flows, contributed schema.Batches,
	out schema.Sink) error {
	s.hops.begin(schema.HopContributions, firstRow, rows)
	err := columns.Each(contributed, func(r *contribution) error {
		return s.hops.add(r.FlowRow, r.Hop, r.Hops, hopCell{r.LinkID, 0, r.DelayNS})
	})
	if err != nil {
		return err
	}
	return s.writeChunk(ctx, firstRow, rows, flows, out, nil, func(f int, sizeBytes int64, to *sampledFlow) error {
		hops, err := s.hops.cells(f)
		var sum float64
		for h := range hops {
			sum += hops[h].ns
		}
		to.path, to.delayNS = s.hops.path, int64(math.Round(sum))
		to.windowNS = min(s.windowNS(to.path, sizeBytes), to.delayNS)
		return err
	})
}

type sampleFunc func(f int, sizeBytes int64, to *sampledFlow) error

type flowToSample struct {
	workload.Labels
	ID        int64 `col:"flow_id"`
	Src       int32 `col:"src"`
	Dst       int32 `col:"dst"`
	SizeBytes int64 `col:"size_bytes"`
	StartNS   int64 `col:"start_ns"`
}

// writeChunk writes the slowdowns of a chunk of flows, as sample estimates them, and the contributions of their hops
// (nil: none).
func (s *Sampler) writeChunk(
	ctx context.Context, firstRow, rows int64, flows schema.Batches, out, contributed schema.Sink, sample sampleFunc,
) error {
	s.cases = CaseSlowdowns{}
	s.contributions = s.contributions[:0]
	at := int64(0)
	err := columns.EachRows(flows, batchRows, func(part []flowToSample) error {
		if at+int64(len(part)) > rows {
			return fmt.Errorf("flows: the chunk at row %d has more flows than the %d that were routed", firstRow, rows)
		}
		s.rows = s.rows[:0]
		for i := range part {
			if err := s.sample(&part[i], firstRow, at, sample); err != nil {
				return fmt.Errorf("flow %d: %w", part[i].ID, err)
			}
			at++
		}
		err := cmp.Or(ctx.Err(), SlowdownTable.Write(out, s.rows))
		if err == nil && contributed != nil {
			err = contributionTable.Write(contributed, s.contributions)
			s.contributions = s.contributions[:0]
		}
		return err
	})
	if err == nil && at != rows {
		err = fmt.Errorf("flows: the chunk at row %d has %d flows, %d were routed", firstRow, at, rows)
	}
	return err
}

// sample adds the row of a flow, if it has a path. The chunk begins at row chunkRow of table flows, the flow is in row
// at of the chunk.
func (s *Sampler) sample(f *flowToSample, chunkRow, at int64, sample sampleFunc) error {
	x := &s.flow
	*x = sampledFlow{startNS: f.StartNS, caseNS: -1}
	if err := sample(int(at), f.SizeBytes, x); err != nil || len(x.path) == 0 {
		return err
	}
	ideal := s.idealNS(x.path, f.SizeBytes) - x.fasterNS
	fct := ideal + x.delayNS
	s.rows = append(s.rows, SlowdownRow{FlowID: f.ID, FlowRow: chunkRow + at, Src: f.Src, Dst: f.Dst, Labels: f.Labels,
		SizeBytes: f.SizeBytes, StartNS: x.startNS, Hops: int16(len(x.path)), IdealNS: ideal, FCTNS: fct,
		WindowNS: x.windowNS, Slowdown: float64(fct) / float64(ideal), Retransmissions: x.again, Reordered: x.reordered})
	if x.caseNS >= 0 {
		s.cases.count(f.SizeBytes, float64(ideal+x.caseNS)/float64(ideal))
	}
	return nil
}

// setPath sets ideal to a path.
func (s *Sampler) setPath(path []int32) {
	if slices.Equal(path, s.path) {
		return
	}
	s.path = append(s.path[:0], path...)
	s.ideal.Reset(&s.params)
	for _, l := range path {
		link := &s.net.Links[l]
		s.ideal.Add(link.BandwidthBps, link.DelayNS)
	}
}

func (s *Sampler) idealNS(path []int32, sizeBytes int64) int64 {
	s.setPath(path)
	return s.ideal.FCTNS(sizeBytes)
}

// windowNS returns by how much a window that is smaller than the path needs delays a flow that is alone there.
func (s *Sampler) windowNS(path []int32, sizeBytes int64) int64 {
	s.setPath(path)
	return s.params.WindowDelayNS(s.ideal.Path(), sizeBytes)
}

// SampleReplays is Sample for estimator Flow. It reads, for the chunk, table hop_observations of the last pass and
// table sender_fcts of the replay, in any order; rows of other flows are skipped. To cases it writes table
// case_slowdowns: what another link case says of the flows, that of the hop where a flow's last packet waits longest.
//
// A flow's delay is that of its replay and of its link cases (see blend). It is divided among the hops, for table
// hop_contributions: each hop contributes the wait of the flow's last packet there.
// Of the rest, what a window costs that is smaller than the path needs belongs to no hop (column window_ns). What
// remains, which the sender lost by reducing its rate, is divided in proportion to the hops' marks; if there are none,
// it belongs to hop 0, where the host's other flows compete with it.
func (s *Sampler) SampleReplays(ctx context.Context, firstRow, rows int64, flows, observed, senders schema.Batches,
	out, contributed, cases schema.Sink) error {
	if err := s.observed.read(firstRow, rows, observed); err != nil {
		return err
	}
	if err := s.readSenders(firstRow, rows, senders); err != nil {
		return err
	}
	err := s.writeChunk(ctx, firstRow, rows, flows, out, contributed, func(f int, sizeBytes int64, to *sampledFlow) error {
		hops, err := s.observed.of(f)
		if err != nil || len(hops) == 0 {
			return err
		}
		if s.fcts[f].FCT < 0 {
			return errors.New("no row in sender_fcts")
		}
		if err := s.decode(hops, sizeBytes); err != nil {
			return err
		}
		to.path = s.observed.path
		to.delayNS = s.blend(to.path, hops, s.fcts[f].FCT-s.fcts[f].Ideal)
		to.caseNS = longestWaitCase(hops, to.delayNS)
		s.attribute(firstRow+int64(f), sizeBytes, hops, to)
		return nil
	})
	if err != nil {
		return err
	}
	return s.cases.write(cases)
}

// resetFCTs makes room for the flows of a chunk, none of which was simulated.
func (s *Sampler) resetFCTs(rows int64) {
	s.fcts = columns.Resize(s.fcts, int(rows))
	for i := range s.fcts {
		s.fcts[i] = simulatedFCT{FCT: -1}
	}
}

func (s *Sampler) readSenders(firstRow, rows int64, in schema.Batches) error {
	s.resetFCTs(rows)
	return columns.Each(in, func(r *senderRow) error {
		switch {
		case r.FlowRow < firstRow || r.FlowRow >= firstRow+rows:
			return nil
		case r.FCTNS < r.IdealNS:
			return fmt.Errorf("sender_fcts: flow row %d has an FCT of %d ns, below its ideal FCT of %d ns", r.FlowRow,
				r.FCTNS, r.IdealNS)
		}
		s.fcts[r.FlowRow-firstRow] = simulatedFCT{FCT: r.FCTNS, Ideal: r.IdealNS}
		return nil
	})
}

// decode completes the hops of a flow from what its packets observed there.
func (s *Sampler) decode(hops []hopOfFlow, sizeBytes int64) error {
	layout, packets := s.params.Layout(), s.params.Packets(sizeBytes)
	last := int(layout.Blocks(packets)) - 1
	for h := range hops {
		hop := &hops[h]
		var err error
		if s.blocks, err = readBlocks(s.blocks[:0], s.observed.encoded.At(int(hop.number))); err != nil {
			return fmt.Errorf("hop_observations, hop %d: %w", h, err)
		}
		if h > 0 && last < len(s.blocks) {
			hop.lastNS = int64(s.blocks[last].WaitNS)
		}
		var sum int64
		for i := range s.blocks {
			if s.blocks[i] == (simkernel.Block{}) {
				continue
			}
			if s.Limited {
				hop.longestNS = max(hop.longestNS, int64(s.blocks[i].WaitNS))
			}
			sum += layout.Packets(packets, int64(i)) * int64(s.blocks[i].WaitNS)
			hop.marks += int64(bits.OnesCount16(s.blocks[i].Marks))
		}
		hop.meanNS = float64(sum) / float64(packets)
	}
	return nil
}

// blend returns the delay of the current flow: a mean of its delay by the replay of its host's uplink and of those by
// the link cases of its other hops.
//
// Each case has the queue of its own link packet by packet and is given the other hops by number of packet. Where a
// flow waits at one hop for far longer than a round trip, its rate follows from that queue: a packet that leaves a bit
// earlier or later meets another queue, which the hop's case knows and the replay does not. Errors of the replay do not
// cancel there, and the last flow of a burst ends too late. Elsewhere the replay is better, because it is given the
// waits of the last pass and a case those of the pass before. So the case of hop h has the weight
//
//	(wₕ / Σ w)²  ·  wₕ / (wₕ + round trip without waits)
//
// where w is the flow's mean wait. The first factor is the square of the part of the waits that is at the hop: where
// several hops are loaded, none of their cases is right. The second is the estimate of how much the queue reacts that
// also damps feedback (see damp). The replay has the rest.
func (s *Sampler) blend(path []int32, hops []hopOfFlow, replayNS int64) int64 {
	var waits float64
	for h := range hops {
		waits += hops[h].meanNS
	}
	trip, more := float64(roundTripNS(s.net, &s.params, path)), 0.0
	for h := 1; h < len(hops); h++ {
		w := hops[h].meanNS
		if w == 0 || hops[h].ns < 0 {
			continue
		}
		// The conversion keeps compilers from fusing the product and the sum: same bits on every machine.
		part := w / waits
		more += float64(part * part * (w / (w + trip)) * (hops[h].ns - float64(replayNS)))
	}
	return replayNS + int64(math.Round(more))
}

// longestWaitCase returns the delay of a flow by the case of the hop where its last packet waits longest; delayNS if
// there is none.
func longestWaitCase(hops []hopOfFlow, delayNS int64) int64 {
	longest := int64(0)
	for _, hop := range hops {
		if hop.ns >= 0 && hop.lastNS > longest {
			longest, delayNS = hop.lastNS, int64(hop.ns)
		}
	}
	return delayNS
}

// attribute divides the delay of a flow, a row of table flows, among its hops and its window.
func (s *Sampler) attribute(row, sizeBytes int64, hops []hopOfFlow, to *sampledFlow) {
	rest, allMarks := to.delayNS, int64(0)
	for h := range hops {
		hops[h].lastNS = min(hops[h].lastNS, rest)
		rest -= hops[h].lastNS
		allMarks += hops[h].marks
	}
	to.windowNS = min(s.windowNS(to.path, sizeBytes), rest)
	rest -= to.windowNS
	for h := range hops {
		hop, share := &hops[h], 0.0
		if allMarks > 0 {
			share = float64(rest) * (float64(hop.marks) / float64(allMarks))
		} else if h == 0 {
			share = float64(rest)
		}
		wait := float64(hop.lastNS)
		s.contributions = append(s.contributions,
			contributionRow{contribution{row, int16(h), int16(len(hops)), hop.link, wait + share}, wait,
				hop.longestNS})
	}
}

// simulatedFCT is what a simulation says of a flow, in the columns of table exact_fcts, or a replay. An FCT of -1: it
// was not simulated.
type simulatedFCT struct {
	Row       int64 `col:"flow_row"`
	Start     int64 `col:"start_ns"`
	Hops      int16 `col:"hops"`
	Ideal     int64 `col:"ideal_ns"`
	FCT       int64 `col:"fct_ns"`
	Again     int32 `col:"retransmissions"`
	Reordered int32 `col:"reordered"`
}

// SampleExact is Sample for estimator WholeNetwork. It reads, for the chunk, tables exact_fcts and exact_hops of the
// simulation of the whole workload, in any order; rows of other flows are skipped. A flow's FCT is the simulated one.
// Its delay is divided among its hops as SampleReplays does it.
func (s *Sampler) SampleExact(ctx context.Context, firstRow, rows int64, flows, fcts, hops schema.Batches,
	out, contributed schema.Sink) error {
	if err := s.readExact(firstRow, rows, fcts, hops); err != nil {
		return err
	}
	return s.writeChunk(ctx, firstRow, rows, flows, out, contributed, func(f int, sizeBytes int64, to *sampledFlow) error {
		x := &s.fcts[f]
		if x.FCT < 0 {
			return nil
		}
		hops, err := s.hops.of(f)
		if err != nil {
			return err
		}
		for h := range hops {
			if link := hops[h].link; int(link) >= len(s.net.Links) {
				return fmt.Errorf("exact_hops: link %d is not in the topology, which has %d links", link, len(s.net.Links))
			}
			hops[h].lastNS, hops[h].marks = int64(hops[h].ns), int64(hops[h].number)
		}
		to.path = s.hops.path
		ideal := s.idealNS(to.path, sizeBytes)
		to.startNS, to.again, to.reordered, to.fasterNS = x.Start, x.Again, x.Reordered, ideal-x.Ideal
		if x.FCT < x.Ideal || to.fasterNS < 0 || to.fasterNS > 0 && x.FCT != x.Ideal {
			return fmt.Errorf("exact_fcts has an FCT of %d ns and an ideal FCT of %d ns; on this path it is %d ns",
				x.FCT, x.Ideal, ideal)
		}
		to.delayNS = x.FCT - x.Ideal
		s.attribute(firstRow+int64(f), sizeBytes, hops, to)
		return nil
	})
}

func (s *Sampler) readExact(firstRow, rows int64, fcts, hops schema.Batches) error {
	s.resetFCTs(rows)
	err := columns.Each(fcts, func(r *simulatedFCT) error {
		switch {
		case r.Row < firstRow || r.Row >= firstRow+rows || r.FCT == 0 && r.Hops == 0: // the latter: a compute step
			return nil
		case r.FCT < 0 || r.Hops < 1:
			return fmt.Errorf("exact_fcts: flow row %d has an FCT of %d ns over %d hops", r.Row, r.FCT, r.Hops)
		}
		s.fcts[r.Row-firstRow] = *r
		return nil
	})
	if err != nil {
		return err
	}
	s.hops.begin(schema.ExactHops, firstRow, rows)
	for f := range s.fcts {
		s.hops.reserve(int64(f), s.fcts[f].Hops)
	}
	return columns.Each(hops, func(r *exactHopRow) error {
		switch {
		case r.FlowRow < firstRow || r.FlowRow >= firstRow+rows:
			return nil
		case r.LastWaitNS < 0 || r.PacketsMarked < 0:
			return fmt.Errorf("exact_hops: flow row %d has a wait or marks below 0 at hop %d", r.FlowRow, r.Hop)
		}
		return s.hops.add(r.FlowRow, r.Hop, s.fcts[r.FlowRow-firstRow].Hops,
			hopCell{r.LinkID, r.PacketsMarked, float64(r.LastWaitNS)})
	})
}
