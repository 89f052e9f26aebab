package exact

import (
	"testing"

	"parsimon/stages/step"
)

// The predicted processor time grows with each of its inputs. Otherwise, an automatic estimate chooses an
// estimator that takes far longer.
func TestCostGrowsWithEachInput(t *testing.T) {
	small := step.WorkloadSize{
		Hosts: 256, Links: 700, Flows: 50_000, Hops: 200_000, PacketHops: 29_000_000,
	}
	for name, change := range map[string]func(w *step.WorkloadSize){
		"hosts":         func(w *step.WorkloadSize) { w.Hosts = 6144 },
		"hops":          func(w *step.WorkloadSize) { w.Hops *= 2 },
		"packet-hops":   func(w *step.WorkloadSize) { w.PacketHops *= 2 },
		"windows":       func(w *step.WorkloadSize) { w.Windows = 1e6 },
		"bursts":        func(w *step.WorkloadSize) { w.Active = 10_000 },
		"waiting flows": func(w *step.WorkloadSize) { w.Waiting = 50_000 },
		"buffers":       func(w *step.WorkloadSize) { w.Limited = true },
		"TCP":           func(w *step.WorkloadSize) { w.AckClocked = true },
		"paths":         func(w *step.WorkloadSize) { w.Moving = true },
	} {
		more := small
		change(&more)
		if cost(&more, 2).CPUNS <= cost(&small, 2).CPUNS {
			t.Errorf("more %s cost no more", name)
		}
	}
}
