package connections

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"parsimon/schema/columns"
)

// The flows do not depend on the order in which sources are read, on whether Merge reads them, or on readings
// that failed. Without this, an ingest that reads files side by side would give other flows each time.
func TestMergeDoesNotDependOnReadings(t *testing.T) {
	observers := []string{"b", "", "a", "c"}
	var sources []Source
	for i := range 4 {
		records := randomRecords(uint64(i%3), observers, []int64{0, 1, -1}) // the last repeats the first
		sources = append(sources, sourceOf(int32(i+1), records))
	}
	want := mergeAll(t, sources...)
	if want.Repeated == 0 || want.Flows == 0 || want.Intervals == 0 {
		t.Fatalf("%d flows, %d intervals, %d records repeated", want.Flows, want.Intervals, want.Repeated)
	}
	read := func(c *Collector, s Source, observer string) *Reading {
		r := c.Read(s.N)
		_ = c.texts.observers.number(observer) // texts have other numbers
		if err := columns.ForEach(s.Open(), r.Write); err != nil {
			t.Error(err)
		}
		return r
	}
	backwards := smallCollector(t)
	for i := range sources {
		read(backwards, sources[len(sources)-1-i], "c").Keep()
	}
	failed := smallCollector(t)
	read(failed, sources[1], "c")
	read(failed, sources[3], "a").Keep()
	read(failed, sourceOf(9, randomRecords(9, observers, []int64{0})), "z").Keep() // not merged
	concurrent := smallCollector(t)
	var wait sync.WaitGroup
	for _, s := range sources[1:] {
		wait.Go(func() {
			r := concurrent.Read(s.N)
			if err := columns.ForEach(s.Open(), r.Write); err != nil {
				t.Error(err)
			}
			r.Keep()
		})
	}
	wait.Wait()
	for name, c := range map[string]*Collector{
		"backwards": backwards, "with readings that failed": failed, "side by side": concurrent,
	} {
		got := mergeFrom(t, c, sources)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwant\n%+v", name, got.Result, want.Result)
		}
	}
}

// Records of a connection are ordered by time, observer and content, each only if all before it are equal.
// Otherwise, those that repeat each other would not be neighbors, and would count twice.
func TestOrderOfRecords(t *testing.T) {
	c := smallCollector(t)
	for v := range 3 {
		text := fmt.Sprint(9 - v) // numbers of texts have another order
		c.texts.observers.number(text)
		c.texts.labels.number(text)
		c.Read(int32(10 + v))
	}
	setters := []func(r *record, v int32){
		func(r *record, v int32) { r.src = v },
		func(r *record, v int32) { r.dst = v },
		func(r *record, v int32) { r.protocol = int16(v) },
		func(r *record, v int32) { r.srcPort = v },
		func(r *record, v int32) { r.dstPort = v },
		func(r *record, v int32) { r.startNS = int64(v) },
		func(r *record, v int32) { r.endNS = int64(v) },
		func(r *record, v int32) { r.observer = 2 - v },
		func(r *record, v int32) { r.bytes = int64(v) },
		func(r *record, v int32) { r.resolutionNS = int64(v) },
		func(r *record, v int32) { r.samples = int64(v) },
		func(r *record, v int32) { r.service = 2 - v },
		func(r *record, v int32) { r.vnet = 2 - v },
		func(r *record, v int32) { r.dscp = int16(v) },
		func(r *record, v int32) { r.reading = v },
		func(r *record, v int32) { r.packets = int64(v) },
	}
	reading := c.Read(0)
	compare := func(a, b record) int {
		x := reading.store(&a)
		y := reading.store(&b)
		return c.compareRecords(&x, &y)
	}
	var middle record
	for _, set := range setters {
		set(&middle, 1)
	}
	for first := range setters {
		below := middle
		setters[first](&below, 0)
		for _, set := range setters[first+1:] {
			set(&below, 2)
		}
		if compare(below, middle) >= 0 || compare(middle, below) <= 0 {
			t.Errorf("records with a smaller value in column %d are not first", first)
		}
		other := middle
		setters[first](&other, 0)
		repeats := other.repeats(&middle)
		if repeats != (first >= 14) {
			t.Errorf("a record with another value in column %d repeats: %v", first, repeats)
		}
	}
	if compare(middle, middle) != 0 {
		t.Error("a record is not equal to itself")
	}
}

// Exporters are compared over ten times the duration of records, and over 5 minutes at least. Records with
// more than 99% of the bytes have this duration. A few long records would otherwise merge all exporters.
func TestIntervalOfExporters(t *testing.T) {
	type bytes map[int64]int64 // by duration in ns
	for _, c := range []struct {
		of   bytes
		want int64
	}{
		{bytes{}, 300},
		{bytes{10e9: 1}, 300},
		{bytes{29e9: 1}, 300},
		{bytes{30e9: 1}, 310},
		{bytes{59_999_999_999: 99, 100e9: 1}, 600},
		{bytes{59e9: 98, 100e9: 2}, 1010},
		{bytes{2_000_000e9: 1}, 10_000_000},
	} {
		sums := newRecordSums()
		for ns, bytes := range c.of {
			half := newRecordSums()
			half.add(&record{startNS: 7, endNS: 7 + ns, bytes: bytes, samples: 1, observer: 4})
			half.add(&record{startNS: 9, endNS: 9 + ns, bytes: bytes, samples: -1, observer: 5})
			sums.addAll(&half)
		}
		got := sums.intervalNS()
		if got != c.want*1e9 {
			t.Errorf("%v bytes by duration in ns: %d ns, want %d s", c.of, got, c.want)
		}
		some := len(c.of) > 0
		if sums.records != 2*int64(len(c.of)) || sums.exporters[4] != some || sums.samplers[5] != some ||
			sums.exporters[5] || sums.samplers[4] {
			t.Errorf("%+v of %v", sums, c.of)
		}
	}
}
