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

// The paper's bucketing constants (§3.3): a bucket has at least bucketMin delays, and its largest flow is at
// least bucketSpread times as large as its smallest.
const (
	bucketMin    = 100
	bucketSpread = 2
)

// BucketStats counts what the bucketing of some links did.
type BucketStats struct {
	Links         int64 `json:"links"`
	Buckets       int64 `json:"buckets"`
	Contributions int64 `json:"contributions"`
}

// Bucketer turns the hop delays of links into distributions, and draws from them what each hop contributes to
// each flow. It reuses its memory and is used by one goroutine at a time.
type Bucketer struct {
	params simkernel.Params
	seed   uint64
	sorter sorter

	rows                  contributionRows // of all hops; delay is drawn
	flowID, size, delayNS []int64          // of the same hops
	normalised            []float64        // delays of one link by size, ascending within buckets
	buckets               bucketRows
}

// BucketColumns names the columns of table hop_delays that Bucket reads.
func BucketColumns() []string {
	return []string{"link_id", "flow_row", "flow_id", "hop", "hops", "size_bytes", "fct_ns", "ideal_ns"}
}

// NewBucketer returns a bucketer. The seed keys the draws.
func NewBucketer(p simkernel.Params, seed uint64) *Bucketer {
	return &Bucketer{params: p, seed: seed}
}

// Bucket reads table hop_delays of some links, sorted by link, and writes tables delay_buckets, by link and
// size, and hop_contributions, by flow_row and hop.
//
// A hop's contribution to a flow is one packet-normalised delay, drawn from the bucket of the flow's size
// (paper, §3.4), times the flow's packets. The draw is keyed by seed, flow and hop, so it does not depend on
// how links are partitioned. A nil sink for contributions writes buckets only.
func (b *Bucketer) Bucket(ctx context.Context, in schema.Batches,
	buckets, contributions schema.Sink) (BucketStats, error) {
	var stats BucketStats
	if err := b.read(in); err != nil {
		return stats, err
	}
	link := b.rows.link
	for from := 0; from < len(link); {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		to := from + 1
		for to < len(link) && link[to] == link[from] {
			to++
		}
		stats.Buckets += int64(b.bucketLink(from, to))
		stats.Links++
		if len(b.buckets.link) >= columns.BatchRows/16 {
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
	stats.Contributions = int64(len(link))
	return stats, b.rows.writeByFlow(contributions)
}

func (b *Bucketer) read(in schema.Batches) error {
	r := &b.rows
	r.reset()
	b.flowID, b.size, b.delayNS = b.flowID[:0], b.size[:0], b.delayNS[:0]
	err := columns.ForEach(in, func(rec arrow.Record) error {
		link, id := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_id")
		r.link, b.flowID = append(r.link, link...), append(b.flowID, id...)
		r.flowRow = append(r.flowRow, columns.Int64s(rec, "flow_row")...)
		r.hop = append(r.hop, columns.Int16s(rec, "hop")...)
		r.hops = append(r.hops, columns.Int16s(rec, "hops")...)
		b.size = append(b.size, columns.Int64s(rec, "size_bytes")...)
		ideal := columns.Int64s(rec, "ideal_ns")
		for i, fct := range columns.Int64s(rec, "fct_ns") {
			if fct < ideal[i] {
				return fmt.Errorf("hop_delays: flow %d on link %d has an FCT of %d ns, below its ideal FCT of %d ns",
					id[i], link[i], fct, ideal[i])
			}
			b.delayNS = append(b.delayNS, fct-ideal[i])
		}
		return nil
	})
	r.delay, r.wait = resize(r.delay, len(r.link)), resize(r.wait, len(r.link))
	clear(r.wait)
	return err
}

// bucketLink buckets the rows from..to-1, all of one link, and draws their contributions. It returns the
// number of buckets.
func (b *Bucketer) bucketLink(from, to int) int {
	size := b.size[from:to]
	order := b.sorter.order(to-from, func(i int) uint64 { return uint64(size[i]) })
	b.normalised = b.normalised[:0]
	for _, i := range order {
		b.normalised = append(b.normalised, float64(b.delayNS[from+int(i)])/float64(b.params.Packets(size[i])))
	}
	n := 0
	for first := 0; first < len(order); n++ {
		end := first + bucketEnd(len(order)-first, func(i int) int64 { return size[order[first+i]] })
		members, delays := order[first:end], b.normalised[first:end]
		slices.Sort(delays)
		for _, i := range members {
			row := from + int(i)
			b.rows.delay[row] = drawDelay(b.seed, b.flowID[row], b.rows.hop[row],
				delays) * float64(b.params.Packets(b.size[row]))
		}
		b.buckets.append(b.rows.link[from], n, size[members[0]], size[members[len(members)-1]], delays)
		first = end
	}
	return n
}

// drawDelay draws the delay of a flow at a hop from those of its bucket, sorted. The draw is keyed by flow and
// hop.
func drawDelay(seed uint64, flowID int64, hop int16, delays []float64) float64 {
	draw := rng.New(seed, rng.Bucket, uint64(flowID), uint64(hop))
	return delays[draw.IntN(len(delays))]
}

// bucketEnd returns how many of the n remaining flows, smallest first, the next bucket takes: as few as
// satisfy both constraints. Equal sizes stay together, and the last bucket takes what remains.
func bucketEnd(n int, size func(i int) int64) int {
	for end := 1; end < n; end++ {
		if end >= bucketMin && size(end-1) >= bucketSpread*size(0) && size(end) != size(end-1) {
			return end
		}
	}
	return n
}

// bucketRows are rows of table delay_buckets under construction.
type bucketRows struct {
	link, bucket []int32
	lo, hi, n    []int64
	delays       *array.ListBuilder
}

func (c *bucketRows) append(link int32, bucket int, lo, hi int64, delays []float64) {
	if c.delays == nil {
		column := schema.DelayBuckets.Columns[schema.DelayBuckets.Index("delays")]
		c.delays = array.NewListBuilderWithField(memory.DefaultAllocator, column.Type.(*arrow.ListType).ElemField())
	}
	c.link, c.bucket = append(c.link, link), append(c.bucket, int32(bucket))
	c.lo, c.hi, c.n = append(c.lo, lo), append(c.hi, hi), append(c.n, int64(len(delays)))
	c.delays.Append(true)
	c.delays.ValueBuilder().(*array.Float64Builder).AppendValues(delays, nil)
}

func (c *bucketRows) flush(out schema.Sink) error {
	if len(c.link) == 0 {
		return nil
	}
	err := columns.Write(out, schema.DelayBuckets, len(c.link), columns.Of(c.link), columns.Of(c.bucket),
		columns.Of(c.lo), columns.Of(c.hi), columns.Of(c.n), c.delays.NewArray())
	c.link, c.bucket, c.lo, c.hi, c.n = c.link[:0], c.bucket[:0], c.lo[:0], c.hi[:0], c.n[:0]
	return err
}
