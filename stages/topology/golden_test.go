package topology

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// networkDigest covers the nodes, the links, the racks and the paths of 2,000 flows.
func networkDigest(t *testing.T, n *Network) string {
	t.Helper()
	h := fnv.New64a()
	fmt.Fprintln(h, n.Nodes, n.Links, n.Racks(), n.Pods())
	r := MustRouter(t, n, 7)
	rng := rand.New(rand.NewPCG(1, 2))
	hosts := n.Hosts()
	var path []int32
	for f := range int64(2000) {
		path, _ = r.Path(f, hosts[rng.IntN(len(hosts))], hosts[rng.IntN(len(hosts))], path[:0])
		fmt.Fprintln(h, path)
	}
	drawn, err := n.DrawCables(n.Links[len(n.Links)-1].Tier, 1, 3, 4)
	fmt.Fprintln(h, drawn, err)
	return fmt.Sprintf("%016x", h.Sum64())
}

// Every stored result depends on the order of nodes, on link ids and on paths. They must not change by
// accident.
func TestNetworksAndPathsStayTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct {
		name, want string
		network    *Network
	}{
		{"clos", "c47d48c4789fe1e7", MustClos(t, SmallClos(4))},
		{"large", "4cbb49e5f612541a", MustClos(t, LargeClos(2))},
		{"random", "7487c8f9a7731f50", randomNetwork(t, rng)},
	} {
		got := networkDigest(t, c.network)
		if got != c.want {
			t.Errorf(
				"%s: digest %s, want %s: link ids, node order or paths have changed",
				c.name,
				got,
				c.want,
			)
		}
	}
}
