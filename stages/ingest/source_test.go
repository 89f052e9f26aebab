package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/zeebo/xxh3"
)

// Arguments name files, directories and patterns. A file is listed once. Names that begin with a dot or an
// underscore are not sources, and an argument without files is an error.
func TestFilesThatArgumentsName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv", ".hidden.csv", "_SUCCESS", "day=1/c.csv", "day=1/_d.csv",
		"_temporary/e.csv"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(dir, filepath.Join(dir, "day=1", "again")); err != nil { // an endless path
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, want []string
		fault      string
	}{
		{[]string{""}, []string{"a.csv", "b.csv", "day=1/c.csv"}, ""},
		{[]string{"b.csv", ""}, []string{"b.csv", "a.csv", "day=1/c.csv"}, ""},
		{[]string{"*.csv"}, []string{".hidden.csv", "a.csv", "b.csv"}, ""},
		{[]string{".hidden.csv"}, []string{".hidden.csv"}, ""},
		{[]string{"none*"}, nil, "none*: matches no file"},
		{[]string{"_temporary/none"}, nil, "no such file"},
		{[]string{"[a"}, nil, "syntax error in pattern"},
	} {
		var args, want []string
		for _, a := range c.args {
			args = append(args, filepath.Join(dir, a))
		}
		for _, w := range c.want {
			want = append(want, filepath.Join(dir, w))
		}
		got, err := FindSources(args)
		if !slices.Equal(got, want) || (err == nil) != (c.fault == "") ||
			err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%q: %q, %v; want %q", c.args, got, err, want)
		}
	}
}

// mappingOf returns a mapping with the given header lines, which are separated by semicolons.
func mappingOf(t *testing.T, headers string) *Mapping {
	t.Helper()
	lines := "-- " + strings.ReplaceAll(headers, "; ", "\n-- ")
	m, err := parseMapping("mine.sql", "-- rows: flows\n"+lines+"\n\nSELECT * FROM source\n")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stage stages a text, and returns its rows and a description of each: its number, the line with | between
// fields, the number of its header, and why it is broken.
func stage(t *testing.T, m *Mapping, text string) (rows []textLine, said []string, file textFile, err error) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "lines.parquet")
	file, err = readLines(t.Context(), fileWork{m: m, file: source}, out)
	if err != nil {
		return nil, nil, file, err
	}
	rows, err = parquet.ReadFile[textLine](out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		line := strings.ReplaceAll(r.Line, fieldEnd, "|")
		said = append(said, strings.TrimSpace(fmt.Sprintf("%d [%s] %d %s", r.Row, line, r.Layout, r.Broken)))
	}
	return rows, said, file, nil
}

const (
	csvOfTwo   = "reads: csv; column: a; column: b; needs: a b"
	wordsOfTwo = "reads: words; names: a b; needs: a b"
	jsonOfOne  = "reads: json; column: a = $.a"
)

// Each line of a text is a row, a header, a comment or blank. A row that cannot be read is kept with the
// reason. Otherwise it would be missing in the accounts.
func TestLinesOfTexts(t *testing.T) {
	for name, c := range map[string]struct {
		mapping, text string
		want          []string
		layouts       string
		openEnd       bool
	}{
		"CSV": {csvOfTwo, "\ufeff# c\n\n a,b \r\n1, 2 \r\n \t\n#3,4\n5,6",
			[]string{"1 [1| 2] 0", "2 [#3|4] 0", "3 [5|6] 0"}, "[[a b]]", true},
		"headers that differ": {csvOfTwo, "a,b\n1,2\nB,A\n3,4\nb\n" + "a,b\n5,6\nb,c\n",
			[]string{"1 [1|2] 0", "2 [3|4] 1", "3 [b] 1 broken line: not 2 fields", "4 [5|6] 0", "5 [b|c] 0"},
			"[[a b] [B A]]", false},
		"tabs": {csvOfTwo, "a\tb\n\t1\n2\t\n\t\n3;4\t5\n",
			[]string{"1 [|1] 0", "2 [2|] 0", "3 [3;4|5] 0"}, "[[a b]]", false},
		"numbers of fields": {csvOfTwo, "a,b\n1\n1,2,3\n",
			[]string{"1 [1] 0 broken line: not 2 fields", "2 [1,2,3] 0 broken line: not 2 fields"}, "[[a b]]", false},
		"bytes that are not text": {csvOfTwo, "a,b\n1,\xff\n2,\x00\n3,\x1f\n4,\r5\n6,\"x\n",
			[]string{"1 [1|\ufffd] 0 broken line: not UTF-8 text", "2 [2|\ufffd] 0 broken line: not UTF-8 text",
				"3 [3,|] 0 broken line: a control character",
				"4 [4,\r5] 0 broken line: a carriage return within the line",
				"5 [6,\"x] 0 broken line: extraneous or missing \" in quoted-field"}, "[[a b]]", false},
		"an end": {csvOfTwo + "; end: Sum", "a,b\n1,2\nSum\n3,4\nSum,5\na,b\n6,7\n",
			[]string{"1 [1|2] 0", "2 [Sum] 0 " + afterEnd, "3 [3,4] 0 " + afterEnd, "4 [Sum,5] 0 " + afterEnd,
				"5 [6|7] 0"}, "[[a b]]", false},
		"words": {wordsOfTwo, "1 2\n\n 3  4 \n#5 6\nb a\n7 8\n9\n",
			[]string{"1 [1|2] 0", "2 [3|4] 0", "3 [#5|6] 0", "4 [7|8] 1", "5 [9] 1 broken line: not 2 fields"},
			"[[a b] [b a]]", false},
		"words with a header": {"reads: words; names: a b", "B other x\n1 2 3\n1 2\nb other x\n",
			[]string{"1 [1|2|3] 0", "2 [1 2] 0 broken line: not 3 fields", "3 [b|other|x] 0"}, "[[B other x]]", false},
		"words of several widths": {"reads: words; names: a b c; widths: 2 3", "1\n1 2\n1 2 3\n1 2 3 4\n",
			[]string{"1 [1] 0 broken line: not 2 or 3 fields", "2 [1|2] 0", "3 [1|2|3] 0",
				"4 [1 2 3 4] 0 broken line: not 2 or 3 fields"}, "[]", false},
		"a number of rows": {"reads: words; names: a; count: 1", "2\n1\n2\n3\n",
			[]string{"1 [1] 0", "2 [2] 0", "3 [3] 0 " + afterCount}, "[]", false},
		"no rows": {"reads: words; names: a; count: 1", "0\n1\n", []string{"1 [1] 0 " + afterCount}, "[]", false},
		"times before rows": {"reads: words; names: a b; timed: 1", "2026-01-31T09:00:00Z 1 2\n" +
			"2026-01-31T09:00:0Z 1 2\n2026-01-31T09:00:00.000Z 1\n1 2\n",
			[]string{"1 [1|2] 0", "2 [2026-01-31T09:00:0Z 1 2] 0 broken line: not 2 fields",
				"3 [2026-01-31T09:00:00.000Z 1] 0 broken line: not 2 fields", "4 [1|2] 0"}, "[]", false},
		"no times": {"reads: words; names: a b", "2026-01-31T09:00:00Z 2\n",
			[]string{"1 [2026-01-31T09:00:00Z|2] 0"},
			"[]", false},
		"marked headers": {"reads: csv; header: #names; column: a; needs: a",
			"#by x\n#names\ta\tb\n1\t2\n#end\n#names\tb\ta\n3\t\n4,5\n",
			[]string{"1 [1|2] 0", "2 [3|] 1", "3 [4,5] 1 broken line: not 2 fields"}, "[[a b] [b a]]", false},
		"JSON lines": {jsonOfOne, "\ufeff {\"a\": 1} \r\n\n[2]\nx\n{\"a\":\"\xff\"}",
			[]string{`1 [{"a": 1}] 0`, "2 [[2]] 0", "3 [x] 0", "4 [{\"a\":\"\ufffd\"}] 0 broken line: not UTF-8 text"},
			"[]", false},
		"a JSON list": {jsonOfOne, "\ufeff\n [ {\"a\": 1},\n{ \"a\" : [ 2 ] } , null, \"x\"\n]\n\n",
			[]string{`1 [{"a":1}] 0`, `2 [{"a":[2]}] 0`, "3 [null] 0", `4 ["x"] 0`}, "[]", false},
		"an empty list": {jsonOfOne, "[]", nil, "[]", false},
		"an empty text": {jsonOfOne, " \n", nil, "[]", false},
	} {
		_, got, file, err := stage(t, mappingOf(t, c.mapping), c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: rows\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if fmt.Sprint(file.layouts) != c.layouts || file.openEnd != c.openEnd || file.rows != int64(len(c.want)) ||
			file.xxh3 != xxh3.HashString(c.text) {
			t.Errorf("%s: %+v", name, file)
		}
	}
}

// A text that has no header, is cut short, or continues after its end is an error that names the place.
func TestTextsThatCannotBeRead(t *testing.T) {
	counted := "reads: words; names: a; count: 1"
	for text, c := range map[string]struct{ mapping, want string }{
		"3\n1\n2\n": {counted,
			"is cut short: the first line says 3 rows, there are 2"},
		"-1\n1\n": {counted,
			`the first line is to be the number of rows, it is "-1"`},
		"one\n1\n":  {counted, `it is "one"`},
		"\na,\"b\n": {csvOfTwo, "line 2, the header: extraneous or missing"},
		"\n\na,b\r1\n": {csvOfTwo,
			"line 3, the header, has a carriage return or is too long"},
		"[1, {\"a\":2}, x]": {jsonOfOne, "element 3 of the JSON list, byte "},
		"[1, 2":             {jsonOfOne, "the JSON list is cut short after element 2: EOF"},
		"[1] [2]": {jsonOfOne,
			"the file continues after the JSON list, from byte 5"},
		"[1, 2}": {jsonOfOne,
			"the JSON list is cut short after element 2: invalid character '}'"},
		headersThatDiffer(257): {csvOfTwo, "has more than 256 headers that differ"},
		strings.Repeat("a", 1<<20) + ",b\n1,2\n": {csvOfTwo,
			"line 1, the header, has a carriage return or is too long"},
	} {
		_, _, _, err := stage(t, mappingOf(t, c.mapping), text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %q", text, err, c.want)
		}
	}
	_, rows, file, err := stage(t, mappingOf(t, csvOfTwo), headersThatDiffer(256)+"1,2\na,b\n3,4\n")
	if err != nil || len(file.layouts) != 256 || len(rows) != 2 || rows[1] != "2 [3|4] 0" {
		t.Errorf("256 headers: %d, %q, %v", len(file.layouts), rows, err)
	}
}

// headersThatDiffer returns headers, each of which has one field more than the one before.
func headersThatDiffer(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("a,b" + strings.Repeat(",x", i) + "\n")
	}
	return b.String()
}

// A line has at most 1 MiB with its end. Of a longer one, as of other broken lines, 4 KiB are kept.
func TestLongLines(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct{ mapping, head, tail string }{
		{wordsOfTwo, "1 ", ""}, {jsonOfOne, `{"a":"`, `"}`},
	} {
		m := mappingOf(t, c.mapping)
		line := func(n int) string { return c.head + strings.Repeat("x", n-len(c.head)-len(c.tail)) + c.tail }
		for _, long := range []struct {
			text string
			kept []int // bytes of each line
			ends string
		}{
			{line(most), []int{most}, ""},
			{line(most + 1), []int{4096}, "broken line: longer than 1 MiB"},
			{line(most-1) + "\n" + line(20), []int{most - 1, 20}, ""},
			{line(most+5) + "\n" + line(most-1) + "\n", []int{4096, most - 1}, ""},
			{line(3*most) + "\n", []int{4096}, "broken line: longer than 1 MiB"},
			{line(20) + "\n" + strings.Repeat(" ", most+5) + "\n" + line(20), []int{20, 0, 20}, ""},
		} {
			rows, _, _, err := stage(t, m, long.text)
			if err != nil || len(rows) != len(long.kept) || rows[len(rows)-1].Broken != long.ends {
				t.Errorf("%s, %d bytes: %d rows, %v", c.mapping, len(long.text), len(rows), err)
				continue
			}
			for i, r := range rows {
				isLong := long.kept[i] == 0 || long.kept[i] == 4096
				if len(r.Line) != long.kept[i] || r.Row != int64(i+1) || (r.Broken != "") != isLong {
					t.Errorf("%s: row %d has %d bytes, want %d: %q", c.mapping, r.Row, len(r.Line), long.kept[i], r.Broken)
				}
			}
		}
	}
	// What is kept of a broken line ends with a whole character.
	rows, _, _, err := stage(t, mappingOf(t, csvOfTwo), "a,b\n"+strings.Repeat("x", 4095)+"é\n"+
		strings.Repeat("x", 4096)+"\n"+strings.Repeat("x", 4094)+"é\n")
	if err != nil || len(rows) != 3 || len(rows[0].Line) != 4095 || len(rows[1].Line) != 4096 ||
		len(rows[2].Line) != 4096 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// Staged lines are written in batches and row groups whose sizes are bounded. Otherwise a file of long lines
// would take as much memory as it is long.
func TestBatchesOfStagedLines(t *testing.T) {
	groups := func(lines, bytes int) (sizes []int64) {
		file, err := os.Create(filepath.Join(t.TempDir(), "lines.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := newLineWriter(file)
		line := []byte(strings.Repeat("x", bytes))
		for range lines {
			if err := w.add(line, 0, ""); err != nil {
				t.Fatal(err)
			}
			if len(w.rows) >= 4096 || w.bytes >= 4<<20 || w.bytes != len(w.rows)*bytes || w.inGroup >= 16<<20 {
				t.Fatalf("%d lines of %d bytes wait, %d bytes are in the row group", len(w.rows), w.bytes, w.inGroup)
			}
		}
		if err := errors.Join(w.flush(), w.w.Close()); err != nil {
			t.Fatal(err)
		}
		info, err := file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		read, err := parquet.OpenFile(file, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range read.RowGroups() {
			sizes = append(sizes, g.NumRows())
		}
		return sizes
	}
	for _, c := range []struct {
		lines, bytes int
		want         []int64
	}{
		{20_481, 1, []int64{20_480, 1}}, {20_480, 1, []int64{20_480}},
		{17, 1 << 20, []int64{16, 1}}, {5, 4<<20 - 1, []int64{5}}, {5, 4 << 20, []int64{4, 1}},
	} {
		got := groups(c.lines, c.bytes)
		if !slices.Equal(got, c.want) {
			t.Errorf("%d lines of %d bytes: row groups of %d, want %d", c.lines, c.bytes, got, c.want)
		}
	}
}

// An ingest that is cancelled ends while it reads a text, and not after it.
func TestReadingEndsWithItsContext(t *testing.T) {
	for mapping, text := range map[string]string{
		csvOfTwo: "a,b\n1,2\n", jsonOfOne: "{}\n", "reads: json; each: a; column: b = $.b": "{}\n",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "source")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := readLines(ctx, fileWork{m: mappingOf(t, mapping), file: file}, filepath.Join(dir, "out"))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", mapping, err)
		}
	}
}

// A JSON decoder gets at most as many bytes as an element may have.
func TestElementsAreBounded(t *testing.T) {
	e := &elementReader{r: strings.NewReader("abcdefgh"), left: 5}
	p := make([]byte, 3)
	for _, want := range []string{"abc", "de"} {
		n, err := e.Read(p)
		if err != nil || string(p[:n]) != want {
			t.Errorf("%q, %v; want %q", p[:n], err, want)
		}
	}
	n, err := e.Read(p)
	if n != 0 || err == nil || err.Error() != "longer than 16 MiB" {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// The separator of CSV is the one that occurs most often in the header, and a comma if two do.
func TestSeparatorsOfCSV(t *testing.T) {
	for header, c := range map[string]struct {
		separator byte
		line      string
		want      []string
	}{
		"a":       {',', "1;2", []string{"1;2"}},
		"a;b,c":   {',', "1;2,3", []string{"1;2", "3"}},
		"a;b;c,d": {';', "1;2,3", []string{"1", "2,3"}},
		"a\tb":    {'\t', "1\t\"2\t3\"", []string{"1", "2\t3"}},
		"a|b|c;d": {'|', "1|\"2\"\"\"", []string{"1", "2\""}},
		"a;b|c":   {';', "1;2|3", []string{"1", "2|3"}},
	} {
		separator, split := csvSplitter(header)
		got, err := split([]byte(c.line))
		if separator != c.separator || err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %q, %v", header, separator, got, err)
		}
	}
}

// Names of columns differ from values: they do not begin with a digit, and only case, blanks and hyphens are
// ignored.
func TestNamesOfColumns(t *testing.T) {
	for field, want := range map[string]bool{
		"src_ip": true, "Src-IP": true, " src ip ": true, "\ufeffsrc_ip": true, "addr": true, "9addr": false,
		"0": false, "": false, "src": false, "src_ip2": false, "add": false, "9": false,
	} {
		if isName(field, []string{"src_ip", "addr", "9addr", "0"}) != want {
			t.Errorf("%q: %v", field, !want)
		}
	}
	m := mappingOf(t, "reads: csv; column: a; needs: a|b c")
	for fields, want := range map[string]bool{
		"a c": true, "b c": true, "C A x": true, "a": false, "c": false, "c x": false, "1 2": false,
	} {
		if m.isHeader(strings.Fields(fields)) != want {
			t.Errorf("%q: %v", fields, !want)
		}
	}
	if mappingOf(t, "reads: csv; column: a").isHeader([]string{"a"}) {
		t.Error("a mapping that needs no column has headers")
	}
	for word, want := range map[string]bool{
		"2026-01-31T09:00:00Z": true, "2026-01-31T09:00:00.5Z": true, "2026-01-31T09:00:00": false,
		"2026-01-31T09:00:0Z": false, "2026-01-31 09:00:00Z": false, "20260131xxT09:00:00Z": false,
	} {
		if isTime(word) != want {
			t.Errorf("%q: %v", word, !want)
		}
	}
}

// Files are compressed if their names end with .gz or .zst, and Parquet by name or by content.
func TestKindsOfFiles(t *testing.T) {
	dir := t.TempDir()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content   string
		text      string // decompressed; empty: it is damaged
		isParquet bool
	}{
		"a.csv":     {"PAR", "PAR", false},
		"b.csv":     {"PAR1", "PAR1", true},
		"c.csv":     {"PAR2", "PAR2", false},
		"d.Parquet": {"x", "x", true},
		"e.csv.GZ":  {string(zipped(t, "text")), "text", false},
		"f.zst":     {string(encoder.EncodeAll([]byte("text"), nil)), "text", false},
		"g.gz":      {"text", "", false},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if isParquet(file) != c.isParquet {
			t.Errorf("%s: Parquet %v", name, !c.isParquet)
		}
		of, err := Digest(t.Context(), "flow file", file)
		if c.text == "" {
			if err == nil || !strings.HasPrefix(err.Error(), "flow file "+file+": damaged: ") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		want := Digests{fmt.Sprintf("%x", sha256.Sum256([]byte(c.text))), xxh3.HashString(c.text)}
		if err != nil || of != want {
			t.Errorf("%s: %v, %v; want %v", name, of, err, want)
		}
	}
	if isParquet(filepath.Join(dir, "none")) {
		t.Error("a file that does not exist is Parquet")
	}
	for name, want := range map[string]string{
		"none": "no such file", "": "is a directory", "\xff": "no such file",
	} {
		_, err := Digest(t.Context(), "flow file", filepath.Join(dir, name))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
	odd := filepath.Join(dir, "\xff")
	if err := os.WriteFile(odd, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Digest(t.Context(), "flow file", odd)
	if err == nil || !strings.Contains(err.Error(), "is not UTF-8 text") {
		t.Error(err)
	}
	_, err = Digest(t.Context(), "flow file", "/dev/null")
	if err == nil || !strings.Contains(err.Error(), "is a pipe or a device") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Digest(ctx, "flow file", filepath.Join(dir, "a.csv"))
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
