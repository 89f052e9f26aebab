// Package kerneltest makes random inputs for the tests of both simulators.
package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"reflect"

	"parsimon/simkernel"
)

// Pick returns one of the values.
func Pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// Paced returns a transport for a seed. Consecutive seeds cycle through simkernel.PacedTransports.
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

// briefBytes is the length of a text that Brief returns: about ten lines of a terminal.
const briefBytes = 1000

// Brief returns the fields of a value for the message of a failed test, cut where they are long.
func Brief(v any) string {
	text := fmt.Sprintf("%+v", v)
	if len(text) > briefBytes {
		return text[:briefBytes] + " …"
	}
	return text
}

// FirstDifference describes the first row in which two structs of columns differ.
func FirstDifference(got, want any) string {
	g := reflect.Indirect(reflect.ValueOf(got))
	w := reflect.Indirect(reflect.ValueOf(want))
	for f := range g.NumField() {
		name := g.Type().Field(f).Name
		of := g.Field(f)
		other := w.Field(f)
		if of.Kind() != reflect.Slice {
			continue
		}
		if of.Len() != other.Len() {
			return fmt.Sprintf("%s has %d rows, want %d", name, of.Len(), other.Len())
		}
		for i := range of.Len() {
			if !reflect.DeepEqual(of.Index(i).Interface(), other.Index(i).Interface()) {
				return fmt.Sprintf("%s[%d] is %v, want %v", name, i, of.Index(i), other.Index(i))
			}
		}
	}
	return "no column differs"
}
