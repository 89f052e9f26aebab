package network

import (
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
)

// feedOf is a feed of two hosts and a switch, for one chunk.
func feedOf(t *testing.T, c *Flows) *feed {
	t.Helper()
	e := overSwitch(simkernel.DCTCP, 0, 0, 0)
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.more = once(c)
	return &feed{net: n}
}

// A row has the times, the key, the tag and the class of its columns, and otherwise its row as key. Rows are
// counted over all chunks.
func TestRowsOfTheWorkload(t *testing.T) {
	path := []int32{0, 3}
	c := &Flows{SizeBytes: []int64{1, 2500}, StartNS: []int64{0, MaxNS}, PathEnds: []int32{2, 4},
		PathLinks: slices.Concat(path, path)}
	f := feedOf(t, c)
	f.rows = 7
	b := f.next()
	if b.err != nil || len(b.flows) != 2 || b.ends() {
		t.Fatalf("%+v", b)
	}
	for i, x := range b.flows {
		row := int64(7 + i)
		if x.row != row || x.key != uint64(row) || x.startPS != c.StartNS[i]*1000 || x.size != c.SizeBytes[i] ||
			!slices.Equal(x.path, path) || x.tag != 0 || x.class != 0 || x.after != nil {
			t.Errorf("row %d: %+v", row, x)
		}
	}
	if f.rows != 9 || f.lastNS != MaxNS {
		t.Errorf("%d rows until %d ns", f.rows, f.lastNS)
	}
	b = f.next()
	if !b.ends() || b.err != nil {
		t.Errorf("the end: %+v", b)
	}

	c.Key = []uint64{40, 50}
	c.Tag = []int32{4, 5}
	c.Class = []uint8{1, 0}
	f = feedOf(t, c)
	if err := f.net.Classify([]Class{{Weight: 1}, {Weight: 2}}); err != nil {
		t.Fatal(err)
	}
	for i, x := range f.next().flows {
		if x.key != c.Key[i] || x.tag != c.Tag[i] || x.class != int32(c.Class[i]) {
			t.Errorf("row %d: %+v", i, x)
		}
	}
}

// On each of two links, sending a packet of 1,000 bytes takes 838.4 ns and sending its ACK takes 48 ns. Each
// link has a delay of 1 µs. The first timeout of TCP depends on the sum, its round trip.
func TestTimesOfAFlow(t *testing.T) {
	e := overSwitch(simkernel.CUBIC, 0, 0, 0)
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.setRules()
	f := &feed{net: n}
	var flow newFlow
	if err := f.setPath(&flow, []int32{0, 3}, 1000); err != nil {
		t.Fatal(err)
	}
	header := e.params.HeaderBytes - 48 // beyond that of other transports
	ack := e.params.AckBytes - 60
	wantNS := (2*(838_400+1_000_000+800*header) + 999) / 1000
	tripNS := 2 * (838_400 + 48_000 + 2_000_000 + 800*(header+ack)) / 1000
	if flow.idealNS != wantNS || flow.limits.RoundTripNS < tripNS-2 || flow.limits.RoundTripNS > tripNS+2 {
		t.Errorf("ideal %d ns, want %d; round trip %d ns, want %d", flow.idealNS, wantNS, flow.limits.RoundTripNS,
			tripNS)
	}
}

// Rows at the limits are simulated, and those beyond are refused.
func TestLimitsOfRows(t *testing.T) {
	flow := func(start int64, path ...int32) *Flows {
		return &Flows{SizeBytes: []int64{1}, StartNS: []int64{start}, PathEnds: []int32{int32(len(path))},
			PathLinks: path}
	}
	class := flow(0, 0, 3)
	class.Class = []uint8{0}
	second := &Flows{SizeBytes: []int64{1, 1}, StartNS: []int64{0, 0}, PathEnds: []int32{2, 1},
		PathLinks: []int32{0, 3, 0, 3}}
	negative := flow(0, 0, 3)
	negative.PathEnds[0] = -1
	for _, c := range []struct {
		name   string
		c      *Flows
		lastNS int64
		want   string
	}{
		{"the last start", flow(MaxNS, 0, 3), 0, ""},
		{"a later start", flow(MaxNS+1, 0, 3), 0, "start_ns is"},
		{"the start of the flow above", flow(5, 0, 3), 5, ""},
		{"an earlier start", flow(4, 0, 3), 5, "before the flow above it (5)"},
		{"a link below 0", flow(0, 0, -1), 0, "hop 1 is link -1, links are 0 to 3"},
		{"a link beyond", flow(0, 0, 4), 0, "hop 1 is link 4, links are 0 to 3"},
		{"the only class", class, 0, ""},
		{"an end before its begin", second, 0, "flow row 1: its path is rows 2 to 1 of 4"},
		{"an end below 0", negative, 0, "its path is rows 0 to -1 of 2"},
	} {
		f := feedOf(t, c.c)
		f.lastNS = c.lastNS
		b := f.next()
		if (b.err == nil) != (c.want == "") || b.err != nil && !strings.Contains(b.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, b.err, c.want)
		}
	}
}

// A path has 250 links at most. A packet that crosses as many takes its ideal time.
func TestLongestPath(t *testing.T) {
	e := netExample{params: simkernel.DefaultParams(), hosts: make([]bool, 252)}
	var path []int32
	for v := range int32(251) {
		e.links = append(e.links, Link{v, v + 1, 10e9, 1000}, Link{v + 1, v, 10e9, 1000})
		path = append(path, 2*v)
	}
	e.hosts[0] = true
	e.hosts[250] = true
	e.flows = Flows{SizeBytes: []int64{1000}, StartNS: []int64{0}, PathEnds: []int32{250}, PathLinks: path[:250]}
	_, r := runIn(t, &e, BufferParams{}, nil, 1, 1)
	const wantNS = 250 * (838_400 + 1_000_000) / 1000
	if r.FCTNS[0] != wantNS || r.IdealNS[0] != wantNS {
		t.Errorf("FCT %d ns, ideal %d, want %d", r.FCTNS[0], r.IdealNS[0], wantNS)
	}
	n := newExampleNetwork(t, &e, BufferParams{}, 1)
	n.host[250] = false
	n.host[251] = true
	err := n.checkPath(path)
	if err == nil || !strings.Contains(err.Error(), "the path has 251 hops, at most 250") {
		t.Error(err)
	}
}

// A flow waits for other rows, and then for a time of at most 13 days. It cannot wait for itself. Flows
// without bytes and without a path are compute steps in a closed loop, and otherwise refused.
func TestDependenciesOfRows(t *testing.T) {
	waits := func(end int32, delayNS int64, rows ...int64) *Flows {
		return &Flows{SizeBytes: []int64{1}, StartNS: []int64{0}, PathEnds: []int32{2}, PathLinks: []int32{0, 3},
			After: rows, DelayNS: slices.Repeat([]int64{delayNS}, len(rows)), AfterEnds: []int32{end}}
	}
	short := waits(2, 0, 1, 2)
	short.DelayNS = short.DelayNS[:1]
	falls := &Flows{SizeBytes: []int64{1, 1}, StartNS: []int64{0, 0}, PathEnds: []int32{2, 4},
		PathLinks: []int32{0, 3, 0, 3}, After: []int64{9, 9}, DelayNS: []int64{0, 0}, AfterEnds: []int32{2, 1}}
	step := waits(1, 5, 2)
	step.SizeBytes[0] = 0
	step.PathEnds[0] = 0
	step.Class = []uint8{3} // of no queue
	noPath := waits(1, 5, 2)
	noPath.PathEnds[0] = 0
	noBytes := waits(1, 5, 2)
	noBytes.SizeBytes[0] = 0
	for _, c := range []struct {
		name string
		c    *Flows
		open bool // flows do not wait
		want string
	}{
		{"two rows", waits(2, 0, 0, 7), false, ""}, {"the longest time", waits(1, MaxNS, 2), false, ""},
		{"no row", waits(0, 0), false, ""},
		{"a longer time", waits(1, MaxNS+1, 2), false, "it waits for flow row 2"},
		{"a time below 0", waits(1, -1, 2), false, "it waits for flow row 2 and then for -1 ns"},
		{"itself", waits(1, 0, 3), false, "it waits for flow row 3"},
		{"a row below 0", waits(1, 0, -1), false, "it waits for flow row -1"},
		{"more rows than there are", waits(3, 0, 1, 2), false, "out of range"},
		{"more times than there are", short, false, "out of range"},
		{"an end below 0", waits(-1, 0, 1), false, "out of range"},
		{"an end before its begin", falls, false, "flow row 4: a flow waits for others in a network that"},
		{"an open loop", waits(1, 0, 2), true, "not prepared for it"},
		{"a compute step", step, false, ""}, {"a compute step in an open loop", step, true, "the path is empty"},
		{"no path", noPath, false, "the path is empty"}, {"no bytes", noBytes, false, "size_bytes is 0"},
	} {
		f := feedOf(t, c.c)
		f.rows = 3
		if !c.open {
			f.net.WaitFor()
		}
		b := f.next()
		if (b.err == nil) != (c.want == "") || b.err != nil && !strings.Contains(b.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, b.err, c.want)
		}
	}
	f := feedOf(t, waits(2, 70, 5, 6))
	f.net.WaitFor()
	got := f.next().flows[0].after
	if !slices.Equal(got, []after{{5, 70_000}, {6, 70_000}}) {
		t.Errorf("%+v", got)
	}
}

// A chunk is held by a row of an earlier chunk at most: one that waited for its own rows would never be read.
func TestChunksAreHeldByEarlierOnes(t *testing.T) {
	for _, c := range []struct{ rows, heldBy, want int64 }{
		{0, 0, -1}, {5, 3, 3}, {5, 4, 4}, {5, 5, 4}, {5, 9, 4},
	} {
		f := feedOf(t, &Flows{HeldBy: c.heldBy, KeepRow: 2})
		f.rows = c.rows
		b := f.next()
		if b.err != nil || b.heldBy != c.want || b.keepRow != 2 {
			t.Errorf("%+v: held by %d (%v)", c, b.heldBy, b.err)
		}
	}
}
