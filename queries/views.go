package queries

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/queries/duckdb"
	"parsimon/schema"
)

// A view is one view of the catalog. It is made by CREATE VIEW name AS sql.
type view struct {
	name, sql string
	empty     string   // for a view of a table: SQL with the same columns and types and without rows
	needs     []string // names of the views that the SQL reads
	firsts    []string // for a view of a table: the first file of each group, absolute or relative to the lake
	files     []string // for a view of a table: all files
}

// intervalsByGroup is the view intervals_by_group: one row per group of flows, with the 95% intervals of its
// percentiles in columns, and with all warnings that concern the group in one text.
const intervalsByGroup = `SELECT
    i.scenario, i.variant, i.service, i.vnet, i.size_bin, max(i.flows) AS flows,
    max(i.lo) FILTER (WHERE i.quantile = 0.5) AS p50_lo, max(i.hi) FILTER (WHERE i.quantile = 0.5) AS p50_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.9) AS p90_lo, max(i.hi) FILTER (WHERE i.quantile = 0.9) AS p90_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.99) AS p99_lo, max(i.hi) FILTER (WHERE i.quantile = 0.99) AS p99_hi,
    max(i.lo) FILTER (WHERE i.quantile = 0.999) AS p999_lo, max(i.hi) FILTER (WHERE i.quantile = 0.999) AS p999_hi,
    concat_ws('; ',
        string_agg(i.warning, '; ' ORDER BY i.quantile) FILTER (WHERE i.warning <> ''),
        'see warnings: ' || any_value(w.kinds)) AS warning
FROM intervals AS i
LEFT JOIN (
    SELECT scenario, variant, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds FROM warnings GROUP BY scenario, variant
) AS w ON w.scenario = i.scenario AND w.variant = i.variant
GROUP BY i.scenario, i.variant, i.service, i.vnet, i.size_bin`

// views returns the views of the catalog in an order in which they can be created: those of the tables, then
// size_bins and intervals_by_group, then those of the questions. base precedes the paths of the files:
// empty, or the lake with a slash. A table without files is an empty view with the columns and types of the table.
func views(files []File, base string) ([]view, error) {
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
	}
	var all []view
	for _, t := range schema.Tables() {
		for _, v := range t.Views() {
			name := t.Name
			if v.Hive[0] == "workload" {
				name += " of workload"
			}
			all = append(all, tableView(t, v, byView[name], base))
		}
	}
	all = append(all, view{name: "size_bins", sql: sizeBinsView()},
		view{name: "intervals_by_group", sql: intervalsByGroup, needs: []string{"intervals", "warnings"}})
	for _, q := range List() {
		all = append(all, questionView(q))
	}
	return all, nil
}

// tableView returns the view of a table: for each group of files with the same ids
//
//	SELECT columns of the table, 'ID' AS scenario, 'NAME' AS variant FROM read_parquet([files])
//
// and UNION ALL between them. DuckDB pushes conditions on the ids into every group, finds most of them false
// and does not open their files.
func tableView(t schema.Table, v schema.View, files []File, base string) view {
	result := view{name: v.Name, empty: emptyTable(t, v.Hive)}
	if len(files) == 0 {
		result.sql = result.empty
		return result
	}
	var ids []string               // of each group, as SQL
	paths := map[string][]string{} // by ids
	for _, f := range files {
		var group string
		for _, column := range v.Hive {
			group += ", " + duckdb.Quote(f.id(column)) + " AS " + duckdb.Ident(column)
		}
		if _, known := paths[group]; !known {
			ids = append(ids, group)
			result.firsts = append(result.firsts, base+f.Path)
		}
		paths[group] = append(paths[group], base+f.Path)
		result.files = append(result.files, base+f.Path)
	}
	columns := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = duckdb.Ident(c.Name)
	}
	scans := make([]string, len(ids))
	for i, group := range ids {
		scans[i] = "SELECT " + strings.Join(columns, ", ") + group + " FROM " + duckdb.ScanParquet(paths[group]...)
	}
	result.sql = unionAll(scans)
	return result
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

// emptyTable returns a SELECT with a table's columns and no rows.
func emptyTable(t schema.Table, ids []string) string {
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, fmt.Sprintf("CAST(NULL AS %s) AS %s", sqlType(c.Type), duckdb.Ident(c.Name)))
	}
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

// reads returns the names of the relations that the question reads, its common table expressions included.
func (q Query) reads() []string {
	var names []string
	for _, m := range relationName.FindAllStringSubmatch(q.SQL, -1) {
		names = append(names, m[1])
	}
	return names
}

// questionView returns the view of a question: its SQL with the defaults of the parameters in their place.
func questionView(q Query) view {
	text := paramUse.ReplaceAllStringFunc(q.SQL, func(use string) string {
		for _, p := range q.Params {
			if p.Name == use[1:] {
				return p.literal()
			}
		}
		panic("queries: " + q.Name + " uses " + use) // excluded by parseQuery
	})
	return view{name: q.Name, sql: text, needs: q.reads()}
}
