package linksim

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/tables"
)

// Observations and feedback of one flow at one hop (simkernel.Block) are one binary value in the tables:
//
//	value := block*, without the zero blocks at the end
//	block := uvarint(WaitNS << 3 | hasUpstream << 2 | hasNICWait << 1 | hasMore)
//	         [uvarint(UpstreamNS)] [uvarint(NICWaitNS)] [uvarint(Denied << 16 | Marks)]
//
// A zero block takes one byte. A flow without observations takes none.

// AppendBlocks appends the encoding of one flow's blocks at one hop. No case observes negative numbers; their
// encoding is invalid, so ReadBlocks returns an error.
func AppendBlocks(b []byte, blocks []simkernel.Block) []byte {
	blocks = withoutZeros(blocks)
	b = columns.Grow(b, 2*len(blocks))
	for i := range blocks {
		x := &blocks[i]
		head := uint64(uint32(x.WaitNS)) << 3
		more := uint64(x.Denied)<<16 | uint64(x.Marks)
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

// setObserved encodes the observations of each flow of the current case into s.observed, and sets s.share.
// The share is how much the case contributes to the feedback of its flows' other hops: the average over the
// packets of wait / round trip without waits, plus the share of marked packets.
func (s *Simulator) setObserved(rows []int32) {
	s.observed.Reset()
	s.share = 0
	layout := s.Params.Layout()
	left := s.result.Observed
	var sum, all float64
	for _, i := range rows {
		if !s.c.Record {
			s.observed.Done()
			continue
		}
		packets := s.Params.Packets(s.input.rows[i].SizeBytes)
		blocks := left[:layout.Blocks(packets)]
		left = left[len(blocks):]
		blocks = withoutZeros(blocks)
		s.observed.Bytes = AppendBlocks(s.observed.Bytes, blocks)
		s.observed.Done()
		trip := float64(2*s.input.rows[i].PathDelayNS + s.input.paths[i].PathSendNS)
		for b := range blocks {
			o := &blocks[b]
			if o.WaitNS == 0 && o.Marks == 0 {
				continue
			}
			// The conversion prevents compilers from fusing the product and the sum, so that every machine
			// computes the same bits.
			sum += float64(float64(layout.Packets(packets, int64(b)))*float64(o.WaitNS)) +
				float64(trip*float64(bits.OnesCount16(o.Marks)))
		}
		all += float64(float64(packets) * trip)
	}
	if all != 0 {
		s.share = sum / all
	}
}

// withoutZeros returns blocks without the zero blocks at the end.
func withoutZeros(blocks []simkernel.Block) []simkernel.Block {
	n := len(blocks)
	for n > 0 && blocks[n-1] == (simkernel.Block{}) {
		n--
	}
	return blocks[:n]
}

// ErrBlocks is the error of blocks that cannot be decoded.
var ErrBlocks = errors.New("damaged: column observed cannot be decoded")

// blockPiece is the largest number of blocks that memory is allocated for at a time.
const blockPiece = 256

// ReadBlocks appends the blocks that b encodes. It does not restore zero blocks at the end.
func ReadBlocks(blocks []simkernel.Block, b []byte) ([]simkernel.Block, error) {
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
			blocks = columns.Grow(blocks, min(blockPiece, len(b))) // a block takes at least one byte
		}
		if b[0] == 0 { // more than half of the blocks
			blocks = append(blocks, simkernel.Block{})
			b = b[1:]
			continue
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
			x.Marks = uint16(more)
			x.Denied = uint16(more >> 16)
		}
		blocks = append(blocks, x)
	}
	if damaged {
		return blocks, ErrBlocks
	}
	return blocks, nil
}

type observationRows struct {
	whole    bool // hops that observe nothing and have no delay have a row, too
	rows     []tables.Observation
	observed columns.Arena
	sorter   tables.Sorter
}

func (w *observationRows) reset() {
	w.observed.Reset()
	w.rows = w.rows[:0]
}

// add adds what the flows of a link observed.
func (w *observationRows) add(s *Simulator, link int32, rows []int32) {
	in := s.input.rows
	first := w.observed.Len()
	w.observed.AddArena(&s.observed)
	for k, i := range rows {
		delay := s.result.FCTNS[k] - s.result.IdealNS[k]
		if !w.whole && delay == 0 && len(s.observed.At(k)) == 0 {
			continue
		}
		w.rows = append(w.rows, tables.Observation{
			FlowRow: in[i].FlowRow, Hop: in[i].Hop, Hops: in[i].Hops, LinkID: link,
			Observed: columns.Item(first + k), DelayNS: delay,
		})
	}
}

func (w *observationRows) flush(out schema.Sink) error {
	places := w.sorter.ByFlow(len(w.rows), func(i int) (int64, int16) {
		return w.rows[i].FlowRow,
			w.rows[i].Hop
	})
	return tables.HopObservations.WriteOrdered(out, w.rows, places, &w.observed)
}
