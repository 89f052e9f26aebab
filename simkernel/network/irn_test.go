package network

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/kerneltest"
)

// twinIRN is IRN of a flow in a Buffered, packet by packet.
type twinIRN struct {
	acked, resent map[int64]bool // resent: since the present event began
	recoverTo     int64
	lowPS         int64
	waited        bool
}

func (f *bufferedFlow) patience() int64 {
	if f.acked != nil && f.maxSent-f.una <= 3 {
		return min(f.lowPS, f.timeoutPS)
	}
	return f.timeoutPS
}

func (f *bufferedFlow) chooseIRN() {
	for f.nxt = f.una; f.nxt < f.maxSent; f.nxt++ {
		if f.lost[f.nxt] && !f.acked[f.nxt] && !f.resent[f.nxt] {
			return
		}
	}
}

// receiveIRN turns a data packet into its ACK.
func (n *Buffered) receiveIRN(k *bufferedPacket, nowPS int64) {
	f := k.flow
	if f.got[k.number] {
		n.Losses.Discarded++
	} else {
		n.Losses.Delivered++
		f.got[k.number] = true
		if int64(len(f.got)) == f.packets {
			n.finished = append(n.finished, bufferedFinish{f, nowPS})
		}
	}
	k.ack = true
	k.wire = n.params.AckBytes
	k.hop--
}

func (n *Buffered) receiveIRNAck(port int32, p *bufferedPort, k *bufferedPacket, nowPS int64) {
	defer n.release(k)
	f := k.flow
	before := k.flow.una
	known := f.acked[k.number]
	f.acked[k.number] = true
	for f.acked[f.una] {
		f.una++
	}
	if f.una > before {
		f.backoff, f.deadlinePS = 0, nowPS+f.patience()
	}
	top := f.una
	for number := range f.acked {
		top = max(top, number)
	}
	if !known && top > f.una {
		if f.una >= f.recoverTo {
			f.recoverTo = f.maxSent
			f.resent = map[int64]bool{}
		}
		for number := f.una; number < top; number++ {
			f.lost[number] = true
		}
	}
	if f.una == f.packets {
		n.endFlow(p, f)
		return
	}
	f.chooseIRN()
	if !known {
		changed := f.sender.Tick(&n.params, nowPS)
		h := simkernel.AckInfo{NowPS: nowPS, RTTPS: nowPS - k.sentPS, AckedBytes: n.bytes(f, f.una),
			SentBytes: n.bytes(f, f.nxt), Marked: k.marked, Links: k.links}
		if f.sender.OnAck(&n.params, &h) || changed {
			n.setRate(f)
		}
	}
	n.updateOpen(p, f, nowPS)
	n.scheduleSend(port, max(nowPS, p.freePS))
}

// Selective recovery agrees with the slow twin in every bit. It obeys the laws: everything is delivered once,
// every packet that was sent was delivered, dropped or discarded, and results do not depend on domains or
// workers. It discards fewer packets than go-back-N.
func TestIRNAgreesWithTwin(t *testing.T) {
	var all, back Losses
	for _, kind := range simkernel.PacedTransports() {
		for _, seed := range kerneltest.Seeds(100, 7) {
			e := randomNetworkOf(kind, seed)
			rng := rand.New(rand.NewPCG(seed, 13))
			kerneltest.RandomConstants(rng, &e.params)
			packet := e.params.PayloadBytes + e.params.HeaderBytes
			rtts := int64(1)
			if slices.ContainsFunc(e.links, func(l Link) bool { return l.DelayNS >= 100_000 }) {
				rtts = 100
			}
			b := BufferParams{SwitchBytes: packet * kerneltest.Pick[int64](rng, 4, 20, 60),
				Alpha: kerneltest.Pick(rng, 0.5, 1, 8), RetransmitNS: kerneltest.Pick[int64](rng, 0, 50_000,
					300_000) * rtts, Selective: true}
			want := runBuffered(t, &e, b, 3)
			n, got := runIn(t, &e, b, nil, 1, 1000)
			l := n.Losses()
			packets := int64(0)
			for _, size := range e.flows.SizeBytes {
				packets += e.params.Packets(size)
			}
			if l.Delivered != packets || l.Sent != l.Delivered+l.Dropped+l.Discarded ||
				len(got.Row) != len(e.flows.SizeBytes) {
				t.Fatalf("%v, seed %d: %d packets, %+v", kind, seed, packets, l)
			}
			m, again := runIn(t, &e, b, randomDomains(rng, len(e.hosts)), 2, 3)
			if !reflect.DeepEqual(got, again) || m.Losses() != l {
				t.Fatalf("%v, seed %d: other results in several domains", kind, seed)
			}
			got.StartNS = nil
			got.Again = nil
			got.Reordered = nil // the twin does not report them
			if !reflect.DeepEqual(got, &want.Results) || l != want.Losses {
				t.Fatalf("%v, seed %d, %+v: %s\n%+v\ntwin:\n%+v", kind, seed, b,
					kerneltest.FirstDifference(got, &want.Results), l, want.Losses)
			}
			all.add(&l)
			b.Selective = false
			n, _ = runIn(t, &e, b, nil, 1, 1000)
			l = n.Losses()
			back.add(&l)
		}
	}
	if all.Dropped < 1000 || all.Timeouts == 0 || all.Again < all.Dropped || all.Discarded*2 > back.Discarded {
		t.Errorf("%+v, going back %+v", all, back)
	}
}
