package footer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	A    int64     `parquet:"a,delta"`
	Name string    `parquet:"name,dict,zstd"`
	List []float64 `parquet:"list,optional"`
}

// valid is a file with several row groups, a dictionary, a list and metadata.
func valid(t testing.TB, rows int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.KeyValueMetadata("key", "value"),
		parquet.MaxRowsPerRowGroup(10))
	for i := range rows {
		if _, err := w.Write([]row{{int64(i), fmt.Sprint(i % 7), make([]float64, i%3)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withFooter is a file with no pages and the given footer.
func withFooter(footer []byte) []byte {
	file := append([]byte(magic), footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), magic...)
}

func check(file []byte) error {
	_, err := Check(bytes.NewReader(file), int64(len(file)))
	return err
}

// Files that libraries write pass. A check that refuses one of them would lock users out of their own data.
func TestValidFilesPass(t *testing.T) {
	for _, rows := range []int{0, 1, 10, 1000} {
		file := valid(t, rows)
		if got, err := Check(bytes.NewReader(file), int64(len(file))); err != nil || got != int64(rows) {
			t.Errorf("%d rows: %d, %v", rows, got, err)
		}
	}
}

// A varint as long as those of 64 bits can be.
func varint(x uint64) string { return string(binary.AppendUvarint(nil, x)) }

// Declared lengths that the footer cannot hold are refused, in every kind of value. A library that trusts
// these files would allocate gigabytes.
func TestDeclaredLengths(t *testing.T) {
	const huge = 1<<31 - 1
	cases := map[string]string{
		"list of structures":       "\x15\x02\x19\xfc" + varint(huge),
		"list of texts":            "\x19\xf8" + varint(huge),
		"set of numbers":           "\x1a\xf6" + varint(huge),
		"text":                     "\x18" + varint(huge),
		"text of 2^63 bytes":       "\x18" + varint(1<<63),
		"map":                      "\x1b" + varint(huge) + "\x88",
		"list in a structure":      "\x1c\x19\xf8" + varint(huge),
		"list in a list":           "\x19\x19\xf8" + varint(huge),
		"list of one-byte schemas": "\x29\xfc" + varint(3000) + strings.Repeat("\x00", 3000),
		"one-byte row groups":      "\x49\xfc" + varint(9000) + strings.Repeat("\x00", 9000),
		"number without end":       "\x16" + strings.Repeat("\xff", 11),
		"unknown type":             "\x1d\x00",
		"no end":                   "\x15\x02",
		"nested too deep":          strings.Repeat("\x1c", 100) + strings.Repeat("\x00", 101),
	}
	for name, footer := range cases {
		file := withFooter([]byte(footer + strings.Repeat("\x00", 28)))
		if name == "no end" {
			file = withFooter([]byte(footer))
		}
		var fault *Error
		if err := check(file); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The ends of a file are checked: its length, its magic numbers, the length of the footer, encryption.
func TestTail(t *testing.T) {
	good := valid(t, 5)
	encrypted := append(bytes.Clone(good[:len(good)-4]), encryptedMagic...)
	long := bytes.Clone(good)
	binary.LittleEndian.PutUint32(long[len(long)-8:], uint32(len(long)))
	for want, file := range map[string][]byte{
		"are too few":       []byte("PAR1"),
		"is encrypted":      encrypted,
		"does not end with": good[:len(good)-1],
		"a footer of":       long,
	} {
		if err := check(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The memory that parquet-go needs for a file that passes must be proportional to its size. The test changes
// each byte of a valid footer, one after another.
func TestMemoryIsBounded(t *testing.T) {
	file := valid(t, 30)
	length := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	const most = 4 << 20 // bytes; a valid footer of this size takes about 100 KB
	for at := len(file) - 8 - length; at < len(file)-8; at++ {
		for _, value := range []byte{0, 0x7f, 0xfc, 0xff} {
			damaged := bytes.Clone(file)
			damaged[at] = value
			if check(damaged) != nil {
				continue
			}
			if used := allocated(func() { open(damaged) }); used > most {
				t.Fatalf("byte %d of the footer is %#x: parquet-go takes %d bytes", at, value, used)
			}
		}
	}
}

// open opens a file with parquet-go, which may panic.
func open(file []byte) {
	defer func() { _ = recover() }()
	_, _ = parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzCheck looks for footers that make Check panic, or that pass and make parquet-go allocate far more than
// the file.
func FuzzCheck(f *testing.F) {
	f.Add(valid(f, 12))
	f.Add(withFooter([]byte("\x15\x02\x19\xfc\xff\xff\xff\xff\x07")))
	f.Fuzz(func(t *testing.T, file []byte) {
		if check(file) != nil {
			return
		}
		if used := allocated(func() { open(file) }); used > 1<<20+1000*uint64(len(file)) {
			t.Errorf("parquet-go takes %d bytes for a file of %d", used, len(file))
		}
	})
}
