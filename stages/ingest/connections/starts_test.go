package connections

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"parsimon/stages/workload"
)

const sec = int64(1e9)

// A draw has an order of 20 bits and a gap of 43 bits, of which 24 are fractions. Without the limits, a large
// gap would change the order, and a large order the sign.
func TestBitsOfDraws(t *testing.T) {
	of := connection{0, 1, 10, 20}
	for mean, want := range map[float64]int64{1: 1<<24 + 1, 2: 1<<25 + 1, 1e9: 1<<43 - 1} {
		d := startDraw{seed: 1, gap: workload.NewLogNormal(mean, 0)}
		gap := d.of(&of, 6, 0) & (1<<43 - 1)
		if gap != want {
			t.Errorf("a gap of %g is %d, want %d", mean, gap, want)
		}
		after := d.afterLast(0, 0)
		if after != want {
			t.Errorf("a last gap of %g is %d, want %d", mean, after, want)
		}
	}
	d := startDraw{seed: 1, gap: workload.NewLogNormal(1, 1)}
	largest := int64(0)
	for port := range int32(200) {
		of.srcPort = port
		order := d.of(&of, 6, 0) >> 43
		if order < 0 || order >= 1<<20 {
			t.Errorf("an order of %d", order)
		}
		largest = max(largest, order)
	}
	if largest < 1<<20-1<<15 {
		t.Errorf("the largest of 200 orders is %d", largest)
	}
}

// A draw depends on each value of a connection, and on whether it is known. If it did not, flows would start
// at the same time.
func TestDrawsDependOnTheConnection(t *testing.T) {
	d := startDraw{seed: 1, gap: workload.NewLogNormal(1, 1)}
	other := startDraw{seed: 2, gap: d.gap}
	c := connection{0, 1, 10, 20}
	draws := map[string]int64{
		"itself":           d.of(&c, 6, 5),
		"another seed":     other.of(&c, 6, 5),
		"another second":   d.of(&c, 6, 6),
		"another protocol": d.of(&c, 17, 5),
		"no protocol":      d.of(&c, noProtocol, 5),
		"another src":      d.of(&connection{2, 1, 10, 20}, 6, 5),
		"another dst":      d.of(&connection{0, 2, 10, 20}, 6, 5),
		"another src port": d.of(&connection{0, 1, 11, 20}, 6, 5),
		"no src port":      d.of(&connection{0, 1, noPort, 20}, 6, 5),
		"another dst port": d.of(&connection{0, 1, 10, 21}, 6, 5),
		"no dst port":      d.of(&connection{0, 1, 10, noPort}, 6, 5),
		"reversed":         d.of(&connection{1, 0, 20, 10}, 6, 5),
	}
	seen := map[int64]string{}
	for name, draw := range draws {
		if seen[draw] != "" {
			t.Errorf("%s and %s have the same draw", name, seen[draw])
		}
		seen[draw] = name
	}
}

// Flows of one second are ordered by their random order, and not by the gaps.
func TestFlowsOfOneSecondHaveRandomOrder(t *testing.T) {
	a := flow{draw: 1<<43 | 5}
	b := flow{draw: 2<<43 | 3}
	if byLoggedStart.Compare(&a, &b) >= 0 {
		t.Error("the second flow is first")
	}
}

// With equal gaps, the n flows that a host starts in one second divide it into n+1 equal parts. Flows of
// other hosts, seconds and resolutions do not count, and a start that was measured stays.
func TestEqualGapsDivideTheSecond(t *testing.T) {
	start := func(src int32, at, resolution float64, ports ...int32) (records []testRecord) {
		for _, port := range ports {
			records = append(records, testRecord{
				src: src, dst: 3, port: port, start: at, end: at, resolution: resolution, bytes: 10,
			})
		}
		return records
	}
	records := slices.Concat(start(0, 10, 1, 1, 2, 3), start(1, 10, 1, 1), start(0, 11, 1, 4),
		start(0, 10, 0.5, 5), start(0, 10.1, 0, 6))
	c := smallCollector(t)
	c.GapSigma = 0
	got := mergeFrom(t, c, []Source{sourceOf(1, records)})
	want := []int64{10.1e9, 10.25e9, 10.25e9, 10.5e9, 10.5e9, 10.75e9, 11.5e9}
	if !slices.Equal(got.starts, want) {
		t.Errorf("flows start at %v, want %v", got.starts, want)
	}
	if got.FirstStartNS != 10.1e9 || got.LastStartNS != 11.5e9 || got.Synthetic != 6 || got.Flows != 7 {
		t.Errorf("the result is %+v", got.Result)
	}
}

// The result counts flows and bytes of each service and network, those with the most bytes first. A report
// shows the first.
func TestResultCountsLabels(t *testing.T) {
	at := 0.0
	flow := func(service, vnet string, bytes int64) testRecord {
		at++
		return testRecord{
			dst: 1, port: int32(at), start: at, end: at + 2, bytes: bytes, service: service, vnet: vnet,
		}
	}
	got := mergeAll(t, sourceOf(1, []testRecord{
		flow("web", "", 100), flow("db", "x", 400), flow("web", "", 300), flow("db", "a", 400), flow("a", "b", 50),
		flow("b", "a", 50), flow("a", "a", 50),
	}))
	want := []Label{
		{"db", "a", 1, 400}, {"db", "x", 1, 400}, {"web", "", 2, 400}, {"a", "a", 1, 50}, {"a", "b", 1, 50},
		{"b", "a", 1, 50},
	}
	if !reflect.DeepEqual(got.Labels, want) {
		t.Errorf("labels\n%+v, want\n%+v", got.Labels, want)
	}
	if got.Bytes != 1350 || got.LargestBytes != 400 || got.Records != 7 || got.LastEndNS != 9*sec {
		t.Errorf("the result is %+v", got.Result)
	}
}

// A flow has the largest service and network of its records, so that the order of sources does not matter.
func TestLabelOfAFlow(t *testing.T) {
	record := func(start float64, service, vnet string) testRecord {
		return testRecord{dst: 1, start: start, end: start + 1, bytes: 10, service: service, vnet: vnet}
	}
	got := mergeAll(t, sourceOf(1, []testRecord{record(0, "a", "z"), record(2, "c", ""), record(4, "b", "y")}))
	if !reflect.DeepEqual(got.Labels, []Label{{"c", "z", 1, 30}}) {
		t.Errorf("labels %+v", got.Labels)
	}
}

// A time without flows is a gap if the mean rate has eight standard deviations of flows more there. At r
// flows a second, that is more than 64/r seconds. Shorter gaps are chance, and longer ones are lost logs.
func TestGapsOfARegularLog(t *testing.T) {
	busy := func(g *gaps, from, seconds, flows int64) {
		for second := from; second < from+seconds; second++ {
			for range flows {
				g.add(second)
			}
		}
	}
	for _, c := range []struct {
		rate, pause int64
		want        []Gap
	}{
		{1, 64, nil},
		{1, 65, []Gap{{1500 * sec, 1565 * sec}}},
		{8, 8, nil},
		{8, 9, []Gap{{1500 * sec, 1509 * sec}}},
		{64, 1, nil},
		{65, 1, []Gap{{1500 * sec, 1501 * sec}}},
	} {
		g := &gaps{}
		busy(g, 1000, 500, c.rate)
		busy(g, 1500+c.pause, 500, c.rate)
		got := g.find()
		if !slices.Equal(got, c.want) {
			t.Errorf("%d flows a second, and none for %d s: gaps %v, want %v", c.rate, c.pause, got, c.want)
		}
	}
	bursts := &gaps{} // one and 19 flows: a mean of 10, and a variance of 81. 64·81/100 is 51.84.
	for second := range int64(1000) {
		busy(bursts, second, 1, 1+18*(second%2))
	}
	busy(bursts, 1051, 1, 19)
	busy(bursts, 1104, 1, 1)
	got := bursts.find()
	if !slices.Equal(got, []Gap{{1052 * sec, 1104 * sec}}) {
		t.Errorf("a log with bursts has the gaps %v", got)
	}
	if (&gaps{}).find() != nil {
		t.Error("a log without flows has gaps")
	}
}

// A log with a period of several seconds has no gaps. Seconds without flows count up to a tenth of the time
// only.
func TestPeriodsAreNoGaps(t *testing.T) {
	g := &gaps{}
	for second := int64(0); second < 1000; second += 10 {
		g.seconds = append(g.seconds, second)
		g.flows = append(g.flows, 1000)
	}
	got := g.find()
	if got != nil {
		t.Errorf("gaps %v", got)
	}
}

// The longest gaps come first, and at most 1000 are kept.
func TestLongestGapsComeFirst(t *testing.T) {
	g := &gaps{}
	second := int64(0)
	for i := range int64(1200) {
		pause := int64(1)
		if i == 700 || i == 900 {
			pause = 2
		}
		for range 20 {
			g.seconds = append(g.seconds, second)
			g.flows = append(g.flows, 1000)
			second++
		}
		second += pause
	}
	got := g.find()
	if len(got) != 1000 {
		t.Fatalf("%d gaps", len(got))
	}
	const first = 700*21 + 20
	want := []Gap{{first * sec, (first + 2) * sec}, {(900*21 + 21) * sec, (900*21 + 23) * sec},
		{20 * sec, 21 * sec}, {41 * sec, 42 * sec}}
	if !slices.Equal(got[:4], want) {
		t.Errorf("the first gaps are %v, want %v", got[:4], want)
	}
}

// The gaps of the result are those of the starts of all flows.
func TestResultHasGaps(t *testing.T) {
	var records []testRecord
	for i := range 800 {
		at := float64(i) / 8
		if i >= 400 {
			at += 9
		}
		records = append(records, testRecord{dst: 1, port: int32(i), start: at, end: at, bytes: 10})
	}
	got := mergeAll(t, sourceOf(1, records))
	if !slices.Equal(got.Gaps, []Gap{{50 * sec, 59 * sec}}) {
		t.Errorf("gaps %v", got.Gaps)
	}
}

// The number of flows without a sample follows from those with one and with two (Chao, 1984): with three and
// one, it is 3·2 / (2·2).
func TestResultOfSampledFlows(t *testing.T) {
	var records []testRecord
	for port, samples := range []int64{1, 1, 1, 2, 5, 0, -1} {
		bytes := []int64{100, 100, 100, 300, 400, 77, 78}[port]
		records = append(records, testRecord{
			dst: 1, port: int32(port), start: float64(port), end: float64(port), bytes: bytes, samples: samples,
		})
	}
	got := mergeAll(t, sourceOf(1, records))
	if got.Sampled != (Sampled{Flows: 5, SampleBytes: 100, Missing: 1.5}) {
		t.Errorf("sampled: %+v", got.Sampled)
	}
	if got.Synthetic != 6 {
		t.Errorf("%d flows whose start was not measured, want those with samples: 6", got.Synthetic)
	}
	none := mergeAll(t, sourceOf(1, records[5:]))
	if none.Sampled != (Sampled{}) {
		t.Errorf("without samples: %+v", none.Sampled)
	}
}

// A flow of several records has the sum of their samples. Otherwise, its size would have a smaller error than
// the samples allow.
func TestSamplesOfAFlow(t *testing.T) {
	m := newMerging(smallCollector(t))
	for want, samples := range map[int64][]int64{-1: {-1, -1}, 0: {0, -1}, 7: {3, 4}, 5: {5, -1}} {
		var records []record
		for _, s := range samples {
			records = append(records, record{samples: s, bytes: 1000})
		}
		m.texts.labels.number("")
		m.texts.observers.number("")
		m.observers.slots = make([]slot, classes)
		m.result.IntervalNS = 300 * sec
		f := m.flowOf(records)
		if f.samples != want {
			t.Errorf("records of %v samples are a flow of %d, want %d", samples, f.samples, want)
		}
	}
}

// Flows are numbered by start and, at one start, by connection. Their intervals have these numbers.
func TestIntervalsHaveTheIDsOfTheirFlows(t *testing.T) {
	var records []testRecord
	for i := range 40 {
		long := testRecord{
			src: int32(i % 3), dst: 3, port: int32(i), start: float64(100 - i), bytes: int64(1000 + i),
		}
		long.end = long.start + 2
		if i%4 == 0 {
			long.end = long.start // without intervals
		}
		records = append(records, long)
	}
	m := mergeAll(t, sourceOf(1, records))
	got := ""
	want := ""
	for _, s := range m.spans {
		got += fmt.Sprintf("%d %d; ", s.flow, s.bytes)
	}
	for id := range 40 {
		i := 39 - id
		if i%4 != 0 {
			want += fmt.Sprintf("%d %d; ", id, 1000+i)
		}
	}
	if got != want {
		t.Errorf("ids and bytes of intervals\n%s\nwant\n%s", got, want)
	}
}
