package stages

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// Observations and feedback of one flow at one hop (simkernel.Block) are one binary value in the tables:
//
//	value := block*, without the zero blocks at the end
//	block := uvarint(WaitNS << 3 | hasUpstream << 2 | hasNICWait << 1 | hasMore)
//	         [uvarint(UpstreamNS)] [uvarint(NICWaitNS)] [uvarint(Denied << 16 | Marks)]
//
// A zero block takes one byte, a flow that observed nothing takes none.

const (
	maxBlockBytes = 20  // the longest encoding of a block: four numbers of up to 5 bytes
	blockPiece    = 256 // blocks for which memory is reserved at a time
)

// appendBlocks appends the encoding of one flow's blocks at one hop.
func appendBlocks(b []byte, blocks []simkernel.Block) []byte {
	for len(blocks) > 0 && blocks[len(blocks)-1] == (simkernel.Block{}) {
		blocks = blocks[:len(blocks)-1]
	}
	for piece := range slices.Chunk(blocks, blockPiece) {
		b = columns.Grow(b, maxBlockBytes*len(piece))
		b = b[:putBlocks(b[:cap(b)], len(b), piece)]
	}
	return b
}

// putBlocks writes the encoding of blocks at b[n] and returns where it ends. Negative numbers, which no case observes,
// are encoded as ones that the reader refuses.
func putBlocks(b []byte, n int, blocks []simkernel.Block) int {
	for i := range blocks {
		x := &blocks[i]
		head := uint64(uint32(x.WaitNS)) << 3
		if x.UpstreamNS != 0 {
			head |= 4
		}
		if x.NICWaitNS != 0 {
			head |= 2
		}
		if x.Marks != 0 || x.Denied != 0 {
			head |= 1
		}
		n = putUvarint(b, n, head)
		if head&7 == 0 {
			continue
		}
		if head&4 != 0 {
			n = putUvarint(b, n, uint64(uint32(x.UpstreamNS)))
		}
		if head&2 != 0 {
			n = putUvarint(b, n, uint64(uint32(x.NICWaitNS)))
		}
		if head&1 != 0 {
			n = putUvarint(b, n, uint64(x.Denied)<<16|uint64(x.Marks))
		}
	}
	return n
}

// putUvarint writes a number at b[n] and returns where it ends.
func putUvarint(b []byte, n int, v uint64) int {
	for v >= 0x80 {
		b[n] = byte(v) | 0x80
		v >>= 7
		n++
	}
	b[n] = byte(v)
	return n + 1
}

var errBlocks = errors.New("damaged: column observed cannot be decoded")

// readBlocks appends the blocks that b encodes. Zero blocks at the end are not restored.
func readBlocks(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
	n := len(blocks)
	for i := 0; i < len(b); n++ {
		if n == len(blocks) {
			piece := min(blockPiece, len(b)-i) // a block takes at least a byte
			blocks = columns.Grow(blocks, piece)[:n+piece]
		}
		x := &blocks[n]
		*x = simkernel.Block{}
		if b[i] == 0 {
			i++
			continue
		}
		var head, more uint64
		head, i = uvarint(b, i)
		damaged := head > math.MaxInt32<<3|7
		x.WaitNS = int32(head >> 3)
		if head&7 != 0 {
			if head&4 != 0 {
				more, i = uvarint(b, i)
				damaged = damaged || more > math.MaxInt32
				x.UpstreamNS = int32(more)
			}
			if head&2 != 0 {
				more, i = uvarint(b, i)
				damaged = damaged || more > math.MaxInt32
				x.NICWaitNS = int32(more)
			}
			if head&1 != 0 {
				more, i = uvarint(b, i)
				damaged = damaged || more > math.MaxUint32
				x.Marks, x.Denied = uint16(more), uint16(more>>16)
			}
		}
		if damaged || i > len(b) {
			return blocks[:n], errBlocks
		}
	}
	return blocks[:n], nil
}

// uvarint decodes the number that begins at b[i] and returns where it ends; beyond b if it is damaged.
func uvarint(b []byte, i int) (v uint64, end int) {
	if i+4 > len(b) {
		return longUvarint(b, i)
	}
	switch w := uint64(binary.LittleEndian.Uint32(b[i:])); { // the common lengths
	case w&0x80 == 0:
		return w & 0x7f, i + 1
	case w&0x8000 == 0:
		return w&0x7f | w>>1&0x3f80, i + 2
	case w&0x800000 == 0:
		return w&0x7f | w>>1&0x3f80 | w>>2&0x1fc000, i + 3
	}
	return longUvarint(b, i)
}

func longUvarint(b []byte, i int) (v uint64, end int) {
	if i < len(b) {
		if v, n := binary.Uvarint(b[i:]); n > 0 {
			return v, i + n
		}
	}
	return 0, len(b) + 1
}
