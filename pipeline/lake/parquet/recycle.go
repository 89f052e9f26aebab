package parquet

import (
	"math/bits"
	"sync"
)

// Recycled is where the memory of decoded columns comes from and goes back to: a batch that is released
// leaves its memory to the next, instead of to the garbage collector. It is an Arrow allocator, safe for
// any number of goroutines; memory is not cleared.
var Recycled recycler

type recycler struct {
	bySize [48]sync.Pool // of *[]byte with a capacity of 1 << n
}

// PoisonFreed overwrites memory that is given back. Tests set it to find readers of released batches.
var PoisonFreed bool

// Allocate answers memory of that length.
func (r *recycler) Allocate(size int) []byte {
	if size == 0 {
		return nil
	}
	n := bits.Len(uint(size - 1))
	if b, ok := r.bySize[n].Get().(*[]byte); ok {
		return (*b)[:size]
	}
	return make([]byte, size, 1<<n)
}

// Reallocate answers memory of that length that begins as b does, and frees b.
func (r *recycler) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	more := r.Allocate(size)
	copy(more, b)
	r.Free(b)
	return more
}

// Free takes memory back.
func (r *recycler) Free(b []byte) {
	b = b[:cap(b)]
	if len(b) == 0 || len(b)&(len(b)-1) != 0 {
		return
	}
	if PoisonFreed {
		for i := range b {
			b[i] = 0xdb
		}
	}
	r.bySize[bits.Len(uint(len(b)-1))].Put(&b)
}
