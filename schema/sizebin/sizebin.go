// Package sizebin defines the ranges of flow size by which results are reported. The view size_bins, the
// macro size_bin_of, table intervals, comparisons and the clustering of links use this definition.
//
//	place    0         1            2                     3
//	name     <10 KB    10-100 KB    100 KB-1 MB           >1 MB
//	bytes    0 9,999   10,000       100,000 1,000,000     1,000,001
//	         |-----|   |---------|  |---------------|     |-------->
package sizebin

import (
	"fmt"
	"math"
	"strings"
)

// Bin is a range of flow sizes. Both bounds belong to it.
type Bin struct {
	Name               string // as in column size_bin
	MinBytes, MaxBytes int64
}

// All is the name of the range of all flows.
const All = "all"

// bins are the ranges of the paper's section 5 (below 10 KB, 10 KB to 1 MB, above 1 MB), with the middle one
// divided at 100 KB. KB is 1,000 bytes.
var bins = [...]Bin{
	{"<10 KB", 0, 9_999},
	{"10-100 KB", 10_000, 99_999},
	{"100 KB-1 MB", 100_000, 1_000_000},
	{">1 MB", 1_000_001, math.MaxInt64},
}

// Count is the number of bins without All.
const Count = len(bins)

// Bins returns the bins in ascending order, without All. Every size is in exactly one of them.
func Bins() []Bin { return append([]Bin(nil), bins[:]...) }

// Of returns the index in Bins of the bin of a flow size.
func Of(sizeBytes int64) int {
	for i := range Count - 1 {
		if sizeBytes <= bins[i].MaxBytes {
			return i
		}
	}
	return Count - 1
}

// Case returns Of as an SQL expression over a given expression of type BIGINT.
func Case(expression string) string {
	var b strings.Builder
	b.WriteString("CASE")
	for i := range Count - 1 {
		fmt.Fprintf(&b, " WHEN %s <= %d THEN %d", expression, bins[i].MaxBytes, i)
	}
	fmt.Fprintf(&b, " ELSE %d END", Count-1)
	return b.String()
}
