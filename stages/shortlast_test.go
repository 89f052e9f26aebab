package stages

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// Flows of a few packets, whose last packet is short, are as late as in the simulation of the whole network: it takes
// less time than a full packet on every link, and catches up with the packet ahead of it. Delays by ACKs of the other
// direction, which a flow has also if it is alone, are left out: up to 10% here.
func TestShortLastPackets(t *testing.T) {
	n := testClos(t)
	flows := randomFlows(n, rand.New(rand.NewPCG(9, 9)), 12_000)
	cols := flows.Columns()
	size, start := make([]int64, flows.NumRows()), columns.Int64s(flows, "start_ns")
	earlier := make([]int64, len(start))
	rng := rand.New(rand.NewPCG(9, 10))
	for i := range size { // 1 to 3 packets, the last of up to 200 bytes
		size[i] = 1000*rng.Int64N(3) + 1 + rng.Int64N(200)
		if i%4 == 0 { // and full ones, which they wait for
			size[i] = 8000
		}
		earlier[i] = start[0] + (start[i]-start[0])/4
	}
	cols[schema.Flows.Index("start_ns")] = columns.Of(earlier)
	cols[schema.Flows.Index("size_bytes")] = columns.Of(size)
	flows = array.NewRecord(flows.Schema(), cols, flows.NumRows())
	fcts, _, _ := simulateExactly(t, n, []arrow.Record{flows}, ExactOptions{})
	_, _, slowdowns := replays(t, n, simkernel.DefaultParams(), flows, 1, 2)
	var want, got, count [4]float64 // by number of packets
	row := ints64(fcts, "flow_row")
	for i, fct := range ints64(fcts, "fct_ns") {
		k := (size[row[i]] + 999) / 1000
		if k < 4 {
			want[k] += float64(fct - ints64(fcts, "ideal_ns")[i])
			count[k]++
		}
	}
	for i, fct := range ints64(slowdowns, "fct_ns") {
		if k := (size[i] + 999) / 1000; k < 4 {
			got[k] += float64(fct - ints64(slowdowns, "ideal_ns")[i])
		}
	}
	for k := 1; k < 4; k++ {
		t.Logf("%d packets: mean delay %.0f ns, simulated %.0f", k, got[k]/count[k], want[k]/count[k])
		if ratio := got[k] / want[k]; ratio < 0.9 || ratio > 1.05 {
			t.Errorf("%d packets: the mean delay is %.3f of the simulated one", k, ratio)
		}
	}
}
