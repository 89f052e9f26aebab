package connections

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema/columns"
	"parsimon/stages/rng"
)

// A record is a row of table records. Values that can be null have a number that stands for null: the largest
// one if nulls are last in the order of flows, else -1.
type record struct {
	connection
	protocolAndDSCP
	reading                 int32 // number of the Reading
	startNS, endNS          int64
	resolutionNS            int64
	bytes, packets, samples int64
	observer, service, vnet int32 // numbers of texts
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
	classes = iota
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
	return r.connection == o.connection && r.protocol == o.protocol
}

// sameTime reports whether a record can be a correction of another one: both have the same connection,
// observer and times.
func (r *record) sameTime(o *record) bool {
	return r.sameConnection(o) && r.startNS == o.startNS && r.endNS == o.endNS && r.observer == o.observer
}

// repeats reports whether a record has the same content as another one.
func (r *record) repeats(o *record) bool {
	return r.sameTime(o) && r.bytes == o.bytes && r.resolutionNS == o.resolutionNS &&
		r.samples == o.samples && r.service == o.service && r.vnet == o.vnet && r.dscp == o.dscp
}

// hash returns a hash of the connection of a protocol.
func (c *connection) hash(protocol int16) uint64 {
	hosts := uint64(uint32(c.src))<<32 | uint64(uint32(c.dst))
	ports := uint64(uint32(c.srcPort))<<32 | uint64(uint32(c.dstPort))
	return rng.MixKey(rng.MixKey(hosts, ports), uint64(uint16(protocol)))
}

// texts numbers the texts of columns.
type texts struct {
	numbers map[string]int32
	all     []string
	recent  [256]int32 // 1 + the number of the last text of a slot; 0: none
}

func newTexts() *texts { return &texts{numbers: map[string]int32{}} }

func (t *texts) number(text string) int32 {
	recent := &t.recent[SlotOf(text)]
	if *recent > 0 && t.all[*recent-1] == text {
		return *recent - 1
	}
	n, known := t.numbers[text]
	if !known {
		n = int32(len(t.all))
		text = string([]byte(text)) // the batch is released
		t.numbers[text] = n
		t.all = append(t.all, text)
	}
	*recent = n + 1
	return n
}

// SlotOf returns a number from 0 to 255 that depends on the last bytes of a text, in which names differ.
func SlotOf[T string | []byte](text T) uint8 {
	slot := uint32(len(text))
	for i := max(0, len(text)-4); i < len(text); i++ {
		slot = slot*31 + uint32(text[i])
	}
	return uint8(slot)
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

// recordColumns are the columns of table records that a merge reads.
var recordColumns = []string{"src", "dst", "src_port", "dst_port", "protocol", "dscp", "start_ns", "end_ns",
	"resolution_ns", "size_bytes", "samples", "packets", "observer", "service", "vnet"}

// batchColumns are the columns of a batch of table records.
type batchColumns struct {
	src, dst                      []int32
	srcPort, dstPort              nullable[int32]
	protocol, dscp                nullable[int16]
	start, end, resolution, bytes []int64
	samples, packets              nullable[int64]
	observer, service, vnet       *array.String
}

func columnsOf(batch arrow.Record) (c batchColumns) {
	c.src = columns.Int32s(batch, "src")
	c.dst = columns.Int32s(batch, "dst")
	c.srcPort = nullable32(batch, "src_port", noPort)
	c.dstPort = nullable32(batch, "dst_port", noPort)
	c.protocol = nullable16(batch, "protocol", noProtocol)
	c.dscp = nullable16(batch, "dscp", noValue)
	c.start = columns.Int64s(batch, "start_ns")
	c.end = columns.Int64s(batch, "end_ns")
	c.resolution = columns.Int64s(batch, "resolution_ns")
	c.bytes = columns.Int64s(batch, "size_bytes")
	c.samples = nullable64(batch, "samples")
	c.packets = nullable64(batch, "packets")
	c.observer = columns.Named(batch, "observer").(*array.String)
	c.service = columns.Named(batch, "service").(*array.String)
	c.vnet = columns.Named(batch, "vnet").(*array.String)
	return c
}

// A nullable is a column of numbers, one of which stands for null.
type nullable[T any] struct {
	values []T
	nulls  arrow.Array // it has the nulls; nil: there are none
	null   T
}

func nullableOf[T any](a arrow.Array, values []T, null T) nullable[T] {
	if a.NullN() == 0 {
		a = nil
	}
	return nullable[T]{values, a, null}
}

func nullable16(batch arrow.Record, name string, null int16) nullable[int16] {
	a := columns.Named(batch, name).(*array.Int16)
	return nullableOf(a, a.Int16Values(), null)
}

func nullable32(batch arrow.Record, name string, null int32) nullable[int32] {
	a := columns.Named(batch, name).(*array.Int32)
	return nullableOf(a, a.Int32Values(), null)
}

func nullable64(batch arrow.Record, name string) nullable[int64] {
	a := columns.Named(batch, name).(*array.Int64)
	return nullableOf(a, a.Int64Values(), noValue)
}

func (c *nullable[T]) at(i int) T {
	if c.nulls != nil && c.nulls.IsNull(i) {
		return c.null
	}
	return c.values[i]
}

// A Row is a row of table records. Negative numbers are null in columns that can be null.
type Row struct {
	Source  int32 `col:"source"`
	Row     int64 `col:"row"`
	Reverse bool  `col:"reverse"`
	FlowID  int64 `col:"flow_id"`
	RowEnds
	Observer     string `col:"observer"`
	SizeBytes    int64  `col:"size_bytes"`
	StartNS      int64  `col:"start_ns"`
	EndNS        int64  `col:"end_ns"`
	ResolutionNS int64  `col:"resolution_ns"`
	Samples      int64  `col:"samples"`
	Packets      int64  `col:"packets"`
	RowLabels
}

// RowEnds are the columns of a connection.
type RowEnds struct {
	Src      int32 `col:"src"`
	Dst      int32 `col:"dst"`
	Protocol int16 `col:"protocol"`
	SrcPort  int32 `col:"src_port"`
	DstPort  int32 `col:"dst_port"`
}

// RowLabels are the columns that describe a flow.
type RowLabels struct {
	Service string `col:"service"`
	VNet    string `col:"vnet"`
	DSCP    int16  `col:"dscp"`
}

// record returns a row without its reading and its texts.
func (row *Row) record() (r record) {
	known := func(v, null int32) int32 {
		if v < 0 {
			return null
		}
		return v
	}
	r.src = row.Src
	r.dst = row.Dst
	r.srcPort = known(row.SrcPort, noPort)
	r.dstPort = known(row.DstPort, noPort)
	r.protocol = int16(known(int32(row.Protocol), noProtocol))
	r.dscp = row.DSCP
	r.startNS = row.StartNS
	r.endNS = row.EndNS
	r.resolutionNS = row.ResolutionNS
	r.bytes = row.SizeBytes
	r.packets = row.Packets
	r.samples = row.Samples
	return r
}

// record returns a row without its reading and its texts.
func (c *batchColumns) record(i int) (r record) {
	r.src = c.src[i]
	r.dst = c.dst[i]
	r.srcPort = c.srcPort.at(i)
	r.dstPort = c.dstPort.at(i)
	r.protocol = c.protocol.at(i)
	r.dscp = c.dscp.at(i)
	r.startNS = c.start[i]
	r.endNS = c.end[i]
	r.resolutionNS = c.resolution[i]
	r.bytes = c.bytes[i]
	r.packets = c.packets.at(i)
	r.samples = c.samples.at(i)
	return r
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
