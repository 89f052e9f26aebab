package ingest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// rowSource is a staged file: a relation with columns "row" and raw, the columns of the mapping as text, and broken,
// which says why a row cannot be read.
type rowSource struct {
	relation string // SELECT
	rows     int64  // including broken ones
	broken   int64
}

// stage prepares a file so that it can be read several times, with row numbers.
func (in *Ingester) stage(ctx context.Context, file, dir string) (rowSource, error) {
	switch {
	case isParquet(file):
		return in.stageParquet(ctx, file)
	case in.o.Mapping.reads == "csv":
		return in.stageCSV(ctx, file, filepath.Join(dir, "rows.parquet"))
	}
	return in.stageLines(ctx, file, filepath.Join(dir, "lines.parquet"))
}

// stageParquet reads a Parquet file where it is.
func (in *Ingester) stageParquet(ctx context.Context, file string) (src rowSource, err error) {
	read := "read_parquet(" + duckdb.Quote(duckdb.EscapeGlob(file)) + ", hive_partitioning=false"
	columns, err := in.columns(ctx, "SELECT * FROM "+read+")")
	if err != nil {
		return src, err
	}
	picked, raw, err := in.pick(columns)
	if err != nil {
		return src, err
	}
	src.relation = fmt.Sprintf(`SELECT file_row_number + 1 AS "row", %s, %s AS raw, '' AS broken
FROM %s, file_row_number=true)`, picked, raw, read)
	return src, in.count(ctx, "SELECT count(*) FROM "+read+")", &src.rows)
}

// pick returns the SQL of the mapping's columns as text, and of the whole row for rejects.
func (in *Ingester) pick(columns []flowColumn) (picked, raw string, err error) {
	have := map[string]flowColumn{}
	var names, texts []string
	for _, c := range columns {
		have[columnName(c.name)] = c
		names = append(names, c.name)
		texts = append(texts, "coalesce(CAST("+duckdb.Ident(c.name)+" AS VARCHAR), '')")
	}
	if err := in.needs(func(name string) bool { return have[name].name != "" }, names); err != nil {
		return "", "", err
	}
	var list []string
	for _, want := range in.o.Mapping.columns {
		c, ok := have[want.name]
		text := "CAST(NULL AS VARCHAR)"
		if ok {
			if text = asText(c); text == "" {
				return "", "", fmt.Errorf("column %s is of type %s, want integers or text", c.name, c.typ)
			}
		}
		list = append(list, text+" AS "+duckdb.Ident(want.name))
	}
	return strings.Join(list, ", "), "concat_ws(',', " + strings.Join(texts, ", ") + ")", nil
}

// needs returns an error if a file lacks columns that the mapping requires.
func (in *Ingester) needs(have func(string) bool, names []string) error {
	var missing []string
	for _, alternatives := range in.o.Mapping.needs {
		if !slices.ContainsFunc(alternatives, have) {
			missing = append(missing, strings.Join(alternatives, " or "))
		}
	}
	if missing != nil {
		return fmt.Errorf("no column %s (it has %s)", strings.Join(missing, ", "), strings.Join(names, ", "))
	}
	return nil
}

// stageCSV copies a CSV file to Parquet with row numbers. Lines that do not have the right columns become broken rows.
func (in *Ingester) stageCSV(ctx context.Context, file, out string) (src rowSource, err error) {
	read := duckdb.Quote(duckdb.EscapeGlob(file)) + ", hive_partitioning=false, header=true, all_varchar=true"
	if isGzip(file) {
		read += ", compression='gzip'" // DuckDB recognises .gz in lower case only
	}
	if isZstd(file) {
		read += ", compression='zstd'"
	}
	columns, err := in.columns(ctx, "SELECT * FROM read_csv("+read+", ignore_errors=true)")
	if err != nil {
		return src, err
	}
	picked, raw, err := in.pick(columns)
	if err != nil {
		return src, err
	}
	if err := in.exec(ctx, "DROP TABLE IF EXISTS csv_errors; DROP TABLE IF EXISTS csv_scans"); err != nil {
		return src, err
	}
	// readable_row is not a name that a file is likely to have.
	query := fmt.Sprintf(`SELECT row_number() OVER () AS readable_row, %s, %s AS raw
FROM read_csv(%s, store_rejects=true, rejects_table='csv_errors', rejects_scan='csv_scans',
  strict_mode=true, sample_size=20480)`, picked, raw, read)
	if err := in.copy(ctx, query, out, true); err != nil {
		return src, err
	}
	// A line can have several errors. The header is line 1, so line n is row n - 1. Before broken row b, the n-th
	// one, there are b - n readable rows: those from b - n + 1 on are n rows further down in the file.
	err = in.exec(ctx, `
CREATE OR REPLACE TEMP TABLE broken_lines AS
SELECT CAST(line AS BIGINT) - 1 AS "row", coalesce(min(csv_line), '') AS raw,
  'broken line: ' || lower(CAST(min(error_type) AS VARCHAR)) AS broken
FROM csv_errors GROUP BY line;
CREATE OR REPLACE TEMP TABLE shifts AS
SELECT "row" - n + 1 AS from_row, max(n) AS shift
FROM (SELECT "row", row_number() OVER (ORDER BY "row") AS n FROM broken_lines) GROUP BY ALL`)
	if err != nil {
		return src, err
	}
	var readable int64
	err = in.query(ctx, "SELECT count(*), (SELECT count(*) FROM "+duckdb.ScanParquet(out)+") FROM broken_lines",
		&src.broken, &readable)
	src.rows = readable + src.broken
	src.relation = fmt.Sprintf(`SELECT readable_row AS "row", * EXCLUDE (readable_row), '' AS broken
FROM %s`, duckdb.ScanParquet(out))
	if src.broken > 0 {
		src.relation = fmt.Sprintf(`
SELECT readable_row + coalesce(shift, 0) AS "row", s.* EXCLUDE (readable_row), '' AS broken
FROM %s AS s ASOF LEFT JOIN shifts ON s.readable_row >= shifts.from_row
UNION ALL BY NAME SELECT "row", raw, broken FROM broken_lines`, duckdb.ScanParquet(out))
	}
	return src, err
}
