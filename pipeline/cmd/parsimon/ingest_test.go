package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"parsimon/schema"
)

// A day of VPC flow logs in one file: flows a host a second to another, seen at both ends.
func vpcDay(t *testing.T, dir string, day int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status\n")
	for i := range 200 {
		start := 1769817600 + day*86400 + i
		for eni := range 2 {
			fmt.Fprintf(&b, "2 1 eni-%d 10.0.0.%d 10.0.0.%d %d 443 6 10 %d %d %d ACCEPT OK\n", eni, 1+i%3, 1+(i+1)%3, 40000+i, 5000+i, start, start+1)
		}
	}
	b.WriteString("2 1 eni-1 - - - - - - - 1769817600 1769817660 - NODATA\n2 1 eni-1 10.9.9.9 10.0.0.1 1 2 6 1 60 1769817600 1769817660 ACCEPT OK\n")
	file := filepath.Join(dir, fmt.Sprintf("day%d.log", day))
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// files are the contents of all files of a directory, by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The analyst's whole way: ingest a day, the same day again, the next day; ask, run, ask.
func TestIngestThenRun(t *testing.T) {
	dir := t.TempDir()
	topology := filepath.Join(dir, "net")
	if err := os.Mkdir(topology, 0o755); err != nil {
		t.Fatal(err)
	}
	hosts, labels := filepath.Join(dir, "hosts.csv"), filepath.Join(dir, "labels.csv")
	for path, text := range map[string]string{
		filepath.Join(topology, "nodes.csv"): "node_id,kind\n0,host\n1,host\n2,host\n3,tor\n",
		filepath.Join(topology, "links.csv"): "src_node,dst_node,bandwidth_bps,delay_ns\n0,3,10000000000,1000\n1,3,10000000000,1000\n2,3,10000000000,1000\n",
		hosts:                                "address,node_id\n10.0.0.1,0\n10.0.0.2,1\n10.0.0.3,2\n",
		labels:                               "cidr,port,service,vnet\n10.0.0.3,443,api,blue\n10.0.0.0/24,,web,green\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lake := filepath.Join(dir, "lake")
	ingest := func(lake string, more ...string) string {
		return must(t, append([]string{"ingest", "--topology", topology, "--hosts", hosts, "--labels", labels, "--format", "vpc", "--lake", lake, "-q"}, more...)...)
	}
	first, second := vpcDay(t, dir, 0), vpcDay(t, dir, 1)
	report := ingest(lake, first)
	for _, want := range []string{"402 rows in = 200 flows + 200 merged + 2 rejected (1 of them", "log-status is NODATA", "src is not a host", "100.0% of the flows have synthetic starts", "api", "blue", "packet-hops to simulate", "(0 would be over 100%)"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	id := regexp.MustCompile(`^workload ([0-9a-f]{16}):`).FindStringSubmatch(report)[1]
	before := files(t, lake)
	again := ingest(lake, first)
	if !strings.Contains(again, "0 new files, 1 it held already") {
		t.Errorf("the same day again:\n%s", again)
	}
	after := files(t, lake)
	if len(before) != len(after) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
	for path, data := range before {
		if after[path] != data && !strings.HasSuffix(path, "parsimon.duckdb") {
			t.Errorf("%s has changed", path)
		}
	}
	if report = ingest(lake, first, second); !strings.Contains(report, "1 new files, 1 it held already") || !strings.Contains(report, "804 rows in = 400 flows + 400 merged + 4 rejected") {
		t.Errorf("the next day:\n%s", report)
	}
	// Both days at once come to the same flows.
	ingest(filepath.Join(dir, "once"), first, second)
	ask := func(lake, sql string) string {
		return must(t, "query", "--lake", lake, "--sql", sql, "--format", "csv")
	}
	const all = "SELECT * EXCLUDE (workload) FROM workload_flows ORDER BY flow_id"
	if a, b := ask(lake, all), ask(filepath.Join(dir, "once"), all); a != b || strings.Count(a, "\n") != 401 {
		t.Error("two days in two steps are not what they are in one")
	}
	if got := ask(lake, "SELECT service, vnet, count(*) AS n FROM workload_flows GROUP BY ALL ORDER BY ALL"); got != "service,vnet,n\napi,blue,134\nweb,green,266\n" {
		t.Errorf("labels:\n%s", got)
	}
	if got := ask(lake, "SELECT sum(rows) = (SELECT count(*) FROM records) + (SELECT count(*) FROM workload_rejects) AS same FROM workloads"); got != "same\ntrue\n" {
		t.Errorf("rows are not accounted for: %s", got)
	}
	if got := ask(lake, "SELECT count(*) AS n, sum(bytes) = 2 * (SELECT sum(size_bytes) FROM workload_flows) AS same FROM workload_link_loads"); got != "n,same\n6,true\n" {
		t.Errorf("link loads: %s", got)
	}

	summary := must(t, "run", "--workload", id[:6], "--topology", topology, "--lake", lake, "-q", "--from", "2026-01-31T00:00:00Z", "--to", "2026-02-01T00:00:00Z")
	if !strings.Contains(summary, "200 flows over") || !strings.Contains(summary, "100.0% of the flows have synthetic starts") {
		t.Errorf("the summary:\n%s", summary)
	}
	if out := must(t, "query", "synthetic_share", "--lake", lake, "--format", "csv"); strings.Count(out, "\n") != 3 {
		t.Errorf("synthetic_share:\n%s", out)
	}
	must(t, "run", "--workload", id, "--topology", topology, "--lake", lake, "-q", "--fail", "0:3", "--allow-unreachable")

	// A lake that was copied works like the first.
	moved := filepath.Join(dir, "moved")
	if err := os.CopyFS(moved, os.DirFS(lake)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lake); err != nil {
		t.Fatal(err)
	}
	if again := ingest(moved, second); !strings.Contains(again, "0 new files, 1 it held already") {
		t.Errorf("ingest into the copy:\n%s", again)
	}
	if out := must(t, "run", "--workload", id, "--topology", topology, "--lake", moved, "-q", "--to", "2026-02-01T00:00:00Z", "--from", "2026-01-31T00:00:00Z"); !strings.Contains(out, "200 flows") {
		t.Errorf("run in the copy:\n%s", out)
	}
	if out := must(t, "status", "--lake", moved); !strings.Contains(out, "workload "+id+"  complete  vpc, 2 files: 804 rows = 400 flows + 400 merged + 4 rejected") {
		t.Errorf("status:\n%s", out)
	}

	// Damage is mended from the records, or from the sources where those are damaged.
	flows, err := filepath.Glob(filepath.Join(moved, "flows", "workload="+id, "part-*.parquet"))
	if err != nil || len(flows) == 0 {
		t.Fatal(err)
	}
	good := files(t, filepath.Dir(flows[0]))
	if err := os.WriteFile(flows[0], []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, log := parsimon(t, "run", "--workload", id, "--topology", topology, "--lake", moved, "-q", "--seed", "2"); code != exitFailed || !strings.Contains(log, "ingest it again") {
		t.Errorf("a damaged workload: exit %d, %s", code, log)
	}
	if code, _, log := parsimon(t, "status", "--lake", moved); code != exitFailed || !strings.Contains(log, "workload "+id+" is damaged") {
		t.Errorf("status of a damaged workload: exit %d, %s", code, log)
	}
	ingest(moved, second)
	if mended := files(t, filepath.Dir(flows[0])); mended[flows[0]] != good[flows[0]] {
		t.Error("damaged flows are not made again")
	}

	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "no source", []string{"ingest", "--topology", topology, "--lake", moved}},
		{exitUsage, "--topology is required", []string{"ingest", first, "--lake", moved}},
		{exitUsage, "no format", []string{"ingest", first, "--topology", topology, "--lake", moved, "--format", "pcap"}},
		{exitUsage, "no format", []string{"ingest", "--show-mapping", "pcap"}},
		{exitUsage, "place of each other", []string{"ingest", first, "--topology", topology, "--lake", moved, "--format", "vpc", "--mapping", "x.sql"}},
		{exitUsage, "--from and --to go", []string{"run", "small", "--lake", moved, "--from", "3"}},
		{exitUsage, "--from, --to", []string{"run", "--workload", id, "--topology", topology, "--lake", moved, "--from", "monday"}},
		{exitUsage, "needs --topology", []string{"run", "--workload", id, "--lake", moved}},
		{exitFailed, "does not tell the format", []string{"ingest", first, "--topology", topology, "--lake", moved}},
		{exitFailed, "matches no file", []string{"ingest", filepath.Join(dir, "*.none"), "--topology", topology, "--lake", moved, "--format", "vpc"}},
		{exitFailed, "no workload", []string{"run", "--workload", "nonsense", "--topology", topology, "--lake", moved}},
		{exitFailed, "has no flow in the part", []string{"run", "--workload", id, "--topology", topology, "--lake", moved, "--to", "5"}},
		{exitFailed, "row 1: node_id", []string{"ingest", first, "--topology", topology, "--lake", moved, "--format", "vpc", "--hosts", badHosts(t)}},
		{exitFailed, "ingested with format vpc, not hpcc", []string{"ingest", first, "--topology", topology, "--lake", moved, "--format", "hpcc", "--workload", id}},
		{exitFailed, "rows cannot be simulated, more than the accepted 0%", []string{"ingest", first, "--topology", topology, "--hosts", hosts, "--lake", filepath.Join(dir, "none"), "--format", "vpc", "--max-rejects", "0"}},
	} {
		code, out, log := parsimon(t, append(c.args, "-q")...)
		if code != c.code || !strings.Contains(log, c.want) || out != "" {
			t.Errorf("parsimon %s: exit %d, want %d and %q\nstdout: %s\nstderr: %s", strings.Join(c.args, " "), code, c.code, c.want, out, log)
		}
	}
	if left := files(t, filepath.Join(dir, "none")); len(left) > 1 { // the lock
		t.Errorf("a workload that never was has left %d files", len(left))
	}
}

func badHosts(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bad-hosts.csv")
	if err := os.WriteFile(file, []byte("address,node_id\n10.0.0.1,99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// Every table with every column, its unit and order stands in what "parsimon schema" prints, and
// every file of a lake keeps to it: names, types, nulls, keys, sort orders, metadata.
func TestSchemaIsTheContract(t *testing.T) {
	text := must(t, "schema")
	for _, table := range schema.Tables() {
		for _, v := range table.Views() {
			if !strings.Contains(text, "  view "+v.Name+": "+table.Name+"/") {
				t.Errorf("the view %s is not printed", v.Name)
			}
		}
		for _, c := range table.Columns {
			if !strings.Contains(text, c.Doc) {
				t.Errorf("%s.%s is not printed", table.Name, c.Name)
			}
		}
	}
	var printed struct {
		Version int `json:"schema_version"`
		Tables  []struct {
			Name string `json:"name"`
			Key  []string
		}
	}
	if err := json.Unmarshal([]byte(must(t, "schema", "--format", "json")), &printed); err != nil || printed.Version != schema.Version || len(printed.Tables) != len(schema.Tables()) {
		t.Errorf("%+v, %v", printed, err)
	}
	if out := must(t, "schema", "links"); strings.Contains(out, "\nslowdowns:") || !strings.Contains(out, "bandwidth_bps") {
		t.Errorf("one table:\n%s", out)
	}
	if code, _, _ := parsimon(t, "schema", "nonsense"); code != exitUsage {
		t.Errorf("no such table: exit %d", code)
	}

	lake := filepath.Join(t.TempDir(), "lake")
	must(t, "run", tinyScenario(t, ""), "--lake", lake, "--quiet", "--exact")
	flows := filepath.Join(t.TempDir(), "f.jsonl")
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, `{"flow_id": %d, "src": %d, "dst": %d, "size_bytes": %d, "start_ns": %d}`+"\n", 1000-i, i%3, 3+i%5, 100+i, 5000-i)
	}
	if err := os.WriteFile(flows, []byte(b.String()+"{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "ingest", flows, "--topology", "small-2to1", "--lake", lake, "-q")
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The rows of an answer, as text.
	ask := func(query string) string {
		t.Helper()
		rows, err := db.Query("SELECT CAST(a AS VARCHAR) FROM (" + query + ") AS t(a)")
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		out := ""
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			out += line + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	held := 0
	for _, table := range schema.Tables() {
		found, err := filepath.Glob(filepath.Join(lake, table.Name, "*", "part-*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		more, err := filepath.Glob(filepath.Join(lake, table.Name, "*", "*", "part-*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(found, more...) {
			held++
			checkFile(t, ask, table, file)
		}
		for _, v := range table.Views() {
			key := strings.Join(append(append([]string{}, v.Hive...), table.Key...), ", ")
			if !strings.Contains(must(t, "query", "--lake", lake, "--sql", "SELECT 1 FROM "+v.Name+" LIMIT 1", "--format", "csv"), "1\n1") {
				continue // no file
			}
			from := fmt.Sprintf("read_parquet('%s/%s/%s=*/part-*.parquet', hive_partitioning = true)", lake, table.Name, strings.Join(v.Hive, "=*/"))
			if got := ask(fmt.Sprintf("SELECT count(*) - count(DISTINCT (%s)) AS twice FROM %s", key, from)); got != "0\n" {
				t.Errorf("%s: key %s repeats: %s", v.Name, key, got)
			}
		}
	}
	if held < 40 {
		t.Errorf("only %d files", held)
	}
}

// checkFile holds a file to its table.
func checkFile(t *testing.T, ask func(string) string, table schema.Table, file string) {
	t.Helper()
	if got := ask(fmt.Sprintf("SELECT decode(key) || '=' || decode(value) AS kv FROM parquet_kv_metadata('%s') WHERE decode(key) LIKE 'parsimon.%%' ORDER BY 1", file)); got != fmt.Sprintf("%s=%d\n%s=%s\n", schema.VersionKey, schema.Version, schema.TableKey, table.Name) {
		t.Errorf("%s: metadata %s", file, got)
	}
	types := map[string]string{"bool": "BOOLEAN", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE", "utf8": "VARCHAR", "binary": "BLOB"}
	want := ""
	var sorted, nulls []string
	for _, c := range table.Columns {
		typ := types[c.Type.String()]
		if typ == "" {
			typ = "DOUBLE[]"
		}
		want += c.Name + "," + typ + "\n"
		if !c.Nullable {
			nulls = append(nulls, c.Name+" IS NULL")
		}
	}
	if got := ask(fmt.Sprintf("SELECT column_name || ',' || column_type AS c FROM (DESCRIBE SELECT * FROM read_parquet('%s', hive_partitioning = false))", file)); got != want {
		t.Errorf("%s has\n%swant\n%s", file, got, want)
	}
	if got := ask(fmt.Sprintf("SELECT count(*) AS n FROM read_parquet('%s') WHERE %s", file, strings.Join(nulls, " OR "))); got != "0\n" {
		t.Errorf("%s: nulls where there may be none: %s", file, got)
	}
	if sorted = table.Sort; len(sorted) > 0 {
		row := strings.Join(sorted, ", ")
		if got := ask(fmt.Sprintf("SELECT count(*) AS n FROM (SELECT row(%s) < lag(row(%[1]s)) OVER (ORDER BY file_row_number) AS back FROM read_parquet('%[2]s', file_row_number = true)) WHERE back", row, file)); got != "0\n" {
			t.Errorf("%s is not sorted by %s: %s", file, row, got)
		}
	}
}

// A lake of another schema version is refused, with what to do about it.
func TestOtherSchemaVersion(t *testing.T) {
	lake := filepath.Join(t.TempDir(), "lake")
	scenario := tinyScenario(t, "")
	must(t, "run", scenario, "--lake", lake, "-q")
	paths, err := filepath.Glob(filepath.Join(lake, "slowdowns", "*", "*", "part-*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	data, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(data), fmt.Sprintf("%s\x18\x01%d", schema.VersionKey, schema.Version), fmt.Sprintf("%s\x18\x019", schema.VersionKey), 1)
	if old == string(data) {
		t.Fatal("the version does not stand in the footer as expected")
	}
	if err := os.WriteFile(paths[0], []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"query", "slowdown_by_size", "--lake", lake}, {"query", "--lake", lake, "--sql", "SELECT max(slowdown) FROM slowdowns"}} {
		code, _, log := parsimon(t, args...)
		if code != exitFailed || !strings.Contains(log, `schema version "9"`) || !strings.Contains(log, "this program reads and writes version") {
			t.Errorf("%v: exit %d, %s", args, code, log)
		}
	}
}
