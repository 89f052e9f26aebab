package ingest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// FindSources lists the files that arguments name: files, all files below directories (hive-partitioned or not; names
// that begin with a dot or an underscore are skipped, as in Hive), and the matches of glob patterns. Each file is
// listed once, in the order of the arguments and of names. An argument without files is an error.
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

// filesOf lists the files that a path or pattern names. Links to files and directories are followed; seen are the
// directories that were read.
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

// Digest is the SHA-256 of a file's content, decompressed, so that it is the same before and after the file is
// compressed. It reports what DuckDB would not, or not clearly: a file that is missing or empty, and compressed data
// that is truncated or does not match its checksum. what names the file in errors.
func Digest(ctx context.Context, what, file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	switch mode := info.Mode(); {
	case !utf8.ValidString(file):
		return "", fmt.Errorf("%s %q: the name of the file is not UTF-8 text", what, file)
	case mode.IsDir():
		return "", fmt.Errorf("%s %s: is a directory, want a file", what, file)
	case !mode.IsRegular():
		return "", fmt.Errorf("%s %s: is a pipe or a device, want a file: it is read more than once", what, file)
	case info.Size() == 0:
		return "", fmt.Errorf("%s %s: is empty", what, file)
	}
	content, err := openText(file)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, file, err)
	}
	defer func() { _ = content.Close() }() // read only
	hash, buf, blank := sha256.New(), make([]byte, 1<<20), true
	for ctx.Err() == nil {
		n, err := content.Read(buf)
		blank = blank && len(bytes.TrimSpace(buf[:n])) == 0
		_, _ = hash.Write(buf[:n]) // it takes everything
		switch {
		case errors.Is(err, io.EOF) && blank:
			return "", fmt.Errorf("%s %s: is empty", what, file)
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(hash.Sum(nil)), nil
		case err != nil:
			return "", fmt.Errorf("%s %s: damaged: %w", what, file, err)
		}
	}
	return "", ctx.Err()
}

// isParquet decides by the name or, for other names, by the first bytes.
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
