package linksim

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/methodtest"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
)

type mapStore struct {
	results map[CaseKey][]byte
	hits    int
	damage  func(b []byte) []byte
}

func (m *mapStore) Lookup(key CaseKey, to []byte) ([]byte, bool) {
	b, ok := m.results[key]
	if ok {
		m.hits++
		if m.damage != nil {
			b = m.damage(append([]byte(nil), b...))
		}
	}
	return append(to, b...), ok
}

func (m *mapStore) Store(key CaseKey, b []byte) { m.results[key] = append([]byte(nil), b...) }

// results are what a simulator finds: delays or observations, and the counters of links.
type results struct {
	delays              delays
	observations, stats tables.Memory
}

// A store returns results unchanged, also for a workload that is shifted in time. Bytes that are not a result
// of the case are ignored.
func TestCachedResultsAreTheSame(t *testing.T) {
	n := topologytest.MustClos(t, methodtest.SmallClos())
	rooms := slices.Repeat([]int64{8 * 3000}, len(n.Links)) // queues of more than 3,000 bytes are recorded
	for _, of := range []struct {
		by Detail
		p  simkernel.Params
	}{{Delays, simkernel.DefaultParams()}, {Observations, simkernel.DefaultParams()}} {
		by := of.by
		p := of.p
		store := &mapStore{results: map[CaseKey][]byte{}}
		run := func(useCache bool, shiftNS int64) (found results, done Stats) {
			flows := methodtest.RandomFlows(n, rand.New(rand.NewPCG(5, 6)), 1000)
			if shiftNS > 0 {
				starts := columns.Int64s(flows, "start_ns")
				moved := make([]int64, len(starts))
				for i, s := range starts {
					moved[i] = s + shiftNS
				}
				flows = withStarts(flows, moved)
			}
			hops, loads := methodtest.Route(t, n, &p, flows)
			o := Options{Model: methodtest.Model(t, n, &p), Loads: loads, Detail: by, Rooms: rooms}
			if useCache {
				o.Cache = store
			}
			sim, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			links := step.Range{Hi: int64(len(n.Links))}
			if by == Delays {
				done, err = sim.SimulateDelays(t.Context(), links, hops.Read(), &found.delays, &found.stats)
			} else {
				in := Input{Hops: hops.Read()}
				done, err = sim.Simulate(t.Context(), links, in, &found.observations, &found.stats)
			}
			if err != nil {
				t.Fatal(err)
			}
			return found, done
		}
		want, _ := run(false, 0)
		same := func(what string, got results) {
			t.Helper()
			if !slices.Equal(got.delays, want.delays) {
				t.Errorf("%d, %s: delays differ", by, what)
			}
			for _, pair := range [][2]tables.Memory{
				{got.observations, want.observations}, {got.stats, want.stats},
			} {
				for i, rec := range pair[0].Records {
					for c := range int(rec.NumCols()) {
						name := rec.ColumnName(c)
						if name != "cached" &&
							!array.Equal(rec.Column(c), pair[1].Records[i].Column(c)) {
							t.Errorf("%d, %s: column %s differs", by, what, name)
						}
					}
				}
			}
		}
		got, _ := run(true, 0)
		same("storing", got)
		got, done := run(true, 0)
		same("cached", got)
		if done.CachedCases == 0 || store.hits != int(done.CachedCases) ||
			done.CachedCases != int64(len(store.results)) {
			t.Errorf("%d: %+v, %d hits, %d stored", by, done, store.hits, len(store.results))
		}
		_, moved := run(true, 777_777_777)
		if moved.CachedCases != done.CachedCases {
			t.Errorf("%d: moved in time, %d cases are cached, want %d", by, moved.CachedCases, done.CachedCases)
		}
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { return append(b, 0) },
			func([]byte) []byte { return nil },
			func(b []byte) []byte { // decodes up to its last byte, but with other observations
				clear(b[len(b)/2:])
				return append(b, 0)
			},
		} {
			store.damage = damage
			got, done = run(true, 0)
			same("damaged", got)
			if done.CachedCases != 0 {
				t.Errorf("%d: %d damaged results were taken", by, done.CachedCases)
			}
			store.damage = nil
			got, _ = run(true, 0)
			same("stored after damage", got)
		}
	}
}

// The digest covers the memory of a case, so a row must have no padding.
func TestDigestOfBlocks(t *testing.T) {
	var bytes uintptr
	for _, f := range reflect.VisibleFields(reflect.TypeFor[simkernel.Block]()) {
		bytes += f.Type.Size()
	}
	size := reflect.TypeFor[simkernel.Block]().Size()
	if size != bytes {
		t.Errorf("a block takes %d bytes, its fields %d", size, bytes)
	}
}

func withStarts(flows arrow.Record, starts []int64) arrow.Record {
	rec, err := flows.SetColumn(flows.Schema().FieldIndices("start_ns")[0], columns.Of(starts))
	if err != nil {
		panic(err)
	}
	return rec
}
