package connections

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/stages/ingest/extsort"
)

// A Collector collects the records of sources, which may be read side by side, and merges them. The caller
// closes it.
type Collector struct {
	Settings
	texts struct{ observers, labels *texts }

	mu       sync.Mutex // of all fields below until Merge
	records  *extsort.Sorter[record]
	readings []*Reading
}

// NewCollector returns a Collector without records.
func NewCollector(s Settings) *Collector {
	c := &Collector{Settings: s}
	c.texts.observers = newTexts()
	c.texts.labels = newTexts()
	c.records = extsort.New(s.TmpDir, s.MemoryBytes/2, extsort.Order[record]{
		Key: (*record).hash, Compare: c.compareRecords, Hashed: true,
	})
	return c
}

// Close removes the records.
func (c *Collector) Close() error { return c.records.Close() }

// A Reading is a schema.Sink that collects the records of one source. Merge omits them unless they are kept.
type Reading struct {
	collector *Collector
	number    int32
	source    int32
	sums      recordSums
	kept      bool
}

// Read begins to read a source. It can be called from several goroutines. Each Reading is used by one
// goroutine at a time.
func (c *Collector) Read(source int32) *Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Reading{collector: c, number: int32(len(c.readings)), source: source, sums: newRecordSums()}
	c.readings = append(c.readings, r)
	return r
}

// Write collects a batch of table records. It implements schema.Sink.
func (r *Reading) Write(batch arrow.Record) error {
	of := columnsOf(batch)
	c := r.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range int(batch.NumRows()) {
		row := of.record(i)
		row.reading = r.number
		row.observer = c.texts.observers.number(of.observer.Value(i))
		row.service = c.texts.labels.number(of.service.Value(i))
		row.vnet = c.texts.labels.number(of.vnet.Value(i))
		if err := row.check(); err != nil {
			return err
		}
		r.sums.add(&row)
		if err := c.records.Add(row); err != nil {
			return err
		}
	}
	return nil
}

// Keep ends the reading: the source was read completely. A source has at most one Reading that is kept.
func (r *Reading) Keep() {
	r.collector.mu.Lock()
	defer r.collector.mu.Unlock()
	r.kept = true
}

// compareRecords orders the records of one hash by connection, time and content, so that those that repeat
// each other are neighbors. Texts are compared themselves, because their numbers depend on the order in which
// sources are read.
func (c *Collector) compareRecords(a, b *record) int {
	if a.connection != b.connection || a.protocol != b.protocol {
		return compareConnections(&a.connection, &b.connection, a.protocol, b.protocol)
	}
	if a.startNS != b.startNS {
		return cmp.Compare(a.startNS, b.startNS)
	}
	if a.endNS != b.endNS {
		return cmp.Compare(a.endNS, b.endNS)
	}
	if a.observer != b.observer {
		return c.texts.observers.compare(a.observer, b.observer)
	}
	return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.resolutionNS, b.resolutionNS),
		cmp.Compare(a.samples, b.samples), c.texts.labels.compare(a.service, b.service),
		c.texts.labels.compare(a.vnet, b.vnet), cmp.Compare(a.dscp, b.dscp),
		cmp.Compare(c.readings[a.reading].source, c.readings[b.reading].source),
		cmp.Compare(a.packets, b.packets))
}

// recordSums are the values that depend on all records.
type recordSums struct {
	records   int64
	durations map[int64]uint128 // bytes of records by duration in s
	exporters map[int32]bool    // observers with samples at a known rate
	samplers  map[int32]bool    // observers with samples at an unknown rate
	second    int64             // duration of the last records
	bytes     uint128           // of those of this duration that durations lacks
}

func newRecordSums() recordSums {
	return recordSums{durations: map[int64]uint128{}, exporters: map[int32]bool{}, samplers: map[int32]bool{}}
}

// add adds a record.
func (n *recordSums) add(r *record) {
	n.records++
	second := (r.endNS - r.startNS) / 1e9
	if second != n.second {
		n.flushDuration()
		n.second = second
	}
	n.bytes = n.bytes.plus(uint128{lo: uint64(r.bytes)})
	switch r.class() {
	case sampled:
		n.exporters[r.observer] = true
	case sampledUnknown:
		n.samplers[r.observer] = true
	case counted:
	}
}

// flushDuration adds the bytes of the last records to durations.
func (n *recordSums) flushDuration() {
	if n.bytes != (uint128{}) {
		n.durations[n.second] = n.durations[n.second].plus(n.bytes)
	}
	n.bytes = uint128{}
}

// addAll adds the sums of a reading.
func (n *recordSums) addAll(o *recordSums) {
	o.flushDuration()
	n.records += o.records
	for second, bytes := range o.durations {
		n.durations[second] = n.durations[second].plus(bytes)
	}
	maps.Copy(n.exporters, o.exporters)
	maps.Copy(n.samplers, o.samplers)
}

// intervalNS returns Result.IntervalNS.
func (n *recordSums) intervalNS() int64 {
	const (
		leastSeconds = 300
		mostSeconds  = 10_000_000
	)
	var all, upto uint128
	for _, bytes := range n.durations {
		all = all.plus(bytes)
	}
	for _, second := range slices.Sorted(maps.Keys(n.durations)) {
		upto = upto.plus(n.durations[second])
		if !upto.times(100).less(all.times(99)) {
			return max(leastSeconds, min(10*(second+1), mostSeconds)) * 1e9
		}
	}
	return leastSeconds * 1e9
}
