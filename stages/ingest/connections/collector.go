package connections

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/stages/ingest/extsort"
)

// A Collector collects the records of sources, which may be read side by side, and merges them. The caller
// closes it.
type Collector struct {
	Settings
	Memory extsort.Memory // of the rows that are sorted
	texts  struct{ observers, labels *texts }

	mu       sync.Mutex // of all fields until Merge
	records  *extsort.Sorter[storedRecord]
	origins  []origin
	added    []storedRecord // the rows of the last call, for their memory
	readings []*Reading

	// numbered is held, besides mu, while texts, origins and readings change: the sort compares records by them
	// in another goroutine.
	numbered sync.RWMutex
}

// NewCollector returns a Collector without records.
func NewCollector(s Settings) *Collector {
	c := &Collector{Settings: s}
	c.texts.observers = newTexts()
	c.texts.labels = newTexts()
	c.records = extsort.New(&c.Memory, s.TmpDir, s.MemoryBytes/4, extsort.Order[storedRecord]{
		Key: (*storedRecord).hash, Compare: c.compareRecords, High: math.MaxUint64,
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
	origins   *originNumbers // nil: no records follow
	kept      bool
}

// Read begins to read a source. It can be called from several goroutines. Each Reading is used by one
// goroutine at a time.
func (c *Collector) Read(source int32) *Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &Reading{collector: c, number: int32(len(c.readings)), source: source, sums: newRecordSums(),
		origins: &originNumbers{numbers: map[origin]int32{}}}
	c.numbered.Lock()
	defer c.numbered.Unlock()
	c.readings = append(c.readings, r)
	return r
}

// Write collects a batch of table records. It implements schema.Sink.
func (r *Reading) Write(batch arrow.Record) error {
	of := columnsOf(batch)
	return r.collector.add(func() error {
		for i := range int(batch.NumRows()) {
			row := of.record(i)
			if err := r.add(&row, of.observer.Value(i), of.service.Value(i), of.vnet.Value(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Add collects rows of table records, as Write does.
func (r *Reading) Add(rows []Row) error {
	return r.collector.add(func() error {
		for i := range rows {
			row := rows[i].record()
			if err := r.add(&row, rows[i].Observer, rows[i].Service, rows[i].VNet); err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds the records that number appends to c.added to the sort.
func (c *Collector) add(number func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added = c.added[:0]
	if err := c.locked(number); err != nil {
		return err
	}
	return c.records.AddAll(c.added)
}

// locked calls do while no records are compared.
func (c *Collector) locked(do func() error) error {
	c.numbered.Lock()
	defer c.numbered.Unlock()
	return do()
}

// add numbers the texts and the origin of a record, and appends it to those that are added to the sort.
func (r *Reading) add(row *record, observer, service, vnet string) error {
	c := r.collector
	if err := row.check(); err != nil {
		return err
	}
	row.reading = r.number
	row.observer = c.texts.observers.number(observer)
	row.service = c.texts.labels.number(service)
	row.vnet = c.texts.labels.number(vnet)
	r.sums.add(row)
	c.added = append(c.added, r.store(row))
	return nil
}

// Keep ends the reading: the source was read completely. A source has at most one Reading that is kept.
func (r *Reading) Keep() {
	r.collector.mu.Lock()
	defer r.collector.mu.Unlock()
	r.kept = true
	r.origins = nil // its memory is free
}

// recordSums are the values that depend on all records.
type recordSums struct {
	records   int64
	firstNS   int64             // start
	lastNS    int64             // start
	durations map[int64]uint128 // bytes of records by duration in s
	exporters map[int32]bool    // observers with samples at a known rate
	samplers  map[int32]bool    // observers with samples at an unknown rate
	second    int64             // duration of the last records
	bytes     uint128           // of those of this duration that durations lacks
}

func newRecordSums() recordSums {
	return recordSums{
		firstNS: math.MaxInt64, durations: map[int64]uint128{}, exporters: map[int32]bool{},
		samplers: map[int32]bool{},
	}
}

// add adds a record.
func (n *recordSums) add(r *record) {
	n.records++
	n.firstNS = min(n.firstNS, r.startNS)
	n.lastNS = max(n.lastNS, r.startNS)
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

// starts returns the range of the starts of records.
func (n *recordSums) starts() (first, last uint64) {
	return uint64(n.firstNS), uint64(max(n.firstNS, n.lastNS))
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
	n.firstNS = min(n.firstNS, o.firstNS)
	n.lastNS = max(n.lastNS, o.lastNS)
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
