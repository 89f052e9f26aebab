package pipeline

import (
	"testing"

	"parsimon/stages/estimators"
	"parsimon/stages/step"
)

// A small network is simulated as a whole. Otherwise, the default gives a less accurate estimate without
// need.
func TestSmallNetworkIsAffordable(t *testing.T) {
	small := step.WorkloadSize{
		Hosts: 256, Links: 700, Flows: 50_000, Hops: 200_000, PacketHops: 29_000_000,
	}
	if !affordable(&small) {
		t.Error("a small network is not affordable")
	}
}

// No estimator takes longer with more cores, and none takes more time than it uses processors.
func TestMoreCoresTakeNoLonger(t *testing.T) {
	for _, hosts := range []int{2, 16, 256, 10_000} {
		w := step.WorkloadSize{
			Hosts: hosts, Links: 3 * hosts, Flows: 1e5, Hops: 4e5, PacketHops: 1e9,
		}
		for _, by := range estimators.All() {
			before := costOf(by, &w, 1)
			if before.Seconds > before.CPUSeconds {
				t.Errorf("%d hosts, %v, one core: %+v", hosts, by, before)
			}
			for cores := 2; cores <= 64; cores *= 2 {
				now := costOf(by, &w, cores)
				if now.Seconds > before.Seconds || now.CPUSeconds < now.Seconds {
					t.Errorf("%d hosts, %v, %d cores: %+v, and %+v with half as many", hosts, by, cores, now, before)
				}
				before = now
			}
		}
	}
}

// Figures for people have two digits, also in JSON, which had 6.6000000000000005.
func TestRound(t *testing.T) {
	for x, want := range map[float64]float64{
		-1: 0, 0: 0, 0.688: 0.69, 0.723: 0.72, 6.59: 6.6, 9.96: 10, 123.4: 120, 12_840: 13_000,
	} {
		got := round(x)
		if got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}
