// Package report writes one estimate of a lake, or two estimates side by side, as one HTML page.
//
//	lake ──► queries (SQL, package queries) ────► answers ──┬─► headline, warnings, explanations (words)
//	                                                        └─► JSON ─┐
//	charts (Vega-Lite, package queries), themes, vega/*.js ─────────┴─► page.html.tmpl ──► one file
//
// The page is a single file of at most 1.5 MB and makes no requests. It includes the chart libraries, whose
// versions and digests fetch-vega pins. Its size depends on the number of services, virtual networks and
// links, but hardly on the number of flows, because every number on it is an aggregate that DuckDB computes.
//
// Texts from a trace, such as names of services, are untrusted. They are inserted into the page only through
// html/template, which escapes them, and as JSON in which <, > and & are escaped. The content security policy
// of the page permits only scripts with the listed digests, and no requests.
package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/variant"
)

// Options select the content of a report.
type Options struct {
	Estimate Estimate
	// Base is the estimate to compare with; nil: none. The lake must contain the comparison (tables
	// comparisons and comparison_links).
	Base *Estimate
	// Command is the command line that creates this report.
	Command string
	// Program names the program that creates it, with its commit and the version of its method.
	Program string
	// Query selects the files that the queries read, and limits their memory and threads.
	Query queries.Options
}

// Write writes the report of an estimate of the lake as one HTML page.
//
// It returns an error if the lake cannot be opened, if the comparison is missing, or if a query fails. Output
// that was written before an error is not usable.
func Write(ctx context.Context, w io.Writer, lake string, o Options) (err error) {
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c := &content{db: db, lake: lake, estimate: o.Estimate, base: o.Base, answers: map[string]*answer{},
		asked: map[string]map[string]string{}}
	if err := c.collect(ctx); err != nil {
		return err
	}
	return c.writePage(w, o)
}

// Estimate is one estimate of the lake.
type Estimate struct {
	Scenario string
	Variant  variant.Variant
	Name     string // name of the scenario; need not be unique
}

// Choose finds the estimate of a scenario, which is given by its id and name. It returns the estimate of
// the variant with the name asked. If asked is empty, it returns the preferred estimate, or else the
// answer of the scenario.
func Choose(files []queries.File, scenario, name, asked, prefer string) (Estimate, error) {
	variants := map[string]variant.Variant{} // by name
	answer := ""
	for _, f := range files {
		estimated := f.Table == schema.Windows.Name || f.Table == schema.Slowdowns.Name
		if f.Scenario == scenario && estimated {
			variants[f.Variant.String()] = f.Variant
			if f.Answer {
				answer = f.Variant.String()
			}
		}
	}
	have := slices.Sorted(maps.Keys(variants))
	if len(have) == 0 {
		return Estimate{}, fmt.Errorf("scenario %s is not estimated: run it", scenario)
	}
	if _, known := variants[prefer]; !known {
		prefer = ""
	}
	chosen, found := variants[cmp.Or(asked, prefer, answer, have[0])]
	if !found {
		return Estimate{}, fmt.Errorf("scenario %s has no estimate %q; it has %s", scenario, asked,
			strings.Join(have, ", "))
	}
	return Estimate{scenario, chosen, name}, nil
}

// Compared reports whether the lake contains the comparison with the base that a report needs. If there are
// several services, the comparison must be grouped by service. If the estimates cannot be compared, it
// returns an error.
func Compared(ctx context.Context, lake string, o Options) (_ bool, err error) {
	switch {
	case o.Estimate.Variant.Sampled() || o.Base.Variant.Sampled():
		return false, errors.New("a report compares estimates of every flow, and one of these is from windows of " +
			"time (run --within): parsimon compare --within answers what changed, from the same windows of both")
	case *o.Base == o.Estimate:
		return false, fmt.Errorf("scenario %s, variant %s, is compared with itself", o.Base.Scenario,
			o.Base.Variant)
	}
	db, err := queries.Open(ctx, lake, o.Query)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	a, err := ask(ctx, db, queries.Known("compared"), parameters(o.Estimate, o.Base))
	return err == nil && a.Is(0, "compared"), err
}

// libraries are the chart libraries that a page embeds. fetch-vega downloads them.
var libraries = []struct{ name, version string }{{"vega", "6.4.0"}, {"vega-lite", "6.5.0"},
	{"vega-embed", "7.3.0"}}

//go:embed vega page.html.tmpl page.css page.js sections.json
var assets embed.FS

// A license is shown in the page.
type license struct{ Name, Text string }

// pageData is the data of the template.
type pageData struct {
	Title, Subtitle, Policy string
	Summary                 string
	Figures                 []figure
	Sentences               []string
	Warnings                []warning
	Verdict                 *verdict
	Sections                []section
	Sampled                 string // what the numbers were estimated from; empty for an estimate of all flows
	Confidence              string // confidence level of the intervals
	Services, Vnets         []string
	Facts                   []fact
	Spec                    string
	Licenses                []license
	CSS                     template.CSS
	Scripts                 []template.JS
	Data                    template.JS
}

func (c *content) writePage(w io.Writer, o Options) error {
	sections, err := c.outline()
	if err != nil {
		return err
	}
	data, err := c.script(sections)
	if err != nil {
		return err
	}
	p := pageData{
		Title: c.estimate.Name, Summary: c.summary(), Figures: c.figures(), Sentences: c.sentences(),
		Warnings: c.warnings(),
		Verdict:  c.verdict(), Sections: sections, Services: c.labels("service", "vnet"),
		Vnets: c.labels("vnet", "service"),
		Facts: c.facts(o), Spec: c.spec(), Data: template.JS(data),
		Sampled: c.sampled(), Confidence: c.confidence(),
	}
	if c.base != nil {
		p.Subtitle = "compared with " + c.base.Name
	}
	if err := p.addAssets(); err != nil {
		return err
	}
	t, err := template.New("page.html.tmpl").Funcs(template.FuncMap{"thousands": thousands, "bytes": bytesText}).
		ParseFS(assets, "page.html.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// addAssets adds the style sheet, the scripts and their licenses, and the security policy that permits only
// these scripts.
func (p *pageData) addAssets() error {
	var hashes []string
	var names []string
	for _, l := range libraries {
		names = append(names, "vega/"+l.name+".min.js")
		text, err := assets.ReadFile("vega/" + l.name + ".LICENSE")
		if err != nil {
			return err
		}
		p.Licenses = append(p.Licenses, license{l.name + " " + l.version, string(text)})
	}
	for _, name := range append(names, "page.js") {
		text, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		script := "\n" + string(text) + "\n"
		if strings.Contains(script, "</script") || strings.Contains(script, "<!--") {
			return fmt.Errorf("report: %s cannot stand within an HTML page", name)
		}
		digest := sha256.Sum256([]byte(script))
		hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'")
		p.Scripts = append(p.Scripts, template.JS(script))
	}
	css, err := assets.ReadFile("page.css")
	if err != nil {
		return err
	}
	p.CSS = template.CSS(css)
	// Vega compiles the expressions of chart specifications (unsafe-eval). The specifications are part of
	// this program. Rows are never compiled.
	p.Policy = "default-src 'none'; script-src " + strings.Join(hashes, " ") +
		" 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
	return nil
}

// script returns the page's data as JSON in which <, >, &, U+2028 and U+2029 are escaped.
func (c *content) script(sections []section) ([]byte, error) {
	specs := map[string]json.RawMessage{}
	data := map[string]*answer{}
	for _, s := range sections {
		for _, f := range s.Charts {
			if f.Columns != "" {
				continue // it is part of the page's text
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, f.spec); err != nil {
				return nil, fmt.Errorf("chart %s: %w", f.ID, err)
			}
			a := c.answers[f.ID]
			switch f.ID {
			case "link_load_and_tail":
				a = a.where(func(i int) bool {
					return a.Int(i, "load_place") <= mostTableLinks || a.Int(i, "tail_place") <= mostTableLinks
				})
			case "parameter_sweep":
				data[f.Table] = c.runs()
			}
			specs[f.ID] = compact.Bytes()
			data[f.ID] = a
		}
	}
	return json.Marshal(map[string]any{"specs": specs, "data": data,
		"themes": map[string]json.RawMessage{"light": queries.LightTheme(), "dark": queries.DarkTheme()}})
}

// labels returns the services, or the virtual networks, by which charts can be filtered.
func (c *content) labels(column, other string) []string {
	a := c.answers["percentiles_by_group"]
	var out []string
	for i := range a.Len() {
		if !a.Null(i, column) && a.Null(i, other) && a.Float(i, "quantile") == 0.5 {
			out = append(out, a.Text(i, column))
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// spec returns the scenario as it was given, indented.
func (c *content) spec() string {
	var out bytes.Buffer
	text := c.answers["scenario"].Text(0, "spec")
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		return text
	}
	return out.String()
}

// A fact is one line about how the estimate or the report was made.
type fact struct{ Label, Value string }

func (c *content) facts(o Options) []fact {
	s := c.answers["scenario"]
	charts := ""
	base := ""
	for _, l := range libraries {
		charts = joined(", ", charts, l.name+" "+l.version)
	}
	if c.base != nil {
		base = c.base.Name + ", " + c.base.Scenario + "@" + c.base.Variant.String()
	}
	all := []fact{
		{"Scenario", c.estimate.Name}, {"Scenario id", c.estimate.Scenario},
		{"Variant (how it was estimated)", c.estimate.Variant.String()},
		{"Made from scenario", s.Text(0, "base_id")}, {"Compared with", base},
		{"Seed", fmt.Sprint(s.Int(0, "seed"))},
		{"Lake", c.lake}, {"Command of this report", o.Command}, {"Program", o.Program},
		{"Schema of the lake", fmt.Sprintf("version %d", schema.Version)}, {"Charts", charts},
	}
	return slices.DeleteFunc(all, func(f fact) bool { return f.Value == "" })
}

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
	Head     []string
	Rows     [][]string
	More     int // number of rows that are omitted
	spec     json.RawMessage
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

// command returns the command line that repeats a query of the report.
func (c *content) command(question string) string {
	text := "parsimon query " + question + " --lake " + ShellQuote(c.lake)
	params := c.asked[question]
	for _, name := range slices.Sorted(maps.Keys(params)) {
		text += " --param " + ShellQuote(name+"="+params[name])
	}
	return text
}

// ShellQuote quotes a word for a shell if necessary.
func ShellQuote(word string) string {
	plain := strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./@:%+,") == ""
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// mostTableLinks is the maximum number of links with the highest load, and with the largest share of the
// tail, on a page.
const mostTableLinks = 60

// runs returns one row for each run of a sweep. The result of query parameter_sweep has one row for each run
// and parameter.
func (c *content) runs() *answer {
	long := c.answers["parameter_sweep"]
	first := long.where(func(i int) bool { return long.Int(i, "parameter_place") == 1 })
	return first.without("sweep", "label", "parameter", "name", "parameter_place", "value", "value_number",
		"value_place")
}

// A content is the content of a page.
type content struct {
	db       *queries.DB
	lake     string
	estimate Estimate
	base     *Estimate                    // nil: no comparison
	answers  map[string]*answer           // results by query
	asked    map[string]map[string]string // parameters by query
}

// parameters returns the query parameters that select the estimates.
func parameters(of Estimate, base *Estimate) map[string]string {
	params := map[string]string{"scenario": of.Scenario, "variant": of.Variant.String()}
	if base != nil {
		params["base_scenario"], params["base_variant"] = base.Scenario, base.Variant.String()
	}
	return params
}

// collect asks all queries of the page.
func (c *content) collect(ctx context.Context) error {
	first := []string{"scenario", "warnings", "short", "sweep", "truth", "log", "headline"}
	sampled := c.estimate.Variant.Sampled()
	if sampled {
		first = []string{"scenario", "warnings", "short", "sampled_headline"}
	}
	if err := c.putAll(ctx, first, nil); err != nil {
		return err
	}
	if c.base != nil {
		if err := c.collectComparison(ctx); err != nil {
			return err
		}
	}
	if err := c.collectCharts(ctx); err != nil {
		return err
	}
	if sampled {
		c.answers["headline"] = c.answers["sampled_headline"]
		all := c.answers["sampled_percentiles"] // for the filter and for sentences
		c.answers["percentiles_by_group"] = all.where(func(i int) bool { return all.Text(i, "size_bin") == "all" })
		return nil
	}
	if c.answers["sweep"].Len() > 0 { // the largest parameter sweep that includes the scenario
		of := map[string]string{"scenario": "", "sweep": c.answers["sweep"].Text(0, "sweep")}
		err := c.putAll(ctx, []string{"parameter_sweep", "sweep_errors", "sweep_error_by_size"}, of)
		if err != nil {
			return err
		}
	}
	return errors.Join(c.linksOfWorst(ctx), c.curves(ctx))
}

// collectComparison asks what a change did.
func (c *content) collectComparison(ctx context.Context) error {
	err := errors.Join(c.put(ctx, "ideal", nil),
		c.put(ctx, "what_changed", map[string]string{"groups": strconv.Itoa(mostChanged)}),
		c.put(ctx, "load_changes", map[string]string{"n": "100000"}))
	if err == nil && c.answers["what_changed"].Len() == 0 {
		err = fmt.Errorf("the lake holds no comparison of %s@%s with %s@%s: parsimon compare makes it",
			c.estimate.Scenario, c.estimate.Variant, c.base.Scenario, c.base.Variant)
	}
	return err
}

// collectCharts asks the queries of the charts whose condition holds.
func (c *content) collectCharts(ctx context.Context) error {
	sections, err := plan()
	if err != nil {
		return err
	}
	holds := c.conditions()
	for _, s := range sections {
		for _, chart := range s.Charts {
			if !holds[chart.Of] {
				continue
			}
			if err := c.put(ctx, chart.ID, chart.Params); err != nil {
				return err
			}
		}
	}
	if c.answers["link_loads_over_time"].Len() > 0 { // paths move
		return c.put(ctx, "path_shares", nil)
	}
	return nil
}

// conditions reports which conditions of charts hold: estimates of all flows, estimates from windows of time,
// reports with a base, simulations of every packet, and such simulations with jobs.
func (c *content) conditions() map[string]bool {
	sampled := c.estimate.Variant.Sampled()
	exact := c.estimate.Variant.WholeNetwork()
	return map[string]bool{"flows": !sampled, "windows": sampled, "base": c.base != nil, "exact": exact,
		"jobs": exact && c.answers["scenario"].Int(0, "dependencies") > 0}
}

// putAll asks several queries with the same parameters.
func (c *content) putAll(ctx context.Context, names []string, more map[string]string) error {
	for _, name := range names {
		if err := c.put(ctx, name, more); err != nil {
			return err
		}
	}
	return nil
}

// linksOfWorst asks at which link the service with the highest p99 loses most of its time.
func (c *content) linksOfWorst(ctx context.Context) error {
	p99 := c.servicesByP99()
	if p99.Len() < 2 {
		return nil
	}
	return c.put(ctx, "p99_links", map[string]string{"service": p99.Text(0, "service"), "n": "1"})
}

// mostCurveRows is the maximum number of points of curves, which are most of a page's data.
const mostCurveRows = 4_500

// curves queries the distributions. If the distributions of all groups of flows would make the page too
// large, it queries fewer groups.
func (c *content) curves(ctx context.Context) error {
	for groups := 12; ; groups /= 2 {
		err := c.put(ctx, "slowdown_cdf", map[string]string{"groups": strconv.Itoa(groups)})
		if err != nil {
			return err
		}
		if groups == 1 || c.answers["slowdown_cdf"].Len() <= mostCurveRows {
			c.answers["slowdown_cdf"] = c.answers["slowdown_cdf"].without("share") // 1 - slower_share
			return nil
		}
	}
}

// put runs a query about the estimate. If the query supports bases, its result includes rows for the base.
func (c *content) put(ctx context.Context, name string, more map[string]string) error {
	q := queries.Known(name)
	params := parameters(c.estimate, c.base)
	maps.Copy(params, more)
	maps.DeleteFunc(params, func(name, _ string) bool {
		return !slices.ContainsFunc(q.Params, func(p queries.Param) bool { return p.Name == name })
	})
	a, err := ask(ctx, c.db, q, params)
	if err != nil {
		return err
	}
	if slices.Contains(a.columns, "base_scenario") {
		a = a.where(func(i int) bool {
			return a.Text(i, "base_scenario") == c.base.Scenario &&
				a.Text(i, "base_variant") == c.base.Variant.String()
		})
	}
	c.answers[name] = a.without("scenario", "variant", "base_scenario", "base_variant")
	c.asked[name] = params
	return nil
}

// An answer has the rows of the result of one query. They are aggregates, so there are few of them.
type answer struct {
	columns []string
	rows    [][]any // nil, bool, int64, float64 or string
}

func ask(ctx context.Context, db *queries.DB, q queries.Query, params map[string]string) (*answer, error) {
	found, err := db.Run(ctx, q, params)
	if err != nil {
		return nil, err
	}
	for _, row := range found.Rows {
		for i, v := range row {
			row[i] = plain(v)
		}
	}
	return &answer{found.Columns, found.Rows}, nil
}

// plain converts a value of a format.Answer to one of the types of an answer.
func plain(v any) any {
	x := reflect.ValueOf(v)
	switch v.(type) {
	case nil, bool, int64, string:
		return v
	}
	switch {
	case x.CanFloat() && (math.IsNaN(x.Float()) || math.IsInf(x.Float(), 0)):
		return nil
	case x.CanFloat():
		return x.Float()
	case x.CanUint():
		return float64(x.Uint())
	}
	return fmt.Sprint(v)
}

// Len returns the number of rows. It is 0 for a nil answer.
func (a *answer) Len() int {
	if a == nil {
		return 0
	}
	return len(a.rows)
}

// at returns a value, or nil if the row or column does not exist.
func (a *answer) at(row int, column string) any {
	if row >= a.Len() {
		return nil
	}
	i := slices.Index(a.columns, column)
	if i >= 0 {
		return a.rows[row][i]
	}
	return nil
}

// Text returns a text, or an empty string for null.
func (a *answer) Text(row int, column string) string {
	s, _ := a.at(row, column).(string)
	return s
}

// Float returns a number, or NaN for null.
func (a *answer) Float(row int, column string) float64 { return number(a.at(row, column)) }

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return math.NaN()
}

// Int returns an integer, or 0 for null.
func (a *answer) Int(row int, column string) int64 {
	v, _ := a.at(row, column).(int64)
	return v
}

// Is reports whether the value of a column is true.
func (a *answer) Is(row int, column string) bool { v, _ := a.at(row, column).(bool); return v }

// Null reports whether a value is null.
func (a *answer) Null(row int, column string) bool { return a.at(row, column) == nil }

func (a *answer) where(keep func(row int) bool) *answer {
	out := &answer{}
	if a != nil {
		out.columns = a.columns
	}
	for i := range a.Len() {
		if keep(i) {
			out.rows = append(out.rows, a.rows[i])
		}
	}
	return out
}

func (a *answer) without(columns ...string) *answer {
	out := &answer{rows: make([][]any, len(a.rows))}
	for i, c := range a.columns {
		if slices.Contains(columns, c) {
			continue
		}
		out.columns = append(out.columns, c)
		for k := range a.rows {
			out.rows[k] = append(out.rows[k], a.rows[k][i])
		}
	}
	return out
}

// MarshalJSON writes an answer column by column. This takes a third of the space of an array of row objects:
//
//	{"columns": ["tier", "share"], "values": [{"of": ["host-tor"], "at": [0, 0]}, [0.5, null]]}
//
// Texts are encoded as indices into a list of the distinct texts; -1 stands for null. Numbers have six
// significant digits. Integers have all digits.
func (a *answer) MarshalJSON() ([]byte, error) {
	values := make([]any, len(a.columns))
	for i := range a.columns {
		values[i] = a.column(i)
	}
	return json.Marshal(map[string]any{"columns": append([]string{}, a.columns...), "values": values})
}

// column returns a column in the form in which MarshalJSON writes it. If any value of a column is a text, all
// of its values are written as texts.
func (a *answer) column(i int) any {
	texts := slices.ContainsFunc(a.rows, func(row []any) bool { _, ok := row[i].(string); return ok })
	if !texts {
		out := make([]any, len(a.rows))
		for k, row := range a.rows {
			out[k] = row[i]
			if f, ok := row[i].(float64); ok {
				out[k] = json.Number(strconv.FormatFloat(f, 'g', 6, 64))
			}
		}
		return out
	}
	at := make([]int, len(a.rows))
	places := map[string]int{}
	of := []string{}
	for k, row := range a.rows {
		text, ok := row[i].(string)
		if !ok && row[i] == nil {
			at[k] = -1
			continue
		}
		if !ok {
			text = fmt.Sprint(row[i])
		}
		place, known := places[text]
		if !known {
			place = len(of)
			places[text] = place
			of = append(of, text)
		}
		at[k] = place
	}
	return map[string]any{"of": of, "at": at}
}
