// Package bundle writes scenarios with their estimates as single files, and repeats the estimates elsewhere.
// A bundle is a tar archive, compressed with zstd. It has the complete input of an estimate and digests of
// its rows, but not the rows:
//
//	bundle.json                        Manifest: versions, scenario, variant, digests of rows, list of files
//	inputs/nodes/part-00000.parquet    data files of the input tables, in the order of pipeline.InputTables
//	inputs/links/part-00000.parquet
//	inputs/flows/part-00000.parquet
//	…
//
//	lake ─► Write ─► bundle ─► Open ─► verified files ─► Begin ─► estimate in another lake ─► Compare
//
// Writing the same estimate twice yields equal bytes. Nothing in a bundle is trusted (archive.go).
package bundle

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/simkernel"
)

// formatVersion is the version of the archive and of its manifest.
const formatVersion = 1

// A Manifest is the content of bundle.json.
type Manifest struct {
	Format   int           `json:"parsimon_bundle"` // formatVersion
	MadeBy   Program       `json:"made_by"`
	Scenario pipeline.Spec `json:"scenario"` // without the names that one lake gave it later
	Workload Workload      `json:"workload"`
	Variant  string        `json:"variant"`
	Tables   []TableDigest `json:"tables"` // of the estimate, its input included
	Files    []File        `json:"files"`  // in the order of the archive
}

// A Workload has what is known about the flows besides their rows. Its fields are those of
// pipeline.Generated.
type Workload struct {
	Merged   int64 `json:"merged"`
	SetAside int64 `json:"set_aside"`
	pipeline.GenerateStats
}

// A File is a file of the archive.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A Program is what makes or repeats a bundle.
type Program struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	CommitTime string `json:"commit_time"`
	Go         string `json:"go"`
	Versions
}

// Versions are the versions of a program on which the rows of an estimate depend. Differences leaves out
// Merge, because the bundle has the merged flows.
type Versions struct {
	Schema int `json:"schema_version"`
	Method int `json:"method_version"`
	Kernel int `json:"link_kernel_version"`
	Merge  int `json:"merge_version"`
	// Processors of other types round some sums of floating-point products differently.
	Processor string `json:"processor"`
}

// Current returns the versions of this program.
func Current() Versions {
	return Versions{
		Schema: schema.Version, Method: pipeline.MethodVersion, Kernel: simkernel.Version,
		Merge: workloads.MergeVersion, Processor: runtime.GOARCH,
	}
}

// Differences describes the versions that differ from those of this program.
func (v Versions) Differences() []string {
	var found []string
	now := Current()
	for _, of := range []struct {
		name      string
		then, now any
	}{
		{"method", v.Method, now.Method},
		{"link kernel", v.Kernel, now.Kernel},
		{"lake schema", v.Schema, now.Schema},
		{"processor", v.Processor, now.Processor},
	} {
		if of.then != of.now {
			found = append(found, fmt.Sprintf("%s %v, here %v", of.name, of.then, of.now))
		}
	}
	return found
}

// A Bundle is a bundle whose files were verified and unpacked.
type Bundle struct {
	Manifest
	path string
	dir  string // of the unpacked files
}

// Begin opens the scenario of the bundle for the estimate that the bundle has, in the lake in directory dir.
// If the lake has parts of the estimate, they are not made again.
func (b *Bundle) Begin(ctx context.Context, dir string, o pipeline.Settings) (*pipeline.Estimation, error) {
	v, err := pipeline.ParseVariant(b.Variant)
	if err != nil {
		return nil, fmt.Errorf("%s: %w in this version", b.path, err)
	}
	in := pipeline.Inputs{
		Spec: b.Scenario, Merged: b.Workload.Merged, SetAside: b.Workload.SetAside,
		Stats: b.Workload.GenerateStats, Read: b.read,
	}
	e, err := pipeline.BeginInputs(ctx, dir, in, v, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.path, err)
	}
	return e, nil
}

// read streams one of the input tables.
func (b *Bundle) read(t schema.Table) schema.Batches {
	var paths []string
	for _, f := range b.Files {
		if filepath.Dir(f.Name) == tableDir(t) {
			paths = append(paths, filepath.Join(b.dir, f.Name))
		}
	}
	return lake.ReadOutside(t, paths)
}
