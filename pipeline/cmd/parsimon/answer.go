package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/pipeline/workloads"
	"parsimon/queries"
	"parsimon/schema"
)

// forms are those of answers whose text for people has a table.
var forms = []string{"text", "csv", "json"}

// declareForm declares --format: the first form is the default. text and table are for people, csv is the first table
// of these, and json is the value that the answer is made of.
func (e *env) declareForm(f *pflag.FlagSet, forms ...string) {
	choose(f, &e.form, "format", "form of the answer: %s", forms...)
}

// write writes an answer: value for scripts, people for people.
func (e *env) write(value any, people *text.Answer) error {
	if e.form != "json" {
		return people.Write(e.stdout, e.form)
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false) // "<10 KB" is no HTML
	return enc.Encode(value)
}

// judged writes an answer and then reports gates that failed. Gates that cannot be judged are an error without an
// answer.
func (e *env) judged(value any, people *text.Answer, verdict error) error {
	if verdict != nil && !errors.As(verdict, new(*gate.Error)) {
		return verdict
	}
	return errors.Join(e.write(value, people), verdict)
}

// declareGates declares --fail-if. Conditions on changes need a base.
func (e *env) declareGates(f *pflag.FlagSet, base bool) {
	example := "'service=storage p99_slowdown > 5', 'link=leaf1:spine1 load > 80%'"
	if base {
		example += " or 'p99_change > 10%'"
	}
	parseEach(f, &e.gates, func(condition string) (gate.Gate, error) {
		g, err := gate.Parse(condition)
		if err == nil && g.Change && !base {
			err = errors.New("a change needs a base, which what-if and compare have")
		}
		return g, err
	}, "fail-if", "exit with 3 if a condition is true, such as "+example+"; may be repeated. Selects flows by "+
		strings.Join(gate.Columns(), ", ")+", the most loaded link by link or tier")
}

// metrics are what --metrics-file gets when a command ends, in Prometheus' text format, as the textfile collector of
// node_exporter reads it. Every metric is a gauge about the last command.
type metrics struct {
	file    string
	job     string                        // a label of all
	samples map[string]map[string]float64 // by the name of the metric and by series
	started time.Time
}

// metricHelp says what a metric is: its line of topic metrics of the manual.
func metricHelp(name string) string {
	_, help, _ := strings.Cut(page("topic-metric"), "\n  parsimon_"+name+" ")
	help, _, _ = strings.Cut(help, "\n")
	return strings.TrimSpace(help)
}

func (m *metrics) declare(f *pflag.FlagSet) {
	f.StringVar(&m.file, "metrics-file", "", "write metrics of this command to a file when it ends, in Prometheus' "+
		"text format (textfile collector of node_exporter)")
}

// add adds one sample. labels are names and values in turn. The first of samples with equal labels counts: collectors
// refuse a file with both.
func (m *metrics) add(name string, value float64, labels ...string) {
	if m.file == "" {
		return
	}
	if m.samples == nil {
		m.samples = map[string]map[string]float64{}
	}
	if m.samples[name] == nil {
		m.samples[name] = map[string]float64{}
	}
	text, escape := "", strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	for label := range slices.Chunk(append([]string{"job", m.job}, labels...), 2) {
		text += "," + label[0] + `="` + escape.Replace(label[1]) + `"`
	}
	series := fmt.Sprintf("parsimon_%s{%s}", name, text[1:])
	if _, known := m.samples[name][series]; !known {
		m.samples[name][series] = value
	}
}

func plainFloat(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// about says what the metrics that follow are about, in the labels of one metric, info. The others have label job only
// and what they are of: their labels stay the same when the next night's scenario has another id and name. The job is
// the name of the file, which distinguishes the metrics of several files.
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
			if ms := []*float64{p.P50FCT, nil, p.P99FCT, nil}[i]; ms != nil {
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
	status, err := pipeline.ReadScenarioStatus(run.Lake, run.ID(), false)
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
	m.about()
	of := []string{"command", command}
	m.add("exit_code", float64(code), of...)
	m.add("seconds", time.Since(m.started).Seconds(), of...)
	m.add("peak_memory_bytes", float64(engine.PeakBytes()), of...)
	m.add("end_time_seconds", float64(time.Now().UnixMilli())/1e3, of...)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.samples)) {
		fmt.Fprintf(&text, "# HELP parsimon_%[1]s %[2]s\n# TYPE parsimon_%[1]s gauge\n", name, metricHelp(name))
		for _, series := range slices.Sorted(maps.Keys(m.samples[name])) {
			text.WriteString(series + " " + plainFloat(m.samples[name][series]) + "\n")
		}
	}
	err := writeOutput(m.file, func(w io.Writer) error { _, err := io.WriteString(w, text.String()); return err })
	if err != nil {
		return fmt.Errorf("--metrics-file: %w", err)
	}
	return nil
}

// checkOutput returns an error if a file that a flag names cannot be written: commands check before they begin to work.
// A pipe is not opened: its reader would see the end of the file.
func checkOutput(flag, path string) error {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil
	}
	f, err := openOutput(path, 0)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return f.abandon()
}

// writeOutput writes a file that a flag names. A regular file is there whole or not at all. What is no regular file (a
// device, a pipe, a link) is written to, and stays what it is.
func writeOutput(path string, write func(io.Writer) error) error {
	f, err := openOutput(path, os.O_TRUNC)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	if err = write(buffered); err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return errors.Join(err, f.abandon())
	}
	return f.commit()
}

// An output is a file that is being written.
type output struct {
	*os.File
	// pending replaces the file at path when it is complete; nil: File is written in place.
	pending *renameio.PendingFile
	path    string
}

// openOutput begins a file. It refuses directories and what belongs to a lake. What is no regular file is opened with
// flag; /dev/stdout is this process's standard output, at its present end.
func openOutput(path string, flag int) (*output, error) {
	if err := notOfLake(path); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		there, err := os.Stat(path)
		if out, outErr := os.Stdout.Stat(); errors.Join(err, outErr) == nil && os.SameFile(there, out) {
			return &output{File: os.Stdout}, nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o644)
		return &output{File: f}, err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithPermissions(0o666), renameio.WithExistingPermissions()) // less the umask; or those of before
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &output{File: f.File, pending: f, path: path}, nil
}

func (o *output) commit() error {
	if o.pending == nil {
		return o.abandon()
	}
	if err := o.pending.CloseAtomicallyReplace(); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", o.path, err), o.pending.Cleanup())
	}
	return nil
}

// abandon closes the file, and removes it unless it is written in place.
func (o *output) abandon() error {
	switch {
	case o.File == os.Stdout:
		return nil
	case o.pending == nil:
		return o.Close()
	}
	return o.pending.Cleanup()
}

// notOfLake returns an error for a path of a file or directory that is a lake's own: one in a directory of a lake, or
// the database of its views. Other files may stand beside these, such as metrics.
func notOfLake(path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(full); err == nil {
		full = target
	} else if target, isLink := os.Readlink(full); isLink == nil && errors.Is(err, fs.ErrNotExist) { // to nothing yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(full), target)
		}
		return notOfLake(target)
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
		full = filepath.Join(dir, filepath.Base(full))
	}
	for dir := filepath.Dir(full); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(filepath.Join(dir, "_state")); err == nil && info.IsDir() {
			first, _, below := strings.Cut(strings.TrimPrefix(full, dir+string(filepath.Separator)), string(filepath.Separator))
			isTable := slices.ContainsFunc(schema.Tables(), func(t schema.Table) bool { return t.Name == first })
			if below || isTable || strings.HasPrefix(first, queries.CatalogFile) || strings.HasPrefix(first, "_") {
				return fmt.Errorf("%s belongs to the lake %s: name another file", path, dir)
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
