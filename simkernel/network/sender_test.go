package network

import (
	"math/rand/v2"
	"testing"

	"parsimon/simkernel"
)

// A sender knows when each packet in flight was sent, in each of its attempts, also after its memory was
// enlarged. Otherwise round trips would be those of other packets.
func TestTimesOfPacketsInFlight(t *testing.T) {
	p := simkernel.ParamsOf(simkernel.TIMELY)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := &sender{external: &externalSender{Sender: simkernel.NewSender(p.Transport)}}
		o := s.external
		o.start(&p, simkernel.Limits{LineBps: 10e9, WindowBytes: 1 << 20})
		type key struct{ number, attempt uint32 }
		sent := map[key]int64{}
		next := uint32(0)
		most := uint32(1)
		for now := int64(1); now < 400; now++ {
			attempt := uint32(0)
			number := next
			if rng.IntN(5) == 0 && next > o.acked {
				number = o.acked + rng.Uint32N(next-o.acked)
				attempt = rng.Uint32N(4)
			} else {
				next++
			}
			s.onSend(&p, number, attempt, now)
			sent[key{number, attempt}] = now
			most = max(most, next-o.acked)
			for k, ps := range sent {
				if k.number < o.acked {
					delete(sent, k)
					continue
				}
				got := o.sentPS[k.attempt*o.ring+k.number&(o.ring-1)]
				if got != ps {
					t.Fatalf("seed %d: packet %d of attempt %d was sent at %d, not at %d", seed, k.number, k.attempt, ps,
						got)
				}
			}
			if rng.IntN(3) == 0 {
				o.acked += rng.Uint32N(next - o.acked + 1)
			}
		}
		if o.ring < most || o.ring > max(8, 2*most) || o.ring&(o.ring-1) != 0 || len(o.sentPS)%int(o.ring) != 0 {
			t.Fatalf("seed %d: rings of %d places for %d packets", seed, o.ring, most)
		}
		if o.sent != next {
			t.Fatalf("seed %d: %d packets were sent, not %d", seed, o.sent, next)
		}
	}
}

// The telemetry of packets in flight has a place for each, which a window or the size of the flow limits, and
// for each switch of the path. Each attempt has its own.
func TestPlacesOfTelemetry(t *testing.T) {
	p := simkernel.ParamsOf(simkernel.HPCC)
	for _, c := range []struct {
		packets, window int64
		ring            uint32
	}{{1, 100, 2}, {3, 100, 4}, {4, 100, 8}, {7, 100, 8}, {100, 5, 8}, {100, 8, 16}} {
		o := &externalSender{Sender: simkernel.NewSender(p.Transport)}
		o.start(&p, simkernel.Limits{LineBps: 10e9, WindowBytes: c.window * p.PayloadBytes})
		o.startTelemetry(&p, c.packets*p.PayloadBytes, []int32{0, 4, 8, 12})
		o.makeTelemetry(2)
		if o.telemetryRing != c.ring || o.hops != 3 || len(o.telemetry[0]) != 3*int(c.ring) ||
			len(o.telemetry[2]) != 3*int(c.ring) || len(o.telemetry[1]) != 0 {
			t.Errorf("%+v: rings of %d places for %d hops", c, o.telemetryRing, o.hops)
		}
		r := &rules{numberShift: recoveryShift, againMask: 31 << 5}
		of := o.telemetryOf(r, (c.ring+1)<<recoveryShift|2<<5)
		if len(of) != 3 || &of[0] != &o.telemetry[2][3] {
			t.Errorf("%+v: %d entries, not those of place 1 of attempt 2", c, len(of))
		}
		o.startTelemetry(&p, c.packets*p.PayloadBytes, []int32{0, 4})
		if o.hops != 1 || len(o.telemetry[0]) != int(c.ring) || len(o.telemetry[2]) != 0 {
			t.Errorf("%+v: after another start, %d hops", c, o.hops)
		}
	}
}
