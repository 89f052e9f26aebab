package connections

import (
	"slices"
	"testing"
)

// between returns a record from one time to another, in seconds.
func between(from, to float64) record {
	return record{startNS: int64(from * 1e9), endNS: int64(to * 1e9)}
}

// times returns covered times, given in seconds.
func times(edges ...float64) (c covered) {
	for i := 0; i < len(edges); i += 2 {
		c = append(c, span{startNS: int64(edges[i] * 1e9), endNS: int64(edges[i+1] * 1e9)})
	}
	return c
}

// A record is in a gap of the covered times if it overlaps them by at most five seconds at its edges. A
// record that begins and ends with short covered times has seen the same packets with another timeout.
func TestRecordsInGaps(t *testing.T) {
	long := times(100, 200, 300, 400)
	short := times(100, 103, 150, 153)
	first := times(100, 103, 150, 400) // the first is short
	last := times(0, 103, 150, 153)
	const ns = 1e-9
	for _, c := range []struct {
		name     string
		of       covered
		from, to float64
		at       int
		fits     bool
	}{
		{"far from both", long, 210, 290, 1, true},
		{"five seconds from both", long, 205, 295, 1, true},
		{"five seconds into both", long, 195, 305, 1, true},
		{"six seconds into the one before", long, 194, 250, 0, false},
		{"six seconds into the one after", long, 250, 306, 1, false},
		{"after all", long, 405, 410, 2, true},
		{"before all", long, 10, 105, 0, true},
		{"it contains both", short, 98, 155, 1, false},
		{"it follows a short one by two seconds", first, 105, 155, 1, false},
		{"by a little more", first, 105 + 2*ns, 155, 1, true},
		{"two seconds before a short one", last, 100, 148, 1, false},
		{"a little more before", last, 100, 148 - 2*ns, 1, true},
		{"eight seconds after a short one only", short, 108, 140, 1, true},
		{"nine seconds after", short, 109, 148, 1, true},
		{"six seconds before the next one", short, 104, 144, 1, true},
		{"between, and at neither edge", first, 110, 140, 1, true},
	} {
		r := between(c.from, c.to)
		at, fits := c.of.gapOf(&r)
		if fits != c.fits || at != c.at {
			t.Errorf("%s: a record from %v to %v s of %v: gap %d, fits %v", c.name, c.from, c.to, c.of, at, fits)
		}
	}
}

// Covered times that touch are one. If they were two, a record across both would be in a gap.
func TestCoveredTimes(t *testing.T) {
	c := coveredBy([]record{between(0, 10), between(2, 5), between(10, 20), between(21, 30)})
	if !slices.Equal(c, times(0, 20, 21, 30)) {
		t.Errorf("covered times %v", c)
	}
	all := c.with([]record{between(20, 21), between(40, 50)})
	if !slices.Equal(all, times(0, 30, 40, 50)) {
		t.Errorf("with records between them: %v", all)
	}
	apart := c.with([]record{between(31, 32), between(31, 33)})
	if !slices.Equal(apart, times(0, 20, 21, 30, 31, 33)) {
		t.Errorf("with records after them: %v", apart)
	}
}

// Records of another observer count if they last 30 s or more in a row, in one gap. Shorter ones are a
// difference between clocks.
func TestRunsOfAnotherObserver(t *testing.T) {
	for name, c := range map[string]struct {
		records []record
		want    int
	}{
		"30 s":                            {[]record{between(210, 240)}, 1},
		"less":                            {[]record{between(210, 239.9)}, 0},
		"30 s with a pause":               {[]record{between(210, 220), between(230, 240)}, 2},
		"short ones in two gaps":          {[]record{between(60, 80), between(220, 235)}, 0},
		"a short one, then a long one":    {[]record{between(60, 80), between(220, 250)}, 1},
		"a long one, then a short one":    {[]record{between(50, 80), between(220, 235)}, 1},
		"a long one within covered times": {[]record{between(110, 190)}, 0},
		"the longer one is first":         {[]record{between(210, 240), between(211, 212)}, 2},
	} {
		m := &merging{choice: choice{leastHandoverNS: leastHandoverNS}}
		m.addRuns(times(100, 200), c.records)
		if len(m.counted) != c.want {
			t.Errorf("%s: %d records count, want %d", name, len(m.counted), c.want)
		}
	}
}

// Sampled traffic moves to another exporter if a run of one ends, up to 5 s, before a run of the other
// begins. Both have 10 samples and 30 s or more.
func TestHandoversOfSampledTraffic(t *testing.T) {
	by := func(observer int32, from, to float64, samples int64) record {
		r := between(from, to)
		r.observer = observer
		r.samples = samples
		return r
	}
	for name, c := range map[string]struct {
		records []record
		want    int
	}{
		"5 s before the end":             {[]record{by(0, 0, 30, 10), by(1, 25, 60, 10)}, 1},
		"earlier":                        {[]record{by(0, 0, 30, 10), by(1, 24.9, 60, 10)}, 0},
		"few samples of the first":       {[]record{by(0, 0, 30, 9), by(1, 25, 60, 10)}, 0},
		"few samples of the second":      {[]record{by(0, 0, 30, 10), by(1, 25, 60, 9)}, 0},
		"the first is short":             {[]record{by(0, 0, 29.9, 10), by(1, 30, 60, 10)}, 0},
		"the second is short":            {[]record{by(0, 0, 30, 10), by(1, 30, 59.9, 10)}, 0},
		"samples of several records":     {[]record{by(0, 0, 10, 5), by(0, 20, 30, 5), by(1, 30, 60, 10)}, 2},
		"the first of several records":   {[]record{by(0, 0, 30, 10), by(1, 30, 40, 5), by(1, 50, 60, 5)}, 1},
		"and back after a pause of 30 s": {[]record{by(0, 0, 30, 10), by(1, 1, 29, 10), by(0, 60, 90, 10)}, 2},
		"a shorter pause": {[]record{by(0, 0, 30, 10), by(1, 29.9, 59.9, 10), by(0, 59.9, 90, 10)},
			0},
		"the earliest of two":     {[]record{by(0, 0, 30, 10), by(1, 31, 70, 10), by(2, 32, 70, 10)}, 1},
		"of packets that counted": {[]record{by(0, 0, 30, 0), by(0, 0, 30, 10), by(1, 31, 70, 10)}, 0},
	} {
		records := append(c.records, by(2, 95, 96, 1))
		m := newMerging(&Collector{})
		m.sums.exporters = map[int32]bool{0: true, 1: true}
		got := m.handoverIn(records)
		if got != c.want {
			t.Errorf("%s: the traffic moves at record %d, want %d", name, got, c.want)
		}
		m.sums.exporters = map[int32]bool{0: true}
		got = m.handoverIn(records)
		if got != 0 {
			t.Errorf("%s, with one exporter: the traffic moves at record %d", name, got)
		}
	}
	m := newMerging(&Collector{})
	m.sums.exporters = map[int32]bool{0: true, 1: true}
	for from, want := range map[float64]int{29.9: 0, 30: 1} {
		got := m.handoverIn([]record{by(0, 0, 30, 10), by(1, from, 70, 10)})
		if got != want {
			t.Errorf("an interval whose records begin within %v s: the traffic moves at record %d", from, got)
		}
	}
}

// The best observers of all intervals replace the best of the flow if they have counted more than 1.2 times
// its bytes. Records here are too short for handovers.
func TestBestObserversOfIntervals(t *testing.T) {
	by := func(observer string, start float64, bytes int64) testRecord {
		return testRecord{dst: 1, observer: observer, start: start, end: start + 1, bytes: bytes}
	}
	for bytes, want := range map[int64]int64{22: 60, 23: 73} {
		c := smallCollector(t)
		c.IdleNS = 1000 * sec
		m := mergeFrom(t, c, []Source{sourceOf(1, []testRecord{
			by("a", 100, 50), by("b", 100, 1), by("a", 400, 10), by("b", 400, bytes),
		})})
		if m.Flows != 1 || m.sizes[0] != want {
			t.Errorf("b counted %d bytes of 10: %d flows of %v bytes, want %d", bytes, m.Flows, m.sizes, want)
		}
	}
}

// Of observers that counted the same bytes, packets that were counted precede those of a sampler, and names
// decide between observers. Without an order, the result would change with the order of sources.
func TestOrderOfObservers(t *testing.T) {
	m := newMerging(smallCollector(t))
	m.texts.observers.number("b")
	m.texts.observers.number("a")
	order := []observation{
		{observer: 0, bytes: 9, class: sampledUnknown}, {observer: 1, bytes: 8, class: counted},
		{observer: 1, bytes: 8, class: sampledUnknown}, {observer: 0, bytes: 8}, {observer: 1, bytes: 7},
	}
	for i := range order {
		for j := range order {
			if i != j && m.better(&order[i], &order[j]) != (i < j) {
				t.Errorf("%+v is better than %+v: %v", order[i], order[j], i > j)
			}
		}
	}
	best, observers := m.bestOf([]observation{{bytes: 99, class: sampled}, order[3], order[1], order[2]})
	if best != order[1] || observers != 3 {
		t.Errorf("of %d observers %+v is best, want %+v of 3", observers, best, order[1])
	}
}

// A flow starts at the latest time that agrees with the observer that recorded its beginning first.
// Observers that saw it later do not change its start.
func TestStartThatObserversAgreeOn(t *testing.T) {
	at := func(observer int32, startNS, resolutionNS int64) record {
		return record{observer: observer, startNS: startNS, endNS: startNS, resolutionNS: resolutionNS, bytes: 5}
	}
	for name, c := range map[string]struct {
		records               []record
		startNS, resolutionNS int64
	}{
		"one":                         {[]record{at(0, 100, 10)}, 100, 10},
		"one, and its next record":    {[]record{at(0, 100, 10), at(0, 105, 7)}, 100, 7},
		"a finer one":                 {[]record{at(0, 100, 10), at(1, 105, 2)}, 105, 2},
		"a finer one later":           {[]record{at(0, 100, 10), at(1, 112, 2)}, 100, 10},
		"a finer one at the end":      {[]record{at(0, 100, 10), at(1, 110, 2)}, 100, 10},
		"without a resolution":        {[]record{at(0, 100, 10), at(1, 103, 0)}, 103, 0},
		"without one, at the end":     {[]record{at(0, 100, 10), at(1, 110, 0)}, 110, 0},
		"a coarse one that is before": {[]record{at(0, 95, 10), at(1, 100, 10)}, 100, 5},
	} {
		m := newMerging(&Collector{})
		m.texts.labels = newTexts()
		m.texts.observers = newTexts()
		m.texts.labels.number("")
		m.texts.observers.number("a")
		m.texts.observers.number("b")
		m.observers.slots = make([]slot, 2*classes)
		m.result.IntervalNS = 300 * sec
		f := m.flowOf(c.records)
		if f.startNS != c.startNS || f.loggedNS != c.startNS || f.resolutionNS != c.resolutionNS {
			t.Errorf("%s: a start at %d, logged at %d, with a resolution of %d; want %d and %d", name, f.startNS,
				f.loggedNS, f.resolutionNS, c.startNS, c.resolutionNS)
		}
	}
}

// The bytes of a flow are limited, so that their squares fit in 128 bits.
func TestBytesOfAFlowAreLimited(t *testing.T) {
	m := newMerging(&Collector{})
	m.texts.labels = newTexts()
	m.texts.labels.number("")
	m.observers.slots = make([]slot, classes)
	m.result.IntervalNS = 300 * sec
	for samples, want := range map[int64]int64{0: 1 << 51, 1: 1 << 51} {
		r := record{bytes: maxRecordBytes, samples: samples}
		f := m.flowOf([]record{r, r, r})
		if f.bytes != want {
			t.Errorf("three records of 2^50 bytes with %d samples: %d bytes, want 2^51", samples, f.bytes)
		}
	}
	f := m.flowOf([]record{{samples: 1}})
	if f.bytes != 1 {
		t.Errorf("a flow with a sample of no bytes has %d bytes, want 1", f.bytes)
	}
}
