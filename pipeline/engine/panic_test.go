package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A panic of a task becomes an error that names stage, task and tables. Committed files of other tasks stay.
// Otherwise, an unforeseen row in a lake from an untrusted source would end the process with a stack trace.
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

// A panic in a part of a task that runs in a separate goroutine, such as a link case, is an error of the
// task, too. Otherwise, it ends the process.
func TestPanicOfAPartOfATaskIsAnError(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.do = func(stage string, n int) error {
		if stage != "squares" || n != 2 {
			return nil
		}
		return Parallel(t.Context(), 2, 3, func(_ context.Context, i int) error {
			_ = []int{7, 8}[i]
			return nil
		})
	}
	err := New(session, settings()).Run(t.Context(), toy.plan)
	var panicked *PanicError
	if !errors.As(err, &panicked) || !strings.Contains(string(panicked.Stack), "TestPanicOfAPart") {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{"stage squares, task 3 of 5", "table sender_fcts", "index out of range"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
}

// Panics of a stage's Open and Cut, which also read tables, become errors, too.
func TestPanicOfOpenIsAnError(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	toy.squares.Open = func(*Inputs) (Worker, error) { panic("no such link") }
	err := New(session, settings()).Run(t.Context(), toy.plan)
	if err == nil || !strings.Contains(err.Error(), "stage squares: ") ||
		!strings.Contains(err.Error(), "no such link") {
		t.Errorf("error %v", err)
	}
}
