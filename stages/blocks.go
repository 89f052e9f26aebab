package stages

import (
	"encoding/binary"
	"errors"
	"math"

	"parsimon/simkernel"
)

// Observations and feedback of one flow at one hop (simkernel.Block) are one binary value in the tables:
//
//	value := block*, without the zero blocks at the end
//	block := uvarint(WaitNS << 3 | hasUpstream << 2 | hasNICWait << 1 | hasMarksOrHint)
//	         [uvarint(UpstreamNS)] [uvarint(NICWaitNS)] [uvarint(Hint << 16 | Marks)]
//
// A zero block takes one byte, a flow that observed nothing takes none.

// appendBlocks appends the encoding of one flow's blocks at one hop.
func appendBlocks(b []byte, blocks []simkernel.Block) []byte {
	for len(blocks) > 0 && blocks[len(blocks)-1] == (simkernel.Block{}) {
		blocks = blocks[:len(blocks)-1]
	}
	for i := range blocks {
		x := &blocks[i]
		head := uint64(x.WaitNS) << 3
		if x.UpstreamNS != 0 {
			head |= 4
		}
		if x.NICWaitNS != 0 {
			head |= 2
		}
		if x.Marks != 0 || x.Hint != 0 {
			head |= 1
		}
		if head < 0x80 { // the common case
			b = append(b, byte(head))
		} else {
			b = binary.AppendUvarint(b, head)
		}
		if x.UpstreamNS != 0 {
			b = binary.AppendUvarint(b, uint64(x.UpstreamNS))
		}
		if x.NICWaitNS != 0 {
			b = binary.AppendUvarint(b, uint64(x.NICWaitNS))
		}
		if head&1 != 0 {
			b = binary.AppendUvarint(b, uint64(x.Hint)<<16|uint64(x.Marks))
		}
	}
	return b
}

var errBlocks = errors.New("damaged: column observed cannot be decoded")

// readBlocks appends the blocks that b encodes. Zero blocks at the end are not restored.
func readBlocks(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
	for i := 0; i < len(b); {
		var head, upstream, nicWait, marks uint64
		head, i = uvarint(b, i)
		if head&4 != 0 {
			upstream, i = uvarint(b, i)
		}
		if head&2 != 0 {
			nicWait, i = uvarint(b, i)
		}
		if head&1 != 0 {
			marks, i = uvarint(b, i)
		}
		if i > len(b) || head > math.MaxInt32<<3|7 || upstream > math.MaxInt32 || nicWait > math.MaxInt32 ||
			marks > math.MaxUint32 {
			return blocks, errBlocks
		}
		blocks = append(blocks, simkernel.Block{
			WaitNS: int32(head >> 3), UpstreamNS: int32(upstream), NICWaitNS: int32(nicWait),
			Marks: uint16(marks & math.MaxUint16), Hint: uint16(marks >> 16),
		})
	}
	return blocks, nil
}

// uvarint decodes the number that begins at b[i] and returns where it ends; beyond b if it is damaged.
func uvarint(b []byte, i int) (v uint64, end int) {
	if i < len(b) && b[i] < 0x80 { // the common case, inlined
		return uint64(b[i]), i + 1
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
