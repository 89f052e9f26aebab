package stages

import (
	"cmp"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
)

// donorIndex finds donors among the flows of one link, which are numbered in start order.
type donorIndex struct {
	first       int       // place of flow 0 in linkRows.order
	order       []int32   // by bucket, contention and start
	buckets     []sizeRun // of order
	windowBytes int64
	contention  []float32 // by flow
	starts      []int64   // by flow
	sorter      sorter
}

// build indexes the rows at places first..end-1 of the order of rows, whose contentions are given.
func (x *donorIndex) build(rows *linkRows, first, end int, contentions []flowContention, windowBytes int64) {
	n := end - first
	row := func(k int32) *linkRow { return &rows.rows[rows.order[first+int(k)]] }
	x.first, x.windowBytes = first, windowBytes
	x.order = append(x.order[:0], x.sorter.order(n, func(k int) uint64 { return uint64(row(int32(k)).size) })...)
	x.starts, x.contention = resize(x.starts, n), resize(x.contention, n)
	x.buckets = x.buckets[:0]
	for k := range x.starts {
		x.starts[k] = row(int32(k)).start
	}
	for from := 0; from < n; {
		to := from + bucketEnd(n-from, func(i int) int64 { return row(x.order[from+i]).size })
		b := sizeRun{end: to, largest: row(x.order[to-1]).size}
		x.buckets = append(x.buckets, b)
		bucket := x.order[from:to]
		for _, k := range bucket {
			x.contention[k] = x.contentionIn(&b, &contentions[k])
		}
		slices.SortFunc(bucket, func(a, b int32) int {
			return cmp.Or(cmp.Compare(x.contention[a], x.contention[b]), cmp.Compare(a, b))
		})
		from = to
	}
}

// contentionIn returns the one number by which contentions in a bucket are compared. A flow of at most a
// window meets the flows that are there when it starts; a longer one also meets those that start while it
// lasts.
func (x *donorIndex) contentionIn(b *sizeRun, c *flowContention) float32 {
	if b.largest <= x.windowBytes {
		return float32(c.ahead)
	}
	return float32(c.stretchFactor() + c.ahead/2)
}

// nearest returns the place in linkRows.order of the donor for a flow.
func (x *donorIndex) nearest(sizeBytes int64, c *flowContention, startNS int64) int {
	b, from := bucketOf(x.buckets, sizeBytes)
	bucket, wanted := x.order[from:b.end], x.contentionIn(b, c)
	byContention := func(k int32, v float32) int { return cmp.Compare(x.contention[k], v) }
	at, ok := slices.BinarySearchFunc(bucket, wanted, byContention)
	if !ok {
		if at == len(bucket) || at > 0 && wanted-x.contention[bucket[at-1]] <= x.contention[bucket[at]]-wanted {
			at--
		}
		wanted = x.contention[bucket[at]]
		at, _ = slices.BinarySearchFunc(bucket, wanted, byContention)
	}
	end := at + sort.Search(len(bucket)-at, func(k int) bool { return x.contention[bucket[at+k]] > wanted })
	alike := bucket[at:end] // in start order
	k, _ := slices.BinarySearchFunc(alike, startNS, func(k int32, s int64) int { return cmp.Compare(x.starts[k], s) })
	if k == len(alike) || k > 0 && startNS-x.starts[alike[k-1]] <= x.starts[alike[k]]-startNS {
		k--
	}
	return x.first + int(alike[k])
}

// linkRows are rows of table hops by link.
type linkRows struct {
	rows   []linkRow
	order  []int32 // by link; those of a link in start order
	starts []int32 // by link id: its first place in order; one more at the end
}

type linkRow struct {
	flowRow, size, start int64
	link, firstLink      int32
	hop, hops            int16
}

// read reads the rows of the wanted links. Within a link they must come in start order.
func (h *linkRows) read(in schema.Batches, links int, want func(int32) bool) error {
	h.rows = h.rows[:0]
	h.starts = resize(h.starts, links+1)
	clear(h.starts)
	err := columns.ForEach(in, func(rec arrow.Record) error {
		row, hop, hops := columns.Int64s(rec, "flow_row"), columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops")
		size, start, first := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"),
			columns.Int32s(rec, "first_link")
		last, wanted := int32(-1), false
		for i, id := range columns.Int32s(rec, "link_id") {
			if id != last {
				last, wanted = id, want(id)
			}
			if wanted {
				h.rows = append(h.rows, linkRow{row[i], size[i], start[i], id, first[i], hop[i], hops[i]})
				h.starts[id+1]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id := range links {
		h.starts[id+1] += h.starts[id]
	}
	next := slices.Clone(h.starts)
	h.order = resize(h.order, len(h.rows))
	for i := range h.rows {
		at := &next[h.rows[i].link]
		h.order[*at] = int32(i)
		*at++
	}
	return nil
}

// of returns the places in order of a link's rows.
func (h *linkRows) of(id int32) (from, to int) { return int(h.starts[id]), int(h.starts[id+1]) }
