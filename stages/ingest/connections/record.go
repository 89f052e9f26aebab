package connections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema/columns"
	"parsimon/stages/rng"
)

// A record is a row of table records. Values that can be null have a number that stands for null: the largest
// one if nulls are last in the order of flows, else -1.
type record struct {
	hash uint64 // of the connection
	connection
	protocolAndDSCP
	source                  int32
	startNS, endNS          int64
	resolutionNS            int64
	bytes, packets, samples int64
	observer, service, vnet int32 // numbers of texts
	_                       int32
}

// A connection is what the records of one connection share, except for the protocol.
type connection struct{ src, dst, srcPort, dstPort int32 }

// protocolAndDSCP are the 16-bit columns.
type protocolAndDSCP struct{ protocol, dscp int16 }

// Null values of columns.
const (
	noPort     = math.MaxInt32
	noProtocol = math.MaxInt16
	noValue    = -1
)

// class is how the bytes of a record were counted: every packet, samples at a known rate, or at an unknown
// one. Records of one observer are added up within a class.
type class int8

const (
	counted class = iota
	sampled
	sampledUnknown
)

func (r *record) class() class {
	switch {
	case r.samples > 0:
		return sampled
	case r.samples == 0:
		return counted
	}
	return sampledUnknown
}

func compareConnections(a, b *connection, aProtocol, bProtocol int16) int {
	return cmp.Or(cmp.Compare(a.src, b.src), cmp.Compare(a.dst, b.dst), cmp.Compare(aProtocol, bProtocol),
		cmp.Compare(a.srcPort, b.srcPort), cmp.Compare(a.dstPort, b.dstPort))
}

func (r *record) sameConnection(o *record) bool {
	return r.hash == o.hash && r.connection == o.connection && r.protocol == o.protocol
}

// sameTime reports whether a record can be a correction of another one: both have the same connection,
// observer and times.
func (r *record) sameTime(o *record) bool {
	return r.sameConnection(o) && r.startNS == o.startNS && r.endNS == o.endNS && r.observer == o.observer
}

// repeats reports whether a record has the same content as another one.
func (r *record) repeats(o *record) bool {
	return r.sameTime(o) && compareContents(r, o) == 0
}

// compareContents compares the other columns of records with the same connection, observer and times.
func compareContents(a, b *record) int {
	return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.resolutionNS, b.resolutionNS),
		cmp.Compare(a.samples, b.samples), cmp.Compare(a.service, b.service), cmp.Compare(a.vnet, b.vnet),
		cmp.Compare(a.dscp, b.dscp))
}

// compareRecords orders the records of one hash by connection, time and content, so that those that repeat
// each other are neighbors.
func compareRecords(a, b *record) int {
	if a.connection != b.connection || a.protocol != b.protocol {
		return compareConnections(&a.connection, &b.connection, a.protocol, b.protocol)
	}
	if a.startNS != b.startNS {
		return cmp.Compare(a.startNS, b.startNS)
	}
	return cmp.Or(cmp.Compare(a.endNS, b.endNS), cmp.Compare(a.observer, b.observer), compareContents(a, b),
		cmp.Compare(a.source, b.source), cmp.Compare(a.packets, b.packets))
}

func (r *record) hashConnection() {
	hosts := uint64(uint32(r.src))<<32 | uint64(uint32(r.dst))
	ports := uint64(uint32(r.srcPort))<<32 | uint64(uint32(r.dstPort))
	r.hash = rng.MixKey(rng.MixKey(hosts, ports), uint64(uint16(r.protocol)))
}

// texts numbers the texts of columns.
type texts struct {
	numbers map[string]int32
	all     []string
	last    string
	lastIs  int32
}

func newTexts() *texts { return &texts{numbers: map[string]int32{}} }

func (t *texts) number(text string) int32 {
	if text == t.last && len(t.all) > 0 {
		return t.lastIs
	}
	n, known := t.numbers[text]
	if !known {
		n = int32(len(t.all))
		text = string([]byte(text)) // the batch is released
		t.numbers[text] = n
		t.all = append(t.all, text)
	}
	t.last = t.all[n]
	t.lastIs = n
	return n
}

// compare compares two texts by their numbers.
func (t *texts) compare(a, b int32) int { return cmp.Compare(t.all[a], t.all[b]) }

// maxText returns the number of the larger text.
func (t *texts) maxText(a, b int32) int32 {
	if a != b && t.compare(a, b) < 0 {
		return b
	}
	return a
}

// batchColumns are the columns of a batch of table records.
type batchColumns struct {
	src, dst, srcPort, dstPort    *array.Int32
	protocol, dscp                *array.Int16
	start, end, resolution, bytes *array.Int64
	samples, packets              *array.Int64
	texts                         [3]*array.String // observer, service, vnet
}

// recordColumns are the columns of table records that a merge reads.
var recordColumns = []string{"src", "dst", "src_port", "dst_port", "protocol", "dscp", "start_ns", "end_ns",
	"resolution_ns", "size_bytes", "samples", "packets", "observer", "service", "vnet"}

func columnsOf(batch arrow.Record) (c batchColumns) {
	i32 := func(name string) *array.Int32 { return columns.Named(batch, name).(*array.Int32) }
	i16 := func(name string) *array.Int16 { return columns.Named(batch, name).(*array.Int16) }
	i64 := func(name string) *array.Int64 { return columns.Named(batch, name).(*array.Int64) }
	c = batchColumns{
		src: i32("src"), dst: i32("dst"), srcPort: i32("src_port"), dstPort: i32("dst_port"),
		protocol: i16("protocol"), dscp: i16("dscp"),
		start: i64("start_ns"), end: i64("end_ns"), resolution: i64("resolution_ns"),
		bytes: i64("size_bytes"), samples: i64("samples"), packets: i64("packets"),
	}
	for i, name := range []string{"observer", "service", "vnet"} {
		c.texts[i] = columns.Named(batch, name).(*array.String)
	}
	return c
}

// orNull returns a value of a column, or the number that stands for null.
func orNull[T any](a interface {
	IsNull(i int) bool
	Value(i int) T
}, i int, null T) T {
	if a.IsNull(i) {
		return null
	}
	return a.Value(i)
}

// record returns a row without its source and its texts.
func (c *batchColumns) record(i int) (r record) {
	r.src = c.src.Value(i)
	r.dst = c.dst.Value(i)
	r.srcPort = orNull(c.srcPort, i, noPort)
	r.dstPort = orNull(c.dstPort, i, noPort)
	r.protocol = orNull(c.protocol, i, noProtocol)
	r.dscp = orNull(c.dscp, i, noValue)
	r.startNS = c.start.Value(i)
	r.endNS = c.end.Value(i)
	r.resolutionNS = c.resolution.Value(i)
	r.bytes = c.bytes.Value(i)
	r.packets = orNull(c.packets, i, noValue)
	r.samples = orNull(c.samples, i, noValue)
	return r
}

// readSource adds the records of a source to those that are sorted.
func (m *merging) readSource(ctx context.Context, s Source) error {
	return columns.ForEach(s.Open(), func(batch arrow.Record) error {
		c := columnsOf(batch)
		for i := range int(batch.NumRows()) {
			r := c.record(i)
			r.source = s.N
			r.observer = m.texts.observers.number(c.texts[0].Value(i))
			r.service = m.texts.labels.number(c.texts[1].Value(i))
			r.vnet = m.texts.labels.number(c.texts[2].Value(i))
			if err := r.check(); err != nil {
				return err
			}
			r.hashConnection()
			m.note(&r)
			if err := m.records.Add(r); err != nil {
				return err
			}
		}
		return ctx.Err()
	}, recordColumns...)
}

// Limits of the values of records: sums of a few of them do not overflow.
const (
	maxTimeNS      = int64(1) << 62
	maxRecordBytes = int64(1) << 50
	maxResolution  = int64(86400e9)
)

// check returns an error if a record cannot come from package ingest, such as one of a file that was changed.
func (r *record) check() error {
	switch {
	case r.startNS < 0 || r.startNS > maxTimeNS || r.endNS < r.startNS || r.endNS > maxTimeNS:
		return fmt.Errorf("table records: a record from %d to %d ns", r.startNS, r.endNS)
	case r.bytes < 0 || r.bytes > maxRecordBytes:
		return fmt.Errorf("table records: a record of %d bytes", r.bytes)
	case r.resolutionNS < 0 || r.resolutionNS > maxResolution:
		return fmt.Errorf("table records: a record with a resolution of %d ns", r.resolutionNS)
	case r.packets < noValue || r.packets > maxRecordBytes || r.samples < noValue:
		return errors.New("table records: a record with a negative number of packets")
	}
	return nil
}

// noted has the values that depend on all records.
type noted struct {
	durations map[int64]uint128 // bytes of records by duration in s
	exporters map[int32]bool    // observers with samples at a known rate
	samplers  map[int32]bool    // observers with samples at an unknown rate
	sources   int
}

// note notes a record.
func (m *merging) note(r *record) {
	m.result.Records++
	second := (r.endNS - r.startNS) / 1e9
	m.noted.durations[second] = m.noted.durations[second].plus(uint128{lo: uint64(r.bytes)})
	switch r.class() {
	case sampled:
		m.noted.exporters[r.observer] = true
	case sampledUnknown:
		m.noted.samplers[r.observer] = true
	case counted:
	}
}

// intervalNS returns Result.IntervalNS.
func (m *merging) intervalNS() int64 {
	const (
		leastSeconds = 300
		mostSeconds  = 10_000_000
	)
	var all, upto uint128
	seconds := make([]int64, 0, len(m.noted.durations))
	for second, bytes := range m.noted.durations {
		all = all.plus(bytes)
		seconds = append(seconds, second)
	}
	slices.Sort(seconds)
	for _, second := range seconds {
		upto = upto.plus(m.noted.durations[second])
		if !upto.times(100).less(all.times(99)) {
			return max(leastSeconds, min(10*(second+1), mostSeconds)) * 1e9
		}
	}
	return leastSeconds * 1e9
}

// A uint128 is an unsigned integer of 128 bits. Sums of squares of bytes need them.
type uint128 struct{ hi, lo uint64 }

func square(a uint64) uint128 {
	hi, lo := bits.Mul64(a, a)
	return uint128{hi, lo}
}

func (a uint128) plus(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return uint128{hi, lo}
}

func (a uint128) minus(b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return uint128{hi, lo}
}

func (a uint128) times(n uint64) uint128 {
	hi, lo := bits.Mul64(a.lo, n)
	return uint128{a.hi*n + hi, lo}
}

func (a uint128) over(n uint64) uint128 {
	lo, _ := bits.Div64(a.hi%n, a.lo, n)
	return uint128{a.hi / n, lo}
}

func (a uint128) less(b uint128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a uint128) float() float64 { return float64(a.lo) + float64(a.hi)*0x1p64 }
