package connections

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"parsimon/schema"
	"parsimon/stages/ingest/extsort"
	"parsimon/stages/workload"
)

// merging is one call of Merge.
type merging struct {
	Settings
	result  Result
	records *extsort.Sorter[record]
	spans   *extsort.Sorter[span]
	texts   struct{ observers, labels *texts }
	noted   noted
	draw    startDraw
	sampled sampledSums

	samplerOf    map[[2]int32]int32 // by src and dst: the sampler that counts
	places       places
	redundancies map[racks]redundancy

	group    []record // of one connection
	scratch  []record // of one connection or interval, by observer
	timeline timeline
}

// Merge merges records into flows. It writes table flows in start order, and table workload_intervals.
//
// Records of the same two hosts, protocol and ports are one flow until IdleNS pass without a packet. If
// several observers saw the flow, the one that counted the most bytes of it applies. If all of them sampled
// it, their mean applies (exporters) or, at an unknown rate, that of one of them (samplers). A start is known
// with the resolution of the log, such as a second, or within the range that all observers agree on. It is
// drawn within this range: the flows that a host starts in one second follow each other after log-normal
// gaps, which are scaled to fill the second, in random order. Flows are numbered in start order.
func Merge(ctx context.Context, s Settings, sources []Source, flows, intervals schema.Sink) (_ Result,
	err error) {
	m := newMerging(s)
	logged := extsort.New(s.TmpDir, s.MemoryBytes/4, byLoggedStart)
	defer func() { err = errors.Join(err, m.records.Close(), logged.Close(), m.spans.Close()) }()
	if err := m.read(ctx, sources); err != nil {
		return m.result, err
	}
	err = m.eachFlow(ctx, func(f *flow, records []record) error {
		f.number = logged.Len()
		m.noteSamples(f)
		if err := m.addSpans(f, records); err != nil {
			return err
		}
		return logged.Add(*f)
	})
	if err == nil {
		err = m.records.Close()
	}
	if err == nil {
		err = m.write(ctx, logged, flows, intervals)
	}
	return m.result, err
}

func newMerging(s Settings) *merging {
	return &merging{
		Settings: s,
		result:   Result{Shared: map[[2]int32]int64{}},
		records:  extsort.New(s.TmpDir, s.MemoryBytes/2, byConnection),
		spans:    extsort.New(s.TmpDir, s.MemoryBytes/8, spansByFlow),
		texts:    struct{ observers, labels *texts }{newTexts(), newTexts()},
		noted:    noted{map[int64]uint128{}, map[int32]bool{}, map[int32]bool{}, 0},
		draw:     startDraw{s.Seed, workload.NewLogNormal(1, s.GapSigma)},
	}
}

// read reads the records, and computes the values that depend on all of them.
func (m *merging) read(ctx context.Context, sources []Source) error {
	m.noted.sources = len(sources)
	for _, source := range sources {
		if err := m.readSource(ctx, source); err != nil {
			return err
		}
	}
	m.result.IntervalNS = m.intervalNS()
	if len(m.noted.samplers) > 1 {
		if err := m.chooseSamplers(ctx); err != nil {
			return err
		}
	}
	if len(m.noted.exporters) > 1 {
		return m.findRedundancy(ctx)
	}
	return nil
}

// eachFlow calls do with each flow and its records. Starts are not drawn yet.
func (m *merging) eachFlow(ctx context.Context, do func(f *flow, records []record) error) error {
	return m.eachConnection(ctx, func(records []record) error {
		for part := range m.parts(records) {
			f := m.flowOf(part)
			f.synthetic = f.resolutionNS > 0 || f.samples != 0
			if f.resolutionNS > 0 {
				f.draw = m.draw.of(&f.connection, f.protocol, f.startNS)
			}
			if err := do(&f, part); err != nil {
				return err
			}
		}
		return nil
	})
}

var byConnection = extsort.Order[record]{
	Key:     func(r *record) uint64 { return r.hash },
	Compare: compareRecords,
}

// chooseSamplers chooses an observer for each pair of hosts, the one with the most bytes. Records of packets
// that were sampled at an unknown rate count only at this observer. Each observer has estimated the bytes of
// a flow by itself, and the larger estimate would be too large.
func (m *merging) chooseSamplers(ctx context.Context) error {
	type pair struct{ src, dst, observer int32 }
	bytes := map[pair]uint128{}
	err := m.eachConnection(ctx, func(records []record) error {
		for i := range records {
			r := &records[i]
			if r.class() == sampledUnknown {
				of := pair{r.src, r.dst, r.observer}
				bytes[of] = bytes[of].plus(uint128{lo: uint64(r.bytes)})
			}
		}
		return nil
	})
	chosen := map[[2]int32]int32{}
	for of, b := range bytes {
		hosts := [2]int32{of.src, of.dst}
		best, known := chosen[hosts]
		most := bytes[pair{of.src, of.dst, best}]
		if !known || most.less(b) || most == b && m.texts.observers.compare(best, of.observer) < 0 {
			chosen[hosts] = of.observer
		}
	}
	m.samplerOf = chosen
	return err
}

// eachConnection calls do with the records of each connection, without those that an earlier source has, too,
// and those of samplers that do not count. The records are valid during the call.
func (m *merging) eachConnection(ctx context.Context, do func(records []record) error) error {
	m.group = m.group[:0]
	m.result.Repeated = 0
	clear(m.result.Shared)
	flush := func() error {
		if len(m.group) == 0 {
			return nil
		}
		if m.noted.sources > 1 {
			m.removeRepeated()
		}
		if m.samplerOf != nil {
			m.group = slices.DeleteFunc(m.group, func(r record) bool {
				return r.class() == sampledUnknown && m.samplerOf[[2]int32{r.src, r.dst}] != r.observer
			})
		}
		if len(m.group) == 0 {
			return nil
		}
		err := do(m.group)
		m.group = m.group[:0]
		return err
	}
	err := m.records.Each(ctx, func(r *record) error {
		if len(m.group) > 0 && !m.group[0].sameConnection(r) {
			if err := flush(); err != nil {
				return err
			}
		}
		m.group = append(m.group, *r)
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// removeRepeated removes the records that a source with a lower number also has. A log that is ingested while
// it grows, and again when it is complete, thus counts once. Equal records of one source stay: the result has
// each record as often as the source that has it most often.
func (m *merging) removeRepeated() {
	kept := m.group[:0]
	for at := 0; at < len(m.group); {
		end := at + 1
		for end < len(m.group) && m.group[end].sameTime(&m.group[at]) {
			end++
		}
		m.countShared(m.group[at:end])
		for at < end {
			next := at
			most := 0
			n := 0
			for ; next < end && m.group[next].repeats(&m.group[at]); next++ {
				if next == at || m.group[next].source != m.group[next-1].source {
					n = 0
				}
				n++
				most = max(most, n)
			}
			m.result.Repeated += int64(next - at - most)
			kept = append(kept, m.group[at:at+most]...)
			at = next
		}
	}
	m.group = kept
}

// countShared adds to Result.Shared the records of one connection, observer and time.
func (m *merging) countShared(records []record) {
	if len(records) < 2 {
		return
	}
	of := make([]int32, len(records))
	for i := range records {
		of[i] = records[i].source
	}
	slices.Sort(of)
	for i := range of {
		at, _ := slices.BinarySearch(of, of[i])
		if at > 0 {
			m.result.Shared[[2]int32{of[at-1], of[i]}]++
		}
	}
}

// parts divides the records of a connection at times without records.
func (m *merging) parts(records []record) iter.Seq[[]record] {
	return func(yield func([]record) bool) {
		from := 0
		last := records[0].endNS
		for i := range records {
			r := &records[i]
			if r.startNS > last+m.IdleNS {
				if !yield(records[from:i]) {
					return
				}
				from = i
			}
			last = max(last, r.endNS)
		}
		yield(records[from:])
	}
}

// steps divides records, in the order of their starts, into those of each interval of IntervalNS.
func (m *merging) steps(records []record) iter.Seq[[]record] {
	return func(yield func([]record) bool) {
		for at := 0; at < len(records); {
			end := at + 1
			step := records[at].startNS / m.result.IntervalNS
			for end < len(records) && records[end].startNS/m.result.IntervalNS == step {
				end++
			}
			if !yield(records[at:end]) {
				return
			}
			at = end
		}
	}
}

// observations divides records into those of each observer and class. The records are copies in the order of
// their starts, valid until the next call.
func (m *merging) observations(records []record) iter.Seq[[]record] {
	of := records
	same := func(a, b *record) bool { return a.observer == b.observer && a.class() == b.class() }
	if slices.ContainsFunc(records, func(r record) bool { return !same(&r, &records[0]) }) {
		m.scratch = append(m.scratch[:0], records...)
		of = m.scratch
		slices.SortStableFunc(of, func(a, b record) int {
			return cmp.Or(cmp.Compare(a.observer, b.observer), cmp.Compare(a.class(), b.class()))
		})
	}
	return func(yield func([]record) bool) {
		for at := 0; at < len(of); {
			end := at + 1
			for end < len(of) && same(&of[end], &of[at]) {
				end++
			}
			if !yield(of[at:end]) {
				return
			}
			at = end
		}
	}
}

// seenIn returns what exporters sampled of a connection in one interval.
func (m *merging) seenIn(step []record) (s seen) {
	for of := range m.observations(step) {
		if of[0].class() != sampled {
			continue
		}
		bytes := uint64(0)
		pairs := uint128{}
		for i := range of {
			bytes = min(bytes+uint64(of[i].bytes), uint64(tooMany))
			pairs = pairs.plus(samplePairs(&of[i]))
		}
		s.add(bytes, pairs)
	}
	return s
}
