package ingest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake/parquet"
	"parsimon/stages/ingest"
	"parsimon/stages/topology"
)

func ExampleFile() {
	dir, err := os.MkdirTemp("", "ingest-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "flows.csv")
	text := "src,dst,size_bytes,start_ns\n0,1,1000,0\n1,0,2000,500\n1,7,3000,900\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
	nodes := []topology.Node{{ID: 0, Kind: topology.KindHost}, {ID: 1, Kind: topology.KindHost},
		{ID: 2, Kind: topology.KindTor}}
	cables := []topology.Cable{{A: 0, B: 2, BandwidthBps: 10e9, DelayNS: 1000},
		{A: 1, B: 2, BandwidthBps: 10e9, DelayNS: 1000}}
	net, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := ingest.File(context.Background(), net, file,
		ingest.Options{TmpDir: dir, MemoryBytes: 256 << 20, Threads: 1, MaxRejects: 0.5,
			Files: ingest.Files{Open: parquet.OpenFile, Create: parquet.CreateFile}},
		ingest.Tables{Flows: discard{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Rows, "rows,", stats.Flows, "flows,", stats.Reasons[0].Rows, "×", stats.Reasons[0].Reason)
	// Output: 3 rows, 2 flows, 1 × dst is not a host of the topology
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Write(arrow.Record) error { return nil }
