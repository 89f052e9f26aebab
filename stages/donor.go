package stages

import (
	"cmp"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// LinkFlows are the flows that cross one link, in start order. Queries about flows that are not in the
// workload use it to find donors: at each link of its path, such a flow takes the delay of a flow that
// crossed the link. It is used by one goroutine at a time and can be read into again.
type LinkFlows struct {
	rows, sizes, starts []int64
	sorter              sorter
	order               []int32 // by size
	buckets             []sizeRun
}

// sizeRun is a bucket of flows: the part of an order by size that ends at end.
type sizeRun struct {
	end         int
	largest     int64 // bytes
	inTimeOrder bool  // whether the part has been sorted by start
}

// LinkFlowColumns names the columns of table hops that Read reads.
func LinkFlowColumns() []string { return []string{"link_id", "flow_row", "size_bytes", "start_ns"} }

// Read reads the flows of a link from table hops; rows of other links are skipped.
func (l *LinkFlows) Read(link int32, hops schema.Batches) error {
	l.rows, l.sizes, l.starts = l.rows[:0], l.sizes[:0], l.starts[:0]
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		row, size, start := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "size_bytes"),
			columns.Int64s(rec, "start_ns")
		for i, id := range columns.Int32s(rec, "link_id") {
			if id == link {
				l.rows, l.sizes, l.starts = append(l.rows, row[i]), append(l.sizes, size[i]),
					append(l.starts, start[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.order = l.sorter.order(len(l.sizes), func(i int) uint64 { return uint64(l.sizes[i]) })
	l.buckets = l.buckets[:0]
	for first := 0; first < len(l.order); {
		first += bucketEnd(len(l.order)-first, func(i int) int64 { return l.sizes[l.order[first+i]] })
		l.buckets = append(l.buckets, sizeRun{end: first, largest: l.sizes[l.order[first-1]]})
	}
	return nil
}

// Len returns the number of flows.
func (l *LinkFlows) Len() int { return len(l.rows) }

// Flow returns flow i's row in table flows, its size and its start.
func (l *LinkFlows) Flow(i int32) (row, sizeBytes, startNS int64) {
	return l.rows[i], l.sizes[i], l.starts[i]
}

// bucketOf returns the first bucket whose largest flow is not smaller than the size, or the last bucket, and
// where it begins in the order by size.
func bucketOf(buckets []sizeRun, sizeBytes int64) (bucket *sizeRun, from int) {
	b := min(len(buckets)-1, sort.Search(len(buckets), func(b int) bool { return buckets[b].largest >= sizeBytes }))
	if b > 0 {
		from = buckets[b-1].end
	}
	return &buckets[b], from
}

// Bucket returns, in start order, the flows of the bucket that a flow of the given size belongs to (paper,
// §3.3): the first bucket whose largest flow is not smaller, or the last one. The link must have a flow. The
// result is valid until the next Read.
func (l *LinkFlows) Bucket(sizeBytes int64) []int32 {
	b, from := bucketOf(l.buckets, sizeBytes)
	flows := l.order[from:b.end]
	if !b.inTimeOrder {
		slices.Sort(flows)
		b.inTimeOrder = true
	}
	return flows
}

// Aligned returns the donor for a flow of the given size that starts at momentNS: in the bucket of its size,
// the last flow that has started by then; before any has, the first. That flow met the queue that the new
// flow would find. The flow in row except is not eligible; -1 excludes none. ok is false if the bucket has
// no other flow.
func (l *LinkFlows) Aligned(sizeBytes, momentNS, except int64) (donor int32, ok bool) {
	bucket := l.Bucket(sizeBytes)
	at, _ := slices.BinarySearchFunc(bucket, momentNS, func(i int32, moment int64) int {
		if l.starts[i] <= moment {
			return -1
		}
		return cmp.Compare(l.starts[i], moment)
	})
	for at--; at >= 0; at-- {
		if l.rows[bucket[at]] != except {
			return bucket[at], true
		}
	}
	for _, i := range bucket {
		if l.rows[i] != except {
			return i, true
		}
	}
	return 0, false
}
