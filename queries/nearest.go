package queries

import (
	"slices"
	"strings"
)

// nearest returns the n names with the smallest distance to name, nearest first.
func nearest(name string, names []string, n int) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return nameDistance(name, a) - nameDistance(name, b) })
	return sorted[:min(n, len(sorted))]
}

// nameDistance returns the edit distance of two names, or a quarter of it if one contains the other.
func nameDistance(a, b string) int {
	d := editDistance(a, b)
	if a != "" && (strings.Contains(b, a) || strings.Contains(a, b)) {
		d /= 4
	}
	return d
}

// editDistance returns Levenshtein's distance: the least number of insertions, deletions and replacements of bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
