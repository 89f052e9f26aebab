package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline/workloads"
	"parsimon/schema/units"
	"parsimon/stages/ingest"
	"parsimon/stages/topology/format"
)

var ingestCommand = command{
	name: "ingest", args: "SOURCE… --topology T --lake DIR", most: anyNumber,
	writes: true,
	first: []string{"lake", "topology", "format", "hosts", "labels", "workload", "mapping", "show-mapping", "max-rejects",
		"idle"},
	summary: "bring a production trace into the lake, and say what is in it",
	help: `
Reads flow logs and flow lists: files, directories (hive-partitioned or not) and patterns, compressed
(.gz, .zst) or not. Leaves a workload, which "parsimon run --workload NAME" simulates:

  parsimon ingest 'logs/2026-01-31/*.log.gz' --format vpc --hosts hosts.csv --labels labels.csv \
      --topology cables.csv --workload day --lake lake
  parsimon run --workload day --lake lake

A format is an SQL file: a header that says how rows are read, and a SELECT that yields the canonical
columns. --show-mapping NAME prints a built-in one, to start your own from; --mapping FILE.sql uses it.

--hosts finds hosts: address, node (a name or id), as CSV or Parquet; an address may be a CIDR, of which
the longest that fits wins: 0.0.0.0/0,gateway attaches all others to one node. Without it, addresses are
node ids or names. --labels says what flows are: cidr, port, service, vnet, an empty port for any; matched
on destination address and port, then on the source's. Labels that a trace brings itself come first, or
last with --labels-first.
Addresses that are no hosts are listed by bytes, with the line of the hosts table that would find them.

Every row is accounted for: rows in = flows + merged + rejected. Rejected rows stand in the lake's view
workload_rejects with their reason; more than --max-rejects of them fail the command, those apart that
say themselves that they are no flows (log lines without data, refused connections). Records of one
connection become one flow, what two ends saw of it is taken once, and starts that are known to the
second only are drawn within it, with log-normal gaps; such flows are marked synthetic_start.

Ingesting the same files again changes nothing; other files are added to the workload, and it does not
matter in how many steps. Without --workload, a workload is named by everything but its sources: the
next day's files, with the same options, are added to it.`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var options topologyOptions
		t := workloads.Trace{GapSigma: ingest.DefaultGapSigma}
		var idle time.Duration
		r.declareLake(f)
		f.StringVar(&t.Topology, "topology", "", "topology: a file or directory (parsimon help topology), or the name of one that ships (required)")
		group(f, topologyGroup, func() { options.declare(f) })
		f.StringVar(&t.Workload, "workload", "", "name of the workload; default: a hash of everything but the sources")
		formats := f.StringSlice("format", nil, "formats of the sources: "+strings.Join(ingest.Formats(), ", ")+"; of "+
			"several, such as vpc,gcp, each file has the one that fits; default: by the files' names. json: the report as "+
			"JSON; both: --format vpc,json")
		mapping := f.String("mapping", "", "a format of your own: an SQL file")
		show := f.String("show-mapping", "", "print a built-in format, and do nothing else")
		f.StringVar(&t.Hosts, "hosts", "", "table address, node: a file, CSV or Parquet")
		f.StringVar(&t.Labels, "labels", "", "table cidr, port, service, vnet: a file, CSV or Parquet")
		f.BoolVar(&t.LabelsFirst, "labels-first", false, "labels of --labels win over those that a trace brings itself")
		parse(f, &t.MaxRejects, "string", shareOf(0, 1), "max-rejects", "1%",
			"share of the rows that may be rejected before the command fails")
		durationVar(f, &idle, "idle", time.Duration(ingest.DefaultIdleNS).String(),
			"a connection without packets for so long has ended: what follows is another flow")
		f.Float64Var(&t.GapSigma, "gap-sigma", t.GapSigma, "shape of the log-normal gaps between starts that are drawn")
		parse(f, &t.Seed, "uint", units.ParseSeed, "seed", "1",
			"seed of the starts that are drawn, and of the paths in the forecast")
		r.declareWorkers(f)
		declareMemory(f, &r.how.MemoryBytes, "512MiB", "memory for DuckDB; beyond it, it spills to disk")
		return func(ctx context.Context, args []string) error {
			if *show != "" {
				m, err := ingest.FormatMapping(*show)
				if err != nil {
					return usagef("--show-mapping: %v", err)
				}
				_, err = io.WriteString(e.stdout, m.Text)
				return err
			}
			form := "text"
			sources := slices.DeleteFunc(*formats, func(name string) bool {
				isForm := name == "text" || name == "json"
				if isForm {
					form = name
				}
				return isForm
			})
			switch {
			case len(args) == 0:
				return usagef("no source given")
			case t.Topology == "":
				return usagef("--topology is required")
			case len(sources) > 0 && *mapping != "":
				return usagef("--format and --mapping stand in place of each other")
			case !(t.GapSigma > 0 && t.GapSigma <= 2):
				return usagef("--gap-sigma %v: must be above 0 and at most 2", t.GapSigma)
			case idle == 0:
				return usagef("--idle: must be above 0")
			}
			var err error
			t.Sources, t.IdleNS = args, idle.Nanoseconds()
			if t.Options, err = options.options(format.Options{}); err != nil {
				return err
			}
			if t.Mappings, err = mappings(sources, *mapping); err != nil {
				return err
			}
			o, done, err := r.settings(e)
			if err != nil {
				return err
			}
			defer done()
			report, err := workloads.Ingest(ctx, t, workloads.Settings{Lake: o.Lake, Workers: o.Workers,
				MemoryBytes: o.MemoryBytes, Wait: o.Wait, Log: o.Log, Progress: o.Progress})
			if err != nil {
				return err
			}
			e.metrics.ingest(report)
			return e.write(form, report, report.Text())
		}
	},
}

// mappings reads the formats of the sources: built-in ones or, if file is not empty, that of a file.
func mappings(names []string, file string) (all []*ingest.Mapping, err error) {
	if file != "" {
		m, err := ingest.ReadMapping(file)
		return []*ingest.Mapping{m}, err
	}
	for _, name := range names {
		m, err := ingest.FormatMapping(name)
		if err != nil {
			return nil, usagef("--format: %v; or, for the report, json", err)
		}
		all = append(all, m)
	}
	return all, nil
}
