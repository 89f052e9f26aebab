package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/whatif"
	"parsimon/pipeline/workloads"
)

// metrics are what --metrics-file gets when a command ends, in Prometheus' text format, as the textfile collector of
// node_exporter reads it. Every metric is a gauge about the last command.
type metrics struct {
	file    string
	labels  string // of all metrics that are about a scenario or workload
	lines   map[string][]string
	order   []string
	help    map[string]string
	started time.Time
}

func (m *metrics) declare(f *pflag.FlagSet) {
	f.StringVar(&m.file, "metrics-file", "", "write metrics of this command to a file when it ends, in Prometheus' text format (textfile collector of node_exporter)")
}

// add adds one sample. labels are names and values in turn.
func (m *metrics) add(name, help string, value float64, labels ...string) {
	if m.file == "" {
		return
	}
	if m.lines == nil {
		m.lines, m.help = map[string][]string{}, map[string]string{}
	}
	if m.help[name] == "" {
		m.help[name] = help
		m.order = append(m.order, name)
	}
	m.lines[name] = append(m.lines[name], fmt.Sprintf("parsimon_%s{%s} %s", name, joinLabels(m.labels, labelText(labels)),
		strconv.FormatFloat(value, 'g', -1, 64)))
}

// about says what the metrics that follow are about, in the labels of one metric, info. The others have label job only
// and what they are of: their labels stay the same when the next night's scenario has another id and name.
func (m *metrics) about(labels ...string) {
	m.labels = labelText([]string{"job", m.job()})
	m.add("info", "What the metrics of the job are about; always 1.", 1, labels...)
}

// job is the name of the file: what tells the metrics of several files apart.
func (m *metrics) job() string {
	name := filepath.Base(m.file)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

func joinLabels(a, b string) string {
	if a != "" && b != "" {
		return a + "," + b
	}
	return a + b
}

// labelText writes labels, names and values in turn.
func labelText(labels []string) string {
	var parts []string
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for i := 0; i+1 < len(labels); i += 2 {
		parts = append(parts, labels[i]+`="`+escape.Replace(labels[i+1])+`"`)
	}
	return strings.Join(parts, ",")
}

// estimate adds what an estimate found and cost.
func (m *metrics) estimate(run *pipeline.Estimation, r *summary.Result) error {
	m.about("scenario", r.ScenarioID, "name", r.Name, "variant", r.Variant)
	g, err := run.Generated()
	if err != nil {
		return err
	}
	m.add("flows", "Flows of the workload.", float64(g.Flows))
	m.add("rejected_rows", "Rows of the trace that are no flows.", float64(g.Rejects))
	for _, s := range r.Stages {
		m.add("stage_seconds", "Duration of each stage; those of several passes follow each other.", s.Seconds, "stage", s.Stage, "pass", passOf(r.Stages, s))
		m.add("stage_cpu_seconds", "Processor time of each stage.", s.CPUSeconds, "stage", s.Stage, "pass", passOf(r.Stages, s))
	}
	m.add("link_cases", "Link cases by where their results come from.", float64(r.Cases.Cases), "from", "simulation")
	m.add("link_cases", "", float64(r.Cases.CachedCases), "from", "cache")
	m.add("packet_hops", "Packet-hops by where their results come from.", float64(r.Cases.PacketHops+r.WholeHops), "from", "simulation")
	m.add("packet_hops", "", float64(r.Cases.CachedHops), "from", "cache")
	for _, p := range slices.Concat(r.Percentiles, r.Services) {
		of := []string{"service", "all", "size_bin", p.SizeBin}
		if p.SizeBin == "" {
			of = []string{"service", p.Service, "size_bin", "all"}
		}
		m.slowdowns("slowdown", "Percentiles of slowdown by flow size and by service.", of, []float64{p.P50, p.P90, p.P99, p.P999})
		m.fcts(of, p.P50FCT, p.P99FCT)
	}
	for _, v := range r.Gates {
		m.add("gate_failed", "1 for a condition of --fail-if that is true.", flag(v.Failed), "condition", v.Gate)
	}
	m.add("table_bytes", "Bytes of the scenario's tables.", float64(summary.TableBytes(run)))
	if run.Cache != nil {
		m.add("cache_bytes", "Bytes of the cache of link cases.", float64(run.Cache.Bytes()))
	}
	return nil
}

// passOf counts the reports of a stage up to one of them, from 1.
func passOf(all []engine.Report, s engine.Report) string {
	n := 0
	for _, r := range all {
		if r.Stage == s.Stage {
			n++
		}
		if r == s {
			break
		}
	}
	return strconv.Itoa(n)
}

// ingest adds what an ingested workload holds.
func (m *metrics) ingest(r *workloads.Report) {
	m.about("workload", r.Workload)
	m.add("flows", "Flows of the workload.", float64(r.Flows))
	m.add("flow_bytes", "Bytes of the flows.", float64(r.Bytes))
	m.add("rejected_rows", "Rows of the trace that are no flows.", float64(r.Rejects))
	m.add("merged_rows", "Rows of the trace that were merged into flows.", float64(r.Merged))
	m.add("new_files", "Files that this command added.", float64(r.NewFiles))
}

func flag(x bool) float64 {
	if x {
		return 1
	}
	return 0
}

// check returns an error if the file cannot be written.
func (m *metrics) check() error {
	if m.file == "" {
		return nil
	}
	err := checkOutput("metrics-file", m.file)
	if err != nil {
		m.file = "" // there is nothing to write at the end
	}
	return err
}

// write writes the file whole, so that a collector never reads half of it.
func (m *metrics) write(command string, code int) error {
	if m.file == "" {
		return nil
	}
	m.labels = labelText([]string{"job", m.job(), "command", command})
	m.add("exit_code", "Exit code of the command.", float64(code))
	m.add("seconds", "Duration of the command.", time.Since(m.started).Seconds())
	m.add("peak_memory_bytes", "Most memory that the process had resident.", float64(engine.PeakBytes()))
	m.add("end_time_seconds", "When the command ended, in seconds since 1970.", float64(time.Now().UnixMilli())/1e3)
	var b strings.Builder
	for _, name := range m.order {
		fmt.Fprintf(&b, "# HELP parsimon_%[1]s %[2]s\n# TYPE parsimon_%[1]s gauge\n%[3]s\n", name, m.help[name], strings.Join(m.lines[name], "\n"))
	}
	_, err := writeOutput(m.file, func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	})
	if err != nil {
		return fmt.Errorf("--metrics-file: %w", err)
	}
	return nil
}

// parameters adds the runs of a sweep of parameters.
func (m *metrics) parameters(p *whatif.Parameters) {
	m.about("sweep", p.Name)
	m.add("sweep_runs", "Scenarios of the sweep.", float64(len(p.Runs)))
	for i, r := range p.Runs {
		of := []string{"settings", p.SettingsOf(i)}
		m.fcts(of, r.P50FCT, r.P99FCT)
		m.slowdowns("slowdown", "Percentiles of slowdown of all flows.", of, []float64{r.P50, r.P90, r.P99, r.P999})
	}
}

// failures adds the cables of a sweep of failures that were estimated in full.
func (m *metrics) failures(s *whatif.Sweep) {
	m.about("base", s.Base, "variant", s.Variant)
	m.add("sweep_runs", "Scenarios of the sweep.", float64(len(s.Cables)))
	for _, c := range s.Cables {
		if of, full := c.Full[s.Plan.Service]; full {
			cable := []string{"cable", c.NameA + ":" + c.NameB, "service", s.Plan.Service}
			m.slowdowns("slowdown", "Percentiles of slowdown with the cable down.", cable, of.Slowdowns)
		}
	}
}

// validation adds the errors of an estimate.
func (m *metrics) validation(v *whatif.Validation) {
	m.about("truth", v.Truth)
	m.add("flows_with_truth_ratio", "Share of the flows that have a truth.", v.Matched)
	for _, r := range v.Rows {
		m.add("slowdown_error", "Error of the percentiles of slowdown, relative to the truth.", r.Error, "size_bin", r.Name, "quantile", strconv.FormatFloat(r.Quantile, 'g', -1, 64))
	}
}

const fctHelp = "Percentiles of the flow completion time."

// fcts adds two percentiles, given in ms.
func (m *metrics) fcts(of []string, p50, p99 float64) {
	m.add("fct_seconds", fctHelp, p50/1e3, slices.Concat(of, []string{"quantile", "0.5"})...)
	m.add("fct_seconds", fctHelp, p99/1e3, slices.Concat(of, []string{"quantile", "0.99"})...)
}

// slowdowns adds one sample for each of pipeline.Quantiles.
func (m *metrics) slowdowns(name, help string, of []string, values []float64) {
	for i, q := range pipeline.Quantiles {
		m.add(name, help, values[i], slices.Concat(of, []string{"quantile", strconv.FormatFloat(q, 'g', -1, 64)})...)
	}
}

// comparison adds the changes of percentiles.
func (m *metrics) comparison(c *whatif.Comparison) {
	m.about("scenario", c.Other.Scenario, "name", c.OtherName, "base", c.Base.Scenario, "base_name", c.BaseName)
	for _, r := range c.Rows {
		groups := []string{"quantile", strconv.FormatFloat(r.Quantile, 'g', -1, 64)}
		for i, name := range whatif.ComparisonGroups() {
			groups = append(groups, name, r.Group[i])
		}
		m.add("slowdown", "Percentiles of slowdown of the flows in both scenarios.", r.Other, groups...)
		m.add("slowdown_change", "Change of the percentiles of slowdown against the base.", r.Change, groups...)
		m.add("fct_seconds", fctHelp, r.OtherFCT/1e3, groups...)
		m.add("fct_change", "Change of the percentiles of the FCT against the base.", r.FCTChange, groups...)
	}
}
