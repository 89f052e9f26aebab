package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
)

var statusCommand = command{
	name: "status", args: "--lake DIR",
	summary: "what the lake holds: complete, partial or damaged",
	help: `
Lists the scenarios of a lake with the state of each stage, and its ingested workloads, and reads
every byte of every file that should be there. Exits 5 if anything is damaged.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var dir, format string
		f.StringVar(&dir, "lake", "", "directory of the lake (required)")
		declareTable(f, &format)
		return func(_ context.Context, args []string) error {
			if dir == "" || len(args) > 0 {
				return usagef("--lake is required, and nothing else")
			}
			l, err := lake.Open(dir, false)
			if err != nil {
				return err
			}
			status, err := pipeline.ReadStatus(l, true)
			if err != nil {
				return err
			}
			if err := writeStatus(e.stdout, status, format); err != nil {
				return err
			}
			for _, s := range status.Scenarios {
				if s.State == "damaged" {
					return damagedf("scenario %s is damaged: run it again, and what is damaged is made again", s.ScenarioID)
				}
			}
			for _, s := range status.Workloads {
				if s.State == "damaged" {
					return damagedf("workload %s is damaged: ingest it again, and what is damaged is made again", s.ID)
				}
			}
			return nil
		}
	},
}

// writeStatus writes one line for each stage and workload, the damage below it.
func writeStatus(w io.Writer, status *pipeline.Status, format string) error {
	if format == "json" {
		return writeJSON(w, status)
	}
	var b strings.Builder
	if len(status.Scenarios)+len(status.Workloads) == 0 {
		fmt.Fprintf(&b, "%s holds no scenario and no workload\n", status.Lake)
	}
	for _, s := range status.Scenarios {
		fmt.Fprintf(&b, "%s  %s  %s\n", s.ScenarioID, s.State, s.Name)
		for _, d := range s.Damage {
			fmt.Fprintf(&b, "  damaged: %s\n", d)
		}
		for _, st := range s.Stages {
			name := st.Stage
			if st.Variant != "" {
				name += " (" + st.Variant + ")"
			}
			fmt.Fprintf(&b, "  %-24s %-9s %4d of %4d tasks %12d rows %12d bytes\n", name, st.State, st.Done, st.Tasks, st.Rows, st.Bytes)
			for _, d := range st.Damage {
				fmt.Fprintf(&b, "    damaged: %s\n", d)
			}
		}
	}
	for _, s := range status.Workloads {
		fmt.Fprintf(&b, "workload %s  %s  %s, %d files: %d rows = %d flows + %d merged + %d rejected\n", s.ID, s.State, s.Format, s.Sources, s.Rows, s.Flows, s.Merged, s.Rejects)
		for _, d := range s.Damage {
			fmt.Fprintf(&b, "    damaged: %s\n", d)
		}
	}
	for _, left := range status.Litter {
		fmt.Fprintf(&b, "left by a killed process: %s, %d bytes: the next command that writes into the lake removes it\n", left.Path, left.Bytes)
	}
	_, err := io.WriteString(w, text.Clean(b.String()))
	return err
}
