package parquet

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// The differences of a block of numbers are packed in groups. Each group has its own number of bits.
const (
	deltaBlock = 128
	deltaGroup = 32
)

// appendDeltas encodes numbers from 0 to 2^31-1 by their differences (DELTA_BINARY_PACKED). The bytes are
// those of parquet-go, which has vector instructions only for differences of up to 16 bits.
func appendDeltas(to []byte, numbers []int64) []byte {
	to = binary.AppendUvarint(to, deltaBlock)
	to = binary.AppendUvarint(to, deltaBlock/deltaGroup)
	to = binary.AppendUvarint(to, uint64(len(numbers)))
	if len(numbers) == 0 {
		return binary.AppendVarint(to, 0)
	}
	last := numbers[0]
	to = binary.AppendVarint(to, last)
	var block [deltaBlock]int64
	for rest := numbers[1:]; len(rest) > 0; {
		n := min(len(rest), deltaBlock)
		least := int64(math.MaxInt64)
		for i, number := range rest[:n] {
			block[i] = number - last
			least = min(least, block[i])
			last = number
		}
		rest = rest[n:]
		if n < deltaBlock { // parquet-go takes the least difference as if a 0 followed
			least = min(least, -last)
			for i := n; i < deltaBlock; i++ {
				block[i] = least
			}
		}
		to = appendBlock(to, &block, least)
	}
	return to
}

// appendBlock encodes how much the differences of a block exceed the least one, by at most 32 bits.
func appendBlock(to []byte, block *[deltaBlock]int64, least int64) []byte {
	to = binary.AppendVarint(to, least)
	widths := len(to)
	to = append(to, make([]byte, deltaBlock/deltaGroup)...)
	for g := range deltaBlock / deltaGroup {
		group := block[g*deltaGroup:][:deltaGroup]
		all := uint64(0)
		for _, difference := range group {
			all |= uint64(difference - least)
		}
		width := bits.Len64(all)
		to[widths+g] = byte(width)
		to = appendBits(to, group, least, width)
	}
	return to
}

// appendBits packs how much the differences of a group exceed the least one. Each takes width bits.
func appendBits(to []byte, group []int64, least int64, width int) []byte {
	at := len(to)
	to = slices.Grow(to, deltaGroup/8*width)[:at+deltaGroup/8*width]
	packed := uint64(0) // not written yet
	n := 0              // bits of packed, fewer than 32
	for _, difference := range group {
		packed |= uint64(difference-least) << n
		n += width
		if n >= 32 {
			binary.LittleEndian.PutUint32(to[at:], uint32(packed))
			at += 4
			packed >>= 32
			n -= 32
		}
	}
	return to
}
