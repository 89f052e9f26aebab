package independent

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// The rules of the paper's buckets (§3.3) hold for any sizes. Every bucket but the last has at least 100
// delays and a flow of at least twice the smallest size that it accepts. Flows of equal size share a bucket.
// No bucket is larger than necessary.
func TestBucketRules(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for trial := range 300 {
		n := 1 + rng.IntN(2000)
		sizes := make([]int64, n)
		for i := range sizes {
			sizes[i] = 1 + int64(math.Exp(rng.Float64()*float64(1+trial%15)))
		}
		slices.Sort(sizes)
		least := int64(0)
		for first := 0; first < n; {
			end := first + bucketEnd(sizes[first:], least)
			if end < n {
				if end-first < bucketMin || sizes[end-1] < bucketSpread*least {
					t.Fatalf("trial %d: bucket %d..%d of %d is too small", trial, first, end, n)
				}
				if sizes[end] == sizes[end-1] {
					t.Fatalf("trial %d: size %d is in two buckets", trial, sizes[end])
				}
				cut := end - 1 // the bucket must not have been complete one size earlier
				for cut > first && sizes[cut-1] == sizes[end-1] {
					cut--
				}
				if cut-first >= bucketMin && sizes[cut-1] >= bucketSpread*least {
					t.Fatalf("trial %d: bucket %d..%d could end at %d", trial, first, end, cut)
				}
			}
			least = sizes[end-1] + 1
			first = end
		}
	}
}

// Few sizes fill separate buckets, as in the published code. Otherwise flows of 400 KB would draw delays
// per packet of flows of 10 KB, and their p50 was 6 times too high (parking-lot/long-bursty).
func TestFewSizesHaveBucketsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name string
		is   []int64 // sizes in bytes
		n    []int   // flows of each
		want []int   // flows of each bucket
	}{
		{"two sizes", []int64{10_000, 400_000}, []int{500, 120}, []int{500, 120}},
		{"three sizes", []int64{1000, 10_000, 400_000}, []int{300, 200, 100}, []int{300, 200, 100}},
		{"close sizes", []int64{10_000, 15_000, 20_002}, []int{300, 200, 100}, []int{300, 300}},
		{"too few small flows", []int64{10_000, 400_000}, []int{99, 500}, []int{599}},
		{"too few large flows", []int64{10_000, 400_000}, []int{100, 3}, []int{100, 3}},
	} {
		var sizes []int64
		for i, n := range c.n {
			sizes = append(sizes, slices.Repeat([]int64{c.is[i]}, n)...)
		}
		var got []int
		least := int64(0)
		for rest := sizes; len(rest) > 0; {
			end := bucketEnd(rest, least)
			got = append(got, end)
			least = rest[end-1] + 1
			rest = rest[end:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: buckets of %v flows, want %v", c.name, got, c.want)
		}
	}
}

// delay returns the delay of a flow of three hops. fct has its FCT and its ideal FCT in ns.
func delay(link int32, row int64, hop int16, size int64, fct [2]int64) linksim.HopDelay {
	at := tables.FlowAtHop{LinkID: link, FlowRow: row, FlowID: 1000 + row, Hop: hop, Hops: 3, SizeBytes: size}
	return linksim.HopDelay{FlowAtHop: at, FCTNS: fct[0], IdealNS: fct[1]}
}

// bucketed returns what a bucketer writes about hops, which are sorted by link.
func bucketed(t *testing.T, m *step.Model, hops []linksim.HopDelay) (buckets, contributions *tables.Memory) {
	t.Helper()
	buckets = &tables.Memory{}
	contributions = &tables.Memory{}
	b := NewBucketer(m)
	b.begin(buckets, contributions)
	addLinks(t, b, hops)
	return buckets, contributions
}

// addLinks passes hops to a bucketer link by link, and ends the task.
func addLinks(t *testing.T, b *Bucketer, hops []linksim.HopDelay) {
	t.Helper()
	for len(hops) > 0 {
		n := 1
		for n < len(hops) && hops[n].LinkID == hops[0].LinkID {
			n++
		}
		if err := b.AddLink(hops[:n]); err != nil {
			t.Fatal(err)
		}
		hops = hops[n:]
	}
	if err := b.End(); err != nil {
		t.Fatal(err)
	}
}

// randomDelays returns delays of some links.
func randomDelays(rng *rand.Rand, links, flowsPerLink int) (rows []linksim.HopDelay) {
	for l := range links {
		for i := range flowsPerLink {
			size := 1 + rng.Int64N(50_000)
			ideal := 1000 + size
			rows = append(rows, delay(int32(l), int64(i*links+l), int16(l%3), size,
				[2]int64{ideal + rng.Int64N(5000), ideal}))
		}
	}
	return rows
}

// Each contribution is a delay of the flow's own bucket times the flow's packets. Draws are uniform and do
// not depend on which links are bucketed together.
func TestBucketDrawsFromTheFlowsOwnBucket(t *testing.T) {
	p := simkernel.DefaultParams()
	in := randomDelays(rand.New(rand.NewPCG(5, 5)), 6, 1500)
	m := &step.Model{Params: p, Seed: 42}
	buckets, contributions := bucketed(t, m, in)
	type bucket struct {
		lo, hi int64
		delays []float64
	}
	byLink := map[int32][]bucket{}
	total := 0
	for _, r := range buckets.Records {
		lists := columns.Named(r, "delays").(*array.List)
		for i, link := range columns.Int32s(r, "link_id") {
			from, to := lists.ValueOffsets(i)
			d := lists.ListValues().(*array.Float64).Float64Values()[from:to]
			if !slices.IsSorted(d) || int64(len(d)) != columns.Int64s(r, "n")[i] {
				t.Fatalf("link %d: delays out of order or miscounted", link)
			}
			byLink[link] = append(byLink[link], bucket{columns.Int64s(r, "size_min_bytes")[i],
				columns.Int64s(r, "size_max_bytes")[i], d})
			total += len(d)
		}
	}
	if total != 9000 {
		t.Errorf("buckets have %d delays, want 9000", total)
	}
	size := map[int64]int64{}
	for _, hop := range in {
		size[hop.FlowRow] = hop.SizeBytes
	}
	last := int64(-1)
	var rank float64
	for _, r := range contributions.Records {
		link := columns.Int32s(r, "link_id")
		for i, row := range columns.Int64s(r, "flow_row") {
			if row < last {
				t.Fatal("contributions are not ordered by flow")
			}
			last = row
			s := size[row]
			at := slices.IndexFunc(byLink[link[i]], func(b bucket) bool { return s >= b.lo && s <= b.hi })
			b := byLink[link[i]][at]
			pos := slices.IndexFunc(b.delays, func(d float64) bool {
				return d*float64(p.Packets(s)) == columns.Float64s(r, "delay_ns")[i]
			})
			if pos < 0 {
				t.Fatalf("flow row %d: its delay on link %d is not of its bucket", row, link[i])
			}
			rank += (float64(pos) + 0.5) / float64(len(b.delays))
		}
	}
	mean := rank / 9000
	if math.Abs(mean-0.5) > 0.02 {
		t.Errorf("draws are not uniform: mean rank %.3f", mean)
	}
	again := map[[2]int64]float64{}
	for _, r := range contributions.Records {
		for i := range int(r.NumRows()) {
			again[[2]int64{int64(columns.Int32s(r, "link_id")[i]),
				columns.Int64s(r, "flow_row")[i]}] = columns.Float64s(r, "delay_ns")[i]
		}
	}
	for link := range int32(6) {
		others := func(hop linksim.HopDelay) bool { return hop.LinkID != link }
		_, c := bucketed(t, m, slices.DeleteFunc(slices.Clone(in), others))
		for _, r := range c.Records {
			for i := range int(r.NumRows()) {
				if again[[2]int64{int64(columns.Int32s(r, "link_id")[i]),
					columns.Int64s(r, "flow_row")[i]}] != columns.Float64s(r, "delay_ns")[i] {
					t.Fatal("a link's draws depend on the partition it is in")
				}
			}
		}
	}
}

// An FCT below the ideal FCT is an error.
func TestBucketRefusesDelaysBelowIdeal(t *testing.T) {
	b := NewBucketer(&step.Model{Params: simkernel.DefaultParams()})
	b.begin(&tables.Memory{}, &tables.Memory{})
	err := b.AddLink([]linksim.HopDelay{delay(3, 0, 0, 100, [2]int64{900, 1000})})
	if err == nil || !strings.Contains(err.Error(), "flow 1000 on link 3 has an FCT of 900 ns") {
		t.Errorf("error %v", err)
	}
}
