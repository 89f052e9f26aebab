package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// The paper's bucketing constants (§3.3): a bucket holds at least bucketMin delays, and its largest
// flow is at least bucketSpread times its smallest.
const (
	bucketMin    = 100
	bucketSpread = 2
)

// BucketStats says what one partition's bucketing did.
type BucketStats struct {
	Links, Buckets, Contributions int64
}

// Bucketer turns the hop delays of a partition of links into distributions and into what each hop
// contributes to each of its flows. One Bucketer serves one goroutine.
type Bucketer struct {
	params simkernel.Params
	seed   uint64
	sorter sorter

	link                         []int32
	flowRow, flowID, size, delay []int64
	hop, hops                    []int16
	contribution                 []float64
	normalised                   []float64 // of one link, by size, then ascending within buckets
	buckets                      bucketColumns
}

// BucketColumns names the columns of table hop_delays that Bucket reads.
func BucketColumns() []string {
	return []string{"link_id", "flow_row", "flow_id", "hop", "hops", "size_bytes", "fct_ns", "ideal_ns"}
}

// NewBucketer prepares a bucketer. The seed keys the draws.
func NewBucketer(p simkernel.Params, seed uint64) *Bucketer {
	return &Bucketer{params: p, seed: seed}
}

// Bucket reads a partition's hop_delays (by link) and writes delay_buckets, by link and size, and
// hop_contributions, by flow: for each flow at each hop one delay drawn from the bucket of the flow's
// size (paper, §3.4), times its packets, a draw keyed by seed, flow and hop, so that it is the same in
// any partition. Without a sink for contributions it writes buckets only.
func (b *Bucketer) Bucket(ctx context.Context, in schema.Batches, buckets, contributions schema.Sink) (BucketStats, error) {
	var stats BucketStats
	if err := b.gather(in); err != nil {
		return stats, err
	}
	b.contribution = resize(b.contribution, len(b.link))
	for from := 0; from < len(b.link); {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		to := from + 1
		for to < len(b.link) && b.link[to] == b.link[from] {
			to++
		}
		n := b.bucketLink(from, to)
		stats.Links++
		stats.Buckets += int64(n)
		if b.buckets.rows() >= columns.BatchRows/16 {
			if err := b.buckets.flush(buckets); err != nil {
				return stats, err
			}
		}
		from = to
	}
	if err := b.buckets.flush(buckets); err != nil {
		return stats, err
	}
	if contributions == nil {
		return stats, nil
	}
	stats.Contributions = int64(len(b.link))
	return stats, b.emit(contributions)
}

func (b *Bucketer) gather(in schema.Batches) error {
	b.link, b.flowRow, b.flowID, b.size, b.delay = b.link[:0], b.flowRow[:0], b.flowID[:0], b.size[:0], b.delay[:0]
	b.hop, b.hops = b.hop[:0], b.hops[:0]
	return columns.ForEach(in, func(rec arrow.Record) error {
		b.link = append(b.link, columns.Int32s(rec, "link_id")...)
		b.flowRow = append(b.flowRow, columns.Int64s(rec, "flow_row")...)
		b.flowID = append(b.flowID, columns.Int64s(rec, "flow_id")...)
		b.size = append(b.size, columns.Int64s(rec, "size_bytes")...)
		b.hop = append(b.hop, columns.Int16s(rec, "hop")...)
		b.hops = append(b.hops, columns.Int16s(rec, "hops")...)
		ideal := columns.Int64s(rec, "ideal_ns")
		for i, fct := range columns.Int64s(rec, "fct_ns") {
			if fct < ideal[i] {
				return fmt.Errorf("hop_delays: flow %d on link %d has an FCT of %d ns below its ideal %d ns", columns.Int64s(rec, "flow_id")[i], columns.Int32s(rec, "link_id")[i], fct, ideal[i])
			}
			b.delay = append(b.delay, fct-ideal[i])
		}
		return nil
	})
}

// bucketLink buckets the rows from..to, all of one link, and draws their contributions. It answers
// the number of buckets.
func (b *Bucketer) bucketLink(from, to int) int {
	size := b.size[from:to]
	order := b.sorter.order(to-from, func(i int) uint64 { return uint64(size[i]) })
	b.normalised = b.normalised[:0]
	for _, i := range order {
		b.normalised = append(b.normalised, float64(b.delay[from+int(i)])/float64(b.params.Packets(size[i])))
	}
	n := 0
	for first := 0; first < len(order); n++ {
		end := bucketEnd(len(order)-first, func(i int) int64 { return size[order[first+i]] }) + first
		members, delays := order[first:end], b.normalised[first:end]
		slices.Sort(delays)
		for _, i := range members {
			row := from + int(i)
			draw := rng.New(b.seed, rng.Bucket, uint64(b.flowID[row]), uint64(b.hop[row]))
			b.contribution[row] = delays[draw.IntN(len(delays))] * float64(b.params.Packets(b.size[row]))
		}
		b.buckets.append(b.link[from], n, size[members[0]], size[members[len(members)-1]], delays)
		first = end
	}
	return n
}

// bucketEnd is how many of the n flows that are left, smallest first, the next bucket takes: as few
// as satisfy both constraints, except that equal sizes stay together and the last bucket takes what
// is left.
func bucketEnd(n int, size func(i int) int64) int {
	for end := 1; end < n; end++ {
		if end >= bucketMin && size(end-1) >= bucketSpread*size(0) && size(end) != size(end-1) {
			return end
		}
	}
	return n
}

// emit writes the contributions ordered by flow.
func (b *Bucketer) emit(sink schema.Sink) error {
	if len(b.link) == 0 {
		return nil
	}
	least := slices.Min(b.flowRow)
	order := b.sorter.order(len(b.link), func(i int) uint64 { return uint64(b.flowRow[i]-least)<<10 | uint64(b.hop[i]) })
	var out contributionRows
	for at := 0; at < len(order); at += columns.BatchRows {
		for _, i := range order[at:min(len(order), at+columns.BatchRows)] {
			out.append(b.flowRow[i], b.hop[i], b.hops[i], b.link[i], b.contribution[i], 0)
		}
		if err := out.flush(sink); err != nil {
			return err
		}
	}
	return nil
}

// contributionRows are the rows of table hop_contributions under construction.
type contributionRows struct {
	flowRow     []int64
	hop, hops   []int16
	link        []int32
	delay, wait []float64
}

func (c *contributionRows) append(flowRow int64, hop, hops int16, link int32, delayNS, waitNS float64) {
	c.flowRow, c.hop, c.hops = append(c.flowRow, flowRow), append(c.hop, hop), append(c.hops, hops)
	c.link, c.delay, c.wait = append(c.link, link), append(c.delay, delayNS), append(c.wait, waitNS)
}

func (c *contributionRows) flush(out schema.Sink) error {
	if len(c.flowRow) == 0 {
		return nil
	}
	err := columns.Write(out, schema.HopContributions, len(c.flowRow), columns.Of(c.flowRow), columns.Of(c.hop), columns.Of(c.hops), columns.Of(c.link), columns.Of(c.delay), columns.Of(c.wait))
	c.reset()
	return err
}

func (c *contributionRows) reset() {
	c.flowRow, c.hop, c.hops, c.link = c.flowRow[:0], c.hop[:0], c.hops[:0], c.link[:0]
	c.delay, c.wait = c.delay[:0], c.wait[:0]
}

// bucketColumns are the rows of table delay_buckets under construction.
type bucketColumns struct {
	link, bucket []int32
	lo, hi, n    []int64
	delays       *array.ListBuilder
}

func (c *bucketColumns) rows() int { return len(c.link) }

func (c *bucketColumns) append(link int32, bucket int, lo, hi int64, delays []float64) {
	if c.delays == nil {
		c.delays = array.NewListBuilderWithField(memory.DefaultAllocator, schema.DelayBuckets.Columns[schema.DelayBuckets.Index("delays")].Type.(*arrow.ListType).ElemField())
	}
	c.link, c.bucket = append(c.link, link), append(c.bucket, int32(bucket))
	c.lo, c.hi, c.n = append(c.lo, lo), append(c.hi, hi), append(c.n, int64(len(delays)))
	c.delays.Append(true)
	c.delays.ValueBuilder().(*array.Float64Builder).AppendValues(delays, nil)
}

func (c *bucketColumns) flush(out schema.Sink) error {
	if len(c.link) == 0 {
		return nil
	}
	err := columns.Write(out, schema.DelayBuckets, len(c.link), columns.Of(c.link), columns.Of(c.bucket), columns.Of(c.lo), columns.Of(c.hi), columns.Of(c.n), c.delays.NewArray())
	c.link, c.bucket, c.lo, c.hi, c.n = c.link[:0], c.bucket[:0], c.lo[:0], c.hi[:0], c.n[:0]
	return err
}
