package pipeline

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/rs/zerolog"

	"parsimon/datasets"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// A day is the truth behind a synthetic day of VPC flow logs.
type day struct {
	flows      int
	sizes      []int64 // of every flow
	hostBytes  []int64 // by link id: first and last hops, which no choice of paths changes
	linkBytes  []int64 // by link id, on the paths of the truth's ids
	records    int64
	damaged    int64
	topology   *topology.Network
	hosts, log string
}

// Services of the synthetic day, by destination port.
var dayPorts = []int{443, 3306, 6379, 9092, 8020}

// dayStart is the midnight the day starts with.
var dayStart = time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)

// writeDay makes a day of flow logs as S3 receives them: gzipped text, a file every quarter of an
// hour in hive-partitioned folders, every flow seen at both ends, a record a minute for as long as
// it lasts, and one line in a hundred damaged in some way.
func writeDay(t *testing.T, dir string, records int64) *day {
	t.Helper()
	s := newScenario()
	if err := s.setTopology("small-2to1"); err != nil {
		t.Fatal(err)
	}
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	d := &day{topology: n, hosts: filepath.Join(dir, "hosts.csv"), log: filepath.Join(dir, "AWSLogs"), hostBytes: make([]int64, len(n.Links)), linkBytes: make([]int64, len(n.Links))}
	router, err := topology.NewRouter(n, 1)
	if err != nil {
		t.Fatal(err)
	}
	text, err := datasets.Read(datasets.Sizes, "webserver")
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := workload.ParseSizeCDF("webserver", text)
	if err != nil {
		t.Fatal(err)
	}
	hosts := n.Hosts()
	table := "address,node_id\n"
	address := func(i int) string { return fmt.Sprintf("10.0.%d.%d", i/128, 1+i%128) }
	for i, h := range hosts {
		table += fmt.Sprintf("%s,%d\n", address(i), h)
	}
	if err := os.WriteFile(d.hosts, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	var files []*bufio.Writer
	var closers []func() error
	for q := range 96 {
		folder := filepath.Join(d.log, fmt.Sprintf("aws-account-id=123456789010/aws-service=vpcflowlogs/aws-region=us-east-1/year=2026/month=01/day=31/hour=%02d", q/4))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(folder, fmt.Sprintf("123456789010_vpcflowlogs_%02d.log.gz", q%4*15)))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriterSize(z, 1<<16)
		_, _ = w.WriteString("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status\n") // errors are kept for Flush
		files = append(files, w)
		closers = append(closers, func() error { return cmp.Or(w.Flush(), z.Close(), f.Close()) })
	}
	rng := rng.New(7, rng.Service)
	flows := int64(float64(records) / 2.3)
	gap := 24 * 3600e9 / float64(flows)
	gaps := workload.NewLogNormal(gap, 1.5)
	at := float64(0)
	var line []byte
	emit := func(eni int, src, dst string, sport, dport int, size, startNS, endNS int64) {
		d.records++
		from, to := dayStart.Unix()+startNS/1e9, dayStart.Unix()+endNS/1e9
		packets := (size + 1447) / 1448
		line = line[:0]
		line = fmt.Appendf(line, "2 123456789010 eni-%08x %s %s %d %d 6 %d %d %d %d ACCEPT OK", eni, src, dst, sport, dport, packets, size, from, to)
		if rng.IntN(100) == 0 {
			d.damaged++
			switch rng.IntN(6) {
			case 0: // cut short
				line = line[:rng.IntN(len(line)-20)+10]
			case 1: // a byte that is no text
				line[rng.IntN(len(line))] = 0xff
			case 2: // a host nobody knows
				line = fmt.Appendf(line[:0], "2 123456789010 eni-%08x 203.0.113.9 %s %d %d 6 %d %d %d %d ACCEPT OK", eni, dst, sport, dport, packets, size, from, to)
			case 3:
				line = fmt.Appendf(line[:0], "2 123456789010 eni-%08x - - - - - - - %d %d - NODATA", eni, from, to)
			case 4: // no number where one belongs
				line = fmt.Appendf(line[:0], "2 123456789010 eni-%08x %s %s %d %d 6 %d many %d %d ACCEPT OK", eni, src, dst, sport, dport, packets, from, to)
			case 5: // a clock that stands in 1970
				line = fmt.Appendf(line[:0], "2 123456789010 eni-%08x %s %s %d %d 6 %d %d %d %d ACCEPT OK", eni, src, dst, sport, dport, packets, size, from%1000, to%1000+1000)
			}
		}
		w := files[min(95, endNS/(900*1e9))]
		_, _ = w.Write(append(line, '\n'))
	}
	var path []int32
	for d.records < records {
		at += gaps.Draw(&rng)
		startNS := int64(at)
		if startNS >= 24*3600*1e9-600*1e9 {
			break
		}
		i, j := rng.IntN(len(hosts)), rng.IntN(len(hosts)-1)
		if j >= i {
			j++
		}
		size := max(40, sizes.Size(rng.Float64()))
		duration := int64(rng.Float64() * 2e9)
		if rng.IntN(20) == 0 { // a connection of some minutes
			duration = int64(rng.Float64() * 300e9)
		}
		sport, dport := 32768+rng.IntN(28000), dayPorts[rng.IntN(len(dayPorts))]
		if path, err = router.Path(int64(d.flows), hosts[i], hosts[j], path[:0]); err != nil {
			t.Fatal(err)
		}
		for h, l := range path {
			d.linkBytes[l] += size
			if h == 0 || h == len(path)-1 {
				d.hostBytes[l] += size
			}
		}
		d.flows++
		d.sizes = append(d.sizes, size)
		left, windows := size, 1+(startNS+duration)/60e9-startNS/60e9
		for w := range windows {
			from, to := max(startNS, (startNS/60e9+w)*60e9), min(startNS+duration, (startNS/60e9+w+1)*60e9-1)
			bytes := left / (windows - w)
			left -= bytes
			if bytes == 0 {
				continue
			}
			emit(i, address(i), address(j), sport, dport, bytes, from, to)
			late := int64(rng.Float64() * 50e6)
			emit(j, address(i), address(j), sport, dport, bytes, from+late, to+late)
		}
	}
	for _, c := range closers {
		if err := c(); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// A synthetic day, in small always and in full (10 million records) where PARSIMON_LONG is set: no
// row is lost, and what the links carry and how large flows are comes out as it was.
func TestIngestDay(t *testing.T) {
	records := int64(100_000)
	if os.Getenv("PARSIMON_LONG") != "" {
		records = 10_000_000
	}
	dir := t.TempDir()
	d := writeDay(t, dir, records)
	mapping, err := ingest.FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	lake := filepath.Join(dir, "lake")
	began := time.Now()
	rssBefore := peakRSS(t)
	report, err := Ingest(context.Background(), Trace{Sources: []string{d.log}, Topology: "small-2to1", Mapping: mapping, Hosts: d.hosts,
		MaxRejects: 0.02, Seed: 1, GapSigma: 1, IdleNS: ingest.DefaultIdleNS}, Options{Lake: lake, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	seconds := time.Since(began).Seconds()
	t.Logf("%d records (%d damaged) of %d flows: %d flows + %d merged + %d rejected in %.1f s (%.0f records/s); peak memory %d MiB (%d MiB of the generator)",
		d.records, d.damaged, d.flows, report.Flows, report.Merged, report.Rejects, seconds, float64(d.records)/seconds, peakRSS(t)>>20, rssBefore>>20)
	if report.Rows != d.records || report.Rows != report.Flows+report.Merged+report.Rejects {
		t.Errorf("%d rows in of %d, %d flows + %d merged + %d rejected", report.Rows, d.records, report.Flows, report.Merged, report.Rejects)
	}
	if report.Rejects < d.damaged*9/10 || report.Rejects > d.damaged {
		t.Errorf("%d rejected of %d damaged", report.Rejects, d.damaged)
	}
	d.compare(t, filepath.Join(lake, "flows", "workload="+report.Workload))
}

// compare holds what was ingested against the truth.
func (d *day) compare(t *testing.T, flowsDir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(flowsDir, "part-*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	router, err := topology.NewRouter(d.topology, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	hostBytes, linkBytes := make([]int64, len(d.topology.Links)), make([]int64, len(d.topology.Links))
	var path []int32
	err = columns.Consume(openTable(schema.Flows, files, nil, nil), func(rec arrow.Record) error {
		ids, size := rec.Column(0).(*array.Int64).Int64Values(), rec.Column(3).(*array.Int64).Int64Values()
		src, dst := rec.Column(1).(*array.Int32).Int32Values(), rec.Column(2).(*array.Int32).Int32Values()
		sizes = append(sizes, size...)
		for i, id := range ids {
			var err error
			if path, err = router.Path(id, src[i], dst[i], path[:0]); err != nil {
				return err
			}
			for h, l := range path {
				linkBytes[l] += size[i]
				if h == 0 || h == len(path)-1 {
					hostBytes[l] += size[i]
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	worst, mean := bytesError(d.hostBytes, hostBytes)
	allWorst, allMean := bytesError(d.linkBytes, linkBytes)
	t.Logf("link loads against the truth: links of hosts %.3f%% off on average, %.3f%% at most; all links, with paths drawn anew, %.3f%% and %.3f%%", 100*mean, 100*worst, 100*allMean, 100*allWorst)
	if mean > 0.01 {
		t.Errorf("links of hosts are %.3f%% off", 100*mean)
	}
	slices.Sort(sizes)
	slices.Sort(d.sizes)
	var off []string
	for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999} {
		a, b := d.sizes[int(q*float64(len(d.sizes)-1))], sizes[int(q*float64(len(sizes)-1))]
		off = append(off, fmt.Sprintf("p%s %+.2f%%", strconv.FormatFloat(100*q, 'g', -1, 64), 100*(float64(b)/float64(a)-1)))
		if math.Abs(float64(b)/float64(a)-1) > 0.05 {
			t.Errorf("size at quantile %g: %d, truth %d", q, b, a)
		}
	}
	t.Logf("%d flows of %d; sizes against the truth: %s", len(sizes), len(d.sizes), strings.Join(off, ", "))
}

// bytesError is the relative error over the links that carry something, at most and on average.
func bytesError(truth, got []int64) (worst, mean float64) {
	n := 0
	for l, x := range truth {
		if x == 0 {
			continue
		}
		e := math.Abs(float64(got[l])/float64(x) - 1)
		worst = max(worst, e)
		mean += e
		n++
	}
	return worst, mean / float64(n)
}

// peakRSS is the most memory this process has had, in bytes; 0 where the system does not say.
func peakRSS(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0
}
