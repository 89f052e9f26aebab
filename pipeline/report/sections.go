package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"parsimon/queries"
)

// A section is one part of the page, with its charts.
type section struct {
	ID, Title, Intro string
	Charts           []figureChart
}

// A figureChart is one chart of the page with its table.
type figureChart struct {
	ID       string // id of the element, of the chart, and of the query whose result it shows
	Title    string
	Of       string            // the condition under which a report has it (conditions); empty: collect runs it
	Params   map[string]string // parameters of the query that differ from the defaults
	Caption  string
	Wide     bool // as wide as the page; other charts are placed side by side if there is room
	Filtered bool
	Zooms    bool
	Table    string // data set of the table's rows
	Command  string // command line that repeats the query
	SQL      string
	Columns  string // columns of a figure that has only a table; a column can have a label (name:label)
	cells
	spec json.RawMessage
}

// cells are the texts of a table.
type cells struct {
	Head []string
	Rows [][]string
	More int // number of rows that are omitted
}

// plan lists all sections and their possible charts, in the order of the page.
var plan = sync.OnceValues(func() (all []section, err error) {
	text, err := assets.ReadFile("sections.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
})

// outline returns the sections and charts that have data.
func (c *content) outline() ([]section, error) {
	all, err := plan()
	if err != nil {
		return nil, err
	}
	var out []section
	for _, s := range all {
		var charts []figureChart
		for _, f := range s.Charts {
			_, asked := c.asked[f.ID]
			if !asked || c.answers[f.ID].Len() == 0 {
				continue
			}
			if err := c.complete(&f); err != nil {
				return nil, err
			}
			charts = append(charts, f)
		}
		if len(charts) == 1 { // do not leave empty space beside it
			charts[0].Wide = true
		}
		s.Charts = charts
		if len(charts) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// complete adds what a section's list does not say about a table or chart: its rows or specification, its
// caption, and the SQL behind it.
func (c *content) complete(f *figureChart) error {
	q, err := queries.Get(f.ID)
	if err != nil {
		return err
	}
	f.SQL = q.SQL
	f.Command = c.command(q.Name)
	f.Table = q.Name
	if f.ID == "parameter_sweep" {
		f.Table = "parameter_sweep_runs"
	}
	if f.Columns != "" {
		f.Caption = q.Question
		f.Wide = true
		f.fill(c.answers[f.ID])
		return nil
	}
	f.spec = queries.Chart(f.ID)
	var says struct {
		Description string
		Params      []struct{ Name string }
	}
	if err := json.Unmarshal(f.spec, &says); err != nil {
		return fmt.Errorf("chart %s: %w", f.ID, err)
	}
	f.Caption = says.Description
	f.Zooms = strings.Contains(string(f.spec), `"scales"`)
	for _, p := range says.Params {
		f.Filtered = f.Filtered || p.Name == "service"
	}
	return nil
}

// mostTableRows is the maximum number of rows of a table of the page.
const mostTableRows = 24

// fill fills a table. The suffixes of column names are their units.
func (f *figureChart) fill(a *answer) {
	for column := range strings.FieldsSeq(f.Columns) {
		column, head, _ := strings.Cut(column, ":")
		head = cmp.Or(head, strings.TrimSuffix(strings.TrimSuffix(column, "_ns"), "_bytes"))
		f.Head = append(f.Head, strings.ReplaceAll(head, "_", " "))
	}
	f.More = max(0, a.Len()-mostTableRows)
	for i := range min(a.Len(), mostTableRows) {
		var row []string
		for column := range strings.FieldsSeq(f.Columns) {
			column, _, _ = strings.Cut(column, ":")
			row = append(row, cell(a, i, column))
		}
		f.Rows = append(f.Rows, row)
	}
}

// cell formats a value in the unit of its column.
func cell(a *answer, i int, column string) string {
	_, unit, _ := strings.Cut(column, "_")
	switch v := a.at(i, column).(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	default:
		x := number(v)
		switch {
		case strings.HasSuffix(column, "error"):
			return signed(x)
		case x == 0:
			return "0"
		case strings.HasSuffix(unit, "ns"):
			return millis(x / 1e6)
		case strings.HasSuffix(unit, "slowdown"):
			return times(x)
		case strings.HasSuffix(column, "bytes"):
			return bytesText(int64(x))
		case strings.HasSuffix(unit, "share"), column == "load":
			return percent(x)
		}
		return thousands(int64(x))
	}
}
