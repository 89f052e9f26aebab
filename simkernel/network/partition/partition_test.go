package partition

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// If a domain were empty, or a host apart from its switch, workers would wait for domains without work. A
// division of a random network uses all numbers from 0 on, has at most the requested number of domains, and
// keeps hosts with their first switch.
func TestEveryDomainHasNodesAndHostsTheirSwitch(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		switches := 1 + rng.IntN(12)
		count := rng.IntN(40)
		hosts := make([]bool, switches+count)
		var links []Link
		cable := func(a, b int) {
			for range 2 {
				links = append(links, Link{int32(a), int32(b), rng.Float64(), 1 + rng.Int64N(1000)})
				a, b = b, a
			}
		}
		for s := 1; s < switches; s++ {
			cable(s, rng.IntN(s))
		}
		first := map[int]int{}
		for h := switches; h < len(hosts); h++ {
			hosts[h] = true
			first[h] = rng.IntN(switches)
			cable(h, first[h])
		}
		domains := 1 + rng.IntN(6)
		of := Divide(links, hosts, domains)
		seen := map[int32]bool{}
		for _, domain := range of {
			seen[domain] = true
		}
		if len(of) != len(hosts) || len(seen) > domains || int(slices.Max(of)) != len(seen)-1 ||
			slices.Min(of) != 0 {
			t.Fatalf("seed %d, %d domains: %v", seed, domains, of)
		}
		for host, toSwitch := range first {
			if of[host] != of[toSwitch] {
				t.Fatalf("seed %d: host %d is in domain %d, its switch in %d", seed, host, of[host], of[toSwitch])
			}
		}
	}
}

// Two pods of equal racks become the two domains, for any order of the nodes: only the links of the spine
// connect them.
func TestPodsAreNotDivided(t *testing.T) {
	const pods, racks = 2, 4
	const spine = pods * (racks + 1)
	for seed := range uint64(20) {
		number := rand.New(rand.NewPCG(seed, 2)).Perm(spine + 1 + pods*racks)
		hosts := make([]bool, len(number))
		var links []Link
		cable := func(a, b int, work float64) {
			links = append(links, Link{int32(number[a]), int32(number[b]), work, 1000},
				Link{int32(number[b]), int32(number[a]), work, 1000})
		}
		podOf := map[int]int{}
		for pod := range pods {
			fabric := pod * (racks + 1)
			cable(fabric, spine, 1)
			podOf[fabric] = pod
			for rack := range racks {
				tor := fabric + 1 + rack
				host := spine + 1 + pod*racks + rack
				hosts[number[host]] = true
				cable(tor, fabric, 10)
				cable(host, tor, 10)
				podOf[tor] = pod
				podOf[host] = pod
			}
		}
		of := Divide(links, hosts, pods)
		for node, pod := range podOf {
			if pod == 0 && of[number[node]] != of[number[0]] || pod == 1 && of[number[node]] == of[number[0]] {
				t.Fatalf("seed %d: node %d of pod %d is in domain %d: %v", seed, node, pod, of[number[node]], of)
			}
		}
	}
}
