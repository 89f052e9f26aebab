package stages

import (
	"context"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// SampleStats counts what the sampling of one chunk did.
type SampleStats struct {
	Flows       int64 `json:"flows"` // with an estimate
	LastEndNS   int64 `json:"last_end_ns"`
	Unreachable int64 `json:"unreachable"` // without a path, and so without an estimate
	// Flows by the cell of their slowdown according to the link case where they wait longest; nil for Independent.
	Cases CaseSlowdowns `json:"cases,omitempty"`
}

// Sampler computes the FCT and the slowdown of each flow from its hops. It reuses its memory and is used by
// one goroutine at a time.
type Sampler struct {
	net    *topology.Network
	params simkernel.Params
	ideal  simkernel.IdealPath

	hops    contributionIndex // for Independent
	replay  replayIndex       // for Flow
	exact   exactIndex        // for WholeNetwork
	rows    []SlowdownRow     // of the current batch
	path    []int32           // of the current flow
	caseNS  int64             // its delay by the link case where it waits longest; -1: not known
	startNS int64             // its start
	window  int64             // the part of its delay that is the window's, in ns
	faster  movedFlow         // of WholeNetwork
}

// ContributionColumns names the columns of table hop_contributions that Sample reads.
func ContributionColumns() []string { return columns.Names[contributions]() }

// contributions is a view of table hop_contributions.
type contributions struct {
	FlowRow []int64   `col:"flow_row"`
	Hop     []int16   `col:"hop"`
	Hops    []int16   `col:"hops"`
	Link    []int32   `col:"link_id"`
	Delay   []float64 `col:"delay_ns"`
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
func (s *Sampler) Sample(ctx context.Context, firstRow, rows int64, flows, contributions schema.Batches,
	out schema.Sink) (SampleStats, error) {
	if err := s.hops.read(firstRow, rows, contributions); err != nil {
		return SampleStats{}, err
	}
	s.caseNS = -1
	return s.each(ctx, firstRow, rows, flows, out, func(f int, sizeBytes int64) ([]int32, int64, error) {
		links, delays, err := s.hops.of(f)
		var sum float64
		for _, d := range delays {
			sum += d
		}
		delay := int64(math.Round(sum))
		s.window = min(s.windowNS(links, sizeBytes), delay)
		return links, delay, err
	})
}

// delayFunc returns the path of flow f of a chunk and its delay, the FCT less the ideal FCT. An empty path
// means that the flow has no estimate.
type delayFunc func(f int, sizeBytes int64) (path []int32, delayNS int64, err error)

// each writes the slowdowns of a chunk of flows.
func (s *Sampler) each(ctx context.Context, firstRow, rows int64, flows schema.Batches, out schema.Sink,
	delayOf delayFunc) (SampleStats, error) {
	var stats SampleStats
	at := 0
	err := columns.ForEach(flows, func(rec arrow.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if int64(at)+rec.NumRows() > rows {
			return fmt.Errorf("flows: the chunk at row %d has more flows than the %d that were routed", firstRow, rows)
		}
		err := s.estimate(rec, firstRow, at, delayOf, out, &stats)
		at += int(rec.NumRows())
		return err
	})
	if err == nil && int64(at) != rows {
		err = fmt.Errorf("flows: the chunk at row %d has %d flows, %d were routed", firstRow, at, rows)
	}
	return stats, err
}

// estimate writes the slowdowns of one batch of flows. The chunk begins at row chunkRow of table flows, the
// batch at row at of the chunk.
func (s *Sampler) estimate(rec arrow.Record, chunkRow int64, at int, delayOf delayFunc, out schema.Sink,
	stats *SampleStats) error {
	var v sampledFlows
	columns.ViewOf(rec, &v)
	s.rows = s.rows[:0]
	for i, id := range v.ID {
		s.startNS = v.Start[i]
		path, delayNS, err := delayOf(at+i, v.Size[i])
		if err != nil {
			return fmt.Errorf("flow %d: %w", id, err)
		}
		if len(path) == 0 {
			if !ComputeStep(v.Src[i], v.Dst[i], v.Size[i]) {
				stats.Unreachable++
			}
			continue
		}
		ideal := s.idealNS(path, v.Size[i]) - s.faster.idealNS
		fct := ideal + delayNS
		s.rows = append(s.rows, SlowdownRow{id, chunkRow + int64(at+i), v.Src[i], v.Dst[i], v.Service.Value(i),
			v.VNet.Value(i), v.Size[i], s.startNS, int16(len(path)), ideal, fct, s.window, float64(fct) / float64(ideal),
			s.faster.again, s.faster.reordered})
		stats.LastEndNS = max(stats.LastEndNS, s.startNS+fct)
		if s.caseNS >= 0 {
			stats.Cases.count(v.Size[i], float64(ideal+s.caseNS)/float64(ideal))
		}
	}
	stats.Flows += int64(len(s.rows))
	return SlowdownTable.Write(out, s.rows)
}

// sampledFlows is a view of table flows.
type sampledFlows struct {
	ID      []int64       `col:"flow_id"`
	Src     []int32       `col:"src"`
	Dst     []int32       `col:"dst"`
	Size    []int64       `col:"size_bytes"`
	Start   []int64       `col:"start_ns"`
	Service *array.String `col:"service"`
	VNet    *array.String `col:"vnet"`
}

// alone makes s.ideal the path.
func (s *Sampler) alone(path []int32) {
	s.ideal.Reset(&s.params)
	for _, l := range path {
		link := &s.net.Links[l]
		s.ideal.Add(link.BandwidthBps, link.DelayNS)
	}
}

// idealNS returns the ideal FCT of a flow on a path.
func (s *Sampler) idealNS(path []int32, sizeBytes int64) int64 {
	s.alone(path)
	return s.ideal.FCTNS(sizeBytes)
}

// windowNS returns by how much a window that is smaller than the path needs delays a flow that is alone there.
func (s *Sampler) windowNS(path []int32, sizeBytes int64) int64 {
	s.alone(path)
	return s.params.WindowDelayNS(s.ideal.Path(), sizeBytes)
}

// contributionIndex holds the contributions of a chunk's hops by flow and hop: width places for each flow.
type contributionIndex struct {
	width int
	link  []int32
	delay []float64 // ns
	found []int16   // by flow: rows
	want  []int16   // by flow: length of its path

	rows []contributionRow // as read
}

// read reads the chunk's rows of table hop_contributions.
func (x *contributionIndex) read(firstRow, rows int64, in schema.Batches) error {
	x.rows, x.width = x.rows[:0], 0
	err := columns.Each(in, func(v *contributions) error {
		for i, row := range v.FlowRow {
			if row >= firstRow && row < firstRow+rows {
				x.rows = append(x.rows, contributionRow{row, v.Hop[i], v.Hops[i], v.Link[i], v.Delay[i], 0})
				x.width = max(x.width, int(v.Hops[i]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	n := int(rows)
	x.link, x.delay = resize(x.link, n*x.width), resize(x.delay, n*x.width)
	x.found, x.want = resize(x.found, n), resize(x.want, n)
	clear(x.found)
	clear(x.want)
	for _, r := range x.rows {
		if r.Hop < 0 || r.Hop >= r.Hops {
			return fmt.Errorf("hop_contributions: flow row %d has hop %d of %d", r.FlowRow, r.Hop, r.Hops)
		}
		f := r.FlowRow - firstRow
		place := int(f)*x.width + int(r.Hop)
		x.link[place], x.delay[place] = r.LinkID, r.DelayNS
		x.found[f]++
		x.want[f] = r.Hops
	}
	return nil
}

// of returns the path of a flow and what its hops contribute.
func (x *contributionIndex) of(f int) (links []int32, delayNS []float64, err error) {
	if x.found[f] != x.want[f] {
		return nil, nil, fmt.Errorf("hop_contributions has %d of its %d hops", x.found[f], x.want[f])
	}
	from := f * x.width
	to := from + int(x.want[f])
	return x.link[from:to], x.delay[from:to], nil
}
