package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A schedule becomes a flow file that run accepts: rank 0 sends after it has computed, and rank 1 answers.
func TestConvert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"ring.goal": "num_ranks 2\nrank 0 {\na: calc 50000\nb: send 4000b to 1\nb requires a\nrecv 8b from 1\n}\n" +
			"rank 1 {\nc: recv 4000b from 0\nd: send 8b to 0\nd requires c\n}\n",
		"wide.goal":     "num_ranks 60000\n",
		"flows.csv.csv": "a,b\n", "x.0.et": "\x00", "x.2.et": "\x00", "other.txt": "",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := must(t, "convert", at("ring.goal"), "--topology", "parking-lot", "-o", at("flows.csv"))
	if !strings.Contains(out, "3 flows of 2 ranks") {
		t.Error(out)
	}
	out = must(t, "run", "--topology", "parking-lot", "--flows", at("flows.csv"), "--lake", at("lake"),
		"--format", "json")
	// 50 µs, 4 KB, 8 B
	if !strings.Contains(out, `"completion_ns": 55`) || !strings.Contains(out, `"name": "ring"`) {
		t.Error(out)
	}
	for want, args := range map[string][]string{
		"60000 ranks, but the topology has":   {at("wide.goal")},
		"line 1: 0 columns are named flow_id": {at("flows.csv.csv")},
		"no trace of rank 1":                  {at("x.0.et")},
		"does not end in .goal":               {at("other.txt")},
		"no such file":                        {at("none.cm")},
	} {
		mustFail(t, failure{exitFailed, want,
			append([]string{"convert", "--topology", "parking-lot", "-o", at("no.csv")}, args...)})
	}
	if _, err := os.Stat(at("no.csv")); err == nil {
		t.Error("a failed conversion leaves a file")
	}
}

// A lateContext ends after some checks.
type lateContext struct {
	context.Context
	left int
}

// Err implements context.Context.
func (c *lateContext) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// An interruption while a trace is read is reported as one. Otherwise the line that it cuts would be reported
// as a fault of the file, with exit code 1.
func TestInterruptedConversion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.goal")
	text := "num_ranks 1\nrank 0 {\n" + strings.Repeat("calc 1\n", 100_000) + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := readTrace(&lateContext{t.Context(), 3}, file, 1<<30)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
