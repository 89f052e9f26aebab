package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/pipeline/workloads"
	"parsimon/queries/format"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// A statusVerb lists what a lake holds, and verifies it.
type statusVerb struct {
	*env
	answerFlags
}

func (v *statusVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	v.declareForm(f, "table", "json")
}

func (v *statusVerb) run(context.Context, []string) error {
	l, err := v.openLake(lake.Open)
	if err != nil {
		return err
	}
	status, err := pipeline.ReadStatus(l, lake.ByContent)
	if err != nil {
		return err
	}
	if err := v.write(v.stdout, status, statusText(status)); err != nil {
		return err
	}
	for _, s := range status.Scenarios {
		if s.State == pipeline.StateDamaged {
			return damagedError{fmt.Errorf("scenario %s is damaged: run it again to repair it", s.ScenarioID)}
		}
	}
	for _, s := range status.Workloads {
		if s.State == pipeline.StateDamaged {
			return damagedError{fmt.Errorf("workload %s is damaged: ingest it again to repair it", s.ID)}
		}
	}
	return nil
}

// statusText lists each stage and workload on one line, with its damage below.
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
			a.Linef("  %-24s %-9s %4d of %4d tasks %12d rows %12d bytes", name, st.State, st.Done, st.Tasks, st.Rows,
				st.Bytes)
			damage("    ", st.Damage)
		}
	}
	for _, s := range status.Workloads {
		if s.State == pipeline.StatePartial {
			a.Linef("workload %s  %s  its first ingest is not complete: ingest again without --shard",
				s.ID, s.State)
			continue
		}
		a.Linef("workload %s  %s  %s, %s: %d rows = %d flows + %d merged + %d rejected", s.ID, s.State,
			s.Format, topology.Count(s.Sources, "file"), s.Rows, s.Flows, s.Merged, s.Rejects)
		damage("    ", s.Damage)
	}
	for _, left := range status.Litter {
		a.Linef("left by a killed process: %s, %d bytes: the next command that writes into the lake removes it",
			left.Path, left.Bytes)
	}
	return a
}

// A removeVerb removes scenarios and workloads.
type removeVerb struct {
	*env
	answerFlags
	asked     pipeline.Removal
	workloads []string
}

func (v *removeVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	parse(f, &v.asked.OlderThan, units.ParseAge,
		flagSpec{name: "older-than", usage: "remove the scenarios that were last worked " +
			"on longer ago than this, e.g. 30d or 12h"})
	intVar(f, &v.asked.KeepLast, intRange{0, 1e9}, "keep-last",
		"with --older-than: keep this number of the newest scenarios")
	f.StringArrayVar(&v.workloads, "workload", nil, "remove this ingested workload, by its whole name; may be "+
		"repeated")
	f.BoolVar(&v.asked.OldWorkloads, "workloads", false, "with --older-than: remove old ingested workloads "+
		"too; the scenarios made from them stay, because they have the flows")
	f.BoolVar(&v.asked.DryRun, "dry-run", false, "list what would be removed, and remove nothing")
	needs(f, "older-than", "keep-last", "workloads")
	v.declareForm(f, "text", "json")
}

func (v *removeVerb) run(ctx context.Context, args []string) error {
	if len(args)+len(v.workloads) == 0 && v.asked.OlderThan == 0 {
		return usagef("nothing to remove: name scenarios, or give --workload or --older-than")
	}
	v.dryRun = v.asked.DryRun
	l, err := v.openLake(lake.OpenAnyVersion)
	if err != nil {
		return err
	}
	for _, name := range v.workloads {
		id, err := workloads.ResolveWhole(l, name)
		if err != nil {
			return err
		}
		v.asked.Workloads = append(v.asked.Workloads, id)
	}
	v.asked.Scenarios = args
	removed, err := pipeline.Remove(ctx, l, v.asked)
	if err != nil {
		return err
	}
	return v.write(v.stdout, removed, removedText(removed, v.dryRun))
}

func removedText(removed []pipeline.OwnerUsage, dry bool) *text.Answer {
	a := &text.Answer{}
	verb := "removed"
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

// An upgradeVerb converts a lake of an older version to this version.
type upgradeVerb struct {
	*env
	answerFlags
}

func (v *upgradeVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	v.declareForm(f, "text", "json")
}

func (v *upgradeVerb) run(ctx context.Context, _ []string) error {
	l, err := v.openLake(lake.OpenAnyVersion)
	if err != nil {
		return err
	}
	u, err := pipeline.Upgrade(ctx, l)
	if err != nil {
		return err
	}
	a := &text.Answer{}
	if len(u.Scenarios)+len(u.Workloads) == 0 {
		a.Linef("%s has schema version %d: there is nothing to upgrade", l.Path(), u.Version)
	} else {
		a.Linef("upgraded %d scenarios and %d workloads to schema version %d; parsimon status says which "+
			"estimates are of another version of the method", len(u.Scenarios), len(u.Workloads), u.Version)
	}
	return v.write(v.stdout, u, a)
}

// A usageVerb lists the bytes of a lake.
type usageVerb struct {
	*env
	answerFlags
}

func (v *usageVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	v.declareForm(f, "text", "json")
}

func (v *usageVerb) run(context.Context, []string) error {
	l, err := v.openLake(lake.OpenAnyVersion)
	if err != nil {
		return err
	}
	u, err := pipeline.ReadUsage(l)
	if err != nil {
		return err
	}
	return v.write(v.stdout, u, usageText(u))
}

func usageText(u *pipeline.Usage) *text.Answer {
	a := &text.Answer{}
	human := func(bytes int64) string { return units.Human(float64(bytes)) + "B" }
	a.Linef("%-24s %10s %10s %9s  %-24s %s", "scenario, workload", "bytes", "own", "age_days", "name",
		"largest tables")
	for _, o := range slices.Concat(u.Owners, u.Workloads) {
		bySize := func(a, b string) int { return cmp.Compare(o.Tables[b], o.Tables[a]) }
		tables := slices.SortedFunc(maps.Keys(o.Tables), bySize)
		largest := names.Of(tables[:min(3, len(tables))],
			func(t string) string { return t + " " + human(o.Tables[t]) })
		a.Linef("%-24s %10s %10s %9.1f  %-24s %s", o.ID, human(o.Bytes), human(o.Own), o.AgeDays, o.Name,
			strings.Join(largest, ", "))
	}
	a.Linef("tables and state %s, cache %s", human(u.Bytes), human(u.CacheBytes))
	return a
}

// A versionVerb prints the version of the program.
type versionVerb struct {
	*env
	answerFlags
}

func (v *versionVerb) declare(f *pflag.FlagSet) { v.declareForm(f, "text", "json") }

func (v *versionVerb) run(context.Context, []string) error {
	built := buildVersion()
	a := &text.Answer{}
	a.Linef("parsimon %s (commit %s, %s), %s\nlake schema %d, method %d", built.Version, built.Commit,
		built.Time, built.Go, built.Schema, built.Method)
	return v.write(v.stdout, built, a)
}

// A version is what a program was built from.
type version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Time    string `json:"commit_time"`
	Go      string `json:"go"`
	Schema  int    `json:"schema_version"`
	Method  int    `json:"method_version"`
}

// builtFrom and builtAt are the commit of the build and its time. The linker sets them, with the flags that
// .ci/version prints.
var builtFrom, builtAt string

// buildVersion returns the version from builtFrom or, if the linker did not set it, from the build
// information of Go.
func buildVersion() version {
	v := version{Version: "(devel)", Schema: schema.Version, Method: pipeline.MethodVersion}
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = info.Main.Version
		v.Go = info.GoVersion
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	v.Commit = cmp.Or(builtFrom, settings["vcs.revision"], "unknown")
	v.Time = cmp.Or(builtAt, settings["vcs.time"], "unknown")
	return v
}

// String names the program, its commit and the version of its method in a report or an answer.
func (v version) String() string {
	return fmt.Sprintf("parsimon %s (commit %s, method version %d)", v.Version, v.Commit, v.Method)
}

// A schemaVerb prints the tables of a lake.
type schemaVerb struct {
	*env
	answerFlags
}

func (v *schemaVerb) declare(f *pflag.FlagSet) { v.declareForm(f, "text", "json") }

func (v *schemaVerb) run(_ context.Context, args []string) error {
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
	return v.write(v.stdout, d, d.text())
}

// completeTables completes the names of tables.
func completeTables(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	complete := names.Of(schema.Tables(), func(t schema.Table) cobra.Completion {
		return cobra.CompletionWithDesc(t.Name, t.Doc)
	})
	return complete, cobra.ShellCompDirectiveNoFileComp
}

// scenarioNames returns the names of the scenarios that a lake holds, for completion.
func scenarioNames(l *lake.Lake) (all []cobra.Completion) {
	ids, _ := l.Scenarios() // a lake that cannot be read has nothing to complete
	for _, id := range ids {
		if spec, err := pipeline.ReadSpec(l, id); err == nil {
			all = append(all, cobra.CompletionWithDesc(format.Escape(spec.Name), string(id)))
		}
	}
	return all
}

// A schemaDoc is the schema for tools that generate readers. Types are those of Arrow.
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
			folder := strings.TrimSuffix(v.Name, schema.AllVariants)
			files := folder + "/" + strings.Join(v.Hive, "=…/") + "=…/part-NNNNN.parquet"
			out.Views = append(out.Views, viewDoc{v.Name, v.Hive, files})
		}
		d.Tables = append(d.Tables, out)
	}
	return d
}

// text returns the schema for people.
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
