package simkernel

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// A timer that was not checked for a day is computed in one step.
func TestDCQCNSleeps(t *testing.T) {
	p := ParamsOf(DCQCN)
	var d dcqcn
	d.Start(&p, p.Limits(10e9, Path{Hops: 4}))
	d.OnAck(&p, &AckInfo{Marked: true})
	d.Tick(&p, 24*3600*1e12)
	if d.RateBps != 10e9 || d.alpha != 0 || d.NextTick() > 24*3600*1e12+60e6 {
		t.Errorf("rate %v, alpha %v, next tick %d", d.RateBps, d.alpha, d.NextTick())
	}
}

func TestRedMarksTheShareItSays(t *testing.T) {
	m := MarkRule{40_000, 160_000, 0.2}
	for left, want := range map[int64]float64{40_000: 0, 70_000: 0.05, 100_000: 0.1, 160_000: 0.2, 160_001: 1} {
		marked := 0
		const draws = 100_000
		for i := range uint64(draws) {
			if m.Marks(left, MixKey(7, i)) {
				marked++
			}
		}
		share := float64(marked) / draws
		if math.Abs(share-want) > 0.005 {
			t.Errorf("%d bytes left behind: marked %.3f, want %.3f", left, share, want)
		}
	}
}

// Every transport is registered under its number. Its defaults are valid, its keys have unique names, and a
// value outside a key's range is refused with the key's name.
func TestRegistry(t *testing.T) {
	for kind := range Transport(len(registry)) {
		p := ParamsOf(kind)
		if err := p.Validate(); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		if back, err := ParseTransport(kind.String()); back != kind || err != nil {
			t.Errorf("%v is parsed as %v, %v", kind, back, err)
		}
		traits := kind.Traits()
		if traits.Embedded && traits != (Traits{Embedded: true}) {
			t.Errorf("%v: the fast path of the link kernel has embedded senders without other traits: %+v", kind,
				traits)
		}
		seen := map[string]bool{}
		for _, k := range p.Keys() {
			if seen[k.Name] || (k.Int == nil) == (k.Float == nil) {
				t.Errorf("%v: key %+v", kind, k)
			}
			seen[k.Name] = true
			for _, v := range []float64{k.Min - 1, k.Max * 2} {
				bad := ParamsOf(kind)
				for _, b := range bad.Keys() {
					if b.Name == k.Name && b.Int != nil {
						*b.Int = int64(v)
					} else if b.Name == k.Name {
						*b.Float = v
					}
				}
				if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), k.Name+" is") {
					t.Errorf("%v: %s = %v: error %v", kind, k.Name, v, err)
				}
			}
		}
	}
	if err := (&Params{Transport: Transport(len(registry))}).Validate(); err == nil {
		t.Error("an unknown transport is accepted")
	}
}

// Scenario files may state constants in these ranges. A narrower range would refuse files that were accepted,
// and a wider one accepts values that overflow in a simulation or that no network has.
func TestRangesOfConstants(t *testing.T) {
	tcp := "initial_window 1..1000, min_timeout 1000..1e+12, delayed_ack 0..5e+08, " +
		"receive_window 65536..1.073741824e+09, duplicate_acks 1..1000"
	marks := "min_mark_per_gbps 0..1.073741824e+09, max_mark_per_gbps 0..1.073741824e+09, max_marking 0..1"
	for kind, want := range map[Transport]string{
		DCTCP: "gain 0..1, additive_increase 0..1e+15, mark_per_gbps 0..1.073741824e+09",
		DCQCN: "gain 1e-06..1, alpha_timer 1000..1e+12, decrease_timer 1000..1e+12, increase_timer 1000..1e+12, " +
			"additive_increase 0..1e+15, hyper_increase 0..1e+15, " + marks,
		TIMELY: "smoothing 0..1, decrease 0..1, low 0..1e+12, high 0..1e+12, min_rtt 1..1e+12, " +
			"additive_increase 0..1e+15, hyper_increase 0..1e+15, hyper_after 0..1e+09",
		HPCC: "target 0..2, max_stage 0..1e+09, additive_increase 0..1e+12, base_rtt 1..1e+12",
		Swift: "base_target 1..1e+12, per_hop 0..1e+09, additive_increase 0..1e+06, decrease 0..1, " +
			"max_decrease 0..1, scaling 0..1e+12, min_scaling 0..1e+09, max_scaling 0..1e+09",
		NewReno:     tcp,
		CUBIC:       tcp,
		DCTCPWindow: tcp + ", gain 0..1, mark_per_gbps 0..1.073741824e+09",
	} {
		p := ParamsOf(kind)
		var all []string
		for _, k := range p.Keys() {
			all = append(all, fmt.Sprintf("%s %v..%v", k.Name, k.Min, k.Max))
		}
		got := strings.Join(all, ", ")
		shared := "payload 1..65536, header 0..4096, ack 0..4096, min_rate 10000..1e+15, "
		if got != shared+want {
			t.Errorf("%v: %s", kind, got)
		}
	}
}

// Results of different versions, transports or constants have different identities. The seed matters only if
// marks are random.
func TestIdentity(t *testing.T) {
	identity := func(p Params) string {
		b, err := p.AppendIdentity(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := map[string]bool{}
	for _, kind := range PacedTransports() {
		p := ParamsOf(kind)
		id := identity(p)
		p.Seed = 7
		if (identity(p) != id) != kind.Traits().RandomMarks {
			t.Errorf("%v: the seed changes the identity: %v", kind, identity(p) != id)
		}
		p.WindowBytes++
		if seen[id] || identity(p) == id {
			t.Errorf("%v: %q is ambiguous", kind, id)
		}
		seen[id] = true
	}
}

// Random numbers are mapped to numbers above 0 and below 1, evenly. Their logarithms are therefore finite.
func TestUniform(t *testing.T) {
	for random, want := range map[uint64]float64{
		0: 0x1p-54, math.MaxUint64: 1 - 0x1p-54, 1 << 63: 0.5 + 0x1p-54, 1 << 62: 0.25 + 0x1p-54,
	} {
		got := Uniform(random)
		if got != want && (random != math.MaxUint64 || got > 1) {
			t.Errorf("%x is mapped to %v, want %v", random, got, want)
		}
	}
	if MixKeys(3, 4, 5) != MixKey(MixKey(3, 4), 5) || MixKeys(3) != 3 {
		t.Error("several numbers are not combined one after the other")
	}
}
