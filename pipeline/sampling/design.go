package sampling

import (
	"cmp"
	"math"
	"slices"

	"parsimon/schema/names"
	"parsimon/stages/rng"
)

// The number and size of strata and rounds.
const (
	loadClasses = 4 // quarters of the slots by load
	timePieces  = 4 // pieces of time of each load class
	firstRound  = 2 // slots drawn from each stratum in the first round
	growth      = 2 // each later round adds 1/growth of the slots drawn so far
)

// A design divides the slots of a workload into strata and fixes the order in which each stratum is drawn.
type design struct {
	Strata [][]int   // slot numbers, in the order of drawing
	loads  []float64 // of each slot: see loads
}

// newDesign divides slots into strata of similar load and time, and shuffles each stratum. The order depends
// on the seed only, and not on any estimate. The load of a slot is averaged over the last loadNS until its
// end, because long flows that began earlier still take bandwidth.
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

// Merged returns the design that merges every 2 or 4 consecutive strata into one, so that a round draws fewer
// slots. A merged stratum draws from its parts alternately. Its variance includes the differences between
// them (collapsed strata: Cochran §5A.12).
func (d *design) Merged(parts int) *design {
	m := &design{loads: d.loads}
	for strata := range slices.Chunk(d.Strata, parts) {
		var all []int
		for i := range d.loads { // no stratum has more slots
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

// loads returns the offered load of each slot in bytes per ns, averaged over the slot and over the earlier
// slots that end less than overNS before its end.
func loads(slots []slot, overNS int64) []float64 {
	all := make([]float64, len(slots))
	first := 0
	bytes := int64(0)
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

// pieces cuts a list into at most n pieces of about equal length. A piece has at least firstRound items if
// the list has.
func pieces(list []int, n int) (out [][]int) {
	n = max(1, min(n, len(list)/firstRound))
	for i := range n {
		out = append(out, slices.Clone(list[i*len(list)/n:(i+1)*len(list)/n]))
	}
	return out
}

// First returns how many slots of each stratum the first round draws.
func (d *design) First() []int {
	return names.Of(d.Strata, func(s []int) int { return min(firstRound, len(s)) })
}

// Next returns how many slots of each stratum are drawn after another round, given those drawn so far. Half
// of the slots are allocated in proportion to the sizes of the strata. The other half is allocated by
// Neyman's rule (Cochran §5.5). It uses the load of a stratum instead of the standard deviation of its slots,
// which grows with the load. A deviation estimated from the drawn slots may happen to be too small; that
// stratum would then get few slots and a variance that is too small. Measured coverage falls by 3% with
// estimated deviations.
func (d *design) Next(drawn []int) []int {
	total := 0 // drawn
	slots := 0
	product := 0.0
	deviation := make([]float64, len(d.Strata))
	for h, s := range d.Strata {
		for _, n := range s {
			deviation[h] += d.loads[n] / float64(len(s))
		}
		total += drawn[h]
		slots += len(s)
		product += float64(len(s)) * deviation[h]
	}
	target := min(slots, total+max(1, total/growth))
	next := slices.Clone(drawn)
	for ; total < target; total++ {
		best := -1
		most := math.Inf(-1)
		for h, s := range d.Strata {
			share := float64(len(s)) / float64(slots)
			if product > 0 {
				share = (share + float64(len(s))*deviation[h]/product) / 2
			}
			lack := share*float64(target) - float64(next[h])
			if next[h] < len(s) && lack > most {
				best = h
				most = lack
			}
		}
		next[best]++
	}
	return next
}

// Drawn returns the numbers of the drawn slots in order of time. counts has the number of drawn slots of each
// stratum.
func (d *design) Drawn(counts []int) (slots []int) {
	for h, n := range counts {
		slots = append(slots, d.Strata[h][:n]...)
	}
	slices.Sort(slots)
	return slots
}
