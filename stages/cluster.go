package stages

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Clustering says which links are alike, so that one link case answers for all of them (paper, §3.5 and
// appendix): links of the same bandwidth, all hosts' own or none, that are less apart than allowed.
type Clustering struct {
	name string
	// Error is how far apart the slowdowns may be that a link's flows are expected to see there, at any
	// quantile that is looked at, of any size: relative. Above 0, or the thresholds below count.
	Error float64
	// The paper's features: sizes and inter-arrivals at 1,000 quantiles, whose weighted mean absolute
	// percentage error (the representative's in the denominator) must be below QuantileError, and
	// the load, whose relative or absolute difference must be below one of the other two.
	QuantileError, LoadRelative, LoadAbsolute float64
}

// DefaultClusteringError is what --cluster means without a value.
const DefaultClusteringError = "10%"

// ParseClustering reads "paper" or "code", the thresholds of the paper and of its public code, or the
// error that is accepted, 5% or 0.05.
func ParseClustering(text string) (*Clustering, error) {
	switch text {
	case "paper":
		return &Clustering{name: text, QuantileError: 0.1, LoadRelative: 0.002}, nil
	case "code":
		return &Clustering{name: text, QuantileError: 0.1, LoadAbsolute: 0.005}, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x > 0 && x <= 10) {
		return nil, fmt.Errorf("clustering %q: must be paper, code, or an error above 0 such as 5%%", text)
	}
	return &Clustering{name: strconv.FormatFloat(x, 'g', -1, 64), Error: x}, nil
}

// String is the inverse of ParseClustering.
func (c *Clustering) String() string { return c.name }

// LinkFeatures are what a link's clustering looks at; nil Values for a link without flows.
type LinkFeatures struct {
	Class  int64 // links of different classes are never alike
	Load   float64
	Values []float32
}

// featureQuantiles is the paper's number of quantiles.
const featureQuantiles = 1000

// FeatureColumns names the columns of table hops that Features reads.
func FeatureColumns() []string {
	return []string{"link_id", "first_link", "size_bytes", "start_ns", "path_delay_ns"}
}

// Features works out the features of the links in [lo, hi), into features, by link id. It reads their
// rows of table hops, each link's in start order.
func (c *Clustering) Features(ctx context.Context, n *topology.Network, p *simkernel.Params, loads *Loads, lo, hi int32, hops schema.Batches, features []LinkFeatures) error {
	var x featureMaker
	flows := make([][]featureFlow, hi-lo)
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		link, first := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "first_link")
		size, start, delay := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"), columns.Int64s(rec, "path_delay_ns")
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
	source := loads.sources(n, p)
	for id := lo; id < hi; id++ {
		f, of := &features[id], flows[id-lo]
		if len(of) == 0 {
			continue
		}
		link := n.Links[id]
		f.Load, f.Class = loads.Load(link), 2*link.BandwidthBps
		if of[0].first == id {
			f.Class++
		}
		if c.Error == 0 {
			f.Values = x.paper(of)
			continue
		}
		x.contention.reset(p, loads.AvailableBps(p, link))
		for i := range of {
			x.contention.add(of[i].size, of[i].start, source(of[i].first))
		}
		f.Values = x.expected(of)
	}
	return nil
}

// A featureFlow is a flow of a link.
type featureFlow struct {
	size, start, delay int64
	first              int32 // its host's own link
}

type featureMaker struct {
	values     []float64
	contention contention
	by         [sizebin.Count][]float64
}

// paper is the sizes and the inter-arrivals at 1,000 quantiles each.
func (x *featureMaker) paper(flows []featureFlow) []float32 {
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

func quantileSorted(values []float64, p float64) float64 {
	at := p * float64(len(values)-1)
	lo := int(at)
	hi := min(lo+1, len(values)-1)
	return values[lo] + (at-float64(lo))*(values[hi]-values[lo])
}

// The features for a stated error are the logarithms of the slowdowns that flows can be expected to see
// at the link from the company they keep there (crowd), in the unit in which an error is stated: the
// quantiles that matter, by the flow's size.
var expectedQuantiles = [...]float64{0.5, 0.9, 0.99}

// expected is the features of a link whose flows x.crowd has been given.
func (x *featureMaker) expected(flows []featureFlow) []float32 {
	for c := range x.by {
		x.by[c] = x.by[c][:0]
	}
	for i, f := range x.contention.done() {
		c := sizebin.Of(flows[i].size)
		x.by[c] = append(x.by[c], math.Log(f.expected(&x.contention, flows[i].delay)))
	}
	out := make([]float32, 0, len(x.by)*len(expectedQuantiles))
	for _, values := range x.by {
		slices.Sort(values)
		for _, q := range expectedQuantiles {
			// A quantile that few flows are beyond is chance, of this link and of others: it counts as
			// much as it is known.
			known := math.Min(1, float64(len(values))*(1-q)/10)
			v := 0.0
			if known > 0 {
				v = quantileSorted(values, q) * known
			}
			out = append(out, float32(v))
		}
	}
	return out
}

// distance is how far apart two links are: below 1 they may be one cluster. a is the representative.
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
		var apart, whole float64
		for i := at; i < at+featureQuantiles; i++ {
			apart += math.Abs(float64(a.Values[i] - b.Values[i]))
			whole += float64(a.Values[i])
		}
		if apart > 0 {
			d = max(d, apart/whole/c.QuantileError)
		}
	}
	loads := math.Abs(a.Load - b.Load)
	if c.LoadAbsolute > 0 {
		return max(d, loads/c.LoadAbsolute)
	}
	return max(d, loads/a.Load/c.LoadRelative)
}

// sortKey is what links are sorted by to find near ones: the load, or for a stated error the feature in
// which links differ most; window is by how much links of one cluster can differ in it.
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
	lead, widest := 0, -1.0
	for k := range sums {
		if spread := squares[k] - sums[k]*sums[k]/n; spread > widest {
			lead, widest = k, spread
		}
	}
	return func(f *LinkFeatures) float64 { return float64(f.Values[lead]) }
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

// A LinkCluster says which link's case answers for a link.
type LinkCluster struct {
	Link, Representative int32
	Distance             float64 // below 1; 0 for a representative
	Members              int32   // of the cluster
}

// Cluster groups links, greedily (paper, appendix): the first link that is in no cluster gathers all
// that are close enough to it. Only links whose sort key is near the gathering one's are compared, so
// that the work is far below the square of the links where they differ. For a stated error the
// representative is then the member nearest to the cluster's mean, unless some member would be too
// far from it; the paper's stays the first. By link id, links without flows left out.
func (c *Clustering) Cluster(ctx context.Context, features []LinkFeatures) ([]LinkCluster, error) {
	var order []int32
	for id := range features {
		if features[id].Values != nil {
			order = append(order, int32(id))
		}
	}
	byID := slices.Clone(order)
	keys := make([]float64, len(features))
	key := c.sortKey(features)
	for _, id := range order {
		keys[id] = key(&features[id])
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(features[a].Class, features[b].Class), cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b))
	})
	place := make([]int32, len(features))
	next := make([]int32, len(order)+1) // the first place from here on that is not taken, as far as known
	for i, id := range order {
		place[id], next[i] = int32(i), int32(i)
	}
	next[len(order)] = int32(len(order))
	free := func(i int32) int32 {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	out := make([]LinkCluster, len(features))
	var members []int32
	for _, id := range byID {
		if free(place[id]) != place[id] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &features[id]
		from, _ := slices.BinarySearchFunc(order, id, func(o, _ int32) int {
			return cmp.Or(cmp.Compare(features[o].Class, f.Class), cmp.Compare(keys[o], keys[id]-c.window(f)))
		})
		members = members[:0]
		for i := free(int32(from)); int(i) < len(order); i = free(i + 1) {
			o := order[i]
			if features[o].Class != f.Class || keys[o] > keys[id]+c.window(f) {
				break
			}
			if o == id || c.distance(f, &features[o]) < 1 {
				members = append(members, o)
				next[i] = i + 1
			}
		}
		middle := id
		if c.Error > 0 {
			middle = c.middle(features, members, id)
		}
		for _, m := range members {
			out[m] = LinkCluster{m, middle, 0, int32(len(members))}
			if m != middle {
				out[m].Distance = c.distance(&features[middle], &features[m])
			}
		}
	}
	return slices.DeleteFunc(out, func(l LinkCluster) bool { return l.Members == 0 }), nil
}

// middle is the member nearest to the mean of the cluster, or first if one would be too far from it.
func (c *Clustering) middle(features []LinkFeatures, members []int32, first int32) int32 {
	mean := LinkFeatures{Values: make([]float32, len(features[first].Values))}
	for i := range mean.Values {
		sum := 0.0
		for _, m := range members {
			sum += float64(features[m].Values[i])
		}
		mean.Values[i] = float32(sum / float64(len(members)))
	}
	best, nearest := first, math.Inf(1)
	for _, m := range members {
		if d := c.distance(&mean, &features[m]); d < nearest || d == nearest && m < best {
			best, nearest = m, d
		}
	}
	for _, m := range members {
		if c.distance(&features[best], &features[m]) >= 1 {
			return first
		}
	}
	return best
}

// WriteClusters writes table link_clusters.
func WriteClusters(clusters []LinkCluster, out schema.Sink) error {
	var link, representative, members []int32
	var distance []float64
	for _, c := range clusters {
		link, representative = append(link, c.Link), append(representative, c.Representative)
		distance, members = append(distance, c.Distance), append(members, c.Members)
	}
	return columns.Write(out, schema.LinkClusters, len(link), columns.Of(link), columns.Of(representative), columns.Of(distance), columns.Of(members))
}

// ReadClusters reads table link_clusters: by link id the representative, -1 for links without flows.
func ReadClusters(n *topology.Network, in schema.Batches) ([]int32, error) {
	of := make([]int32, len(n.Links))
	for i := range of {
		of[i] = -1
	}
	err := columns.ForEach(in, func(rec arrow.Record) error {
		link, representative := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "representative")
		for i, id := range link {
			if id < 0 || int(id) >= len(of) || representative[i] < 0 || int(representative[i]) >= len(of) {
				return fmt.Errorf("link_clusters has link %d represented by %d, the topology has %d links", id, representative[i], len(of))
			}
			of[id] = representative[i]
		}
		return nil
	})
	return of, err
}
