package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/schema"
)

var schemaCommand = command{
	name: "schema", args: "[TABLE…]",
	summary: "every table of a lake: columns, types, units, keys, sort order",
	help: `
Prints the contract of a lake: where the files of each table stand, what one row is, its columns with
types and units, the key and the order of the rows within a file. Every file says in its metadata which
version of this it keeps to (key ` + schema.VersionKey + `).

  parsimon schema
  parsimon schema slowdowns link_stats
  parsimon schema --format json`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var format string
		f.StringVar(&format, "format", "text", "text or json")
		return func(_ context.Context, args []string) error {
			tables := schema.Tables()
			if len(args) > 0 {
				tables = nil
				for _, name := range args {
					t, err := schema.ByName(name)
					if err != nil {
						return usageError{err}
					}
					tables = append(tables, t)
				}
			}
			switch format {
			case "text":
				return writeSchema(e.stdout, tables)
			case "json":
				return writeSchemaJSON(e.stdout, tables)
			}
			return usagef("--format %q: must be text or json", format)
		}
	},
}

// tablePaths are where the files of a table stand, relative to the lake.
func tablePaths(v schema.View, t schema.Table) string {
	return t.Name + "/" + strings.Join(v.Hive, "=…/") + "=…/part-NNNNN.parquet"
}

// writeSchema writes the tables for people: what a row is, key, order, views, and each column with its type and unit.
func writeSchema(w io.Writer, tables []schema.Table) error {
	var b strings.Builder
	fmt.Fprintf(&b, "schema version %d\n", schema.Version)
	for _, t := range tables {
		fmt.Fprintf(&b, "\n%s: %s\n  one row per %s; key %s", t.Name, t.Doc, t.Grain, strings.Join(t.Key, ", "))
		if len(t.Sort) > 0 {
			fmt.Fprintf(&b, "; sorted by %s", strings.Join(t.Sort, ", "))
		}
		b.WriteByte('\n')
		for _, v := range t.Views() {
			fmt.Fprintf(&b, "  view %s: %s\n", v.Name, tablePaths(v, t))
		}
		for _, c := range t.Columns {
			typ := c.Type.String()
			if c.Nullable {
				typ += "?"
			}
			doc := c.Doc
			if c.Unit != "" {
				doc = "[" + c.Unit + "] " + doc
			}
			fmt.Fprintf(&b, "    %-20s %-16s %s\n", c.Name, typ, doc)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSchemaJSON writes the schema for tools that make readers from it: types are those of Arrow.
func writeSchemaJSON(w io.Writer, tables []schema.Table) error {
	type column struct {
		Name     string `json:"name"`
		Type     string `json:"type"`
		Nullable bool   `json:"nullable"`
		Unit     string `json:"unit,omitempty"`
		Doc      string `json:"doc"`
	}
	type view struct {
		Name  string   `json:"name"`
		Hive  []string `json:"hive"`
		Files string   `json:"files"`
	}
	type table struct {
		Name    string   `json:"name"`
		Doc     string   `json:"doc"`
		Grain   string   `json:"grain"`
		Key     []string `json:"key"`
		Sort    []string `json:"sort"`
		Views   []view   `json:"views"`
		Columns []column `json:"columns"`
	}
	all := struct {
		Version int     `json:"schema_version"`
		Tables  []table `json:"tables"`
	}{Version: schema.Version}
	for _, t := range tables {
		out := table{Name: t.Name, Doc: t.Doc, Grain: t.Grain, Key: t.Key, Sort: t.Sort}
		for _, v := range t.Views() {
			out.Views = append(out.Views, view{v.Name, v.Hive, tablePaths(v, t)})
		}
		for _, c := range t.Columns {
			out.Columns = append(out.Columns, column{c.Name, c.Type.String(), c.Nullable, c.Unit, c.Doc})
		}
		all.Tables = append(all.Tables, out)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(all)
}
