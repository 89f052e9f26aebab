package stages

import (
	"encoding/binary"
	"errors"
	"math"

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

// appendBlocks appends the encoding of one flow's blocks at one hop. Negative numbers, which no case observes, are
// encoded as ones that the reader refuses.
func appendBlocks(b []byte, blocks []simkernel.Block) []byte {
	for len(blocks) > 0 && blocks[len(blocks)-1] == (simkernel.Block{}) {
		blocks = blocks[:len(blocks)-1]
	}
	b = columns.Grow(b, 2*len(blocks))
	for i := range blocks {
		x := &blocks[i]
		head, more := uint64(uint32(x.WaitNS))<<3, uint64(x.Denied)<<16|uint64(x.Marks)
		if x.UpstreamNS != 0 {
			head |= 4
		}
		if x.NICWaitNS != 0 {
			head |= 2
		}
		if more != 0 {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		if x.UpstreamNS != 0 {
			b = binary.AppendUvarint(b, uint64(uint32(x.UpstreamNS)))
		}
		if x.NICWaitNS != 0 {
			b = binary.AppendUvarint(b, uint64(uint32(x.NICWaitNS)))
		}
		if more != 0 {
			b = binary.AppendUvarint(b, more)
		}
	}
	return b
}

var errBlocks = errors.New("damaged: column observed cannot be decoded")

// blockPiece is for how many blocks memory is reserved at a time.
const blockPiece = 256

// readBlocks appends the blocks that b encodes. Zero blocks at the end are not restored.
func readBlocks(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
	damaged := false
	number := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			damaged = true
			return 0
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 && !damaged {
		if len(blocks) == cap(blocks) {
			blocks = columns.Grow(blocks, min(blockPiece, len(b))) // a block takes at least a byte
		}
		var x simkernel.Block
		head := number(math.MaxInt32<<3 | 7)
		x.WaitNS = int32(head >> 3)
		if head&4 != 0 {
			x.UpstreamNS = int32(number(math.MaxInt32))
		}
		if head&2 != 0 {
			x.NICWaitNS = int32(number(math.MaxInt32))
		}
		if head&1 != 0 {
			more := number(math.MaxUint32)
			x.Marks, x.Denied = uint16(more), uint16(more>>16)
		}
		blocks = append(blocks, x)
	}
	if damaged {
		return blocks, errBlocks
	}
	return blocks, nil
}
