package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/queries/subprocess"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/schema/variant"
)

// A queryVerb answers a question of the library, or a SELECT.
type queryVerb struct {
	*env
	answerFlags
	sql     string
	list    bool
	given   []string // --param
	limits  duckdb.Options
	timeout time.Duration
}

func (v *queryVerb) declare(f *pflag.FlagSet) {
	v.declareLake(f)
	f.StringVar(&v.sql, "sql", "", "a `SELECT` of your own")
	f.BoolVar(&v.list, "list", false, "list the questions; --help NAME describes one")
	f.StringArrayVar(&v.given, "param", nil, "parameter of the question, `NAME=VALUE`; may be repeated")
	v.declareForm(f, format.Names()...)
	declareMemory(f, &v.limits.MemoryBytes, autoMemory, "memory that the query may use, at least 128MiB; "+
		"beyond it, the query spills to the lake's disk; "+autoMemoryDoc)
	durationVar(f, &v.timeout, "timeout", "5m", "time that the query may take, e.g. 30s or 1h")
}

// A request is a question with its parameters, or a SELECT.
type request struct {
	question queries.Query
	params   map[string]string
	sql      string // empty: the question
}

func (v *queryVerb) run(ctx context.Context, args []string) error {
	if v.list {
		return v.listQuestions()
	}
	asked, err := v.parse(args)
	if err != nil {
		return err
	}
	l, err := v.openLake(lake.Open)
	if err != nil {
		return err
	}
	if err := v.resolveParams(l, asked.params); err != nil {
		return err
	}
	if subprocess.IsChild() {
		if err = v.answer(ctx, l, asked); duckdb.IsOutOfMemory(err) {
			err = tooMuchMemory("query", v.limits, duckdb.FirstLine(err).Error())
		}
		return err
	}
	if err := warnDamaged(v.env, l, asked.params["scenario"]); err != nil {
		return err
	}
	var end func()
	v.limits.SpillDir, end = l.BeginQuery()
	defer end()
	return v.runChild(ctx)
}

// runChild runs the command line in a child process.
func (v *queryVerb) runChild(ctx context.Context) error {
	late := fmt.Errorf("the query took longer than --timeout %s", v.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, v.timeout, late)
	defer cancel()
	child := subprocess.Child{Args: v.args, SpillDir: v.limits.SpillDir}
	code, err := subprocess.Run(ctx, child, v.stdout, v.stderr)
	var memory *subprocess.MemoryError
	switch {
	case errors.As(err, &memory):
		return tooMuchMemory("query", v.limits, memory.Reason)
	case err == nil && code != exitOK:
		return reportedError(code)
	}
	return err
}

// tooMuchMemory returns the error for a command that does not fit into its memory. DuckDB spills what it can
// to disk, if the lake can be written.
func tooMuchMemory(command string, limits duckdb.Options, why string) error {
	spilling := "spilling to disk does not suffice"
	if limits.SpillDir == "" {
		spilling = "it cannot spill to disk, because the lake cannot be written"
	}
	return fmt.Errorf("the %s needs more than %sB of memory, and %s: raise --memory-limit (%s)",
		command, units.Human(float64(limits.MemoryBytes)), spilling, why)
}

// listQuestions writes all questions.
func (v *queryVerb) listQuestions() error {
	all, err := queries.List()
	if err != nil {
		return err
	}
	a := &text.Answer{}
	for _, q := range all {
		a.Linef("%-28s %s", q.Name, q.Question)
	}
	a.Linef("\nparsimon query --help NAME describes one: its parameters, units and SQL")
	return a.Write(v.stdout, "text")
}

// parse checks the command line and returns the request.
func (v *queryVerb) parse(args []string) (asked request, err error) {
	switch {
	case (len(args) == 1) == (v.sql != ""):
		return asked, usagef("give the name of a question or --sql, one of the two")
	case v.form == "parquet" && isTerminal(v.stdout.w):
		return asked, usagef("--format parquet is not for a terminal: redirect it to a file")
	case v.timeout == 0:
		return asked, usagef("--timeout: must be above 0")
	case v.sql != "" && len(v.given) > 0:
		return asked, usagef("--param goes with the name of a question, not with --sql")
	}
	asked.sql = v.sql
	if asked.params, err = parseParams(v.given); err != nil || v.sql != "" {
		return asked, err
	}
	if asked.question, err = queries.Get(args[0]); err == nil {
		_, err = asked.question.With(asked.params)
	}
	if err != nil {
		return asked, usageError{err}
	}
	return asked, nil
}

// answer writes the answer in a child process, whose standard output is a pipe. The lock keeps the files that
// the manifests name until the answer is complete.
func (v *queryVerb) answer(ctx context.Context, l *lake.Lake, asked request) error {
	if err := subprocess.Begin(&v.limits); err != nil {
		return err
	}
	limits := v.limits
	limits.MemoryBytes -= limits.MemoryBytes / 5 // memory that DuckDB does not count
	defer l.LockForReading().Close()
	o, err := catalog.Options(l, limits)
	if err != nil {
		return err
	}
	if asked.sql != "" { // its percentiles may be of any values
		o.Few = false
		o.Threads = v.limits.Threads
	}
	o.Output = "/dev/stdout"
	db, err := queries.Open(ctx, l.Path(), o)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	sql := asked.sql
	write := db.Write
	if sql == "" {
		write = db.WriteKnown
		if sql, err = db.Text(asked.question, asked.params); err != nil {
			return err
		}
	}
	explainNames(v.env, l, sql)
	rows, err := write(ctx, sql, v.form)
	if err != nil || rows > 0 {
		return err
	}
	err = explainWindows(v.env, l, asked.params["scenario"], sql)
	if err != nil || asked.sql != "" {
		return errors.Join(err, explainEmpty(v.env, o.Files, sql))
	}
	return v.explainNoRows(ctx, db, asked)
}

// explainNoRows explains why the answer of a question has no rows.
func (v *queryVerb) explainNoRows(ctx context.Context, db *queries.DB, asked request) error {
	why, err := db.Emptied(ctx, asked.question, asked.params)
	switch {
	case err != nil:
	case why != "":
		_, err = fmt.Fprintf(v.stderr, "parsimon: no rows with %s, but there are rows with other values\n",
			format.Escape(why))
	case asked.question.OfEvent() && asked.params["from_ns"] == "":
		_, err = fmt.Fprintln(v.stderr, "parsimon: no rows: no event is known; give the time of one by --param "+
			"from_ns and to_ns")
	default:
		_, err = fmt.Fprintf(v.stderr, "parsimon: no rows: the answer has %s\n", asked.question.Grain)
	}
	return err
}

// completeQuestions completes the names of questions.
func completeQuestions(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, _ := queries.List() // without questions there is nothing to complete
	complete := names.Of(all, func(q queries.Query) cobra.Completion {
		return cobra.CompletionWithDesc(q.Name, q.Question)
	})
	return complete, cobra.ShellCompDirectiveNoFileComp
}

// explainEmpty lists the tables in a SELECT that have no rows in the lake.
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

// ofScenario finds the values with which a SELECT compares column scenario.
var ofScenario = regexp.MustCompile(`(?i)scenario"?\s*(?:=|in\s*\()\s*'([^']+)'`)

// explainNames explains that a SELECT compares ids with the name of a scenario, which never match.
func explainNames(e *env, l *lake.Lake, text string) {
	for _, m := range ofScenario.FindAllStringSubmatch(text, -1) {
		if id, err := pipeline.Resolve(l, m[1]); err == nil && string(id) != m[1] {
			_, _ = fmt.Fprintf(e.stderr, "parsimon: column scenario holds ids: no row has '%s', but '%s', the id of "+
				"the scenario which has that name\n", format.Escape(m[1]), id)
		}
	}
}

// explainWindows lists the scenarios whose last estimate is from windows of time, and those whose estimate
// from windows is hidden by a later estimate of the whole workload. An empty scenario means all scenarios.
func explainWindows(e *env, l *lake.Lake, scenario, asked string) error {
	ids, err := l.Scenarios()
	for _, id := range ids {
		if err != nil || scenario != "" && scenario != string(id) {
			continue
		}
		answer := l.Answer(id)
		why := ""
		ofWindows := answer.Sampled()
		var others []string
		if ofWindows {
			others, err = estimatesOf(l, id, ofAllFlows)
		} else {
			others, err = estimatesOf(l, id, variant.Variant.Sampled)
		}
		switch {
		case ofWindows && len(others) > 0:
			why = fmt.Sprintf("the last run estimated windows of time (%s); the estimate of the whole is in the "+
				"lake: --param scenario=%s@%s, or in SQL views such as slowdowns_all and column variant",
				answer, id, others[0])
		case ofWindows:
			why = fmt.Sprintf("it is estimated from windows of time (%s): question sampled_percentiles and tables "+
				"windows and sampled_slowdowns have it; for all others estimate the whole, \"parsimon run\" without "+
				"--within", answer)
		case len(others) > 0 && (strings.Contains(asked, "windows") || strings.Contains(asked, "sampled_")):
			why = fmt.Sprintf("the last run estimated the whole (%s); its windows of time are in the lake: --param "+
				"scenario=%s@%s, or in SQL views windows_all and sampled_slowdowns_all", answer, id, others[0])
		}
		if why != "" && err == nil {
			_, err = fmt.Fprintf(e.stderr, "parsimon: scenario %s: %s\n", id, why)
		}
	}
	return err
}

// estimatesOf lists the names of the complete estimates of a scenario whose variants are chosen.
func estimatesOf(
	l *lake.Lake, id lake.ScenarioID, chosen func(variant.Variant) bool,
) (all []string, err error) {
	s, err := pipeline.ReadScenarioStatus(l, id, lake.BySize)
	for _, v := range s.Estimates() {
		if chosen(v) {
			all = append(all, v.String())
		}
	}
	return all, err
}

func ofAllFlows(v variant.Variant) bool { return !v.Sampled() }

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// resolveParams replaces the names of scenarios by their ids, and divides SCENARIO@VARIANT.
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

// warnDamaged writes to stderr which scenarios are incomplete, because a run is in progress or was
// interrupted, or because files are missing. If the query is about such a scenario, it is an error, unless
// another estimate of the scenario is complete.
func warnDamaged(e *env, l *lake.Lake, scenario string) error {
	status, err := pipeline.ReadStatus(l, lake.BySize)
	if err != nil {
		return err
	}
	for _, s := range status.Scenarios {
		asked := string(s.ScenarioID) == scenario
		note := "answers about it may lack rows"
		switch {
		case s.State == pipeline.StateComplete || !asked && scenario != "":
			continue
		case s.State == pipeline.StateOther:
			note = "run it again for answers of this one"
		case asked && s.State == pipeline.StatePartial && len(s.Variants) > 0:
			continue
		case asked:
			err := fmt.Errorf("scenario %s is %s: run it again first (parsimon status --lake %s has details)",
				s.ScenarioID, s.State, l.Path())
			if s.State == pipeline.StateDamaged {
				err = damagedError{err}
			}
			return err
		}
		_, err := fmt.Fprintf(e.stderr, "parsimon: scenario %s (%s) is %s: %s\n", s.ScenarioID,
			format.Escape(s.Name), s.State, note)
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
func (e *env) helpQuery(name string) error {
	q, err := queries.Get(name)
	if err != nil {
		return usageError{err}
	}
	a := &text.Answer{}
	a.Linef("%s: %s\n\ngrain: %s\nunits: %s\n", q.Name, q.Question, q.Grain, q.Units)
	for _, p := range q.Params {
		a.Linef("  --param %s=%s  %s", p.Name, p.Default, p.Doc)
	}
	a.Block("\n" + strings.TrimSpace(q.SQL))
	return a.Write(e.stdout, "text")
}
