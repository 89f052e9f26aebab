package confidence

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parsimon/schema/sizebin"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// made returns table slowdowns of flows of one service that start a microsecond apart.
func made(t *testing.T, slowdown func(i int) float64, flows int) *tables.Memory {
	t.Helper()
	rows := make([]tables.SlowdownRow, flows)
	for i := range rows {
		rows[i] = tables.SlowdownRow{FlowID: int64(i), FlowRow: int64(i),
			Labels: workload.Labels{Service: "web", VNet: []string{"red", "blue"}[i%2]}, SizeBytes: 500,
			StartNS: int64(i) * 1000, Hops: 2, IdealNS: 1, FCTNS: 20_000, Slowdown: slowdown(i)}
	}
	var out tables.Memory
	if err := tables.Slowdowns.Write(&out, rows); err != nil {
		t.Fatal(err)
	}
	return &out
}

func intervalsOf(t *testing.T, slowdown func(i int) float64, flows int) []Interval {
	t.Helper()
	x := New(0, int64(flows-1)*1000, nil)
	if err := x.Read(made(t, slowdown, flows).Read()); err != nil {
		t.Fatal(err)
	}
	return x.Rows()
}

func intervalOf(t *testing.T, rows []Interval, by GroupBy, service, bin string, q float64) Interval {
	t.Helper()
	i := slices.IndexFunc(rows, func(r Interval) bool {
		return r.By == by && r.Service == service && r.SizeBin == bin &&
			r.Quantile == q
	})
	if i < 0 {
		t.Fatalf("no interval of %s in %s at %g", service, bin, q)
	}
	return rows[i]
}

// In 95% of trials an interval contains the percentile of the distribution that the flows are drawn from.
// This holds for independent flows and for flows that are slow together.
func TestIntervalsCover(t *testing.T) {
	const trials, flows = 40, 4000
	for name, together := range map[string]int{"independent": 1, "in bursts": 25} {
		misses := 0
		wide := 0.0
		for trial := range trials {
			rng := rand.New(rand.NewPCG(uint64(trial), 7))
			var x float64
			rows := intervalsOf(t, func(i int) float64 {
				if i%together == 0 {
					x = 1 - math.Log(1-rng.Float64())
				}
				return x
			}, flows)
			at := intervalOf(t, rows, ByNothing, "", sizebin.All, 0.9)
			want := 1 + math.Log(10)
			if want < at.Lo || want > at.Hi {
				misses++
			}
			wide += (at.Hi - at.Lo) / trials
		}
		t.Logf("%s: misses %d of %d, %.3f wide", name, misses, trials, wide)
		// Two misses are expected in 40 trials. Seven happen by chance once in 300 times.
		if misses > 6 {
			t.Errorf("%s: a 95%% interval misses in %d of %d trials", name, misses, trials)
		}
		// Order statistics of independent flows: 2 × 1.96 × sqrt(p (1 - p) / n) / density, where the density
		// is 0.1.
		expect := 2 * 1.96 * math.Sqrt(0.9*0.1*float64(together)/flows) / 0.1
		if wide < 0.9*expect || wide > 2*expect {
			t.Errorf("%s: intervals are %.3f wide, theory says %.3f, and the wider of two is taken", name, wide,
				expect)
		}
	}
}

// Groups count their flows. Percentiles are accurate to a cell, and their intervals contain them.
func TestIntervalGroups(t *testing.T) {
	const flows = 50_000
	slow := func(i int) float64 { return 1 + float64(i*7919%flows)/flows*9 }
	rows := intervalsOf(t, slow, flows)
	// Two bins of all flows, two of the service, two virtual networks, and the service in each.
	if len(rows) != (2+2+2+2)*4 {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		want := 1 + 9*r.Quantile
		if math.Abs(r.Estimate/want-1) > 2*intervalStep || r.Lo > r.Estimate || r.Hi < r.Estimate ||
			r.Lo > want*(1+intervalStep) || r.Hi < want*(1-intervalStep) {
			t.Errorf("%+v, want %g", r, want)
		}
		half := r.By == ByVNet || r.By == ByServiceVNet
		if half && r.Flows != flows/2 || !half && r.Flows != flows {
			t.Errorf("%+v", r)
		}
		short := r.Quantile == 0.999
		if short != strings.HasPrefix(r.Warning, "p99.9: only ") {
			t.Errorf("%+v", r)
		}
	}
	a := rows
	b := intervalsOf(t, slow, flows)
	if !slices.Equal(a, b) {
		t.Error("the result differs from run to run")
	}
}

// If most flows are ideal, p50 is exactly 1. A percentile that depends on a few bursts has a wide interval.
func TestIntervalWarnings(t *testing.T) {
	rows := intervalsOf(t, func(i int) float64 {
		if i/2000%25 == 3 { // a fiftieth of the time, in two periods
			return 5 + float64(i%7)
		}
		return 1
	}, 100_000)
	at := intervalOf(t, rows, ByNothing, "", sizebin.All, 0.5)
	if at.Estimate != 1 || at.Lo != 1 || at.Hi != 1 ||
		at.Warning != "" {
		t.Errorf("%+v", at)
	}
	if at := intervalOf(t, rows, ByService, "web", sizebin.All, 0.99); !strings.Contains(at.Warning,
		"p99: its interval is ") || at.Lo != 1 {
		t.Errorf("%+v", at)
	}
	if at := intervalOf(t, intervalsOf(t, func(int) float64 { return 2 }, 1), ByNothing, "", sizebin.All,
		0.99); at.Warning != "p99: only 0 flows are above it; 10000 flows are enough for an interval" ||
		at.Lo > 2 || at.Hi < 2 {
		t.Errorf("one flow: %+v", at)
	}
}

// Labels beyond the limit have no separate intervals. The memory for such labels is bounded, too.
func TestIntervalLabelsAreBounded(t *testing.T) {
	x := New(0, 1, nil)
	of := func(i int) workload.Labels { return workload.Labels{Service: strconv.Itoa(i), VNet: strconv.Itoa(i)} }
	for i := range 2 * intervalLabels * intervalLabels {
		got := len(x.groupsOf(of(i)))
		want := 1
		if i >= intervalLabels && got != want || i < intervalLabels && got != 4 {
			t.Fatalf("flow %d belongs to %d groups", i, got)
		}
	}
	for _, by := range []GroupBy{ByService, ByVNet, ByServiceVNet} {
		if len(x.labels[by]) != intervalLabels {
			t.Errorf("%d groups have %d labels", by, len(x.labels[by]))
		}
	}
	if len(x.groups) != intervalLabels*intervalLabels || len(x.groupsOf(of(1))) != 4 {
		t.Errorf("%d remembered", len(x.groups))
	}
}

// The estimate of a group interpolates between two flows, as questions do. In a group of ten flows, the
// median of the fifth flow alone was 14% lower than the printed one.
func TestEstimatesInterpolate(t *testing.T) {
	slow := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	for _, flows := range []int{1, 2, 7, 10} {
		sample := NewSample(make([]int64, flows), slow[:flows])
		for _, r := range intervalsOf(t, func(i int) float64 { return slow[i] }, flows) {
			if r.By != ByNothing {
				continue
			}
			want := sample.Quantile(r.Quantile)
			if math.Abs(r.Estimate/want-1) > intervalStep || r.Lo > r.Estimate || r.Hi < r.Estimate {
				t.Errorf("%d flows: %+v, want %v", flows, r, want)
			}
		}
	}
}

// The width in a warning is that of the traffic's part if the interval has another one: the column says why
// the workload is too short. Without an interval, nothing is said about its width.
func TestWidthsInWarnings(t *testing.T) {
	row := Interval{Flows: 100_000, Quantile: 0.9, Estimate: 2, Lo: 1, Hi: 3,
		Method: &MethodPart{WorkloadLo: 1.5, WorkloadHi: 2.1}}
	got := intervalWarning(&row)
	if got != "p90: its interval is 30% wide without the method's own error" {
		t.Error(got)
	}
	row.Method = nil
	row.Warning = intervalWarning(&row)
	if row.Warning != "p90: its interval is 100% wide" {
		t.Error(row.Warning)
	}
	row.Forget()
	if row.Warning != "" || !math.IsNaN(row.Lo) || !math.IsNaN(row.Hi) {
		t.Errorf("%+v", row)
	}
	row.Flows = 10
	row.Forget()
	if !strings.Contains(row.Warning, "only 1 flows are above it") {
		t.Error(row.Warning)
	}
}
