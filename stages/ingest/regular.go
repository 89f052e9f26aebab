package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A regularFormat says how the values of a record follow from the columns of a built-in mapping, for rows
// that need no SQL. It does not list values that are equal to a column.
type regularFormat struct {
	// columns are the columns of values that the SELECT computes. The first one with a value applies.
	columns map[string][]string
	// start, end and received are columns of times. The first one with a value applies. If none has an end,
	// the end is start plus duration.
	start, end, received, duration []timeColumn
	aside                          []asideColumn
	// unused are columns that only matter for rows that are not regular.
	unused []string
	// counted means that every packet is counted: the sampling rate is 1.
	counted bool
	// finish completes a record. It reports false if the row is not regular.
	finish func(r *regularRows, v *regularRecord) bool
}

// A timeColumn is a column of times or durations: whole numbers of a unit since 1970 or, if it is dated,
// texts such as 2026-01-31 09:00:00.5, which are UTC. Numbers of unit 0 are not regular.
type timeColumn struct {
	name         string
	unitNS       int64
	resolutionNS int64 // of numbers
	dated        bool
}

// decimalSeconds is the unit of durations such as 1.5.
const decimalSeconds = -1

// An asideColumn is a column with a text of rows that are not flows. The reason for leaving a row aside
// begins with field says.
type asideColumn struct {
	name, says string
	texts      []string
}

// regularFormats are the formats of which rows can be regular, by the name of their mapping.
var regularFormats = map[string]*regularFormat{
	"vpc": {
		start: []timeColumn{{name: "start", unitNS: 1e9, resolutionNS: 1e9}},
		end:   []timeColumn{{name: "end", unitNS: 1e9}},
		aside: []asideColumn{
			{"log_status", "log-status is ", []string{"NODATA", "SKIPDATA"}},
			{"action", "action is ", []string{"REJECT"}},
		},
		counted: true,
	},
	"ipfix": {
		columns: map[string][]string{
			"sampling_rate": {"samplinginterval"}, "dscp": {"ipdiffservcodepoint"}, "tos": {"ipclassofservice"},
		},
		start: []timeColumn{
			{name: "flowstartnanoseconds", unitNS: 1},
			{name: "flowstartmicroseconds", unitNS: 1e3, resolutionNS: 1e3},
			{name: "flowstartmilliseconds", unitNS: 1e6, resolutionNS: 1e6},
			{name: "flowstartseconds", unitNS: 1e9, resolutionNS: 1e9},
		},
		end: []timeColumn{
			{name: "flowendnanoseconds", unitNS: 1}, {name: "flowendmicroseconds", unitNS: 1e3},
			{name: "flowendmilliseconds", unitNS: 1e6}, {name: "flowendseconds", unitNS: 1e9},
		},
		duration: []timeColumn{{name: "flowdurationmilliseconds", unitNS: 1e6}},
		unused:   []string{"reverseflowstartmilliseconds", "reverseflowdeltamicroseconds"},
	},
	"nfdump": {
		columns: map[string][]string{"tos": {"stos"}},
		start: []timeColumn{
			{name: "ts", dated: true}, {name: "firstseen", unitNS: 1e6, resolutionNS: 1e6, dated: true},
		},
		end:      []timeColumn{{name: "te", dated: true}, {name: "lastseen", unitNS: 1e6, dated: true}},
		received: []timeColumn{{name: "tr", dated: true}},
		duration: []timeColumn{{name: "duration", unitNS: decimalSeconds}, {name: "td", unitNS: decimalSeconds}},
	},
	"nfdump_json": {
		columns:  map[string][]string{"tos": {"src_tos"}, "kind": {"type"}},
		start:    []timeColumn{{name: "first", dated: true}},
		end:      []timeColumn{{name: "last", dated: true}},
		received: []timeColumn{{name: "received", dated: true}},
		finish: func(r *regularRows, v *regularRecord) bool {
			kind := r.value(ofKind)
			return v.bytes != v.packets && (len(kind) == 0 || string(kind) == "FLOW")
		},
	},
	"goflow2": {
		columns: map[string][]string{
			"kind": {"type"}, "tos": {"ip_tos"}, "size_bytes": {"bytes"}, "packets": {"packets"},
			"sampling_rate": {"sampling_rate"},
		},
		start: []timeColumn{
			{name: "start_ns", unitNS: 1}, {name: "start_s", unitNS: 1e9},
		},
		end: []timeColumn{
			{name: "end_ns", unitNS: 1}, {name: "end_s", unitNS: 1e9}, {name: "received_ns", unitNS: 1},
			{name: "received_s", unitNS: 1e9},
		},
		received: []timeColumn{{name: "received_ns", unitNS: 1}, {name: "received_s", unitNS: 1e9}},
		finish:   finishGoflow2,
	},
	"pmacct": {
		columns: map[string][]string{"tos": {"tos"}, "sampling_rate": {"sampling_rate"}},
		start: []timeColumn{
			{name: "timestamp_start", unitNS: 1e9, resolutionNS: 1e9, dated: true},
			{name: "stamp_inserted", unitNS: 1e9, resolutionNS: 1e9, dated: true},
		},
		end: []timeColumn{
			{name: "timestamp_end", unitNS: 1e9, dated: true}, {name: "stamp_updated", unitNS: 1e9, dated: true},
		},
		received: []timeColumn{{name: "stamp_updated", unitNS: 1e9, dated: true}},
		aside:    []asideColumn{{"event_type", "event_type is ", []string{"purge_init", "purge_close"}}},
	},
	"csv":   regularFlows,
	"jsonl": regularFlows,
}

// regularFlows are rows that are flows.
var regularFlows = &regularFormat{
	columns: map[string][]string{"after": {"after"}},
	start:   []timeColumn{{name: "start_ns", unitNS: 1}},
	end:     []timeColumn{{name: "end_ns", unitNS: 1}},
}

// The sizes of sFlow are those of Ethernet frames, with header and checksum.
const ethernetBytes = 18

// finishGoflow2 completes a record of goflow2. A row of sFlow is one sampled packet.
func finishGoflow2(r *regularRows, v *regularRecord) bool {
	v.sampled = v.stated && v.rate > 1
	isSFlow := string(r.value(ofKind)) == "SFLOW_5"
	if isSFlow {
		v.bytes -= ethernetBytes
		v.packets = 1
		v.sampled = true
		if !v.stated {
			v.rate = 1
			v.stated = true
		}
	}
	switch {
	case isSFlow && v.received.column == "received_ns":
		v.start.resolutionNS = 0
	case v.start.column == "start_ns" && v.start.ns%1e9 == 0:
		v.start.resolutionNS = 1e9
	default:
		v.start.resolutionNS = 1e6
	}
	return true
}

// A valueOf is a value that is the text of a column.
type valueOf int

// Values of rows.
const (
	ofSrc valueOf = iota
	ofDst
	ofProtocol
	ofSrcPort
	ofDstPort
	ofObserver
	ofInterface
	ofBytes
	ofPackets
	ofRate
	ofTOS
	ofDSCP
	ofService
	ofVNet
	ofFlowID
	ofKind
	ofReverseBytes
	ofReversePackets
	ofAfter
	ofDelay
)

// irregularValues are the values that make a row irregular, unless they are empty or, for reverse ones, 0.
var irregularValues = []valueOf{ofReverseBytes, ofReversePackets, ofAfter, ofDelay}

// valueNames are the names of the values: canonical columns, and those of regularFormat.columns.
var valueNames = [...]string{
	ofSrc: "src", ofDst: "dst", ofProtocol: "protocol", ofSrcPort: "src_port", ofDstPort: "dst_port",
	ofObserver: "observer", ofInterface: "interface", ofBytes: "size_bytes", ofPackets: "packets",
	ofRate: "sampling_rate", ofTOS: "tos", ofDSCP: "dscp", ofService: "service", ofVNet: "vnet",
	ofFlowID: "flow_id", ofKind: "kind", ofReverseBytes: reverseBytes, ofReversePackets: "reverse_packets",
	ofAfter: "after", ofDelay: "delay_ns",
}

// A regularLayout has the places of the values in the fields of a row.
type regularLayout struct {
	width                          int
	isPlain                        bool // the fields have no place for irregularValues
	at                             [len(valueNames)][]int
	start, end, received, duration []placedTime
	aside                          []placedAside
}

type placedTime struct {
	timeColumn
	at int
}

type placedAside struct {
	asideColumn
	at int
}

// plainItem matches an item of a SELECT that is a column, or the first of several that has a value.
var plainItem = regexp.MustCompile(`^(?:coalesce\(([^()]+)\)|("?[a-z0-9_]+"?))(?: AS ([a-z_]+))?$`)

// plainColumns returns the columns that the SELECT of the mapping does not change, by canonical column.
func (m *Mapping) plainColumns() map[string][]string {
	plain := map[string][]string{}
	query := strings.TrimSpace(sqlComment.ReplaceAllString(m.query, ""))
	for _, item := range selectItems(strings.TrimPrefix(query, "SELECT")) {
		found := plainItem.FindStringSubmatch(strings.TrimSpace(item))
		if found == nil {
			continue
		}
		var columns []string
		for _, name := range strings.Split(found[1]+found[2], ",") {
			columns = append(columns, strings.Trim(name, ` "`))
		}
		isOwn := func(name string) bool {
			return slices.ContainsFunc(m.columns, func(c mappingColumn) bool { return c.name == name })
		}
		if len(columns) == 1 || found[3] != "" {
			name := cmp.Or(found[3], columns[0])
			plain[name] = slices.DeleteFunc(columns, func(name string) bool { return !isOwn(name) })
		}
	}
	return plain
}

// selectItems divides a SELECT at the commas that are not in parentheses, up to FROM.
func selectItems(query string) (items []string) {
	from := 0
	depth := 0
	for i, c := range query {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && c == ',':
			items = append(items, query[from:i])
			from = i + 1
		case depth == 0 && strings.HasPrefix(query[i:], "\nFROM "):
			return append(items, query[from:i])
		}
	}
	return append(items, query[from:])
}

// A placing finds the columns of a header that a regularFormat uses.
type placing struct {
	at   map[string]int // places by name
	used map[string]bool
}

// place returns the place of a column, if the header has it.
func (p *placing) place(column string) (at int, has bool) {
	p.used[column] = true
	at, has = p.at[column]
	return at, has
}

func (p *placing) times(columns []timeColumn) (placed []placedTime) {
	for _, c := range columns {
		at, has := p.place(c.name)
		if has {
			placed = append(placed, placedTime{c, at})
		}
	}
	return placed
}

// layoutOf returns the places of the values in rows with a header. It reports false if no row with this
// header is regular, because it lacks a value or has a column that needs the SQL.
func (f *regularFormat) layoutOf(m *Mapping, header []string) (l regularLayout, ok bool) {
	_, err := m.placesIn(header)
	if err != nil {
		return l, false
	}
	p := placing{map[string]int{}, map[string]bool{}}
	for i, name := range header {
		p.at[columnName(name)] = i
	}
	plain := m.plainColumns()
	for value, name := range valueNames {
		for _, column := range slices.Concat(f.columns[name], plain[name]) {
			at, has := p.place(column)
			if has && !slices.Contains(l.at[value], at) {
				l.at[value] = append(l.at[value], at)
			}
		}
	}
	l.width = len(header)
	l.isPlain = !slices.ContainsFunc(irregularValues, func(of valueOf) bool { return l.at[of] != nil })
	l.start = p.times(f.start)
	l.end = p.times(f.end)
	l.received = p.times(f.received)
	l.duration = p.times(f.duration)
	for _, c := range f.aside {
		at, has := p.place(c.name)
		if has {
			l.aside = append(l.aside, placedAside{c, at})
		}
	}
	for _, c := range m.columns {
		_, has := p.at[c.name]
		if has && !p.used[c.name] && !slices.Contains(f.unused, c.name) {
			return l, false
		}
	}
	// If several texts have a date, SQL decides which one states the resolution of the start.
	isDated := func(t placedTime) bool { return t.dated }
	first := slices.IndexFunc(l.start, isDated)
	if m.reads != "json" && first >= 0 && slices.ContainsFunc(l.start[first+1:], isDated) {
		return l, false
	}
	return l, l.at[ofSrc] != nil && l.at[ofDst] != nil && l.at[ofBytes] != nil && l.start != nil
}

// splitRegular divides a line at a separator. It returns nil if the line has a quote, a control character or
// a non-ASCII byte, or an empty field if the separator is a space. It compares eight bytes at a time.
func splitRegular(line []byte, separator byte, fields [][]byte) [][]byte {
	from := 0
	at := 0
	for ; at+8 <= len(line); at += 8 {
		word := binary.LittleEndian.Uint64(line[at:])
		found := equalBytes(word, separator)
		if word&highBits != 0 || irregularBytes(word)&^found != 0 {
			return nil
		}
		for ; found != 0; found &= found - 1 {
			i := at + bits.TrailingZeros64(found)/8
			if separator == ' ' && i == from {
				return nil
			}
			fields = append(fields, line[from:i])
			from = i + 1
		}
	}
	for i, c := range line[at:] {
		switch {
		case c == separator:
			if separator == ' ' && at+i == from {
				return nil
			}
			fields = append(fields, line[from:at+i])
			from = at + i + 1
		case c < ' ' || c >= 0x7f || c == '"':
			return nil
		}
	}
	return append(fields, line[from:])
}

// Eight bytes of one value each.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// equalBytes returns a word with the high bits of the bytes that are c, if all bytes of the word are ASCII.
func equalBytes(word uint64, c byte) uint64 {
	return ^((word ^ lowBits*uint64(c)) + 0x7f*lowBits) & highBits
}

// irregularBytes returns a word with the high bits of the bytes that are quotes or control characters, if all
// bytes of the word are ASCII.
func irregularBytes(word uint64) uint64 {
	isControl := ^(word + (0x80-' ')*lowBits) & highBits
	isDelete := (word + lowBits) & highBits
	return isControl | isDelete | equalBytes(word, '"')
}

// plainNumber parses a whole number as DuckDB writes it: without a sign or leading zeros.
func plainNumber(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 19 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	var sum uint64 // of 19 digits, it is below 2^64
	for len(text) >= 8 {
		eight, ok := eightDigits(binary.LittleEndian.Uint64(text))
		if !ok {
			return 0, false
		}
		sum = sum*1e8 + eight
		text = text[8:]
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		sum = sum*10 + uint64(c-'0')
	}
	return int64(sum), sum <= math.MaxInt64
}

// eightDigits parses eight digits, the first of which is in the low byte of a word. It adds pairs of digits,
// then pairs of these sums, and then both halves.
func eightDigits(word uint64) (n uint64, ok bool) {
	digits := word - '0'*lowBits // of a byte that is no digit, a high bit is set here or in the next line
	if (digits|(digits+(0x7f-9)*lowBits))&highBits != 0 {
		return 0, false
	}
	digits = digits*10 + digits>>8
	const pairs = 0x000000ff000000ff
	return ((digits&pairs)*(100+1e6<<32) + (digits>>16&pairs)*(1+1e4<<32)) >> 32, true
}

// plainSeconds parses decimal seconds, such as 1.5, as ns.
func plainSeconds(text []byte) (ns int64, ok bool) {
	whole, fraction, isDecimal := bytes.Cut(text, []byte("."))
	n, ok := plainNumber(whole)
	if !ok || n > 1e9 || len(fraction) > 9 {
		return 0, false
	}
	if !isDecimal {
		return n * 1e9, true
	}
	part := int64(0)
	for _, c := range fraction {
		if c < '0' || c > '9' {
			return 0, false
		}
		part = part*10 + int64(c-'0')
	}
	for range 9 - len(fraction) {
		part *= 10
	}
	return n*1e9 + part, true
}

// A timeParser parses times. It remembers the last date.
type timeParser struct {
	date   []byte
	unixNS int64 // of its beginning
}

// An instant is a time, its resolution, and the column that has it; empty: there is none.
type instant struct {
	ns, resolutionNS int64
	column           string
	isDate           bool // it is a text with a date
}

// parse parses the time in a column.
func (p *timeParser) parse(c *timeColumn, text []byte) (t instant, ok bool) {
	t.column = c.name
	if c.dated && len(text) > 10 && text[4] == '-' {
		t.isDate = true
		t.ns, t.resolutionNS, ok = p.datetime(text)
		return t, ok
	}
	n, ok := plainNumber(text)
	t.ns = n * c.unitNS
	t.resolutionNS = c.resolutionNS
	return t, ok && c.unitNS > 0 && n <= maxStartNS/c.unitNS
}

// fractionUnits are the resolutions of a fraction of a second by its number of digits.
var fractionUnits = [...]int64{1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3}

// datetime parses a date and a time such as 2026-01-31 09:00:00.123, with 6 digits of a fraction at most.
func (p *timeParser) datetime(text []byte) (ns, resolutionNS int64, ok bool) {
	if len(text) < 19 || text[10] != ' ' && text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	if !bytes.Equal(text[:10], p.date) {
		day, err := time.Parse(time.DateOnly, string(text[:10]))
		if err != nil || day.Unix() < 0 || day.Unix() > maxStartNS/1e9 {
			return 0, 0, false
		}
		p.date = append(p.date[:0], text[:10]...)
		p.unixNS = day.Unix() * 1e9
	}
	hour, hourOK := twoDigits(text[11:13])
	minute, minuteOK := twoDigits(text[14:16])
	second, secondOK := twoDigits(text[17:19])
	if !hourOK || !minuteOK || !secondOK || hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	ns = p.unixNS + (hour*3600+minute*60+second)*1e9
	fraction := text[19:]
	if len(fraction) == 0 {
		return ns, 1e9, true
	}
	digits := len(fraction) - 1
	if fraction[0] != '.' || digits == 0 || digits >= len(fractionUnits) {
		return 0, 0, false
	}
	resolutionNS = fractionUnits[digits]
	n := int64(0)
	for _, c := range fraction[1:] {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return ns + n*resolutionNS, resolutionNS, true
}

func twoDigits(text []byte) (n int64, ok bool) {
	a := text[0] - '0'
	b := text[1] - '0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}

// protocolNumber returns the number of a protocol, given its number or its name.
func protocolNumber(text []byte) (number int16, ok bool) {
	n, ok := plainNumber(text)
	if ok {
		return int16(n), n < 256
	}
	number, ok = protocolNumbers[string(text)]
	return number, ok
}

// protocolNumbers are the numbers of protocols by their names in capital and in small letters.
var protocolNumbers = func() map[string]int16 {
	numbers := map[string]int16{}
	for _, p := range protocols {
		numbers[p.name] = int16(p.number)
		numbers[strings.ToLower(p.name)] = int16(p.number)
	}
	return numbers
}()

// labelOf returns the service and the network of a flow by the labels table, as view judged has them.
func (b *addressBook) labelOf(src, dst *regularAddress, srcPort, dstPort int32) (service, vnet string) {
	if src.class == 0 && dst.class == 0 {
		return "", ""
	}
	nearSrc, rankSrc := b.labelsOf(src.class, srcPort)
	nearDst, rankDst := b.labelsOf(dst.class, dstPort)
	order := append(nearDst, nearSrc...)
	if rankSrc > rankDst {
		order = append(nearSrc, nearDst...)
	}
	for _, l := range order {
		if service == "" {
			service = l.service
		}
		if vnet == "" {
			vnet = l.vnet
		}
	}
	return service, vnet
}

// labelsOf returns two labels of a class: for a port and for any port. It also returns the rank of the first.
func (b *addressBook) labelsOf(number, port int32) (labels []label, rank int64) {
	c := b.classOf[number]
	rank = -1
	l, found := c.at(int(port))
	if found && !l.label.anyPort() {
		labels = append(labels, l.label)
		rank = l.rank
	}
	others, found := c.others()
	if found {
		labels = append(labels, others.label)
		if rank < 0 {
			rank = others.rank
		}
	}
	return labels, rank
}
