// Package cache keeps the results of link cases, by the digest of what they depend on. Runs with the same link cases,
// such as a scenario and the same one with a failed cable, then simulate only what differs.
//
//	link case ─► key (stages.CaseKey) ─► Lookup ─┬─ found: result
//	                                             └─ not found: simulate ─► Store ─► pack being written ─► packs
//
// A cache never changes a result: it may be lost, shared, pruned or damaged. cache.go has the index and the format of
// packs, pack.go their files, prune.go their removal.
package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/zeebo/xxh3"

	"parsimon/pipeline/lake/disk"
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
	dir  string
	root disk.Root
	log  zerolog.Logger

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

// Open opens the cache in a directory, and makes the directory if there is none. What killed runs were
// writing is removed. Packs that are not whole are passed over, and logged.
func Open(dir string, log zerolog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Cache{dir: dir, root: root, log: log, found: map[stages.CaseKey]cacheEntry{}}
	if err := removeAbandoned(root); err != nil {
		log.Warn().Err(err).Msg("cache: what a killed run was writing cannot be removed")
	}
	names, err := packNames(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache: %w", err), root.Close())
	}
	for _, name := range names {
		p := &pack{name: name}
		if err := c.readIndex(p); err != nil {
			log.Warn().Err(err).Msg("cache: a pack is damaged and not used; parsimon cache prune removes it")
		}
	}
	return c, nil
}

// readIndex takes up what a pack holds. A pack that has gone meanwhile is no error.
func (c *Cache) readIndex(p *pack) error {
	index, err := readPackIndex(c.root, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.dir, p.name), err)
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
		if p.file, err = c.root.Open(p.name); err != nil { // pruned meanwhile, most likely
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
		c.log.Warn().Str("pack", filepath.Join(c.dir, p.name)).Msg("cache: a result is damaged; its link case is simulated again, as are others like it")
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
		c.writing, err = newPackWriter(c.root)
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
		if info, err := c.root.Stat(p.name); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// Close commits what was stored and says which packs were of use. The cache cannot be used afterwards.
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
			_ = c.root.Chtimes(p.name, now, now) // it may be pruned meanwhile, or not be ours
		}
	}
	_ = c.root.Close() // nothing is written through it
}
