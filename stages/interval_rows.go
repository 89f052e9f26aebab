package stages

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/sizebin"
)

// A percentile gets a warning if fewer flows are beyond it, or if its interval is wider relative to it. With
// a hundred flows beyond, their number alone varies by 10%.
const (
	fewBeyond    = 100
	wideInterval = 0.2
)

// Interval is one row of table intervals.
type Interval struct {
	By       GroupBy
	Label    string // the service or virtual network
	SizeBin  string
	Flows    int64
	Quantile float64
	Estimate float64
	Lo, Hi   float64 // 95%
	Warning  string  // why the workload is too short for this percentile; empty if it is not
}

// Rows returns the intervals of the groups that have flows: those of all flows, then those of the labels, in
// the order in which the labels first came. Read must not be called afterwards.
func (x *Intervals) Rows() []Interval {
	var out []Interval
	bins := append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All})
	for _, set := range x.order {
		for b := range set.bins {
			g := &set.bins[b]
			if g.flows == 0 {
				continue
			}
			g.accumulate()
			for _, q := range IntervalQuantiles() {
				row := Interval{By: set.by, Label: set.label, SizeBin: bins[b].Name, Flows: g.flows, Quantile: q}
				x.interval(g, &row)
				out = append(out, row)
			}
		}
	}
	return out
}

// interval sets the estimate, the interval and the warning of a row.
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
		outside := len(cells) * 25 / 1000 // at either end
		lo, hi = min(lo, cells[outside]), max(hi, cells[len(cells)-1-outside])
	}
	row.Estimate, row.Lo, row.Hi = cellEdge(at, 0.5), cellEdge(lo, 0), cellEdge(hi, 1)
	row.Warning = intervalWarning(row)
}

// accumulate turns counts into the number of flows up to and including each cell.
func (g *intervalGroup) accumulate() {
	for b := range g.counts {
		for c := 1; c < len(g.counts[b]); c++ {
			g.counts[b][c] += g.counts[b][c-1]
		}
		g.cells = max(g.cells, len(g.counts[b]))
	}
}

// upTo returns the weight of the flows up to and including a cell.
func (g *intervalGroup) upTo(cell int, weights []uint8) (sum int64) {
	for b, c := range g.counts {
		if len(c) > 0 && weights[b] > 0 {
			sum += int64(weights[b]) * int64(c[min(cell, len(c)-1)])
		}
	}
	return sum
}

// quantile returns the cell of a quantile of the weighted flows; ok is false if their weight is 0.
func (g *intervalGroup) quantile(p float64, weights []uint8) (cell int, ok bool) {
	total := g.upTo(g.cells, weights)
	want := int64(math.Ceil(p * float64(total)))
	return sort.Search(g.cells-1, func(c int) bool { return g.upTo(c, weights) >= want }), total > 0
}

// intervalWarning says why the workload is too short for a percentile; "" if it is not.
func intervalWarning(row *Interval) string {
	name := fmt.Sprintf("p%g", math.Round(row.Quantile*100_000)/1000)
	if beyond := math.Round(float64(row.Flows)*(1-row.Quantile)*1000) / 1000; beyond < fewBeyond {
		return fmt.Sprintf("%s: only %d flows beyond it (%.0f flows needed)", name, int64(beyond),
			math.Round(fewBeyond/(1-row.Quantile)))
	}
	if wide := (row.Hi - row.Lo) / row.Estimate; wide > wideInterval {
		return fmt.Sprintf("%s: its interval is %.0f%% wide", name, 100*wide)
	}
	return ""
}

// IntervalsRecord returns the rows as a batch of table intervals, which the caller releases.
func IntervalsRecord(rows []Interval) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Intervals.Arrow())
	defer b.Release()
	field := func(name string) array.Builder { return b.Field(schema.Intervals.Index(name)) }
	text := func(name, value string, set bool) {
		if set {
			field(name).(*array.StringBuilder).Append(value)
		} else {
			field(name).AppendNull()
		}
	}
	number := func(name string, value float64) { field(name).(*array.Float64Builder).Append(value) }
	for _, r := range rows {
		text("service", r.Label, r.By == ByService)
		text("vnet", r.Label, r.By == ByVNet)
		text("size_bin", r.SizeBin, true)
		number("quantile", r.Quantile)
		field("flows").(*array.Int64Builder).Append(r.Flows)
		number("estimate", r.Estimate)
		number("lo", r.Lo)
		number("hi", r.Hi)
		text("warning", r.Warning, true)
	}
	return b.NewRecord()
}
