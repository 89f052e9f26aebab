package stages

import (
	"cmp"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// Questions about flows that are not in the workload are answered from what happened to flows that
// are: at each link of its path the asked flow takes the place of a donor, a flow that crossed the link.

// LinkFlows are the flows that cross one link, in start order, ready to find donors among. It serves
// one goroutine and can be read into again.
type LinkFlows struct {
	rows, sizes, starts []int64
	sorter              sorter
	order               []int32 // by size
	buckets             []linkBucket
}

// A linkBucket is a bucket: a stretch of order, up to end.
type linkBucket struct {
	end     int
	largest int64 // size
	inTime  bool  // the stretch has been put in start order
}

// LinkFlowColumns names the columns of table hops that Read reads.
func LinkFlowColumns() []string { return []string{"link_id", "flow_row", "size_bytes", "start_ns"} }

// Read takes the flows of the link from table hops; rows of other links are passed over.
func (l *LinkFlows) Read(link int32, hops schema.Batches) error {
	l.rows, l.sizes, l.starts = l.rows[:0], l.sizes[:0], l.starts[:0]
	err := columns.ForEach(hops, func(rec arrow.Record) error {
		row, size, start := columns.Int64s(rec, "flow_row"), columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns")
		for i, id := range columns.Int32s(rec, "link_id") {
			if id == link {
				l.rows, l.sizes, l.starts = append(l.rows, row[i]), append(l.sizes, size[i]), append(l.starts, start[i])
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
		l.buckets = append(l.buckets, linkBucket{end: first, largest: l.sizes[l.order[first-1]]})
	}
	return nil
}

// Len is the number of flows.
func (l *LinkFlows) Len() int { return len(l.rows) }

// Flow is a flow's row in table flows, its size and its start.
func (l *LinkFlows) Flow(i int32) (row, sizeBytes, startNS int64) {
	return l.rows[i], l.sizes[i], l.starts[i]
}

// Bucket lists, in start order, the flows of the bucket that a flow of that size belongs to (paper,
// §3.3): the first whose largest flow is not smaller, or the last. There must be a flow. The answer is
// valid until the next Read.
func (l *LinkFlows) Bucket(sizeBytes int64) []int32 {
	b := min(len(l.buckets)-1, sort.Search(len(l.buckets), func(b int) bool { return l.buckets[b].largest >= sizeBytes }))
	first := 0
	if b > 0 {
		first = l.buckets[b-1].end
	}
	bucket := l.order[first:l.buckets[b].end]
	if !l.buckets[b].inTime {
		slices.Sort(bucket)
		l.buckets[b].inTime = true
	}
	return bucket
}

// Aligned is the donor for a flow of that size that comes at the moment: of the bucket of its size, the
// last that had come by then (the first of all, before any had). It is what the asked flow finds on the
// link: flows that come later are as much news to it as it is to them. The flow in row except is no
// donor; -1 excepts none. There is a donor unless the bucket holds nothing else.
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
