package columns

import "slices"

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
