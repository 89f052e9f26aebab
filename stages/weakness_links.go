package stages

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

const (
	// Load from which a link's queue depends on how long the workload is. The time that a queue needs to forget
	// its start grows with 1 / (1 - load)²: at 95% it is 400 times that of an idle link, at 60% 6 times.
	overload = 0.95

	// Load from which a link's queue grows as long as the workload lasts, whoever simulates it.
	fullLoad = 1

	// The accuracy of transports other than DCTCP was measured at loads below overload and, but for one scenario
	// (fastHostErrors), in networks in which no host is faster than a link on its flows' paths.
	equalSpeeds = 1.0

	// Size of ACKs relative to full data packets from which on what they take of a link matters when exactly they come,
	// of which link cases know the mean. At the usual 6% errors are within 8% for every flow size; at 20% and at 48%
	// (datasets/ACCURACY.md, small-packets and large-acks) p99 of a flow size was off by 9% and by 22%.
	largeACKs = 0.1
)

// linkTraffic is what a finder knows of the links that carry flows.
type linkTraffic struct {
	load    []float64 // bytes without headers relative to capacity, by link id
	offered []float64 // bytes with headers relative to what ACKs leave of the capacity, by link id

	ackShare float64 // size of ACKs relative to full data packets; 0 if ACKs share no link with data

	uplinkBps   int64 // bandwidth of the fastest host uplink
	slowestBps  int64 // bandwidth of the slowest other link
	slowestLink int32
}

// readLinkTraffic reads table link_stats.
func readLinkTraffic(n *topology.Network, p *simkernel.Params, stats schema.Batches) (*linkTraffic, error) {
	t := &linkTraffic{load: make([]float64, len(n.Links)), offered: make([]float64, len(n.Links)),
		slowestBps: math.MaxInt64, slowestLink: -1}
	return t, columns.ForEach(stats, func(rec arrow.Record) error {
		load, flows := columns.Float64s(rec, "load"), columns.Int64s(rec, "flows")
		bandwidth, available := columns.Int64s(rec, "bandwidth_bps"), columns.Int64s(rec, "available_bps")
		bytes, packets := columns.Int64s(rec, "bytes"), columns.Int64s(rec, "packets")
		for i, link := range columns.Int32s(rec, "link_id") {
			if link < 0 || int(link) >= len(n.Links) {
				return fmt.Errorf("link_stats: link %d is not in the topology, which has %d links", link, len(n.Links))
			}
			t.load[link] = load[i]
			if flows[i] == 0 || bytes[i] == 0 || available[i] == 0 {
				continue
			}
			if available[i] < bandwidth[i] {
				t.ackShare = float64(p.AckBytes) / float64(p.PayloadBytes+p.HeaderBytes)
			}
			o := linkOffer{load[i], bytes[i], packets[i], bandwidth[i], available[i]}
			t.offered[link] = o.offered(p)
			if n.FromHost(link) {
				t.uplinkBps = max(t.uplinkBps, bandwidth[i])
			} else if bandwidth[i] < t.slowestBps {
				t.slowestBps, t.slowestLink = bandwidth[i], link
			}
		}
		return nil
	})
}

// offered returns what is offered to a link, headers included, as a fraction of what ACKs leave of its capacity.
func (p *linkOffer) offered(params *simkernel.Params) float64 {
	if p.bytes == 0 || p.availableBps == 0 {
		return 0
	}
	wire := 1 + float64(p.packets*params.HeaderBytes)/float64(p.bytes)
	return p.load * wire * float64(p.bandwidthBps) / float64(p.availableBps)
}

// A linkOffer is what a link carries, as in table link_stats.
type linkOffer struct {
	load                       float64
	bytes, packets             int64
	bandwidthBps, availableBps int64
}

// Overloaded reports whether a link is offered so much that an estimate by link cases has warning overload.
func (l *Loads) Overloaded(n *topology.Network, p *simkernel.Params) bool {
	for _, link := range n.Links {
		x := l.Links[link.ID]
		o := linkOffer{l.Load(link), x.Bytes, x.Packets, link.BandwidthBps, l.AvailableBps(p, link)}
		if o.offered(p) >= overload {
			return true
		}
	}
	return false
}

// overloads returns a row for each link that is offered that load or more, the most loaded first.
func (t *linkTraffic) overloads(n *topology.Network, least float64) []Weakness {
	var out []Weakness
	for id, load := range t.offered {
		if load < least {
			continue
		}
		l := &n.Links[id]
		out = append(out, Weakness{"overload", load, least, l.ID, fmt.Sprintf(
			"%s (link %d) is offered %.0f%% of what it can send, headers included: its queue does not settle "+
				"within the workload, and percentiles depend on the workload's length and its idle start",
			n.LinkName(l.ID), l.ID, 100*load)})
	}
	slices.SortStableFunc(out, func(a, b Weakness) int { return cmp.Compare(b.Measure, a.Measure) })
	return out
}

// ackRange returns a row if ACKs are large.
func (t *linkTraffic) ackRange() []Weakness {
	if t.ackShare <= largeACKs {
		return nil
	}
	return []Weakness{{"acks", t.ackShare, largeACKs, -1, fmt.Sprintf(
		"ACKs have %.0f%% of the size of full data packets: link cases know what ACKs take of a link in the mean, and p99 of a flow "+
			"size was 9%% off where they had 20%%, and 22%% where they had 48%% (--exact measures it)", 100*t.ackShare)}}
}

// fastHostErrors are the errors of p99, of all flows and of the flow size where it is worst, on a network of 40G hosts
// and 10G links (datasets/ACCURACY.md, "Other transports on networks of other kinds": fasthosts-60).
var fastHostErrors = map[simkernel.Transport]string{
	simkernel.TIMELY: "right within 1%, of one flow size 17% too high",
	simkernel.DCQCN:  "1% too low, of one flow size 6%",
	simkernel.HPCC:   "right within 1%, of one flow size 3% too low",
	simkernel.Swift:  "right within 1%, of one flow size 6% too high",
}

// transportRange returns a row if the transport was not compared with packet simulations of such a network. Errors
// that were measured all the same are named.
func (t *linkTraffic) transportRange(n *topology.Network, transport simkernel.Transport) []Weakness {
	if transport == simkernel.DCTCP || t.slowestLink < 0 {
		return nil
	}
	ratio := float64(t.uplinkBps) / float64(t.slowestBps)
	if ratio <= equalSpeeds {
		return nil
	}
	known := "such networks are not among those on which its accuracy was measured"
	if of, ok := fastHostErrors[transport]; ok {
		known = "in the network of 40G hosts and 10G links that was compared with --exact, p99 was " + of
	}
	return []Weakness{{"transport", ratio, equalSpeeds, t.slowestLink, fmt.Sprintf(
		"%s where hosts send %.3g times as fast as %s (link %d): %s", transport, ratio, n.LinkName(t.slowestLink), t.slowestLink, known)}}
}
