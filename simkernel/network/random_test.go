package network

import (
	"math/rand/v2"

	"parsimon/simkernel"
)

// pick returns one of the values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// randomConstants makes constants under which a transport does everything it can within a few packets.
func randomConstants(rng *rand.Rand, p *simkernel.Params) {
	if rng.IntN(3) == 0 {
		return
	}
	for defaults, valid := *p, false; !valid; valid = p.Validate() == nil {
		*p = defaults
		for _, k := range p.Keys()[4:] { // those that only this transport has
			factor := pick(rng, 0.02, 0.1, 0.5, 1, 1, 2)
			if k.Int != nil {
				*k.Int = int64(min(k.Max, max(k.Min, float64(*k.Int)*factor)))
			} else {
				*k.Float = min(k.Max, max(k.Min, *k.Float*factor))
			}
		}
	}
}
