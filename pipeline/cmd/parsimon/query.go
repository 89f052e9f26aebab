package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/units"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
)

var queryCommand = command{
	name: "query", args: "NAME|--sql TEXT|--list --lake DIR",
	summary: "ask the lake in SQL",
	help: `
Answers a question of the library by name, or any single SELECT, about what the lake holds:

  parsimon query --list
  parsimon query slowdown_by_size --lake lake --param scenario=ID
  parsimon query --lake lake --sql "SELECT count(*) FROM slowdowns WHERE slowdown > 10"

Views: one per table (parsimon query --lake DIR --sql "SHOW TABLES" lists them) and one per
question. A query can neither write anything nor read outside the lake. The file
LAKE/parsimon.duckdb holds the same views for DuckDB itself: cd LAKE && duckdb parsimon.duckdb.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var dir, text, form, memory string
		var list bool
		var params []string
		f.StringVar(&dir, "lake", "", "directory of the lake (required)")
		f.StringVar(&text, "sql", "", "a SELECT of your own")
		f.BoolVar(&list, "list", false, "list the questions and their parameters")
		f.StringArrayVar(&params, "param", nil, "parameter of the question, name=value; may be repeated")
		f.StringVar(&form, "format", "table", "table, csv, json or parquet")
		f.StringVar(&memory, "memory-limit", "", "memory DuckDB may use, e.g. 1GB")
		return func(ctx context.Context, args []string) (err error) {
			if list {
				return listQueries(e.stdout)
			}
			if (len(args) == 1) == (text != "") {
				return usagef("give the name of a question or --sql, one of the two")
			}
			if dir == "" {
				return usagef("--lake is required")
			}
			if !slices.Contains(format.Names(), form) {
				return usagef("--format %q: must be one of %s", form, strings.Join(format.Names(), ", "))
			}
			if form == "parquet" {
				if file, ok := e.stdout.(*os.File); ok && isTerminal(file) {
					return usagef("--format parquet is not for a terminal: redirect it to a file")
				}
			}
			values, err := parseParams(params)
			if err != nil {
				return err
			}
			var q queries.Query
			if text == "" {
				if q, err = queries.Get(args[0]); err != nil {
					return usageError{err}
				}
			} else if len(values) > 0 {
				return usagef("--param goes with the name of a question, not with --sql")
			}
			if err := warnDamaged(e, dir, values["scenario"]); err != nil {
				return err
			}
			var limit int64
			if memory != "" {
				if limit, err = units.Parse(memory, units.Bytes); err != nil || limit < minMemory {
					return usagef("--memory-limit %q: want a size of at least %dMiB, such as 2GB", memory, minMemory>>20)
				}
			}
			l, err := lake.Open(dir, false)
			if err != nil {
				return err
			}
			lock := l.LockForReading()
			defer lock.Close()
			o, err := catalog.Options(l, duckdb.Options{MemoryBytes: limit})
			if err != nil {
				return err
			}
			db, err := queries.Open(ctx, dir, o)
			if err != nil {
				return err
			}
			defer func() {
				if e := db.Close(); err == nil {
					err = e
				}
			}()
			var rows *format.Rows
			if text == "" {
				rows, err = db.Run(ctx, q, values)
			} else {
				rows, err = db.SQL(ctx, text)
			}
			if err != nil {
				return err
			}
			return rows.Write(e.stdout, form)
		}
	},
}

// warnDamaged says on stderr which scenarios of the lake an answer cannot be trusted for: those a run
// is still at work on, or was cut short on, and those with files gone. Asking for just such a
// scenario is an error.
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
		if s.State == "complete" {
			continue
		}
		if string(s.ScenarioID) == scenario {
			return fmt.Errorf("scenario %s is %s: run it again before asking about it (parsimon status --lake %s says more)", s.ScenarioID, s.State, dir)
		}
		if scenario == "" {
			if _, err := fmt.Fprintf(e.stderr, "parsimon query: scenario %s (%s) is %s: answers about it may lack rows\n", s.ScenarioID, s.Name, s.State); err != nil {
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
		if _, twice := values[name]; twice {
			return nil, usagef("--param %s is given twice", name)
		}
		values[name] = value
	}
	return values, nil
}

func listQueries(w io.Writer) error {
	for _, q := range queries.List() {
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    grain: %s\n    units: %s\n", q.Name, q.Question, q.Grain, q.Units); err != nil {
			return err
		}
		for _, p := range q.Params {
			if _, err := fmt.Fprintf(w, "    --param %s=%s  %s\n", p.Name, p.Default, p.Doc); err != nil {
				return err
			}
		}
	}
	return nil
}
