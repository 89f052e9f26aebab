package linksim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology"
)

// Clustering says which links are similar, so that the link case of one, the representative, stands for all (paper,
// section 3.5): links of the same bandwidth, all of them hosts' uplinks or none, at which flows are expected to have
// slowdowns that differ by at most Error, a fraction, at several quantiles for each size bin. The paper's thresholds,
// on sizes and inter-arrival times, found 6% of the links similar, which did not pay (results/clustering.md).
type Clustering struct{ Error float64 }

// DefaultClusteringError is the value of --cluster if none is given.
const DefaultClusteringError = "10%"

// ParseClustering parses the accepted error, as 5% or 0.05.
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
	Distance       float64 `col:"distance"` // from the representative, below 1; 0 for the representative itself
	Members        int32   `col:"members"`  // links in the cluster
}

// Cluster groups links greedily (paper, appendix): in the order of link ids, the first link that is in no cluster
// gathers all links that are in none at a distance below 1. The representative is the member nearest to the cluster's
// mean, unless a member is too far from it; else, as in the paper, that first link. The result is by link id; links
// without flows are left out.
func (c *Clustering) Cluster(ctx context.Context, features []LinkFeatures) ([]LinkCluster, error) {
	var free, members []int32
	for id := range features {
		if features[id].Values != nil {
			free = append(free, int32(id))
		}
	}
	out := make([]LinkCluster, 0, len(free))
	for len(free) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first := free[0]
		members = members[:0]
		free = slices.DeleteFunc(free, func(id int32) bool {
			near := id == first || c.distance(&features[first], &features[id]) < 1
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

// central returns the member nearest to the mean of the cluster, or the first if a member is too far from that.
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
	if slices.ContainsFunc(members, func(m int32) bool { return c.distance(&features[best], &features[m]) >= 1 }) {
		return members[0]
	}
	return best
}

// ClusterTable writes table link_clusters.
var ClusterTable = columns.TableOf[LinkCluster](schema.LinkClusters)

// ReadClusters reads table link_clusters and returns the representative of each link, by link id; -1 for
// links without flows. Link ids that the topology does not have are an error.
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

// Represented are the links that others represent. of is ReadClusters.
func Represented(of []int32) Omitted {
	omitted := Omitted{}
	for id, by := range of {
		if by >= 0 && by != int32(id) {
			omitted[int32(id)] = tables.LinkCounters{}
		}
	}
	return omitted
}

// LinkFeatures are the features by which links are clustered: logarithms of expected slowdowns (contention), so that
// differences are relative errors, at expectedQuantiles for each size bin. Values is nil for a link without flows.
type LinkFeatures struct {
	Class  int64 // links of different classes are never in one cluster
	Values []float32
}

var expectedQuantiles = [...]float64{0.5, 0.9, 0.99}

// FeatureInput is what Features reads: the loads, and the links' rows of table hops; those of a link must come in start
// order.
type FeatureInput struct {
	Model *step.Model
	Loads *route.Loads
	Hops  schema.Batches
}

// Features computes the features of a range of links and stores them in features, by link id.
func Features(ctx context.Context, in FeatureInput, links step.Range, features []LinkFeatures) error {
	n, p, loads := in.Model.Network, &in.Model.Params, in.Loads
	lo, hi := int32(links.Lo), int32(links.Hi)
	flows := make([][]featureFlow, hi-lo)
	err := columns.Each(in.Hops, func(f *featureFlow) error {
		if f.Link >= lo && f.Link < hi {
			flows[f.Link-lo] = append(flows[f.Link-lo], *f)
		}
		return nil
	})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	x := contention{params: p}
	for id := lo; id < hi; id++ {
		f, of := &features[id], flows[id-lo]
		if len(of) == 0 {
			continue
		}
		link := n.Links[id]
		f.Class = 2 * link.BandwidthBps
		if of[0].FirstLink == id {
			f.Class++
		}
		x.reset(loads.AvailableBps(p, link))
		for i := range of {
			x.add(of[i].SizeBytes, of[i].StartNS, loads.AvailableBps(p, n.Links[of[i].FirstLink]))
		}
		f.Values = x.features(of)
	}
	return nil
}

type featureFlow struct {
	Link        int32 `col:"link_id"`
	FirstLink   int32 `col:"first_link"`
	SizeBytes   int64 `col:"size_bytes"`
	StartNS     int64 `col:"start_ns"`
	PathDelayNS int64 `col:"path_delay_ns"`
}

func (x *contention) features(flows []featureFlow) []float32 {
	var byBin [sizebin.Count][]float64
	for i, f := range x.done() {
		bin := sizebin.Of(flows[i].SizeBytes)
		byBin[bin] = append(byBin[bin], math.Log(f.expectedSlowdown(x, flows[i].PathDelayNS)))
	}
	out := make([]float32, 0, len(byBin)*len(expectedQuantiles))
	for _, values := range byBin {
		slices.Sort(values)
		for _, q := range expectedQuantiles {
			// A quantile with few flows beyond it is random, on this link as on others. It gets a proportionally lower weight.
			weight := math.Min(1, float64(len(values))*(1-q)/10)
			v := 0.0
			if weight > 0 {
				at := q * float64(len(values)-1)
				lo := int(at)
				v = values[lo] + (at-float64(lo))*(values[min(lo+1, len(values)-1)]-values[lo])
				v *= weight
			}
			out = append(out, float32(v))
		}
	}
	return out
}

// distance returns how different two links are, relative to the limit of the clustering: links of a cluster are at a
// distance below 1 from the representative.
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

// contention estimates which competition each flow of a link meets, without simulating packets. All flows on
// the link share it evenly at every moment, none faster than its host's uplink (processor sharing: Kleinrock,
// Queueing Systems II, §4.4; congestion control comes near it).
//
// That one number stands for load, for burstiness on all time scales, for sizes and for sources. Measured
// against simulated link cases, among flows of the same size, flows of similar contention explain four
// fifths of the variance of waits at hosts' uplinks and half of it in the fabric. The queue of all bytes
// (Lindley) explains half as much, the time of arrival nothing.
//
// Flows are added in start order (add). done then returns the contention of each.
type contention struct {
	params  *simkernel.Params
	bps     float64
	nowNS   float64
	served  float64     // ns of transmission at its own rate that a flow would have had by now if present since 0
	demand  float64     // rate that the present flows would use alone, relative to the link's
	present []departure // by served, the next to end last
	flows   []flowContention
}

type flowContention struct {
	startNS, endNS float64
	aloneNS        float64 // duration without other flows
	share          float64 // of the link's bandwidth that the flow could use alone
	ahead          float64 // shares of the flows present at its start; above 1 there is a queue
}

// departure is a present flow and the value of contention.served at which it ends.
type departure struct {
	served float64
	flow   int32
}

func (x *contention) reset(bps int64) {
	*x = contention{params: x.params, bps: float64(bps), present: x.present[:0], flows: x.flows[:0]}
}

// add adds the link's next flow in start order. sourceBps is the available bandwidth of its host's uplink.
func (x *contention) add(sizeBytes, startNS, sourceBps int64) {
	x.advance(float64(startNS))
	bps := min(x.bps, float64(sourceBps))
	alone := float64(sizeBytes+x.params.Packets(sizeBytes)*x.params.HeaderBytes) * 8e9 / bps
	d := departure{x.served + alone, int32(len(x.flows))}
	at, _ := slices.BinarySearchFunc(x.present, d, func(a, b departure) int { return cmp.Compare(b.served, a.served) })
	x.present = slices.Insert(x.present, at, d)
	x.flows = append(x.flows, flowContention{startNS: float64(startNS), aloneNS: alone, share: bps / x.bps,
		ahead: x.demand})
	x.demand += bps / x.bps
}

// done returns the contention of the flows, in the order in which they were added; valid until reset.
func (x *contention) done() []flowContention {
	x.advance(math.Inf(1))
	return x.flows
}

func (x *contention) advance(untilNS float64) {
	for len(x.present) > 0 {
		rate, gone := min(1, 1/x.demand), x.present[len(x.present)-1]
		next := x.nowNS + (gone.served-x.served)/rate
		if next > untilNS {
			x.served += (untilNS - x.nowNS) * rate
			break
		}
		x.present = x.present[:len(x.present)-1]
		x.nowNS, x.served = next, gone.served
		f := &x.flows[gone.flow]
		f.endNS = next
		if x.demand -= f.share; len(x.present) == 0 {
			x.demand = 0 // discards rounding errors
		}
	}
	x.nowNS = untilNS
}

// expectedSlowdown is the slowdown that contention lets the flow expect on a path of the given propagation
// delay. Besides sharing the link, the flow finds a queue: what the flows before it send in a window beyond
// the link's rate, and half a packet of each of them.
func (c *flowContention) expectedSlowdown(x *contention, pathDelayNS int64) float64 {
	full := float64(x.params.PayloadBytes + x.params.HeaderBytes)
	queue := (max(0, c.ahead-1)*float64(x.params.NominalWindow()) + c.ahead*full/2) * 8e9 / x.bps
	alone := c.aloneNS + 2*float64(pathDelayNS)
	return (alone + c.endNS - c.startNS - c.aloneNS + queue) / alone
}
