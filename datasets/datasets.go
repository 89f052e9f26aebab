// Package datasets has the data files that ship with the program, embedded in the binary: flow-size
// distributions, topologies and scenario files.
//
//	sizes/NAME.txt         flow-size distribution: "bytes percent" lines
//	topologies/NAME.yaml   network: the clos keys of a scenario file
//	scenarios/NAME.yaml    scenario file; NAME may have a folder, as in accuracy/calm
//
// README.md states the source of each file. The package imports no other package of this module.
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

// Kind is a kind of data set. Its value is the name of the folder.
type Kind string

// The kinds of data sets.
const (
	Sizes      Kind = "sizes"
	Topologies Kind = "topologies"
	Scenarios  Kind = "scenarios"
)

var extensions = map[Kind]string{Sizes: ".txt", Topologies: ".yaml", Scenarios: ".yaml"}

// Read returns the content of a data set. The name has neither the folder of the kind nor the extension, e.g.
// "accuracy/calm". The error wraps fs.ErrNotExist if there is no such data set.
func Read(kind Kind, name string) ([]byte, error) {
	if !fs.ValidPath(name) || strings.ContainsAny(name, `\.`) {
		return nil, fs.ErrNotExist
	}
	return files.ReadFile(path.Join(string(kind), name+extensions[kind]))
}

// Names returns the names of all data sets of a kind, sorted.
func Names(kind Kind) []string {
	var names []string
	err := fs.WalkDir(files, string(kind), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(name, string(kind)+"/"), extensions[kind]))
		}
		return err
	})
	if err != nil {
		panic("datasets: no folder " + string(kind)) // the kinds are constants
	}
	slices.Sort(names)
	return names
}
