package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"parsimon/queries"
)

// A section is one part of the page, with its charts.
type section struct {
	ID, Title, Intro string
	Charts           []*figureChart
}

// A figureChart is one chart of the page with its table.
type figureChart struct {
	ID       string // of the element, and of the chart
	Title    string
	Caption  string
	Note     string // where it differs from the question's answer
	Wide     bool   // spans the page; others stand side by side where there is room
	Filtered bool
	Zooms    bool
	Table    string // data set whose rows the table has
	Command  string // asks the question again
	SQL      string
}

// outline lists the sections and charts that have something to show, in the order of the page.
func (c *content) outline() ([]section, error) {
	var out []section
	plan := c.plan
	if c.estimate.Windows > 0 {
		plan = c.sampledPlan
	}
	for _, p := range plan() {
		s := p.section
		for _, f := range p.charts {
			chart, err := c.chart(f)
			if err != nil {
				return nil, err
			}
			if chart != nil {
				s.Charts = append(s.Charts, chart)
			}
		}
		if len(s.Charts) == 1 { // no empty place beside it
			s.Charts[0].Wide = true
		}
		if len(s.Charts) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// A planned section has the charts that it may have.
type planned struct {
	section section
	charts  []figureChart
}

// plan lists all sections.
func (c *content) plan() []planned {
	return []planned{
		{section{ID: "changed", Title: "What changed", Intro: "The flows that both scenarios have, flow by flow."},
			[]figureChart{
				{ID: "what_changed", Title: "Change of the percentiles"},
				{ID: "explaining_links", Title: "Links that explain the difference"},
			}},
		{section{ID: "slow", Title: "How slow", Intro: "Slowdown is the time that a flow takes over the time that it " +
			"would take alone in the network: 1× is ideal."}, []figureChart{
			{ID: "slowdown_cdf", Title: "Distribution of slowdown"},
			{ID: "slowdown_vs_size_by_group", Title: "Percentiles against flow size"},
		}},
		{section{ID: "whom", Title: "For whom and when"}, []figureChart{
			{ID: "percentiles_by_group", Title: "Percentiles by service and virtual network", Wide: true},
			{ID: "slowdown_and_load_over_time", Title: "Slowdown and offered load over time", Wide: true},
		}},
		{section{ID: "where", Title: "Where", Intro: "The tail are the slowest 1% of the flows. Their time is the delay " +
			"that other flows cause them."}, []figureChart{
			{ID: "tail_by_tier", Title: "Where the tail’s time goes, by tier of links", Wide: true},
			{ID: "link_load_and_tail", Title: "Links by load and by share of the tail", Wide: true},
			{ID: "link_load_and_tail.network", Title: "The network", Wide: true},
		}},
		{section{ID: "sweep", Title: "What if a cable fails"}, []figureChart{
			{ID: "worst_failures", Title: "The worst failures of one cable", Wide: true},
		}},
		{section{ID: "parameters", Title: "Sweep of parameters", Intro: c.sweptText()}, []figureChart{
			{ID: "parameter_sweep", Title: "Combinations by p99", Wide: true},
		}},
	}
}

// chart completes a chart; nil if there is nothing to draw.
func (c *content) chart(f figureChart) (*figureChart, error) {
	chart, err := queries.GetChart(f.ID)
	if err != nil {
		return nil, err
	}
	rows := c.answers[chart.Question]
	if rows.Len() == 0 {
		return nil, nil
	}
	q, err := queries.Get(chart.Question)
	if err != nil {
		return nil, err
	}
	f.Caption, f.Filtered = chart.Caption, chart.Filtered
	f.Zooms = strings.Contains(string(chart.Spec), `"scales"`)
	f.SQL, f.Command = q.SQL, c.command(q.Name)
	if f.ID == "link_load_and_tail.network" {
		f.Caption += " Drawn is " + c.layout + "."
	}
	f.Table = q.Name
	if q.Name == "parameter_sweep" {
		f.Table = "parameter_sweep_runs"
	}
	return &f, nil
}

// command writes the command line that asks a question of the report again.
func (c *content) command(question string) string {
	text := "parsimon query " + question + " --lake " + ShellQuote(c.lake)
	params := c.asked[question]
	for _, name := range slices.Sorted(maps.Keys(params)) {
		text += " --param " + ShellQuote(name+"="+params[name])
	}
	return text
}

// ShellQuote quotes a word for a shell where it needs it.
func ShellQuote(word string) string {
	plain := strings.IndexFunc(word, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./@:%+,", c)
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Rows that a table of the page has at most, of the questions that have a row for every link.
const mostTableLinks = 60

// dataSets are the answers that the page draws or tabulates.
func (c *content) dataSets(sections []section) (map[string]*answer, error) {
	out := map[string]*answer{}
	for _, s := range sections {
		for _, f := range s.Charts {
			question, _, _ := strings.Cut(f.ID, ".")
			out[question] = c.answers[question]
		}
	}
	if links := out["link_load_and_tail"]; links != nil {
		out["link_load_and_tail"] = links.where(func(i int) bool {
			return links.Int(i, "load_place") <= mostTableLinks || links.Int(i, "tail_place") <= mostTableLinks
		})
		for _, name := range []string{"network_links", "network_nodes", "network_labels"} {
			out[name] = c.answers[name]
		}
	}
	if loads := out["load_changes"]; loads != nil {
		out["load_changes"] = loads.where(func(i int) bool {
			return loads.Int(i, "place") <= mostTableLinks ||
				loads.Is(i, "newly_failed")
		})
	}
	if out["parameter_sweep"] != nil {
		out["parameter_sweep_runs"] = c.answers["parameter_sweep_runs"]
	}
	for name, a := range out {
		if a == nil {
			return nil, fmt.Errorf("report: no answer for %s", name) // a broken invariant of outline
		}
	}
	return out, nil
}
