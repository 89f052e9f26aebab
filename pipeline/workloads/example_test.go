package workloads_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"parsimon/pipeline/workloads"
	"parsimon/stages/ingest"
)

// A flow list has three rows, one of which has an invalid size. Every row is accounted for.
func Example() {
	dir, err := os.MkdirTemp("", "trace")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "flows.csv")
	check(os.WriteFile(file, []byte("src,dst,size_bytes,start_ns\n0,9,20000,0\n9,0,-1,1000\n3,4,1500,2000\n"),
		0o644))

	r, err := workloads.Ingest(context.Background(),
		workloads.Trace{Sources: []string{file}, Topology: "small-2to1", Workload: "monday",
			Options: ingest.Options{MaxRejects: 0.5}},
		workloads.Settings{Lake: filepath.Join(dir, "lake")})
	check(err)
	fmt.Printf("%s: %d rows = %d flows + %d merged + %d rejected\n", r.Workload, r.Rows, r.Flows, r.Merged,
		r.Rejects)
	// Output:
	// monday: 3 rows = 2 flows + 0 merged + 1 rejected
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
