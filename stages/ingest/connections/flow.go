package connections

import "math"

// A flow consists of the records of a connection until it is idle.
type flow struct {
	connection
	protocolAndDSCP
	service, vnet int32
	number        int64 // in the order in which flows are made
	loggedNS      int64 // the start before it is drawn
	startNS       int64
	resolutionNS  int64
	bytes         int64
	samples       int64 // noValue: unknown
	draw          int64 // see startDraw
	synthetic     bool
	hasSpans      bool
}

// An observation is what one observer saw of a flow or of an interval: the sum of its records of one class.
type observation struct {
	observer     int32
	class        class
	bytes        uint64
	pairs        uint128 // of samples with themselves, if packets were sampled at a known rate
	startNS      int64
	resolutionNS int64
}

// observers divides records by observer and class.
type observers struct {
	slots []slot // by observer and class
	turn  int64  // number of the call of observe
	seen  []observation
}

// A slot is the place of an observation in observers.seen, if it was set in this turn.
type slot struct {
	turn int64
	at   int32
}

// observe returns what each observer saw. The records are in the order of their starts. The result is valid
// until the next call.
func (o *observers) observe(records []record) []observation {
	o.turn++
	o.seen = o.seen[:0]
	for i := range records {
		r := &records[i]
		of := r.class()
		s := &o.slots[classes*int(r.observer)+int(of)]
		if s.turn != o.turn {
			*s = slot{o.turn, int32(len(o.seen))}
			o.seen = append(o.seen, observation{
				observer: r.observer, class: of, startNS: r.startNS, resolutionNS: r.resolutionNS,
			})
		}
		to := &o.seen[s.at]
		to.bytes = min(to.bytes+uint64(r.bytes), uint64(tooMany))
		to.resolutionNS = min(to.resolutionNS, r.resolutionNS)
		if of == sampled {
			to.pairs = to.pairs.plus(samplePairs(r))
		}
	}
	return o.seen
}

// flowOf merges the records of a flow. It has the bytes of the records that count (see count). If all
// observers sampled it, its size is the sum of their estimates over intervals, and no record counts. A start
// is the latest that agrees with the observer that recorded its beginning first.
func (m *merging) flowOf(records []record) flow {
	f := flow{
		connection: records[0].connection, protocolAndDSCP: records[0].protocolAndDSCP,
	}
	f.service = records[0].service
	f.vnet = records[0].vnet
	f.samples = noValue
	for i := range records {
		r := &records[i]
		f.service = m.texts.labels.maxText(f.service, r.service)
		f.vnet = m.texts.labels.maxText(f.vnet, r.vnet)
		f.dscp = max(f.dscp, r.dscp)
		if r.samples >= 0 {
			f.samples = max(0, f.samples) + r.samples
		}
	}
	until := int64(math.MaxInt64)
	seen := m.observers.observe(records)
	for i := range seen {
		until = min(until, seen[i].startNS+seen[i].resolutionNS)
	}
	for i := range seen {
		o := &seen[i]
		if o.startNS < until || o.startNS+o.resolutionNS == until {
			f.startNS = max(f.startNS, o.startNS)
		}
	}
	f.resolutionNS = until - f.startNS
	f.loggedNS = f.startNS
	m.count(records, seen)
	if len(m.counted) == 0 {
		f.bytes = int64(max(1, min(float64(tooMany), math.Round(m.estimate(records)))))
		return f
	}
	for i := range m.counted {
		f.bytes = min(f.bytes+m.counted[i].bytes, tooMany)
	}
	return f
}

// estimate returns the bytes of a flow that all of its observers sampled.
func (m *merging) estimate(records []record) (bytes float64) {
	of := m.redundancy(&records[0])
	m.eachStep(records, func(step []record) {
		s := m.seenIn(step)
		bytes += s.estimate(of)
	})
	return bytes
}

// noteSamples counts a flow of sampled packets.
func (m *merging) noteSamples(f *flow) {
	if f.samples <= 0 {
		return
	}
	s := &m.sampled
	s.flows++
	s.bytes += float64(f.bytes)
	s.samples += float64(f.samples)
	switch f.samples {
	case 1:
		s.ones++
	case 2:
		s.twos++
	}
}

// sampledSums are sums over the flows of sampled packets.
type sampledSums struct {
	flows, ones, twos int64
	bytes, samples    float64
}

func (s sampledSums) result() Sampled {
	if s.flows == 0 {
		return Sampled{}
	}
	missing := float64(s.ones) * (float64(s.ones) - 1) / (2 * (float64(s.twos) + 1))
	return Sampled{s.flows, s.bytes / s.samples, missing}
}
