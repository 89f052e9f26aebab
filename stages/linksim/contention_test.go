package linksim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-5*math.Abs(want) }

// links returns links of one class with one feature each.
func links(values ...float32) []LinkFeatures {
	var all []LinkFeatures
	for _, v := range values {
		all = append(all, LinkFeatures{Class: 3, Values: []float32{v}})
	}
	return all
}

// Each cluster is represented by its most typical link, or by its first link if the typical one is too far
// from another one. The error of all others depends on this choice. 10% is a distance of 0.0953 in
// logarithms.
func TestRepresentativeIsCentral(t *testing.T) {
	const limit = 0.09531018
	for _, c := range []struct {
		name     string
		features []LinkFeatures
		of       []int32
		distance []float64
	}{
		{"the middle of three", links(0, 0.05, 0.08), []int32{1, 1, 1}, []float64{0.05 / limit, 0, 0.03 / limit}},
		{"at the limit", links(0, limit), []int32{0, 1}, []float64{0, 0}},
		{"just below it", links(0, 0.0953), []int32{0, 0}, []float64{0, 0.0953 / limit}},
		// The mean is 0.051. The link of 0.09 is nearest to it, and 0.18 from the last one.
		{"too far from the last", links(0, 0.09, 0.09, 0.09, 0.09, 0.09, -0.09), []int32{0, 0, 0, 0, 0, 0, 0},
			[]float64{0, 0.09 / limit, 0.09 / limit, 0.09 / limit, 0.09 / limit, 0.09 / limit, 0.09 / limit}},
		{"two clusters", links(0, 1, 0.01, 1.01), []int32{0, 1, 0, 1}, []float64{0, 0, 0.01 / limit, 0.01 / limit}},
	} {
		cl := &Clustering{0.1}
		got, err := cl.Cluster(t.Context(), c.features)
		if err != nil {
			t.Fatal(err)
		}
		var of []int32
		for i, l := range got {
			of = append(of, l.Representative)
			members := 0
			for _, r := range c.of {
				if r == c.of[i] {
					members++
				}
			}
			if int(l.Link) != i || math.Abs(l.Distance-c.distance[i]) > 1e-4 || int(l.Members) != members {
				t.Errorf("%s: %+v, want distance %v and %d members", c.name, l, c.distance[i], members)
			}
		}
		if !slices.Equal(of, c.of) {
			t.Errorf("%s: representatives %v, want %v", c.name, of, c.of)
		}
	}
}

// Text that is not an error above 0 is refused, and an accepted error is written as it is read.
func TestClusteringText(t *testing.T) {
	for text, want := range map[string]float64{"5%": 0.05, "0.05": 0.05, "10": 10, "1000%": 10} {
		c, err := ParseClustering(text)
		if err != nil || c.Error != want {
			t.Errorf("%s: %+v, %v", text, c, err)
			continue
		}
		if again, err := ParseClustering(c.String()); err != nil || again.Error != c.Error {
			t.Errorf("%s is written as %s", text, c)
		}
	}
	for _, text := range []string{"", "0", "-5%", "1001%", "NaN", "many"} {
		if c, err := ParseClustering(text); err == nil {
			t.Errorf("%q is accepted as %+v", text, c)
		}
	}
}

// Links share bandwidth evenly. Flows of 1,000 bytes take 838.4 ns alone on 10 Gbps.
func TestContentionOfFewFlows(t *testing.T) {
	p := simkernel.DefaultParams()
	type flow struct{ size, start, sourceBps int64 }
	type want struct{ end, ahead, slowdown float64 }
	for _, c := range []struct {
		name  string
		flows []flow
		want  []want // slowdowns are for 1,000 ns of propagation
	}{
		{"alone", []flow{{1000, 7, 1e10}}, []want{{845.4, 0, 1}}},
		// Each takes twice as long. The second waits behind half a packet of the first: 524 bytes, 419.2 ns.
		{"two at once", []flow{{1000, 0, 1e10}, {1000, 0, 1e10}}, []want{
			{1676.8, 0, (2838.4 + 838.4) / 2838.4}, {1676.8, 1, (2838.4 + 838.4 + 419.2) / 2838.4}}},
		// The third finds an excess of a window of 18,000 bytes of one flow, and half a packet of both.
		{"three at once", []flow{{1000, 0, 1e10}, {1000, 0, 1e10}, {1000, 0, 1e10}}, []want{
			{2515.2, 0, (2838.4 + 2*838.4) / 2838.4}, {2515.2, 1, (2838.4 + 2*838.4 + 419.2) / 2838.4},
			{2515.2, 2, (2838.4 + 2*838.4 + 838.4 + 14_400) / 2838.4}}},
		{"hosts of half the speed", []flow{{1000, 0, 5e9}, {1000, 0, 5e9}}, []want{
			{1676.8, 0, 1}, {1676.8, 0.5, (3676.8 + 209.6) / 3676.8}}},
		// The second starts when half of the first is sent. Both are then served alternately, until the first ends.
		{"one after the other", []flow{{1000, 100, 1e10}, {1000, 519, 1e10}}, []want{
			{1357.8, 0, (2838.4 + 419.4) / 2838.4}, {1776.8, 1, (2838.4 + 419.4 + 419.2) / 2838.4}}},
		{"a fast host on a slow link", []flow{{1000, 0, 4e10}, {1000, 3000, 1e10}},
			[]want{{838.4, 0, 1}, {3838.4, 0, 1}}},
	} {
		x := contention{params: &p}
		for range 2 { // memory is used again
			x.reset(1e10)
			for _, f := range c.flows {
				x.add(f.size, f.start, f.sourceBps)
			}
			for i, f := range x.done() {
				w := c.want[i]
				if !near(f.endNS, w.end) || f.ahead != w.ahead || !near(f.expectedSlowdown(&x, 1000), w.slowdown) {
					t.Errorf("%s: flow %d ends at %v, %v ahead, slowdown %v; want %+v", c.name, i, f.endNS, f.ahead,
						f.expectedSlowdown(&x, 1000), w)
				}
			}
		}
	}
}

// Features are logarithms of slowdowns at quantiles of each size bin. With few flows beyond a quantile, it
// counts less: of 40 flows, four are beyond p90, and 0.4 beyond p99.
func TestFeaturesByHand(t *testing.T) {
	p := simkernel.DefaultParams()
	x := contention{params: &p}
	x.reset(1e10)
	var flows []featureFlow
	for pair := range int64(20) { // two flows at once; pairs do not meet
		for range 2 {
			f := featureFlow{sizeBytes: 1000, startNS: pair * 100_000, pathDelayNS: 1000}
			x.add(f.sizeBytes, f.startNS, 1e10)
			flows = append(flows, f)
		}
	}
	got := x.features(flows)
	first := math.Log((2838.4 + 838.4) / 2838.4)
	second := math.Log((2838.4 + 838.4 + 419.2) / 2838.4)
	want := []float64{(first + second) / 2, 0.4 * second, 0.04 * second, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if len(got) != len(want) {
		t.Fatalf("%d features", len(got))
	}
	for i := range want {
		if !near(float64(got[i]), want[i]) {
			t.Errorf("feature %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// Classes divide links by speed, and uplinks of hosts from others, because their queues differ.
func TestClassesOfLinks(t *testing.T) {
	n := topologytest.MustClos(t, methodtest.SmallClos())
	p := simkernel.DefaultParams()
	m := methodtest.Model(t, n, &p)
	hops, loads := methodtest.Route(t, n, &p, methodtest.RandomFlows(n, random(), 400))
	features := make([]LinkFeatures, len(n.Links))
	in := FeatureInput{m, loads, hops.Read()}
	if err := Features(t.Context(), in, step.Range{Hi: int64(len(n.Links))}, features); err != nil {
		t.Fatal(err)
	}
	for id, f := range features {
		want := 2 * n.Links[id].BandwidthBps
		if n.FromHost(int32(id)) {
			want++
		}
		if f.Class != want {
			t.Errorf("link %d has class %d, want %d", id, f.Class, want)
		}
	}
}

// A link that a cluster does not simulate is represented by another one. A table that names links outside
// of the topology is refused.
func TestReadClusters(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	var c tables.Memory
	if err := ClusterTable.Write(&c, []LinkCluster{{0, 0, 0, 2}, {7, 0, 0.5, 2}}); err != nil {
		t.Fatal(err)
	}
	of, err := ReadClusters(n, c.Read())
	if err != nil || !slices.Equal(of, []int32{0, -1, -1, -1, -1, -1, -1, 0}) {
		t.Errorf("%v, %v", of, err)
	}
	omitted := Represented(of)
	if len(omitted) != 1 || omitted.Runs(7) || !omitted.Runs(0) || !omitted.Runs(3) {
		t.Errorf("%v", omitted)
	}
	for _, l := range []LinkCluster{{8, 0, 0, 1}, {-1, 0, 0, 1}, {0, 8, 0, 1}, {0, -1, 0, 1}} {
		var bad tables.Memory
		if err := ClusterTable.Write(&bad, []LinkCluster{l}); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadClusters(n, bad.Read()); err == nil || !strings.Contains(err.Error(), "8 links") {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
