package connections

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/ingest/extsort"
	"parsimon/stages/workload"
)

// merging is one call of Collector.Merge.
type merging struct {
	*Collector
	result  Result
	spans   spans
	draw    startDraw
	sampled sampledSums
	sources []int32    // numbers of the sources by reading
	kept    []bool     // whether the records of a reading count
	sums    recordSums // of the records that count

	samplerOf    map[[2]int32]int32 // by src and dst: the sampler that counts
	places       places
	redundancies map[racks]redundancy

	group     []record // of one connection
	observers observers
	timeline  timeline
	choice
}

// spans are the intervals of flows, which another goroutine sorts.
type spans struct {
	*extsort.Sorter[span]
	rows *RowWriter[span]
}

// Merge merges the records of sources into flows. It writes table flows in start order, and table
// workload_intervals. It reads the sources that the Collector has not read. It is called once, after all
// readings.
//
// Records of the same two hosts, protocol and ports are one flow until IdleNS pass without a packet. If
// several observers saw the flow, the one that counted the most bytes of it applies. While it has no record
// for 30 s or more, other observers apply (handover.go). If all of them sampled it, their mean applies
// (exporters) or, at an unknown rate, that of one of them (samplers). A start is known with the resolution of
// the log, such as a second, or within the range that all observers agree on. It is drawn within this range:
// the flows that a host starts in one second follow each other after log-normal gaps, which are scaled to
// fill the second, in random order. Flows are numbered in start order.
func (c *Collector) Merge(ctx context.Context, sources []Source, flows, intervals schema.Sink) (_ Result,
	err error) {
	m := newMerging(c)
	if err := m.read(ctx, sources); err != nil {
		return m.result, errors.Join(err, c.records.Close())
	}
	byStart := byLoggedStart.Within(m.sums.starts())
	logged := extsort.New(&c.Memory, c.TmpDir, c.MemoryBytes/4, byStart)
	byFlow := spansByFlow.Within(0, uint64(m.result.Records))
	m.spans.Sorter = extsort.New(&c.Memory, c.TmpDir, c.MemoryBytes/8, byFlow)
	defer func() { err = errors.Join(err, c.records.Close(), logged.Close(), m.spans.Close()) }()
	toLogged := NewRowWriter(batchRows, func(flows []flow) error {
		m.draw.each(flows)
		return logged.AddAll(flows)
	})
	m.spans.rows = NewRowWriter(batchRows, m.spans.AddAll)
	next := int64(0)
	err = m.eachFlow(ctx, func(f *flow, records []record) error {
		f.number = next
		next++
		m.noteSamples(f)
		if err := m.addSpans(f, records); err != nil {
			return err
		}
		return toLogged.Add(*f)
	})
	err = cmp.Or(err, toLogged.Finish(), m.spans.rows.Finish())
	if err == nil {
		err = c.records.Close()
	}
	if err == nil {
		err = m.write(ctx, logged, flows, intervals)
	}
	return m.result, err
}

func newMerging(c *Collector) *merging {
	return &merging{
		Collector: c,
		sums:      newRecordSums(),
		result:    Result{Shared: map[[2]int32]int64{}},
		draw:      startDraw{c.Seed, workload.NewLogNormal(1, c.GapSigma)},
		choice:    choice{leastHandoverNS: leastHandoverNS},
	}
}

// read reads the sources that were not read yet, and computes the values that depend on all records.
func (m *merging) read(ctx context.Context, sources []Source) error {
	known := map[int32]bool{}
	for _, r := range m.readings {
		known[r.source] = known[r.source] || r.kept
	}
	wanted := map[int32]bool{}
	for _, source := range sources {
		wanted[source.N] = true
		if known[source.N] {
			continue
		}
		reading := m.Read(source.N)
		err := columns.ForEach(source.Open(), func(batch arrow.Record) error {
			return cmp.Or(ctx.Err(), reading.Write(batch))
		}, recordColumns...)
		if err != nil {
			return err
		}
		reading.Keep()
	}
	for _, r := range m.readings {
		m.sources = append(m.sources, r.source)
		m.kept = append(m.kept, r.kept && wanted[r.source])
		if m.kept[r.number] {
			m.sums.addAll(&r.sums)
		}
	}
	m.observers.slots = make([]slot, classes*len(m.texts.observers.all))
	m.result.Records = m.sums.records
	m.result.IntervalNS = m.sums.intervalNS()
	if len(m.sums.samplers) > 1 {
		if err := m.chooseSamplers(ctx); err != nil {
			return err
		}
	}
	if len(m.sums.exporters) > 1 {
		return m.findRedundancy(ctx)
	}
	return nil
}

// eachFlow calls do with each flow and its records, and removes the records. Starts are not drawn yet. The
// flow is valid during the call.
func (m *merging) eachFlow(ctx context.Context, do func(f *flow, records []record) error) error {
	var f flow
	return m.eachConnection(ctx, m.records.Drain, func(records []record) error {
		for len(records) > 0 {
			part := records[:m.part(records)]
			records = records[len(part):]
			f = m.flowOf(part)
			f.synthetic = f.resolutionNS > 0 || f.samples != 0
			if err := do(&f, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// chooseSamplers chooses an observer for each pair of hosts, the one with the most bytes. Records of packets
// that were sampled at an unknown rate count only at this observer. Each observer has estimated the bytes of
// a flow by itself, and the larger estimate would be too large.
func (m *merging) chooseSamplers(ctx context.Context) error {
	type pair struct{ src, dst, observer int32 }
	bytes := map[pair]uint128{}
	err := m.eachConnection(ctx, m.records.Each, func(records []record) error {
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
// and those of samplers that do not count. The records are valid during the call. pass is a method of
// m.records.
func (m *merging) eachConnection(ctx context.Context,
	pass func(ctx context.Context, do func(r *storedRecord) error) error,
	do func(records []record) error) error {
	m.group = m.group[:0]
	m.result.Repeated = 0
	clear(m.result.Shared)
	flush := func() error {
		if len(m.group) == 0 {
			return nil
		}
		if len(m.sources) > 1 {
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
	err := pass(ctx, func(r *storedRecord) error {
		of := &m.origins[r.origin]
		if !m.kept[of.reading] {
			return nil
		}
		if len(m.group) > 0 && (m.group[0].connection != r.connection || m.group[0].protocol != r.protocol) {
			if err := flush(); err != nil {
				return err
			}
		}
		m.group = append(m.group, r.record(of))
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
				if next == at || m.group[next].reading != m.group[next-1].reading {
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
		of[i] = m.sources[records[i].reading]
	}
	slices.Sort(of)
	for i := range of {
		at, _ := slices.BinarySearch(of, of[i])
		if at > 0 {
			m.result.Shared[[2]int32{of[at-1], of[i]}]++
		}
	}
}

// part returns the number of records of a connection before the first time without records.
func (m *merging) part(records []record) int {
	last := records[0].endNS
	for i := range records {
		if records[i].startNS > last+m.IdleNS {
			return i
		}
		last = max(last, records[i].endNS)
	}
	return len(records)
}

// eachStep divides records, in the order of their starts, into those of each interval of IntervalNS. An
// interval in which sampled traffic moves to another exporter is divided there.
func (m *merging) eachStep(records []record, do func(step []record)) {
	for len(records) > 0 {
		n := m.step(records)
		do(records[:n])
		records = records[n:]
	}
}

// step returns the number of records in the first step.
func (m *merging) step(records []record) int {
	end := 1
	step := records[0].startNS / m.result.IntervalNS
	for end < len(records) && records[end].startNS/m.result.IntervalNS == step {
		end++
	}
	before := m.handoverIn(records[:end])
	if before > 0 {
		return before
	}
	return end
}

// seenIn returns what exporters sampled of a connection in one interval.
func (m *merging) seenIn(step []record) (s seen) {
	for _, o := range m.observers.observe(step) {
		if o.class == sampled {
			s.add(o.bytes, o.pairs)
		}
	}
	return s
}
