package names

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Thing is what a user can name: by its id, or by one of its names, which others may have too.
type Thing struct {
	ID     string
	Names  []string
	Chosen bool // the id is a name that a user chose: its beginning is another name
}

// leastPrefix is how many characters of an id name it.
const leastPrefix = 4

// Find returns the place in all of the thing that a user names: by its whole id; by a name that only it has; or, unless
// whole, by the beginning of its id. A text that is a name of one and the beginning of the id of another names neither.
// kind, as in "scenario", and where, as in "lake", are for the error, which lists things, the most similar first.
func Find(kind, asked, where string, all []Thing, whole bool) (int, error) {
	if asked == "" {
		return 0, fmt.Errorf("the name of a %s is empty: is a variable not set?", kind)
	}
	var found []int
	for i, t := range all {
		switch {
		case t.ID == asked:
			return i, nil
		case slices.Contains(t.Names, asked),
			!whole && !t.Chosen && len(asked) >= leastPrefix && strings.HasPrefix(t.ID, asked):
			found = append(found, i)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		more := ""
		if whole && slices.ContainsFunc(all, func(t Thing) bool { return strings.HasPrefix(t.ID, asked) }) {
			more = " (whole ids and names only)"
		}
		return 0, fmt.Errorf("no %s %q in %s%s; it holds %s", kind, asked, where, more, list(asked, all))
	}
	several := make([]Thing, len(found))
	for i, at := range found {
		several[i] = all[at]
	}
	return 0, fmt.Errorf("%q may be any of %s in %s: give the whole id", asked, list(asked, several), where)
}

// list writes things for an error, the most similar to what was asked for first.
func list(asked string, all []Thing) string {
	const most = 20
	distance := func(t Thing) int {
		d := Distance(asked, t.ID)
		for _, name := range t.Names {
			d = min(d, Distance(asked, name))
		}
		return d
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b Thing) int { return cmp.Compare(distance(a), distance(b)) })
	var texts []string
	for i, t := range sorted {
		if i == most {
			texts = append(texts, fmt.Sprintf("%d more", len(sorted)-i))
			break
		}
		text := t.ID
		if len(t.Names) > 0 && t.Names[0] != "" {
			text += fmt.Sprintf(" (%q)", t.Names[0])
		}
		texts = append(texts, text)
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}
