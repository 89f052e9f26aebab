package parquet

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/delta"
)

// Without the bytes of parquet-go, readers would find other numbers, or files would depend on the range of a
// page. Lengths are around those of groups and blocks.
func TestDeltasAreThoseOfParquetGo(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for bits := range 32 {
		for _, length := range []int{0, 1, 2, 32, 33, 34, 64, 127, 128, 129, 130, 257, 1000} {
			numbers := make([]int64, length)
			short := make([]int32, length)
			for i := range numbers {
				numbers[i] = random.Int64N(1 << bits)
				if i%3 == 0 {
					numbers[i] = math.MaxInt32 >> (31 - bits)
				}
				short[i] = int32(numbers[i])
			}
			want, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, short)
			if err != nil {
				t.Fatal(err)
			}
			if got := appendDeltas(nil, numbers); !bytes.Equal(got, want) {
				t.Fatalf("%d numbers of %d bits: %x, want %x", length, bits, got, want)
			}
		}
	}
}
