package ingest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/daily"
	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// ingestFixture ingests a fixture with the hosts and labels tables of all fixtures.
func ingestFixture(t *testing.T, format, file string) (tested, error) {
	t.Helper()
	m, err := FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	dir := "testdata"
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	return readFile(t, topologytest.SmallNetwork(t), file, Options{
		Mapping: m, Hosts: filepath.Join(dir, "hosts.csv"), Labels: filepath.Join(dir, "labels.csv"),
		TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 2, MaxRejects: 1, Seed: 1,
	})
}

// The flows and rejects of every format's fixture, which was written by hand from the format's documentation.
// With -short, one of the fixtures of different ways to read a file is ingested each day.
func TestFormats(t *testing.T) {
	short := daily.Today(4, "plain.csv", "hpcc_flow.txt", "vpc_v2.log", "reference.json", "goflow2.jsonl",
		"zeek.log", "nfdump.csv", "azure_nsg.json")
	for _, c := range []struct {
		format, file                 string
		rows, flows, merged, rejects int64
		setAside                     int64
		want                         string // flows: src dst size second service|vnet, synthetic ones with ~
		reasons                      string
	}{
		{"csv", "plain.csv", 5, 2, 0, 3, 0,
			"0 2 1000 500 web, old|prod; 0 1 2000 600 |",
			"3 broken line: not 7 fields; 4 dst is not a host of the topology; 5 size_bytes is not positive"},
		{"jsonl", "plain.jsonl", 5, 3, 0, 2, 0,
			"0 2 1000 500 web|prod; 0 1 2000 600 web|; 0 1 1000 600 |",
			"4 size_bytes is not an integer; 5 broken line: not JSON"},
		{"vpc", "vpc_v2.log", 17, 5, 2, 10, 4,
			"0 2 5000 1418530010 web|prod~; 0 2 900 1418530400 web|prod~; 2 0 120000 1418530010 web|prod~; 1 3 60 " +
				"1418530010 batch|analytics~; 1 0 8855 1418530010 |~",
			"6 action is REJECT; 7 src is not a host of the topology; 8 log-status is NODATA; 9 log-status is " +
				"SKIPDATA; 11 src and dst are the same host; 12 no bytes; 13 size_bytes is not an integer; 14 end_ns is " +
				"before start_ns; 15 start_ns is before the year 2000, as if the exporter gave no time, and the format " +
				"has no time of reception; 16 broken line: not 14 fields"},
		{"vpc", "vpc_v5.log", 4, 2, 0, 2, 1,
			"0 1 15044 1566848875 |vpc-abcdefab012345678~; 1 0 3000 1566848875 |vpc-abcdefab012345678~",
			"3 log-status is NODATA; 4 broken line: not 28 fields"},
		{"gcp", "gcp.jsonl", 9, 2, 2, 5, 0,
			"0 2 2276 1543426511 web|prod-net~; 2 0 900 1543426511 web|prod-net~",
			"5 dst is not a host of the topology; 6 size_bytes is not an integer; 7 start_ns is not an integer; 8 " +
				"broken line: not JSON; 9 broken line: not a JSON object"},
		{"goflow2", "goflow2.jsonl", 10, 3, 2, 5, 2,
			"0 2 205200 1681583295 batch|analytics~; 1 2 900 1681583290 batch|analytics~; 1 3 143 1681583291 " +
				"batch|analytics~",
			"6 TCP without data, such as ACKs alone; 7 no bytes; 8 start_ns is not an integer; 9 src is missing; 10 " +
				"broken line: not JSON"},
		{"nfdump", "nfdump.csv", 9, 2, 1, 6, 4,
			"0 2 10000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"3 TCP without data, such as ACKs alone; 5 start_ns is not an integer; 6 broken line: not 10 fields; 7 " +
				"stands after the end of the rows; 8 stands after the end of the rows; 9 stands after the end of the rows"},
		{"nfdump", "nfdump_extended.csv", 3, 1, 1, 1, 0,
			"0 2 9000 1769850000 web|prod~",
			"3 src is not a host of the topology"},
		{"ipfix", "ipfix.csv", 6, 2, 1, 3, 1,
			"0 2 10000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"4 TCP without data, such as ACKs alone; 5 start_ns is not an integer; 6 src is not a host of the topology"},
		{"sflowtool", "sflowtool.csv", 4, 2, 1, 1, 0,
			"0 2 1270784 1769850000 web|prod~; 1 3 46592 1769850001 batch|analytics~",
			"4 src is missing"},
		{"hpcc", "hpcc_flow.txt", 7, 3, 0, 4, 2,
			"0 1 200000000 2 |; 1 2 5000 2 |; 2 0 5000 2 |",
			"4 src and dst are the same host; 5 size_bytes is not an integer; 6 stands after the number of rows that " +
				"the first line says; 7 stands after the number of rows that the first line says"},
		{"hpcc", "hpcc_ids.txt", 3, 2, 0, 1, 0,
			"0 1 1500 1 |; 1 2 1500 1 |",
			"3 flow_id stands in an earlier row"},
		{"reference", "reference.json", 6, 2, 0, 4, 0,
			"0 1 1000 1 |; 3 0 77 1 |",
			"2 size_bytes is not positive; 3 dst is not a host of the topology; 4 size_bytes is not an integer; 5 " +
				"flow_id stands in an earlier row"},
		{"zeek", "zeek.log", 5, 5, 0, 3, 1,
			"0 2 900 1769850000 web|prod; 2 0 120000 1769850000 web|prod; 1 3 46 1769850001 batch|analytics; " +
				"3 1 178 1769850001 batch|analytics; 2 0 5000 1769850003 web|prod",
			"3 no bytes; 5 src is not a host of the topology; 5 dst is not a host of the topology"},
		{"zeek_json", "zeek_json.jsonl", 3, 4, 0, 1, 1,
			"0 2 900 1769850000 web|prod; 2 0 120000 1769850000 web|prod; 1 3 46 1769850001 batch|analytics; " +
				"3 1 178 1769850001 batch|analytics",
			"3 no bytes"},
		{"azure_nsg", "azure_nsg.json", 5, 2, 2, 3, 2,
			"0 2 10000 1769850000 web|prod~; 2 0 120700 1769850000 web|prod~",
			"1 flow state B: no bytes yet; 4 denied; 5 version 1 has no bytes: set the flow log to version 2"},
		{"azure_vnet", "azure_vnet.json", 4, 4, 0, 2, 2,
			"0 2 10000 1769850000 web|prod~; 2 0 120700 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~; " +
				"3 1 178 1769850003 batch|analytics~",
			"1 flow state B: no bytes yet; 4 denied"},
		{"suricata", "suricata.json", 4, 3, 0, 2, 2,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"2 event_type is not flow; 4 no bytes"},
		{"argus", "argus.csv", 5, 3, 0, 3, 1,
			"0 2 9000 1769850000 web|prod; 2 0 120000 1769850000 web|prod; 1 3 46 1769850003 batch|analytics",
			"3 a port is a name: ra -n writes numbers; 4 stime is no time: ra -u writes seconds since 1970; 5 not IP"},
		{"cicflowmeter", "cicflowmeter.csv", 3, 4, 0, 1, 1,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~; " +
				"3 1 178 1769850003 batch|analytics~",
			"3 no bytes"},
		{"pmacct", "pmacct.json", 4, 2, 0, 2, 2,
			"0 2 9000 1769850000 web|prod~; 1 3 46 1769850000 batch|analytics~",
			"1 event_type is purge_init; 4 event_type is purge_close"},
		{"nfdump_json", "nfdump_json.json", 3, 3, 0, 1, 0,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"3 in_bytes is in_packets, a fault of nfdump -o ndjson in some versions: use -o json"},
		{"nfdump", "nfdump_fast.csv", 2, 2, 0, 0, 0,
			"0 2 9000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~", ""},
		{"nprobe", "nprobe.json", 3, 3, 0, 1, 0,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"3 " + noStart},
		{"ipfix", "ipfix_biflow.csv", 2, 3, 0, 0, 0,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850002 web|prod~; 1 3 46 1769850003 batch|analytics~", ""},
		{"ipfix_json", "ipfix_json.jsonl", 3, 3, 0, 1, 0,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"3 " + noStart},
		{"ibm_vpc", "ibm_vpc.json", 5, 4, 0, 3, 1,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~; " +
				"3 1 178 1769850003 batch|analytics~",
			"3 action is rejected; 4 src is not a host of the topology; 5 start_ns is not an integer"},
		{"oci", "oci.jsonl", 6, 2, 1, 3, 2,
			"0 2 9000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~",
			"4 action is REJECT; 5 status is NODATA; 6 start_ns is not an integer"},
		{"argus", "argus_binetflow.csv", 2, 3, 0, 0, 0,
			"0 2 9140 1769850000 web|prod; 2 0 121400 1769850000 web|prod; 1 3 60 1769850003 batch|analytics", ""},
		{"cicflowmeter", "cicflowmeter_ids2017.csv", 2, 4, 0, 0, 0,
			"0 2 9000 1769850007 web|prod~; 2 0 120000 1769850032 web|prod~; 1 3 46 1769850063 batch|analytics~; " +
				"3 1 178 1769850063 batch|analytics~", ""},
		{"ecs", "ecs.jsonl", 4, 3, 0, 2, 2,
			"0 2 10000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~; 3 1 178 1769850003 batch|analytics~",
			"3 flow.final is false: a later event has all bytes; 4 no flow: an event of another kind"},
		{"logstash", "logstash.jsonl", 2, 2, 0, 0, 0,
			"0 2 10000 1769850000 web|prod~; 1 3 46 1769850003 batch|analytics~", ""},
		{"vpc", "vpc_cloudwatch.log", 3, 2, 0, 1, 1,
			"0 2 9000 1769850000 web|prod~; 2 0 120000 1769850000 web|prod~", "3 log-status is NODATA"},
	} {
		t.Run(c.file, func(t *testing.T) {
			if testing.Short() && !slices.Contains(short, c.file) {
				t.Skip("left out with -short")
			}
			stats, err := ingestFixture(t, c.format, c.file)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d rows = %d flows + %d merged + %d rejected (%d set aside)", c.format, stats.Rows,
				stats.Flows, stats.Merged, stats.Rejects, stats.SetAside)
			if stats.Rows != c.rows || stats.Flows != c.flows || stats.Merged != c.merged ||
				stats.Rejects != c.rejects || stats.SetAside != c.setAside {
				t.Errorf("got %d rows, %d flows, %d merged, %d rejects, %d set aside; want %d, %d, %d, %d, %d",
					stats.Rows, stats.Flows, stats.Merged, stats.Rejects, stats.SetAside, c.rows, c.flows, c.merged,
					c.rejects, c.setAside)
			}
			divisor := "1000000000"
			if strings.HasPrefix(c.file, "plain") {
				divisor = "1"
			}
			got := askParquet(t, `SELECT concat_ws(' ', src, dst, size_bytes, start_ns // `+divisor+
				`, service || '|' || vnet || CASE WHEN synthetic_start THEN '~' ELSE '' END) AS f FROM read_parquet(%s) ORDER BY f`, stats.FlowsFile)
			want := sortedList(c.want)
			if got != want {
				t.Errorf("flows\n got %s\nwant %s", got, want)
			}
			if stats.Rows+stats.Reverse != stats.Flows+stats.Merged+stats.Rejects {
				t.Errorf("%d rows, %d second directions", stats.Rows, stats.Reverse)
			}
			if c.reasons == "" && stats.RejectsFile == "" {
				return
			}
			got = askParquet(t, `SELECT "row" || ' ' || reason FROM read_parquet(%s)`, stats.RejectsFile)
			if got != c.reasons {
				t.Errorf("rejects\n got %s\nwant %s", got, c.reasons)
			}
		})
	}
}

func sortedList(s string) string {
	parts := strings.Split(s, "; ")
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// VPC flow logs in Parquet have the same fields, with _ instead of - in names, numbers as numbers and nulls
// instead of -. A JSON list has the same flows as JSON lines.
func TestFormatsCompressedAndAsLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "vpc.parquet")
	data := parquetOf(t, `SELECT 2 AS version, '123456789010' AS account_id, eni AS interface_id, '10.0.0.1' AS srcaddr, '10.0.1.5' AS dstaddr, 49152 AS srcport, 443 AS dstport, 6 AS protocol,
		CAST(10 AS BIGINT) AS packets, CAST(b AS BIGINT) AS bytes, CAST(s AS BIGINT) AS start, CAST(s + 60 AS BIGINT) AS "end", 'ACCEPT' AS action, 'OK' AS log_status
		FROM (VALUES ('eni-1', 4249, 1418530010), ('eni-1', 751, 1418530070), ('eni-2', 4200, 1418530010)) v(eni, b, s)
		UNION ALL SELECT 2, '123456789010', 'eni-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1418530010, 1418530070, NULL, 'NODATA'`)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	stats, err := ingestFixture(t, "vpc", file)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Rows != 4 || stats.Flows != 1 || stats.Merged != 2 || stats.SetAside != 1 {
		t.Errorf("%+v", stats)
	}
	got := askParquet(t, `SELECT concat_ws(' ', src, dst, size_bytes, service) FROM read_parquet(%s)`,
		stats.FlowsFile)
	if got != "0 2 5000 web" {
		t.Errorf("flows %s", got)
	}
	lines, err := os.ReadFile(filepath.Join("testdata", "gcp.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	sound := strings.Split(string(lines), "\n")[:7]
	list := filepath.Join(t.TempDir(), "gcp.json.gz")
	if err := os.WriteFile(list, zipped(t, "[\n"+strings.Join(sound, ",\n")+"\n]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if stats, err = ingestFixture(t, "gcp", list); err != nil || stats.Rows != 7 || stats.Flows != 2 ||
		stats.Merged != 2 || stats.Rejects != 3 {
		t.Errorf("%+v, %v", stats, err)
	}
	cutOff := filepath.Join(t.TempDir(), "cut.json")
	for text, want := range map[string]string{
		"[" + sound[0] + ",\n" + sound[1]:              "cut short after element 2",
		"[" + sound[0] + ",\n{\"jsonPayload\": oops}]": "element 2 of the JSON list",
		"[" + sound[0] + "]\n" + sound[1]:              "the file continues after the JSON list",
	} {
		if err := os.WriteFile(cutOff, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ingestFixture(t, "gcp", cutOff); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "cut.json") {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// Starts are drawn within the second of the log: the flows of a host are spread over it, in the same way each
// time, and differently with another seed.
func TestStartsAreDrawn(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "2 1 eni-1 10.0.0.1 10.0.0.2 %d 443 6 1 100 1418530010 1418530011 ACCEPT OK\n", 1000+i)
	}
	file := filepath.Join(t.TempDir(), "second.log")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	starts := func(seed uint64) string {
		m, err := FormatMapping("vpc")
		if err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file,
			Options{Mapping: m, Hosts: filepath.Join("testdata", "hosts.csv"), TmpDir: t.TempDir(),
				MemoryBytes: 256 << 20, Threads: 2, Seed: seed, GapSigma: 1})
		if err != nil {
			t.Fatal(err)
		}
		if stats.Flows != 500 || stats.SyntheticStarts != 500 || stats.FirstStartNS < 1418530010e9 ||
			stats.LastStartNS >= 1418530011e9 {
			t.Fatalf("%+v", stats)
		}
		// Log-normal gaps of shape 1 have a coefficient of variation of sqrt(e - 1) = 1.31.
		got := askParquet(t, `SELECT CASE WHEN stddev_pop(gap) / avg(gap) BETWEEN 1.05 AND 1.6 AND avg(gap) BETWEEN 1.9e6 AND 2.1e6 THEN 'ok' ELSE concat_ws(' ', stddev_pop(gap) / avg(gap), avg(gap)) END
			FROM (SELECT start_ns - lag(start_ns) OVER (ORDER BY start_ns) AS gap FROM read_parquet(%s))`, stats.FlowsFile)
		if got != "ok" {
			t.Errorf("gaps: variation and mean %s", got)
		}
		return askParquet(t, `SELECT md5(string_agg(concat_ws(' ', flow_id, start_ns), ',' ORDER BY flow_id)) FROM read_parquet(%s)`, stats.FlowsFile)
	}
	a := starts(1)
	if a != starts(1) || a == starts(2) {
		t.Error("starts do not follow the seed")
	}
}

// A mapping of a user: rows that its WHERE leaves out are rejected, rows that it repeats are an error.
func TestOwnMapping(t *testing.T) {
	const header = "-- rows: flows\n-- reads: csv\n-- column: a\n-- column: b\n-- column: n\n-- column: t\n-- " +
		"needs: a b\n\n"
	run := func(query string) (tested, error) {
		dir := t.TempDir()
		mapping := filepath.Join(dir, "mine.sql")
		data := filepath.Join(dir, "mine.csv")
		for file, text := range map[string]string{mapping: header + query,
			data: "A;b;n;t\n0;1;10;2.5\n1;2;20;3\n2;3;30;3.25\n"} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		m, err := ReadMapping(mapping)
		if err != nil {
			return tested{}, err
		}
		return readFile(t, topologytest.SmallNetwork(t), data,
			Options{Mapping: m, TmpDir: t.TempDir(), MaxRejects: 1})
	}
	stats, err := run(`SELECT "row", a AS src, b AS dst, n AS size_bytes, seconds_ns(t) AS start_ns FROM source WHERE a <> '1'`)
	if err != nil || stats.Rows != 3 || stats.Flows != 2 || stats.Rejects != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
	got := askParquet(t, `SELECT concat_ws(' ', flow_id, src, start_ns) FROM read_parquet(%s)`, stats.FlowsFile)
	if got != "0 0 2500000000; 2 2 3250000000" {
		t.Errorf("flows %s", got)
	}
	if got := askParquet(t, `SELECT "row" || ' ' || reason || ': ' || raw FROM read_parquet(%s)`,
		stats.RejectsFile); got != "2 left out by the mapping: 1,2,20,3" {
		t.Errorf("rejects %s", got)
	}
	for i, c := range [][2]string{
		{`SELECT "row", a AS src, b AS dst, n AS size_bytes, 1 AS start_ns FROM source, range(2)`, "more than once"},
		{`SELECT "row" + 1 AS "row", a AS src, b AS dst, n AS size_bytes, 1 AS start_ns FROM source`,
			"does not have"},
		{`SELECT greatest("row", 2) AS "row", a AS src, b AS dst, n AS size_bytes, 1 AS start_ns FROM source`,
			"more than once"},
		{`SELECT "row", a AS src, b AS dst, n AS size_bytes FROM source`, "yields no column start_ns"},
		{`SELECT "row", a AS src, b AS dst, n AS size_bytes, 1 AS start_ns, 1 AS color FROM source`,
			"color, which is not a canonical column"},
		{`SELECT "row", a AS src, b AS dst, n AS size_bytes, true AS start_ns FROM source`,
			"start_ns is of type BOOLEAN"},
		{`SELECT "row", (SELECT content FROM read_text('/etc/hostname')) AS src FROM source`,
			`"read_text" is not allowed`},
		{`SELECT "row", x AS src FROM source`, "mapping mine"},
		{`DROP TABLE source; SELECT 1`, "without a semicolon"},
	} {
		if daily.Skips(i, 3) {
			continue
		}
		if _, err := run(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c[0], err, c[1])
		}
	}
}

// The case of the names in a mapping's header is ignored. A note says that rows of a flow log repeat others
// exactly. It does not cover rows that differ in any column, or sampled ones. All of these rows count.
func TestRepeatedRowsOfAFile(t *testing.T) {
	const header = "-- rows: records\n-- reads: csv\n-- column: flowStart\n-- column: srcPort\n-- column: " +
		"octetCount\n-- column: Note\n-- needs: flowStart octetCount\n\n" +
		`SELECT "row", '0' AS src, '1' AS dst, octetCount AS size_bytes,
1769850000000000000 + whole(flowStart) AS start_ns, srcPort AS src_port, 443 AS dst_port, 6 AS protocol FROM source`
	m, err := parseMapping("mine.sql", header)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows string
		rate int64
		note string
	}{
		{"5000,1,100,a\n5000,1,100,a\n6000,2,300,a\n5000,1,100,a\n", 0,
			"2 of 4 rows repeat another row of their file, 200 of 600 bytes"},
		{"5000,1,100,a\n5000,1,100,b\n6000,2,300,a\n", 0, ""},
		{"5000,1,100,a\n5000,1,100,a\n6000,2,300,a\n", 100, ""},
	} {
		file := filepath.Join(t.TempDir(), "log.csv")
		if err := os.WriteFile(file, []byte("FlowStart,srcport,octetCount,note\n"+c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file,
			Options{Mapping: m, TmpDir: t.TempDir(), Seed: 1, SamplingRate: c.rate})
		if err != nil || stats.Flows != 2 || stats.Rejects != 0 {
			t.Fatalf("%+v, %v", stats, err)
		}
		notes := strings.Join(stats.Notes, "; ")
		if (notes == "") != (c.note == "") || !strings.Contains(notes, c.note) {
			t.Errorf("notes %q, want %q", notes, c.note)
		}
	}
}

// The SQL of a user's mapping cannot use more memory than the limit, not even memory that DuckDB does not
// count.
func TestOwnMappingMemory(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("the process is limited on Linux only; memory is left out with -short")
	}
	dir := t.TempDir()
	mapping := filepath.Join(dir, "mine.sql")
	data := filepath.Join(dir, "mine.csv")
	ingest := func(bytes string) error {
		err := errors.Join(os.WriteFile(data, []byte("a,b\n0,1\n1,2\n"), 0o644), os.WriteFile(mapping, []byte(
			"-- rows: flows\n-- reads: csv\n-- column: a\n-- column: b\n\n"+
				`SELECT "row", a AS src, b AS dst, `+bytes+` AS size_bytes, 0 AS start_ns FROM source`), 0o644))
		if err != nil {
			return err
		}
		m, err := ReadMapping(mapping)
		if err == nil {
			_, err = readFile(t, topologytest.SmallNetwork(t), data, Options{Mapping: m, TmpDir: t.TempDir()})
		}
		return err
	}
	for _, bytes := range []string{"len(range(2000000000))", `len(range(2000000000 + "row"))`} {
		err := ingest(bytes)
		if err == nil || !strings.Contains(err.Error(), "needs more memory than its limit") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bytes, err)
		}
	}
	if err := ingest("len(range(1000000))"); err != nil { // the limit is lifted
		t.Error(err)
	}
}

// A mapping is read completely, so an endless one is refused.
func TestMappingsFromDevices(t *testing.T) {
	if _, err := ReadMapping("/dev/zero"); err == nil || !strings.Contains(err.Error(), "/dev/zero: a device") {
		t.Error(err)
	}
}

// The longest prefix applies, and within it the label with the port. Labels of the destination precede those
// of the source.
func TestAddressBook(t *testing.T) {
	b := newAddressBook(topologytest.SmallNetwork(t), nil)
	for address, node := range map[string]string{"10.0.0.0/8": "0", "10.1.0.0/16": "1", "10.1.2.3": "2",
		"fd00::/8": "3", "web-7": "2"} {
		if err := b.addHost("row 1", address, node); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]int32{"10.9.9.9": 0, "10.1.9.9": 1, "10.1.2.3": 2, "fd00::1": 3,
		"::ffff:10.1.2.3": 2, "web-7": 2, " 3 ": 3, "+1": 1, "4": 4, "5": -1, "11.0.0.1": -1, "fe80::1%eth0": -1,
		"": -1} {
		if got, err := b.host(text); err != nil || got != want {
			t.Errorf("%q is node %d, want %d", text, got, want)
		}
	}
	for _, bad := range [][2]string{{"10.0.0.0/8", "1"}, {"web-7", "3"}, {"10.3.0.0/16", "77"}, {"", "1"}} {
		if err := b.addHost("row 9", bad[0], bad[1]); err == nil {
			t.Errorf("%v: error %v", bad, err)
		}
	}
	if err := b.addHost("row 98", "0.0.0.0/0", "4"); err != nil {
		t.Fatal(err)
	}
	got := b.isSwitch("hosts.csv", "8.8.8.8")
	if !strings.HasPrefix(got, "hosts.csv row 98: 4 is a switch of the topology") ||
		b.isSwitch("hosts.csv", "10.1.2.3") != "" {
		t.Error(got)
	}
	// A switch with paths through it cannot be a host, because a host would not forward.
	wan := newAddressBook(topologytest.Wire(t, 6, 2, [2]int32{0, 2}, [2]int32{1, 4}, [2]int32{2, 3},
		[2]int32{3, 4}, [2]int32{4, 5}), nil)
	for node, want := range map[string]string{
		"3": "3 is a switch of the topology; it has 2 cables, and hosts do not forward: map its addresses to a " +
			"host; if no path uses it, make",
		"5": "5 is a switch of the topology; make it a host with --host-pattern 5, and",
	} {
		got := wan.isSwitch("hosts.csv", node)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, l := range [][4]string{{"10.0.0.0/8", "", "any", ""}, {"10.0.0.0/8", "443", "wide443", ""},
		{"10.1.0.0/16", "", "narrow", ""}, {"10.1.2.0/24", "80", "port80", ""}} {
		if err := b.addLabel(l[0], l[1], l[2], l[3]); err != nil {
			t.Fatal(err)
		}
	}
	find := func(address string, port int32) string {
		l, _ := b.classOf[b.class(address)].at(int(port))
		return l.service
	}
	for _, c := range []struct {
		address string
		port    int32
		want    string
	}{{"10.9.9.9", 443, "wide443"}, {"10.9.9.9", 80, "any"}, {"10.1.9.9", 443, "narrow"},
		{"10.1.2.9", 80, "port80"}, {"10.1.2.9", 443, "narrow"}, {"11.0.0.1", 443, ""}} {
		got := find(c.address, c.port)
		if got != c.want {
			t.Errorf("%s port %d: %q, want %q", c.address, c.port, got, c.want)
		}
	}
	if err := b.addLabel("10.0.0.0/8", "http", "x", ""); err == nil {
		t.Errorf("a port that is none: %v", err)
	}
}

// For every built-in format and any bytes, the result is an error or accounts for every row. The fixtures are
// seeds only if the target is fuzzed, because TestFormats and TestDamagedFixtures read them. Half of the
// formats have a seed today, the others tomorrow. With -short one in six of them has one.
func FuzzFormats(f *testing.F) {
	formats := Formats()
	fuzzed := flag.Lookup("test.fuzz").Value.String() != ""
	for i, format := range formats {
		if fuzzed {
			addFixtures(f, uint8(i), format)
		}
		if testing.Short() && i%6 != 0 || !daily.Runs(i/2, 2) {
			continue
		}
		f.Add(uint8(i), []byte([]string{"3\n\n1 2 3\x00\xff\n[{}]", "[{\"src\":0},"}[i%2]))
	}
	f.Fuzz(func(t *testing.T, format uint8, text []byte) {
		accountFor(t, formats[int(format)%len(formats)], text)
	})
}

// addFixtures adds the fixtures of a format, which has the number i, as seeds.
func addFixtures(f *testing.F, i uint8, format string) {
	files, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if !strings.HasPrefix(name, format) && !strings.HasPrefix(name, "plain."+format) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, text)
	}
}

// accountFor ingests a text. It must fail with one line that names the file, or account for every row.
func accountFor(t *testing.T, format string, text []byte) {
	t.Helper()
	m, err := FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "fuzz.txt")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	stats, err := readFile(t, topologytest.SmallNetwork(t), file,
		Options{Mapping: m, Hosts: filepath.Join("testdata", "hosts.csv"),
			Labels: filepath.Join("testdata", "labels.csv"), TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 1,
			MaxRejects: 1, Seed: 1})
	if err != nil {
		if !strings.Contains(err.Error(), "fuzz.txt") || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "INTERNAL") {
			t.Errorf("%s: an error of several lines, without the file, or of the engine itself: %v\n%q", format, err,
				text)
		}
		return
	}
	if stats.Rows+stats.Reverse != stats.Flows+stats.Merged+stats.Rejects || stats.Flows < 0 ||
		stats.Merged < 0 || stats.Rejects < 0 {
		t.Errorf("%s: %d rows, %d flows, %d merged, %d rejects\n%q", format, stats.Rows, stats.Flows, stats.Merged,
			stats.Rejects, text)
	}
	if m.reads != "csv" && m.each == nil && !strings.HasPrefix(strings.TrimSpace(string(text)), "[") {
		lines := textRows(m, string(text))
		if lines != stats.Rows {
			t.Errorf("%s: %d rows, the text has %d lines\n%q", format, stats.Rows, lines, text)
		}
	}
	if stats.Rejects > 0 {
		n := askParquet(t, `SELECT CAST(count(DISTINCT (file, "row", reverse)) AS VARCHAR) FROM read_parquet(%s)`,
			stats.RejectsFile)
		if n != fmt.Sprint(stats.Rejects) {
			t.Errorf("%s: %s rows in table rejects, %d rejects\n%q", format, n, stats.Rejects, text)
		}
	}
}

// Fixtures are damaged at random: bytes and lines are changed, removed, repeated and swapped. One in two is
// damaged in every run, and each two hundred times if PARSIMON_LONG is set.
func TestDamagedFixtures(t *testing.T) {
	if testing.Short() {
		t.Skip("other fixtures each day are left out with -short")
	}
	rounds := 2
	fixtures := [][2]string{
		{"csv", "plain.csv"},
		{"jsonl", "plain.jsonl"},
		{"vpc", "vpc_v2.log"},
		{"vpc", "vpc_v5.log"},
		{"gcp", "gcp.jsonl"},
		{"goflow2", "goflow2.jsonl"},
		{"hpcc", "hpcc_flow.txt"},
		{"hpcc", "hpcc_ids.txt"},
		{"nfdump", "nfdump.csv"},
		{"nfdump", "nfdump_extended.csv"},
		{"sflowtool", "sflowtool.csv"},
		{"ipfix", "ipfix.csv"},
		{"reference", "reference.json"},
	}
	if daily.All() {
		rounds = 200
		fixtures = append(fixtures, [][2]string{
			{"argus", "argus.csv"},
			{"argus", "argus_binetflow.csv"},
			{"azure_nsg", "azure_nsg.json"},
			{"azure_vnet", "azure_vnet.json"},
			{"cicflowmeter", "cicflowmeter.csv"},
			{"cicflowmeter", "cicflowmeter_ids2017.csv"},
			{"ecs", "ecs.jsonl"},
			{"ibm_vpc", "ibm_vpc.json"},
			{"ipfix", "ipfix_biflow.csv"},
			{"ipfix_json", "ipfix_json.jsonl"},
			{"logstash", "logstash.jsonl"},
			{"nfdump", "nfdump_fast.csv"},
			{"nfdump_json", "nfdump_json.json"},
			{"nprobe", "nprobe.json"},
			{"oci", "oci.jsonl"},
			{"pmacct", "pmacct.json"},
			{"suricata", "suricata.json"},
			{"vpc", "vpc_cloudwatch.log"},
			{"zeek", "zeek.log"},
			{"zeek_json", "zeek_json.jsonl"},
		}...)
	}
	for i, f := range fixtures {
		if !daily.Runs(i, 2) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("testdata", f[1]))
		if err != nil {
			t.Fatal(err)
		}
		draw := rng.New(uint64(len(f[1])), rng.Bootstrap)
		for range rounds {
			accountFor(t, f[0], damage(&draw, text))
		}
	}
}

// damage changes a text in a few places.
func damage(draw *rng.Stream, text []byte) []byte {
	out := slices.Clone(text)
	for range 1 + draw.IntN(6) {
		if len(out) == 0 {
			break
		}
		at := draw.IntN(len(out))
		n := min(len(out)-at, 1+draw.IntN(40))
		switch draw.IntN(8) {
		case 0:
			out[at] = byte(draw.Uint64())
		case 1:
			odd := []byte("\"\n,;: -{}[]\x00\xff\t\r9e.")
			out[at] = odd[draw.IntN(len(odd))]
		case 2:
			out = slices.Delete(out, at, at+n)
		case 3:
			out = slices.Insert(out, at, slices.Clone(out[at:at+n])...)
		case 4:
			out = out[:at]
		case 5:
			lines := strings.SplitAfter(string(out), "\n")
			i := draw.IntN(len(lines))
			j := draw.IntN(len(lines))
			lines[i], lines[j] = lines[j], lines[i]
			out = []byte(strings.Join(lines, ""))
		case 6:
			out = slices.Insert(out, at, []byte("99999999999999999999999999999999")...)
		case 7:
			lines := strings.SplitAfter(string(out), "\n")
			i := draw.IntN(len(lines))
			out = []byte(strings.Join(slices.Insert(lines, i, lines[i]), ""))
		}
	}
	return out
}

// textRows counts the lines of a text that are rows, independently of the code under test.
func textRows(m *Mapping, text string) (n int64) {
	first := true
	for _, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if first && m.reads == "csv" && strings.TrimSpace(line)[0] == '#' {
			continue
		}
		is := m.reads == "csv" || headerOf(m, []byte(line)) != nil
		if !first || m.reads == "json" || !m.count && !is {
			n++
		}
		first = false
	}
	return n
}

// Bytes in the reverse direction, which nfdump -b has in column obyt, are a separate flow.
func TestNfdumpReverseBytes(t *testing.T) {
	row := "2026-01-31 09:00:00,2026-01-31 09:00:01,1.0,10.0.0.1,10.0.1.5,1,443,6,10,9000,7,"
	for back, want := range map[string]string{"0": "0 9000", "": "0 9000", "700": "0 9000; 2 700"} {
		if testing.Short() && back != "700" {
			t.Logf("%q is left out with -short", back)
			continue
		}
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte("ts,te,td,sa,da,sp,dp,pr,ipkt,ibyt,opkt,obyt\n"+row+back+"\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		stats, err := ingestFixture(t, "nfdump", file)
		if err != nil {
			t.Fatalf("%q: %v", back, err)
		}
		got := askParquet(t, `SELECT src || ' ' || size_bytes AS f FROM read_parquet(%s) ORDER BY f`,
			stats.FlowsFile)
		if got != want {
			t.Errorf("%q: %s, want %s", back, got, want)
		}
	}
}

// A flow's DSCP is that of column dscp, or the upper six bits of the type of service. An invalid value
// rejects the row.
func TestDSCP(t *testing.T) {
	nfdump := "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt\n"
	for i, c := range []struct{ format, text, want, reasons string }{
		{"csv", "src,dst,size_bytes,start_ns,dscp\n0,1,10,1,46\n0,1,20,2,\n0,1,30,3,64\n0,1,40,4,ef\n0,1,50,5,-1\n0,1,60,6, 0\n",
			"10 46; 20 -; 60 0", "3 dscp is not an integer from 0 to 63; 4 dscp is not an integer from 0 to 63; 5 " +
				"dscp is not an integer from 0 to 63"},
		{"jsonl", `{"src": 0, "dst": 1, "size_bytes": 10, "start_ns": 1, "dscp": 26}` + "\n", "10 26", ""},
		{"nfdump", nfdump + "2026-01-31 09:00:00,2026-01-31 " +
			"09:00:01,1.0,10.0.0.1,10.0.1.5,1,443,6,.,0,184,10,9000\n", "9000 46", ""},
		{"goflow2", `{"type":"IPFIX","time_received_ns":1681583295157626000,"bytes":1500,"packets":1,"src_addr":"10.0.0.1","dst_addr":"10.0.1.5","ip_tos":105}` + "\n" +
			`{"Type":"SFLOW_5","TimeReceived":1681583295,"Bytes":900,"SrcAddr":"10.0.1.5","DstAddr":"10.0.0.1","IPTos":32}` + "\n", "1500 26; 882 8", ""},
		{"gcp", `{"jsonPayload":{"bytes_sent":"1500","connection":{"dest_ip":"10.0.1.5","dest_port":443,"protocol":6,"src_ip":"10.0.0.1","src_port":1},` +
			`"network_service":{"dscp":26},"reporter":"SRC","start_time":"2018-11-28T17:35:11Z","end_time":"2018-11-28T17:35:12Z"}}` + "\n", "1500 26", ""},
		{"sflowtool", "unixSecondsUTC,srcIP,dstIP,IPTOS,sampledPacketSize,meanSkipCount\n1769850000,10.0.0.1,10.0.1.5,184,1518,1\n", "1500 46", ""},
		{"sflowtool", "unixSecondsUTC,srcIP,dstIP,ip_tos,packet_size,sampling_rate\n1769850000,10.0.0.1,10.0.1.5,0xb8,1518,1\n", "1500 46", ""},
	} {
		if leavesOut(t, i, daily.Runs(i, 7)) {
			continue
		}
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		stats, err := ingestFixture(t, c.format, file)
		if err != nil {
			t.Fatalf("%s: %v", c.format, err)
		}
		got := askParquet(t, `SELECT concat_ws(' ', size_bytes, coalesce(dscp::VARCHAR, '-')) AS f FROM read_parquet(%s) ORDER BY f`, stats.FlowsFile)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.format, got, c.want)
		}
		if c.reasons != "" {
			got = askParquet(t, `SELECT "row" || ' ' || reason FROM read_parquet(%s)`, stats.RejectsFile)
			if got != c.reasons {
				t.Errorf("%s: %s, want %s", c.format, got, c.reasons)
			}
		}
	}
}
