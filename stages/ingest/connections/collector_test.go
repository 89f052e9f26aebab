package connections

import (
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
