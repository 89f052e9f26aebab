package sizebin_test

import (
	"fmt"
	"math"
	"testing"

	"parsimon/schema/sizebin"
)

func ExampleOf() {
	bins := sizebin.Bins()
	for _, size := range []int64{9_999, 10_000, 100_000, 1_000_000, 1_000_001} {
		fmt.Println(size, bins[sizebin.Of(size)].Name)
	}
	// Output:
	// 9999 <10 KB
	// 10000 10-100 KB
	// 100000 100 KB-1 MB
	// 1000000 100 KB-1 MB
	// 1000001 >1 MB
}

func ExampleCase() {
	fmt.Println(sizebin.Case("bytes"))
	// Output:
	// CASE WHEN bytes <= 9999 THEN 0 WHEN bytes <= 99999 THEN 1 WHEN bytes <= 1000000 THEN 2 ELSE 3 END
}

// The bins cover all sizes without overlap: the first starts at 0, each starts after the end of the one
// before, and the last has no end.
func TestBinsDivideAllSizes(t *testing.T) {
	bins := sizebin.Bins()
	if len(bins) != sizebin.Count || bins[0].MinBytes != 0 || bins[len(bins)-1].MaxBytes != math.MaxInt64 {
		t.Fatalf("bins %v do not cover all sizes", bins)
	}
	for i, b := range bins {
		if i > 0 && b.MinBytes != bins[i-1].MaxBytes+1 {
			t.Errorf("bin %q begins at %d, the bin before ends at %d", b.Name, b.MinBytes, bins[i-1].MaxBytes)
		}
		if sizebin.Of(b.MinBytes) != i || sizebin.Of(b.MaxBytes) != i {
			t.Errorf("bin %q: its bounds are in bins %d and %d", b.Name, sizebin.Of(b.MinBytes),
				sizebin.Of(b.MaxBytes))
		}
	}
}
