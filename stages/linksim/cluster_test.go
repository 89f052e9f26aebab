package linksim

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/topology/topologytest"
)

// randomFeatures returns links of two classes in a few groups of similar links. Some links have no flows.
func randomFeatures(n int) []LinkFeatures {
	rng := rand.New(rand.NewPCG(3, 4))
	features := make([]LinkFeatures, n)
	for i := range features {
		if rng.IntN(10) == 0 {
			continue
		}
		group := 1 + rng.IntN(6)
		f := &features[i]
		f.Class = int64(rng.IntN(2))
		for q := range 24 {
			f.Values = append(f.Values, float32(float64(group*q%97)*0.01*(1+0.12*rng.Float64())))
		}
	}
	return features
}

// Every link with flows belongs to one cluster, whose representative has the same class and is near enough.
// The clusters are the same as those from comparing every link with every other link.
func TestClustersAreGreedy(t *testing.T) {
	for _, setting := range []string{"1%", "10%"} {
		c, err := ParseClustering(setting)
		if err != nil {
			t.Fatal(err)
		}
		features := randomFeatures(400)
		got, err := c.Cluster(context.Background(), features)
		if err != nil {
			t.Fatal(err)
		}
		taken := map[int32]int32{} // from comparing all pairs: link → first link of its cluster
		for a := range features {
			if _, ok := taken[int32(a)]; ok || features[a].Values == nil {
				continue
			}
			for b := a; b < len(features); b++ {
				if _, ok := taken[int32(b)]; !ok && features[b].Values != nil &&
					features[a].Class == features[b].Class && (a == b || c.distance(&features[a], &features[b]) < 1) {
					taken[int32(b)] = int32(a)
				}
			}
		}
		if len(got) != len(taken) {
			t.Fatalf("%s: %d links in clusters, want %d", setting, len(got), len(taken))
		}
		first := map[int32]int32{} // by representative: the first link of its cluster
		clusters := map[int32]bool{}
		for _, l := range got {
			clusters[l.Representative] = true
			if l.Distance >= 1 || (l.Link == l.Representative) && l.Distance != 0 ||
				features[l.Link].Class != features[l.Representative].Class {
				t.Errorf("%s: %+v", setting, l)
			}
			want, ok := first[l.Representative]
			if !ok {
				first[l.Representative] = taken[l.Link]
				want = taken[l.Link]
			}
			if taken[l.Link] != want {
				t.Errorf("%s: link %d is in the cluster of %d, want that of %d", setting, l.Link, want, taken[l.Link])
			}
		}
		if len(clusters) < 2 || len(clusters) == len(got) {
			t.Errorf("%s: %d clusters of %d links", setting, len(clusters), len(got))
		}
		of := map[int32]int32{}
		for _, l := range got {
			of[l.Link] = l.Representative
		}
		for _, l := range got {
			if of[l.Representative] != l.Representative {
				t.Errorf("%s: %d represents %d and has representative %d itself", setting, l.Representative, l.Link,
					of[l.Representative])
			}
		}
	}
}

// Expected slowdowns increase with bursts and do not depend on the range of links.
func TestExpectedFeatures(t *testing.T) {
	n := topologytest.MustClos(t, methodtest.SmallClos())
	p := simkernel.DefaultParams()
	m := methodtest.Model(t, n, &p)
	hops, loads := methodtest.Route(t, n, &p, methodtest.RandomFlows(n, rand.New(rand.NewPCG(1, 2)), 4000))
	whole := make([]LinkFeatures, len(n.Links))
	parts := make([]LinkFeatures, len(n.Links))
	ctx := context.Background()
	if err := Features(ctx, FeatureInput{m, loads, hops.Read()}, step.Range{Hi: int64(len(n.Links))},
		whole); err != nil {
		t.Fatal(err)
	}
	for lo := 0; lo < len(n.Links); lo += 5 {
		links := step.Range{Lo: int64(lo), Hi: int64(min(lo+5, len(n.Links)))}
		if err := Features(ctx, FeatureInput{m, loads, hops.Read()}, links, parts); err != nil {
			t.Fatal(err)
		}
	}
	for i := range whole {
		if !slices.Equal(whole[i].Values, parts[i].Values) || whole[i].Class != parts[i].Class {
			t.Errorf("link %d: %v, in parts %v", i, whole[i], parts[i])
		}
		if (loads.Links[i].Flows > 0) != (whole[i].Values != nil) {
			t.Errorf("link %d with %d flows has features %v", i, loads.Links[i].Flows, whole[i].Values)
		}
	}
}
