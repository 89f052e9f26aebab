package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// randomLoops makes flows of a random network wait for others of any host, with delays around the lookahead,
// and adds compute steps.
func randomLoops(t simkernel.Transport, seed uint64) netExample {
	e := randomNetworkOf(t, seed)
	rng := rand.New(rand.NewPCG(seed, 77))
	base := e.flows
	e.flows = Flows{After: []int64{}}
	f := &e.flows
	begin := int32(0)
	add := func(size, start int64, path []int32) {
		row := int64(len(f.StartNS))
		f.SizeBytes = append(f.SizeBytes, size)
		f.StartNS = append(f.StartNS, start)
		f.PathLinks = append(f.PathLinks, path...)
		f.PathEnds = append(f.PathEnds, int32(len(f.PathLinks)))
		seen := map[int64]bool{}
		if row > 0 && rng.IntN(4) > 0 {
			for range 1 + rng.IntN(3) {
				of := max(0, row-1-rng.Int64N(1+rng.Int64N(row)))
				if !seen[of] {
					f.After = append(f.After, of)
					f.DelayNS = append(f.DelayNS, []int64{0, 0, 1, 900, 5000, 300_000}[rng.IntN(6)])
				}
				seen[of] = true
			}
		}
		f.AfterEnds = append(f.AfterEnds, int32(len(f.After)))
	}
	for i, end := range base.PathEnds {
		start := base.StartNS[i]
		if rng.IntN(2) == 0 && i > 0 {
			start = f.StartNS[len(f.StartNS)-1]
		}
		if rng.IntN(4) == 0 {
			add(0, start, nil)
		}
		add(base.SizeBytes[i], max(start, slices.Max(append(f.StartNS, 0))), base.PathLinks[begin:end])
		begin = end
	}
	return e
}

// Flows that wait for others start and end as in the twin, to the bit, for any chunks, domains and workers.
func TestLoopsAgreeWithTwin(t *testing.T) {
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(200/min(4, uint64(kind)+1), 5) {
			e := randomLoops(kind, seed)
			if len(e.flows.StartNS) == 0 {
				continue
			}
			if err := agree(t, &e); err != nil {
				t.Fatalf("%v, seed %d: %v", kind, seed, err)
			}
			_, one := runIn(t, &e, BufferParams{}, nil, 1, 1000)
			each := make([]int32, len(e.hosts))
			for i := range each {
				each[i] = int32(i)
			}
			_, many := runIn(t, &e, BufferParams{}, each, 2, 3)
			if !reflect.DeepEqual(one, many) {
				t.Fatalf("%v, seed %d: results differ by domains", kind, seed)
			}
			checkStarts(t, &e, one)
		}
	}
}

// checkStarts checks results by the definition of a start.
func checkStarts(t *testing.T, e *netExample, r *Results) {
	t.Helper()
	end := make([]int64, len(r.Row))
	start := make([]int64, len(r.Row))
	for i, row := range r.Row {
		start[row] = r.StartNS[i]
		end[row] = r.StartNS[i] + r.FCTNS[i]
	}
	begin := int32(0)
	for i, to := range e.flows.AfterEnds {
		want := e.flows.StartNS[i]
		for k := begin; k < to; k++ {
			want = max(want, end[e.flows.After[k]]+e.flows.DelayNS[k])
		}
		begin = to
		if start[i] != want {
			t.Fatalf("flow %d starts at %d ns, not at %d", i, start[i], want)
		}
	}
}

// With small buffers, packets are lost. Starts are still as defined, and do not depend on domains.
func TestLoopsWithLosses(t *testing.T) {
	lost := int64(0)
	for _, seed := range kerneltest.Seeds(150, 7) {
		e := randomLoops(simkernel.DCTCP, seed)
		if len(e.flows.StartNS) == 0 {
			continue
		}
		b := BufferParams{SwitchBytes: 4000, Alpha: 1, RetransmitNS: 100_000}
		n, one := runIn(t, &e, b, nil, 1, 1000)
		lost += n.Losses().Dropped
		each := make([]int32, len(e.hosts))
		for i := range each {
			each[i] = int32(i)
		}
		_, many := runIn(t, &e, b, each, 2, 5)
		if !reflect.DeepEqual(one, many) {
			t.Fatalf("seed %d: results differ by domains", seed)
		}
		checkStarts(t, &e, one)
	}
	if lost == 0 {
		t.Error("no packet was lost")
	}
}

// Flows that wait for each other, or for a row that does not exist, are an error, not an endless loop.
func TestLoopsThatNeverStart(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: []bool{true, true},
		links: []Link{{0, 1, 10e9, 1000}, {1, 0, 10e9, 1000}}}
	e.flows = Flows{SizeBytes: []int64{5, 5, 5}, StartNS: []int64{0, 0, 0}, PathLinks: []int32{0, 1, 0},
		PathEnds: []int32{1, 2, 3}, After: []int64{2, 1}, DelayNS: []int64{0, 0}, AfterEnds: []int32{0, 1, 2}}
	n := newExampleNetwork(t, &e, BufferParams{}, 10)
	n.WaitFor()
	err := n.Run(t.Context(), 1, nil)
	if err == nil || !strings.Contains(err.Error(), "2 flows wait for flows that never end: among them flow "+
		"row 1 for row 2") {
		t.Error(err)
	}
}
