package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A record is a file of verdicts, one a line. A run that was stopped continues with the mutants that have no
// verdict in it. Killed and invalid mutants keep their verdict while their file is unchanged. Mutants that
// are alive are tried again once any file of their package changes, because it may be a new test.
type record struct {
	file  *os.File // nil if no verdicts are kept
	known map[string]verdict
	texts map[string]string // by path: digests of files and of packages
}

// openRecord opens a record, or creates it. Without a name, it keeps no verdicts.
func openRecord(name string) (*record, error) {
	r := &record{known: map[string]verdict{}, texts: map[string]string{}}
	if name == "" {
		return r, nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if line == "" {
			continue
		}
		number, key, found := strings.Cut(line, "\t")
		v, err := verdictOf(number)
		if err != nil || !found {
			return nil, fmt.Errorf("%s:%d: no verdict: %q", name, i+1, line)
		}
		r.known[key] = v
	}
	r.file, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return r, err
}

func (r *record) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// find returns the verdict of a mutant, if the record has one that still holds.
func (r *record) find(s site) (verdict, bool, error) {
	if r.file == nil {
		return undecided, false, nil
	}
	for _, v := range []verdict{killed, invalid, alive, unseen} {
		key, err := r.key(s, v)
		if err != nil {
			return v, false, err
		}
		if known, ok := r.known[key]; ok && known == v {
			return v, true, nil
		}
	}
	return undecided, false, nil
}

// add writes the verdict of a mutant. Those without a verdict are tried again by the next run.
func (r *record) add(s site, v verdict) error {
	if r.file == nil || v == undecided {
		return nil
	}
	key, err := r.key(s, v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.file, "%s\t%s\n", v.word(), key)
	return err
}

// key names a mutant together with the digest of what its verdict depends on.
func (r *record) key(s site, v verdict) (string, error) {
	of := s.file
	if v == alive || v == unseen {
		of = filepath.Dir(s.file)
	}
	digest, err := r.digest(of)
	name := path.Join(s.pkg, filepath.Base(s.file))
	return fmt.Sprintf("%s:%d:%d: %s -> %s\t%s", name, s.line, s.offset, s.text, s.other, digest), err
}

// digest returns a digest of a file, or of the Go files of a directory.
func (r *record) digest(name string) (string, error) {
	known, ok := r.texts[name]
	if ok {
		return known, nil
	}
	files := []string{name}
	if filepath.Ext(name) != ".go" {
		var err error
		files, err = filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil {
			return "", err
		}
	}
	hash := sha256.New()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		hash.Write([]byte(strconv.Quote(string(text))))
	}
	r.texts[name] = hex.EncodeToString(hash.Sum(nil)[:6])
	return r.texts[name], nil
}
