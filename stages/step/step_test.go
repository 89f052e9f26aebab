package step

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/simkernel/network"
)

// Tasks that run one after the other share memory. A task that runs at the same time has its own. The memory
// of a failed task is not reused.
func TestMemoryOfTasks(t *testing.T) {
	made := 0
	newMemory := func() (*int, error) { made++; return new(int), nil }
	var inner func()
	fail := errors.New("the task fails")
	work := WithMemory(newMemory, func(_ context.Context, uses *int, _ Task) error {
		*uses++
		do := inner
		if do != nil {
			inner = nil
			do()
		}
		if *uses == 3 {
			return fail
		}
		return nil
	})
	run := func(want error) {
		t.Helper()
		if err := work(t.Context(), nil); !errors.Is(err, want) {
			t.Fatalf("error %v, want %v", err, want)
		}
	}
	run(nil)
	run(nil)
	if made != 1 {
		t.Errorf("two tasks in order use %d pieces of memory", made)
	}
	inner = func() { run(nil) }
	run(fail)
	if made != 2 {
		t.Errorf("a task within another shares its memory: %d pieces", made)
	}
	run(nil)
	if made != 2 {
		t.Errorf("memory of the task that succeeded is not used again: %d pieces", made)
	}
	broken := WithMemory(func() (int, error) { return 0, fail },
		func(context.Context, int, Task) error { return nil })
	if err := broken(t.Context(), nil); !errors.Is(err, fail) {
		t.Errorf("error %v", err)
	}
}

// A plan states the owner of each step, so that estimates share the output of steps of the same estimator.
// Without a number of passes, the estimator's default applies, and the owner states it.
func TestOwnersOfAPlan(t *testing.T) {
	flows := &Step{Name: "generate"}
	shared := &Owner{Estimator: "other"}
	var passes int
	e := Estimator{Name: "mine", Passes: 2, Steps: func(_ *Model, o Options, from *Step) []*Step {
		passes = o.Passes
		if from != flows {
			t.Error("the steps do not get the flows")
		}
		return []*Step{{Name: "a"}, {Name: "b", Owner: shared}}
	}}
	for asked, want := range map[int]int{0: 2, 1: 1, 3: 3} {
		steps := e.Plan(&Model{}, Options{Passes: asked}, flows)
		if passes != want || !reflect.DeepEqual(*steps[0].Owner, Owner{"mine", Options{Passes: want}}) ||
			steps[1].Owner != shared {
			t.Errorf("%d passes: %d, owners %+v and %+v", asked, passes, steps[0].Owner, steps[1].Owner)
		}
	}
}

// A step writes the tables that it names, and no others.
func TestWritesTable(t *testing.T) {
	s := &Step{Writes: []schema.Table{schema.Hops, schema.LinkLoads}}
	if !s.WritesTable(schema.Hops) || !s.WritesTable(schema.LinkLoads) || s.WritesTable(schema.Flows) {
		t.Error("WritesTable names other tables")
	}
	o := s.Output(schema.Hops)
	if o.Step != s || o.Table.Name != "hops" {
		t.Errorf("output %+v", o)
	}
}

// Every port has a queue 0 for flows that no class names. Its weight is the lowest if others have weights.
func TestQueueOfOtherFlows(t *testing.T) {
	class := func(name string, queue int, weight float64, services ...string) TrafficClass {
		return TrafficClass{Name: name, Queue: queue, Services: services,
			Class: network.Class{Weight: int64(weight)}}
	}
	for _, c := range []struct {
		name    string
		classes []TrafficClass
		want    []TrafficClass
	}{
		{"none", nil, nil},
		{"priorities", []TrafficClass{class("b", 2, 0, "y"), class("a", 1, 0, "x")},
			[]TrafficClass{class("default", 0, 0), class("a", 1, 0, "x"), class("b", 2, 0, "y")}},
		{"weights", []TrafficClass{class("b", 1, 1, "y")},
			[]TrafficClass{class("default", 0, 1), class("b", 1, 1, "y")}},
		{"one of its own", []TrafficClass{class("b", 1, 9, "y"), class("mine", 0, 3)},
			[]TrafficClass{class("mine", 0, 3), class("b", 1, 9, "y")}},
	} {
		given := slices.Clone(c.classes)
		got, err := SettleClasses(c.classes)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
		if !reflect.DeepEqual(given, c.classes) {
			t.Errorf("%s: the argument changes", c.name)
		}
	}
}

// If a flow could belong to two classes, its queue would depend on their order.
func TestClassesShareNothing(t *testing.T) {
	for want, classes := range map[string][]TrafficClass{
		"the class of queue 3 has an empty name":            {{Queue: 3, DSCP: []int16{8}}},
		"class a of queue 1 has no services, vnets or dscp": {{Name: "a", Queue: 1}},
		"classes a and A both have name a":                  {{Name: "a"}, {Name: "A", Queue: 1, DSCP: []int16{8}}},
		"classes a and b both have queue 1": {{Name: "a", Queue: 1, DSCP: []int16{8}},
			{Name: "b", Queue: 1, DSCP: []int16{9}}},
		"classes a and b both have service web": {{Name: "a", Services: []string{"web"}},
			{Name: "b", Queue: 1, Services: []string{"x", "web"}}},
		"classes a and b both have virtual network v": {{Name: "a", VNets: []string{"v"}},
			{Name: "b", Queue: 1, VNets: []string{"v"}}},
		"classes a and b both have dscp 8": {{Name: "a", DSCP: []int16{8}},
			{Name: "b", Queue: 1, DSCP: []int16{8}}},
		"classes a and a both have dscp 8": {{Name: "a", DSCP: []int16{8, 8}}},
	} {
		_, err := SettleClasses(classes)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	same := []TrafficClass{{Name: "web", Services: []string{"web"}},
		{Name: "x", Queue: 1, VNets: []string{"web"}, DSCP: []int16{0}}}
	if _, err := SettleClasses(same); err != nil {
		t.Errorf("names of different kinds: %v", err)
	}
}

// A copied table is divided like the original. If Copy read another task's part, links would have the
// statistics of others.
func TestCopyIsDividedLikeTheOriginal(t *testing.T) {
	of := (&Step{Name: "simulate", Writes: []schema.Table{schema.LinkStats}}).Output(schema.LinkStats)
	c := Copy("links", of)
	if c.Cut.By != LikeStep || c.Cut.Of.Step != of.Step || len(c.Reads) != 1 || c.Reads[0].Step != of.Step ||
		!c.WritesTable(schema.LinkStats) {
		t.Errorf("%+v", c)
	}
}
