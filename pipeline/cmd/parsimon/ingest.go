package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/workloads"
	"parsimon/schema/units"
	"parsimon/stages/ingest"
	"parsimon/stages/topology/format"
)

var ingestCommand = command{
	name: "ingest", most: anyNumber,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r runFlags
		var options topologyOptions
		t := workloads.Trace{Options: ingest.Options{GapSigma: ingest.DefaultGapSigma}}
		var idle time.Duration
		r.declareLake(e, f)
		f.StringVar(&t.Topology, "topology", "", "topology: a file or directory (parsimon help topology), or the name of one that ships (required)")
		group(f, topologyGroup, func() { options.declare(f) })
		f.StringVar(&t.Workload, "workload", "", "name of the workload; default: the one that has one of the sources, else a hash")
		formats := f.StringSlice("format", nil, "formats of the sources: "+strings.Join(ingest.Formats(), ", ")+"; of "+
			"several, such as vpc,gcp, each file has the one that fits; default: by the files' names. json: the report as "+
			"JSON, alone or with a format, such as vpc,json")
		mapping := f.String("mapping", "", "a format of your own: an SQL file")
		show := f.String("show-mapping", "", "print a built-in format, and do nothing else")
		f.StringSliceVar(&t.Domains, "domain", nil, "domain that names may have or not: with example.com, web-7.example.com is web-7")
		f.StringSliceVar(&t.OffFabric, "off-fabric", nil, "addresses off the network, as CIDRs, or any: rows with one that is no host are "+
			"set aside and do not count for --max-rejects")
		f.StringVar(&t.Hosts, "hosts", "", "table address, node: a file, CSV or Parquet")
		f.StringVar(&t.Labels, "labels", "", "table cidr, port, service, vnet: a file, CSV or Parquet")
		f.BoolVar(&t.LabelsFirst, "labels-first", false, "labels of --labels win over those that a trace brings itself")
		parse(f, &t.MaxRejects, "string", shareOf(0, 1), "max-rejects", "1%",
			"share of the rows that may be rejected before the command fails")
		f.Int64Var(&t.SamplingRate, "sampling-rate", 0, "packets that a record's packet stands for where rows do not say it, "+
			"as those of nfdump: 1000 if the exporter samples 1 in 1000")
		durationVar(f, &idle, "idle", time.Duration(ingest.DefaultIdleNS).String(),
			"a connection without packets for this long has ended: later packets are another flow")
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
			e.form = "text"
			sources := slices.DeleteFunc(*formats, func(name string) bool {
				isForm := name == "text" || name == "json"
				if isForm {
					e.form = name
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
			case t.SamplingRate < 0 || t.SamplingRate > 1<<30 || t.SamplingRate == 0 && f.Changed("sampling-rate"):
				return usagef("--sampling-rate %d: must be from 1 to 2^30", t.SamplingRate)
			case idle == 0:
				return usagef("--idle: must be above 0")
			}
			var err error
			t.Sources, t.IdleNS = args, idle.Nanoseconds()
			if t.TopologyOptions, err = options.options(format.Options{}); err != nil {
				return err
			}
			if t.Mappings, err = mappings(sources, *mapping); err != nil {
				return err
			}
			o, err := r.settings(e)
			if err != nil {
				return err
			}
			how := workloads.Settings{Settings: o.Settings.Settings, Lake: o.Lake, Wait: o.Wait}
			report, err := workloads.Ingest(ctx, t, how)
			if err != nil {
				return err
			}
			report.Predict(pipeline.ExactSeconds)
			e.metrics.ingest(report)
			return e.write(report, report.Text())
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
