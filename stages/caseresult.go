package stages

import (
	"encoding/binary"
	"errors"
	"slices"

	"parsimon/simkernel/linkcase"
)

// A stored result of a link case:
//
//	result   := counters time* observations*
//	counters := uvarint × 6      MaxQueueAtNS relative to the first start; 0 if nothing was queued
//	time     := uvarint(ideal) uvarint(fct - ideal) uvarint(wait)      by flow; only fct - ideal without hasTimes
//	observations := uvarint(length) block*      by flow, if the case records them; encoded as in blocks.go

// hasTimes reports whether the results of the current case have FCTs, ideal FCTs and waits. Of a case that records
// observations only a host's uplink does: of the others, the difference of the FCTs is used.
func (s *Simulator) hasTimes() bool { return !s.c.Record || s.c.Kind == linkcase.FirstHop }

// encodeResult appends s.result.
func (s *Simulator) encodeResult(b []byte) []byte {
	r, c := &s.result, &s.c
	maxQueueAt := int64(0)
	if r.MaxQueueBytes > 0 {
		maxQueueAt = r.MaxQueueAtNS - c.StartNS[0]
	}
	for _, x := range []int64{r.PacketsSent, r.PacketsMarked, r.BusyNS, r.MaxQueueBytes, maxQueueAt, r.WaitSumNS} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	times := s.hasTimes()
	for i, fct := range r.FCTNS {
		if times {
			b = binary.AppendUvarint(b, uint64(r.IdealNS[i]))
		}
		b = binary.AppendUvarint(b, uint64(fct-r.IdealNS[i]))
		if times {
			b = binary.AppendUvarint(b, uint64(r.WaitNS[i]))
		}
	}
	if c.Record {
		s.encodeObservations()
		for i := range c.SizeBytes {
			observed := s.observed.At(i)
			b = binary.AppendUvarint(b, uint64(len(observed)))
			b = append(b, observed...)
		}
	}
	return b
}

// encodeObservations sets s.observed to the encoded observations of each flow of the current case, once.
func (s *Simulator) encodeObservations() {
	if s.encoded {
		return
	}
	s.encoded = true
	s.observed.Reset()
	layout, at := s.params.Layout(), int64(0)
	for _, size := range s.c.SizeBytes {
		n := min(layout.Blocks(s.params.Packets(size)), int64(len(s.result.Observed))-at)
		s.observed.Bytes = appendBlocks(s.observed.Bytes, s.result.Observed[at:at+n])
		s.observed.Done()
		at += n
	}
}

var errResult = errors.New("not the result of this link case")

// resultReader decodes numbers until the first error.
type resultReader struct {
	b      []byte
	failed bool
}

func (r *resultReader) next() int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

// decodeResult sets s.result to what b encodes. Bytes that are no result of the current case are an error.
func (s *Simulator) decodeResult(b []byte) error {
	r, c, in := &s.result, &s.c, resultReader{b: b}
	r.Counters = linkcase.Counters{
		PacketsSent: in.next(), PacketsMarked: in.next(), BusyNS: in.next(),
		MaxQueueBytes: in.next(), MaxQueueAtNS: in.next(), WaitSumNS: in.next(),
	}
	if r.MaxQueueBytes > 0 {
		r.MaxQueueAtNS += c.StartNS[0]
	}
	r.Unfinished = 0
	r.Observed = r.Observed[:0]
	n := len(c.StartNS)
	r.FCTNS, r.IdealNS, r.WaitNS = resize(r.FCTNS, n), resize(r.IdealNS, n), resize(r.WaitNS, n)
	clear(r.IdealNS)
	clear(r.WaitNS)
	times := s.hasTimes()
	for i := range n {
		if times {
			r.IdealNS[i] = in.next()
		}
		r.FCTNS[i] = r.IdealNS[i] + in.next()
		if times {
			r.WaitNS[i] = in.next()
		}
	}
	if c.Record && !in.failed {
		if err := s.decodeObservations(&in); err != nil {
			return err
		}
	}
	if in.failed || len(in.b) > 0 {
		return errResult
	}
	s.encoded = c.Record
	return nil
}

// decodeObservations decodes the blocks of all flows into s.result.Observed.
func (s *Simulator) decodeObservations(in *resultReader) error {
	r := &s.result
	s.observed.Reset()
	for _, size := range s.c.SizeBytes {
		length := in.next()
		if in.failed || length < 0 || length > int64(len(in.b)) {
			return errResult
		}
		end := len(r.Observed) + int(s.params.Layout().Blocks(s.params.Packets(size)))
		var err error
		if r.Observed, err = readBlocks(r.Observed, in.b[:length]); err != nil || len(r.Observed) > end {
			return errResult
		}
		had := len(r.Observed)
		r.Observed = slices.Grow(r.Observed, end-had)[:end]
		clear(r.Observed[had:])
		s.observed.Add(in.b[:length])
		in.b = in.b[length:]
	}
	return nil
}
