package ingest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/daily"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// writeLog writes a text to a file, and returns it with the mapping of a built-in format.
func writeLog(t *testing.T, format, text string) (m *Mapping, file string) {
	t.Helper()
	m, err := FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m, file
}

// inLog ingests a text with a built-in format and options.
func inLog(t *testing.T, format, text string, o Options) (tested, error) {
	t.Helper()
	m, file := writeLog(t, format, text)
	o.Mapping, o.TmpDir, o.MemoryBytes, o.Threads, o.Seed = m, t.TempDir(), 256<<20, 2, 1
	return readFile(t, topologytest.SmallNetwork(t), file, o)
}

// A number of packets that no link carries in years makes no product of the judgement overflow. Without this,
// one row ends the ingest of a file.
func TestNumbersOfPacketsDoNotOverflow(t *testing.T) {
	row := "2 1 eni-1 0 1 1 2 6 %d.0 %d 1769850000 1769850060 ACCEPT OK\n" // .0: a row for SQL
	_, err := inLog(t, "vpc", fmt.Sprintf(row, int64(1)<<60, int64(1)<<59), Options{MaxRejects: 1})
	if err != nil {
		t.Fatal(err)
	}
}

// flowsOf lists the flows of a file as "src dst bytes".
func flowsOf(t *testing.T, stats tested) string {
	t.Helper()
	return askParquet(t, `SELECT concat_ws(' ', src, dst, size_bytes) AS f FROM read_parquet(%s) ORDER BY f`,
		stats.FlowsFile)
}

// Exporters without a clock write 0. Without this rule all flows would start at once in 1970. The time of
// reception applies if the format has one. Otherwise the row is rejected with a named reason.
func TestStartsThatMeanNoTime(t *testing.T) {
	const json = `{"type":"IPFIX","src_addr":"0","dst_addr":"1","bytes":%d,"packets":1,"proto":17,"time_received_ns":%d,` +
		`"time_flow_start_ns":%d,"time_flow_end_ns":%d}` + "\n"
	const second, day, now = int64(1e9), int64(86400e9), int64(1774746000e9)
	var stuck strings.Builder
	for i := range int64(30) {
		fmt.Fprintf(&stuck, json, 100+i, now+i*600*second, now-day, now+i*600*second)
	}
	vpc := "2 1 eni-1 0 1 1 443 17 1 1500 %d %d ACCEPT OK\n"
	cases := map[string]struct {
		format, text string
		first        int64 // second of the first start
		rejects      int64
		note         string
	}{
		"zero": {"goflow2", fmt.Sprintf(json, 9, now, 0, 0), now / second, 0,
			"1 of 1 records have no start"},
		"after reception": {"goflow2", fmt.Sprintf(json, 9, now, now+120*second, now+120*second), now / second, 0,
			"no start"},
		"a clock ahead": {"goflow2", fmt.Sprintf(json, 9, now, now+30*second, now+30*second), now/second + 30, 0,
			""},
		"stuck": {"goflow2", stuck.String(), now / second, 0, "30 of 30 records have no start"},
		"another zone": {"goflow2", fmt.Sprintf(json, 9, now, now-8*3600*second, now-8*3600*second),
			now/second - 8*3600, 0, "8 hours before"},
		"no reception": {"vpc", fmt.Sprintf(vpc, 0, 0) + fmt.Sprintf(vpc, now/second, now/second), now / second,
			1, ""},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if leavesOut(t, i, name == "stuck" || name == "after reception") {
			continue
		}
		c := cases[name]
		stats, err := inLog(t, c.format, c.text, Options{MaxRejects: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		notes := strings.Join(stats.Notes, "; ")
		if stats.FirstStartNS/second != c.first || stats.Rejects != c.rejects || !strings.Contains(notes, c.note) ||
			(c.note == "") != (notes == "") {
			t.Errorf("%s: first start %d, want %d; %d rejects, notes %q", name, stats.FirstStartNS/second, c.first,
				stats.Rejects, notes)
		}
		if c.rejects > 0 && stats.Reasons[0].Reason != noStart {
			t.Errorf("%s: %v", name, stats.Reasons)
		}
	}
}

// Each of several concatenated files has a header, whose order applies to the rows after it. If the first
// header applied to all rows, packets would be read as bytes.
func TestHeaderThatComesAgain(t *testing.T) {
	const head = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start " +
		"end action log-status\n"
	const row = "2 1 eni-1 0 1 %d 443 6 %d %d 1633633201 1633633260 ACCEPT OK\n"
	other := strings.Replace(head, "packets bytes", "bytes packets", 1)
	text := head + fmt.Sprintf(row, 1, 20, 24000) + other + fmt.Sprintf(row, 2, 25000, 20) + head + fmt.Sprintf(
		row, 3, 20, 26000)
	stats, err := inLog(t, "vpc", text, Options{})
	if err != nil || stats.Rows != 3 || flowsOf(t, stats) != "0 1 24000; 0 1 25000; 0 1 26000" {
		t.Errorf("%+v, %v", stats, err)
	}
	nfdump := "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes\n2026-01-31 " +
		"09:00:00.250,1.5,TCP,0,1,1,443,10,9000\nSummary\nflows,bytes\n1,2\n"
	stats, err = inLog(t, "nfdump", nfdump+strings.Replace(nfdump, ",0,1,1,", ",0,2,2,", 1), Options{})
	if err != nil || stats.SetAside != 6 || flowsOf(t, stats) != "0 1 9000; 0 2 9000" {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Whole numbers that a program stores as floating point are numbers in every column. An invalid port rejects
// the row, because without it connections would be merged.
func TestNumbersWrittenAsFloats(t *testing.T) {
	text := "ts,te,sa,da,sp,dp,pr,stos,ipkt,ibyt\n" +
		"2026-01-31 09:00:00,2026-01-31 09:00:01,0.0,1.0,33970.0,443.0,6.0,184.0,10.0,9000.0\n" +
		"2026-01-31 09:00:00,2026-01-31 09:00:01,0,1,3.3692e4,443,6,184,10,8000\n" +
		"2026-01-31 09:00:00,2026-01-31 09:00:01,0,1,33.5,443,6,184,10,7000\n" +
		"2026-01-31 09:00:00,2026-01-31 09:00:01,0,1,http,443,6,184,10,6000\n" +
		"2026-01-31 09:00:00,2026-01-31 09:00:01,0,1,0,3.1,1,0,ten,5000\n"
	stats, err := inLog(t, "nfdump", text, Options{MaxRejects: 1})
	if err != nil || flowsOf(t, stats) != "0 1 8000; 0 1 9000" {
		t.Fatalf("%+v, %v", stats, err)
	}
	got := askParquet(t, `SELECT "row" || ' ' || reason FROM read_parquet(%s)`, stats.RejectsFile)
	if got != "3 a port is not an integer from 0 to 65535; 4 a port is not an integer from 0 to 65535; 5 "+
		"packets is not an integer" {
		t.Error(got)
	}
}

// Times are read with the offsets of strftime, Java, Go and Python, in any time zone of the process. A time
// without an offset is not a time.
func TestTimesWithOffsets(t *testing.T) {
	t.Setenv("TZ", "America/New_York")
	log := ""
	for i, text := range []string{
		"2026-01-31 09:00:00", "2026-01-31T09:00:00Z", "2026-01-31T09:00:00+0000", "2026-01-31T17:00:00.0+0800",
		"2026-01-31T10:00:00.000+01:00[Europe/Paris]", "2026-01-31 09:00:00.000000001 +0000 UTC",
		"2026-01-31 10:00:00 +0100 CET m=+0.1", "2026-01-31T09:00:00,000+00",
	} {
		log += fmt.Sprintf(`{"ts":%q,"id.orig_h":"0","id.orig_p":%d,"id.resp_h":"1","id.resp_p":443,`+
			`"proto":"tcp","orig_bytes":9}`+"\n", text, i)
	}
	stats, err := inLog(t, "zeek_json", log, Options{MaxRejects: 1})
	if err != nil {
		t.Fatal(err)
	}
	got := askParquet(t, "SELECT count(*) || ' ' || (start_ns // 1000000000) FROM read_parquet(%s) GROUP BY "+
		"start_ns // 1000000000", stats.FlowsFile)
	if got != "7 1769850000" || stats.Rejects != 1 || !strings.HasPrefix(stats.Reasons[0].Example, "row 1: ") {
		t.Errorf("flows and their start: %s; rejects %+v", got, stats.Reasons)
	}
}

// A text is an address, a name or an id by one rule. A text that may mean two nodes is an error.
func TestNamesIdsAndAddresses(t *testing.T) {
	var nodes []topology.Node
	for i, name := range []string{"1", "0", "10.0.0.9", "web.example.com", "s"} {
		kind := topology.KindHost
		if name == "s" {
			kind = "switch"
		}
		nodes = append(nodes, topology.Node{ID: int32(i), Name: name, Kind: kind})
	}
	var cables []topology.Cable
	for i := range int32(4) {
		cables = append(cables, topology.Cable{A: i, B: 4, BandwidthBps: 1e9, DelayNS: 1})
	}
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	b := newAddressBook(n, []string{"example.com"})
	for text, want := range map[string]int32{"2": 2, "2.0": 2, "007": -1, "10.0.0.9": 2, "::ffff:10.0.0.9": 2,
		"web": 3, "web.example.com": 3, "web.example.com.": 3, "web.example.org": -1} {
		if got, err := b.host(text); err != nil || got != want {
			t.Errorf("%q is node %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "1"} {
		if _, err := b.host(text); err == nil || !strings.Contains(err.Error(), "may be several nodes") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := b.addHost("row 1", "10.0.0.9", "web"); err == nil ||
		!strings.Contains(err.Error(), `"10.0.0.9" is already node 2`) {
		t.Errorf("an address that is the name of another node: %v", err)
	}
	if err := b.addHost("row 2", "10.1.1.12/24", "web"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int32{"10.1.1.12": 3, "10.1.1.13": -1} {
		got, _ := b.host(text)
		if got != want {
			t.Errorf("%s of 10.1.1.12/24 is node %d, want %d", text, got, want)
		}
	}
}

// Tables are read as companies write them: ports are ranges, the more specific row wins, and all faults are
// listed at once.
func TestTablesOfCompanies(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	o := Options{Hosts: write("hosts.csv", "address,node\n10.0.0.1/24,0\n10.0.0.2/24,1\n"),
		Labels: write("labels.csv",
			"cidr,port,service\n0.0.0.0/0,,other\n10.0.0.0/24,6800-6815,storage\n10.0.0.0/24,443.0,web\n"),
		OffFabric: []string{"203.0.113.0/24"}}
	row := "2 1 eni-1 %s 10.0.0.2 %d %d 17 1 1500 1769850000 1769850001 ACCEPT OK\n"
	stats, err := inLog(t, "vpc", fmt.Sprintf(row, "10.0.0.1", 6815, 40000)+fmt.Sprintf(row, "10.0.0.1", 40000,
		443)+fmt.Sprintf(row, "10.0.0.1", 6816, 40000)+fmt.Sprintf(row, "203.0.113.7", 1, 2), o)
	if err != nil || stats.SetAside != 1 || stats.Rejects != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
	got := askParquet(t, `SELECT string_agg(service, ' ' ORDER BY service) FROM read_parquet(%s)`,
		stats.FlowsFile)
	if got != "other storage web" {
		t.Error(got)
	}
	_, err = inLog(t, "vpc", fmt.Sprintf(row, "10.0.0.1", 1, 2),
		Options{Hosts: write("bad.csv", "address,node\n10.0.0.1,77\n10.0.0.2,0\nx/y,1\n")})
	if err == nil || !strings.Contains(err.Error(), `row 1: node "77"`) ||
		!strings.Contains(err.Error(), `row 3: "x/y"`) {
		t.Errorf("faults of a table: %v", err)
	}
}

// The exporters of a flow are determined by interval: if its traffic moves from one to another, no bytes are
// lost.
func TestExportersThatChange(t *testing.T) {
	for name, second := range map[string]int{"one exporter after the other": 1, "both stay": 0} {
		var b strings.Builder
		b.WriteString("ts,te,sa,da,sp,dp,pr,ipkt,ibyt,ra\n")
		for minute := range 60 {
			for _, exporter := range []string{[]string{"a", "b"}[minute/30*second], "c"} {
				fmt.Fprintf(&b, "2026-01-31 09:%02d:00,2026-01-31 09:%02d:59,0,1,1,443,6,400,600000,%s\n", minute, minute,
					exporter)
			}
		}
		stats, err := inLog(t, "nfdump", b.String(), Options{SamplingRate: 1000})
		if err != nil {
			t.Fatal(err)
		}
		got := askParquet(t, `SELECT CAST(round(sum(size_bytes) / 1e9) AS INT)::VARCHAR FROM read_parquet(%s)`,
			stats.FlowsFile)
		if got != "36" {
			t.Errorf("%s: %s GB, want 36", name, got)
		}
	}
}

// The error of too many rejects first names the rows that count.
func TestRejectsThatCountComeFirst(t *testing.T) {
	text := strings.Repeat("2 1 eni-1 - - - - - - - 1769850000 1769850060 - NODATA\n", 5) +
		"2 1 eni-1 0 1 1 443 17 1 x 1769850000 1769850001 ACCEPT OK\n"
	_, err := inLog(t, "vpc", text, Options{})
	if err == nil || !strings.Contains(err.Error(), "(--max-rejects): 1 × size_bytes is not an integer") ||
		!strings.Contains(err.Error(), "set aside, and not counted: 5 rows") {
		t.Error(err)
	}
}

// Suricata writes the time of the first packet as the time of all events of a capture that it reads from a
// file. If that were a time of reception, all flows of the capture would start at it, and those of one
// connection would be one flow.
func TestEventsOfACaptureHaveTheirStarts(t *testing.T) {
	const suricata = `{"timestamp":"2026-01-31T09:00:00.000000+0000","event_type":"flow","src_ip":"0",` +
		`"src_port":1,"dest_ip":"1","dest_port":2,"proto":"UDP","flow":{"pkts_toserver":1,` +
		`"pkts_toclient":0,"bytes_toserver":%d,"bytes_toclient":0,"start":"2026-01-31T09:%d:00.000000+0000",` +
		`"end":"2026-01-31T09:%[2]d:01.000000+0000"}}` + "\n"
	const ecs = `{"@timestamp":"2026-01-31T09:00:00.000Z","source":{"ip":"0","port":1,"bytes":%d},` +
		`"destination":{"ip":"1","port":2},"network":{"transport":"udp"},` +
		`"event":{"start":"2026-01-31T09:%d:00.000Z"},"suricata":{"eve":{"event_type":"flow"}}}` + "\n"
	for i, c := range []struct{ format, row string }{{"suricata", suricata}, {"ecs", ecs}} {
		if leavesOut(t, i, daily.Runs(i, 2)) {
			continue
		}
		text := fmt.Sprintf(c.row, 1014, 10) + fmt.Sprintf(c.row, 2014, 40)
		stats, err := inLog(t, c.format, text, Options{})
		if err != nil || stats.Flows != 2 || stats.Notes != nil {
			t.Errorf("%s: %d flows, want 2; notes %q, %v", c.format, stats.Flows, stats.Notes, err)
		}
	}
}

// Logs differ in the headers that their bytes include. If 14 bytes were subtracted from packets of a tunnel,
// which have no Ethernet header, records of ACKs alone would be flows. If payload were compared with the size
// of headers, small messages would be ACKs.
func TestHeadersInBytes(t *testing.T) {
	const binetflow = "StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,TotPkts,TotBytes,SrcBytes," +
		"SrcPkts\n2026/01/31 09:00:00.0,1.0,tcp,0,1,->,1,2,300,155200,5200,100\n"
	const suricata = `{"event_type":"flow","src_ip":"0","src_port":1,"dest_ip":"1","dest_port":2,` +
		`"proto":"TCP","flow":{"pkts_toserver":100,"pkts_toclient":200,"bytes_toserver":5200,` +
		`"bytes_toclient":150000,"start":"2026-01-31T09:00:00.000000+0000",` +
		`"end":"2026-01-31T09:00:01.000000+0000"}}` + "\n"
	const cicflowmeter = "Src IP,Src Port,Dst IP,Dst Port,Protocol,Timestamp,Flow Duration," +
		"Total Fwd Packet,Total Bwd packets,Total Length of Fwd Packet,Total Length of Bwd Packet\n" +
		"0,1,1,2,6,31/01/2026 09:00:00 AM,1500000,10,100,500.0,120000.0\n"
	for i, c := range []struct{ format, text, want string }{
		{"argus", binetflow, "1 0 150000"},
		{"suricata", suricata, "1 0 150000"},
		{"cicflowmeter", cicflowmeter, "0 1 500; 1 0 120000"},
	} {
		if leavesOut(t, i, daily.Runs(i, 3)) {
			continue
		}
		stats, err := inLog(t, c.format, c.text, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.format, err)
		}
		got := flowsOf(t, stats)
		if got != c.want {
			t.Errorf("%s: flows %s, want %s", c.format, got, c.want)
		}
	}
}

// Both directions of a row can be rejected. If the limit applied to the number of rows, 2 of 1 rows would
// exceed even 100%.
func TestLimitOfRejectsCountsBothDirections(t *testing.T) {
	tally := Tally{Rows: 2, Reverse: 2, Rejects: 4, Reasons: []RejectCount{{Reason: "r", Rows: 4}}}
	err := CheckRejects("log", tally, 1)
	if err != nil {
		t.Error(err)
	}
	err = CheckRejects("log", tally, 0.5)
	if err == nil || !strings.Contains(err.Error(), "4 of 4 directions of 2 rows cannot be simulated") {
		t.Error(err)
	}
}
