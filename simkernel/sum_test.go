package simkernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// With 64 bits, the mean wait of a link that is overloaded for hours would be wrong or negative, without an
// error. A sum agrees with big integers below and above 2^63 and 2^64.
func TestSumDoesNotWrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var got Sum
		want := new(big.Int)
		largest := int64(1) << (1 + rng.IntN(61))
		for range 1 + rng.IntN(40) {
			duration := rng.Int64N(largest)
			got.Add(duration)
			want.Add(want, big.NewInt(duration))
		}
		wantFloat, _ := new(big.Float).SetInt(want).Float64()
		if math.Abs(got.Float64()-wantFloat) > wantFloat/(1<<52) || want.IsInt64() && got.Float64() != wantFloat {
			t.Fatalf("%v: Float64 %v, want %v", want, got.Float64(), wantFloat)
		}
		wantInt := int64(math.MaxInt64)
		if want.IsInt64() {
			wantInt = want.Int64()
		}
		if got.Int64() != wantInt {
			t.Fatalf("%v: Int64 %v", want, got.Int64())
		}
		ns := new(big.Int).Quo(want, big.NewInt(PSPerNS))
		whole := got.PSToNS()
		if whole.Int64() != ns.Int64() {
			t.Fatalf("%v ps: %v ns, want %v", want, whole.Int64(), ns)
		}
	}
}
