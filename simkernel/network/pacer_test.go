package network

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/calendar"
)

// idlePacer is the pacer of two hosts and a switch in one domain, for the given batches. The steps of the
// network have 2^20 ps.
func idlePacer(t *testing.T, b BufferParams, batches ...*batch) *pacer {
	t.Helper()
	e := overSwitch(simkernel.DCTCP, 0, 1000, 0)
	n := newExampleNetwork(t, &e, b, 1)
	n.setRules()
	n.layOut(make([]int32, len(e.hosts)))
	n.stepPS = 1 << 20
	f := &feed{net: n, batches: make(chan *batch, len(batches)+1)}
	for _, b := range batches {
		f.batches <- b
	}
	f.batches <- &batch{last: true}
	return &pacer{net: n, feed: f, steps: 1}
}

// flowsAt are flows from host 0 to host 1, in rows from 0 on, that start at these times.
func flowsAt(startsPS ...int64) *batch {
	b := &batch{}
	for row, ps := range startsPS {
		b.flows = append(b.flows, newFlow{row: int64(row), startPS: ps, size: 1000, path: []int32{0, 3}})
	}
	return b
}

// started returns the rows that have been passed on to the domain, which it then has admitted.
func (p *pacer) started() (rows []int64) {
	pool := &p.net.domains[0].pool
	for _, f := range pool.starting {
		rows = append(rows, f.row)
	}
	pool.starting = nil
	return rows
}

// wait makes flows wait for others.
func (p *pacer) wait() {
	p.net.WaitFor()
	d := &p.net.domains[0]
	d.deliveries = &deliveryWatch{domain: d}
}

// An epoch begins with the step of the earliest work, and has the flows that start before its end. If one
// started later, it would start in the past. The domain has room for them.
func TestEpochsHaveTheFlowsThatStartInThem(t *testing.T) {
	const step = 1 << 20
	p := idlePacer(t, BufferParams{}, flowsAt(0, 5, 3*step-1, 3*step), &batch{}, flowsAt(7*step+17, 9*step))
	pool := &p.net.domains[0].pool
	for _, c := range []struct {
		steps  int64
		mailPS int64 // when a packet arrives
		from   int64
		rows   []int64
	}{
		{3, never, 0, []int64{0, 1, 2}},
		{1, never, 3 * step, []int64{3}},
		{1, 5*step + 1, 5 * step, nil},
		{1, 8 * step, 7 * step, []int64{0}},
		{1, never, 9 * step, []int64{1}},
		{1, never, never, nil},
	} {
		p.steps = c.steps
		p.net.domains[0].mail.mailPS = c.mailPS
		from, err := p.advance()
		room := len(pool.slots)
		needs := int64(pool.hi - pool.low)
		rows := p.started()
		if err != nil || from != c.from || !slices.Equal(rows, c.rows) {
			t.Errorf("%+v: from %d, rows %v (%v)", c, from, rows, err)
		}
		if room < len(c.rows) || needs < int64(len(c.rows)*hopUnit) || pool.needUnits != 0 {
			t.Errorf("%+v: room for %d flows and %d hops", c, room, needs)
		}
	}
}

// A batch that is held by a row is not read until that row has ended. Without it, all flows of a closed loop
// would be in memory.
func TestBatchesAreHeldByARow(t *testing.T) {
	for _, c := range []struct {
		waits              bool
		heldBy, last, want int64
	}{
		{false, 5, 0, 7}, {true, 0, -1, 7}, {true, 1, 0, never}, {true, 1, 1, 7}, {true, 5, 4, never},
		{true, 5, 5, 7}, {true, 5, 6, 7},
	} {
		n := &Network{}
		if c.waits {
			n.WaitFor()
			n.frontier.last = c.last
		}
		b := flowsAt(3, 7)
		b.heldBy = c.heldBy
		p := pacer{net: n, pending: b, next: 1}
		got := p.nextStart()
		if got != c.want {
			t.Errorf("%+v: the next flow starts at %d", c, got)
		}
	}
	p := pacer{}
	if p.nextStart() != never {
		t.Error("a flow starts after the last one")
	}
}

// Batches are read one after the other, also empty ones. The error of a batch ends the run after its flows.
func TestBatchesEndWithAnError(t *testing.T) {
	torn := flowsAt(5)
	torn.err = errPathEmpty
	p := idlePacer(t, BufferParams{}, &batch{}, flowsAt(1, 2), torn)
	for _, want := range []int64{1, 2, 5} {
		err := p.fill()
		got := p.nextStart()
		if err != nil || got != want {
			t.Errorf("a start at %d, want %d (%v)", got, want, err)
		}
		p.next++
	}
	if err := p.fill(); !errors.Is(err, errPathEmpty) || p.pending != nil {
		t.Errorf("error %v", err)
	}
	if err := p.fill(); err != nil || p.nextStart() != never {
		t.Errorf("after the error: %v", err)
	}
}

// A run that cannot end has an error: after 26 days of simulated time, and if nothing happens although flows
// are left. With PFC these wait for pauses. If flows wait for others, it names them.
func TestRunsThatCannotEnd(t *testing.T) {
	const step = 1 << 20
	pfc := BufferParams{SwitchBytes: 1 << 20, Alpha: 1, PFC: true}
	for _, c := range []struct {
		name   string
		b      BufferParams
		mailPS int64
		live   int64
		want   string // of the error
	}{
		{"the last step", BufferParams{}, horizonPS - step, 2, ""},
		{"a later step", BufferParams{}, horizonPS, 2, "2 flows have not drained after 26 days"},
		{"a later step with PFC", pfc, horizonPS, 2, "2 flows never end: the pauses of links []"},
		{"idle with PFC", pfc, never, 1, "1 flows never end: the pauses of links []"},
		{"the end", BufferParams{}, never, 0, ""},
	} {
		p := idlePacer(t, c.b)
		p.net.domains[0].mail.mailPS = c.mailPS
		p.net.domains[0].pool.live = c.live
		_, err := p.advance()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// If a run cannot end because flows wait, its error names the first of them, and the first row for which it
// waits.
func TestFlowsThatWaitForever(t *testing.T) {
	waits := flowsAt(0, 0)
	waits.flows[1].after = []after{{9, 0}, {7, 0}}
	held := flowsAt(0)
	held.heldBy = 3
	for want, b := range map[string]*batch{
		"1 flows wait for flows that never end: among them flow row 1 for row 7": waits,
		"0 flows wait for flows that never end":                                  held,
	} {
		p := idlePacer(t, BufferParams{}, b)
		p.wait()
		from, err := p.advance()
		if b == waits && err == nil && from == 0 {
			p.started()
			_, err = p.advance()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// With paths that change, an epoch begins with the ends of flows whose last packets arrive in its first step.
// Flows that wait for them can start in that step.
func TestEndsOfAStepAreKnownBeforeIt(t *testing.T) {
	const step = 1 << 20
	p := idlePacer(t, BufferParams{})
	p.wait()
	n := p.net
	d := &n.domains[0]
	for i, ps := range []int64{3*step + 1, 4*step - 1, 4 * step} {
		n.flows.info = append(n.flows.info, flowInfo{row: int64(5 + i)})
		n.flows.hops = append(n.flows.hops, hop{flow: int32(i)})
		d.deliveries.coming = append(d.deliveries.coming, calendar.Arrival{
			Item: calendar.Item{AtPS: ps, Hop: int32(i), Bits: calendar.FlagLast}})
	}
	d.mail.mailPS = 3*step + 1
	if _, err := p.advance(); err != nil {
		t.Fatal(err)
	}
	if n.frontier.last != 6 || len(n.frontier.coming) != 1 {
		t.Errorf("the last row that has ended is %d, want 6; %d packets are coming", n.frontier.last,
			len(n.frontier.coming))
	}
}
