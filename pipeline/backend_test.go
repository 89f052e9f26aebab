package pipeline

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parsimon/pipeline/internal/fixture"
	"parsimon/pipeline/internal/rows"
	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/stages"
	"parsimon/stages/ns3"
)

// Link cases of another program belong to a variant of their own, beside the link kernel's. Where it
// fails, the error names the case and nothing is lost: without the failure, the run continues with the cases
// that are left, and without the program a run that is done can still be opened.
func TestLinkBackend(t *testing.T) {
	topology, flows := fixture.Trace(t, 1500)
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "ns3")
	const answer = `awk 'NR > 1 { print $1, "a", "b", 1, 2, $6, 0, 1000000000 + $6, 1 }' flows.txt > fct.txt` + "\n"
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := paperScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	o := options{Lake: dir, Variant: Variant{Backend: stages.NS3Backend}, Cache: lake.CachePath(dir), Workers: 2}
	attempt := func() (*Estimation, error) {
		settings, done, err := o.settings()
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		settings.NS3 = &ns3.Simulator{Path: program}
		run, err := Begin(t.Context(), dir, s, o.Variant, settings)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		return run, run.Estimate(t.Context())
	}
	named := regexp.MustCompile(`link \d+ \(\S+ → \S+\): ns-3`)

	if _, err := attempt(); err == nil || !named.MatchString(err.Error()) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no program: %v", err)
	}
	// One that fails from its sixth case on, unless there is a file beside it.
	count := program + ".count"
	if err := os.WriteFile(count, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	write(`if [ "$(wc -l < "` + count + `")" -ge 5 ] && [ ! -e "` + program + `.able" ]; then echo "too hard" >&2; exit 7; fi; echo >> "` + count + `"` + "\n" + answer)
	if _, err := attempt(); err == nil || !named.MatchString(err.Error()) || !strings.Contains(err.Error(), `exit status 7`) || !strings.Contains(err.Error(), "too hard") {
		t.Errorf("a program that fails: %v", err)
	}
	first := lineCount(t, count)
	if err := os.WriteFile(program+".able", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run, err := attempt()
	if err != nil {
		t.Fatal(err)
	}
	if run.Variant().String() != "independent-ns3" {
		t.Errorf("variant %s", run.Variant())
	}
	if all, links := lineCount(t, count), len(run.Network.Links); first == 0 || all > links {
		t.Errorf("%d cases ran before the failure was repaired, %d in all, of %d links", first, all, links)
	}
	answers := rows.Text(t, dir, schema.HopDelays, run.ID(), "independent-ns3")
	if !strings.Contains(answers, "10000") {
		t.Errorf("FCTs are not the program's:\n%.300s", answers)
	}
	estimate(t, topology, flows, options{Lake: dir})
	if own := rows.Text(t, dir, schema.HopDelays, run.ID(), "independent"); own == answers {
		t.Error("the link kernel's answers are the program's")
	}
	if again := rows.Text(t, dir, schema.HopDelays, run.ID(), "independent-ns3"); again != answers {
		t.Error("the link kernel's run changed the program's answers")
	}

	ran := lineCount(t, count)
	if err := os.Rename(program, program+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := attempt(); err != nil {
		t.Errorf("all is done, but without the program: %v", err)
	}
	if lineCount(t, count) != ran {
		t.Error("cases ran again")
	}
	// Another build: its answers are its own.
	write(strings.ReplaceAll(answer, "1000000000", "2000000000"))
	if run, err = attempt(); err != nil {
		t.Fatal(err)
	}
	if again := rows.Text(t, dir, schema.HopDelays, run.ID(), "independent-ns3"); again == answers {
		t.Error("another program's answers are the first one's")
	}
	if left, err := filepath.Glob(filepath.Join(dir, "_tmp", "*", "ns3-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func lineCount(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// Estimator flow cannot go by what ns-3 answers.
func TestLinkBackendOfFlow(t *testing.T) {
	topology, flows := fixture.Trace(t, 10)
	s, err := paperScenario(topology, flows)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Begin(t.Context(), t.TempDir(), s, Variant{Estimator: stages.Flow, Backend: stages.NS3Backend}, Settings{})
	if err == nil || !strings.Contains(err.Error(), "the wait of each packet") {
		t.Errorf("estimator flow with ns-3: %v", err)
	}
}
