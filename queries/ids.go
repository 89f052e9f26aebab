package queries

import (
	"fmt"
	"slices"
	"strings"

	"parsimon/schema/names"
)

// maxListed is the number of ids that an error lists.
const maxListed = 20

// checkIDs returns an error if the parameter scenario or variant is not empty and no data file of the lake has
// that id. The error lists those that it has, the most similar ones first.
func (db *DB) checkIDs(params map[string]string) error {
	for _, column := range []string{"scenario", "variant"} {
		asked, of := params[column], "in the lake"
		if asked == "" {
			continue
		}
		if scenario := params["scenario"]; column == "variant" && scenario != "" {
			of = "of scenario " + scenario
		}
		var known []string
		for _, f := range db.files {
			if id := f.id(column); id != "" && (of == "in the lake" || params["scenario"] == f.Scenario) {
				known = append(known, id)
			}
		}
		if slices.Sort(known); !slices.Contains(known, asked) {
			known = slices.Compact(known)
			return fmt.Errorf("no %s %q %s; it has %s", column, asked, of,
				strings.Join(names.Nearest(asked, known, maxListed), ", "))
		}
	}
	return nil
}
