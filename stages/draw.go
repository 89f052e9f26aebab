package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
)

// Drawer draws, for estimator Independent with clustered links, what each hop contributes to each flow from
// the delay distributions of the links' representatives. It is used by one goroutine at a time.
type Drawer struct {
	params         simkernel.Params
	seed           uint64
	representative []int32 // by link id
	buckets        map[int32][]drawBucket
	rows           []contributionRow
	sorter         sorter
}

// drawBucket is one row of table delay_buckets.
type drawBucket struct {
	maxBytes int64
	delays   []float64
}

// NewDrawer returns a drawer. of is the representative of each link (ReadClusters).
func NewDrawer(p simkernel.Params, seed uint64, of []int32) *Drawer {
	return &Drawer{params: p, seed: seed, representative: of}
}

// drawHops is a view of table hops.
type drawHops struct {
	Link    []int32 `col:"link_id"`
	FlowRow []int64 `col:"flow_row"`
	FlowID  []int64 `col:"flow_id"`
	Hop     []int16 `col:"hop"`
	Hops    []int16 `col:"hops"`
	Size    []int64 `col:"size_bytes"`
}

// drawBuckets is a view of table delay_buckets.
type drawBuckets struct {
	Link     []int32     `col:"link_id"`
	MaxBytes []int64     `col:"size_max_bytes"`
	Delays   *array.List `col:"delays"`
}

// DrawColumns names the columns of table hops that Draw reads.
func DrawColumns() []string { return columns.Names[drawHops]() }

// DrawBucketColumns names the columns of table delay_buckets that Draw reads.
func DrawBucketColumns() []string { return columns.Names[drawBuckets]() }

// Draw reads the rows of table hops of the links in [lo, hi) and all of table delay_buckets, by link and size,
// and writes table hop_contributions by flow_row and hop: the same draws as Bucket makes, from the buckets of
// the link's representative. A flow larger than all of the representative's draws from its last bucket.
func (d *Drawer) Draw(ctx context.Context, lo, hi int32, hops, buckets schema.Batches, out schema.Sink) error {
	if err := d.readBuckets(lo, hi, buckets); err != nil {
		return err
	}
	d.rows = d.rows[:0]
	err := columns.Each(hops, func(v *drawHops) error {
		for i, l := range v.Link {
			if l < lo || l >= hi {
				continue
			}
			buckets := d.buckets[d.representative[l]]
			if len(buckets) == 0 {
				return fmt.Errorf("link %d has representative %d, which has no rows in delay_buckets", l,
					d.representative[l])
			}
			at, _ := slices.BinarySearchFunc(buckets, v.Size[i], func(b drawBucket, s int64) int {
				if b.maxBytes < s {
					return -1
				}
				return 1
			})
			delay := drawDelay(d.seed, v.FlowID[i], v.Hop[i], buckets[min(at, len(buckets)-1)].delays)
			d.rows = append(d.rows, contributionRow{v.FlowRow[i], v.Hop[i], v.Hops[i], l,
				delay * float64(d.params.Packets(v.Size[i])), 0})
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return d.sorter.writeByFlow(out, d.rows)
}

// readBuckets reads the buckets that the links in [lo, hi) draw from.
func (d *Drawer) readBuckets(lo, hi int32, in schema.Batches) error {
	d.buckets = map[int32][]drawBucket{}
	wanted := map[int32]bool{}
	for l := lo; l < hi; l++ {
		wanted[d.representative[l]] = true
	}
	return columns.Each(in, func(v *drawBuckets) error {
		values := v.Delays.ListValues().(*array.Float64).Float64Values()
		for i, l := range v.Link {
			if wanted[l] {
				from, to := v.Delays.ValueOffsets(i)
				d.buckets[l] = append(d.buckets[l], drawBucket{v.MaxBytes[i], slices.Clone(values[from:to])})
			}
		}
		return nil
	})
}
