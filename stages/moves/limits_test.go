package moves

import (
	"slices"
	"testing"

	"parsimon/schema/units"
	"parsimon/simkernel/network"
	"parsimon/simkernel/network/faults"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// engineOf returns what a simulation of square learns of an event, if its first flow starts at 500 ns.
func engineOf(t *testing.T, e Event) network.Forwarding {
	t.Helper()
	n := square(t)
	m := &Moves{Events: []Event{e}}
	if err := m.Check(n); err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRoutes(t.Context(), topologytest.MustRouter(t, n, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	return m.Engine(n, r, 1, 500)
}

// An event in one direction does not change the other. Times count from the first flow: an event that has
// begun before it begins at 0, one that has ended is left out, and one that never ends lasts longer than any
// run.
func TestFaultsOfTheEngine(t *testing.T) {
	const always = 2 * network.MaxNS
	for _, c := range []struct {
		oneWay   int8
		from, to int64
		want     []faults.Fault
	}{
		{0, 600, 900, []faults.Fault{{Link: 4, FromNS: 100, ToNS: 400}, {Link: 5, FromNS: 100, ToNS: 400}}},
		{1, 600, 900, []faults.Fault{{Link: 4, FromNS: 100, ToNS: 400}}},
		{-1, 600, 900, []faults.Fault{{Link: 5, FromNS: 100, ToNS: 400}}},
		{1, 100, 501, []faults.Fault{{Link: 4, FromNS: 0, ToNS: 1}}},
		{1, 100, 500, nil},
		{1, 100, 0, []faults.Fault{{Link: 4, FromNS: 0, ToNS: always}}},
		{1, 600, 0, []faults.Fault{{Link: 4, FromNS: 100, ToNS: always}}},
	} {
		event := Event{Cable: [2]int32{2, 4}, OneWay: c.oneWay, Kind: Down, FromNS: c.from, ToNS: c.to}
		for i := range c.want {
			c.want[i].Share = 1
		}
		got := engineOf(t, event).Faults
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", event, got, c.want)
		}
		event.Kind = Loss
		event.Share = 0.25
		event.BurstNS = 5000
		for i := range c.want {
			c.want[i].Share = 0.25
			c.want[i].BurstNS = 5000
		}
		got = engineOf(t, event).Faults
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", event, got, c.want)
		}
	}
}

// When an event ends, its cable has the original bandwidth or delay again. If it does not end, the cable
// keeps the changed value.
func TestRatesOfTheEngine(t *testing.T) {
	rate := Event{Cable: [2]int32{2, 4}, OneWay: 1, Kind: Rate, FromNS: 600, ToNS: 900,
		SpeedOrShare: topology.SpeedOrShare{BandwidthBps: 1e9}}
	delay := Event{Cable: [2]int32{2, 4}, OneWay: 1, Kind: Delay, FromNS: 600, ToNS: 900, DelayNS: 7000}
	for _, c := range []struct {
		event         Event
		during, after faults.Rate
	}{
		{rate, faults.Rate{Link: 4, FromNS: 100, BandwidthBps: 1e9},
			faults.Rate{Link: 4, FromNS: 400, BandwidthBps: 10e9}},
		{delay, faults.Rate{Link: 4, FromNS: 100, DelayNS: 7000}, faults.Rate{Link: 4, FromNS: 400, DelayNS: 1000}},
	} {
		got := engineOf(t, c.event).Rates
		if !slices.Equal(got, []faults.Rate{c.during, c.after}) {
			t.Errorf("%+v: %+v", c.event, got)
		}
		c.event.ToNS = 0
		got = engineOf(t, c.event).Rates
		if !slices.Equal(got, []faults.Rate{c.during}) {
			t.Errorf("%+v: %+v", c.event, got)
		}
	}
}

// Balances of all switches and balances of some switches are valid, but not both together. A weight of 1 bps
// is the least.
func TestCheckAcceptsValidMoves(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	for _, m := range []Moves{
		{Balance: "spray"}, {At: map[string][]int32{"spray": {4}}}, {At: map[string][]int32{"adaptive": {4}}},
		{Balance: WCMP, Weights: [][3]int64{{0, 4, 1}}}, {ConvergeNS: network.MaxNS}, {RepairNS: 1, GapNS: 1},
	} {
		if err := m.Check(n); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// With weights, each flow still has one path, so link cases suffice. With any other balance at a switch, they
// do not.
func TestBalancesThatNeedTheWholeNetwork(t *testing.T) {
	ids := []int32{2}
	for _, c := range []struct {
		moves Moves
		want  bool
	}{
		{Moves{}, false}, {Moves{Balance: WCMP}, false}, {Moves{At: map[string][]int32{WCMP: ids}}, false},
		{Moves{At: map[string][]int32{flowlet: ids}}, true}, {Moves{Balance: "plb"}, true},
		{Moves{At: map[string][]int32{WCMP: ids, flowlet: ids}}, true},
		{Moves{Balance: WCMP, Events: []Event{{}}}, true},
	} {
		if c.moves.Whole() != c.want {
			t.Errorf("%+v: %v", c.moves, !c.want)
		}
	}
	for balance, want := range map[string]bool{
		"spray": true, "spray-random": true, "adaptive": true, flowlet: false, conga: false, "plb": false,
		"": false,
	} {
		one := Moves{Balance: balance}
		if one.Sprays() != want {
			t.Errorf("balance %q sprays: %v", balance, !want)
		}
	}
}

// A description has the times that the event has. A date is only suggested for times without one.
func TestDescribedTimes(t *testing.T) {
	n := square(t)
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{0, 0, "switch 2:switch 4 down"}, {1, 0, "switch 2:switch 4 down 1ns.."},
		{0, 1, "switch 2:switch 4 down 0s..1ns"}, {1, 2, "switch 2:switch 4 down 1ns..2ns"},
	} {
		e := Event{Cable: [2]int32{2, 4}, Kind: Down, FromNS: c.from, ToNS: c.to}
		got := e.Describe(n)
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	for _, c := range []struct {
		first, from int64
		want        bool
	}{
		{units.CenturyNS, 5, false}, {units.CenturyNS + 1, 5, true},
		{units.CenturyNS + 1, units.CenturyNS - 1, true}, {units.CenturyNS + 1, units.CenturyNS, false},
	} {
		e := Event{Cable: [2]int32{2, 4}, Kind: Down, FromNS: c.from}
		got := e.instead(n, c.first)
		if (got != "") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
