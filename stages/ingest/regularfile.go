package ingest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest/extsort"
)

// errIrregular means that Ingester.File has to read a file.
var errIrregular = errors.New("most rows need SQL")

// RegularFile reads a source file as File does, and gives the same records, rejects, counts and remarks. It
// writes the records to out. Regular rows, which have nothing but plain numbers, times and known hosts, are
// read without SQL. Other rows are staged and judged as by File. It reports false if the file or most of its
// rows are not regular: the caller then discards out and calls File.
func (in *Ingester) RegularFile(ctx context.Context, of []*Mapping, file string, n int32,
	out schema.Sink) (stats FileStats, regular bool, err error) {
	format := regularFormats[of[0].Name]
	if len(of) > 1 || of[0].foreign || format == nil || isParquet(file) {
		return stats, false, nil
	}
	notes := len(in.notes)
	rows := in.newRegularRows(of[0], n, out)
	stats, err = in.regularFile(ctx, fileWork{m: of[0], file: file, n: n, regular: rows})
	if errors.Is(err, errIrregular) {
		in.notes = in.notes[:notes]
		return FileStats{}, false, nil
	}
	if err != nil {
		return stats, true, cmp.Or(ctx.Err(), inFile(file, err))
	}
	return stats, true, nil
}

func (in *Ingester) regularFile(ctx context.Context, w fileWork) (stats FileStats, err error) {
	rows := w.regular
	defer func() { err = errors.Join(err, rows.hashes.Close()) }()
	defer rows.b.Release()
	if err := in.makeDir(&w); err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()
	if w.src, err = in.stageText(ctx, w); err != nil {
		return stats, err
	}
	if err := rows.flush(); err != nil {
		return stats, err
	}
	if !rows.hasManyStarts(w.src.rows) {
		return stats, errIrregular
	}
	if err := in.process(ctx, w, &stats); err != nil {
		return stats, err
	}
	stats.Records += rows.n
	if stats.RecordsFile == "" {
		return stats, nil
	}
	err = columns.ForEach(in.o.Open(schema.Records, stats.RecordsFile), rows.out.Write)
	err = errors.Join(err, os.Remove(stats.RecordsFile))
	stats.RecordsFile = ""
	return stats, err
}

// regularRows reads the regular rows of a file. All of them become records.
type regularRows struct {
	*Ingester
	m      *Mapping
	format *regularFormat
	source int32
	out    schema.Sink
	none   string // the text that stands for no value
	hosts  map[string]regularHost
	times  timeParser
	hashes *extsort.Sorter[rowHash]
	b      *array.RecordBuilder
	regularLine
	regularSums
}

// regularLine is the layout of the last line, and its fields.
type regularLine struct {
	layout   regularLayout
	layoutN  int // number of the header; -1: none yet
	fields   [][]byte
	observer []byte
}

// A regularHost is the host of an address, if it is one, with the class of its labels.
type regularHost struct {
	node, class int32
	isHost      bool
}

// regularSums has the values of a file's regular rows that its checks and remarks need.
type regularSums struct {
	n              int64
	single, tcp    int64 // records of TCP without a rate: those of one packet, and all with packets
	stated         int64 // records with a rate
	bytes          float64
	firstNS        int64
	lastNS         int64           // start or end
	days           map[int64]int64 // rows by day of the start
	starts         [256]int64      // rows by the low bits of a hash of the start
	lastDay, inDay int64           // the day of the last row, and rows in it that days lacks
}

// A rowHash is the hash of a row's text, with the bytes of its record.
type rowHash struct {
	hash  uint64
	bytes int64
}

var byHash = extsort.Order[rowHash]{
	Key:     func(r *rowHash) uint64 { return r.hash },
	Compare: func(*rowHash, *rowHash) int { return 0 },
}

func (in *Ingester) newRegularRows(m *Mapping, n int32, out schema.Sink) *regularRows {
	none := ""
	if m.reads == "words" {
		none = "-"
	}
	return &regularRows{
		Ingester: in, m: m, format: regularFormats[m.Name], source: n, out: out, none: none,
		hosts: map[string]regularHost{}, hashes: extsort.New(in.o.TmpDir, in.o.MemoryBytes/8, byHash),
		b:           array.NewRecordBuilder(memory.DefaultAllocator, schema.Records.Arrow()),
		regularLine: regularLine{layoutN: -1},
		regularSums: regularSums{days: map[int64]int64{}, firstNS: math.MaxInt64},
	}
}

// A regularRecord is the record of a regular row.
type regularRecord struct {
	src, dst         regularHost
	protocol, dscp   int16 // dscp -1: none
	srcPort, dstPort int32
	bytes, packets   int64 // packets -1: unknown
	rate             int64
	stated           bool // the row or its format states the rate
	startNS, endNS   int64
	resolutionNS     int64
	labels           struct{ service, vnet string }
}

// firstRows is the number of rows after which the regular ones are counted for the first time.
const firstRows = 4096

// add adds a row if it is regular. The error errIrregular ends the reading of the file.
func (r *regularRows) add(p *lineParser, line []byte, row int64) (taken bool, err error) {
	if r.layoutN != p.layout {
		header := r.m.names
		if len(p.layouts) > 0 {
			header = p.layouts[p.layout]
		}
		var ok bool
		if r.layout, ok = r.format.layoutOf(r.m, header); !ok {
			return false, errIrregular
		}
		r.layoutN = p.layout
	}
	if row >= firstRows && row&(row-1) == 0 && 4*(row-r.n) > r.n {
		return false, errIrregular
	}
	r.fields = splitRegular(line, p.separator, r.fields[:0])
	if r.m.timed && len(r.fields) == r.layout.width+1 && isTime(string(r.fields[0])) {
		line = line[len(r.fields[0])+1:]
		r.fields = r.fields[1:]
	}
	if len(r.fields) != r.layout.width {
		return false, nil
	}
	var record regularRecord
	if !r.layout.isPlain(r.fields, r.none) || !r.parse(&record) || !r.judge(&record) {
		return false, nil
	}
	if err := r.note(&record, line); err != nil {
		return false, err
	}
	r.append(&record, row)
	if r.b.Field(0).Len() < columns.BatchRows {
		return true, nil
	}
	return true, r.flush()
}

// field returns the field at a place, and whether it has a value.
func (r *regularRows) field(at int) (text []byte, has bool) {
	if at < 0 {
		return nil, false
	}
	return r.fields[at], string(r.fields[at]) != r.none
}

// parse parses the fields of a row.
func (r *regularRows) parse(v *regularRecord) bool {
	l := &r.layout
	var ok [8]bool
	v.src, ok[0] = r.host(r.fields[l.src])
	v.dst, ok[1] = r.host(r.fields[l.dst])
	v.srcPort, ok[2] = plainPort(r.fields[l.srcPort])
	v.dstPort, ok[3] = plainPort(r.fields[l.dstPort])
	v.protocol, ok[4] = protocolNumber(r.fields[l.protocol])
	v.bytes, ok[5] = plainNumber(r.fields[l.bytes])
	v.startNS, v.resolutionNS, ok[6] = r.times.parse(&l.start.timeColumn, r.fields[l.start.at])
	v.endNS, _, ok[7] = r.times.parse(&l.end.timeColumn, r.fields[l.end.at])
	return !slices.Contains(ok[:], false) && r.parseOptional(v)
}

// parseOptional parses the fields that a record may lack.
func (r *regularRows) parseOptional(v *regularRecord) bool {
	l := &r.layout
	ok := true
	v.packets = -1
	if l.packets >= 0 {
		v.packets, ok = plainNumber(r.fields[l.packets])
	}
	v.rate = max(1, r.o.SamplingRate)
	if r.format.counted {
		v.rate = 1
		v.stated = true
	}
	text, has := r.field(l.rate)
	if has && ok {
		var rate int64
		rate, ok = plainNumber(text)
		if rate > 0 {
			v.rate = rate
			v.stated = true
		}
	}
	v.dscp = -1
	text, has = r.field(l.tos)
	if has && ok {
		var tos int64
		tos, ok = plainNumber(text)
		ok = ok && tos < 256
		v.dscp = int16(tos / 4)
	}
	text, has = r.field(l.vnet)
	if has {
		v.labels.vnet = trimSpaces(text)
	}
	return ok && r.observe(v)
}

// observe sets the observer of the row, as step records has it.
func (r *regularRows) observe(v *regularRecord) bool {
	observer, has := r.field(r.layout.observers[0])
	r.observer = append(r.observer[:0], observer...)
	if r.layout.observers[0] >= 0 && (!has || observer[0] == ' ') {
		return false
	}
	iface, hasInterface := r.field(r.layout.observers[1])
	if !hasInterface || has && v.rate > 1 {
		return true
	}
	if has {
		r.observer = append(r.observer, ' ')
	}
	r.observer = append(r.observer, iface...)
	return true
}

// host returns the host of an address. It reports false for other addresses.
func (r *regularRows) host(text []byte) (regularHost, bool) {
	if string(text) == r.none {
		return regularHost{}, false
	}
	h, known := r.hosts[string(text)]
	if !known {
		address := string(text)
		node, err := r.book.host(address)
		if err == nil && node >= 0 && r.book.isHosts[node] {
			h = regularHost{node, r.book.class(address), true}
		}
		if len(r.hosts) < maxHosts {
			r.hosts[address] = h
		}
	}
	return h, h.isHost
}

// maxHosts is the maximum number of addresses that are remembered.
const maxHosts = 1 << 20

// judge reports whether the row is a record, and scales its bytes. Other rows are rejected by view judged,
// which has the reasons.
func (r *regularRows) judge(v *regularRecord) bool {
	if v.src.node == v.dst.node || v.bytes == 0 || v.bytes > maxFlowBytes/v.rate {
		return false
	}
	if v.startNS < firstNS || v.startNS > maxStartNS || v.endNS < v.startNS || v.endNS > maxStartNS {
		return false
	}
	if v.protocol == 6 && v.packets >= 0 && v.bytes/40 >= v.packets {
		most := int64(headerBytes)
		if slices.Contains(r.fields[r.layout.src], ':') {
			most += 20
		}
		if v.packets >= v.bytes/most {
			return false // perhaps ACKs alone
		}
	}
	service, vnet := r.book.labelOf(&v.src, &v.dst, v.srcPort, v.dstPort)
	v.labels.service = service
	if vnet != "" && (v.labels.vnet == "" || r.o.LabelsFirst) {
		v.labels.vnet = vnet
	}
	return true
}

// note adds a record to the sums.
func (r *regularRows) note(v *regularRecord, line []byte) error {
	r.n++
	r.bytes += float64(v.bytes * v.rate)
	r.firstNS = min(r.firstNS, v.startNS)
	r.lastNS = max(r.lastNS, v.endNS)
	r.starts[(uint64(v.startNS)*0x9e3779b97f4a7c15)>>56]++
	day := v.startNS / dayNS
	if day != r.lastDay {
		r.endDay()
		r.lastDay = day
	}
	r.inDay++
	switch {
	case v.stated:
		r.stated++
	case v.protocol == 6 && v.packets > 0:
		r.tcp++
		if v.packets == 1 {
			r.single++
		}
	}
	if v.rate > 1 {
		return nil
	}
	return r.hashes.Add(rowHash{xxh3.HashSeed(line, uint64(r.layoutN)), v.bytes})
}

// endDay adds the rows of the last day to days.
func (r *regularRows) endDay() {
	if r.inDay > 0 {
		r.days[r.lastDay] += r.inDay
	}
	r.inDay = 0
}

// append appends a record to the batch.
func (r *regularRows) append(v *regularRecord, row int64) {
	b := r.b
	i64 := func(i int, value int64) { b.Field(i).(*array.Int64Builder).Append(value) }
	i32 := func(i int, value int32) { b.Field(i).(*array.Int32Builder).Append(value) }
	text := func(i int, value string) { b.Field(i).(*array.StringBuilder).Append(value) }
	i32(atSource, r.source)
	i64(atRow, row)
	b.Field(atReverse).(*array.BooleanBuilder).Append(false)
	b.Field(atFlowID).AppendNull()
	i32(atSrc, v.src.node)
	i32(atDst, v.dst.node)
	b.Field(atProtocol).(*array.Int16Builder).Append(v.protocol)
	i32(atSrcPort, v.srcPort)
	i32(atDstPort, v.dstPort)
	b.Field(atObserver).(*array.StringBuilder).BinaryBuilder.Append(r.observer)
	whole := v.bytes * v.rate
	i64(atBytes, whole)
	i64(atStart, v.startNS)
	i64(atEnd, v.endNS)
	i64(atResolution, v.resolutionNS)
	samples := int64(0)
	if v.rate > 1 {
		samples = max(1, v.packets)
	}
	i64(atSamples, samples)
	if v.packets > 0 && v.packets <= whole/v.rate {
		i64(atPackets, v.packets*v.rate)
	} else {
		b.Field(atPackets).AppendNull()
	}
	text(atService, v.labels.service)
	text(atVNet, v.labels.vnet)
	if v.dscp < 0 {
		b.Field(atDSCP).AppendNull()
	} else {
		b.Field(atDSCP).(*array.Int16Builder).Append(v.dscp)
	}
}

// The places of the columns of table records.
const (
	atSource = iota
	atRow
	atReverse
	atFlowID
	atSrc
	atDst
	atProtocol
	atSrcPort
	atDstPort
	atObserver
	atBytes
	atStart
	atEnd
	atResolution
	atSamples
	atPackets
	atService
	atVNet
	atDSCP
)

// flush writes the records of the batch.
func (r *regularRows) flush() error {
	r.endDay()
	batch := r.b.NewRecord()
	defer batch.Release()
	if batch.NumRows() == 0 {
		return nil
	}
	return r.out.Write(batch)
}

// hasManyStarts reports whether no start can be that of more than half of all rows, including irregular ones.
// Then no start is stuck.
func (r *regularRows) hasManyStarts(others int64) bool {
	others *= 2 // directions
	return r.n+others < stuckRows || 2*(slices.Max(r.starts[:])+others) <= r.n
}

// repeats counts the regular rows that repeat another one, and their bytes.
func (r *regularRows) repeats(ctx context.Context) (again int64, bytes float64, err error) {
	var last rowHash
	first := true
	err = r.hashes.Each(ctx, func(h *rowHash) error {
		if !first && h.hash == last.hash {
			again++
			bytes += float64(h.bytes)
		}
		first = false
		last = *h
		return nil
	})
	return again, bytes, err
}
