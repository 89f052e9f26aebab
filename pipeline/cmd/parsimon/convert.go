package main

import (
	"cmp"
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

// A convertVerb converts a trace of a job to a flow file.
type convertVerb struct {
	*env
	topology    string
	output      string // file
	memoryBytes int64
}

func (v *convertVerb) declare(f *pflag.FlagSet) {
	f.StringVar(&v.topology, "topology", "", topologyDoc+" (required)")
	f.StringVarP(&v.output, "output", "o", "flows.csv",
		"`file` to write; a regular file is replaced in one step")
	declareMemory(f, &v.memoryBytes, autoMemory, "memory that the trace may take; "+autoMemoryDoc)
}

func (v *convertVerb) run(ctx context.Context, args []string) error {
	if v.topology == "" {
		return usagef("--topology is required")
	}
	if err := v.checkOutput("output", v.output); err != nil {
		return err
	}
	l, err := loadTopology(v.topology, format.Options{})
	if err != nil {
		return err
	}
	if l.Network == nil {
		return fmt.Errorf("%s has %s: parsimon topology lists them", v.topology,
			topology.Count(len(l.Faults), "fault"))
	}
	trace, err := readTrace(ctx, args[0], v.memoryBytes)
	if err != nil {
		return fmt.Errorf("trace %w", err)
	}
	var flows int64
	err = v.writeOutput(ctx, v.output, func(w io.Writer) error {
		job, _, _ := strings.Cut(filepath.Base(args[0]), ".")
		flows, err = trace.WriteCSV(ctx, w, job, slices.Sorted(slices.Values(l.Network.Hosts())))
		return err
	})
	if err != nil {
		return fmt.Errorf("trace %s: %w", args[0], err)
	}
	_, err = fmt.Fprintf(v.stdout, "%s: %s of %s\n", v.output, topology.Count(int(flows), "flow"),
		topology.Count(trace.Ranks, "rank"))
	return err
}

// readTrace reads a trace of all ranks, until ctx ends. The trace takes at most memoryBytes.
func readTrace(ctx context.Context, path string, memoryBytes int64) (t *jobs.Trace, err error) {
	readers := map[string]func(io.Reader, int64) (*jobs.Trace, error){".goal": jobs.ReadGOAL,
		".cm": jobs.ReadHtsim, ".csv": jobs.ReadSimCCL}
	read := readers[filepath.Ext(path)]
	open := func(file string) (io.ReadCloser, error) {
		f, err := topology.Open(file)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{topology.UntilDone(ctx, f), f}, nil
	}
	switch {
	case filepath.Ext(path) == ".et":
		files, err := rankFiles(path)
		if err != nil {
			return nil, err
		}
		t, err = jobs.ReadChakra(files, memoryBytes, open)
		return t, cmp.Or(ctx.Err(), err)
	case read == nil:
		return nil, fmt.Errorf("%s: the name does not end in .goal, .cm, .csv or .et", path)
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	if t, err = read(f, memoryBytes); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return t, cmp.Or(ctx.Err(), err) // an interruption cuts a line
}

var rankFile = regexp.MustCompile(`^(.*\.)(\d+)\.et$`)

// rankFiles lists the Chakra traces of all ranks beside that of one rank.
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
		m := rankFile.FindStringSubmatch(e.Name())
		if m != nil && m[1] == parts[1] {
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
