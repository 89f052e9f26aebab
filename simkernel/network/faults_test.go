package network

import (
	"math"
	"testing"

	"parsimon/simkernel"
	"parsimon/simkernel/network/faults"
)

// overSwitch returns a network of two hosts and a switch, and flows from host 0 to host 1.
func overSwitch(kind simkernel.Transport, flows int, sizeBytes, gapNS int64) netExample {
	e := netExample{params: simkernel.ParamsOf(kind), hosts: []bool{true, true, false}}
	e.params.Seed = 1
	for h := range int32(2) {
		e.links = append(e.links, Link{h, 2, 10e9, 1000}, Link{2, h, 10e9, 1000})
	}
	for i := range int64(flows) {
		e.flows.SizeBytes = append(e.flows.SizeBytes, sizeBytes)
		e.flows.StartNS = append(e.flows.StartNS, i*gapNS)
		e.flows.PathLinks = append(e.flows.PathLinks, 0, 3)
		e.flows.PathEnds = append(e.flows.PathEnds, int32(len(e.flows.PathLinks)))
	}
	return e
}

// losesACKs is a fault of the link from the switch to host 0.
func losesACKs(share float64) Forwarding {
	fault := faults.Fault{Link: 1, ToNS: math.MaxInt64, Share: share}
	return Forwarding{Failures: faults.Failures{Faults: []faults.Fault{fault}}}
}

// If the ACK of a duplicate had the fate of the first ACK, a flow whose ACK is lost would never end. Each
// transmission is lost or delivered independently. With half of all ACKs lost, each packet of a flow of one
// packet is sent twice on average. All FCTs equal those without losses, because only ACKs are lost.
func TestEachLostACKIsANewDraw(t *testing.T) {
	for kind := range simkernel.Transports() {
		const flows = 400
		e := overSwitch(simkernel.Transport(kind), flows, 1000, 10_000)
		n, r := runMoving(t, &e, BufferParams{}, losesACKs(0.5), nil, 1)
		again := float64(n.Losses().Again)
		sigma := math.Sqrt(2 * flows)
		if math.Abs(again-flows) > 5*sigma {
			t.Errorf("%v: %v of %d packets were retransmitted, want as many within %v", e.params.Transport, again,
				flows, 5*sigma)
		}
		for i, fct := range r.FCTNS {
			if fct != r.IdealNS[i] {
				t.Fatalf("%v, row %d: FCT %d ns, ideal %d", e.params.Transport, r.Row[i], fct, r.IdealNS[i])
			}
		}
	}
}

// If an ACK acknowledged only one packet, a lost ACK would cause a retransmission. ACKs are cumulative: the
// next ACK that arrives acknowledges all earlier packets. Only a lost ACK at the end of a flow therefore
// causes a timeout.
func TestALostACKCostsNothingWhenTheNextArrives(t *testing.T) {
	selective := BufferParams{SwitchBytes: 1 << 30, Alpha: 1, Selective: true}
	for kind := range simkernel.Transports() {
		const flows, packets, lost = 50, 300, 0.2
		e := overSwitch(simkernel.Transport(kind), flows, packets*1000, 1e6)
		n, _ := runMoving(t, &e, selective, losesACKs(lost), nil, 1)
		sent := float64(n.Losses().Again) / (flows * packets)
		if sent > 0.01 {
			t.Errorf("%v: %.3f of the packets are retransmitted, with %v of the ACKs lost", e.params.Transport, sent,
				lost)
		}
	}
}
