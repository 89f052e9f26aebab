package connections

import (
	"cmp"
	"math"
	"slices"
)

// A span is a time in which the log saw bytes of a flow. Until flows have ids, flow is the number of the
// flow.
type span struct {
	flow           int64
	startNS, endNS int64
	bytes          int64
	packets        int64
}

// sampleSpanNS is the time over which a record with few samples is spread, because they do not show when the
// packets between them were sent.
const sampleSpanNS = int64(60e9)

// shortNS is the maximum duration of a flow without intervals.
const shortNS = int64(1e9)

// A piece is a record on the time line of its flow: its bytes and packets, from startNS to before endNS. The
// log may have rounded the end, by slackNS at most.
type piece struct {
	startNS, endNS, slackNS int64
	bytes, packets          float64
}

// A timeline is the pieces of a flow.
type timeline struct {
	pieces, cut []piece
	edges       []edge
	noPackets   bool // of a record they are not known
	firstNS     int64
	lastNS      int64
}

// addSpans adds the intervals of a flow. They come from the records that count or, if packets were sampled,
// from all records, scaled to the estimate of each interval. A flow that lasted no longer than a second, or
// than the resolution of the log, has none.
func (m *merging) addSpans(f *flow, records []record) error {
	t := &m.timeline
	t.begin(records)
	if t.lastNS-t.firstNS <= max(shortNS, records[0].resolutionNS) {
		return nil
	}
	if len(m.counted) == 0 {
		m.addSampled(records)
	}
	for i := range m.counted {
		t.add(&m.counted[i], 1)
	}
	t.resolve()
	return m.writeSpans(f)
}

// begin starts the time line of a flow.
func (t *timeline) begin(records []record) {
	t.pieces = t.pieces[:0]
	t.noPackets = false
	t.firstNS = records[0].startNS
	t.lastNS = 0
	for i := range records {
		t.lastNS = max(t.lastNS, endOf(&records[i]))
	}
}

// endOf returns the end of a record, exclusive: a log with times in seconds has the second of the last
// packet.
func endOf(r *record) int64 { return max(r.endNS+r.resolutionNS, r.startNS+1) }

// add adds a record, with its bytes and packets times a factor.
func (t *timeline) add(r *record, factor float64) {
	p := piece{r.startNS, endOf(r), r.resolutionNS, float64(r.bytes) * factor, float64(r.packets) * factor}
	if r.class() == sampled && r.samples < priorSamples {
		minute := r.startNS - r.startNS%sampleSpanNS
		p.startNS = max(t.firstNS, minute)
		p.endNS = min(t.lastNS, max(p.endNS, minute+sampleSpanNS))
	}
	t.noPackets = t.noPackets || r.packets < 0
	t.pieces = append(t.pieces, p)
}

// addSampled adds the records of all exporters.
func (m *merging) addSampled(records []record) {
	of := m.redundancy(&records[0])
	m.eachStep(records, func(step []record) {
		sum := 0.0
		for i := range step {
			sum += float64(step[i].bytes)
		}
		s := m.seenIn(step)
		factor := s.estimate(of) / sum
		for i := range step {
			m.timeline.add(&step[i], factor)
		}
	})
}

// resolve makes the pieces disjoint. Pieces of the same time are added. An end that was rounded beyond the
// next start is that start. Other pieces that overlap are cut at each other's ends, at uniform rates.
func (t *timeline) resolve() {
	slices.SortFunc(t.pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.startNS, b.startNS), cmp.Compare(a.endNS, b.endNS))
	})
	merged := t.pieces[:0]
	for _, p := range t.pieces {
		last := len(merged) - 1
		if last < 0 || merged[last].startNS != p.startNS || merged[last].endNS != p.endNS {
			merged = append(merged, p)
			continue
		}
		merged[last].bytes += p.bytes
		merged[last].packets += p.packets
	}
	t.pieces = merged
	for i := range t.pieces[:len(t.pieces)-1] {
		p := &t.pieces[i]
		next := t.pieces[i+1].startNS
		if next < p.endNS && next > p.startNS && p.endNS-p.slackNS <= next {
			p.endNS = next
		}
	}
	t.cut = t.cut[:0]
	for at := 0; at < len(t.pieces); {
		end := at + 1
		until := t.pieces[at].endNS
		for end < len(t.pieces) && t.pieces[end].startNS < until {
			until = max(until, t.pieces[end].endNS)
			end++
		}
		if end == at+1 {
			t.cut = append(t.cut, t.pieces[at])
		} else {
			t.cutOverlaps(t.pieces[at:end])
		}
		at = end
	}
}

// An edge is a time at which the rates change: bytes and packets per ns.
type edge struct {
	atNS           int64
	bytes, packets float64
}

// cutOverlaps adds pieces that overlap, cut at each other's ends.
func (t *timeline) cutOverlaps(pieces []piece) {
	t.edges = t.edges[:0]
	var bytes, packets float64
	for _, p := range pieces {
		length := float64(p.endNS - p.startNS)
		t.edges = append(t.edges, edge{p.startNS, p.bytes / length, p.packets / length},
			edge{p.endNS, -p.bytes / length, -p.packets / length})
		bytes += p.bytes
		packets += p.packets
	}
	slices.SortFunc(t.edges, func(a, b edge) int { return cmp.Compare(a.atNS, b.atNS) })
	last := t.edges[len(t.edges)-1].atNS
	var rate edge
	for i, e := range t.edges[:len(t.edges)-1] {
		rate.bytes += e.bytes
		rate.packets += e.packets
		next := t.edges[i+1].atNS
		if next == e.atNS {
			continue
		}
		length := float64(next - e.atNS)
		p := piece{startNS: e.atNS, endNS: next, bytes: min(bytes, max(0, rate.bytes*length)),
			packets: min(packets, max(0, rate.packets*length))}
		if next == last {
			p.bytes = bytes
			p.packets = packets
		}
		bytes -= p.bytes
		packets -= p.packets
		t.cut = append(t.cut, p)
	}
}

// writeSpans rounds the pieces of a flow to whole bytes and packets, which add up to those of the flow.
func (m *merging) writeSpans(f *flow) error {
	var bytes, packets float64 // of the pieces so far
	var doneBytes, donePackets int64
	pieces := m.timeline.cut
	for i, p := range pieces {
		bytes += p.bytes
		packets += p.packets
		upto := min(f.bytes, int64(math.Round(bytes)))
		if i == len(pieces)-1 {
			upto = f.bytes
		}
		if upto <= doneBytes {
			continue
		}
		s := span{flow: f.number, startNS: p.startNS, endNS: p.endNS, bytes: upto - doneBytes, packets: noValue}
		if !m.timeline.noPackets {
			s.packets = max(0, int64(math.Round(packets))-donePackets)
			donePackets += s.packets
		}
		doneBytes = upto
		f.hasSpans = true
		if err := m.spans.rows.Add(s); err != nil {
			return err
		}
	}
	return nil
}
