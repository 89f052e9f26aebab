// Package datasets holds what ships with the program: flow-size distributions, topologies and
// scenario files, embedded in the binary. README.md beside it says where each comes from. It
// imports nothing of ours; pipeline reads the files.
package datasets

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed sizes/*.txt topologies/*.yaml scenarios/*.yaml
var files embed.FS

// A Kind is a folder of data sets.
type Kind string

// The kinds of data sets, with their folder's name.
const (
	Sizes      Kind = "sizes"      // flow-size distributions: "bytes percent" lines
	Topologies Kind = "topologies" // networks: the clos keys of a scenario file
	Scenarios  Kind = "scenarios"  // scenario files
)

func (k Kind) ext() string {
	if k == Sizes {
		return ".txt"
	}
	return ".yaml"
}

// Read is the content of a data set by its name, without folder and extension. The error is
// fs.ErrNotExist where there is none of that name.
func Read(kind Kind, name string) ([]byte, error) {
	if name == "" || strings.ContainsAny(name, `/\.`) {
		return nil, fs.ErrNotExist
	}
	return files.ReadFile(path.Join(string(kind), name+kind.ext()))
}

// Names are the names of all data sets of a kind, in alphabetical order.
func Names(kind Kind) []string {
	entries, err := files.ReadDir(string(kind))
	if err != nil {
		panic("datasets: no folder " + string(kind)) // kinds are written in code
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), kind.ext()))
	}
	slices.Sort(names)
	return names
}
