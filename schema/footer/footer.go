// Package footer checks the footer of a Parquet file before a library opens the file.
//
//	PAR1  pages …  FileMetaData  length of FileMetaData (4 bytes)  PAR1
//	               ╰────────── the footer ──────────╯
//
// FileMetaData is in Thrift's compact protocol, which declares the length of each list and text before its
// content. parquet-go and DuckDB allocate memory of the declared length at once: a file of 41 bytes can ask
// for gigabytes. Check walks the footer without allocating memory, and refuses lengths that exceed the rest
// of the footer. The memory that libraries need for a file that passes is proportional to its size.
//
// Code that neither wrote the file nor verified its digest calls Check before parquet-go or DuckDB opens the
// file. The format is apache/parquet-format (parquet.thrift) and the Thrift compact protocol.
package footer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// tailBytes is the length of the footer's own length, and of the magic number that ends the file.
const tailBytes = 8

// magic begins and ends a file. An encrypted footer ends with another one.
const magic, encryptedMagic = "PAR1", "PARE"

// Error describes why a file is not a valid Parquet file.
type Error struct{ Why string }

// Error returns the reason.
func (e *Error) Error() string { return "not a valid Parquet file: " + e.Why }

func fault(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// CheckFile is Check for the file at a path.
func CheckFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := Check(f, info.Size()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Check returns an error for a file of the given size whose footer declares more than it can contain. It
// returns the number of rows that the footer declares. If the footer is not valid, the error is an *Error.
// Other errors are those of reading.
func Check(file io.ReaderAt, size int64) (rows int64, err error) {
	data, err := read(file, size)
	if err != nil {
		return 0, err
	}
	w := walker{rest: data}
	err = w.structure(fileMetaData, 0)
	return w.rows, err
}

// CheckIndex returns an error for a page index that declares more than it can contain. Page indexes are
// structures outside of the footer, in the same protocol.
func CheckIndex(index []byte) error {
	w := walker{rest: index}
	return w.structure(other, 0)
}

// read reads the footer.
func read(file io.ReaderAt, size int64) ([]byte, error) {
	if size < int64(len(magic))+tailBytes {
		return nil, fault("%d bytes are too few", size)
	}
	var tail [tailBytes]byte
	if err := readAt(file, tail[:], size-tailBytes); err != nil {
		return nil, err
	}
	switch string(tail[4:]) {
	case magic:
	case encryptedMagic:
		return nil, fault("its footer is encrypted")
	default:
		return nil, fault("it does not end with %s", magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:4]))
	most := size - tailBytes - int64(len(magic))
	if length > most {
		return nil, fault("a footer of %d bytes in a file of %d", length, size)
	}
	data := make([]byte, length)
	return data, readAt(file, data, size-tailBytes-length)
}

// readAt fills p. A file that was truncated in the meantime has a fault.
func readAt(file io.ReaderAt, p []byte, at int64) error {
	n, err := file.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fault("it ends early")
	}
	return err
}

// A shape has the minimum size of a structure, and those of its fields that are lists of structures with a
// shape. Other structures are not checked. Libraries use hundreds of bytes for each structure of these lists,
// so elements of one byte would take hundreds of times the size of the file.
type shape struct {
	leastBytes int // of an encoded element
	lists      map[int16]*shape
}

// These are the shapes of the lists that make up most of a footer. An element has at least its required
// fields.
var (
	schemaElement = &shape{leastBytes: 4}
	columnChunk   = &shape{leastBytes: 16}
	rowGroup      = &shape{leastBytes: 7, lists: map[int16]*shape{1: columnChunk}}
	keyValue      = &shape{leastBytes: 3}
	fileMetaData  = &shape{lists: map[int16]*shape{2: schemaElement, 4: rowGroup, 5: keyValue}}
	other         = &shape{leastBytes: 1}
)

// Types of the compact protocol.
const (
	typeStop = iota
	typeTrue
	typeFalse
	typeByte
	typeInt16
	typeInt32
	typeInt64
	typeDouble
	typeBinary
	typeList
	typeSet
	typeMap
	typeStruct
)

// maxDepth is the maximum depth of nested structures and lists. Those of Parquet are nested seven deep.
const maxDepth = 32

// A walker reads values of the compact protocol and keeps one of them.
type walker struct {
	rest []byte
	rows int64 // of the file
}

// rowsField is the field of FileMetaData with the number of rows.
const rowsField = 3

// structure skips the fields of a structure.
func (w *walker) structure(s *shape, depth int) error {
	if depth > maxDepth {
		return fault("it is nested too deep")
	}
	id := int16(0)
	for {
		head, err := w.byte()
		if err != nil {
			return err
		}
		kind := head & 15
		if kind == typeStop {
			return nil
		}
		step := head >> 4
		if step > 0 {
			id += int16(step)
		} else {
			n, err := w.varint()
			if err != nil {
				return err
			}
			id = int16(n>>1) ^ -int16(n&1)
		}
		switch {
		case kind == typeList || kind == typeSet:
			of := s.lists[id]
			if of == nil {
				of = other
			}
			err = w.list(of, depth+1)
		case kind == typeInt64 && id == rowsField && s == fileMetaData:
			var n uint64
			n, err = w.varint()
			w.rows = int64(n>>1) ^ -int64(n&1)
		default:
			err = w.value(kind, false, depth+1)
		}
		if err != nil {
			return err
		}
	}
}

// value skips a value. A Boolean is a byte in a list, and part of the head of a field.
func (w *walker) value(kind byte, listed bool, depth int) error {
	if depth > maxDepth {
		return fault("it is nested too deep")
	}
	switch kind {
	case typeTrue, typeFalse:
		if listed {
			return w.skip(1)
		}
		return nil
	case typeByte:
		return w.skip(1)
	case typeInt16, typeInt32, typeInt64:
		_, err := w.varint()
		return err
	case typeDouble:
		return w.skip(8)
	case typeBinary:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case typeList, typeSet:
		return w.list(other, depth+1)
	case typeMap:
		return w.pairs(depth + 1)
	case typeStruct:
		return w.structure(other, depth+1)
	}
	return fault("it has a value of unknown type %d", kind)
}

// list skips a list or set. For each structure at least of.leastBytes must remain, and for any other element
// one byte.
func (w *walker) list(of *shape, depth int) error {
	head, err := w.byte()
	if err != nil {
		return err
	}
	kind := head & 15
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	least := 1
	if kind == typeStruct {
		least = of.leastBytes
	}
	most := uint64(len(w.rest) / max(1, least))
	if n > most {
		return fault("it declares a list of %d elements, and %d bytes are left", n, len(w.rest))
	}
	for range n {
		before := len(w.rest)
		if kind == typeStruct {
			err = w.structure(of, depth+1)
		} else {
			err = w.value(kind, true, depth+1)
		}
		if err != nil {
			return err
		}
		if before-len(w.rest) < least {
			return fault("it has an element of %d bytes, which lacks required fields", before-len(w.rest))
		}
	}
	return nil
}

// pairs skips a map.
func (w *walker) pairs(depth int) error {
	n, err := w.varint()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := w.byte()
	if err != nil {
		return err
	}
	if n > uint64(len(w.rest)/2) {
		return fault("it declares a map of %d pairs, and %d bytes are left", n, len(w.rest))
	}
	for range n {
		if err := w.value(kinds>>4, true, depth+1); err != nil {
			return err
		}
		if err := w.value(kinds&15, true, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) byte() (byte, error) {
	if len(w.rest) == 0 {
		return 0, fault("it ends early")
	}
	b := w.rest[0]
	w.rest = w.rest[1:]
	return b, nil
}

func (w *walker) varint() (uint64, error) {
	x, n := binary.Uvarint(w.rest)
	if n <= 0 {
		return 0, fault("it has a damaged number")
	}
	w.rest = w.rest[n:]
	return x, nil
}

func (w *walker) skip(n uint64) error {
	if n > uint64(len(w.rest)) {
		return fault("it declares %d bytes, and %d are left", n, len(w.rest))
	}
	w.rest = w.rest[n:]
	return nil
}
