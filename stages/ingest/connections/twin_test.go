package connections

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/queries/duckdb"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// twin has the values of the SQL in testdata, which merges records of one source in DuckDB. It does not draw
// starts, and keeps no intervals.
var twin = map[string]string{
	"connection": "src, dst, protocol, src_port, dst_port",
	"same_connection": "f.src = e.src AND f.dst = e.dst AND f.protocol IS NOT DISTINCT FROM e.protocol AND " +
		"f.src_port IS NOT DISTINCT FROM e.src_port AND f.dst_port IS NOT DISTINCT FROM e.dst_port",
	"kept":         "sum(samples) AS samples, max(service) AS service, max(vnet) AS vnet, max(dscp) AS dscp",
	"latest_start": "max(start_ns) FILTER (start_ns < until_ns OR start_ns + resolution_ns = until_ns)",
	"once":         "CASE WHEN y * y > n THEN y::DOUBLE * (squares - n) / (y * y - n) ELSE 0 END",
	"too_many":     fmt.Sprint(tooMany), "parts": "1", "part": "0", "idle_ns": "60000000000",
	"prior_samples": fmt.Sprint(priorSamples),
}

// twinFlows returns the flows of a file of records, one a line: hosts, port, start, resolution, samples,
// service and, last, bytes.
func twinFlows(t *testing.T, file string, places []string) (lines []string) {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	values := map[string]string{"records": duckdb.ScanParquet(file)}
	step := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name+".sql"))
		if err != nil {
			t.Fatal(err)
		}
		return os.Expand(string(text), func(key string) string {
			v, own := values[key]
			if !own {
				return twin[key]
			}
			return v
		})
	}
	exec := func(query string) {
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	var interval int64
	if err := conn.QueryRowContext(t.Context(), step("interval")).Scan(&interval); err != nil {
		t.Fatal(err)
	}
	values["interval_ns"] = fmt.Sprint(interval)
	exec(step("samplers"))
	values["records"] = "(SELECT r.* FROM " + values["records"] + ` AS r LEFT JOIN samplers AS s
  ON r.src = s.src AND r.dst = s.dst WHERE r.samples IS NOT NULL OR r.observer = s.sampler)`
	exec("CREATE TEMP TABLE places (node INTEGER, rack INTEGER, tier VARCHAR); INSERT INTO places VALUES " +
		strings.Join(places, ", "))
	exec(step("paths"))
	of := values["records"]
	values["records"] = `(SELECT r.*, coalesce(k, 1) AS k, coalesce(prior, 1) AS prior FROM ` + of + ` AS r
  JOIN places AS s ON r.src = s.node JOIN places AS d ON r.dst = d.node
  LEFT JOIN paths AS p ON s.rack = src_rack AND d.rack = dst_rack)`
	query := "SELECT format('{} {} {} {} {} {} {} {}', src, dst, coalesce(src_port, -1), start_ns, " +
		"resolution_ns, coalesce(samples, -1), service, size_bytes) FROM (" + step("merge") + ")"
	err = duckdb.Each(t.Context(), conn, query, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		lines = append(lines, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// randomRecords returns records of few connections, by several observers that count, sample, or do not say.
func randomRecords(seed uint64, observers []string, classes []int64) (records []testRecord) {
	s := rng.New(seed, rng.Start)
	for range 400 {
		src := int32(s.IntN(4))
		r := testRecord{
			src: src, dst: (src + 1 + int32(s.IntN(3))) % 4, port: int32(s.IntN(2)),
			observer: observers[s.IntN(len(observers))], samples: classes[s.IntN(len(classes))],
			start: float64(s.IntN(4000)), resolution: float64(s.IntN(3)) / 2, bytes: 1 + int64(s.IntN(1_000_000)),
		}
		if r.samples > 0 {
			r.samples += int64(s.IntN(20))
		}
		r.end = r.start + float64(s.IntN(90))
		records = append(records, r)
	}
	return records
}

// The flows are those of a second implementation in SQL, for records of every kind. Bytes of samples may
// differ by one, because DuckDB adds floating-point numbers in any order.
func TestMergeEqualsItsTwin(t *testing.T) {
	if testing.Short() {
		t.Skip("runs SQL")
	}
	network := topologytest.SmallNetwork(t)
	p := placesOf(network)
	var places []string
	for host, rack := range p.rack {
		places = append(places, fmt.Sprintf("(%d, %d, '%s')", host, rack, p.tier[host]))
	}
	for name, c := range map[string]struct {
		observers []string
		classes   []int64
	}{
		"one counts":          {[]string{"a"}, []int64{0}},
		"three count":         {[]string{"a", "b", "c"}, []int64{0}},
		"one samples":         {[]string{"a"}, []int64{1}},
		"three sample":        {[]string{"a", "b", "c"}, []int64{1}},
		"at unknown rates":    {[]string{"a", "b"}, []int64{-1}},
		"all kinds, all ways": {[]string{"", "a", "b", "c"}, []int64{0, 1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			records := randomRecords(uint64(len(name)), c.observers, c.classes)
			file := filepath.Join(t.TempDir(), "records.parquet")
			writeRecords(t, file, records)
			m := newMerging(NewCollector(Settings{
				Network: network, Seed: 1, GapSigma: 1, IdleNS: 60e9, TmpDir: t.TempDir(), MemoryBytes: 1,
			}))
			m.leastHandoverNS = math.MaxInt64 // the twin does not know traffic that moves within an interval
			if err := m.read(t.Context(), []Source{sourceOf(1, records)}); err != nil {
				t.Fatal(err)
			}
			var got []string
			err := m.eachFlow(t.Context(), func(f *flow, _ []record) error {
				got = append(got, fmt.Sprint(f.src, f.dst, f.srcPort, f.startNS, f.resolutionNS, f.samples, " ",
					m.texts.labels.all[f.service], " ", f.bytes))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			compareLines(t, got, twinFlows(t, file, places))
			if err := m.records.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func writeRecords(t *testing.T, file string, records []testRecord) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewWriter(schema.Records, f)
	if err := columns.ForEach(sourceOf(1, records).Open(), w.Write); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// compareLines compares flows, one per line, which end with the bytes.
func compareLines(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d flows, the twin has %d", len(got), len(want))
	}
	for i := range got {
		g := strings.Fields(got[i])
		w := strings.Fields(want[i])
		last := len(g) - 1
		var a, b int64
		_, errA := fmt.Sscan(g[last], &a)
		_, errB := fmt.Sscan(w[len(w)-1], &b)
		if errA != nil || errB != nil || !slices.Equal(g[:last], w[:len(w)-1]) || a-b > 1 || b-a > 1 {
			t.Fatalf("flow %d is\n%s, the twin has\n%s", i, got[i], want[i])
		}
	}
}
