package linksim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/simkernel/network"
	"parsimon/stages/exact"
	"parsimon/stages/methodtest"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/tables"
	"parsimon/stages/topology/topologytest"
	"parsimon/stages/workload"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(3, 5)) }

// A simulatedCase has what the simulator writes about a few flows.
type simulatedCase struct {
	sim          *Simulator
	delays       []HopDelay
	observations map[[2]int64][]simkernel.Block // by flow row and hop
	delayNS      map[[2]int64]int64
	stats        []tables.LinkStat
	done         Stats
}

// delays is a DelaySink that keeps what it receives.
type delays []HopDelay

func (d *delays) Begin(step.Task) {}

func (d *delays) AddLink(hops []HopDelay) error {
	*d = append(*d, hops...)
	return nil
}

func (d *delays) End() error { return nil }

// simulateFlows runs all link cases of flows on SmallNetwork.
func simulateFlows(t *testing.T, change func(*Options), flows ...workload.Row) simulatedCase {
	t.Helper()
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(flows...))
	o := Options{Model: m, Loads: loads}
	change(&o)
	c := simulatedCase{observations: map[[2]int64][]simkernel.Block{}, delayNS: map[[2]int64]int64{}}
	var err error
	if c.sim, err = New(o); err != nil {
		t.Fatal(err)
	}
	var out, stats tables.Memory
	all := step.Range{Hi: int64(len(n.Links))}
	if o.Detail == Delays {
		var found delays
		c.done, err = c.sim.SimulateDelays(t.Context(), all, hops.Read(), &found, &stats)
		c.delays = found
	} else {
		c.done, err = c.sim.Simulate(t.Context(), all, Input{Hops: hops.Read()}, &out, &stats)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = columns.Each(stats.Read(), func(s *tables.LinkStat) error {
		c.stats = append(c.stats,
			*s)
		return nil
	})
	type row struct {
		Row      int64  `col:"flow_row"`
		Hop      int16  `col:"hop"`
		Observed []byte `col:"observed"`
		DelayNS  int64  `col:"delay_ns"`
	}
	err = errors.Join(err, columns.Each(out.Read(), func(r *row) error {
		at := [2]int64{r.Row, int64(r.Hop)}
		var wrong error
		c.observations[at], wrong = ReadBlocks(nil, r.Observed)
		c.delayNS[at] = r.DelayNS
		return wrong
	}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// threeFlows meet at link 7, to host 3. Each is a packet of 1,048 bytes, which takes 838.4 ns.
func threeFlows() []workload.Row {
	return []workload.Row{{ID: 1, Dst: 3, SizeBytes: 1000}, {ID: 2, Src: 1, Dst: 3, SizeBytes: 1000},
		{ID: 3, Src: 2, Dst: 3, SizeBytes: 1000}}
}

// Delays and the counters of a queue by hand: the packets wait for none, one and two others. On average one
// waits while the link is busy (Little's law), for 838.4 ns. The counters are those by which links are
// compared.
func TestThreeFlowsAtOneLink(t *testing.T) {
	c := simulateFlows(t, func(*Options) {}, threeFlows()...)
	late := map[int32][]int64{}
	for _, r := range c.delays {
		late[r.LinkID] = append(late[r.LinkID], r.FCTNS-r.IdealNS)
	}
	for link, want := range map[int32][]int64{0: {0}, 2: {0}, 4: {0}, 7: {0, 838, 1676}} {
		slices.Sort(late[link])
		if len(late[link]) != len(want) {
			t.Fatalf("link %d delays flows by %v ns", link, late[link])
		}
		for i, ns := range late[link] {
			if ns < want[i] || ns > want[i]+1 {
				t.Errorf("link %d delays flows by %v ns, want %v", link, late[link], want)
			}
		}
	}
	s := c.stats[7]
	if s.PacketsSent != 3 || s.PacketsMarked != 0 || s.BusyNS < 2515 || s.BusyNS > 2516 ||
		s.MaxQueueBytes != 2*1048 ||
		s.MeanQueuePackets != 1 || s.MeanWaitNS < 838 || s.MeanWaitNS > 838.5 || s.FeedbackShare != 0 || s.Cached {
		t.Errorf("link 7: %+v", s)
	}
	if c.stats[0].PacketsSent != 1 || c.stats[0].MeanWaitNS != 0 || c.stats[1].PacketsSent != 0 {
		t.Errorf("links 0 and 1: %+v, %+v", c.stats[0], c.stats[1])
	}
	if c.done.Cases != 4 || c.done.PacketHops != 6 || c.done.CachedCases != 0 {
		t.Errorf("%+v", c.done)
	}
}

// Packets observe the wait at the target. Its share is relative to the round trip: 3 waits of 838.4 ns on
// average, of 4,000 ns of propagation and 2 × (838 + 48) of transmission.
func TestObservationsOfThreeFlows(t *testing.T) {
	c := simulateFlows(t, func(o *Options) { o.Detail = Observations }, threeFlows()...)
	var waits []int64
	for row := range int64(3) {
		b := c.observations[[2]int64{row, 0}]
		if len(b) != 0 || c.delayNS[[2]int64{row, 0}] != 0 {
			t.Errorf("flow %d observes %v at its host", row, b)
		}
		wait := int64(0)
		for _, b := range c.observations[[2]int64{row, 1}] {
			wait += int64(b.WaitNS)
		}
		waits = append(waits, wait)
		late := c.delayNS[[2]int64{row, 1}] - wait
		if late < 0 || late > 1 {
			t.Errorf("flow %d is %d ns later than it waits", row, late)
		}
	}
	slices.Sort(waits)
	if waits[0] != 0 || waits[1]/2 != 838/2 || waits[2]/2 != 1676/2 {
		t.Errorf("waits %v", waits)
	}
	sum := float64(waits[1] + waits[2])
	got := c.stats[7].FeedbackShare
	want := sum / (3 * (4000 + 2*886))
	if !near(got, want) {
		t.Errorf("share %v, want %v", got, want)
	}
}

// Pass 2 omits a link if its share is at most 2%, and every host's uplink. A link without packets has no
// case.
func TestLinksThatPassTwoOmits(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	var stats tables.Memory
	counters := func(packets int64, share float64) tables.LinkCounters {
		return tables.LinkCounters{PacketsSent: packets, FeedbackShare: share, CrowdedAtNS: []float64{share}}
	}
	err := tables.LinkStats.Write(&stats, []tables.LinkStat{
		{LinkID: 0, LinkCounters: counters(1, 0.5)}, {LinkID: 1, LinkCounters: counters(1, 0.02)},
		{LinkID: 3, LinkCounters: counters(1, 0.0201)}, {LinkID: 5, LinkCounters: counters(0, 0)},
		{LinkID: 6, LinkCounters: counters(0, 0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	omitted, err := ReadOmitted(n, stats.Read())
	if err != nil || len(omitted) != 2 || omitted.Runs(0) || omitted.Runs(1) ||
		omitted[1].CrowdedAtNS[0] != 0.02 {
		t.Errorf("%+v, %v", omitted, err)
	}
}

// A packet at a host's uplink costs a twelfth of one elsewhere, and omitted links cost nothing.
func TestCostsOfTasks(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	loads := &route.Loads{Links: make([]route.LinkLoad, len(n.Links))}
	for id := range loads.Links {
		loads.Links[id].Packets = 1200
	}
	o := &Options{Model: methodtest.DCTCP(t, n), Loads: loads, Omitted: Omitted{3: {}, 4: {}}}
	got := costs([]step.Range{{Lo: 0, Hi: 2}, {Lo: 2, Hi: 5}, {Lo: 5, Hi: 8}}, o)
	if !slices.Equal(got, []int64{1300, 100, 2500}) {
		t.Errorf("%v", got)
	}
	o.Loads = nil
	got = costs(make([]step.Range, 2), o)
	if !slices.Equal(got, []int64{0, 0}) {
		t.Errorf("without loads: %v", got)
	}
}

// Cases of fewer than 1,000 packets are not stored, because a lookup takes longer than the simulation.
func TestSmallCasesAreNotCached(t *testing.T) {
	for packets, want := range map[int64]int64{999: 0, 1000: 2} {
		store := &mapStore{results: map[CaseKey][]byte{}}
		flow := workload.Row{ID: 1, Dst: 3, SizeBytes: packets * 1000}
		for _, cached := range []int64{0, want} {
			var progress int64
			c := simulateFlows(t, func(o *Options) {
				o.Cache = store
				o.Progress = func(hops int64) { progress += hops }
			}, flow)
			d := c.done
			if d.CachedCases != cached || d.Cases != 2-cached || d.CachedHops != packets*cached ||
				d.PacketHops != packets*(2-cached) {
				t.Errorf("%d packets: %+v, want %d cached cases", packets, d, cached)
			}
			if progress != 2*packets || c.stats[7].Cached != (cached > 0) {
				t.Errorf("%d packets: progress %d, cached %v", packets, progress, c.stats[7].Cached)
			}
		}
	}
}

// The longest case of several tasks is the longest of all, with its link.
func TestStatsOfTasks(t *testing.T) {
	var s Stats
	s.Add(Stats{Cases: 1, PacketHops: 10, KernelNS: 5, LongestCaseNS: 5, LongestLink: 4})
	s.Add(Stats{Cases: 2, PacketHops: 20, KernelNS: 4, LongestCaseNS: 3, LongestLink: 6, CachedCases: 7,
		CachedHops: 70, CachedNS: 2})
	s.Add(Stats{LongestCaseNS: 5, LongestLink: 9})
	if s != (Stats{3, 30, 9, 5, 4, 7, 70, 2}) {
		t.Errorf("%+v", s)
	}
}

// The paper's cases have one source per host. With observations, flows that reach the link after another
// delay have a separate source, because the packets of a source stay in order.
func TestSourcesOfACase(t *testing.T) {
	s, err := New(Options{Model: methodtest.DCTCP(t, topologytest.SmallNetwork(t)),
		Loads: &route.Loads{Links: make([]route.LinkLoad, 8)}})
	if err != nil {
		t.Fatal(err)
	}
	row := func(first int32, delayNS int64) tables.LocalHop {
		return tables.LocalHop{FirstLink: first, DelayToLinkNS: delayNS}
	}
	s.input.rows = []tables.LocalHop{row(0, 5), row(2, 5), row(0, 9), row(2, 5), row(0, 5), row(0, 9)}
	for _, c := range []struct {
		detail  Detail
		sources []int32
		delays  []int64
	}{
		{Delays, []int32{0, 1, 0, 1, 0, 0}, []int64{5, 5}},
		{Observations, []int32{0, 1, 2, 1, 0, 2}, []int64{5, 5, 9}},
	} {
		s.Detail = c.detail
		s.c.SourceBps = nil
		s.c.SourceDelayNS = nil
		s.build.other = nil
		s.build.caseNo++
		var got []int32
		for i := range s.input.rows {
			got = append(got, s.sourceOf(int32(i)))
		}
		if !slices.Equal(got, c.sources) || !slices.Equal(s.c.SourceDelayNS, c.delays) {
			t.Errorf("%d: sources %v with delays %v, want %v and %v", c.detail, got, s.c.SourceDelayNS, c.sources,
				c.delays)
		}
	}
}

// A case omits the transmission times of the links that it simulates, and has the slowest link of its path.
func TestRestOfTheRoundTrip(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	n.Links[7].BandwidthBps = 4e10
	s, err := New(Options{Model: methodtest.DCTCP(t, n), Loads: &route.Loads{Links: make([]route.LinkLoad, 8)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		link   int32
		sendNS int64
		want   int64
	}{{0, 5000, 5000 - 838}, {7, 5000, 5000 - 838 - 210}, {7, 900, 0}} {
		got := s.returnNS(n.Links[c.link], 0, c.sendNS)
		if got != c.want {
			t.Errorf("link %d: %d ns of %d are left, want %d", c.link, got, c.sendNS, c.want)
		}
	}
	s.input.rows = []tables.LocalHop{{FlowAtHop: tables.FlowAtHop{LinkID: 7, Hops: 3}, PathDelayNS: 100}}
	for _, c := range []struct{ up, down, want int64 }{{0, 0, 1e10}, {5e9, 0, 5e9}, {0, 2e9, 2e9},
		{3e10, 3e10, 1e10}} {
		s.input.paths = []tables.HopPath{{PathSendNS: 30, UpstreamBps: c.up, DownstreamBps: c.down}}
		got := s.pathOf(0)
		if got != (simkernel.Path{Hops: 3, SlowestBps: c.want, RoundTripNS: 230, SendNS: 30}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A queue of at least an eighth of the buffer space of a port is recorded, but only at a switch. The minimum
// is a queue of one packet.
func TestQueuesThatAreRecorded(t *testing.T) {
	flows := threeFlows()
	for i := range flows {
		flows[i].SizeBytes = 10_000
	}
	queues := func(roomBytes int64) (crowded []int) {
		c := simulateFlows(t, func(o *Options) { o.Rooms = slices.Repeat([]int64{roomBytes}, 8) }, flows...)
		for _, s := range c.stats {
			if len(s.CrowdedAtNS) != len(s.CrowdedBytes) {
				t.Errorf("%+v", s)
			}
			for _, b := range s.CrowdedBytes {
				withService := float64(s.MaxQueueBytes + 1048)
				if b <= float64(roomBytes)/8 || b > withService {
					t.Errorf("a queue of %v bytes of %d is recorded", b, roomBytes)
				}
			}
			crowded = append(crowded, len(s.CrowdedAtNS))
		}
		return crowded
	}
	got := queues(10_000)
	if got[7] == 0 || slices.Max(got[:7]) != 0 {
		t.Errorf("slots with queues: %v", got)
	}
	longest := simulateFlows(t, func(*Options) {}, flows...).stats[7].MaxQueueBytes + 1048
	got = queues(8 * longest)
	if got[7] != 0 {
		t.Errorf("a queue of an eighth of the space is recorded: %v", got)
	}
	got = queues(8*longest - 8)
	if got[7] != 1 {
		t.Errorf("a longer queue than an eighth of the space is not recorded once: %v", got)
	}
	got = queues(1)
	if got[7] == 0 {
		t.Errorf("the least space: %v", got)
	}
	m := &step.Model{Buffers: network.BufferParams{}}
	if exact.Rooms(m) != nil {
		t.Error("unlimited buffers have a limit")
	}
}

// The replay has a row for each flow of a host, in the order of flows, whose FCT includes the feedback.
func TestReplayOfFeedback(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	m := methodtest.DCTCP(t, n)
	flows := []workload.Row{{ID: 1, Src: 2, Dst: 3, SizeBytes: 1000},
		{ID: 2, Src: 0, Dst: 3, SizeBytes: 1000, StartNS: 5}}
	hops, loads := methodtest.Route(t, n, &m.Params, methodtest.FlowRecord(flows...))
	sim, err := New(Options{Model: m, Loads: loads, Detail: Observations})
	if err != nil {
		t.Fatal(err)
	}
	given := func(link int32, row int64, wait int32) *tables.Memory {
		var c tables.Memory
		var all columns.Arena
		all.Add(AppendBlocks(nil, []simkernel.Block{{WaitNS: wait}}))
		table := columns.TableOf[tables.Observation](schema.Feedback)
		err := table.WriteOrdered(&c, []tables.Observation{{FlowRow: row, LinkID: link}}, []int32{0}, &all)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	var out tables.Memory
	in := Input{Hops: hops.Read(), Feedback: given(0, 1, 700).Read()}
	done, err := sim.Replay(t.Context(), step.Range{Hi: 8}, in, &out)
	if err != nil || done.Cases != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	late := []int64{}
	err = columns.Each(out.Read(), func(r *tables.SenderFCT) error {
		if r.FlowRow != int64(len(late)) {
			t.Errorf("row %d comes as number %d", r.FlowRow, len(late))
		}
		late = append(late, r.FCTNS-r.IdealNS)
		return nil
	})
	if err != nil || !slices.Equal(late, []int64{0, 700}) {
		t.Errorf("delays %v, %v", late, err)
	}
	for want, feedback := range map[string]*tables.Memory{
		"feedback: flow row 5 does not cross link 0":      given(0, 5, 1),
		"feedback: flow row 0 does not cross link 0":      given(0, 0, 1),
		"link 0 (host 0 → switch 4): flow row 1: damaged": given(0, 1, -1),
	} {
		_, err := sim.Replay(t.Context(), step.Range{Hi: 8}, Input{hops.Read(), feedback.Read()}, &tables.Memory{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A link that is too slow for its flows is an error that names the link and the flows: 10 GB at 10 kbps
// take 92 days.
func TestFlowsThatDoNotFinish(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for id := range n.Links {
		n.Links[id].BandwidthBps = simkernel.MinBps
	}
	m := methodtest.DCTCP(t, n)
	flows := methodtest.FlowRecord(workload.Row{ID: 5, Dst: 3, SizeBytes: 10_000_000_000})
	hops, loads := methodtest.Route(t, n, &m.Params, flows)
	sim, err := New(Options{Model: m, Loads: loads})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Simulate(t.Context(), step.Range{Hi: 8}, Input{Hops: hops.Read()}, &tables.Memory{},
		&tables.Memory{})
	if err == nil || !strings.Contains(err.Error(), "link 0 (host 0 → switch 4): 1 flows do not finish") ||
		!strings.Contains(err.Error(), "among them [5]") {
		t.Errorf("error %v", err)
	}
}

// At a host's uplink, the time that its ACKs take is a delay of the flow, not a part of its ideal FCT, if the
// times of ACKs are known.
func TestIdealWithoutAcks(t *testing.T) {
	loads := &route.Loads{Links: make([]route.LinkLoad, 8), Simultaneous: true}
	loads.Links[0] = route.LinkLoad{Flows: 1, Packets: 10, Bytes: 10_000, BothNS: 8384}
	loads.Links[1] = route.LinkLoad{Flows: 1, Packets: 10, Bytes: 10_000, BothNS: 8384}
	s, err := New(Options{Model: methodtest.DCTCP(t, topologytest.SmallNetwork(t)), Loads: loads})
	if err != nil {
		t.Fatal(err)
	}
	// ACKs of 60 bytes for each 1,108 leave 94.6%: 10 packets take 8,384 ns without them, and 480 ns more with
	// them.
	for _, c := range []struct {
		hop        int16
		downstream int64
		want       int64
	}{{0, 0, 20_000 - 480}, {0, 1e10, 20_000 - 480}, {1, 0, 20_000}, {0, 5e9, 20_000}} {
		s.input.rows = []tables.LocalHop{{FlowAtHop: tables.FlowAtHop{Hop: c.hop, SizeBytes: 10_000}}}
		s.input.paths = []tables.HopPath{{DownstreamBps: c.downstream}}
		s.result.IdealNS = []int64{20_000}
		got := s.idealNS(0, 0)
		if got != c.want {
			t.Errorf("%+v: %d ns", c, got)
		}
	}
}
