package confidence

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
)

func within(got, want, off float64) bool { return math.Abs(got-want) <= off }

// Cell 0 is a slowdown of exactly 1. The others are 0.2% wide, in logarithms, and follow it.
func TestCellsOfSlowdowns(t *testing.T) {
	for slowdown, want := range map[float64]int{
		0.5: 0, 1: 0, 1.0000001: 1, 1.00199: 1, 1.00201: 2, 2.7183: 501, math.NaN(): 0,
	} {
		got := cells.Of(slowdown)
		if got != want {
			t.Errorf("%v is in cell %d, want %d", slowdown, got, want)
		}
	}
	for cell, want := range map[int][2]float64{0: {1, 1}, 1: {1, 1.002002}, 2: {1.002002, 1.004008},
		501: {2.718282, 2.723724}} {
		lo := cells.Slowdown(cell, 0)
		hi := cells.Slowdown(cell, 1)
		if !within(lo, want[0], 1e-6) || !within(hi, want[1], 1e-6) {
			t.Errorf("cell %d is from %v to %v, want %v", cell, lo, hi, want)
		}
		mid := cells.Slowdown(cell, 0.5)
		if cells.Of(mid) != cell {
			t.Errorf("cell %d has %v in its middle, which is in cell %d", cell, mid, cells.Of(mid))
		}
	}
}

// The method's part is 1.5 times the disagreement plus 3% of the delay: link cases that differ by 20% at a
// slowdown of 2 are an error of 31.5%. Its interval is widened as for independent errors.
func TestMethodPartByHand(t *testing.T) {
	for _, c := range []struct{ estimate, disagreement, want float64 }{
		{2, 0.2, 0.315}, {2, -0.2, 0.315}, {1, 0, 0}, {1, 0.1, 0.15}, {4, 0, 0.0225},
	} {
		got := methodError(c.estimate, c.disagreement)
		if !within(got, c.want, 1e-12) {
			t.Errorf("%+v: %v", c, got)
		}
	}
	cases := CaseSlowdowns{}
	cases.Count(500, 2.2)
	x := New(0, 1, cases)
	row := Interval{Quantile: 0.5, Estimate: 2, Lo: 1.7, Hi: 2.4}
	x.addMethod(0, &row)
	m := row.Method // 1.5 × 0.1 + 0.03 × 0.5 is 0.165, or 0.33 of 2
	if m == nil || m.WorkloadLo != 1.7 || m.WorkloadHi != 2.4 || !within(m.Disagreement, 0.1, 0.002) ||
		!within(m.Error, 0.165, 0.003) ||
		!within(row.Lo, 2-math.Hypot(0.3, 0.33), 0.005) || !within(row.Hi, 2+math.Hypot(0.4, 0.33), 0.006) {
		t.Errorf("%+v, %+v", row, m)
	}
	// Flows of a service are compared with all flows, and no slowdown is below 1.
	service := Interval{By: ByService, Quantile: 0.5, Estimate: 1.1, Lo: 1.1, Hi: 1.1}
	x.addMethod(0, &service)
	m = service.Method
	if m == nil || !within(m.Disagreement, 0.1, 0.002) || service.Lo != 1 || !within(service.Hi, 1.268, 0.004) {
		t.Errorf("%+v, %+v", service, m)
	}
	none := Interval{Quantile: 0.5, Estimate: 2, Lo: 1.7, Hi: 2.4}
	x.addMethod(1, &none)
	if none.Method != nil || none.Lo != 1.7 {
		t.Errorf("no flows of the size bin: %+v", none)
	}
}

// Of ten flows with slowdowns from 1 to 10, the fifth is the median, and the tenth p91.
func TestQuantilesOfCases(t *testing.T) {
	c := CaseSlowdowns{}
	for i := range 10 {
		c.Count(int64(i%2)*20_000, float64(i+1)) // odd ones are small
	}
	for _, x := range []struct {
		bin     int
		p, want float64
	}{
		{sizebin.Count, 0.5, 5}, {sizebin.Count, 0.51, 6}, {sizebin.Count, 0.1, 1}, {sizebin.Count, 0.91, 10},
		{sizebin.Count, 1, 10},
		{0, 0.5, 5}, {1, 0.5, 6}, {0, 0.2, 1}, {1, 1, 10},
	} {
		got, ok := c.Quantile(x.bin, x.p)
		if !ok || !within(got/x.want, 1, 0.0011) {
			t.Errorf("%+v: %v", x, got)
		}
	}
	for slowdown := 1.01; slowdown < 1.05; slowdown += 0.0001 {
		one := CaseSlowdowns{}
		one.Count(1, slowdown)
		got, _ := one.Quantile(0, 0.5)
		if !within(got/slowdown, 1, 0.001001) { // half a cell
			t.Fatalf("the only slowdown is %v, its quantile %v", slowdown, got)
		}
	}
	if _, ok := c.Quantile(2, 0.5); ok {
		t.Error("a size bin without flows has a median")
	}
}

// The quantile of weighted flows is that of a list that contains each flow as often as its weight, regardless
// of where the search begins.
func TestWeightedQuantileIsItsTwin(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		var g blockCounts
		var w blockWeights
		for b := range w {
			w[b] = uint8(random.IntN(4) * random.IntN(2))
		}
		var list []int
		for range 1 + random.IntN(60) {
			block := random.IntN(intervalBlocks)
			cell := random.IntN(1 + random.IntN(50))
			g.count(block, cell)
			list = append(list, slices.Repeat([]int{cell}, int(w[block]))...)
		}
		sort.Ints(list)
		c := g.accumulate(nil)
		p := random.Float64()
		for _, near := range []int{0, len(c) / 2, len(c) - 1} {
			got, ok := c.quantile(p, &w, near)
			if ok != (len(list) > 0) {
				t.Fatalf("%d flows by weight: %v", len(list), ok)
			}
			if !ok {
				continue
			}
			want := list[int(math.Ceil(p*float64(len(list))))-1]
			if got != want {
				t.Fatalf("from cell %d: %d, want %d", near, got, want)
			}
		}
	}
}

// A 95% interval excludes five of 200 replicates at either end. It is the wider one of those for two lengths
// of blocks. With one length, correlated flows would have intervals that are too narrow.
func TestIntervalIsThatOfItsReplicates(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 9))
	slow := make([]float64, 5000)
	for i := range slow {
		slow[i] = 1 + random.ExpFloat64()*(1+float64(i/500%2))
	}
	rows := intervalsOf(t, func(i int) float64 { return slow[i] }, len(slow))
	x := New(0, int64(len(slow)-1)*1000, nil)
	if len(x.weights) != 400 {
		t.Fatalf("%d replicates", len(x.weights))
	}
	for _, q := range []float64{0.5, 0.9} {
		lo := math.Inf(1)
		hi := 0.0
		for from := 0; from < 400; from += 200 {
			var all []float64
			for _, w := range x.weights[from : from+200] {
				var list []float64
				for i, s := range slow {
					list = append(list, slices.Repeat([]float64{s}, int(w[i/50]))...)
				}
				slices.Sort(list)
				all = append(all, list[int(math.Ceil(q*float64(len(list))))-1])
			}
			slices.Sort(all)
			lo = min(lo, all[5])
			hi = max(hi, all[194])
		}
		got := intervalOf(t, rows, ByNothing, "", sizebin.All, q)
		if got.Lo > lo || got.Lo < lo*0.998 || got.Hi < hi || got.Hi > hi*1.0021 {
			t.Errorf("q %v: from %v to %v, want %v to %v", q, got.Lo, got.Hi, lo, hi)
		}
	}
}

// Weights are those of Poisson variables of mean 1. The second 200 replicates draw four blocks at once.
func TestWeightsOfBlocks(t *testing.T) {
	x := New(0, 1, nil)
	for half, every := range []int{1, 4} {
		sum := 0.0
		squares := 0.0
		pairs := 0.0
		for _, w := range x.weights[200*half : 200*(half+1)] {
			for b := range w {
				if w[b] != w[b/every*every] {
					t.Fatalf("blocks of %d differ", every)
				}
				sum += float64(w[b])
				squares += float64(w[b]) * float64(w[b])
				if b > 0 && w[b] == w[b-1] {
					pairs++
				}
			}
		}
		n := float64(200 * intervalBlocks)
		// The variance of a mean of Poisson variables, and of 2.0, the mean of their squares.
		off := 4 * math.Sqrt(float64(every)/n)
		if !within(sum/n, 1, off) || !within(squares/n, 2, 4*off) {
			t.Errorf("blocks of %d: mean %v, mean square %v", every, sum/n, squares/n)
		}
		// Two variables are equal with a probability of 0.3085, and neighbors are the same variable in three
		// of four cases.
		want := []float64{0.3085, 0.3085/4 + 0.75}[half]
		if !within(pairs/n, want, 0.03) {
			t.Errorf("blocks of %d: %v of the neighbors are equal, want %v", every, pairs/n, want)
		}
	}
	const unit = 1 << 63 // half of all numbers
	for u, want := range map[uint64]uint8{
		0: 0, 6786177901268885274: 0, 6786177901268887274: 1, unit: 1, 13572355802537770548: 1,
		13572355802537774548: 2,
		16965444753172200000: 2, 16965444753172230000: 3,
	} {
		got := poissonOne(u)
		if got != want {
			t.Errorf("%d is %d, want %d", u, got, want)
		}
	}
}

// A flow before the first start or after the last does not belong to the workload. The first is in block 0,
// the last in block 99.
func TestBlocksOfTime(t *testing.T) {
	read := func(first, last int64) *Intervals {
		x := New(first, last, nil)
		if err := x.Read(made(t, func(int) float64 { return 1 }, 100).Read()); err != nil {
			return nil
		}
		return x
	}
	x := read(0, 99_000)
	for b, c := range x.all.bins[0].counts {
		if len(c) != 1 || c[0] != 1 {
			t.Errorf("block %d has %v flows", b, c)
		}
	}
	if read(1, 99_000) != nil || read(0, 98_999) != nil {
		t.Error("flows outside of the workload are accepted")
	}
}

// A percentile is uncertain with fewer than 100 flows beyond it, or with an interval wider than a fifth of
// it.
func TestUncertainPercentiles(t *testing.T) {
	for _, c := range []struct {
		flows     int64
		q, lo, hi float64
		want      string
	}{
		{10_000, 0.99, 1.9, 2.3, ""},
		{9_999, 0.99, 2, 2, "p99: only 99 flows are above it; 10000 flows are enough for an interval"},
		{10_000, 0.99, 1.9, 2.32, "p99: its interval is 21% wide"},
		{199, 0.5, 2, 2, "p50: only 99 flows are above it; 200 flows are enough for an interval"},
		{99_999, 0.999, 2, 2, "p99.9: only 99 flows are above it; 100000 flows are enough for an interval"},
		{100_000, 0.999, 2, 2, ""},
	} {
		got := intervalWarning(&Interval{Flows: c.flows, Quantile: c.q, Estimate: 2, Lo: c.lo, Hi: c.hi})
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The slowest 1% of a size bin need more than 1,000 flows; those of all flows need one.
func TestTailsOfFewFlows(t *testing.T) {
	for flows, want := range map[int]bool{1000: false, 1001: true} {
		x := New(0, int64(flows)*1000, nil)
		slow := func(i int) float64 { return 1 + float64(i)/float64(flows) }
		if err := x.Read(made(t, slow, flows).Read()); err != nil {
			t.Fatal(err)
		}
		tails := x.Tails()
		if !within(tails.All, 1.99, 0.004) || math.IsInf(tails.Bins[0], 1) == want ||
			!math.IsInf(tails.Bins[1], 1) {
			t.Errorf("%d flows: %+v", flows, tails)
		}
	}
}

// Quantiles interpolate between neighbors. If all values double, each replicate doubles, so that the
// interval is a point.
func TestChangesByHand(t *testing.T) {
	s := NewSample([]int64{1, 2, 3, 4}, []float64{8, 1, 4, 2})
	for p, want := range map[float64]float64{0: 1, 0.5: 3, 0.25: 1.75, 1: 8, 1.0 / 3: 2} {
		got := s.Quantile(p)
		if !within(got, want, 1e-12) {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
	}
	if s.Rank(0) != 1 || s.Rank(3) != 8 {
		t.Errorf("ranks %v, %v", s.Rank(0), s.Rank(3))
	}
	w := weights{rows: s.Rows, words: []uint64{0, 2 << 16, 1 << 16, 0}, totals: [4]int{1: 3}}
	got := w.quantiles(s, []float64{0, 0.5, 0.67, 1})[1]
	if !slices.Equal(got, []float64{1, 1, 4, 4}) {
		t.Errorf("weighted quantiles %v", got)
	}
	random := rand.New(rand.NewPCG(1, 1))
	var rows []int64
	var values, double []float64
	for i := range int64(2000) {
		rows = append(rows, i)
		values = append(values, 1+random.ExpFloat64())
		double = append(double, 2*values[i])
	}
	one := NewSample(rows, values)
	two := NewSample(rows, double)
	for _, c := range Changes(one, two, []float64{0.5, 0.99}) {
		if c.Relative != 1 || c.Lo != 1 || c.Hi != 1 || c.To != 2*c.From {
			t.Errorf("%+v", c)
		}
	}
	// Other flows of the same distribution: the interval of the change of a median is about ± 1.96 × √(2 /
	// 2000) / median.
	other := NewSample(rows[:1000], values[:1000])
	rest := NewSample(rows[1000:], values[1000:])
	c := Changes(other, rest, []float64{0.5})[0]
	width := c.Hi - c.Lo
	if c.Lo > c.Relative || c.Hi < c.Relative || width < 0.07 || width > 0.14 {
		t.Errorf("%+v", c)
	}
}

// If all flows have a slowdown of 2, so have the tails, to the middle of its cell: cell 347 ends at
// exp(0.694).
func TestEstimatesAreMiddlesOfCells(t *testing.T) {
	x := New(0, 2000*1000, nil)
	if err := x.Read(made(t, func(int) float64 { return 2 }, 2000).Read()); err != nil {
		t.Fatal(err)
	}
	middle := math.Exp(0.693)
	tails := x.Tails()
	if !within(tails.All, middle, 1e-9) || !within(tails.Bins[0], middle, 1e-9) {
		t.Errorf("%+v, want %v", tails, middle)
	}
	for _, r := range x.Rows() {
		if !within(r.Estimate, middle, 1e-9) || !within(r.Lo, math.Exp(0.692), 1e-9) ||
			!within(r.Hi, math.Exp(0.694), 1e-9) {
			t.Errorf("%+v", r)
		}
	}
	one := New(0, 0, nil)
	if err := one.Read(made(t, func(int) float64 { return 1 }, 1).Read()); err != nil {
		t.Fatal(err)
	}
	got := one.Tails().All
	if got != 1 {
		t.Errorf("one ideal flow: %v", got)
	}
}

// Rows name only the label that their flows have in common. Without the method's part, its columns are empty.
func TestColumnsOfIntervals(t *testing.T) {
	labels := func(by GroupBy) Interval {
		return Interval{By: by, Service: "s", VNet: "v",
			Method: &MethodPart{Error: 0.5}}
	}
	rows := []Interval{{SizeBin: "all", Service: "s", VNet: "v"}, labels(ByService), labels(ByVNet),
		labels(ByServiceVNet)}
	rec := Record(rows)
	defer rec.Release()
	for i, want := range []string{"(null) (null) (null)", "s (null) 0.5", "(null) v 0.5", "s v 0.5"} {
		got := columns.Named(rec, "service").ValueStr(i) + " " + columns.Named(rec, "vnet").ValueStr(i) + " " +
			columns.Named(rec, "method_error").ValueStr(i)
		if got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
}

// If a replicate draws no flow, its quantile is the largest value.
func TestReplicateWithoutFlows(t *testing.T) {
	s := NewSample([]int64{1, 2}, []float64{5, 3})
	w := weights{rows: s.Rows, words: []uint64{0, 0}}
	for lane, got := range w.quantiles(s, []float64{0.5, 0.9}) {
		if !slices.Equal(got, []float64{5, 5}) {
			t.Errorf("replicate %d: %v", lane, got)
		}
	}
}

// Five batches of 100 flows have 10 to 30 flows beyond the cell, 20 on average. Their squared differences are
// 200, the odds 0.2 × 0.8 × 500 = 80, and one batch is not free: 200 / 80² × 5/4. If no flow is beyond the
// cell, or all are, the odds do not vary.
func TestVarianceOfOddsByHand(t *testing.T) {
	var g blockCounts
	for batch, beyond := range []int{10, 20, 30, 20, 20} {
		for i := range 100 {
			cell := 3
			if i < beyond {
				cell = 7
			}
			g.count(batch*20+i%20, cell)
		}
	}
	c := g.accumulate(nil)
	for cell, want := range map[int]float64{3: 0.0390625, 5: 0.0390625, 2: 0, 7: 0} {
		got := c.oddsVariance(cell, 5)
		if !within(got, want, 1e-15) {
			t.Errorf("beyond cell %d: %v, want %v", cell, got, want)
		}
	}
}

// oddsVarianceOf is oddsVariance of a list of slowdowns, in the order of their starts.
func oddsVarianceOf(slow []float64, cell, batches int) float64 {
	beyond := make([]float64, batches)
	flows := make([]float64, batches)
	share := 0.0
	for i, s := range slow {
		batch := i * intervalBlocks / len(slow) * batches / intervalBlocks
		flows[batch]++
		if cells.Of(s) > cell {
			beyond[batch]++
			share += 1 / float64(len(slow))
		}
	}
	sum := 0.0
	for k := range batches {
		sum += (beyond[k] - share*flows[k]) * (beyond[k] - share*flows[k])
	}
	odds := float64(len(slow)) * share * (1 - share)
	return sum / (odds * odds) * float64(batches) / float64(batches-1)
}

// An interval of drawn delays follows from the largest of three variances, of 5 and 10 batches and what 10
// and 33 extrapolate to, each of which is the largest for some workloads. It uses Student's t, 2.776 for 5
// batches. Three more events add 30% to the flows beyond p90 if each has 1% of all flows. If the deviation is
// above 1, there is no interval.
func TestIntervalOfDrawsIsItsFormula(t *testing.T) {
	const flows = 10_000
	largest := map[int]int{}
	refused := 0
	for trial, together := range slices.Repeat([]int{1, 40, 90, 150, 250, 400, 1000}, 6) {
		random := rand.New(rand.NewPCG(uint64(trial), 12))
		slow := bursts(random, flows, together)
		var inCases, drawn blockCounts
		for i, s := range slow {
			inCases.count(i*intervalBlocks/flows, cells.Of(s))
			drawn.count(random.IntN(intervalBlocks), cells.Of(s))
		}
		c := inCases.accumulate(nil)
		row := Interval{Quantile: 0.9, Flows: flows}
		const event = 0.01
		drawnInterval(drawn.accumulate(nil), c, event, &row)
		at := c.cellOfAll(0.9)
		of := []float64{oddsVarianceOf(slow, at, 5), oddsVarianceOf(slow, at, 10), 0}
		of[2] = 2*of[1] - oddsVarianceOf(slow, at, 33)
		variance := slices.Max(of)
		if variance > 1 {
			refused++
			if !math.IsNaN(row.Lo) || !math.IsNaN(row.Hi) || row.Warning == "" {
				t.Errorf("trial %d: a variance of %v, and %+v", trial, variance, row)
			}
			continue
		}
		largest[slices.Index(of, variance)]++
		factor := math.Exp(2.776 * math.Sqrt(variance+1/(flows*0.9*0.1)))
		slices.Sort(slow)
		at0 := func(odds float64) float64 { return slow[int(math.Ceil(flows/(1+odds)))-1] }
		lo := at0(factor / 9)
		hi := at0(1 / factor / 9 / 1.3)
		if row.Lo > lo || row.Lo < 0.998*lo || row.Hi < hi || row.Hi > 1.0021*hi {
			t.Errorf("trial %d: from %v to %v, want %v to %v", trial, row.Lo, row.Hi, lo, hi)
		}
	}
	if len(largest) != 3 || refused < 3 {
		t.Errorf("the largest variances were %v, and %d were refused", largest, refused)
	}
}
