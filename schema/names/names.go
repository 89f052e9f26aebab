// Package names finds the names that are most like a name that nothing has, for error messages.
package names

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the n names with the smallest distance to name, nearest first.
func Nearest(name string, all []string, n int) []string {
	distance := make(map[string]int, len(all))
	for _, one := range all {
		distance[one] = Distance(name, one)
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b string) int { return distance[a] - distance[b] })
	return sorted[:min(n, len(sorted))]
}

// Distance returns the edit distance of two names without regard to upper and lower case, or a quarter of it if one
// contains the other.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	d := editDistance(a, b)
	if a != "" && (strings.Contains(b, a) || strings.Contains(a, b)) {
		d /= 4
	}
	return d
}

// DidYouMean suggests the most similar of some names: `; did you mean "a" or "b"?`. It is empty without names.
func DidYouMean(name string, all []string) string {
	var quoted []string
	for _, one := range Nearest(name, all, 3) {
		if len(quoted) > 0 && Distance(name, one) > len(name)/2+1 { // the others are no help
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", one))
	}
	if len(quoted) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
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
