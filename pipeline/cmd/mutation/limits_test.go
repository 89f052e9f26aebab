package main

import (
	"context"
	"testing"
	"time"
)

// On a busy machine, tests take several times as long. If that ended them, their mutants would count as
// killed although no test fails: only processor time may kill.
func TestOnlyProcessorTimeKills(t *testing.T) {
	l := limits{processor: time.Second, wall: time.Minute}
	for script, want := range map[string]verdict{
		"while :; do :; done": killed,
		"exit 1":              killed,
		"exit 0":              alive,
	} {
		test := l.command(context.Background(), "sh", "-c", script)
		v, err := l.verdict(test, test.Run())
		if err != nil || v != want {
			t.Errorf("%s: %v, %v, want %v", script, v, err, want)
		}
	}
	waits, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	test := l.command(waits, "sleep", "60")
	v, err := l.verdict(test, test.Run())
	if err != nil || v != undecided {
		t.Errorf("tests that wait: %v, %v, want no verdict", v, err)
	}
}
