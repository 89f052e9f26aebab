package report_test

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/report"
	"parsimon/pipeline/scenario"
	"parsimon/queries/duckdb"
	"parsimon/stages/estimators"
)

const lossy = `
name: lossy
topology: {name: parking-lot}
workload:
  max_load: 70%
  duration: 2ms
  services:
    - {name: main, pairs: ["zero:six"], sizes: 100KB, arrivals: poisson}
    - {name: five, pairs: ["five:six"], sizes: 100KB, arrivals: poisson}
transport: {window: 44KB}
switches: {buffer: 40KB, classes: [{name: fast, queue: 4, services: [five]}]}
events: ["middle:right loss 1e-2 500us..1ms"]
`

const jobs = `
name: jobs
topology: {name: parking-lot}
workload:
  jobs:
    - {name: gather, ranks: 4, iterations: 3, steps: [{compute: 100us}, {collective: all-to-all, size: 2MB}]}
`

// page returns the report of a scenario file, made with estimator exact.
func page(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "scenario.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.Begin(t.Context(), filepath.Join(dir, "lake"), s,
		pipeline.Variant{Estimator: estimators.Exact}, pipeline.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Estimate(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := catalog.Options(e.Lake, duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := report.Options{Estimate: report.Estimate{Scenario: string(e.ID()), Variant: e.Variant().Stored()},
		Query: files}
	if err := report.Write(t.Context(), &out, e.Lake.Path(), o); err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(out.String())
}

// Classes, jobs, drops, retransmissions and events have sections if a scenario has them, and otherwise no
// section.
func TestSectionsOfWhatHappened(t *testing.T) {
	lost := page(t, lossy)
	job := page(t, jobs)
	for _, want := range []string{`<section id="classes"`, "<td>fast</td><td>4</td>", `<section id="lost"`,
		"packets dropped", "<td>right → six</td><td>switch-host</td>",
		`<section id="resent"`, `<section id="events"`, "<td>during</td>"} {
		if !strings.Contains(lost, want) || strings.Contains(job, want) {
			t.Errorf("drops and an event should have %s, a job alone should not", want)
		}
	}
	for _, want := range []string{`<section id="jobs"`, "completion of the last job",
		"<td>gather</td><td>2</td>", "<td>gather</td><td>compute</td>", `data-chart="job_gantt"`} {
		if strings.Contains(lost, want) || !strings.Contains(job, want) {
			t.Errorf("a job should have %s, drops and an event alone should not", want)
		}
	}
}
