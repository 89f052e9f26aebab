package ingest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// stage brings a file into a form in which it can be read more than once, with its row numbers.
func (in *Ingester) stage(file, dir string) (rowSource, error) {
	switch {
	case isParquet(file):
		return in.stageParquet(file)
	case in.o.Mapping.reads == "csv":
		return in.stageCSV(file, filepath.Join(dir, "rows.parquet"))
	}
	return in.stageLines(file, filepath.Join(dir, "lines.parquet"))
}

func (in *Ingester) stageParquet(file string) (src rowSource, err error) {
	read := "read_parquet(" + QuoteSQL(EscapeGlob(file)) + ", hive_partitioning=false"
	columns, err := in.columns("SELECT * FROM " + read + ")")
	if err != nil {
		return src, err
	}
	picked, raw, err := in.pick(columns)
	if err != nil {
		return src, err
	}
	src.relation = fmt.Sprintf(`SELECT file_row_number + 1 AS "row", %s, %s AS raw, '' AS broken FROM %s, file_row_number=true)`, picked, raw, read)
	return src, in.count("SELECT count(*) FROM "+read+")", &src.rows)
}

// pick writes the SQL of the mapping's columns, as text, and of a row as it was read.
func (in *Ingester) pick(columns []flowColumn) (picked, raw string, err error) {
	have := map[string]flowColumn{}
	var names, texts []string
	for _, c := range columns {
		have[columnName(c.name)] = c
		names = append(names, c.name)
		texts = append(texts, "coalesce(CAST("+identifier(c.name)+" AS VARCHAR), '')")
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
		list = append(list, text+" AS "+identifier(want.name))
	}
	return strings.Join(list, ", "), "concat_ws(',', " + strings.Join(texts, ", ") + ")", nil
}

// needs makes sure that a file has the columns the mapping cannot do without.
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

// asText is the SQL of a column as text, whole numbers without a fraction, and empty for types that
// hold neither numbers nor text.
func asText(c flowColumn) string {
	name := identifier(c.name)
	base, _, _ := strings.Cut(c.typ, "(") // DECIMAL(18,3)
	switch base {
	case "VARCHAR":
		return name
	case "DOUBLE", "FLOAT", "DECIMAL":
		return "CASE WHEN " + name + " = floor(" + name + ") AND abs(" + name + ") < 1e18 THEN CAST(CAST(" + name + " AS BIGINT) AS VARCHAR) ELSE CAST(" + name + " AS VARCHAR) END"
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT":
		return "CAST(" + name + " AS VARCHAR)"
	}
	return ""
}

// stageCSV copies a CSV file with its row numbers, lines without proper columns apart.
func (in *Ingester) stageCSV(file, out string) (src rowSource, err error) {
	read := QuoteSQL(EscapeGlob(file)) + ", hive_partitioning=false, header=true, all_varchar=true"
	if isGzip(file) {
		read += ", compression='gzip'" // DuckDB knows .gz in small letters only
	}
	if isZstd(file) {
		read += ", compression='zstd'"
	}
	columns, err := in.columns("SELECT * FROM read_csv(" + read + ", ignore_errors=true)")
	if err != nil {
		return src, err
	}
	picked, raw, err := in.pick(columns)
	if err != nil {
		return src, err
	}
	if err := in.exec("DROP TABLE IF EXISTS csv_errors; DROP TABLE IF EXISTS csv_scans"); err != nil {
		return src, err
	}
	query := fmt.Sprintf(`SELECT row_number() OVER () AS sound, %s, %s AS raw FROM read_csv(%s, store_rejects=true, rejects_table='csv_errors', rejects_scan='csv_scans', strict_mode=true, sample_size=20480)`, picked, raw, read)
	if err := in.copy(query, out, true); err != nil {
		return src, err
	}
	// A line can have several errors; the header is line 1, so line n is row n - 1. Broken row b
	// stands behind b - (number of broken rows up to b) sound ones.
	err = in.exec(`CREATE OR REPLACE TEMP TABLE broken_lines AS SELECT CAST(line AS BIGINT) - 1 AS "row", coalesce(min(csv_line), '') AS raw, 'broken line: ' || lower(CAST(min(error_type) AS VARCHAR)) AS broken FROM csv_errors GROUP BY line`)
	if err == nil {
		err = in.exec(`CREATE OR REPLACE TEMP TABLE shifts AS SELECT "row" - n + 1 AS first_sound, max(n) AS shift FROM (SELECT "row", row_number() OVER (ORDER BY "row") AS n FROM broken_lines) GROUP BY ALL`)
	}
	if err == nil {
		err = in.count("SELECT count(*) FROM broken_lines", &src.broken)
	}
	if err == nil {
		err = in.count("SELECT count(*) FROM "+scanParquet(out)+"", &src.rows)
	}
	src.relation = fmt.Sprintf(`SELECT sound AS "row", * EXCLUDE (sound), '' AS broken FROM %s`, scanParquet(out))
	if src.broken > 0 {
		src.relation = fmt.Sprintf(`SELECT sound + coalesce(shift, 0) AS "row", s.* EXCLUDE (sound), '' AS broken FROM %s AS s ASOF LEFT JOIN shifts ON s.sound >= shifts.first_sound
UNION ALL BY NAME SELECT "row", raw, broken FROM broken_lines`, scanParquet(out))
	}
	src.rows += src.broken
	return src, err
}

// stageLines copies the lines of a text file, or the elements of a JSON list, with their numbers.
func (in *Ingester) stageLines(file, out string) (src rowSource, err error) {
	m := in.o.Mapping
	rows, header, err := readLines(in.ctx, m, file, out)
	if err != nil {
		return src, err
	}
	src.rows = rows
	from := scanParquet(out)
	var list []string
	if m.reads == "json" {
		for _, c := range m.columns {
			var parts []string
			for _, p := range c.paths {
				parts = append(parts, "nullif(json_extract_string(line, "+QuoteSQL(p)+"), '')")
			}
			list = append(list, "coalesce("+strings.Join(parts, ", ")+") AS "+identifier(c.name))
		}
		src.relation = fmt.Sprintf(`SELECT "row", %s, raw, broken FROM (SELECT "row", CASE WHEN broken = '' AND json_valid(line) THEN line END AS line, line AS raw,
  CASE WHEN broken <> '' THEN broken WHEN NOT json_valid(line) THEN 'broken line: not JSON' WHEN json_type(line) <> 'OBJECT' THEN 'broken line: not a JSON object' ELSE '' END AS broken FROM %s)`, strings.Join(list, ", "), from)
	} else {
		names, widths := m.names, m.widths
		if header != nil {
			names, widths = header, nil
		}
		if err := in.needs(func(name string) bool { return slices.Contains(names, name) }, names); err != nil {
			return src, err
		}
		if widths == nil {
			widths = []int{len(names)}
		}
		for _, c := range m.columns {
			text := "CAST(NULL AS VARCHAR)"
			if at := slices.Index(names, c.name); at >= 0 {
				text = fmt.Sprintf("nullif(words[%d], '-')", at+1)
			}
			list = append(list, text+" AS "+identifier(c.name))
		}
		var fits []string
		for _, w := range widths {
			fits = append(fits, fmt.Sprint(w))
		}
		src.relation = fmt.Sprintf(`SELECT "row", %s, raw, CASE WHEN broken <> '' THEN broken WHEN len(words) NOT IN (%s) THEN 'broken line: not %s fields' ELSE '' END AS broken
FROM (SELECT "row", line AS raw, broken, string_split(line, ' ') AS words FROM (SELECT * REPLACE (CASE WHEN contains(line, '  ') OR contains(line, chr(9)) THEN regexp_replace(line, '\s+', ' ', 'g') ELSE line END AS line) FROM %s))`,
			strings.Join(list, ", "), strings.Join(fits, ", "), strings.Join(fits, " or "), from)
	}
	return src, in.count("SELECT count(*) FROM ("+src.relation+") WHERE broken <> ''", &src.broken)
}
