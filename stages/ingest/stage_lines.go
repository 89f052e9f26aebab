package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"parsimon/queries/duckdb"
)

// stageLines copies the lines of a text file, or the elements of a JSON list, to Parquet with row numbers.
func (in *Ingester) stageLines(ctx context.Context, file, out string) (src rowSource, err error) {
	rows, header, err := readLines(ctx, in.o.Mapping, file, out)
	if err != nil {
		return src, err
	}
	src.rows = rows
	if in.o.Mapping.reads == "json" {
		src.relation = in.jsonRelation(out)
	} else if src.relation, err = in.wordsRelation(out, header); err != nil {
		return src, err
	}
	return src, in.count(ctx, "SELECT count(*) FROM ("+src.relation+") WHERE broken <> ''", &src.broken)
}

// jsonRelation returns the SQL that reads the columns of staged JSON objects.
func (in *Ingester) jsonRelation(staged string) string {
	var list []string
	for _, c := range in.o.Mapping.columns {
		var paths []string
		for _, p := range c.paths {
			paths = append(paths, "nullif(json_extract_string(line, "+duckdb.Quote(p)+"), '')")
		}
		list = append(list, "coalesce("+strings.Join(paths, ", ")+") AS "+duckdb.Ident(c.name))
	}
	return fmt.Sprintf(`SELECT "row", %s, raw, broken FROM (
  SELECT "row", CASE WHEN broken = '' AND json_valid(line) THEN line END AS line, line AS raw,
    CASE
      WHEN broken <> '' THEN broken
      WHEN NOT json_valid(line) THEN 'broken line: not JSON'
      WHEN json_type(line) <> 'OBJECT' THEN 'broken line: not a JSON object'
      ELSE ''
    END AS broken
  FROM %s)`, strings.Join(list, ", "), duckdb.ScanParquet(staged))
}

// wordsRelation returns the SQL that reads the columns of staged lines of words, whose header is given if there is
// one.
func (in *Ingester) wordsRelation(staged string, header []string) (string, error) {
	m := in.o.Mapping
	names, widths := m.names, m.widths
	if header != nil {
		names, widths = header, nil
	}
	if err := in.needs(func(name string) bool { return slices.Contains(names, name) }, names); err != nil {
		return "", err
	}
	if widths == nil {
		widths = []int{len(names)}
	}
	var list, counts []string
	for _, c := range m.columns {
		text := "CAST(NULL AS VARCHAR)"
		if at := slices.Index(names, c.name); at >= 0 {
			text = fmt.Sprintf("nullif(words[%d], '-')", at+1)
		}
		list = append(list, text+" AS "+duckdb.Ident(c.name))
	}
	for _, w := range widths {
		counts = append(counts, fmt.Sprint(w))
	}
	return fmt.Sprintf(`SELECT "row", %s, raw,
  CASE
    WHEN broken <> '' THEN broken
    WHEN len(words) NOT IN (%s) THEN 'broken line: not %s fields'
    ELSE ''
  END AS broken
FROM (SELECT "row", line AS raw, broken, string_split(line, ' ') AS words FROM (
  SELECT * REPLACE (CASE
    WHEN contains(line, '  ') OR contains(line, chr(9)) THEN regexp_replace(line, '\s+', ' ', 'g')
    ELSE line
  END AS line) FROM %s))`,
		strings.Join(list, ", "), strings.Join(counts, ", "), strings.Join(counts, " or "),
		duckdb.ScanParquet(staged)), nil
}
