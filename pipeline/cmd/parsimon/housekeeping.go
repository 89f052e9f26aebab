package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"parsimon/schema/names"
	"parsimon/schema/units"
)

var statusCommand = command{
	name: "status",
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		e.declareLake(f)
		e.declareForm(f, "table", "json")
		return func(context.Context, []string) error {
			l, err := e.openLake(lake.Open)
			if err != nil {
				return err
			}
			status, err := pipeline.ReadStatus(l, true)
			if err != nil {
				return err
			}
			if err := e.write(status, statusText(status)); err != nil {
				return err
			}
			for _, s := range status.Scenarios {
				if s.State == pipeline.StateDamaged {
					return damagedError{fmt.Errorf("scenario %s is damaged: run it again, which makes the damaged files again",
						s.ScenarioID)}
				}
			}
			for _, s := range status.Workloads {
				if s.State == pipeline.StateDamaged {
					return damagedError{fmt.Errorf("workload %s is damaged: ingest it again, which makes the damaged files again",
						s.ID)}
				}
			}
			return nil
		}
	},
}

// statusText has one line for each stage and workload, the damage below it.
func statusText(status *pipeline.Status) *text.Answer {
	a := &text.Answer{}
	if len(status.Scenarios)+len(status.Workloads) == 0 {
		a.Linef("%s holds no scenario and no workload", status.Lake)
	}
	damage := func(indent string, of []string) {
		for _, d := range of {
			a.Linef("%sdamaged: %s", indent, d)
		}
	}
	for _, s := range status.Scenarios {
		a.Linef("%s  %s  %s", s.ScenarioID, s.State, s.Name)
		damage("  ", s.Damage)
		for _, st := range s.Stages {
			name := st.Stage
			if st.Variant != "" {
				name += " (" + st.Variant + ")"
			}
			a.Linef("  %-24s %-9s %4d of %4d tasks %12d rows %12d bytes", name, st.State, st.Done, st.Tasks, st.Rows, st.Bytes)
			damage("    ", st.Damage)
		}
	}
	for _, s := range status.Workloads {
		a.Linef("workload %s  %s  %s, %d files: %d rows = %d flows + %d merged + %d rejected", s.ID, s.State, s.Format,
			s.Sources, s.Rows, s.Flows, s.Merged, s.Rejects)
		damage("    ", s.Damage)
	}
	for _, left := range status.Litter {
		a.Linef("left by a killed process: %s, %d bytes: the next command that writes into the lake removes it", left.Path,
			left.Bytes)
	}
	return a
}

var removeCommand = command{
	name: "rm", most: anyNumber,
	writes: true,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var r pipeline.Removal
		e.declareLake(f)
		parse(f, &r.OlderThan, "string", parseAge, "older-than", "", "scenarios last worked on longer ago, e.g. 30d or 12h")
		intVar(f, &r.KeepLast, 0, 1e9, "keep-last", "with --older-than: so many of the newest scenarios stay")
		ingested := f.StringArray("workload", nil, "an ingested workload, by its name; may be repeated")
		f.BoolVar(&r.OldWorkloads, "workloads", false, "with --older-than: ingested workloads too; scenarios have their flows and stay")
		f.BoolVar(&r.DryRun, "dry-run", false, "list what would be removed, and remove nothing")
		needs(f, "older-than", "keep-last", "workloads")
		e.declareForm(f, "text", "json")
		return func(ctx context.Context, args []string) error {
			if len(args)+len(*ingested) == 0 && r.OlderThan == 0 {
				return usagef("nothing to remove: name scenarios, or give --workload or --older-than")
			}
			l, err := e.openLake(lake.OpenAnyVersion)
			if err != nil {
				return err
			}
			for _, name := range *ingested {
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
			return e.write(removed, removedText(removed, r.DryRun))
		}
	},
}

func removedText(removed []pipeline.OwnerUsage, dry bool) *text.Answer {
	a, verb := &text.Answer{}, "removed"
	if dry {
		verb = "would remove"
	}
	var freed int64
	for _, o := range removed {
		shared := ""
		if o.Own < o.Bytes {
			shared = " (the rest is shared with other scenarios)"
		}
		a.Linef("%s: frees %sB of %sB%s", strings.TrimSpace(fmt.Sprint(verb, " ", o.ID, " ", o.Name)),
			units.Human(float64(o.Own)), units.Human(float64(o.Bytes)), shared)
		freed += o.Own
	}
	a.Linef("%s %d, %sB", verb, len(removed), units.Human(float64(freed)))
	return a
}

// parseAge reads a number of days (30d) or a duration (12h).
func parseAge(text string) (age time.Duration, err error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		age = time.Duration(min(n, 1e5) * 24 * float64(time.Hour))
	} else {
		age, err = time.ParseDuration(text)
	}
	if err != nil || age <= 0 {
		return 0, errors.New("want an age such as 30d or 12h")
	}
	return age, nil
}

var usageCommand = command{
	name: "du",
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		e.declareLake(f)
		e.declareForm(f, "text", "json")
		return func(context.Context, []string) error {
			l, err := e.openLake(lake.OpenAnyVersion)
			if err != nil {
				return err
			}
			u, err := pipeline.ReadUsage(l)
			if err != nil {
				return err
			}
			return e.write(u, usageText(u))
		}
	},
}

func usageText(u *pipeline.Usage) *text.Answer {
	a := &text.Answer{}
	human := func(bytes int64) string { return units.Human(float64(bytes)) + "B" }
	a.Linef("%-20s %10s %10s %9s  %-24s %s", "scenario, workload", "bytes", "own", "age_days", "name", "largest tables")
	for _, o := range slices.Concat(u.Owners, u.Workloads) {
		bySize := func(a, b string) int { return cmp.Compare(o.Tables[b], o.Tables[a]) }
		tables := slices.SortedFunc(maps.Keys(o.Tables), bySize)
		largest := names.Of(tables[:min(3, len(tables))], func(t string) string { return t + " " + human(o.Tables[t]) })
		a.Linef("%-20s %10s %10s %9.1f  %-24s %s", o.ID, human(o.Bytes), human(o.Own), o.AgeDays, o.Name,
			strings.Join(largest, ", "))
	}
	a.Linef("tables and state %s, cache %s", human(u.Bytes), human(u.CacheBytes))
	return a
}

var versionCommand = command{
	name: "version",
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		e.declareForm(f, "text", "json")
		return func(context.Context, []string) error {
			v, a := buildVersion(), &text.Answer{}
			a.Linef("parsimon %s (commit %s, %s), %s\nlake schema %d, method %d", v.Version, v.Commit, v.Time, v.Go,
				v.Schema, v.Method)
			return e.write(v, a)
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

// buildVersion is from builtFrom or, where a build says none, from the build information that Go stores.
func buildVersion() version {
	v := version{Version: "(devel)", Schema: schema.Version, Method: pipeline.MethodVersion}
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version, v.Go = info.Main.Version, info.GoVersion
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	v.Commit = cmp.Or(builtFrom, settings["vcs.revision"], "unknown")
	v.Time = cmp.Or(builtAt, settings["vcs.time"], "unknown")
	return v
}

var schemaCommand = command{
	name: "schema", most: anyNumber,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		e.declareForm(f, "text", "json")
		return func(_ context.Context, args []string) error {
			tables := schema.Tables()
			if len(args) > 0 {
				tables = nil
			}
			for _, name := range args {
				t, err := schema.ByName(name)
				if err != nil {
					return usageError{err}
				}
				tables = append(tables, t)
			}
			d := describeSchema(tables)
			return e.write(d, d.text())
		}
	},
}

// A schemaDoc is the schema for tools that make readers from it: types are those of Arrow.
type schemaDoc struct {
	Version int        `json:"schema_version"`
	Tables  []tableDoc `json:"tables"`
}

type tableDoc struct {
	schema.Table
	Views   []viewDoc   `json:"views"`
	Columns []columnDoc `json:"columns"`
}

type viewDoc struct {
	Name  string   `json:"name"`
	Hive  []string `json:"hive"`
	Files string   `json:"files"` // relative to the lake
}

type columnDoc struct {
	schema.Column
	Type string `json:"type"`
}

func describeSchema(tables []schema.Table) *schemaDoc {
	d := &schemaDoc{Version: schema.Version}
	for _, t := range tables {
		columns := names.Of(t.Columns, func(c schema.Column) columnDoc { return columnDoc{c, c.Type.String()} })
		out := tableDoc{Table: t, Columns: columns}
		for _, v := range t.Views() {
			files := t.Name + "/" + strings.Join(v.Hive, "=…/") + "=…/part-NNNNN.parquet"
			out.Views = append(out.Views, viewDoc{v.Name, v.Hive, files})
		}
		d.Tables = append(d.Tables, out)
	}
	return d
}

// text is the schema for people.
func (d *schemaDoc) text() *text.Answer {
	a := &text.Answer{}
	a.Linef("schema version %d", d.Version)
	for _, t := range d.Tables {
		sorted := ""
		if len(t.Sort) > 0 {
			sorted = "; sorted by " + strings.Join(t.Sort, ", ")
		}
		a.Linef("\n%s: %s\n  one row per %s; key %s%s", t.Name, t.Doc, t.Grain, strings.Join(t.Key, ", "), sorted)
		for _, v := range t.Views {
			a.Linef("  view %s: %s", v.Name, v.Files)
		}
		for _, c := range t.Columns {
			if c.Nullable {
				c.Type += "?"
			}
			if c.Unit != "" {
				c.Doc = "[" + c.Unit + "] " + c.Doc
			}
			a.Linef("    %-20s %-16s %s", c.Name, c.Type, c.Doc)
		}
	}
	return a
}
