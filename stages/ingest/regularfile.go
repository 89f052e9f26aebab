package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/stages/ingest/connections"
	"parsimon/stages/ingest/flatjson"
)

// errIrregular means that Ingester.File has to read the file.
var errIrregular = errors.New("most rows need SQL")

// MayBeRegular reports whether RegularFile can read a file with the given mappings.
func MayBeRegular(of []*Mapping, file string) bool {
	return len(of) == 1 && !of[0].foreign && regularFormats[of[0].Name] != nil && !isParquet(file)
}

// FileTables are where RegularFile writes tables records and rejects.
type FileTables struct{ Records, Rejects schema.Sink }

// RegularFile reads a source file for which MayBeRegular is true. It behaves like File: records, rejects,
// counts and remarks are the same. It writes records and rejects to out. Regular rows, in which all numbers
// and times are plain, are read and judged without SQL. Other rows are staged and judged as by File. It
// reports false if the file or most of its rows are not regular: the caller then discards out and calls File.
// Merge does not read the records of a flow log again. A CollectError is not a fault of the file.
func (in *Ingester) RegularFile(ctx context.Context, m *Mapping, file string, n int32,
	out FileTables) (stats FileStats, regular bool, err error) {
	notes := len(in.notes)
	rows := in.newRegularRows(m, n, out)
	stats, err = in.regularFile(ctx, fileWork{m: m, file: file, n: n, regular: rows})
	if errors.Is(err, errIrregular) {
		in.notes = in.notes[:notes]
		return FileStats{}, false, nil
	}
	if err != nil {
		return stats, true, cmp.Or(ctx.Err(), inFile(file, err))
	}
	if rows.out.collected != nil {
		rows.out.collected.Keep()
	}
	return stats, true, nil
}

func (in *Ingester) regularFile(ctx context.Context, w fileWork) (stats FileStats, err error) {
	rows := w.regular
	defer func() { err = errors.Join(err, rows.rejects.close()) }()
	if err := in.makeDir(&w); err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()
	rows.dir = w.dir
	rows.out.start()
	defer func() { err = cmp.Or(err, rows.out.finish()) }()
	if w.src, err = in.stageText(ctx, w); err != nil {
		return stats, err
	}
	rows.endDay()
	if err := rows.out.finish(); err != nil {
		return stats, err
	}
	if err := in.processWithin(ctx, w, &stats); err != nil {
		return stats, err
	}
	stats.Records += rows.n
	if stats.RecordsFile != "" {
		err = columns.ForEach(in.o.Open(schema.Records, stats.RecordsFile), rows.out.Write)
		err = errors.Join(err, os.Remove(stats.RecordsFile))
	}
	stats.RecordsFile = ""
	stats.RejectsFile = ""
	return stats, err
}

// processWithin judges the staged rows of a file. The records that are collected for the merge may take half
// of the memory, so that DuckDB has the other half meanwhile.
func (in *Ingester) processWithin(ctx context.Context, w fileWork, stats *FileStats) (err error) {
	if w.regular.out.collected == nil || w.src.rows == 0 {
		return in.process(ctx, w, stats)
	}
	limit := in.limits("").MemoryBytes
	if err := in.setMemory(ctx, max(128<<20, limit/2)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.setMemory(context.WithoutCancel(ctx), limit)) }()
	return in.process(ctx, w, stats)
}

// setMemory sets the memory limit of DuckDB.
func (in *Ingester) setMemory(ctx context.Context, bytes int64) error {
	return in.exec(ctx, fmt.Sprintf("SET memory_limit = '%d KiB'", bytes>>10))
}

// regularRows reads and judges the regular rows of a file.
type regularRows struct {
	*Ingester
	m       *Mapping
	format  *regularFormat
	source  int32
	out     regularOut
	dir     string // of intermediate files
	none    string // the text that stands for no value
	times   timeParser
	objects *flatjson.Reader // of JSON
	repeats repeatedRows
	rejects regularRejects
	// addresses are those of rows; nil: they may be several nodes, or too many are remembered.
	addresses map[string]*regularAddress
	regularLine
	regularSums
}

// regularLine is the layout of the last line, its fields, and its record.
type regularLine struct {
	layout    regularLayout
	layoutN   int  // number of the header; -1: none yet
	separator byte // of fields
	fields    [][]byte
	observer  []byte
	record    regularRecord
}

// regularSums has the values of a file's regular rows that its checks and remarks need.
type regularSums struct {
	n           int64 // records
	hasIDs      bool
	single, tcp int64 // records of TCP without a rate: those of one packet, and all with packets
	stated      int64 // records with a rate
	bytes       float64
	nearNS      int64 // the start of the first record
	firstNS     int64 // start
	lastNS      int64 // start or end
	regularTimes
}

// regularTimes is what the checks and remarks about the times of a flow log need.
type regularTimes struct {
	timed          int64           // rows with times that count
	days           map[int64]int64 // rows by day of the start
	lastDay, inDay int64           // the day of the last row, and rows in it that days lacks
	starts         [256]int64      // rows by the low bits of a hash of the start
	firstSeenNS    int64           // reception, or end where it is unknown
	lastSeenNS     int64
	// quarters are rows by the number of quarters of an hour by which they end after their reception.
	quarters map[int64]int64
}

func (in *Ingester) newRegularRows(m *Mapping, n int32, out FileTables) *regularRows {
	r := &regularRows{
		Ingester: in, m: m, format: regularFormats[m.Name], source: n,
		addresses: map[string]*regularAddress{},
		out:       regularOut{FileTables: out}, regularLine: regularLine{layoutN: -1},
	}
	if m.Records && !in.o.NoMerge {
		r.out.collected = in.collector.Read(n)
	}
	r.firstNS = math.MaxInt64
	r.firstSeenNS = math.MaxInt64
	r.days = map[int64]int64{}
	r.quarters = map[int64]int64{}
	switch m.reads {
	case "words":
		r.none = "-"
	case "json":
		r.objects = flatjson.NewReader(names.Of(m.columns, mappingColumn.keys))
	}
	return r
}

// keys returns the keys of a JSON column of objects without nested ones.
func (c mappingColumn) keys() []string {
	return names.Of(c.paths, func(path string) string { return strings.TrimPrefix(path, "$.") })
}

// A regularRecord is the record of a regular row. Missing numbers are noNumber.
type regularRecord struct {
	regularEnds
	bytes, packets       int64
	rate, dscp           int64
	stated               bool // the row or its format states the rate, or bytes are estimates
	sampled              bool
	start, end, received instant
	labels               struct{ service, vnet string }
}

// regularEnds are the ends of a record.
type regularEnds struct {
	src, dst         *regularAddress
	srcPort, dstPort int64
	protocol         int64
	flowID           int64
}

const noNumber = -1

// Most of the first firstRows rows have to be regular.
const firstRows = 4096

// addText adds a line of fields if it is a regular row. After errIrregular, the file is not read further.
func (r *regularRows) addText(p *lineParser, line []byte, row int64) (taken bool, err error) {
	if r.layoutN != p.layout {
		header := r.m.names
		if len(p.layouts) > 0 {
			header = p.layouts[p.layout]
		}
		if err := r.setLayout(header, p.layout); err != nil {
			return false, err
		}
	}
	r.separator = p.separator
	r.fields = splitRegular(line, p.separator, r.fields[:0])
	if r.m.timed && len(r.fields) > 1 && isTime(string(r.fields[0])) {
		line = line[len(r.fields[0])+1:]
		r.fields = r.fields[1:]
	}
	if len(r.fields) != r.layout.width {
		return false, r.checkShare(row)
	}
	return r.add(line, row)
}

// addObject adds a JSON object if it is a regular row.
func (r *regularRows) addObject(line []byte, row int64) (taken bool, err error) {
	if r.layoutN < 0 {
		header := names.Of(r.m.columns, func(c mappingColumn) string { return c.name })
		if err := r.setLayout(header, 0); err != nil {
			return false, err
		}
	}
	fields, ok := r.objects.Read(line)
	if !ok {
		return false, r.checkShare(row)
	}
	r.fields = fields
	return r.add(line, row)
}

func (r *regularRows) setLayout(header []string, number int) error {
	var ok bool
	r.layout, ok = r.format.layoutOf(r.m, header)
	if !ok {
		return errIrregular
	}
	r.layoutN = number
	return nil
}

// checkShare returns errIrregular if few of the first rows are regular.
func (r *regularRows) checkShare(row int64) error {
	taken := r.n + r.rejects.n
	if row >= firstRows && taken < firstRows/2 && 2*taken < row {
		return errIrregular
	}
	return nil
}

// longLine is the number of bytes of a line that is not regular. Batches of regular rows are bounded by their
// number of rows, and so their memory is, too. Rows for SQL are bounded by bytes.
const longLine = 4096

// add adds a row of fields if it is regular.
func (r *regularRows) add(line []byte, row int64) (taken bool, err error) {
	if len(line) >= longLine || !r.isPlain() {
		return false, r.checkShare(row)
	}
	reason := r.asideReason()
	if reason != "" {
		if !r.hasClearEnds() {
			return false, r.checkShare(row)
		}
		return true, r.reject(line, row, reason)
	}
	record := &r.record
	*record = regularRecord{}
	if !r.parse(record) || !r.isUsual(record) {
		return false, r.checkShare(row)
	}
	reason = r.reason(record)
	if reason == "" && !r.isNear(record) {
		return false, r.checkShare(row)
	}
	r.hasIDs = r.hasIDs || record.flowID != noNumber
	if err := r.regularTimes.note(record); err != nil {
		return false, err
	}
	if reason != "" {
		return true, r.reject(line, row, reason)
	}
	r.label(record)
	r.note(record, line)
	return true, r.append(record, row)
}

// value returns the text of a value, or an empty text.
func (r *regularRows) value(of valueOf) []byte {
	for _, at := range r.layout.at[of] {
		if string(r.fields[at]) != r.none {
			return r.fields[at]
		}
	}
	return nil
}

// number parses a value into a number, unless the row lacks the value. It reports false for other texts.
func (r *regularRows) number(of valueOf, to *int64) (ok bool) {
	*to = noNumber
	text := r.value(of)
	if len(text) == 0 {
		return true
	}
	*to, ok = plainNumber(text)
	return ok
}

// isPlain reports whether the row has no value that makes it irregular.
func (r *regularRows) isPlain() bool {
	isNone := func(of valueOf) bool {
		text := r.value(of)
		return len(text) == 0 || string(text) == "0"
	}
	return r.layout.isPlain ||
		isNone(ofReverseBytes) && isNone(ofReversePackets) && len(r.value(ofAfter)) == 0 &&
			len(r.value(ofDelay)) == 0
}

// parse parses the fields of a row.
func (r *regularRows) parse(v *regularRecord) bool {
	return r.parseEnds(v) && r.parseSizes(v) && r.parseTimes(v) &&
		(r.format.finish == nil || r.format.finish(r, v)) && r.observe(v)
}

// parseEnds parses what tells connections apart, and the labels of the row.
func (r *regularRows) parseEnds(v *regularRecord) bool {
	src := r.value(ofSrc)
	dst := r.value(ofDst)
	if len(src) == 0 || len(dst) == 0 {
		return false
	}
	v.src = r.address(src)
	v.dst = r.address(dst)
	if v.src == nil || v.dst == nil || !r.number(ofSrcPort, &v.srcPort) || !r.number(ofDstPort, &v.dstPort) {
		return false
	}
	if v.srcPort >= allPorts || v.dstPort >= allPorts {
		return false
	}
	if !r.number(ofFlowID, &v.flowID) || v.flowID == noNumber && r.layout.at[ofFlowID] != nil {
		return false
	}
	v.labels.service = r.out.texts.of(bytes.Trim(r.value(ofService), " "))
	v.labels.vnet = r.out.texts.of(bytes.Trim(r.value(ofVNet), " "))
	v.protocol = noNumber
	text := r.value(ofProtocol)
	if len(text) == 0 {
		return true
	}
	number, ok := protocolNumber(text)
	v.protocol = int64(number)
	return ok
}

// parseSizes parses numbers of bytes and packets, the sampling rate and the DSCP.
func (r *regularRows) parseSizes(v *regularRecord) bool {
	var rate, tos int64
	ok := r.number(ofBytes, &v.bytes) && r.number(ofPackets, &v.packets) && r.number(ofRate, &rate) &&
		r.number(ofTOS, &tos) && r.number(ofDSCP, &v.dscp)
	if !ok || v.bytes == noNumber || v.packets > maxFlowBytes || tos > math.MaxUint8 || v.dscp > 63 {
		return false
	}
	if v.dscp == noNumber && tos != noNumber {
		v.dscp = tos / 4
	}
	v.rate = max(1, r.o.SamplingRate)
	switch {
	case r.format.counted:
		v.rate = 1
		v.stated = true
	case rate > 0:
		v.rate = rate
		v.stated = true
	}
	return true
}

// parseTimes parses the times of a row. A missing end is the start.
func (r *regularRows) parseTimes(v *regularRecord) (ok bool) {
	v.start, ok = r.timeOf(r.layout.start)
	if !ok || v.start.column == "" {
		return false
	}
	v.received, ok = r.timeOf(r.layout.received)
	if !ok {
		return false
	}
	v.end, ok = r.timeOf(r.layout.end)
	if !ok || v.end.column != "" {
		return ok
	}
	v.end.ns = v.start.ns
	for _, d := range r.layout.duration {
		text := r.fields[d.at]
		if string(text) == r.none {
			continue
		}
		var n int64
		if d.unitNS == decimalSeconds {
			n, ok = plainSeconds(text)
			ok = ok && v.start.isDate
		} else {
			n, ok = plainNumber(text)
			ok = ok && n <= dayNS/d.unitNS
			n *= d.unitNS
		}
		v.end.ns += n
		v.end.column = d.name
		return ok
	}
	return true
}

// timeOf parses the first time that a row has. It reports false if it is not plain.
func (r *regularRows) timeOf(placed []placedTime) (t instant, ok bool) {
	for i := range placed {
		p := &placed[i]
		if string(r.fields[p.at]) != r.none {
			return r.times.parse(&p.timeColumn, r.fields[p.at])
		}
	}
	return t, true
}

// observe sets the observer of the row, as step records has it.
func (r *regularRows) observe(v *regularRecord) bool {
	observer := r.value(ofObserver)
	has := len(observer) > 0
	if has && observer[0] == ' ' {
		return false
	}
	r.observer = append(r.observer[:0], observer...)
	iface := r.value(ofInterface)
	if len(iface) == 0 || has && (v.rate > 1 || v.sampled) {
		return true
	}
	if has {
		r.observer = append(r.observer, ' ')
	}
	r.observer = append(r.observer, iface...)
	return true
}

// isNear reports whether a record is within days of the first one. For others, it depends on the day on which
// most rows start whether they are out of time.
func (r *regularRows) isNear(v *regularRecord) bool {
	return r.n == 0 || v.start.ns > r.nearNS-maxSpanNS/2 && v.end.ns < r.nearNS+maxSpanNS/2
}

// hasTime reports whether the start of a record in a flow log is a time, as view timed has it.
func (v *regularRecord) hasTime() bool {
	if v.start.ns < firstNS || v.end.ns < firstNS {
		return false
	}
	return v.received.column == "" || v.received.ns >= firstNS && v.start.ns-skewNS <= v.received.ns
}

// label sets the labels of a record: its own, or those of the labels table.
func (r *regularRows) label(v *regularRecord) {
	service, vnet := r.book.labelOf(v.src, v.dst, int32(v.srcPort), int32(v.dstPort))
	if service != "" && (v.labels.service == "" || r.o.LabelsFirst) {
		v.labels.service = service
	}
	if vnet != "" && (v.labels.vnet == "" || r.o.LabelsFirst) {
		v.labels.vnet = vnet
	}
}

// note adds a record to the sums.
func (r *regularRows) note(v *regularRecord, line []byte) {
	if r.n == 0 {
		r.nearNS = v.start.ns
	}
	r.n++
	r.bytes += float64(v.bytes * v.rate)
	r.firstNS = min(r.firstNS, v.start.ns)
	r.lastNS = max(r.lastNS, v.end.ns)
	switch {
	case v.stated:
		r.stated++
	case v.protocol == 6 && v.packets > 0:
		r.tcp++
		if v.packets == 1 {
			r.single++
		}
	}
	if r.m.Records && v.rate == 1 && !v.sampled {
		r.repeats.add(xxh3.HashSeed(line, uint64(r.layoutN)), v.bytes)
	}
}

// maxQuarters is the number of different distances between end and reception that are counted.
const maxQuarters = 1 << 16

func (t *regularTimes) note(v *regularRecord) error {
	t.timed++
	t.starts[(uint64(v.start.ns)*0x9e3779b97f4a7c15)>>56]++
	day := v.start.ns / dayNS
	if day != t.lastDay {
		t.endDay()
		t.lastDay = day
	}
	t.inDay++
	seen := v.received
	if seen.column == "" {
		seen = v.end
	}
	if seen.column != "" {
		t.firstSeenNS = min(t.firstSeenNS, seen.ns)
		t.lastSeenNS = max(t.lastSeenNS, seen.ns)
	}
	if v.received.column == "" {
		return nil
	}
	t.quarters[int64(math.Round(float64(v.end.ns-v.received.ns)/900e9))]++
	if len(t.quarters) > maxQuarters {
		return errIrregular
	}
	return nil
}

// endDay adds the rows of the last day to days.
func (t *regularTimes) endDay() {
	if t.inDay > 0 {
		t.days[t.lastDay] += t.inDay
	}
	t.inDay = 0
}

// append appends a record to the rows that are written next.
func (r *regularRows) append(v *regularRecord, row int64) error {
	whole := v.bytes * v.rate
	samples := int64(0)
	switch {
	case v.rate > 1:
		samples = max(1, v.packets)
	case v.sampled:
		samples = noNumber
	}
	packets := int64(noNumber)
	if v.packets > 0 && v.packets <= whole/v.rate {
		packets = v.packets * v.rate
	}
	return r.out.rows.Add(connections.Row{
		Source: r.source, Row: row, FlowID: v.flowID, Observer: r.out.texts.of(r.observer), SizeBytes: whole,
		StartNS: v.start.ns, EndNS: v.end.ns, ResolutionNS: v.start.resolutionNS, Samples: samples,
		Packets: packets,
		RowEnds: connections.RowEnds{
			Src: v.src.node, Dst: v.dst.node, Protocol: int16(v.protocol), SrcPort: int32(v.srcPort),
			DstPort: int32(v.dstPort),
		},
		RowLabels: connections.RowLabels{
			Service: v.labels.service, VNet: v.labels.vnet, DSCP: int16(v.dscp),
		},
	})
}

// mayBeStuck reports whether more than half of the rows of a flow log may have the same start, although they
// were received over a long time. Its arguments describe the rows that are not regular: how many there are,
// how many of them have the same start, and when they were received.
func (r *regularRows) mayBeStuck(rows, alike, firstSeenNS, lastSeenNS int64) bool {
	alike += slices.Max(r.starts[:])
	isLong := max(r.lastSeenNS, lastSeenNS)-stuckNS > min(r.firstSeenNS, firstSeenNS)
	return alike >= stuckRows && 2*alike > r.timed+rows && isLong
}
