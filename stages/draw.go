package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/rng"
)

// A Drawer draws what each hop contributes to each flow from the delay distributions of links that
// answer for others. One Drawer serves one goroutine.
type Drawer struct {
	params simkernel.Params
	seed   uint64
	of     []int32 // by link: its representative
	bucket map[int32][]drawBucket
	b      Bucketer // its rows and their order
}

type drawBucket struct {
	largest int64
	delays  []float64
}

// NewDrawer prepares a drawer. of is, by link id, the link whose buckets are the link's (ReadClusters).
func NewDrawer(p simkernel.Params, seed uint64, of []int32) *Drawer {
	return &Drawer{params: p, seed: seed, of: of}
}

// DrawColumns and DrawBucketColumns name the columns of tables hops and delay_buckets that Draw reads.
func DrawColumns() []string {
	return []string{"link_id", "flow_row", "flow_id", "hop", "hops", "size_bytes"}
}

// DrawBucketColumns names the columns of table delay_buckets.
func DrawBucketColumns() []string { return []string{"link_id", "size_max_bytes", "delays"} }

// Draw reads the hops of the links in [lo, hi) and all delay_buckets, by link and size, and writes
// hop_contributions, by flow: the very draws that Bucket makes, from the buckets of the link's
// representative. A flow larger than all that the representative saw draws from the last bucket.
func (d *Drawer) Draw(ctx context.Context, lo, hi int32, hops, buckets schema.Batches, out schema.Sink) error {
	if err := d.readBuckets(lo, hi, buckets); err != nil {
		return err
	}
	b := &d.b
	b.link, b.flowRow, b.hop, b.hops, b.contribution = b.link[:0], b.flowRow[:0], b.hop[:0], b.hops[:0], b.contribution[:0]
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		link, row, id := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "flow_id")
		hop, of, size := columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops"), columns.Int64s(rec, "size_bytes")
		for i, l := range link {
			if l < lo || l >= hi {
				continue
			}
			have := d.bucket[d.of[l]]
			if len(have) == 0 {
				return fmt.Errorf("link %d is represented by link %d, which has no delay_buckets", l, d.of[l])
			}
			at, _ := slices.BinarySearchFunc(have, size[i], func(x drawBucket, s int64) int {
				if x.largest < s {
					return -1
				}
				return 1
			})
			delays := have[min(at, len(have)-1)].delays
			draw := rng.New(d.seed, rng.Bucket, uint64(id[i]), uint64(hop[i]))
			b.link, b.flowRow, b.hop, b.hops = append(b.link, l), append(b.flowRow, row[i]), append(b.hop, hop[i]), append(b.hops, of[i])
			b.contribution = append(b.contribution, delays[draw.IntN(len(delays))]*float64(d.params.Packets(size[i])))
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return b.emit(out)
}

// readBuckets takes the buckets that the links in [lo, hi) draw from.
func (d *Drawer) readBuckets(lo, hi int32, in schema.Batches) error {
	d.bucket = map[int32][]drawBucket{}
	wanted := map[int32]bool{}
	for l := lo; l < hi; l++ {
		wanted[d.of[l]] = true
	}
	return columns.ForEach(in, func(rec arrow.Record) error {
		link, largest := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "size_max_bytes")
		lists := columns.Named(rec, "delays").(*array.List)
		values := lists.ListValues().(*array.Float64).Float64Values()
		for i, l := range link {
			if wanted[l] {
				from, to := lists.ValueOffsets(i)
				d.bucket[l] = append(d.bucket[l], drawBucket{largest[i], slices.Clone(values[from:to])})
			}
		}
		return nil
	})
}
