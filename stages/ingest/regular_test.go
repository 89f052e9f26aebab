package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/daily"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/rng"
	"parsimon/stages/topology/topologytest"
)

// rowsSink keeps the rows of batches as text.
type rowsSink struct{ rows []string }

func (s *rowsSink) Write(batch arrow.Record) error {
	for i := range int(batch.NumRows()) {
		var cells []string
		for c, column := range batch.Columns() {
			cells = append(cells, batch.ColumnName(c)+"="+column.ValueStr(i))
		}
		s.rows = append(s.rows, strings.Join(cells, " "))
	}
	return nil
}

// A readBy is the result of reading a file.
type readBy struct {
	records, rejects []string
	stats, notes     string
	err              error
}

// readBoth reads a text with File, which only uses SQL, and with RegularFile.
func readBoth(t *testing.T, format, text string, o Options) (slow, fast readBy, regular bool) {
	t.Helper()
	m, file := writeLog(t, format, text)
	read := func(by func(in *Ingester, out FileTables) (FileStats, error)) (r readBy) {
		own := o
		own.TmpDir = t.TempDir()
		own.Open = parquet.OpenFile
		own.MemoryBytes = 128 << 20
		own.Threads = 1
		in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), own)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var out, rejects rowsSink
		stats, err := by(in, FileTables{&out, &rejects})
		r.err = err
		if err != nil {
			return r
		}
		copyRows := func(table schema.Table, file string, to *rowsSink) {
			if err := columns.ForEach(parquet.OpenFile(table, file), to.Write); err != nil {
				t.Fatal(err)
			}
		}
		if stats.RecordsFile != "" {
			copyRows(schema.Records, stats.RecordsFile, &out)
		}
		if stats.RejectsFile != "" && stats.Rejects > 0 {
			copyRows(schema.Rejects, stats.RejectsFile, &rejects)
		}
		r.records = slices.Sorted(slices.Values(out.rows))
		r.rejects = rejects.rows
		stats.RecordsFile = ""
		stats.RejectsFile = ""
		stats.WaitsFile = ""
		stats.Mapping = nil
		r.stats = fmt.Sprintf("%+v", stats)
		r.notes = strings.Join(in.Notes(), "\n")
		return r
	}
	slow = read(func(in *Ingester, _ FileTables) (FileStats, error) {
		return in.File(t.Context(), []*Mapping{m}, file, 1)
	})
	fast = read(func(in *Ingester, out FileTables) (stats FileStats, err error) {
		stats, regular, err = in.RegularFile(t.Context(), m, file, 1, out)
		return stats, err
	})
	return slow, fast, regular
}

// compareBoth compares the results of both ways, and reports whether the file was regular.
func compareBoth(t *testing.T, format, text string, o Options) bool {
	t.Helper()
	slow, fast, regular := readBoth(t, format, text, o)
	if !regular {
		return false
	}
	if fmt.Sprint(slow.err) != fmt.Sprint(fast.err) {
		t.Errorf("%s: error %v, want %v", format, fast.err, slow.err)
	}
	if slow.stats != fast.stats || slow.notes != fast.notes {
		t.Errorf("%s: counts and notes\n%s\n%s\nwant\n%s\n%s", format, fast.stats, fast.notes, slow.stats,
			slow.notes)
	}
	for _, of := range [][2][]string{{fast.records, slow.records}, {fast.rejects, slow.rejects}} {
		if len(of[0]) != len(of[1]) {
			t.Errorf("%s: %d rows, want %d", format, len(of[0]), len(of[1]))
			continue
		}
		for i := range of[0] {
			if of[0][i] != of[1][i] {
				t.Fatalf("%s: row\n%s\nwant\n%s", format, of[0][i], of[1][i])
			}
		}
	}
	return true
}

// regularColumns are the columns of each format, with optional ones.
var regularColumns = map[string]string{
	"vpc": "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end " +
		"action log-status vpc-id",
	"nfdump": "ts te td sa da sp dp pr stos ipkt ibyt opkt obyt in ra tr",
	"ipfix": "sourceIPv4Address destinationIPv4Address sourceTransportPort destinationTransportPort " +
		"protocolIdentifier octetDeltaCount packetDeltaCount flowStartMilliseconds flowEndMilliseconds " +
		"exporterIPv4Address ingressInterface samplingInterval ipClassOfService flowDurationMilliseconds",
	"csv": "flow_id src dst size_bytes start_ns end_ns protocol src_port dst_port service vnet dscp after " +
		"delay_ns",
	"goflow2": "type src_addr dst_addr src_port dst_port proto bytes packets sampler_address in_if " +
		"time_flow_start_ns time_flow_end_ns time_received_ns sampling_rate ip_tos etype",
	"nfdump_json": "type src4_addr dst4_addr src_port dst_port proto in_bytes in_packets ip4_router " +
		"input_snmp first last received src_tos out_bytes",
	"pmacct": "event_type ip_src ip_dst port_src port_dst ip_proto bytes packets peer_ip_src iface_in " +
		"timestamp_start timestamp_end stamp_updated tos sampling_rate writer_id",
	"jsonl": "flow_id src dst size_bytes start_ns end_ns protocol src_port dst_port service vnet dscp",
}

// oddValues are values that need SQL, or have another meaning in some formats.
var oddValues = []string{"", "-", "0", "007", "7.0", "1e3", " 5", "-1", "x", "\"9\"", "99999",
	"4611686018427387905", "10.0.0.9", "2026-02-30 00:00:00", "2026-01-31T09:00:01Z", "REJECT", "NODATA",
	"tcp", "UDP", "é", "1",
	"9300000000000000000", "2610-08-04 23:49:44", "purge_init", "SFLOW_5", "1.25",
	"7.", ".7", "1E3", "+5", "0x10", "5 ", "NaN", "null", "18446744073709551616", "1769850000.123456789123",
	"::ffff:10.0.0.9", "010.0.0.9", "2026-01-31 24:00:00", "2026-01-31 23:59:60", "2026-01-31T09:00:01+05:30",
	"2026-01-31 09:00:01.1234567891", "\xff"}

// oddObjectValues are more values of JSON.
var oddObjectValues = []string{"null", "0", "7.0", "1e3", "-1", "true", "[1]", "{}",
	`"\u0031"`, "12345678901234567890", "18446744073709551615", "", "tru", `""`, `"é"`,
	`"\ud83d"`, `"\u0000"`, "-0", "1e400", "01", "NaN", `"1 "`, "\"a\x01b\"", "\"a\xffb\"",
	"1769850000000000000.0"}

// regularTestRow returns the values of a row of a format, in the order of its columns.
func regularTestRow(s *rng.Stream, format string) []any {
	src := s.IntN(4)
	dst := (src + 1 + s.IntN(3)) % 4
	start := 1769850000 + s.IntN(5000)
	end := start + s.IntN(100)
	packets := 1 + s.IntN(9)
	size := packets * (40 + s.IntN(1400))
	action := "ACCEPT"
	switch s.IntN(20) { // rows that are rejected
	case 0:
		size = 0
	case 1, 2:
		size = packets * (39 + s.IntN(23))
	case 3:
		dst = src
	case 4:
		dst = 9990 + s.IntN(30)
	case 5:
		src = 9990 + s.IntN(2)
	case 6:
		action = "REJECT"
	}
	date := func(second int, separator string) string {
		at := time.Unix(int64(second), int64(s.IntN(1000))*1e6).UTC()
		return at.Format("2006-01-02" + separator + "15:04:05.000")
	}
	switch format {
	case "vpc":
		return []any{2, 1, "eni", src, dst, s.IntN(70000), 443, 6, packets, size, start, end,
			action, "OK", "vpc-1"}
	case "nfdump":
		return []any{date(start, " "), date(end+1, " "), 1.5, src, dst, s.IntN(65536), 53, "UDP", 8 * s.IntN(20),
			packets, size, 0, 0, s.IntN(3), "10.9.0.1", date(end+2, " ")}
	case "ipfix":
		return []any{src, dst, 1, 2, 17, size, packets, start * 1000, end*1000 + 7, "10.9.0.2", 4,
			s.IntN(2), 32, 60}
	case "csv":
		return []any{s.IntN(1000), src, dst, size, start * 1e9, end * 1e9, "tcp", 1, 443, "own", "",
			s.IntN(64), "", ""}
	case "jsonl":
		return []any{s.IntN(1000), src, strconv.Itoa(dst), size, start * 1e9, end * 1e9, 6, 1, 443, "own", " ", 5}
	case "goflow2":
		kinds := []string{"IPFIX", "SFLOW_5", "NETFLOW_V5"}
		rates := []int{0, 1, 100}
		return []any{kinds[s.IntN(3)], src, strconv.Itoa(dst), s.IntN(65536), 53, "TCP", size, packets,
			"10.9.0.3", s.IntN(3), start*1e9 + 1000*s.IntN(2), end * 1e9, (end + 1) * 1e9,
			rates[s.IntN(3)], 8 * s.IntN(20), "IPv4"}
	case "nfdump_json":
		return []any{"FLOW", src, dst, s.IntN(65536), 53, 17, size, packets, "10.9.0.4", s.IntN(3),
			date(start, "T"), date(end+1, "T"), date(end+7300, " "), 8 * s.IntN(20), 0}
	case "pmacct":
		return []any{"purge", src, dst, s.IntN(65536), 53, "udp", size, packets, "10.9.0.5", s.IntN(3),
			date(start, " "), date(end+1, " "), end + 2, 8 * s.IntN(20), s.IntN(2), "default/1"}
	}
	panic("no rows of format " + format)
}

// regularTestLine returns a line of a format, in which each value is odd with a probability.
func regularTestLine(s *rng.Stream, format string, odd float64) string {
	isOdd := func() bool { return s.Float64() < odd }
	var texts []string
	row := regularTestRow(s, format)
	for _, value := range row {
		text := fmt.Sprint(value)
		if isOdd() {
			text = oddValues[s.IntN(len(oddValues))]
		}
		texts = append(texts, text)
	}
	switch format {
	case "vpc":
		return strings.Join(texts, " ") + "\n"
	case "nfdump", "ipfix", "csv":
		return strings.Join(texts, ",") + "\n"
	}
	var members []string
	for i, key := range strings.Fields(regularColumns[format]) {
		text := texts[i]
		switch _, isText := row[i].(string); {
		case isOdd():
			text = oddObjectValues[s.IntN(len(oddObjectValues))]
		case isText || isOdd():
			text = strconv.Quote(text)
		}
		members = append(members, strconv.Quote(key)+":"+text)
		if isOdd() {
			members = append(members, `"more":[1,{"x":"y"}]`, members[s.IntN(len(members))])
		}
	}
	if isOdd() {
		slices.Reverse(members)
	}
	return "{" + strings.Join(members, ",") + "}\n"
}

// regularHeader returns the header of a format, if it has one.
func regularHeader(format string) string {
	switch format {
	case "vpc":
		return regularColumns[format] + "\n"
	case "nfdump", "ipfix", "csv":
		return strings.ReplaceAll(regularColumns[format], " ", ",") + "\n"
	}
	return ""
}

// Regular rows are read in the same way as by SQL. For random files with odd values, both ways yield equal
// records, rejects, counts and remarks. By default each format is read with one of the options, some formats
// each day with another one, and with PARSIMON_LONG=1 (make ingest-test) with all. With -short, two
// formats are read here, and others by TestRegularFixtures.
func TestRegularRowsEqualThoseOfSQL(t *testing.T) {
	dir := t.TempDir()
	labels := filepath.Join(dir, "labels.csv")
	text := "cidr,port,service,vnet\n0,,any,red\n1,443,web,\n2,50-60,dns,blue\n3,,three,\n"
	if err := os.WriteFile(labels, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options := []Options{
		{}, {SamplingRate: 10}, {Labels: labels, OffFabric: []string{"10.0.0.0/8"}},
		{Labels: labels, LabelsFirst: true, OffFabric: []string{"any"}},
	}
	for place, format := range slices.Sorted(maps.Keys(regularColumns)) {
		for i, odd := range []float64{0.001, 0, 0.02, 0.01} {
			today := daily.All() || !testing.Short() && daily.Runs(place+8*i, 6)
			if i > 0 && !today || leavesOut(t, place, 4) {
				continue
			}
			s := rng.New(uint64(i), rng.Start)
			log := regularHeader(format)
			for range 300 {
				line := regularTestLine(&s, format, odd)
				log += line
				if s.IntN(100) == 0 {
					log += line + regularHeader(format)
				}
			}
			switch i {
			case 2:
				log = strings.ReplaceAll(log, "\n", "\r\n")
			case 3:
				log = "\ufeff" + log
			}
			if !compareBoth(t, format, log, options[i]) {
				t.Errorf("%s, %g: the file is not regular", format, odd)
			}
		}
	}
}

// The fixtures of all formats, and damaged copies of them, give equal results by both ways. By default some
// of the fixtures are damaged each day.
func TestRegularFixtures(t *testing.T) {
	s := rng.New(7, rng.Start)
	for i, f := range []struct{ format, file string }{
		{"vpc", "vpc_v2.log"}, {"vpc", "vpc_v5.log"}, {"vpc", "vpc_cloudwatch.log"}, {"nfdump", "nfdump.csv"},
		{"nfdump", "nfdump_extended.csv"}, {"nfdump", "nfdump_fast.csv"}, {"ipfix", "ipfix.csv"},
		{"ipfix", "ipfix_biflow.csv"}, {"goflow2", "goflow2.jsonl"}, {"pmacct", "pmacct.json"},
		{"nfdump_json", "nfdump_json.json"}, {"csv", "plain.csv"}, {"jsonl", "plain.jsonl"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", f.file))
		if err != nil {
			t.Fatal(err)
		}
		o := Options{
			Hosts: filepath.Join("testdata", "hosts.csv"), Labels: filepath.Join("testdata", "labels.csv"),
		}
		damaged := string(damage(&s, text))
		if leavesOut(t, i, 4) {
			continue
		}
		compareBoth(t, f.format, string(text), o)
		if daily.All() || !testing.Short() && daily.Runs(i, 6) {
			compareBoth(t, f.format, damaged, o)
		}
	}
}

// A date after 2262 does not fit 64 bits of ns. If it overflowed, it would be another day.
func TestDatesBeyondNanosecondsAreNotRegular(t *testing.T) {
	var p timeParser
	for text, want := range map[string]bool{
		"2026-01-31 09:00:00.5": true, "2026-01-31T09:00:00": true, "2610-08-04 23:49:44": false,
		"1969-12-31 23:59:59": false, "2026-02-30 00:00:00": false, "2026-01-31 24:00:00": false,
	} {
		_, _, ok := p.datetime([]byte(text))
		if ok != want {
			t.Errorf("%s: %v", text, ok)
		}
	}
}

// In all mappings that can be regular, the items of SELECT that are plain columns are found.
func TestPlainColumnsOfMappings(t *testing.T) {
	for name, want := range map[string]string{
		"vpc": "[pkt_srcaddr srcaddr] [interface_id flow_direction] [bytes] []",
		"ipfix": "[sourceipv4address sourceipv6address] [exporteripv4address exporteripv6address] " +
			"[octetdeltacount octettotalcount] [reverseoctetdeltacount reverseoctettotalcount]",
		"nfdump":  "[sa srcaddr] [ra] [ibyt bytes] [obyt]",
		"goflow2": "[src_addr] [sampler_address] [] []",
		"csv":     "[src] [] [size_bytes] []",
	} {
		m, err := FormatMapping(name)
		if err != nil {
			t.Fatal(err)
		}
		plain := m.plainColumns()
		got := fmt.Sprint(plain["src"], plain["observer"], plain["size_bytes"], plain[reverseBytes])
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Rows that have only the columns that a format needs are regular. If they were not, the file would be read
// by SQL.
func TestRowsWithFewColumnsAreRegular(t *testing.T) {
	for format, c := range map[string][2]string{
		"csv":    {"src,dst,size_bytes,start_ns\n", "0,1,900,1769850000000000000\n"},
		"vpc":    {"srcaddr dstaddr bytes start end\n", "0 1 900 1769850000 1769850001\n"},
		"nfdump": {"firstSeen,duration,srcAddr,dstAddr,bytes\n", "2026-01-31 09:00:00.250,1.5,0,1,900\n"},
		"ipfix": {
			"sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStartSeconds\n", "0,1,900,1769850000\n",
		},
		"goflow2": {"", `{"src_addr":"0","dst_addr":"1","bytes":900,"TimeFlowStart":1769850000}` + "\n"},
		"pmacct":  {"", `{"ip_src":"0","ip_dst":"1","bytes":9,"stamp_inserted":"1769850000"}` + "\n"},
	} {
		m, file := writeLog(t, format, c[0]+strings.Repeat(c[1], 5000))
		o := Options{TmpDir: t.TempDir(), Open: parquet.OpenFile, MemoryBytes: 128 << 20}
		in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), o)
		if err != nil {
			t.Fatal(err)
		}
		var records, rejects rowsSink
		stats, regular, err := in.RegularFile(t.Context(), m, file, 1, FileTables{&records, &rejects})
		if err != nil || !regular || stats.Records != 5000 || len(records.rows) != 5000 {
			t.Errorf("%s: regular %v, %d records, %v", format, regular, stats.Records, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An error of the records that all files share is a CollectError. Otherwise an ingest that skips damaged
// files would skip this file, and lose records of others.
func TestErrorOfCollectedRecords(t *testing.T) {
	m, file := writeLog(t, "vpc", "version account-id interface-id srcaddr dstaddr srcport dstport protocol "+
		"packets bytes start end action log-status\n"+
		strings.Repeat("2 1 eni-1 0 1 1 2 6 1 900 1769850000 1769850001 ACCEPT OK\n", 5000))
	o := Options{TmpDir: t.TempDir(), Open: parquet.OpenFile, MemoryBytes: 128 << 20}
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.collector = connections.NewCollector(connections.Settings{TmpDir: o.TmpDir + "/missing"})
	var records, rejects rowsSink
	_, _, err = in.RegularFile(t.Context(), m, file, 1, FileTables{&records, &rejects})
	if !errors.As(err, new(*CollectError)) {
		t.Error(err)
	}
}

// Lines are divided at separators only, and a quote, a control character or a byte that is not ASCII at any
// place makes a line irregular. Without this, such a line would have other fields than by SQL.
func TestSplitRegularLooksAtEachByte(t *testing.T) {
	plain := []byte("10.0.0.1,10.0.0.2,443,6,7,1234567,x")
	for _, separator := range []byte{',', ';', '\t', ' '} {
		for at := range plain {
			for c := range 256 {
				line := bytes.ReplaceAll(plain, []byte(","), []byte{separator})
				line[at] = byte(c)
				var want []string
				odd := func(r byte) bool { return r != separator && (r < ' ' || r > '~' || r == '"') }
				if !slices.ContainsFunc(line, odd) {
					want = strings.Split(string(line), string(separator))
				}
				if separator == ' ' && slices.Contains(want[:max(0, len(want)-1)], "") {
					want = nil
				}
				var got []string
				for _, field := range splitRegular(line, separator, nil) {
					got = append(got, string(field))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%q at %q: %q, want %q", line, separator, got, want)
				}
			}
		}
	}
}
