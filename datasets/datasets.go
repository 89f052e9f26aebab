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

//go:embed sizes/*.txt topologies/*.yaml scenarios/*.yaml scenarios/*/*.yaml
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

// Read is the content of a data set by its name, without the kind's folder and the extension; one
// that stands in a folder further down has that in its name ("accuracy/calm"). The error is
// fs.ErrNotExist where there is none of that name.
func Read(kind Kind, name string) ([]byte, error) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, `\.`) {
		return nil, fs.ErrNotExist
	}
	return files.ReadFile(path.Join(string(kind), name+kind.ext()))
}

// Names are the names of all data sets of a kind, in alphabetical order.
func Names(kind Kind) []string {
	var names []string
	err := fs.WalkDir(files, string(kind), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(name, string(kind)+"/"), kind.ext()))
		}
		return err
	})
	if err != nil {
		panic("datasets: no folder " + string(kind)) // kinds are written in code
	}
	slices.Sort(names)
	return names
}
