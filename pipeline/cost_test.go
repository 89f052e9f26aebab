package pipeline

import (
	"math"
	"testing"

	"parsimon/simkernel"
	"parsimon/stages/estimators"
)

// The model of processor time finds small networks affordable, and grows with each of its inputs. Otherwise,
// an automatic estimate chooses an estimator that takes far longer.
func TestCostGrowsWithEachInput(t *testing.T) {
	small := workSize{
		hosts: 256, links: 700, flows: 50_000, hops: 200_000, packetHops: 29_000_000, loadedHops: 60_000,
	}
	if !small.affordable() {
		t.Error("a small network is not affordable")
	}
	for name, change := range map[string]func(w *workSize){
		"hosts":       func(w *workSize) { w.hosts = 6144 },
		"flows":       func(w *workSize) { w.flows *= 2 },
		"hops":        func(w *workSize) { w.hops *= 2 },
		"packet-hops": func(w *workSize) { w.packetHops *= 2 },
		"windows":     func(w *workSize) { w.windows = 1e6 },
		"bursts":      func(w *workSize) { w.active = 10_000 },
		"buffers":     func(w *workSize) { w.demanding = true },
	} {
		more := small
		change(&more)
		if more.exactNS(2) <= small.exactNS(2) {
			t.Errorf("more %s cost no more", name)
		}
	}
}

// The gain of workers equals the measured one with two workers, and more cores never take longer.
func TestCostOnSeveralCores(t *testing.T) {
	for hosts, want := range map[int]float64{256: 1.34, 2048: 1.57, 6144: 1.71} {
		w := workSize{hosts: hosts, links: 3 * hosts}
		got := w.exactSpeedup(2)
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%d hosts: two workers are %.2f times as fast, want %.2f", hosts, got, want)
		}
	}
	for _, hosts := range []int{2, 16, 256, 10_000} {
		w := workSize{hosts: hosts, links: 3 * hosts, packetHops: 1e9, flows: 1e5, hops: 4e5, loadedHops: 1e5}
		for _, by := range []estimators.Name{estimators.Exact, estimators.Flow, estimators.Independent} {
			before := w.cost(by, 1)
			if before.Seconds > before.CPUSeconds {
				t.Errorf("%d hosts, %v, one core: %+v", hosts, by, before)
			}
			for cores := 2; cores <= 64; cores *= 2 {
				now := w.cost(by, cores)
				if now.Seconds > before.Seconds || now.CPUSeconds < now.Seconds {
					t.Errorf("%d hosts, %v, %d cores: %+v, and %+v with half as many", hosts, by, cores, now, before)
				}
				before = now
			}
		}
	}
}

// Flows that start together are in the network together. Otherwise, a burst would be predicted to take as
// long as the same flows one after another, which is a third of its time.
func TestBurstIsForecast(t *testing.T) {
	params := simkernel.DefaultParams()
	access := map[int32]float64{}
	for host := range int32(100) {
		access[host] = 25e9
	}
	follow := func(betweenNS float64) *fluid {
		f := &fluid{params: &params, accessBps: access, roundTripNS: 10_000, atHost: map[int32]int{},
			busyUntilNS: math.Inf(-1), flowsOf: 20_000}
		for n := range int32(20_000) {
			f.add(n%100, (n*7+1)%100, 100_000, float64(n)*betweenNS)
		}
		return f
	}
	burst := follow(0)
	spread := follow(100_000)
	active := burst.meanActive()
	if active < 9_000 || active > 11_000 {
		t.Errorf("a burst of 20,000 flows: %.0f in the network on average, want half of them", active)
	}
	active = spread.meanActive()
	if active > 2 {
		t.Errorf("flows one after another: %.1f in the network", active)
	}
	const items = 20_000 * 100 * 4
	few := burst.windows(1_000, items)
	if few > 40_000 {
		t.Errorf("the burst has %.0f windows of 1 µs, but is over in 30 ms", few)
	}
	many := spread.windows(1_000, items)
	if many < 20_000*40*0.9 || many > items {
		t.Errorf("flows of 42 µs one after another have %.0f windows", many)
	}
}

// Figures for people have two digits.
func TestRound(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 0.723: 0.72, 9.96: 10, 123.4: 120, 12_840: 13_000} {
		got := round(x)
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}
