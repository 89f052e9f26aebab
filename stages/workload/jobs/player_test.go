package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Operations that begin with others, and connections of a barrier, must not each list all flows that came
// before: 6,000 of both would have 36 million dependencies, and a file of 3 MB needed 40 GB.
func TestFlowsAreLinearInTheTrace(t *testing.T) {
	const n = 2000
	var chain, fan, barrier strings.Builder
	chain.WriteString("num_ranks 1\nrank 0 {\nb0: calc 1\n")
	fan.WriteString("num_ranks 1\nrank 0 {\nb: calc 1\n")
	fmt.Fprintf(&barrier, "Nodes 2\nConnections %d\nTriggers 1\ntrigger id 1 barrier %d\n", 2*n, n)
	for i := range n {
		fmt.Fprintf(&chain, "a%d: calc 1\nb0 requires a%d\n", i, i)
		fmt.Fprintf(&fan, "a%d: calc 1\nb requires a%d\n", i, i)
		fmt.Fprintf(&barrier, "0->1 start 0 size 1 send_done_trigger 1\n0->1 trigger 1 size 1\n")
	}
	for i := range n {
		fmt.Fprintf(&chain, "b%d: calc 1\nb%d irequires b%d\n", i+1, i+1, i)
		fmt.Fprintf(&fan, "c%d: calc 1\nc%d irequires b\n", i, i)
	}
	for name, text := range map[string]string{"chain": chain.String() + "}\n", "fan": fan.String() + "}\n",
		"barrier": barrier.String()} {
		read := ReadGOAL
		if name == "barrier" {
			read = ReadHtsim
		}
		trace, err := read(strings.NewReader(text), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		flows := 0
		waits := 0
		err = trace.Flows(t.Context(), []int32{0, 1}, func(f *Flow) error {
			flows++
			waits += len(f.After)
			return nil
		})
		if err != nil || flows < 2*n || flows > 3*n || waits > 4*n {
			t.Errorf("%s: %d flows that wait for %d, from %d operations: %v", name, flows, waits, 2*n, err)
		}
	}
}

// The compute step that stands for many flows changes no time: what waits for it still waits for all of them.
func TestManyFlowsAreOneStep(t *testing.T) {
	var text strings.Builder
	text.WriteString("num_ranks 1\nrank 0 {\nb: calc 7\nc: calc 9\nc irequires b\n")
	for i := range fewFlows + 1 {
		fmt.Fprintf(&text, "a%d: calc %d\nb requires a%d\n", i, 100+i, i)
	}
	trace, err := ReadGOAL(strings.NewReader(text.String()+"}\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int64
	err = trace.Flows(t.Context(), []int32{0}, func(f *Flow) error {
		begin := f.StartNS
		for _, of := range f.After {
			begin = max(begin, ends[of])
		}
		ends = append(ends, begin+f.DelayNS)
		return nil
	})
	last := int64(100 + fewFlows)
	n := len(ends)
	if err != nil || n != fewFlows+4 || ends[n-2]+ends[n-1] != 2*last+7+9 {
		t.Errorf("%d flows, the last end at %v, want %d and %d ns: %v", n, ends[max(0, n-2):], last+7, last+9, err)
	}
}

// convert stops when its context ends, and a trace that is too large is refused before it fills the memory.
func TestTraceEndsEarly(t *testing.T) {
	trace, err := ReadGOAL(strings.NewReader(goal0), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := trace.Flows(ctx, []int32{1}, func(*Flow) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	many := "num_ranks 1\nrank 0 {\n" + strings.Repeat("calc 1\n", 2000) + "}\n"
	if _, err := ReadGOAL(strings.NewReader(many), 1<<20); !errors.Is(err, ErrMemory) {
		t.Errorf("2,000 operations in 1 MiB: %v", err)
	}
	if _, err := ReadGOAL(strings.NewReader(many), 2<<20); err != nil {
		t.Errorf("2,000 operations in 2 MiB: %v", err)
	}
}
