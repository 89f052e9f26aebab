package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/pipeline/lake/parquet"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/topology/topologytest"
)

// The lines of a hosts table that an error proposes match the neighbors of an address and all others of its
// family. A text that is not an address matches itself.
func TestProposedLinesOfHosts(t *testing.T) {
	for address, want := range map[string][2]string{
		"203.0.113.77":     {"203.0.113.0/24", "0.0.0.0/0"},
		" 203.0.113.77 ":   {"203.0.113.0/24", "0.0.0.0/0"},
		"2001:db8:1:2:3::": {"2001:db8:1:2::/64", "::/0"},
		"web-7":            {"web-7", "0.0.0.0/0"},
	} {
		near, all := hostsRules(address)
		if near != want[0] || all != want[1] {
			t.Errorf("%q: %s and %s, want %s and %s", address, near, all, want[0], want[1])
		}
	}
	r := RejectCount{Reason: unknownSrc, Rows: 9}
	if r.Advice() != "" {
		t.Error("advice without addresses")
	}
	for i := range 7 {
		r.Unknown = append(r.Unknown, UnknownAddress{Address: fmt.Sprintf("10.0.%d.9", i), Bytes: int64(70 - i)})
	}
	text := r.Advice()
	if !strings.HasPrefix(text, "most bytes: 10.0.0.9 with 70 bytes, ") || strings.Contains(text, "10.0.5.9") ||
		!strings.Contains(text, "10.0.4.9 with 66 bytes. ") || !strings.Contains(text, "line 10.0.0.0/24,NODE") {
		t.Error(text)
	}
	r.Unknown[0].Switch = "row 3: 10.0.0.9 is a switch"
	if !strings.HasSuffix(r.Advice(), "66 bytes. row 3: 10.0.0.9 is a switch") {
		t.Error(r.Advice())
	}
}

// Reasons of several files are added up, most rows first, and so are the addresses of a reason, of which the
// twenty with the most bytes remain.
func TestReasonsAddUp(t *testing.T) {
	var many []UnknownAddress
	for i := range 25 {
		many = append(many, UnknownAddress{Address: fmt.Sprint(i), Rows: 1, Bytes: int64(100 + i)})
	}
	one := []RejectCount{
		{Reason: "a", Rows: 3, Example: "first"}, {Reason: unknownSrc, Rows: 25, Unknown: many[:13]},
	}
	two := []RejectCount{
		{Reason: "b", Rows: 4}, {Reason: "a", Rows: 2, Example: "second"},
		{Reason: unknownSrc, Rows: 2, Unknown: append(many[13:25:25], UnknownAddress{"7", 2, 1000, ""})},
	}
	got := AddReasons(one, two)
	if len(got) != 3 || got[0].Reason != unknownSrc || got[0].Rows != 27 || got[1].Reason != "a" ||
		got[1].Rows != 5 || got[1].Example != "first" || got[2].Reason != "b" || got[2].Rows != 4 {
		t.Fatalf("%+v", got)
	}
	u := got[0].Unknown
	if len(u) != 20 || u[0].Address != "7" || u[0].Rows != 3 || u[0].Bytes != 1107 ||
		u[1].Address != "24" || u[19].Address != "5" {
		t.Errorf("%+v", u)
	}
}

// An address of many keeps its place among those with the most bytes, however many are added after it.
func TestMostUnknownAddresses(t *testing.T) {
	var m unknownAddresses
	m.add(UnknownAddress{Address: "largest", Bytes: 1 << 40})
	for i := range 50*maxUnknown + 5 {
		m.add(UnknownAddress{Address: fmt.Sprint(i), Bytes: int64(i)})
	}
	if len(m) > 50*maxUnknown {
		t.Errorf("%d addresses are kept", len(m))
	}
	m.cut()
	if len(m) != 20 || m[0].Address != "largest" || m[1].Address != "1004" || m[19].Bytes != 986 {
		t.Errorf("%+v", m)
	}
}

// Records of TCP with data look sampled if most have one packet, unless a rate is given. A given rate has no
// effect on records that state one.
func TestNotesAboutSampling(t *testing.T) {
	for i, c := range []struct {
		rate                int64
		single, tcp, stated int64
		want                string
	}{
		{0, 2, 3, 0, "log: 2 of 3 records of TCP with data have one packet, as if packets were sampled"}, {0, 2, 4,
			0, ""},
		{0, 1, 1, 0, "log: 1 of 1 records of TCP"}, {0, 0, 0, 0, ""}, {0, 0, 0, 5, ""}, {7, 2, 3, 0, ""},
		{7, 0, 0, 1, "log: --sampling-rate has no effect on 1 of 9 records"}, {1, 0, 0, 2,
			"no effect on 2 of 9 records"},
	} {
		in := &Ingester{o: Options{SamplingRate: c.rate}}
		r := &regularRows{}
		r.n = 9
		r.single = c.single
		r.tcp = c.tcp
		r.stated = c.stated
		err := in.noteSampling(t.Context(), fileWork{file: "log", regular: r})
		got := strings.Join(in.Notes(), "; ")
		if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d: %q, %v, want %q", i, got, err, c.want)
		}
	}
}

// A clock that differs by half an hour or more from that of the receiver in most records is noted, with the
// hours.
func TestNotesAboutClocks(t *testing.T) {
	for i, c := range []struct {
		quarters, alike, timed int64
		want                   string
	}{
		{2, 6, 11, "log: 6 of 11 records end 0.5 hours after their reception"}, {2, 6, 12, ""}, {1, 9, 9, ""}, {-1,
			9, 9, ""},
		{-2, 9, 9, "log: 9 of 9 records end 0.5 hours before their reception"}, {-22, 9, 9, "end 5.5 hours before"},
		{0, 9, 9, ""},
	} {
		in := &Ingester{}
		in.noteShift("log", c.quarters, c.alike, c.timed)
		got := strings.Join(in.Notes(), "; ")
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// A file whose rows are all regular has the remarks that the SQL would add: the clock by the most frequent
// distance, and rows that repeat others if they are one in a thousand, by their number or their bytes.
func TestRemarksOfRegularFiles(t *testing.T) {
	for i, c := range []struct {
		all, again     int
		bytes, allSize int64 // of a repeated row, and of all
		quarters       map[int64]int64
		want           string
	}{
		{1000, 1, 1, 1e6, nil, "log: 1 of 1000 rows repeat another row of their file, 1 of 1 M bytes"}, {1001, 1, 1,
			1e6, nil, ""},
		{1001, 1, 1000, 1e6, nil, "log: 1 of 1001 rows"}, {1001, 1, 999, 1e6, nil, ""}, {9, 0, 0, 0, nil, ""},
		{9, 0, 0, 9, map[int64]int64{0: 3, 4: 6}, "log: 6 of 9 records end 1 hours after"}, {9, 0, 0, 9,
			map[int64]int64{-4: 4, 0: 5}, ""},
		{9, 0, 0, 9, map[int64]int64{8: 9}, "log: 9 of 9 records end 2 hours after"},
	} {
		r, _, _ := regularOf(t, "nfdump", Options{})
		for n := range c.all {
			hash := uint64(n)
			if n < 2*c.again {
				hash /= 2
			}
			r.repeats.add(hash, c.bytes)
		}
		r.n = int64(c.all)
		r.bytes = float64(c.allSize)
		r.quarters = c.quarters
		r.days = map[int64]int64{20_484: 9}
		r.firstNS = 20_484 * dayNS
		r.lastNS = r.firstNS
		r.hasIDs = true
		var stats FileStats
		err := r.remarkRegular(t.Context(), fileWork{m: r.m, file: "log", regular: r}, &stats)
		got := strings.Join(r.Notes(), "; ")
		if err != nil || (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) || !stats.AnyFlowID ||
			stats.medianDayNS != 20_484*86_400_000_000_000 {
			t.Errorf("%d: %q, %v, %+v; want %q", i, got, err, stats, c.want)
		}
	}
	r, _, _ := regularOf(t, "nfdump", Options{})
	r.starts[3] = 20
	r.timed = 39
	r.firstSeenNS = 5
	r.lastSeenNS = 6 + 3600e9
	err := r.remarkRegular(t.Context(), fileWork{m: r.m, file: "log", regular: r}, &FileStats{})
	if !errors.Is(err, errIrregular) {
		t.Errorf("starts that may be stuck: %v", err)
	}
	err = r.remarkRegular(t.Context(), fileWork{m: &Mapping{}, file: "log", regular: r}, &FileStats{})
	if err != nil {
		t.Errorf("flows with the same start: %v", err)
	}
	r.n = 1
	r.days = map[int64]int64{100: 1}
	r.firstNS = 200 * dayNS
	r.lastNS = r.firstNS
	err = r.remarkRegular(t.Context(), fileWork{m: &Mapping{}, file: "log", regular: r}, &FileStats{})
	if !errors.Is(err, errIrregular) {
		t.Errorf("a start that is out of time: %v", err)
	}
}

// Gaps are reported if they are in the period, as a share of it, with the longest, which is the first.
func TestNotesAboutGaps(t *testing.T) {
	s := MergeStats{Sampling: "sampled", Gaps: []Gap{{20e9, 25e9}, {10e9, 12e9}, {30e9, 31e9}}}
	for i, c := range []struct {
		from, to int64
		want     string
	}{
		{10e9, 31e9, "3 gaps (38% of the time), though at the mean rate some would, the longest from " +
			"20s for 5s"},
		{10e9 + 1, 31e9 - 1, "1 gap (24% of the time)"}, {30e9, 32e9, "1 gap (50% of the time)"}, {26e9, 29e9, ""},
	} {
		got := s.Notes(c.from, c.to)
		if len(got) == 0 || got[0] != "sampled" || (len(got) == 1) != (c.want == "") ||
			c.want != "" && !strings.Contains(got[1], c.want) {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	got := (&MergeStats{}).Notes(0, 1)
	if got != nil {
		t.Errorf("%q", got)
	}
	if describeSampling(connections.Sampled{}) != "" {
		t.Error("a log without samples is described")
	}
	text := describeSampling(connections.Sampled{Flows: 5, Missing: 2, SampleBytes: 1000})
	const want = "a sampled packet stands for 1 k bytes, and most flows smaller than that have none: the 5 " +
		"sampled flows " +
		"have their bytes, too, and stand for at least 7 flows. Slowdowns by size hold from 3 k bytes on"
	if !strings.HasPrefix(strings.ReplaceAll(text, "K", "k"), want) {
		t.Errorf("%s, want %s", text, want)
	}
}

// A file may have one row that needs SQL, and one reject of each kind. None of them is lost. Short tests have
// the file with both.
func TestSingleRowsOfBothKinds(t *testing.T) {
	const head = "firstSeen,sa,da,sp,dp,pr,ipkt,ibyt\n"
	row := func(dst string, bytes string) string {
		return "1769850000000,0," + dst + ",1,2,17,2," + bytes +
			"\n"
	}
	for i, c := range []struct {
		text             string
		records, rejects int64
		reasons          string
	}{
		{row("1", "100") + row("1", "200.0"), 2, 0, ""}, {row("1", "100") + row("1", "x"), 1, 1,
			"1 size_bytes is not an integer"},
		{row("none", "100") + row("1", "x") + row("1", "300"), 1, 2, "1 " + unknownDst +
			", 1 size_bytes is not an integer"},
		{row("none", "100") + row("1", "300"), 1, 1, "1 " + unknownDst},
	} {
		if testing.Short() && i != 2 {
			continue
		}
		m, file := writeLog(t, "nfdump", head+c.text)
		in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir(),
			Files: Files{Open: parquet.OpenFile}})
		if err != nil {
			t.Fatal(err)
		}
		var records, rejects rowsSink
		stats, regular, err := in.RegularFile(t.Context(), m, file, 1, FileTables{&records, &rejects})
		var reasons []string
		for _, r := range stats.Reasons {
			reasons = append(reasons, fmt.Sprint(r.Rows, " ", r.Reason))
			if r.Reason == unknownDst && (len(r.Unknown) != 1 || r.Unknown[0].Bytes != 100) {
				t.Errorf("%d: unknown addresses %+v", i, r.Unknown)
			}
		}
		if err != nil || !regular || stats.Records != c.records || stats.Rejects != c.rejects ||
			len(records.rows) != int(c.records) || len(rejects.rows) != int(c.rejects) || strings.Join(reasons,
			", ") != c.reasons {
			t.Errorf("%d: regular %v, %d records, %d rejects, %q, %v", i, regular, len(records.rows),
				len(rejects.rows), reasons, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The note of a mapping is about files in which its column has a number above 0, in one row or more.
func TestNotesOfMappings(t *testing.T) {
	m, err := parseMapping("mine.sql",
		"-- rows: flows\n-- reads: csv\n-- column: src\n-- column: dst\n-- note: lost lost records\n\n"+
			`SELECT "row", src, dst, 9 AS size_bytes, 5 AS start_ns FROM source`)
	if err != nil {
		t.Fatal(err)
	}
	for lost, want := range map[string][]string{"": nil, "1": {"lost records"}} {
		file := filepath.Join(t.TempDir(), "mine.csv")
		if err := os.WriteFile(file, []byte("src,dst,lost\n0,1,"+lost+"\n0,1,0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		stats, err := readFile(t, topologytest.SmallNetwork(t), file, Options{Mapping: m, TmpDir: t.TempDir()})
		if err != nil || len(stats.Notes) != len(want) || len(want) > 0 && stats.Notes[0] != file+" "+want[0] {
			t.Errorf("%q: notes %q, %v", lost, stats.Notes, err)
		}
	}
}
