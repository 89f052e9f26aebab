package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/zeebo/xxh3"

	"parsimon/schema/names"
	"parsimon/stages/topology"
)

// FindSources lists the files that arguments name: files, all files below directories (hive-partitioned or
// not), and the matches of glob patterns. As in Hive, it skips names that begin with a dot or an underscore.
// Each file is listed once, in the order of the arguments and of names. An argument without files is an
// error.
func FindSources(args []string) (files []string, err error) {
	for _, arg := range args {
		found, err := filesOf(arg, map[string]bool{})
		switch {
		case err != nil:
			return nil, fmt.Errorf("source %s: %w", arg, err)
		case len(found) == 0:
			return nil, fmt.Errorf("source %s: matches no file", arg)
		}
		for _, f := range found {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// filesOf lists the files that a path or pattern names. Links to files and directories are followed. seen has
// the directories that were read.
func filesOf(path string, seen map[string]bool) (files []string, err error) {
	info, err := os.Stat(path)
	var list []string // of paths
	switch {
	case err != nil && strings.ContainsAny(path, "*?["):
		if list, err = filepath.Glob(path); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.IsDir():
		return []string{path}, nil
	default:
		target, err := filepath.EvalSymlinks(path)
		if err != nil || seen[target] {
			return nil, err
		}
		seen[target] = true
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
				list = append(list, filepath.Join(path, e.Name()))
			}
		}
	}
	for _, p := range list {
		below, err := filesOf(p, seen)
		if err != nil {
			return nil, err
		}
		files = append(files, below...)
	}
	return files, nil
}

func openText(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	var z io.ReadCloser
	switch strings.ToLower(filepath.Ext(file)) {
	default:
		return f, nil
	case ".gz":
		z, err = gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	case ".zst":
		var decoder *zstd.Decoder
		if decoder, err = zstd.NewReader(f); err == nil {
			z = decoder.IOReadCloser()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("damaged: %w", err), f.Close())
	}
	return closeBoth{z, f}, nil
}

type closeBoth struct {
	io.ReadCloser
	file *os.File
}

func (c closeBoth) Close() error { return errors.Join(c.ReadCloser.Close(), c.file.Close()) }

// Digests are hashes of the content of a file, decompressed, so that they are the same before and after the
// file is compressed.
type Digests struct {
	SHA256 string
	XXH3   uint64 // cheaper: File and RegularFile compute it of what they read
}

// Digest returns the hashes of a file's content. It reports faults that DuckDB does not report, or not
// clearly: a file that is missing or empty, and compressed data that is truncated or does not match its
// checksum. what names the file in errors.
func Digest(ctx context.Context, what, file string) (of Digests, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return of, fmt.Errorf("%s: %w", what, err)
	}
	switch mode := info.Mode(); {
	case !utf8.ValidString(file):
		return of, fmt.Errorf("%s %q: the name of the file is not UTF-8 text", what, file)
	case mode.IsDir():
		return of, fmt.Errorf("%s %s: is a directory, want a file", what, file)
	case !mode.IsRegular():
		return of, fmt.Errorf("%s %s: is a pipe or a device, want a file: it is read more than once", what, file)
	case info.Size() == 0:
		return of, fmt.Errorf("%s %s: is empty", what, file)
	}
	content, err := openText(file)
	if err != nil {
		return of, fmt.Errorf("%s %s: %w", what, file, err)
	}
	defer func() { _ = content.Close() }() // read only
	secure := sha256.New()
	fast := xxh3.New()
	buf := make([]byte, 1<<20)
	blank := true
	for ctx.Err() == nil {
		n, err := content.Read(buf)
		blank = blank && len(bytes.TrimSpace(buf[:n])) == 0
		_, _ = secure.Write(buf[:n]) // it takes everything
		_, _ = fast.Write(buf[:n])
		switch {
		case errors.Is(err, io.EOF) && blank:
			return of, fmt.Errorf("%s %s: is empty", what, file)
		case errors.Is(err, io.EOF):
			return Digests{hex.EncodeToString(secure.Sum(nil)), fast.Sum64()}, nil
		case err != nil:
			return of, fmt.Errorf("%s %s: damaged: %w", what, file, err)
		}
	}
	return of, ctx.Err()
}

// isParquet reports whether a file is Parquet, by its name or, for other names, by its first bytes.
func isParquet(file string) bool {
	if strings.EqualFold(filepath.Ext(file), ".parquet") {
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // read only
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "PAR1"
}

// textLine is a line of a text file, or an element of a JSON list.
type textLine struct {
	Row    int64  `parquet:"row,delta"`
	Line   string `parquet:"line,snappy"`
	Layout int32  `parquet:"layout,dict"` // number of the header that names the fields
	Broken string `parquet:"broken,dict"` // why it cannot be read; empty if it can
}

// These are the limits of a line.
const (
	maxLine    = 1 << 20  // bytes; longer lines are broken
	maxElement = 16 << 20 // bytes of an element of a JSON list
	maxRaw     = 4 << 10  // bytes that are kept of a line that is broken or rejected
)

// A row group of staged lines has at most stagedRows rows and, except for its last line, at most stagedBytes
// bytes, because each of DuckDB's threads holds one. Up to batchRows lines or batchBytes bytes are collected
// before they are written.
const (
	stagedRows  = 20_480
	stagedBytes = 16 << 20
	batchRows   = 4096
	batchBytes  = 4 << 20
)

// A lineSink takes lines. Flush ends a row group.
type lineSink interface {
	Write(rows []textLine) (int, error)
	Flush() error
	Close() error
}

type lineWriter struct {
	w       lineSink
	rows    []textLine
	n       int64 // all rows
	staged  int64 // rows that were added
	bytes   int   // of rows
	inGroup int   // bytes written to the row group
}

func newLineWriter(f *os.File) *lineWriter {
	return &lineWriter{w: parquet.NewGenericWriter[textLine](f, parquet.MaxRowsPerRowGroup(stagedRows),
		parquet.DataPageStatistics(false))}
}

// add adds a line. If the text is not UTF-8, the line is broken.
func (w *lineWriter) add(line []byte, layout int, broken string) error {
	w.n++
	w.staged++
	text := string(line)
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		broken = "broken line: not UTF-8 text"
	}
	if broken != "" && len(text) > maxRaw {
		text = strings.ToValidUTF8(text[:maxRaw], "")
	}
	return w.put(textLine{w.n, text, int32(layout), broken})
}

// put adds a row.
func (w *lineWriter) put(row textLine) error {
	w.rows = append(w.rows, row)
	w.bytes += len(row.Line)
	if len(w.rows) < batchRows && w.bytes < batchBytes {
		return nil
	}
	return w.flush()
}

func (w *lineWriter) flush() error {
	_, err := w.w.Write(w.rows)
	w.inGroup += w.bytes
	clear(w.rows)
	w.rows = w.rows[:0]
	w.bytes = 0
	if err == nil && w.inGroup >= stagedBytes {
		err = w.w.Flush()
		w.inGroup = 0
	}
	return err
}

// A textFile is a text file staged as textLines.
type textFile struct {
	rows int64 // that are staged
	// the names of the columns in their orders, as the headers have them; nil: it has no header
	layouts [][]string
	openEnd bool   // the last line has no line end: it may have been cut
	xxh3    uint64 // of the text
}

// readLines copies the lines of a text file, except for headers, comments before them, and blank lines, to a
// Parquet file of textLines. There, fieldEnd separates the fields of CSV and of words.
// Regular rows are not copied.
func readLines(ctx context.Context, work fileWork, out string) (text textFile, err error) {
	m := work.m
	content, err := openText(work.file)
	if err != nil {
		return text, err
	}
	defer func() { _ = content.Close() }() // read only
	hash := xxh3.New()
	in := io.TeeReader(topology.UntilDone(ctx, content), hash)
	f, err := os.Create(out)
	if err != nil {
		return text, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newLineWriter(f)
	r := &lineReader{r: bufio.NewReaderSize(in, 1<<20)}
	switch {
	case m.each != nil:
		err = eachLeaf(m.each, r.r, w)
	case m.reads == "json":
		err = objects{w, work.regular}.read(r)
	default:
		p := lineParser{m: m, limit: -1, split: words, separator: ' ', regular: work.regular}
		err = p.read(r, w)
		text.layouts = p.layouts
		text.openEnd = r.openEnd
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in) // what does not belong to the rows
	}
	text.rows = w.staged
	text.xxh3 = hash.Sum64()
	return text, cmp.Or(ctx.Err(), errors.Join(err, w.w.Close()))
}

// A lineParser reads the lines of a text of fields.
type lineParser struct {
	m       *Mapping
	started bool       // a header, a row or the number of rows was read
	rows    bool       // a row was read
	limit   int64      // the number of rows that the first line states; -1: none
	ended   bool       // the line that ends the rows was read
	split   splitter   // of the last header
	layouts [][]string // the headers that differ
	layout  int        // number of the last header
	widths  []int      // numbers of fields that a row may have

	separator byte
	regular   *regularRows // nil: all rows are staged
}

// maxLayouts is the maximum number of different headers of a file.
const maxLayouts = 256

// read adds the rows of a text. A first line with the number of rows limits them.
func (p *lineParser) read(r *lineReader, w *lineWriter) error {
	p.widths = p.m.widths
	if p.widths == nil {
		p.widths = []int{len(p.m.names)}
	}
	for r.next() {
		line := bytes.TrimSpace(r.line)
		if p.m.reads == "csv" && len(line) > 0 { // the first and the last field between tabs may be empty
			line = bytes.Trim(r.line, " ")
		}
		if len(line) == 0 && !r.long || p.isComment(line) {
			continue
		}
		isRow, err := p.begin(r, line)
		if err != nil {
			return err
		}
		if !isRow {
			continue
		}
		taken, err := p.addRegular(r, w, line)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		p.ended = p.ended || p.m.end != "" && string(line) == p.m.end
		broken := ""
		switch {
		case r.long:
			broken = fmt.Sprintf("broken line: longer than %d MiB", maxLine>>20)
		case p.limit >= 0 && w.n >= p.limit:
			broken = afterCount
		default:
			if line, isRow, broken, err = p.fields(line); err != nil {
				return fmt.Errorf("line %d: %w", r.number, err)
			}
		}
		if !isRow {
			continue
		}
		p.rows = true
		if err := w.add(line, p.layout, broken); err != nil {
			return err
		}
	}
	switch {
	case r.err != nil:
		return fmt.Errorf("line %d: damaged: %w", r.number, r.err)
	case p.limit > w.n:
		return fmt.Errorf("is cut short: the first line says %d rows, there are %d", p.limit, w.n)
	}
	return nil
}

// addRegular adds a line as a regular row, and reports whether it is one.
func (p *lineParser) addRegular(r *lineReader, w *lineWriter, line []byte) (taken bool, err error) {
	if p.regular == nil || r.long || p.ended {
		return false, nil
	}
	taken, err = p.regular.addText(p, line, w.n+1)
	if taken {
		p.rows = true
		w.n++
	}
	return taken, err
}

// isComment reports whether a line is a comment: in CSV before the header, and anywhere in a format whose
// headers are marked.
func (p *lineParser) isComment(line []byte) bool {
	if len(line) == 0 || line[0] != '#' {
		return false
	}
	if p.m.mark != "" {
		return !bytes.HasPrefix(line, []byte(p.m.mark))
	}
	return !p.started && p.m.reads == "csv"
}

// begin handles lines that may precede the rows: the number of rows, or a header. It reports whether the line
// is a row.
func (p *lineParser) begin(r *lineReader, line []byte) (isRow bool, err error) {
	marked := p.m.mark != "" && bytes.HasPrefix(line, []byte(p.m.mark))
	if p.started && !marked {
		return true, nil
	}
	p.started = true
	switch {
	case marked:
		return false, p.header(strings.Fields(string(line[len(p.m.mark):])))
	case p.m.count:
		n, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil || n < 0 {
			return false, fmt.Errorf("the first line is to be the number of rows, it is %.40q", line)
		}
		p.limit = n
		return false, nil
	case p.m.reads == "csv":
		if r.long || bytes.IndexByte(line, '\r') >= 0 {
			return false, fmt.Errorf("line %d, the header, has a carriage return or is too long: lines end with LF "+
				"or CR LF",
				r.number)
		}
		p.separator, p.split = csvSplitter(string(line))
		names, err := p.split(line)
		if err != nil {
			return false, fmt.Errorf("line %d, the header: %w", r.number, err)
		}
		return false, p.header(names)
	}
	names := headerOf(p.m, line)
	if names != nil {
		return false, p.header(names)
	}
	return true, nil
}

// header begins rows with the names in a header.
func (p *lineParser) header(names []string) error {
	p.layout = slices.IndexFunc(p.layouts, func(l []string) bool { return slices.Equal(l, names) })
	if p.layout < 0 {
		if len(p.layouts) == 0 && p.rows {
			p.layouts = append(p.layouts, p.m.names)
		}
		p.layout = len(p.layouts)
		p.layouts = append(p.layouts, names)
	}
	p.widths = []int{len(names)}
	p.ended = false
	if p.m.mark != "" {
		p.split = func(line []byte) ([]string, error) { return strings.Split(string(line), "\t"), nil }
	}
	if len(p.layouts) > maxLayouts {
		return fmt.Errorf("has more than %d headers that differ", maxLayouts)
	}
	return nil
}

// fields divides a line for staging, or returns the reason for which it is broken. A line that is a header is
// not a row.
func (p *lineParser) fields(line []byte) (staged []byte, isRow bool, broken string, err error) {
	switch {
	case bytes.IndexByte(line, '\r') >= 0:
		return line, true, "broken line: a carriage return within the line", nil
	case bytes.IndexByte(line, fieldEnd[0]) >= 0:
		return line, true, "broken line: a control character", nil
	}
	list, splitErr := p.split(line)
	switch {
	case splitErr == nil && p.m.isHeader(list):
		return nil, false, "", p.header(list)
	case p.ended:
		return line, true, afterEnd, nil
	case splitErr != nil:
		return line, true, "broken line: " + splitErr.Error(), nil
	}
	if p.m.timed && len(list) > 0 && isTime(list[0]) {
		list = list[1:]
	}
	if !slices.Contains(p.widths, len(list)) {
		counts := names.Of(p.widths, strconv.Itoa)
		return line, true, "broken line: not " + strings.Join(counts, " or ") + " fields", nil
	}
	return []byte(strings.Join(list, fieldEnd)), true, "", nil
}

// isTime reports whether a word is the time that CloudWatch puts before the text of a log event.
func isTime(word string) bool {
	return len(word) >= 20 && word[4] == '-' && word[10] == 'T' && word[len(word)-1] == 'Z'
}

// isHeader reports whether the fields of a line are the names of the columns that the mapping needs.
// Concatenated files have several headers, whose order may differ.
func (m *Mapping) isHeader(fields []string) bool {
	if len(m.needs) == 0 || !slices.ContainsFunc(fields, func(f string) bool { return isName(f, m.needs[0]) }) {
		return false
	}
	has := map[string]bool{}
	for _, f := range fields {
		has[columnName(f)] = true
	}
	return m.missing(has) == nil
}

// isName reports whether a field is one of several names of columns.
func isName(field string, of []string) bool {
	if len(field) == 0 || field[0] >= '0' && field[0] <= '9' {
		return false
	}
	isLong := func(name string) bool { return len(name) <= len(field) } // columnName never lengthens fields
	return slices.ContainsFunc(of, isLong) && slices.Contains(of, columnName(field))
}

// afterCount and afterEnd are the reasons for which lines are omitted, as by the program that the file is
// written for.
const (
	afterCount = "stands after the number of rows that the first line says"
	afterEnd   = "stands after the end of the rows"
)

// headerOf returns the words of a header line, which contains a name of the mapping, or nil for other lines.
func headerOf(m *Mapping, line []byte) []string {
	names := strings.Fields(string(line))
	if !slices.ContainsFunc(names, func(name string) bool {
		return slices.ContainsFunc(m.columns, func(c mappingColumn) bool { return c.name == columnName(name) })
	}) {
		return nil
	}
	return names
}

const fieldEnd = "\x1f"

type splitter func(line []byte) ([]string, error)

func words(line []byte) ([]string, error) { return strings.Fields(string(line)), nil }

// csvSplitter divides lines of CSV at the separator that occurs most often in the header. Fields may be
// quoted, and a quote in them is doubled (RFC 4180). A line end in them is not supported, so that an
// unbalanced quote does not swallow the lines after it.
func csvSplitter(header string) (separator byte, split splitter) {
	at := ","
	for _, c := range []string{";", "\t", "|"} {
		if strings.Count(header, c) > strings.Count(header, at) {
			at = c
		}
	}
	return at[0], func(line []byte) ([]string, error) {
		if bytes.IndexByte(line, '"') < 0 {
			return strings.Split(string(line), at), nil
		}
		r := csv.NewReader(bytes.NewReader(line))
		r.Comma = rune(at[0])
		names, err := r.Read()
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return names, err
	}
}

type lineReader struct {
	r       *bufio.Reader
	line    []byte // without its line end; the beginning of a line that is too long
	long    bool
	number  int64
	openEnd bool   // the last line has no end
	err     error  // but not io.EOF
	memory  []byte // of a line that is not in the buffer of r as a whole
}

// next reads a line. It returns false at the end and after an error.
func (r *lineReader) next() bool {
	r.line = nil
	r.long = false
	if r.err != nil || r.openEnd {
		return false
	}
	part, err := r.r.ReadSlice('\n')
	if err == nil {
		r.line = part
	} else if !r.join(part, err) {
		return false
	}
	r.number++
	r.line = bytes.TrimSuffix(bytes.TrimSuffix(r.line, []byte("\n")), []byte("\r"))
	if r.number == 1 {
		r.line = bytes.TrimPrefix(r.line, []byte("\ufeff"))
	}
	return true
}

// join reads the rest of a line that begins with a part, after which there was an error. It returns false at
// the end and after an error.
func (r *lineReader) join(part []byte, err error) bool {
	r.memory = r.memory[:0]
	for {
		if !r.long {
			r.memory = append(r.memory, part...)
			if len(r.memory) > maxLine {
				r.memory = r.memory[:maxRaw]
				r.long = true
			}
		}
		r.line = r.memory
		switch {
		case err == nil:
			return true
		case errors.Is(err, io.EOF):
			r.openEnd = len(r.line) > 0
			return r.openEnd
		case !errors.Is(err, bufio.ErrBufferFull):
			r.err = err
			return false
		}
		part, err = r.r.ReadSlice('\n')
	}
}

// objects are the JSON objects of a file: lines, or the elements of one list.
type objects struct {
	w       *lineWriter
	regular *regularRows // nil: all of them are staged
}

// add adds an object. broken is why it cannot be read; empty if it can.
func (o objects) add(line []byte, broken string) error {
	if o.regular != nil && broken == "" {
		taken, err := o.regular.addObject(line, o.w.n+1)
		if err != nil {
			return err
		}
		if taken {
			o.w.n++
			return nil
		}
	}
	return o.w.add(line, 0, broken)
}

// read adds the objects of a file.
func (o objects) read(lines *lineReader) error {
	w := o.w
	first, err := firstByte(lines.r)
	if err != nil {
		return err
	}
	if first != '[' {
		return o.readLines(lines)
	}
	bounded := &elementReader{r: lines.r, left: maxElement}
	d := json.NewDecoder(bounded)
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not a JSON list: %w", err)
	}
	var element json.RawMessage
	var b bytes.Buffer
	for d.More() {
		bounded.left = maxElement
		if err := d.Decode(&element); err != nil {
			return fmt.Errorf("element %d of the JSON list, byte %d: %w", w.n+1, d.InputOffset(), err)
		}
		b.Reset()
		if err := json.Compact(&b, element); err != nil {
			return fmt.Errorf("element %d of the JSON list: %w", w.n+1, err)
		}
		if err := o.add(b.Bytes(), ""); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the JSON list is cut short after element %d: %w", w.n, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the file continues after the JSON list, from byte %d", d.InputOffset())
	}
	return nil
}

// firstByte returns the first byte that is not white space or part of a byte order mark, without consuming
// it. It returns 0 at the end.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("damaged: %w", err)
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) && b != 0xef && b != 0xbb && b != 0xbf {
			return b, r.UnreadByte()
		}
	}
}

// readLines adds the lines of a text.
func (o objects) readLines(r *lineReader) error {
	for r.next() {
		line := bytes.TrimSpace(r.line)
		broken := ""
		if len(line) == 0 && !r.long {
			continue
		}
		if r.long {
			broken = fmt.Sprintf("broken line: longer than %d MiB", maxLine>>20)
		}
		if err := o.add(line, broken); err != nil {
			return err
		}
	}
	if r.err != nil {
		return fmt.Errorf("line %d: damaged: %w", r.number, r.err)
	}
	return nil
}

// An elementReader returns an error when the given number of bytes has been read. A JSON decoder keeps a
// whole element, and the white space before it, in memory.
type elementReader struct {
	r    io.Reader
	left int
}

func (e *elementReader) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, fmt.Errorf("longer than %d MiB", maxElement>>20)
	}
	n, err := e.r.Read(p[:min(len(p), e.left)])
	e.left -= n
	return n, err
}
