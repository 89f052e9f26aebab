package connections

import (
	"math"
	"testing"
)

// near reports whether two numbers are equal up to rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// Two samples of 200 bytes at one exporter and one of 100 bytes at another have 300·300 - 30,000 ordered
// pairs by bytes, of which 200·200 - 20,000 belong to one exporter. So a third of the bytes count once.
func TestPairsOfSamples(t *testing.T) {
	var s seen
	s.add(200, samplePairs(&record{bytes: 200, samples: 2}))
	s.add(100, samplePairs(&record{bytes: 100, samples: 1}))
	if s.exporters != 2 || s.y != 300 || !near(s.once(), 100) {
		t.Errorf("%d exporters saw %d bytes, of which %g count once, want 2, 300, 100", s.exporters, s.y, s.once())
	}
	for of, want := range map[redundancy]float64{
		noRedundancy: 300 * 101.0 / 301,
		{2, 100}:     300 * 150.0 / 400,
		{3, 0}:       100,
	} {
		got := s.estimate(of)
		if !near(got, want) {
			t.Errorf("redundancy %v: %g bytes, want %g", of, got, want)
		}
	}
}

// A single sample has no pairs. Its bytes are divided by the number of exporters of its racks.
func TestOneSampleHasNoPairs(t *testing.T) {
	var s seen
	s.add(100, samplePairs(&record{bytes: 100, samples: 1}))
	if s.pairs() || s.once() != 0 || !near(s.estimate(redundancy{2, 50}), 50) {
		t.Errorf("pairs %v, %g bytes once, estimate %g", s.pairs(), s.once(), s.estimate(redundancy{2, 50}))
	}
	s.add(100, square(101)) // more pairs with themselves than there can be
	if s.n != (uint128{lo: 20_000}) {
		t.Errorf("%v pairs of samples with themselves, want those of 100 bytes, twice", s.n)
	}
}

// The bytes of an exporter are limited, so that squares fit in 128 bits.
func TestBytesOfAnExporterAreLimited(t *testing.T) {
	var s seen
	s.add(math.MaxUint64, uint128{})
	if s.y != 1<<51 || s.squares != (uint128{hi: 1 << 38}) {
		t.Errorf("%d bytes, their square %v", s.y, s.squares)
	}
}

// The redundancy k of racks is the ratio of the bytes of pairs to those that count once. Racks with few
// samples are drawn towards racks with cables of the same tiers, and these towards all, each with the weight
// of ten samples (here 100 bytes: 10·10,000 / 1,000).
func TestRedundancyOfRacks(t *testing.T) {
	sums := func(alike string, exporters int, y, bytes, once uint64) *pairOfRacks {
		return &pairOfRacks{
			alike: alike, exporters: exporters, y: uint128{lo: y}, n: uint128{lo: 10 * y}, bytes: uint128{lo: bytes},
			once: uint128{lo: once},
		}
	}
	a := racks{0, 1}
	b := racks{1, 0}
	c := racks{2, 0}
	for name, x := range map[string]struct {
		found map[racks]*pairOfRacks
		want  map[racks]float64
	}{
		"two kinds": { // all: 400/200 = 2; the kind of a and b: 500/250 = 2; the other: 100/50 = 2
			map[racks]*pairOfRacks{a: sums("x", 2, 300, 300, 100), b: sums("x", 3, 100, 100, 100),
				c: sums("z", 4, 600, 0, 0)},
			map[racks]float64{a: 400.0 / 150, b: 200.0 / 150, c: 2},
		},
		"kinds that differ": { // all: 400/200; of a: 400/150 = 8/3; of b: 200/150 = 4/3
			map[racks]*pairOfRacks{a: sums("x", 9, 300, 300, 100), b: sums("y", 9, 700, 100, 100)},
			map[racks]float64{a: 400 / (100 + 37.5), b: 200 / (100 + 75.0)},
		},
		"no more than the exporters": {
			map[racks]*pairOfRacks{a: sums("x", 2, 1000, 1000, 100)},
			map[racks]float64{a: 2},
		},
		"no pairs": {
			map[racks]*pairOfRacks{a: sums("x", 3, 1000, 0, 0)},
			map[racks]float64{a: 1},
		},
	} {
		got := redundanciesOf(x.found)
		for of, k := range x.want {
			if !near(got[of].k, k) || !near(got[of].prior, 100) {
				t.Errorf("%s: racks %v: %+v, want k %g and a prior of 100", name, of, got[of], k)
			}
		}
	}
}

// Sums between two racks have all samples, but only connections with pairs of samples tell how many bytes
// count once.
func TestSumsOfRacks(t *testing.T) {
	m := &merging{places: places{
		tier: map[int32]string{0: "leaf", 1: "leaf", 2: "spine"}, rack: map[int32]int{0: 0, 1: 0, 2: 1},
	}}
	found := map[racks]*pairOfRacks{}
	var one, two seen
	one.add(100, square(100))
	two.add(200, uint128{lo: 20_000})
	two.add(100, square(100))
	m.addPair(found, &record{connection: connection{src: 0, dst: 2}}, two)
	m.addPair(found, &record{connection: connection{src: 1, dst: 2}}, one)
	m.addPair(found, &record{connection: connection{src: 0, dst: 1}}, one)
	got := *found[racks{0, 1}]
	want := pairOfRacks{"leaf spine false", 2, uint128{lo: 400}, uint128{lo: 40_000}, uint128{lo: 300},
		uint128{lo: 100}}
	if got != want {
		t.Errorf("sums between racks %+v, want %+v", got, want)
	}
	inRack := found[racks{0, 0}]
	if inRack == nil || inRack.alike != "leaf leaf true" {
		t.Errorf("sums within a rack: %+v", inRack)
	}
	none := (&merging{}).redundancy(&record{})
	if none != (redundancy{1, 1}) {
		t.Errorf("the redundancy of racks without samples is %+v", none)
	}
}

// Of observers that sample at unknown rates, the one with the most bytes between two hosts counts; of equals,
// the last by name. If both counted, the larger of two random estimates would be the size of a flow.
func TestOneSamplerOfTwoHosts(t *testing.T) {
	by := func(observer string, src, dst int32, start float64, bytes int64) testRecord {
		return testRecord{
			src: src, dst: dst, observer: observer, start: start, end: start, bytes: bytes, samples: -1,
		}
	}
	m := mergeAll(t, sourceOf(1, []testRecord{
		by("a", 0, 1, 100, 10), by("b", 0, 1, 101, 20), // b
		by("a", 1, 2, 200, 20), by("b", 1, 2, 201, 10), // a
		by("a", 2, 3, 300, 20), by("b", 2, 3, 301, 20), by("aa", 2, 3, 302, 20), // b
		by("a", 3, 0, 400, 20), by("b", 3, 0, 401, 15), by("b", 3, 0, 402, 15), // b
	}))
	if len(m.starts) != 4 {
		t.Fatalf("flows start at %v, want four", m.starts)
	}
	for i, want := range []int64{101e9, 200e9, 301e9, 401e9} {
		bytes := []int64{20, 20, 20, 30}[i]
		if m.starts[i] != want || m.sizes[i] != bytes {
			t.Errorf("flow %d of %d bytes starts at %d, want %d at %d", i, m.sizes[i], m.starts[i], bytes, want)
		}
	}
}
