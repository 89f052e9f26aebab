package parquet

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"

	"parsimon/schema"
)

// Pages of int64 have the bytes that parquet-go writes, also if their numbers are encoded as those of int32.
// Otherwise readers would find other numbers.
func TestPagesOfInt64AsByParquetGo(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	draws := map[string]func(i int) int64{
		"small":     func(int) int64 { return random.Int64N(100) },
		"constant":  func(int) int64 { return 7 },
		"ascending": func(i int) int64 { return int64(i) * 1_000_003 },
		"extremes":  func(i int) int64 { return int64(i%2) * math.MaxInt32 },
		"too large": func(i int) int64 { return int64(i%2) * (math.MaxInt32 + 1) },
		"negative":  func(i int) int64 { return int64(i%3) - 1 },
		"any":       func(int) int64 { return int64(random.Uint64()) },
	}
	_, types := parquetSchema(schema.SenderFCTs, nil)
	for name, draw := range draws {
		for _, rows := range []int{1, 2, 31, 33, 128, 129, 130, 1000} {
			_ = types.plain[0].NewColumnBuffer(0, rows)
			var numbers []int64
			for i := range rows {
				numbers = append(numbers, draw(i))
			}
			if err := writeSlice(types.plain[0], numbers); err != nil {
				t.Fatal(err)
			}
			page := types.plain[0].buffer.Page()
			got, err := page.Type().Encode(nil, page.Data(), &parquet.DeltaBinaryPacked)
			if err != nil {
				t.Fatal(err)
			}
			want, err := deltas.EncodeInt64(nil, numbers)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d numbers, %s: other bytes than parquet-go's, %v", rows, name, err)
			}
		}
	}
}
