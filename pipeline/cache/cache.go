// Package cache stores the results of link cases by the digest of their inputs. If runs share link cases,
// such as those of a scenario and of the same scenario with a failed cable, later runs simulate only the
// cases that differ.
//
//	link case ─► key (linksim.CaseKey) ─► Lookup ─┬─ found: result
//	                                             └─ not found: simulate ─► Store ─► this run's pack
//
// A cache never changes a result, even if it is lost, shared, pruned or damaged. A pack is a file of many
// results:
//
//	pack   := "parsimon case pack 4\n" (header result)*
//	header := key 16, length of the result 8, its xxh3 8, xxh3 of these 32 bytes 8        little-endian
//
// The run that stores a result finds it at once. Other runs find it if they open the cache later. An
// incomplete result at the end of a pack, left by a killed run, is ignored, and so is a result whose bytes
// have changed. The modification time of a pack is the last time at which a run wrote to it or found a result
// in it.
package cache

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/zeebo/xxh3"

	"parsimon/pipeline/lake/disk"
	"parsimon/stages/linksim"
)

const (
	packSuffix  = ".pack"
	packFamily  = "parsimon case pack " // beginning of packs of all versions
	packMagic   = packFamily + "4\n"
	headerBytes = 40

	// packBytes is the size at which a new pack is started, so that pruning can remove old packs.
	packBytes = 64 << 20

	// maxBytes is the maximum size of a cache on disk when it is opened.
	maxBytes = 10 << 30
)

// A Cache is a directory of packs. Several runs and several lakes can share it at the same time.
type Cache struct {
	dir  string
	root disk.Root
	log  zerolog.Logger

	mu      sync.Mutex
	packs   []*pack
	found   map[linksim.CaseKey]entry
	writing *disk.File // the last pack; nil: the next result starts a new pack
	size    int64      // size of that pack
	failed  bool       // writing has failed: nothing more is stored
	damaged int64
}

// A pack stays open after its first lookup.
type pack struct {
	name string
	file io.ReaderAt // nil: not open
	used bool
}

// An entry is the location of a result.
type entry struct {
	pack           *pack
	offset, length int64
	digest         uint64
}

// Open opens the cache in a directory, and creates the directory if it does not exist. If the cache is larger
// than maxBytes, Open removes the results that were least recently used.
func Open(dir string, log zerolog.Logger) (*Cache, error) { return open(dir, maxBytes, log) }

func open(dir string, mostBytes int64, log zerolog.Logger) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	c := &Cache{dir: dir, root: root, log: log, found: map[linksim.CaseKey]entry{}}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err == nil {
		err = c.prune(entries, mostBytes)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache: %w", err), root.Close())
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), packSuffix) || !e.Type().IsRegular() {
			continue
		}
		// Pruned in the meantime.
		if err := c.readHeaders(&pack{name: e.Name()}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn().Err(err).Str("pack", e.Name()).Msg("cache: a pack is damaged and not used from there on")
		}
	}
	return c, nil
}

// openRoot opens the directory of a cache. It rejects a symbolic link, because with a link, a lake from an
// untrusted source could make the cache write outside the lake.
func openRoot(dir string) (disk.Root, error) {
	info, err := os.Lstat(dir)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("%s is a symbolic link: give the directory that it leads to (--cache)", dir)
	}
	var root disk.Root
	if err == nil {
		root, err = disk.OpenRoot(dir)
	}
	if err != nil {
		return root, fmt.Errorf("cache: %w", err)
	}
	return root, nil
}

// readHeaders reads the headers of a pack up to its end or to the first incomplete header.
func (c *Cache) readHeaders(p *pack) error {
	f, err := c.root.Open(p.name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !begins(f, packMagic) {
		return nil // written by another program or version
	}
	c.packs = append(c.packs, p)
	var header [headerBytes]byte
	for at := int64(len(packMagic)); at+headerBytes <= info.Size(); {
		if _, err := f.ReadAt(header[:], at); err != nil {
			return err
		}
		length := binary.LittleEndian.Uint64(header[16:])
		if xxh3.Hash(header[:32]) != binary.LittleEndian.Uint64(header[32:]) {
			return fmt.Errorf("no header of a result at byte %d", at)
		}
		at += headerBytes
		if length > uint64(info.Size()-at) {
			return nil // a run was killed, or is still writing it
		}
		// A result is stored twice if it was damaged the first time, so the later one is used.
		c.found[linksim.CaseKey(header[:16])] = entry{p, at, int64(length), binary.LittleEndian.Uint64(header[24:])}
		at += int64(length)
	}
	return nil
}

// begins reports whether a file begins with a text.
func begins(f io.ReaderAt, text string) bool {
	head := make([]byte, len(text))
	_, err := f.ReadAt(head, 0)
	return err == nil && string(head) == text
}

// Lookup appends the result that is stored under the key to the slice to. It implements linksim.CaseStore.
func (c *Cache) Lookup(key linksim.CaseKey, to []byte) (result []byte, ok bool) {
	c.mu.Lock()
	e, ok := c.found[key]
	if !ok {
		c.mu.Unlock()
		return to, false
	}
	p := e.pack
	if p.file == nil {
		if f, err := c.root.Open(p.name); err == nil { // otherwise it was probably pruned in the meantime
			p.file = f
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
		c.log.Warn().Str("pack", filepath.Join(c.dir, p.name)).
			Msg("cache: a result is damaged; its link case is simulated again, as are others like it")
	}
	if c.found[key] == e {
		delete(c.found, key)
	}
	return to[:was], false
}

// Store stores a result. It implements linksim.CaseStore. If a result cannot be written, the error is logged
// once, and the run continues without storing results.
func (c *Cache) Store(key linksim.CaseKey, result []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.found[key]; c.failed || known { // another worker was faster
		return
	}
	if err := c.write(key, result); err != nil {
		c.failed = true
		c.log.Warn().Err(err).Msg("cache: cannot be written; results are not remembered from here on")
	}
}

func (c *Cache) write(key linksim.CaseKey, result []byte) error {
	if c.writing == nil {
		if err := c.beginPack(); err != nil {
			return err
		}
	}
	digest := xxh3.Hash(result)
	b := make([]byte, 0, headerBytes+len(result))
	b = binary.LittleEndian.AppendUint64(append(b, key[:]...), uint64(len(result)))
	b = binary.LittleEndian.AppendUint64(b, digest)
	b = append(binary.LittleEndian.AppendUint64(b, xxh3.Hash(b)), result...)
	if _, err := c.writing.Write(b); err != nil {
		return err
	}
	c.found[key] = entry{c.packs[len(c.packs)-1], c.size + headerBytes, int64(len(result)), digest}
	c.size += int64(len(b))
	if c.size >= packBytes {
		c.writing = nil
	}
	return nil
}

// beginPack starts a pack with a unique name. The lock on the pack tells pruning that a run is writing it.
func (c *Cache) beginPack() error {
	p := &pack{name: fmt.Sprintf("%016x-%s%s", time.Now().UnixNano(), rand.Text(), packSuffix), used: true}
	f, err := c.root.Create(p.name)
	if err != nil {
		return err
	}
	p.file = f
	c.packs = append(c.packs, p)
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	c.writing = f
	c.size = int64(len(packMagic))
	_, err = f.Write([]byte(packMagic))
	return err
}

// Bytes returns the size of the cache in bytes.
func (c *Cache) Bytes() int64 { return Bytes(c.dir) }

// Bytes returns the size, in bytes, of the cache in a directory. It returns 0 if the directory does not
// exist.
func Bytes(dir string) (sum int64) {
	packs, _ := os.ReadDir(dir)
	for _, p := range packs {
		if info, err := p.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// Close updates the times of the packs that were used. The cache cannot be used afterwards.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, p := range c.packs {
		if f, open := p.file.(io.Closer); open {
			_ = f.Close() // its results are verified when they are read
		}
		if p.used {
			// It may be pruned in the meantime, or belong to another user.
			_ = c.root.Chtimes(p.name, now, now)
		}
	}
	_ = c.root.Close() // nothing is written through it
}

// prune removes the least recently used packs, of any version, until the remaining packs have at most
// mostBytes bytes. It keeps packs that a run is writing, and files of other programs.
func (c *Cache) prune(entries []fs.DirEntry, mostBytes int64) error {
	var packs []fs.FileInfo
	for _, e := range entries {
		// Otherwise it was removed in the meantime, or is not a pack.
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			packs = append(packs, info)
		}
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(b.Name(), a.Name()))
	})
	var bytes int64
	for _, p := range packs {
		bytes += p.Size()
		if bytes <= mostBytes {
			continue
		}
		f, err := c.root.Open(p.Name())
		if err == nil && begins(f, packFamily) &&
			syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			err = c.root.Remove(p.Name())
		}
		if f != nil {
			_ = f.Close() // this releases the lock
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
