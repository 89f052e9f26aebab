package connections

import "cmp"

// A storedRecord is a record while it is sorted. It fits in a cache line.
type storedRecord struct {
	connection
	protocol                int16
	origin                  int32 // number of its origin
	startNS, endNS          int64
	bytes, packets, samples int64
}

// An origin has the values of a record that many records share.
type origin struct {
	reading                 int32
	observer, service, vnet int32
	resolutionNS            int64
	dscp                    int16
}

// hash returns a hash of the connection.
func (s *storedRecord) hash() uint64 { return s.connection.hash(s.protocol) }

// originNumbers numbers the origins of one reading.
type originNumbers struct {
	numbers map[origin]int32
	recent  [256]int32 // 1 + the last number by the low bits of the observer; 0: none
}

// number returns the place of an origin in all, to which it is added if it is new.
func (o *originNumbers) number(all *[]origin, of *origin) int32 {
	recent := &o.recent[uint32(of.observer)%uint32(len(o.recent))]
	if *recent > 0 && (*all)[*recent-1] == *of {
		return *recent - 1
	}
	n, known := o.numbers[*of]
	if !known {
		n = int32(len(*all))
		*all = append(*all, *of)
		o.numbers[*of] = n
	}
	*recent = n + 1
	return n
}

// store returns a record as it is sorted.
func (r *Reading) store(of *record) storedRecord {
	at := origin{of.reading, of.observer, of.service, of.vnet, of.resolutionNS, of.dscp}
	return storedRecord{
		connection: of.connection, protocol: of.protocol, origin: r.origins.number(&r.collector.origins, &at),
		startNS: of.startNS, endNS: of.endNS, bytes: of.bytes, packets: of.packets, samples: of.samples,
	}
}

// record returns the record.
func (s *storedRecord) record(of *origin) record {
	return record{
		connection: s.connection, protocolAndDSCP: protocolAndDSCP{s.protocol, of.dscp}, reading: of.reading,
		startNS: s.startNS, endNS: s.endNS, resolutionNS: of.resolutionNS,
		bytes: s.bytes, packets: s.packets, samples: s.samples,
		observer: of.observer, service: of.service, vnet: of.vnet,
	}
}

// compareRecords orders the records of one hash by connection, time and content, so that those that repeat
// each other are neighbors. Texts are compared themselves, because their numbers depend on the order in which
// sources are read.
func (c *Collector) compareRecords(a, b *storedRecord) int {
	if a.connection != b.connection || a.protocol != b.protocol {
		return compareConnections(&a.connection, &b.connection, a.protocol, b.protocol)
	}
	if a.startNS != b.startNS {
		return cmp.Compare(a.startNS, b.startNS)
	}
	if a.endNS != b.endNS {
		return cmp.Compare(a.endNS, b.endNS)
	}
	c.numbered.RLock()
	defer c.numbered.RUnlock()
	x := &c.origins[a.origin]
	y := &c.origins[b.origin]
	if x.observer != y.observer {
		return c.texts.observers.compare(x.observer, y.observer)
	}
	return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(x.resolutionNS, y.resolutionNS),
		cmp.Compare(a.samples, b.samples), c.texts.labels.compare(x.service, y.service),
		c.texts.labels.compare(x.vnet, y.vnet), cmp.Compare(x.dscp, y.dscp),
		cmp.Compare(c.readings[x.reading].source, c.readings[y.reading].source),
		cmp.Compare(a.packets, b.packets))
}
