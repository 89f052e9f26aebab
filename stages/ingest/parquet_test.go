package ingest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"parsimon/schema/daily"
	"parsimon/stages/topology/topologytest"
)

// timedRow is a flow as Spark, Hive and Impala write it: text without a string type, and a time as INT96.
type timedRow struct {
	Src     []byte           `parquet:"src"`
	Dst     []byte           `parquet:"dst"`
	Bytes   float64          `parquet:"bytes"`
	Started deprecated.Int96 `parquet:"started"`
}

const (
	timedMapping = "-- rows: flows\n-- reads: csv\n" +
		"-- column: src\n-- column: dst\n-- column: bytes\n-- column: started\n\n" +
		`SELECT "row", src, dst, whole(bytes) AS size_bytes, rfc3339_ns(started) AS start_ns FROM source`
	startsAndSizes = `SELECT concat_ws(' ', src, dst, size_bytes, start_ns) FROM read_parquet(%s)`
	// 2026-01-31 09:00:00.5 UTC.
	timedNS = "1769850000500000000"
)

func ingestTimed(t *testing.T, data []byte, mapping string) (tested, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "timed.parquet")
	options := Options{TmpDir: t.TempDir(), MaxRejects: 1}
	if mapping != "" {
		sql := filepath.Join(dir, "mine.sql")
		err := os.WriteFile(sql, []byte(mapping), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		options.Mapping, err = ReadMapping(sql)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return readFile(t, topologytest.SmallNetwork(t), file, options)
}

// Tables of Spark, Athena and pandas have times as timestamps. If they could not be read, users would have to
// rewrite their logs. Every unit, with and without a time zone, gives the same time.
func TestTimestampsOfParquetAreTimes(t *testing.T) {
	for i, typ := range []string{"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"} {
		if leavesOut(t, i, daily.Runs(i, 5)) {
			continue
		}
		second := "2026-01-31 09:00:00.5"
		want := timedNS
		if typ == "TIMESTAMP_S" {
			second = "2026-01-31 09:00:00"
			want = "1769850000000000000"
		}
		text := "SELECT '0' AS src, 1 AS dst, 100.0::DOUBLE AS bytes, '" + second + "'::" + typ + " AS started"
		stats, err := ingestTimed(t, parquetOf(t, text), timedMapping)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		got := askParquet(t, startsAndSizes, stats.FlowsFile)
		if got != "0 1 100 "+want {
			t.Errorf("%s: %s, want start %s", typ, got, want)
		}
		yields := strings.Replace(timedMapping, "rfc3339_ns(started)", "TRY_CAST(started AS TIMESTAMP_NS)", 1)
		own := "SELECT 0 AS src, 1 AS dst, 100 AS size_bytes, '" + second + "'::" + typ + " AS start_ns"
		for mapping, data := range map[string][]byte{yields: parquetOf(t, text), "": parquetOf(t, own)} {
			stats, err = ingestTimed(t, data, mapping)
			if err != nil {
				t.Errorf("%s, mapping %q: %v", typ, mapping, err)
				continue
			}
			got = askParquet(t, startsAndSizes, stats.FlowsFile)
			if got != "0 1 100 "+want {
				t.Errorf("%s, mapping %q: %s, want start %s", typ, mapping, got, want)
			}
		}
	}
}

// Impossible times, and bytes that are not text, are errors of a row, not of the file.
func TestOldParquetTypes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.parquet")
	// INT96: ns of the day in the lower 64 bits, Julian day in the upper 32. Day 2461072 is 2026-01-31.
	const ofDay = uint64(9*3600*1e9 + 5e8)
	at := deprecated.Int96{uint32(ofDay & 0xffffffff), uint32(ofDay >> 32), 2461072}
	err := parquet.WriteFile(file, []timedRow{
		{Src: []byte("0"), Dst: []byte("1"), Bytes: 100, Started: at},
		{Src: []byte{0xff, 0}, Dst: []byte("1"), Bytes: 100, Started: at},
		{Src: []byte("0"), Dst: []byte("1"), Bytes: 100.5, Started: at},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := ingestTimed(t, data, timedMapping)
	if err != nil {
		t.Fatal(err)
	}
	got := askParquet(t, startsAndSizes, stats.FlowsFile)
	if got != "0 1 100 "+timedNS || stats.Rejects != 2 {
		t.Errorf("flows %s, %d rejects", got, stats.Rejects)
	}
	reasons := askParquet(t, `SELECT "row" || ' ' || reason FROM read_parquet(%s)`, stats.RejectsFile)
	if !strings.Contains(reasons, "2 src is not a host") ||
		!strings.Contains(reasons, "3 size_bytes is not an integer") {
		t.Errorf("reasons: %s", reasons)
	}
}
