package stages

import (
	"encoding/binary"
	"errors"
	"math"

	"parsimon/simkernel"
)

// What a flow's packets met (simkernel.Block) stands in the lake as one value a flow and hop:
//
//	block := uvarint(WaitNS << 3 | is late << 2 | has hold << 1 | has marks or hint)
//	         [uvarint(LateNS)] [uvarint(HoldNS)] [uvarint(Hint << 16 | Marks)]
//
// block after block; blocks of zeros at the end are left out. A packet that met nothing costs at most
// a byte, a flow that met nothing none.

// appendWaits appends the blocks of one flow at one hop.
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
		if head < 0x80 { // most
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

var errBlocks = errors.New("damaged: what the packets met cannot be read")

// readWaits appends the blocks that b holds.
func readBlocks(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
	for i := 0; i < len(b); {
		var head, late, hold, more uint64
		head, i = uvarint(b, i)
		if head&4 != 0 {
			late, i = uvarint(b, i)
		}
		if head&2 != 0 {
			hold, i = uvarint(b, i)
		}
		if head&1 != 0 {
			more, i = uvarint(b, i)
		}
		if i > len(b) || head > math.MaxInt32<<3|7 || late > math.MaxInt32 || hold > math.MaxInt32 || more > math.MaxUint32 {
			return blocks, errBlocks
		}
		blocks = append(blocks, simkernel.Block{
			WaitNS: int32(head >> 3), UpstreamNS: int32(late), NICWaitNS: int32(hold), Marks: uint16(more & math.MaxUint16), Hint: uint16(more >> 16),
		})
	}
	return blocks, nil
}

// uvarint is the number that begins at b[i] and where it ends: beyond b, if it is damaged.
func uvarint(b []byte, i int) (v uint64, end int) {
	if i < len(b) && b[i] < 0x80 { // most
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
