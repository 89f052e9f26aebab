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
	draw := b.draws.Substream(uint64(flowID), uint64(hop))
	return delays[draw.IntN(len(delays))]
}

type drawBucket struct {
	Link     int32     `col:"link_id"`
	MaxBytes int64     `col:"size_max_bytes"`
	Delays   []float64 `col:"delays"`
}

// DrawInput is the input of Draw: the representative of each link (linksim.ReadClusters), the rows of table
// hops of the links, and the complete table delay_buckets, sorted by link and size.
type DrawInput struct {
	Representatives []int32
	Hops, Buckets   schema.Batches
}

// Draw draws the delay that each hop contributes to each flow, if links are clustered. It draws as AddLink
// does, but from the buckets of the link's representative. A flow that is larger than all flows of the
// representative draws from the last bucket. Draw writes table hop_contributions by flow_row and hop.
func (b *Bucketer) Draw(ctx context.Context, links step.Range, in DrawInput, out schema.Sink) error {
	of := in.Representatives
	wanted := map[int32]bool{}
	byLink := map[int32][]drawBucket{}
	for l := links.Lo; l < links.Hi; l++ {
		wanted[of[l]] = true
	}
	err := columns.Each(in.Buckets, func(b *drawBucket) error {
		if wanted[b.Link] {
			byLink[b.Link] = append(byLink[b.Link], drawBucket{b.Link, b.MaxBytes, slices.Clone(b.Delays)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.rows = b.rows[:0]
	link := int32(-1)
	var buckets []drawBucket // of the representative of link
	err = columns.Each(in.Hops, func(r *tables.FlowAtHop) error {
		if int64(r.LinkID) < links.Lo || int64(r.LinkID) >= links.Hi {
			return nil
		}
		if r.LinkID != link {
			link = r.LinkID
			buckets = byLink[of[link]]
		}
		if len(buckets) == 0 {
			return fmt.Errorf("link %d has representative %d, which has no rows in delay_buckets", r.LinkID,
				of[r.LinkID])
		}
		at := sort.Search(len(buckets)-1, func(i int) bool { return buckets[i].MaxBytes >= r.SizeBytes })
		drawn := b.draw(r.FlowID, r.Hop, buckets[at].Delays)
		b.add(r, drawn*float64(b.model.Params.Packets(r.SizeBytes)), 0)
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
