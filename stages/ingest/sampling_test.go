package ingest

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parsimon/schema/daily"
	"parsimon/stages/rng"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// samplingTrial draws flows between hosts and the records of exporters that sample their packets.
type samplingTrial struct {
	hosts, flows int
	bytes        func(s *rng.Stream) int                 // of a flow
	path         func(src, dst, flow int) map[string]int // exporters and their rates
	net          func(t *testing.T) *topology.Network
}

// ingest returns the true bytes, and those of the flows that result from the records.
func (c *samplingTrial) ingest(t *testing.T, seed uint64) (want, got, sigma float64) {
	s := rng.New(seed, rng.Start, 77)
	b := strings.Builder{}
	b.WriteString("unixSecondsUTC,agent,inputPort,srcIP,dstIP,IPProtocol,TCPSrcPort,TCPDstPort,sampledPacketSize,meanSkipCount\n")
	variance := 0.0
	for f := range c.flows {
		src := int(s.Uint64() % uint64(c.hosts))
		dst := (src + 1 + int(s.Uint64()%uint64(c.hosts-1))) % c.hosts
		packets := (c.bytes(&s) + 1499) / 1500
		want += float64(1500 * packets)
		exporters := c.path(src, dst, f)
		for _, agent := range []string{"a", "b", "c", "d", "e"} {
			rate := exporters[agent]
			if rate == 0 {
				continue
			}
			for i := range packets { // a link aggregation group spreads them over two ports
				if s.Uint64()%uint64(rate) == 0 {
					fmt.Fprintf(&b, "%d,%s,%d,%d,%d,6,%d,80,1518,%d\n", 1769850000+f%60, agent, i%2, src, dst, 1024+f, rate)
				}
			}
			variance += float64(packets) * 1500 * 1500 * float64(rate) / float64(len(exporters)*len(exporters))
		}
	}
	file := filepath.Join(t.TempDir(), "sflow.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := FormatMapping("sflowtool")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := readFile(t, c.net(t), file, Options{Mapping: m, TmpDir: t.TempDir(), MemoryBytes: 256 << 20,
		Threads: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a sampled packet stands for ", "at least ", "Slowdowns by size hold from "} {
		if !strings.Contains(stats.Sampling, part) {
			t.Errorf("%q does not say %q", stats.Sampling, part)
		}
	}
	t.Log(stats.Sampling)
	text := askParquet(t, `SELECT CAST(sum(size_bytes) AS VARCHAR) FROM read_parquet(%s)`, stats.FlowsFile)
	if _, err := fmt.Sscan(text, &got); err != nil {
		t.Fatal(text, err)
	}
	return want, got, math.Sqrt(variance)
}

// Bytes of sampled records are those of the flows within the uncertainty of sampling, for any exporters on a
// path: the first and the last rack, some racks only, or spines of which each flow crosses one, with equal
// rates or not.
func TestBytesOfSampledRecords(t *testing.T) {
	racks := func(t *testing.T) *topology.Network { // hosts 0 to 11 of three racks, under switches 12 to 14
		var cables [][2]int32
		for h := range int32(12) {
			cables = append(cables, [2]int32{h, 12 + h/4})
		}
		return topologytest.Wire(t, 15, 12, append(cables, [2]int32{12, 13}, [2]int32{12, 14}, [2]int32{13, 14})...)
	}
	// 20 packets
	few := func(s *rng.Stream) int { return 3000 + int(s.Uint64()%60_000) }
	// heavy tail
	mixed := func(s *rng.Stream) int { return int(3000 / math.Pow(float64(s.Uint64()>>11+1)/(1<<53), 1.2)) }
	bounded := func(s *rng.Stream) int { return min(20_000_000, mixed(s)) }
	leaves := func(rates ...int) func(src, dst, flow int) map[string]int {
		return func(src, dst, _ int) map[string]int {
			path := map[string]int{}
			for _, r := range []int{src / 4, dst / 4} {
				if rates[r] > 0 {
					path["abc"[r:r+1]] = rates[r]
				}
			}
			return path
		}
	}
	cases := map[string]samplingTrial{
		"one exporter, 1:100": {12, 4000, bounded, func(int, int, int) map[string]int {
			return map[string]int{"a": 100}
		}, racks},
		"one exporter, 1:1000": {12, 20000, bounded, func(int, int, int) map[string]int {
			return map[string]int{"a": 1000}
		}, racks},
		"racks, 1:100":               {12, 4000, bounded, leaves(100, 100, 100), racks},
		"racks, 1:1000":              {12, 20000, bounded, leaves(1000, 1000, 1000), racks},
		"racks, small flows, 1:100":  {12, 20000, few, leaves(100, 100, 100), racks},
		"racks, small flows, 1:1000": {12, 60000, few, leaves(1000, 1000, 1000), racks},
		"racks, 1:100 and 1:1000":    {12, 20000, bounded, leaves(100, 1000, 1000), racks},
		"spines, small flows, 1:100": {12, 20000, few, func(_, _, flow int) map[string]int {
			return map[string]int{"abcd"[flow%4 : flow%4+1]: 100}
		}, racks},
		"racks and spines, 1:200": {12, 20000, bounded, func(src, dst, flow int) map[string]int {
			path := leaves(200, 200, 200)(src, dst, flow)
			if src/4 != dst/4 {
				path["de"[flow%2:flow%2+1]] = 200
			}
			return path
		}, racks},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			if leavesOut(t, i, name == "racks and spines, 1:200") {
				t.Skip("left out today")
			}
			want, got, sigma := c.ingest(t, 5)
			t.Logf("%.0f bytes, true %.0f: %+.2f%%, sigma of sampling %.2f%%", got, want, 100*(got/want-1),
				100*sigma/want)
			if math.Abs(got-want) > 3*sigma+0.01*want {
				t.Errorf("%.0f bytes, true %.0f: %+.2f%%, sigma of sampling %.2f%%", got, want, 100*(got/want-1),
					100*sigma/want)
			}
		})
	}
}

// Sampled records that do not name their exporter belong to one exporter per interface.
func TestExportersWithoutNames(t *testing.T) {
	logs := map[string][2]string{
		"nfdump": {"ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra,in\n",
			"2026-01-31 09:00:00,2026-01-31 09:01:00,0,1,%d,443,6,10,15000,,%d\n"},
		"ipfix": {"sourceIPv4Address,destinationIPv4Address,sourceTransportPort,ingressInterface,protocolIdentifier," +
			"packetDeltaCount,octetDeltaCount,flowStartSeconds\n", "0,1,%d,%d,6,10,15000,1769850000\n"},
		"goflow2": {"", `{"type":"IPFIX","src_addr":"0","dst_addr":"1","src_port":%d,"in_if":%d,"sampler_address":"",` +
			`"bytes":15000,"packets":10,"proto":6,"time_flow_start_ns":1769850000000000000}` + "\n"},
		"sflowtool": {"unixSecondsUTC,srcIP,dstIP,IPProtocol,TCPDstPort,sampledPacketSize,meanSkipCount,TCPSrcPort," +
			"inputPort\n",
			strings.Repeat("1769850000,0,1,6,80,1518,100,%[1]d,%[2]d\n", 10)},
	}
	for i, format := range slices.Sorted(maps.Keys(logs)) {
		if leavesOut(t, i, daily.Runs(i, 4)) {
			continue
		}
		lines := logs[format]
		var b strings.Builder
		b.WriteString(lines[0])
		for i := range 40 {
			fmt.Fprintf(&b, lines[1], 1000+i/2, 1+i%2)
		}
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := FormatMapping(format)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file, Options{Mapping: m, TmpDir: t.TempDir(),
			MemoryBytes: 256 << 20, Threads: 2, Seed: 1, SamplingRate: 100})
		if err != nil {
			t.Fatal(err)
		}
		got := askParquet(t, `SELECT CAST(sum(size_bytes) // 1000000 AS VARCHAR) FROM read_parquet(%s)`,
			stats.FlowsFile)
		// 20 flows of 15 kB are sampled 1:100 by two exporters. 10 samples per flow leave an uncertainty of
		// about 10%.
		if mb, err := strconv.Atoi(got); err != nil || mb < 27 || mb > 33 {
			t.Errorf("%s: %s MB, want 30", format, got)
		}
	}
}

// If rows do not state a rate, that of the options applies. Without it, a note names files that look sampled.
// VPC flow logs, which are not sampled, and rows that count every packet keep their bytes, and a note says
// that the rate does not apply to them.
func TestSamplingRate(t *testing.T) {
	const header = "ts,te,td,sa,da,sp,dp,pr,ipkt,ibyt\n"
	row := func(port, packets, bytes int) string {
		return fmt.Sprintf("2026-01-31 09:00:00,2026-01-31 09:00:01,1.0,0,1,%d,443,6,%d,%d\n", port, packets, bytes)
	}
	vpc := "2 1 eni-1 0 1 1000 443 6 1 1500 1418530010 1418530011 ACCEPT OK\n"
	for i, c := range []struct {
		format, text string
		rate         int64
		want         string
		notes        int
	}{
		{"nfdump", header + row(1, 1, 1500) + row(2, 1, 1400) + row(3, 3, 4500), 0, "1400 1500 4500", 1},
		{"nfdump", header + row(1, 1, 1500) + row(2, 1, 1400) + row(3, 3, 4500), 1000, "1400000 1500000 4500000",
			0},
		{"nfdump", header + row(1, 10, 15000) + row(2, 1, 1400) + row(3, 3, 4500), 0, "1400 4500 15000", 0},
		{"nfdump", header + row(1, 1, 52) + row(2, 7, 9000), 100, "900000", 0},
		{"vpc", vpc, 0, "1500", 0},
		{"vpc", vpc, 1000, "1500", 1},
	} {
		if leavesOut(t, i, i%2 == 0) {
			continue
		}
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := FormatMapping(c.format)
		if err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file,
			Options{Mapping: m, TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 2, MaxRejects: 1, Seed: 1,
				SamplingRate: c.rate})
		if err != nil {
			t.Fatal(err)
		}
		got := askParquet(t, `SELECT string_agg(size_bytes, ' ' ORDER BY size_bytes) FROM read_parquet(%s)`,
			stats.FlowsFile)
		if got != c.want || len(stats.Notes) != c.notes ||
			(stats.Sampling == "") != (c.want == "1500" || c.rate == 0) {
			t.Errorf("%s, rate %d: %s, notes %q, %q; want %s", c.format, c.rate, got, stats.Notes, stats.Sampling,
				c.want)
		}
	}
}

// If observers sample at an unknown rate, one of them applies to each pair of hosts. A flow that only another
// one sampled is already represented by the records of the first.
func TestOneSamplerApplies(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, `{"jsonPayload":{"bytes_sent":"1000","connection":{"dest_ip":"10.0.0.2","dest_port":80,"protocol":6,"src_ip":"10.0.0.1","src_port":%d},`+
			`"reporter":"%s","start_time":"2018-11-28T17:35:11Z","end_time":"2018-11-28T17:35:12Z"}}`+"\n", i+1,
			[]string{"SRC", "DEST", "SRC"}[i%3])
	}
	file := filepath.Join(t.TempDir(), "two.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	stats, err := ingestFixture(t, "gcp", file)
	if err != nil || stats.Flows != 200 || stats.Merged != 100 {
		t.Errorf("%+v, %v", stats, err)
	}
	got := askParquet(t, `SELECT CAST(sum(size_bytes) AS VARCHAR) FROM read_parquet(%s)`, stats.FlowsFile)
	if got != "200000" {
		t.Errorf("%s bytes", got)
	}
}

// ingestLog ingests a flow log in the form of nfdump's.
func ingestLog(t *testing.T, rows string) (tested, error) {
	t.Helper()
	m, err := FormatMapping("nfdump")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(file, []byte("ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra,in\n"+rows), 0o600); err != nil {
		t.Fatal(err)
	}
	return readFile(t, topologytest.SmallNetwork(t), file,
		Options{Mapping: m, TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 2, Seed: 1})
}

// Seconds without a flow are reported if the log has many flows in all others, and only for a period that has
// such seconds.
func TestGaps(t *testing.T) {
	but := func(flows int, seconds ...int) func(int) int {
		return func(s int) int {
			if slices.Contains(seconds, s) {
				return 0
			}
			return flows
		}
	}
	cases := map[string]struct {
		flows func(second int) int
		want  string
	}{
		"none":      {but(100), ""},
		"a second":  {but(100, 20), "1 gap (1.7% of the time)"},
		"two gaps":  {but(100, 20, 33, 34, 35), "2 gaps (6.8% of the time)"},
		"70 a s":    {but(70, 20), "1 gap (1.7% of the time)"},
		"60 a s":    {but(60, 20), ""},
		"period":    {but(2, 20, 41), ""}, // 2 flows each 1.05 s
		"few flows": {func(s int) int { return s % 2 }, ""},
		"bursts":    {func(s int) int { return 1000 * (s % 20 / 19) }, ""},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if leavesOut(t, i, name == "two gaps" || name == "60 a s") {
			continue
		}
		c := cases[name]
		var b strings.Builder
		for second := range 60 {
			for i := range c.flows(second) {
				fmt.Fprintf(&b, "2026-01-31 09:00:%02d.%03d,2026-01-31 09:01:00,0,1,%d,443,17,1,1500,,\n", second, i%1000,
					1000+100*second+i)
			}
		}
		stats, err := ingestLog(t, b.String())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(stats.MergeStats.Notes(stats.FirstStartNS, stats.LastStartNS), "")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := stats.MergeStats.Notes(stats.FirstStartNS, stats.FirstStartNS+15e9); got != nil {
			t.Errorf("%s: the first 15 s: %q", name, got)
		}
	}
}

// If as many gaps are kept as can be, a note says that there may be more.
func TestManyGaps(t *testing.T) {
	for n, want := range map[int]string{999: "in 999 gaps (50% of", 1000: "in at least 1000 gaps (50% of"} {
		var s MergeStats
		for i := range int64(n) {
			s.Gaps = append(s.Gaps, Gap{2e9 * i, 2e9*i + 1e9})
		}
		got := s.Notes(0, 2e9*int64(n))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%d gaps: %q, want %q", n, got, want)
		}
	}
}

// Bytes beyond a 64-bit integer are an error that names the largest row, not a wrong number.
func TestAbsurdBytes(t *testing.T) {
	rows := func(n int, port func(i int) int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "2026-01-31 09:00:00,2026-01-31 09:01:00,0,1,%d,443,17,1,%d,%d,\n", port(i),
				int64(1<<50)-int64(i%2), i%3)
		}
		return b.String()
	}
	for name, port := range map[string]func(int) int{"one flow": func(int) int { return 1 },
		"many": func(i int) int { return i }} {
		if testing.Short() && name == "many" {
			t.Log(name, "is left out with -short")
			continue
		}
		_, err := ingestLog(t, rows(13_000, port))
		if err == nil || !strings.Contains(err.Error(), "log.csv: row 1 has 1125899906842624 bytes, ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if stats, err := ingestLog(t, rows(1, func(int) int { return 1 })); err != nil || stats.Flows != 1 {
		t.Errorf("2^50 bytes: %v", err)
	}
}

// A row whose end in ns exceeds a 64-bit integer is rejected. Other text is not an end, and neither is an
// unset time.
func TestAbsurdEnds(t *testing.T) {
	const large, date = "99999999999999999999", "9999-12-31 23:59:59"
	const goflow2 = `{"type":"IPFIX","src_addr":"0","dst_addr":"1","bytes":1500,"packets":1,"proto":6,`
	const ipfix = "sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStartSeconds,"
	const nfdump, log = "ts,td,sa,da,pr,ipkt,ibyt,te\n2026-01-31 09:00:00,", ",0,1,6,1,1500,END\n"
	for i, c := range []struct{ format, text, end, none string }{
		{"vpc", "2 1 eni-1 0 1 1 443 6 1 1500 1769850000 END ACCEPT OK\n", "99999999999", "x"},
		{"goflow2", goflow2 + `"time_flow_start_ns":1769850000000000000,"time_flow_end_ns":END}` + "\n", large,
			"null"},
		{"goflow2", goflow2 + `"TimeFlowStart":1769850000,"TimeFlowEnd":END,"TimeReceived":1769850000}` + "\n",
			"99999999999", "null"},
		{"goflow2", goflow2 + `"TimeFlowStart":1769850000,"TimeReceived":END}` + "\n", "99999999999", "null"},
		{"nfdump", nfdump + "1.5" + log, date, ""},
		{"nfdump", nfdump + "END" + log, "9999999999.5", "-1.5"},
		{"ipfix", ipfix + "flowEndSeconds\n0,1,1500,1769850000,END\n", "99999999999", ""},
		{"ipfix", ipfix + "flowEndSeconds\n0,1,1500,1769850000,END\n", date, "0001-01-01 00:00:00"},
		{"ipfix", ipfix + "flowDurationMilliseconds\n0,1,1500,1769850000,END\n", large, "x"},
		{"gcp", `{"connection":{"src_ip":"0","dest_ip":"1","protocol":6},"bytes_sent":"1500",` +
			`"start_time":"2026-01-31T09:00:00Z","end_time":"ENDZ"}` + "\n", date, "0001-01-01 00:00:00"},
		{"csv", "src,dst,size_bytes,start_ns,end_ns\n0,1,1500,1769850000000000000,END\n", large, ""},
		{"jsonl", `{"src":0,"dst":1,"size_bytes":1500,"start_ns":1769850000000000000,"end_ns":END}` + "\n", large,
			"null"},
	} {
		if leavesOut(t, i, daily.Runs(i, 12)) {
			continue
		}
		head := c.text[:strings.Index(c.text, "\n")+1]
		row := c.text[len(head):]
		if row == "" {
			row = head
			head = ""
		}
		text := head + strings.ReplaceAll(row, "END", c.end) + strings.ReplaceAll(row, "END", c.none)
		file := filepath.Join(t.TempDir(), "log."+c.format)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		stats, err := ingestFixture(t, c.format, file)
		if err != nil || stats.Rows != 2 || stats.Flows != 1 || stats.Rejects != 1 ||
			stats.Reasons[0].Reason != "end_ns is beyond 2^62" ||
			!strings.Contains(stats.Reasons[0].Example, c.end) {
			t.Errorf("%s with ends %q and %q: %+v, %v", c.format, c.end, c.none, stats, err)
		}
	}
}

// A time that exceeds a 64-bit integer in ns is a fault of one row, in every format that has times in another
// unit.
func TestAbsurdTimes(t *testing.T) {
	texts := map[string]string{
		"vpc":       "2 1 eni-1 0 1 1 443 6 1 1500 TIME TIME ACCEPT OK\n",
		"sflowtool": "unixSecondsUTC,agent,srcIP,dstIP,IPProtocol,TCPSrcPort,TCPDstPort,sampledPacketSize,meanSkipCount\nTIME,a,0,1,6,1,80,1518,100\n",
		"goflow2":   `{"type":"IPFIX","src_addr":"0","dst_addr":"1","bytes":1500,"packets":1,"proto":6,"TimeFlowStart":TIME}` + "\n",
		"ipfix":     "sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStartSeconds\n0,1,1500,TIME\n",

		"nfdump": "ts,te,sa,da,pr,ipkt,ibyt\nDATE,DATE,0,1,6,1,1500\n",
		"gcp": `{"connection":{"src_ip":"0","dest_ip":"1","protocol":6},"bytes_sent":"1500",` +
			`"start_time":"DATEZ","end_time":"DATEZ"}` + "\n",
		"ipfix dates": "sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStartSeconds,flowEndSeconds\n" +
			"0,1,1500,DATE,DATE\n",
	}
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if leavesOut(t, i, daily.Runs(i, 7)) {
			continue
		}
		text := texts[name]
		format, _, _ := strings.Cut(name, " ")
		rows := strings.NewReplacer("TIME", "1769850000", "DATE", "2026-01-31 09:00:00").Replace(text)
		head := ""
		row := strings.NewReplacer("TIME", "99999999999", "DATE", "9999-12-31 23:59:59.5").Replace(text)
		at := strings.Index(text, "\n") + 1
		if at < len(text) {
			head = rows[:at]
			row = row[at:]
		}
		file := filepath.Join(t.TempDir(), "log."+format)
		if err := os.WriteFile(file, []byte(head+rows[len(head):]+row), 0o600); err != nil {
			t.Fatal(err)
		}
		if stats, err := ingestFixture(t, format, file); err != nil || stats.Rows != 2 || stats.Flows != 1 ||
			stats.Reasons[0].Reason != "start_ns is not an integer" {
			t.Errorf("%s: %+v, %v", name, stats, err)
		}
	}
}
