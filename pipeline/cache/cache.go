// Package cache keeps the results of link cases, by the digest of what they depend on.
package cache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/zeebo/xxh3"

	"parsimon/stages"
)

// A Cache is a directory of results of link cases, by the digest of everything they depend on. Runs
// share it, also at the same time, and lakes may. It holds packs, files of many results each:
//
//	pack    := "parsimon case pack 2\n" results index trailer
//	index   := (key 16, offset 8, length 8, xxh3 of the result 8) ×        little-endian
//	trailer := entries 8, xxh3 of the index 8, "parsimon case pack 2\n" 21
//
// A pack is written under a name of its own and renamed when it is whole, and never changed again; a
// run that is killed loses the pack it was writing, no more. A result whose bytes are not what was
// stored is not found. A pack's modification time is when a run last found something in it.
type Cache struct {
	dir string
	log zerolog.Logger

	mu      sync.Mutex
	packs   []*pack // by name, which is by age
	found   map[stages.CaseKey]cacheEntry
	writing *packWriter
	failed  bool // to write: nothing more is stored
	damaged int64
}

type cacheEntry struct {
	pack           int32 // in Cache.packs; inWriting: in the pack being written
	offset, length int64
	digest         uint64
}

const inWriting = -1

// A pack is a file of results. Its file is open from the first look into it on.
type pack struct {
	path string
	file *os.File
	used bool
	gone bool
}

const (
	packSuffix   = ".pack"
	packTemp     = "writing-"
	packMagic    = "parsimon case pack 2\n"
	indexEntry   = 40
	trailerBytes = 16 + len(packMagic)

	// packBytes is where a pack ends and the next begins, so that pruning can remove some.
	packBytes = 64 << 20
	// packBuffer is what is held back before it is written.
	packBuffer = 1 << 20
)

// Open opens the cache in a directory, and makes the directory if there is none. Packs that are
// not whole are passed over, and logged.
func Open(dir string, log zerolog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := &Cache{dir: dir, log: log, found: map[stages.CaseKey]cacheEntry{}}
	names, err := packNames(dir)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	for _, name := range names {
		p := &pack{path: filepath.Join(dir, name)}
		if err := c.readIndex(p); err != nil {
			log.Warn().Err(err).Msg("cache: a pack is damaged and not used; parsimon cache prune removes it")
		}
	}
	return c, nil
}

// packNames lists the packs of a cache, oldest first.
func packNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), packSuffix) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// readIndex takes up what a pack holds. A pack that has gone meanwhile is no error.
func (c *Cache) readIndex(p *pack) error {
	index, err := readPackIndex(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	at := int32(len(c.packs))
	c.packs = append(c.packs, p)
	for ; len(index) > 0; index = index[indexEntry:] {
		// What was stored twice was found damaged the first time: the later one stands.
		c.found[stages.CaseKey(index[:16])] = cacheEntry{
			at, int64(binary.LittleEndian.Uint64(index[16:])), int64(binary.LittleEndian.Uint64(index[24:])),
			binary.LittleEndian.Uint64(index[32:]),
		}
	}
	return nil
}

var errPack = errors.New("not a whole pack of results")

// isPack reports whether a file begins as packs do, whole or not.
func isPack(f *os.File) bool {
	head := make([]byte, len(packMagic))
	_, err := f.ReadAt(head, 0)
	return err == nil && string(head) == packMagic
}

func readPackIndex(path string) (index []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	trailer := make([]byte, trailerBytes)
	if size < int64(trailerBytes) {
		return nil, errPack
	}
	if _, err := f.ReadAt(trailer, size-int64(trailerBytes)); err != nil {
		return nil, err
	}
	entries := binary.LittleEndian.Uint64(trailer)
	if !bytes.Equal(trailer[16:], []byte(packMagic)) || entries > uint64(size)/indexEntry {
		return nil, errPack
	}
	results := size - int64(trailerBytes) - int64(entries)*indexEntry
	if results < int64(len(packMagic)) || !isPack(f) {
		return nil, errPack
	}
	index = make([]byte, entries*indexEntry)
	if _, err := f.ReadAt(index, results); err != nil {
		return nil, err
	}
	if xxh3.Hash(index) != binary.LittleEndian.Uint64(trailer[8:]) {
		return nil, errPack
	}
	for i := 0; i < len(index); i += indexEntry {
		offset, length := binary.LittleEndian.Uint64(index[i+16:]), binary.LittleEndian.Uint64(index[i+24:])
		if offset > uint64(results) || length > uint64(results)-offset {
			return nil, errPack
		}
	}
	return index, nil
}

// Lookup appends the result stored under the key to to (stages.CaseStore).
func (c *Cache) Lookup(key stages.CaseKey, to []byte) (result []byte, ok bool) {
	c.mu.Lock()
	e, ok := c.found[key]
	if !ok {
		c.mu.Unlock()
		return to, false
	}
	if e.pack == inWriting {
		defer c.mu.Unlock()
		return c.writing.read(e, to)
	}
	p := c.packs[e.pack]
	if p.file == nil && !p.gone {
		var err error
		if p.file, err = os.Open(p.path); err != nil { // pruned meanwhile, most likely
			p.gone = true
		}
	}
	file := p.file
	p.used = p.used || file != nil
	c.mu.Unlock()
	if file == nil {
		return to, false
	}
	was := len(to)
	to = slices.Grow(to, int(e.length))[:was+int(e.length)]
	_, err := file.ReadAt(to[was:], e.offset)
	if err == nil && xxh3.Hash(to[was:]) == e.digest {
		return to, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.damaged++
	if c.damaged == 1 {
		c.log.Warn().Str("pack", p.path).Msg("cache: a result is damaged; its link case is simulated again, as are others like it")
	}
	if c.found[key] == e {
		delete(c.found, key)
	}
	return to[:was], false
}

// Store takes a result (stages.CaseStore). What cannot be written is logged once; the run goes on
// without storing.
func (c *Cache) Store(key stages.CaseKey, result []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed {
		return
	}
	if _, known := c.found[key]; known { // another worker has been faster
		return
	}
	var err error
	if c.writing == nil {
		c.writing, err = newPackWriter(c.dir)
	}
	if err == nil {
		var e cacheEntry
		if e, err = c.writing.add(key, result); err == nil {
			c.found[key] = e
		}
	}
	if err == nil && c.writing.size >= packBytes {
		err = c.commit()
	}
	if err != nil {
		c.fail(err)
	}
}

// fail gives up storing.
func (c *Cache) fail(err error) {
	c.failed = true
	c.log.Warn().Err(err).Msg("cache: cannot be written; results are not remembered from here on")
	if c.writing != nil {
		for key, e := range c.found {
			if e.pack == inWriting {
				delete(c.found, key)
			}
		}
		c.writing.abandon()
		c.writing = nil
	}
}

// commit makes the pack being written a pack among others.
func (c *Cache) commit() error {
	w := c.writing
	p, err := w.commit()
	if err != nil {
		return err
	}
	c.writing = nil
	at := int32(len(c.packs))
	c.packs = append(c.packs, p)
	for _, key := range w.keys {
		if e := c.found[key]; e.pack == inWriting {
			e.pack = at
			c.found[key] = e
		}
	}
	return nil
}

// Bytes is what the cache's packs take, with the one being written.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum int64
	if c.writing != nil {
		sum = c.writing.size
	}
	for _, p := range c.packs {
		if info, err := os.Stat(p.path); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// Close commits what was stored and says which packs were of use.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing != nil {
		if err := c.commit(); err != nil {
			c.fail(err)
		}
	}
	now := time.Now()
	for _, p := range c.packs {
		if p.file != nil {
			_ = p.file.Close() // it was only read
			p.file = nil
		}
		if p.used {
			_ = os.Chtimes(p.path, now, now) // it may be pruned meanwhile, or not be ours
		}
	}
}

// A packWriter writes a pack.
type packWriter struct {
	dir     string
	file    *os.File
	size    int64  // of the results so far
	pending []byte // their end, not written yet
	keys    []stages.CaseKey
	index   []byte
}

func newPackWriter(dir string) (*packWriter, error) {
	f, err := os.CreateTemp(dir, packTemp+"*")
	if err != nil {
		return nil, err
	}
	// Pruning knows by the lock that somebody is at work on the file.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if _, err := f.WriteString(packMagic); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &packWriter{dir: dir, file: f, size: int64(len(packMagic))}, nil
}

func (w *packWriter) add(key stages.CaseKey, result []byte) (cacheEntry, error) {
	e := cacheEntry{inWriting, w.size, int64(len(result)), xxh3.Hash(result)}
	w.pending = append(w.pending, result...)
	w.size += e.length
	w.keys = append(w.keys, key)
	w.index = append(w.index, key[:]...)
	w.index = binary.LittleEndian.AppendUint64(w.index, uint64(e.offset))
	w.index = binary.LittleEndian.AppendUint64(w.index, uint64(e.length))
	w.index = binary.LittleEndian.AppendUint64(w.index, e.digest)
	if len(w.pending) < packBuffer {
		return e, nil
	}
	return e, w.flush()
}

func (w *packWriter) flush() error {
	_, err := w.file.Write(w.pending)
	w.pending = w.pending[:0]
	return err
}

func (w *packWriter) read(e cacheEntry, to []byte) ([]byte, bool) {
	written := w.size - int64(len(w.pending))
	if e.offset >= written {
		return append(to, w.pending[e.offset-written:e.offset-written+e.length]...), true
	}
	was := len(to)
	to = slices.Grow(to, int(e.length))[:was+int(e.length)]
	if _, err := w.file.ReadAt(to[was:], e.offset); err != nil || xxh3.Hash(to[was:]) != e.digest {
		return to[:was], false
	}
	return to, true
}

func (w *packWriter) commit() (*pack, error) {
	w.pending = append(w.pending, w.index...)
	w.pending = binary.LittleEndian.AppendUint64(w.pending, uint64(len(w.keys)))
	w.pending = binary.LittleEndian.AppendUint64(w.pending, xxh3.Hash(w.index))
	w.pending = append(w.pending, packMagic...)
	if err := w.flush(); err != nil {
		return nil, err
	}
	if err := w.file.Chmod(0o644); err != nil {
		return nil, err
	}
	// The name puts packs in the order in which they were written, and is no other's: it ends as the
	// temporary one does.
	name := fmt.Sprintf("%016x-%s%s", time.Now().UnixNano(), strings.TrimPrefix(filepath.Base(w.file.Name()), packTemp), packSuffix)
	p := &pack{path: filepath.Join(w.dir, name), used: true}
	if err := os.Rename(w.file.Name(), p.path); err != nil {
		return nil, err
	}
	return p, w.file.Close()
}

func (w *packWriter) abandon() {
	_ = w.file.Close() // the error that led here has been reported
	_ = os.Remove(w.file.Name())
}

// A PruneReport says what pruning a cache left and took.
type PruneReport struct {
	Packs, Bytes               int64 // left
	RemovedPacks, RemovedBytes int64
}

// Prune removes the packs of a cache that were of no use for longest, until those left have at
// most so many bytes; and packs that are not whole, and what killed runs were writing.
func Prune(dir string, mostBytes int64) (report PruneReport, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return report, fmt.Errorf("cache: %w", err)
	}
	type file struct {
		path  string
		bytes int64
		used  time.Time
	}
	var packs []file
	remove := func(f file) error {
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		f := file{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()}
		switch {
		case !info.Mode().IsRegular():
		case !ours(f.path): // of another program: a git repository has packs, too
		case strings.HasPrefix(e.Name(), packTemp):
			if abandoned(f.path) {
				if err := remove(f); err != nil {
					return report, err
				}
			}
		case strings.HasSuffix(e.Name(), packSuffix):
			if _, err := readPackIndex(f.path); errors.Is(err, errPack) {
				f.used = time.Unix(0, math.MinInt64) // goes first, and always
			}
			packs = append(packs, f)
		}
	}
	slices.SortFunc(packs, func(a, b file) int {
		return cmp.Or(b.used.Compare(a.used), strings.Compare(b.path, a.path))
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
func ours(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	return isPack(f)
}

// abandoned says whether nobody is writing the file.
func abandoned(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only locked
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
