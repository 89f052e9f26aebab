package bundle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/names"
)

// A Comparison compares the rows of an estimate with those of the bundle that it repeats.
type Comparison struct {
	Bundle string  `json:"bundle"` // its path
	MadeBy Program `json:"made_by"`
	// OtherVersions describes how the versions of the bundle's program differ from those of this one.
	OtherVersions []string          `json:"other_versions"`
	Equal         bool              `json:"equal"` // all tables have equal rows
	Tables        []TableComparison `json:"tables"`
}

// A TableComparison compares the rows of one table.
type TableComparison struct {
	Table      string `json:"table"`
	Rows       int64  `json:"rows"`
	BundleRows int64  `json:"bundle_rows"`
	Result     string `json:"result"` // resultEqual, resultDiffers, or why the rows cannot be compared
}

const (
	resultEqual   = "equal"
	resultDiffers = "differs"
)

// A DifferenceError says that an estimate does not have the rows of the bundle that it repeats.
type DifferenceError struct {
	text string
	// OtherVersion is set if the bundle was made by a program with other versions, whose rows may differ.
	OtherVersion bool
}

// Error names the tables that differ.
func (e *DifferenceError) Error() string { return e.text }

// Compare compares a complete estimate with the bundle.
func (b *Bundle) Compare(ctx context.Context, e *pipeline.Estimation) (*Comparison, error) {
	c := &Comparison{
		Bundle: b.path, MadeBy: b.MadeBy, Equal: true,
		OtherVersions: append([]string{}, b.MadeBy.Differences()...), // an empty list in JSON
	}
	here := e.Tables()
	for _, d := range b.Tables {
		t, err := d.compare(ctx, e, here)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Table, err)
		}
		c.Tables = append(c.Tables, t)
		c.Equal = c.Equal && t.Result == resultEqual
	}
	for _, t := range here {
		listed := func(d TableDigest) bool { return d.Table == t.Name }
		if t.Name != schema.Scenarios.Name && !slices.ContainsFunc(b.Tables, listed) {
			c.Tables = append(c.Tables, TableComparison{Table: t.Name, Result: "the bundle has no digest"})
			c.Equal = false
		}
	}
	return c, nil
}

// compare compares the rows of one table. here are the tables of the estimate.
func (d TableDigest) compare(
	ctx context.Context, e *pipeline.Estimation, here []schema.Table,
) (c TableComparison, err error) {
	c = TableComparison{Table: d.Table, BundleRows: d.Rows}
	at := slices.IndexFunc(here, func(t schema.Table) bool { return t.Name == d.Table })
	if at < 0 {
		c.Result = "this version has no such table"
		return c, nil
	}
	t := here[at]
	all := names.Of(t.Columns, func(column schema.Column) string { return column.Name })
	for _, name := range d.Columns {
		if !slices.Contains(all, name) {
			c.Result = "this version has no column " + name
			return c, nil
		}
	}
	if len(d.Columns) == 0 {
		c.Result = "the bundle names no columns"
		return c, nil
	}
	in, err := e.Read(t)
	if err != nil {
		return c, err
	}
	rows, digest, err := digestRows(ctx, in, d.Columns)
	c.Rows = rows
	c.Result = resultDiffers
	if rows == d.Rows && digest == strings.ToLower(d.Digest) {
		c.Result = resultEqual
	}
	return c, err
}

// Err returns a *DifferenceError unless the rows are equal.
func (c *Comparison) Err() error {
	if c.Equal {
		return nil
	}
	var differ []string
	for _, t := range c.Tables {
		if t.Result != resultEqual {
			differ = append(differ, t.Table)
		}
	}
	tables := strings.Join(differ, ", ")
	if len(c.OtherVersions) > 0 {
		text := fmt.Sprintf("%s: rows differ in %s, and the bundle is of another version (%s): commit %s makes "+
			"equal ones", c.Bundle, tables, strings.Join(c.OtherVersions, "; "), c.MadeBy.Commit)
		return &DifferenceError{text: text, OtherVersion: true}
	}
	text := fmt.Sprintf("%s: rows differ in %s, although the versions are equal: parsimon %s (commit %s, %s) "+
		"made the bundle", c.Bundle, tables, c.MadeBy.Version, c.MadeBy.Commit, c.MadeBy.Go)
	return &DifferenceError{text: text}
}

// AddTo adds the comparison to an answer for people.
func (c *Comparison) AddTo(a *text.Answer) {
	a.Linef("\nRows beside those of %s, made by parsimon %s (commit %s, method version %d)", c.Bundle,
		c.MadeBy.Version, c.MadeBy.Commit, c.MadeBy.Method)
	if len(c.OtherVersions) > 0 {
		a.Linef("other versions, so rows may differ: %s", strings.Join(c.OtherVersions, "; "))
	}
	table := a.Table("table", "rows", "bundle_rows", "result")
	for _, t := range c.Tables {
		table.Add(t.Table, t.Rows, t.BundleRows, t.Result)
	}
}
