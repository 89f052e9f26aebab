package workload_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/stages/rng/rngtest"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

func TestGenerateKeepsItsWord(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(2))
	w := mixedWorkload(t, 200_000)
	got, plan := mustGenerate(t, n, w, 1)
	if len(got.ID) != 200_000 {
		t.Fatalf("%d flows", len(got.ID))
	}
	for i := range got.ID {
		v, ok := n.Node(got.Src[i])
		u, ok2 := n.Node(got.Dst[i])
		switch {
		case got.ID[i] != int64(i):
			t.Fatalf("flow %d has id %d", i, got.ID[i])
		case got.Size[i] < 1:
			t.Fatalf("flow %d has size %d", i, got.Size[i])
		case got.Src[i] == got.Dst[i]:
			t.Fatalf("flow %d goes from host %d to itself", i, got.Src[i])
		case !ok || !ok2 || v.Kind != topology.KindHost || u.Kind != topology.KindHost:
			t.Fatalf("flow %d goes from %v to %v", i, v, u)
		case i > 0 && got.Start[i] < got.Start[i-1]:
			t.Fatalf("flow %d starts before the one before it", i)
		case got.VNet[i] != map[string]string{"db": "blue", "web": "green", "hadoop": "blue"}[got.Service[i]]:
			t.Fatalf("flow %d of service %q is in %q", i, got.Service[i], got.VNet[i])
		}
	}
	bytesPerSecond := 0.0
	for i, s := range w.Services {
		bytesPerSecond += plan.ServiceFlowsPerSecond[i] * s.Sizes.Mean()
	}
	for i, s := range w.Services {
		share := map[string]float64{"db": 0.25, "web": 0.25, "hadoop": 0.5}[s.Name]
		r := plan.ServiceFlowsPerSecond[i] * s.Sizes.Mean() / bytesPerSecond
		if math.Abs(r-share) > 1e-12 {
			t.Errorf("service %s has %v of the bytes, want %v", s.Name, r, share)
		}
	}
	d := math.Abs(plan.MaxLoad - 0.5)
	if d > 1e-9 ||
		plan.LinkLoad[plan.MaxLink] != plan.MaxLoad {
		t.Errorf("expected load of the most loaded link is %v", plan.MaxLoad)
	}
	for l, x := range plan.LinkLoad {
		if x > 0.5+1e-9 {
			t.Errorf("link %d is expected to carry %v", l, x)
		}
	}
	for _, rows := range got.Batches[:len(got.Batches)-1] {
		if rows < 1 || rows > columns.BatchRows {
			t.Errorf("a batch of %d rows", rows)
		}
	}
}

// Inter-arrival times are log-normal with the given mean and shape, and sizes have the mean of the
// distribution. Racks have their weights, and the hosts of a rack have equal parts.
func TestGenerateDistributions(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(2))
	m := mustMatrix(t, workload.MatrixHadoop, 2, 16)
	const flows = 400_000
	for _, sigma := range []float64{1, 2} {
		w := &workload.Workload{MaxLoad: 0.3, Flows: flows, Services: []workload.Service{
			{Name: "web", Matrix: m, Sizes: shippedSizes(t, "webserver"), Sigma: sigma, Share: 1}}}
		got, plan := mustGenerate(t, n, w, 5)
		var sum, squares float64
		logs := 0
		last := int64(0)
		var bytes float64
		rackPairs := make([]float64, 32*32)
		hosts := make([]int, 256)
		for i, start := range got.Start {
			gap := start - last
			last = start
			if gap > 0 { // starts are whole ns
				x := math.Log(float64(gap))
				sum += x
				squares += x * x
				logs++
			}
			bytes += float64(got.Size[i])
			rackPairs[got.Src[i]/8*32+got.Dst[i]/8]++
			hosts[got.Src[i]]++
		}
		wantGap := 1e9 / plan.ServiceFlowsPerSecond[0]
		meanGap := float64(last) / flows
		r := meanGap / wantGap
		tol := 5 * math.Sqrt((math.Exp(sigma*sigma)-1)/flows)
		if math.Abs(r-1) > tol {
			t.Errorf("σ %v: mean inter-arrival %.1f ns, want %.1f ± %.1f%%", sigma, meanGap, wantGap, 100*tol)
		}
		mean := sum / float64(logs)
		if got := math.Sqrt(squares/float64(logs) - mean*mean); math.Abs(got-sigma) > 0.02*sigma {
			t.Errorf("σ %v: recovered %.3f", sigma, got)
		}
		if r := bytes / flows / w.Services[0].Sizes.Mean(); math.Abs(r-1) > 0.05 {
			t.Errorf("mean size is %.3f of what is expected", r)
		}
		total := 0.0
		for i := range 32 {
			for j := range 32 {
				total += m.Weight(i, j)
			}
		}
		for k, x := range rackPairs {
			want := m.Weight(k/32, k%32) / total * flows
			if math.Abs(x-want) > 5.5*math.Sqrt(want)+1 {
				t.Errorf("racks %d → %d: %v flows, want %.0f", k/32, k%32, x, want)
			}
		}
		for r := range 32 {
			in := hosts[8*r : 8*r+8]
			k := 0
			for _, h := range in {
				k += h
			}
			rngtest.ChiSquare(t, "hosts of a rack", in, k)
		}
	}
}

// The expected loads are those of the generated flows, within sampling error.
func TestExpectedLoadsAreRealised(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	r := topologytest.MustRouter(t, n, 11)
	// One size, so that loads scatter as the square root of their flows.
	w := &workload.Workload{MaxLoad: 0.6, Flows: 200_000, Services: []workload.Service{
		{Name: "a", Matrix: mustMatrix(t, workload.MatrixDatabase, 2, 16),
			Sizes: mustSizes(t, workload.SizePoint{1000, 100}), Sigma: 0, Share: 1},
		{Name: "b", Matrix: mustMatrix(t, workload.MatrixHadoop, 2, 16),
			Sizes: mustSizes(t, workload.SizePoint{1000, 100}), Sigma: 0, Share: 3}}}
	out := &flowTable{T: t}
	plan, err := workload.Generate(context.Background(), r, w, 11, out)
	if err != nil {
		t.Fatal(err)
	}
	carried := make([]float64, len(n.Links))
	var path []int32
	for i, id := range out.ID {
		if path, err = r.Path(id, out.Src[i], out.Dst[i], path[:0]); err != nil {
			t.Fatal(err)
		}
		for _, l := range path {
			carried[l]++
		}
	}
	seconds := float64(out.Start[len(out.Start)-1]) / 1e9
	off := 0
	for l, x := range carried {
		want := plan.LinkLoad[l] * float64(n.Links[l].BandwidthBps) * seconds / 8000
		d := math.Abs(x - want)
		if d > 5*math.Sqrt(want)+1 {
			t.Errorf("link %d: %v flows, %.1f expected", l, x, want)
		} else if d > 2*math.Sqrt(want) {
			off++
		}
	}
	if off > len(carried)/10 {
		t.Errorf("%d of %d links are more than two standard deviations off", off, len(carried))
	}
}

func TestGenerateIsReproducible(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(2))
	a, _ := mustGenerate(t, n, mixedWorkload(t, 30_000), 1)
	b, _ := mustGenerate(t, n, mixedWorkload(t, 30_000), 1)
	if !slices.Equal(a.Start, b.Start) || !slices.Equal(a.Src, b.Src) || !slices.Equal(a.Dst, b.Dst) ||
		!slices.Equal(a.Size, b.Size) || !slices.Equal(a.Service, b.Service) {
		t.Error("the same seed gave other flows")
	}
	c, _ := mustGenerate(t, n, mixedWorkload(t, 30_000), 2)
	if slices.Equal(a.Start, c.Start) || slices.Equal(a.Src, c.Src) {
		t.Error("another seed gave the same flows")
	}
	// A workload with more flows begins with the same ones.
	d, _ := mustGenerate(t, n, mixedWorkload(t, 70_000), 1)
	if !slices.Equal(a.Start, d.Start[:30_000]) || !slices.Equal(a.Size, d.Size[:30_000]) {
		t.Error("asking for more flows changed the first")
	}
	// With a duration, the workload has the flows that start before its end.
	w := mixedWorkload(t, 0)
	w.DurationNS = d.Start[50_000]
	e, _ := mustGenerate(t, n, w, 1)
	k := len(e.ID)
	if k > 50_000 || !slices.Equal(e.Start, d.Start[:k]) || d.Start[k] < w.DurationNS {
		t.Errorf("%d flows before %d ns", k, w.DurationNS)
	}
	// With both, it ends with the first of them.
	w.Flows = 40_000
	e, _ = mustGenerate(t, n, w, 1)
	if !slices.Equal(e.Start, d.Start[:40_000]) {
		t.Errorf("%d flows, want 40,000", len(e.ID))
	}
	// If a service is removed, the others draw the same pairs and sizes.
	alone := mixedWorkload(t, 5_000)
	alone.Services = alone.Services[1:2]
	f, _ := mustGenerate(t, n, alone, 1)
	var sizes []int64
	for i, s := range d.Service {
		if s == "web" {
			sizes = append(sizes, d.Size[i])
		}
	}
	if k := min(len(sizes), len(f.Size)); !slices.Equal(sizes[:k], f.Size[:k]) {
		t.Error("the flows of a service depend on other services")
	}
}

// evenMatrix returns a matrix of equal weights.
func evenMatrix(t *testing.T, racks int) *workload.Matrix {
	t.Helper()
	m, err := workload.NewMatrix(slices.Repeat([][]float64{slices.Repeat([]float64{1}, racks)}, racks))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGenerateOnRacksOfAService(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(2))
	w := &workload.Workload{MaxLoad: 0.4, DurationNS: 20_000_000, Services: []workload.Service{
		{Name: "a", Sizes: mustSizes(t, workload.SizePoint{0, 0}, workload.SizePoint{5000, 100}), Sigma: 1,
			Share: 1, Racks: []int{3, 20}},
		{Name: "b", Sizes: mustSizes(t, workload.SizePoint{100, 100}), Sigma: 1, Share: 1, Racks: []int{7},
			Matrix: evenMatrix(t, 1)}}}
	got, _ := mustGenerate(t, n, w, 1)
	for i, s := range got.Service {
		from := got.Src[i] / 8
		to := got.Dst[i] / 8
		if s == "a" && (from+to != 23 || from != 3 && from != 20) || s == "b" && (from != 7 || to != 7) {
			t.Fatalf("a flow of %s goes from rack %d to %d", s, from, to)
		}
	}
	if len(got.ID) == 0 || got.Start[len(got.ID)-1] >= 20_000_000 {
		t.Errorf("%d flows until %v ns", len(got.ID), got.Start)
	}
}

func TestGenerateRefuses(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	r := topologytest.MustRouter(t, n, 1)
	for want, change := range map[string]func(*workload.Workload){
		"a duration or": func(w *workload.Workload) { w.Flows = 0 },
		"has 2 racks":   func(w *workload.Workload) { w.Services[0].Matrix = evenMatrix(t, 2) },
		"146 years":     func(w *workload.Workload) { w.MaxLoad = 1e-18 },
		"no two hosts exchange": func(w *workload.Workload) {
			w.Services[0].Matrix = nil
			w.Services[0].Racks = []int{}
		},
	} {
		w := mixedWorkload(t, 1000)
		change(w)
		if _, err := workload.Generate(context.Background(), r, w, 1, &flowTable{T: t}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := workload.Generate(ctx, r, mixedWorkload(t, 1000), 1,
		&flowTable{T: t}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkGenerate(b *testing.B) {
	for _, c := range []struct {
		name string
		spec topology.ClosSpec
	}{{"small", topologytest.SmallClos(2)}, {"large", topologytest.LargeClos(2)}} {
		b.Run(c.name, func(b *testing.B) {
			n := topologytest.MustClos(b, c.spec)
			r := topologytest.MustRouter(b, n, 1)
			w := &workload.Workload{MaxLoad: 0.5, Flows: 1_000_000, Services: []workload.Service{
				{Name: "web", Matrix: mustMatrix(b, workload.MatrixWebServer, c.spec.Pods,
					c.spec.RacksPerPod), Sizes: shippedSizes(b, "webserver"), Sigma: 2, Share: 1}}}
			for b.Loop() {
				if _, err := workload.Generate(context.Background(), r, w, 1, nullSink{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(1e3*b.Elapsed().Seconds()/float64(b.N), "ns/flow")
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	n := topologytest.MustClos(b, topologytest.LargeClos(2))
	r := topologytest.MustRouter(b, n, 1)
	w := &workload.Workload{MaxLoad: 0.5, Flows: 1_000_000, Services: []workload.Service{
		{Name: "web", Matrix: mustMatrix(b, workload.MatrixWebServer, 8, 48),
			Sizes: shippedSizes(b, "webserver"), Sigma: 2, Share: 1}}}
	for b.Loop() {
		p, err := workload.NewPlan(r, w)
		if err != nil {
			b.Fatal(err)
		}
		loads := slices.Sorted(slices.Values(p.LinkLoad))
		mean := func(s []float64) (m float64) {
			for _, x := range s {
				m += x / float64(len(s))
			}
			return m
		}
		b.ReportMetric(100*mean(loads[len(loads)-100:]), "%top100")
		b.ReportMetric(100*mean(loads[len(loads)*9/10:]), "%top10%")
		b.ReportMetric(p.ServiceFlowsPerSecond[0]/1e6, "Mflows/s")
	}
}
