package flow

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/confidence"
	"parsimon/stages/linksim"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/slowdown"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/workload"
)

// A sampled is what a Sampler writes about a few flows.
type sampled struct {
	flows []tables.SlowdownRow
	hops  []tables.ContributionRow
	cases confidence.CaseSlowdowns
}

// sampleRows runs a Sampler on flows in rows 7 and 8 of lineNetwork. Observed are the blocks of the hops of
// row 7, and caseNS its delays in their cases.
func sampleRows(t *testing.T, m *step.Model, sizes []int64, observed [][]simkernel.Block, caseNS []int64,
	senders ...tables.SenderFCT) (sampled, error) {
	t.Helper()
	var all columns.Arena
	var rows []tables.Observation
	var order []int32
	for h, blocks := range observed {
		all.Add(linksim.AppendBlocks(nil, blocks))
		order = append(order, int32(h))
		rows = append(rows, tables.Observation{
			FlowRow: 7, Hop: int16(h), Hops: int16(len(observed)), LinkID: []int32{4, 2, 0}[h],
			Observed: columns.Item(h), DelayNS: caseNS[h],
		})
	}
	var observations, fcts, slowdowns, contributions, cases tables.Memory
	err := errors.Join(tables.HopObservations.WriteOrdered(&observations, rows, order, &all),
		tables.SenderFCTs.Write(&fcts, senders))
	var flows []workload.Row
	for i, size := range sizes {
		flows = append(flows, workload.Row{ID: int64(70 + i), Src: 1, SizeBytes: size, StartNS: 50})
	}
	chunk := methodtest.Table(methodtest.FlowRecord(flows...))
	var hops tables.Memory
	routed := lineRouted(t, m, &hops, sizes...)
	in := Observed{Routed: routed, Hops: hops.Read(), Observations: observations.Read(), Senders: fcts.Read()}
	rows7 := slowdown.Chunk{FirstRow: 7, Rows: int64(len(flows)), Flows: chunk.Read()}
	out := Output{slowdown.Sink{Slowdowns: &slowdowns, Contributions: &contributions}, &cases}
	if err = errors.Join(err, NewSampler(m).Sample(t.Context(), rows7, in, out)); err != nil {
		return sampled{}, err
	}
	var got sampled
	err = errors.Join(
		columns.Each(slowdowns.Read(), func(r *tables.SlowdownRow) error {
			got.flows = append(got.flows,
				*r)
			return nil
		}),
		columns.Each(contributions.Read(), func(r *tables.ContributionRow) error {
			got.hops = append(got.hops,
				*r)
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	got.cases, err = confidence.ReadCaseSlowdowns(cases.Read())
	return got, err
}

// lineObservations is what a flow of two packets observes on lineNetwork, whose round trip is 1,336 ns. The
// average waits are two, three and one round trips.
func lineObservations() [][]simkernel.Block {
	return [][]simkernel.Block{
		{{WaitNS: 5344}},
		{{WaitNS: 7016, Marks: 0b111}, {WaitNS: 1000}},
		{{WaitNS: 2072}, {WaitNS: 600, Marks: 0b1010}},
	}
}

// Without this, no test of the package would check the weights of the blend or the shares of the attribution.
// By hand:
//
//   - The case of hop 1 has the weight (3/6)² · 3/4 = 3/16, that of hop 2 (1/6)² · 1/2 = 1/72. The replay is
//
// 1,440 ns
//
//	  late, the cases are 3,040 and 720. So the delay is 1,440 + 1,600 · 3/16 − 720 · 1/72 = 1,730 ns.
//	- The last packet waits 1,000 ns at hop 1 and 600 ns at hop 2. The remaining 130 ns are divided 3 : 2, by
//
// marks.
func TestBlendAndAttributionOfThreeHops(t *testing.T) {
	m := lineModel(t)
	senders := []tables.SenderFCT{
		{FlowRow: 6, FCTNS: 9, IdealNS: 9}, {FlowRow: 7, FCTNS: 6440, IdealNS: 5000},
		{FlowRow: 8, FCTNS: 9, IdealNS: 9}, {FlowRow: 9, FCTNS: 9, IdealNS: 9},
	}
	got, err := sampleRows(t, m, []int64{2000, 500}, lineObservations(), []int64{99, 3040, 720}, senders...)
	if err != nil {
		t.Fatal(err)
	}
	// The ideal FCT is 3 ns of propagation, and two packets of 838.4 ns between one of 209.6 on either side.
	if len(got.flows) != 2 || got.flows[0].FlowID != 70 || got.flows[0].FlowRow != 7 ||
		got.flows[0].IdealNS != 2099 ||
		got.flows[0].FCTNS != 2099+1730 || got.flows[0].WindowNS != 0 || got.flows[0].Hops != 3 {
		t.Fatalf("flows %+v", got.flows)
	}
	// Nothing was observed about the other flow, so it has no delay.
	checkHops(t, got.hops, [][3]float64{{1078, 1000, 0}, {652, 600, 0}})
	if got.flows[1].FlowRow != 8 || got.flows[1].Slowdown != 1 || got.flows[1].Hops != 3 {
		t.Errorf("flow without observations: %+v", got.flows[1])
	}
	// The last packet waits longest at hop 1, whose case has a delay of 3,040 ns.
	slow, ok := got.cases.Quantile(0, 1)
	want := (2099 + 3040) / 2099.0
	if !ok || math.Abs(slow/want-1) > 0.01 {
		t.Errorf("case_slowdowns has %v, want %v", slow, want)
	}

	// Without marks, the rest belongs to hop 0. A hop without a case has no weight, and no slowdown.
	observed := lineObservations()
	observed[1][0].Marks = 0
	observed[2][1].Marks = 0
	got, err = sampleRows(t, m, []int64{2000}, observed, []int64{-1, -1, 720}, senders...)
	if err != nil {
		t.Fatal(err)
	}
	fct := got.flows[0].FCTNS
	if fct != 2099+1440-10 {
		t.Errorf("FCT %d ns", fct)
	}
	checkHops(t, got.hops, [][3]float64{{1000, 1000, 0}, {430, 430, 0}})
	if slow, ok := got.cases.Quantile(0, 1); !ok || math.Abs(slow/(2819/2099.0)-1) > 0.01 {
		t.Errorf("case_slowdowns has %v", slow)
	}
	// A delay of 0 in a case is a delay, too.
	got, err = sampleRows(t, m, []int64{2000}, observed, []int64{0, 3040, 0}, senders...)
	if err != nil || got.flows[0].FCTNS != 2099+1440+300-20 {
		t.Errorf("FCT %d ns, %v", got.flows[0].FCTNS, err)
	}
	checkHops(t, got.hops, [][3]float64{{120, 0, 0}, {1000, 1000, 0}, {600, 600, 0}})
}

// The slowdown of a flow by its link cases is that of the hop where its last packet waits longest, or of the
// first such hop.
func TestCaseOfTheLongestWait(t *testing.T) {
	hop := func(lastNS, caseNS int64) hopAt {
		return hopAt{Hop: slowdown.Hop{LastNS: lastNS}, caseNS: caseNS}
	}
	for _, c := range []struct {
		hops []hopAt
		want int64
	}{
		{[]hopAt{hop(0, 7)}, 99}, {[]hopAt{hop(0, 7), hop(1, 0)}, 0}, {[]hopAt{hop(5, 8), hop(5, 9)}, 8},
		{[]hopAt{hop(5, 8), hop(6, 9)}, 9}, {[]hopAt{hop(5, 8), hop(6, -1)}, 8},
	} {
		got := longestWaitCase(c.hops, 99)
		if got != c.want {
			t.Errorf("%+v: %d ns, want %d", c.hops, got, c.want)
		}
	}
}

func checkHops(t *testing.T, got []tables.ContributionRow, want [][3]float64) {
	t.Helper()
	var have [][3]float64
	for _, h := range got {
		have = append(have, [3]float64{h.DelayNS, h.WaitNS, float64(h.LongestNS)})
	}
	if !slices.Equal(have, want) {
		t.Errorf("hops have delays, waits and longest waits %v, want %v", have, want)
	}
}

// Limited buffers require the longest wait of any packet at a hop, which is otherwise 0.
func TestLongestWaitOfLimitedBuffers(t *testing.T) {
	m := lineModel(t)
	m.Buffers = network.BufferParams{SwitchBytes: 1e6, Alpha: 1}
	got, err := sampleRows(t, m, []int64{2000}, lineObservations(), []int64{0, 3040, 720},
		tables.SenderFCT{FlowRow: 7, FCTNS: 6440, IdealNS: 5000})
	if err != nil {
		t.Fatal(err)
	}
	checkHops(t, got.hops, [][3]float64{{0, 0, 5344}, {1078, 1000, 7016}, {652, 600, 2072}})
}

// A block counts once for each of its packets: of 50 packets, the first 48 have a block each, and the last
// two share one.
func TestMeanWaitOfBlocks(t *testing.T) {
	s := NewSampler(lineModel(t))
	blocks := make([]simkernel.Block, 49)
	blocks[0].WaitNS = 50
	blocks[48].WaitNS = 100
	s.blocks = blocks
	h := s.hopOf(50_000, 0)
	if h.meanNS != 5 || h.LastNS != 0 || h.LongestNS != 0 || h.Index != 0 {
		t.Errorf("hop 0: %+v", h)
	}
	h = s.hopOf(50_000, 1)
	if h.meanNS != 5 || h.LastNS != 100 || h.Index != 1 {
		t.Errorf("hop 1: %+v", h)
	}
	// A flow of one more block observes no wait of its last packet.
	h = s.hopOf(65_000, 1)
	if h.LastNS != 0 {
		t.Errorf("hop 1 of a longer flow: %+v", h)
	}
}

// An estimate without these errors would silently leave flows out, or give them FCTs below their ideal ones.
func TestSampleRefuses(t *testing.T) {
	m := lineModel(t)
	damaged := lineObservations()
	damaged[2][0].WaitNS = -1
	for _, c := range []struct {
		observed [][]simkernel.Block
		sender   tables.SenderFCT
		want     string
	}{
		{lineObservations(), tables.SenderFCT{FlowRow: 8, FCTNS: 1, IdealNS: 1}, "flow 70: no row in sender_fcts"},
		{lineObservations(), tables.SenderFCT{FlowRow: 7, FCTNS: 4, IdealNS: 5},
			"flow row 7 has an FCT of 4 ns, below its ideal FCT of 5"},
		{damaged, tables.SenderFCT{FlowRow: 7, FCTNS: 5, IdealNS: 5},
			"hop_observations: flow row 7, hop 2: damaged"},
	} {
		_, err := sampleRows(t, m, []int64{2000}, c.observed, []int64{0, 0, 0}, c.sender)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	got, err := sampleRows(t, m, []int64{2000}, lineObservations(), []int64{0, 0, 0},
		tables.SenderFCT{FlowRow: 7})
	if err != nil || len(got.flows) != 1 {
		t.Errorf("an FCT of 0 ns: %v", err)
	}
}

// A flow that was replayed has a path, even if neither table of route has it.
func TestSampleRefusesFlowsWithoutPaths(t *testing.T) {
	var none, fcts tables.Memory
	if err := tables.SenderFCTs.Write(&fcts, []tables.SenderFCT{{FlowRow: 7}}); err != nil {
		t.Fatal(err)
	}
	in := Observed{Hops: none.Read(), Observations: none.Read(), Senders: fcts.Read()}
	in.Routed = slowdown.Routed{Paths: none.Read(), Loads: none.Read()}
	out := Output{slowdown.Sink{Slowdowns: &none}, &none}
	err := NewSampler(lineModel(t)).Sample(t.Context(), lineFlow(), in, out)
	if err == nil || err.Error() != "flow 70: no row in flow_paths" {
		t.Errorf("error %v", err)
	}
}

// The link of an observation is that of the contribution. If it were another link of the network, answers
// would blame a link that the flow does not cross.
func TestSampleRefusesLinksOffThePath(t *testing.T) {
	m := lineModel(t)
	sample := func(hop int16, link int32, firstRow int64) error {
		var observations, fcts, hops, paths, loads, none tables.Memory
		var blocks columns.Arena
		blocks.Add(linksim.AppendBlocks(nil, []simkernel.Block{{WaitNS: 9}}))
		row := tables.Observation{FlowRow: 7, Hop: hop, Hops: 3, LinkID: link, Observed: columns.Item(0)}
		flows := methodtest.FlowRecord(workload.Row{ID: 70, Src: 1, SizeBytes: 1000})
		chunk := route.Chunk{FirstRow: firstRow, Flows: methodtest.Table(flows).Read()}
		_, err := route.Flows(t.Context(), m, chunk, route.Sink{Hops: &hops, Paths: &none, Loads: &none})
		chunk = route.Chunk{FirstRow: 7, Flows: methodtest.Table(flows).Read()}
		_, wrong := route.Flows(t.Context(), m, chunk, route.Sink{Hops: &none, Paths: &paths, Loads: &loads})
		err = errors.Join(err, wrong,
			tables.HopObservations.WriteOrdered(&observations, []tables.Observation{row}, []int32{0}, &blocks),
			tables.SenderFCTs.Write(&fcts, []tables.SenderFCT{{FlowRow: 7}}))
		if err != nil {
			t.Fatal(err)
		}
		in := Observed{Routed: slowdown.Routed{Paths: paths.Read(), Loads: loads.Read()}, Hops: hops.Read(),
			Observations: observations.Read(), Senders: fcts.Read()}
		out := Output{slowdown.Sink{Slowdowns: &tables.Memory{}, Contributions: &tables.Memory{}}, &tables.Memory{}}
		return NewSampler(m).Sample(t.Context(), lineFlow(), in, out)
	}
	for _, c := range []struct {
		hop      int16
		link     int32
		firstRow int64
		want     string
	}{
		{0, 4, 7, ""}, {1, 2, 7, ""}, {2, 0, 7, ""},
		{0, 2, 7, "hop_observations: flow row 7 has hop 0 on link 2, which is not on its path"},
		{1, 3, 7, "hop_observations: flow row 7 has hop 1 on link 3, which is not on its path"},
		{2, 2, 7, "hop_observations: flow row 7 has hop 2 on link 2, which is not on its path"},
		{2, 0, 8, "hops: flow row 8 is not in the chunk of 1 flows at row 7"},
		{2, 0, 6, "hops: flow row 6 is not in the chunk of 1 flows at row 7"},
	} {
		got := ""
		if err := sample(c.hop, c.link, c.firstRow); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("hop %d on link %d, hops of row %d: error %q, want %q", c.hop, c.link, c.firstRow, got, c.want)
		}
	}
}
