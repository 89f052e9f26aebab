package exact

import (
	"math"
	"testing"

	"parsimon/stages/step"
)

// The predicted processor time grows with each of its inputs. Otherwise, an automatic estimate chooses an
// estimator that takes far longer.
func TestCostGrowsWithEachInput(t *testing.T) {
	small := step.WorkloadSize{
		Hosts: 256, Links: 700, Flows: 50_000, Hops: 200_000, PacketHops: 29_000_000, LoadedHops: 60_000,
	}
	for name, change := range map[string]func(w *step.WorkloadSize){
		"hosts":       func(w *step.WorkloadSize) { w.Hosts = 6144 },
		"flows":       func(w *step.WorkloadSize) { w.Flows *= 2 },
		"hops":        func(w *step.WorkloadSize) { w.Hops *= 2 },
		"packet-hops": func(w *step.WorkloadSize) { w.PacketHops *= 2 },
		"windows":     func(w *step.WorkloadSize) { w.Windows = 1e6 },
		"bursts":      func(w *step.WorkloadSize) { w.Active = 10_000 },
		"buffers":     func(w *step.WorkloadSize) { w.Demanding = true },
	} {
		more := small
		change(&more)
		if cost(&more, 2).CPUNS <= cost(&small, 2).CPUNS {
			t.Errorf("more %s cost no more", name)
		}
	}
}

// The gain of workers equals the measured one with two workers.
func TestSpeedupOfTwoWorkersIsMeasured(t *testing.T) {
	for hosts, want := range map[int]float64{256: 1.34, 2048: 1.57, 6144: 1.71} {
		got := speedup(&step.WorkloadSize{Hosts: hosts}, 2)
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%d hosts: two workers are %.2f times as fast, want %.2f", hosts, got, want)
		}
	}
}
