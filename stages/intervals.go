package stages

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/rng"
)

// Confidence intervals of the percentiles of slowdown say how much of a percentile is owed to the flows
// that happened to come: the same traffic, at another time, would give another percentile. They say
// nothing of the method's own bias (table warnings does, and validate measures it).
//
// Flows of the same burst are slow together, so they cannot be drawn one by one: n flows of a few bursts
// know less than n independent flows. The bootstrap draws stretches of time instead (block bootstrap:
// Künsch, Annals of Statistics 17(3), 1989), each with a weight from a Poisson distribution of mean 1. A
// stretch must be longer than congestion lasts, and there must be many of them; how long it lasts is not
// known, so that two lengths are tried and the wider interval counts.

const (
	intervalBlocks = 100   // stretches of the trace
	coarseBlocks   = 25    // the longer ones: four of them each
	bootstraps     = 200   // enough for the ends of a 95% interval, the 5th from either end
	intervalStep   = 0.002 // relative width of a cell of slowdown: percentiles are known to half of it
	intervalLabels = 64    // services with intervals of their own, and virtual networks: bounds the memory

	// A percentile is called badly known with fewer flows beyond it, or a wider interval relative to it:
	// with a hundred flows beyond, their number alone scatters by 10%.
	fewBeyond    = 100
	wideInterval = 0.2
)

// IntervalQuantiles are the quantiles that have intervals.
func IntervalQuantiles() []float64 { return []float64{0.5, 0.9, 0.99, 0.999} }

// An Interval is one row of table confidence.
type Interval struct {
	By       GroupBy
	Label    string // the service or virtual network
	SizeBin  string
	Flows    int64
	Quantile float64
	Estimate float64
	Lo, Hi   float64 // 95%
	Warning  string  // why the trace is too short for it; empty if it is not
}

// GroupBy says by what label the flows of an interval were taken together.
type GroupBy uint8

// The groups of flows that have intervals.
const (
	ByNothing GroupBy = iota // all flows
	ByService                // of one service
	ByVNet                   // of one virtual network, all sizes
)

// Intervals gathers the slowdowns of a scenario. It serves one goroutine; its memory does not grow with
// the number of flows, but with the number of stretches, labels and cells of slowdown.
type Intervals struct {
	firstNS, spanNS int64
	all             *intervalSet
	labels          map[GroupBy]map[string]*intervalSet
	order           []*intervalSet // by first flow
	weights         [][]uint8      // by replicate of both lengths: of each stretch
}

// An intervalSet is the groups of one label: by size bin, then all sizes.
type intervalSet struct {
	by    GroupBy
	label string
	bins  []intervalGroup
}

// An intervalGroup counts flows by stretch of time and cell of slowdown; sum makes them cumulative.
type intervalGroup struct {
	flows  int64
	counts [intervalBlocks][]uint32
	cells  int
}

// NewIntervals prepares for flows that start from firstNS to lastNS.
func NewIntervals(firstNS, lastNS int64) *Intervals {
	x := &Intervals{firstNS: firstNS, spanNS: lastNS - firstNS + 1, labels: map[GroupBy]map[string]*intervalSet{ByService: {}, ByVNet: {}}}
	x.all = x.add(ByNothing, "")
	for _, blocks := range []int{intervalBlocks, coarseBlocks} {
		for rep := range bootstraps {
			w := make([]uint8, intervalBlocks)
			for b := range w {
				s := rng.New(uint64(blocks), rng.Bootstrap, uint64(rep), uint64(b*blocks/intervalBlocks))
				w[b] = PoissonOne(s.Uint64())
			}
			x.weights = append(x.weights, w)
		}
	}
	return x
}

// IntervalColumns names the columns of table slowdowns that Read reads.
func IntervalColumns() []string {
	return []string{"service", "vnet", "size_bytes", "start_ns", "slowdown"}
}

// Read takes flows, in start order: the first labels to come have intervals, if there are too many.
func (x *Intervals) Read(slowdowns schema.Batches) error {
	return columns.ForEach(slowdowns, func(rec arrow.Record) error {
		service, vnet := columns.Named(rec, "service").(*array.String), columns.Named(rec, "vnet").(*array.String)
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i, slowdown := range columns.Float64s(rec, "slowdown") {
			if start[i] < x.firstNS || start[i] >= x.firstNS+x.spanNS {
				return fmt.Errorf("slowdowns: a flow starts at %d ns, outside the workload", start[i])
			}
			block := int(float64(start[i]-x.firstNS) / float64(x.spanNS) * intervalBlocks)
			cell := cellOf(slowdown)
			bin := sizebin.Of(size[i])
			for _, set := range []*intervalSet{x.all, x.find(ByService, service.Value(i)), x.find(ByVNet, vnet.Value(i))} {
				if set == nil {
					continue
				}
				set.bins[sizebin.Count].count(block, cell)
				if set.by != ByVNet {
					set.bins[bin].count(block, cell)
				}
			}
		}
		return nil
	})
}

func (x *Intervals) add(by GroupBy, label string) *intervalSet {
	set := &intervalSet{by, label, make([]intervalGroup, sizebin.Count+1)}
	x.order = append(x.order, set)
	return set
}

// find is the label's groups; nil if there are too many labels.
func (x *Intervals) find(by GroupBy, label string) *intervalSet {
	sets := x.labels[by]
	set := sets[label]
	if set == nil && len(sets) < intervalLabels {
		set = x.add(by, strings.Clone(label))
		sets[set.label] = set
	}
	return set
}

func (g *intervalGroup) count(block, cell int) {
	c := g.counts[block]
	if cell >= len(c) {
		c = append(c, make([]uint32, cell+1-len(c))...)
		g.counts[block] = c
	}
	c[cell]++
	g.flows++
}

// cellOf is the cell of a slowdown: 0 is exactly 1, and cell k ends at exp(k × intervalStep).
func cellOf(slowdown float64) int {
	if !(slowdown > 1) {
		return 0
	}
	return 1 + int(math.Log(slowdown)/intervalStep)
}

// cellEdge is the slowdown at a share of the cell's width.
func cellEdge(cell int, share float64) float64 {
	if cell == 0 {
		return 1
	}
	return math.Exp((float64(cell-1) + share) * intervalStep)
}

// Rows answers the intervals of the groups that have flows: those of all flows, then by label in the
// order in which the labels came. It ends the reading.
func (x *Intervals) Rows() []Interval {
	var out []Interval
	bins := append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All})
	for _, set := range x.order {
		for b := range set.bins {
			g := &set.bins[b]
			if g.flows == 0 {
				continue
			}
			g.sum()
			for _, q := range IntervalQuantiles() {
				row := Interval{By: set.by, Label: set.label, SizeBin: bins[b].Name, Flows: g.flows, Quantile: q}
				x.interval(g, &row)
				out = append(out, row)
			}
		}
	}
	return out
}

// sum turns counts into the number of flows up to each cell.
func (g *intervalGroup) sum() {
	for b := range g.counts {
		for c := 1; c < len(g.counts[b]); c++ {
			g.counts[b][c] += g.counts[b][c-1]
		}
		g.cells = max(g.cells, len(g.counts[b]))
	}
}

// upTo is the weight of the flows up to a cell.
func (g *intervalGroup) upTo(cell int, weights []uint8) (sum int64) {
	for b, c := range g.counts {
		if len(c) > 0 && weights[b] > 0 {
			sum += int64(weights[b]) * int64(c[min(cell, len(c)-1)])
		}
	}
	return sum
}

// quantile is the cell that a quantile of the weighted flows is in; ok is false if they weigh nothing.
func (g *intervalGroup) quantile(p float64, weights []uint8) (cell int, ok bool) {
	total := g.upTo(g.cells, weights)
	want := int64(math.Ceil(p * float64(total)))
	return sort.Search(g.cells-1, func(c int) bool { return g.upTo(c, weights) >= want }), total > 0
}

func (x *Intervals) interval(g *intervalGroup, row *Interval) {
	even := slices.Repeat([]uint8{1}, intervalBlocks)
	at, _ := g.quantile(row.Quantile, even)
	lo, hi := at, at
	for from := 0; from < len(x.weights); from += bootstraps {
		var cells []int
		for _, w := range x.weights[from : from+bootstraps] {
			if cell, ok := g.quantile(row.Quantile, w); ok {
				cells = append(cells, cell)
			}
		}
		slices.Sort(cells)
		out := len(cells) * 25 / 1000 // of each end
		lo, hi = min(lo, cells[out]), max(hi, cells[len(cells)-1-out])
	}
	row.Estimate, row.Lo, row.Hi = cellEdge(at, 0.5), cellEdge(lo, 0), cellEdge(hi, 1)
	row.Warning = badlyKnown(row)
}

// badlyKnown says in what way the trace is too short for a percentile; nothing if it is not.
func badlyKnown(row *Interval) string {
	name := fmt.Sprintf("p%g", math.Round(row.Quantile*100_000)/1000)
	if beyond := math.Round(float64(row.Flows)*(1-row.Quantile)*1000) / 1000; beyond < fewBeyond {
		return fmt.Sprintf("%s: only %d flows beyond it", name, int64(beyond))
	}
	if wide := (row.Hi - row.Lo) / row.Estimate; wide > wideInterval {
		return fmt.Sprintf("%s: its interval is %.0f%% wide", name, 100*wide)
	}
	return ""
}

// IntervalsRecord is the rows as a batch of table confidence, which the caller releases.
func IntervalsRecord(rows []Interval) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Intervals.Arrow())
	defer b.Release()
	label := func(field int, value string, set bool) {
		if set {
			b.Field(field).(*array.StringBuilder).Append(value)
		} else {
			b.Field(field).AppendNull()
		}
	}
	for _, r := range rows {
		label(0, r.Label, r.By == ByService)
		label(1, r.Label, r.By == ByVNet)
		label(2, r.SizeBin, true)
		b.Field(3).(*array.Float64Builder).Append(r.Quantile)
		b.Field(4).(*array.Int64Builder).Append(r.Flows)
		for i, v := range []float64{r.Estimate, r.Lo, r.Hi} {
			b.Field(5 + i).(*array.Float64Builder).Append(v)
		}
		label(8, r.Warning, true)
	}
	return b.NewRecord()
}
