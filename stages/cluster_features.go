package stages

import (
	"context"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// LinkFeatures are the features by which links are clustered. Values is nil for a link without flows.
type LinkFeatures struct {
	Class  int64 // links of different classes are never in one cluster
	Load   float64
	Values []float32
}

const featureQuantiles = 1000 // the paper's

// The features for a stated error are logarithms of expected slowdowns (contention), so that differences are
// relative errors: for each size bin these quantiles.
var expectedQuantiles = [...]float64{0.5, 0.9, 0.99}

// FeatureColumns names the columns of table hops that Features reads.
func FeatureColumns() []string {
	return []string{"link_id", "first_link", "size_bytes", "start_ns", "path_delay_ns"}
}

// Features computes the features of the links in [lo, hi) and stores them in features, by link id. It reads
// the links' rows of table hops; those of a link must come in start order.
func (c *Clustering) Features(ctx context.Context, n *topology.Network, p *simkernel.Params, loads *Loads,
	lo, hi int32, hops schema.Batches, features []LinkFeatures) error {
	flows := make([][]featureFlow, hi-lo)
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		link, first := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "first_link")
		size, start, delay := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"),
			columns.Int64s(rec, "path_delay_ns")
		for i, id := range link {
			if id >= lo && id < hi {
				flows[id-lo] = append(flows[id-lo], featureFlow{size[i], start[i], delay[i], first[i]})
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	var x featureBuilder
	sourceBps := loads.sources(n, p)
	for id := lo; id < hi; id++ {
		f, of := &features[id], flows[id-lo]
		if len(of) == 0 {
			continue
		}
		link := n.Links[id]
		f.Load, f.Class = loads.Load(link), 2*link.BandwidthBps
		if of[0].firstLink == id {
			f.Class++
		}
		if c.Error == 0 {
			f.Values = x.quantiles(of)
			continue
		}
		x.contention.reset(p, loads.AvailableBps(p, link))
		for i := range of {
			x.contention.add(of[i].size, of[i].start, sourceBps(of[i].firstLink))
		}
		f.Values = x.expected(of)
	}
	return nil
}

// featureFlow is a flow of a link.
type featureFlow struct {
	size, start, pathDelay int64
	firstLink              int32
}

// featureBuilder is reusable memory.
type featureBuilder struct {
	values     []float64
	contention contention
	byBin      [sizebin.Count][]float64
}

// quantiles returns the paper's features: the flows' sizes and inter-arrival times at 1,000 quantiles each.
func (x *featureBuilder) quantiles(flows []featureFlow) []float32 {
	out := make([]float32, 0, 2*featureQuantiles)
	for _, column := range []func(i int) float64{
		func(i int) float64 { return float64(flows[i].size) },
		func(i int) float64 { return float64(flows[i].start - flows[max(0, i-1)].start) },
	} {
		x.values = x.values[:0]
		for i := range flows {
			x.values = append(x.values, column(i))
		}
		slices.Sort(x.values)
		for q := range featureQuantiles {
			out = append(out, float32(quantileSorted(x.values, float64(q)/(featureQuantiles-1))))
		}
	}
	return out
}

// quantileSorted returns a quantile of sorted values, interpolated linearly.
func quantileSorted(values []float64, p float64) float64 {
	at := p * float64(len(values)-1)
	lo := int(at)
	hi := min(lo+1, len(values)-1)
	return values[lo] + (at-float64(lo))*(values[hi]-values[lo])
}

// expected returns the features of a link whose flows have been added to x.contention.
func (x *featureBuilder) expected(flows []featureFlow) []float32 {
	for bin := range x.byBin {
		x.byBin[bin] = x.byBin[bin][:0]
	}
	for i, f := range x.contention.done() {
		bin := sizebin.Of(flows[i].size)
		x.byBin[bin] = append(x.byBin[bin], math.Log(f.expectedSlowdown(&x.contention, flows[i].pathDelay)))
	}
	out := make([]float32, 0, len(x.byBin)*len(expectedQuantiles))
	for _, values := range x.byBin {
		slices.Sort(values)
		for _, q := range expectedQuantiles {
			// A quantile with few flows beyond it is random, on this link as on others. It gets a
			// proportionally lower weight.
			weight := math.Min(1, float64(len(values))*(1-q)/10)
			v := 0.0
			if weight > 0 {
				v = quantileSorted(values, q) * weight
			}
			out = append(out, float32(v))
		}
	}
	return out
}

// distance returns how different two links are, relative to what the clustering accepts: links of a cluster
// are at a distance below 1 from the representative a.
func (c *Clustering) distance(a, b *LinkFeatures) float64 {
	if c.Error > 0 {
		worst := 0.0
		for i, v := range a.Values {
			worst = max(worst, math.Abs(float64(v-b.Values[i])))
		}
		return worst / math.Log1p(c.Error)
	}
	d := 0.0
	for at := 0; at < len(a.Values); at += featureQuantiles {
		var difference, sum float64
		for i := at; i < at+featureQuantiles; i++ {
			difference += math.Abs(float64(a.Values[i] - b.Values[i]))
			sum += float64(a.Values[i])
		}
		if difference > 0 {
			d = max(d, difference/sum/c.QuantileError)
		}
	}
	loads := math.Abs(a.Load - b.Load)
	if c.LoadAbsolute > 0 {
		return max(d, loads/c.LoadAbsolute)
	}
	return max(d, loads/a.Load/c.LoadRelative)
}

// sortKey returns the number by which links are sorted to find similar ones: the load, or, for a stated
// error, the feature of the largest variance. window bounds its difference within a cluster.
func (c *Clustering) sortKey(features []LinkFeatures) func(f *LinkFeatures) float64 {
	if c.Error == 0 {
		return func(f *LinkFeatures) float64 { return f.Load }
	}
	var sums, squares []float64
	n := 0.0
	for i := range features {
		for k, v := range features[i].Values {
			if k == len(sums) {
				sums, squares = append(sums, 0), append(squares, 0)
			}
			sums[k] += float64(v)
			squares[k] += float64(v) * float64(v)
		}
		if features[i].Values != nil {
			n++
		}
	}
	widest, most := 0, -1.0
	for k := range sums {
		if variance := squares[k] - sums[k]*sums[k]/n; variance > most {
			widest, most = k, variance
		}
	}
	return func(f *LinkFeatures) float64 { return float64(f.Values[widest]) }
}

func (c *Clustering) window(f *LinkFeatures) float64 {
	switch {
	case c.Error > 0:
		return math.Log1p(c.Error)
	case c.LoadAbsolute > 0:
		return c.LoadAbsolute
	}
	return c.LoadRelative * f.Load
}
