package queries

import (
	"embed"
	"regexp"
)

// The text of each macro, name(parameters) AS …, follows its comment.
//
//go:embed macros/*.sql
var macroFiles embed.FS

var macroComment = regexp.MustCompile(`(?m)^\s*--.*\n`)

// macros returns the macros of the catalog, which views use, each after those that it uses.
func macros() []string {
	all := []string{sizeBinMacro(), flowGroupsMacro}
	for _, name := range []string{
		"percentile_cell", "percentile_within", "percentiles_and_whole", "percentiles", "percentiles_of",
	} {
		text, err := macroFiles.ReadFile("macros/" + name + ".sql")
		if err != nil {
			panic("queries: " + err.Error()) // embedded
		}
		all = append(all, macroComment.ReplaceAllString(string(text), ""))
	}
	return all
}
