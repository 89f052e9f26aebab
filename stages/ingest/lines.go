package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// textLine is a line of a text file, or an element of a JSON list.
type textLine struct {
	Row    int64  `parquet:"row,delta"`
	Line   string `parquet:"line,snappy"`
	Broken string `parquet:"broken,dict"` // why it cannot be read; empty if it can
}

// Limits of a line.
const (
	maxLine = 16 << 20 // bytes; longer lines are broken
	maxRaw  = 4 << 10  // bytes that are kept of a line that is broken or rejected
)

// lineWriter writes textLines as Parquet.
type lineWriter struct {
	w    *parquet.GenericWriter[textLine]
	rows []textLine
	n    int64
}

// add adds a line. Text that is not UTF-8 makes it broken.
func (w *lineWriter) add(line []byte, broken string) error {
	w.n++
	text := string(line)
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		broken = "broken line: not UTF-8 text"
	}
	if broken != "" && len(text) > maxRaw {
		text = strings.ToValidUTF8(text[:maxRaw], "")
	}
	w.rows = append(w.rows, textLine{w.n, text, broken})
	if len(w.rows) < 4096 {
		return nil
	}
	return w.flush()
}

func (w *lineWriter) flush() error {
	_, err := w.w.Write(w.rows)
	w.rows = w.rows[:0]
	return err
}

// readLines copies the lines of a text file, except for a header and blank lines, to a Parquet file of textLines.
// header has the names of the columns, in lower case, if the file has a header.
func readLines(ctx context.Context, m *Mapping, file, out string) (rows int64, header []string, err error) {
	in, err := openText(file)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = in.Close() }() // read only
	f, err := os.Create(out)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &lineWriter{w: parquet.NewGenericWriter[textLine](f, parquet.MaxRowsPerRowGroup(122_880),
		parquet.DataPageStatistics(false))}
	r := bufio.NewReaderSize(in, 1<<20)
	if m.reads == "json" {
		err = eachElement(ctx, r, w)
	} else {
		header, err = eachLine(ctx, m, r, w)
	}
	if err == nil {
		err = w.flush()
	}
	return w.n, header, errors.Join(err, w.w.Close())
}

// eachLine adds the lines of a text. A first line with the number of rows limits them.
func eachLine(ctx context.Context, m *Mapping, r *bufio.Reader, w *lineWriter) (header []string, err error) {
	first, limit := true, int64(-1)
	var buf []byte // of the line
	for {
		line, long, err := nextLine(r, buf)
		buf = line
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("damaged: %w", err)
		}
		end := err != nil
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 || long {
			taken := false
			switch {
			case first && m.count:
				n, err := strconv.ParseInt(string(trimmed), 10, 64)
				if err != nil || n < 0 {
					return nil, fmt.Errorf("the first line is to be the number of rows, it is %.40q", trimmed)
				}
				limit, taken = n, true
			case first && m.reads == "words":
				header, taken = headerOf(m, trimmed)
			}
			first = false
			broken := ""
			switch {
			case long:
				broken = fmt.Sprintf("broken line: longer than %d MiB", maxLine>>20)
			case limit >= 0 && w.n >= limit:
				broken = afterCount
			}
			if !taken {
				if err := w.add(trimmed, broken); err != nil {
					return nil, err
				}
			}
		}
		if end {
			if limit > w.n {
				return nil, fmt.Errorf("is cut short: the first line says %d rows, there are %d", limit, w.n)
			}
			return header, ctx.Err()
		}
		if w.n%65_536 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// afterCount is why lines beyond the number of rows in the first line are left out, as the program that the file is
// made for does.
const afterCount = "stands after the number of rows that the first line says"

// headerOf returns the names of a header line, which is a line that has a name of the mapping.
func headerOf(m *Mapping, line []byte) (names []string, is bool) {
	for _, word := range strings.Fields(string(line)) {
		name := columnName(word)
		names = append(names, name)
		is = is || slices.ContainsFunc(m.columns, func(c mappingColumn) bool { return c.name == name })
	}
	if !is {
		return nil, false
	}
	return names, true
}

// nextLine reads a line without its end into the memory of another one. Of a line that is too long it returns the
// beginning.
func nextLine(r *bufio.Reader, line []byte) (_ []byte, long bool, err error) {
	line = line[:0]
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
			if len(line) > maxLine {
				line, long = line[:maxRaw], true
			}
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), long, err
	}
}

// eachElement adds JSON lines, or the elements of one JSON list.
func eachElement(ctx context.Context, r *bufio.Reader, w *lineWriter) error {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return ctx.Err()
		}
		if b == ' ' || b == '\t' || b == '\r' || b == '\n' || b == 0xef || b == 0xbb || b == 0xbf {
			continue
		}
		if err := r.UnreadByte(); err != nil {
			return err
		}
		if b != '[' {
			_, err := eachLine(ctx, &Mapping{reads: "json"}, r, w)
			return err
		}
		break
	}
	bounded := &elementReader{r: r, left: maxLine}
	d := json.NewDecoder(bounded)
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not a JSON list: %w", err)
	}
	var element json.RawMessage
	var b bytes.Buffer
	for d.More() {
		bounded.left = maxLine
		if err := d.Decode(&element); err != nil {
			return fmt.Errorf("element %d of the JSON list, byte %d: %w", w.n+1, d.InputOffset(), err)
		}
		b.Reset()
		if err := json.Compact(&b, element); err != nil {
			return fmt.Errorf("element %d of the JSON list: %w", w.n+1, err)
		}
		if err := w.add(b.Bytes(), ""); err != nil {
			return err
		}
		if w.n%65_536 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the JSON list is cut short after element %d: %w", w.n, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the file continues after the JSON list, from byte %d", d.InputOffset())
	}
	return ctx.Err()
}

// An elementReader fails when more than left bytes are read. A JSON decoder keeps all of an element, and of the space
// before it, in memory.
type elementReader struct {
	r    io.Reader
	left int
}

func (e *elementReader) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, fmt.Errorf("longer than %d MiB", maxLine>>20)
	}
	n, err := e.r.Read(p[:min(len(p), e.left)])
	e.left -= n
	return n, err
}
