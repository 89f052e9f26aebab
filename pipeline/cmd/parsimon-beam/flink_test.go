package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// javaOpens lists the Java packages that Flink's serializers access by reflection, which Java 17 forbids by
// default. The list is that of Flink's own scripts.
var javaOpens = []string{
	"java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time",
	"java.util",
	"java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks",
}

// jobServer starts Beam's job server with Flink in the same process, on ports that the system chooses, and
// returns its address. It ends with the test.
func jobServer(t *testing.T, jars string) (endpoint string) {
	t.Helper()
	dir := t.TempDir()
	logging, err := filepath.Abs("../../../.ci/flink/log4j2.properties")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-Xmx512m", "-Djava.io.tmpdir=" + dir, "-Dlog4j2.configurationFile=" + logging,
		"--add-exports=java.base/sun.net.util=ALL-UNNAMED",
	}
	for _, name := range javaOpens {
		args = append(args, "--add-opens=java.base/"+name+"=ALL-UNNAMED")
	}
	args = append(args, "-cp", filepath.Join(jars, "*"), "org.apache.beam.runners.flink.FlinkJobServerDriver",
		"--job-host=localhost", "--job-port=0", "--artifact-port=0", "--expansion-port=0", "--artifacts-dir="+
			filepath.Join(dir, "artifacts"), "--flink-master=[local]")
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "java", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FLINK_CONF_DIR="+dir)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = os.Stderr
	if err := os.WriteFile(filepath.Join(dir, "flink-conf.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log []string // belongs to the reading goroutine until ended is closed
	listens, ended := make(chan string, 1), make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-ended
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the end of the job server's log:\n%s", strings.Join(log[max(0, len(log)-40):], "\n"))
		}
	})
	go func() {
		defer close(ended)
		started := regexp.MustCompile(`JobService started on (\S+)`)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			log = append(log, lines.Text())
			if at := started.FindStringSubmatch(lines.Text()); at != nil {
				listens <- at[1]
			}
		}
	}()
	select {
	case endpoint = <-listens:
	case <-ended:
		t.Fatal("the job server ended")
	case <-time.After(2 * time.Minute):
		t.Fatal("the job server does not say where it listens")
	}
	return endpoint
}

// A job on Flink, with its workers in this process, writes the same rows of every table as a local run, and
// then as a local sweep of two cables. With PARSIMON_LONG set, the network has 256 hosts and the number of
// passes is the default.
func TestSameRowsOnFlink(t *testing.T) {
	jars := os.Getenv("PARSIMON_FLINK")
	if jars == "" {
		t.Skip("needs Java and Flink's jars: make flink-test")
	}
	t.Setenv("TMPDIR", t.TempDir()) // Beam leaves an empty file there
	file, by := tinyScenario(t), []string{"--passes", "2", "--partitions", "4"}
	if os.Getenv("PARSIMON_LONG") != "" {
		file, by = "small", []string{"--partitions", "32"}
	}
	run, want := locally(t, file, by...)
	// These were set by the tests on Prism.
	endpoint, environment, parallelism := *jobopts.Endpoint, *jobopts.EnvironmentType, *jobopts.Parallelism
	t.Cleanup(func() {
		*jobopts.Endpoint, *jobopts.EnvironmentType, *jobopts.Parallelism = endpoint, environment, parallelism
	})
	*jobopts.Endpoint, *jobopts.EnvironmentType, *jobopts.Parallelism = jobServer(t, jars), "LOOPBACK", 2
	lake := t.TempDir()
	by = append(by, file, "--lake", lake, "--runner", "flink", "--resubmit", "0")
	if _, err := beamJob(t, by...); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "on Flink", lake, want)
	const cables = "pod0-fabric0:plane0-spine0,pod0-fabric1:plane1-spine0"
	if _, err := beamJob(t, append(by, "--fail", "each:"+cables)...); err != nil {
		t.Fatal(err)
	}
	sameRows(t, "a sweep on Flink", lake, sweptLocally(t, run, cables))
}
