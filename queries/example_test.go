package queries_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"parsimon/queries"
	"parsimon/queries/duckdb"
)

// Every committed table is a view. A statement may read the lake and nothing else.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lake")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	writeNodes(ctx, dir)
	out := filepath.Join(dir, "answer.csv")

	db, err := queries.Open(ctx, dir, queries.Options{Output: out, Files: []queries.File{
		{Table: "nodes", Scenario: "cafecafecafecafe", Path: "nodes/scenario=cafecafecafecafe/part-00000.parquet"},
	}})
	check(err)
	defer func() { check(db.Close()) }()
	_, err = db.Write(ctx, "SELECT kind, count(*) AS nodes FROM nodes WHERE scenario = 'cafecafecafecafe' "+
		"GROUP BY kind ORDER BY kind", "csv")
	check(err)
	answer, err := os.ReadFile(out)
	check(err)
	fmt.Print(string(answer))

	_, err = db.SQL(ctx, "SELECT * FROM read_text('/etc/passwd')")
	fmt.Println(errors.Is(err, queries.ErrRefused))

	q, err := queries.Get("p99_links")
	check(err)
	for _, p := range q.Params {
		fmt.Println(q.Name, p.Name)
	}
	// Output:
	// kind,nodes
	// host,2
	// tor,1
	// true
	// p99_links scenario
	// p99_links variant
	// p99_links service
	// p99_links vnet
	// p99_links quantile
	// p99_links limit
	// p99_links n
}

// writeNodes makes a lake with the nodes of one scenario.
func writeNodes(ctx context.Context, dir string) {
	folder := filepath.Join(dir, "nodes", "scenario=cafecafecafecafe")
	check(os.MkdirAll(folder, 0o755))
	db, err := duckdb.Open(ctx, duckdb.Options{})
	check(err)
	defer func() { check(db.Close()) }()
	_, err = db.ExecContext(ctx,
		`COPY (SELECT node_id, 'n' || node_id AS name, kind, 0 AS pod, 0 AS rack, 'leaf1' AS rack_name
		FROM (VALUES (0, 'host'), (1, 'host'), (2, 'tor')) AS v(node_id, kind))
		TO `+duckdb.Quote(filepath.Join(folder, "part-00000.parquet"))+` (FORMAT parquet)`)
	check(err)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
