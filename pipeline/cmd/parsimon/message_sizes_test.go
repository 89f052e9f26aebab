package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sizedRun is what a run prints as JSON.
type sizedRun struct {
	Services []struct {
		Service string
		P99     float64
	}
	Sizes []struct {
		Service *string
		Bytes   *int64 `json:"message_bytes"`
		P99     float64
		Third   float64 `json:"p99_third"`
		Triple  float64 `json:"p99_triple"`
		Low     float64 `json:"p99_low"`
		High    float64 `json:"p99_high"`
		Windows int64
		Share   float64 `json:"windows_share"`
	} `json:"message_sizes"`
}

// sized runs a part of the log packet by packet.
func (c connectionLog) sized(t *testing.T, name string, flags ...string) (r sizedRun) {
	t.Helper()
	args := []string{"run", "--workload", "p", "--lake", c.lake, "--name", name, "--estimator", "exact",
		"--from", "00:03:00", "--to", "00:03:04", "--format", "json"}
	out := must(t, append(args, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// withBroker adds the connection of a broker to the log.
func (c connectionLog) withBroker(t *testing.T) connectionLog {
	t.Helper()
	var records []string
	for minute := range 5 {
		records = append(records, record(40001, 9092, 30_000_000, 60*minute, 60*minute+59))
	}
	return c.withRecords(t, "p", records...)
}

// A run that assumes message sizes says what p99 would be with a third of them and with three times them. If
// it did not agree with runs that state these sizes, users would trust the wrong range. Runs of users who
// state a size have no such lines.
func TestAssumedMessageSizesAreVaried(t *testing.T) {
	everyThirdDay(t, 1)
	t.Parallel()
	c := newConnectionLog(t).withBroker(t)
	assumed := c.sized(t, "assumed")
	if len(assumed.Sizes) != 4 { // db, port 9092, web, all
		t.Fatalf("%+v", assumed.Sizes)
	}
	p99 := func(r sizedRun, service string) float64 {
		for _, s := range r.Services {
			if s.Service == service {
				return s.P99
			}
		}
		return math.NaN()
	}
	third := c.sized(t, "third", "--traffic", "*=messages:5333")
	triple := c.sized(t, "triple", "--traffic", "*=messages:48000")
	if third.Sizes != nil || triple.Sizes != nil {
		t.Errorf("sizes of runs that state them: %+v, %+v", third.Sizes, triple.Sizes)
	}
	for _, s := range assumed.Sizes {
		if s.Service == nil {
			continue
		}
		web := *s.Service == "web" // whose flows are not messages
		if web != (s.Bytes == nil) || !web && *s.Bytes != 16_000 {
			t.Errorf("service %s: assumed size %v", *s.Service, s.Bytes)
		}
		for got, want := range map[float64]float64{
			s.P99:    p99(assumed, *s.Service),
			s.Third:  p99(third, *s.Service),
			s.Triple: p99(triple, *s.Service),
		} {
			if math.Abs(got/want-1) > 0.003 { // percentiles of intervals are to within 0.1%
				t.Errorf("service %s: p99 %v, want %v of the run that states the size", *s.Service, got, want)
			}
		}
		if s.Low > s.Third || s.Low > s.P99 || s.High < s.Triple || s.High < s.P99 {
			t.Errorf("service %s: %v to %v", *s.Service, s.Low, s.High)
		}
	}
	// A damaged table is made again, with the same rows.
	files, err := filepath.Glob(filepath.Join(c.lake, "message_sizes", "*", "*", "*.parquet"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of message_sizes: %v, error %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := c.sized(t, "assumed")
	if fmt.Sprint(again.Sizes[0].High) != fmt.Sprint(assumed.Sizes[0].High) {
		t.Errorf("%+v, and %+v when it is repeated", assumed.Sizes, again.Sizes)
	}
	rows := ask(t, c.lake, "SELECT count(*), count(DISTINCT scenario) FROM message_sizes")
	if rows != "count_star(),count(DISTINCT scenario)\n12,1\n" {
		t.Errorf("rows %q", rows)
	}
	text := must(t, "run", "--workload", "p", "--lake", c.lake, "--name", "assumed", "--estimator", "exact",
		"--from", "00:03:00", "--to", "00:03:04")
	contains(t, text, "service db: 75 MB of 1 long connection are simulated as messages of 16 KB, "+
		"which is a guess", "for messages of 5.33 KB to 48 KB", "all flows p99 ", ", 100% of the flows, ")
	must(t, "report", "assumed", "--lake", c.lake, "--output", c.path("report.html"))
	page, err := os.ReadFile(c.path("report.html"))
	if err != nil || !strings.Contains(string(page), "p99 by assumed message size") {
		t.Errorf("the report has no chart of message sizes, or %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(c.lake, "_state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "windows-") {
			t.Errorf("the scenario of windows %s is left", e.Name())
		}
	}
}
