package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parsimon/pipeline/cmd/measure/headline"
)

const root = "../../.."

// Every measurement has its page of results and a target of the Makefile.
func TestEveryMeasurementHasItsPage(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measurements() {
		page := filepath.Join("results", m.name+".md")
		command := "`make " + m.name + " ARGS=--write`"
		if writesPages(m.name) {
			command = "`make " + m.name // whole or short
		}
		if m.name == "paper" {
			page = "PAPER.md"
		}
		text, err := os.ReadFile(filepath.Join(root, "datasets", page))
		if err != nil || !strings.Contains(string(text), command) {
			t.Errorf("%s: %v, or does not say what writes it", page, err)
		}
		if !regexp.MustCompile(`\n` + m.name + `: (pictures )?## `).Match(makefile) {
			t.Errorf("the Makefile has no target %s", m.name)
		}
	}
}

func TestFigures(t *testing.T) {
	var of figures
	for name, x := range map[string]float64{"a": -3, "b": 1, "c": 2, "d": 0} {
		of.add(name, x)
	}
	mean, worst, name := of.magnitudes()
	if mean != 1.5 || worst != 3 || name != "a" {
		t.Errorf("mean %v, worst %v of %q", mean, worst, name)
	}
	median := of.median()
	if median != 0.5 {
		t.Errorf("median %v", median)
	}
}

// After an error nothing runs.
func TestFirstErrorStops(t *testing.T) {
	b := &bench{program: "true", shared: filepath.Join(t.TempDir(), "missing"), tmp: t.TempDir()}
	compared("95", (*bench).groundTruths, "flow")(t.Context(), b)
	if b.err == nil || !strings.Contains(b.err.Error(), "nothing to compare with") {
		t.Errorf("error %v", b.err)
	}
	if b.out.Len() != 0 {
		t.Errorf("printed %q", b.out.String())
	}
}

func TestNumbers(t *testing.T) {
	got := (percentiles{0.0004, -0.0004, 0.0135, -1}).String()
	want := "0.0% / 0.0% / +1.4% / -100.0%"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A measurement of package headline without a function, or the reverse, would never be measured.
func TestEveryFigureHasItsFunction(t *testing.T) {
	for _, m := range headline.Measurements {
		if headliners[m.Name] == nil {
			t.Errorf("measurement %s has no function", m.Name)
		}
	}
	if len(headliners) != len(headline.Measurements) {
		t.Errorf("%d functions of %d measurements", len(headliners), len(headline.Measurements))
	}
}
