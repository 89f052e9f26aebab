package ingest

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"

	duckdb "github.com/marcboeker/go-duckdb/v2"

	"parsimon/stages/rng"
	"parsimon/stages/workload"
)

// The value of start_draw has a random order in its high bits and a log-normal gap in fixed point in its low bits, so
// that sums of gaps are exact in any order.
const (
	drawGapBits  = 43
	drawGaps     = int64(1) << drawGapBits
	drawGapScale = 1 << 24
)

// startDraw is the DuckDB function start_draw(src, dst, protocol, src_port, dst_port, second): the draw of one flow,
// from a random stream keyed by all arguments.
type startDraw struct {
	config duckdb.ScalarFuncConfig
	seed   uint64
	gap    workload.LogNormal
}

// registerStartDraw registers the function with a connection.
func registerStartDraw(conn *sql.Conn, seed uint64, sigma float64) error {
	number, err := duckdb.NewTypeInfo(duckdb.TYPE_BIGINT)
	if err != nil {
		return err
	}
	f := &startDraw{seed: seed, gap: workload.NewLogNormal(1, sigma)}
	for range 6 {
		f.config.InputTypeInfos = append(f.config.InputTypeInfos, number)
	}
	f.config.ResultTypeInfo = number
	return duckdb.RegisterScalarUDF(conn, "start_draw", f)
}

// Config returns the types of the arguments and of the result.
func (f *startDraw) Config() duckdb.ScalarFuncConfig { return f.config }

// Executor returns the function.
func (f *startDraw) Executor() duckdb.ScalarFuncExecutor {
	return duckdb.ScalarFuncExecutor{RowExecutor: func(values []driver.Value) (any, error) {
		ids := make([]uint64, len(values))
		for i, v := range values {
			n, ok := v.(int64)
			if !ok {
				return nil, fmt.Errorf("start_draw of %T", v)
			}
			ids[i] = uint64(n)
		}
		s := rng.New(f.seed, rng.Start, ids...)
		order := int64(s.Uint64() >> (64 - 20))
		gap := int64(math.Min(f.gap.Draw(&s)*drawGapScale, float64(drawGaps-2))) + 1
		return order<<drawGapBits | gap, nil
	}}
}
