package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/text"
	"parsimon/schema"
)

var schemaCommand = command{
	name: "schema", args: "[TABLE…]", most: anyNumber,
	summary: "every table of a lake: columns, types, units, keys, sort order",
	help: `
Prints the contract of a lake: where the files of each table stand, what one row is, its columns with
types and units, the key and the order of the rows within a file. Every file says in its metadata which
version of this it keeps to (key ` + schema.VersionKey + `).

  parsimon schema
  parsimon schema slowdowns link_stats
  parsimon schema --format json`,
	setup: func(e *env, f *pflag.FlagSet) runFunc {
		var form string
		declareForm(f, &form, "text", "json")
		return func(_ context.Context, args []string) error {
			tables := schema.Tables()
			if len(args) > 0 {
				tables = nil
			}
			for _, name := range args {
				t, err := schema.ByName(name)
				if err != nil {
					return usageError{err}
				}
				tables = append(tables, t)
			}
			d := describeSchema(tables)
			return e.write(form, d, func() (*text.Answer, error) { return d.text(), nil })
		}
	},
}

// A schemaDoc is the schema for tools that make readers from it: types are those of Arrow.
type schemaDoc struct {
	Version int        `json:"schema_version"`
	Tables  []tableDoc `json:"tables"`
}

type tableDoc struct {
	schema.Table
	Views   []viewDoc   `json:"views"`
	Columns []columnDoc `json:"columns"`
}

type viewDoc struct {
	Name  string   `json:"name"`
	Hive  []string `json:"hive"`
	Files string   `json:"files"` // relative to the lake
}

type columnDoc struct {
	schema.Column
	Type string `json:"type"`
}

func describeSchema(tables []schema.Table) *schemaDoc {
	d := &schemaDoc{Version: schema.Version}
	for _, t := range tables {
		out := tableDoc{Table: t}
		for _, v := range t.Views() {
			files := t.Name + "/" + strings.Join(v.Hive, "=…/") + "=…/part-NNNNN.parquet"
			out.Views = append(out.Views, viewDoc{v.Name, v.Hive, files})
		}
		for _, c := range t.Columns {
			out.Columns = append(out.Columns, columnDoc{c, c.Type.String()})
		}
		d.Tables = append(d.Tables, out)
	}
	return d
}

// text is the schema for people.
func (d *schemaDoc) text() *text.Answer {
	a := &text.Answer{}
	a.Linef("schema version %d", d.Version)
	for _, t := range d.Tables {
		sorted := ""
		if len(t.Sort) > 0 {
			sorted = "; sorted by " + strings.Join(t.Sort, ", ")
		}
		a.Linef("\n%s: %s\n  one row per %s; key %s%s", t.Name, t.Doc, t.Grain, strings.Join(t.Key, ", "), sorted)
		for _, v := range t.Views {
			a.Linef("  view %s: %s", v.Name, v.Files)
		}
		for _, c := range t.Columns {
			if c.Nullable {
				c.Type += "?"
			}
			if c.Unit != "" {
				c.Doc = "[" + c.Unit + "] " + c.Doc
			}
			a.Linef("    %-20s %-16s %s", c.Name, c.Type, c.Doc)
		}
	}
	return a
}
