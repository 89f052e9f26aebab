package stages

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/simkernel"
)

// SampleStats says what the sampling of one chunk did.
type SampleStats struct {
	Flows   int64 // flows with an estimate
	Without int64 // flows without a path, and so without one
}

// Sampler puts each flow's hops together again. One Sampler serves one goroutine.
type Sampler struct {
	net       *Network
	params    simkernel.Params
	estimator Estimator
	ideal     simkernel.IdealPath

	// contributions as read
	row   []int64
	hop   []int16
	hops  []int16
	link  []int32
	delay []float64
	wait  []float64
	// and laid out by flow: width places a flow, seen of them taken
	byLink  []int32
	byDelay []float64
	byWait  []float64
	seen    []int16
	want    []int16
}

// ContributionColumns names the columns of table hop_contributions that Sample reads: all.
func ContributionColumns() []string {
	return []string{"flow_row", "hop", "hops", "link_id", "delay_ns", "wait_ns"}
}

// NewSampler prepares a sampler for the scenario and an estimator.
func NewSampler(n *Network, p simkernel.Params, e Estimator) *Sampler {
	return &Sampler{net: n, params: p, estimator: e}
}

// Sample reads one chunk of table flows, whose first row is firstRow, and the hop_contributions of
// its flows (in any order; rows of other flows are passed over), and writes table slowdowns, a row
// for every flow that has a path, in the order of the flows. The end-to-end FCT is the ideal FCT on
// the flow's path plus what its hops contribute, combined as the estimator says, in path order, so
// that sums have the same bits whatever the partitions were.
func (s *Sampler) Sample(ctx context.Context, firstRow, rows int64, flows, contributions schema.Batches, out schema.Sink) (SampleStats, error) {
	var stats SampleStats
	width, err := s.layOut(firstRow, rows, contributions)
	if err != nil {
		return stats, err
	}
	at := 0
	err = forEach(flows, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if int64(at)+rec.NumRows() > rows {
			return fmt.Errorf("chunk at row %d has more than the %d flows it was routed with", firstRow, rows)
		}
		err := s.estimate(rec, firstRow, at, width, out, &stats)
		at += int(rec.NumRows())
		return err
	})
	if err == nil && int64(at) != rows {
		err = fmt.Errorf("chunk at row %d has %d flows, it was routed with %d", firstRow, at, rows)
	}
	return stats, err
}

// layOut brings the contributions into a table of rows × width places, one place a hop.
func (s *Sampler) layOut(firstRow, rows int64, in schema.Batches) (width int, err error) {
	s.row, s.hop, s.hops, s.link, s.delay = s.row[:0], s.hop[:0], s.hops[:0], s.link[:0], s.delay[:0]
	s.wait = s.wait[:0]
	err = forEach(in, func(rec arrow.Record) error {
		row := int64s(rec, "flow_row")
		from, to := 0, len(row) // sorted by flow: one stretch is ours
		for from < to && row[from] < firstRow {
			from++
		}
		for to > from && row[to-1] >= firstRow+rows {
			to--
		}
		s.row = append(s.row, row[from:to]...)
		s.hop = append(s.hop, int16s(rec, "hop")[from:to]...)
		s.hops = append(s.hops, int16s(rec, "hops")[from:to]...)
		s.link = append(s.link, int32s(rec, "link_id")[from:to]...)
		s.delay = append(s.delay, float64s(rec, "delay_ns")[from:to]...)
		s.wait = append(s.wait, float64s(rec, "wait_ns")[from:to]...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, h := range s.hops {
		width = max(width, int(h))
	}
	n := int(rows)
	s.byLink, s.byDelay = resize(s.byLink, n*width), resize(s.byDelay, n*width)
	s.byWait = resize(s.byWait, n*width)
	s.seen, s.want = resize(s.seen, n), resize(s.want, n)
	clear(s.seen)
	clear(s.want)
	for i, row := range s.row {
		f := row - firstRow
		if f < 0 || f >= rows || s.hop[i] < 0 || s.hop[i] >= s.hops[i] {
			return 0, fmt.Errorf("hop_contributions is not sorted by flow, or row %d has hop %d of %d", row, s.hop[i], s.hops[i])
		}
		place := int(f)*width + int(s.hop[i])
		s.byLink[place], s.byDelay[place], s.byWait[place] = s.link[i], s.delay[i], s.wait[i]
		s.seen[f]++
		s.want[f] = s.hops[i]
	}
	return width, nil
}

// estimate writes the slowdowns of one batch of flows. The chunk's first flow is row chunkRow of
// table flows, the batch's first is row at of the chunk.
func (s *Sampler) estimate(rec arrow.Record, chunkRow int64, at, width int, out schema.Sink, stats *SampleStats) error {
	n := int(rec.NumRows())
	id, src, dst := int64s(rec, "flow_id"), int32s(rec, "src"), int32s(rec, "dst")
	size, start := int64s(rec, "size_bytes"), int64s(rec, "start_ns")
	service, vnet := named(rec, "service").(*array.String), named(rec, "vnet").(*array.String)
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
		want := s.want[at+i]
		if s.seen[at+i] != want {
			return fmt.Errorf("flow %d has %d of its %d hops in hop_contributions", id[i], s.seen[at+i], want)
		}
		if want == 0 {
			stats.Without++
			continue
		}
		s.ideal.Reset(&s.params)
		place := (at + i) * width
		for h := range int(want) {
			link := &s.net.Links[s.byLink[place+h]]
			s.ideal.Add(link.BandwidthBps, link.DelayNS)
		}
		delay := s.estimator.combine(s.byDelay[place:place+int(want)], s.byWait[place:place+int(want)])
		ideal := s.ideal.FCTNS(size[i])
		fct := ideal + int64(math.Round(delay))
		keep, hops = append(keep, i), append(hops, want)
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
		return writeColumns(out, schema.Slowdowns, n, column(id), column(flowRow), column(src), column(dst), service, vnet,
			column(size), column(start), column(hops), column(idealNS), column(fctNS), column(slowdown))
	}
	for _, i := range keep {
		ids, sizes, starts = append(ids, id[i]), append(sizes, size[i]), append(starts, start[i])
		srcs, dsts = append(srcs, src[i]), append(dsts, dst[i])
		services, vnets = append(services, service.Value(i)), append(vnets, vnet.Value(i))
	}
	return writeColumns(out, schema.Slowdowns, len(keep), column(ids), column(flowRow), column(srcs), column(dsts), stringColumn(services), stringColumn(vnets),
		column(sizes), column(starts), column(hops), column(idealNS), column(fctNS), column(slowdown))
}
