package stages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// A hopCell is a row of a table about a flow at a hop.
type hopCell struct {
	link   int32   // below 0: there is no row
	number int32   // of observations: of the encoded blocks in observationIndex; of exact_hops: marked packets
	ns     float64 // what the hop adds; of observations: delay by the hop's case; of exact_hops: wait of the last packet
}

// A hopOfFlow is what is known of a flow at a hop.
type hopOfFlow struct {
	hopCell
	lastNS    int64   // wait of the last packet; 0 for hop 0, whose only wait is the NIC wait
	longestNS int64   // wait of the block with the longest, with Sampler.Limited
	meanNS    float64 // wait, mean over the packets
	marks     int64
}

// A hopIndex finds the rows of a table by flow, of a chunk of flows, and hop.
type hopIndex struct {
	table    string // for errors
	firstRow int64
	hops     []hopCell   // of all flows, those of a flow together
	first    []int32     // by flow of the chunk: its hop 0
	length   []int16     // by flow: hops of its path; 0: it has no row
	flow     []hopOfFlow // that was asked for last
	path     []int32     // its links
}

func (x *hopIndex) begin(table schema.Table, firstRow, flows int64) {
	x.table, x.firstRow, x.hops = table.Name, firstRow, x.hops[:0]
	x.first, x.length = columns.Resize(x.first, int(flows)), columns.Resize(x.length, int(flows))
	clear(x.length)
}

// has reports whether a flow is of the chunk.
func (x *hopIndex) has(row int64) bool {
	return row >= x.firstRow && row-x.firstRow < int64(len(x.length))
}

// usualHops are at most reserved for flows that have not been read.
const usualHops = 8

// reserve makes room for the hops of a flow.
func (x *hopIndex) reserve(f int64, hops int16) {
	x.first[f], x.length[f] = int32(len(x.hops)), hops
	if cap(x.hops)-len(x.hops) < int(hops) { // the flows behind it have about as many
		x.hops = slices.Grow(x.hops, max(int(hops), min(int(hops), usualHops)*(len(x.length)-int(f))))
	}
	for range hops {
		x.hops = append(x.hops, hopCell{link: -1})
	}
}

// add adds what a row says of a flow at a hop, unless the flow is of another chunk. Of several rows it takes the first.
func (x *hopIndex) add(row int64, hop, hops int16, is hopCell) error {
	if !x.has(row) {
		return nil
	}
	f := row - x.firstRow
	if x.length[f] == 0 {
		x.reserve(f, max(0, hops))
	}
	if hop < 0 || hop >= min(hops, x.length[f]) {
		return fmt.Errorf("%s: flow row %d has hop %d, which is not on its path of %d", x.table, row, hop, hops)
	}
	if at := &x.hops[int(x.first[f])+int(hop)]; at.link < 0 {
		*at = is
	}
	return nil
}

// cells returns the rows of a flow by hop, and sets path, valid until the next call. A hop of its path without a row is
// an error.
func (x *hopIndex) cells(f int) ([]hopCell, error) {
	x.path = x.path[:0]
	if x.length[f] == 0 {
		return nil, nil
	}
	hops := x.hops[x.first[f]:][:x.length[f]]
	for h := range hops {
		if hops[h].link >= 0 {
			x.path = append(x.path, hops[h].link)
		}
	}
	if len(x.path) != len(hops) {
		row := x.firstRow + int64(f)
		return nil, fmt.Errorf("%s has %d of the %d hops of flow row %d", x.table, len(x.path), len(hops), row)
	}
	return hops, nil
}

// of is cells with room for more.
func (x *hopIndex) of(f int) ([]hopOfFlow, error) {
	cells, err := x.cells(f)
	x.flow = x.flow[:0]
	for _, c := range cells {
		x.flow = append(x.flow, hopOfFlow{hopCell: c})
	}
	return x.flow, err
}

// observationIndex is a hopIndex with the encoded blocks of table hop_observations.
type observationIndex struct {
	hopIndex
	encoded columns.Arena
}

type observation struct {
	Row      int64  `col:"flow_row"`
	Hop      int16  `col:"hop"`
	Hops     int16  `col:"hops"`
	Link     int32  `col:"link_id"`
	Observed []byte `col:"observed"`
	Delay    int64  `col:"delay_ns"`
}

func (x *observationIndex) read(firstRow, flows int64, in schema.Batches) error {
	x.begin(schema.HopObservations, firstRow, flows)
	x.encoded.Reset()
	n := int32(0)
	return columns.Each(in, func(r *observation) error {
		if !x.has(r.Row) {
			return nil
		}
		x.encoded.Add(r.Observed)
		n++
		return x.add(r.Row, r.Hop, r.Hops, hopCell{r.Link, n - 1, float64(r.Delay)})
	})
}

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

// encodeObservations sets s.observed to the encoded observations of each flow of the current case.
func (s *Simulator) encodeObservations() {
	s.observed.Reset()
	layout, at := s.Params.Layout(), int64(0)
	for _, size := range s.c.SizeBytes {
		n := min(layout.Blocks(s.Params.Packets(size)), int64(len(s.result.Observed))-at)
		s.observed.Bytes = appendBlocks(s.observed.Bytes, s.result.Observed[at:at+n])
		s.observed.Done()
		at += n
	}
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

type observationRows struct {
	rows     []observationRow
	observed columns.Arena // of the rows, in their order
	sorter   sorter
}

func (w *observationRows) reset() {
	w.observed.Reset()
	w.rows = w.rows[:0]
}

func (w *observationRows) add(s *Simulator, link int32, rows []int32) {
	in := s.input.rows
	w.observed.AddArena(&s.observed)
	for k, i := range rows {
		w.rows = append(w.rows, observationRow{in[i].FlowRow, in[i].Hop, in[i].Hops, link, columns.Item(len(w.rows)),
			s.result.FCTNS[k] - s.result.IdealNS[k]})
	}
}

func (w *observationRows) flush(out schema.Sink) error {
	places := w.sorter.byFlow(len(w.rows), func(i int) (int64, int16) { return w.rows[i].FlowRow, w.rows[i].Hop })
	return hopObservations.WriteOrdered(out, w.rows, places, &w.observed)
}

// addFeedback appends the feedback of a flow at a hop, unless all blocks are zero. A reader takes a missing row as zero
// blocks.
func (w *observationRows) addFeedback(link int32, row int64, hop int16, blocks []simkernel.Block) {
	before := len(w.observed.Bytes)
	w.observed.Bytes = appendBlocks(w.observed.Bytes, blocks)
	if len(w.observed.Bytes) == before {
		return
	}
	w.observed.Done()
	w.rows = append(w.rows, observationRow{FlowRow: row, Hop: hop, LinkID: link, Observed: columns.Item(len(w.rows))})
}
