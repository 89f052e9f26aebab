package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload/jobs"
)

var convertCommand = command{
	name: "convert", least: 1, most: 1,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		path := f.String("topology", "", "topology: a file or directory, or the name of one that ships (required)")
		output := f.StringP("output", "o", "flows.csv", "file to write; a regular file is replaced in one step")
		return func(_ context.Context, args []string) error {
			if *path == "" {
				return usagef("--topology is missing")
			}
			if err := checkOutput("output", *output); err != nil {
				return err
			}
			l, err := loadTopology(*path, format.Options{})
			if err != nil {
				return err
			}
			if l.Network == nil {
				return fmt.Errorf("%s has %s: parsimon topology lists them", *path, topology.Count(len(l.Faults), "fault"))
			}
			trace, err := readTrace(args[0])
			if err != nil {
				return fmt.Errorf("trace %w", err)
			}
			var flows int64
			err = writeOutput(*output, func(w io.Writer) error {
				job, _, _ := strings.Cut(filepath.Base(args[0]), ".")
				flows, err = trace.WriteCSV(w, job, slices.Sorted(slices.Values(l.Network.Hosts())))
				return err
			})
			if err != nil {
				return fmt.Errorf("trace %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %s of %s\n", *output, topology.Count(int(flows), "flow"),
				topology.Count(trace.Ranks, "rank"))
			return err
		}
	},
}

// readTrace reads a trace, of all ranks.
func readTrace(path string) (t *jobs.Trace, err error) {
	readers := map[string]func(io.Reader) (*jobs.Trace, error){".goal": jobs.ReadGOAL, ".cm": jobs.ReadHtsim,
		".csv": jobs.ReadSimCCL}
	read := readers[filepath.Ext(path)]
	switch {
	case filepath.Ext(path) == ".et":
		files, err := rankFiles(path)
		if err != nil {
			return nil, err
		}
		return jobs.ReadChakra(files, func(file string) (io.ReadCloser, error) { return topology.Open(file) })
	case read == nil:
		return nil, fmt.Errorf("%s: the name does not end in .goal, .cm, .csv or .et", path)
	}
	f, err := topology.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if t, err = read(f); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return t, err
}

var rankFile = regexp.MustCompile(`^(.*\.)(\d+)\.et$`)

// rankFiles lists the Chakra traces of all ranks that lie beside one of them.
func rankFiles(path string) (files []string, err error) {
	parts := rankFile.FindStringSubmatch(filepath.Base(path))
	if parts == nil {
		return nil, fmt.Errorf("%s: the name of a Chakra trace ends in the rank: NAME.0.et", path)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	there := 0
	for _, e := range entries {
		if m := rankFile.FindStringSubmatch(e.Name()); m != nil && m[1] == parts[1] {
			there++
		}
	}
	for rank := range there {
		file := filepath.Join(filepath.Dir(path), fmt.Sprintf("%s%d.et", parts[1], rank))
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%s: there is no trace of rank %d, and there are %d traces", path, rank, there)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, errors.New(path + ": no such file")
	}
	return files, nil
}
