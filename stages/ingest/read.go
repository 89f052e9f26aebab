package ingest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

// FindSources lists the files that arguments name: files as they are, all files below directories
// (hive-partitioned or not; what starts with a dot or an underscore is left out, as Hive does) and
// what glob patterns match, each once and in the order of the arguments and names.
func FindSources(args []string) ([]string, error) {
	var files []string
	add := func(f string) {
		if !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err == nil && !info.IsDir():
			add(arg)
			continue
		case err != nil && strings.ContainsAny(arg, "*?["):
			found, err := filepath.Glob(arg)
			if err != nil {
				return nil, fmt.Errorf("source %s: %w", arg, err)
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("source %s: matches no file", arg)
			}
			more, err := FindSources(found)
			if err != nil {
				return nil, err
			}
			for _, f := range more {
				add(f)
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("source: %w", err)
		}
		before := len(files)
		err = filepath.WalkDir(arg, func(path string, e fs.DirEntry, err error) error {
			hidden := path != arg && (strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_"))
			switch {
			case err != nil:
				return err
			case hidden && e.IsDir():
				return fs.SkipDir
			case !hidden && !e.IsDir():
				add(path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("source %s: %w", arg, err)
		}
		if len(files) == before {
			return nil, fmt.Errorf("source %s: holds no file", arg)
		}
	}
	return files, nil
}

// openText opens a file for reading its text, compressed (.gz, .zst) or not.
func openText(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	switch {
	case isGzip(file):
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("damaged: %w", err), f.Close())
		}
		return closeBoth{z, z.Close, f}, nil
	case isZstd(file):
		z, err := zstd.NewReader(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("damaged: %w", err), f.Close())
		}
		return closeBoth{z, func() error { z.Close(); return nil }, f}, nil
	}
	return f, nil
}

type closeBoth struct {
	io.Reader
	inner func() error
	file  *os.File
}

func (c closeBoth) Close() error { return errors.Join(c.inner(), c.file.Close()) }

// checkFlowFile finds what DuckDB would not, or would say badly: no file, an empty one, and
// compressed data that is cut short or does not match its checksum.
func checkFlowFile(ctx context.Context, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("flow file: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("flow file %s: is a directory, want a file", file)
	}
	if info.Size() == 0 {
		return fmt.Errorf("flow file %s: is empty", file)
	}
	content, err := openText(file)
	if err != nil {
		return fmt.Errorf("flow file %s: %w", file, err)
	}
	defer func() { _ = content.Close() }() // it was only read
	buf, blank := make([]byte, 1<<20), true
	for ctx.Err() == nil {
		n, err := content.Read(buf)
		blank = blank && len(bytes.TrimSpace(buf[:n])) == 0
		switch {
		case errors.Is(err, io.EOF) && blank:
			return fmt.Errorf("flow file %s: is empty", file)
		case errors.Is(err, io.EOF), err == nil && !blank && !isGzip(file) && !isZstd(file):
			return nil
		case err != nil:
			return fmt.Errorf("flow file %s: damaged: %w", file, err)
		}
	}
	return ctx.Err()
}

func isGzip(file string) bool { return strings.EqualFold(filepath.Ext(file), ".gz") }
func isZstd(file string) bool { return strings.EqualFold(filepath.Ext(file), ".zst") }

// isParquet goes by the name and, for files that are named otherwise, by the first bytes.
func isParquet(file string) bool {
	if strings.EqualFold(filepath.Ext(file), ".parquet") {
		return true
	}
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "PAR1"
}

// A textLine is a line of a text file, or an element of a JSON list.
type textLine struct {
	Row    int64  `parquet:"row,delta"`
	Line   string `parquet:"line,snappy"`
	Broken string `parquet:"broken,dict"` // why it cannot be read; empty if it can
}

// Limits of a line.
const (
	maxLine = 16 << 20 // bytes; longer ones are broken
	maxRaw  = 4 << 10  // bytes of a line that are kept where it is broken or rejected
)

// A lineWriter writes textLines as Parquet.
type lineWriter struct {
	w    *parquet.GenericWriter[textLine]
	rows []textLine
	n    int64
}

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

// readLines copies the lines of a text file that are no header, and not blank, to a Parquet file of
// textLines. header are the names of the columns, in small letters, if a line says them.
func readLines(ctx context.Context, m *Mapping, file, out string) (rows int64, header []string, err error) {
	in, err := openText(file)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	f, err := os.Create(out)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &lineWriter{w: parquet.NewGenericWriter[textLine](f, parquet.MaxRowsPerRowGroup(122_880), parquet.DataPageStatistics(false))}
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

func eachLine(ctx context.Context, m *Mapping, r *bufio.Reader, w *lineWriter) (header []string, err error) {
	first, limit := true, int64(-1)
	for {
		line, long, err := nextLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("damaged: %w", err)
		}
		end := err != nil
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
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

// afterCount is why lines beyond the number that a file's first line says are left out, as the
// program that the file is for does.
const afterCount = "stands after the number of rows that the first line says"

// headerOf are the names in a header line: one that holds a name the mapping knows.
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

// nextLine reads a line without its end; of one that is too long, only the start.
func nextLine(r *bufio.Reader) (line []byte, long bool, err error) {
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

// eachElement takes JSON lines, or the elements of one list apart.
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
	d := json.NewDecoder(r)
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("not a JSON list: %w", err)
	}
	var element json.RawMessage
	var b bytes.Buffer
	for d.More() {
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
		return fmt.Errorf("something stands behind the JSON list, after byte %d", d.InputOffset())
	}
	return ctx.Err()
}
