package lake

import (
	"maps"
	"math"
	"os"

	"parsimon/pipeline/lake/parquet"
	"parsimon/schema"
)

// Limits of the values in tables. They are far above the values of any real scenario, and low enough that
// sums and products of a few of them do not overflow.
const (
	maxTimeNS   = int64(1) << 62
	maxBps      = int64(1) << 50
	maxFlowSize = int64(1) << 50
	maxRow      = int64(1) << 41
	maxHops     = 1 << 10
)

// common are the bounds of columns that apply to every lake.
var common = parquet.Bounds{
	"start_ns": {0, maxTimeNS}, "first_start_ns": {0, maxTimeNS}, "last_start_ns": {0, maxTimeNS},
	"fct_ns": {0, maxTimeNS}, "ideal_ns": {0, maxTimeNS}, "window_ns": {0, maxTimeNS},
	"round_trip_ns":    {0, maxTimeNS},
	"delay_to_link_ns": {0, maxTimeNS}, "path_delay_ns": {0, maxTimeNS}, "path_send_ns": {0, maxTimeNS},
	"upstream_bps": {0, maxBps}, "downstream_bps": {0, maxBps}, "bandwidth_bps": {1, maxBps},
	"size_bytes": {0, maxFlowSize}, "bytes": {0, math.MaxInt64}, "packets": {0, math.MaxInt64},
	"flows": {0, maxRow}, "flow_row": {0, maxRow}, "after_row": {0, maxRow},
	"hop": {0, maxHops}, "hops": {0, maxHops}, "slowest_hop": {0, maxHops}, "between_ps": {0, math.MaxInt32},
	"chunk": {0, math.MaxInt32}, "members": {0, math.MaxInt32}, "bucket": {0, math.MaxInt32}, "n": {0, maxRow},
	"link_id": {0, math.MaxInt32}, "first_link": {0, math.MaxInt32}, "representative": {0, math.MaxInt32},
	"src": {0, math.MaxInt32}, "dst": {0, math.MaxInt32},
}

// ReadOutside streams files of one table that lie outside of any lake, whose content is not trusted. Values
// that no lake can have are errors.
func ReadOutside(t schema.Table, paths []string) schema.Batches {
	return parquet.NewReader(t, os.Open, paths, nil, nil).Within(common)
}

// Network holds the number of links of a network and the number of flows of a scenario, for Within. 0: not
// known.
type Network struct{ Links, Flows int64 }

// Within returns the lake for reading the tables of one scenario. Reading fails at a row that refers to a
// link or flow that the scenario does not have, or that counts more flows than the scenario has.
func (l *Lake) Within(n Network) *Lake {
	within := *l
	within.bounds = maps.Clone(common)
	if n.Links > 0 {
		for _, column := range []string{"link_id", "first_link", "representative"} {
			within.bounds[column] = [2]int64{0, n.Links - 1}
		}
	}
	if n.Flows > 0 {
		within.bounds["flows"] = [2]int64{0, n.Flows}
		within.bounds["flow_row"] = [2]int64{0, n.Flows - 1}
		within.bounds["after_row"] = [2]int64{0, n.Flows - 1}
	}
	return &within
}
