package stages

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// CaseKey is the digest of everything that the result of a link case depends on: the version of the kernel,
// the transport's constants, and the case itself with its flows' starts relative to the first. Cases of the
// same key have the same result, in any scenario, run or link.
type CaseKey [16]byte

// CaseStore caches results of link cases. It is safe for use by several goroutines.
type CaseStore interface {
	// Lookup appends the result stored under the key to dst. ok is false if there is no verified result.
	Lookup(key CaseKey, dst []byte) (result []byte, ok bool)
	// Store keeps a copy of a result. It does not report failures: a run does not fail for them.
	Store(key CaseKey, result []byte)
}

// minCachedPackets is the least number of packets of a cached case. The kernel takes about 10 ns a packet; a
// lookup takes as long as about 500 packets, plus a part that grows with the number of flows and is a tenth
// of simulating them.
const minCachedPackets = 1000

// caseCache is a Simulator's access to a CaseStore.
type caseCache struct {
	store   CaseStore // nil: no cache
	hash    *xxh3.Hasher
	head    []byte // first bytes of every case's digest
	pending []byte // bytes that are not hashed yet
	value   []byte
}

// newCaseCache returns the access to a store for cases of a transport.
func newCaseCache(store CaseStore, p *simkernel.Params) (caseCache, error) {
	head, err := p.AppendIdentity(nil)
	return caseCache{store: store, hash: xxh3.New(), head: head}, err
}

// cachedResult sets s.result to the stored result of the current case and reports whether there is one.
func (s *Simulator) cachedResult(key CaseKey) bool {
	value, ok := s.cache.store.Lookup(key, s.cache.value[:0])
	s.cache.value = value
	return ok && s.decodeResult(value) == nil
}

// storeResult stores s.result as that of the current case.
func (s *Simulator) storeResult(key CaseKey) {
	s.cache.value = s.encodeResult(s.cache.value[:0])
	s.cache.store.Store(key, s.cache.value)
}

// caseKey returns the digest of the current case. The length of every column precedes it, so that different
// cases never have the same bytes.
func (s *Simulator) caseKey() CaseKey {
	m, c := &s.cache, &s.c
	m.hash.Reset()
	m.pending = append(m.pending[:0], m.head...)
	record := byte(0)
	if c.Record {
		record = 2 // the second form of a stored result
	}
	m.pending = append(m.pending, byte(c.Kind), record)
	m.number(uint64(c.TargetBps))
	m.number(uint64(c.MarkBytes))
	firstStart := int64(0)
	if len(c.StartNS) > 0 {
		firstStart = c.StartNS[0]
	}
	digestColumn(m, c.SourceBps, 0)
	digestColumn(m, c.SourceDelayNS, 0)
	digestColumn(m, c.Source, 0)
	digestColumn(m, c.SizeBytes, 0)
	digestColumn(m, c.StartNS, firstStart)
	digestColumn(m, c.PathDelayNS, 0)
	digestColumn(m, c.Feeder, 0)
	digestColumn(m, c.FeederBps, 0)
	digestColumn(m, c.ReturnNS, 0)
	digestColumn(m, c.UpstreamBps, 0)
	digestColumn(m, c.DownstreamBps, 0)
	digestColumn(m, c.BetweenPS, 0)
	if s.params.Transport.Traits().RandomMarks {
		m.number(uint64(c.MaxMarkBytes))
		m.number(c.MarkKey)
		digestColumn(m, c.FlowKey, 0)
	}
	if s.params.Transport.Traits().UsesHops {
		digestColumn(m, c.Hops, 0)
	}
	if s.params.NeedsPaths() {
		digestColumn(m, c.SlowestBps, 0)
		digestColumn(m, c.RoundTripNS, 0)
	}
	m.number(uint64(len(c.Feedback)))
	for part := range slices.Chunk(c.Feedback, digestRows) {
		at := m.room(16 * len(part))
		for i := range part {
			b := &part[i]
			binary.LittleEndian.PutUint64(at[16*i:], uint64(uint32(b.NICWaitNS))<<32|uint64(uint32(b.WaitNS)))
			binary.LittleEndian.PutUint64(at[16*i+8:], uint64(uint32(b.UpstreamNS))<<32|uint64(b.Denied)<<16|uint64(b.Marks))
		}
		m.hashPending()
	}
	_, _ = m.hash.Write(m.pending) // never fails
	return m.hash.Sum128().Bytes()
}

func (m *caseCache) number(v uint64) { m.pending = binary.LittleEndian.AppendUint64(m.pending, v) }

// digestRows is how many values are hashed at a time.
const digestRows = 1 << 10

// room appends so many bytes to the pending ones and returns them.
func (m *caseCache) room(bytes int) []byte {
	had := len(m.pending)
	m.pending = slices.Grow(m.pending, bytes)[:had+bytes]
	return m.pending[had:]
}

// digestColumn adds a column to the digest, with the offset subtracted from its values.
func digestColumn[T int16 | int32 | int64 | uint64](m *caseCache, values []T, offset T) {
	m.number(uint64(len(values)))
	for part := range slices.Chunk(values, digestRows) {
		at := m.room(8 * len(part))
		for i, v := range part {
			binary.LittleEndian.PutUint64(at[8*i:], uint64(v-offset))
		}
		m.hashPending()
	}
}

// hashPending hashes the pending bytes if there are many, so that memory does not grow with the case.
func (m *caseCache) hashPending() {
	if len(m.pending) >= 1<<14 {
		_, _ = m.hash.Write(m.pending)
		m.pending = m.pending[:0]
	}
}

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
