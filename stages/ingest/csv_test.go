package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/stages/topology/topologytest"
)

// CSV may have comments only before its header, has one column of each meaning, and its lines end with LF or
// CR LF.
func TestCSV(t *testing.T) {
	dir := t.TempDir()
	ingest := func(text string, o Options) (tested, error) {
		t.Helper()
		file := filepath.Join(dir, "flows.csv")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o.Mapping, _ = FormatMapping("csv")
		o.TmpDir = t.TempDir()
		o.MemoryBytes = 128 << 20
		o.MaxRejects = 1
		return readFile(t, topologytest.SmallNetwork(t), file, o)
	}
	table := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const header, row = "src,dst,size_bytes,start_ns\n", "0,1,1000,5\n"

	stats, err := ingest("# made by # hand\n\n#\nsrc;dst;Size-Bytes;start_ns;service\n0;1;1000;5;a # "+
		"b\n0;2;100;6;\"c;d\"\n#0;1;1;1;x\n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := askParquet(t, `SELECT dst || ' ' || size_bytes || ' ' || service FROM read_parquet(%s)`,
		stats.FlowsFile)
	if got != "1 1000 a # b; 2 100 c;d" || stats.Rejects != 1 {
		t.Errorf("%s, %+v", got, stats)
	}
	stats, err = ingest("flow_id\tsrc\tdst\tsize_bytes\tstart_ns\tservice\n7\t0\t1\t1000\t5\t\n8\t0\t2\t100\t6\tdb\n", Options{})
	got = askParquet(t, `SELECT flow_id || ' ' || service FROM read_parquet(%s)`, stats.FlowsFile)
	if err != nil || got != "7 ; 8 db" || stats.Rejects != 0 {
		t.Errorf("empty fields at the end of lines with tabs: %v, %s, %+v", err, got, stats)
	}
	stats, err = ingest("service\tsrc\tdst\tsize_bytes\tstart_ns\n\t0\t1\t1000\t5\n", Options{})
	if err != nil || stats.Flows != 1 {
		t.Errorf("an empty field at the beginning: %v, %+v", err, stats)
	}
	for text, want := range map[string]string{
		"src,dst,size_bytes,start_ns,size_bytes\n" +
			row: `columns 3, "size_bytes", and 5, "size_bytes", have one meaning`,
		"src,dst,size_bytes,start_ns,Size-Bytes\n" +
			row: `columns 3, "size_bytes", and 5, "Size-Bytes", have one meaning`,
		strings.ReplaceAll(header+row, "\n", "\r"): "line 1, the header, has a carriage return",
	} {
		if _, err := ingest(text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", text, want, err)
		}
	}
	stats, err = ingest(header+row+"0,1\r,1000,5\n", Options{})
	if err != nil || stats.Flows != 1 || stats.Reasons[0].Reason != "broken line: a carriage return within the "+
		"line" {
		t.Errorf("%+v, %v", stats, err)
	}
	for want, o := range map[string]Options{
		`row 2: 10.0.0.0/24, port 443, is service "db" of network "", and an earlier row says service "web"`: {
			Labels: table("labels.csv", "cidr,port,service\n10.0.0.0/24,443,web\n10.0.0.0/24,443,db\n")},
		`row 2: broken line: a carriage return`: {
			Hosts: table("cr.csv", "ip,node\n10.0.0.1,0\n10.0.0.2,\r1\n")},
		`row 1: "10.0.0.0/33" is neither an address`: {Hosts: table("cidr.csv", "ip,node\n10.0.0.0/33,0\n")},
		`or host (it has port, service)` + "\n":      {Labels: table("keyless.csv", "port,service\n443,web\n")},
		`columns 1, "ip", and 3, "IP", have one mea`: {
			Hosts: table("twice.csv", "ip,node,IP\n10.0.0.1,0,10.0.0.2\n")},
	} {
		if _, err := ingest(header+row, o); err == nil || !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Parquet files can have columns whose names differ only in case, which DuckDB does not distinguish.
func TestParquetColumnsOfOneName(t *testing.T) {
	type row struct {
		Src   int64 `parquet:"src"`
		Dst   int64 `parquet:"dst"`
		Size  int64 `parquet:"size_bytes"`
		Other int64 `parquet:"Size_Bytes"`
		Start int64 `parquet:"start_ns"`
		N     int64 `parquet:"start_ns_1"`
	}
	file := filepath.Join(t.TempDir(), "flows.parquet")
	if err := parquet.WriteFile(file, []row{{0, 1, 9, 7, 5, 3}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ingestFixture(t, "parquet", file); err == nil ||
		!strings.Contains(err.Error(), "have one meaning") {
		t.Error(err)
	}
	type numbered struct {
		Src   int64 `parquet:"src"`
		Dst   int64 `parquet:"dst"`
		Size  int64 `parquet:"Size_Bytes2"`
		Other int64 `parquet:"size_bytes2"`
		Start int64 `parquet:"start_ns"`
	}
	if err := parquet.WriteFile(file, []numbered{{0, 1, 9, 7, 5}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ingestFixture(t, "parquet", file); err == nil ||
		!strings.Contains(err.Error(), "no column size_bytes (") {
		t.Error(err)
	}
}

// JSON with a repeated key is rejected, because either value could be meant.
func TestRepeatedKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flows.jsonl")
	text := `{"src":0,"dst":1,"size_bytes":1000,"start_ns":5}` + "\n" +
		`{"src":0,"dst":1,"size_bytes":7,"size_bytes":1000,"start_ns":5}` + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	stats, err := ingestFixture(t, "jsonl", file)
	if err != nil || stats.Flows != 1 || len(stats.Reasons) != 1 ||
		stats.Reasons[0].Reason != "broken line: a key stands there twice" {
		t.Errorf("%+v, %v", stats, err)
	}
}

// A Parquet file may have a column with the name of DuckDB's row number.
func TestParquetRowNumberColumn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flows.parquet")
	data := parquetOf(t, "SELECT 7 AS file_row_number, '0' AS src, '1' AS dst, 1000 + i AS size_bytes, i AS "+
		"start_ns FROM range(3) r(i)")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	stats, err := ingestFixture(t, "parquet", file)
	if err != nil || stats.Flows != 3 {
		t.Fatalf("%+v, %v", stats, err)
	}
	got := askParquet(t, "SELECT flow_id || ' ' || size_bytes FROM read_parquet(%s)", stats.FlowsFile)
	if got != "0 1000; 1 1001; 2 1002" {
		t.Error(got)
	}
}

// Megabytes of JSON with many paths are read with the minimum memory.
func TestMemoryOfJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("memory is left out with -short")
	}
	var text strings.Builder
	for i := range 16_000 {
		fmt.Fprintf(&text, `{"insertId":"%d","resource":{"type":"gce_subnetwork","labels":{"project_id":"p","subnetwork_name":"default"}},`+
			`"jsonPayload":{"connection":{"src_ip":"10.0.0.1","dest_ip":"10.0.1.5","src_port":%d,"dest_port":443,"protocol":6},"reporter":"SRC",`+
			`"bytes_sent":"4000","packets_sent":"12","start_time":"2026-01-31T09:00:00.123456Z","end_time":"2026-01-31T09:00:01Z",`+
			`"src_vpc":{"vpc_name":"prod"},"src_instance":{"vm_name":"%s"}}}`+"\n", i, i, strings.Repeat("x", 300))
	}
	file := filepath.Join(t.TempDir(), "gcp.json")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	m, _ := FormatMapping("gcp")
	stats, err := readFile(t, topologytest.SmallNetwork(t), file,
		Options{Mapping: m, Hosts: filepath.Join("testdata", "hosts.csv"), TmpDir: t.TempDir(),
			MemoryBytes: 128 << 20, Threads: 2})
	if err != nil || stats.Flows != 16_000 {
		t.Errorf("%d MB: %d flows, %v", text.Len()>>20, stats.Flows, err)
	}
}
