package queries

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/schema/variant"
)

// A viewKind is the kind of an entry of the catalog, as in DuckDB's statement DROP.
type viewKind string

const (
	isView       viewKind = "VIEW"
	isTableMacro viewKind = "MACRO TABLE"
	isFunction   viewKind = "MACRO"
)

// A view is a view of the catalog (CREATE VIEW name AS sql) or a macro (CREATE MACRO sql).
type view struct {
	kind      viewKind
	name, sql string
	quick     string   // SQL with the same columns and types that DuckDB binds faster; "": none
	needs     []string // names of the views that the SQL reads
	comment   string   // comment of the view; columns has those of its columns, by name
	columns   map[string]string
	files     []string // for a view of a table: all files
	ofLake    bool     // whether the SQL differs between lakes; quick then is that of a lake without files
}

// intervalsByGroup returns the view intervals_by_group, with the given suffix. It reads the views intervals
// and warnings of the same suffix.
func intervalsByGroup(suffix string) view {
	return view{
		kind: isView, name: "intervals_by_group" + suffix,
		needs: []string{"intervals" + suffix, "warnings" + suffix},
		comment: "One row per group of flows, with the 95% intervals of its percentiles in columns, and with all " +
			"warnings about the group in one text. Remarks about the whole workload (warnings of kind flows) are " +
			"not included." + ofVariants(schema.View{Answer: suffix == ""}),
		sql: strings.NewReplacer("FROM intervals", "FROM intervals"+suffix, "FROM warnings", "FROM warnings"+
			suffix).
			Replace(string(read("fragments/intervals_by_group.sql"))),
	}
}

// crossings is what the views crossings and crossings_all look like.
var crossings = schema.Table{
	Name: "crossings", Doc: "Links that each flow crosses in an estimate of all flows.",
	Grain: "flow × hop", Variant: true,
	Columns: schema.Hops.Select("flow_row", "hop", "link_id"),
}

// crossingsOf returns the files with the hops of each estimate: those of table hops, or of table exact_hops
// if the estimate simulates the whole network.
func crossingsOf(files []File) (hops []File) {
	type estimate struct {
		scenario string
		of       variant.Variant
	}
	routed := map[string][]File{} // tables of hops, by scenario
	for _, f := range files {
		if f.Table == schema.Hops.Name || f.Table == schema.ExactHops.Name {
			routed[f.Scenario] = append(routed[f.Scenario], f)
		}
	}
	seen := map[estimate]bool{}
	for _, e := range files {
		key := estimate{e.Scenario, e.Variant}
		if e.Table != schema.Slowdowns.Name || seen[key] {
			continue
		}
		seen[key] = true
		for _, f := range routed[e.Scenario] {
			whole := f.Table == schema.ExactHops.Name && f.Variant == e.Variant
			if whole || f.Table == schema.Hops.Name && !e.Variant.WholeNetwork() {
				f.Variant = e.Variant
				f.Answer = e.Answer
				hops = append(hops, f)
			}
		}
	}
	return hops
}

// linkNames returns the view link_names.
func linkNames() view {
	return view{
		kind: isView, name: "link_names", needs: []string{"links", "nodes"},
		sql: string(read("fragments/link_names.sql")),
		comment: "Names of links for people. One row per scenario and link. Members of a LAG have different " +
			"names.",
		columns: map[string]string{
			"scenario": "id of the scenario", "link_id": "link",
			"link":          "names of the nodes at its ends, a → b, and for a member of a LAG its port or number",
			"cable":         "names of the nodes, a:b",
			"reverse_cable": "names of the nodes, b:a",
			"src_name":      "name of the sending node",
			"dst_name":      "name of the receiving node",
		},
	}
}

// views returns the views of the catalog in an order in which they can be created: table macros, tables,
// crossings, variants, size_bins, link_names and intervals_by_group, and questions. The view of a table
// without files is empty, with the columns and types of the table.
func views(files []File, lake lakeFiles, macros macroFolder) ([]view, error) {
	answers := map[string]string{}
	byView := map[string][]File{}
	for _, f := range files {
		if err := f.check(); err != nil {
			return nil, err
		}
		name := f.Table
		if f.Workload != "" {
			name += " of workload"
		}
		byView[name] = append(byView[name], f)
		if f.Answer {
			answers[f.Scenario] = f.Variant.String()
			byView["answer of "+name] = append(byView["answer of "+name], f)
		}
	}
	for _, f := range crossingsOf(files) {
		byView[crossings.Name] = append(byView[crossings.Name], f)
		if f.Answer {
			byView["answer of "+crossings.Name] = append(byView["answer of "+crossings.Name], f)
		}
	}
	all := tableMacros(macros)
	for _, t := range append(schema.Tables(), crossings) {
		for i, v := range t.Views() {
			name := t.Name
			if v.Hive[0] == "workload" {
				name += " of workload"
			}
			if v.Answer {
				name = "answer of " + name
			}
			of := tableView(t, v, byView[name], lake, answers)
			if i > 0 { // comments of columns are a quarter of a catalog
				of.columns = nil
				of.comment = of.comment + " Its columns are those of view " + t.Name + "."
			}
			all = append(all, of)
		}
	}
	all = append(all, variantsView(files),
		view{kind: isView, name: "size_bins", sql: sizeBinsView(),
			comment: "The size bins, and the range of all sizes."},
		linkNames(), intervalsByGroup(""), intervalsByGroup(schema.AllVariants))
	questions, err := questionViews()
	return append(all, questions...), err
}

// tableView returns the view of a table: for each group of files with the same ids
//
//	SELECT columns of the table, 'ID' AS scenario, 'NAME' AS variant FROM read_parquet([files])
//
// with UNION ALL between them. DuckDB pushes conditions on the ids into every group, and does not open the
// files of groups for which they are false. The view scenarios also has column answer.
func tableView(t schema.Table, v schema.View, files []File, lake lakeFiles, answers map[string]string) view {
	hive := v.Hive
	if t.Name == schema.Scenarios.Name {
		hive = append(slices.Clone(hive), answerColumn)
	}
	result := view{kind: isView, name: v.Name, comment: tableComment(t, v), columns: columnComments(t, hive),
		ofLake: true}
	if len(files) == 0 {
		result.sql = emptyTable(t, hive)
		return result
	}
	result.quick = emptyTable(t, hive)
	var groups []string            // columns of each group, as SQL
	paths := map[string][]string{} // by group
	for _, f := range files {
		group := columnsIn(t, f.Version)
		for _, column := range hive {
			value := duckdb.Quote(f.id(column))
			if column == answerColumn {
				value = "CAST(NULL AS VARCHAR)"
				if answer, estimated := answers[f.Scenario]; estimated {
					value = duckdb.Quote(answer)
				}
			}
			group += ", " + value + " AS " + duckdb.Ident(column)
		}
		if _, known := paths[group]; !known {
			groups = append(groups, group)
		}
		paths[group] = append(paths[group], f.Path)
		result.files = append(result.files, lake.path(f.Path))
	}
	result.sql = unionAll(names.Of(groups, func(group string) string {
		return "SELECT " + group + " FROM " + lake.scan(paths[group])
	}))
	return result
}

// throughFunctions gives the SQL of each view that differs between lakes to a function, as a text that the
// view runs. The views and their comments, which take longer to write, are then the same in every lake.
// DuckDB binds a table macro when it creates it, which opens a file of each scenario. It does not bind a
// text.
func throughFunctions(all []view) (through []view) {
	for _, v := range all {
		if v.ofLake {
			of := view{kind: isFunction, name: "sql_of_" + v.name, ofLake: true}
			of.sql = of.name + "() AS " + duckdb.Quote(v.sql)
			if v.quick != "" {
				of.quick = of.name + "() AS " + duckdb.Quote(v.quick)
			}
			through = append(through, of)
			v = view{kind: isView, name: v.name, sql: "FROM query(" + of.name + "())", needs: []string{of.name},
				comment: v.comment, columns: v.columns}
		}
		through = append(through, v)
	}
	return through
}

// columnsIn returns the columns of a table in files of a schema version, as SQL.
func columnsIn(t schema.Table, version int) string {
	return strings.Join(names.Of(t.Columns, func(c schema.Column) string {
		name := duckdb.Ident(c.Name)
		in, like := t.In(cmp.Or(version, schema.Version), c.Name)
		switch {
		case in:
			return name
		case like != "":
			return duckdb.Ident(like) + " AS " + name
		}
		return fmt.Sprintf("CAST(%s AS %s) AS %s", c.EmptyValue(), sqlType(c.Type), name)
	}), ", ")
}

// lakeFiles says how views find the files of a lake.
type lakeFiles struct {
	root    string // absolute path
	movable bool   // through the macro lake_files, which the catalog has
}

// path returns the absolute path of a file.
func (l lakeFiles) path(relative string) string {
	return l.root + string(filepath.Separator) + relative
}

// scan returns a table function call that reads files.
func (l lakeFiles) scan(relative []string) string {
	if l.movable {
		return duckdb.ScanParquetIn("lake_files", relative...)
	}
	return duckdb.ScanParquet(names.Of(relative, l.path)...)
}

// function returns the function lake_files(paths), which returns paths in the lake: in the directory that the
// user has assigned to the variable lake or else where the lake was when its catalog was written.
func (l lakeFiles) function() view {
	text := func(root string) string {
		return "lake_files(paths) AS list_transform(paths, lambda path: coalesce(getvariable('lake'), " +
			duckdb.Quote(root) + ") || '/' || path)"
	}
	return view{kind: isFunction, name: "lake_files", sql: text(l.root), quick: text(""), ofLake: true}
}

// answerColumn is the column of view scenarios with the variant that views without _all show.
const answerColumn = "answer"

func tableComment(t schema.Table, v schema.View) string {
	text := t.Doc + " One row per " + t.Grain + "."
	if t.OfAnswer() {
		text += ofVariants(v)
	}
	return text
}

// ofVariants returns the part of a view's comment about its variants.
func ofVariants(v schema.View) string {
	if v.Answer {
		return " It has one variant of each scenario, the variant of its last run (scenarios.answer). The view " +
			"with the ending _all has all variants."
	}
	return " It has all variants of each scenario."
}

// columnComments describes the columns of the views of a table, with their units.
func columnComments(t schema.Table, hive []string) map[string]string {
	docs := map[string]string{}
	for _, column := range hive {
		docs[column] = map[string]string{
			"scenario": "id of the scenario", "variant": "how the estimate was made", "workload": "id of the workload",
			answerColumn: "variant of the last run, which views without _all show; null if there is no estimate",
		}[column]
	}
	for _, c := range t.Columns {
		docs[c.Name] = c.Doc
		if c.Unit != "" {
			docs[c.Name] += " [" + c.Unit + "]"
		}
	}
	return docs
}

// unionAll joins SELECTs as a balanced tree. DuckDB's parser and planner are recursive, and a chain of
// thousands of unions overflows their stack.
func unionAll(selects []string) string {
	if len(selects) == 1 {
		return selects[0]
	}
	middle := len(selects) / 2
	return "(" + unionAll(selects[:middle]) + ") UNION ALL (" + unionAll(selects[middle:]) + ")"
}

func emptyTable(t schema.Table, ids []string) string {
	columns := names.Of(t.Columns, func(c schema.Column) string {
		return fmt.Sprintf("CAST(NULL AS %s) AS %s", sqlType(c.Type), duckdb.Ident(c.Name))
	})
	nulls := names.Of(ids, func(name string) string { return "CAST(NULL AS VARCHAR) AS " + duckdb.Ident(name) })
	return "SELECT " + strings.Join(append(columns, nulls...), ", ") + " WHERE false"
}

// sqlType returns the DuckDB type of a column of an Arrow type.
func sqlType(t arrow.DataType) string {
	switch t.ID() {
	case arrow.BOOL:
		return "BOOLEAN"
	case arrow.INT16:
		return "SMALLINT"
	case arrow.INT32:
		return "INTEGER"
	case arrow.INT64:
		return "BIGINT"
	case arrow.FLOAT64:
		return "DOUBLE"
	case arrow.BINARY:
		return "BLOB"
	case arrow.STRING:
		return "VARCHAR"
	case arrow.LIST:
		if list, ok := t.(arrow.ListLikeType); ok {
			return sqlType(list.Elem()) + "[]"
		}
	}
	panic("queries: no SQL type for Arrow type " + t.String()) // the types of the schema are fixed
}

// replaceRelations replaces the name of every relation that a question reads. Questions name every relation
// directly after FROM or JOIN, in lower case.
func replaceRelations(text string, relation func(name string) string) string {
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); at++ {
		space := strings.IndexByte(text[at:], ' ')
		if space < 0 {
			break
		}
		at += space
		if !isFrom(text[:at]) {
			continue
		}
		end := at + 1
		for end < len(text) && inName(text[end]) && !('A' <= text[end] && text[end] <= 'Z') {
			end++
		}
		if end > at+1 {
			out.WriteString(text[done : at+1])
			out.WriteString(relation(text[at+1 : end]))
			done = end
		}
	}
	out.WriteString(text[done:])
	return out.String()
}

// isFrom reports whether a text ends with the word FROM or JOIN.
func isFrom(text string) bool {
	before, found := strings.CutSuffix(text, "FROM")
	if !found {
		before, found = strings.CutSuffix(text, "JOIN")
	}
	return found && (before == "" || !inName(before[len(before)-1]))
}

// namesIn returns the names of the relations that a question reads, including its common table expressions.
func namesIn(text string) (all []string) {
	replaceRelations(text, func(name string) string {
		all = append(all, name)
		return name
	})
	return all
}

// questionViews returns the views of all questions. It makes them once.
var questionViews = sync.OnceValues(func() (all []view, err error) {
	questions, err := library()
	for _, q := range questions {
		v, viewErr := questionView(q)
		err = errors.Join(err, viewErr)
		all = append(all, v)
	}
	return all, err
})

// questionView returns the view of a question, with the defaults of its parameters. Its SQL is a text inside
// the view. A catalog is then a third as large, and takes half as long to open and to write. DuckDB stores
// the parse tree of a view, which has copies of common table expressions.
func questionView(q Query) (view, error) {
	text, err := q.With(nil)
	return view{
		kind:  isView,
		name:  q.Name,
		sql:   "FROM " + duckdb.Subquery(text),
		needs: namesIn(q.SQL),
		comment: q.Question + " One row per " + strings.TrimPrefix(q.Grain, "one row per ") + ". Units: " +
			q.Units + ".",
	}, err
}

// ofAllVariants returns the question over all variants of each scenario instead of its answer.
func (q Query) ofAllVariants() Query {
	q.SQL = replaceRelations(q.SQL, func(name string) string {
		t, err := schema.ByName(name)
		if err == nil && t.OfAnswer() || name == "intervals_by_group" || name == crossings.Name {
			return name + schema.AllVariants
		}
		return name
	})
	return q
}

// sizeBinsView returns the view size_bins. It has a row for each bin of package sizebin, numbered from 0, and
// a last row 'all' for every size. Both bounds of a bin are included.
func sizeBinsView() string {
	var rows []string
	for i, b := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All, MaxBytes: math.MaxInt64}) {
		rows = append(rows, fmt.Sprintf("(CAST(%d AS INTEGER), %s, CAST(%d AS BIGINT), CAST(%d AS BIGINT))",
			i, duckdb.Quote(b.Name), b.MinBytes, b.MaxBytes))
	}
	return "SELECT * FROM (VALUES " + strings.Join(rows, ", ") + ") AS bins(bin, size_bin, size_min_bytes, " +
		"size_max_bytes)"
}

// functions returns the functions of the catalog that are the same in every lake. size_bin_of(bytes) is the
// number of the bin of a flow size.
var functions = sync.OnceValue(func() []view {
	all := []view{{kind: isFunction, name: "size_bin_of", sql: "size_bin_of(bytes) AS " + sizebin.Case("bytes")}}
	for _, name := range []string{"percentile_cell", "percentile_within"} {
		all = append(all, view{kind: isFunction, name: name, sql: macro("macros/" + name)})
	}
	return all
})

// A macroFolder is the folder of the macros for percentiles.
type macroFolder string

const (
	boundedMacros  macroFolder = "macros/"
	inMemoryMacros macroFolder = "macros/few/"
)

// tableMacros returns the table macros of the catalog, each after those that it uses.
func tableMacros(percentiles macroFolder) (all []view) {
	all = append(all, tableMacro("macros/flow_groups"))
	for _, name := range []string{"percentiles_and_whole", "percentiles", "flow_percentiles", "percentiles_of"} {
		of := tableMacro(string(percentiles) + name)
		if percentiles != inMemoryMacros {
			of.quick = macro(string(inMemoryMacros) + name)
		}
		all = append(all, of)
	}
	return all
}

func tableMacro(file string) view {
	text := macro(file)
	return view{kind: isTableMacro, name: path.Base(file), sql: text, needs: namesIn(text)}
}

// macro returns the text of the file of a macro without comments.
func macro(file string) string {
	return sqlComment.ReplaceAllString(string(read(file+".sql")), "")
}

var sqlComment = regexp.MustCompile(`(?m)^\s*--.*\n`)

// A creation is the beginning of a statement that creates a view or macro.
type creation string

const (
	create          creation = "CREATE"
	createOrReplace creation = "CREATE OR REPLACE"
)

// createViews creates views. CREATE VIEW binds its SQL, which opens a file of each scenario for each table
// that the SQL reads, and expands the macros. Views of tables and macros are therefore quick until all other
// views are created.
func createViews(run duckdb.Runner, how creation, views []view) error {
	for _, v := range views {
		if err := v.create(run, how, cmp.Or(v.quick, v.sql)); err != nil {
			return err
		}
	}
	for _, v := range views {
		if v.quick == "" {
			continue
		}
		if err := v.create(run, createOrReplace, v.sql); err != nil {
			return err
		}
	}
	return nil
}

// create runs a CREATE statement of the view with the SQL: sql or quick.
func (v view) create(run duckdb.Runner, how creation, text string) error {
	statement := string(how) + " VIEW " + duckdb.Ident(v.name) + " AS " + text
	if v.kind != isView {
		statement = string(how) + " MACRO " + text
	}
	if err := run(statement); err != nil {
		return fmt.Errorf("%s %s: %w", strings.ToLower(string(v.kind)), v.name, err)
	}
	return nil
}
