package moves

import (
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel/network"
	"parsimon/simkernel/network/faults"
	"parsimon/stages/topology"
)

// An event has a time if it begins or ends at one. A scenario without such events can be checked without a
// trace.
func TestTimedEvents(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		want     bool
	}{{0, 0, false}, {1, 0, true}, {0, 1, true}} {
		m := Moves{Events: []Event{{}, {FromNS: c.from, ToNS: c.to}}}
		if m.Timed() != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// Names of scenarios describe the changes, each with its flag.
func TestWordsOfChanges(t *testing.T) {
	text := Text{Balance: "spray", Gap: "1us"}
	text.Add(Text{Balance: "flowlet", Hash: "ports", Weights: []string{"a:b=2"}, Events: []string{"a:b down"},
		Repair: "1ms"})
	text.Add(Text{Converge: "2ms", Weights: []string{"a:c=3"}, Receivers: "in-order", Routes: "fib.csv"})
	want := []string{"balance flowlet", "flowlet gap 1us", "converge 2ms", "local repair 1ms", "hash ports",
		"routes fib.csv",
		"receivers in-order", "weight a:b=2", "weight a:c=3", "a:b down"}
	got := text.Changes()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	m := Moves{At: map[string][]int32{"spray": {2, 3}, conga: {4}}, Hash: "ports",
		Events: []Event{{Cable: [2]int32{2, 4}, Kind: Down, FromNS: 5, ToNS: 9}}}
	words := m.Describe(square(t))
	const described = "balance ecmp, conga at 1 switch, spray at 2 switches, hash ports, switch 2:switch 4 " +
		"down 5ns..9ns"
	if words != described {
		t.Error(words)
	}
}

// An event that begins after the last flow has finished changes nothing. At that time, it may.
func TestLateEvents(t *testing.T) {
	n := square(t)
	m := &Moves{Events: []Event{{Cable: [2]int32{2, 4}, Kind: Down, FromNS: 100, ToNS: 200}}}
	for last, want := range map[int64]int{99: 1, 100: 0, 150: 0} {
		got := m.LateEvents(n, last)
		if len(got) != want {
			t.Errorf("last end at %d: %q", last, got)
		}
	}
	var none *Moves
	if none.LateEvents(n, 0) != nil || none.Whole() {
		t.Error("paths that do not move have events")
	}
}

// Times of a trace with dates are suggested for events that have none, from the first flow on.
func TestSuggestedTimes(t *testing.T) {
	n := square(t)
	const first = 1769850300e9
	const from = "; from the first flow on, it is 'switch 2:switch 4 down 2026-01-31T09:05:00.01Z.."
	for _, c := range []struct {
		from, to int64
		want     string
	}{
		{10e6, 20e6, from + "2026-01-31T09:05:00.02Z'"},
		{10e6, 0, from + "'"},
		{first + 1, 0, ""},
	} {
		e := Event{Cable: [2]int32{2, 4}, Kind: Down, FromNS: c.from, ToNS: c.to}
		got := e.instead(n, first)
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Contradictory times are refused: local repair is faster than the convergence of routes, and each has a
// minimum.
func TestTimesOfConvergence(t *testing.T) {
	n := square(t)
	down := []string{"2:4 down 1ms..2ms"}
	for _, c := range []struct {
		text Text
		want string
	}{
		{Text{Events: down, Converge: "0ns"}, ""},
		{Text{Events: down, Converge: "2ns", Repair: "1ns"}, ""},
		{Text{Events: down, Converge: "1ns", Repair: "1ns"}, "local repair goes with a time to converge"},
		{Text{Events: down, Converge: "5ns", Repair: "5ns"},
			"local repair must be faster than routes converge, 5ns"},
		{Text{Events: down, Converge: "5ns", Repair: "0ns"}, "must be 1 ns to 13 days"},
		{Text{Converge: "5ns"}, `the time to converge goes with an event "down"`},
		{Text{Balance: "flowlet", Gap: "1ns"}, ""},
		{Text{Balance: "spray", Gap: "1ns"}, "the gap goes with balance flowlet or conga"},
	} {
		_, err := c.text.Apply(n, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.text, err, c.want)
		}
	}
}

// Values at their limits are valid. Values beyond them are refused as damaged.
func TestLimitsOfEvents(t *testing.T) {
	n := square(t)
	links := n.LinksBetween(2, 4)
	bps := n.Links[links[0]].BandwidthBps
	event := func(kind string, change func(e *Event)) Event {
		e := Event{Cable: [2]int32{2, 4}, Kind: kind}
		change(&e)
		return e
	}
	for _, c := range []struct {
		event Event
		ok    bool
	}{
		{event(Loss, func(e *Event) { e.Share = 0.5; e.BurstNS = faults.MinBurstNS }), true},
		{event(Loss, func(e *Event) { e.Share = 0.5; e.BurstNS = faults.MinBurstNS - 1 }), false},
		{event(Loss, func(e *Event) { e.Share = 1 }), false},
		{event(Rate, func(e *Event) { e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: bps} }), true},
		{event(Rate, func(e *Event) { e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: bps + 1} }), false},
		{event(Rate, func(e *Event) { e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: 10_000} }), true},
		{event(Rate, func(e *Event) { e.SpeedOrShare = topology.SpeedOrShare{BandwidthBps: 9_999} }), false},
		{event(Down, func(e *Event) { e.FromNS = 5; e.ToNS = 6 }), true},
		{event(Down, func(e *Event) { e.FromNS = 6; e.ToNS = 6 }), false},
		{event(Delay, func(e *Event) { e.DelayNS = network.MaxDelayNS }), true},
		{event(Delay, func(e *Event) { e.DelayNS = network.MaxDelayNS + 1 }), false},
	} {
		if err := c.event.check(n); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.event, err)
		}
	}
}
