package confidence

import "math"

// poissonOne maps 64 random bits to a Poisson variable of mean 1, by inversion. It is the weight of a flow,
// or of a block of time, in one replicate of a Poisson bootstrap.
func poissonOne(u uint64) uint8 {
	k := poissonLeast[u>>56]
	for k < uint8(len(poissonCDF)) && u >= poissonCDF[k] {
		k++
	}
	return k
}

// poissonCDF is the distribution function of Poisson(1) in units of 2^-64.
var poissonCDF = func() (cdf [16]uint64) {
	p := math.Exp(-1)
	sum := 0.0
	for k := range cdf {
		sum += p
		p /= float64(k + 1)
		cdf[k] = math.MaxUint64
		if sum < 1 {
			cdf[k] = uint64(sum * 0x1p64)
		}
	}
	return cdf
}()

// poissonLeast has the variable of the least number with each value of the first eight bits. Most other
// numbers with these bits have the same one.
var poissonLeast = func() (least [256]uint8) {
	for first := range least {
		for uint64(first)<<56 >= poissonCDF[least[first]] {
			least[first]++
		}
	}
	return least
}()
