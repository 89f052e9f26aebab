package ingest

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"parsimon/queries/duckdb"
	"parsimon/schema/daily"
	"parsimon/stages/topology/topologytest"
)

func ingestText(t *testing.T, text string, maxRejects float64) (tested, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "flows.csv")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return readFile(t, topologytest.SmallNetwork(t), file,
		Options{TmpDir: dir, MemoryBytes: 256 << 20, Threads: 2, MaxRejects: maxRejects})
}

// plainDuckDB returns a DuckDB without limits, which all tests share because opening one takes longer than a
// query.
var plainDuckDB = sync.OnceValues(func() (*sql.DB, error) { return sql.Open("duckdb", "") })

// askParquet returns the result of a query over the file, rows joined by "; ".
func askParquet(t *testing.T, query, file string) string {
	t.Helper()
	db, err := plainDuckDB()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(fmt.Sprintf(query, duckdb.Quote(file)))
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

// Rejects name every way in which a row can be invalid, with the row number as a person would count it.
func TestIngestRejectsBadRows(t *testing.T) {
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
	want := "2 src and dst are the same host; 3 dst is not a host of the topology; 4 src is not a host of the " +
		"topology; 5 size_bytes is not positive; 6 size_bytes is not positive; 7 flow_id is not an integer; 8 " +
		"size_bytes is not an integer; 9 broken line: not 7 fields; 10 start_ns is negative or beyond 2^62; 12 " +
		"flow_id stands in an earlier row; 13 size_bytes is beyond 2^50"
	if got != want {
		t.Errorf("rejects\n got %s\nwant %s", got, want)
	}
}

func TestIngestRefuses(t *testing.T) {
	_, err := ingestText(t, "src,dst,size_bytes,start_ns\n0,1,100,5\n0,0,100,6\n", 0.01)
	if err == nil || !strings.Contains(err.Error(),
		"1 of 2 rows cannot be simulated, more than the accepted 1%") {
		t.Errorf("half of the rows rejected: %v", err)
	}
	_, err = ingestText(t, "src,dst,size_bytes,start_ns\n0,1,100,2026-01-31T09:00:00.5Z\n", 0.01)
	if err == nil || !strings.Contains(err.Error(), "2026-01-31T09:00:00.5Z are read by function rfc3339_ns of "+
		"a --mapping") {
		t.Errorf("a date: %v", err)
	}
	_, err = ingestText(t, "src,dst,bytes\n0,1,100\n", 1)
	if err == nil || !strings.Contains(err.Error(), "no column size_bytes, start_ns") {
		t.Errorf("missing columns: %v", err)
	}
	_, err = ingestText(t, "src,dst,size_bytes,start_ns\n0,1,100,0\n0,1,100,4000000000000000000\n", 0.1)
	if err == nil || !strings.Contains(err.Error(), "days") {
		t.Errorf("a span of a century: %v", err)
	}
	_, err = readFile(t, topologytest.SmallNetwork(t), filepath.Join(t.TempDir(), "none.csv"),
		Options{TmpDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "none.csv") {
		t.Errorf("missing file: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.parquet")
	if err := os.WriteFile(bad, []byte("PAR1 but not really PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = readFile(t, topologytest.SmallNetwork(t), bad, Options{TmpDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "bad.parquet") {
		t.Errorf("damaged Parquet: %v", err)
	}
}

// A file whose last line has no line end may have been cut while it was copied.
func TestIngestSaysThatTheLastRowMayBeCut(t *testing.T) {
	for text, notes := range map[string]int{"src,dst,size_bytes,start_ns\n0,1,100,0\n": 0,
		"src,dst,start_ns,size_bytes\n0,1,0,100": 1} {
		stats, err := ingestText(t, text, 0)
		if err != nil || len(stats.Notes) != notes {
			t.Errorf("%q: notes %q, error %v", text, stats.Notes, err)
		}
	}
}

// The flows of a file without ids have row numbers as ids.
func TestIngestNumbersFlows(t *testing.T) {
	stats, err := ingestText(t, "start_ns,size_bytes,dst,src\n9,100,1,0\n3,200,2,1\n3,300,2,0\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	got := askParquet(t, `SELECT flow_id || ':' || size_bytes FROM read_parquet(%s)`, stats.FlowsFile)
	if got != "1:200; 2:300; 0:100" {
		t.Errorf("flows %s", got)
	}
	if stats.FirstStartNS != 3 || stats.LastStartNS != 9 {
		t.Errorf("span %d to %d", stats.FirstStartNS, stats.LastStartNS)
	}
}

// ingestFile ingests a file of the given name.
func ingestFile(t *testing.T, name string, data []byte) (tested, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	// If the name of the file were used as a pattern, it would match these files.
	for _, other := range []string{"f1.csv", "fx.csv", "f1.parquet", "fx.parquet"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), other),
			[]byte("src,dst,size_bytes,start_ns\n2,3,9,9\n2,3,9,9\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := readFile(t, topologytest.SmallNetwork(t), file,
		Options{TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 2, MaxRejects: 0})
	if err != nil && strings.Contains(err.Error(), "\n") || err != nil && !strings.Contains(err.Error(), name) {
		t.Errorf("%s: an error of several lines, or without the file: %v", name, err)
	}
	return stats, err
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// parquetOf returns the result of a query as a Parquet file.
func parquetOf(t *testing.T, query string) []byte {
	t.Helper()
	db, err := plainDuckDB()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "made.parquet")
	if _, err := db.Exec("COPY (" + query + ") TO " + duckdb.Quote(file) + " (FORMAT parquet)"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A file is read regardless of its name and the spelling of its columns, and no other file is read.
func TestIngestNames(t *testing.T) {
	text := "Src,DST,size_Bytes,start_ns\n0,1,100,5\n"
	parquet := parquetOf(t, "SELECT 0 AS Src, 1 AS DST, 100 AS size_Bytes, 5 AS start_ns")
	zip := zipped(t, text)
	files := map[string][]byte{"f[1].csv": []byte(text), "f*.csv": []byte(text),
		"f?.parquet": parquet, "[!a]*?.parquet": parquet, "a]b.PARQUET": parquet, "it's.parquet": parquet,
		"it's.csv":    []byte(text),
		`b\c.csv.gz`:  zip,
		`b\c.parquet`: parquet, "src=3/flows.parquet": parquet, "src=3/flows.csv.GZ": zip}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if leavesOut(t, i, daily.Runs(i, 6)) {
			continue
		}
		data := files[name]
		stats, err := ingestFile(t, name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := askParquet(t, `SELECT concat_ws(' ', src, dst, size_bytes, start_ns) FROM read_parquet(%s)`,
			stats.FlowsFile)
		if got != "0 1 100 5" {
			t.Errorf("%s: flows %s", name, got)
		}
	}
}

func TestIngestRefusesDamagedFiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("src,dst,size_bytes,start_ns\n")
	for i := range 20_000 {
		fmt.Fprintf(&b, "%d,3,%d,%d\n", i%3, 1+i*i, i)
	}
	good := zipped(t, b.String())
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zst := enc.EncodeAll([]byte(b.String()), nil)
	if stats, err := ingestFile(t, "good.csv.zst", zst); err != nil || stats.Flows != 20_000 {
		t.Errorf("good.csv.zst: %d flows, %v", stats.Flows, err)
	}
	if stats, err := ingestFile(t, "good.csv.gz", good); err != nil || stats.Flows != 20_000 {
		t.Errorf("%d flows, %v", stats.Flows, err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 1 // in the checksum
	cases := map[string]struct {
		data []byte
		want string
	}{
		"cut.csv.gz":     {good[:len(good)*2/3], "damaged"},
		"nosum.csv.gz":   {good[:len(good)-8], "damaged"},
		"flipped.csv.gz": {flipped, "damaged"},
		"plain.csv.gz":   {[]byte(b.String()), "damaged"},
		"cut.csv.zst":    {zst[:len(zst)*2/3], "damaged"},
		"empty.csv.gz":   {zipped(t, ""), "is empty"},
		"none.csv.gz":    {nil, "is empty"},
		"empty.csv":      {nil, "is empty"},
		"blank.csv":      {[]byte("\n \n"), "is empty"},
		"header.csv":     {[]byte("src,dst,size_bytes,start_ns\n"), "has no flows"},
		"header2.csv":    {[]byte("src,dst,size_bytes,start_ns"), "has no flows"},
		"zero.parquet": {parquetOf(t, "SELECT 0 AS src, 1 AS dst, 9 AS size_bytes, 5 AS start_ns WHERE false"),
			"has no flows"},
		"none.parquet": {nil, "is empty"},
		"bad.parquet":  {[]byte("src,dst"), "bad.parquet: "},
		"bad8.csv":     {[]byte("src,dst,size_bytes,start_ns\n0,1,\xff\xfe,5\n"), "bad8.csv: "},
		"bool.parquet": {parquetOf(t, "SELECT true AS src, 1 AS dst, 9 AS size_bytes, 5 AS start_ns"),
			"column src is of type BOOLEAN, want numbers"},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if leavesOut(t, i, daily.Runs(i, 2)) {
			continue
		}
		c := cases[name]
		if _, err := ingestFile(t, name, c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	dir := t.TempDir()
	if _, err := readFile(t, topologytest.SmallNetwork(t), dir, Options{TmpDir: dir}); err == nil ||
		!strings.Contains(err.Error(), dir+": is a directory") {
		t.Errorf("a directory: %v", err)
	}
}

// Numbers are not rounded, in any type of column.
func TestIngestTakesWholeNumbersOnly(t *testing.T) {
	stats, err := ingestText(t, `flow_id,src,dst,size_bytes,start_ns
1,0,1,1.5,1
2,0,1,0x10,2
3,0,1,1_000,3
4,0.6,1,100,4
5,0,1,1e3,5
6.4,0,1,100,6
7,0,1,100,
8, 0 ,+1,0100,8
9,0,1,99999999999999999999,9
`, 1)
	if err != nil {
		t.Fatal(err)
	}
	flows := `SELECT concat_ws(' ', flow_id, src, dst, size_bytes, start_ns) FROM read_parquet(%s)`
	got := askParquet(t, flows, stats.FlowsFile)
	if got != "5 0 1 1000 5; 8 0 1 100 8" || stats.Rejects != 7 {
		t.Errorf("flows %s, %d rejects", got, stats.Rejects)
	}
	for i, c := range []struct{ typ, good, bad string }{
		{"DOUBLE", "100.0", "100.5"}, {"FLOAT", "100.0", "'nan'"}, {"DOUBLE", "100", "'inf'"},
		{"DECIMAL(18,3)", "100.000", "100.001"},
		{"UBIGINT", "100", "18446744073709551615"}, {"HUGEINT", "100", "170141183460469231731687303715884105727"},
		{"VARCHAR", "'100.0'", "'100.5'"}, {"UTINYINT", "100", "0"}, {"FLOAT", "100", "16777218"},
	} {
		if leavesOut(t, i, daily.Runs(i, 9)) {
			continue
		}
		file := filepath.Join(t.TempDir(), "typed.parquet")
		data := parquetOf(t, fmt.Sprintf("SELECT i AS flow_id, 0 AS src, 1 AS dst, x AS size_bytes, 5 AS start_ns "+
			"FROM (VALUES (1, CAST(%[2]s AS %[1]s)), (2, CAST(%[3]s AS %[1]s))) v(i, x)", c.typ, c.good, c.bad))
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file, Options{TmpDir: t.TempDir(), MaxRejects: 1})
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		got := askParquet(t, flows, stats.FlowsFile)
		if got != "1 0 1 100 5" || stats.Rejects != 1 {
			t.Errorf("%s: flows %s, %d rejects", c.typ, got, stats.Rejects)
		}
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
