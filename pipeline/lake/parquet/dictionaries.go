package parquet

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// A column with a dictionary stores the indexes of its texts. parquet-go finds them in a hash table, and takes
// values of 24 bytes. This file gives the Writer the buffer of indexes itself, which takes texts, and finds the
// index of most texts in less time. The files are the same to the byte.
//
//	text ─┬─ that of the row before, or known ─────────→ index
//	      └─ new ─→ parquet.Dictionary.Insert ─────────→ index

// A dictionaryType is the type of a column with a dictionary. It remembers the buffer that the column writer
// creates.
type dictionaryType struct {
	parquet.Type
	buffer *dictionaryBuffer
}

// hasDictionary reports whether a column has a dictionary.
func hasDictionary(f parquet.Field) bool {
	return f.Leaf() && f.Encoding() == encoding.Encoding(&parquet.RLEDictionary)
}

func (t *dictionaryType) NewDictionary(column, values int, data encoding.Values) parquet.Dictionary {
	return indexedDictionary{t.Type.NewDictionary(column, values, data), t}
}

type indexedDictionary struct {
	parquet.Dictionary
	of *dictionaryType
}

func (d indexedDictionary) Type() parquet.Type { return indexType{d.Dictionary.Type(), d.of} }

// An indexType is the type of the indexes into a dictionary.
type indexType struct {
	parquet.Type
	of *dictionaryType
}

func (t indexType) NewColumnBuffer(column, values int) parquet.ColumnBuffer {
	t.of.buffer = &dictionaryBuffer{indexBuffer: newIndexBuffer(t.Type, column)}
	return t.of.buffer
}

// A dictionaryBuffer is the buffer of a column with a dictionary.
type dictionaryBuffer struct {
	indexBuffer

	seen  []bool               // indexes of the texts of a page
	texts map[string]textIndex // of some texts
	last  textIndex            // of the row before
}

// A textIndex is the index of a text.
type textIndex struct {
	text  string
	index int32
}

// maxTexts is the maximum number of texts in dictionaryBuffer.texts.
const maxTexts = 1 << 12

// WriteValues adds rows.
func (b *dictionaryBuffer) WriteValues(values []parquet.Value) (int, error) {
	indexes := b.begin(len(values))
	for i := range values {
		text := values[i].ByteArray()
		indexes[i] = b.ofText(unsafe.String(unsafe.SliceData(text), len(text)))
	}
	return len(values), nil
}

// writeTexts adds rows from..to of a column of texts to the open page. It does not begin another page.
func (b *dictionaryBuffer) writeTexts(texts *array.String, from, to int) {
	indexes := b.begin(to - from)
	for i := range indexes {
		indexes[i] = b.ofText(texts.Value(from + i))
	}
}

// begin adds rows to the open page, and returns the places of their indexes.
func (b *dictionaryBuffer) begin(rows int) []int32 {
	if b.Dictionary().Len() == 0 { // a new row group
		clear(b.texts)
		b.last = textIndex{index: -1}
	}
	return b.add(rows)
}

// ofText returns the index of a text.
func (b *dictionaryBuffer) ofText(text string) int32 {
	if b.last.index >= 0 && text == b.last.text {
		return b.last.index
	}
	found, known := b.texts[text]
	if !known {
		found = textIndex{strings.Clone(text), b.insert(textValue(text))}
		if b.texts == nil {
			b.texts = map[string]textIndex{}
		}
		if len(b.texts) < maxTexts {
			b.texts[found.text] = found
		}
	}
	b.last = found
	return found.index
}

// insert returns the index of a value, which the dictionary may have already.
func (b *dictionaryBuffer) insert(value parquet.Value) int32 {
	var index [1]int32
	b.Dictionary().Insert(index[:], []parquet.Value{value})
	return index[0]
}

// textValue returns a text as a value, which uses its memory.
func textValue(text string) parquet.Value {
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text)))
}

// Page returns the open page.
func (b *dictionaryBuffer) Page() parquet.Page { return dictionaryPage{b.indexBuffer.Page(), b} }

// A dictionaryPage is a page of indexes.
type dictionaryPage struct {
	parquet.Page
	of *dictionaryBuffer
}

// Bounds returns the least and the greatest value. parquet-go compares the texts of all rows. Most texts are
// in several rows, so this compares each text once.
func (p dictionaryPage) Bounds() (least, greatest parquet.Value, ok bool) {
	dictionary := p.of.Dictionary()
	if p.of.Len() == 0 {
		return p.Page.Bounds()
	}
	p.of.seen = slices.Grow(p.of.seen[:0], dictionary.Len())[:dictionary.Len()]
	clear(p.of.seen)
	var different []int32
	data := p.Data()
	for _, index := range data.Int32() {
		if !p.of.seen[index] {
			p.of.seen[index] = true
			different = append(different, index)
		}
	}
	least, greatest = dictionary.Bounds(different)
	return least, greatest, true
}

// An indexBuffer is the buffer of the indexes into a dictionary. It keeps its memory from page to page.
type indexBuffer struct {
	parquet.ColumnBuffer // without indexes
	typ                  parquet.Type
	column               int
	indexes              []int32
}

func newIndexBuffer(t parquet.Type, column int) indexBuffer {
	return indexBuffer{ColumnBuffer: t.NewColumnBuffer(column, 0), typ: t, column: column}
}

// add adds rows, and returns the places of their indexes.
func (b *indexBuffer) add(rows int) []int32 {
	n := len(b.indexes)
	b.indexes = slices.Grow(b.indexes, rows)[:n+rows]
	return b.indexes[n:]
}

// Len returns the number of rows of the open page.
func (b *indexBuffer) Len() int { return len(b.indexes) }

// Size returns the size of the open page in bytes.
func (b *indexBuffer) Size() int64 { return 4 * int64(len(b.indexes)) }

// Reset removes all rows.
func (b *indexBuffer) Reset() { b.indexes = b.indexes[:0] }

// Page returns the open page.
func (b *indexBuffer) Page() parquet.Page {
	return b.typ.NewPage(b.column, len(b.indexes), encoding.Int32Values(b.indexes))
}
