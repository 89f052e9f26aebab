package independent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/step"
	"parsimon/stages/tables"
)

// draw draws the delay per packet of a flow at a hop, in ns. delays are the sorted delays per packet of its
// bucket.
func (b *Bucketer) draw(flowID int64, hop int16, delays []float64) float64 {
	if delays[len(delays)-1] == 0 {
		return 0
	}
	return delays[b.place(flowID, hop, len(delays))]
}

// place draws the place of a flow's delay at a hop among n sorted delays.
func (b *Bucketer) place(flowID int64, hop int16, n int) int {
	draw := b.draws.Substream(uint64(flowID), uint64(hop))
	return draw.IntN(n)
}

// LinkBuckets has the buckets of a link, in the order of flow size.
type LinkBuckets struct {
	maxBytes []int64
	buckets  []drawnBucket
}

// A drawnBucket has the delays of a bucket. Most delays are 0.
type drawnBucket struct {
	zeros  int
	delays []float64 // above 0, ascending
}

// ReadBuckets reads table delay_buckets, which is sorted by link and size. It returns the buckets of each
// link.
func ReadBuckets(in schema.Batches) (map[int32]*LinkBuckets, error) {
	type bucket struct {
		Link     int32     `col:"link_id"`
		MaxBytes int64     `col:"size_max_bytes"`
		Delays   []float64 `col:"delays"`
	}
	byLink := map[int32]*LinkBuckets{}
	return byLink, columns.Each(in, func(b *bucket) error {
		of := byLink[b.Link]
		if of == nil {
			of = &LinkBuckets{}
			byLink[b.Link] = of
		}
		zeros := sort.Search(len(b.Delays), func(i int) bool { return b.Delays[i] > 0 })
		of.maxBytes = append(of.maxBytes, b.MaxBytes)
		of.buckets = append(of.buckets, drawnBucket{zeros, slices.Clone(b.Delays[zeros:])})
		return nil
	})
}

// of returns the bucket of a flow size.
func (b *LinkBuckets) of(sizeBytes int64) *drawnBucket {
	at, _ := slices.BinarySearch(b.maxBytes, sizeBytes)
	return &b.buckets[min(at, len(b.buckets)-1)]
}

// DrawInput is the input of Draw: the representative of each link (linksim.ReadClusters), the buckets of all
// representatives (ReadBuckets), and the rows of table hops of the links.
type DrawInput struct {
	Representatives []int32
	Buckets         map[int32]*LinkBuckets
	Hops            schema.Batches
}

// Draw draws the delay that each hop contributes to each flow, if links are clustered. It draws as AddLink
// does, but from the buckets of the link's representative. A flow that is larger than all flows of the
// representative draws from the last bucket. Draw writes table hop_contributions by flow_row and hop.
func (b *Bucketer) Draw(ctx context.Context, links step.Range, in DrawInput, out schema.Sink) error {
	of := in.Representatives
	b.rows = b.rows[:0]
	link := int32(-1)
	var buckets *LinkBuckets // of the representative of link
	err := columns.Each(in.Hops, func(r *tables.FlowAtHop) error {
		if int64(r.LinkID) < links.Lo || int64(r.LinkID) >= links.Hi {
			return nil
		}
		if r.LinkID != link {
			link = r.LinkID
			buckets = in.Buckets[of[link]]
		}
		if buckets == nil {
			return fmt.Errorf("link %d has representative %d, which has no rows in delay_buckets", r.LinkID,
				of[r.LinkID])
		}
		bucket := buckets.of(r.SizeBytes)
		if len(bucket.delays) == 0 {
			return nil
		}
		at := b.place(r.FlowID, r.Hop, bucket.zeros+len(bucket.delays)) - bucket.zeros
		if at >= 0 {
			b.add(r, bucket.delays[at]*float64(b.model.Params.Packets(r.SizeBytes)), 0)
		}
		return nil
	})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	return b.writeByFlow(out)
}

func (b *Bucketer) writeByFlow(out schema.Sink) error {
	places := b.sorter.ByFlow(len(b.rows), func(i int) (int64, int16) {
		return b.rows[i].FlowRow, b.rows[i].Hop
	})
	return tables.HopContributions.WriteOrdered(out, b.rows, places, nil)
}
