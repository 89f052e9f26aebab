package stages

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
)

// An arena holds many byte strings, one after the other.
type arena struct {
	bytes []byte
	ends  []int
}

func (a *arena) reset() { a.bytes, a.ends = a.bytes[:0], a.ends[:0] }

func (a *arena) add(b []byte) {
	a.bytes = append(a.bytes, b...)
	a.ends = append(a.ends, len(a.bytes))
}

// done ends a string that was appended to a.bytes.
func (a *arena) done() { a.ends = append(a.ends, len(a.bytes)) }

// addAll appends rows from..to of a column.
func (a *arena) addAll(column *array.Binary, from, to int) {
	offsets := column.ValueOffsets()
	first, all := offsets[0], column.ValueBytes()
	base := len(a.bytes) - int(offsets[from]-first)
	a.bytes = append(a.bytes, all[offsets[from]-first:offsets[to]-first]...)
	a.ends = slices.Grow(a.ends, to-from)
	for _, o := range offsets[from+1 : to+1] {
		a.ends = append(a.ends, base+int(o-first))
	}
}

func (a *arena) at(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.bytes[from:a.ends[i]]
}
