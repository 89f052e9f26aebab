// Package queries answers questions about a lake in SQL. It has a library of questions, the catalog of views
// that they read, and a sandbox in which a user's own SELECT can read the lake and nothing else.
//
//	data files ([]File) ─→ view per table ─→ variants, size_bins, …      ─→ view per question
//	                                  └──────────────┬──────────────────────────┘
//	                        Open: DB, in memory, locked to the lake
//	                        Catalog: LAKE/parsimon.duckdb, for DuckDB itself, from folder template
//	                                  │
//	              Run(question, parameters)   SQL(text), Write(text) ─→ checkTree ─→ checkType
//	                                  └───────┬────────────┘    └─→ Options.Output, in a form of format.Names
//	                                    format.Answer
//
// # Questions
//
// A question is one file NAME.sql in this folder: a header with its description and parameters, and one
// SELECT. The program needs nothing else; the tests also need its answer (questions_test.go). The catalog has
// a view of the same name for each question, with the defaults of its parameters.
//
// Every question has the parameters scenario and variant. Without scenario, the answer has separate rows for
// each scenario of the lake. Without variant, the question reads the answer of each scenario (MarkAnswers).
// With a variant, it reads the views of all variants, whose names end with _all.
//
// A condition on scenario or variant around the view of a question reaches the scans, so that other files are
// not opened. In p99_links and tail_by_tier, which pass a list of flows between two scans, only the
// parameters have that effect. A range of start_ns skips files and row groups outside it.
//
// The file own/NAME.sql is a statement of a command (Known). It has no view. Statements that compare two
// estimates read views that the command creates.
//
// # Percentiles
//
// Percentiles are exact: linear interpolation between the two nearest values (type 7 of Hyndman and Fan,
// "Sample quantiles in statistical packages", 1996), which is also the result of DuckDB's quantile_cont,
// numpy.percentile, pandas, and polars with "linear". The memory of the macro percentiles hardly grows with
// the number of flows (macros/percentiles_and_whole.sql). With Options.Few, the macros of macros/few replace
// it. They hold all values in memory, and DuckDB plans them in a tenth of the time.
//
// # Sandbox
//
// A user's statement must be a single SELECT by DuckDB's parse tree and by the statement type that DuckDB
// reports. It may call the listed table functions only. The text is not changed before it runs. DuckDB is
// locked to the data files of the lake. A lake with symbolic links that lead outside is not opened. Package
// queries/subprocess limits the time, and the memory that DuckDB does not count.
//
// Package queries depends on the tables (schema), and neither on simulators nor on stages. Only pipeline
// imports it. Stages use package queries/duckdb, too, to read traces.
package queries

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	duckdriver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/queries/format"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/variant"
)

// Options are the files that a database reads and its limits.
type Options struct {
	duckdb.Options
	// Files are the data files to read.
	Files []File
	// Verify returns an error if the bytes of a data file are not those that were committed. The path is
	// relative to the lake. Verify is called once for each file, before a statement first reads it. nil verifies
	// nothing.
	Verify func(path string) error
	// Few is set if the values of all percentiles fit in memory.
	Few bool
	// Output is the absolute path of the file or pipe, such as /dev/stdout, to which Write writes.
	Output string
}

// DB answers questions about the data files of one lake. It is safe for concurrent use.
type DB struct {
	root   string // absolute path of the lake, symbolic links resolved
	sql    *sql.DB
	files  []File
	verify func(path string) error
	output string
	views  []view // of the catalog, each after those that it reads

	mu      sync.Mutex
	created map[string]bool // views that exist in DuckDB
	checked map[string]bool // files, by path
}

// Open opens a lake for reading. The database is in memory and has the views of the catalog; it does not need
// the file LAKE/parsimon.duckdb. It is locked: it reads the data files only, writes Options.Output only,
// loads no extensions and changes no settings.
//
// A view is created when a statement of a user first reads it, because DuckDB then opens a file of every
// scenario. Statements of the program have the views that they read as common table expressions.
//
// Open returns an error if the lake is missing, is not a directory, has no data file, or has a path that
// CheckLakePath refuses, if the header of a question is malformed, and if duckdb.Open refuses the limits.
func Open(ctx context.Context, lake string, o Options) (_ *DB, err error) {
	root, err := lakeRoot(lake)
	if err != nil {
		return nil, err
	}
	if err := CheckLakePath(root); err != nil {
		return nil, err
	}
	if len(o.Files) == 0 {
		return nil, fmt.Errorf("lake %s holds no tables yet: make some with `parsimon run … --lake %s`", lake, lake)
	}
	macros := boundedMacros
	if o.Few {
		macros = inMemoryMacros
	}
	all, err := views(o.Files, lakeFiles{root: root}, macros)
	if err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	if o.Verify == nil {
		o.Verify = func(string) error { return nil }
	}
	engine, err := duckdb.Open(ctx, o.Options)
	if err != nil {
		return nil, fmt.Errorf("lake %s: %w", lake, err)
	}
	db := &DB{root: root, sql: engine, files: o.Files, verify: o.Verify, output: o.Output, views: all,
		created: map[string]bool{}, checked: map[string]bool{}}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("lake %s: %w", lake, err), db.Close())
	}
	return db, nil
}

func (db *DB) prepare(ctx context.Context) (err error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	macros := names.Of(functions(), func(v view) string { return string(create) + " MACRO " + v.sql })
	if _, err := conn.ExecContext(ctx, strings.Join(macros, ";\n")); err != nil {
		return err
	}
	paths := names.Of(db.files,
		func(f File) string { return filepath.Join(db.root, filepath.FromSlash(f.Path)) })
	if db.output != "" {
		paths = append(paths, db.output)
	}
	return duckdb.Lock(ctx, db.sql, paths...)
}

// Close frees the database.
func (db *DB) Close() error { return db.sql.Close() }

// require creates the views of the given names, and the views that they read, unless they exist. It creates
// all or none. Names of other relations are ignored.
func (db *DB) require(ctx context.Context, conn *sql.Conn, names []string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	missing := slices.DeleteFunc(db.closure(names), func(v view) bool { return db.created[v.name] })
	if err := db.check(missing); err != nil || len(missing) == 0 {
		return err
	}
	if !slices.ContainsFunc(missing, func(v view) bool { return v.quick == "" }) {
		for i := range missing {
			missing[i].quick = "" // no view that is created here reads another
		}
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := createViews(duckdb.RunnerOf(ctx, conn), create, missing); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	err = tx.Commit()
	for _, v := range missing {
		db.created[v.name] = err == nil
	}
	return err
}

// check returns an error unless the files of views are in the lake and as they were committed. It checks each
// file once. The caller has locked the database.
func (db *DB) check(views []view) error {
	for _, v := range views {
		files := slices.DeleteFunc(slices.Clone(v.files), func(f string) bool { return db.checked[f] })
		if err := checkInside(db.root, files); err != nil {
			return err
		}
		for _, f := range files {
			if err := db.verify(strings.TrimPrefix(f, db.root+string(filepath.Separator))); err != nil {
				return err
			}
			db.checked[f] = true
		}
	}
	return nil
}

// closure returns the views of the given names and the views that they read, directly or indirectly, each
// after those that it reads.
func (db *DB) closure(names []string) []view {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	var found []view
	for _, v := range slices.Backward(db.views) { // a view reads only views before it
		if wanted[v.name] {
			found = append(found, v)
			for _, name := range v.needs {
				wanted[name] = true
			}
		}
	}
	slices.Reverse(found)
	return found
}

func (db *DB) viewNames() []string { return names.Of(db.views, func(v view) string { return v.name }) }

// Text returns the SELECT of a question. params overrides the defaults of its parameters by name.
//
// It returns an error if the question does not have a parameter, if a value has the wrong type, or if the
// lake does not have a scenario or variant. The error then lists similar names.
func (db *DB) Text(query Query, params map[string]string) (string, error) {
	if params["variant"] != "" {
		query = query.ofAllVariants()
	}
	text, err := query.With(params)
	if err == nil {
		err = db.checkIDs(params)
	}
	if err != nil {
		return "", fmt.Errorf("query %s: %w", query.Name, err)
	}
	return text, nil
}

// Run answers a question. Its errors are those of Text and of SQL.
func (db *DB) Run(ctx context.Context, query Query, params map[string]string) (*format.Answer, error) {
	text, err := db.Text(query, params)
	if err != nil {
		return nil, err
	}
	return db.Ask(ctx, query.Name, text)
}

// Ask runs a SELECT of the program, which is not checked. The text must name every relation directly after
// FROM or JOIN.
func (db *DB) Ask(ctx context.Context, name, text string) (a *format.Answer, err error) {
	conn, err := db.sql.Conn(ctx)
	if err == nil {
		defer func() { _ = conn.Close() }() // of the pool
		text, err = db.complete(ctx, conn, text)
	}
	if err == nil {
		once, value := duckdb.PlanOnce(text)
		a, err = format.Read(ctx, conn, once, math.MaxInt, value)
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", name, duckdb.FirstLine(duckdb.OrCause(ctx, err)))
	}
	return a, nil
}

// complete returns a SELECT of the program with the views that it reads as common table expressions, and
// creates the macros that it uses. DuckDB binds an expression when it plans the statement; a view it also
// binds when the view is created, which takes longer than the rest of a question about few flows.
func (db *DB) complete(ctx context.Context, conn *sql.Conn, text string) (string, error) {
	read := db.closure(namesIn(text))
	db.mu.Lock()
	err := db.check(read)
	db.mu.Unlock()
	if err != nil {
		return "", err
	}
	var macros, expressions []string
	for _, v := range read {
		if v.kind == isTableMacro {
			macros = append(macros, v.name)
		} else {
			expressions = append(expressions, duckdb.Ident(v.name)+" AS NOT MATERIALIZED (\n"+v.sql+"\n)")
		}
	}
	return duckdb.WithExpressions(text, expressions...), db.require(ctx, conn, macros)
}

// With returns the SELECT of a question with the values of its parameters as literals: those of params, or
// else the defaults. Neither views nor statements that write an answer can have parameters.
func (q Query) With(params map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !q.hasParam(name) {
			known := names.Of(q.Params, func(p Param) string { return p.Name })
			return "", fmt.Errorf("no parameter %q; the parameters are %s", name, strings.Join(known, ", "))
		}
	}
	literals := map[string]string{}
	for _, p := range q.Params {
		text, given := params[p.Name]
		if !given {
			text = p.Default
		}
		if !given && p.Default == "" && p.Type != "text" {
			literals["$"+p.Name] = "NULL"
			continue
		}
		literal, err := p.literal(text)
		if err != nil {
			return "", err
		}
		literals["$"+p.Name] = literal
	}
	var err error
	text := replaceUses(q.SQL, func(use string) string {
		if _, declared := literals[use]; !declared {
			err = fmt.Errorf("%s is used but not declared", use)
		}
		return literals[use]
	})
	return text, err
}

// SQL runs the text if it is a single SELECT. Errors for any other text wrap ErrRefused. Each table and each
// question is a view of that name. DuckDB opens the data files of the lake only.
func (db *DB) SQL(ctx context.Context, text string) (*format.Answer, error) {
	conn, err := db.admitted(ctx, text)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // of the pool
	a, err := format.Read(ctx, conn, text, math.MaxInt)
	return a, duckdb.OrCause(ctx, err)
}

// Write writes the answer of a text that SQL would run, in one of format.Names, to Options.Output. It returns
// the number of rows.
func (db *DB) Write(ctx context.Context, text, form string) (rows int64, err error) {
	conn, err := db.admitted(ctx, text)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // of the pool
	return db.write(ctx, conn, text, form, writers{format.Copy, format.Table})
}

// WriteKnown is Write for a SELECT of the program, as of Text, which is not checked. The text must name every
// relation directly after FROM or JOIN. The columns of its answer have simple types (format.CopySimple).
func (db *DB) WriteKnown(ctx context.Context, text, form string) (rows int64, err error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // of the pool
	text, err = db.complete(ctx, conn, text)
	if err != nil {
		return 0, duckdb.OrCause(ctx, err)
	}
	how := writers{format.CopySimple, format.TableSimple}
	if form == "json" { // it has no NaN
		how.copy = format.Copy
	}
	return db.write(ctx, conn, text, form, how)
}

// writers are functions of package format.
type writers struct {
	copy  func(ctx context.Context, conn *sql.Conn, text, form, path string) (rows int64, err error)
	table func(ctx context.Context, conn *sql.Conn, text string, w io.Writer) (rows int64, err error)
}

// write writes the answer of a SELECT to Options.Output.
func (db *DB) write(
	ctx context.Context, conn *sql.Conn, text, form string, how writers,
) (rows int64, err error) {
	if form != "table" {
		rows, err = how.copy(ctx, conn, text, form, db.output)
		return rows, duckdb.OrCause(ctx, err)
	}
	out, err := os.OpenFile(db.output, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return 0, err
	}
	rows, err = how.table(ctx, conn, text, out)
	return rows, errors.Join(duckdb.OrCause(ctx, err), out.Close())
}

// widestRanges are the values of numbers and times that exclude no rows.
var widestRanges = map[string]string{"min_flows": "1", "from_ns": "0", "to_ns": strconv.Itoa(math.MaxInt64)}

// widest returns the value of a parameter that excludes no rows. It is known for ranges and, except for the
// estimate, for texts: their default, which is empty or a word such as all.
func (p Param) widest() (value string, known bool) {
	if p.Type == "text" {
		return p.Default, p.Name != "scenario" && p.Name != "variant"
	}
	value, known = widestRanges[p.Name]
	return value, known
}

// Emptied explains the empty answer of a question. It returns a parameter whose value excludes all rows, or
// several parameters that do so together. The result is empty if the parameters are not the reason.
func (db *DB) Emptied(ctx context.Context, q Query, params map[string]string) (string, error) {
	type try struct {
		without string
		params  map[string]string
	}
	var tries []try
	all := try{"", map[string]string{}}
	maps.Copy(all.params, params)
	for _, p := range q.Params {
		wide, known := p.widest()
		value, given := params[p.Name]
		if !given {
			value = p.Default
		}
		if !known || value == wide || value == "" && p.Type != "text" {
			continue
		}
		one := try{p.Name + "=" + value, map[string]string{}}
		maps.Copy(one.params, params)
		one.params[p.Name] = wide
		all.params[p.Name] = wide
		at := len(tries)
		if !given { // the user may not know the default, so it is the better explanation
			at = 0
		}
		tries = slices.Insert(tries, at, one)
		all.without = strings.TrimPrefix(all.without+", "+one.without, ", ")
	}
	for _, t := range append(tries, all) {
		text, err := db.Text(q, t.params)
		if err != nil {
			return "", err
		}
		a, err := db.Ask(ctx, q.Name, "SELECT 1 FROM (\n"+text+"\n) LIMIT 1")
		if err != nil || a.Total > 0 {
			return t.without, err
		}
	}
	return "", nil
}

// admitted returns a connection on which the text may run.
func (db *DB) admitted(ctx context.Context, text string) (*sql.Conn, error) {
	conn, err := db.sql.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.admit(ctx, conn, text); err != nil {
		return nil, errors.Join(duckdb.OrCause(ctx, err), conn.Close())
	}
	return conn, nil
}

// admit checks a statement and creates the views that it reads.
func (db *DB) admit(ctx context.Context, conn *sql.Conn, text string) error {
	s, err := duckdb.InspectSelect(ctx, conn, text, relationMacros...)
	if err != nil {
		return err
	}
	create := slices.Sorted(maps.Keys(s.Relations))
	all := db.viewNames()
	unknown := func(name string) bool { return !s.Defined[name] && !slices.Contains(all, name) }
	if s.Metadata || slices.ContainsFunc(create, unknown) { // the latter for DuckDB's "Did you mean"
		create = all
	}
	if err := db.require(ctx, conn, create); err != nil {
		return err
	}
	return checkType(conn, text)
}

// ErrRefused is wrapped by every error for a statement that may not run. Errors of statements that are
// malformed or fail do not wrap it.
var ErrRefused = duckdb.ErrRefused

// relationMacros are the table macros of the catalog. Their first argument is the name of a relation.
var relationMacros = []string{"percentiles", "percentiles_and_whole", "percentiles_of", "flow_percentiles",
	"flow_groups"}

// checkType returns an error unless DuckDB's type of the statement is SELECT. It binds the statement, which
// opens the files that it reads, but does not run it.
func checkType(conn *sql.Conn, text string) error {
	return conn.Raw(func(c any) error {
		preparer, ok := c.(driver.Conn)
		if !ok {
			return fmt.Errorf("unknown driver connection %T", c)
		}
		// Prepare without a context fails for several statements. PrepareContext would run all of them except the
		// last.
		prepared, err := preparer.Prepare(text)
		if err != nil {
			return err
		}
		defer func() { _ = prepared.Close() }()
		stmt, ok := prepared.(*duckdriver.Stmt)
		if !ok {
			return fmt.Errorf("unknown driver statement %T", prepared)
		}
		kind, err := stmt.StatementType()
		if err != nil {
			return err
		}
		if kind != duckdriver.STATEMENT_TYPE_SELECT {
			return fmt.Errorf("%w; DuckDB's statement type of this is %d, not SELECT", ErrRefused, kind)
		}
		if stmt.NumInput() != 0 {
			return errors.New("the statement has parameters, which have no values here: write the values")
		}
		return nil
	})
}

// File is one data file of a lake, with the ids of all its rows. The ids are the values of the columns
// scenario, variant and workload in the views. They are never read from the path, which a folder above the
// lake, or a file that two scenarios share, could make wrong.
type File struct {
	Table    string          // name of a table of package schema
	Scenario string          // empty for a table of a workload
	Variant  variant.Variant // zero for a table that has none
	Workload string          // empty for a table of a scenario
	Path     string          // relative to the lake, with slashes
	// Version is the schema version of the manifest that lists the file; 0 is the current one. Columns
	// that are newer have empty values.
	Version int
	// Answer is set if the variant is the answer of its scenario, which views without _all show.
	Answer bool
}

func (f File) id(column string) string {
	switch column {
	case "scenario":
		return f.Scenario
	case "variant":
		return f.Variant.String()
	}
	return f.Workload
}

// check returns an error unless the file is inside the lake and DuckDB reads its path literally.
func (f File) check() error {
	if _, err := schema.ByName(f.Table); err != nil {
		return fmt.Errorf("file %q: %w", f.Path, err)
	}
	if !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path {
		return fmt.Errorf("file %q: not a clean path inside the lake", f.Path)
	}
	if strings.ContainsAny(f.Path, `*?[]\:`) || strings.ContainsFunc(f.Path, unicode.IsControl) {
		return fmt.Errorf("file %q: must not have * ? [ ] \\ : or control characters in its path", f.Path)
	}
	return nil
}

// checkInside returns an error for a path that is not a regular file, because DuckDB would wait for the
// writer of a named pipe. It also returns an error for a path that leads out of the lake over a symbolic
// link, because DuckDB compares paths as strings. Missing files are left to DuckDB.
func checkInside(root string, paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: not a regular file", path)
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || !strings.HasPrefix(target, root+string(filepath.Separator)) {
			return fmt.Errorf("%s leads out of the lake over a symbolic link, to %s, where queries may not read: "+
				"move the files into the lake", path, target)
		}
	}
	return nil
}

// MarkAnswers sets Answer for the files of each scenario's answer. The answer is the given variant if the
// lake has its estimate, or else the best variant that has one (variant.Better).
func MarkAnswers(files []File, answerOf map[string]variant.Variant) {
	best := map[string]variant.Variant{}
	for _, f := range files {
		if f.Table != schema.Slowdowns.Name && f.Table != schema.SampledSlowdowns.Name {
			continue
		}
		known, found := best[f.Scenario]
		asked := answerOf[f.Scenario]
		if !found || f.Variant == asked || known != asked && f.Variant.Better(known) {
			best[f.Scenario] = f.Variant
		}
	}
	for i := range files {
		answer, found := best[files[i].Scenario]
		files[i].Answer = found && files[i].Variant == answer
	}
}

// maxListed is the number of ids that an error lists.
const maxListed = 20

// checkIDs returns an error if no data file of the lake has the scenario or variant of the parameters. The
// error lists the ids of the lake, the most similar ones first.
func (db *DB) checkIDs(params map[string]string) error {
	for _, column := range []string{"scenario", "variant"} {
		asked := params[column]
		of := "in the lake"
		if asked == "" {
			continue
		}
		scenario := params["scenario"]
		if column == "variant" && scenario != "" {
			of = "of scenario " + scenario
		}
		var known []string
		for _, f := range db.files {
			id := f.id(column)
			if id != "" && (of == "in the lake" || params["scenario"] == f.Scenario) {
				known = append(known, id)
			}
		}
		slices.Sort(known)
		if !slices.Contains(known, asked) {
			known = slices.Compact(known)
			return fmt.Errorf("no %s %q %s; it has %s", column, asked, of,
				strings.Join(names.Nearest(asked, known, maxListed), ", "))
		}
	}
	return nil
}

// CheckLakePath returns an error if the absolute path of a lake, symbolic links resolved, has characters with
// a meaning in DuckDB's paths: * ? [ ] \ are patterns, a comma separates paths, and % begins an escape.
// Control characters and bytes that are not UTF-8 are refused, too. The lake need not exist yet.
func CheckLakePath(dir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("lake %s: %w", dir, err)
	}
	// The part of the path that exists may have symbolic links.
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		resolved, err := filepath.EvalSymlinks(at)
		if err == nil {
			path = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return fmt.Errorf("lake %s: %w", dir, err)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
	if !utf8.ValidString(path) {
		return fmt.Errorf("lake %q: its path %q must be UTF-8, or DuckDB cannot read it", dir, path)
	}
	for _, c := range path {
		if strings.ContainsRune(`*?[]\,%`, c) || unicode.IsControl(c) {
			return fmt.Errorf(`lake %q: its path %q must not have the character %q: DuckDB reads * ? [ ] \ , %% as `+
				`patterns, lists and escapes, and control characters are not allowed`, dir, path, c)
		}
	}
	return nil
}

// lakeRoot returns the absolute path of a lake, symbolic links resolved. The lake must be a directory.
func lakeRoot(lake string) (string, error) {
	root, err := filepath.Abs(lake)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no lake at %s: no such directory", lake)
	}
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return "", fmt.Errorf("lake %s: %w", lake, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("lake %s is not a directory", lake)
	}
	return root, nil
}
