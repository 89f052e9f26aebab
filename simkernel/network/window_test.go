package network

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// exchange is two hosts at the ends of a chain of cables that send to each other at the same time.
type exchange struct {
	params  simkernel.Params
	bps     []int64 // by hop
	delayNS int64   // of each cable
	packets int64   // of each of the two flows
}

func (x *exchange) links() (links []Link) {
	for h, bps := range x.bps {
		a := int32(h)
		b := a + 1
		links = append(links, Link{a, b, bps, x.delayNS}, Link{b, a, bps, x.delayNS})
	}
	return links
}

// flows returns the flow from the first node to the last and the one back.
func (x *exchange) flows() *Flows {
	hops := int32(len(x.bps))
	var path []int32
	for h := range hops {
		path = append(path, 2*h)
	}
	for h := hops - 1; h >= 0; h-- {
		path = append(path, 2*h+1)
	}
	size := x.packets * x.params.PayloadBytes
	return &Flows{
		SizeBytes: []int64{size, size},
		StartNS:   []int64{0, 0},
		PathLinks: path,
		PathEnds:  []int32{hops, 2 * hops},
	}
}

// slowdowns returns those of both flows.
func (x *exchange) slowdowns(t *testing.T) []float64 {
	t.Helper()
	hosts := make([]bool, len(x.bps)+1)
	hosts[0] = true
	hosts[len(x.bps)] = true
	n, err := New(x.params, BufferParams{}, x.links(), hosts, once(x.flows()))
	if err != nil {
		t.Fatal(err)
	}
	var slowdowns []float64
	err = n.Run(t.Context(), 1, func(r *Results) error {
		for i, fct := range r.FCTNS {
			slowdowns = append(slowdowns, float64(fct)/float64(r.IdealNS[i]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slowdowns
}

// check fails if two flows slow each other down by more than the ACKs of the other direction. It returns the
// larger slowdown.
func (x *exchange) check(t *testing.T) float64 {
	t.Helper()
	got := slices.Max(x.slowdowns(t))
	full := float64(x.params.PayloadBytes + x.params.HeaderBytes)
	limit := 1 + float64(x.params.AckBytes)/full + 0.005
	if x.params.Transport == simkernel.HPCC {
		limit /= x.params.HPCC.Target
	}
	if got > limit {
		t.Errorf("%v, %d B, hops of %v bps, cables of %d ns: slowdown %.4f, must be at most %.4f",
			x.params.Transport, x.params.PayloadBytes, x.bps, x.delayNS, got, limit)
	}
	return got
}

// Two hosts that send long flows to each other slow each other down only by the ACKs of the other direction.
// If a fitted window had no room for the packets that an ACK waits behind on its way back, the flows would
// wait for ACKs while their links are idle. If thresholds of delay did not include these waits, TIMELY and
// Swift would slow down because of them. datasets/ACCURACY.md has the largest slowdowns, which are logged.
func TestTrafficInBothDirectionsCostsItsACKs(t *testing.T) {
	bandwidths := []int64{1e9, 10e9, 25e9, 100e9, 400e9}
	lengths := []int{1, 2, 3, 4, 5, 6}
	mixed := 20
	if testing.Short() {
		bandwidths = []int64{1e9, 400e9}
		lengths = []int{1, 6}
		mixed = 2
	}
	for _, transport := range simkernel.PacedTransports() {
		rng := rand.New(rand.NewPCG(uint64(transport), 58))
		for _, payload := range []int64{1000, 9000} {
			x := exchange{params: simkernel.ParamsOf(transport), delayNS: 1000, packets: 4000}
			x.params.SetWindow(simkernel.AutoWindow)
			x.params.PayloadBytes = payload
			largest := 0.0
			for _, hops := range lengths {
				for _, bps := range bandwidths {
					x.bps = slices.Repeat([]int64{bps}, hops)
					largest = max(largest, x.check(t))
				}
			}
			for range mixed {
				x.bps = x.bps[:0]
				for range 2 + rng.IntN(5) {
					x.bps = append(x.bps, kerneltest.Pick(rng, bandwidths...))
				}
				largest = max(largest, x.check(t))
			}
			t.Logf("%v, %d B: largest slowdown %.4f", transport, payload, largest)
		}
	}
}

// With recovery from losses, an item has the lowest bits of its packet's number only. A window with more
// packets than these bits can distinguish is refused, also if it is fitted to the path. If it were not, an
// ACK could be counted for another packet.
func TestWindowsWithMorePacketsThanNumbersAreRefused(t *testing.T) {
	x := exchange{params: simkernel.DefaultParams(), bps: []int64{800e9}, delayNS: 100e6, packets: 1 << 23}
	x.params.SetWindow(simkernel.AutoWindow)
	limited := BufferParams{SwitchBytes: 1 << 30, Alpha: 1}
	n, err := New(x.params, limited, x.links(), []bool{true, true}, once(x.flows()))
	if err != nil {
		t.Fatal(err)
	}
	err = n.Run(t.Context(), 1, nil)
	if err == nil || !strings.Contains(err.Error(), "can be in flight") {
		t.Errorf("error %v, want one that too many packets can be in flight", err)
	}
}
