package stages

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/zeebo/xxh3"

	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// A CaseKey is the digest of everything that the result of a link case depends on: the kernel's
// version, the constants of the transport, and the case itself, its flows' starts relative to the
// first. Cases with the same key have the same result, whatever scenario, run or link they are of.
type CaseKey [16]byte

// A CaseStore remembers results of link cases. It serves several goroutines at once.
type CaseStore interface {
	// Lookup appends the result stored under the key to to; ok is false where there is none that is
	// sound.
	Lookup(key CaseKey, to []byte) (result []byte, ok bool)
	// Store takes a result; it keeps nothing of the slice. A store that cannot keep it says so
	// elsewhere: a run does not fail for it.
	Store(key CaseKey, result []byte)
}

// leastRemembered is how many packets a case must have to be worth remembering. The kernel needs about
// 10 ns a packet; a look into the store about as much as 500 of them, besides what grows with the
// flows, which is a tenth of simulating them.
const minCachedPackets = 1000

// Remember makes the simulator look for link cases in a store before it simulates them, and put there
// what it has simulated. Results of another program than the link kernel (its identity, "" for the
// kernel) are kept apart.
func (s *Simulator) UseCache(store CaseStore, program string) error {
	head, err := s.params.AppendIdentity(nil)
	if err != nil {
		return err
	}
	s.caseDigest = caseDigest{store: store, hash: xxh3.New(), head: append(head, program...)}
	return nil
}

// recall is what a Simulator needs to look for results.
type caseDigest struct {
	store CaseStore
	hash  *xxh3.Hasher
	head  []byte // what all cases' digests begin with
	part  []byte // of the case being digested
	value []byte
}

// solve brings s.result to the result of the case s.c, from the store or by simulation.
func (s *Simulator) solve(ctx context.Context, link topology.Link, rows []int32, packets int64) (cached bool, err error) {
	m := &s.caseDigest
	if m.store == nil || packets < minCachedPackets && s.solver == nil || len(rows) == 0 {
		return false, s.simulateCase(ctx, link, rows)
	}
	key := s.caseKey(link)
	value, ok := m.store.Lookup(key, m.value[:0])
	m.value = value
	if ok && s.decodeResult(value) == nil {
		return true, nil
	}
	if err := s.simulateCase(ctx, link, rows); err != nil {
		return false, err
	}
	m.value = s.encodeResult(m.value[:0])
	m.store.Store(key, m.value)
	return false, nil
}

// caseKey digests the case. Every column is preceded by its length, so that no two cases have the same
// bytes.
func (s *Simulator) caseKey(link topology.Link) CaseKey {
	m, c := &s.caseDigest, &s.c
	m.hash.Reset()
	m.part = append(m.part[:0], m.head...)
	record := byte(0)
	if c.Record {
		record = 1
	}
	m.part = append(m.part, byte(c.Kind), record)
	m.part = binary.LittleEndian.AppendUint64(m.part, uint64(c.TargetBps))
	m.part = binary.LittleEndian.AppendUint64(m.part, uint64(c.MarkBytes))
	start := int64(0)
	if len(c.StartNS) > 0 {
		start = c.StartNS[0]
	}
	digestColumn(m, c.SourceBps, 0)
	digestColumn(m, c.SourceDelayNS, 0)
	digestColumn(m, c.Source, 0)
	digestColumn(m, c.SizeBytes, 0)
	digestColumn(m, c.StartNS, start)
	digestColumn(m, c.PathDelayNS, 0)
	digestColumn(m, c.Feeder, 0)
	digestColumn(m, c.FeederBps, 0)
	digestColumn(m, c.ReturnNS, 0)
	if s.params.Transport.RandomMarks() {
		m.part = binary.LittleEndian.AppendUint64(m.part, uint64(c.MaxMarkBytes))
		m.part = binary.LittleEndian.AppendUint64(m.part, c.MarkKey)
		digestColumn(m, c.FlowKey, 0)
	}
	if s.params.Transport.UsesHops() {
		digestColumn(m, c.Hops, 0)
	}
	if s.solver != nil { // whose networks have the target as a link of its own
		m.part = binary.LittleEndian.AppendUint64(m.part, uint64(link.DelayNS))
	}
	m.part = binary.LittleEndian.AppendUint64(m.part, uint64(len(c.Feedback)))
	for i := range c.Feedback {
		b := &c.Feedback[i]
		m.part = binary.LittleEndian.AppendUint64(m.part, uint64(uint32(b.NICWaitNS))<<32|uint64(uint32(b.WaitNS)))
		m.part = binary.LittleEndian.AppendUint64(m.part, uint64(uint32(b.UpstreamNS))<<32|uint64(b.Hint)<<16|uint64(b.Marks))
		m.spill()
	}
	_, _ = m.hash.Write(m.part) // a hash takes everything
	return m.hash.Sum128().Bytes()
}

// digestColumn adds a column to the digest, less an offset.
func digestColumn[T int16 | int32 | int64 | uint64](m *caseDigest, values []T, offset T) {
	m.part = binary.LittleEndian.AppendUint64(m.part, uint64(len(values)))
	for _, v := range values {
		m.part = binary.LittleEndian.AppendUint64(m.part, uint64(v-offset))
		m.spill()
	}
}

// spill hands over what has gathered, so that a case of any size needs little memory.
func (m *caseDigest) spill() {
	if len(m.part) >= 1<<14 {
		_, _ = m.hash.Write(m.part)
		m.part = m.part[:0]
	}
}

// A stored result:
//
//	counters     uvarint × 6, MaxQueueAtNS relative to the first start (0 where nothing queued)
//	by flow      uvarint ideal, uvarint fct - ideal, uvarint wait     unless what is wanted is Here alone
//	by flow      uvarint length, blocks as in the lake (waits.go)     if the case asks for Here
//
// Here alone is wanted of estimator Flow's cases that are not a host's own.

func (s *Simulator) timesWanted() bool { return !s.c.Record || s.c.Kind == simkernel.FirstHop }

func (s *Simulator) encodeResult(b []byte) []byte {
	r, c := &s.result, &s.c
	at := int64(0)
	if r.MaxQueueBytes > 0 {
		at = r.MaxQueueAtNS - c.StartNS[0]
	}
	for _, x := range []int64{r.PacketsSent, r.PacketsMarked, r.BusyNS, r.MaxQueueBytes, at, r.WaitSumNS} {
		b = binary.AppendUvarint(b, uint64(x))
	}
	if s.timesWanted() {
		for i, fct := range r.FCTNS {
			b = binary.AppendUvarint(b, uint64(r.IdealNS[i]))
			b = binary.AppendUvarint(b, uint64(fct-r.IdealNS[i]))
			b = binary.AppendUvarint(b, uint64(r.WaitNS[i]))
		}
	}
	if c.Record {
		block := int64(0)
		for _, size := range c.SizeBytes {
			n := simkernel.Blocks(s.params.Packets(size))
			s.caseDigest.part = appendBlocks(s.caseDigest.part[:0], r.Observed[block:block+n])
			b = binary.AppendUvarint(b, uint64(len(s.caseDigest.part)))
			b = append(b, s.caseDigest.part...)
			block += n
		}
	}
	return b
}

var errResult = errors.New("not the result of this link case")

func (s *Simulator) decodeResult(b []byte) error {
	r, c := &s.result, &s.c
	short := false
	next := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			short = true
			return 0
		}
		b = b[n:]
		return int64(v)
	}
	r.Counters = simkernel.Counters{
		PacketsSent: next(), PacketsMarked: next(), BusyNS: next(), MaxQueueBytes: next(), MaxQueueAtNS: next(), WaitSumNS: next(),
	}
	if r.MaxQueueBytes > 0 {
		r.MaxQueueAtNS += c.StartNS[0]
	}
	r.Unfinished = 0
	n := len(c.StartNS)
	r.FCTNS, r.IdealNS, r.WaitNS, r.Observed = r.FCTNS[:0], r.IdealNS[:0], r.WaitNS[:0], r.Observed[:0]
	if s.timesWanted() {
		r.FCTNS, r.IdealNS, r.WaitNS = resize(r.FCTNS, n), resize(r.IdealNS, n), resize(r.WaitNS, n)
		for i := range n {
			r.IdealNS[i] = next()
			r.FCTNS[i] = r.IdealNS[i] + next()
			r.WaitNS[i] = next()
		}
	}
	if c.Record && !short {
		for _, size := range c.SizeBytes {
			bytes := next()
			if short || bytes < 0 || bytes > int64(len(b)) {
				return errResult
			}
			want := len(r.Observed) + int(simkernel.Blocks(s.params.Packets(size)))
			var err error
			if r.Observed, err = readBlocks(r.Observed, b[:bytes]); err != nil || len(r.Observed) > want {
				return errResult
			}
			was := len(r.Observed)
			r.Observed = slices.Grow(r.Observed, want-was)[:want]
			clear(r.Observed[was:])
			b = b[bytes:]
		}
	}
	if short || len(b) > 0 {
		return errResult
	}
	return nil
}
