package columns

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Grow returns s with room for n more elements. It doubles the memory, so that growing takes little time.
func Grow[T any](s []T, n int) []T {
	if cap(s)-len(s) < n {
		s = slices.Grow(s, max(n, len(s)))
	}
	return s
}

// Arena holds many byte strings in one allocation, numbered from 0 in the order in which they were added.
// A string is added as a whole (Add), or by appending to Bytes and then calling Done.
type Arena struct {
	Bytes []byte
	ends  []int
}

// Reset removes all strings and keeps the memory.
func (a *Arena) Reset() { a.Bytes, a.ends = a.Bytes[:0], a.ends[:0] }

// Add appends a string.
func (a *Arena) Add(b []byte) {
	a.Bytes = append(a.Bytes, b...)
	a.Done()
}

// Done ends the string that was appended to Bytes.
func (a *Arena) Done() { a.ends = append(a.ends, len(a.Bytes)) }

// AddAll appends rows from..to-1 of a column.
func (a *Arena) AddAll(column *array.Binary, from, to int) {
	offsets := column.ValueOffsets()
	first, all := offsets[0], column.ValueBytes()
	base := len(a.Bytes) - int(offsets[from]-first)
	items := all[offsets[from]-first : offsets[to]-first]
	a.Bytes = append(Grow(a.Bytes, len(items)), items...)
	a.ends = Grow(a.ends, to-from)
	for _, o := range offsets[from+1 : to+1] {
		a.ends = append(a.ends, base+int(o-first))
	}
}

// AddArena appends all strings of another arena.
func (a *Arena) AddArena(b *Arena) {
	base := len(a.Bytes)
	a.Bytes = append(a.Bytes, b.Bytes...)
	for _, end := range b.ends {
		a.ends = append(a.ends, base+end)
	}
}

// At returns string i, valid until the arena changes.
func (a *Arena) At(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.Bytes[from:a.ends[i]]
}

// Binary is reusable memory for columns of byte strings.
type Binary struct {
	ends  []int32
	items []byte
}

// Of returns a column of the arena's strings with the given numbers, valid until Of is called again.
func (c *Binary) Of(a *Arena, places []int32) arrow.Array {
	c.ends, c.items = append(c.ends[:0], 0), c.items[:0]
	for _, i := range places {
		c.items = append(c.items, a.At(int(i))...)
		c.ends = append(c.ends, int32(len(c.items)))
	}
	return ofBytes(arrow.BinaryTypes.Binary, c.ends, c.items)
}
