package partition

import (
	"slices"
	"testing"
)

// racks returns a network of hosts with a switch each, and of switches without hosts. The work of a cable to
// a host is that of its rack, half in each direction. uplinks are the racks, and the work, of the cable of
// each switch without hosts.
func racks(work []float64, uplinks [][2]float64) (links []Link, hosts []bool) {
	cable := func(a, b int, work float64) {
		links = append(links, Link{int32(a), int32(b), work / 2, 1000}, Link{int32(b), int32(a), work / 2, 1000})
	}
	hosts = make([]bool, 2*len(work)+len(uplinks))
	for i, w := range work {
		hosts[2*i] = true
		cable(2*i, 2*i+1, w)
	}
	for i, u := range uplinks {
		cable(2*len(work)+i, 2*int(u[0])+1, u[1])
	}
	return links, hosts
}

// Racks of equal work are divided evenly, in their order: a worker that gets more makes all others wait.
func TestRacksAreDividedEvenly(t *testing.T) {
	// one switch connects all racks
	links, hosts := racks([]float64{1, 1, 1, 1, 1, 1}, nil)
	for rack := range 6 {
		links = append(links, Link{12, int32(2*rack + 1), 0, 1000}, Link{int32(2*rack + 1), 12, 0, 1000})
	}
	hosts = append(hosts, false)
	for domains, want := range map[int][]int32{
		2: {0, 0, 0, 1, 1, 1}, 3: {0, 0, 1, 1, 2, 2}, 6: {0, 1, 2, 3, 4, 5},
	} {
		of := Divide(links, hosts, domains)
		var got []int32
		for rack := range 6 {
			got = append(got, of[2*rack])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d domains: racks are in %v, want %v", domains, got, want)
		}
	}
}

// A switch without hosts joins the domain that it shares most with, unless this makes the domain more than 5%
// larger than the mean. Then it joins the other domain.
func TestDomainsAreAtMostFivePercentTooLarge(t *testing.T) {
	// Two racks, and four switches that share all with the first. A cable's work counts half at each end. The
	// first rack has 10 + 4 × 2, the second 18, and a switch 2: the mean is (18 + 18 + 8) / 2 = 22.
	uplinks := [][2]float64{{0, 4}, {0, 4}, {0, 4}, {0, 4}}
	links, hosts := racks([]float64{10, 18}, uplinks)
	of := Divide(links, hosts, 2)
	if of[0] == of[2] {
		t.Fatalf("both racks are in one domain: %v", of)
	}
	with := 0
	for s := range uplinks {
		if of[4+s] == of[0] {
			with++
		}
	}
	if with != 2 {
		t.Errorf("%d switches are with the first rack, want 2: %v", with, of)
	}
}

// Among the domains that have room, a group chooses the one that it shares most with, then the one with the
// smaller load, then the first. If none has room, it chooses the one with the smallest load.
func TestChoiceOfADomain(t *testing.T) {
	const limit = 10
	for _, c := range []struct {
		name  string
		load  []float64
		share []float64
		want  int32
	}{
		{"shares", []float64{1, 2, 1}, []float64{1, 3, 2}, 1},
		{"shares with a full domain", []float64{1, 9.5, 1}, []float64{1, 3, 2}, 2},
		{"room for exactly the group", []float64{1, 9, 1}, []float64{1, 3, 2}, 1},
		{"equal shares", []float64{3, 2, 4}, []float64{1, 1, 1}, 1},
		{"equal shares and loads", []float64{2, 2, 2}, []float64{1, 1, 1}, 0},
		{"a smaller share and load", []float64{3, 2, 1}, []float64{2, 2, 1}, 1},
		{"no room", []float64{11, 9.5, 9.8}, []float64{5, 1, 5}, 1},
	} {
		g := &graph{work: []float64{1, 0, 0, 0}, edges: make([][]edge, 4)}
		d := &division{of: []int32{unassigned, 0, 1, 2}, load: c.load}
		for domain, work := range c.share {
			g.edges[0] = append(g.edges[0], edge{int32(domain + 1), work})
		}
		got := d.choose(g, 0, limit)
		if got != c.want {
			t.Errorf("%s: domain %d, want %d", c.name, got, c.want)
		}
	}
}

// The domains that groups leave and join have the sum of their work.
func TestLoadIsTheWorkOfTheGroups(t *testing.T) {
	g := &graph{work: []float64{3, 4}}
	d := &division{of: []int32{unassigned, unassigned}, load: make([]float64, 2)}
	d.remove(g, 0) // in no domain yet
	d.assign(g, 0, 1)
	d.assign(g, 1, 1)
	d.remove(g, 0)
	d.assign(g, 0, 0)
	if !slices.Equal(d.load, []float64{3, 4}) || !slices.Equal(d.of, []int32{0, 1}) {
		t.Errorf("loads %v of groups in %v", d.load, d.of)
	}
}

// Several cables between two groups count as one edge. Otherwise the racks that share most would not be
// adjacent.
func TestEdgesAreMerged(t *testing.T) {
	got := merged([]edge{{2, 4}, {1, 2}, {3, 5}, {1, 3}, {3, 1}, {1, 2}})
	want := []edge{{1, 7}, {3, 6}, {2, 4}}
	if !slices.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
}
