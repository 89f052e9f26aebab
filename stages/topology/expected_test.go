package topology

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The expectation equals the average of Path over many flows per pair of hosts. The networks have multi-homed
// hosts, cables between hosts, failures and unreachable hosts.
func TestExpectedLoadsAreWhatPathsDo(t *testing.T) {
	const flows = 4000
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 4))
		n := randomNetwork(t, rng)
		l := n.Links[rng.IntN(len(n.Links))]
		if err := n.Fail(l.Src, l.Dst); err != nil {
			t.Fatal(err)
		}
		r := MustRouter(t, n, seed)
		// Two or three groups of hosts.
		groups := make([][]int32, 2+rng.IntN(2))
		for i, h := range n.Hosts() {
			g := i % len(groups)
			groups[g] = append(groups[g], h)
		}
		if len(groups[len(groups)-1]) == 0 {
			groups = groups[:len(groups)-1]
		}
		weights := make([]float64, len(groups)*len(groups))
		for i := range weights {
			weights[i] = rng.Float64()
			if i/len(groups) == i%len(groups) && len(groups[i/len(groups)]) < 2 {
				weights[i] = 0
			}
		}
		weight := func(i, j int) float64 { return weights[i*len(groups)+j] }
		got := r.ExpectedLoads(groups, weight)
		want := make([]float64, len(n.Links))
		var path []int32
		var err error
		for i, from := range groups {
			for j, to := range groups {
				pairs := len(from) * len(to)
				if i == j {
					pairs -= len(from)
				}
				for _, a := range from {
					for _, b := range to {
						if a == b {
							continue
						}
						each := weight(i, j) / float64(pairs)
						for f := range int64(flows) {
							if path, err = r.Path(f+int64(a)<<20+int64(b)<<40, a, b, path[:0]); err != nil {
								break
							}
							for _, l := range path {
								want[l] += each / flows
							}
						}
					}
				}
			}
		}
		for l := range want {
			// A choice is a coin that is tossed 4,000 times per pair. The limit is five standard deviations
			// of the worst case.
			d := math.Abs(got[l] - want[l])
			if d > 1e-9 && d > 5*math.Sqrt(0.25/flows)*want[l]+1e-6 {
				t.Errorf(
					"seed %d: link %d (%d → %d): %v expected, %v measured",
					seed,
					l,
					n.Links[l].Src,
					n.Links[l].Dst,
					got[l],
					want[l],
				)
			}
		}
	}
}

// Weight is conserved at every node. It enters where hosts send it, leaves where they receive it, and passes
// all other nodes.
func TestExpectedLoadsAreConserved(t *testing.T) {
	n := MustClos(t, SmallClos(2))
	if err := n.Fail(288, 292); err != nil {
		t.Fatal(err)
	}
	r := MustRouter(t, n, 1)
	weight := func(i, j int) float64 { return float64(1 + (7*i+3*j)%11) }
	racks := len(n.Racks())
	e := r.ExpectedLoads(n.Racks(), weight)
	total := 0.0
	for i := range racks {
		for j := range racks {
			total += weight(i, j)
		}
	}
	in := make([]float64, len(n.Nodes))
	out := make([]float64, len(n.Nodes))
	for l, x := range e {
		if n.Links[l].Failed && x != 0 {
			t.Errorf("failed link %d carries %v", l, x)
		}
		out[n.Links[l].Src] += x
		in[n.Links[l].Dst] += x
	}
	sent := 0.0
	received := 0.0
	for i, v := range n.Nodes {
		if v.Kind == KindHost {
			sent += out[i]
			received += in[i]
		} else if math.Abs(in[i]-out[i]) > 1e-9*total {
			t.Errorf("node %d: %v in, %v out", v.ID, in[i], out[i])
		}
	}
	if math.Abs(sent-total) > 1e-9*total || math.Abs(received-total) > 1e-9*total {
		t.Errorf("sent %v and received %v of %v", sent, received, total)
	}
}
