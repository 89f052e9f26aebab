// Package independent is the paper's estimator (§3.3 and §3.4). At each hop, a flow gets a packet-normalized
// delay drawn from the bucket of its size. Draws at different hops are independent. The delay of a flow is
// the sum over the hops of its path.
//
//	link cases → Bucketer: delays of links by flow size → draws → table hop_contributions → Sum: slowdowns
package independent

import (
	"fmt"
	"math"
	"sort"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/linksim"
	"parsimon/stages/rng"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// A bucketRow is a row of table delay_buckets.
type bucketRow struct {
	LinkID       int32     `col:"link_id"`
	Bucket       int32     `col:"bucket"`
	SizeMinBytes int64     `col:"size_min_bytes"`
	SizeMaxBytes int64     `col:"size_max_bytes"`
	N            int64     `col:"n"`
	LargeN       int64     `col:"large_n"`
	SmallDelay   float64   `col:"small_delay"`
	LargeDelay   float64   `col:"large_delay"`
	Delays       []float64 `col:"delays"` // ns per packet
}

var bucketTable = columns.TableOf[bucketRow](schema.DelayBuckets)

// The paper's constants for buckets (§3.3): a bucket has at least bucketMin delays, and its largest flow is
// at least bucketSpread times as large as the smallest size that the bucket accepts.
const (
	bucketMin    = 100
	bucketSpread = 2
)

// A Bucketer groups the delays of links into distributions and draws from them the delay that each hop
// contributes to each flow. It is a linksim.DelaySink. It reuses its memory and must not be used by several
// goroutines at a time.
//
// It writes table delay_buckets by link and size, and table hop_contributions by flow_row and hop.
//
// The contribution of a hop to a flow is a packet-normalized delay, drawn from the bucket of the flow's size
// (paper, §3.4), times the number of the flow's packets. The draw depends only on the seed, the flow and the
// hop, so it does not depend on how links are partitioned.
type Bucketer struct {
	model  *step.Model
	draws  rng.Stream // of all draws
	sorter tables.Sorter

	bucketSink       schema.Sink
	contributionSink schema.Sink // nil: contributions are not wanted

	rows       []tables.ContributionRow // not written yet
	normalized []float64                // packet-normalized delays, ascending within each bucket
	buckets    []bucketRow              // not written yet; their Delays are slices of normalized

	// Of the flows of the current link, in the order of their sizes:
	sizes   []int64
	packets []float64
	delays  delaySorter
}

// NewBucketer returns a bucketer. The draws depend on the model's seed.
func NewBucketer(m *step.Model) *Bucketer {
	return &Bucketer{model: m, draws: rng.New(m.Seed, rng.Bucket)}
}

// Begin implements linksim.DelaySink.
func (b *Bucketer) Begin(t step.Task) {
	b.begin(t.Sink(schema.DelayBuckets), t.Sink(schema.HopContributions))
}

func (b *Bucketer) begin(buckets, contributions schema.Sink) {
	b.bucketSink = buckets
	b.contributionSink = contributions
	b.rows = b.rows[:0]
	b.normalized = b.normalized[:0]
	b.buckets = b.buckets[:0]
}

// AddLink implements linksim.DelaySink.
func (b *Bucketer) AddLink(hops []linksim.HopDelay) error {
	for i := range hops {
		h := &hops[i]
		if h.FCTNS < h.IdealNS {
			return fmt.Errorf("flow %d on link %d has an FCT of %d ns, below its ideal FCT of %d ns",
				h.FlowID, h.LinkID, h.FCTNS, h.IdealNS)
		}
	}
	b.bucketLink(hops)
	if len(b.buckets) >= columns.BatchRows/16 {
		return b.flush()
	}
	return nil
}

// End implements linksim.DelaySink.
func (b *Bucketer) End() error {
	err := b.flush()
	if err != nil || b.contributionSink == nil {
		return err
	}
	return b.writeByFlow(b.contributionSink)
}

// flush writes the buckets.
func (b *Bucketer) flush() error {
	err := bucketTable.Write(b.bucketSink, b.buckets)
	b.buckets = b.buckets[:0]
	b.normalized = b.normalized[:0]
	return err
}

// add adds a row for the delay that a hop contributes to a flow. caseNS is the delay of the flow in the link
// case.
func (b *Bucketer) add(at *tables.FlowAtHop, ns float64, caseNS int64) {
	b.rows = tables.AppendContribution(b.rows, tables.ContributionRow{
		Contribution: tables.Contribution{
			FlowRow: at.FlowRow, Hop: at.Hop, Hops: at.Hops, LinkID: at.LinkID, DelayNS: ns,
		},
		CaseDelayNS: caseNS,
	})
}

// bucketLink divides the flows of a link into buckets and, if contributions are wanted, draws them.
func (b *Bucketer) bucketLink(hops []linksim.HopDelay) {
	order := b.sortBySize(hops)
	normalized := b.normalized[len(b.normalized)-len(order):]
	least := int64(0)
	for first, n := 0, int32(0); first < len(order); n++ {
		sizes := b.sizes[first:]
		sizes = sizes[:bucketEnd(sizes, least)]
		end := first + len(sizes)
		delays := normalized[first:end]
		bucket := bucketRow{
			LinkID: hops[0].LinkID, Bucket: n, N: int64(len(delays)), Delays: delays,
			SizeMinBytes: sizes[0], SizeMaxBytes: sizes[len(sizes)-1],
		}
		bucket.compareHalves(delays, sizes)
		b.delays.sort(delays)
		if b.contributionSink != nil {
			for k := first; k < end; k++ {
				h := &hops[order[k]]
				b.add(&h.FlowAtHop, b.draw(h.FlowID, h.Hop, delays)*b.packets[k], h.FCTNS-h.IdealNS)
			}
		}
		b.buckets = append(b.buckets, bucket)
		least = bucket.SizeMaxBytes + 1
		first = end
	}
}

// sortBySize returns the indexes of the hops in the order of the sizes of their flows. It sets sizes and
// packets, and appends the packet-normalized delays to normalized, in this order.
func (b *Bucketer) sortBySize(hops []linksim.HopDelay) []int32 {
	order := b.sorter.Order(len(hops), func(i int) uint64 { return uint64(hops[i].SizeBytes) })
	b.sizes = columns.Resize(b.sizes, len(order))
	b.packets = columns.Resize(b.packets, len(order))
	b.normalized = columns.Grow(b.normalized, len(order))
	for k, i := range order {
		h := &hops[i]
		b.sizes[k] = h.SizeBytes
		b.packets[k] = float64(b.model.Params.Packets(h.SizeBytes))
		b.normalized = append(b.normalized, float64(h.FCTNS-h.IdealNS)/b.packets[k])
	}
	return order
}

// compareHalves computes the mean delays of the small and the large flows of a bucket, whose sizes are in
// order. Large flows are larger than the geometric mean of the smallest and the largest flow.
func (r *bucketRow) compareHalves(delays []float64, sizes []int64) {
	middle := math.Sqrt(float64(r.SizeMinBytes) * float64(r.SizeMaxBytes))
	small := sort.Search(len(delays), func(i int) bool { return float64(sizes[i]) > middle })
	r.LargeN = int64(len(delays) - small)
	r.SmallDelay = mean(delays[:small])
	r.LargeDelay = mean(delays[small:])
}

// mean returns 0 for no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// bucketEnd returns how many of the remaining flows, in order of size, belong to the next bucket: the
// smallest number that satisfies both constraints. Flows of equal size share a bucket. The last bucket
// contains all remaining flows.
//
// least is the smallest size that the bucket accepts, which is one byte more than the largest flow of the
// previous bucket, or 0. The spread counts from there, because buckets are contiguous. If it counted from the
// smallest flow of the bucket, flows of a few distinct sizes would never fill one: 10 KB and 400 KB would
// share a bucket. datasets/PAPER.md compares both readings.
func bucketEnd(sizes []int64, least int64) int {
	for end := bucketMin; end < len(sizes); end++ {
		if sizes[end-1] >= bucketSpread*least && sizes[end] != sizes[end-1] {
			return end
		}
	}
	return len(sizes)
}
