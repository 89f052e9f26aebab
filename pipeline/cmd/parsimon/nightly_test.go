package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// night runs the nightly script for one day and returns its exit code.
func night(t *testing.T, day string, env ...string) int {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(nightlyDir, "nightly.sh")
	cmd := exec.CommandContext(t.Context(), "bash", script, day)
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "PARSIMON="+program, "LAKE=lake", "LOGS=.",
		"TOPOLOGY=cables.csv", "HOSTS=hosts.csv", "LABELS=labels.csv", "MAX_REJECTS=5%", "RUN_FLAGS=--passes 1"),
		env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	return cmd.ProcessState.ExitCode()
}

var nightlyDir, _ = filepath.Abs(filepath.Join("..", "..", "nightly"))

// Two nights: the second one fails a gate. Scripts read the JSON, and Prometheus the metrics.
func TestNightly(t *testing.T) {
	everyThirdDay(t, 2)
	writeTrial(t)
	if err := os.Symlink("logs", "2026-01-31"); err != nil { // as the days of a store that is mounted
		t.Fatal(err)
	}
	log, err := os.ReadFile("2026-01-31/flows.log")
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, map[string]string{"2026-02-01/flows.log": string(log[:len(log)/2])})
	code := night(t, "2026-01-31", "GATES=p99_slowdown > 1000")
	if code != exitOK {
		t.Fatalf("first night: exit %d", code)
	}
	writeFiles(t, map[string]string{"mine.sql": must(t, "ingest", "--show-mapping", "vpc")})
	if code := night(t, "2026-02-01", "MAPPING=mine.sql",
		"GATES=service=storage p99_slowdown > 1000\np999_slowdown > 1"); code != exitGate {
		t.Fatalf("second night: exit %d", code)
	}
	var result struct {
		ID          string `json:"scenario_id"`
		Variant     string `json:"variant"`
		Percentiles []struct {
			SizeBin string   `json:"size_bin"`
			Flows   *int64   `json:"flows"`
			P50     *float64 `json:"p50"`
			P90     *float64 `json:"p90"`
			P99     *float64 `json:"p99"`
			P999    *float64 `json:"p999"`
		} `json:"percentiles"`
		Seconds *float64 `json:"seconds"`
		Gates   []struct {
			Failed bool `json:"failed"`
		} `json:"gates"`
	}
	text, err := os.ReadFile("lake/run-2026-02-01.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	if len(result.ID) != 16 || result.Variant != "flow-1" || result.Seconds == nil || len(result.Gates) != 2 ||
		result.Gates[0].Failed ||
		!result.Gates[1].Failed || len(result.Percentiles) < 2 {
		t.Errorf("%s", text)
	}
	for _, p := range result.Percentiles {
		if p.SizeBin == "" || p.Flows == nil || p.P50 == nil || p.P90 == nil || p.P99 == nil || p.P999 == nil {
			t.Errorf("percentiles %+v", p)
		}
	}
	metrics, err := os.ReadFile("lake/parsimon-run.prom")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(metrics), "# TYPE parsimon_flows gauge\nparsimon_flows{job=\"parsimon-run\"} ",
		"parsimon_info{job=\"parsimon-run\",scenario=\""+result.ID+"\",name=\"2026-02-01\",variant=\"flow-1\"} 1",
		`parsimon_gate_failed{`, `parsimon_exit_code{job="parsimon-run",command="run"} 3`,
		`stage="simulate",pass="1"`, `size_bin="all",quantile="0.99"`, `from="cache"`)
	for _, line := range strings.Split(strings.TrimSpace(string(metrics)), "\n") {
		if !strings.HasPrefix(line, "# HELP parsimon_") && !strings.HasPrefix(line, "# TYPE parsimon_") &&
			!strings.HasPrefix(line, "parsimon_") {
			t.Errorf("metrics: %q", line)
		}
	}
	contains(t, must(t, "status", "--lake", "lake"), "complete  2026-01-31", "complete  2026-02-01",
		"workload day-2026-01-31")
}

// The examples parse, and name the script.
func TestNightlyExamples(t *testing.T) {
	var job struct {
		Kind string `yaml:"kind"`
		Spec struct {
			Schedule string `yaml:"schedule"`
		} `yaml:"spec"`
	}
	text, err := os.ReadFile(filepath.Join(nightlyDir, "cronjob.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Load(text, &job); err != nil || job.Kind != "CronJob" ||
		len(strings.Fields(job.Spec.Schedule)) != 5 {
		t.Errorf("%+v: %v", job, err)
	}
	for _, name := range []string{"cronjob.yaml", "airflow_dag.py", "crontab"} {
		text, err := os.ReadFile(filepath.Join(nightlyDir, name))
		if err != nil || !strings.Contains(string(text), "nightly.sh") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The examples of cron, Kubernetes and Airflow set variables that the script reads. Otherwise, a variable
// that was renamed in the script is silently ignored by the example.
func TestNightlyExamplesSetVariablesOfTheScript(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(nightlyDir, "nightly.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for name, pattern := range map[string]string{
		"crontab":        `\b([A-Z_]+)=`,
		"cronjob.yaml":   `\{name: ([A-Z_]+), value:`,
		"airflow_dag.py": `"([A-Z_]+)": "`,
	} {
		text, err := os.ReadFile(filepath.Join(nightlyDir, name))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
		if len(found) < 5 {
			t.Errorf("%s sets only %d variables", name, len(found))
		}
		for _, m := range found {
			variable := string(m[1])
			if !strings.Contains(string(script), "${"+variable+":") {
				t.Errorf("%s sets %s, which the script does not read", name, variable)
			}
		}
	}
}

// Exit code 6 of the script is success with a remark. The scheduler must not repeat the night, which would
// omit the same files. All other codes stay as they are.
func TestNightlyExamplesAndFilesLeftOut(t *testing.T) {
	var job struct {
		Spec struct {
			JobTemplate struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Command []string `yaml:"command"`
							} `yaml:"containers"`
						} `yaml:"spec"`
					} `yaml:"template"`
				} `yaml:"spec"`
			} `yaml:"jobTemplate"`
		} `yaml:"spec"`
	}
	text, err := os.ReadFile(filepath.Join(nightlyDir, "cronjob.yaml"))
	if err == nil {
		err = yaml.Load(text, &job)
	}
	if err != nil {
		t.Fatal(err)
	}
	dag, err := os.ReadFile(filepath.Join(nightlyDir, "airflow_dag.py"))
	if err != nil {
		t.Fatal(err)
	}
	_, airflow, _ := strings.Cut(string(dag), "bash_command=(")
	airflow, _, _ = strings.Cut(airflow, "\n        ),")
	airflow = strings.NewReplacer(`"`, "", "\n", "", "{{ ds }}", "2026-01-31").Replace(airflow)
	commands := map[string][]string{
		"cronjob.yaml":   job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command,
		"airflow_dag.py": {"/bin/bash", "-c", airflow},
	}
	bin := t.TempDir()
	for code, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 0} {
		script := fmt.Sprintf("#!/bin/sh\nexit %d\n", code)
		if err := os.WriteFile(filepath.Join(bin, "nightly.sh"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, command := range commands {
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // the exit code is compared
			got := cmd.ProcessState.ExitCode()
			if got != want || code == 6 && !strings.Contains(string(out), "WARNING") {
				t.Errorf("%s: exit code %d of the script becomes %d, want %d\n%s", name, code, got, want, out)
			}
		}
	}
}
