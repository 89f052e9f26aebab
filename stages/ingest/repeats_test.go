package ingest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The repeated rows of a small file are counted exactly.
func TestRepeatedRowsAreCounted(t *testing.T) {
	var r repeatedRows
	rows := 0.0
	bytes := 0.0
	for i := range 200 {
		for range 1 + i%3 {
			r.add(uint64(i)*0x9e3779b97f4a7c15, int64(i))
		}
		rows += float64(i % 3)
		bytes += float64(i * (i % 3))
	}
	got := r.count()
	if got != (repetition{rows: rows, bytes: bytes}) {
		t.Errorf("%+v, want %g rows, %g bytes", got, rows, bytes)
	}
}

// The repeated rows of a large file are estimated, whether few rows are repeated often or many rows once. The
// errors of the estimates have the standard deviation that count states, even if most bits are set.
func TestRepeatedRowsAreEstimated(t *testing.T) {
	const (
		all   = 100_000
		bytes = 1000
	)
	for _, c := range []struct{ texts, copies int }{{0, 0}, {1, all}, {1, 20_000}, {10, 3000}, {15_000, 1}} {
		again := float64(c.texts * c.copies)
		const files = 40
		var squares float64
		for seed := range uint64(files) {
			random := rand.New(rand.NewPCG(seed, 2))
			r := repeatedRows{bits: make([]uint64, 512)} // 32,768 bits
			for i := range all {
				hash := random.Uint64()
				r.add(hash, bytes)
				if i < c.texts {
					for range c.copies {
						r.add(hash, bytes)
					}
				}
			}
			got := r.count()
			if math.Abs(got.bytes-bytes*got.rows) > 1 || math.Abs(got.bytesError-bytes*got.rowsError) > 1 {
				t.Errorf("%v: %+v, all rows have %d bytes", c, got, bytes)
			}
			rows := float64(all) + again
			many := got.isMany(repeatsNoted, rows, bytes*rows)
			if many != (again > 0) {
				t.Errorf("%v: %+v, many: %v", c, got, many)
			}
			z := (got.rows - again) / got.rowsError
			squares += z * z
		}
		// Without repeated rows, half of the estimates are below 0 and become 0.
		mean := squares / files
		if mean > 1.8 || mean < 0.25 {
			t.Errorf("%v: squares of the errors have a mean of %.2f variances", c, mean)
		}
	}
}

// A row with many bytes does not seem to repeat another one whose bit is the same, and is found again.
func TestRepeatedRowsWithManyBytes(t *testing.T) {
	for _, again := range []bool{false, true} {
		random := rand.New(rand.NewPCG(3, 4))
		r := repeatedRows{bits: make([]uint64, 64)}
		for range 10_000 {
			r.add(random.Uint64(), 1)
		}
		for i := range 50 {
			r.add(math.MaxUint64-uint64(64*i), 1e9)
		}
		if again {
			r.add(math.MaxUint64, 1e9)
		}
		got := r.count()
		many := got.isMany(repeatsNoted, 10_051, r.bytes)
		if many != again {
			t.Errorf("%v: %+v", again, got)
		}
	}
}

// A file becomes large at a number of different rows. Those before still count.
func TestRepeatedRowsBeforeAndAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var hashes []uint64
	for range exactRows + 1000 {
		hashes = append(hashes, random.Uint64())
	}
	var r repeatedRows
	for _, h := range append(hashes, hashes...) {
		r.add(h, 10)
	}
	got := r.count()
	if math.Abs(got.rows-float64(len(hashes))) > 5*got.rowsError || got.rowsError == 0 || got.rowsError > 100 {
		t.Errorf("%+v, want %d rows", got, len(hashes))
	}
}

// Rows without bytes are not many bytes.
func TestRepeatedRowsWithoutBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	r := repeatedRows{bits: make([]uint64, 512)}
	for range 1000 {
		r.add(random.Uint64(), 0)
	}
	if len(r.set) > 0 {
		t.Errorf("%d rows without bytes are a set", len(r.set))
	}
}
