package stages

import (
	"math/rand/v2"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// linkFlows returns flows of link 7, in start order, read from table hops. Row i is flow i.
func linkFlows(t *testing.T, sizes, starts []int64) *LinkFlows {
	t.Helper()
	n := len(sizes)
	rows, links := make([]int64, n), make([]int32, n)
	zeros, small := make([]int64, n), make([]int16, n)
	for i := range rows {
		rows[i], links[i] = int64(i), 7
	}
	var hops captured
	err := columns.Write(&hops, schema.Hops, n, columns.Of(links), columns.Of(rows), columns.Of(rows),
		columns.Of(small), columns.Of(small), columns.Of(sizes), columns.Of(starts),
		columns.Of(links), columns.Of(links), columns.Of(zeros), columns.Of(zeros), columns.Of(zeros),
		columns.Of(zeros), columns.Of(zeros), columns.Of(links))
	if err != nil {
		t.Fatal(err)
	}
	var l LinkFlows
	if err := l.Read(8, hops.rewound()); err != nil || l.Len() != 0 {
		t.Fatalf("another link has %d flows, %v", l.Len(), err)
	}
	if err := l.Read(7, hops.rewound()); err != nil || l.Len() != n {
		t.Fatalf("%d flows, want %d; %v", l.Len(), n, err)
	}
	return &l
}

// The donor is the last flow of the size's bucket that has started by the given time: compared with a linear search.
func TestAlignedIsTheLastOfItsBucket(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var sizes, starts []int64
	clock := int64(1000)
	for range 900 {
		clock += rng.Int64N(3) // some start at the same time
		sizes, starts = append(sizes, 1+rng.Int64N(5000)), append(starts, clock)
	}
	l := linkFlows(t, sizes, starts)
	for range 3000 {
		size, moment, except := 1+rng.Int64N(8000), 990+rng.Int64N(clock-980), rng.Int64N(900)
		bucket := l.Bucket(size)
		smallest, largest := int64(1<<62), int64(0)
		for _, i := range bucket {
			smallest, largest = min(smallest, sizes[i]), max(largest, sizes[i])
		}
		if size > largest && largest != 5000 && len(bucket) < bucketMin {
			t.Fatalf("size %d has the bucket %d to %d", size, smallest, largest)
		}
		want := int32(-1)
		for _, i := range bucket {
			if int64(i) != except && (want < 0 || starts[i] <= moment) {
				want = i
			}
		}
		got, ok := l.Aligned(size, moment, except)
		if !ok || got != want {
			t.Fatalf("size %d at %d without %d: donor %d, want %d", size, moment, except, got, want)
		}
		row, donorSize, start := l.Flow(got)
		if row == except || donorSize != sizes[got] || start != starts[got] || donorSize < smallest ||
			donorSize > largest {
			t.Fatalf("donor is row %d of %d bytes at %d", row, donorSize, start)
		}
	}
}

// A link that only the excluded flow crosses has no donor.
func TestAlignedWithoutDonors(t *testing.T) {
	l := linkFlows(t, []int64{5}, []int64{9})
	if donor, ok := l.Aligned(5, 9, 0); ok {
		t.Errorf("donor %d", donor)
	}
	if donor, ok := l.Aligned(5, 0, -1); !ok || donor != 0 {
		t.Errorf("donor %d, %v, before the first flow", donor, ok)
	}
}
