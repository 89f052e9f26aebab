package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"

	"parsimon/queries"
	"parsimon/schema"
)

// libraries are the chart libraries that a page embeds. fetch-vega downloads them.
var libraries = []struct{ name, version string }{{"vega", "6.4.0"}, {"vega-lite", "6.5.0"},
	{"vega-embed", "7.3.0"}}

//go:embed vega page.html.tmpl page.css page.js sections.json
var assets embed.FS

// A license is shown in the page.
type license struct{ Name, Text string }

// pageData is the data of the template.
type pageData struct {
	Title, Subtitle, Summary string
	Figures                  []figure
	Sentences                []string
	Warnings                 []warning
	Verdict                  *verdict
	Sections                 []section
	Sampled                  string // what the numbers were estimated from; empty for an estimate of all flows
	Confidence               string // confidence level of the intervals
	Services, Vnets          []string
	Facts                    []fact
	Spec                     string
	code
}

// code is what the page needs to draw itself.
type code struct {
	Policy   string // content security policy
	Licenses []license
	CSS      template.CSS
	Scripts  []template.JS
	Data     template.JS
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
		Title:      c.estimate.Name,
		Summary:    c.summary(),
		Figures:    c.figures(),
		Sentences:  c.sentences(),
		Warnings:   c.warnings(),
		Verdict:    c.verdict(),
		Sections:   sections,
		Sampled:    c.sampled(),
		Confidence: c.confidence(),
		Services:   c.labels("service", "vnet"),
		Vnets:      c.labels("vnet", "service"),
		Facts:      c.facts(o),
		Spec:       c.spec(),
		code:       code{Data: template.JS(data)},
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
