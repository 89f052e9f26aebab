package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/rs/zerolog"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
)

// This plan has one stage with three tasks. A second run finds them complete. A stage that reads and writes
// tables lists them in Reads and Writes, and its workers use t.Read and t.Sink.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	l, err := lake.Open(dir, true)
	check(err)
	session, err := l.Lock(ctx, lake.Of("cafecafecafecafe"))
	check(err)
	defer session.Close()

	count := &engine.Stage{
		Name: "count", Place: lake.Of("cafecafecafecafe"), Unit: "rows",
		Cut: func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
			return []engine.Task{{Lo: 0, Hi: 5, Cost: 5}, {Lo: 5, Hi: 6, Cost: 1}, {Lo: 6, Hi: 9, Cost: 3}}, nil
		},
		Open: engine.Always(func(_ context.Context, t *engine.Attempt) error {
			fmt.Println("rows", t.Lo, "to", t.Hi)
			t.SetStats(t.Hi - t.Lo)
			return nil
		}),
	}
	for range 2 {
		e := engine.New(session, engine.Settings{Workers: 1, MemoryBytes: 1 << 30, Log: zerolog.Nop()})
		check(e.Run(ctx, engine.Plan{count}))
		fmt.Println(e.Reports[0].Tasks, "tasks,", e.Reports[0].Reused, "done before")
	}
	records, err := engine.Complete(l, count, 0)
	check(err)
	rows, err := engine.Stats[int64](records) // one value per task
	check(err)
	fmt.Println(rows)
	// Output:
	// rows 0 to 5
	// rows 6 to 9
	// rows 5 to 6
	// 3 tasks, 0 done before
	// 3 tasks, 3 done before
	// [5 1 3]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
