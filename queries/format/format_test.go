package format

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parsimon/queries/duckdb"
)

func database(t *testing.T) *sql.DB {
	t.Helper()
	db, err := duckdb.Open(t.Context(), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// write returns the answer of a statement in a DuckDB without a lake.
func write(t *testing.T, text, format string) string {
	t.Helper()
	out, err := tryWrite(t, text, format)
	if err != nil {
		t.Fatalf("%s as %s: %v", text, format, err)
	}
	return out
}

func tryWrite(t *testing.T, text, format string) (string, error) {
	t.Helper()
	conn, err := database(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if format == "table" {
		var b strings.Builder
		_, err := Table(t.Context(), conn, text, &b)
		return b.String(), err
	}
	path := filepath.Join(t.TempDir(), "answer")
	if _, err := Copy(t.Context(), conn, text, format, path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

func TestTable(t *testing.T) {
	for text, want := range map[string]string{
		`SELECT * FROM (VALUES ('short', 7, 1.5::DOUBLE, 0.25::DOUBLE), ('a much longer one', 12345, 1234.5678, NULL)) AS v(name, size_bytes, slowdown, load)`: `
name               size_bytes  slowdown    load
-----------------  ----------  --------  ------
short                       7     1.500  0.2500
a much longer one       12345  1234.568       -
`,
		`SELECT 1e-7::DOUBLE AS small, 123456.78::DOUBLE AS large, 'é' AS "ü", NULL AS nothing, [1.5::DOUBLE, 2] AS list`: `
small     large  ü  nothing  list
-----  --------  -  -------  ---------
1e-07  123456.8  é        -  [1.5,2.0]
`,
		// The unit of a time does not depend on other rows.
		`SELECT * FROM (VALUES (4336, 999.5::DOUBLE), (-716958000, 0), (5000000000, NULL)) AS v(delay_ns, wait_ns)`: `
      delay      wait
-----------  --------
   4.336 us  999.5 ns
-716.958 ms      0 ns
    5.000 s         -
`,
		// This applies to numbers of any type. Columns with other values keep their name.
		`SELECT 5000000::HUGEINT AS a_delay_ns, 5000000::UBIGINT AS b_delay_ns, 5000000::UINTEGER AS c_delay_ns, 5000000.5::DECIMAL(18, 2) AS d_delay_ns, [5000000] AS e_delay_ns`: `
 a_delay   b_delay   c_delay   d_delay  e_delay_ns
--------  --------  --------  --------  ----------
5.000 ms  5.000 ms  5.000 ms  5.000 ms  [5000000]
`,
		`SELECT 1700000000000000001 AS start_ns, 1700000000000000000::HUGEINT AS end_ns, 1e30::DOUBLE AS mean_start_ns`: `
                      start                          end                   mean_start
---------------------------  ---------------------------  ---------------------------
2023-11-14T22:13:20.000000Z  2023-11-14T22:13:20.000000Z  2262-04-11T23:47:16.854774Z
`,
		`SELECT 1 AS a WHERE false`: `
a
-
(no rows)
`,
		`SELECT 'two' || chr(10) || 'lines' AS a`: `
a
----------
two\nlines
`,
	} {
		got := write(t, text, "table")
		if got != want[1:] {
			t.Errorf("%s gives\n%swant\n%s", text, got, want[1:])
		}
	}
	long := write(t, "SELECT i FROM range(12345) AS r(i)", "table")
	lines := strings.Split(long, "\n")
	if len(lines) != 2+TableRows+2 || lines[2+TableRows] != "(the first 1000 of 12345 rows; the formats csv, "+
		"json and parquet have them all)" {
		t.Errorf("%d lines: %s", len(lines), lines[len(lines)-2])
	}
	whole := write(t, "SELECT repeat('two words ', 30) || 'end' AS warning", "table")
	if !strings.Contains(whole, "words end") {
		t.Error(whole)
	}
	wide := write(t, "SELECT range(1000) AS l", "table")
	if len(wide) > 300 || !strings.Contains(wide, "…") {
		t.Error(wide)
	}
}

// allTypes has a value and a null of every type that an answer is likely to have.
const allTypes = `SELECT true AS boo, 1::TINYINT AS i8, -2::SMALLINT AS i16, 3::INTEGER AS i32, 9007199254740993 AS i64,
	255::UTINYINT AS u8, 65535::USMALLINT AS u16, 4294967295::UINTEGER AS u32, 18446744073709551615::UBIGINT AS u64,
	123456789012345678901234567890::HUGEINT AS i128, 0.1::FLOAT AS f32, 0.1::DOUBLE AS f64, 12.50::DECIMAL(9, 2) AS dec, -0.05::DECIMAL(18, 2) AS dec2, '10000000000000000000000000'::DECIMAL(30, 1) AS dec3,
	'a, "b" <é>' AS str, '\xAB\x00'::BLOB AS bin, DATE '1969-12-31' AS day, TIMESTAMP '2026-01-02 03:04:05.678' AS ts,
	TIME '01:02:03' AS tim, '00000000-0000-0000-0000-0000000000ff'::UUID AS id, [1.5::DOUBLE, NULL, -2] AS list,
	[]::BIGINT[] AS none, ['x', 'y'] AS texts, {'k': 1, 'l': [2, 3]} AS rec, MAP {'m': 4} AS map, [[1], [2, 3]] AS deep,
	'NaN'::DOUBLE AS nan, '{"j": 1}'::JSON AS js, INTERVAL 1 DAY AS iv, 'happy'::ENUM ('happy') AS en
UNION ALL SELECT ` + "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"

func TestCSVAndJSON(t *testing.T) {
	got := write(t, allTypes, "csv")
	want := `boo,i8,i16,i32,i64,u8,u16,u32,u64,i128,f32,f64,dec,dec2,dec3,str,bin,day,ts,tim,id,list,none,texts,rec,map,deep,nan,js,iv,en
true,1,-2,3,9007199254740993,255,65535,4294967295,18446744073709551615,123456789012345678901234567890,0.1,0.1,12.50,-0.05,10000000000000000000000000.0,"a, ""b"" <é>",\xAB\x00,1969-12-31,2026-01-02 03:04:05.678,01:02:03,00000000-0000-0000-0000-0000000000ff,"[1.5,null,-2.0]",[],"[""x"",""y""]","{""k"":1,""l"":[2,3]}","{""m"":4}","[[1],[2,3]]",nan,"{""j"": 1}",1 day,happy
` + strings.Repeat(",", 30) + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = write(t, allTypes, "json")
	want = `{"boo":true,"i8":1,"i16":-2,"i32":3,"i64":9007199254740993,"u8":255,"u16":65535,"u32":4294967295,"u64":18446744073709551615,"i128":123456789012345678901234567890,"f32":0.10000000149011612,"f64":0.1,"dec":12.5,"dec2":-0.05,"dec3":10000000000000000000000000.0,"str":"a, \"b\" <é>","bin":"\\xAB\\x00","day":"1969-12-31","ts":"2026-01-02 03:04:05.678","tim":"01:02:03","id":"00000000-0000-0000-0000-0000000000ff","list":[1.5,null,-2.0],"none":[],"texts":["x","y"],"rec":{"k":1,"l":[2,3]},"map":{"m":4},"deep":[[1],[2,3]],"nan":null,"js":{"j":1},"iv":"1 day","en":"happy"},
`
	if !strings.Contains(got, want) || !json.Valid([]byte(got)) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	infinite := write(t, "SELECT 'inf'::DOUBLE AS x, ['nan'::DOUBLE, 1] AS list, 1 AS x", "json")
	if !json.Valid([]byte(infinite)) || !strings.Contains(infinite, `{"x":null,"list":[null,1.0],"x_1":1}`) {
		t.Error(infinite)
	}
	got = write(t, "SELECT 1 AS a WHERE false;", "json")
	if !json.Valid([]byte(got)) || strings.Join(strings.Fields(got), "") != "[]" {
		t.Error(got)
	}
}

// JSON has no notation for NaN and infinities: a reader such as jq refuses an answer that has one anywhere.
func TestNestedNaNIsNull(t *testing.T) {
	for value, want := range map[string]string{
		"[['nan'::DOUBLE, 1], NULL]":                                             "[[null,1.0],null]",
		"['inf'::FLOAT, 2]::FLOAT[2]":                                            "[null,2.0]",
		`{'a b': 'nan'::DOUBLE, 'c"d': [1, 2], 'e': {'f': '-inf'::DOUBLE}}`:      `{"a b":null,"c\"d":[1,2],"e":{"f":null}}`,
		"{'x, (y': 'nan'::DOUBLE, 'kind': 'DOUBLE'::ENUM ('DOUBLE', 'a, ''(b')}": `{"x, (y":null,"kind":"DOUBLE"}`,
		"MAP {'k': ['nan'::DOUBLE]}":                                             `{"k":[null]}`,
		"union_value(u := 'nan'::DOUBLE)":                                        `{"u":null}`,
		"[{'a': [{'b': 'nan'::DOUBLE}]}]":                                        `[{"a":[{"b":null}]}]`,
		"CASE WHEN false THEN {'a': 1.5::DOUBLE} END":                            "null",
	} {
		got := write(t, "SELECT "+value+" AS v", "json")
		if !strings.Contains(got, `{"v":`+want+"}") {
			t.Errorf("%s as json: %s, want %s", value, got, want)
		}
		if want == "null" {
			continue
		}
		if got := write(t, "SELECT "+value+" AS v", "csv"); got != "v\n\""+strings.ReplaceAll(want, `"`, `""`)+
			"\"\n" &&
			got != "v\n"+want+"\n" {
			t.Errorf("%s as csv: %s, want %s", value, got, want)
		}
	}
	got := write(t, `SELECT '{"a": [1.5, "NaN"]}'::JSON AS v`, "json")
	if !strings.Contains(got, `{"v":{"a":[1.5,"NaN"]}}`) {
		t.Error(got)
	}
	for _, value := range []string{
		"to_json(['nan'::DOUBLE])", "to_json('-inf'::DOUBLE)", `'{"Na\"N": infinity}'::JSON`,
		"[to_json('nan'::DOUBLE)]",
	} {
		if out, err := tryWrite(t, "SELECT "+value+" AS v", "json"); err == nil ||
			!strings.Contains(err.Error(), "NaN") {
			t.Errorf("%s as json: %s, %v", value, out, err)
		}
	}
}

// If the text of a statement were edited by patterns, a semicolon in a comment could cut off its WHERE.
func TestStatementEndsWhereDuckDBSaysSo(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1 AS n -- a; b\n/* c */ WHERE false /* d */": "n\n",
		"SELECT 7 AS n WHERE 'a' <> ';--'":                   "n\n7\n",
		"SELECT 7 AS n; -- ; /* the end":                     "n\n7\n",
		"SELECT 7 AS \"n;--\"\n;;":                           "n;--\n7\n",
		"SELECT $$;--$$ AS n; /* /* nested */ */":            "n\n;--\n",
		"DESCRIBE SELECT 1 AS \"a; b\"; --": "column_name,column_type,null,key,default,extra\na; " +
			"b,INTEGER,YES,,,\n",
	} {
		got := write(t, text, "csv")
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"SELECT 1; SELECT 2", "SELECT 1) TO 'x'; --", "COPY (SELECT 1) TO 'x'"} {
		if out, err := tryWrite(t, text, "csv"); err == nil {
			t.Errorf("%s ran: %s", text, out)
		}
	}
}

// An answer in Parquet has the rows, types and columns of the SELECT.
func TestParquet(t *testing.T) {
	raw := database(t)
	dir := t.TempDir()
	check := func(name, data, want string) {
		t.Helper()
		file := filepath.Join(dir, name+".parquet")
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("read_parquet(%s)", duckdb.Quote(file))
		for name, from := range map[string]string{"want": want, "got": "FROM " + got} {
			if _, err := raw.Exec("CREATE OR REPLACE TABLE " + name + " AS " + from); err != nil {
				t.Fatal(err)
			}
		}
		for _, side := range []string{"FROM got EXCEPT ALL FROM want", "FROM want EXCEPT ALL FROM got"} {
			var n int
			if err := raw.QueryRow("SELECT count(*) FROM (" + side + ")").Scan(&n); err != nil || n != 0 {
				t.Errorf("%s: %d rows of %s: %v", name, n, side, err)
			}
		}
		const types = "SELECT string_agg(column_name || ' ' || data_type, ', ' ORDER BY column_index) FROM " +
			"duckdb_columns() WHERE table_name = "
		var a, b string
		if err := raw.QueryRow(types + "'got'").Scan(&a); err != nil {
			t.Fatal(err)
		}
		if err := raw.QueryRow(types + "'want'").Scan(&b); err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Errorf("%s: got columns %s\nwant %s", name, a, b)
		}
	}
	check("types", write(t, allTypes, "parquet"), `SELECT * REPLACE (
		i128::DOUBLE AS i128, CAST(en AS VARCHAR) AS en) FROM (`+allTypes+")")
	// More than one row group.
	const many = "SELECT i AS z, i / 3 AS a, [i, i + 1] AS m FROM range(200000) AS r(i)"
	check("many", write(t, many, "parquet"), many)
	check("none", write(t, many+" WHERE i < 0", "parquet"), many+" WHERE i < 0")
}

func TestWriteErrors(t *testing.T) {
	for _, format := range Names() {
		if _, err := tryWrite(t, "SELECT CASE WHEN i < 90000 THEN i ELSE error('late') END AS i FROM "+
			"range(100000) AS r(i)", format); err == nil {
			t.Errorf("%s: no error", format)
		}
	}
}

// A table must not send control sequences of a trace to the terminal. Data formats keep values unchanged.
func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"web":                "web",
		"naïve 漢字 \\n":       "naïve 漢字 \\n",
		"\x1b[31mred\x1b[0m": `\x1b[31mred\x1b[0m`,
		"a\tb\r\nc\x00\x7f":  `a\tb\r\nc\x00\x7f`,
		"\u009b2J\u0085":     `\x9b2J\x85`,
		"\u202egnp.exe":      `\u202egnp.exe`,
		"\xff\xfe \uFFFD":    `\xff\xfe ` + "\uFFFD",
	} {
		got := Escape(text)
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	const attack = `SELECT chr(27) || ']0;owned' || chr(7) AS service, chr(155) || '2J' AS "e` + "\x1b[2J" + `x"`
	got := write(t, attack, "table")
	if strings.ContainsAny(got, "\x1b\x07\u009b") || !strings.Contains(got, `\x1b]0;owned\x07`) {
		t.Errorf("%q", got)
	}
	got = write(t, attack, "csv")
	if !strings.Contains(got, "\x1b]0;owned\x07") {
		t.Errorf("%q", got)
	}
}
