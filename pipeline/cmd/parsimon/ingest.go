package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/workloads"
	"parsimon/schema/units"
	"parsimon/stages/ingest"
	"parsimon/stages/topology/format"
)

// An ingestVerb brings traces into a lake as a workload.
type ingestVerb struct {
	*env
	answerFlags
	how     runFlags
	options topologyOptions
	trace   workloads.Trace
	flags   *pflag.FlagSet
	formats []string
	mapping string // file of a format
	show    string // name of a built-in format
	idle    time.Duration
}

func (v *ingestVerb) declare(f *pflag.FlagSet) {
	v.flags = f
	v.how.heapGrowth = growthOfIngest
	v.how.declareLake(v.env, f)
	f.StringVar(&v.trace.Topology, "topology", "", topologyDoc+" (required)")
	f.StringVar(&v.trace.Workload, "workload", "", "name of the workload; default: the one that has one of the "+
		"sources, else a hash of the options")
	group(f, topologyGroup, func() { v.options.declare(f) })
	group(f, "Trace", func() { v.declareTrace(f) })
	group(f, machineGroup, func() {
		v.how.declareWorkers(f)
		declareMemory(f, &v.how.how.MemoryBytes, "512MiB", "memory of DuckDB; beyond it, it spills to disk")
		parse(f, &v.how.how.Shard, engine.ParseShard,
			flagSpec{name: "shard", usage: "only read shard I/N of the files, I from 0 to N - 1, while other " +
				"processes read the others; then the same command without --shard makes the workload"})
	})
}

// declareTrace declares the flags about the sources.
func (v *ingestVerb) declareTrace(f *pflag.FlagSet) {
	t := &v.trace
	t.GapSigma = ingest.DefaultGapSigma
	f.StringSliceVar(&v.formats, "format", nil, "formats of the sources: "+strings.Join(ingest.Formats(), ", ")+
		"; with several, such as vpc,gcp, each file has the one that fits; default: by the names of the files. "+
		"json: the report as JSON, alone or beside a format, such as vpc,json")
	f.StringVar(&v.mapping, "mapping", "", "SQL `file` with a format of your own")
	f.StringVar(&v.show, "show-mapping", "", "print the built-in format with this `name`, and do nothing else")
	f.StringSliceVar(&t.Domains, "domain", nil, "`domain` that names may have or lack: with example.com, "+
		"web-7.example.com is web-7")
	f.StringSliceVar(&t.OffFabric, "off-fabric", nil, "`CIDR` of addresses outside the network, or any: rows "+
		"with such an address that is not a host are set aside, and do not count for --max-rejects")
	f.StringVar(&t.Hosts, "hosts", "", "CSV or Parquet `file` with the columns address, node")
	f.StringVar(&t.Labels, "labels", "", "CSV or Parquet `file` with the columns cidr, port, service, vnet, "+
		"traffic_model")
	f.BoolVar(&t.LabelsFirst, "labels-first", false, "prefer the labels of --labels to those in the trace")
	parse(f, &t.MaxRejects, shareOf(0, 1), flagSpec{name: "max-rejects", byDefault: "1%",
		usage: "share of the rows that may be rejected before the command fails"})
	f.BoolVar(&t.SkipDamaged, "skip-damaged", false, "leave out files that cannot be read, such as truncated "+
		"or empty ones: the report names them, and the exit code is 6")
	f.Int64Var(&t.SamplingRate, "sampling-rate", 0, "number of packets that one packet of a record stands for, "+
		"if the rows do not state it (nfdump): 1000 if the exporter samples 1 in 1000")
	durationVar(f, &v.idle, "idle", time.Duration(ingest.DefaultIdleNS).String(),
		"time without packets after which a connection has ended: later packets are another flow")
	f.Float64Var(&t.GapSigma, "gap-sigma", t.GapSigma, "shape of the log-normal gaps between starts that are "+
		"drawn")
	parse(f, &t.Seed, units.ParseSeed, flagSpec{"seed", "uint", "1",
		"seed of the starts that are drawn, and of the paths in the forecast of link loads"})
}

func (v *ingestVerb) run(ctx context.Context, args []string) error {
	if v.show != "" {
		m, err := ingest.FormatMapping(v.show)
		if err != nil {
			return usagef("--show-mapping: %v", err)
		}
		_, err = io.WriteString(v.stdout, m.Text)
		return err
	}
	if err := v.settle(args); err != nil {
		return err
	}
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	how := workloads.Settings{Settings: o.Settings.Settings, Lake: o.Lake, Wait: o.Wait}
	report, err := workloads.Ingest(ctx, v.trace, how)
	if err != nil {
		return err
	}
	if report.Shard == "" {
		report.Predict(pipeline.ExactSeconds)
		v.metrics.ingest(report)
	}
	if err := v.write(v.stdout, report, report.Text()); err != nil || len(report.Skipped) == 0 {
		return err
	}
	return &workloads.SkippedError{Files: report.Skipped}
}

// settle checks the flags, and completes the trace.
func (v *ingestVerb) settle(sources []string) (err error) {
	t := &v.trace
	v.form = "text"
	formats := slices.DeleteFunc(v.formats, func(name string) bool {
		isForm := name == "text" || name == "json"
		if isForm {
			v.form = name
		}
		return isForm
	})
	switch {
	case len(sources) == 0:
		return usagef("no source given")
	case t.Topology == "":
		return usagef("--topology is required")
	case len(formats) > 0 && v.mapping != "":
		return usagef("--format and --mapping exclude each other")
	case !(t.GapSigma > 0 && t.GapSigma <= 2):
		return usagef("--gap-sigma %v: must be above 0 and at most 2", t.GapSigma)
	case t.SamplingRate < 0 || t.SamplingRate > 1<<30 || t.SamplingRate == 0 && v.flags.Changed("sampling-rate"):
		return usagef("--sampling-rate %d: must be from 1 to 2^30", t.SamplingRate)
	case v.idle == 0:
		return usagef("--idle: must be above 0")
	}
	for _, source := range sources {
		if isObject.MatchString(source) {
			t.Objects = append(t.Objects, source)
		} else {
			t.Sources = append(t.Sources, source)
		}
	}
	t.Store = &v.objects
	t.TopologyURL = v.objects.urlOf(t.Topology)
	t.IdleNS = v.idle.Nanoseconds()
	if t.TopologyOptions, err = v.options.options(format.Options{}); err != nil {
		return err
	}
	t.Mappings, err = mappings(formats, v.mapping)
	return err
}

// mappings reads the formats of the sources: the built-in ones with these names or, if file is not empty,
// that file.
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
