package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/queries/subprocess"
)

var queryCommand = command{
	name: "query", args: "NAME|--sql TEXT|--list|--help NAME --lake DIR",
	summary: "ask the lake in SQL",
	help: `
Answers a question of the library by name, or any single SELECT, about the tables of a lake:

  parsimon query --list
  parsimon query --help slowdown_by_size
  parsimon query slowdown_by_size --lake lake --param scenario=small
  parsimon query --lake lake --sql "SELECT count(*) FROM slowdowns WHERE slowdown > 10"

There is one view per table (parsimon query --lake DIR --sql "SHOW TABLES" lists them) and one per
question. A query cannot write anything and cannot read outside the lake. It runs in a process of its
own, which ends with an error when it exceeds --memory-limit or --timeout. The file LAKE/parsimon.duckdb
has the same views for DuckDB itself: duckdb LAKE/parsimon.duckdb. Tables of estimates show one
variant of each scenario, that of its last run (scenarios.answer); views named like slowdowns_all show
all variants, and --param variant=NAME asks a question about another one.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		q := queryFlags{}
		f.StringVar(&q.lake, "lake", "", "directory of the lake (required)")
		f.StringVar(&q.sql, "sql", "", "a SELECT of your own")
		f.BoolVar(&q.list, "list", false, "list the questions; --help NAME explains one")
		f.StringArrayVar(&q.params, "param", nil, "parameter of the question, name=value; may be repeated")
		f.StringVar(&q.format, "format", "table", strings.Join(format.Names(), ", "))
		f.StringVar(&q.memory, "memory-limit", autoMemory, "memory that the query may use, at least 128MiB; "+autoMemoryDoc)
		f.DurationVar(&q.timeout, "timeout", 5*time.Minute, "time that the query may take, e.g. 30s or 1h")
		return func(ctx context.Context, args []string) error {
			if q.list {
				return listQueries(e.stdout)
			}
			return q.run(ctx, e, args)
		}
	},
}

// queryFlags are the flags of command query.
type queryFlags struct {
	lake, sql, format, memory string
	list                      bool
	params                    []string
	timeout                   time.Duration
}

// run answers the question, or the SELECT, in a child process.
func (q *queryFlags) run(ctx context.Context, e *env, args []string) error {
	r, err := q.request(e, args)
	if err != nil {
		return err
	}
	if err := resolveParams(q.lake, r.Params); err != nil {
		return err
	}
	if err := warnDamaged(e, q.lake, r.Params["scenario"]); err != nil {
		return err
	}
	late := fmt.Errorf("the query took longer than --timeout %s", q.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, q.timeout, late)
	defer cancel()
	err = subprocess.Run(ctx, r, e.stdout)
	var memory *subprocess.MemoryError
	if errors.As(err, &memory) {
		return fmt.Errorf("the query needs more than --memory-limit %s: %s", q.memory, memory.Reason)
	}
	return err
}

// resolveParams replaces the names of scenarios by their ids.
func resolveParams(dir string, params map[string]string) error {
	for _, name := range []string{"scenario", "base_scenario"} {
		if params[name] == "" {
			continue
		}
		l, err := lake.Open(dir, false)
		if err != nil {
			return err
		}
		id, err := pipeline.Resolve(l, params[name])
		if err != nil {
			return fmt.Errorf("--param %s: %w", name, err)
		}
		params[name] = string(id)
	}
	return nil
}

// committedFiles is the source of the query process: the files that the manifests name. They stay until release.
func committedFiles(dir string, limits duckdb.Options) (o queries.Options, release func() error, err error) {
	l, err := lake.Open(dir, false)
	if err != nil {
		return o, nil, err
	}
	lock := l.LockForReading()
	o, err = catalog.Options(l, limits)
	if err != nil {
		lock.Close()
		return o, nil, err
	}
	return o, func() error { lock.Close(); return nil }, nil
}

// request checks the flags.
func (q *queryFlags) request(e *env, args []string) (r subprocess.Request, err error) {
	r = subprocess.Request{Lake: q.lake, SQL: q.sql, Format: q.format}
	if len(args) > 1 || (len(args) == 1) == (q.sql != "") {
		return r, usagef("give the name of a question or --sql, one of the two")
	}
	if q.lake == "" {
		return r, usagef("--lake is required")
	}
	if !slices.Contains(format.Names(), q.format) {
		return r, usagef("--format %q: must be one of %s", q.format, strings.Join(format.Names(), ", "))
	}
	if file, ok := e.stdout.(*os.File); ok && q.format == "parquet" && term.IsTerminal(int(file.Fd())) {
		return r, usagef("--format parquet is not for a terminal: redirect it to a file")
	}
	if q.timeout <= 0 {
		return r, usagef("--timeout %s: must be above 0", q.timeout)
	}
	if r.MemoryBytes, err = parseMemory(q.memory); err != nil {
		return r, err
	}
	if r.Params, err = parseParams(q.params); err != nil {
		return r, err
	}
	if q.sql != "" {
		if len(r.Params) > 0 {
			return r, usagef("--param goes with the name of a question, not with --sql")
		}
		return r, nil
	}
	r.Question = args[0]
	if _, err := queries.Get(r.Question); err != nil {
		return r, usageError{err}
	}
	return r, nil
}

// warnDamaged writes to stderr which scenarios are not complete, because a run is in progress or was
// interrupted, or because files are missing. If the query is about such a scenario only, that is an error, unless it
// has another estimate that is complete.
func warnDamaged(e *env, dir, scenario string) error {
	l, err := lake.Open(dir, false)
	if err != nil {
		return err
	}
	status, err := pipeline.ReadStatus(l, false)
	if err != nil {
		return err
	}
	for _, s := range status.Scenarios {
		if s.State == pipeline.StateComplete {
			continue
		}
		if s.State == pipeline.StateOther {
			if scenario == "" || string(s.ScenarioID) == scenario {
				_, err := fmt.Fprintf(e.stderr, "parsimon: scenario %s (%s) is %s: run it again for answers of this one\n", s.ScenarioID, format.Escape(s.Name), s.State)
				if err != nil {
					return err
				}
			}
			continue
		}
		if string(s.ScenarioID) == scenario {
			if s.State == pipeline.StatePartial && len(s.Variants) > 0 {
				continue
			}
			report := fmt.Errorf
			if s.State == pipeline.StateDamaged {
				report = damagedf
			}
			return report("scenario %s is %s: run it again first (parsimon status --lake %s has details)", s.ScenarioID, s.State, dir)
		}
		if scenario == "" {
			if _, err := fmt.Fprintf(e.stderr, "parsimon query: scenario %s (%s) is %s: answers about it may lack rows\n", s.ScenarioID, format.Escape(s.Name), s.State); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseParams(params []string) (map[string]string, error) {
	values := map[string]string{}
	for _, p := range params {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return nil, usagef("--param %q: must be name=value", p)
		}
		if value == "" && (strings.HasSuffix(name, "scenario") || strings.HasSuffix(name, "variant")) {
			return nil, usagef("--param %s is empty: is a variable not set?", name)
		}
		if _, twice := values[name]; twice {
			return nil, usagef("--param %s is given twice", name)
		}
		values[name] = value
	}
	return values, nil
}

// listQueries writes one line for each question.
func listQueries(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, q := range queries.List() {
		if _, err := fmt.Fprintf(t, "%s\t%s\n", q.Name, q.Question); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\nparsimon query --help NAME explains one: parameters, units, SQL\n")
	return err
}

// helpQuery writes the page of one question.
func helpQuery(w io.Writer, name string) error {
	q, err := queries.Get(name)
	if err != nil {
		return usageError{err}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\ngrain: %s\nunits: %s\n\n", q.Name, q.Question, q.Grain, q.Units)
	for _, p := range q.Params {
		fmt.Fprintf(&b, "  --param %s=%s  %s\n", p.Name, p.Default, p.Doc)
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(q.SQL))
	_, err = io.WriteString(w, b.String())
	return err
}
