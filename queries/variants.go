package queries

import (
	"fmt"
	"strconv"
	"strings"

	"parsimon/queries/duckdb"
	"parsimon/schema/variant"
)

// variantColumns are the columns of view variants, with their types and descriptions.
var variantColumns = []struct{ name, sqlType, doc string }{
	{"scenario", "VARCHAR", "id of the scenario"},
	{"variant", "VARCHAR", "name of the variant, as in the other views"},
	{"estimator", "VARCHAR", "estimator"},
	{"passes", "INTEGER", "number of passes; null if the estimator has none"},
	{"cluster_error", "DOUBLE",
		"relative error up to which links share a link case; null if each link has its own"},
	{"windows", "INTEGER", "number of windows of time that were estimated; null if all flows were"},
	{"confidence_percent", "DOUBLE", "level of the intervals, in percent"},
	{"whole_network", "BOOLEAN", "whether every packet of the flows was simulated in the whole network"},
	{"is_answer", "BOOLEAN", "whether views without _all show the variant"},
}

// variantsView returns the view variants: one row for each variant of each scenario that has a table. The
// manifests have the fields.
func variantsView(files []File) view {
	v := view{
		kind: isView, name: "variants", columns: map[string]string{}, ofLake: true,
		comment: "How each estimate was made. One row per scenario and variant.",
	}
	var names, casts []string
	for _, c := range variantColumns {
		names = append(names, duckdb.Ident(c.name))
		casts = append(casts, fmt.Sprintf("CAST(%s AS %s) AS %[1]s", duckdb.Ident(c.name), c.sqlType))
		v.columns[c.name] = c.doc
	}
	type key struct {
		scenario string
		of       variant.Variant
	}
	var rows []string
	seen := map[key]bool{}
	for _, f := range files {
		k := key{f.Scenario, f.Variant}
		if !f.Variant.IsZero() && !seen[k] {
			seen[k] = true
			rows = append(rows, "("+strings.Join(variantRow(f), ", ")+")")
		}
	}
	relation := func(rows []string) string {
		return "SELECT " + strings.Join(casts, ", ") + " FROM (VALUES " + strings.Join(rows, ", ") + ") AS v(" +
			strings.Join(names, ", ") + ")"
	}
	none := []string{"(" + strings.TrimSuffix(strings.Repeat("NULL, ", len(names)), ", ") + ")"}
	v.sql = relation(none) + " WHERE false"
	if rows != nil {
		v.quick = v.sql
		v.sql = relation(rows)
	}
	return v
}

// variantRow returns the row of view variants for the variant of a file, as SQL.
func variantRow(f File) []string {
	orNull := func(value float64) string {
		if value == 0 {
			return "NULL"
		}
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	v := f.Variant
	return []string{
		duckdb.Quote(f.Scenario), duckdb.Quote(v.String()), duckdb.Quote(v.Estimator),
		orNull(float64(v.Passes)), orNull(v.ClusterError), orNull(float64(v.Windows)),
		fmt.Sprint(v.Confidence()), fmt.Sprint(v.WholeNetwork()), fmt.Sprint(f.Answer),
	}
}
