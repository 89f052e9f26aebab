// Package names finds objects by name, and formats names in messages: lists of names, and suggestions for
// unknown ones.
package names

import (
	"cmp"
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

// Distance returns the edit distance of two names without regard to upper and lower case, or a quarter of it
// if one contains the other.
func Distance(a, b string) int {
	a = strings.ToLower(a)
	b = strings.ToLower(b)
	d := editDistance(a, b)
	if a != "" && b != "" && (strings.Contains(b, a) || strings.Contains(a, b)) {
		d /= 4
	}
	return d
}

// DidYouMean suggests names that differ by at most a third: `; did you mean "a" or "b"?`. It may be empty.
func DidYouMean(name string, all []string) string {
	var quoted []string
	for _, one := range Nearest(name, all, 3) {
		if Distance(name, one) > max(len(name), len(one))/3 { // the others are no help
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", one))
	}
	if len(quoted) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(quoted, " or ") + "?"
}

// editDistance returns Levenshtein's distance: the least number of insertions, deletions and replacements of
// bytes.
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

// A Thing is an object that a user can name by its id or by one of its names. Others may have the same names.
type Thing struct {
	ID     string
	Names  []string
	Chosen bool // set if a user chose the id, of which then no prefix counts as an abbreviation
	// About describes the thing, to distinguish it from others with the same name. It may be nil.
	About func() string
}

// leastPrefix is the minimum length of a prefix of an id.
const leastPrefix = 4

// Match says which texts name a thing.
type Match int

// The ways to match.
const (
	Abbreviated Match = iota // a prefix of an id matches, and a name that several things have means the last
	Exact                    // only whole ids and names match, and a name that several things have is an error
)

// Find returns the index in all of the thing that a user names: by its whole id, by its name or, if match is
// Abbreviated, by a prefix of its id. If several things have the name, it is the last one in all, and a
// note reports this. If match is Exact, this is an error. A text that is the name of one thing and a prefix
// of another's id is ambiguous. kind, as in "scenario", and where, as in "lake", are for the note and the
// error. The error lists things, the most similar first.
func Find(kind, asked, where string, all []Thing, match Match) (at int, note string, err error) {
	if asked == "" {
		return 0, "", fmt.Errorf("the name of a %s is empty: is a variable not set?", kind)
	}
	var found []int
	named := match == Abbreviated
	for i, t := range all {
		isName := slices.Contains(t.Names, asked)
		switch {
		case t.ID == asked:
			return i, "", nil
		case isName, match == Abbreviated && t.hasPrefix(asked):
			found = append(found, i)
			named = named && isName
		}
	}
	last := len(found) - 1
	switch {
	case last == 0:
		return found[0], "", nil
	case last < 0:
		more := ""
		abbreviates := func(t Thing) bool { return strings.HasPrefix(t.ID, asked) }
		if match == Exact && slices.ContainsFunc(all, abbreviates) {
			more = " (whole ids and names only)"
		}
		return 0, "", fmt.Errorf("no %s %q in %s%s; it holds %s", kind, asked, where, more, list(asked, all))
	}
	several := make([]Thing, len(found))
	for i, at := range found {
		several[i] = all[at]
		about := several[i].About
		if about != nil {
			several[i].ID += " " + about()
		}
	}
	if named {
		return found[last], fmt.Sprintf("%q is the name of %d %ss, and means the newest, %s; an older one is "+
			"named by its id: %s", asked, last+1, kind, several[last].ID, several[last-1].ID), nil
	}
	return 0, "", fmt.Errorf("%q may be any of %s in %s: give the whole id", asked, list(asked, several), where)
}

// Listed joins at most a given number of names with commas, and adds the number of the others.
func Listed(all []string, most int) string {
	more := len(all) - most
	if more > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// hasPrefix reports whether a text is long enough to abbreviate the id of the thing, and does.
func (t *Thing) hasPrefix(text string) bool {
	return !t.Chosen && len(text) >= leastPrefix && strings.HasPrefix(t.ID, text)
}

// list formats things for an error, sorted by similarity to the given name.
func list(asked string, all []Thing) string {
	distance := func(t Thing) int {
		d := Distance(asked, t.ID)
		for _, name := range t.Names {
			d = min(d, Distance(asked, name))
		}
		return d
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Thing) int { return cmp.Compare(distance(a), distance(b)) })
	texts := Of(sorted, func(t Thing) string {
		if len(t.Names) > 0 && t.Names[0] != "" {
			return fmt.Sprintf("%s (%q)", t.ID, t.Names[0])
		}
		return t.ID
	})
	return cmp.Or(Listed(texts, 20), "none")
}

// Of returns the result of name for each element.
func Of[T, V any](all []T, name func(T) V) []V {
	out := make([]V, len(all))
	for i, v := range all {
		out[i] = name(v)
	}
	return out
}
