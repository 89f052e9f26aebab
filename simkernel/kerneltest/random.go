// Package kerneltest makes random inputs for the tests of both simulators.
package kerneltest

import (
	"math/rand/v2"

	"parsimon/simkernel"
)

// Pick returns one of the values.
func Pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// Paced returns a transport for a seed: each of simkernel.PacedTransports has its turn.
func Paced(seed uint64) simkernel.Transport {
	all := simkernel.PacedTransports()
	return all[seed%uint64(len(all))]
}

// RandomConstants makes constants under which a transport does everything it can within a few packets.
func RandomConstants(rng *rand.Rand, p *simkernel.Params) {
	if rng.IntN(3) == 0 {
		return
	}
	for defaults, valid := *p, false; !valid; valid = p.Validate() == nil {
		*p = defaults
		for _, k := range p.Keys()[4:] { // those that only this transport has
			factor := Pick(rng, 0.02, 0.1, 0.5, 1, 1, 2)
			if k.Int != nil {
				*k.Int = int64(min(k.Max, max(k.Min, float64(*k.Int)*factor)))
			} else {
				*k.Float = min(k.Max, max(k.Min, *k.Float*factor))
			}
		}
	}
}
