package queries

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
)

// A view is one view of the catalog, made by CREATE VIEW name AS sql, or a table macro, made by CREATE MACRO sql.
type view struct {
	name, sql string
	isMacro   bool
	empty     string   // for a view of a table: SQL with the same columns and types and without rows
	needs     []string // names of the views that the SQL reads
	comment   string   // of the view, and of its columns by name
	columns   map[string]string
	files     []string // for a view of a table: all files
}

// intervalsByGroup is the view intervals_by_group. It reads the views intervals and warnings, followed by suffix.
func intervalsByGroup(suffix string) view {
	return view{
		name: "intervals_by_group" + suffix, needs: []string{"intervals" + suffix, "warnings" + suffix},
		comment: "One row per group of flows: the 95% intervals of its percentiles in columns, and all warnings that " +
			"concern the group in one text." + ofVariants(suffix == ""),
		sql: strings.NewReplacer("FROM intervals", "FROM intervals"+suffix, "FROM warnings", "FROM warnings"+suffix).
			Replace(string(read("fragments/intervals_by_group.sql"))),
	}
}

// views returns the views of the catalog in an order in which they can be created: table macros, the tables, then
// size_bins and intervals_by_group, then those of the questions. base precedes the paths of the files:
// empty, or the lake with a slash. A table without files is an empty view with the columns and types of the table.
func views(files []File, base string, few bool) ([]view, error) {
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
			answers[f.Scenario] = f.Variant
			byView["answer of "+name] = append(byView["answer of "+name], f)
		}
	}
	all := tableMacros(few)
	for _, t := range schema.Tables() {
		for i, v := range t.Views() {
			name := t.Name
			if v.Hive[0] == "workload" {
				name += " of workload"
			}
			if v.Answer {
				name = "answer of " + name
			}
			of := tableView(t, v, byView[name], base, answers)
			if i > 0 { // DuckDB takes a statement for each column: a sixth of the time that a catalog takes
				of.columns, of.comment = nil, of.comment+" Its columns are those of view "+t.Name+"."
			}
			all = append(all, of)
		}
	}
	all = append(all, view{name: "size_bins", sql: sizeBinsView(), comment: "The size bins of answers, and all sizes."},
		intervalsByGroup(""), intervalsByGroup(schema.AllVariants))
	return append(all, questionViews()...), nil
}

// tableView returns the view of a table: for each group of files with the same ids
//
//	SELECT columns of the table, 'ID' AS scenario, 'NAME' AS variant FROM read_parquet([files])
//
// and UNION ALL between them. DuckDB pushes conditions on the ids into every group, finds most of them false
// and does not open their files. The view scenarios also has column answer.
func tableView(t schema.Table, v schema.View, files []File, base string, answers map[string]string) view {
	hive := v.Hive
	if t.Name == schema.Scenarios.Name {
		hive = append(slices.Clone(hive), answerColumn)
	}
	result := view{name: v.Name, empty: emptyTable(t, hive), comment: tableComment(t, v), columns: columnComments(t, hive)}
	if len(files) == 0 {
		result.sql = result.empty
		return result
	}
	var ids []string               // of each group, as SQL
	paths := map[string][]string{} // by ids
	for _, f := range files {
		var group string
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
			ids = append(ids, group)
		}
		paths[group] = append(paths[group], base+f.Path)
		result.files = append(result.files, base+f.Path)
	}
	columns := names.Of(t.Columns, func(c schema.Column) string { return duckdb.Ident(c.Name) })
	scans := make([]string, len(ids))
	for i, group := range ids {
		scans[i] = "SELECT " + strings.Join(columns, ", ") + group + " FROM " + duckdb.ScanParquet(paths[group]...)
	}
	result.sql = unionAll(scans)
	return result
}

// answerColumn is the column of view scenarios that names the variant that views without _all show.
const answerColumn = "answer"

func tableComment(t schema.Table, v schema.View) string {
	text := t.Doc + " One row per " + t.Grain + "."
	if t.OfAnswer() {
		text += ofVariants(v.Answer)
	}
	return text
}

func ofVariants(answer bool) string {
	if answer {
		return " Of each scenario, the variant that its last run ended with (scenarios.answer); the view of the same name " +
			"with _all has all variants."
	}
	return " All variants of each scenario."
}

// columnComments describes the columns of the views of a table, with their units.
func columnComments(t schema.Table, hive []string) map[string]string {
	docs := map[string]string{}
	for _, column := range hive {
		docs[column] = map[string]string{
			"scenario": "id of the scenario", "variant": "how the estimate was made", "workload": "id of the workload",
			answerColumn: "variant that the last run ended with, which views without _all show; null: not estimated",
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

// unionAll joins SELECTs as a balanced tree: DuckDB's parser and planner recurse into the operands of a union, and
// a chain of thousands exceeds their stack.
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
	for _, name := range ids {
		columns = append(columns, "CAST(NULL AS VARCHAR) AS "+duckdb.Ident(name))
	}
	return "SELECT " + strings.Join(columns, ", ") + " WHERE false"
}

// sqlType returns DuckDB's name of the type that it reads a column of the Arrow type as.
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

// relationName finds the relations that a question reads. Questions name every relation behind FROM or JOIN.
var relationName = regexp.MustCompile(`\b(?:FROM|JOIN) ([a-z_0-9]+)`)

// namesIn returns the names of the relations that a question's SELECT reads, its common table expressions included.
func namesIn(text string) []string {
	return names.Of(relationName.FindAllStringSubmatch(text, -1), func(m []string) string { return m[1] })
}

// questionViews are the views of all questions.
var questionViews = sync.OnceValue(func() []view { return names.Of(library(), questionView) })

// questionView returns the view of a question, with the defaults of its parameters.
func questionView(q Query) view {
	text, err := q.With(nil)
	if err != nil {
		panic("queries: " + q.Name + ": " + err.Error()) // excluded by parseQuery
	}
	return view{name: q.Name, sql: text, needs: namesIn(q.SQL),
		comment: q.Question + " One row per " + strings.TrimPrefix(q.Grain, "one row per ") + ". Units: " + q.Units + "."}
}

// ofAllVariants returns the question over all variants of each scenario instead of its answer.
func (q Query) ofAllVariants() Query {
	q.SQL = relationName.ReplaceAllStringFunc(q.SQL, func(text string) string {
		name := text[strings.LastIndexByte(text, ' ')+1:]
		if t, err := schema.ByName(name); err == nil && t.OfAnswer() || name == "intervals_by_group" {
			return text + schema.AllVariants
		}
		return text
	})
	return q
}

// sizeBinsView returns the view size_bins: one row for each bin of package sizebin, numbered from 0, and
// a last one named 'all' that holds every size. Both bounds belong to a bin.
func sizeBinsView() string {
	var rows []string
	for i, b := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All, MaxBytes: math.MaxInt64}) {
		rows = append(rows, fmt.Sprintf("(CAST(%d AS INTEGER), %s, CAST(%d AS BIGINT), CAST(%d AS BIGINT))",
			i, duckdb.Quote(b.Name), b.MinBytes, b.MaxBytes))
	}
	return "SELECT * FROM (VALUES " + strings.Join(rows, ", ") + ") AS bins(bin, size_bin, size_min_bytes, size_max_bytes)"
}

// sizeBinMacro returns the macro size_bin_of(bytes): the number of the bin that a flow of the size is in.
func sizeBinMacro() string { return "size_bin_of(bytes) AS " + sizebin.Case("bytes") }
