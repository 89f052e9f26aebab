package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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
	"parsimon/schema/names"
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
// each day with another one, and with PARSIMON_LONG=1 (make ingest-test) with all. With -short, one
// format is read here, and another by TestRegularFixtures.
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
			if i > 0 && !today || leavesOut(t, place, format == "nfdump") {
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
		if leavesOut(t, i, f.format == "goflow2") {
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
		"2026-01-31 09:00:00.9": true, "2026-01-31T09:00:00": true, "2610-08-04 23:49:44": false,
		"1969-12-31 23:59:59": false, "2026-02-30 00:00:00": false, "2026-01-31 24:00:00": false,
	} {
		_, _, ok := p.datetime([]byte(text))
		if ok != want {
			t.Errorf("%s: %v", text, ok)
		}
	}
}

// Rejects of several batches are read back, each once and in the order of rows.
func TestRejectsOfSeveralBatches(t *testing.T) {
	rows := regularRows{dir: t.TempDir(), m: &Mapping{}}
	const n = 2*batchRows + 1
	for row := range int64(n) {
		if err := rows.reject([]byte("a,b"), row, "the reason"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := rows.rejects.open()
	if err != nil {
		t.Fatal(err)
	}
	for row := range int64(n) {
		line, err := r.next(t.Context())
		if err != nil || line == nil || *line != (textLine{row, "a,b", 0, "the reason"}) {
			t.Fatal(row, line, err)
		}
		r.skip()
	}
	line, err := r.next(t.Context())
	if line != nil || err != nil {
		t.Error(line, err)
	}
	if err := errors.Join(r.close(), rows.rejects.close()); err != nil {
		t.Error(err)
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
		o := Options{TmpDir: t.TempDir(), Files: Files{Open: parquet.OpenFile}, MemoryBytes: 128 << 20}
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
	o := Options{TmpDir: t.TempDir(), Files: Files{Open: parquet.OpenFile}, MemoryBytes: 128 << 20}
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

// regularOf returns a reader of the regular rows of a format, which needs no database, and the rows that it
// writes.
func regularOf(t *testing.T, format string, o Options) (r *regularRows, records, rejects *rowsSink) {
	t.Helper()
	m, err := FormatMapping(format)
	if err != nil {
		t.Fatal(err)
	}
	n := topologytest.SmallNetwork(t)
	o.TmpDir = t.TempDir()
	o.MemoryBytes = 1 << 20
	in := &Ingester{o: o, net: n, book: newAddressBook(n, nil)}
	in.collector = connections.NewCollector(connections.Settings{Network: n, TmpDir: o.TmpDir})
	records = &rowsSink{}
	rejects = &rowsSink{}
	r = in.newRegularRows(m, 7, FileTables{records, rejects})
	r.out.collected = nil
	r.dir = o.TmpDir
	r.out.start()
	t.Cleanup(func() {
		err := errors.Join(r.out.finish(), r.rejects.close(), in.collector.Close())
		if err != nil {
			t.Error(err)
		}
	})
	return r, records, rejects
}

// read reads the fields of a row. The header is empty for JSON.
func (r *regularRows) read(t *testing.T, header, row string) bool {
	t.Helper()
	if r.objects != nil {
		names := names.Of(r.m.columns, func(c mappingColumn) string { return c.name })
		fields, ok := r.objects.Read([]byte(row))
		r.fields = fields
		return ok && r.setLayout(names, 0) == nil
	}
	r.separator = ','
	if r.m.reads == "words" {
		r.separator = ' '
	}
	columns := strings.Split(header, string(r.separator))
	r.fields = splitRegular([]byte(row), r.separator, nil)
	return r.setLayout(columns, 0) == nil && len(r.fields) == len(columns)
}

// The times of each format are in the units of its documentation. The resolution of a start is that of its
// unit, or of the digits of its text. A missing end follows from the duration or from the reception.
func TestTimesOfRegularRows(t *testing.T) {
	const ipfix = "sourceIPv4Address,destinationIPv4Address,octetDeltaCount,flowStart"
	flow := func(rest string) string { return `{"src_addr":"0","dst_addr":"1","bytes":900,` + rest + "}" }
	dumped := func(rest string) string {
		return `{"src4_addr":"0","dst4_addr":"1","in_bytes":900,"in_packets":3,` + rest + "}"
	}
	counted := func(rest string) string { return `{"ip_src":"0","ip_dst":"1","bytes":900,` + rest + "}" }
	for i, c := range []struct{ format, header, row, want string }{ // want: start + resolution to end, reception
		{"vpc", "srcaddr dstaddr bytes start end", "0 1 900 1769850000 1769850060",
			"0.000000000+1000000000 to 60.000000000"},
		{"csv", "src,dst,size_bytes,start_ns,end_ns", "0,1,9,1769850000000000007,1769850001000000009",
			"0.000000007+0 to 1.000000009"},
		{"csv", "src,dst,size_bytes,start_ns,end_ns", "0,1,9,1769850000000000007,", "0.000000007+0 to 0.000000007"},
		{"jsonl", "",
			`{"flow_id":5,"src":0,"dst":1,"size_bytes":9,"start_ns":1769850000000000007,"end_ns":1769850001000000009}`,
			"0.000000007+0 to 1.000000009"},

		{"ipfix", ipfix + "Nanoseconds,flowEndNanoseconds", "0,1,9,1769850000123456789,1769850001000000002",
			"0.123456789+0 to 1.000000002"},
		{"ipfix", ipfix + "Microseconds,flowEndMicroseconds", "0,1,9,1769850000123456,1769850001000002",
			"0.123456000+1000 to 1.000002000"},
		{"ipfix", ipfix + "Milliseconds,flowEndMilliseconds", "0,1,9,1769850000123,1769850001002",
			"0.123000000+1000000 to 1.002000000"},
		{"ipfix", ipfix + "Seconds,flowEndSeconds", "0,1,9,1769850000,1769850001",
			"0.000000000+1000000000 to 1.000000000"},
		{"ipfix", ipfix + "Milliseconds,flowDurationMilliseconds", "0,1,9,1769850000123,1500",
			"0.123000000+1000000 to 1.623000000"},
		{"ipfix", ipfix + "Milliseconds,flowDurationMilliseconds", "0,1,9,1769850000123,86400000",
			"0.123000000+1000000 to 86400.123000000"},
		{"ipfix", ipfix + "Milliseconds,flowDurationMilliseconds", "0,1,9,1769850000123,86400001", ""},
		{"ipfix", ipfix + "Milliseconds,flowDurationMilliseconds", "0,1,9,1769850000123,",
			"0.123000000+1000000 to 0.123000000"},
		{"ipfix", ipfix + "Seconds,flowStartMilliseconds", "0,1,9,1769850005,1769850000123",
			"0.123000000+1000000 to 0.123000000"},
		{"ipfix", ipfix + "Seconds", "0,1,9,4611686018", "2841836018.000000000+1000000000 to 2841836018.000000000"},
		{"ipfix", ipfix + "Seconds", "0,1,9,4611686019", ""},

		{"nfdump", "ts,te,sa,da,ibyt,tr", "2026-01-31 09:00:00.25,2026-01-31 09:00:01.5,0,1,9,2026-01-31 09:00:02",
			"0.250000000+10000000 to 1.500000000, 2.000000000"},
		{"nfdump", "firstSeen,lastSeen,sa,da,ibyt", "1769850000250,1769850001500,0,1,9",
			"0.250000000+1000000 to 1.500000000"},
		{"nfdump", "firstSeen,lastSeen,sa,da,ibyt", "2026-01-31 09:00:00,2026-01-31 09:00:01.5,0,1,9",
			"0.000000000+1000000000 to 1.500000000"},
		{"nfdump", "ts,td,sa,da,ibyt", "2026-01-31 09:00:00,1.5,0,1,9", "0.000000000+1000000000 to 1.500000000"},
		{"nfdump", "ts,duration,sa,da,ibyt", "2026-01-31 09:00:00,2,0,1,9",
			"0.000000000+1000000000 to 2.000000000"},
		{"nfdump", "firstSeen,duration,sa,da,ibyt", "1769850000250,2,0,1,9", ""},
		{"nfdump", "ts,te,sa,da,ibyt", "1769850000,2026-01-31 09:00:01,0,1,9", ""},
		{"nfdump", "ts,te,sa,da,ibyt", ",2026-01-31 09:00:01,0,1,9", ""},
		{"nfdump", "ts,firstSeen,sa,da,ibyt", "2026-01-31 09:00:00,2026-01-31 09:00:00,0,1,9", ""},
		{"nfdump_json", "",
			dumped(`"first":"2026-01-31T09:00:00.250","last":"2026-01-31T09:00:01","received":"2026-01-31T09:00:03"`),
			"0.250000000+1000000 to 1.000000000, 3.000000000"},

		{"goflow2", "", flow(`"time_flow_start_ns":1769850000000000000,"time_flow_end_ns":1769850001000000002`),
			"0.000000000+1000000000 to 1.000000002"},
		{"goflow2", "", flow(`"time_flow_start_ns":1769850000000000010,"time_received_ns":1769850002000000003`),
			"0.000000010+1000000 to 2.000000003, 2.000000003"},
		{"goflow2", "", flow(`"TimeFlowStart":1769850000,"TimeFlowEnd":1769850001,"TimeReceived":1769850003`),
			"0.000000000+1000000 to 1.000000000, 3.000000000"},
		{"goflow2", "", flow(`"TimeFlowStart":1769850000,"TimeReceived":1769850003`),
			"0.000000000+1000000 to 3.000000000, 3.000000000"},
		{"goflow2", "",
			flow(`"type":"SFLOW_5","time_flow_start_ns":1769850000000000000,"time_received_ns":1769850000000000000`),
			"0.000000000+0 to 0.000000000, 0.000000000"},
		{"goflow2", "", flow(`"type":"SFLOW_5","time_flow_start_ns":1769850000000000000,"TimeReceived":1769850000`),
			"0.000000000+1000000000 to 0.000000000, 0.000000000"},

		{"pmacct", "",
			counted(`"timestamp_start":"1769850000","timestamp_end":"1769850001","stamp_updated":"1769850003"`),
			"0.000000000+1000000000 to 1.000000000, 3.000000000"},
		{"pmacct", "",
			counted(`"timestamp_start":"2026-01-31 09:00:00.123456","timestamp_end":"2026-01-31 09:00:01"`),
			"0.123456000+1000 to 1.000000000"},
		{"pmacct", "", counted(`"stamp_inserted":"1769850000","stamp_updated":"2026-01-31 09:00:03"`),
			"0.000000000+1000000000 to 3.000000000, 3.000000000"},
	} {
		r, _, _ := regularOf(t, c.format, Options{})
		var v regularRecord
		got := ""
		if r.read(t, c.header, c.row) && r.parse(&v) {
			after := func(at instant) string {
				ns := at.ns - 1769850000e9
				return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9)
			}
			got = fmt.Sprintf("%s+%d to %s", after(v.start), v.start.resolutionNS, after(v.end))
			if v.received.column != "" {
				got += ", " + after(v.received)
			}
		}
		if got != c.want {
			t.Errorf("%d, %s, %s: %s, want %s", i, c.format, c.row, got, c.want)
		}
	}
}

// Sizes, rates, classes, ends and observers of regular rows follow the documentation of their format. Values
// that are out of range make a row irregular, so that the SQL gives the reason.
func TestValuesOfRegularRows(t *testing.T) {
	sampled := Options{SamplingRate: 10}
	for i, c := range []struct {
		format  string
		o       Options
		columns string // and their values, as column=value
		want    string
	}{
		{"vpc", sampled,
			"srcaddr=0 dstaddr=1 bytes=900 packets=3 start=1769850000 end=1769850001 interface_id=eni vpc_id=v",
			"900 bytes, 3 packets, rate 1 stated, observer eni, network v"},
		{"nfdump", Options{},
			"firstSeen=1769850000000 sa=0 da=1 ibyt=900 ipkt=3 stos=184 ra=r in=4 sp=1 dp=65535 pr=6",
			"900 bytes, 3 packets, rate 1, dscp 46, protocol 6, ports 1 65535, observer r 4"},
		{"nfdump", sampled, "firstSeen=1769850000000 sa=0 da=1 ibyt=900 stos=255 ra=r in=4",
			"900 bytes, -1 packets, rate 10, dscp 63, observer r"},
		{"nfdump", sampled, "firstSeen=1769850000000 sa=0 da=1 ibyt=900 stos=3 in=4",
			"900 bytes, -1 packets, rate 10, dscp 0, observer 4"},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=900 stos=256", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=0 ra=r",
			"0 bytes, -1 packets, rate 1, observer r"},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt= ra=r", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 ra=_r", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 tr=x", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 sp=65536", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 dp=65536", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 dp=x", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa= da=1 ibyt=1", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da= ibyt=1", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 ipkt=1125899906842624",
			"1 bytes, 1125899906842624 packets, rate 1"},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 ipkt=1125899906842625", ""},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 pr=255",
			"1 bytes, -1 packets, rate 1, protocol 255"},
		{"nfdump", Options{}, "firstSeen=1769850000000 sa=0 da=1 ibyt=1 pr=256", ""},
		{"ipfix", sampled,
			"flowStartMilliseconds=1769850000000 sourceIPv4Address=0 destinationIPv4Address=1 octetDeltaCount=9 " +
				"samplingInterval=0 ipClassOfService=8", "9 bytes, -1 packets, rate 10, dscp 2"},
		{"ipfix", sampled,
			"flowStartMilliseconds=1769850000000 sourceIPv4Address=0 destinationIPv4Address=1 octetDeltaCount=9 " +
				"samplingInterval=1 ipDiffServCodePoint=63 ipClassOfService=8",
			"9 bytes, -1 packets, rate 1 stated, dscp 63"},
		{"ipfix", Options{},
			"flowStartMilliseconds=1769850000000 sourceIPv4Address=0 destinationIPv4Address=1 octetDeltaCount=9 " +
				"samplingInterval=5 ingressInterface=2 exporterIPv4Address=e",
			"9 bytes, -1 packets, rate 5 stated, observer e"},
		{"ipfix", Options{},
			"flowStartMilliseconds=1769850000000 sourceIPv4Address=0 destinationIPv4Address=1 octetDeltaCount=9 " +
				"ipDiffServCodePoint=64", ""},
		{"goflow2", Options{},
			"type=SFLOW_5 src_addr=0 dst_addr=1 bytes=918 packets=7 TimeFlowStart=1769850000 " +
				"sampler_address=s in_if=3",
			"900 bytes, 1 packets, rate 1 stated sampled, observer s"},
		{"goflow2", sampled,
			"type=SFLOW_5 src_addr=0 dst_addr=1 bytes=918 TimeFlowStart=1769850000 sampling_rate=100 in_if=3",
			"900 bytes, 1 packets, rate 100 stated sampled, observer 3"},
		{"goflow2", sampled,
			"type=IPFIX src_addr=0 dst_addr=1 bytes=918 packets=7 TimeFlowStart=1769850000 " +
				"sampling_rate=1 sampler_address=s in_if=3",
			"918 bytes, 7 packets, rate 1 stated, observer s 3"},
		{"goflow2", sampled,
			"type=IPFIX src_addr=0 dst_addr=1 bytes=918 packets=7 TimeFlowStart=1769850000 " +
				"sampling_rate=2 sampler_address=s in_if=3",
			"918 bytes, 7 packets, rate 2 stated sampled, observer s"},
		{"goflow2", sampled,
			"type=IPFIX src_addr=0 dst_addr=1 bytes=918 packets=7 TimeFlowStart=1769850000 sampling_rate=0",
			"918 bytes, 7 packets, rate 10"},
		{"nfdump_json", Options{},
			"type=FLOW src4_addr=0 dst4_addr=1 in_bytes=9 in_packets=3 first=2026-01-31T09:00:00",
			"9 bytes, 3 packets, rate 1"},
		{"nfdump_json", Options{}, "src4_addr=0 dst4_addr=1 in_bytes=9 in_packets=3 first=2026-01-31T09:00:00",
			"9 bytes, 3 packets, rate 1"},
		{"nfdump_json", Options{},
			"type=EVENT src4_addr=0 dst4_addr=1 in_bytes=9 in_packets=3 first=2026-01-31T09:00:00", ""},
		{"nfdump_json", Options{},
			"type=FLOW src4_addr=0 dst4_addr=1 in_bytes=9 in_packets=9 first=2026-01-31T09:00:00", ""},
		{"csv", Options{},
			"src=0 dst=1 size_bytes=9 start_ns=5 flow_id=0 dscp=63 protocol=udp service=_a_b_ vnet=c",
			"9 bytes, -1 packets, rate 1, dscp 63, protocol 17, flow 0, service a b, network c"},
		{"csv", Options{}, "src=0 dst=1 size_bytes=9 start_ns=5 flow_id=", ""},
		{"csv", Options{}, "src=0 dst=1 size_bytes=9 start_ns=5 dscp=64", ""},
		{"csv", Options{}, "src=0 dst=1 size_bytes=9 start_ns=5 protocol=Udp", ""},
	} {
		var names, values, members []string
		for _, column := range strings.Fields(c.columns) {
			name, value, _ := strings.Cut(column, "=")
			value = strings.ReplaceAll(value, "_", " ")
			if name == "type" {
				value = strings.ReplaceAll(value, " ", "_")
			}
			names = append(names, name)
			values = append(values, value)
			members = append(members, fmt.Sprintf("%q:%q", name, value))
		}
		r, _, _ := regularOf(t, c.format, c.o)
		separator := ","
		row := strings.Join(values, ",")
		switch r.m.reads {
		case "words":
			separator = " "
			row = strings.Join(values, " ")
		case "json":
			row = "{" + strings.Join(members, ",") + "}"
		}
		var v regularRecord
		got := ""
		if r.read(t, strings.Join(names, separator), row) && r.isPlain() && r.parse(&v) {
			got = v.describe(string(r.observer))
		}
		if got != c.want {
			t.Errorf("%d, %s, %s: %s, want %s", i, c.format, c.columns, got, c.want)
		}
	}
}

// describe returns the values of a record that are known, except for its times.
func (v *regularRecord) describe(observer string) string {
	text := fmt.Sprintf("%d bytes, %d packets, rate %d", v.bytes, v.packets, v.rate)
	if v.stated {
		text += " stated"
	}
	if v.sampled {
		text += " sampled"
	}
	add := func(name string, number int64) {
		if number >= 0 {
			text += fmt.Sprintf(", %s %d", name, number)
		}
	}
	add("dscp", v.dscp)
	add("protocol", v.protocol)
	if v.srcPort >= 0 || v.dstPort >= 0 {
		text += fmt.Sprintf(", ports %d %d", v.srcPort, v.dstPort)
	}
	add("flow", v.flowID)
	for _, of := range [][2]string{{"observer", observer}, {"service", v.labels.service}, {"network",
		v.labels.vnet}} {
		if of[1] != "" {
			text += ", " + of[0] + " " + of[1]
		}
	}
	return text
}

// Eight digits at a time are parsed as one by one, and other characters are found in any place. Otherwise
// times and sizes would differ from those that DuckDB reads.
func TestEightDigits(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	for range 200_000 {
		text := fmt.Appendf(nil, "%08d", random.IntN(1e8))
		if random.IntN(2) == 0 {
			text[random.IntN(8)] = byte(random.IntN(256))
		}
		want, err := strconv.ParseUint(string(text), 10, 64)
		got, ok := eightDigits(binary.LittleEndian.Uint64(text))
		if ok != (err == nil) || ok && got != want {
			t.Fatalf("%q: %d, %v", text, got, ok)
		}
	}
}

// A plain number has no sign and no leading zero, and fits 63 bits. Other texts are not read here.
func TestPlainNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "9": 9, "10": 10, "65535": 65535, "1000000000000000000": 1e18, "9223372036854775807": math.MaxInt64,
		"": -1, "00": -1, "01": -1, "-1": -1, "+1": -1, "1.0": -1, "1/": -1, "1:": -1, "9223372036854775808": -1,
		"18446744073709551617": -1, "99999999999999999999": -1, "9999999999999999999": -1,
	} {
		got, ok := plainNumber([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for text, want := range map[string]int64{
		"0": 0, "1": 1e9, "1.5": 15e8, "0.000000001": 1, "2.": 2e9, "1.123456789": 1_123_456_789, "1.1": 11e8,
		"1000000000": 1e18, "999999999.999999999": 999_999_999_999_999_999,
		"": -1, ".5": -1, "1000000001": -1, "1.1234567891": -1, "1.5x": -1, "1./": -1, "1.:": -1, "-1": -1,
		"01.5": -1, "1.5.5": -1,
	} {
		got, ok := plainSeconds([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q seconds: %d, %v", text, got, ok)
		}
	}
}

// A date with a time is UTC. Its resolution is that of the last digit, down to a microsecond.
func TestDatesOfRegularRows(t *testing.T) {
	const nine = 1769850000
	var p timeParser // dates of one parser do not depend on each other
	for i, c := range []struct {
		text       string
		sec, ns    int64
		resolution int64 // 0: it is not a plain time
	}{
		{"2026-01-31 09:00:00", nine, 0, 1e9}, {"2026-01-31T09:00:01", nine + 1, 0, 1e9},
		{"2026-01-31 09:00:00.1", nine, 1e8, 1e8}, {"2026-01-31 09:00:00.12", nine, 12e7, 1e7},
		{"2026-01-31 09:00:00.123", nine, 123e6, 1e6}, {"2026-01-31 09:00:00.1234", nine, 1234e5, 1e5},
		{"2026-01-31 09:00:00.12345", nine, 12345e4, 1e4}, {"2026-01-31 09:00:00.123456", nine, 123456e3, 1e3},
		{"2026-01-31 09:00:00.1234567", 0, 0, 0}, {"2026-01-31 09:00:00.", 0, 0, 0},
		{"2026-01-31 09:00:00,1", 0, 0, 0}, {"2026-01-31 09:00:00.1/", 0, 0, 0}, {"2026-01-31 09:00:00.1:", 0, 0,
			0},
		{"2026-02-01 09:00:00", nine + 86400, 0, 1e9}, {"2026-01-31 10:02:03", nine + 3600 + 120 + 3, 0, 1e9},
		{"2026-01-31 23:59:59", nine + 14*3600 + 59*60 + 59, 0, 1e9}, {"2026-01-31 00:00:00", nine - 9*3600, 0,
			1e9},
		{"2026-01-31 24:00:00", 0, 0, 0}, {"2026-01-31 00:60:00", 0, 0, 0}, {"2026-01-31 00:00:60", 0, 0, 0},
		{"2026-01-31 0a:00:00", 0, 0, 0}, {"2026-01-31 00:a0:00", 0, 0, 0}, {"2026-01-31 00:00:0/", 0, 0, 0},
		{"2026-01-31 00:00:0:", 0, 0, 0}, {"2026-01-31 00:00:/0", 0, 0, 0}, {"2026-01-31 :0:00:00", 0, 0, 0},
		{"2026-01-31x09:00:00", 0, 0, 0}, {"2026-01-31 09-00:00", 0, 0, 0}, {"2026-01-31 09:00-00", 0, 0, 0},
		{"2026-01-31 09:00:0", 0, 0, 0}, {"2026-01-31", 0, 0, 0}, {"2026-01-32 09:00:00", 0, 0, 0},
		{"1970-01-01 00:00:00", 0, 0, 1e9}, {"1969-12-31 00:00:00", 0, 0, 0},
		{"2116-02-20 00:00:01", 4_611_600_001, 0, 1e9}, {"2116-02-21 00:00:00", 0, 0, 0},
		{"2026-01-31 09:00:00", nine, 0, 1e9},
	} {
		ns, resolution, ok := p.datetime([]byte(c.text))
		if ok != (c.resolution > 0) || ok && (ns != c.sec*1e9+c.ns || resolution != c.resolution) {
			t.Errorf("%d, %s: %d + %d, %v", i, c.text, ns, resolution, ok)
		}
	}
	dated := timeColumn{name: "ts", dated: true}
	for text, want := range map[string]bool{
		"2026-01-31 09:00:00": true, "1769850000": false, "20260131 09:00:00": false, "2026-01-31": false,
		"": false,
	} {
		at, ok := p.parse(&dated, []byte(text))
		if ok != want || at.column != "ts" || ok && !at.isDate {
			t.Errorf("%q: %+v, %v", text, at, ok)
		}
	}
}

// Protocols have the numbers of IANA's registry of protocols, by names in capital or in small letters.
func TestNumbersOfProtocols(t *testing.T) {
	for number, names := range map[int16]string{
		1: "ICMP", 2: "IGMP", 4: "IPIP", 6: "TCP", 17: "UDP", 33: "DCCP", 41: "IPV6", 46: "RSVP", 47: "GRE",
		50: "ESP",
		51: "AH", 58: "IPV6-ICMP ICMPV6 ICMP6", 88: "EIGRP", 89: "OSPF OSPFIGP", 103: "PIM", 112: "VRRP",
		115: "L2TP",
		132: "SCTP", 136: "UDPLITE UDP-LITE",
	} {
		for _, name := range strings.Fields(names) {
			for _, text := range []string{name, strings.ToLower(name), fmt.Sprint(number)} {
				got, ok := protocolNumber([]byte(text))
				if !ok || got != number {
					t.Errorf("%s: %d, %v, want %d", text, got, ok, number)
				}
			}
		}
	}
	for text, want := range map[string]bool{"0": true, "255": true, "256": false, "65542": false, "Tcp": false,
		"": false, "-": false} {
		_, ok := protocolNumber([]byte(text))
		if ok != want {
			t.Errorf("%q: %v", text, ok)
		}
	}
}

// The items of a SELECT are divided at commas outside of parentheses, and end at its FROM.
func TestItemsOfSelect(t *testing.T) {
	for query, want := range map[string]string{
		"a,b\nFROM c, d":                         "a|b",
		" f(a, g(b, c)), (SELECT d,\nFROM e), h": " f(a, g(b, c))| (SELECT d,\nFROM e)| h",
		"a":                                      "a", "": "", "a\nFROM b\nFROM c": "a",
	} {
		got := strings.Join(selectItems(query), "|")
		if got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

// A header has regular rows if it names the ends, the bytes and one start, and no column that only the SQL
// knows.
func TestHeadersOfRegularRows(t *testing.T) {
	for header, want := range map[string]bool{
		"ts,sa,da,ibyt": true, "firstSeen,sa,da,ibyt": true, "ts,sa,da,ibyt,obyt,opkt": true,
		"ts,sa,da,ibyt,other":     true,
		"ts,firstSeen,sa,da,ibyt": false, "ts,sa,da": false, "ts,sa,ibyt": false, "sa,da,ibyt": false,
		"ts,sa,sa,da,ibyt": false,
	} {
		r, _, _ := regularOf(t, "nfdump", Options{})
		err := r.setLayout(strings.Split(header, ","), 3)
		if (err == nil) != want || err != nil && !errors.Is(err, errIrregular) || (r.layoutN == 3) != want {
			t.Errorf("%s: %v, layout %d", header, err, r.layoutN)
		}
		if want && (r.layout.width != 1+strings.Count(header, ",") || r.layout.at[ofDst] == nil) {
			t.Errorf("%s: %+v", header, r.layout)
		}
	}
	own := *regularFormats["nfdump"]
	own.start = own.start[1:]
	m, err := FormatMapping("nfdump")
	if err != nil {
		t.Fatal(err)
	}
	_, ok := own.layoutOf(m, strings.Split("ts,firstSeen,sa,da,ibyt", ","))
	if ok {
		t.Error("a column of the mapping that the format does not know is ignored")
	}
}
