package cache

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"

	"parsimon/pipeline/lake/disk"
	"parsimon/stages"
)

// A pack is a file of results. Its file is open from the first look into it on.
type pack struct {
	name string
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

// openRoot opens the directory of a cache. A link is refused: a lake from a stranger could lead out of itself by it.
func openRoot(dir string) (disk.Root, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return disk.Root{}, fmt.Errorf("cache: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return disk.Root{}, fmt.Errorf("cache: %s is a symbolic link: give the directory that it leads to (--cache)", dir)
	}
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return root, fmt.Errorf("cache: %w", err)
	}
	return root, nil
}

// packNames lists the packs of a cache, oldest first.
func packNames(root disk.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
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

var errPack = errors.New("not a whole pack of results")

// isPack reports whether a file begins as packs do, whole or not.
func isPack(f io.ReaderAt) bool {
	head := make([]byte, len(packMagic))
	_, err := f.ReadAt(head, 0)
	return err == nil && string(head) == packMagic
}

// readPackIndex reads and checks the index of a pack.
func readPackIndex(root disk.Root, name string) (index []byte, err error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return parsePackIndex(f, info.Size())
}

// parsePackIndex is readPackIndex of a pack of so many bytes.
func parsePackIndex(f io.ReaderAt, size int64) (index []byte, err error) {
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

// A packWriter writes a pack.
type packWriter struct {
	root    disk.Root
	file    *disk.File
	name    string // while it is written
	size    int64  // of the results so far
	pending []byte // their end, not written yet
	keys    []stages.CaseKey
	index   []byte
}

func newPackWriter(root disk.Root) (*packWriter, error) {
	w := &packWriter{root: root, name: packTemp + rand.Text(), size: int64(len(packMagic))}
	f, err := root.Create(w.name)
	if err != nil {
		return nil, err
	}
	w.file = f
	// Pruning knows by the lock that somebody is at work on the file.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close(), root.Remove(w.name))
	}
	if _, err := f.Write([]byte(packMagic)); err != nil {
		return nil, errors.Join(err, f.Close(), root.Remove(w.name))
	}
	return w, nil
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
	// The name puts packs in the order in which they were written, and is no other's: it ends as the
	// temporary one does.
	name := fmt.Sprintf("%016x-%s%s", time.Now().UnixNano(), strings.TrimPrefix(w.name, packTemp), packSuffix)
	p := &pack{name: name, used: true}
	if err := w.root.Rename(w.name, name); err != nil {
		return nil, err
	}
	return p, w.file.Close()
}

func (w *packWriter) abandon() {
	_ = w.file.Close() // the error that led here has been reported
	_ = w.root.Remove(w.name)
}
