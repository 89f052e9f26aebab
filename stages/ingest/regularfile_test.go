package ingest

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/stages/topology/topologytest"
)

// nfdumpRow is the header of the rows that rowAt returns.
const nfdumpRow = "firstSeen,lastSeen,sa,da,sp,dp,pr,ipkt,ibyt"

// rowAt returns a row of nfdump that starts some milliseconds after 2026-01-31 09:00:00.
func rowAt(ms int64, rest string) string {
	return fmt.Sprintf("%d,%d,%s", 1769850000000+ms, 1769850000000+ms, rest)
}

// take adds a row with a header, and reports whether it is regular.
func (r *regularRows) take(t *testing.T, header, row string, n int64) bool {
	t.Helper()
	if !r.read(t, header, row) {
		return false
	}
	taken, err := r.add([]byte(row), n)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// A record has the bytes of all packets, also of those that were not sampled, and its samples. Both are
// unknown if they cannot be right. The sums of the file have the records, and not the rejects.
func TestRecordsOfRegularRows(t *testing.T) {
	r, records, _ := regularOf(t, "nfdump", Options{SamplingRate: 10})
	for i, row := range []string{
		rowAt(5, "0,1,1,2,6,3,1500"), rowAt(4, "0,1,1,2,17,,1500"), rowAt(8, "2,3,,,,1,9"), rowAt(9,
			"0,1,1,2,6,1,60"),
		rowAt(6, "0,1,1,2,6,2,1"), rowAt(7, "0,1,1,2,6,1,1000"), rowAt(3, "0,0,1,2,6,1,1000"),
	} {
		if !r.take(t, nfdumpRow, row, int64(i+1)) {
			t.Errorf("%s is not regular", row)
		}
	}
	if err := r.out.finish(); err != nil {
		t.Fatal(err)
	}
	const row = "source=7 row=%d reverse=false flow_id=(null) src=%d dst=%d protocol=%s " +
		"src_port=%s dst_port=%s observer= size_bytes=%d start_ns=%d end_ns=%[8]d " +
		"resolution_ns=1000000 samples=%d packets=%s " +
		"service= vnet= dscp=(null)"
	const at = 1769850000000000000
	want := []string{
		fmt.Sprintf(row, 1, 0, 1, "6", "1", "2", 15000, at+5000000, 3, "30"),
		fmt.Sprintf(row, 2, 0, 1, "17", "1", "2", 15000, at+4000000, 1, "(null)"),
		fmt.Sprintf(row, 3, 2, 3, "(null)", "(null)", "(null)", 90, at+8000000, 1, "10"),
		fmt.Sprintf(row, 5, 0, 1, "6", "1", "2", 10, at+6000000, 2, "(null)"),
		fmt.Sprintf(row, 6, 0, 1, "6", "1", "2", 10000, at+7000000, 1, "10"),
	}
	if !slices.Equal(records.rows, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(records.rows, "\n"), strings.Join(want, "\n"))
	}
	if r.n != 5 || r.single != 1 || r.tcp != 3 || r.stated != 0 || r.bytes != 40100 || r.hasIDs ||
		r.nearNS != at+5000000 || r.firstNS != at+4000000 || r.lastNS != at+8000000 || r.rejects.n != 2 {
		t.Errorf("sums %+v, %d rejects", r.regularSums, r.rejects.n)
	}
	again := r.repeats.count()
	if again.rows != 0 {
		t.Errorf("%g sampled rows repeat others", again.rows)
	}
}

// Rows of a flow log that have the same text repeat another row. Rows that are flows do not.
func TestRepeatedRegularRows(t *testing.T) {
	r, _, _ := regularOf(t, "nfdump", Options{})
	for i, bytes := range []int{100, 200, 100, 300, 100, 300} {
		r.take(t, nfdumpRow, rowAt(1, fmt.Sprintf("0,1,1,2,17,1,%d", bytes)), int64(i+1))
	}
	if err := r.out.finish(); err != nil {
		t.Fatal(err)
	}
	again := r.repeats.count()
	if again != (repetition{rows: 3, bytes: 500}) {
		t.Errorf("%+v; want 3 rows, 500 bytes", again)
	}
	flows, _, _ := regularOf(t, "csv", Options{})
	for i := range 2 {
		if !flows.take(t, "src,dst,size_bytes,start_ns", "0,1,5,5", int64(i+1)) {
			t.Error("a flow is not regular")
		}
	}
	if err := flows.out.finish(); err != nil {
		t.Fatal(err)
	}
	again = flows.repeats.count()
	if again.rows != 0 || flows.n != 2 {
		t.Errorf("%g of %d flows repeat others", again.rows, flows.n)
	}
}

// Lines of 4096 bytes or more, and rows far from the first one, are for the SQL.
func TestRowsThatAreNotRegular(t *testing.T) {
	for _, c := range []struct {
		bytes int
		want  bool
	}{{4095, true}, {4096, false}} {
		r, _, _ := regularOf(t, "csv", Options{})
		const row = "0,1,5,5,"
		if r.take(t, "src,dst,size_bytes,start_ns,service", row+strings.Repeat("x", c.bytes-len(row)),
			1) != c.want {
			t.Errorf("a line of %d bytes: regular %v", c.bytes, !c.want)
		}
	}
	const half = int64(15 * 86400e9 / 2)
	r, _, _ := regularOf(t, "csv", Options{})
	v := &regularRecord{start: instant{ns: 1}, end: instant{ns: math.MaxInt64}}
	if !r.isNear(v) {
		t.Error("the first row is far from itself")
	}
	r.n = 1
	r.nearNS = 2 * half
	for _, c := range []struct {
		start, end int64
		want       bool
	}{{half, 2 * half, false}, {half + 1, 2 * half, true}, {2 * half, 3*half - 1, true}, {2 * half, 3 * half,
		false}} {
		v.start.ns = c.start
		v.end.ns = c.end
		if r.isNear(v) != c.want {
			t.Errorf("from %d to %d: near %v", c.start, c.end, !c.want)
		}
	}
	columns := "src,dst,size_bytes,start_ns,after,delay_ns"
	for row, want := range map[string]bool{"0,1,5,5,,": true, "0,1,5,5,7,": false, "0,1,5,5,,0": false} {
		if r.take(t, columns, row, 2) && !want || !r.read(t, columns, row) || r.isPlain() != want {
			t.Errorf("%s: plain %v", row, !want)
		}
	}
	r, _, _ = regularOf(t, "nfdump", Options{})
	for row, want := range map[string]bool{"1,1": false, "0,0": true, ",": true, "1,0": false, "0,1": false} {
		if !r.read(t, nfdumpRow+",opkt,obyt", rowAt(1, "0,1,1,2,6,1,9,"+row)) || r.isPlain() != want {
			t.Errorf("%s packets and bytes of the reverse direction: plain %v", row, !want)
		}
	}
}

// A file of which few of the first 4096 rows are regular is read by SQL.
func TestShareOfRegularRows(t *testing.T) {
	for _, c := range []struct {
		row, records, rejects int64
		want                  error
	}{
		{4095, 0, 0, nil}, {4096, 0, 0, errIrregular}, {4096, 2000, 47, errIrregular}, {4096, 2000, 48, nil},
		{4097, 2047, 0, errIrregular}, {1 << 40, 2048, 0, nil},
	} {
		r := &regularRows{}
		r.n = c.records
		r.rejects.n = c.rejects
		if err := r.checkShare(c.row); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A line has the layout of its header. The time that CloudWatch puts before a line does not belong to it.
func TestLinesOfRegularRows(t *testing.T) {
	r, records, _ := regularOf(t, "vpc", Options{})
	r.m.names = strings.Fields("srcaddr dstaddr bytes start end")
	p := &lineParser{separator: ' '}
	add := func(line string, want bool) {
		t.Helper()
		taken, err := r.addText(p, []byte(line), 1)
		if taken != want || err != nil {
			t.Errorf("%q: regular %v, %v", line, taken, err)
		}
	}
	add("0 1 100 1769850000 1769850001", true)
	add("2026-01-31T09:00:00.000Z 0 1 100 1769850000 1769850001", true)
	add("2026-01-31T09:00:00.000Z", false)
	add("2026-01-31T09:00:00.000Z 0 1 1769850000 1769850001", false)
	add("x 0 1 200 1769850000 1769850001", false)
	add("0 1 1769850000 1769850001", false)
	p.layouts = [][]string{r.m.names, {"bytes", "start", "end", "dstaddr", "srcaddr"}}
	p.layout = 1
	add("300 1769850000 1769850001 2 3", true)
	p.layout = 0
	add("0 1 100 1769850000 1769850001", true)
	if err := r.out.finish(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range records.rows {
		var bytes, src, dst int
		at := strings.Index(row, "size_bytes=")
		if _, err := fmt.Sscanf(row[at:], "size_bytes=%d", &bytes); err != nil {
			t.Fatal(err)
		}
		at = strings.Index(row, "src=")
		if _, err := fmt.Sscanf(row[at:], "src=%d dst=%d", &src, &dst); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(src, dst, bytes))
	}
	want := []string{"0 1 100", "0 1 100", "3 2 300", "0 1 100"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	again := r.repeats.count()
	if again.rows != 2 {
		t.Errorf("%g rows repeat others", again.rows)
	}
	for i, line := range []string{`{"ip_src":"0","ip_dst":"1","bytes":9,"timestamp_start":"1769850000"}`,
		`{"ip_src":"0","ip_dst":1.5}`, `[]`} {
		objects, _, _ := regularOf(t, "pmacct", Options{})
		taken, err := objects.addObject([]byte(line), 1)
		if taken != (i == 0) || err != nil || objects.layoutN != 0 {
			t.Errorf("%s: regular %v, layout %d, %v", line, taken, objects.layoutN, err)
		}
	}
}

// A start counts unless it is before the year 2000, or over a minute after its reception.
func TestStartsThatAreTimes(t *testing.T) {
	const year2000 = int64(946_684_800e9)
	const minute = int64(60e9)
	for _, c := range []struct {
		start, end, received int64 // received -1: unknown
		want                 bool
	}{
		{year2000, year2000, -1, true}, {year2000 - 1, year2000, -1, false}, {year2000, year2000 - 1, -1, false},
		{year2000, year2000, year2000, true}, {year2000, year2000, year2000 - 1, false},
		{year2000 + minute, year2000 + minute, year2000, true}, {year2000 + minute + 1, year2000 + minute + 1,
			year2000, false},
	} {
		v := &regularRecord{start: instant{ns: c.start}, end: instant{ns: c.end}}
		if c.received >= 0 {
			v.received = instant{ns: c.received, column: "tr"}
		}
		if v.hasTime() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// The labels of the table apply where the row has none, or first.
func TestLabelsOfRegularRows(t *testing.T) {
	for i, c := range []struct {
		first bool
		own   [2]string
		want  [2]string
	}{
		{false, [2]string{"", ""}, [2]string{"web", "red"}}, {false, [2]string{"own", ""}, [2]string{"own", "red"}},
		{false, [2]string{"", "own"}, [2]string{"web", "own"}}, {true, [2]string{"own", "own"}, [2]string{"web",
			"red"}},
	} {
		r, _, _ := regularOf(t, "csv", Options{LabelsFirst: c.first})
		if err := r.book.addLabel("1", "80", "web", "red"); err != nil {
			t.Fatal(err)
		}
		v := &regularRecord{}
		v.src = r.address([]byte("0"))
		v.dst = r.address([]byte("1"))
		v.dstPort = 80
		v.labels.service = c.own[0]
		v.labels.vnet = c.own[1]
		r.label(v)
		if [2]string{v.labels.service, v.labels.vnet} != c.want {
			t.Errorf("%d: %+v, want %q", i, v.labels, c.want)
		}
		v.dstPort = 81
		v.labels.service = c.own[0]
		r.label(v)
		if v.labels.service != c.own[0] {
			t.Errorf("%d: a port without a label has service %q", i, v.labels.service)
		}
	}
}

// The times of rows are summed up: rows by day, the first and the last reception, and the quarters of an hour
// between an end and its reception.
func TestTimesOfManyRows(t *testing.T) {
	r, _, _ := regularOf(t, "nfdump", Options{})
	const day = int64(86400e9)
	const quarter = int64(900e9)
	note := func(start, end, received int64) {
		t.Helper()
		v := &regularRecord{start: instant{ns: start, column: "ts"}, end: instant{ns: end, column: "te"}}
		if received >= 0 {
			v.received = instant{ns: received, column: "tr"}
		}
		if err := r.regularTimes.note(v); err != nil {
			t.Fatal(err)
		}
	}
	note(3*day, 3*day+5, -1)
	note(4*day-1, 4*day+7, -1)
	note(4*day, 4*day+1, -1)
	note(3*day, 3*day+1, 3*day+1+quarter)
	note(4*day, 4*day, 4*day+quarter/2-1)
	note(4*day, 4*day, 4*day+quarter/2+1)
	note(4*day+3*quarter, 4*day+3*quarter, 4*day)
	r.endDay()
	r.endDay()
	wantDays := map[int64]int64{3: 3, 4: 4}
	if fmt.Sprint(r.days) != fmt.Sprint(wantDays) {
		t.Errorf("days %v, want %v", r.days, wantDays)
	}
	want := map[int64]int64{-1: 2, 0: 1, 3: 1}
	if fmt.Sprint(r.quarters) != fmt.Sprint(want) {
		t.Errorf("quarters %v, want %v", r.quarters, want)
	}
	if r.timed != 7 || r.firstSeenNS != 3*day+5 || r.lastSeenNS != 4*day+quarter/2+1 {
		t.Errorf("%d rows, seen from %d to %d", r.timed, r.firstSeenNS, r.lastSeenNS)
	}
	most := slices.Max(r.starts[:])
	if most != 3 { // of 4*day, unless another start has the same hash
		t.Errorf("%d rows have one start, want 3", most)
	}
	for i := range int64(1<<16 - 3) {
		r.quarters[100+i] = 1
	}
	note(day, day, day)
	v := &regularRecord{end: instant{ns: 0}, received: instant{ns: 7 * quarter, column: "tr"}}
	if err := r.regularTimes.note(v); !errors.Is(err, errIrregular) {
		t.Errorf("%d quarters: %v", len(r.quarters), err)
	}
}

// Half of the rows, or fewer than 20, may have one start by chance. It is in doubt if more do over more than
// an hour.
func TestStartsThatMayBeStuck(t *testing.T) {
	const hour = int64(3600e9)
	for _, c := range []struct {
		starts, timed         int64 // regular rows
		rows, alike           int64 // others
		first, last           int64
		otherFirst, otherLast int64
		want                  bool
	}{
		{20, 39, 0, 0, 5, 6 + hour, math.MaxInt64, 0, true}, {19, 37, 0, 0, 5, 6 + hour, math.MaxInt64, 0, false},
		{20, 40, 0, 0, 5, 6 + hour, math.MaxInt64, 0, false}, {20, 39, 0, 0, 5, 5 + hour, math.MaxInt64, 0, false},
		{19, 37, 1, 1, 5, 6, 5, 6 + hour, true}, {19, 37, 3, 1, 5, 6, 5, 6 + hour, false},
		{0, 0, 20, 20, math.MaxInt64, 0, 5, 6 + hour, true}, {20, 20, 0, 0, 8, 6 + hour, 5, 0, true},
	} {
		r := &regularRows{}
		r.starts[255] = c.starts
		r.starts[7] = c.starts / 2
		r.timed = c.timed
		r.firstSeenNS = c.first
		r.lastSeenNS = c.last
		if r.mayBeStuck(c.rows, c.alike, c.otherFirst, c.otherLast) != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// Texts of rows are shared, and at most 4096 are kept.
func TestKnownTexts(t *testing.T) {
	var texts knownTexts
	for i := range 4096 {
		text := fmt.Sprintf("text %d", i)
		for range 2 {
			if texts.of([]byte(text)) != text || len(texts.all) != i+1 {
				t.Fatalf("%s: %d texts", text, len(texts.all))
			}
		}
	}
	if texts.of(nil) != "" || texts.of([]byte("text 5")) != "text 5" || len(texts.all) != 4096 {
		t.Errorf("%d texts", len(texts.all))
	}
	if texts.of([]byte("another")) != "another" || len(texts.all) != 1 {
		t.Errorf("%d texts after one more", len(texts.all))
	}
}

// The number of samples is unknown if only the format says that packets are sampled.
func TestSamplesOfRegularRows(t *testing.T) {
	r, records, _ := regularOf(t, "goflow2", Options{})
	row := `{"type":"SFLOW_5","src_addr":"0","dst_addr":"1","bytes":918,"TimeFlowStart":1769850000}`
	if !r.take(t, "", row, 1) {
		t.Fatal("a sampled packet is not regular")
	}
	if err := r.out.finish(); err != nil {
		t.Fatal(err)
	}
	if len(records.rows) != 1 || !strings.Contains(records.rows[0], " size_bytes=900 ") ||
		!strings.Contains(records.rows[0], " samples=(null) packets=1 ") {
		t.Errorf("%q", records.rows)
	}
}

// A row is not regular if only one of its ends may be several nodes, or is too long to be remembered. Without
// this, it would be judged by an end that is unknown.
func TestRowsWithOneUnclearEnd(t *testing.T) {
	const header = "src,dst,size_bytes,start_ns"
	r, _, _ := regularOf(t, "csv", Options{})
	long := strings.Repeat("x", maxAddressBytes+1)
	for _, row := range []string{long + ",1,9,5", "0," + long + ",9,5"} {
		if !r.read(t, header, row) || r.parse(&r.record) {
			t.Errorf("%.10s... is regular", row)
		}
	}
	if !r.read(t, header, "0,1,9,5") || !r.parse(&r.record) {
		t.Error("a row with clear ends is not regular")
	}
}

// Files of regular rows, and tables of text, are read without DuckDB. A row that is not regular opens it.
// Without this, DuckDB takes longer to start than a short file to read.
func TestRegularFilesNeedNoDuckDB(t *testing.T) {
	const header = "src,dst,size_bytes,start_ns\n"
	dir := t.TempDir()
	hosts := filepath.Join(dir, "hosts.csv")
	if err := os.WriteFile(hosts, []byte("address,node\n10.0.0.1,0\n10.0.0.2,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{
		Hosts: hosts, TmpDir: dir, MemoryBytes: 128 << 20, Files: Files{Open: parquet.OpenFile},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for i, more := range []string{"", "10.0.0.2,10.0.0.1,+9,5\n"} {
		m, file := writeLog(t, "csv", header+"10.0.0.1,10.0.0.2,9,5\n"+more)
		out := FileTables{&rowsSink{}, &rowsSink{}}
		_, regular, err := in.RegularFile(t.Context(), m, file, int32(i), out)
		if !regular || err != nil || (in.conn != nil) != (more != "") {
			t.Errorf("rows %q: regular %v, DuckDB %v, %v", more, regular, in.conn, err)
		}
	}
}

// A file without regular rows is left to the SQL, without remarks or counts.
func TestFilesWithoutRegularRows(t *testing.T) {
	const text = "ts,firstSeen,sa,da,ibyt\n2026-01-31 09:00:00,2026-01-31 09:00:00,0,1,9"
	m, file := writeLog(t, "nfdump", text)
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.note("end", "a table", " may be cut")
	stats, regular, err := in.RegularFile(t.Context(), m, file, 1, FileTables{&rowsSink{}, &rowsSink{}})
	if regular || err != nil || stats.Rows != 0 || !slices.Equal(in.Notes(), []string{"a table may be cut"}) {
		t.Errorf("regular %v, %+v, notes %q, %v", regular, stats, in.Notes(), err)
	}
}
