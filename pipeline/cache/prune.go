package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"parsimon/pipeline/lake/disk"
)

// A PruneReport says what pruning a cache left and took.
type PruneReport struct {
	Packs, Bytes               int64 // left
	RemovedPacks, RemovedBytes int64
}

// Prune removes the packs of a cache that were of no use for longest, until those left have at
// most so many bytes; and packs that are not whole, and what killed runs were writing.
func Prune(dir string, mostBytes int64) (report PruneReport, err error) {
	root, err := openRoot(dir)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return report, fmt.Errorf("cache: %w", err)
	}
	type file struct {
		name  string
		bytes int64
		used  time.Time
	}
	var packs []file
	remove := func(f file) error {
		if err := root.Remove(f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cache: %w", err)
		}
		report.RemovedPacks++
		report.RemovedBytes += f.bytes
		return nil
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return report, fmt.Errorf("cache: %w", err)
		}
		f := file{e.Name(), info.Size(), info.ModTime()}
		switch {
		case !info.Mode().IsRegular():
		case strings.HasPrefix(f.name, packTemp):
			if abandoned(root, f.name) {
				if err := remove(f); err != nil {
					return report, err
				}
			}
		case !ours(root, f.name): // of another program: a git repository has packs, too
		case strings.HasSuffix(e.Name(), packSuffix):
			if _, err := readPackIndex(root, f.name); errors.Is(err, errPack) {
				f.used = time.Unix(0, math.MinInt64) // goes first, and always
			}
			packs = append(packs, f)
		}
	}
	slices.SortFunc(packs, func(a, b file) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(b.name, a.name))
	})
	for _, f := range packs {
		if report.Bytes+f.bytes > mostBytes || f.used.Equal(time.Unix(0, math.MinInt64)) {
			mostBytes = report.Bytes // older ones do not stay either
			if err := remove(f); err != nil {
				return report, err
			}
			continue
		}
		report.Packs++
		report.Bytes += f.bytes
	}
	return report, nil
}

// ours reports whether a file begins as packs do.
func ours(root disk.Root, name string) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	return isPack(f)
}

// tempName is the name of a pack that is being written.
var tempName = regexp.MustCompile("^" + packTemp + "[A-Z2-7]{26}$")

// abandoned reports whether a file is what a killed run was writing. Who writes holds the file's lock before the file
// begins as packs do; a shorter file is believed to be abandoned after a minute.
func abandoned(root disk.Root, name string) bool {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || !tempName.MatchString(name) {
		return false
	}
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only locked
	if info.Size() < int64(len(packMagic)) {
		return time.Since(info.ModTime()) > time.Minute
	}
	return isPack(f) && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// removeAbandoned removes what killed runs were writing.
func removeAbandoned(root disk.Root) (errs error) {
	for _, name := range listAbandoned(root) {
		if err := root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

func listAbandoned(root disk.Root) []string {
	names, _ := fs.Glob(root.FS(), packTemp+"*") // the pattern is correct
	return slices.DeleteFunc(names, func(name string) bool { return !abandoned(root, name) })
}

// Abandoned lists what killed runs were writing into the cache of a directory, by name. It is empty if there is no
// cache.
func Abandoned(dir string) []string {
	root, err := openRoot(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // only read
	return listAbandoned(root)
}
