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

	"github.com/klauspost/compress/zstd"
)

// FindSources lists the files that arguments name: files, all files below directories (hive-partitioned or not; names
// that begin with a dot or an underscore are skipped, as in Hive), and the matches of glob patterns. Each file is
// listed once, in the order of the arguments and of names. An argument without files is an error.
func FindSources(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		found, err := findSource(arg)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if !slices.Contains(files, f) {
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// findSource lists the files that one argument names.
func findSource(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return filesBelow(arg)
	case err == nil:
		return []string{arg}, nil
	case !strings.ContainsAny(arg, "*?["):
		return nil, fmt.Errorf("source: %w", err)
	}
	found, err := filepath.Glob(arg)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", arg, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("source %s: matches no file", arg)
	}
	return FindSources(found)
}

// filesBelow lists the files below a directory. Links to files and directories are followed, each directory once.
func filesBelow(dir string) (files []string, err error) {
	if err := eachFileBelow(dir, map[string]bool{}, &files); err != nil {
		return nil, fmt.Errorf("source %s: %w", dir, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("source %s: has no files", dir)
	}
	return files, nil
}

func eachFileBelow(dir string, seen map[string]bool, files *[]string) error {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil || seen[target] {
		return err
	}
	seen[target] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.IsDir():
			if err := eachFileBelow(path, seen, files); err != nil {
				return err
			}
		default:
			*files = append(*files, path)
		}
	}
	return nil
}

// openText opens a text file for reading, compressed (.gz, .zst) or not.
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

// closeBoth is a decompressed file.
type closeBoth struct {
	io.Reader
	inner func() error
	file  *os.File
}

func (c closeBoth) Close() error { return errors.Join(c.inner(), c.file.Close()) }

// checkFile reports what DuckDB would not report, or not clearly: a missing or empty file, and compressed data that is
// truncated or does not match its checksum.
func checkFile(ctx context.Context, what, file string) error {
	_, err := Digest(ctx, what, file)
	return err
}

// Digest is the SHA-256 of a file's content, decompressed, so that it is the same before and after the file is
// compressed. what names the file in errors: one that is missing or empty, and compressed data that is damaged.
func Digest(ctx context.Context, what, file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if info.IsDir() {
		return "", fmt.Errorf("%s %s: is a directory, want a file", what, file)
	}
	if info.Size() == 0 && info.Mode().IsRegular() {
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

func isGzip(file string) bool { return strings.EqualFold(filepath.Ext(file), ".gz") }
func isZstd(file string) bool { return strings.EqualFold(filepath.Ext(file), ".zst") }

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
