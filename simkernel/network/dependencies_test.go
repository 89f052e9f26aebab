package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
	"parsimon/simkernel/network/calendar"
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
		for _, seed := range kerneltest.Seeds(200/min(4, uint64(kind)+1), 11) {
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

// A flow starts when all that it waits for have ended and their delays have passed, and not before its start.
// Ends are kept until no later flow can depend on them.
func TestStartsAfterEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		keepRow int64
		after   []after
		startPS int64 // never: it waits
		first   int64 // the first row whose end is kept
	}{
		{"nothing", 0, nil, 50, 0},
		{"an end", 0, []after{{1, 30}}, 101 + 30, 0}, {"an end at 0", 0, []after{{0, 70}}, 70, 0},
		{"an early end", 0, []after{{0, 49}}, 50, 0},
		{"two ends", 0, []after{{7, 0}, {1, 700}}, 801, 0}, {"the latest end", 0, []after{{7, 0}, {1, 7}}, 108, 0},
		{"a flow that has not ended", 0, []after{{2, 0}}, never, 0},
		{"a flow that has not ended and one that has", 0, []after{{7, 0}, {2, 0}}, never, 0},
		{"a flow that has not been read", 0, []after{{8, 0}}, never, 0},
		{"half of the ends stay", 4, []after{{7, 0}}, 107, 0},
		{"more than half are removed", 5, []after{{7, 0}}, 107, 5},
		{"all but one are removed", 7, []after{{7, 0}}, 107, 7},
		{"all are removed", 30, []after{{30, 0}}, never, 30},
	} {
		x := &frontier{waiting: map[int64][]waitingFlow{}, last: -1,
			endedPS: []int64{0, 101, -1, 103, 104, 105, 106, 107}}
		f := &newFlow{row: 40, startPS: 50, path: []int32{0}, after: c.after}
		x.add(&batch{keepRow: c.keepRow}, f)
		waits := c.startPS == never
		if waits == (len(x.ready) == 1) || waits != (x.held == 1) || !waits && f.startPS != c.startPS ||
			x.nextPS() != c.startPS || x.first != c.first {
			t.Errorf("%s: a start at %d, %d flows wait, ends from row %d on", c.name, x.nextPS(), x.held, x.first)
		}
	}
}

// The end of a flow makes those ready that wait for it alone, with their delays. Compute steps end when they
// start, and make others ready. The ends of rows that are not kept are forgotten.
func TestEndsMakeFlowsReady(t *testing.T) {
	x := &frontier{waiting: map[int64][]waitingFlow{}, last: -1, first: 2}
	wait := func(row, startPS int64, path []int32, of ...after) *newFlow {
		f := &newFlow{row: row, startPS: startPS, path: path, after: of}
		x.add(&batch{keepRow: 2}, f)
		return f
	}
	both := wait(5, 10, []int32{0}, after{3, 100}, after{4, 7})
	compute := wait(6, 0, nil, after{3, 20})
	last := wait(7, 2000, []int32{0}, after{6, 5})
	x.end(delivery{3, 1000})
	if x.held != 1 || len(x.ready) != 2 || compute.startPS != 1020 || last.startPS != 2000 || x.last != 6 {
		t.Errorf("%d flows wait, %d are ready, the step starts at %d", x.held, len(x.ready), compute.startPS)
	}
	x.end(delivery{4, 1200})
	if x.held != 0 || both.startPS != 1207 || len(x.waiting) != 0 || x.last != 6 {
		t.Errorf("%d flows wait, the last starts at %d", x.held, both.startPS)
	}
	x.end(delivery{1, 5000})
	if !slices.Equal(x.endedPS, []int64{-1, 1000, 1200, -1, 1020}) {
		t.Errorf("ends from row 2 on: %v", x.endedPS)
	}
	var rows []int64
	for len(x.ready) > 0 {
		rows = append(rows, x.ready.Pop().row)
	}
	if !slices.Equal(rows, []int64{6, 5, 7}) {
		t.Errorf("the order of starts is %v", rows)
	}
	a := &newFlow{startPS: 5, row: 3}
	for _, c := range []struct {
		startPS, row int64
		before       bool
	}{{6, 1, true}, {4, 9, false}, {5, 4, true}, {5, 3, false}, {5, 2, false}} {
		if a.Before(&newFlow{startPS: c.startPS, row: c.row}) != c.before {
			t.Errorf("row 3 at 5 ps, and %+v", c)
		}
	}
}

// A flow ends with the packet that completes it, at the next whole ns. Without losses that is its last
// packet. With losses it is the last that the receiver takes: in order, or of all.
func TestPacketsThatEndAFlow(t *testing.T) {
	const last = calendar.FlagLast
	for _, c := range []struct {
		name      string
		recovers  bool
		selective bool
		bits      []uint32 // numbers, and perhaps the last flag in bit 31
		ends      int      // the place of the packet with which it ends
	}{
		{"without losses", false, false, []uint32{0, 1, 2 | 1<<31}, 2},
		{"in order", true, false, []uint32{0, 2 | 1<<31, 1, 1, 2 | 1<<31}, 4},
		{"in any order", true, true, []uint32{0, 2 | 1<<31, 0, 1, 1}, 3},
	} {
		n, _ := lossy(t, simkernel.DCTCP, 3)
		n.recovery.selective = c.selective
		n.flows.info[0].row = 9
		if !c.recovers {
			n.recovery = nil
		}
		for i, b := range c.bits {
			it := &calendar.Item{AtPS: int64(1001 + i), Hop: 1, Bits: b << n.numberShift}
			if b>>31 != 0 {
				it.Bits |= last
			}
			e, ends := n.delivers(it)
			if ends != (i == c.ends) || ends && e != (delivery{9, 2000}) {
				t.Errorf("%s: packet %d ends the flow: %v, %+v", c.name, i, ends, e)
			}
		}
	}
}
