package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// trapNamed returns the trap with the given name.
func trapNamed(t *testing.T, name string) trap {
	t.Helper()
	for _, a := range traps {
		if a.name == name {
			return a
		}
	}
	t.Fatalf("no trap %q", name)
	return trap{}
}

// Commands that find a problem in a lake report it with an exit code, and name the file or the version.
func TestTrapsAreNamed(t *testing.T) {
	t.Parallel()
	status := []string{"status", "--lake", "lake"}
	for _, c := range []struct {
		trap string
		args []string
		exit int
		want string // expected in the output of the command
	}{
		{"record copied over another", status, 0, "simulate (flow-1)        partial      3 of    4 tasks"},
		{"spec that is a pipe", status, 5, "spec.json: not a regular file"},
		{"manifest of another schema version", status, 1, "this program reads versions"},
		{"manifest of another schema version", runOf("tiny.yaml"), 1, "this program reads versions"},
		{"workload of another schema version", ingestOf("day0.log", "day1.log"), 1, "this program reads versions"},
		{"workload of another schema version", status, 5, "this program reads versions"},
	} {
		w := newWorld(t)
		spec, err := w.one("_state/scenario=*/spec.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := trapNamed(t, c.trap).set(w, filepath.Dir(spec)); err != nil {
			t.Fatalf("%s: %v", c.trap, err)
		}
		out, err := w.output(nil, c.args...)
		code := 0
		exit := (*exec.ExitError)(nil)
		if errors.As(err, &exit) {
			code, out = exit.ExitCode(), out+err.Error()
		}
		if code != c.exit || !strings.Contains(out, c.want) {
			t.Errorf("%s, %s: exit %d, want %d and %q:\n%s", c.trap, c.args[0], code, c.exit, c.want, out)
		}
	}
}

// The content of a trace cannot send control sequences to a terminal.
func TestTraceWithEscapes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text, err := os.ReadFile(w.path("day1.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, escape := range []string{"\x1b]0;x\a", "\u009b2J"} {
		bad := "2 1 eni" + escape + " 10.0.0.1" + escape + " 10.0.0.2 1 443 6 10 5000 x" + escape +
			" 1769817601 ACCEPT OK\n"
		name := "day" + escape + ".log"
		if err := os.WriteFile(w.path(name), append(text, bad...), 0o644); err != nil {
			t.Fatal(err)
		}
		args := append(ingestOf(name), "--max-rejects", "10%")
		c, err := w.command(t.Context(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.CombinedOutput()
		if err != nil || strings.ContainsAny(string(out), "\x1b\a\u009b") ||
			!strings.Contains(string(out), "rejected") {
			t.Errorf("%q, %v", out, err)
		}
		if err := w.ends([]string{"status", "--lake", "lake"}); err != nil {
			t.Error(err)
		}
	}
}
