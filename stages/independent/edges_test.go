package independent

import (
	"fmt"
	"slices"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/linksim"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// bucketsOf returns the buckets of flows at link 5, by their numbers and sizes: "FLOWS of LEAST..MOST".
func bucketsOf(t *testing.T, runs ...[2]int64) (got []string) {
	t.Helper()
	var rows []linksim.HopDelay
	for _, r := range runs {
		for range r[0] {
			rows = append(rows, delay(5, int64(len(rows)), 0, r[1], [2]int64{1000, 1000}))
		}
	}
	var buckets tables.Memory
	b := NewBucketer(&step.Model{Params: simkernel.DefaultParams(), Seed: 1})
	b.begin(&buckets, nil)
	addLinks(t, b, rows)
	err := columns.Each(buckets.Read(), func(r *bucketRow) error {
		got = append(got, fmt.Sprintf("%d of %d..%d", r.N, r.SizeMinBytes, r.SizeMaxBytes))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A bucket accepts flows from one byte more than the previous one, and its largest has at least twice that.
// The first accepts all, so 100 flows of one byte fill it.
func TestBucketsFollowEachOther(t *testing.T) {
	for _, c := range []struct {
		runs [][2]int64
		want []string
	}{
		{[][2]int64{{100, 1000}, {100, 2002}, {100, 9000}}, []string{"100 of 1000..1000", "100 of 2002..2002",
			"100 of 9000..9000"}},
		{[][2]int64{{100, 1000}, {100, 2001}, {100, 9000}}, []string{"100 of 1000..1000", "200 of 2001..9000"}},
		{[][2]int64{{100, 1}, {100, 2}}, []string{"100 of 1..1", "100 of 2..2"}},
		{[][2]int64{{99, 1}, {100, 2}}, []string{"199 of 1..2"}},
	} {
		got := bucketsOf(t, c.runs...)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.runs, got, c.want)
		}
	}
}

// Buckets are written while links are added, so that memory does not grow with the number of links. Each is
// written once, in the order of links.
func TestBucketsOfManyLinks(t *testing.T) {
	const links = columns.BatchRows/16 + 10
	var rows []linksim.HopDelay
	for l := range int32(links) {
		rows = append(rows, delay(l, int64(l), 0, 1000, [2]int64{1000 + int64(l), 1000}))
	}
	var buckets tables.Memory
	b := NewBucketer(&step.Model{Params: simkernel.DefaultParams(), Seed: 1})
	b.begin(&buckets, nil)
	addLinks(t, b, rows)
	next := int32(0)
	err := columns.Each(buckets.Read(), func(r *bucketRow) error {
		if r.LinkID != next || !slices.Equal(r.Delays, []float64{float64(next)}) {
			t.Errorf("row %d is of link %d, with delays %v", next, r.LinkID, r.Delays)
		}
		next++
		return nil
	})
	if err != nil || next != links || len(buckets.Records) < 2 {
		t.Errorf("%d rows in %d batches, %v", next, len(buckets.Records), err)
	}
}
