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
func appendWaits(b []byte, blocks []simkernel.Block) []byte {
	for len(blocks) > 0 && blocks[len(blocks)-1] == (simkernel.Block{}) {
		blocks = blocks[:len(blocks)-1]
	}
	for i := range blocks {
		x := &blocks[i]
		head := uint64(x.WaitNS) << 3
		if x.LateNS != 0 {
			head |= 4
		}
		if x.HoldNS != 0 {
			head |= 2
		}
		if x.Marks != 0 || x.Hint != 0 {
			head |= 1
		}
		b = binary.AppendUvarint(b, head)
		if x.LateNS != 0 {
			b = binary.AppendUvarint(b, uint64(x.LateNS))
		}
		if x.HoldNS != 0 {
			b = binary.AppendUvarint(b, uint64(x.HoldNS))
		}
		if head&1 != 0 {
			b = binary.AppendUvarint(b, uint64(x.Hint)<<16|uint64(x.Marks))
		}
	}
	return b
}

var errWaits = errors.New("damaged: what the packets met cannot be read")

// readWaits appends the blocks that b holds.
func readWaits(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
	damaged := false
	next := func(most uint64) uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > most {
			damaged, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		head := next(math.MaxInt32<<3 | 7)
		x := simkernel.Block{WaitNS: int32(head >> 3)}
		if head&4 != 0 {
			x.LateNS = int32(next(math.MaxInt32))
		}
		if head&2 != 0 {
			x.HoldNS = int32(next(math.MaxInt32))
		}
		if head&1 != 0 {
			v := next(math.MaxUint32)
			x.Marks, x.Hint = uint16(v&math.MaxUint16), uint16(v>>16)
		}
		if damaged {
			return blocks, errWaits
		}
		blocks = append(blocks, x)
	}
	return blocks, nil
}

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

func (a *arena) at(i int) []byte {
	from := 0
	if i > 0 {
		from = a.ends[i-1]
	}
	return a.bytes[from:a.ends[i]]
}
