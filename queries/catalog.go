package queries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	duckdb "github.com/marcboeker/go-duckdb/v2"

	"parsimon/schema"
)

// CatalogFile is the name of the catalog in a lake: a DuckDB database that holds only views and macros.
const CatalogFile = "parsimon.duckdb"

// intervals turns table confidence around: a row for each group of flows, its 95% intervals side by
// side, and in words what to beware of: where the trace is too short, and what kinds of weakness table
// warnings has for the whole estimate.
const intervals = `SELECT
    c.scenario, c.variant, c.service, c.vnet, c.size_bin,
    max(c.lo) FILTER (WHERE c.quantile = 0.5) AS p50_lo, max(c.hi) FILTER (WHERE c.quantile = 0.5) AS p50_hi,
    max(c.lo) FILTER (WHERE c.quantile = 0.9) AS p90_lo, max(c.hi) FILTER (WHERE c.quantile = 0.9) AS p90_hi,
    max(c.lo) FILTER (WHERE c.quantile = 0.99) AS p99_lo, max(c.hi) FILTER (WHERE c.quantile = 0.99) AS p99_hi,
    max(c.lo) FILTER (WHERE c.quantile = 0.999) AS p999_lo, max(c.hi) FILTER (WHERE c.quantile = 0.999) AS p999_hi,
    concat_ws('; ',
        string_agg(c.warning, '; ' ORDER BY c.quantile) FILTER (WHERE c.warning <> ''),
        'see warnings: ' || any_value(w.kinds)) AS warning
FROM intervals AS c
LEFT JOIN (
    SELECT scenario, variant, string_agg(kind, ', ' ORDER BY kind) AS kinds FROM warnings GROUP BY scenario, variant
) AS w ON w.scenario = c.scenario AND w.variant = c.variant
GROUP BY c.scenario, c.variant, c.service, c.vnet, c.size_bin`

// A view is one CREATE VIEW of the catalog.
type view struct{ name, sql string }

// views lists the catalog's views in an order in which they can be created: one per table, then
// size_bins and intervals, then one per question. Paths in them start with base: "" gives paths relative to the
// lake. A table without files becomes an empty view with the table's columns and types.
func views(lake, base string) ([]view, error) {
	var all []view
	for _, t := range schema.Tables() {
		for _, at := range t.Views() {
			found, err := anyFile(lake, t, at.Hive)
			if err != nil {
				return nil, fmt.Errorf("table %s: %w", t.Name, err)
			}
			v := view{at.Name, emptyTable(t, at.Hive)}
			if found {
				v.sql = tableScan(t, at.Hive, base+tablePattern(t, at.Hive))
			}
			all = append(all, v)
		}
	}
	all = append(all, view{"size_bins", sizeBinsView()}, view{"intervals", intervals})
	for _, q := range List() {
		text := paramUse.ReplaceAllStringFunc(q.SQL, func(use string) string {
			for _, p := range q.Params {
				if p.Name == use[1:] {
					return p.literal()
				}
			}
			panic("queries: " + q.Name + " uses " + use) // parseQuery has checked
		})
		all = append(all, view{q.Name, text})
	}
	return all, nil
}

// tablePattern is the glob of a table's files, relative to the lake. Temporary files and folders
// start with a dot or with an underscore and cannot match.
func tablePattern(t schema.Table, hive []string) string {
	return t.Name + "/" + strings.Join(hive, "=*/") + "=*/part-*.parquet"
}

// anyFile says whether the lake has a file of the table. It stops at the first.
func anyFile(lake string, t schema.Table, hiveColumns []string) (bool, error) {
	dirs := []string{filepath.Join(lake, t.Name)}
	for _, hive := range hiveColumns {
		var below []string
		for _, dir := range dirs {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), hive+"=") {
					below = append(below, filepath.Join(dir, e.Name()))
				}
			}
		}
		dirs = below
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "part-") && strings.HasSuffix(e.Name(), ".parquet") {
				return true, nil
			}
		}
	}
	return false, nil
}

// tableScan reads a table's files. The types of the path's columns are given, or DuckDB would read
// a scenario id of digits as a number.
func tableScan(t schema.Table, hive []string, pattern string) string {
	var columns, types []string
	for _, c := range t.Columns {
		columns = append(columns, ident(c.Name))
	}
	for _, name := range hive {
		columns = append(columns, ident(name))
		types = append(types, quote(name)+": VARCHAR")
	}
	return fmt.Sprintf("SELECT %s FROM read_parquet(%s, hive_partitioning = true, hive_types_autocast = false, hive_types = {%s})",
		strings.Join(columns, ", "), quote(pattern), strings.Join(types, ", "))
}

// emptyTable has a table's columns and no rows.
func emptyTable(t schema.Table, hive []string) string {
	var columns []string
	for _, c := range t.Columns {
		columns = append(columns, fmt.Sprintf("CAST(NULL AS %s) AS %s", sqlType(c.Type), ident(c.Name)))
	}
	for _, name := range hive {
		columns = append(columns, "CAST(NULL AS VARCHAR) AS "+ident(name))
	}
	return "SELECT " + strings.Join(columns, ", ") + " WHERE false"
}

// sqlType is DuckDB's name for the type it reads an Arrow type of the schema as.
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
	panic("queries: no SQL type for Arrow type " + t.String())
}

// WriteCatalog writes LAKE/parsimon.duckdb anew: views only, with paths relative to the lake, so
// that `cd LAKE && duckdb parsimon.duckdb` works and a lake can be moved. To open it from
// elsewhere, set DuckDB's file_search_path to the lake. The file is replaced in one step: readers
// see the old one or the new one. A lake that CheckLakePath refuses is refused.
//
// Write it again when a table gets its first file: until then its view is empty by definition.
// Later files are found by the view itself.
func WriteCatalog(lake string) (err error) {
	root, err := lakeRoot(lake)
	if err != nil {
		return err
	}
	if err := CheckLakePath(root); err != nil {
		return err
	}
	all, err := views(root, "")
	if err != nil {
		return fmt.Errorf("lake %s: %w", lake, err)
	}
	dir, err := os.MkdirTemp(root, ".catalog-*")
	if err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, CatalogFile)
	if err := createCatalog(root, path, all); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	if err := os.Rename(path, filepath.Join(root, CatalogFile)); err != nil {
		return fmt.Errorf("write the catalog: %w", err)
	}
	return nil
}

func createCatalog(lake, path string, all []view) (err error) {
	// Not opened by its path, in which the driver would look for options.
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx := context.Background()
	conn, err := db.Conn(ctx) // one connection: file_search_path belongs to it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "SET file_search_path = "+quote(lake)); err != nil {
		return err
	}
	for _, s := range []string{"ATTACH " + quote(path) + " AS catalog_file", "USE catalog_file"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if err := createMacros(ctx, conn); err != nil {
		return err
	}
	if err := createViews(ctx, conn, all); err != nil {
		return err
	}
	// Nothing may be left in a log beside the file.
	for _, s := range []string{"CHECKPOINT catalog_file", "USE memory", "DETACH catalog_file"} {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// createMacros creates the catalog's macros, which views use.
func createMacros(ctx context.Context, conn *sql.Conn) error {
	for _, m := range []string{sizeBinMacro(), percentileCellMacro, percentilesMacro(), percentilesAndWholeMacro()} {
		if _, err := conn.ExecContext(ctx, "CREATE MACRO "+m); err != nil {
			name, _, _ := strings.Cut(m, "(")
			return fmt.Errorf("macro %s: %w", name, err)
		}
	}
	return nil
}

func createViews(ctx context.Context, conn *sql.Conn, all []view) error {
	for _, v := range all {
		if _, err := conn.ExecContext(ctx, "CREATE VIEW "+ident(v.name)+" AS "+v.sql); err != nil {
			return fmt.Errorf("view %s: %w", v.name, err)
		}
	}
	return nil
}

// quote writes a text as an SQL literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// ident writes a name as an SQL identifier.
func ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
