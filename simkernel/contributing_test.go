package simkernel_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parsimon/simkernel"
)

// Without this test the example in CONTRIBUTING.md could stop compiling, or a registered transport could be
// ignored by the tests of one simulator. It adds the example's file and its line of the registry to the
// package by an overlay, and runs the tests that must know every transport, of both simulators, for the new
// one.
func TestContributingAddsATransport(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles both simulators: make test runs it")
	}
	page, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```go\n(package simkernel\n.*?)```").FindSubmatch(page)
	line := regexp.MustCompile("```go\n\t(AIMD: +&aimdSpec,)\n```").FindSubmatch(page)
	if example == nil || line == nil {
		t.Fatal("CONTRIBUTING.md has no example of a transport with its line of the registry")
	}
	registry, err := os.ReadFile("transport.go")
	if err != nil {
		t.Fatal(err)
	}
	const head = "var registry = [...]*transportSpec{\n"
	if !strings.Contains(string(registry), head) {
		t.Fatalf("transport.go has no line %q", head)
	}
	added := strings.Replace(string(registry), head, head+"\t"+string(line[1])+"\n", 1)
	// The number that the page shows may have been taken by a transport that was added since.
	number := regexp.MustCompile(`(const AIMD Transport = )\d+`)
	file := number.ReplaceAllString(string(example[1]), fmt.Sprintf("${1}%d", len(simkernel.Transports())))
	overlay := writeOverlay(t, map[string]string{"aimd.go": file, "transport.go": added})
	const tests = "^(TestRegistry|TestIdentity|TestKernelAgreesWithTwin|TestNetworkAgreesWithTwin)$/^(aimd)?$"
	run := exec.Command("go", "test", "-vet=off", "-short", "-v", "-overlay", overlay, "-run", tests,
		".", "./linkcase", "./network")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", run, err, lastLines(out, 30))
	}
	for _, passed := range []string{"TestRegistry", "TestKernelAgreesWithTwin/aimd",
		"TestNetworkAgreesWithTwin/aimd"} {
		if !strings.Contains(string(out), "--- PASS: "+passed+" ") {
			t.Errorf("%s did not run:\n%s", passed, lastLines(out, 30))
		}
	}
}

// writeOverlay writes files of this package to a temporary directory and returns the file for the flag
// -overlay.
func writeOverlay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{}
	for name, text := range files {
		replaced[filepath.Join(here, name)] = writeFile(t, dir, name, []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, dir, "overlay.json", overlay)
}

func writeFile(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func lastLines(text []byte, count int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
