package sampling

import (
	"cmp"
	"math"
	"slices"

	"parsimon/schema/names"
	"parsimon/stages/rng"
)

// Shape of the strata and rounds.
const (
	loadClasses = 4 // quarters of the slots by load
	timePieces  = 4 // of each load class
	firstRound  = 2 // slots drawn from each stratum in the first round
	growth      = 2 // each later round adds 1/growth of the slots drawn so far
)

// A Design divides the slots of a workload into strata.
type design struct {
	Strata [][]int // numbers of slots, in the order of drawing
	loads  []float64
}

// newDesign divides slots into strata of similar load and neighbouring time and orders each stratum at random. The
// order depends on the seed, and on nothing that is estimated. The load is that of the slot and of the slots before it
// for so long in all: long flows that began earlier still take bandwidth.
func newDesign(slots []slot, seed uint64, loadNS int64) *design {
	d := &design{loads: loads(slots, loadNS)}
	byLoad := make([]int, len(slots))
	for i := range byLoad {
		byLoad[i] = i
	}
	slices.SortStableFunc(byLoad, func(a, b int) int { return cmp.Compare(d.loads[a], d.loads[b]) })
	for _, class := range pieces(byLoad, loadClasses) {
		slices.Sort(class) // by time
		for _, stratum := range pieces(class, timePieces) {
			n := uint64(len(d.Strata))
			random := rng.New(seed, rng.Window, n)
			for i := len(stratum) - 1; i > 0; i-- {
				j := random.IntN(i + 1)
				stratum[i], stratum[j] = stratum[j], stratum[i]
			}
			d.Strata = append(d.Strata, stratum)
		}
	}
	return d
}

// Merged is the design with one stratum in place of each 2 or 4 that follow each other, for fewer slots in a round: it
// draws from them in turn, and the variance has what differs between them, too (collapsed strata: Cochran §5A.12).
func (d *design) Merged(parts int) *design {
	m := &design{loads: d.loads}
	for strata := range slices.Chunk(d.Strata, parts) {
		var all []int
		for i := range d.loads { // of a stratum at most
			for _, h := range []int{0, 2, 1, 3} {
				if h < len(strata) && i < len(strata[h]) {
					all = append(all, strata[h][i])
				}
			}
		}
		m.Strata = append(m.Strata, all)
	}
	return m
}

// loads are the offered loads, in bytes per ns, of slots together with those before them that end within overNS.
func loads(slots []slot, overNS int64) []float64 {
	all := make([]float64, len(slots))
	first, bytes := 0, int64(0)
	for i, s := range slots {
		bytes += s.Bytes
		for first < i && slots[first].ToNS <= s.ToNS-overNS {
			bytes -= slots[first].Bytes
			first++
		}
		all[i] = float64(bytes) / float64(max(1, s.ToNS-slots[first].FromNS))
	}
	return all
}

// pieces cuts a list into at most n pieces of about the same length, each of at least firstRound items where there are
// as many.
func pieces(list []int, n int) (out [][]int) {
	n = max(1, min(n, len(list)/firstRound))
	for i := range n {
		out = append(out, slices.Clone(list[i*len(list)/n:(i+1)*len(list)/n]))
	}
	return out
}

// First is how many slots of each stratum the first round draws.
func (d *design) First() []int {
	return names.Of(d.Strata, func(s []int) int { return min(firstRound, len(s)) })
}

// Next is how many slots of each stratum are drawn after another round, given those drawn so far. Half of the slots are
// allocated by Neyman's rule (Cochran §5.5) with the load of a stratum in place of the standard deviation of its slots,
// which grows with the load, and half in proportion to the strata. Deviations that are estimated from the drawn slots
// would allocate few slots where they happen to be too small, and make intervals too narrow there: measured coverage
// falls by 3%.
func (d *design) Next(drawn []int) []int {
	total, slots, product := 0, 0, 0.0
	deviation := make([]float64, len(d.Strata))
	for h, s := range d.Strata {
		for _, n := range s {
			deviation[h] += d.loads[n] / float64(len(s))
		}
		total, slots = total+drawn[h], slots+len(s)
		product += float64(len(s)) * deviation[h]
	}
	target := min(slots, total+max(1, total/growth))
	next := slices.Clone(drawn)
	for ; total < target; total++ {
		best, most := -1, math.Inf(-1)
		for h, s := range d.Strata {
			share := float64(len(s)) / float64(slots)
			if product > 0 {
				share = (share + float64(len(s))*deviation[h]/product) / 2
			}
			if lack := share*float64(target) - float64(next[h]); next[h] < len(s) && lack > most {
				best, most = h, lack
			}
		}
		next[best]++
	}
	return next
}

// Drawn are the numbers of the slots that are drawn when counts slots of each stratum are, in the order of time.
func (d *design) Drawn(counts []int) (slots []int) {
	for h, n := range counts {
		slots = append(slots, d.Strata[h][:n]...)
	}
	slices.Sort(slots)
	return slots
}
