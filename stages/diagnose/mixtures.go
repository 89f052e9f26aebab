package diagnose

import (
	"fmt"
	"math"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages/confidence"
	"parsimon/stages/step"
	"parsimon/stages/topology"
)

// A bucket of delays mixes flows if its largest flow is more than mixedSizes times as large as its smallest
// one, and the mean delay per packet of its small or of its large flows differs from that of the bucket by
// more than a factor of mixedDelays, and by more than mixedPackets of the time that the link needs to send a
// packet. Such flows draw delays that are wrong on average.
const (
	mixedSizes   = 4
	mixedDelays  = 2
	mixedPackets = 0.1
)

// There is a warning if such draws change a percentile of slowdown by mixedEffect or more, compared with the
// delays that the same flows had in their link cases. The share of the flows that draw them must be
// mixedShare or more of the share that is beyond the percentile. Fewer flows do not move a percentile, so
// draws change it for another reason: they are independent of each other. With clusters, most flows have no
// delays in link cases. Then there is a warning if the share of the flows is mixedUnknown or more.
const (
	mixedEffect  = 0.1
	mixedShare   = 0.5
	mixedUnknown = 0.05
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

// misplaced returns the number of flows of a bucket that draw delays that are wrong on average, and the sum
// of these errors for flows of the smallest and of the largest size of the bucket, in ns × bytes. packetNS is
// the time to send a packet, in ns.
func (b *mixture) misplaced(packetNS float64) (flows int64, wrong float64) {
	if b.SizeMaxBytes <= mixedSizes*b.SizeMinBytes {
		return 0, 0
	}
	small := b.N - b.LargeN
	mean := (float64(float64(small)*b.SmallDelay) + float64(float64(b.LargeN)*b.LargeDelay)) / float64(b.N)
	count := func(n, sizeBytes int64, delay float64) {
		off := math.Abs(mean - delay)
		if max(mean, delay) > mixedDelays*min(mean, delay) && off > mixedPackets*packetNS {
			flows += n
			wrong += float64(float64(n*sizeBytes) * off)
		}
	}
	count(small, b.SizeMinBytes, b.SmallDelay)
	count(b.LargeN, b.SizeMaxBytes, b.LargeDelay)
	return flows, wrong
}

// Mixtures says how many flows draw delays that are wrong on average, because their bucket mixes sizes.
type Mixtures struct {
	flows, misplaced int64
	worst            mixture // the bucket with the largest sum of wrong delays
}

// ReadMixtures reads table delay_buckets.
func ReadMixtures(m *step.Model, buckets schema.Batches) (*Mixtures, error) {
	n := m.Network
	packetBits := float64(8 * (m.Params.PayloadBytes + m.Params.HeaderBytes))
	x := &Mixtures{}
	most := 0.0
	return x, columns.Each(buckets, func(b *mixture) error {
		if b.Link < 0 || int(b.Link) >= len(n.Links) {
			return fmt.Errorf("delay_buckets: link %d, of %d links", b.Link, len(n.Links))
		}
		flows, wrong := b.misplaced(packetBits * 1e9 / float64(n.Links[b.Link].BandwidthBps))
		x.flows += b.N
		x.misplaced += flows
		if wrong > most {
			most = wrong
			x.worst = *b
		}
		return nil
	})
}

// share is the share of the flows of all links that are misplaced.
func (x *Mixtures) share() float64 { return float64(x.misplaced) / float64(max(1, x.flows)) }

// Warning returns a warning if the mixtures change percentiles of slowdown.
func (x *Mixtures) Warning(n *topology.Network, effects []confidence.DrawEffect) []Warning {
	var named, largest confidence.DrawEffect
	size := 0.0 // of the largest change
	for _, e := range effects {
		change := math.Abs(e.Relative())
		if change < mixedEffect || x.share() < mixedShare*(1-e.Quantile) {
			continue
		}
		if e.SizeBin == sizebin.All && e.Quantile == 0.99 {
			named = e
		}
		if change > size {
			size = change
			largest = e
		}
	}
	if size == 0 {
		return nil
	}
	if named.Own == 0 {
		named = largest
	}
	text := fmt.Sprintf("buckets of delays mix flows of different sizes: %s is %s", named.Name(),
		effectText(named))
	if named != largest {
		text += fmt.Sprintf("; the largest change is that of %s, which is %s", largest.Name(),
			effectText(largest))
	}
	change := math.Abs(named.Relative())
	return []Warning{{"mixed sizes", change, mixedEffect, x.worst.Link, text + x.example(n)}}
}

func effectText(e confidence.DrawEffect) string {
	return fmt.Sprintf("%.3g, but %.3g with the delays that the same flows had in their link cases (%+.0f%%)",
		e.Drawn, e.Own, 100*e.Relative())
}

// example describes the bucket with the most misplaced flows, and says what to do.
func (x *Mixtures) example(n *topology.Network) string {
	b := &x.worst
	return fmt.Sprintf("; at %s (link %d), flows of %d to %d bytes share a bucket, and the mean delay per "+
		"packet is %.2g us for the smaller and %.2g us for the larger ones; estimate a longer workload, which "+
		"fills more buckets, or use --estimator flow", n.LinkName(b.Link), b.Link, b.SizeMinBytes, b.SizeMaxBytes,
		b.SmallDelay/1000, b.LargeDelay/1000)
}

// WarningOfClusters returns a warning if many flows are misplaced, and it is not known how much this changes
// percentiles.
func (x *Mixtures) WarningOfClusters(n *topology.Network) []Warning {
	if x.share() < mixedUnknown {
		return nil
	}
	return []Warning{{"mixed sizes", x.share(), mixedUnknown, x.worst.Link, fmt.Sprintf(
		"%.0f%% of the flows draw delays from buckets that mix flows of different sizes; how much this changes "+
			"percentiles is known only without --cluster", 100*x.share()) + x.example(n)}}
}

// mixed returns the warning about the buckets of delays. An estimate without buckets has none.
func (e *Estimate) mixed(m *step.Model, t step.Task, f *Findings) ([]Warning, error) {
	if e.Buckets == nil {
		return nil, nil
	}
	x, err := ReadMixtures(m, t.Read(step.All, e.Buckets.Output(schema.DelayBuckets)))
	if err != nil {
		return nil, err
	}
	if e.Clusters != nil {
		return x.WarningOfClusters(m.Network), nil
	}
	return x.Warning(m.Network, f.Effects), nil
}
