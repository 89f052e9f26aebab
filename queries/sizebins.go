package queries

import (
	"fmt"
	"math"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema/sizebin"
)

// sizeBinsView returns the view size_bins: one row for each bin of package sizebin, numbered from 0, and
// a last one named 'all' that holds every size. Both bounds belong to a bin.
func sizeBinsView() string {
	var rows []string
	for i, b := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All, MaxBytes: math.MaxInt64}) {
		rows = append(rows, fmt.Sprintf("(CAST(%d AS INTEGER), %s, CAST(%d AS BIGINT), CAST(%d AS BIGINT))",
			i, duckdb.Quote(b.Name), b.MinBytes, b.MaxBytes))
	}
	return "SELECT * FROM (VALUES " + strings.Join(rows, ", ") +
		") AS bins(bin, size_bin, size_min_bytes, size_max_bytes)"
}

// sizeBinMacro returns the macro size_bin_of(bytes): the number of the bin that a flow of the size is in.
func sizeBinMacro() string { return "size_bin_of(bytes) AS " + sizebin.Case("bytes") }
