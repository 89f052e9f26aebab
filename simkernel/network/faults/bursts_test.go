package faults

import (
	"math"
	"testing"
)

// Bursts of losses have the stated mean length and share, within five standard errors. Both ends of a link
// see the same bursts, regardless of the order in which they ask.
func TestBursts(t *testing.T) {
	const meanNS = 20_000
	const share = 0.2
	for seed := range uint64(5) {
		m := &State{seed: seed}
		f := linkFault{Fault{Link: 3, ToNS: 1 << 60, Share: share, BurstNS: meanNS}, &[askers]burst{}}
		var bursts, lossPS, allPS, fromPS int64
		for atPS := int64(0); bursts < 4000; {
			loses := m.inBurst(&f, atPS, Sending)
			again := m.inBurst(&f, atPS, Arriving)
			if again != loses {
				t.Fatalf("seed %d, at %d: %v and %v", seed, atPS, loses, again)
			}
			fromPS = atPS
			atPS = f.bursts[Sending].untilPS
			if fromPS == 0 { // cut off
				continue
			}
			allPS += atPS - fromPS
			if loses {
				bursts = bursts + 1
				lossPS = lossPS + atPS - fromPS
			}
		}
		mean := float64(lossPS) / float64(bursts) / 1000 // of exponential lengths, as their standard deviation
		far := math.Abs(mean-meanNS) * math.Sqrt(float64(bursts)) / meanNS
		if far > 5 {
			t.Errorf("seed %d: bursts last %v ns on average, %v standard errors off", seed, mean, far)
		}
		got := float64(lossPS) / float64(allPS)
		if far := math.Abs(got-share) / share * math.Sqrt(float64(bursts)/2); far > 5 {
			t.Errorf("seed %d: a share of %v is lost, %v standard errors off", seed, got, far)
		}
	}
}
