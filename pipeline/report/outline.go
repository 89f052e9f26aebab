package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"parsimon/queries"
)

// A section is one part of the page, with its charts.
type section struct {
	ID, Title, Intro string
	Charts           []figureChart
}

// A figureChart is one chart of the page with its table.
type figureChart struct {
	ID       string // of the element, of the chart, and of the question that it draws
	Title    string
	Caption  string
	Wide     bool // spans the page; others stand side by side where there is room
	Filtered bool
	Zooms    bool
	Table    string // data set whose rows the table has
	Command  string // asks the question again
	SQL      string
	spec     []byte
}

// plan lists all sections and the charts that they may have, in the order of the page.
var plan = []section{
	{"changed", "What changed", "The flows that both scenarios have, flow by flow.", []figureChart{
		{ID: "what_changed", Title: "Change of the percentiles"},
		{ID: "explaining_links", Title: "Links that explain the difference"},
	}},
	{"slow", "How slow", "Slowdown is the time that a flow takes over the time that it would take alone in the network: " +
		"1× is ideal.", []figureChart{
		{ID: "slowdown_cdf", Title: "Distribution of slowdown"},
		{ID: "slowdown_vs_size_by_group", Title: "Percentiles against flow size"},
		{ID: "sampled_percentiles", Title: "Percentiles by service and virtual network"},
	}},
	{"whom", "For whom and when", "", []figureChart{
		{ID: "percentiles_by_group", Title: "Percentiles by service and virtual network", Wide: true},
		{ID: "slowdown_and_load_over_time", Title: "Slowdown and offered load over time", Wide: true},
	}},
	{"where", "Where", "The tail are the slowest 1% of the flows. Their time is the delay that other flows cause " +
		"them.", []figureChart{
		{ID: "tail_by_tier", Title: "Where the tail’s time goes, by tier of links", Wide: true},
		{ID: "link_load_and_tail", Title: "Links by load and by share of the tail", Wide: true},
	}},
	{"sweep", "What if a cable fails", "", []figureChart{
		{ID: "worst_failures", Title: "The worst failures of one cable"},
	}},
	{"parameters", "Sweep of parameters", "", []figureChart{{ID: "parameter_sweep", Title: "Combinations by p99"}}},
}

// outline lists the sections and charts that have something to show.
func (c *content) outline() ([]section, error) {
	var out []section
	for _, s := range plan {
		var charts []figureChart
		for _, f := range s.Charts {
			chart, err := queries.GetChart(f.ID)
			if err != nil {
				return nil, err
			}
			q, err := queries.Get(chart.Name)
			if err != nil {
				return nil, err
			}
			if _, asked := c.asked[q.Name]; !asked || c.answers[q.Name].Len() == 0 {
				continue
			}
			f.Caption, f.Filtered, f.spec = chart.Caption, chart.Filtered, chart.Spec
			f.Zooms = strings.Contains(string(chart.Spec), `"scales"`)
			f.SQL, f.Command, f.Table = q.SQL, c.command(q.Name), q.Name
			if f.ID == "parameter_sweep" {
				f.Table = "parameter_sweep_runs"
			}
			charts = append(charts, f)
		}
		if len(charts) == 1 { // no empty place beside it
			charts[0].Wide = true
		}
		if s.ID == "parameters" {
			s.Intro = c.sweptText()
		}
		if s.Charts = charts; len(charts) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
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
	plain := strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./@:%+,") == ""
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// mostTableLinks is how many links with the most load, and with the largest share of the tail, a page has.
const mostTableLinks = 60

// dataSets are the answers that the page draws or tabulates.
func (c *content) dataSets(sections []section) map[string]*answer {
	out := map[string]*answer{}
	for _, s := range sections {
		for _, f := range s.Charts {
			a := c.answers[f.ID]
			switch f.ID {
			case "link_load_and_tail":
				a = a.where(func(i int) bool {
					return a.Int(i, "load_place") <= mostTableLinks || a.Int(i, "tail_place") <= mostTableLinks
				})
			case "parameter_sweep":
				out[f.Table] = c.runs()
			}
			out[f.ID] = a
		}
	}
	return out
}

// runs has a row for each run of a sweep; the answer of question parameter_sweep has one for each run and parameter.
func (c *content) runs() *answer {
	long := c.answers["parameter_sweep"]
	first := long.where(func(i int) bool { return long.Int(i, "parameter_place") == 1 })
	return first.without("sweep", "label", "parameter", "name", "parameter_place", "value", "value_number", "value_place")
}

// sweptText says in words what the sweep of parameters found.
func (c *content) sweptText() string {
	runs := c.runs()
	best, worst := -1, -1
	for i := range runs.Len() {
		x := runs.Float(i, "p99_slowdown")
		if math.IsNaN(x) {
			continue
		}
		if worst < 0 || x > runs.Float(worst, "p99_slowdown") {
			worst = i
		}
		if best < 0 || x < runs.Float(best, "p99_slowdown") {
			best = i
		}
	}
	if worst < 0 {
		return ""
	}
	return "This scenario is one of " + thousands(int64(runs.Len())) + " runs. p99 slowdown is lowest, " +
		times(runs.Float(best, "p99_slowdown")) + ", with " + runs.Text(best, "settings") + ", and highest, " +
		times(runs.Float(worst, "p99_slowdown")) + ", with " + runs.Text(worst, "settings") + "."
}
