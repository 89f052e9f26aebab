package workload

import (
	"math"
	"slices"
	"testing"
)

// One rack in ten of a web server cluster is spare: it has a tenth of the traffic of others, which differ
// little between web racks, and more between caches. Without such racks, links of a cluster would have
// similar loads.
func TestPopularityOfWebServerRacks(t *testing.T) {
	const racks = 6000
	weight := webServerCell(1, racks, 1)
	for _, c := range []struct {
		name           string
		from, to, peer int // the racks of a role, and one of another role
		sigma          float64
	}{
		{"web racks", 0, 4000, 5000, math.Hypot(0.05, 0.05)},
		{"caches", 4000, 5500, 17, math.Hypot(0.45, 0.05)},
	} {
		var logs []float64
		for i := c.from; i < c.to; i++ {
			logs = append(logs, math.Log(weight(i, c.peer)))
		}
		slices.Sort(logs)
		n := len(logs)
		// The quartiles of a normal distribution are 0.6745 σ from its median. Spare racks are the lowest tenth.
		usual := logs[n/10:]
		sigma := (usual[len(usual)*3/4] - usual[len(usual)/4]) / (2 * 0.6745)
		if math.Abs(sigma/c.sigma-1) > 0.06 {
			t.Errorf("%s: their weights have a σ of %.4f, want %.4f", c.name, sigma, c.sigma)
		}
		if c.name == "caches" { // some of those that are not spare have as little traffic
			continue
		}
		median := usual[len(usual)/2]
		spare := 0
		sum := 0.0
		for _, x := range logs {
			if x < median-1 {
				spare++
				sum += x - median
			}
		}
		share := float64(spare) / float64(n)
		if math.Abs(share-0.1) > 0.012 || math.Abs(math.Exp(sum/float64(spare))-0.1) > 0.005 {
			t.Errorf("%s: a share of %.3f is spare, with %.3f of the traffic", c.name, share,
				math.Exp(sum/float64(spare)))
		}
	}
}
