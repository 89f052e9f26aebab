package workload

import (
	"errors"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/rng"
)

// flowStream reads the unchanged table and yields, in start order, the flows of one part of the changed one:
//
//	copy 0        all flows that are kept
//	copy k > 0    one service, shifted by a random time; in two streams, because the flows that are shifted
//	              beyond the end of the workload come first:
//
//	              |----------- unchanged -----------|..tail..|
//	              |..tail..|----------- shifted ------------|
type flowStream struct {
	x       *flowChanger
	in      schema.Batches
	copy    int
	service string // if copy > 0
	baseID  int64  // id of the copy of row 0
	shiftNS int64
	cutNS   int64 // flows that start later are the tail
	tail    bool

	rec   arrow.Record
	at    int   // next row of rec
	row   int64 // next row of the table
	ended bool

	// the current flow
	id, startNS, size int64
	src, dst          int32
	label, vnet       string // in the memory of rec
	synthetic         bool   // whether the start is synthetic
}

// streams returns the streams that make up the changed table, without their inputs.
func (x *flowChanger) streams() ([]flowStream, error) {
	streams := []flowStream{{x: x}}
	copies := int64(0)
	for _, service := range slices.Sorted(maps.Keys(x.changes.Scale)) {
		for k := 1; float64(k) < x.changes.Scale[service]; k++ {
			draw := rng.New(rng.MixString(x.seed, service), rng.Change, uint64(k))
			span := uint64(x.lastNS-x.firstNS) + 1
			shift := int64(draw.Uint64() % span)
			base := x.maxID + 1 + copies*x.rows
			if copies++; x.rows > 0 && (math.MaxInt64-x.maxID-1)/x.rows < copies {
				return nil, errors.New("flow ids are so high that no ids are left above them for copies of flows")
			}
			part := flowStream{x: x, copy: k, service: service, baseID: base, shiftNS: shift, cutNS: x.lastNS - shift}
			tail := part
			tail.tail, tail.shiftNS = true, shift-int64(span)
			streams = append(streams, tail, part)
		}
	}
	return streams, nil
}

// next advances to the next flow of the stream.
func (s *flowStream) next() error {
	for {
		if s.rec == nil || s.at == int(s.rec.NumRows()) {
			if s.rec != nil {
				s.rec.Release()
				s.rec, s.at = nil, 0
			}
			rec, err := s.in.Next()
			if errors.Is(err, io.EOF) {
				s.ended = true
				return nil
			}
			if err != nil {
				return err
			}
			s.rec = rec
			continue
		}
		s.at++
		s.row++
		if s.take(s.at-1, s.row-1) {
			return nil
		}
	}
}

// take makes row i of the batch, a row of the table, the current flow. It reports whether the stream has it.
func (s *flowStream) take(i int, row int64) bool {
	service := columns.Text(s.rec, "service").Value(i)
	start, id := columns.Int64s(s.rec, "start_ns")[i], columns.Int64s(s.rec, "flow_id")[i]
	copied := s.copy > 0
	if copied && (service != s.service || (start > s.cutNS) != s.tail) || !s.x.kept(service, id, s.copy) {
		return false
	}
	s.id, s.startNS = id, start+s.shiftNS
	if copied {
		s.id = s.baseID + row
	}
	s.size, s.label, s.vnet = columns.Int64s(s.rec, "size_bytes")[i], service, columns.Text(s.rec, "vnet").Value(i)
	s.synthetic = copied || columns.Named(s.rec, "synthetic_start").(*array.Boolean).Value(i)
	s.src, s.dst = s.x.hostsOf(service, columns.Int32s(s.rec, "src")[i], columns.Int32s(s.rec, "dst")[i])
	return true
}

func (s *flowStream) close() {
	if s.rec != nil {
		s.rec.Release()
	}
	_ = s.in.Close() // errors of reading were returned by next
}

// appendStream appends the current flow of a stream. Its labels are copied, because the batch may be released
// before they are written.
func (b *flowRows) appendStream(s *flowStream) {
	b.id, b.size, b.start = append(b.id, s.id), append(b.size, s.size), append(b.start, s.startNS)
	b.src, b.dst = append(b.src, s.src), append(b.dst, s.dst)
	b.synthetic = append(b.synthetic, s.synthetic)
	b.service, b.vnet = append(b.service, string([]byte(s.label))), append(b.vnet, string([]byte(s.vnet)))
}
