package lake_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/lake"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/variant"
)

// A session writes a data file and commits it. Readers do not see the file before the commit.
func Example() {
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	l, err := lake.Open(dir, true)
	check(err)
	id, err := lake.ParseScenarioID("cafecafecafecafe")
	check(err)

	place := lake.Place{Scenario: id, Variant: variant.Variant{Estimator: "flow", Passes: 3}}
	session, err := l.Lock(context.Background(), place)
	check(err)
	fcts := array.NewRecord(schema.SenderFCTs.Arrow(),
		[]arrow.Array{columns.Of([]int64{0, 1}), columns.Of([]int64{9000, 9500}), columns.Of([]int64{8000, 8000})},
		2)
	defer fcts.Release()
	file, err := session.WriteFile(schema.SenderFCTs, place, place.File(schema.SenderFCTs, 0), fcts)
	check(err)
	fmt.Println(file.Path, file.Rows, "rows")
	_, found, err := l.ReadManifest(place)
	check(err)
	fmt.Println("committed:", found)
	check(session.Commit(place, []lake.DataFile{file}))
	session.Close()

	manifest, found, err := l.ReadManifest(place)
	check(err)
	fmt.Println("committed:", found)
	check(columns.ForEach(l.Read(schema.SenderFCTs, manifest.Files, nil), func(rec arrow.Record) error {
		fmt.Println(columns.Int64s(rec, "fct_ns"))
		return nil
	}))
	// Output:
	// sender_fcts/scenario=cafecafecafecafe/variant=flow-3/part-00000.parquet 2 rows
	// committed: false
	// committed: true
	// [9000 9500]
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
