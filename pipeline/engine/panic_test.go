package engine

import (
	"errors"
	"strings"
	"testing"
)

// A panic of a task is an error with stage, task and tables, and what other tasks have committed stays. A row of a
// stranger's lake that no check foresees would otherwise end the process with a stack trace.
func TestPanicOfATaskIsAnError(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.do = func(stage string, n int) error {
		if stage == "squares" && n == 2 {
			_ = []int{}[n]
		}
		return nil
	}
	err := New(session, settings()).Run(t.Context(), toy.plan)
	var panicked *PanicError
	if !errors.As(err, &panicked) || len(panicked.Stack) == 0 {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"stage squares, task 3 of 5", "table sender_fcts", "index out of range"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	toy.do = nil
	if err := New(session, settings()).Run(t.Context(), toy.plan); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

// Open and Cut of a stage read tables, too.
func TestPanicOfOpenIsAnError(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.squares.Open = func(*Inputs) (Worker, error) { panic("no such link") }
	err := New(session, settings()).Run(t.Context(), toy.plan)
	if err == nil || !strings.Contains(err.Error(), "stage squares: ") || !strings.Contains(err.Error(), "no such link") {
		t.Errorf("error %v", err)
	}
}
