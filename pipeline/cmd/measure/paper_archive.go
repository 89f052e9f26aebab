package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// archiveFile has the runs of the page and the choice of their draws, one a line. It is part of the
// repository, so that each number of the page can be checked without hours of measurements, and another
// machine continues where this one stopped. DuckDB reads it as a table.
var archiveFile = filepath.Join("datasets", "paper", "runs.jsonl")

// An archivedFile is one line of the archive: a file of the folder of runs.
type archivedFile struct {
	File  string          `json:"file"`
	Value json.RawMessage `json:"value"`
}

// methodIn returns the method that has made a run or a choice of draws.
func methodIn(value json.RawMessage) (method string, err error) {
	var of struct {
		Method string `json:"method"`
	}
	err = json.Unmarshal(value, &of)
	return of.Method, err
}

// unpack writes those files of the archive that the folder of runs lacks and that this method has made, and
// says how many. Errors name the line.
func (p *paper) unpack() {
	data, err := os.ReadFile(archiveFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.fail(err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	unpacked := 0
	for i := 1; lines.Scan() && p.err == nil; i++ {
		written, err := p.unpackLine(lines.Bytes())
		if err != nil {
			p.fail(fmt.Errorf("%s: line %d: %w", archiveFile, i, err))
		}
		if written {
			unpacked++
		}
	}
	if unpacked > 0 {
		fmt.Fprintf(os.Stderr, "paper: %d runs and choices of draws are those of %s; to measure them again, "+
			"remove it and %s\n", unpacked, archiveFile, p.folder)
	}
}

// unpackLine writes the file of a line. It reports false if the folder has this file or another method has
// made it.
func (p *paper) unpackLine(line []byte) (written bool, err error) {
	var f archivedFile
	if err := json.Unmarshal(line, &f); err != nil {
		return false, err
	}
	if f.File != filepath.Base(f.File) || !strings.HasSuffix(f.File, ".json") {
		return false, fmt.Errorf("%q is not the name of a JSON file", f.File)
	}
	method, err := methodIn(f.Value)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.File, err)
	}
	path := filepath.Join(p.folder, f.File)
	_, err = os.Stat(path)
	if method != p.method || !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, renameio.WriteFile(path, f.Value, 0o644)
}

// pack writes the archive from the files that this method has made, in the order of their names.
func (p *paper) pack() {
	files, err := filepath.Glob(filepath.Join(p.folder, "*.json"))
	p.fail(err)
	slices.Sort(files)
	var archive bytes.Buffer
	for _, file := range files {
		var value json.RawMessage
		if !p.readStored(file, &value) {
			return
		}
		method, err := methodIn(value)
		if err != nil {
			p.fail(fmt.Errorf("%s: %w", file, err))
			return
		}
		if method != p.method {
			continue
		}
		line, err := json.Marshal(archivedFile{File: filepath.Base(file), Value: value})
		p.fail(err)
		archive.Write(line)
		archive.WriteByte('\n')
	}
	if p.err == nil {
		p.fail(renameio.WriteFile(archiveFile, archive.Bytes(), 0o644))
	}
}
