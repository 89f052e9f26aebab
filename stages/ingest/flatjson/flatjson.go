// Package flatjson reads the values of known keys from JSON objects of one line, such as the records of flow
// logs. It reads objects that have one meaning for every JSON parser:
//
//	{"type":"IPFIX","src_addr":"10.0.0.1","bytes":900,"as_path":[64512,64513]}
//	        └ text           └ text                └ unknown keys may have any value
//	                                       └ whole number, as text
//
// It refuses objects with duplicate keys, with escapes or non-ASCII bytes, and with values of known keys
// other than texts, whole numbers and null. They may be valid JSON. A general JSON parser has to read them.
package flatjson

import "bytes"

// A Reader reads objects. It is used by one goroutine at a time.
type Reader struct {
	keys    []key            // the first is none
	numbers map[string]int32 // of keys
	objects uint64           // that were read
	fields  [][]byte
	text    []byte // of the object
	at      int    // in text
}

// A key is a wanted key, or another key that an object had.
type key struct {
	name  string
	place int    // of its value; notWanted: its value is skipped
	seen  uint64 // the last object with this key
	next  int32  // the key after it in an earlier object
}

const notWanted = -1

// These are limits of the keys that are remembered, and of nested values.
const (
	maxKeys     = 1024
	maxKeyBytes = 256
	maxDepth    = 16
)

// NewReader returns a Reader of values. Each value has one or several keys, of which an object may have one.
func NewReader(values [][]string) *Reader {
	r := &Reader{keys: make([]key, 1), numbers: map[string]int32{}, fields: make([][]byte, len(values))}
	for place, keys := range values {
		for _, name := range keys {
			r.addKey(name, place)
		}
	}
	return r
}

func (r *Reader) addKey(name string, place int) int32 {
	n := int32(len(r.keys))
	r.keys = append(r.keys, key{name: name, place: place})
	r.numbers[name] = n
	return n
}

// Read returns the values of an object, as texts. The text is empty if the object has none of the value's
// keys. The texts are parts of the line, valid until the next call. Read reports false for an object that it
// refuses.
func (r *Reader) Read(line []byte) (fields [][]byte, ok bool) {
	clear(r.fields)
	r.objects++
	r.text = line
	r.at = 0
	if !r.take('{') {
		return nil, false
	}
	if r.take('}') {
		return r.fields, r.atEnd()
	}
	for last := int32(0); ; {
		last, ok = r.readKey(last)
		if !ok || !r.take(':') || !r.readValue(r.keys[last].place) {
			return nil, false
		}
		if !r.take(',') {
			return r.fields, r.take('}') && r.atEnd()
		}
	}
}

// readKey reads a key, which follows another one.
func (r *Reader) readKey(last int32) (n int32, ok bool) {
	name, ok := r.quoted()
	if !ok || len(name) > maxKeyBytes {
		return 0, false
	}
	n = r.keys[last].next
	if n == 0 || r.keys[n].name != string(name) {
		var known bool
		n, known = r.numbers[string(name)]
		switch {
		case !known && len(r.keys) == maxKeys:
			return 0, false
		case !known:
			n = r.addKey(string(name), notWanted)
		}
		r.keys[last].next = n
	}
	k := &r.keys[n]
	if k.seen == r.objects {
		return 0, false // twice
	}
	k.seen = r.objects
	return n, true
}

// readValue reads the value at a place, unless it is not wanted.
func (r *Reader) readValue(place int) bool {
	if place == notWanted {
		return r.skip(0)
	}
	r.skipSpace()
	var text []byte
	var ok bool
	switch r.peek() {
	case '"':
		text, ok = r.quoted()
	case 'n':
		return r.literal("null")
	default:
		text, ok = r.digits()
		if ok && (r.peek() == '.' || r.peek() == 'e' || r.peek() == 'E') {
			return false
		}
	}
	if !ok {
		return false
	}
	if len(text) == 0 {
		return true
	}
	if len(r.fields[place]) > 0 {
		return false // another key has the value, too
	}
	r.fields[place] = text
	return true
}

// skip reads a value of any kind within depth lists or objects.
func (r *Reader) skip(depth int) bool {
	r.skipSpace()
	switch r.peek() {
	case '"':
		_, ok := r.quoted()
		return ok
	case 'n':
		return r.literal("null")
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case '[':
		return depth < maxDepth && r.skipNested(depth+1, ']')
	case '{':
		return depth < maxDepth && r.skipNested(depth+1, '}')
	}
	return r.skipNumber()
}

// skipNested reads a list or an object, which ends with the given byte.
func (r *Reader) skipNested(depth int, end byte) bool {
	r.at++
	if r.take(end) {
		return true
	}
	for {
		if end == '}' {
			_, ok := r.quoted()
			if !ok || !r.take(':') {
				return false
			}
		}
		if !r.skip(depth) {
			return false
		}
		if !r.take(',') {
			return r.take(end)
		}
	}
}

// skipNumber reads a number without an exponent.
func (r *Reader) skipNumber() bool {
	if r.peek() == '-' {
		r.at++
	}
	_, ok := r.digits()
	if !ok || r.peek() != '.' {
		return ok && r.peek() != 'e' && r.peek() != 'E'
	}
	from := r.at + 1
	for r.at++; r.at < len(r.text) && isDigit(r.text[r.at]); r.at++ {
	}
	return r.at > from && r.peek() != 'e' && r.peek() != 'E'
}

// maxDigits is the largest number of digits with which all numbers fit 64 bits.
const maxDigits = 19

// digits reads a whole number that is not negative.
func (r *Reader) digits() (text []byte, ok bool) {
	from := r.at
	for r.at < len(r.text) && isDigit(r.text[r.at]) {
		r.at++
	}
	text = r.text[from:r.at]
	return text, len(text) > 0 && len(text) <= maxDigits && (text[0] != '0' || len(text) == 1)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// quoted reads a text.
func (r *Reader) quoted() (text []byte, ok bool) {
	if !r.take('"') {
		return nil, false
	}
	from := r.at
	for i, c := range r.text[from:] {
		if c == '"' {
			r.at = from + i + 1
			return r.text[from : from+i], true
		}
		if c < ' ' || c >= 0x7f || c == '\\' {
			break
		}
	}
	return nil, false
}

func (r *Reader) literal(word string) bool {
	if !bytes.HasPrefix(r.text[r.at:], []byte(word)) {
		return false
	}
	r.at += len(word)
	return true
}

// peek returns the next byte, or 0 at the end.
func (r *Reader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

// take reads a byte, and white space before it. It reports false if another byte is next.
func (r *Reader) take(c byte) bool {
	r.skipSpace()
	if r.peek() != c {
		return false
	}
	r.at++
	return true
}

func (r *Reader) skipSpace() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
}

func (r *Reader) atEnd() bool {
	r.skipSpace()
	return r.at == len(r.text)
}
