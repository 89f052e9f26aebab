package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/pipeline/workloads"
	"parsimon/schema"
	"parsimon/schema/units"
)

var removeCommand = command{
	name: "rm", args: "[SCENARIO ...] --lake DIR [--older-than 30d]",
	writes:  true,
	summary: "remove scenarios and workloads",
	help: `
Removes scenarios, named by whole id or name, or those last worked on longer ago than --older-than;
and ingested workloads. Files that another scenario shares stay there: removing a
base does not change the scenarios that were made from it. The cache stays (parsimon cache prune).

  parsimon rm small --lake lake
  parsimon rm --older-than 30d --keep-last 5 --workloads --lake lake --dry-run`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var dir, older, form string
		var r pipeline.Removal
		var ingested []string
		f.StringVar(&dir, "lake", "", "directory of the lake (required)")
		f.StringVar(&older, "older-than", "", "scenarios last worked on longer ago, e.g. 30d or 12h")
		f.IntVar(&r.KeepLast, "keep-last", 0, "with --older-than: so many of the newest scenarios stay")
		f.StringArrayVar(&ingested, "workload", nil, "an ingested workload, by its name; may be repeated")
		f.BoolVar(&r.OldWorkloads, "workloads", false, "with --older-than: ingested workloads too; scenarios have their flows and stay")
		f.BoolVar(&r.DryRun, "dry-run", false, "say what would be removed, and remove nothing")
		declareFormat(f, &form)
		return func(ctx context.Context, args []string) error {
			var err error
			if older != "" {
				if r.OlderThan, err = parseAge(older); err != nil {
					return usagef("--older-than: %v", err)
				}
			}
			switch {
			case dir == "":
				return usagef("--lake is required")
			case len(args)+len(ingested) == 0 && older == "":
				return usagef("say what to remove: scenarios, --workload or --older-than")
			case r.OldWorkloads && older == "":
				return usagef("--workloads goes with --older-than; --workload names one")
			case r.KeepLast < 0 || r.KeepLast > 0 && older == "":
				return usagef("--keep-last %d: goes with --older-than, and must not be negative", r.KeepLast)
			}
			l, err := lake.OpenAnyVersion(dir, false)
			if err != nil {
				return err
			}
			for _, name := range ingested {
				id, err := workloads.ResolveWhole(l, name)
				if err != nil {
					return err
				}
				r.Workloads = append(r.Workloads, id)
			}
			r.Scenarios = args
			removed, err := pipeline.Remove(ctx, l, r)
			if err != nil {
				return err
			}
			if form == "json" {
				return writeJSON(e.stdout, removed)
			}
			return writeRemoved(e.stdout, removed, r.DryRun)
		}
	},
}

func writeRemoved(w io.Writer, removed []pipeline.OwnerUsage, dry bool) error {
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	var b strings.Builder
	var freed int64
	for _, o := range removed {
		fmt.Fprintf(&b, "%s %s %s: frees %sB of %sB", verb, o.ID, o.Name, units.Human(float64(o.Own)), units.Human(float64(o.Bytes)))
		if o.Own < o.Bytes {
			b.WriteString(" (the rest is shared with other scenarios)")
		}
		b.WriteString("\n")
		freed += o.Own
	}
	fmt.Fprintf(&b, "%s %d, %sB\n", verb, len(removed), units.Human(float64(freed)))
	_, err := io.WriteString(w, text.Clean(b.String()))
	return err
}

// parseAge reads a number of days (30d) or a duration (12h).
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n > 0 && n < 1e5) {
			return 0, fmt.Errorf("%q: want an age such as 30d or 12h", text)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q: want an age such as 30d or 12h", text)
	}
	return d, nil
}

var usageCommand = command{
	name: "du", args: "--lake DIR",
	summary: "what scenarios, workloads and the cache take on disk",
	help: `
Lists the bytes of each scenario and workload, how many of them no other scenario shares, and the
largest tables. The total counts shared files once.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var dir, form string
		f.StringVar(&dir, "lake", "", "directory of the lake (required)")
		declareFormat(f, &form)
		return func(_ context.Context, args []string) error {
			if dir == "" || len(args) > 0 {
				return usagef("--lake is required, and nothing else")
			}
			l, err := lake.OpenAnyVersion(dir, false)
			if err != nil {
				return err
			}
			u, err := pipeline.ReadUsage(l)
			if err != nil {
				return err
			}
			if form == "json" {
				return writeJSON(e.stdout, u)
			}
			return writeUsage(e.stdout, u)
		}
	},
}

func writeUsage(w io.Writer, u *pipeline.Usage) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %10s %10s %9s  %-24s %s\n", "scenario, workload", "bytes", "own", "age_days", "name", "largest tables")
	for _, o := range slices.Concat(u.Owners, u.Workloads) {
		tables := slices.SortedFunc(maps.Keys(o.Tables),
			func(a, b string) int { return int(min(1, max(-1, o.Tables[b]-o.Tables[a]))) })
		var largest []string
		for _, t := range tables[:min(3, len(tables))] {
			largest = append(largest, fmt.Sprintf("%s %sB", t, units.Human(float64(o.Tables[t]))))
		}
		fmt.Fprintf(&b, "%-20s %9sB %9sB %9.1f  %-24s %s\n", o.ID, units.Human(float64(o.Bytes)), units.Human(float64(o.Own)), o.AgeDays, o.Name, strings.Join(largest, ", "))
	}
	fmt.Fprintf(&b, "tables and state %sB, cache %sB\n", units.Human(float64(u.Bytes)), units.Human(float64(u.CacheBytes)))
	_, err := io.WriteString(w, text.Clean(b.String()))
	return err
}

var versionCommand = command{
	name: "version", summary: "version of the program, the lake's schema and the method",
	help: `
Prints the version of the program with the commit that it was built from, and the versions of the
lake's schema and of the method: results of other versions do not count.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var form string
		declareFormat(f, &form)
		return func(context.Context, []string) error {
			v := buildVersion()
			if form == "json" {
				return writeJSON(e.stdout, v)
			}
			_, err := fmt.Fprintf(e.stdout, "parsimon %s (commit %s, %s), %s\nlake schema %d, method %d\n", v.Version, v.Commit, v.Time, v.Go, v.Schema, v.Method)
			return err
		}
	},
}

// version says what the program is.
type version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Time    string `json:"commit_time"`
	Go      string `json:"go"`
	Schema  int    `json:"schema_version"`
	Method  int    `json:"method_version"`
}

// builtFrom and builtAt are the commit of the build and its time: go build -ldflags "-X main.builtFrom=COMMIT", as
// .ci/version prints it.
var builtFrom, builtAt string

// buildVersion is from the build information that Go stores, or from builtFrom where the sources were no repository.
func buildVersion() version {
	v := version{Version: "(devel)", Commit: "unknown", Time: "unknown", Schema: schema.Version, Method: pipeline.MethodVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version, v.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		}
	}
	if builtFrom != "" {
		v.Commit = builtFrom
	}
	if builtAt != "" {
		v.Time = builtAt
	}
	return v
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false) // "<10 KB" is no HTML
	return enc.Encode(v)
}
