package stages

import (
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
	"parsimon/stages/topology"
)

// useQueues gives a builder the queues of passes, the newest first, and the starts of the flows.
func useQueues(t *testing.T, x *FeedbackBuilder, n *topology.Network, passes []*captured, flows arrow.Record) {
	t.Helper()
	var rows []schema.Batches
	for _, c := range passes {
		rows = append(rows, c.rewound())
	}
	queues, err := ReadLinkQueues(n, rows...)
	if err != nil {
		t.Fatal(err)
	}
	x.UseQueues(queues)
	if err := x.ReadStarts(&captured{recs: []arrow.Record{flows}}); err != nil {
		t.Fatal(err)
	}
}

// queueTable returns table link_queues of one link.
func queueTable(link int32, atNS, waitNS []int64) *captured {
	var c captured
	links := make([]int32, len(atNS))
	for i := range links {
		links[i] = link
	}
	if err := columns.Write(&c, schema.LinkQueues, len(links), columns.Of(links), columns.Of(atNS), columns.Of(waitNS)); err != nil {
		panic(err)
	}
	return &c
}

const step = linkcase.QueueStepNS

// Hand-computed: between samples by interpolation, nothing at steps without a sample; the mean of the last two passes that
// have the link.
func TestLinkQueues(t *testing.T) {
	n := lineNetwork(t)
	newest := queueTable(3, []int64{1000, 1000 + step, 1000 + 2*step, 1000 + 9*step}, []int64{0, 800, 400, 1600})
	before := queueTable(3, []int64{1000}, []int64{0})
	oldest := queueTable(3, []int64{1000, 1000 + step}, []int64{0, 1 << 40})
	other := queueTable(2, []int64{0, step}, []int64{0, 100})
	for _, c := range []struct {
		passes []*captured
		half   int64
	}{{[]*captured{newest}, 1}, {[]*captured{newest, before, oldest}, 2}, {[]*captured{other, newest, before, oldest}, 2}} {
		var rows []schema.Batches
		for _, p := range c.passes {
			rows = append(rows, p.rewound())
		}
		q, err := ReadLinkQueues(n, rows...)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range map[int64]int64{
			0: 0, 1000: 0, 1000 + step/4: 200, 1000 + step: 800, 1000 + step*3/2: 600, 1000 + 2*step: 400, 1000 + 3*step: 0,
			1000 + 8*step: 0, 1000 + step*35/4: 1200, 1000 + 9*step: 1600, 1000 + 10*step: 0, 1 << 50: 0,
		} {
			if got := q.waitNS(3, at); got != want/c.half {
				t.Errorf("%d passes, at %d ns: %d ns, want %d", len(c.passes), at, got, want/c.half)
			}
		}
		if got := q.waitNS(5, 1000+step); got != 0 {
			t.Errorf("a link without a queue: %d ns", got)
		}
	}
}

func TestLinkQueuesAreChecked(t *testing.T) {
	n := lineNetwork(t)
	for want, c := range map[string]*captured{
		"link 6 is not in the topology, which has 6 links": queueTable(6, []int64{0}, []int64{0}),
		"link -1 is not in the topology":                   queueTable(-1, []int64{0}, []int64{0}),
		"link 2: a wait of -5 ns":                          queueTable(2, []int64{0, step}, []int64{0, -5}),
		"link 1: a wait of 7 ns at 100 ns":                 queueTable(1, []int64{100, 100}, []int64{0, 7}),
	} {
		if _, err := ReadLinkQueues(n, c.rewound()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Hand-computed: a flow over links 4, 2 and 0, all of which its packets pass in 3 ns of propagation and 838 + 2 × 210 ns;
// they wait 5,000 ns at link 2. The ACK of a packet that leaves at 8,000 ns passes links 1, a host's, 3 and 5 without a
// sample at link 1. It comes at link 3 at 14,262 ns, and at link 5 when it has waited there.
func TestAcksWaitInQueues(t *testing.T) {
	n, p := lineNetwork(t), simkernel.ParamsOf(simkernel.DCQCN)
	queues := []*captured{queueTable(3, []int64{0, 3 * step, 4 * step}, []int64{0, 4096, 8192}),
		queueTable(1, []int64{0, 3 * step}, []int64{0, 1 << 20})}
	queues = append(queues, queueTable(5, []int64{0, 4 * step, 5 * step}, []int64{0, 2048, 6144}))
	flows := array.NewRecord(schema.Flows.Arrow(), []arrow.Array{columns.Of([]int64{0}), columns.Of([]int32{1}),
		columns.Of([]int32{0}), columns.Of([]int64{1000}), columns.Of([]int64{7000}), columns.Strings([]string{""}),
		columns.Strings([]string{""}), columns.False(1)}, 1)
	observed := observationTable([]simkernel.Block{{SentAt: 1}}, []simkernel.Block{{SentAt: 126, WaitNS: 5000}},
		[]simkernel.Block{{SentAt: 1}})
	x := NewFeedbackBuilder(n, &p, &Loads{}, 1, 1, 0)
	useQueues(t, x, n, queues, flows)
	got, _ := built(t, x, SenderScope, observed, nil)
	at := int64(7000 + 125*8 + 3 + 838 + 2*210 + 5000 + 1) // and over link 1
	third := 4096 + (at-3*step)*4096/step
	at += third + 1
	fifth := 2048 + (at-4*step)*4096/step
	if want := simkernel.AckWaitHint(third + fifth); got[4][0].Hint != want || want < 500 {
		t.Errorf("hint %d, want %d", got[4][0].Hint, want)
	}
	// Unknown without the queues.
	got, _ = built(t, NewFeedbackBuilder(n, &p, &Loads{}, 1, 1, 0), SenderScope, observed, nil)
	if got[4][0].Hint != 0 {
		t.Errorf("hint %d without queues", got[4][0].Hint)
	}
	// A chunk of flows without the row is an error.
	x.startNS = nil
	if err := x.Build(t.Context(), SenderScope, 7, 1, observed.rewound(), nil, &captured{}, nil); err == nil ||
		!strings.Contains(err.Error(), "flows: the chunk has 0 flows") {
		t.Errorf("%v", err)
	}
}

// A host sends to another rack, with DCQCN, while three there send back over the same cable. Its ACKs wait behind their
// data, and its window is closed meanwhile: without that, the mean slowdown is 7% too low.
func TestAckQueuesAgainstExact(t *testing.T) {
	var nodes []topology.Node
	var cables []topology.Cable
	for id := range int32(8) {
		nodes = append(nodes, topology.Node{ID: id, Kind: topology.KindHost})
		cables = append(cables, topology.Cable{A: 8 + id/4, B: id, BandwidthBps: 10e9, DelayNS: 1000})
	}
	nodes = append(nodes, topology.Node{ID: 8, Kind: topology.KindTor}, topology.Node{ID: 9, Kind: topology.KindTor})
	cables = append(cables, topology.Cable{A: 8, B: 9, BandwidthBps: 10e9, DelayNS: 1000})
	n, err := topology.NewNetwork(nodes, cables)
	if err != nil {
		t.Fatal(err)
	}
	pairs := [][2]int32{{5, 1}, {6, 2}, {7, 3}, {0, 4}}
	flows := inRounds(pairs, 25, 200_000, 1_500_000, func(round int64) int64 { return 300 + 700*round })
	p := simkernel.ParamsOf(simkernel.DCQCN)
	_, _, slowdowns := replays(t, n, p, flows, 1, 5)
	exact, _, _ := simulateExactlyWith(t, n, p, []arrow.Record{flows}, ExactOptions{Domains: 1})
	got, want := meanSlowdown(slowdowns), meanSlowdown(exact)
	t.Logf("mean slowdown %.3f, by the whole network %.3f", got, want)
	if want < 1.5 || math.Abs(got/want-1) > 0.03 {
		t.Errorf("mean slowdown %.3f, by the whole network %.3f", got, want)
	}
}
