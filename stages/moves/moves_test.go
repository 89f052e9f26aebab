package moves

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"parsimon/simkernel/network"
	"parsimon/stages/topology"
	"parsimon/stages/topology/topologytest"
)

// square connects hosts 0 and 1 through switches 2 and 3, which are connected through 4 and through 5.
func square(t *testing.T) *topology.Network {
	t.Helper()
	return topologytest.Wire(t, 6, 2, [2]int32{0, 2}, [2]int32{1, 3}, [2]int32{2, 4}, [2]int32{4, 3},
		[2]int32{2, 5}, [2]int32{5, 3})
}

// Every event is parsed from its description, which has a unique form.
func TestEvents(t *testing.T) {
	n := square(t)
	for text, want := range map[string]string{
		"4:2 down 10ms..50ms":     "2:4 down 10ms..50ms",
		"2:4 down 50000..":        "2:4 down 50µs..",
		"2:4 loss 1e-4":           "2:4 loss 0.0001",
		"2:4 loss 0.01% ..2us":    "2:4 loss 0.0001 0s..2µs",
		"2:4 rate 1G 1us..2us":    "2:4 rate 1 Gbps 1µs..2µs",
		"2:4 delay 50us 1us..2us": "2:4 delay 50µs 1µs..2µs",
		"4->2 loss 1% burst 20us": "4->2 loss 0.01 burst 20µs", "2 -> 4 down 1us..2us": "2->4 down 1µs..2µs",
		"2:4 down 2026-01-31T09:00:00Z..2026-01-31T09:00:00.04Z": "2:4 down 2026-01-31T09:00:00Z..2026-01-31T09:00:00.04Z",
	} {
		m, err := (&Text{Events: []string{text}}).Apply(n, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		said := m.Events[0].Describe(n)
		names := strings.NewReplacer(n.Name(2)+":"+n.Name(4), "2:4", n.Name(2)+"->"+n.Name(4), "2->4",
			n.Name(4)+"->"+n.Name(2), "4->2")
		if names.Replace(said) != want {
			t.Errorf("%s is described as %s", text, said)
		}
		again, err := (&Text{Events: []string{strings.Replace(said, " Gbps", "G", 1)}}).Apply(n, nil)
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%s: %+v, read again %+v, %v", text, m, again, err)
		}
	}
	const down = "2:4 down 1ms..2ms"
	for _, c := range []struct {
		text Text
		want string
	}{
		{Text{Events: []string{"2:3 down 1ms..2ms"}}, "2:3"}, {Text{Events: []string{"2:9 down 1ms.."}}, `"9"`},
		{Text{Events: []string{"2:4 down"}}, "cable 2:4"},
		{Text{Events: []string{"2:4 fails 1ms.."}}, "want CABLE"},
		{Text{Events: []string{"2:4 loss 1ms..2ms"}}, "share"}, {Text{Events: []string{"2:4 loss 1"}}, "below 1"},
		{Text{Events: []string{"2:4 rate 11G"}}, "10 Gbps"}, {Text{Events: []string{"2:4 rate"}}, "no value"},
		{Text{Events: []string{"2:4 delay 1ns"}}, "to a minute"},
		{Text{Events: []string{"2:4 delay 1"}}, "to a minute"},
		{Text{Events: []string{"2:4 delay 1ms", "2->4 loss 1e-3 burst 2us"}}, "bursts"},
		{Text{Events: []string{"2:4 down 2ms..1ms"}}, "ends before"},
		{Text{Events: []string{"2:4 down 2ms"}}, "FROM..TO"},
		{Text{Events: []string{down, "4:2 down 1500us.."}}, "overlap"},
		{Text{Events: []string{"2:4 down 1500us..", down}}, "overlap"},
		{Text{Events: []string{"2->4 down 1500us..", down}}, "overlap"},
		{Text{Events: []string{"2->3 down 1us.."}}, "2:3"},
		{Text{Events: []string{"2:4 loss 1e-3 burst"}}, "burst"},
		{Text{Events: []string{"2:4 loss 1e-3 burst 1ns"}}, "1µs"},
		{Text{Events: []string{down}, Repair: "1us"}, "local repair"},
		{Text{Events: []string{down}, Converge: "1ms", Repair: "2ms"}, "faster"},
		{Text{Balance: "2=spray,crc"}, "no balance"}, {Text{Balance: "switch=conga"}, "first six"},
		{Text{Balance: "leaf=spray"}, `kind "leaf"`}, {Text{Routes: "none/such"}, "none/such"},
		{Text{Hash: "crc"}, "crc"}, {Text{Balance: "best"}, "best"},
		{Text{Balance: "flowlet", Gap: "0"}, "13 days"},
		{Text{Receivers: InOrder}, "reorders"}, {Text{Balance: WCMP, Receivers: InOrder}, "reorders"},
		{Text{Gap: "1us"}, "flowlet"}, {Text{Converge: "1ms"}, "down"},
		{Text{Weights: []string{"2:4=1G"}}, "wcmp"}, {Text{Balance: WCMP, Weights: []string{"2:4=0G"}}, "2:4=0G"},
		{Text{Balance: WCMP, Weights: []string{"2:3=1G"}}, "2:3"},
		{Text{Events: []string{down}, Converge: "-1ms"}, "13 days"},
	} {
		if _, err := c.text.Apply(n, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.text, err, c.want)
		}
	}
	both, err := (&Text{Events: []string{"2->4 down 1ms..2ms", "4->2 down 1ms..2ms"}}).Apply(n, nil)
	if err != nil || len(both.Events) != 2 {
		t.Errorf("%+v: %v", both, err)
	}
	// A switch stands for all of its cables.
	if m, err := (&Text{Events: []string{"5 down 1ms..2ms"}}).Apply(n, nil); err != nil || len(m.Events) != 2 ||
		m.Events[0].Cable != [2]int32{2, 5} || m.Events[1].Cable != [2]int32{3, 5} {
		t.Errorf("%+v: %v", m, err)
	}
	m, err := (&Text{Events: []string{down, "2:4 loss 1e-3 1ms..2ms", "2:4 down 2ms..3ms"}}).Apply(n, nil)
	if err != nil || m.CheckSpan(n, 0, 0, 2_500_000) != nil || m.CheckSpan(n, 0, 0, 1_999_999) == nil ||
		m.CheckSpan(n, 2_000_000, 3e6, 3e6) == nil {
		t.Errorf("%+v: %v", m, err)
	}
}

// Routes change once an event and the time to converge have passed, and avoid cables that are down then. The
// engine's time begins with the first flow.
func TestRoutes(t *testing.T) {
	n := square(t)
	text := Text{Balance: "spray", Converge: "1ms",
		Events: []string{"2:4 down 1ms..4ms", "5:3 down 2ms..", "2:5 rate 1G 1ms..2ms", "0:2 loss 0.1"}}
	m, err := text.Apply(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.NewRoutes(t.Context(), topologytest.MustRouter(t, n, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for state := range r.Starts() {
		_, links := r.Links(state, 2, 1)
		counts = append(counts, len(links))
	}
	if !reflect.DeepEqual(counts, []int{2, 1, 0, 1}) ||
		!reflect.DeepEqual(r.Starts(), []int64{0, 2e6, 3e6, 5e6}) {
		t.Errorf("links of switch 2 by state: %v, from %v", counts, r.Starts())
	}
	e := m.Engine(n, r, 1, 2_500_000)
	if !reflect.DeepEqual(e.Routes.Starts(), []int64{0, 0, 5e5, 25e5}) || len(e.Rates) != 0 ||
		len(e.Faults) != 6 {
		t.Errorf("%+v, from %v", e, e.Routes.Starts())
	}
	if _, err := r.Last().Path(0, 0, 1, nil); err != nil {
		t.Error(err)
	}
	w := (&Moves{Balance: WCMP, Weights: [][3]int64{{2, 4, 7}}}).linkWeights(n)
	if w[4] != 7 || w[5] != 7 || w[8] != 10e9 {
		t.Errorf("weights %v", w)
	}
	at, err := (&Text{Balance: "switch 2=flowlet,*3=spray,switch=wcmp", Weights: []string{"4:2=1G"}}).Apply(
		n, nil)
	if err != nil || !at.Whole() || at.GapNS != defaultGapNS {
		t.Fatalf("%+v: %v", at, err)
	}
	if w := at.linkWeights(n); w[4] != 1 || w[5] != 1e9 || w[8] != 1 || w[9] != 10e9 {
		t.Errorf("weights of switches 4 and 5 only: %v", w)
	}
	e = at.Engine(n, r, 1, 0)
	want := []network.Balance{0, 0, network.Flowlet, network.Spray, 0, 0}
	if !reflect.DeepEqual(e.At, want) {
		t.Errorf("%v, want %v", e.At, want)
	}
	hash, err := (&Text{Hash: "polarized"}).Apply(n, nil)
	if err != nil || hash.Whole() || !hashes[hash.Hash].Polarized {
		t.Errorf("%+v: %v", hash, err)
	}
	if m, err := (&Text{Hash: "flow"}).Apply(n, hash); err != nil || m != nil {
		t.Errorf("%+v: %v", m, err)
	}
	var none *Moves
	if none.Whole() || none.Configure(nil) != nil || topology.Reverse(4) != 5 {
		t.Error("paths move that do not")
	}
}

func TestReadCSV(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.csv")
	read := func(text string) ([]string, error) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return ReadCSV(file)
	}
	const given = "\ufeff# of the night\r\ncable,event,value,from,to\r\nA:B,down,,10ms,50ms\n# quiet\nA:C, " +
		"loss,1e-4,,\n"
	got, err := read(given)
	want := []string{"A:B down  10ms..50ms", "A:C loss 1e-4"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for text, want := range map[string]string{"": "is empty", "cable,event\n": "no event",
		"cable,event,from\nA:B,up,1ms\n":                             "e.csv, line 2",
		"cable,event,value,from,to\nA:B,down,,10ms,50ms\nA:B,down\n": "line 3",
		"cable,event,form,to\nA:B,down,10ms,\n": "line 1: it has cable, event, form, to: " +
			"want the columns cable, event, value (if any)",
		"cable,event,from,from\nA:B,down,10ms,\n": "line 1: 2 columns are named from",
		"cable,value\nA:B,1\n":                    "line 1: 0 columns are named event",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadCSV("/dev/zero"); err == nil || !strings.Contains(err.Error(), "device") {
		t.Errorf("an endless device: %v", err)
	}
}

// If a trace has dates of this century, an event at a time in seconds is not at its beginning.
func TestEventInSeconds(t *testing.T) {
	n := square(t)
	const first = 1769850300e9
	for from, ok := range map[string]bool{"1769850300": false, "1769850300000": false, "10ms": false,
		"1769850300000000000": true, "2026-01-31T09:05:00Z": true} {
		m, err := (&Text{Events: []string{"2:4 loss 1e-3 " + from + ".."}}).Apply(n, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.CheckSpan(n, first, first+1e9, first+1e9); (err == nil) != ok {
			t.Errorf("from %s: %v", from, err)
		} else if !ok && from == "10ms" &&
			!strings.HasSuffix(err.Error(), "; from the first flow on, it is 'switch 2:switch 4 loss 0.001 "+
				"2026-01-31T09:05:00.01Z..'") {
			t.Errorf("without an example: %v", err)
		}
		if err := m.CheckSpan(n, 0, math.MaxInt64, math.MaxInt64); err != nil {
			t.Errorf("from %s, of a trace that begins at 0: %v", from, err)
		}
	}
}

// Moves from a lake are checked like moves from a user.
func TestCheckDamagedMoves(t *testing.T) {
	n := topologytest.SmallNetwork(t)
	event := Event{Cable: [2]int32{0, 4}, Kind: Down}
	for _, change := range []func(*Moves){
		func(m *Moves) { m.Balance = "best" }, func(m *Moves) { m.GapNS = -1 },
		func(m *Moves) { m.ConvergeNS = 1 << 62 },
		func(m *Moves) { m.At = map[string][]int32{"spray": {9}} },
		func(m *Moves) { m.At = map[string][]int32{conga: {4}} },
		func(m *Moves) {
			m.Balance = "spray"
			m.At = map[string][]int32{"spray": {4}}
		},
		func(m *Moves) { m.Weights = [][3]int64{{0, 4, 0}} }, func(m *Moves) { m.Events[0].Cable[0] = 7 },
		func(m *Moves) { m.Events[0].Kind = "up" }, func(m *Moves) { m.Events[0].Kind = Loss },
		func(m *Moves) {
			m.Events[0].Kind = Loss
			m.Events[0].Share = 0.5
			m.Events[0].BurstNS = 1
		},
		func(m *Moves) { m.Events[0].Kind = Rate }, func(m *Moves) { m.Events[0].Kind = Delay },
		func(m *Moves) { m.Events[0].FromNS = 5; m.Events[0].ToNS = 5 }, func(m *Moves) { m.Events[0].FromNS = -1 },
	} {
		m := &Moves{Events: []Event{event}}
		if err := m.Check(n); err != nil {
			t.Fatal(err)
		}
		change(m)
		if m.Check(n) == nil {
			t.Errorf("%+v is taken", m)
		}
	}
}
