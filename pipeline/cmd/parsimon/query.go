package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/report"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/queries/subprocess"
	"parsimon/schema"
)

var queryCommand = command{
	name: "query", most: 1,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var q queries.Query
		var limits duckdb.Options
		var timeout time.Duration
		e.declareLake(f)
		sql := f.String("sql", "", "a SELECT of your own")
		list := f.Bool("list", false, "list the questions; --help NAME explains one")
		given := f.StringArray("param", nil, "parameter of the question, name=value; may be repeated")
		e.declareForm(f, format.Names()...)
		declareMemory(f, &limits.MemoryBytes, autoMemory, "memory that the query may use, at least 128MiB; "+autoMemoryDoc)
		durationVar(f, &timeout, "timeout", "5m", "time that the query may take, e.g. 30s or 1h")
		return func(ctx context.Context, args []string) (err error) {
			switch {
			case *list:
				return listQuestions(e.stdout)
			case (len(args) == 1) == (*sql != ""):
				return usagef("give the name of a question or --sql, one of the two")
			case e.form == "parquet" && isTerminal(e.stdout):
				return usagef("--format parquet is not for a terminal: redirect it to a file")
			case timeout == 0:
				return usagef("--timeout: must be above 0")
			case *sql != "" && len(*given) > 0:
				return usagef("--param goes with the name of a question, not with --sql")
			}
			params, err := parseParams(*given)
			if err != nil {
				return err
			}
			if *sql == "" {
				if q, err = queries.Get(args[0]); err == nil {
					_, err = q.With(params)
				}
				if err != nil {
					return usageError{err}
				}
			}
			l, err := e.openLake(lake.Open)
			if err != nil {
				return err
			}
			if err := e.resolveParams(l, params); err != nil {
				return err
			}
			tooMuch := func(why string) error {
				return fmt.Errorf("the query needs more than --memory-limit %s: %s", f.Lookup("memory-limit").Value, why)
			}
			if subprocess.IsChild() {
				if err = answerQuery(ctx, e, l, limits, q, params, *sql); duckdb.IsOutOfMemory(err) {
					err = tooMuch(duckdb.FirstLine(err).Error())
				}
				return err
			}
			if err := warnDamaged(e, l, params["scenario"]); err != nil {
				return err
			}
			late := fmt.Errorf("the query took longer than --timeout %s", timeout)
			ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
			defer cancel()
			code, err := subprocess.Run(ctx, e.args, e.stdout, e.stderr)
			var memory *subprocess.MemoryError
			switch {
			case errors.As(err, &memory):
				return tooMuch(memory.Reason)
			case err == nil && code != exitOK:
				return reportedError(code)
			}
			return err
		}
	},
}

func listQuestions(w io.Writer) error {
	all, err := queries.List()
	if err != nil {
		return err
	}
	a := &text.Answer{}
	for _, q := range all {
		a.Linef("%-28s %s", q.Name, q.Question)
	}
	a.Linef("\nparsimon query --help NAME explains one: parameters, units, SQL")
	return a.Write(w, "text")
}

// answerQuery writes the answer of a question, or of a SELECT, in a child process, whose standard output is a pipe. It
// reads the files that the manifests name, which stay until then.
func answerQuery(ctx context.Context, e *env, l *lake.Lake, limits duckdb.Options, q queries.Query,
	params map[string]string, text string) error {
	if err := subprocess.Begin(limits); err != nil {
		return err
	}
	defer l.LockForReading().Close()
	o, err := catalog.Options(l, limits)
	if err != nil {
		return err
	}
	o.Output = "/dev/stdout"
	db, err := queries.Open(ctx, l.Path(), o)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	if text == "" {
		if text, err = db.Text(q, params); err != nil {
			return err
		}
	}
	explainNames(e, l, text)
	rows, err := db.Write(ctx, text, e.form)
	if err == nil && rows == 0 {
		if err := explainWindows(e, l, params["scenario"], text); err != nil || q.Name == "" {
			return errors.Join(err, explainEmpty(e, o.Files, text))
		}
		why, err := db.Emptied(ctx, q, params)
		switch {
		case err != nil:
		case why != "":
			_, err = fmt.Fprintf(e.stderr, "parsimon: no rows with %s; there are some without\n", format.Escape(why))
		case q.OfEvent() && params["from_ns"] == "":
			_, err = fmt.Fprintln(e.stderr,
				"parsimon: no rows: no event is known; give the time of one by --param from_ns and to_ns")
		default:
			_, err = fmt.Fprintf(e.stderr, "parsimon: no rows: the answer has %s\n", q.Grain)
		}
		return err
	}
	if err != nil && strings.Contains(err.Error(), "Broken pipe") { // DuckDB's words
		return syscall.EPIPE
	}
	return err
}

// explainEmpty says which tables that a SELECT names have no rows in the lake.
func explainEmpty(e *env, files []queries.File, text string) (err error) {
	for _, t := range schema.Tables() {
		named := regexp.MustCompile(`(?i)\b(workload_)?` + t.Name + `(_all)?\b`).MatchString(text)
		if named && !slices.ContainsFunc(files, func(f queries.File) bool { return f.Table == t.Name }) {
			_, failed := fmt.Fprintf(e.stderr, "parsimon: no rows: the lake has none of table %s: %s\n", t.Name, t.Doc)
			err = errors.Join(err, failed)
		}
	}
	return err
}

// ofScenario finds what a SELECT compares column scenario with.
var ofScenario = regexp.MustCompile(`(?i)scenario"?\s*(?:=|in\s*\()\s*'([^']+)'`)

// explainNames says that a name is no id where a SELECT takes it for one: no row has it.
func explainNames(e *env, l *lake.Lake, text string) {
	for _, m := range ofScenario.FindAllStringSubmatch(text, -1) {
		if id, err := pipeline.Resolve(l, m[1]); err == nil && string(id) != m[1] {
			_, _ = fmt.Fprintf(e.stderr, "parsimon: column scenario holds ids: no row has '%s', but '%s', which has that name\n",
				format.Escape(m[1]), id)
		}
	}
}

// explainWindows says which scenarios, of one or all that the lake holds, were last estimated from windows, or as a
// whole that hides the windows which a SELECT asks for.
func explainWindows(e *env, l *lake.Lake, scenario, asked string) error {
	ids, err := l.Scenarios()
	for _, id := range ids {
		if err != nil || scenario != "" && scenario != string(id) {
			continue
		}
		variant, why := l.Answer(id), ""
		ofWindows := strings.Contains(variant, pipeline.SampledPart)
		others, failed := completeVariants(l, id, !ofWindows)
		switch err = failed; {
		case ofWindows && len(others) > 0:
			why = fmt.Sprintf("the last run was of windows of time (%s); the whole is in the lake: --param scenario=%s@%s, or "+
				"in SQL views such as slowdowns_all and column variant", variant, id, others[0])
		case ofWindows:
			why = fmt.Sprintf("it is estimated from windows of time (%s): question sampled_percentiles and tables windows and "+
				"sampled_slowdowns have it; for all others estimate the whole, \"parsimon run\" without --within", variant)
		case len(others) > 0 && (strings.Contains(asked, "windows") || strings.Contains(asked, "sampled_")):
			why = fmt.Sprintf("the last run was of the whole (%s); its windows of time are in the lake: --param scenario=%s@%s, "+
				"or in SQL views windows_all and sampled_slowdowns_all", variant, id, others[0])
		}
		if why != "" && err == nil {
			_, err = fmt.Fprintf(e.stderr, "parsimon: scenario %s: %s\n", id, why)
		}
	}
	return err
}

// completeVariants lists the complete estimates of a scenario from windows of time, or those of the whole.
func completeVariants(l *lake.Lake, id lake.ScenarioID, ofWindows bool) ([]string, error) {
	s, err := pipeline.ReadScenarioStatus(l, id, false)
	return slices.DeleteFunc(s.Variants, func(name string) bool {
		return strings.Contains(name, pipeline.SampledPart) != ofWindows
	}), err
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// resolveParams replaces the names of scenarios by their ids, and SCENARIO@VARIANT by both.
func (e *env) resolveParams(l *lake.Lake, params map[string]string) error {
	for _, name := range []string{"scenario", "base_scenario"} {
		if params[name] == "" {
			continue
		}
		variant := strings.Replace(name, "scenario", "variant", 1)
		of, err := e.side(l, params[name])
		if err != nil {
			return fmt.Errorf("--param %s: %w", name, err)
		}
		params[name] = of.Scenario
		of.Variant = cmp.Or(variantOf(l, lake.ScenarioID(of.Scenario), params[variant]), of.Variant)
		if of.Variant != "" {
			params[variant] = of.Variant
		}
	}
	return nil
}

// warnDamaged writes to stderr which scenarios are not complete, because a run is in progress or was
// interrupted, or because files are missing. If the query is about such a scenario only, that is an error, unless it
// has another estimate that is complete.
func warnDamaged(e *env, l *lake.Lake, scenario string) error {
	status, err := pipeline.ReadStatus(l, false)
	if err != nil {
		return err
	}
	for _, s := range status.Scenarios {
		asked, note := string(s.ScenarioID) == scenario, "answers about it may lack rows"
		switch {
		case s.State == pipeline.StateComplete || !asked && scenario != "":
			continue
		case s.State == pipeline.StateOther:
			note = "run it again for answers of this one"
		case asked && s.State == pipeline.StatePartial && len(s.Variants) > 0:
			continue
		case asked:
			err := fmt.Errorf("scenario %s is %s: run it again first (parsimon status --lake %s has details)", s.ScenarioID,
				s.State, l.Path())
			if s.State == pipeline.StateDamaged {
				err = damagedError{err}
			}
			return err
		}
		_, err := fmt.Fprintf(e.stderr, "parsimon: scenario %s (%s) is %s: %s\n", s.ScenarioID, format.Escape(s.Name),
			s.State, note)
		if err != nil {
			return err
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

// helpQuery writes the page of one question.
func helpQuery(w io.Writer, name string) error {
	q, err := queries.Get(name)
	if err != nil {
		return usageError{err}
	}
	a := &text.Answer{}
	a.Linef("%s: %s\n\ngrain: %s\nunits: %s\n", q.Name, q.Question, q.Grain, q.Units)
	for _, p := range q.Params {
		a.Linef("  --param %s=%s  %s", p.Name, p.Default, p.Doc)
	}
	a.Linef("\n%s", strings.TrimSpace(q.SQL))
	return a.Write(w, "text")
}

var reportCommand = command{
	name:  "report",
	least: 1,
	most:  1,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var limits duckdb.Options
		var o report.Options
		e.declareLake(f)
		compare := f.String("compare", "", "scenario to compare with, the base")
		output := f.StringP("output", "o", "report.html", "file to write; a regular file is replaced in one step")
		declareMemory(f, &limits.MemoryBytes, "4GiB", "memory DuckDB may use; it spills beyond it")
		return func(ctx context.Context, args []string) error {
			o.Command = "parsimon report"
			for _, word := range os.Args[min(2, len(os.Args)):] {
				o.Command += " " + report.ShellQuote(word)
			}
			if err := checkOutput("output", *output); err != nil {
				return err
			}
			l, err := e.openLake(lake.Open)
			if err != nil {
				return err
			}
			if limits.SpillDir, err = os.MkdirTemp("", "parsimon-report-*"); err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(limits.SpillDir) }()
			if err := prepareReport(ctx, e, l, limits, &o, args[0], *compare); err != nil {
				return err
			}
			lock := l.LockForReading()
			defer lock.Close()
			if o.Query, err = catalog.Options(l, limits); err != nil {
				return err
			}
			var page bytes.Buffer
			if err := report.Write(ctx, &page, l.Path(), o); err != nil {
				return err
			}
			size := float64(page.Len()) / 1e6
			if err := writeOutput(*output, func(w io.Writer) error { _, err := page.WriteTo(w); return err }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "%s: %.2f MB\n", *output, size)
			return err
		}
	},
}

// prepareReport finds the estimates of a report, and makes their comparison if the lake lacks it.
func prepareReport(ctx context.Context, e *env, l *lake.Lake, limits duckdb.Options, o *report.Options, of,
	compare string) (err error) {
	if o.Query, err = catalog.Options(l, limits); err != nil {
		return err
	}
	find := func(text, prefer string) (found report.Estimate, err error) {
		at, err := e.side(l, text)
		if err != nil {
			return found, err
		}
		id := lake.ScenarioID(at.Scenario)
		spec, err := pipeline.ReadSpec(l, id)
		if err == nil {
			err = warnDamaged(e, l, at.Scenario)
		}
		if err != nil {
			return found, err
		}
		return report.Choose(o.Query.Files, at.Scenario, spec.Name, at.Variant, prefer)
	}
	if o.Estimate, err = find(of, ""); err != nil || compare == "" {
		return err
	}
	base, err := find(compare, o.Estimate.Variant)
	if err != nil {
		return err
	}
	o.Base = &base
	compared, err := report.Compared(ctx, l.Path(), *o)
	if err != nil || compared {
		return err
	}
	_, err = whatif.Compare(ctx, l, whatif.Side{Scenario: base.Scenario, Variant: base.Variant},
		whatif.Side{Scenario: o.Estimate.Scenario, Variant: o.Estimate.Variant},
		whatif.CompareOptions{By: []string{"service"}, Links: 12})
	return err
}
