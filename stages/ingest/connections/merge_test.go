package connections

import (
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology/topologytest"
)

// A testRecord is a row of table records. Times are in seconds.
type testRecord struct {
	src, dst, port int32
	observer       string
	start, end     float64
	resolution     float64
	bytes, packets int64 // packets 0: unknown
	samples        int64 // -1: unknown
	service, vnet  string
}

// A stream is a batch of table records.
type stream struct{ batch arrow.Record }

func (s *stream) Next(...string) (arrow.Record, error) {
	if s.batch == nil || s.batch.NumRows() == 0 {
		return nil, io.EOF
	}
	batch := s.batch
	s.batch = nil
	return batch, nil
}

func (s *stream) Close() error { return nil }

// sourceOf returns a source with records.
func sourceOf(n int32, records []testRecord) Source {
	return Source{N: n, Open: func() schema.Batches {
		row := int64(0)
		return &stream{columns.RecordOf(schema.Records, records, func(r testRecord) columns.Row {
			row++
			cells := columns.Row{
				"source": n, "row": row, "reverse": false, "src": r.src, "dst": r.dst, "protocol": int16(6),
				"src_port": r.port, "dst_port": int32(443), "observer": r.observer, "size_bytes": r.bytes,
				"start_ns": int64(r.start * 1e9), "end_ns": int64(r.end * 1e9),
				"resolution_ns": int64(r.resolution * 1e9), "service": r.service, "vnet": r.vnet,
			}
			if r.samples >= 0 {
				cells["samples"] = r.samples
			}
			if r.packets > 0 {
				cells["packets"] = r.packets
			}
			return cells
		})}
	}}
}

// A keep stores the rows of a table.
type keep struct{ rows []arrow.Record }

func (k *keep) Write(batch arrow.Record) error {
	batch.Retain()
	k.rows = append(k.rows, batch)
	return nil
}

// merged is the result of Merge.
type merged struct {
	Result
	sizes, starts []int64 // by flow id
	srcs          []int32
	spans         []span // with ids, in the order of the table
}

// mergeAll merges records, in little memory.
func mergeAll(t *testing.T, sources ...Source) merged {
	t.Helper()
	return mergeFrom(t, smallCollector(t), sources)
}

// smallCollector returns a Collector with little memory.
func smallCollector(t *testing.T) *Collector {
	return NewCollector(Settings{
		Network: topologytest.SmallNetwork(t), Seed: 1, GapSigma: 1, IdleNS: 60e9, TmpDir: t.TempDir(),
		MemoryBytes: 1 << 10,
	})
}

// mergeFrom merges records, some of which a Collector may have.
func mergeFrom(t *testing.T, c *Collector, sources []Source) merged {
	t.Helper()
	var flows, intervals keep
	result, err := c.Merge(t.Context(), sources, &flows, &intervals)
	if err != nil {
		t.Fatal(err)
	}
	m := merged{Result: result}
	for _, batch := range flows.rows {
		m.sizes = append(m.sizes, columns.Int64s(batch, "size_bytes")...)
		m.starts = append(m.starts, columns.Int64s(batch, "start_ns")...)
		m.srcs = append(m.srcs, columns.Int32s(batch, "src")...)
	}
	for _, batch := range intervals.rows {
		packets := nullable64(batch, "packets")
		for i := range int(batch.NumRows()) {
			m.spans = append(m.spans, span{columns.Int64s(batch, "flow_id")[i], columns.Int64s(batch, "start_ns")[i],
				columns.Int64s(batch, "end_ns")[i], columns.Int64s(batch, "bytes")[i], packets.at(i)})
		}
	}
	m.check(t)
	return m
}

// check checks the contract of table workload_intervals: rows are sorted, those of a flow do not overlap, and
// their bytes are the size of the flow.
func (m *merged) check(t *testing.T) {
	t.Helper()
	sorted := slices.IsSortedFunc(m.spans, func(a, b span) int {
		if a.startNS != b.startNS {
			return int(a.startNS - b.startNS)
		}
		return int(a.flow - b.flow)
	})
	if !sorted {
		t.Error("intervals are not sorted by start and flow")
	}
	sums := map[int64]int64{}
	ends := map[int64]int64{}
	for _, s := range m.spans {
		if s.bytes <= 0 || s.endNS <= s.startNS || s.startNS < ends[s.flow] {
			t.Errorf("interval %+v: no bytes, no time, or it overlaps one that ends at %d", s, ends[s.flow])
		}
		ends[s.flow] = s.endNS
		sums[s.flow] += s.bytes
	}
	for flow, sum := range sums {
		if sum != m.sizes[flow] {
			t.Errorf("flow %d has %d bytes, its intervals %d", flow, m.sizes[flow], sum)
		}
	}
	if m.Intervals != int64(len(m.spans)) {
		t.Errorf("%d intervals, the result says %d", len(m.spans), m.Intervals)
	}
}

// text returns the intervals as START-END BYTES/PACKETS, in seconds.
func (m *merged) text() (text string) {
	for _, s := range m.spans {
		text += fmt.Sprintf("%g-%g %d/%d; ", float64(s.startNS)/1e9, float64(s.endNS)/1e9, s.bytes, s.packets)
	}
	return text
}

// The intervals of a flow follow the log in all cases in which the records of one flow differ.
func TestIntervalsAreThoseOfTheLog(t *testing.T) {
	second := func(start, end float64, bytes int64) testRecord {
		return testRecord{start: start, end: end, resolution: 1, bytes: bytes, packets: bytes / 10}
	}
	by := func(observer string, r testRecord) testRecord {
		r.observer = observer
		return r
	}
	samples := func(n int64, r testRecord) testRecord {
		r.samples = n
		return r
	}
	unknown := second(60, 119, 100)
	unknown.packets = 0
	for name, c := range map[string]struct {
		records []testRecord
		want    string
	}{
		"minutes tile": {
			[]testRecord{second(0, 59, 600), second(60, 119, 300)},
			"0-60 600/60; 60-120 300/30; ",
		},
		"an end is the next start": {
			[]testRecord{second(0, 60, 600), second(60, 120, 300)},
			"0-60 600/60; 60-121 300/30; ",
		},
		"no bytes between": {
			[]testRecord{second(0, 9, 600), second(60, 69, 300)},
			"0-10 600/60; 60-70 300/30; ",
		},
		"one long record": {
			[]testRecord{second(0, 86400, 600)},
			"0-86401 600/60; ",
		},
		"a second is no time": {
			[]testRecord{second(7, 7, 600)},
			"",
		},
		"packets are not known": {
			[]testRecord{second(0, 59, 600), unknown},
			"0-60 600/-1; 60-120 100/-1; ",
		},
		"one time twice": {
			[]testRecord{second(0, 59, 600), second(0, 59, 300)},
			"0-60 900/90; ",
		},
		"a second within a longer record": {
			[]testRecord{second(0, 0, 10), second(0, 9, 100)},
			"0-1 20/2; 1-10 90/9; ",
		},
		"pieces of less than a byte": {
			[]testRecord{second(0, 59, 1), second(50, 109, 1)},
			"0-50 1/-1; 60-110 1/-1; ",
		},
		"one within another": {
			[]testRecord{second(0, 99, 1000), second(20, 39, 400)},
			"0-20 200/20; 20-40 600/60; 40-100 600/60; ",
		},
		"half of each": {
			[]testRecord{second(0, 59, 600), second(30, 89, 1200)},
			"0-30 300/30; 30-60 900/90; 60-90 600/60; ",
		},
		"pieces of less than half a packet": {
			[]testRecord{second(0, 59, 20), second(50, 109, 20)},
			"0-50 17/2; 50-60 6/0; 60-110 17/2; ",
		},
		"of two observers, one counts": {
			[]testRecord{
				by("a", second(0, 59, 600)), by("b", second(0, 59, 590)), by("a", second(60, 119, 300)),
				by("b", second(61, 119, 310)),
			},
			"0-60 600/60; 60-120 300/30; ",
		},
		"few samples say no more than the minute": {
			[]testRecord{samples(1, second(10, 10, 600)), samples(2, second(65, 66, 300))},
			"10-60 600/60; 60-67 300/30; ",
		},
		"nine samples are few, ten are not": {
			[]testRecord{samples(9, second(70, 80, 600)), samples(10, second(140, 150, 600))},
			"70-120 600/60; 140-151 600/60; ",
		},
		"many samples do": {
			[]testRecord{samples(50, second(10, 20, 600)), samples(50, second(70, 80, 300))},
			"10-21 600/60; 70-81 300/30; ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.records {
				c.records[i].dst = 1
			}
			m := mergeAll(t, sourceOf(1, c.records))
			got := m.text()
			if got != c.want || m.Flows != 1 {
				t.Errorf("%d flows\n got %s\nwant %s", m.Flows, got, c.want)
			}
		})
	}
}

// A movingLog is the second hour of a connection of 600 bytes a second, whose records have a minute.
// Observers see it from one second of the hour to another.
type movingLog struct {
	name    string
	sees    []seenBy
	samples bool
	counted bool // not with samples: exporters see different shares of the packets
	pauseS  int  // between records
}

type seenBy struct {
	observer    string
	fromS, toS  int
	clockS      float64 // error of the observer's clock
	phaseS      int     // start of its records within the minute
	bytesASec   int64
	lostMinutes []int // records that did not arrive
}

func (l *movingLog) records() (records []testRecord) {
	const minute = 60
	for _, by := range l.sees {
		for at := by.phaseS - minute; at < by.toS; at += minute + l.pauseS {
			from := max(at, by.fromS)
			to := min(at+minute, by.toS)
			if from >= to || slices.Contains(by.lostMinutes, at/minute) {
				continue
			}
			bytes := by.bytesASec * int64(to-from)
			r := testRecord{dst: 1, observer: by.observer, start: 3600 + float64(from) + by.clockS,
				end: 3600 + float64(to) + by.clockS - 0.001, resolution: 0.001, bytes: bytes, packets: bytes / 10}
			if l.samples {
				r.samples = bytes / 100
			}
			records = append(records, r)
		}
	}
	return records
}

// In each minute of the log, a flow has the bytes that the log has there, also if its traffic moves between
// observers at any time. Otherwise, links lack the bytes of minutes, or have them twice if observers of the
// same packets differ a little.
func TestBytesOfTrafficThatMoves(t *testing.T) {
	const hour = 3600
	see := func(observer string, fromS, toS int) seenBy {
		return seenBy{observer: observer, fromS: fromS, toS: toS, bytesASec: 600}
	}
	late := func(s seenBy, phaseS int, clockS float64) seenBy {
		s.phaseS = phaseS
		s.clockS = clockS
		return s
	}
	tenth := see("c", 0, hour)
	tenth.bytesASec = 60
	lossy := see("a", 0, hour)
	lossy.lostMinutes = []int{7, 8, 30}
	for _, l := range []movingLog{
		{name: "at half past", counted: true, sees: []seenBy{see("a", 0, 1800), see("b", 1800, hour), tenth}},
		{name: "within five minutes", sees: []seenBy{see("a", 0, 1980), see("b", 1980, hour)}},
		{name: "shortly before the end", sees: []seenBy{see("a", 0, 3420), see("b", 3420, hour)}},
		{name: "within a minute", sees: []seenBy{see("a", 0, 2010), see("b", 2010, hour), see("c", 0, 2010)}},
		{name: "and back", sees: []seenBy{see("a", 0, 600), see("b", 600, 780), see("a", 780, hour)}},
		{name: "every two minutes", sees: []seenBy{see("a", 0, 120), see("b", 120, 240), see("c", 240, 360),
			see("a", 360, 480), see("b", 480, hour)}},
		{name: "clocks differ", sees: []seenBy{late(see("a", 0, 1980), 0, 1), late(see("b", 1980, hour), 0, -1)}},
		{name: "not at all", sees: []seenBy{see("a", 0, hour), late(see("b", 0, hour), 25, 0.5),
			late(see("c", 0, hour), 40, 2)}},
		{name: "not at all, with pauses", pauseS: 50, sees: []seenBy{see("a", 0, hour),
			late(see("b", 0, hour), 0, 3)}},
		{name: "records are lost", counted: true, sees: []seenBy{lossy, late(see("b", 0, hour), 0, 0.5)}},
	} {
		for _, l.samples = range []bool{false, true} {
			name := l.name
			if l.samples {
				name += ", sampled"
			}
			if l.samples && l.counted {
				continue
			}
			t.Run(name, func(t *testing.T) {
				m := mergeAll(t, sourceOf(1, l.records()))
				if m.Flows != 1 {
					t.Fatalf("%d flows, want 1", m.Flows)
				}
				near := 0.01
				if l.samples { // the number of exporters is estimated, too
					near = 0.06
				}
				if l.pauseS > 0 {
					share := float64(m.sizes[0]) / (600 * hour * 60 / float64(60+l.pauseS))
					if math.Abs(share-1) > near+0.01 {
						t.Errorf("%.3f times the bytes of the log", share)
					}
					return
				}
				minutes := m.byMinute()
				for at := range hour / 60 {
					off := math.Abs(minutes[60+at] - 36_000)
					if off > near*36_000+2*600*l.clocks() {
						t.Errorf("minute %d: %.0f bytes, want 36000", at, minutes[60+at])
					}
				}
			})
		}
	}
}

// Observers of the same packets may have other timeouts, so that a record of one contains pauses of the
// other. Their bytes must not count twice.
func TestObserversWithOtherTimeouts(t *testing.T) {
	by := func(observer string, start, end float64, bytes int64) testRecord {
		return testRecord{dst: 1, observer: observer, start: start, end: end, resolution: 0.001, bytes: bytes}
	}
	for name, c := range map[string]struct {
		records []testRecord
		want    int64
	}{
		"a record with the pause of another": {
			[]testRecord{by("a", 100, 101, 1000), by("b", 100, 150, 2000), by("a", 149, 150, 1000)}, 2000,
		},
		"the longer one is last by name": {
			[]testRecord{by("a", 100, 101, 1000), by("z", 100, 150, 2000), by("a", 149, 150, 1000)}, 2000,
		},
		"three pauses": {
			[]testRecord{by("a", 100, 101, 500), by("b", 100, 250, 2000), by("a", 150, 151, 500),
				by("a", 200, 201, 500), by("a", 249, 250, 500)}, 2000,
		},
		"two records of two pauses": {
			[]testRecord{by("a", 100, 101, 700), by("b", 100.2, 150, 1500), by("a", 149, 150, 800),
				by("b", 199, 250, 1400), by("a", 199, 200, 700), by("a", 249, 250, 700)}, 2900,
		},
		"a record is lost, and the other has it": {
			[]testRecord{by("a", 100, 159.9, 600), by("b", 160, 219.9, 600), by("a", 220, 279.9, 600)}, 1800,
		},
	} {
		m := mergeAll(t, sourceOf(1, c.records))
		if m.Flows != 1 || m.sizes[0] != c.want {
			t.Errorf("%s: %d flows of %d bytes, want 1 of %d", name, m.Flows, m.sizes, c.want)
		}
	}
}

// A column that differs in each row may be treated as the observer. The time must then be in proportion to
// the number of records: with their product, such a log would not end.
func TestEachRecordHasItsObserver(t *testing.T) {
	const n = 50_000
	records := make([]testRecord, n)
	for i := range records {
		at := float64(i) / 10
		records[i] = testRecord{dst: 1, observer: fmt.Sprint(i), start: at, end: at + 60, bytes: 1000}
	}
	m := mergeAll(t, sourceOf(1, records))
	if m.Flows != 1 || m.sizes[0] < 60_000 || m.sizes[0] > 100_000 {
		t.Errorf("%d flows of %d bytes, want 1 of about one record a minute", m.Flows, m.sizes)
	}
}

// clocks returns the largest error of a clock, in s.
func (l *movingLog) clocks() (most float64) {
	for _, by := range l.sees {
		most = max(most, math.Abs(by.clockS))
	}
	return most
}

// byMinute returns the bytes of the intervals by minute.
func (m *merged) byMinute() map[int]float64 {
	const minute = int64(60e9)
	bytes := map[int]float64{}
	for _, s := range m.spans {
		for at := s.startNS / minute; at*minute < s.endNS; at++ {
			ns := min(s.endNS, (at+1)*minute) - max(s.startNS, at*minute)
			bytes[int(at)] += float64(s.bytes) * float64(ns) / float64(s.endNS-s.startNS)
		}
	}
	return bytes
}

// If a log is ingested in two overlapping files, each record counts once.
func TestIntervalsOfRepeatedRecords(t *testing.T) {
	var records []testRecord
	for minute := range 10 {
		records = append(records, testRecord{
			dst: 1, start: float64(60 * minute), end: float64(60*minute + 59), resolution: 1,
			bytes: int64(100 + minute),
		})
	}
	m := mergeAll(t, sourceOf(1, records[:7]), sourceOf(2, records[4:]))
	if m.Repeated != 3 || m.Flows != 1 || len(m.spans) != 10 || m.Shared[[2]int32{1, 2}] != 3 {
		t.Fatalf("%d repeated, %d flows, %d intervals, shared %v", m.Repeated, m.Flows, len(m.spans), m.Shared)
	}
	for i, s := range m.spans {
		if s.bytes != int64(100+i) {
			t.Errorf("minute %d has %d bytes", i, s.bytes)
		}
	}
}

// A record that starts more than the idle time after all before it begins another flow. If connections were
// never divided, flows would last for days.
func TestIdleTimeDividesFlows(t *testing.T) {
	record := func(start, end float64) testRecord {
		return testRecord{dst: 1, start: start, end: end, bytes: 10}
	}
	for _, c := range []struct {
		start float64
		flows int64
	}{{60.5, 1}, {70, 1}, {70.000000001, 2}, {100, 2}} {
		m := mergeAll(t, sourceOf(1, []testRecord{record(0, 10), record(1, 2), record(c.start, 101)}))
		if m.Flows != c.flows {
			t.Errorf("a record at %v s, 60 s idle after 10 s: %d flows, want %d", c.start, m.Flows, c.flows)
		}
	}
}

// A record counts as often as the source that has it most often. Sources that are read again while they grow
// would otherwise count twice, and equal records of one source would be lost.
func TestRecordsThatASourceRepeats(t *testing.T) {
	r := testRecord{dst: 1, start: 5, end: 9, bytes: 10}
	later := testRecord{dst: 1, start: 6, end: 9, bytes: 7}
	other := r
	other.bytes = 11
	twice := []testRecord{r, r, later}
	m := mergeAll(t, sourceOf(1, twice), sourceOf(2, []testRecord{r, r, r, other}), sourceOf(4, twice[:1]))
	if m.Flows != 1 || m.sizes[0] != 3*10+11+7 || m.Repeated != 3 || m.Records != 8 {
		t.Errorf("%d flows of %v bytes, %d of %d records repeated, want one of 48 bytes, 3 of 8", m.Flows, m.sizes,
			m.Repeated, m.Records)
	}
	// Corrections count, too: source 2 has four records at this time.
	want := map[[2]int32]int64{{1, 2}: 4, {2, 4}: 1}
	if fmt.Sprint(m.Shared) != fmt.Sprint(want) {
		t.Errorf("shared %v, want %v", m.Shared, want)
	}
}
