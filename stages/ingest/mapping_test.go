package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parsimon/stages/topology/topologytest"
)

// A mapping's header lines state how a file is read. Notes do not change the rows that it yields.
func TestHeaderLinesOfMappings(t *testing.T) {
	text := "-- format: mine\r\n-- title: T\r\n-- from: F\r\n-- rows: records\r\n-- reads: json\r\n" +
		"-- each: a.b\r\n" +
		"-- column: Src = $.s | $.S\r\n-- column: dst = $.d\r\n-- needs: SRC|x dst\r\n-- null: - (empty)\r\n" +
		"-- note: Dst a note of words\r\n-- end: Sum of All\r\n-- widths: 1 1000\r\n-- count: 1\r\n" +
		"-- numbers: 1\r\n" +
		"-- timed: 1\r\n-- header: #x y\r\n\r\n SELECT 1 -- a; b\r\n"
	_, err := parseMapping("mine.sql", text)
	if err == nil || !strings.Contains(err.Error(), "column dst has no JSON path") {
		t.Fatal(err) // of the note
	}
	m, err := parseMapping("mine.sql", strings.Replace(text, "reads: json", "reads: words", 1))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %v %s %v %q %q %q %v %v %q %q %q %v %v", m.Name, m.Records, m.reads, m.columns,
		m.needs, m.null,
		m.note, m.count, m.numbers, m.end, m.mark, m.each, m.timed, m.widths)
	const want = `mine true words [{src [$.s $.S]} {dst [$.d]} {dst []}] [["src" "x"] ["dst"]] ` +
		`["-" "(empty)"] ` +
		`["Dst" "a note of words"] true true "Sum of All" "#x y" [["a" "b"]] true [1 1000]`
	if got != want || m.query != "SELECT 1 -- a; b\n" || m.foreign {
		t.Errorf("%s, %q\nwant\n%s", got, m.query, want)
	}
	none, err := parseMapping("dir/other.sql",
		"-- rows: flows\n-- reads: csv\n-- count: 0\n-- numbers: 0\n-- timed: 0\n"+
			"-- note: n x\n-- names: A b\n\nSELECT 1")
	if err != nil || none.Name != "other" || none.Records || none.count || none.numbers || none.timed ||
		none.Rows != strings.Replace(none.Text, "-- note: n x\n", "", 1) || fmt.Sprint(none.columns) != "[{n []}]" {
		t.Errorf("%+v, %v", none, err)
	}
	none, err = parseMapping("m.sql", "-- rows: flows\n-- reads: words\n-- names: A b\n\nSELECT 1")
	if err != nil || fmt.Sprint(none.columns) != "[{a []} {b []}]" || none.Rows != none.Text {
		t.Errorf("%+v, %v", none, err)
	}
}

// A fault of a mapping names its line.
func TestFaultsOfMappings(t *testing.T) {
	const good = "-- rows: flows\n-- reads: csv\n-- column: a\n"
	for text, want := range map[string]string{
		good + "SELECT 1": "mapping m.sql: no empty line after the header",
		good +
			"x\n\nSELECT 1": `mapping m.sql:4: want a header line such as "-- reads: csv", got "x"`,
		good + "-- rows: x\n\nSELECT 1":                     `m.sql:4: rows are flows or records, not "x"`,
		good + "-- reads: x\n\nSELECT 1":                    `m.sql:4: reads csv, words or json, not "x"`,
		good + "-- widths: 0\n\nSELECT 1":                   `widths are whole numbers, not "0"`,
		good + "-- widths: 1001\n\nSELECT 1":                `widths are whole numbers, not "1001"`,
		good + "-- widths: x\n\nSELECT 1":                   `widths are whole numbers, not "x"`,
		good + "-- column: 1a\n\nSELECT 1":                  `want NAME or NAME = $.path, got "1a"`,
		good + "-- note: 1a b\n\nSELECT 1":                  `want NAME or NAME = $.path, got "1a"`,
		good + "-- each: a..b\n\nSELECT 1":                  `m.sql:4: want keys with points`,
		good + "\n \n":                                      "want one SELECT without a semicolon",
		good + "\nSELECT 1; SELECT 2":                       "want one SELECT without a semicolon",
		"-- rows: flows\n-- reads: csv\n\nS":                "names no column",
		"-- rows: flows\n-- column: a\n\nS":                 "the header lacks rows or reads",
		"-- reads: csv\n-- column: a\n\nS":                  "the header lacks rows or reads",
		"-- rows: flows\n-- reads: json\n-- column: a\n\nS": "column a has no JSON path",
	} {
		_, err := parseMapping("m.sql", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "m.sql")
	if err := os.WriteFile(file, []byte(good+"\nSELECT 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMapping(file)
	if err != nil || !m.foreign || m.Name != "m" {
		t.Errorf("%+v, %v", m, err)
	}
	_, err = FormatMapping("none")
	if err == nil || !strings.HasPrefix(err.Error(), `no format "none": must be one of argus, azure_nsg, `) {
		t.Error(err)
	}
}

// A column of a file has one meaning. What a mapping needs and a file lacks is an error, which names the
// formats that have these columns.
func TestColumnsOfFiles(t *testing.T) {
	m := mappingOf(t, "reads: csv; column: src; column: dst; column: port; needs: src|from dst")
	value := func(at int) (string, error) { return fmt.Sprint("column ", at), nil }
	for names, c := range map[string]struct{ want, fault string }{
		"x DST-x dst Src":  {"column 3|column 2|CAST(NULL AS VARCHAR)", ""},
		"port src dst x x": {"column 1|column 2|column 0", ""},
		"from dst":         {"CAST(NULL AS VARCHAR)|column 1|CAST(NULL AS VARCHAR)", ""},
		"src dst Src":      {"", `columns 1, "src", and 3, "Src", have one meaning`},
		"dst": {"",
			"no column src or from (it has dst); for a format of your own, " +
				"start from parsimon ingest --show-mapping mine"},
		"a b":           {"", "no column src or from, dst (it has a, b); for"},
		"sa da ts ibyt": {"", "(it has sa, da, ts, ibyt, the columns of --format nfdump); for"},
	} {
		list, err := m.selectColumns(strings.Fields(names), value)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) ||
			strings.Join(list, "|") != c.want {
			t.Errorf("%s: %q, %v", names, list, err)
		}
	}
	m.Name = ""
	_, err := m.selectColumns([]string{"x"}, value)
	if err == nil || err.Error() != "no column src or from, dst (it has x)" {
		t.Error(err)
	}
}

// The format follows from the extension, with or without a compression.
func TestFormatsOfNames(t *testing.T) {
	for file, want := range map[string]string{
		"a.csv": "csv", "a.TSV": "csv", "a.csv.gz": "csv", "a.jsonl.zst": "jsonl", "a.ndjson": "jsonl",
		"a.parquet": "parquet",
		"a.log":     "", "a": "", "a.gz": "",
	} {
		m, err := DetectFormat(file)
		if (err == nil) != (want != "") || err == nil && m.Name != want && want != "parquet" {
			t.Errorf("%s: %v, %v", file, m, err)
		}
	}
}

// Of several mappings, the one applies whose columns have the most values in the first 100 rows, or the first
// of two. Rows that are broken do not count.
func TestChoiceOfAMapping(t *testing.T) {
	in, err := NewIngester(t.Context(), topologytest.SmallNetwork(t), Options{TmpDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var of []*Mapping
	for _, columns := range []string{"column: a", "column: b", "column: b; column: c; column: c2",
		"column: d; needs: d"} {
		m := mappingOf(t, "reads: csv; "+columns)
		m.Name = columns
		of = append(of, m)
	}
	for i, c := range []struct {
		of   []*Mapping
		text string
		want int // of of; -1: none
		rows int64
	}{
		{of[:2], "a,b\n" + strings.Repeat("1,\n", 51) + strings.Repeat(",2\n", 49), 0, 100},
		{of[:2], "a,b\n" + strings.Repeat("1,\n", 49) + strings.Repeat(",2\n", 51), 1, 100},
		{of[:2], "a,b\n" + strings.Repeat("1,\n", 50) + strings.Repeat(",2\n", 51), 0, 101},
		{of[:2], "a,b\n1,\n,2\n,2,2\n,2,2\n", 0, 4},
		{of[:3], "a,b,c\n1,,\n1,,\n,2,\n,,3\n,,3\n", 2, 5},
		{of[:2], "a,b\n,\n,\n", -1, 0},
		{of[1:4], "b\n1\n", 0, 1},
		{of[3:], "b\n1\n", -1, 0},
		{[]*Mapping{of[3], of[3]}, "b\n1\n", -1, 0},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		best, src, err := in.choose(t.Context(), c.of, file, dir)
		if c.want < 0 {
			fault := "no column d (it has b"
			if c.of[0] != of[3] {
				fault = "is none of column: a, column: b: leave it out"
			}
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%d: %v, %v", i, best, err)
			}
			continue
		}
		if err != nil || best != c.of[c.want] || src.rows != c.rows {
			t.Errorf("%d: %v, %d rows, %v", i, best, src.rows, err)
		}
	}
}

// Columns of Parquet files are texts in the form that mappings read: whole numbers without a fraction, and
// times in UTC. Other types have no text.
func TestTextsOfParquetColumns(t *testing.T) {
	db, err := plainDuckDB()
	if err != nil {
		t.Fatal(err)
	}
	for typ, c := range map[string][2]string{
		"VARCHAR": {"'a b'", "a b"}, "DOUBLE": {"9007199254740991", "9007199254740991"}, "FLOAT": {"16777215",
			"16777215"},
		"DECIMAL(18,3)": {"100.000", "100"}, "BLOB": {"'\\x61\\xFF'", "a\\xFF"},
		"TIMESTAMP_NS": {"'2026-01-31 09:00:00.000000007'",
			"2026-01-31T09:00:00.000000007Z"}, "TIMESTAMP": {"'1969-12-31 23:59:59.5'",
			"1969-12-31T23:59:59.500000000Z"},
		"BIGINT": {"-5", "-5"}, "UHUGEINT": {"5", "5"}, "INTEGER[]": {"[1, 2]", "[1, 2]"}, "VARCHAR[]": {"['a']",
			"[a]"},
		"BOOLEAN": {"true", ""}, "DATE": {"'2026-01-31'", ""}, "DOUBLE[]": {"[1]", ""},
	} {
		column := flowColumn{"x", typ}
		text := column.asText()
		if c[1] == "" {
			if text != "" {
				t.Errorf("%s: %s", typ, text)
			}
			continue
		}
		var got string
		err := db.QueryRow("SELECT " + text + " FROM (SELECT " + c[0] + "::" + typ + " AS x)").Scan(&got)
		if err != nil || got != c[1] {
			t.Errorf("%s: %q, %v, want %q", typ, got, err, c[1])
		}
	}
	for typ, values := range map[string][2]string{
		"DOUBLE": {"9007199254740992", "9007199254740992.0 (not exact)"}, "FLOAT": {"0.5", "0.5"},
	} {
		var got string
		err := db.QueryRow("SELECT " + flowColumn{"x", typ}.asText() + " FROM (SELECT " + values[0] + "::" + typ +
			" AS x)").Scan(&got)
		if err != nil || got != values[1] {
			t.Errorf("%s: %q, %v, want %q", typ, got, err, values[1])
		}
	}
	if !slices.Contains(Formats(), "vpc") {
		t.Errorf("formats %q", Formats())
	}
}

// A mapping that is stored as text reads the same rows. A mapping of the user remains one, because its SQL
// has more limits, also if it has the name of a built-in one.
func TestMappingsAsText(t *testing.T) {
	vpc, err := FormatMapping("vpc")
	if err != nil {
		t.Fatal(err)
	}
	mine, err := parseMapping("vpc.sql", strings.Replace(vpc.Text, "vpc_id AS vnet", "interface_id AS vnet", 1))
	if err != nil {
		t.Fatal(err)
	}
	mine.foreign = true
	for _, m := range []*Mapping{vpc, mine} {
		text, err := m.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again Mapping
		err = again.UnmarshalText(text)
		if err != nil || !reflect.DeepEqual(&again, m) {
			t.Errorf("%+v, %v, want %+v", again, err, m)
		}
	}
	err = new(Mapping).UnmarshalText([]byte("x\nno header"))
	if err == nil || !strings.Contains(err.Error(), "mapping x.sql") {
		t.Errorf("no mapping: %v", err)
	}
}

// A time that needs more than 64 bits rejects its row. DuckDB 1.4 writes outside its memory if such a row
// fails within TRY, so that the program ended with a signal for half of such files.
func TestTimesBeyond64Bits(t *testing.T) {
	mapping, err := FormatMapping("ipfix")
	if err != nil {
		t.Fatal(err)
	}
	mapping.foreign = true // all rows need SQL
	text := "flowStartMilliseconds,flowEndMilliseconds,sourceIPv4Address,destinationIPv4Address," +
		"protocolIdentifier,octetDeltaCount,packetDeltaCount\n"
	const rows = 1600
	times := []string{"1769850001123", "99999999999999999", "1769850001123.0",
		"2026-01-31T09:00:01Z"}
	for i := range rows {
		text += fmt.Sprintf("%s,%s,10.0.0.1,10.0.0.2,6,9000,8\n", times[i%4], times[i/4%4])
	}
	file := filepath.Join(t.TempDir(), "ipfix.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		stats, err := readFile(t, topologytest.SmallNetwork(t), file, Options{Mapping: mapping,
			Hosts: filepath.Join("testdata", "hosts.csv"), TmpDir: t.TempDir(), MemoryBytes: 256 << 20, Threads: 1,
			MaxRejects: 1})
		if err != nil || stats.Rows != rows || stats.Rejects != rows*9/16 || stats.Flows != 1 {
			t.Errorf("%d rows, %d rejects, %d flows, %v", stats.Rows, stats.Rejects, stats.Flows, err)
		}
	}
}

// No mapping has TRY, and none of the user may have it.
func TestNoMappingHasTry(t *testing.T) {
	try := regexp.MustCompile(`(?i)\btry\s*\(`)
	for _, format := range Formats() {
		mapping, err := FormatMapping(format)
		if err != nil || try.MatchString(mapping.query) {
			t.Errorf("%s has TRY, or %v", format, err)
		}
	}
	if try.MatchString(sqlComment.ReplaceAllString(macros, "")) {
		t.Error("a macro has TRY")
	}
	mine := mappingOf(t, "reads: csv; column: src; column: dst")
	mine.query = `SELECT "row", src, dst, 1 AS size_bytes, TRY(coalesce(whole(src), 1)) AS start_ns FROM source`
	mine.foreign = true
	file := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(file, []byte("src,dst\n0,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readFile(t, topologytest.SmallNetwork(t), file, Options{Mapping: mine, TmpDir: t.TempDir(),
		MemoryBytes: 256 << 20, Threads: 1})
	if err == nil || !strings.Contains(err.Error(), "TRY is not allowed") {
		t.Errorf("error %v", err)
	}
}
