package columns

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
)

// An arena holds many byte strings, one after the other.
type Arena struct {
	Bytes []byte
	ends  []int
}

func (a *Arena) Reset() { a.Bytes, a.ends = a.Bytes[:0], a.ends[:0] }

func (a *Arena) Add(b []byte) {
	a.Bytes = append(a.Bytes, b...)
	a.ends = append(a.ends, len(a.Bytes))
}

// done ends a string that was appended to a.bytes.
func (a *Arena) Done() { a.ends = append(a.ends, len(a.Bytes)) }

// addAll appends rows from..to of a column.
func (a *Arena) AddAll(column *array.Binary, from, to int) {
	offsets := column.ValueOffsets()
	first, all := offsets[0], column.ValueBytes()
	base := len(a.Bytes) - int(offsets[from]-first)
	a.Bytes = append(a.Bytes, all[offsets[from]-first:offsets[to]-first]...)
	a.ends = slices.Grow(a.ends, to-from)
	for _, o := range offsets[from+1 : to+1] {
		a.ends = append(a.ends, base+int(o-first))
	}
}

func (a *Arena) At(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.Bytes[from:a.ends[i]]
}
