package pipeline

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/estimators"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// estimateWindows estimates windows of a base, until the test ends.
func estimateWindows(t *testing.T, base *Estimation, w Windows) *Estimation {
	t.Helper()
	derived, err := DeriveWindows(t.Context(), base, w, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { derived.Close() })
	if err := derived.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return derived
}

// Parts that overlap are one, and none reaches beyond the workload.
func TestParts(t *testing.T) {
	w := Windows{Spans: [][2]int64{{100, 200}, {215, 300}, {900, 990}}, WarmupNS: 10, CooldownNS: 10}
	if got, want := w.Parts(95, 995), [][2]int64{{95, 310}, {890, 996}}; !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
}

// star is a fluid of hosts with two links each, out and in, at one switch.
func star(bps map[int32]int64) *fluid {
	const goodput = 1000.0 / 1048
	f := &fluid{links: make([]fluidLink, 2*len(bps)+2), stepNS: fluidStepNS, ackShare: 60.0 / 1048}
	for host, bps := range bps {
		capacity := goodput * float64(bps) * float64(fluidStepNS) / 8e9
		f.links[2*host].capacity, f.links[2*host+1].capacity = capacity, capacity
	}
	f.path = func(r *workload.Row) []int32 { return []int32{2 * r.Src, 2*r.Dst + 1} }
	return f
}

// Two flows of one sender have half of its payload bandwidth each, until the shorter one ends. A flow begins with the
// step after its start.
func TestFluid(t *testing.T) {
	const bps, step = 8_000_000_000 * 1.048, float64(fluidStepNS) // a byte of payload per ns
	f := star(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e6})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 1, Dst: 3}, remaining: 4e5})
	for _, at := range []struct {
		ns     int64
		active int
		left   float64 // of flow 1
	}{{400_000, 2, 8e5 + step/2}, {800_000 + fluidStepNS, 1, 6e5}, {1_400_000 + fluidStepNS, 0, 0}} {
		f.advance(at.ns)
		if len(f.active) != at.active || at.active > 0 && math.Abs(f.active[0].remaining-at.left) > 1 {
			t.Errorf("at %d ns: %d flows, %+v", at.ns, len(f.active), f.active)
		}
	}
}

// A flow that can use a quarter of its sender's bandwidth leaves the rest to another one.
func TestFluidDivides(t *testing.T) {
	const bps = 8_000_000_000 * 1.048
	f := star(map[int32]int64{1: bps, 2: bps / 4, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e6})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 1, Dst: 3}, remaining: 1e6})
	f.advance(1_000_000 + fluidStepNS)
	if left := f.active[1].remaining; left < 2.5e5 || left > 3.2e5 { // three rounds give 11 of 12 parts of it
		t.Errorf("%v bytes are left, want about 250,000", left)
	}
}

// A host that receives at full rate sends less by the ACKs.
func TestFluidACKs(t *testing.T) {
	const bps = 8_000_000_000 * 1.048 // a byte of payload per ns
	f := star(map[int32]int64{1: bps, 2: bps, 3: bps})
	f.add(0, carried{Row: workload.Row{ID: 1, Src: 1, Dst: 2}, remaining: 1e7})
	f.add(0, carried{Row: workload.Row{ID: 2, Src: 3, Dst: 1}, remaining: 1e7})
	f.advance(1_000_000)
	want := 1e7 - 1e6*(1-f.ackShare)
	if left := f.active[0].remaining; math.Abs(left-want) > 2*float64(fluidStepNS) {
		t.Errorf("%v bytes are left, want about %v", left, want)
	}
}

// Flows that are active when a part begins begin at times of their own in the first eighth of the warm-up, with what they
// have left then. Those that have ended by then do not.
func TestCarriedFlowsBeginApart(t *testing.T) {
	const bps, warmupNS = 8_000_000_000 * 1.048, int64(2_000_000) // a byte of payload per ns
	hosts := map[int32]int64{}
	c := carrier{windows: Windows{WarmupNS: warmupNS}, parts: [][2]int64{{1_000_000, 6_000_000}}}
	for i := range int32(200) {
		hosts[i] = bps
	}
	c.fluid = star(hosts)
	for i := range int32(100) {
		bytes := 5e6
		if i%2 == 1 {
			bytes = 1_100_000 // has ended at 1,120,000 ns
		}
		c.fluid.add(0, carried{Row: workload.Row{ID: int64(i), Src: i, Dst: 100 + i}, remaining: bytes})
	}
	if err := c.begin(1_000_000); err != nil {
		t.Fatal(err)
	}
	c.drain(1_250_000)
	short, mean := 0, 0.0
	for _, x := range c.held {
		if x.StartNS < 1_000_000 || x.StartNS > 1_250_000 {
			t.Errorf("flow %d begins at %d ns", x.ID, x.StartNS)
		}
		want := 5e6
		if x.ID%2 == 1 {
			short, want = short+1, 1.1e6
		}
		if want -= float64(x.StartNS); math.Abs(float64(x.SizeBytes)-want) > 2.1*float64(fluidStepNS) {
			t.Errorf("flow %d has %.0f bytes at %d ns, want about %.0f", x.ID, float64(x.SizeBytes), x.StartNS, want)
		}
		mean += float64(x.StartNS) / float64(len(c.held))
	}
	if n := len(c.held); n-short != 50 || short < 15 || short > 35 || math.Abs(mean-1.105e6) > 0.02e6 {
		t.Errorf("%d flows begin, %d of them short, on average at %.0f ns", n, short, mean)
	}
}

// Large flows are followed in long steps until shortly before a part, without small ones, and have about the bytes then
// that they have with all flows and short steps.
func TestFlowsFarBeforeAPart(t *testing.T) {
	const bps = 8_000_000_000 * 1.048 // a byte of payload per ns
	hosts := map[int32]int64{}
	for i := range int32(12) {
		hosts[i] = bps
	}
	c := carrier{windows: Windows{WarmupNS: 800_000, LongestBytes: 6_400_000}, parts: [][2]int64{{100_000_000, 103_000_000}},
		longestNS: 6_400_000, fluid: star(hosts)}
	for i := range int32(8) { // they share the sender until 101.2 ms
		if err := c.add(workload.Row{ID: int64(i), Src: 1, Dst: 2 + i, SizeBytes: 6_400_000, StartNS: 50_000_000}); err != nil {
			t.Fatal(err)
		}
	}
	small := workload.Row{ID: 8, Src: 1, Dst: 2, SizeBytes: 90_000, StartNS: 50_000_000}
	near := workload.Row{ID: 9, Src: 10, Dst: 11, SizeBytes: 90_000, StartNS: 99_990_000}
	if err := errors.Join(c.add(small), c.add(near), c.begin(100_000_000)); err != nil {
		t.Fatal(err)
	}
	flows := 0
	c.fluid.each(func(x *carried) {
		if flows++; x.ID < 8 && math.Abs(x.remaining-162_500) > 15_000 {
			t.Errorf("flow %d has %.0f bytes, want 150,000 to 175,000", x.ID, x.remaining)
		}
	})
	if flows != 9 || c.fluid.stepNS != fluidStepNS {
		t.Errorf("%d flows in steps of %d ns, want 9 of %d", flows, c.fluid.stepNS, fluidStepNS)
	}
}

// A flow sends nothing before its start, also if it starts in a long step that ends early.
func TestFlowsInAShortenedStep(t *testing.T) {
	f := star(map[int32]int64{0: 8_000_000_000 * 1.048, 1: 8_000_000_000 * 1.048}) // a byte of payload per ns
	f.pace(0, farSteps*fluidStepNS)
	f.add(190_000, carried{Row: workload.Row{Src: 0, Dst: 1, SizeBytes: 300_000, StartNS: 190_000}, remaining: 300_000})
	f.pace(195_000, fluidStepNS)
	f.advance(220_000)
	f.each(func(c *carried) {
		if sent := 300_000 - c.remaining; sent < 10_000 || sent > 30_000 {
			t.Errorf("%.0f bytes sent in 30 µs", sent)
		}
	})
}

// Rows are written in the order of their starts, also where nothing starts while active flows begin.
func TestWindowsKeepTheOrder(t *testing.T) {
	lines := []string{"src,dst,size_bytes,start_ns,service,vnet"}
	for burst := range 40 {
		for i := range 30 {
			lines = append(lines, fmt.Sprintf("%d,%d,%d,%d,,", i%4, 4+(i*3)%4, 1000+i*500, burst*2_000_000+i*5000))
		}
		lines = append(lines, fmt.Sprintf("%d,%d,6000000,%d,,", burst%4, 4+burst%4, burst*2_000_000+1000))
	}
	flows := filepath.Join(t.TempDir(), "flows.csv")
	if err := os.WriteFile(flows, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	topology, _ := fixture.Trace(t, 100)
	o := options{Lake: t.TempDir(), Variant: whole}
	base := estimate(t, topology, flows, o)
	w := Windows{WarmupNS: 800_000, CooldownNS: 500_000, LongestBytes: 6_000_000}
	for k := range int64(12) {
		w.Spans = append(w.Spans, [2]int64{(3 + 6*k) * 1_000_000, (4 + 6*k) * 1_000_000})
	}
	derived := estimateWindows(t, base, w)
	in, err := derived.Read(schema.Flows)
	if err != nil {
		t.Fatal(err)
	}
	last, rows, carried := int64(0), 0, 0
	err = columns.ForEach(in, func(rec arrow.Record) error {
		size := columns.Int64s(rec, "size_bytes")
		for i, ns := range columns.Int64s(rec, "start_ns") {
			if ns < last {
				t.Errorf("row %d starts at %d ns, after one that starts at %d ns", rows, ns, last)
			}
			if last, rows = ns, rows+1; size[i] > 100_000 && size[i] != 6_000_000 {
				carried++
			}
		}
		return nil
	})
	if err != nil || carried == 0 {
		t.Errorf("%v, %d of %d rows are carried", err, carried, rows)
	}
}

// Flows that outlast their part, most of them several times, take about as long as in the whole, beside flows that
// start after the part.
func TestOutlasting(t *testing.T) {
	lines := []string{"src,dst,size_bytes,start_ns,service,vnet"}
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("%d,%d,3000000,%d,,", i*3%8, (i*3+1+i*5%7)%8, i*500_000))
	}
	flows := filepath.Join(t.TempDir(), "flows.csv")
	if err := os.WriteFile(flows, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	topology, _ := fixture.Trace(t, 100)
	base := estimate(t, topology, flows, options{Lake: t.TempDir(), Variant: whole})
	want := map[int64]int64{}
	fcts := func(e *Estimation, do func(id, start, ideal, fct int64)) {
		in, err := e.Read(schema.Slowdowns)
		if err == nil {
			err = columns.Each(in, func(r *tables.SlowdownRow) error {
				do(r.FlowID, r.StartNS, r.IdealNS, r.FCTNS)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fcts(base, func(id, _, _, fct int64) { want[id] = fct })
	w := Windows{WarmupNS: 1_500_000, CooldownNS: 500_000, LongestBytes: 3_000_000}
	for k := range int64(30) {
		w.Spans = append(w.Spans, [2]int64{(2 + 6*k) * 1_000_000, (3 + 6*k) * 1_000_000})
	}
	derived := estimateWindows(t, base, w)
	var ratios []float64
	fcts(derived, func(id, start, ideal, fct int64) {
		if fct < ideal {
			t.Errorf("flow %d takes %d ns, alone %d", id, fct, ideal)
		}
		if after := (start/1_000_000+1)*1_000_000 + w.CooldownNS - start; fct > after {
			ratios = append(ratios, float64(fct-after)/float64(want[id]-after))
		}
	})
	slices.Sort(ratios)
	off, err := derived.FluidError()
	if n := len(ratios); err != nil || n < 40 || math.Abs(ratios[n/2]-1) > 0.05 || ratios[n/10] < 0.9 || ratios[n-n/10] > 1.1 || off > 0.1 {
		t.Errorf("%d flows outlast their parts, for %v of the time of the whole; error %v (%v)", n, ratios, off, err)
	}
}

// Percentiles of all windows together against those of the same flows in the whole, by transport: no window is drawn, so
// this is the bias of windows alone. With -v, by size of the flows.
func TestBiasOfWindows(t *testing.T) {
	dir := t.TempDir()
	fixture.WriteFile(t, filepath.Join(dir, "sizes.txt"), "200 20\n1000 40\n5000 60\n20000 75\n100000 90\n1000000 99\n3000000 100\n")
	for _, c := range []struct {
		transport string
		most      []float64 // error of p50, p90, p99 and p99.9 of all flows
	}{
		{"dctcp", []float64{0.02, 0.02, 0.04, 0.08}}, {"dcqcn", []float64{0.03, 0.04, 0.06, 0.1}},
		{"timely", []float64{0.03, 0.04, 0.06, 0.1}}, {"hpcc", []float64{0.03, 0.04, 0.08, 0.1}},
		{"swift", []float64{0.02, 0.02, 0.04, 0.08}},
	} {
		t.Run(c.transport, func(t *testing.T) {
			file := filepath.Join(dir, c.transport+".yaml")
			fixture.WriteFile(t, file, `topology:
  clos: {pods: 2, racks_per_pod: 2, hosts_per_rack: 2, planes: 1, spines_per_plane: 1,
         host_bandwidth: 10Gbps, fabric_bandwidth: 40Gbps, host_delay: 1us, fabric_delay: 1us}
workload: {max_load: 50%, duration: 100ms, services: [{name: all, matrix: uniform, sizes: sizes.txt, sigma: 1.5}]}
transport: {kind: `+c.transport+"}\n")
			s, err := scenario.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			base := estimateScenario(t, s, options{Lake: t.TempDir(), Variant: whole})
			g, err := base.Generated()
			if err != nil {
				t.Fatal(err)
			}
			slowdowns := map[int64]float64{}
			read := func(e *Estimation, do func(r *tables.SlowdownRow)) {
				in, err := e.Read(schema.Slowdowns)
				if err == nil {
					err = columns.Each(in, func(r *tables.SlowdownRow) error { do(r); return nil })
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			read(base, func(r *tables.SlowdownRow) { slowdowns[r.FlowID] = r.Slowdown })
			const ns, apart = int64(1_000_000), 4 // parts of three windows, which do not touch
			var inWindows, inWhole [sizebin.Count + 1][]float64
			for first := range int64(apart) {
				w := Windows{WarmupNS: ns, CooldownNS: ns, LongestBytes: 3_000_000}
				for at := g.FirstStartNS + (1+first)*ns; at+2*ns < g.LastStartNS; at += apart * ns {
					w.Spans = append(w.Spans, [2]int64{at, at + ns})
				}
				read(estimateWindows(t, base, w), func(r *tables.SlowdownRow) {
					for _, bin := range []int{sizebin.Of(r.SizeBytes), sizebin.Count} {
						inWindows[bin] = append(inWindows[bin], r.Slowdown)
						inWhole[bin] = append(inWhole[bin], slowdowns[r.FlowID])
					}
				})
			}
			for bin := range inWindows {
				slices.Sort(inWindows[bin])
				slices.Sort(inWhole[bin])
				line, n := fmt.Sprintf("size %d, %d flows:", bin, len(inWhole[bin])), float64(len(inWhole[bin]))
				for i, q := range []float64{0.5, 0.9, 0.99, 0.999} {
					off := inWindows[bin][int(q*n)]/inWhole[bin][int(q*n)] - 1
					if line += fmt.Sprintf(" %+.1f%%", 100*off); bin == sizebin.Count && math.Abs(off) > c.most[i] {
						t.Errorf("p%g of windows is %+.1f%% off", 100*q, 100*off)
					}
				}
				t.Log(line)
			}
		})
	}
}

var (
	fluidLake     = flag.String("fluid-lake", "", "compare the fluid with the whole estimate that this lake holds")
	fluidScenario = flag.String("fluid-scenario", "", "scenario of the lake")
)

// TestFluidOfLake prints how many flows of a size are active in the fluid and in a whole estimate, and how many bytes
// they have left there, as the sum over times. A flow of the estimate is taken to have a constant rate.
func TestFluidOfLake(t *testing.T) {
	if *fluidLake == "" {
		t.Skip("needs a lake with a whole estimate: -fluid-lake")
	}
	e, err := Resume(context.Background(), *fluidLake, *fluidScenario, Variant{Estimator: estimators.Flow, Passes: 3}, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	in, err := e.Read(schema.Slowdowns)
	if err != nil {
		t.Fatal(err)
	}
	const every = int64(5e6)
	f, at := e.newFluid(), every
	var sums [64]struct{ flows, active, left, fluidLeft float64 }
	err = columns.ForEach(in, func(rec arrow.Record) error {
		size, start, fct := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"), columns.Int64s(rec, "fct_ns")
		src, dst := columns.Int32s(rec, "src"), columns.Int32s(rec, "dst")
		for i := range size {
			for ; at <= start[i]; at += every {
				f.advance(at)
				f.each(func(x *carried) {
					s := &sums[bits.Len64(uint64(x.ID))]
					s.active++
					s.fluidLeft += x.remaining
				})
			}
			s := &sums[bits.Len64(uint64(size[i]))]
			for seen := (start[i]/every + 1) * every; seen < start[i]+fct[i]; seen += every {
				s.flows++
				s.left += float64(size[i]) * (1 - float64(seen-start[i])/float64(fct[i]))
			}
			f.add(start[i], carried{Row: workload.Row{ID: size[i], Src: src[i], Dst: dst[i]}, remaining: float64(size[i])})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("| flows below, bytes | active | in the fluid | MB left | in the fluid |\n|---|---|---|---|---|")
	for i, s := range sums {
		if s.flows+s.active > 0 {
			fmt.Printf("| %d | %.0f | %.0f | %.1f | %.1f |\n", int64(1)<<i, s.flows, s.active, s.left/1e6, s.fluidLeft/1e6)
		}
	}
}
