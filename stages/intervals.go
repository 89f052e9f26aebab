package stages

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/rng"
)

const (
	intervalBlocks = 100   // time blocks of the workload
	coarseBlocks   = 25    // of four time blocks each
	bootstraps     = 200   // replicates: the ends of a 95% interval are the 5th from either end
	intervalStep   = 0.002 // relative width of a cell of slowdown: percentiles are accurate to half of it
	intervalLabels = 64    // services with intervals of their own, virtual networks, and pairs; bounds the memory
)

// IntervalQuantiles returns the quantiles that have intervals.
func IntervalQuantiles() []float64 { return []float64{0.5, 0.9, 0.99, 0.999} }

// GroupBy says which label the flows of an interval share.
type GroupBy uint8

// The groups of flows that have intervals.
const (
	ByNothing     GroupBy = iota // all flows, by size bin
	ByService                    // of one service, by size bin
	ByVNet                       // of one virtual network, all sizes
	ByServiceVNet                // of one service in one virtual network, all sizes
)

// Intervals computes confidence intervals of the percentiles of slowdown. They have two parts. The workload's part says
// how much a percentile depends on which flows happened to arrive: the same traffic at another time has other
// percentiles. The method's part (methodError) is the error of the estimate itself; it is known for estimator Flow
// only.
//
// Flows of one burst are slow together, so n flows of a few bursts are less informative than n independent
// flows, and a bootstrap of single flows would be too narrow. This one draws blocks of time (block bootstrap:
// Künsch, Annals of Statistics 17(3), 1989), each with a weight from a Poisson distribution of mean 1.
//
//	slowdowns → counts[time block][cell of slowdown], by group → 200 weighted quantiles → 5th and 196th
//
// A block must be longer than congestion lasts, and there must be many of them. Because it is not known how
// long congestion lasts, two lengths are used and the wider interval is reported.
//
// Memory grows with the number of groups, blocks and cells, not with the number of flows. An Intervals is
// used by one goroutine at a time: Read, then Tails, then Rows.
type Intervals struct {
	firstNS, spanNS int64
	all             *intervalSet
	labels          map[GroupBy]map[flowLabels]*intervalSet
	groups          map[flowLabels][]*intervalSet          // of the flows with these labels, as far as they were needed
	order           []*intervalSet                         // by first flow
	weights         [][]uint8                              // by replicate of both lengths: weight of each time block
	cases           CaseSlowdowns                          // nil: the method's part is not known
	estimates       [sizebin.Count + 1]map[float64]float64 // of all flows, by size bin and quantile
}

// flowLabels are the labels of a flow, or those that the flows of a group share.
type flowLabels struct{ service, vnet string }

// intervalSet has the groups of the flows with the same labels: by size bin, then all sizes.
type intervalSet struct {
	by     GroupBy
	labels flowLabels
	bins   [sizebin.Count + 1]intervalGroup
}

// intervalGroup counts flows by time block and cell of slowdown. accumulate makes the counts cumulative.
type intervalGroup struct {
	flows  int64
	counts [intervalBlocks][]uint32
	cells  int // of the longest of counts; 0: not cumulative yet
}

// NewIntervals returns an Intervals for flows that start from firstNS to lastNS. cases is what other link cases say of
// them; nil for estimator Independent.
func NewIntervals(firstNS, lastNS int64, cases CaseSlowdowns) *Intervals {
	x := &Intervals{
		firstNS: firstNS, spanNS: lastNS - firstNS + 1, cases: cases,
		labels: map[GroupBy]map[flowLabels]*intervalSet{ByService: {}, ByVNet: {}, ByServiceVNet: {}},
		groups: map[flowLabels][]*intervalSet{},
	}
	for i := range x.estimates {
		x.estimates[i] = map[float64]float64{}
	}
	x.all = x.add(ByNothing, flowLabels{})
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

// Read adds rows of table slowdowns, in start order. If there are more services, virtual networks or pairs of them than
// have intervals, the first ones have them. A flow that starts outside the time of NewIntervals is an error.
func (x *Intervals) Read(slowdowns schema.Batches) error {
	return columns.ForEach(slowdowns, func(rec arrow.Record) error {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		size, start := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i, slowdown := range columns.Float64s(rec, "slowdown") {
			if start[i] < x.firstNS || start[i] >= x.firstNS+x.spanNS {
				return fmt.Errorf("slowdowns: a flow starts at %d ns, outside the workload", start[i])
			}
			block := int(float64(start[i]-x.firstNS) / float64(x.spanNS) * intervalBlocks)
			cell := cellOf(slowdown)
			bin := sizebin.Of(size[i])
			for _, set := range x.groupsOf(flowLabels{service.Value(i), vnet.Value(i)}) {
				set.bins[sizebin.Count].count(block, cell)
				if set.by <= ByService {
					set.bins[bin].count(block, cell)
				}
			}
		}
		return nil
	})
}

func (x *Intervals) add(by GroupBy, labels flowLabels) *intervalSet {
	set := &intervalSet{by: by, labels: labels}
	x.order = append(x.order, set)
	return set
}

// groupsOf returns the groups that the flows with these labels belong to. It remembers as many answers as services and
// networks with intervals can form; a trace may have a label of its own for every flow.
func (x *Intervals) groupsOf(of flowLabels) []*intervalSet {
	sets, known := x.groups[of]
	if known {
		return sets
	}
	of = flowLabels{strings.Clone(of.service), strings.Clone(of.vnet)}
	sets = []*intervalSet{x.all}
	for i, labels := range []flowLabels{{service: of.service}, {vnet: of.vnet}, of} {
		if set := x.find(ByService+GroupBy(i), labels); set != nil {
			sets = append(sets, set)
		}
	}
	if len(x.groups) < intervalLabels*intervalLabels {
		x.groups[of] = sets
	}
	return sets
}

// find returns the group of labels; nil if there are too many.
func (x *Intervals) find(by GroupBy, labels flowLabels) *intervalSet {
	sets := x.labels[by]
	set := sets[labels]
	if set == nil && len(sets) < intervalLabels {
		set = x.add(by, labels)
		sets[labels] = set
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

// cellOf returns the cell of a slowdown: cell 0 is exactly 1, and cell k ends at exp(k × intervalStep).
func cellOf(slowdown float64) int {
	if !(slowdown > 1) {
		return 0
	}
	return 1 + int(math.Log(slowdown)/intervalStep)
}

// cellEdge returns the slowdown at a fraction of the cell's width.
func cellEdge(cell int, fraction float64) float64 {
	if cell == 0 {
		return 1
	}
	return math.Exp((float64(cell-1) + fraction) * intervalStep)
}
