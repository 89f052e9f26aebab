package queries

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	driver "github.com/marcboeker/go-duckdb/v2"

	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/names"
	"parsimon/schema/variant"
)

// The known lake. Scenario aaa has seven simulated flows (and flow 5, which is not), in two variants: own,
// and paper with every slowdown one higher. Six of them have a truth. Scenario 007, whose id looks like a
// number, has four flows of one size.
var knownLake = []struct{ table, path, rows string }{
	{"scenarios", "scenario=aaa",
		`('aaa', NULL, 'known', 1, '{"classes": [{"name": "bulk", "queue": 0, "weight": 1},
		{"name": "rpc", "queue": 3, "services": ["web"]}, {"name": "red", "queue": 5, "vnets": ["red"]},
		{"name": "ef", "queue": 6, "dscp": [0, 46]}],
		"moves": {"events": [{"from_ns": 50000000, "to_ns": 60000000}, {"from_ns": 4000000, "to_ns": 20000000}]}}', 7, 0, 0, 0, 0, 0, 0, 0, 149999999, NULL)`},
	{"scenarios", "scenario=007", `('007', 'aaa', 'ties', 2, '{}', 4, 0, 0, 0, 0, 0, 0, 0, 3, 0.5)`},
	{"nodes", "scenario=aaa",
		`(0, 'h0', 'host', 0, 0, 't0'), (1, 'h1', 'host', 0, 1, 'rack 1'), (2, 't0', 'tor', 0, NULL, NULL), (3, 's0', 'spine', NULL, NULL, NULL)`},
	{"links", "scenario=aaa",
		`(0, 0, 2, 10000000000, 1000, 'host-tor', false, NULL, NULL), (1, 2, 0, 10000000000, 1000, 'tor-host', false, NULL, NULL),
		(2, 2, 3, 10000000000, 1000, 'tor-spine', false, NULL, NULL), (3, 3, 2, 10000000000, 1000, 'spine-tor', false, NULL, NULL),
		(4, 1, 2, 10000000000, 1000, 'host-tor', false, NULL, NULL), (5, 2, 1, 10000000000, 1000, 'tor-host', false, NULL, NULL),
		(6, 2, 3, 1, 1, 'x', false, NULL, NULL), (7, 2, 3, 1, 1, 'x', false, NULL, NULL), (8, 2, 3, 1, 1, 'x', false, NULL, NULL),
		(9, 2, 3, 1, 1, 'x', false, NULL, NULL), (10, 2, 3, 1, 1, 'x', false, NULL, NULL), (11, 2, 3, 1, 1, 'x', true, NULL, NULL)`},
	{"flows", "scenario=aaa", `(5, 0, 1, 1, 0, 'web', 'red', false, NULL, 5, false),
		(10, 0, 1, 1000, 0, 'web', 'red', false, NULL, 10, false),
		(11, 0, 1, 2000, 0, 'web', 'red', true, NULL, 11, false),
		(12, 1, 0, 9999, 1000000, 'web', 'blue', false, NULL, 12, false)`},
	{"flows", "scenario=aaa", `(13, 1, 0, 10000, 5000000, 'db', 'blue', false, NULL, 13, false),
		(14, 0, 1, 100000, 50000000, 'db', 'red', true, NULL, 14, false),
		(15, 0, 1, 1000000, 100000000, 'db', 'red', false, NULL, 15, false),
		(16, 1, 0, 1000001, 149999999, 'web', 'red', true, NULL, 16, false)`},
	{"link_classes", "scenario=aaa/variant=own", `(0, 'rpc', 5, 2, 0), (1, 'rpc', 1, 1, 30)`},
	{"link_slots", "scenario=aaa/variant=own",
		`(0, 10, 110, 80, 0.4), (0, 110, 210, 40, 0.2), (2, 10, 110, 10, 0.25), (4, 110, 210, 100, 0.5)`},
	{"link_stats", "scenario=aaa/variant=own",
		`(0, 0, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 4, 0.5, 4, 0, 100, 2000, 7, 0.25, 1.5, 0.5, [], [], false, 0, 0),
		(2, 2, 3, 'tor-spine', 10000000000, 9000000000, 4, 500, 4, 0.25, 4, 0, 100, 3000, 7, 0.25, 1.5, 0.5, [], [], false, 0, 0),
		(4, 1, 2, 'host-tor', 10000000000, 9000000000, 4, 1500, 4, 0.75, 4, 0, 100, 4000, 7, 0.25, 1.5, 0.5, [], [], false, 0, 0)`},
	// In the second pass, the mean wait at link 1, which has a third of the packets, changes from 10 ns to 6 ns.
	{"link_stats", "scenario=ppp/variant=flow-1",
		`(1, 0, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 10, 0.5, 4, 0, 100, 2000, 7, 0.25, 10, 0.5, [], [], false, 0, 0),
		(2, 1, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 20, 0.5, 4, 0, 100, 2000, 7, 0.25, 1, 0.5, [], [], false, 0, 0)`},
	{"link_stats", "scenario=ppp/variant=flow-2",
		`(1, 0, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 10, 0.5, 4, 0, 100, 2000, 7, 0.25, 6, 0.5, [], [], false, 0, 0),
		(2, 1, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 20, 0.5, 4, 0, 100, 2000, 7, 0.25, 1, 0.5, [], [], false, 0, 0)`},
	{"validations", "scenario=aaa/variant=own",
		`('exact', 'all', 7, 0.99, 9.5, 10, -0.05, -0.1, 0.1, 0.2), ('exact', '<10 KB', 3, 0.99, 3, 2.5, 0.2, 0.1, 0.3, 0.1)`},
	{"validation_links", "scenario=aaa/variant=own", `(0, 10, 110, 1000, 1000, 0, NULL),
		(0, 110, 210, 1000, 2000, 500, NULL), (2, 10, 110, 400, 300, 0, 500)`},
	{"delay_buckets", "scenario=aaa/variant=own",
		`(0, 0, 1, 1000, 3, 1, 0.5, 2, [0.5, 1.25, 2]), (0, 1, 1001, 2000, 0, 0, 0, 0, [])`},
	{"hop_contributions", "scenario=aaa/variant=own",
		`(0, 0, 1, 0, 1e9, 0, 0, 0), (1, 0, 1, 0, 1e9, 0, 0, 0), (5, 0, 2, 0, 100, 0, 0, 0), (5, 1, 2, 2, 300, 0, 0, 0),
		(6, 0, 2, 0, 200.5, 0, 0, 0), (6, 1, 2, 2, 0, 0, 0, 0), (7, 0, 2, 4, 400, 0, 0, 0), (7, 1, 2, 0, 99.5, 0, 0, 0)`},
	{"hops", "scenario=aaa", hopRows([3]int{0, 0, 0}, [3]int{1, 0, 0}, [3]int{5, 0, 0}, [3]int{5, 1, 2},
		[3]int{6, 0, 0}, [3]int{6, 1, 2}, [3]int{7, 0, 4}, [3]int{7, 1, 0})},
	{"exact_fcts", "scenario=aaa/variant=exact", `(10, 1, 1000, 0, 2, 100, 100, 0, 1.0, 0, 0),
		(11, 2, 2000, 0, 4, 100, 200, 0, 2.0, 0, 0), (12, 3, 9999, 1000000, 4, 100, 400, 0, 4.0, 0, 0),
		(13, 4, 10000, 5000000, 6, 100, 400, 0, 4.0, 0, 0), (14, 5, 100000, 50000000, 6, 100, 500, 0, 5.0, 0, 0),
		(15, 6, 1000000, 100000000, 6, 100, 500, 0, 5.0, 0, 0)`},
	{"exact_fcts", "scenario=007/variant=exact", `(0, 0, 500, 0, 2, 10, 10, 0, 1.0, 0, 0)`},
	{"comparisons", "scenario=aaa/variant=own",
		`('007', 'own', 'web', 'all', 'all', 'all', 4, 0.5, 2.0, 3.0, 0.5, 0.25, 0.75, 1000.0, 1000.0, 0.0, 0.0, 0.0), ('007', 'own', 'all', 'all', 'all', 'all', 7, 0.5, 4.0, 4.0, 0.0, 0.0, 0.125, 2000.0, 1000.0, -0.5, -0.75, -0.25)`},
	{"comparison_links", "scenario=aaa/variant=own",
		`('007', 'own', 1, 4, 4, 'h1 → t0', 'host-tor', 3, 0.5, 0.75, 100.0, 350.5),
		('007', 'own', 2, 99, NULL, 'h9 → t0', 'host-tor', 3, 0.5, 0.25, 50.0, 0.0)`},
	{"sweeps", "scenario=aaa/variant=own",
		`('x', 2, 3, 'all', 7, 0, 'flow-1', 1.0, 2.0, 3.0, 4.0, 0.0, 0.5, 0.25, 0.125, 1000.0, 3000.0, 3, 4), ('x', 0, 2, 'all', 7, 1, 'flow-2', 1.0, 2.0, 3.0, 4.0, 0.0, 0.5, 0.5, 0.125, 1000.0, 3000.0, 3, 4),
		('x', 0, 2, 'web', 4, 1, 'flow-2', 1.0, 2.0, 3.0, 4.0, 0.0, 0.5, 0.5, 0.125, 1000.0, 3000.0, 3, 4)`},
	{"sweep_runs", "scenario=aaa/variant=own",
		`('small', 'max_load=40%, seed=1', 'max_load', '40%', 0.4, 7, 4, 5, 8, 9, 9.5, 9, NULL, NULL, 1000.0, 3000.0, 1.5),
		('small', 'max_load=40%, seed=1', 'seed', '1', 1, 7, 4, 5, 8, 9, 9.5, 9, NULL, NULL, 1000.0, 3000.0, 1.5), ('other', 'seed=2', 'seed', '2', 2, 7, 4, NULL, 8, NULL, 9.5, NULL, 10, NULL, NULL, NULL, 2)`},
	{"sweep_runs", "scenario=007/variant=own", "" +
		`('grid', 'load.max=20%, transport.kind=hpcc', 'load.max', '20%', 0.2, 7, 1, NULL, 2, NULL, 3, NULL, 4, NULL, NULL, NULL, 1), ` +
		`('grid', 'load.max=20%, transport.kind=hpcc', 'transport.kind', 'hpcc', NULL, 7, 1, NULL, 2, NULL, 3, NULL, 4, NULL, NULL, NULL, 1), ` +
		gridRun(1, 4) + ", " + gridRun(2, 5)},
	{"slowdowns", "scenario=aaa/variant=own", knownSlowdowns(0)},
	{"intervals", "scenario=aaa/variant=own",
		`(NULL, NULL, 'all', 0.5, 7, 4, 3, 5, '', NULL, NULL, NULL), (NULL, NULL, 'all', 0.9, 7, 8, 7, 9, '', NULL, NULL, NULL),
		(NULL, NULL, 'all', 0.99, 7, 9, 8, 10, 'p99: short', NULL, NULL, NULL), (NULL, NULL, 'all', 0.999, 7, 10, 9, 11, 'p99.9: only 3 flows are above it; 100000 flows are enough for an interval', NULL, NULL, NULL),
		('web', NULL, 'all', 0.5, 4, 2.5, 2, 3, '', NULL, NULL, NULL), ('web', NULL, '<10 KB', 0.9, 3, 2.8, 2.5, 3.5, '', NULL, NULL, NULL), (NULL, 'red', 'all', 0.99, 5, 9.8, 9, 10, 'p99: short', NULL, NULL, NULL),
		('db', 'red', 'all', 0.5, 2, 5.5, 5, 6, '', NULL, NULL, NULL), ('web', 'red', 'all', 0.99, 3, 9, 8, 10, 'p99: short', NULL, NULL, NULL)`},
	{"intervals", "scenario=aaa/variant=own-sampled-2",
		`(NULL, NULL, 'all', 0.5, 20, 4, 3, 5, '', NULL, NULL, NULL), ('db', NULL, 'all', 0.99, 8, 6, 5, 7, 'few', NULL, NULL, NULL), (NULL, 'red', 'all', 0.5, 16, 4, 3, 5, '', NULL, NULL, NULL)`},
	{"windows", "scenario=aaa/variant=own-sampled-2",
		`(0, 1, 'bbb', 0, 3, 1, 3.0, 0, 100, 10, 2, 2000), (4, 1, 'bbb', 1, 1, 1, 1.0, 400, 500, 10, 3, 3000)`},
	{"sampled_slowdowns", "scenario=aaa/variant=own-sampled-2",
		`(10, 0, 3.0, 0, 1, 'web', 'red', 1000, 0, 100, 100, 1.0), (11, 0, 3.0, 0, 1, 'web', 'red', 2000, 50, 100, 200, 2.0),
		(12, 4, 1.0, 1, 0, 'web', 'red', 9999, 400, 100, 300, 3.0), (13, 4, 1.0, 1, 0, 'db', 'red', 10000, 450, 100, 400, 4.0), (14, 4, 1.0, 1, 0, 'web', 'red', 20000, 499, 100, 1000, 10.0)`},
	{"message_sizes", "scenario=aaa/variant=own",
		`(NULL, 0.25, NULL, 2, 0.5, 2000, 6, -0.25, -0.5, 0), (NULL, 1, NULL, 2, 0.5, 2100, 8, 0, 0, 0),
		(NULL, 3, NULL, 2, 0.5, 2200, 12, 0.5, 0.25, 0.75),
		('web', 0.25, 12, 2, 0.5, 2000, 8, 0, 0, 0), ('web', 1, 48, 2, 0.5, 1000, 8, 0, 0, 0),
		('web', 3, 144, 2, 0.5, 900, 10, 0.25, 0, 0.5)`},
	{"warnings", "scenario=aaa/variant=own",
		`('loaded twice', 0.3, 0.2, NULL, 'why'), ('fan-in', 0.6, 0.5, 4, 'why')`},
	{"slowdowns", "scenario=aaa/variant=paper", knownSlowdowns(1)},
	{"slowdowns", "scenario=007/variant=own", `(0, 0, 0, 1, 'web', '', 500, 0, 2, 10, 10, 0, 1.0, 0, 0),
		(1, 1, 0, 1, 'web', '', 500, 1, 2, 10, 20, 0, 2.0, 3, 1),
		(2, 2, 0, 1, 'web', '', 500, 2, 2, 10, 30, 0, 3.0, 2, 0), (3, 3, 0, 1, 'web', '', 500, 3, 2, 10, 40, 0, 4.0, 0, 0)`},
}

// jobLake is scenario jjj. Its job a has a start, 50 ns of compute, and a transfer in each of two iterations.
// Service web has a transfer at the same time.
var jobLake = []struct{ table, path, rows string }{
	{"nodes", "scenario=jjj",
		`(0, 'h0', 'host', 0, 0, 't0'), (1, 'h1', 'host', 0, 1, 'rack 1'), (2, 't0', 'tor', 0, NULL, NULL)`},
	{"links", "scenario=jjj",
		`(0, 0, 2, 10000000000, 1000, 'host-tor', false, NULL, NULL), (1, 2, 1, 10000000000, 1000, 'tor-host', false, NULL, NULL)`},
	{"flows", "scenario=jjj", `(100, 0, 0, 0, 5, 'a', '', false, NULL, 100, false),
		(101, 0, 0, 0, 5, 'a', '', false, NULL, 101, false),
		(102, 0, 1, 1000, 5, 'a', '', false, NULL, 102, false),
		(103, 0, 1, 2000, 5, 'a', '', false, NULL, 103, false),
		(104, 0, 1, 500, 60, 'web', '', false, NULL, 104, false)`},
	{"dependencies", "scenario=jjj",
		`(1, 101, 0, 100, 50), (2, 102, 0, 100, 0), (2, 102, 1, 101, 0), (3, 103, 2, 102, 0)`},
	{"job_flows", "scenario=jjj",
		`(0, 100, 'a', 0, 'compute'), (1, 101, 'a', 0, 'compute'), (2, 102, 'a', 0, 'all-reduce'), (3, 103, 'a', 1, 'all-reduce')`},
	{"exact_fcts", "scenario=jjj/variant=exact", `(100, 0, 0, 5, 0, 0, 0, 0, 1.0, 0, 0),
		(101, 1, 0, 55, 0, 0, 0, 0, 1.0, 0, 0), (102, 2, 1000, 55, 2, 100, 120, 0, 1.2, 0, 0),
		(103, 3, 2000, 175, 2, 100, 100, 0, 1.0, 0, 0), (104, 4, 500, 60, 2, 100, 100, 0, 1.0, 0, 0)`},
	{"exact_hops", "scenario=jjj/variant=exact", `(2, 0, 0, 15, 15, 0), (2, 1, 1, 5, 5, 0), (3, 0, 0, 0, 0, 0),
		(3, 1, 1, 0, 0, 0), (4, 0, 0, 0, 0, 0)`},
	{"slowdowns", "scenario=jjj/variant=exact", `(102, 2, 0, 1, 'a', '', 1000, 55, 2, 100, 120, 0, 1.2, 0, 0),
		(103, 3, 0, 1, 'a', '', 2000, 175, 2, 100, 100, 0, 1.0, 0, 0), (104, 4, 0, 1, 'web', '', 500, 60, 2, 100, 100, 0, 1.0, 0, 0)`},
	{"link_stats", "scenario=jjj/variant=exact",
		`(0, 0, 2, 'host-tor', 10000000000, 9000000000, 4, 1000, 4, 0.5, 4, 0, 100, 2000, 7, 0.25, 1.5, 0.5, [], [], false, 0, 300),
		(1, 2, 1, 'tor-host', 10000000000, 9000000000, 4, 500, 4, 0.25, 4, 0, 100, 3000, 7, 0.25, 1.5, 0.5, [], [], false, 7, 100)`},
	// The paths of another estimator, which differ from those of exact.
	{"hops", "scenario=jjj", hopRows([3]int{2, 0, 1}, [3]int{4, 0, 1})},
	{"hop_contributions", "scenario=jjj/variant=exact",
		`(2, 0, 2, 0, 15, 15, 0, 0), (2, 1, 2, 1, 5, 5, 0, 0), (3, 0, 2, 0, 0, 0, 0, 0),
		(3, 1, 2, 1, 0, 0, 0, 0), (4, 0, 1, 0, 0, 0, 0, 0)`},
}

// hopRows returns rows of table hops. Each hop has a flow row, a number and a link.
func hopRows(hops ...[3]int) string {
	return strings.Join(names.Of(hops, func(h [3]int) string {
		return "(" + hopRow(strconv.Itoa(h[0]), strconv.Itoa(h[1]), strconv.Itoa(h[2])) + ")"
	}), ", ")
}

// hopRow returns the columns of a row of table hops. Those that questions do not read are 0.
func hopRow(flowRow, hop, link string) string {
	read := map[string]string{"flow_row": flowRow, "hop": hop, "link_id": link}
	return strings.Join(names.Of(schema.Hops.Columns, func(c schema.Column) string {
		return cmp.Or(read[c.Name], "0")
	}), ", ")
}

// gridRun is a run of sweep grid at 40% load with DCTCP.
func gridRun(seed, p99 int) string {
	settings := fmt.Sprintf("load.max=40%%, transport.kind=dctcp, seed=%d", seed)
	var rows []string
	for _, p := range []string{"'load.max', '40%', 0.4", "'transport.kind', 'dctcp', NULL",
		fmt.Sprintf("'seed', '%d', %[1]d", seed)} {
		rows = append(rows, fmt.Sprintf("('grid', '%s', %s, 7, 1, NULL, 2, NULL, %d, NULL, 6, NULL, NULL, NULL, 1)",
			settings, p, p99))
	}
	return strings.Join(rows, ", ")
}

func knownSlowdowns(more int) string {
	return fmt.Sprintf(`(10, 1, 0, 1, 'web', 'red', 1000, 0, 2, 100, 100, 0, 1.0 + %[1]d, 0, 0),
		(11, 2, 0, 1, 'web', 'red', 2000, 0, 4, 100, 200, 0, 2.0 + %[1]d, 0, 0),
		(12, 3, 1, 0, 'web', 'blue', 9999, 1000000, 4, 100, 300, 0, 3.0 + %[1]d, 0, 0),
		(13, 4, 1, 0, 'db', 'blue', 10000, 5000000, 6, 100, 400, 0, 4.0 + %[1]d, 0, 0),
		(14, 5, 0, 1, 'db', 'red', 100000, 50000000, 6, 100, 500, 0, 5.0 + %[1]d, 0, 0),
		(15, 6, 0, 1, 'db', 'red', 1000000, 100000000, 6, 100, 600, 0, 6.0 + %[1]d, 0, 0),
		(16, 7, 1, 0, 'web', 'red', 1000001, 149999999, 2, 100, 1000, 0, 10.0 + %[1]d, 0, 0)`, more)
}

// rawDB returns a DuckDB without the sandbox.
func rawDB(t testing.TB) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func exec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// writePart writes the next part file of a table from a SELECT.
func writePart(t testing.TB, db *sql.DB, lake, table, path, selects string) {
	t.Helper()
	dir := filepath.Join(lake, table, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "part-*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := schema.ByName(table)
	if err != nil {
		t.Fatal(err)
	}
	var names, columns []string
	for _, c := range tab.Columns {
		names = append(names, duckdb.Ident(c.Name))
		columns = append(columns, fmt.Sprintf("CAST(%s AS %s) AS %[1]s", duckdb.Ident(c.Name), sqlType(c.Type)))
	}
	file := filepath.Join(dir, fmt.Sprintf("part-%05d.parquet", len(parts)))
	exec(t, db, fmt.Sprintf("COPY (SELECT %s FROM (%s) AS given(%s)) TO %s (FORMAT parquet, COMPRESSION zstd)",
		strings.Join(columns, ", "), selects, strings.Join(names, ", "), duckdb.Quote(file)))
}

// known is the known lake, written once.
var known struct {
	once sync.Once
	dir  string
}

// TestMain removes the known lake.
func TestMain(m *testing.M) {
	code := m.Run()
	if known.dir != "" {
		_ = os.RemoveAll(known.dir)
	}
	os.Exit(code)
}

// makeKnownLake copies the known lake into a new folder, with temporary files that must not be read.
func makeKnownLake(t testing.TB) string {
	t.Helper()
	known.once.Do(func() {
		var err error
		if known.dir, err = os.MkdirTemp("", "known-lake"); err != nil {
			t.Fatal(err)
		}
		writeParts(t, rawDB(t), known.dir, knownLake)
	})
	lake := filepath.Join(t.TempDir(), "lake")
	if err := os.CopyFS(lake, os.DirFS(known.dir)); err != nil {
		t.Fatal(err)
	}
	for _, junk := range []string{
		"slowdowns/scenario=aaa/variant=own/.part-00001.parquet", "slowdowns/.tmp/part-00000.parquet",
		"slowdowns/scenario=aaa/variant=own/part-00002.parquet.tmp", "_tmp/part-00000.parquet", "_state/x.json",
	} {
		path := filepath.Join(lake, junk)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("half a file"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return lake
}

func writeParts(t testing.TB, db *sql.DB, lake string, parts []struct{ table, path, rows string }) {
	t.Helper()
	for _, part := range parts {
		writePart(t, db, lake, part.table, part.path, "VALUES "+part.rows)
	}
}

// createAll creates all views, for tests that do not use Run and SQL.
func createAll(t testing.TB, db *DB) {
	t.Helper()
	conn, err := db.sql.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := db.require(t.Context(), conn, db.viewNames()); err != nil {
		t.Fatal(err)
	}
}

func limits(threads int, memoryBytes int64) Options {
	return Options{Options: duckdb.Options{Threads: threads, MemoryBytes: memoryBytes}}
}

// variantOf returns a variant with the given name, which need not be one that the program writes.
func variantOf(name string) variant.Variant {
	v, err := variant.Parse(name)
	if err != nil {
		v.Estimator = name
	}
	return v
}

// findFiles lists the data files of a lake by its layout.
func findFiles(lake string) (files []File, err error) {
	for _, pattern := range []string{"*/*/part-*.parquet", "*/*/*/part-*.parquet"} {
		found, err := fs.Glob(os.DirFS(lake), pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if strings.Contains(path, "/.") || strings.Contains(path, "/_") {
				continue
			}
			f := File{Path: path, Table: path[:strings.IndexByte(path, '/')]}
			for _, part := range strings.Split(path, "/") {
				name, value, _ := strings.Cut(part, "=")
				switch name {
				case "scenario":
					f.Scenario = value
				case "variant":
					f.Variant = variantOf(value)
				case "workload":
					f.Workload = value
				}
			}
			files = append(files, f)
		}
	}
	MarkAnswers(files, nil)
	return files, nil
}

// tryOpen opens a lake with all files in its folders.
func tryOpen(t testing.TB, lake string, opt Options) (_ *DB, err error) {
	t.Helper()
	if opt.Files == nil {
		if opt.Files, err = findFiles(lake); err != nil {
			return nil, err
		}
	}
	if opt.Output == "" {
		opt.Output = filepath.Join(t.TempDir(), "answer")
	}
	return Open(t.Context(), lake, opt)
}

func open(t testing.TB, lake string, opt Options) *DB {
	t.Helper()
	db, err := tryOpen(t, lake, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// answer runs a question and returns its answer in a format.
func answer(t testing.TB, db *DB, name, format string, params map[string]string) string {
	t.Helper()
	q, err := Get(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := db.Text(q, params)
	if err != nil {
		t.Fatal(err)
	}
	out, err := written(db, text, format)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// written returns the answer of a statement in a format.
func written(db *DB, text, format string) (string, error) {
	if _, err := db.Write(context.Background(), text, format); err != nil {
		return "", err
	}
	data, err := os.ReadFile(db.output)
	return string(data), err
}

// sameCSV compares two CSVs: strings exactly, numbers within 1e-9.
func sameCSV(t *testing.T, got, want string) {
	t.Helper()
	parse := func(s string) [][]string {
		reader := csv.NewReader(strings.NewReader(strings.TrimSpace(s)))
		reader.TrimLeadingSpace = true
		records, err := reader.ReadAll()
		if err != nil {
			t.Fatalf("%v in\n%s", err, s)
		}
		return records
	}
	g := parse(got)
	w := parse(want)
	same := len(g) == len(w)
	for i := 0; same && i < len(g); i++ {
		for j := range g[i] {
			same = same && len(g[i]) == len(w[i])
			if !same || g[i][j] == w[i][j] {
				continue
			}
			a, err1 := strconv.ParseFloat(g[i][j], 64)
			b, err2 := strconv.ParseFloat(w[i][j], 64)
			same = err1 == nil && err2 == nil && math.Abs(a-b) < 1e-9
		}
	}
	if !same {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
