package connections

import (
	"fmt"
	"io"
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
				"resolution_ns": int64(r.resolution * 1e9), "service": "", "vnet": "",
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

// If the traffic of a flow moves between observers that count every packet, no minute is lost and none counts
// twice. The minute before the move has the bytes of the first observer, and the one after it those of the
// second.
func TestIntervalsOfTrafficThatMoves(t *testing.T) {
	var records []testRecord
	for minute := range 60 {
		r := testRecord{dst: 1, start: float64(60 * minute), end: float64(60*minute + 59), resolution: 1,
			bytes: 600}
		r.observer = "a"
		if minute >= 30 {
			r.observer = "b"
		}
		records = append(records, r)
		r.observer = "c" // sees a tenth
		r.bytes = 60
		records = append(records, r)
	}
	m := mergeAll(t, sourceOf(1, records))
	if m.Flows != 1 || len(m.spans) != 60 {
		t.Fatalf("%d flows, %d intervals; want 1, 60", m.Flows, len(m.spans))
	}
	for i, s := range m.spans {
		if s.bytes != 600 || s.startNS != int64(i)*60e9 || s.endNS != int64(i+1)*60e9 {
			t.Errorf("minute %d: %+v", i, s)
		}
	}
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
