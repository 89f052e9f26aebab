package stages

import (
	"cmp"
	"container/heap"
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

// Clustering says which links are similar, so that the link case of one, the representative, stands for all
// (paper, §3.5 and appendix): links of the same bandwidth, all of them hosts' uplinks or none, whose distance
// is below 1.
type Clustering struct {
	name string
	// Error is the largest relative difference of the slowdowns that flows are expected to have at two links,
	// at several quantiles for each size bin. If it is 0, the three thresholds below apply.
	Error float64
	// The paper's thresholds. QuantileError bounds the weighted mean absolute percentage error, relative to
	// the representative, of the flows' sizes and of their inter-arrival times at 1,000 quantiles. One of
	// LoadRelative and LoadAbsolute bounds the difference of the links' loads.
	QuantileError, LoadRelative, LoadAbsolute float64
}

// DefaultClusteringError is the value of --cluster if none is given.
const DefaultClusteringError = "10%"

// ParseClustering parses "paper" or "code", the thresholds of the paper and of its published code, or the
// accepted error, as 5% or 0.05.
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

// LinkCluster is one row of table link_clusters.
type LinkCluster struct {
	Link           int32   `col:"link_id"`
	Representative int32   `col:"representative"`
	Distance       float64 `col:"distance"` // from the representative, below 1; 0 for the representative itself
	Members        int32   `col:"members"`  // links in the cluster
}

// Cluster groups links greedily (paper, appendix): in the order of link ids, the first link that is in no
// cluster gathers all free links at a distance below 1. It compares only links whose sort key is near its
// own, so the work is far below the square of the number of links if these differ. The representative of
// the paper's clusters is that first link. With a stated error it is the member nearest to the cluster's mean,
// unless a member is too far from it. The result is by link id; links without flows are left out.
func (c *Clustering) Cluster(ctx context.Context, features []LinkFeatures) ([]LinkCluster, error) {
	free := c.newFreeLinks(features)
	out := make([]LinkCluster, len(features))
	var members []int32
	for id := range features {
		if features[id].Values == nil || !free.has(int32(id)) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first := int32(id)
		members = c.gather(free, first, members[:0])
		representative := first
		if c.Error > 0 {
			representative = c.central(features, members, first)
		}
		for _, m := range members {
			out[m] = LinkCluster{m, representative, 0, int32(len(members))}
			if m != representative {
				out[m].Distance = c.distance(&features[representative], &features[m])
			}
		}
	}
	return slices.DeleteFunc(out, func(l LinkCluster) bool { return l.Members == 0 }), nil
}

// gather appends the free links at a distance below 1 from a link, and the link itself, and takes them.
func (c *Clustering) gather(free *freeLinks, id int32, members []int32) []int32 {
	f, key := &free.features[id], free.keys[id]
	from, _ := slices.BinarySearchFunc(free.order, id, func(o, _ int32) int {
		return cmp.Or(cmp.Compare(free.features[o].Class, f.Class), cmp.Compare(free.keys[o], key-c.window(f)))
	})
	for i := free.from(int32(from)); int(i) < len(free.order); i = free.from(i + 1) {
		o := free.order[i]
		if free.features[o].Class != f.Class || free.keys[o] > key+c.window(f) {
			break
		}
		if o == id || c.distance(f, &free.features[o]) < 1 {
			members = append(members, o)
			free.next[i] = i + 1
		}
	}
	return members
}

// freeLinks are the links that are in no cluster yet, sorted by class and sort key.
type freeLinks struct {
	features []LinkFeatures
	keys     []float64 // by link id
	order    []int32   // links with flows
	place    []int32   // by link id: its place in order
	next     []int32   // by place: a lower bound of the first free place from there on (union-find)
}

func (c *Clustering) newFreeLinks(features []LinkFeatures) *freeLinks {
	x := &freeLinks{features: features, keys: make([]float64, len(features)), place: make([]int32, len(features))}
	key := c.sortKey(features)
	for id := range features {
		if features[id].Values != nil {
			x.order = append(x.order, int32(id))
			x.keys[id] = key(&features[id])
		}
	}
	slices.SortFunc(x.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(features[a].Class, features[b].Class), cmp.Compare(x.keys[a], x.keys[b]),
			cmp.Compare(a, b))
	})
	x.next = make([]int32, len(x.order)+1)
	for i := range x.next {
		x.next[i] = int32(i)
	}
	for i, id := range x.order {
		x.place[id] = int32(i)
	}
	return x
}

// from returns the first free place at or behind i; len(order) if there is none.
func (x *freeLinks) from(i int32) int32 {
	for x.next[i] != i {
		x.next[i] = x.next[x.next[i]]
		i = x.next[i]
	}
	return i
}

func (x *freeLinks) has(id int32) bool { return x.from(x.place[id]) == x.place[id] }

// central returns the member nearest to the mean of the cluster, or first if a member is too far from that.
func (c *Clustering) central(features []LinkFeatures, members []int32, first int32) int32 {
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
	return clusterTable.Write(out, clusters)
}

// ReadClusters reads table link_clusters and returns the representative of each link, by link id; -1 for
// links without flows. Link ids that the topology does not have are an error.
func ReadClusters(n *topology.Network, in schema.Batches) ([]int32, error) {
	of := make([]int32, len(n.Links))
	for i := range of {
		of[i] = -1
	}
	err := columns.ForEach(in, func(rec arrow.Record) error {
		link, representative := columns.Int32s(rec, "link_id"), columns.Int32s(rec, "representative")
		for i, id := range link {
			if id < 0 || int(id) >= len(of) || representative[i] < 0 || int(representative[i]) >= len(of) {
				return fmt.Errorf("link_clusters: link %d has representative %d, the topology has %d links", id,
					representative[i], len(of))
			}
			of[id] = representative[i]
		}
		return nil
	})
	return of, err
}

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
			x.contention.add(of[i].size, of[i].start, loads.AvailableBps(p, n.Links[of[i].firstLink]))
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
	served  float64 // ns of transmission at its own rate that a flow would have had by now if present since 0
	demand  float64 // rate that the present flows would use alone, relative to the link's
	present departures
	flows   []flowContention
}

// flowContention is the contention of one flow.
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

// departures is a heap.Interface by served.
type departures []departure

func (h departures) Len() int           { return len(h) }
func (h departures) Less(i, j int) bool { return h[i].served < h[j].served }
func (h departures) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *departures) Push(x any) { *h = append(*h, x.(departure)) }

// Pop implements heap.Interface.
func (h *departures) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// reset begins a link of the given available bandwidth.
func (x *contention) reset(p *simkernel.Params, bps int64) {
	*x = contention{params: p, bps: float64(bps), present: x.present[:0], flows: x.flows[:0]}
}

// add adds the link's next flow in start order. sourceBps is the available bandwidth of its host's uplink.
func (x *contention) add(sizeBytes, startNS, sourceBps int64) {
	x.advance(float64(startNS))
	bps := min(x.bps, float64(sourceBps))
	alone := float64(sizeBytes+x.params.Packets(sizeBytes)*x.params.HeaderBytes) * 8e9 / bps
	heap.Push(&x.present, departure{x.served + alone, int32(len(x.flows))})
	x.flows = append(x.flows, flowContention{startNS: float64(startNS), aloneNS: alone, share: bps / x.bps,
		ahead: x.demand})
	x.demand += bps / x.bps
}

// done returns the contention of the flows, in the order in which they were added; valid until reset.
func (x *contention) done() []flowContention {
	x.advance(math.Inf(1))
	return x.flows
}

// advance serves the present flows until the given time.
func (x *contention) advance(untilNS float64) {
	for len(x.present) > 0 {
		rate := min(1, 1/x.demand)
		next := x.nowNS + (x.present[0].served-x.served)/rate
		if next > untilNS {
			x.served += (untilNS - x.nowNS) * rate
			break
		}
		gone := heap.Pop(&x.present).(departure)
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
