package workloads

import (
	"bufio"
	"cmp"
	"compress/gzip"
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

	"parsimon/datasets"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

const vpcHeader = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes " +
	"start end action log-status\n"

// A day is the ground truth of a synthetic day of VPC flow logs.
type day struct {
	flows      int
	sizes      []int64 // of every flow
	hostBytes  []int64 // by link id: first and last hops, which do not depend on the choice of paths
	linkBytes  []int64 // by link id, on the paths for the flow ids of the ground truth
	records    int64
	damaged    int64
	topology   *topology.Network
	hosts, log string
}

// Services of the synthetic day, by destination port.
var dayPorts = []int{443, 3306, 6379, 9092, 8020}

// dayStart is the midnight at which the day starts.
var dayStart = time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)

// writeDay writes a day of flow logs in the form in which S3 stores them: gzipped text in hive-partitioned
// folders. Each file has an equal share of the day. Every flow is logged at both ends, with one record per
// minute of its duration. One line in a hundred is damaged.
func writeDay(t *testing.T, dir string, records int64, files int) *day {
	t.Helper()
	n := dayNetwork(t)
	d := &day{
		topology: n, hosts: filepath.Join(dir, "hosts.csv"), log: filepath.Join(dir, "AWSLogs"),
		hostBytes: make([]int64, len(n.Links)), linkBytes: make([]int64, len(n.Links)),
	}
	hosts := n.Hosts()
	table := "address,node_id\n"
	for i, h := range hosts {
		table += fmt.Sprintf("%s,%d\n", address(i), h)
	}
	if err := os.WriteFile(d.hosts, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	w := &dayWriter{day: d, random: rng.New(7, rng.Service)}
	w.open(t, files)
	sizes := webserverSizes(t)
	router, err := topology.NewRouter(t.Context(), n, 1)
	if err != nil {
		t.Fatal(err)
	}
	gaps := workload.NewLogNormal(24*3600e9/(float64(records)/2.3), 1.5)
	at := float64(0)
	var path []int32
	for d.records < records {
		at += gaps.Draw(&w.random)
		if int64(at) >= 24*3600*1e9-600*1e9 {
			break
		}
		i := w.random.IntN(len(hosts))
		j := w.random.IntN(len(hosts) - 1)
		if j >= i {
			j++
		}
		f := dayFlow{src: i, dst: j, startNS: int64(at), size: max(40, sizes.Size(w.random.Float64()))}
		f.durationNS = int64(w.random.Float64() * 2e9)
		if w.random.IntN(20) == 0 { // a connection of several minutes
			f.durationNS = int64(w.random.Float64() * 300e9)
		}
		f.sport, f.dport = 32768+w.random.IntN(28000), dayPorts[w.random.IntN(len(dayPorts))]
		if path, err = router.Path(int64(d.flows), hosts[i], hosts[j], path[:0]); err != nil {
			t.Fatal(err)
		}
		addBytes(path, f.size, d.linkBytes, d.hostBytes)
		d.flows++
		d.sizes = append(d.sizes, f.size)
		w.flow(f)
	}
	w.close(t)
	return d
}

func dayNetwork(t *testing.T) *topology.Network {
	t.Helper()
	s, err := scenario.OfTopology("small-2to1")
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func webserverSizes(t *testing.T) *workload.SizeCDF {
	t.Helper()
	text, err := datasets.Read(datasets.Sizes, "webserver")
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := workload.ParseSizeCDF("webserver", text)
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}

// address returns the address of the i-th host.
func address(i int) string { return fmt.Sprintf("10.0.%d.%d", i/128, 1+i%128) }

// addBytes adds a flow to all links of its path, and to the first and last of them.
func addBytes(path []int32, size int64, all, ofHosts []int64) {
	for h, l := range path {
		all[l] += size
		if h == 0 || h == len(path)-1 {
			ofHosts[l] += size
		}
	}
}

// A dayFlow is a flow from which records are written. src and dst are indices of hosts.
type dayFlow struct {
	src, dst, sport, dport    int
	startNS, durationNS, size int64
}

// A dayWriter writes the log files of a day.
type dayWriter struct {
	*day
	random  rng.Stream
	files   []*bufio.Writer // in the order of time
	closers []func() error
	line    []byte
}

func (w *dayWriter) open(t *testing.T, files int) {
	t.Helper()
	const partition = "aws-account-id=123456789010/aws-service=vpcflowlogs/aws-region=us-east-1/" +
		"year=2026/month=01/day=31/hour=%02d"
	for i := range files {
		minute := 24 * 60 * i / files
		folder := filepath.Join(w.log, fmt.Sprintf(partition, minute/60))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(folder, fmt.Sprintf("123456789010_vpcflowlogs_%02d.log.gz", minute%60)))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		file := bufio.NewWriterSize(z, 1<<16)
		_, _ = file.WriteString(vpcHeader) // errors are returned by Flush
		w.files = append(w.files, file)
		w.closers = append(w.closers, func() error { return cmp.Or(file.Flush(), z.Close(), f.Close()) })
	}
}

func (w *dayWriter) close(t *testing.T) {
	t.Helper()
	for _, c := range w.closers {
		if err := c(); err != nil {
			t.Fatal(err)
		}
	}
}

// flow writes the records of a flow: one for each minute, at both ends.
func (w *dayWriter) flow(f dayFlow) {
	left := f.size
	windows := 1 + (f.startNS+f.durationNS)/60e9 - f.startNS/60e9
	for i := range windows {
		from := max(f.startNS, (f.startNS/60e9+i)*60e9)
		to := min(f.startNS+f.durationNS, (f.startNS/60e9+i+1)*60e9-1)
		bytes := left / (windows - i)
		left -= bytes
		if bytes == 0 {
			continue
		}
		w.record(f.src, f, bytes, from, to)
		late := int64(w.random.Float64() * 50e6)
		w.record(f.dst, f, bytes, from+late, to+late)
	}
}

// record writes the record that one interface logs of a flow for one minute.
func (w *dayWriter) record(eni int, f dayFlow, size, startNS, endNS int64) {
	w.records++
	from := dayStart.Unix() + startNS/1e9
	to := dayStart.Unix() + endNS/1e9
	line := func(src, bytes string, from, to int64) {
		w.line = fmt.Appendf(w.line[:0], "2 123456789010 eni-%08x %s %s %d %d 17 %d %s %d %d ACCEPT OK",
			eni, src, address(f.dst), f.sport, f.dport, (size+1447)/1448, bytes, from, to)
	}
	bytes := strconv.FormatInt(size, 10)
	line(address(f.src), bytes, from, to)
	if w.random.IntN(100) == 0 {
		w.damaged++
		switch w.random.IntN(6) {
		case 0: // truncated
			w.line = w.line[:w.random.IntN(len(w.line)-20)+10]
		case 1: // not UTF-8
			w.line[w.random.IntN(len(w.line))] = 0xff
		case 2: // an unknown host
			line("203.0.113.9", bytes, from, to)
		case 3:
			w.line = fmt.Appendf(w.line[:0], "2 123456789010 eni-%08x - - - - - - - %d %d - NODATA", eni, from, to)
		case 4: // the number of bytes is missing
			line(address(f.src), "many", from, to)
		case 5: // a clock that is set to 1970
			line(address(f.src), bytes, from%1000, to%1000+1000)
		}
	}
	n := int64(len(w.files))
	_, _ = w.files[min(n-1, endNS/(24*3600*1e9/n))].Write(append(w.line, '\n'))
}

// The ingest of a synthetic day loses no row, and keeps the bytes of every link and the sizes of flows. The
// day has 10 million records if PARSIMON_LONG is set, otherwise 100,000.
func TestIngestDay(t *testing.T) {
	records := int64(100_000)
	files := 8
	if testing.Short() {
		records = 25_000
		files = 2
	}
	if os.Getenv("PARSIMON_LONG") != "" {
		records = 10_000_000
		files = 96
	}
	dir := t.TempDir()
	d := writeDay(t, dir, records, files)
	mapping, err := ingest.FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "lake")
	began := time.Now()
	rssBefore := peakRSS(t)
	report, err := Ingest(t.Context(), Trace{Sources: []string{d.log}, Topology: "small-2to1",
		Mappings: []*ingest.Mapping{mapping}, Options: ingest.Options{Hosts: d.hosts, MaxRejects: 0.02, Seed: 1,
			GapSigma: 1, IdleNS: ingest.DefaultIdleNS}},
		Settings{Lake: dir})
	if err != nil {
		t.Fatal(err)
	}
	seconds := time.Since(began).Seconds()
	t.Logf("%d records (%d damaged) of %d flows in %.1f s (%.0f records/s); peak memory %d MiB (%d MiB of the "+
		"generator)",
		d.records, d.damaged, d.flows, seconds, float64(d.records)/seconds, peakRSS(t)>>20, rssBefore>>20)
	if report.Rows != d.records || report.Rows != report.Flows+report.Merged+report.Rejects {
		t.Errorf("%d rows in of %d, %d flows + %d merged + %d rejected",
			report.Rows, d.records, report.Flows, report.Merged, report.Rejects)
	}
	if report.Rejects < d.damaged*9/10 || report.Rejects > d.damaged {
		t.Errorf("%d rejected of %d damaged", report.Rejects, d.damaged)
	}
	d.compare(t, dir, lake.WorkloadID(report.Workload))
}

// compare compares the flows of a workload with the ground truth.
func (d *day) compare(t *testing.T, dir string, id lake.WorkloadID) {
	t.Helper()
	l, err := lake.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := Read(l, id)
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := FlowFiles(l, state.Ingested())
	if err != nil {
		t.Fatal(err)
	}
	router, err := topology.NewRouter(t.Context(), d.topology, 1)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	hostBytes := make([]int64, len(d.topology.Links))
	linkBytes := make([]int64, len(d.topology.Links))
	var path []int32
	err = columns.ForEach(l.Read(schema.Flows, files, nil), func(rec arrow.Record) error {
		ids := columns.Int64s(rec, "flow_id")
		size := columns.Int64s(rec, "size_bytes")
		src := columns.Int32s(rec, "src")
		dst := columns.Int32s(rec, "dst")
		sizes = append(sizes, size...)
		for i, id := range ids {
			var err error
			if path, err = router.Path(id, src[i], dst[i], path[:0]); err != nil {
				return err
			}
			addBytes(path, size[i], linkBytes, hostBytes)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.compareBytes(t, hostBytes, linkBytes)
	d.compareSizes(t, sizes)
}

func (d *day) compareBytes(t *testing.T, hostBytes, linkBytes []int64) {
	t.Helper()
	worst, mean := bytesError(d.hostBytes, hostBytes)
	allWorst, allMean := bytesError(d.linkBytes, linkBytes)
	t.Logf("link loads against the truth: links of hosts %.3f%% off on average, %.3f%% at most; "+
		"all links, with paths drawn anew, %.3f%% and %.3f%%", 100*mean, 100*worst, 100*allMean, 100*allWorst)
	if mean > 0.01 {
		t.Errorf("links of hosts are %.3f%% off", 100*mean)
	}
}

func (d *day) compareSizes(t *testing.T, sizes []int64) {
	t.Helper()
	slices.Sort(sizes)
	slices.Sort(d.sizes)
	var off []string
	for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999} {
		a := d.sizes[int(q*float64(len(d.sizes)-1))]
		b := sizes[int(q*float64(len(sizes)-1))]
		change := float64(b)/float64(a) - 1
		off = append(off, fmt.Sprintf("p%g %+.2f%%", 100*q, 100*change))
		if math.Abs(change) > 0.05 {
			t.Errorf("size at quantile %g: %d, truth %d", q, b, a)
		}
	}
	t.Logf("%d flows of %d; sizes against the truth: %s", len(sizes), len(d.sizes), strings.Join(off, ", "))
}

// bytesError returns the maximum and the mean relative error over all links with traffic.
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

// peakRSS returns the peak resident memory of this process, in bytes, or 0 if the system does not report it.
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
