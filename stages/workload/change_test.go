package workload_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

// tableBatches is table flows in batches of some rows.
type tableBatches struct {
	*flowTable
	at int
}

func (b *tableBatches) Close() error { return nil }

func (b *tableBatches) Next() (rec arrow.Record, err error) {
	if b.at == len(b.ID) {
		return nil, io.EOF
	}
	var places []int
	for ; b.at < len(b.ID) && len(places) < 1009; b.at++ {
		places = append(places, b.at)
	}
	return columns.RecordOf(schema.Flows, places, func(i int) columns.Row {
		return columns.Row{"flow_id": b.ID[i], "src": b.Src[i], "dst": b.Dst[i], "size_bytes": b.Size[i],
			"start_ns": b.Start[i], "service": b.Service[i], "vnet": b.VNet[i], "synthetic_start": false}
	}), nil
}

// The changed flows are the same as ever: services that are copied, thinned out and moved.
func TestChangeFlows(t *testing.T) {
	n := topologytest.MustClos(t, topologytest.SmallClos(4))
	flows, _ := mustGenerate(t, n, mixedWorkload(t, 30_000), 1)
	out := &flowTable{T: t}
	changes := workload.FlowChanges{
		Scale: map[string]float64{"db": 2.7, "web": 0.4, "hadoop": 1.5}, Move: map[string][]int{"hadoop": {1, 2, 7}},
	}
	open := func() schema.Batches { return &tableBatches{flowTable: flows} }
	if _, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, out); err != nil {
		t.Fatal(err)
	}
	done := struct{ flows, firstNS, lastNS int64 }{int64(len(out.ID)), out.Start[0], out.Start[len(out.Start)-1]}
	got := fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, done, out.ID, out.Src, out.Dst, out.Size, out.Start, out.Service,
		out.VNet)))
	if want := "cc39a6a8250295d7d3789525860d6cb6561e7038d7d3b1f420aa5c7d7c2c817e"; got != want {
		t.Errorf("%+v: digest %s, want %s", done, got, want)
	}

	// Hosts that come to share one are noted.
	changes = workload.FlowChanges{Move: map[string][]int{"hadoop": {1}}}
	notes, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, &flowTable{T: t})
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "hadoop moves from ") || !strings.Contains(notes[0], " hosts to 8: ") {
		t.Errorf("%q, %v", notes, err)
	}

	// All services that are not named, together.
	out = &flowTable{T: t}
	changes = workload.FlowChanges{Scale: map[string]float64{"db": 0, workload.OtherServices: 2}}
	if _, err := workload.ChangeFlows(t.Context(), n, changes, 7, open, out); err != nil {
		t.Fatal(err)
	}
	before, after := map[string]int{}, map[string]int{}
	for _, name := range flows.Service {
		before[name] += 2
	}
	for _, name := range out.Service {
		after[name]++
	}
	if delete(before, "db"); len(before) < 2 || !maps.Equal(before, after) {
		t.Errorf("%v, want %v", after, before)
	}
}
