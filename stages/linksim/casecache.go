package linksim

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"unsafe"

	"github.com/zeebo/xxh3"

	"parsimon/schema/columns"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/step"
)

// CaseKey identifies a link case.
type CaseKey = step.CaseKey

// CaseStore stores results of link cases by key.
type CaseStore = step.CaseStore

// minCachedPackets is the smallest number of packets of a cached case. The kernel takes about 10 ns per
// packet. A lookup takes as long as about 500 packets, plus a tenth of the time that the flows take to
// simulate.
const minCachedPackets = 1000

type caseCache struct {
	hash   *xxh3.Hasher
	head   []byte  // first bytes of the digest of every case
	starts []int64 // of the current case's flows, relative to the first
	value  []byte
}

// caseKey returns the digest of the current case: of all fields, in the byte order of the machine. The length
// of each column precedes its values, so different cases never have the same bytes.
func (s *Simulator) caseKey() CaseKey {
	m := &s.cache
	c := s.c
	m.starts = m.starts[:0]
	for _, ns := range c.StartNS {
		m.starts = append(m.starts, ns-c.StartNS[0])
	}
	c.StartNS = m.starts
	m.hash.Reset()
	_, _ = m.hash.Write(m.head) // never fails
	for fields, i := reflect.ValueOf(&c).Elem(), 0; i < fields.NumField(); i++ {
		field := fields.Field(i)
		rows := 1
		at := field.Addr().UnsafePointer()
		typ := field.Type()
		if field.Kind() == reflect.Slice {
			rows, typ, at = field.Len(), typ.Elem(), field.UnsafePointer()
			_, _ = m.hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(rows)))
		}
		_, _ = m.hash.Write(unsafe.Slice((*byte)(at), rows*int(typ.Size())))
	}
	return m.hash.Sum128().Bytes()
}

// A stored result of a link case:
//
//	result   := counters share crowded flow*
//	counters := uvarint × 5 8 bytes    MaxQueueAtNS relative to the first start, 0 if nothing was queued; WaitSumNS
//	share    := 8 bytes          the case's share of feedback: see setObserved
//	crowded  := uvarint(length) (uvarint(ns from the first start) uvarint(bytes))*
//	flow     := uvarint(ideal) uvarint(fct - ideal) uvarint(length) block*
//	block    := as in blocks.go; none unless the case records observations

func (s *Simulator) encodeResult(b []byte) []byte {
	r := &s.result
	maxQueueAt := int64(0)
	if r.MaxQueueBytes > 0 {
		maxQueueAt = r.MaxQueueAtNS - s.c.StartNS[0]
	}
	for _, x := range []int64{r.PacketsSent, r.PacketsMarked, r.BusyNS, r.MaxQueueBytes, maxQueueAt} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.WaitSumNS))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.share))
	b = binary.AppendUvarint(b, uint64(len(r.CrowdedAtNS)))
	for i, at := range r.CrowdedAtNS {
		b = binary.AppendUvarint(b, uint64(int64(at)-s.c.StartNS[0]))
		b = binary.AppendUvarint(b, uint64(r.CrowdedBytes[i]))
	}
	for i, fct := range r.FCTNS {
		observed := s.observed.At(i)
		for _, x := range []int64{r.IdealNS[i], fct - r.IdealNS[i], int64(len(observed))} {
			b = binary.AppendUvarint(b, uint64(x))
		}
		b = append(b, observed...)
	}
	return b
}

var errResult = errors.New("not the result of this link case")

// A resultReader decodes numbers until the first error.
type resultReader struct {
	b      []byte
	failed bool
}

func (r *resultReader) next() int64 {
	v, n := binary.Uvarint(r.b)
	r.failed = r.failed || n <= 0
	if r.failed {
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

func (r *resultReader) bytes(n int64) []byte {
	r.failed = r.failed || n < 0 || n > int64(len(r.b))
	if r.failed {
		return make([]byte, 8)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// decodeResult sets s.result, s.share and s.observed from an encoded result. It returns an error if b is not
// a result of the current case.
func (s *Simulator) decodeResult(b []byte) error {
	r := &s.result
	c := &s.c
	in := resultReader{b: b}
	r.Counters = linkcase.Counters{
		PacketsSent: in.next(), PacketsMarked: in.next(), BusyNS: in.next(),
		MaxQueueBytes: in.next(), MaxQueueAtNS: in.next(),
	}
	if r.MaxQueueBytes > 0 {
		r.MaxQueueAtNS += c.StartNS[0]
	}
	r.WaitSumNS = math.Float64frombits(binary.LittleEndian.Uint64(in.bytes(8)))
	s.share = math.Float64frombits(binary.LittleEndian.Uint64(in.bytes(8)))
	r.CrowdedAtNS = r.CrowdedAtNS[:0]
	r.CrowdedBytes = r.CrowdedBytes[:0]
	for slots := in.next(); slots > 0 && !in.failed; slots-- {
		r.CrowdedAtNS = append(r.CrowdedAtNS, float64(in.next()+c.StartNS[0]))
		r.CrowdedBytes = append(r.CrowdedBytes, float64(in.next()))
	}
	n := len(c.StartNS)
	r.FCTNS = columns.Resize(r.FCTNS, n)
	r.IdealNS = columns.Resize(r.IdealNS, n)
	s.observed.Reset()
	for i := range n {
		r.IdealNS[i] = in.next()
		r.FCTNS[i] = r.IdealNS[i] + in.next()
		s.observed.Add(in.bytes(in.next()))
	}
	if in.failed || len(in.b) > 0 {
		return errResult
	}
	return nil
}
