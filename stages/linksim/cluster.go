package linksim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/selection"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// Clustering says which links are similar, so that one link case, that of the representative, is used for all
// of them (paper, section 3.5). Similar links have the same bandwidth, and either all or none of them are
// uplinks of hosts. Their expected slowdowns differ by at most Error, a fraction, at several quantiles of
// each size bin. The paper's thresholds, on sizes and inter-arrival times, found only 6% of the links
// similar, which was not worth the cost (results/clustering.md).
type Clustering struct{ Error float64 }

// DefaultClusteringError is the error that --cluster accepts if none is given.
const DefaultClusteringError = "10%"

// ParseClustering parses the accepted error, such as 5% or 0.05.
func ParseClustering(text string) (*Clustering, error) {
	x, err := units.ParseShare(text)
	if err != nil || !(x > 0 && x <= 10) {
		return nil, fmt.Errorf("clustering %q: must be an error above 0 such as 5%%", text)
	}
	return &Clustering{x}, nil
}

// String is the inverse of ParseClustering.
func (c *Clustering) String() string { return strconv.FormatFloat(c.Error, 'g', -1, 64) }

// LinkCluster is one row of table link_clusters.
type LinkCluster struct {
	Link           int32   `col:"link_id"`
	Representative int32   `col:"representative"`
	Distance       float64 `col:"distance"` // to the representative, below 1; 0 for the representative itself
	Members        int32   `col:"members"`  // links in the cluster
}

// Cluster groups links greedily (paper, appendix). In the order of link ids, the first link without a cluster
// forms one with all other links without a cluster whose distance to it is below 1. The representative is the
// member nearest to the cluster's mean. If another member is too far from that one, the representative is the
// first link, as in the paper. The result is in the order of link ids and omits links without flows.
func (c *Clustering) Cluster(ctx context.Context, features []LinkFeatures) ([]LinkCluster, error) {
	var free, members []int32
	for id := range features {
		if features[id].Values != nil {
			free = append(free, int32(id))
		}
	}
	out := make([]LinkCluster, 0, len(free))
	limit := math.Log1p(c.Error)
	for len(free) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first := free[0]
		members = members[:0]
		free = slices.DeleteFunc(free, func(id int32) bool {
			near := id == first || features[first].within(limit, &features[id])
			if near {
				members = append(members, id)
			}
			return near
		})
		representative := c.central(features, members)
		for _, m := range members {
			out = append(out, LinkCluster{m, representative, 0, int32(len(members))})
			if m != representative {
				out[len(out)-1].Distance = c.distance(&features[representative], &features[m])
			}
		}
	}
	slices.SortFunc(out, func(a, b LinkCluster) int { return cmp.Compare(a.Link, b.Link) })
	return out, nil
}

// central returns the member nearest to the mean of the cluster, or the first member if another one is too
// far from it.
func (c *Clustering) central(features []LinkFeatures, members []int32) int32 {
	first := &features[members[0]]
	mean := LinkFeatures{Class: first.Class, Values: make([]float32, len(first.Values))}
	for i := range mean.Values {
		sum := 0.0
		for _, m := range members {
			sum += float64(features[m].Values[i])
		}
		mean.Values[i] = float32(sum / float64(len(members)))
	}
	best := slices.MinFunc(members, func(a, b int32) int {
		return cmp.Compare(c.distance(&mean, &features[a]), c.distance(&mean, &features[b]))
	})
	if slices.ContainsFunc(members,
		func(m int32) bool { return c.distance(&features[best], &features[m]) >= 1 }) {
		return members[0]
	}
	return best
}

// ClusterTable writes table link_clusters.
var ClusterTable = columns.TableOf[LinkCluster](schema.LinkClusters)

// ReadClusters reads table link_clusters and returns the representative of each link, by link id, or -1 for
// links without flows. A link id that the topology does not have is an error.
func ReadClusters(n *topology.Network, in schema.Batches) ([]int32, error) {
	of := slices.Repeat([]int32{-1}, len(n.Links))
	return of, columns.Each(in, func(c *LinkCluster) error {
		if c.Link < 0 || int(c.Link) >= len(of) || c.Representative < 0 || int(c.Representative) >= len(of) {
			return fmt.Errorf("link_clusters: link %d has representative %d, the topology has %d links", c.Link,
				c.Representative, len(of))
		}
		of[c.Link] = c.Representative
		return nil
	})
}

// Represented returns the links that another link represents. representatives is the result of ReadClusters.
func Represented(of []int32) Omitted {
	omitted := Omitted{}
	for id, by := range of {
		if by >= 0 && by != int32(id) {
			omitted[int32(id)] = tables.LinkCounters{}
		}
	}
	return omitted
}

// LinkFeatures are the features that links are clustered by: logarithms of expected slowdowns (see
// contention), at expectedQuantiles of each size bin. Differences of logarithms are relative errors. Values
// is nil for a link without flows.
type LinkFeatures struct {
	Class  int64 // links of different classes are never in the same cluster
	Values []float32
}

var expectedQuantiles = [...]float64{0.5, 0.9, 0.99}

// FeatureInput is the input of Features: the loads, and the rows of table hops. The rows of a link must be in
// start order.
type FeatureInput struct {
	Model *step.Model
	Loads *route.Loads
	Hops  schema.Batches
}

// Features computes the features of a range of links and stores them in features, by link id.
func Features(ctx context.Context, in FeatureInput, links step.Range, features []LinkFeatures) error {
	n := in.Model.Network
	p := &in.Model.Params
	lo := int32(links.Lo)
	hi := int32(links.Hi)
	flows, err := readFeatureFlows(in, lo, hi)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	available := make([]int64, len(n.Links))
	for id, link := range n.Links {
		available[id] = in.Loads.AvailableBps(p, link)
	}
	x := contention{params: p}
	for id := lo; id < hi; id++ {
		f := &features[id]
		of := flows[id-lo]
		if len(of) == 0 {
			continue
		}
		f.Class = 2 * n.Links[id].BandwidthBps
		if of[0].firstLink == id {
			f.Class++
		}
		x.reset(available[id])
		for i := range of {
			x.add(of[i].sizeBytes, of[i].startNS, available[of[i].firstLink])
		}
		f.Values = x.features(of)
	}
	return nil
}

// readFeatureFlows reads the flows of links lo to hi-1. The result is by link - lo.
func readFeatureFlows(in FeatureInput, lo, hi int32) ([][]featureFlow, error) {
	flows := make([][]featureFlow, hi-lo)
	return flows, columns.ForEach(in.Hops, func(rec arrow.Record) error {
		links := columns.Int32s(rec, "link_id")
		firstLinks := columns.Int32s(rec, "first_link")
		sizes := columns.Int64s(rec, "size_bytes")
		starts := columns.Int64s(rec, "start_ns")
		delays := columns.Int64s(rec, "path_delay_ns")
		for from := 0; from < len(links); {
			link := links[from]
			if link < lo || link >= hi {
				from++
				continue
			}
			of := flows[link-lo]
			if of == nil { // the expected number comes from a table, which may be damaged
				of = make([]featureFlow, 0, min(in.Loads.Links[link].Flows, maxGrownRows))
			}
			i := from
			for ; i < len(links) && links[i] == link; i++ {
				of = append(of, featureFlow{sizes[i], starts[i], delays[i], firstLinks[i]})
			}
			flows[link-lo] = of
			from = i
		}
		return nil
	}, "link_id", "first_link", "size_bytes", "start_ns", "path_delay_ns")
}

type featureFlow struct {
	sizeBytes, startNS, pathDelayNS int64
	firstLink                       int32
}

func (x *contention) features(flows []featureFlow) []float32 {
	for bin := range x.slowdowns {
		x.slowdowns[bin] = x.slowdowns[bin][:0]
	}
	done := x.done()
	for i := range done {
		values := &x.slowdowns[sizebin.Of(flows[i].sizeBytes)]
		*values = append(*values, done[i].expectedSlowdown(x, flows[i].pathDelayNS))
	}
	out := make([]float32, 0, len(x.slowdowns)*len(expectedQuantiles))
	for _, values := range x.slowdowns {
		n := len(values)
		for _, q := range expectedQuantiles {
			// A quantile with few flows beyond it is random on every link. Its weight is proportional to
			// their number.
			weight := math.Min(1, float64(n)*(1-q)/10)
			v := 0.0
			if weight > 0 {
				at := q * float64(n-1)
				lo := int(at)
				rank := lo - (n - len(values))
				selection.Place(values, rank)
				values = values[rank:]
				below := math.Log(values[0])
				above := below
				if len(values) > 1 {
					above = math.Log(slices.Min(values[1:]))
				}
				v = below + (at-float64(lo))*(above-below)
				v *= weight
			}
			out = append(out, float32(v))
		}
	}
	return out
}

// within reports whether the distance of two links is below 1. limit is log(1 + Error). within compares no
// more values than necessary.
func (a *LinkFeatures) within(limit float64, b *LinkFeatures) bool {
	if a.Class != b.Class {
		return false
	}
	for i, v := range a.Values {
		if !(math.Abs(float64(v-b.Values[i])) < limit) {
			return false
		}
	}
	return true
}

// distance returns how different two links are, relative to the accepted error. All links of a cluster have a
// distance below 1 to the representative.
func (c *Clustering) distance(a, b *LinkFeatures) float64 {
	if a.Class != b.Class {
		return math.Inf(1)
	}
	worst := 0.0
	for i, v := range a.Values {
		worst = max(worst, math.Abs(float64(v-b.Values[i])))
	}
	return worst / math.Log1p(c.Error)
}
