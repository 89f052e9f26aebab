package stages

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// SampleStats says what the sampling of one chunk did.
type SampleStats struct {
	Flows    int64 // flows with an estimate
	Ablation int64 // flows without a path, and so without one
}

// Sampler puts each flow's hops together again. One Sampler serves one goroutine.
type Sampler struct {
	net    *topology.Network
	params simkernel.Params
	ideal  simkernel.IdealPath

	// Independent: contributions as read
	row   []int64
	hop   []int16
	hops  []int16
	link  []int32
	delay []float64
	// and laid out by flow: width places a flow, seen of them taken
	byLink  []int32
	byDelay []float64
	width   int
	seen    []int16
	want    []int16

	// Flow: what the packets met, and the senders' FCTs
	observed flowArena
	fctNS    []int64
	aloneN   []int64
	path     []int32
	marked   []int64
	waits    []int64
	blocks   []simkernel.Block
	out      contributionRows
}

// ContributionColumns names the columns of table hop_contributions that Sample reads.
func ContributionColumns() []string {
	return []string{"flow_row", "hop", "hops", "link_id", "delay_ns"}
}

// NewSampler prepares a sampler for the scenario.
func NewSampler(n *topology.Network, p simkernel.Params) *Sampler {
	return &Sampler{net: n, params: p}
}

// Sample reads one chunk of table flows, whose first row is firstRow, and the hop_contributions of
// its flows (in any order; rows of other flows are passed over), and writes table slowdowns, a row
// for every flow that has a path, in the order of the flows. The end-to-end FCT is the ideal FCT on
// the flow's path plus the sum of what its hops contribute (paper, §3.4), in path order, so that
// sums have the same bits whatever the partitions were.
func (s *Sampler) Sample(ctx context.Context, firstRow, rows int64, flows, contributions schema.Batches, out schema.Sink) (SampleStats, error) {
	if err := s.layOut(firstRow, rows, contributions); err != nil {
		return SampleStats{}, err
	}
	return s.each(ctx, firstRow, rows, flows, out, func(f int, _ int64) ([]int32, int64, error) {
		want := int(s.want[f])
		if s.seen[f] != s.want[f] {
			return nil, 0, fmt.Errorf("%d of its %d hops in hop_contributions", s.seen[f], want)
		}
		place := f * s.width
		var delay float64
		for _, d := range s.byDelay[place : place+want] {
			delay += d
		}
		return s.byLink[place : place+want], int64(math.Round(delay)), nil
	})
}

// SampleJourneys is Sample for estimator Flow. It reads the chunk's hop_observations of the last pass and
// its sender_fcts. What a flow's host saw, told all that the packets met, is the flow's delay; what
// each hop contributes to it, written to table hop_contributions, is the wait of the last packet
// there, and a share of the rest, which the sender lost to backing off, in proportion to the hop's
// marks; without marks, what the host's other flows cost at hop 0.
func (s *Sampler) SampleReplays(ctx context.Context, firstRow, rows int64, flows, observed, senders schema.Batches, out, contributions schema.Sink) (SampleStats, error) {
	if err := s.observed.read(firstRow, rows, observed, true); err != nil {
		return SampleStats{}, err
	}
	if err := s.readReplays(firstRow, rows, senders); err != nil {
		return SampleStats{}, err
	}
	stats, err := s.each(ctx, firstRow, rows, flows, out, func(f int, size int64) ([]int32, int64, error) {
		hops, err := s.observed.flow(f, firstRow)
		if err != nil || hops == 0 {
			return nil, 0, err
		}
		if s.fctNS[f] < 0 {
			return nil, 0, fmt.Errorf("no row in sender_fcts")
		}
		delay := s.fctNS[f] - s.aloneN[f]
		if err := s.attribute(firstRow, f, hops, size, delay); err != nil {
			return nil, 0, err
		}
		if len(s.out.flowRow) >= columns.BatchRows {
			if err := s.out.flush(contributions); err != nil {
				return nil, 0, err
			}
		}
		return s.path, delay, nil
	})
	if err != nil {
		return stats, err
	}
	return stats, s.out.flush(contributions)
}

func (s *Sampler) readReplays(firstRow, rows int64, senders schema.Batches) error {
	s.fctNS, s.aloneN = resize(s.fctNS, int(rows)), resize(s.aloneN, int(rows))
	for i := range s.fctNS {
		s.fctNS[i] = -1
	}
	return columns.ForEach(senders, func(rec arrow.Record) error {
		fct, ideal := columns.Int64s(rec, "fct_ns"), columns.Int64s(rec, "ideal_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows {
				continue
			}
			if fct[i] < ideal[i] {
				return fmt.Errorf("sender_fcts: flow row %d has an FCT of %d ns below its ideal %d ns", row, fct[i], ideal[i])
			}
			s.fctNS[f], s.aloneN[f] = fct[i], ideal[i]
		}
		return nil
	})
}

// attribute shares a flow's delay out to its hops, and leaves its path in s.path.
func (s *Sampler) attribute(firstRow int64, f, hops int, size, delay int64) error {
	last := int(simkernel.Blocks(s.params.Packets(size))) - 1
	s.path, s.marked, s.waits = s.path[:0], s.marked[:0], s.waits[:0]
	rest, marks := delay, int64(0)
	for h := range hops {
		var err error
		if s.blocks, err = readBlocks(s.blocks[:0], s.observed.at(f, h)); err != nil {
			return fmt.Errorf("hop_observations, hop %d: %w", h, err)
		}
		var wait, marked int64
		if h > 0 && last < len(s.blocks) {
			wait = min(int64(s.blocks[last].WaitNS), rest)
		}
		for i := range s.blocks {
			marked += int64(bits.OnesCount16(s.blocks[i].Marks))
		}
		rest -= wait
		marks += marked
		s.path, s.marked, s.waits = append(s.path, s.observed.link(f, h)), append(s.marked, marked), append(s.waits, wait)
	}
	for h, link := range s.path {
		share := 0.0
		if marks > 0 {
			share = float64(rest) * (float64(s.marked[h]) / float64(marks))
		} else if h == 0 {
			share = float64(rest)
		}
		wait := float64(s.waits[h])
		s.out.append(firstRow+int64(f), int16(h), int16(hops), link, wait+share, wait)
	}
	return nil
}

// each estimates the flows of a chunk: delayOf answers the path of its f-th flow, of that size, and
// what is added to the ideal FCT there; no path: no estimate.
func (s *Sampler) each(ctx context.Context, firstRow, rows int64, flows schema.Batches, out schema.Sink, delayOf func(f int, size int64) ([]int32, int64, error)) (SampleStats, error) {
	var stats SampleStats
	at := 0
	err := columns.ForEach(flows, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if int64(at)+rec.NumRows() > rows {
			return fmt.Errorf("chunk at row %d has more than the %d flows it was routed with", firstRow, rows)
		}
		err := s.estimate(rec, firstRow, at, delayOf, out, &stats)
		at += int(rec.NumRows())
		return err
	})
	if err == nil && int64(at) != rows {
		err = fmt.Errorf("chunk at row %d has %d flows, it was routed with %d", firstRow, at, rows)
	}
	return stats, err
}

// layOut brings the contributions into a table of rows × width places, one place a hop.
func (s *Sampler) layOut(firstRow, rows int64, in schema.Batches) error {
	s.row, s.hop, s.hops, s.link, s.delay = s.row[:0], s.hop[:0], s.hops[:0], s.link[:0], s.delay[:0]
	s.width = 0
	err := columns.ForEach(in, func(rec arrow.Record) error {
		row := columns.Int64s(rec, "flow_row")
		from, to := 0, len(row) // sorted by flow: one stretch is ours
		for from < to && row[from] < firstRow {
			from++
		}
		for to > from && row[to-1] >= firstRow+rows {
			to--
		}
		s.row = append(s.row, row[from:to]...)
		s.hop = append(s.hop, columns.Int16s(rec, "hop")[from:to]...)
		s.hops = append(s.hops, columns.Int16s(rec, "hops")[from:to]...)
		s.link = append(s.link, columns.Int32s(rec, "link_id")[from:to]...)
		s.delay = append(s.delay, columns.Float64s(rec, "delay_ns")[from:to]...)
		return nil
	})
	if err != nil {
		return err
	}
	for _, h := range s.hops {
		s.width = max(s.width, int(h))
	}
	n := int(rows)
	s.byLink, s.byDelay = resize(s.byLink, n*s.width), resize(s.byDelay, n*s.width)
	s.seen, s.want = resize(s.seen, n), resize(s.want, n)
	clear(s.seen)
	clear(s.want)
	for i, row := range s.row {
		f := row - firstRow
		if f < 0 || f >= rows || s.hop[i] < 0 || s.hop[i] >= s.hops[i] {
			return fmt.Errorf("hop_contributions is not sorted by flow, or row %d has hop %d of %d", row, s.hop[i], s.hops[i])
		}
		place := int(f)*s.width + int(s.hop[i])
		s.byLink[place], s.byDelay[place] = s.link[i], s.delay[i]
		s.seen[f]++
		s.want[f] = s.hops[i]
	}
	return nil
}

// estimate writes the slowdowns of one batch of flows. The chunk's first flow is row chunkRow of
// table flows, the batch's first is row at of the chunk.
func (s *Sampler) estimate(rec arrow.Record, chunkRow int64, at int, delayOf func(int, int64) ([]int32, int64, error), out schema.Sink, stats *SampleStats) error {
	n := int(rec.NumRows())
	id, src, dst := columns.Int64s(rec, "flow_id"), columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
	size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
	service, vnet := columns.Named(rec, "service").(*array.String), columns.Named(rec, "vnet").(*array.String)
	var (
		keep               = make([]int, 0, n)
		hops               = make([]int16, 0, n)
		idealNS, fctNS     = make([]int64, 0, n), make([]int64, 0, n)
		slowdown           = make([]float64, 0, n)
		ids, sizes, starts []int64
		flowRow            = make([]int64, 0, n)
		srcs, dsts         []int32
		services, vnets    []string
	)
	for i := range n {
		path, delay, err := delayOf(at+i, size[i])
		if err != nil {
			return fmt.Errorf("flow %d: %w", id[i], err)
		}
		if len(path) == 0 {
			stats.Ablation++
			continue
		}
		s.ideal.Reset(&s.params)
		for _, l := range path {
			link := &s.net.Links[l]
			s.ideal.Add(link.BandwidthBps, link.DelayNS)
		}
		ideal := s.ideal.FCTNS(size[i])
		fct := ideal + delay
		keep, hops = append(keep, i), append(hops, int16(len(path)))
		idealNS, fctNS = append(idealNS, ideal), append(fctNS, fct)
		flowRow = append(flowRow, chunkRow+int64(at+i))
		slowdown = append(slowdown, float64(fct)/float64(ideal))
	}
	stats.Flows += int64(len(keep))
	if len(keep) == 0 {
		return nil
	}
	if len(keep) == n {
		service.Retain()
		vnet.Retain()
		return columns.Write(out, schema.Slowdowns, n, columns.Of(id), columns.Of(flowRow), columns.Of(src), columns.Of(dst), service, vnet,
			columns.Of(size), columns.Of(start), columns.Of(hops), columns.Of(idealNS), columns.Of(fctNS), columns.Of(slowdown))
	}
	for _, i := range keep {
		ids, sizes, starts = append(ids, id[i]), append(sizes, size[i]), append(starts, start[i])
		srcs, dsts = append(srcs, src[i]), append(dsts, dst[i])
		services, vnets = append(services, service.Value(i)), append(vnets, vnet.Value(i))
	}
	return columns.Write(out, schema.Slowdowns, len(keep), columns.Of(ids), columns.Of(flowRow), columns.Of(srcs), columns.Of(dsts), columns.Strings(services), columns.Strings(vnets),
		columns.Of(sizes), columns.Of(starts), columns.Of(hops), columns.Of(idealNS), columns.Of(fctNS), columns.Of(slowdown))
}
