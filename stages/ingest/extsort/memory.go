package extsort

import (
	"sync"
	"unsafe"
)

// blockBytes is the number of bytes of a block.
const blockBytes = 16 << 10

// A Memory is the memory of rows of several Sorters. What one of them frees, another one takes: it is in use
// again before garbage is collected. The zero value has no blocks yet.
type Memory struct {
	mu   sync.Mutex
	free [][]uint64 // blocks without rows
}

// takeBlock returns a block for rows.
func takeBlock[T any](m *Memory) []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.free) - 1
	var words []uint64
	if last >= 0 {
		words = m.free[last]
		m.free = m.free[:last]
	} else {
		words = make([]uint64, blockBytes/8)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), rowsOfBlock[T]())[:0]
}

// freeBlock returns a block that takeBlock has returned. Its rows are no longer used.
func freeBlock[T any](m *Memory, block []T) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(block))), blockBytes/8)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, words)
}

// rowsOfBlock returns the number of rows that fit in a block.
func rowsOfBlock[T any]() int { return blockBytes / int(unsafe.Sizeof(*new(T))) }
