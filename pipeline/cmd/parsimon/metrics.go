package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/whatif"
	"parsimon/pipeline/workloads"
)

// metrics are written to --metrics-file when a command ends, in the text format of Prometheus that the
// textfile collector of node_exporter reads. Every metric is a gauge about the last command.
//
// WriteToTextfile of prometheus/client_golang is not used: it replaces devices, pipes and links by regular
// files, and sets the permissions 0644, regardless of the umask and of the file's own permissions.
type metrics struct {
	file    string
	job     string // a label of all samples
	started time.Time

	mu      sync.Mutex                    // an interrupted command may still add samples while they are written
	samples map[string]map[string]float64 // by the name of the metric and by series
}

// metricHelp returns the description of a metric, which is its line in the topic metrics of the manual.
func metricHelp(name string) string {
	_, help, _ := strings.Cut(readPage("topic-metrics").text, "\n  parsimon_"+name+" ")
	help, _, _ = strings.Cut(help, "\n")
	return strings.TrimSpace(help)
}

func (m *metrics) declare(f *pflag.FlagSet) {
	f.StringVar(&m.file, "metrics-file", "",
		"write metrics of this command to this `file` when it ends, in the text format of Prometheus")
}

// add adds one sample. Names and values of labels alternate. Of samples with equal labels only the first is
// kept, because collectors refuse a file with two.
func (m *metrics) add(name string, value float64, labels ...string) {
	if m.file == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.samples == nil {
		m.samples = map[string]map[string]float64{}
	}
	if m.samples[name] == nil {
		m.samples[name] = map[string]float64{}
	}
	text := ""
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for label := range slices.Chunk(append([]string{"job", m.job}, labels...), 2) {
		text += "," + label[0] + `="` + escape.Replace(label[1]) + `"`
	}
	series := fmt.Sprintf("parsimon_%s{%s}", name, text[1:])
	if _, known := m.samples[name][series]; !known {
		m.samples[name][series] = value
	}
}

func plainFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// about adds the metric info, whose labels say what the metrics are about. The labels of all other metrics
// stay the same when the scenario of the next night has another id and name. Label job is the name of the
// file, which distinguishes the metrics of several files.
func (m *metrics) about(labels ...string) {
	m.job = strings.TrimSuffix(filepath.Base(m.file), filepath.Ext(m.file))
	if labels != nil {
		m.add("info", 1, labels...)
	}
}

// estimate adds the results and the cost of an estimate.
func (m *metrics) estimate(run *pipeline.Estimation, r *summary.Result) error {
	m.about("scenario", r.ScenarioID, "name", r.Name, "variant", r.Variant)
	g, err := run.Generated()
	if err != nil {
		return err
	}
	m.add("flows", float64(g.Flows))
	m.add("rejected_rows", float64(g.Rejects))
	passes := map[string]int{}
	for _, s := range r.Stages {
		passes[s.Stage]++
		of := []string{"stage", s.Stage, "pass", strconv.Itoa(passes[s.Stage])}
		m.add("stage_seconds", s.Seconds, of...)
		m.add("stage_cpu_seconds", s.CPUSeconds, of...)
	}
	m.add("link_cases", float64(r.Cases.Cases), "from", "simulation")
	m.add("link_cases", float64(r.Cases.CachedCases), "from", "cache")
	m.add("packet_hops", float64(r.Cases.PacketHops+r.WholeHops), "from", "simulation")
	m.add("packet_hops", float64(r.Cases.CachedHops), "from", "cache")
	for _, p := range slices.Concat(r.Percentiles, r.Services) {
		of := []string{"service", "all", "size_bin", p.SizeBin}
		if p.SizeBin == "" {
			of = []string{"service", p.Service, "size_bin", "all"}
		}
		for i, slowdown := range []float64{p.P50, p.P90, p.P99, p.P999} {
			of := append(slices.Clone(of), "quantile", plainFloat(pipeline.Quantiles[i]))
			m.add("slowdown", slowdown, of...)
			ms := []*float64{p.P50FCT, nil, p.P99FCT, nil}[i]
			if ms != nil {
				m.add("fct_seconds", *ms/1e3, of...)
			}
		}
	}
	for _, v := range r.Gates {
		failed := 0.0
		if v.Failed {
			failed = 1
		}
		m.add("gate_failed", failed, "condition", v.Gate)
	}
	status, err := pipeline.ReadScenarioStatus(run.Lake, run.ID(), lake.BySize)
	var bytes int64
	for _, s := range status.Stages {
		bytes += s.Bytes
	}
	m.add("table_bytes", float64(bytes))
	if run.Cache != nil {
		m.add("cache_bytes", float64(run.Cache.Bytes()))
	}
	return err
}

// ingest adds the counts of an ingested workload.
func (m *metrics) ingest(r *workloads.Report) {
	m.about("workload", r.Workload)
	m.add("flows", float64(r.Flows))
	m.add("flow_bytes", float64(r.Bytes))
	m.add("rejected_rows", float64(r.Rejects))
	m.add("merged_rows", float64(r.Merged))
	m.add("new_files", float64(r.NewFiles))
}

// comparison adds the changes of percentiles.
func (m *metrics) comparison(c *whatif.Comparison) {
	m.about("scenario", c.Other.Scenario, "name", c.OtherName, "base", c.Base.Scenario, "base_name", c.BaseName)
	for _, r := range c.Rows {
		of := []string{"quantile", plainFloat(r.Quantile)}
		for i, name := range whatif.ComparisonGroups() {
			of = append(of, name, r.Group[i])
		}
		m.add("slowdown", r.Other, of...)
		m.add("slowdown_change", r.Change, of...)
		m.add("fct_seconds", r.OtherFCT/1e3, of...)
		m.add("fct_change", r.FCTChange, of...)
	}
}

// checkMetrics returns an error if the file of --metrics-file cannot be written.
func (e *env) checkMetrics() error {
	if e.metrics.file == "" {
		return nil
	}
	err := e.checkOutput("metrics-file", e.metrics.file)
	if err != nil {
		e.metrics.file = "" // nothing is written at the end
	}
	return err
}

// writeMetrics writes the file of --metrics-file atomically, so that a collector never reads half of it.
func (e *env) writeMetrics(code int) error {
	m := &e.metrics
	if m.file == "" {
		return nil
	}
	m.about()
	of := []string{"command", e.running}
	m.add("exit_code", float64(code), of...)
	m.add("seconds", time.Since(m.started).Seconds(), of...)
	m.add("peak_memory_bytes", float64(engine.PeakBytes()), of...)
	m.add("end_time_seconds", float64(time.Now().UnixMilli())/1e3, of...)
	err := e.writeOutput(context.Background(), m.file, func(w io.Writer) error {
		_, err := io.WriteString(w, m.text())
		return err
	})
	if err != nil {
		return fmt.Errorf("--metrics-file: %w", err)
	}
	return nil
}

// text returns all samples in the text format of Prometheus.
func (m *metrics) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.samples)) {
		fmt.Fprintf(&text, "# HELP parsimon_%[1]s %[2]s\n# TYPE parsimon_%[1]s gauge\n", name, metricHelp(name))
		for _, series := range slices.Sorted(maps.Keys(m.samples[name])) {
			text.WriteString(series + " " + plainFloat(m.samples[name][series]) + "\n")
		}
	}
	return text.String()
}
