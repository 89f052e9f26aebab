package ingest

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"parsimon/stages/topology/topologytest"
)

// Starts are accepted within 15 days of the day of the median row. The range ends where times do not fit 63
// bits.
func TestRangeOfStarts(t *testing.T) {
	const day = int64(86400e9)
	const latest = int64(1) << 62
	for i, c := range []struct {
		days   map[int64]int64
		median int64 // day
		lo, hi int64
	}{
		{nil, 0, 0, latest}, {map[int64]int64{20_000: 1}, 20_000, 19_985 * day, 20_016 * day},
		{map[int64]int64{20_000: 1, 20_001: 1}, 20_000, 19_985 * day, 20_016 * day},
		{map[int64]int64{20_000: 1, 20_001: 2}, 20_001, 19_986 * day, 20_017 * day},
		{map[int64]int64{20_003: 1, 20_002: 1, 20_001: 1}, 20_002, 19_987 * day, 20_018 * day},
		{map[int64]int64{3: 1}, 3, 0, 19 * day}, {map[int64]int64{53_370: 1}, 53_370, 53_355 * day, latest},
	} {
		var stats FileStats
		lo, hi, err := boundsOfDay(c.days, nil, &stats)
		if lo != c.lo || hi != c.hi || stats.medianDayNS != c.median*day || err != nil {
			t.Errorf("%d: from %d to %d around %d, %v", i, lo, hi, stats.medianDayNS, err)
		}
	}
	for i, c := range []struct {
		n, first, last int64
		want           error
	}{
		{1, 19_985 * day, 20_016 * day, nil}, {1, 19_985*day - 1, 20_016 * day, errIrregular},
		{1, 19_985 * day, 20_016*day + 1, errIrregular}, {0, math.MaxInt64, 0, nil}, {0, 0, math.MaxInt64, nil},
	} {
		r := &regularRows{}
		r.n = c.n
		r.firstNS = c.first
		r.lastNS = c.last
		_, _, err := boundsOfDay(map[int64]int64{20_000: 1}, r, &FileStats{})
		if !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
}

// typedRows creates view typed, of rows with the given columns. The others have no values.
func typedRows(t *testing.T, in *Ingester, columns string, rows []string) {
	t.Helper()
	var list []string
	for _, c := range canonical {
		typ := c.typ
		if typ == "protocol" {
			typ = "SMALLINT"
		}
		list = append(list, fmt.Sprintf("NULL::%s AS %q", typ, c.name))
	}
	err := in.exec(t.Context(), "CREATE OR REPLACE TEMP TABLE typed_rows AS SELECT "+strings.Join(list, ", ")+
		", false AS has_id, NULL::VARCHAR AS unreadable, NULL::VARCHAR AS unreadable_port, "+
		"false AS reverse LIMIT 0;"+
		"INSERT INTO typed_rows ("+columns+", has_id, reverse) VALUES ("+strings.Join(rows, ", false, false), (")+
		", false, false); CREATE OR REPLACE TEMP VIEW typed AS FROM typed_rows")
	if err != nil {
		t.Fatal(err)
	}
}

// The limits of view judged are those of the documentation: 2^50 bytes, the headers of a TCP packet without
// data, the year 2000, a minute between clocks, and a day from the start to the reception.
func TestLimitsOfJudgedRows(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir(),
		SamplingRate: 2,
		Hosts:        "testdata/hosts.csv"})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const year2000 = "946684800000000000"
	const at = int64(946684800e9)
	const day = int64(86400e9)
	cases := []struct {
		src                  string
		bytes, packets       string
		start, end, received string
		want                 string
	}{
		{"0", "562949953421312", "NULL", year2000, year2000, "NULL", ""}, // 2^49, sampled 1:2
		{"0", "562949953421313", "NULL", year2000, year2000, "NULL", "size_bytes is beyond 2^50"},
		{"0", "119", "3", year2000, year2000, "NULL", ""}, {"0", "120", "3", year2000, year2000, "NULL", acksAlone},
		{"0", "180", "3", year2000, year2000, "NULL", acksAlone}, {"0", "181", "3", year2000, year2000, "NULL", ""},
		{"2001:db8::1", "240", "3", year2000, year2000, "NULL", acksAlone}, {"2001:db8::1", "241", "3", year2000,
			year2000, "NULL", ""},
		{"0", "9", "NULL", "946684799999999999", year2000, "NULL", noStart},
		{"0", "9", "NULL", year2000, year2000, year2000, ""},
		{"0", "9", "NULL", fmt.Sprint(at + 60e9), fmt.Sprint(at + 60e9), year2000, ""},
		{"0", "9", "NULL", fmt.Sprint(at + 60e9 + 1), fmt.Sprint(at + 60e9 + 1), year2000, "=" + year2000},
		{"0", "9", "NULL", fmt.Sprint(at + 2*day), fmt.Sprint(at + 3*day), fmt.Sprint(at + day), "=" + year2000},
		{"0", "9", "NULL", fmt.Sprint(at + 2*day), fmt.Sprint(at + 3*day + 1), fmt.Sprint(at + day), fmt.Sprint("=",
			at+day)},
		{"none", "9", "NULL", year2000, year2000, "NULL", unknownSrc}, {"3", "9", "NULL", year2000, year2000,
			"NULL", sameHost},
		{"0", "0", "NULL", year2000, year2000, "NULL", noBytes},
	}
	var rows []string
	for i, c := range cases {
		rows = append(rows, fmt.Sprintf("%d, '%s', '3', 6, %s, %s, %s, %s, %s", i, c.src, c.bytes, c.packets,
			c.start, c.end,
			c.received))
	}
	typedRows(t, in, `"row", src, dst, protocol, size_bytes, packets, start_ns, end_ns, received_ns`, rows)
	m, err := FormatMapping("nfdump")
	if err != nil {
		t.Fatal(err)
	}
	work := fileWork{m: m, n: 1, file: "log"}
	if err := errors.Join(in.addresses(t.Context()), in.judge(t.Context(), work, &FileStats{})); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		var got string
		err := in.query(t.Context(), "SELECT coalesce(reason, '') || CASE WHEN from_reception THEN '=' || "+
			`start_ns ELSE '' END FROM judged WHERE "row" = `+fmt.Sprint(i), &got)
		if err != nil || got != c.want {
			t.Errorf("%d, %+v: %q, %v", i, c, got, err)
		}
	}
	in.notes = nil
	err = in.noteClock(t.Context(), work)
	got := strings.Join(in.Notes(), "; ")
	if err != nil || !strings.HasPrefix(got, "log: 3 of 17 records have no start") {
		t.Errorf("%q, %v", got, err)
	}
	in.notes = nil
	work.regular = &regularRows{}
	work.regular.timed = 100
	work.regular.quarters = map[int64]int64{8: 90, 0: 10}
	err = in.noteClock(t.Context(), work)
	got = strings.Join(in.Notes(), "; ")
	if err != nil || !strings.HasPrefix(got, "log: 3 of 117 records") || !strings.Contains(got, "90 of ") ||
		!strings.Contains(got, "2 hours after") {
		t.Errorf("%q, %v", got, err)
	}
}

// A start is stuck if 20 rows or more, and more than half, have it although they came over more than an hour.
func TestLimitsOfStuckStarts(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const at = int64(946684800e9)
	for i, c := range []struct {
		alike, others int64
		apart         int64
		want          int64
	}{{20, 19, 3600e9 + 1, at}, {20, 20, 3600e9 + 1, -1}, {19, 0, 3600e9 + 1, -1}, {20, 0, 3600e9, -1}} {
		var rows []string
		for n := range c.alike {
			rows = append(rows, fmt.Sprintf("%d, %d", at, at+n%2*c.apart))
		}
		for n := range c.others {
			rows = append(rows, fmt.Sprintf("%d, %d", at+1+n, at))
		}
		typedRows(t, in, "start_ns, received_ns", rows)
		var stuck sql.NullInt64
		var all, alike, first, last int64
		err := in.query(t.Context(), step("stuck", nil), &stuck, &all, &alike, &first, &last)
		if err != nil || stuck.Valid != (c.want > 0) || stuck.Valid && stuck.Int64 != c.want ||
			all != c.alike+c.others || alike != c.alike || first != at || last != at+c.apart {
			t.Errorf("%d: stuck at %v, %d of %d rows from %d to %d, %v", i, stuck, alike, all, first, last, err)
		}
	}
}

// The SQL of a column of a mapping tells whether it has a value, and casts it to its type.
func TestColumnsOfMappings(t *testing.T) {
	for i, c := range []struct {
		numbers bool
		column  flowColumn
		want    string
	}{
		{true, flowColumn{}, "false"}, {true, flowColumn{"flow_id", "VARCHAR"},
			`nullif(trim("flow_id"), '') IS NOT NULL`},
		{true, flowColumn{"flow_id", "BIGINT"}, `"flow_id" IS NOT NULL`}, {false, flowColumn{"flow_id", "BIGINT"},
			"true"},
		{false, flowColumn{"Reverse_Bytes", "BIGINT"}, `"Reverse_Bytes" IS NOT NULL`},
	} {
		m := &Mapping{numbers: c.numbers}
		got := m.given(c.column)
		if got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
	for i, c := range []struct {
		to     canonicalColumn
		column flowColumn
		has    bool
		want   string
	}{
		{canonicalColumn{"protocol", "protocol"}, flowColumn{}, false, "CAST(NULL AS SMALLINT)"},
		{canonicalColumn{"src", "VARCHAR"}, flowColumn{}, false, "CAST(NULL AS VARCHAR)"},
		{canonicalColumn{"src", "VARCHAR"}, flowColumn{"src", "BIGINT"}, true, `CAST("src" AS VARCHAR)`},
		{canonicalColumn{"sampled", "BOOLEAN"}, flowColumn{"sampled", "VARCHAR"}, true,
			`TRY_CAST("sampled" AS BOOLEAN)`},
		{canonicalColumn{"packets", "BIGINT"}, flowColumn{"packets", "HUGEINT"}, true,
			`TRY_CAST("packets" AS BIGINT)`},
		{canonicalColumn{"start_ns", "BIGINT"}, flowColumn{"start_ns", "TIMESTAMP_NS"}, true,
			`epoch_ns("start_ns")`},
		{canonicalColumn{"packets", "BIGINT"}, flowColumn{"packets", "VARCHAR"}, true,
			`TRY_CAST(whole("packets") AS BIGINT)`},
	} {
		got, err := c.to.cast(c.column, c.has)
		if err != nil || got != c.want {
			t.Errorf("%d: %s, %v, want %s", i, got, err, c.want)
		}
	}
	_, err := canonicalColumn{"packets", "BIGINT"}.cast(flowColumn{"packets", "BOOLEAN"}, true)
	if err == nil || err.Error() != "column packets is of type BOOLEAN, want integers" {
		t.Error(err)
	}
	number, err := canonicalColumn{"protocol", "protocol"}.cast(flowColumn{"p", "VARCHAR"}, true)
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var got string
	err = in.query(t.Context(),
		"SELECT string_agg(coalesce("+number+", -1)::VARCHAR, ' ' ORDER BY n) FROM (VALUES (1, ' tcp '), "+
			"(2, 'Udp-Lite'), (3, '255'), (4, '256'), (5, '6.0'), (6, 'x')) v(n, p)", &got)
	if err != nil || got != "6 136 255 -1 6 -1" {
		t.Errorf("protocols %s, %v", got, err)
	}
}

// Remarks about rows that the SQL has judged and about regular rows are one remark.
func TestRemarksAboutBothKindsOfRows(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	const at = "946684800000000000"
	typedRows(t, in, `src, dst, protocol, size_bytes, packets, sampling_rate, start_ns`, []string{
		"'0', '1', 6, 100, 1, NULL, " + at, "'0', '1', 6, 100, 1, 1, " + at, "'0', '1', 6, 1000, 2, NULL, " + at,
		"'0', 'none', 6, 100, 1, NULL, " + at, "'0', '1', 17, 100, 1, NULL, " + at,
	})
	m, err := FormatMapping("nfdump")
	if err != nil {
		t.Fatal(err)
	}
	work := fileWork{m: m, n: 1, file: "log", src: rowSource{rows: 1}}
	if err := errors.Join(in.addresses(t.Context()), in.judge(t.Context(), work, &FileStats{})); err != nil {
		t.Fatal(err)
	}
	regular := &regularRows{}
	regular.n = 2
	regular.single = 1
	regular.tcp = 1
	regular.stated = 1
	for i, c := range []struct {
		rate    int64
		regular *regularRows
		want    string
	}{
		{0, nil, ""}, {0, regular, "log: 2 of 3 records of TCP"}, {5, nil, "no effect on 1 of 4 records"},
		{5, regular, "no effect on 2 of 6 records"},
	} {
		in.notes = nil
		in.o.SamplingRate = c.rate
		work.regular = c.regular
		err := in.noteSampling(t.Context(), work)
		got := strings.Join(in.Notes(), "; ")
		if err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d: %q, %v, want %q", i, got, err, c.want)
		}
	}
}

// The addresses with the most bytes of both kinds of rows are found, each once, and at most twenty.
func TestMostUnknownOfBothKindsOfRows(t *testing.T) {
	r, _, _ := regularOf(t, "nfdump", Options{})
	in, err := NewIngester(t.Context(), r.net, Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	err = in.exec(t.Context(),
		"CREATE OR REPLACE TEMP TABLE refused AS SELECT '"+unknownDst+"' AS reason, 'a' || (i // 2) AS unknown, "+
			"i // 2 AS unknown_bytes FROM range(44) r(i)")
	if err != nil {
		t.Fatal(err)
	}
	work := fileWork{src: rowSource{rows: 1}}
	most, err := in.mostUnknown(t.Context(), work, 1)
	if err != nil || len(most) != 20 || most[0] != (UnknownAddress{Address: "a21", Rows: 2, Bytes: 42}) ||
		most[19].Address != "a2" {
		t.Errorf("%+v, %v", most, err)
	}
	none, err := in.mostUnknown(t.Context(), work, 0)
	if err != nil || len(none) != 0 {
		t.Errorf("of the other end: %+v, %v", none, err)
	}
	r.addresses["a1"] = &regularAddress{unknown: [2]addressSum{{}, {3, 100}}}
	r.addresses["b"] = &regularAddress{unknown: [2]addressSum{{}, {1, 41}}}
	r.addresses["c"] = &regularAddress{unknown: [2]addressSum{{1, 500}, {}}}
	work.regular = r
	most, err = in.mostUnknown(t.Context(), work, 1)
	if err != nil || len(most) != 20 || most[0] != (UnknownAddress{Address: "a1", Rows: 5, Bytes: 102}) ||
		most[2] != (UnknownAddress{Address: "b", Rows: 1, Bytes: 41}) {
		t.Errorf("%+v, %v", most, err)
	}
}

// A row's own label precedes that of the labels table, unless the table comes first.
func TestOrderOfLabels(t *testing.T) {
	const own = "nullif(trim(j.service), '')"
	for first, want := range map[bool]bool{false: true, true: false} {
		in := &Ingester{o: Options{LabelsFirst: first}}
		text := in.labelSQL("service")
		if strings.HasPrefix(text, own+", CASE ") != want || strings.HasSuffix(text, " END, "+own) == want {
			t.Errorf("labels of the table first %v: %s", first, text)
		}
	}
}
