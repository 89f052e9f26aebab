package stages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// smallNetwork is a rack of four hosts, ids 0 to 3, and a switch, 4.
func smallNetwork(t *testing.T) *Network {
	t.Helper()
	nodes := []Node{{ID: 4, Kind: KindTor, Pod: -1, Rack: -1}}
	var cables []Cable
	for h := range int32(4) {
		nodes = append(nodes, Node{ID: h, Kind: KindHost, Pod: -1, Rack: -1})
		cables = append(cables, Cable{A: h, B: 4, BandwidthBps: 1e10, DelayNS: 1000})
	}
	n, err := NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ingestText(t *testing.T, text string, maxRejects float64) (IngestStats, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "flows.csv")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Ingest(context.Background(), smallNetwork(t), IngestOptions{File: file, TmpDir: dir, MemoryBytes: 256 << 20, Threads: 2, MaxRejects: maxRejects})
}

// askParquet answers a query over the file, rows joined by "; ".
func askParquet(t *testing.T, query, file string) string {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(fmt.Sprintf(query, quote(file)))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "; ")
}

// Every way a row can be wrong, with the row number a person would count.
func TestIngestSetsBadRowsAside(t *testing.T) {
	stats, err := ingestText(t, `flow_id,src,dst,size_bytes,start_ns,service,vnet
10,0,1,1000,500,web,"prod, blue"
11,0,0,1000,10,web,prod
12,0,9,1000,20,web,prod
13,4,1,1000,30,web,prod
14,1,2,0,40,web,prod
15,1,2,-5,50,web,prod
x,1,2,100,60,web,prod
16,1,2,many,70,web,prod
17,1,2,100
18,1,2,100,-1,web,prod
19,2,3,1500,400,,
10,2,3,1500,410,web,prod
20,3,0,9007199254740993,5,web,prod
`, 1)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Rows != 13 || stats.Flows != 2 || stats.Rejects != 11 {
		t.Errorf("rows %d, flows %d, rejects %d; want 13, 2, 11", stats.Rows, stats.Flows, stats.Rejects)
	}
	got := askParquet(t, `SELECT concat_ws(' ', flow_id, src, dst, size_bytes, start_ns, '<' || service || '|' || vnet || '>') FROM read_parquet(%s)`, stats.FlowsFile)
	if want := `19 2 3 1500 400 <|>; 10 0 1 1000 500 <web|prod, blue>`; got != want {
		t.Errorf("flows\n got %s\nwant %s", got, want)
	}
	got = askParquet(t, `SELECT "row" || ' ' || reason FROM read_parquet(%s)`, stats.RejectsFile)
	want := "2 src and dst are the same host; 3 dst is not a host of the topology; 4 src is not a host of the topology; " +
		"5 size_bytes is not positive; 6 size_bytes is not positive; 7 flow_id is not an integer; 8 size_bytes is not an integer; " +
		"9 broken line: missing columns; 10 start_ns is negative or beyond 2^62; 12 flow_id stands in an earlier row; 13 size_bytes is beyond 2^50"
	if got != want {
		t.Errorf("rejects\n got %s\nwant %s", got, want)
	}
}

func TestIngestRefuses(t *testing.T) {
	_, err := ingestText(t, "src,dst,size_bytes,start_ns\n0,1,100,5\n0,0,100,6\n", 0.01)
	var many *TooManyRejectsError
	if !errors.As(err, &many) || many.Rejects != 1 || many.Rows != 2 {
		t.Errorf("half of the rows rejected: %v", err)
	}
	_, err = ingestText(t, "src,dst,bytes\n0,1,100\n", 1)
	if err == nil || !strings.Contains(err.Error(), "no column size_bytes, start_ns") {
		t.Errorf("missing columns: %v", err)
	}
	_, err = ingestText(t, "src,dst,size_bytes,start_ns\n0,1,100,0\n0,1,100,4000000000000000000\n", 1)
	if err == nil || !strings.Contains(err.Error(), "days") {
		t.Errorf("a span of a century: %v", err)
	}
	_, err = Ingest(context.Background(), smallNetwork(t), IngestOptions{File: filepath.Join(t.TempDir(), "none.csv"), TmpDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "none.csv") {
		t.Errorf("missing file: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.parquet")
	if err := os.WriteFile(bad, []byte("PAR1 but not really PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Ingest(context.Background(), smallNetwork(t), IngestOptions{File: bad, TmpDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "bad.parquet") {
		t.Errorf("damaged Parquet: %v", err)
	}
}

// A file without ids gets its row numbers as ids.
func TestIngestNumbersFlows(t *testing.T) {
	stats, err := ingestText(t, "start_ns,size_bytes,dst,src\n9,100,1,0\n3,200,2,1\n3,300,2,0\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := askParquet(t, `SELECT flow_id || ':' || size_bytes FROM read_parquet(%s)`, stats.FlowsFile); got != "1:200; 2:300; 0:100" {
		t.Errorf("flows %s", got)
	}
	if stats.FirstStartNS != 3 || stats.LastStartNS != 9 {
		t.Errorf("span %d to %d", stats.FirstStartNS, stats.LastStartNS)
	}
}

func FuzzIngestCSV(f *testing.F) {
	f.Add("src,dst,size_bytes,start_ns\n0,1,100,5\n")
	f.Add("flow_id,src,dst,size_bytes,start_ns\n1,0,1,\"1\n00\",5\n\n,,,,\n")
	f.Add("src;dst\n0;1\n")
	f.Add("\xff\xfe,\x00")
	f.Fuzz(func(t *testing.T, text string) {
		stats, err := ingestText(t, text, 1)
		if err == nil && stats.Rows != stats.Flows+stats.Rejects {
			t.Errorf("%d rows, %d flows, %d rejects", stats.Rows, stats.Flows, stats.Rejects)
		}
	})
}
