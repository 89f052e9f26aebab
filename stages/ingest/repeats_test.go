package ingest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Few rows are compared with all others. If this were an estimate, the remark about a small file would be
// wrong.
func TestRepeatedRowsAreCounted(t *testing.T) {
	r := repeatedRows{most: 1000}
	for i := range uint64(200) {
		for range 1 + i%3 {
			r.add(i*0x9e3779b97f4a7c15, int64(i))
		}
	}
	rows := int64(0)
	bytes := 0.0
	for i := range 200 {
		rows += int64(i % 3)
		bytes += float64(i * (i % 3))
	}
	got := r.count()
	if got != (repetition{rows: rows, bytes: bytes}) {
		t.Errorf("%+v, want %d rows, %g bytes", got, rows, bytes)
	}
}

// Of many rows, a sample is compared, whose size is bounded. Rows with many bytes are in any sample:
// otherwise, a few of them that repeat others would be missed.
func TestRepeatedRowsAreEstimated(t *testing.T) {
	const (
		all   = 1 << 20
		again = all / 8
		large = int64(1e9)
	)
	random := rand.New(rand.NewPCG(1, 2))
	r := repeatedRows{most: 1 << 12}
	add := func(hash uint64, bytes int64) {
		r.add(hash, bytes)
		if len(r.rows) >= r.most {
			t.Fatalf("%d rows are compared", len(r.rows))
		}
	}
	for i := range all {
		hash := random.Uint64()
		add(hash, 1000)
		if i < again {
			add(hash, 1000)
		}
		if i == all/2 || i == all-1 {
			add(math.MaxUint64, large)
		}
	}
	got := r.count()
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.15*b }
	if !got.isEstimate || !near(float64(got.rows), again+1) || !near(got.bytes-float64(large), 1000*again) {
		t.Errorf("%+v, want about %d rows, %d bytes", got, again, 1000*again+large)
	}
}

// Rows that are all equal, or have no bytes, take no more memory than others, and no endless time.
func TestRepeatedRowsOfOneText(t *testing.T) {
	equal := repeatedRows{most: 16}
	empty := repeatedRows{most: 16}
	for i := range uint64(1000) {
		equal.add(math.MaxUint64, 5)
		empty.add(i<<40, 0)
	}
	got := equal.count()
	if got != (repetition{rows: 999, bytes: 4995}) {
		t.Errorf("equal rows: %+v", got)
	}
	got = empty.count()
	if got.rows != 0 || len(empty.rows) >= empty.most {
		t.Errorf("rows without bytes: %+v, %d are compared", got, len(empty.rows))
	}
}
