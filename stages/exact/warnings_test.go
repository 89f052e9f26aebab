package exact

import (
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/diagnose"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// A warning names a cable that has more bytes in flight than its port's buffer holds, but only if senders go
// back. A warning also names a cable that sends more before a pause than a buffer holds.
func TestLongCables(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	long := int32(slices.IndexFunc(n.Links, func(l topology.Link) bool { return !n.FromHost(l.ID) }))
	for _, l := range []int32{long, long ^ 1} {
		n.Links[l].DelayNS = 2_000_000
	}
	loads := route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	loads.Links[long].Flows = 7
	model := func(p simkernel.Params, b network.BufferParams) *step.Model {
		return &step.Model{Network: n, Params: p, Buffers: b}
	}
	b := network.BufferParams{SwitchBytes: 400_000, Alpha: 1}
	p := simkernel.DefaultParams()
	p.SetWindow(simkernel.AutoWindow)
	got := goBackWarnings(model(p, b), &loads)
	if len(got) != 1 || got[0].Link != long || !strings.Contains(got[0].Text, "holds 200000 there") {
		t.Errorf("%+v", got)
	}
	if err := Check(model(p, b), &loads); err != nil {
		t.Error(err)
	}
	tcp := simkernel.ParamsOf(simkernel.CUBIC)
	selective := b
	stated := p
	selective.Selective = true
	stated.SetWindow(18_000)
	for i, x := range [][]diagnose.Warning{goBackWarnings(model(tcp, b), &loads),
		goBackWarnings(model(p, selective), &loads), goBackWarnings(model(stated, b), &loads),
		goBackWarnings(model(p, network.BufferParams{}), &loads)} {
		if len(x) > 0 {
			t.Errorf("%d: %+v", i, x)
		}
	}
	b.PFC = true
	short := headroomWarnings(model(p, network.BufferParams{SwitchBytes: 100_000, Alpha: 1, PFC: true}))
	if len(short) != 1 || !strings.Contains(short[0].Text, "PFC is not lossless") ||
		short[0].Threshold != 1 || short[0].Link != -1 || short[0].Measure >= 1 ||
		headroomWarnings(model(p, b)) != nil &&
			!(short[0].Measure < headroomWarnings(model(p, b))[0].Measure) {
		t.Errorf("%+v", short)
	}
	err := Check(model(p, b), &loads)
	if err == nil || !strings.Contains(err.Error(), n.LinkName(long)) && !strings.Contains(err.Error(),
		n.LinkName(long^1)) {
		t.Errorf("PFC without room: %v", err)
	}
}
