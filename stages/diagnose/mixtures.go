package diagnose

import (
	"fmt"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
)

// A bucket of delays mixes flows if its largest flow is more than mixedSizes times as large as its smallest
// one, and the mean delay per packet of its small or of its large flows differs from that of the bucket by
// more than a factor of mixedDelays, and by more than mixedPackets of the time that the link needs to send a
// packet. Such flows draw delays that are wrong on average. There is a warning if their share of the flows of
// all links is mixedFlows or more.
const (
	mixedSizes   = 4
	mixedDelays  = 2
	mixedPackets = 0.1
	mixedFlows   = 0.05
)

// A mixture is a row of table delay_buckets without the delays.
type mixture struct {
	Link         int32   `col:"link_id"`
	SizeMinBytes int64   `col:"size_min_bytes"`
	SizeMaxBytes int64   `col:"size_max_bytes"`
	N            int64   `col:"n"`
	LargeN       int64   `col:"large_n"`
	SmallDelay   float64 `col:"small_delay"`
	LargeDelay   float64 `col:"large_delay"`
}

// misplaced returns the number of flows of a bucket that draw delays that are wrong on average. packetNS is
// the time to send a packet, in ns.
func (b *mixture) misplaced(packetNS float64) (flows int64) {
	if b.SizeMaxBytes <= mixedSizes*b.SizeMinBytes {
		return 0
	}
	small := b.N - b.LargeN
	mean := (float64(float64(small)*b.SmallDelay) + float64(float64(b.LargeN)*b.LargeDelay)) / float64(b.N)
	differs := func(delay float64) bool {
		lo := min(mean, delay)
		hi := max(mean, delay)
		return hi > mixedDelays*lo && hi-lo > mixedPackets*packetNS
	}
	if differs(b.SmallDelay) {
		flows += small
	}
	if differs(b.LargeDelay) {
		flows += b.LargeN
	}
	return flows
}

// Mixed reads table delay_buckets. It returns a warning if many flows share a bucket with flows of other
// sizes whose delays differ.
func Mixed(m *step.Model, buckets schema.Batches) ([]Warning, error) {
	n := m.Network
	packetBits := float64(8 * (m.Params.PayloadBytes + m.Params.HeaderBytes))
	var all, misplaced, most int64
	var worst mixture
	err := columns.Each(buckets, func(b *mixture) error {
		if b.Link < 0 || int(b.Link) >= len(n.Links) {
			return fmt.Errorf("delay_buckets: link %d, of %d links", b.Link, len(n.Links))
		}
		flows := b.misplaced(packetBits * 1e9 / float64(n.Links[b.Link].BandwidthBps))
		all += b.N
		misplaced += flows
		if flows > most {
			most = flows
			worst = *b
		}
		return nil
	})
	share := float64(misplaced) / float64(max(1, all))
	if err != nil || share < mixedFlows {
		return nil, err
	}
	return []Warning{{"mixed sizes", share, mixedFlows, worst.Link, fmt.Sprintf(
		"%.0f%% of the flows draw delays from buckets that mix sizes with different delays: at %s (link %d), "+
			"flows of %d to %d bytes share a bucket, and the mean delay per packet is %.2g us for the smaller and "+
			"%.2g us for the larger ones; estimate a longer workload, which fills more buckets, or use "+
			"--estimator flow",
		100*share, n.LinkName(worst.Link), worst.Link, worst.SizeMinBytes, worst.SizeMaxBytes,
		worst.SmallDelay/1000, worst.LargeDelay/1000)}}, nil
}

// mixed returns the warning about the buckets of delays. An estimate without buckets has none.
func (e *Estimate) mixed(m *step.Model, t step.Task) ([]Warning, error) {
	if e.Buckets == nil {
		return nil, nil
	}
	return Mixed(m, t.Read(step.All, e.Buckets.Output(schema.DelayBuckets)))
}
