package faults

import (
	"math"
	"testing"

	"parsimon/simkernel"
)

const (
	bps = 8e9 // a byte takes 1,000 ps
	us  = int64(1000)
)

// lost reports whether a packet of 1,000 bytes is lost on link 1 if its transmission starts at a time. It
// takes 1 µs to send and 2 µs to arrive.
func lost(m *State, startsNS int64) bool {
	leftPS := PS(startsNS + us)
	packet := &Transit{Link: 1, Key: 9, Bytes: 1000, LeftPS: leftPS, ArrivesPS: leftPS + PS(2*us)}
	return m.IsLost(packet, Arriving)
}

// Everything is lost that is on a link at any time while the link is down: from the start of the transmission
// to the arrival of the last byte. The link is up again at the end of the period itself.
func TestWhatIsOnADownLinkIsLost(t *testing.T) {
	down := Failures{Faults: []Fault{
		{Link: 1, FromNS: 50 * us, ToNS: 60 * us, Share: 1}, {Link: 1, FromNS: 10 * us, ToNS: 20 * us, Share: 1},
	}}
	m := New(&down, 3, []int64{bps, bps})
	for startsNS, want := range map[int64]bool{
		7*us - 1: false, 7 * us: true, 15 * us: true, 20*us - 1: true, 20 * us: false,
		47*us - 1: false, 47 * us: true, 60*us - 1: true, 60 * us: false,
	} {
		if lost(m, startsNS) != want {
			t.Errorf("a packet that is sent from %d ns on is lost: %v, want %v", startsNS, !want, want)
		}
	}
	if m.CanLose(0) || !m.CanLose(1) {
		t.Error("only link 1 can lose packets")
	}
}

// If a link loses a share, the draw is for packets whose transmission starts in the period. It is repeatable,
// and differs between times, flows, links and seeds.
func TestASharedLossIsDrawnByStart(t *testing.T) {
	half := Failures{Faults: []Fault{
		{Link: 1, FromNS: 10 * us, ToNS: 10_000 * us, Share: 0.3},
		{Link: 0, FromNS: 10 * us, ToNS: 10_000 * us, Share: 0.3},
	}}
	m := New(&half, 3, []int64{bps, bps})
	other := New(&half, 4, []int64{bps, bps})
	const draws = 9000
	count := 0
	var differ [3]bool
	for i := range int64(draws) {
		at := 10*us + i*us
		is := lost(m, at)
		if is {
			count++
		}
		if lost(m, at) != is {
			t.Fatal("the same packet has another fate")
		}
		differ[0] = differ[0] || lost(other, at) != is
		for k, x := range []Transit{{Link: 0, Key: 9}, {Link: 1, Key: 8}} {
			x.Bytes = 1000
			x.LeftPS = PS(at + us)
			x.ArrivesPS = PS(at + 3*us)
			differ[1+k] = differ[1+k] || m.IsLost(&x, Arriving) != is
		}
	}
	if math.Abs(float64(count)-0.3*draws) > 5*math.Sqrt(draws*0.3*0.7) || differ != [3]bool{true, true, true} {
		t.Errorf("%d of %d packets are lost, by seed, link and flow: %v", count, draws, differ)
	}
	always := Failures{Faults: []Fault{{Link: 1, FromNS: 10 * us, ToNS: 20 * us, Share: 1 - 1e-15}}}
	m = New(&always, 3, []int64{bps, bps})
	for startsNS, want := range map[int64]bool{
		10*us - 1: false, 10 * us: true, 20*us - 1: true, 20 * us: false,
	} {
		if lost(m, startsNS) != want {
			t.Errorf("a packet that is sent from %d ns on is lost: %v, want %v", startsNS, !want, want)
		}
	}
}

// In a burst everything is lost, and between bursts nothing. A period begins in a burst with the probability
// of the share. Other periods of the link have other bursts.
func TestBurstsOfAPeriod(t *testing.T) {
	const share = 0.25
	const draws = 2000
	begins := 0
	equal := 0
	for seed := range uint64(draws) {
		bursts := Failures{Faults: []Fault{
			{Link: 1, FromNS: 10 * us, ToNS: 400 * us, Share: share, BurstNS: 5 * us},
			{Link: 1, FromNS: 500 * us, ToNS: 900 * us, Share: share, BurstNS: 5 * us},
		}}
		m := New(&bursts, seed, []int64{bps, bps})
		if lost(m, 10*us-1) {
			t.Fatalf("seed %d: a packet is lost before the period", seed)
		}
		first := lost(m, 10*us)
		if first {
			begins++
		}
		if lost(m, 450*us) {
			t.Fatalf("seed %d: a packet is lost between the periods", seed)
		}
		if lost(m, 500*us) == first {
			equal++
		}
	}
	far := math.Abs(float64(begins) - share*draws)
	if far > 5*math.Sqrt(draws*share*(1-share)) {
		t.Errorf("%d of %d periods begin in a burst, want a share of %v", begins, draws, share)
	}
	same := share*share + (1-share)*(1-share)
	far = math.Abs(float64(equal) - same*draws)
	if far > 5*math.Sqrt(draws*same*(1-same)) {
		t.Errorf("%d of %d second periods begin as the first, want %.0f", equal, draws, same*draws)
	}
}

// A transmission takes the bandwidth that is in force when it starts. A delay applies to what has left since
// it is in force. A rate of 0 changes nothing.
func TestRates(t *testing.T) {
	changes := Failures{Rates: []Rate{
		{Link: 1, FromNS: 30 * us, DelayNS: 5 * us},
		{Link: 1, FromNS: 10 * us, BandwidthBps: bps / 2},
		{Link: 1, FromNS: 60 * us, BandwidthBps: bps / 4, DelayNS: 2 * us},
	}}
	m := New(&changes, 1, []int64{bps, bps})
	for startsNS, wantNS := range map[int64]int64{
		9 * us: us, 10*us - 1: us, 10 * us: 2 * us, 40 * us: 2 * us, 60*us - 1: 2 * us, 60 * us: 4 * us,
	} {
		got := m.SendTime(1, 1000, PS(startsNS+wantNS))
		if got != PS(wantNS) {
			t.Errorf("a transmission that starts at %d ns takes %d ps, want %d ns", startsNS, got, wantNS)
		}
	}
	got := m.SendTime(0, 1000, PS(70*us))
	if got != PS(us) {
		t.Errorf("a transmission over another link takes %d ps", got)
	}
	const delayNS = 1000
	for leftNS, delay := range map[int64]int64{29 * us: us, 30 * us: 5 * us, 56 * us: 5 * us, 60 * us: 2 * us} {
		got := m.LeftPS(1, delayNS, PS(leftNS+delay))
		if got != PS(leftNS) {
			t.Errorf("what arrives %d ns after %d ns left at %d ps", delay, leftNS, got)
		}
	}
	least := New(&Failures{Rates: []Rate{{Link: 0, DelayNS: 1}}}, 1, []int64{bps})
	got = least.LeftPS(0, 0, PS(us))
	if got != PS(us-1) {
		t.Errorf("a delay of 1 ns: what arrives at 1,000 ns left at %d ps", got)
	}
	rates := m.RatesOf(1)
	if len(rates) != 3 || rates[0].FromNS != 10*us || rates[2].FromNS != 60*us || m.RatesOf(0) != nil {
		t.Errorf("rates are not in order: %v", rates)
	}
}

// Both ends of a cable stop using it RepairNS after one of its directions went down, and use it again
// RepairNS after it came up. Without RepairNS they wait for other routes. Lost shares do not count as down.
func TestEndsAvoidACableThatIsDown(t *testing.T) {
	f := Failures{RepairNS: 5 * us, Faults: []Fault{{Link: 2, FromNS: 10 * us, ToNS: 20 * us, Share: 1},
		{Link: 4, ToNS: 100 * us, Share: 0.9}}}
	m := New(&f, 1, make([]int64, 6))
	for atNS, want := range map[int64]bool{15*us - 1: false, 15 * us: true, 25*us - 1: true, 25 * us: false} {
		for _, link := range []int32{2, 3} {
			if m.Avoids(link, PS(atNS)) != want {
				t.Errorf("link %d at %d ns is avoided: %v, want %v", link, atNS, !want, want)
			}
		}
	}
	if m.Avoids(1, PS(17*us)) || m.Avoids(4, PS(17*us)) || m.Avoids(5, PS(17*us)) {
		t.Error("a link is avoided whose cable is not down")
	}
	f.RepairNS = 0
	if m.Avoids(2, PS(17*us)) {
		t.Error("a link is avoided without RepairNS")
	}
}

// Times beyond the horizon are never, so that sums with them do not overflow.
func TestTimesBeyondTheHorizonAreNever(t *testing.T) {
	const horizonNS = simkernel.HorizonPS / 1000
	for ns, want := range map[int64]int64{
		0: 0, 7: 7000, horizonNS - 1: (horizonNS - 1) * 1000, horizonNS: simkernel.Never,
		math.MaxInt64: simkernel.Never,
	} {
		got := PS(ns)
		if got != want {
			t.Errorf("%d ns are %d ps, want %d", ns, got, want)
		}
	}
}
