package workloads

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parsimon/queries/duckdb"
	"parsimon/stages/ingest"
	"parsimon/stages/rng"
)

// A benchRecord is one record of a generated log. Times are seconds since 1970.
type benchRecord struct{ src, dst, port, observer, bytes, packets, start, end int }

// benchStart is before the start of all generated records, in seconds since 1970.
const benchStart = 1769817600

// A benchFormat writes records, and has the plain query of DuckDB that parses a file, sums up the bytes of
// each connection and sorts them.
type benchFormat struct {
	name, header string
	line         func(r benchRecord) string
	plain        string
}

var benchFormats = []benchFormat{
	{
		"vpc", vpcHeader,
		func(r benchRecord) string {
			return fmt.Sprintf("2 1 eni-%d %s %s %d 443 6 %d %d %d %d ACCEPT OK\n", r.observer, address(r.src),
				address(r.dst), r.port, r.packets, r.bytes, r.start, r.end)
		},
		`SELECT srcaddr, dstaddr, srcport, dstport, protocol, sum(bytes), min("start") AS first
FROM read_csv(%s, delim = ' ', header = true) GROUP BY ALL ORDER BY first`,
	},
	{
		"nfdump", "ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra\n",
		func(r benchRecord) string {
			return fmt.Sprintf("%s,%s,%s,%s,%d,443,TCP,%d,%d,10.9.0.%d\n", dateOf(r.start), dateOf(r.end),
				address(r.src), address(r.dst), r.port, r.packets, r.bytes, r.observer)
		},
		`SELECT sa, da, sp, dp, pr, sum(ibyt), min(ts) AS first
FROM read_csv(%s, header = true) GROUP BY ALL ORDER BY first`,
	},
	{
		"ipfix", "sourceIPv4Address,destinationIPv4Address,sourceTransportPort,destinationTransportPort," +
			"protocolIdentifier,octetDeltaCount,packetDeltaCount,flowStartMilliseconds,flowEndMilliseconds," +
			"exporterIPv4Address\n",
		func(r benchRecord) string {
			return fmt.Sprintf("%s,%s,%d,443,6,%d,%d,%d000,%d000,10.9.0.%d\n", address(r.src), address(r.dst),
				r.port, r.bytes, r.packets, r.start, r.end, r.observer)
		},
		`SELECT sourceIPv4Address, destinationIPv4Address, sourceTransportPort, protocolIdentifier,
  sum(octetDeltaCount), min(flowStartMilliseconds) AS first
FROM read_csv(%s, header = true) GROUP BY ALL ORDER BY first`,
	},
	{
		"goflow2", "",
		func(r benchRecord) string {
			return fmt.Sprintf(`{"type":"IPFIX","src_addr":"%s","dst_addr":"%s","src_port":%d,"dst_port":443,`+
				`"proto":6,"bytes":%d,"packets":%d,"sampler_address":"10.9.0.%d","time_flow_start_ns":%d000000000,`+
				`"time_flow_end_ns":%d000000000}`+"\n", address(r.src), address(r.dst), r.port, r.bytes, r.packets,
				r.observer, r.start, r.end)
		},
		`SELECT src_addr, dst_addr, src_port, dst_port, proto, sum(bytes), min(time_flow_start_ns) AS first
FROM read_json(%s, format = 'newline_delimited') GROUP BY ALL ORDER BY first`,
	},
	{
		"csv", "src,dst,size_bytes,start_ns\n",
		func(r benchRecord) string {
			return fmt.Sprintf("%s,%s,%d,%d000000000\n", address(r.src), address(r.dst), r.bytes, r.start)
		},
		"SELECT src, dst, size_bytes, start_ns FROM read_csv(%s, header = true) ORDER BY start_ns",
	},
}

func dateOf(second int) string { return time.Unix(int64(second), 0).UTC().Format(time.DateTime) }

// eachBenchRecord calls do for at least the given number of records: connections of one to three minutes
// between 256 hosts, each of which two observers record once a minute.
func eachBenchRecord(records int, do func(r benchRecord)) {
	s := rng.New(1, rng.Start)
	for n := 0; n < records; {
		r := benchRecord{src: s.IntN(256), port: 32768 + s.IntN(28000), start: benchStart + s.IntN(3600)}
		r.dst = (r.src + 1 + s.IntN(255)) % 256
		for range 1 + s.IntN(3) {
			r.bytes = 200 + s.IntN(1_000_000)
			r.packets = 1 + r.bytes/1000
			r.end = r.start + 59
			for _, r.observer = range []int{r.src, r.dst} {
				do(r)
				n++
			}
			r.start += 60
		}
	}
}

// writeBench writes a log of generated records.
func writeBench(b *testing.B, f benchFormat, file string, records int) {
	out, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(out, 1<<20)
	_, _ = w.WriteString(f.header) // Flush returns the error
	eachBenchRecord(records, func(r benchRecord) { _, _ = w.WriteString(f.line(r)) })
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
}

// measured runs a function, and reports records a second, processor time a record and peak memory.
func measured(b *testing.B, records int, run func()) {
	b.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200); err != nil {
		b.Log("peak memory is that of the whole process: ", err)
	}
	before := processorSeconds(b)
	began := time.Now()
	for b.Loop() {
		run()
	}
	all := float64(records * b.N)
	b.ReportMetric(all/time.Since(began).Seconds(), "records/s")
	b.ReportMetric(1e6*(processorSeconds(b)-before)/all, "cpu-µs/record")
	b.ReportMetric(peakMB(b), "peak-MB")
}

func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func peakMB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kB, err := strconv.ParseFloat(strings.Fields(after + " 0")[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kB / 1000
}

// BenchmarkIngest measures ingests of five formats, each beside a plain query of DuckDB over the same file,
// which has no hosts, no rejects and no observers. If nfdump is installed, it also measures how nfdump
// aggregates the records of its format. PARSIMON_RECORDS is the number of records. PARSIMON_LOGS is
// a directory of logs, which are generated only if they are not there.
func BenchmarkIngest(b *testing.B) {
	records := 100_000
	text, given := os.LookupEnv("PARSIMON_RECORDS")
	if given {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal("PARSIMON_RECORDS: ", err)
		}
	}
	for _, f := range benchFormats {
		b.Run(f.name, func(b *testing.B) {
			dir := cmp.Or(os.Getenv("PARSIMON_LOGS"), b.TempDir())
			file := filepath.Join(dir, f.name+".log")
			if _, err := os.Stat(file); err != nil {
				writeHosts(b, filepath.Join(dir, "hosts.csv"))
				writeBench(b, f, file, records)
			}
			b.Run("ingest", func(b *testing.B) {
				measured(b, records, func() { benchIngest(b, f, dir, file) })
			})
			b.Run("duckdb", func(b *testing.B) {
				measured(b, records, func() { benchPlain(b, f, dir, file) })
			})
			if f.name == "nfdump" {
				b.Run("nfdump", func(b *testing.B) { benchNfdump(b, records) })
			}
		})
	}
}

// writeHosts writes the table of the hosts of the logs.
func writeHosts(b *testing.B, file string) {
	hosts := "address,node_id\n"
	for i := range 256 {
		hosts += fmt.Sprintf("%s,%d\n", address(i), i)
	}
	if err := os.WriteFile(file, []byte(hosts), 0o600); err != nil {
		b.Fatal(err)
	}
}

func benchIngest(b *testing.B, f benchFormat, dir, file string) {
	mapping, err := ingest.FormatMapping(f.name)
	if err != nil {
		b.Fatal(err)
	}
	trace := Trace{
		Sources: []string{file}, Topology: "small-2to1", Workload: "bench", Mappings: []*ingest.Mapping{mapping},
		Options: ingest.Options{Hosts: filepath.Join(dir, "hosts.csv"), Seed: 1},
	}
	lake := filepath.Join(b.TempDir(), "lake")
	report, err := Ingest(b.Context(), trace, Settings{Lake: lake})
	if err != nil {
		b.Fatal(err)
	}
	if report.Rejects > 0 || report.Flows == 0 {
		b.Fatalf("%d flows, %d rejects", report.Flows, report.Rejects)
	}
}

func benchPlain(b *testing.B, f benchFormat, dir, file string) {
	limits := duckdb.Options{MemoryBytes: 512 << 20, Threads: 2, SpillDir: b.TempDir()}
	db, err := duckdb.Open(b.Context(), limits)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }() // read only
	query := fmt.Sprintf(f.plain, duckdb.Quote(file))
	out := duckdb.Quote(filepath.Join(dir, "plain.parquet"))
	if _, err := db.ExecContext(b.Context(), "COPY ("+query+") TO "+out+" (FORMAT parquet)"); err != nil {
		b.Fatal(err)
	}
}
