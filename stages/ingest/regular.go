package ingest

import (
	"bytes"
	"strings"
	"time"
)

// A regularFormat lists the columns of a built-in mapping that have the values of a record, for rows that
// need no SQL. A list has the names of one value in the order in which the mapping prefers them: the first
// one that a file has applies.
type regularFormat struct {
	ends                            endColumns
	protocol, observer, iface       []string
	bytes, packets, rate, tos, vnet []string
	start, end                      []timeColumn
	// reverse are columns of the reverse direction: a row with a number above 0 is not regular.
	reverse []string
	// aside are columns with a text of a row that is not a flow.
	aside map[string][]string
	// unused are columns that matter only if another one has no value.
	unused []string
	// counted means that every packet is counted: the sampling rate is 1.
	counted bool
}

type endColumns struct{ src, dst, srcPort, dstPort []string }

// A timeColumn is a column of times: whole numbers of a unit since 1970 or, if the unit is 0, texts such as
// 2026-01-31 09:00:00.5, which are UTC.
type timeColumn struct {
	name         string
	unitNS       int64
	resolutionNS int64 // of a unit
}

// regularFormats are the formats of which rows can be regular, by the name of their mapping.
var regularFormats = map[string]*regularFormat{
	"vpc": {
		ends: endColumns{
			src: []string{"pkt_srcaddr", "srcaddr"}, dst: []string{"pkt_dstaddr", "dstaddr"},
			srcPort: []string{"srcport"}, dstPort: []string{"dstport"},
		},
		protocol: []string{"protocol"},
		observer: []string{"interface_id", "flow_direction"},
		bytes:    []string{"bytes"}, packets: []string{"packets"}, vnet: []string{"vpc_id"},
		start: []timeColumn{{"start", 1e9, 1e9}}, end: []timeColumn{{"end", 1e9, 0}},
		aside:   map[string][]string{"log_status": {"NODATA", "SKIPDATA"}, "action": {"REJECT"}},
		counted: true,
	},
	"ipfix": {
		ends: endColumns{
			src:     []string{"sourceipv4address", "sourceipv6address"},
			dst:     []string{"destinationipv4address", "destinationipv6address"},
			srcPort: []string{"sourcetransportport"}, dstPort: []string{"destinationtransportport"},
		},
		protocol: []string{"protocolidentifier"},
		observer: []string{"exporteripv4address", "exporteripv6address"}, iface: []string{"ingressinterface"},
		bytes:   []string{"octetdeltacount", "octettotalcount"},
		packets: []string{"packetdeltacount", "packettotalcount"},
		rate:    []string{"samplinginterval"}, tos: []string{"ipclassofservice"},
		start: []timeColumn{
			{"flowstartnanoseconds", 1, 0}, {"flowstartmicroseconds", 1e3, 1e3},
			{"flowstartmilliseconds", 1e6, 1e6}, {"flowstartseconds", 1e9, 1e9},
		},
		end: []timeColumn{
			{"flowendnanoseconds", 1, 0}, {"flowendmicroseconds", 1e3, 0},
			{"flowendmilliseconds", 1e6, 0}, {"flowendseconds", 1e9, 0},
		},
		unused: []string{"flowdurationmilliseconds"},
	},
	"nfdump": {
		ends: endColumns{
			src: []string{"sa", "srcaddr"}, dst: []string{"da", "dstaddr"},
			srcPort: []string{"sp", "srcport"}, dstPort: []string{"dp", "dstport"},
		},
		protocol: []string{"pr", "proto"}, observer: []string{"ra"}, iface: []string{"in"},
		bytes: []string{"ibyt", "bytes"}, packets: []string{"ipkt", "packets"}, tos: []string{"stos"},
		start:   []timeColumn{{"ts", 0, 0}},
		end:     []timeColumn{{"te", 0, 0}},
		reverse: []string{"obyt", "opkt"}, unused: []string{"td", "duration"},
	},
}

// A regularLayout has the places of the values in the fields of a row; -1: the file has no such column.
type regularLayout struct {
	width                                int
	src, dst, srcPort, dstPort, protocol int
	bytes, packets, rate, tos, vnet      int
	observers                            [2]int // observer and interface
	start, end                           placedTime
	others                               []placedTexts
}

type placedTime struct {
	timeColumn
	at int
}

// placedTexts is a column whose value makes a row irregular: one of some texts, or any number above 0.
type placedTexts struct {
	at       int
	texts    []string
	isNumber bool
}

// layoutOf returns the places of the values in rows with a header. It reports false if no row with this
// header is regular, because it lacks a value or has a column that needs the SQL.
func (f *regularFormat) layoutOf(m *Mapping, header []string) (l regularLayout, ok bool) {
	if _, err := m.selectColumns(header, func(int) (string, error) { return "", nil }); err != nil {
		return l, false
	}
	at := map[string]int{}
	for i, name := range header {
		at[columnName(name)] = i
	}
	used := map[string]bool{}
	first := func(names []string) int {
		found := -1
		for _, name := range names {
			used[name] = true
			if place, has := at[name]; has && found < 0 {
				found = place
			}
		}
		return found
	}
	firstTime := func(columns []timeColumn) placedTime {
		found := placedTime{at: -1}
		for _, c := range columns {
			used[c.name] = true
			if place, has := at[c.name]; has && found.at < 0 {
				found = placedTime{c, place}
			}
		}
		return found
	}
	l = regularLayout{
		width: len(header), src: first(f.ends.src), dst: first(f.ends.dst), srcPort: first(f.ends.srcPort),
		dstPort: first(f.ends.dstPort), protocol: first(f.protocol), bytes: first(f.bytes),
		packets: first(f.packets), rate: first(f.rate), tos: first(f.tos), vnet: first(f.vnet),
		observers: [2]int{first(f.observer), first(f.iface)},
		start:     firstTime(f.start), end: firstTime(f.end),
	}
	first(f.unused)
	for name, texts := range f.aside {
		l.addOther(placedTexts{at: first([]string{name}), texts: texts})
	}
	for _, name := range f.reverse {
		l.addOther(placedTexts{at: first([]string{name}), isNumber: true})
	}
	for _, c := range m.columns {
		if _, has := at[c.name]; has && !used[c.name] {
			return l, false
		}
	}
	needed := min(l.src, l.dst, l.srcPort, l.dstPort, l.protocol, l.bytes, l.start.at, l.end.at)
	return l, needed >= 0
}

func (l *regularLayout) addOther(p placedTexts) {
	if p.at >= 0 {
		l.others = append(l.others, p)
	}
}

// isPlain reports whether no other column makes the row irregular. none is the text that stands for no value.
func (l *regularLayout) isPlain(fields [][]byte, none string) bool {
	for i := range l.others {
		o := &l.others[i]
		field := fields[o.at]
		if o.isNumber && string(field) != none && string(field) != "0" {
			return false
		}
		for _, text := range o.texts {
			if string(field) == text {
				return false
			}
		}
	}
	return true
}

// splitRegular divides a line at a separator. It returns nil if the line has bytes that may need care: a
// quote, a control character, a byte beyond ASCII, or an empty field if the separator is a space.
func splitRegular(line []byte, separator byte, fields [][]byte) [][]byte {
	from := 0
	for i, c := range line {
		switch {
		case c == separator:
			if separator == ' ' && i == from {
				return nil
			}
			fields = append(fields, line[from:i])
			from = i + 1
		case c < ' ' || c >= 0x7f || c == '"':
			return nil
		}
	}
	return append(fields, line[from:])
}

// plainNumber parses a whole number as DuckDB writes it: at most 17 digits, without leading zeros.
func plainNumber(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 17 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// plainPort parses a port.
func plainPort(text []byte) (port int32, ok bool) {
	n, ok := plainNumber(text)
	return int32(n), ok && n < allPorts
}

// A timeParser parses times. It remembers the last date.
type timeParser struct {
	date   []byte
	unixNS int64 // of its beginning
}

// parse returns a time in ns since 1970 and its resolution.
func (p *timeParser) parse(c *timeColumn, text []byte) (ns, resolutionNS int64, ok bool) {
	if c.unitNS == 0 {
		return p.datetime(text)
	}
	n, ok := plainNumber(text)
	return n * c.unitNS, c.resolutionNS, ok && n <= maxStartNS/c.unitNS
}

// fractionUnits are the resolutions of a fraction of a second by its number of digits.
var fractionUnits = [...]int64{1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3}

// datetime parses a date and a time such as 2026-01-31 09:00:00.123, with 6 digits of a fraction at most.
func (p *timeParser) datetime(text []byte) (ns, resolutionNS int64, ok bool) {
	if len(text) < 19 || text[10] != ' ' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	if !bytes.Equal(text[:10], p.date) {
		day, err := time.Parse(time.DateOnly, string(text[:10]))
		if err != nil {
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

// protocolNumber returns the number of a protocol, given its number or its name in capital letters.
func protocolNumber(text []byte) (number int16, ok bool) {
	if n, isNumber := plainNumber(text); isNumber {
		return int16(n), n < 256
	}
	for i := range protocols {
		if string(text) == protocols[i].name {
			return int16(protocols[i].number), true
		}
	}
	return 0, false
}

// labelOf returns the service and the network of a flow by the labels table, as view judged has them.
func (b *addressBook) labelOf(src, dst *regularHost, srcPort, dstPort int32) (service, vnet string) {
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

// labelsOf returns the label of a class for a port and that for any port, and the rank of the first.
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

// trimSpaces removes spaces as DuckDB's trim does.
func trimSpaces(text []byte) string { return strings.Trim(string(text), " ") }
