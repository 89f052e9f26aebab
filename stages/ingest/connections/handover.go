package connections

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// leastHandoverNS is the shortest time for which traffic moves to another observer. A shorter time may be a
// difference between the clocks of observers that see the same packets.
const leastHandoverNS = int64(30e9)

// clockNS is a usual difference between the clocks of two observers.
const clockNS = int64(5e9)

// A choice has the records of a flow that count.
type choice struct {
	counted         []record // those whose bytes make up the flow; none if all observers sampled it
	memory          []record // of counted
	times           covered  // those of counted
	leastHandoverNS int64    // the constant, or the largest number: traffic never moves
}

// count sets m.counted to the records whose bytes make up the flow: those of the observer that counted the
// most bytes. If the best observers of all intervals have counted 20% more, these are used instead: none has
// counted most of the traffic. Records of other observers count in times of at least leastHandoverNS without
// a record that counts, because the traffic has moved to them (see gapOf).
func (m *merging) count(records []record, seen []observation) {
	best, observers := m.bestOf(seen)
	if observers == 1 && len(seen) == 1 {
		m.counted = records
		return
	}
	m.counted = m.memory[:0]
	if observers > 0 {
		m.addOf(records, &best)
	}
	if observers > 1 {
		if m.step(records) < len(records) && 5*m.countedBySteps(records) > 6*best.bytes {
			m.counted = m.counted[:0]
			m.eachStep(records, func(step []record) {
				of, some := m.bestOf(m.observers.observe(step))
				if some > 0 {
					m.addOf(step, &of)
				}
			})
		}
		m.addHandovers(records)
	}
	m.memory = m.counted
}

// bestOf returns the observer that counted the most bytes, and the number of observers that counted all
// packets.
func (m *merging) bestOf(seen []observation) (best observation, observers int) {
	for i := range seen {
		o := &seen[i]
		if o.class == sampled {
			continue
		}
		if observers == 0 || m.better(o, &best) {
			best = *o
		}
		observers++
	}
	return best, observers
}

// better orders observers by what they counted.
func (m *merging) better(a, b *observation) bool {
	switch {
	case a.bytes != b.bytes:
		return a.bytes > b.bytes
	case a.observer == b.observer:
		return a.class < b.class
	}
	return m.texts.observers.compare(a.observer, b.observer) < 0
}

// addOf adds the records of an observation to those that count.
func (m *merging) addOf(records []record, o *observation) {
	for i := range records {
		r := &records[i]
		if r.observer == o.observer && r.class() == o.class {
			m.counted = append(m.counted, *r)
		}
	}
}

// countedBySteps returns the sum over intervals of the bytes that the best observer there counted.
func (m *merging) countedBySteps(records []record) (sum uint64) {
	m.eachStep(records, func(step []record) {
		best, _ := m.bestOf(m.observers.observe(step))
		sum = min(sum+best.bytes, 1<<60)
	})
	return sum
}

// addHandovers adds to counted the records of other observers in times without a record that counts. Those of
// the best observer are added first, and then count for the others.
func (m *merging) addHandovers(records []record) {
	slices.SortStableFunc(m.counted, func(a, b record) int { return cmp.Compare(a.startNS, b.startNS) })
	m.times = appendCovered(m.times[:0], m.counted)
	inGap := func(r record) bool {
		_, fits := m.times.gapOf(&r)
		return fits && r.class() != sampled
	}
	if !slices.ContainsFunc(records, inGap) {
		return
	}
	var seen []observation
	for _, o := range m.observers.observe(records) {
		if o.class != sampled {
			seen = append(seen, o)
		}
	}
	slices.SortFunc(seen, func(a, b observation) int {
		if m.better(&a, &b) {
			return -1
		}
		return 1
	})
	place := map[[2]int32]int{}
	for i := range seen {
		place[[2]int32{seen[i].observer, int32(seen[i].class)}] = i
	}
	of := make([][]record, len(seen)) // records by observer
	for i := range records {
		r := &records[i]
		if at, counts := place[[2]int32{r.observer, int32(r.class())}]; counts {
			of[at] = append(of[at], *r)
		}
	}
	times := m.times
	for _, records := range of {
		added := len(m.counted)
		m.addRuns(times, records)
		if len(m.counted) > added {
			times = times.with(m.counted[added:])
		}
	}
}

// addRuns adds the records of an observer that the times do not cover, unless they last less than
// leastHandoverNS in a row.
func (m *merging) addRuns(times covered, records []record) {
	from := len(m.counted)
	var gap int // that holds the records from there on
	var startNS, endNS int64
	end := func() {
		if endNS-startNS < m.leastHandoverNS {
			m.counted = m.counted[:from]
		}
		from = len(m.counted)
	}
	for i := range records {
		r := &records[i]
		at, fits := times.gapOf(r)
		if !fits {
			continue
		}
		if len(m.counted) == from || at != gap {
			end()
			gap = at
			startNS = r.startNS
			endNS = 0
		}
		m.counted = append(m.counted, *r)
		endNS = max(endNS, endOf(r))
	}
	end()
}

// covered are the times of records that count, in order and disjoint.
type covered []span

// coveredBy returns the times of records that are in the order of their starts.
func coveredBy(records []record) covered { return appendCovered(nil, records) }

func appendCovered(times covered, records []record) covered {
	for i := range records {
		last := len(times) - 1
		endNS := endOf(&records[i])
		if last >= 0 && records[i].startNS <= times[last].endNS {
			times[last].endNS = max(times[last].endNS, endNS)
			continue
		}
		times = append(times, span{startNS: records[i].startNS, endNS: endNS})
	}
	return times
}

// with returns the times with those of records that are in the order of their starts.
func (c covered) with(records []record) covered {
	all := append(slices.Clone(c), coveredBy(records)...)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.startNS, b.startNS) })
	merged := all[:1]
	for _, s := range all[1:] {
		last := &merged[len(merged)-1]
		if s.startNS <= last.endNS {
			last.endNS = max(last.endNS, s.endNS)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// gapOf returns the number of covered times before the gap that holds a record. A record is in a gap if it
// overlaps the covered times by at most clockNS at its edges.
//
// An observer that sees the same packets may have other timeouts. Its records then contain covered times, or
// begin and end with short ones. Such records are in no gap.
func (c covered) gapOf(r *record) (at int, fits bool) {
	endNS := endOf(r)
	at = sort.Search(len(c), func(i int) bool { return c[i].endNS > r.startNS+clockNS })
	before := at > 0 && c[at-1].endNS >= r.startNS-clockNS
	after := at < len(c) && c[at].startNS <= endNS+clockNS
	if after && c[at].startNS < endNS-clockNS {
		return at, false
	}
	within := before && c[at-1].startNS >= r.startNS-clockNS || after && c[at].endNS <= endNS+clockNS
	return at, !(before && after && within)
}

// A run is a time in which an exporter has samples without a pause of leastHandoverNS.
type run struct{ startNS, endNS, samples int64 }

// handoverIn returns the number of records of an interval before its sampled traffic moves to another
// exporter: a run of one exporter ends, to clockNS, before a run of the other begins. Both runs have at least
// priorSamples samples and leastHandoverNS, because a few samples of two exporters that see the same packets
// may be apart, too. It returns 0 if the traffic does not move.
//
// Without it, three exporters would have shares of the interval of which each packet has passed two.
func (m *merging) handoverIn(records []record) int {
	last := len(records) - 1
	short := records[last].startNS-records[0].startNS < m.leastHandoverNS
	if short || len(m.sums.exporters) < 2 || records[0].class() != sampled {
		return 0
	}
	firstEndNS := int64(math.MaxInt64)
	runs := m.runs(records)
	for _, r := range runs {
		firstEndNS = min(firstEndNS, r.endNS)
	}
	handoverNS := int64(math.MaxInt64)
	for _, r := range runs {
		if r.startNS >= firstEndNS-clockNS {
			handoverNS = min(handoverNS, r.startNS)
		}
	}
	for i := range records {
		if records[i].startNS >= handoverNS {
			return i
		}
	}
	return 0
}

// runs returns the runs of all exporters that are long enough for a handover.
func (m *merging) runs(records []record) (runs []run) {
	now := map[int32]run{}
	end := func(r run) {
		if r.samples >= priorSamples && r.endNS-r.startNS >= m.leastHandoverNS {
			runs = append(runs, r)
		}
	}
	for i := range records {
		x := &records[i]
		if x.class() != sampled {
			continue
		}
		r, some := now[x.observer]
		if some && x.startNS-r.endNS >= m.leastHandoverNS {
			end(r)
			some = false
		}
		if !some {
			r = run{startNS: x.startNS}
		}
		r.endNS = max(r.endNS, endOf(x))
		r.samples += x.samples
		now[x.observer] = r
	}
	for _, r := range now {
		end(r)
	}
	return runs
}
