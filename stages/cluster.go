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
