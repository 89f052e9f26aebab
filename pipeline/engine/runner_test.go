package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"parsimon/pipeline/lake"
)

// A program that assigns tasks plans a step, runs its tasks on any machine and in any order, possibly several
// times each, and finishes the step. At the end, nothing is left to do unless a task is lost.
func TestTaskRunner(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	l := session.Lake
	session.Close()
	r := NewTaskRunner(l, lake.Of(toyScenario), toy.plan, settings())
	ctx := t.Context()
	release, err := r.Hold(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(ctx, lake.Of(toyScenario)); !errors.Is(err, lake.ErrBusy) {
		t.Errorf("alone beside a job: %v", err)
	}
	got := fmt.Sprint(r.Steps())
	if got != "[numbers squares sums]" {
		t.Errorf("steps %s", got)
	}
	if _, err := r.Plan(ctx, "sums"); err == nil || !strings.Contains(err.Error(), "stage squares") {
		t.Errorf("the last step before the first: %v", err)
	}
	if _, err := r.Plan(ctx, "nothing"); err == nil || !strings.Contains(err.Error(), "no step nothing") {
		t.Errorf("no such step: %v", err)
	}
	// do runs all tasks twice, at once, and returns the number of tasks of each step.
	do := func() (counts []int) {
		t.Helper()
		for _, s := range r.Steps() {
			todo, err := r.Plan(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, len(todo))
			var wg sync.WaitGroup
			errs := make([]error, 2*len(todo))
			for i, n := range append(todo, todo...) {
				wg.Go(func() { errs[i] = r.Do(ctx, s, n) })
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			if err := r.Do(ctx, s, 99); err != nil { // a task of another layout, which is not needed
				t.Errorf("%s: %v", s, err)
			}
			if err := r.Finish(ctx, s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		toy.check(t, l)
		n := files(t, l, toy.squares)
		if n != 0 {
			t.Errorf("%d files of squares stay", n)
		}
		if done, err := r.Complete(ctx); err != nil || !done {
			t.Errorf("complete %v, %v", done, err)
		}
		return counts
	}
	counts := do()
	if !slices.Equal(counts, []int{toyTasks, toyTasks, toySums}) {
		t.Errorf("tasks %v", counts)
	}
	if counts := do(); !slices.Equal(counts, []int{0, 0, 0}) {
		t.Errorf("again: tasks %v", counts)
	}
	for what, lose := range map[string]func(){
		"a record": func() {
			if err := os.Remove(filepath.Join(l.Path(), toy.sums.StatePath(recordName(1)))); err != nil {
				t.Fatal(err)
			}
		},
		"a file": func() { spoil(t, l, toy.sums, 1) },
	} {
		lose()
		if done, err := r.Complete(ctx); err != nil || done {
			t.Errorf("%s is lost: complete %v, %v", what, done, err)
		}
		counts := do()
		if !slices.Equal(counts, []int{0, toyTasks, 1}) {
			t.Errorf("%s was lost: tasks %v", what, counts)
		}
	}
	release()
	if alone, err := l.Lock(ctx, lake.Of(toyScenario)); err != nil {
		t.Error(err)
	} else {
		alone.Close()
	}
}

// Finish rejects results that the settings reject.
func TestTaskRunnerChecks(t *testing.T) {
	session := toyLake(t)
	toy := newToy(toyScenario)
	session.Close()
	toy.numbers.Check = func(Records) error { return errors.New("odd numbers") }
	r := NewTaskRunner(session.Lake, lake.Of(toyScenario), toy.plan, settings())
	step := "numbers"
	todo, err := r.Plan(t.Context(), step)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range todo {
		// Then the stage is complete.
		if err := r.Do(t.Context(), step, n); (err != nil) != (i == len(todo)-1) {
			t.Errorf("task %d: %v", n, err)
		}
	}
	if err := r.Finish(t.Context(), step); err == nil || !strings.Contains(err.Error(), "odd numbers") {
		t.Errorf("%v", err)
	}
}
