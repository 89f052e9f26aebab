package network

import (
	"math/rand/v2"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/linkcase"
)

// alonePath is a random path with one flow.
type alonePath struct {
	params simkernel.Params
	bps    []int64 // by hop
	delay  []int64
	size   int64
}

func randomAlone(t simkernel.Transport, rng *rand.Rand) alonePath {
	pick := func(of ...int64) int64 { return of[rng.IntN(len(of))] }
	x := alonePath{params: simkernel.ParamsOf(t)}
	x.params.SetWindow(simkernel.AutoWindow)
	if rng.IntN(3) == 0 {
		x.params.PayloadBytes = pick(256, 1460, 4096, 8900)
	}
	longest := pick(5, 500, 5000, 100_000, 2_000_000, 100_000_000)
	for range 1 + rng.IntN(7) {
		x.bps = append(x.bps, pick(1e9, 10e9, 25e9, 40e9, 100e9, 400e9, 800e9, 1e9+rng.Int64N(799e9)))
		x.delay = append(x.delay, 5+rng.Int64N(longest-4))
	}
	x.size = 1 + rng.Int64N(pick(100, 10_000, 1_000_000, 20_000_000))
	return x
}

func (x *alonePath) path() simkernel.Path {
	var alone simkernel.IdealPath
	alone.Reset(&x.params)
	for h := range x.bps {
		alone.Add(x.bps[h], x.delay[h])
	}
	return alone.Path()
}

// slack is the time by which the FCT of a flow alone may exceed its ideal FCT: that of a packet on the
// slowest link. HPCC's target leaves part of each link free.
func (x *alonePath) slack(idealNS int64) int64 {
	slack := x.params.SendNS(x.params.PayloadBytes+x.params.HeaderBytes, x.path().SlowestBps)
	if x.params.Transport == simkernel.HPCC {
		slack += int64(float64(idealNS) * (1/x.params.HPCC.Target - 1))
	}
	return slack
}

// With every transport, a flow alone on any path has its ideal FCT to within a packet if its window is fitted
// to the path. This holds in the whole network, with and without limited buffers, and in the link case of
// each hop.
func TestAloneIsIdeal(t *testing.T) {
	paths := 150
	if testing.Short() {
		paths = 15
	}
	for _, transport := range simkernel.PacedTransports() {
		rng := rand.New(rand.NewPCG(uint64(transport), 40))
		for range paths {
			x := randomAlone(transport, rng)
			x.inNetwork(t)
			for hop := range x.bps {
				x.inLinkCase(t, hop)
			}
		}
	}
}

func (x *alonePath) check(t *testing.T, where string, fctNS, idealNS int64) {
	t.Helper()
	over := fctNS - idealNS
	if over < 0 || over > x.slack(idealNS) {
		t.Errorf("%s: FCT %d ns, ideal %d: slowdown %.4f; %+v, path %+v", where, fctNS, idealNS,
			float64(fctNS)/float64(idealNS), *x, x.path())
	}
}

func (x *alonePath) inNetwork(t *testing.T) {
	t.Helper()
	n := len(x.bps)
	var links []Link
	hosts := make([]bool, n+1)
	flows := &Flows{SizeBytes: []int64{x.size}, StartNS: []int64{0}, PathEnds: []int32{int32(n)}}
	hosts[0] = true
	hosts[n] = true
	for h := range n {
		a := int32(h)
		b := int32(h + 1)
		links = append(links, Link{a, b, x.bps[h], x.delay[h]}, Link{b, a, x.bps[h], x.delay[h]})
		flows.PathLinks = append(flows.PathLinks, int32(2*h))
	}
	given := false
	network, err := New(x.params, BufferParams{}, links, hosts, func() (*Flows, error) {
		if given {
			return nil, nil
		}
		given = true
		return flows, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var r Results
	if err := network.Run(t.Context(), 1, func(now *Results) error {
		r.FCTNS = append(r.FCTNS, now.FCTNS...)
		r.IdealNS = append(r.IdealNS, now.IdealNS...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	x.check(t, "network", r.FCTNS[0], r.IdealNS[0])
}

// inLinkCase simulates the case of a hop as estimator flow builds it.
func (x *alonePath) inLinkCase(t *testing.T, hop int) {
	t.Helper()
	path := x.path()
	full := x.params.PayloadBytes + x.params.HeaderBytes
	ack := x.params.AckBytes
	c := &linkcase.Case{
		SourceBps: []int64{x.bps[0]}, SourceDelayNS: []int64{0}, Source: []int32{0},
		SizeBytes: []int64{x.size}, StartNS: []int64{0}, PathDelayNS: []int64{0}, ReturnNS: []int64{0},
		Hops:        []int16{int16(path.Hops)},
		SlowestBps:  []int64{path.SlowestBps},
		RoundTripNS: []int64{path.RoundTripNS}, SendNS: []int64{path.SendNS},
		UpstreamBps: []int64{0}, DownstreamBps: []int64{0},
	}
	if hop > 0 {
		c.Behind = true
		c.TargetBps = x.bps[hop]
		c.MarkBytes, c.MaxMarkBytes = x.params.MarkBytes(x.bps[hop], x.delay[hop])
	}
	for h := range x.bps {
		c.PathDelayNS[0] += x.delay[h]
		c.ReturnNS[0] += x.params.SendNS(ack, x.bps[h])
		if h < hop {
			c.SourceDelayNS[0] += x.delay[h]
		}
		if h > 0 && h != hop {
			c.ReturnNS[0] += x.params.SendNS(full, x.bps[h])
		}
		if h > 0 && h < hop && (c.UpstreamBps[0] == 0 || x.bps[h] < c.UpstreamBps[0]) {
			c.UpstreamBps[0] = x.bps[h]
		}
		if h > hop && (c.DownstreamBps[0] == 0 || x.bps[h] < c.DownstreamBps[0]) {
			c.DownstreamBps[0] = x.bps[h]
		}
	}
	k, err := linkcase.NewKernel(x.params)
	if err != nil {
		t.Fatal(err)
	}
	var r linkcase.Result
	if err := k.Simulate(c, &r); err != nil {
		t.Fatal(err)
	}
	x.check(t, "link case of hop "+string(rune('0'+hop)), r.FCTNS[0], r.IdealNS[0])
}
