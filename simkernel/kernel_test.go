package simkernel

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pick answers one of the values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// randomCase makes a small case of any awkward sort: ties, tiny windows, slow links, incast, zero
// delays, flows of a byte and of many packets.
func randomCase(rng *rand.Rand) (Params, *Case) {
	p := DefaultParams()
	switch rng.IntN(4) {
	case 0:
		p.WindowBytes = pick[int64](rng, 1, 60, 500, 999, 1000, 1500, 2500, 17_999, 100_000)
	case 1:
		p.WindowBytes = 1 + rng.Int64N(40_000)
	}
	if rng.IntN(8) == 0 {
		p.PayloadBytes = pick[int64](rng, 1, 7, 100, 9000)
	}
	if rng.IntN(8) == 0 {
		p.HeaderBytes = pick[int64](rng, 0, 1, 100)
	}
	if rng.IntN(4) == 0 {
		p.MinRateBps = pick(rng, 1e8, 1e6, 1e10)
		p.AdditiveIncreaseBps = pick(rng, 0, 1e7, 5e9)
		p.Gain = pick(rng, 1, 0.5, 0.01)
	}
	c := &Case{Kind: Behind}
	bps := func() int64 {
		return pick[int64](rng, 10_000_000_000, 10_000_000_000, 9_876_543_210, 40_000_000_000, 1_000_000_000, 1_000_000, 8_000_000_000_000)
	}
	sources := pick(rng, 1, 1, 2, 3, 8, 40)
	if rng.IntN(5) == 0 {
		c.Kind, sources = FirstHop, 1
	} else {
		c.TargetBps = bps()
		c.MarkBytes = pick[int64](rng, 30_000, 0, 1, 1048, 3144, 10_000)
	}
	same := bps()
	sameDelay := pick[int64](rng, 0, 1, 1000, 4000)
	for range sources {
		b, d := same, sameDelay
		if rng.IntN(3) == 0 {
			b = bps()
		}
		if rng.IntN(3) == 0 {
			d = pick[int64](rng, 0, 1000, rng.Int64N(20_000))
		}
		if c.Kind == FirstHop {
			d = 0
		}
		c.SourceBps = append(c.SourceBps, b)
		c.SourceDelayNS = append(c.SourceDelayNS, d)
	}
	gap := pick[int64](rng, 0, 1, 100, 1000, 20_000, 1_000_000)
	start := rng.Int64N(1_000_000)
	beyond := pick[int64](rng, 0, 1000, 5000)
	packets := pick[int64](rng, 1, 5, 30, 100)
	flows := 1 + rng.IntN(60)
	if p.WindowBytes < p.PayloadBytes/2 {
		packets, flows = 1, 1+rng.IntN(10)
	}
	for range flows {
		s := rng.IntN(sources)
		size := 1 + rng.Int64N(packets*p.PayloadBytes)
		switch rng.IntN(6) {
		case 0:
			size = 1
		case 1:
			size = p.PayloadBytes * (1 + rng.Int64N(packets))
		}
		delay := c.SourceDelayNS[s] + beyond
		if rng.IntN(4) == 0 {
			delay = c.SourceDelayNS[s] + rng.Int64N(10_000)
		}
		c.Source = append(c.Source, int32(s))
		c.SizeBytes = append(c.SizeBytes, size)
		c.StartNS = append(c.StartNS, start)
		c.PathDelayNS = append(c.PathDelayNS, delay)
		if gap > 0 && rng.IntN(3) > 0 {
			start += rng.Int64N(gap)
		}
	}
	return p, c
}

// agreeWithTwin reports the first difference between the kernel's answer and the twin's.
func agreeWithTwin(k *Kernel, c *Case) (*linkTwin, error) {
	var r Result
	if err := k.Simulate(c, &r); err != nil {
		return nil, err
	}
	t := runLinkTwin(k.params, c)
	want := t.r
	for i := range r.FCTNS {
		if r.FCTNS[i] != want.FCTNS[i] || r.IdealNS[i] != want.IdealNS[i] || r.WaitNS[i] != want.WaitNS[i] {
			return nil, fmt.Errorf("flow row %d: FCT %d, ideal %d, wait %d; twin %d, %d, %d",
				i, r.FCTNS[i], r.IdealNS[i], r.WaitNS[i], want.FCTNS[i], want.IdealNS[i], want.WaitNS[i])
		}
	}
	if r.Unfinished != want.Unfinished {
		return nil, fmt.Errorf("%d unfinished, twin %d", r.Unfinished, want.Unfinished)
	}
	// A case that is cut off at the horizon counts only what has left by then.
	if r.Unfinished == 0 && r.Counters != want.Counters {
		return nil, fmt.Errorf("counters %+v, twin %+v", r.Counters, want.Counters)
	}
	return t, nil
}

func mustKernel(t testing.TB, p Params) *Kernel {
	t.Helper()
	k, err := NewKernel(p)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKernelAgreesWithTwin(t *testing.T) {
	cases := 6000
	if testing.Short() {
		cases = 600
	}
	marked := 0
	for seed := range uint64(cases) {
		p, c := randomCase(rand.New(rand.NewPCG(seed, 1)))
		twin, err := agreeWithTwin(mustKernel(t, p), c)
		if err != nil {
			t.Fatalf("seed %d: %v\nparams %+v\ncase %+v", seed, err, p, c)
		}
		if twin.r.PacketsMarked > 0 {
			marked++
		}
	}
	if marked < cases/10 {
		t.Errorf("only %d of %d cases have a mark: the test tests little", marked, cases)
	}
}

var _ = reflect.DeepEqual
var _ = slices.Sort[[]int]
var _ = strings.Contains
