package workload_test

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"

	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

func mustSizes(t testing.TB, points ...workload.SizePoint) *workload.SizeCDF {
	t.Helper()
	c, err := workload.NewSizeCDF(points)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSizesOfAllQuantiles(t *testing.T) {
	c := mustSizes(t, workload.SizePoint{0, 0}, workload.SizePoint{4, 50}, workload.SizePoint{4, 75},
		workload.SizePoint{10, 75}, workload.SizePoint{12, 100})
	count := map[int64]int{}
	const n = 8000
	sum := 0.0
	for i := range n {
		s := c.Size((float64(i) + 0.5) / n)
		count[s]++
		sum += float64(s)
	}
	want := map[int64]int{1: 1000, 2: 1000, 3: 1000, 4: 3000, 11: 1000, 12: 1000}
	for s, k := range count {
		if k != want[s] {
			t.Errorf("size %d: %d of %d quantiles, want %d", s, k, n, want[s])
		}
	}
	mean := sum / n
	if math.Abs(mean-c.Mean()) > 1e-9 {
		t.Errorf("mean %v, and the sizes' mean is %v", c.Mean(), mean)
	}
	got := mustSizes(t, workload.SizePoint{1500, 100}).Size(0.3)
	if got != 1500 {
		t.Errorf("a single size: %d", got)
	}
}

// Sizes increase with the quantile and are at least 1. The fraction of sizes up to a point is that of the
// point.
func TestShippedSizes(t *testing.T) {
	for _, name := range []string{"webserver", "cachefollower", "hadoop"} {
		c := shippedSizes(t, name)
		k := len(c.Points())
		if k > 25 {
			t.Errorf("%s: %d points", name, k)
		}
		const n = 200_000
		last := int64(1)
		sum := 0.0
		for i := range n {
			s := c.Size((float64(i) + 0.5) / n)
			if s < last {
				t.Fatalf("%s: size %d after %d", name, s, last)
			}
			last = s
			sum += float64(s)
		}
		if math.Abs(sum/n/c.Mean()-1) > 1e-3 {
			t.Errorf("%s: mean %v, of %d quantiles %v", name, c.Mean(), n, sum/n)
		}
		for _, p := range c.Points() {
			if p.Percent == 0 || p.Percent == 100 {
				continue
			}
			below := c.Size(p.Percent/100 - 1e-9)
			above := c.Size(p.Percent/100 + 1e-9)
			if below > p.Bytes || above <= p.Bytes {
				t.Errorf("%s: at %v%% sizes step from %d to %d, want around %d", name, p.Percent, below, above,
					p.Bytes)
			}
		}
		if c.Size(0) < 1 || c.Size(math.Nextafter(1, 0)) != c.Points()[len(c.Points())-1].Bytes {
			t.Errorf("%s: sizes from %d to %d", name, c.Size(0), c.Size(math.Nextafter(1, 0)))
		}
	}
}

// The shipped distributions are a coarse reading of the published figures. A finer reading must be close to
// it.
func TestShippedSizesAreClose(t *testing.T) {
	for _, name := range []string{"webserver", "cachefollower", "hadoop"} {
		ours := shippedSizes(t, name)
		theirs, err := workload.ReadSizeCDF(sharedFile(t, "sizes", name+"-all.txt"))
		if err != nil {
			t.Fatal(err)
		}
		r := ours.Mean() / theirs.Mean()
		if r < 0.95 || r > 1.05 {
			t.Errorf("%s: mean %.0f, the finer reading has %.0f", name, ours.Mean(), theirs.Mean())
		}
		for q := 0.05; q < 0.99; q += 0.005 {
			// The limit is three percentage points.
			s := ours.Size(q)
			if s < theirs.Size(max(0, q-0.03)) || s > theirs.Size(min(0.9999, q+0.03)) {
				t.Errorf("%s: quantile %.3f is %d, the finer reading has %d", name, q, s, theirs.Size(q))
			}
		}
	}
}

func TestSizeCDFRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "has no points",
		"0 0\n10 x":            `line 2: percent is "x"`,
		"0 0\n\n1.5 4":         `line 3: bytes is "1.5"`,
		"0 0 0":                "line 1: want",
		"0 0\n10 50":           "ends at 50%",
		"0 10\n10 100":         "no flow can have 0 bytes",
		"10 0\n5 100":          "must not decrease",
		"10 50\n15 40\n20 100": "must not decrease",
		"10 101":               "0 to 100",
		"10 NaN":               "0 to 100",
		"-4 100":               "bytes must be",
		"17592186044417 100":   "point 1 (17592186044417 bytes, 100%): bytes must be 0 to 17592186044416",
		"10 50\n15 -1":         "point 2 (15 bytes, -1%): percent must be 0 to 100",
	} {
		if _, err := workload.ParseSizeCDF("x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"17592186044416 100", "0 0\n1 100", "5 0\n5 100", "5 50\n5 100\n9 100 # end"} {
		if _, err := workload.ParseSizeCDF("x", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := workload.ReadSizeCDF("nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestLogNormalMean(t *testing.T) {
	for _, sigma := range []float64{0, 0.5, 1, 2} {
		d := workload.NewLogNormal(170, sigma)
		const n = 300_000
		var sum, logs, logs2 float64
		for i := range n {
			s := rng.New(3, 1, uint64(i))
			x := d.Draw(&s)
			sum += x
			logs += math.Log(x)
			logs2 += math.Log(x) * math.Log(x)
		}
		// The mean of n log-normals scatters by sqrt(exp(σ²) − 1) / sqrt(n).
		tolerance := 5*math.Sqrt((math.Exp(sigma*sigma)-1)/n) + 1e-9
		r := sum / n / 170
		if math.Abs(r-1) > tolerance {
			t.Errorf("σ %v: mean is %.4f of what it should be", sigma, r)
		}
		s := math.Sqrt(max(0, logs2/n-logs/n*logs/n))
		if math.Abs(s-sigma) > 0.01*sigma+1e-4 {
			t.Errorf("σ %v: logarithms scatter by %v", sigma, s)
		}
	}
}
