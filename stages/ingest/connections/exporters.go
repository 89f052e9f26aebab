package connections

import (
	"context"
	"math"
	"strconv"

	"parsimon/stages/topology"
)

// priorSamples is the number of sampled packets of a flow that have the same weight as the average of similar
// flows.
const priorSamples = 10

// tooMany bounds sums of bytes, so that their squares fit into 128 bits. It is twice what a flow may have.
const tooMany = 2 * maxRecordBytes

// A redundancy is the number k of exporters on the paths between two racks, each of which samples a flow
// independently. prior is the number of bytes by which it is weighted in an estimate. Without one, both are
// 1.
type redundancy struct{ k, prior float64 }

var noRedundancy = redundancy{1, 1}

// racks are a pair of racks.
type racks struct{ src, dst int }

// seen are the bytes that exporters sampled of a connection in one interval: their sum y over exporters, the
// sum of the squares of what each of them saw, and n, the pairs of a sample with itself.
type seen struct {
	exporters  int
	y          uint64
	squares, n uint128
}

// add adds the bytes of one exporter, and the pairs of its samples with themselves.
func (s *seen) add(bytes uint64, n uint128) {
	bytes = min(bytes, uint64(tooMany))
	whole := square(bytes)
	if whole.less(n) {
		n = whole
	}
	s.exporters++
	s.y += bytes
	s.squares = s.squares.plus(whole)
	s.n = s.n.plus(n)
}

// pairs reports whether there are pairs of different samples.
func (s *seen) pairs() bool { return s.n.less(square(s.y)) }

// once returns how many of the bytes y count once, from the pairs of samples of one exporter. It returns 0
// for a single sample, which has no pairs.
func (s *seen) once() float64 {
	if !s.pairs() {
		return 0
	}
	return float64(s.y) * s.squares.minus(s.n).float() / square(s.y).minus(s.n).float()
}

// estimate returns the bytes of a flow in one interval. They are its samples y divided by the number of its
// exporters. The fewer samples the flow has, the more this number is drawn towards the redundancy of its
// racks.
func (s *seen) estimate(r redundancy) float64 {
	paired := 0.0
	if s.pairs() {
		paired = float64(s.y)
	}
	return float64(s.y) * (s.once() + r.prior/r.k) / (paired + r.prior)
}

// samplePairs returns the pairs of a sample with itself in a record.
func samplePairs(r *record) uint128 { return square(uint64(r.bytes)).over(uint64(r.samples)) }

// pairOfRacks has the sums of the samples between two racks.
type pairOfRacks struct {
	alike       string // tiers of the cables of the two ends, and whether the racks are one
	exporters   int
	y, n        uint128
	bytes, once uint128 // of connections with pairs of samples
}

// findRedundancy estimates the number of exporters on the paths between racks.
//
// It is not known whether one exporter saw a packet that another sampled, and an exporter may by chance have
// sampled no packet of a flow. However, if k exporters are on the path of a connection, one in k pairs of
// its samples belongs to one exporter, regardless of its size and of the rate. Therefore, y (squares - n) /
// (y² - n) of the bytes y of connections with two or more samples count once, and k is the ratio of y to
// them. A pair of racks with few samples is drawn towards all pairs with cables of the same tiers, and these
// towards all pairs. Traffic may move from one exporter to another, so only samples of one interval are
// compared. Unlike a choice of the exporter that sampled most, which is too large if samples are few, this
// has no bias.
func (m *merging) findRedundancy(ctx context.Context) error {
	m.places = placesOf(m.Network)
	found := map[racks]*pairOfRacks{}
	err := m.eachConnection(ctx, m.records.Each, func(records []record) error {
		m.eachStep(records, func(step []record) {
			s := m.seenIn(step)
			if s.exporters > 0 {
				m.addPair(found, &records[0], s)
			}
		})
		return nil
	})
	m.redundancies = redundanciesOf(found)
	return err
}

// redundancy returns the redundancy of the racks of a record.
func (m *merging) redundancy(r *record) redundancy {
	found, known := m.redundancies[m.places.racks(r)]
	if !known {
		return noRedundancy
	}
	return found
}

// places are the racks of hosts, and the tiers of their cables.
type places struct {
	tier map[int32]string
	rack map[int32]int
}

func placesOf(n *topology.Network) places {
	p := places{map[int32]string{}, map[int32]int{}}
	for _, l := range n.Links {
		p.tier[l.Src] = l.Tier
	}
	for rack, hosts := range n.Racks() {
		for _, h := range hosts {
			p.rack[h] = rack
		}
	}
	return p
}

func (p *places) racks(r *record) racks { return racks{p.rack[r.src], p.rack[r.dst]} }

func (m *merging) addPair(found map[racks]*pairOfRacks, r *record, s seen) {
	of := m.places.racks(r)
	alike := m.places.tier[r.src] + " " + m.places.tier[r.dst] + " " + strconv.FormatBool(of.src == of.dst)
	p := found[of]
	if p == nil {
		p = &pairOfRacks{alike: alike}
		found[of] = p
	}
	p.alike = min(p.alike, alike)
	p.exporters = max(p.exporters, s.exporters)
	p.y = p.y.plus(uint128{lo: s.y})
	p.n = p.n.plus(s.n)
	if s.pairs() {
		p.bytes = p.bytes.plus(uint128{lo: s.y})
		p.once = p.once.plus(uint128{lo: uint64(math.Round(s.once()))})
	}
}

// redundanciesOf returns the redundancy of each pair of racks.
func redundanciesOf(found map[racks]*pairOfRacks) map[racks]redundancy {
	var all pairOfRacks
	kinds := map[string]*pairOfRacks{}
	for _, p := range found {
		if kinds[p.alike] == nil {
			kinds[p.alike] = &pairOfRacks{}
		}
		for _, sum := range []*pairOfRacks{&all, kinds[p.alike]} {
			sum.exporters = max(sum.exporters, p.exporters)
			sum.y = sum.y.plus(p.y)
			sum.n = sum.n.plus(p.n)
			sum.bytes = sum.bytes.plus(p.bytes)
			sum.once = sum.once.plus(p.once)
		}
	}
	most := float64(all.exporters)
	prior := all.n.times(priorSamples).float() / all.y.float()
	ofAll := max(1, all.bytes.float()) / max(1, all.once.float())
	result := map[racks]redundancy{}
	for of, p := range found {
		kind := kinds[p.alike]
		ofKind := (kind.bytes.float() + prior) / (kind.once.float() + prior/min(most, ofAll))
		k := min(most, (p.bytes.float()+prior)/(p.once.float()+prior/ofKind))
		result[of] = redundancy{k, prior}
	}
	return result
}
