package workload

import (
	"errors"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

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
	view  RowView // of rec
	at    int     // next row of rec
	row   int64   // next row of the table
	ended bool
	flow  Row // the current flow; labels in the memory of rec
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
			columns.ViewOf(rec, &s.view)
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
	v, copied := &s.view, s.copy > 0
	service, start, id := v.Service.Value(i), v.StartNS[i], v.ID[i]
	if copied && (service != s.service || (start > s.cutNS) != s.tail) || !s.x.kept(service, id, s.copy) {
		return false
	}
	if copied {
		id = s.baseID + row
	}
	src, dst := s.x.hostsOf(service, v.Src[i], v.Dst[i])
	synthetic := copied || v.Synthetic.Value(i)
	s.flow = Row{id, src, dst, v.SizeBytes[i], start + s.shiftNS, service, v.VNet.Value(i), synthetic}
	return true
}

func (s *flowStream) close() {
	if s.rec != nil {
		s.rec.Release()
	}
	_ = s.in.Close() // errors of reading were returned by next
}
