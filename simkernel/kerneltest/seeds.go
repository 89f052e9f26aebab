package kerneltest

import (
	"testing"

	"parsimon/schema/daily"
)

// Seeds returns the seeds below all of a test of random cases. A short test has one of every parts seeds.
// Otherwise others are added each day, so that the tests of slices × parts days have all. With PARSIMON_LONG
// set (make twins), it returns all.
func Seeds(all, parts uint64) []uint64 {
	const slices = 4
	var seeds []uint64
	for seed := range all {
		today := seed%parts == 0 || !testing.Short() && daily.Runs(int(seed), int(slices*parts))
		if today || daily.All() {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}
