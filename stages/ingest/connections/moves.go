package connections

import (
	"cmp"
	"math"
	"slices"
)

// leastMoveNS is the shortest time for which traffic moves to another observer. A shorter time may be a
// difference between the clocks of observers that see the same packets.
const leastMoveNS = int64(30e9)

// clockNS is a usual difference between the clocks of two exporters.
const clockNS = int64(5e9)

// gapShare is the least share of a record that lies in a gap of the records that count. The rest of it may
// overlap them, because clocks differ.
const gapShare = 0.9

// A choice has the records of a flow that count.
type choice struct {
	counting    []record // those that the bytes of a flow come from; none if all observers sampled it
	memory      []record // of counting
	leastMoveNS int64    // the constant, or the largest number: traffic never moves
}

// count makes counting the records that the bytes of a flow come from: those of the observer that counted the
// most bytes. If the best observers of all intervals have counted 20% more, these are used instead: none has
// counted most of the traffic. Records of other observers count in times of at least leastMoveNS without a
// record that counts, because the traffic has moved to them. Records that repeat the bytes of others never
// count, since they are in the same times.
func (m *merging) count(records []record, seen []observation) {
	best, observers := m.bestOf(seen)
	if observers == 1 && len(seen) == 1 {
		m.counting = records
		return
	}
	m.counting = m.memory[:0]
	if observers > 0 {
		m.addOf(records, &best)
	}
	if observers > 1 {
		if 5*m.countedBySteps(records) > 6*best.bytes {
			m.counting = m.counting[:0]
			for step := range m.steps(records) {
				of, some := m.bestOf(m.observers.observe(step))
				if some > 0 {
					m.addOf(step, &of)
				}
			}
		}
		m.addMoved(records)
	}
	m.memory = m.counting
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

// has reports whether a record is one of an observation.
func (o *observation) has(r *record) bool { return r.observer == o.observer && r.class() == o.class }

// addOf adds the records of an observation to those that count.
func (m *merging) addOf(records []record, o *observation) {
	for i := range records {
		if o.has(&records[i]) {
			m.counting = append(m.counting, records[i])
		}
	}
}

// countedBySteps returns the sum over intervals of the bytes that the best observer there counted.
func (m *merging) countedBySteps(records []record) (sum uint64) {
	for step := range m.steps(records) {
		best, _ := m.bestOf(m.observers.observe(step))
		sum = min(sum+best.bytes, 1<<60)
	}
	return sum
}

// addMoved adds to counting the records of other observers in its gaps. Those of the best observer are added
// first, and then close its gaps to others.
func (m *merging) addMoved(records []record) {
	others := slices.Clone(m.observers.observe(records))
	slices.SortFunc(others, func(a, b observation) int {
		if m.better(&a, &b) {
			return -1
		}
		return 1
	})
	for i := range others {
		o := &others[i]
		if o.class == sampled {
			continue
		}
		at := 0
		for _, g := range gapsOf(m.counting, m.leastMoveNS) {
			from := len(m.counting)
			inGap := span{startNS: math.MaxInt64}
			for ; at < len(records) && records[at].startNS < g.endNS; at++ {
				r := &records[at]
				if o.has(r) && g.holds(r) {
					inGap.startNS = min(inGap.startNS, r.startNS)
					inGap.endNS = max(inGap.endNS, endOf(r))
					m.counting = append(m.counting, *r)
				}
			}
			if inGap.endNS-inGap.startNS < m.leastMoveNS {
				m.counting = m.counting[:from]
			}
		}
	}
}

// gapsOf returns the times of at least leastNS without a record, in order. The first one has no start, and
// the last one no end. It sorts the records.
func gapsOf(records []record, leastNS int64) (gaps []span) {
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.startNS, b.startNS) })
	g := span{startNS: math.MinInt64 / 4}
	for i := range records {
		g.endNS = records[i].startNS
		if g.endNS-g.startNS >= leastNS {
			gaps = append(gaps, g)
		}
		g.startNS = max(g.startNS, endOf(&records[i]))
	}
	g.endNS = math.MaxInt64
	return append(gaps, g)
}

// holds reports whether a record lies in a gap.
func (s *span) holds(r *record) bool {
	inGap := min(s.endNS, endOf(r)) - max(s.startNS, r.startNS)
	return float64(inGap) >= gapShare*float64(endOf(r)-r.startNS)
}

// A run is a time in which an exporter has samples without a pause of leastMoveNS.
type run struct{ startNS, endNS, samples int64 }

// moveIn returns the number of records of an interval before its sampled traffic moves to another exporter: a
// run of one exporter ends, to clockNS, before a run of the other begins. Both runs have at least
// priorSamples samples and leastMoveNS, because a few samples of two exporters that see the same packets may
// be apart, too. It returns 0 if the traffic does not move.
//
// Without it, three exporters would have shares of the interval of which each packet has passed two.
func (m *merging) moveIn(records []record) int {
	last := len(records) - 1
	short := records[last].startNS-records[0].startNS < m.leastMoveNS
	if short || len(m.noted.exporters) < 2 || records[0].class() != sampled {
		return 0
	}
	firstEndNS := int64(math.MaxInt64)
	runs := m.runs(records)
	for _, r := range runs {
		firstEndNS = min(firstEndNS, r.endNS)
	}
	moveNS := int64(math.MaxInt64)
	for _, r := range runs {
		if r.startNS >= firstEndNS-clockNS {
			moveNS = min(moveNS, r.startNS)
		}
	}
	for i := range records {
		if records[i].startNS >= moveNS {
			return i
		}
	}
	return 0
}

// runs returns the runs of all exporters that are long enough for traffic that moves.
func (m *merging) runs(records []record) (runs []run) {
	seen := m.observers.observe(records)
	for i := range seen {
		o := &seen[i]
		if o.class != sampled {
			continue
		}
		r := run{startNS: o.startNS}
		add := func() {
			if r.samples >= priorSamples && r.endNS-r.startNS >= m.leastMoveNS {
				runs = append(runs, r)
			}
		}
		for k := range records {
			x := &records[k]
			if !o.has(x) {
				continue
			}
			if r.samples > 0 && x.startNS-r.endNS >= m.leastMoveNS {
				add()
				r = run{startNS: x.startNS}
			}
			r.endNS = max(r.endNS, endOf(x))
			r.samples += x.samples
		}
		add()
	}
	return runs
}
