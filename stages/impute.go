package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Lending. A link whose case another link's answers for has flows of its own, and estimator Flow needs
// to know what each of them met there. So each takes what a flow of the representative met, its donor:
// of the bucket of its size (paper, §3.3; a packet's wait is a matter of how many packets come with it,
// not of how many of the link's flows are larger), the one whose company on the link was most like its
// own (crowd); of those whose company was the same, as it is for most where links are idle, the one that
// came nearest in time. So a burst on the one link is told by a burst on the other, whenever that came;
// little is lost where the one is busier than the other, since more of its flows find company; and two
// links that one represents, on the path of one flow, are met each as it is.

// A Lender finds donors and hands on what they met. One Lender serves one goroutine.
type Imputer struct {
	net    *topology.Network
	params simkernel.Params
	loads  *Loads
	of     []int32

	own, theirs imputeRows // of the links that are lent to; of their representatives
	donor       []int32    // by place in own.order: its donor's place in theirs.order
	index       donorIndex
	sorter      sorter
	contention  contention
	source      func(first int32) int64
	observed    columns.Arena // what the representatives' flows met, as read
	metAt       []int32       // by place in theirs.order
	donated     []simkernel.Block
	blocks      []simkernel.Block
	out         observationRows
}

// NewLender prepares a lender. of is, by link id, the link that answers for it (ReadClusters).
func NewImputer(n *topology.Network, p simkernel.Params, loads *Loads, of []int32) *Imputer {
	return &Imputer{net: n, params: p, loads: loads, of: of, source: loads.sources(n, &p)}
}

// LendColumns names the columns of table hops that Lend reads.
func ImputeColumns() []string {
	return []string{"link_id", "flow_row", "hop", "hops", "size_bytes", "start_ns", "first_link"}
}

// Borrows says whether another link's case answers for the link.
func (l *Imputer) IsImputed(id int32) bool { return isImputed(l.of, id) }

func isImputed(of []int32, id int32) bool { return of != nil && of[id] >= 0 && of[id] != id }

// Lend writes, in the columns and order of table hop_observations, what the flows met on those links in
// [lo, hi) that others answer for. It reads those links' rows of table hops, their representatives',
// and their representatives' rows of table hop_observations; other rows are passed over. A flow's answer is
// a function of the two links' rows alone.
func (l *Imputer) Impute(ctx context.Context, lo, hi int32, hops, theirHops, waits schema.Batches, out schema.Sink) error {
	answering := map[int32]bool{}
	for id := lo; id < hi; id++ {
		if l.IsImputed(id) {
			answering[l.of[id]] = true
		}
	}
	if err := l.own.read(hops, len(l.net.Links), func(id int32) bool { return id >= lo && id < hi && l.IsImputed(id) }); err != nil {
		return err
	}
	if err := l.theirs.read(theirHops, len(l.net.Links), func(id int32) bool { return answering[id] }); err != nil {
		return err
	}
	if err := l.match(ctx, lo, hi); err != nil {
		return err
	}
	if err := l.readBlocks(waits, answering); err != nil {
		return err
	}
	l.out.reset()
	for at, i := range l.own.order {
		row := &l.own.rows[i]
		if err := l.impute(row, int(l.donor[at])); err != nil {
			return err
		}
		l.out.row, l.out.hop, l.out.hops = append(l.out.row, row.row), append(l.out.hop, row.hop), append(l.out.hops, row.hops)
		l.out.link = append(l.out.link, row.link)
	}
	return l.out.flush(out)
}

// match finds every flow's donor.
func (l *Imputer) match(ctx context.Context, lo, hi int32) error {
	l.donor = resize(l.donor, len(l.own.order))
	var ids []int32
	for id := lo; id < hi; id++ {
		if l.IsImputed(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(cmp.Compare(l.of[a], l.of[b]), cmp.Compare(a, b)) })
	last := int32(-1)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := l.own.of(id)
		if from == to {
			continue
		}
		if l.of[id] != last {
			last = l.of[id]
			if first, end := l.theirs.of(last); first == end {
				return fmt.Errorf("link %d is represented by link %d, which carries no flows", id, last)
			}
			l.prepare(last)
		}
		for k, c := range l.meet(&l.own, id) {
			row := &l.own.rows[l.own.order[from+k]]
			l.donor[from+k] = int32(l.index.nearest(row.size, &c, row.start))
		}
	}
	return nil
}

// meet is the company that each flow of a link keeps, in start order; valid until the next call.
func (l *Imputer) meet(of *imputeRows, id int32) []contender {
	from, to := of.of(id)
	l.contention.reset(&l.params, l.loads.AvailableBps(&l.params, l.net.Links[id]))
	for _, i := range of.order[from:to] {
		r := &of.rows[i]
		l.contention.add(r.size, r.start, l.source(r.first))
	}
	return l.contention.done()
}

// prepare makes the index of a representative's flows.
func (l *Imputer) prepare(id int32) {
	x := &l.index
	from, to := l.theirs.of(id)
	rows := func(k int32) *imputeRow { return &l.theirs.rows[l.theirs.order[from+int(k)]] }
	x.first, x.window = from, l.params.WindowBytes
	contender := l.meet(&l.theirs, id)
	x.order = append(x.order[:0], l.sorter.order(to-from, func(k int) uint64 { return uint64(rows(int32(k)).size) })...)
	x.starts, x.state = resize(x.starts, to-from), resize(x.state, to-from)
	x.buckets = x.buckets[:0]
	for k := range x.starts {
		x.starts[k] = rows(int32(k)).start
	}
	for first := 0; first < len(x.order); {
		end := first + bucketEnd(len(x.order)-first, func(i int) int64 { return rows(x.order[first+i]).size })
		b := linkBucket{end: end, largest: rows(x.order[end-1]).size}
		x.buckets = append(x.buckets, b)
		bucket := x.order[first:end]
		for _, k := range bucket {
			x.state[k] = x.stateIn(b, &contender[k])
		}
		slices.SortFunc(bucket, func(a, b int32) int { // in start order to begin with
			return cmp.Or(cmp.Compare(x.state[a], x.state[b]), cmp.Compare(a, b))
		})
		first = end
	}
}

// A donorIndex finds donors among the flows of one link, which are numbered in start order.
type donorIndex struct {
	first   int     // place of flow 0 in the order of the links' rows
	order   []int32 // by bucket of sizes, company, and start
	buckets []linkBucket
	window  int64
	state   []float32
	starts  []int64
}

// stateIn is the one number by which flows of a bucket have kept the same company. A flow of a window or
// less meets what is there when it comes; a longer one what comes while it lasts, too.
func (x *donorIndex) stateIn(b linkBucket, c *contender) float32 {
	if b.largest <= x.window {
		return float32(c.ahead)
	}
	return float32(c.slowed() + c.ahead/2)
}

// nearest is the place of the donor of a flow of that size, company and start.
func (x *donorIndex) nearest(size int64, c *contender, start int64) int {
	b := min(len(x.buckets)-1, sort.Search(len(x.buckets), func(b int) bool { return x.buckets[b].largest >= size }))
	first := 0
	if b > 0 {
		first = x.buckets[b-1].end
	}
	bucket, state := x.order[first:x.buckets[b].end], x.stateIn(x.buckets[b], c)
	at, ok := slices.BinarySearchFunc(bucket, state, func(k int32, f float32) int { return cmp.Compare(x.state[k], f) })
	if !ok {
		if at == len(bucket) || at > 0 && state-x.state[bucket[at-1]] <= x.state[bucket[at]]-state {
			at--
		}
		state = x.state[bucket[at]]
		at, _ = slices.BinarySearchFunc(bucket, state, func(k int32, f float32) int { return cmp.Compare(x.state[k], f) })
	}
	end := at + sort.Search(len(bucket)-at, func(k int) bool { return x.state[bucket[at+k]] > state })
	alike := bucket[at:end]
	k, _ := slices.BinarySearchFunc(alike, start, func(k int32, s int64) int { return cmp.Compare(x.starts[k], s) })
	if k == len(alike) || k > 0 && start-x.starts[alike[k-1]] <= x.starts[alike[k]]-start {
		k--
	}
	return x.first + int(alike[k])
}

// readWaits takes what the representatives' flows met.
func (l *Imputer) readBlocks(waits schema.Batches, answering map[int32]bool) error {
	l.observed.Reset()
	l.metAt = resize(l.metAt, len(l.theirs.order))
	next := slices.Clone(l.theirs.starts)
	n := 0
	err := columns.ForEach(waits, func(rec arrow.Record) error {
		link, row := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row")
		observed := columns.Named(rec, "observed").(*array.Binary)
		for i, id := range link {
			if !answering[id] {
				continue
			}
			at := next[id]
			if at >= l.theirs.starts[id+1] || l.theirs.rows[l.theirs.order[at]].row != row[i] {
				return fmt.Errorf("table hop_observations has flow row %d on link %d where table hops has not", row[i], id)
			}
			next[id]++
			l.metAt[at] = int32(n)
			l.observed.Add(observed.Value(i))
			n++
		}
		return nil
	})
	if err == nil && n != len(l.theirs.order) {
		err = fmt.Errorf("table hop_observations has %d rows of the links that answer for others, table hops has %d", n, len(l.theirs.order))
	}
	return err
}

// lend appends what a flow met, if it met what its donor did.
func (l *Imputer) impute(row *imputeRow, donor int) error {
	observed := l.observed.At(int(l.metAt[donor]))
	from, to := l.params.Packets(l.theirs.rows[l.theirs.order[donor]].size), l.params.Packets(row.size)
	if from == to || len(observed) == 0 {
		l.out.observed.Add(observed)
		return nil
	}
	var err error
	if l.donated, err = readBlocks(l.donated[:0], observed); err != nil {
		return fmt.Errorf("hop_observations: flow row %d, link %d: %w", l.theirs.rows[l.theirs.order[donor]].row, l.of[row.link], err)
	}
	for int64(len(l.donated)) < simkernel.Blocks(from) {
		l.donated = append(l.donated, simkernel.Block{})
	}
	l.blocks = stretch(l.blocks[:0], l.donated, from, to)
	l.out.observed.Bytes = appendBlocks(l.out.observed.Bytes, l.blocks)
	l.out.observed.Done()
	return nil
}

// stretch appends what the packets of a flow of so many meet if they meet what those of another, of
// other many, did: the first what the first did, the last what the last, and each between what that
// at the same share of the way did.
func stretch(blocks, donated []simkernel.Block, from, to int64) []simkernel.Block {
	packet := int64(0)
	for b := range simkernel.Blocks(to) {
		n := simkernel.BlockPackets(to, b)
		var x simkernel.Block
		var wait int64
		for k := range n {
			p := int64(0)
			if to > 1 {
				p = packet * (from - 1) / (to - 1)
			}
			d := &donated[simkernel.BlockOf(p)]
			wait += int64(d.WaitNS)
			x.Marks |= d.Marks >> simkernel.MarkBit(p) & 1 << simkernel.MarkBit(packet)
			if k == 0 {
				x.Hint = d.Hint
			}
			packet++
		}
		x.WaitNS = int32((wait + n/2) / n)
		blocks = append(blocks, x)
	}
	return blocks
}

// lendRows are rows of table hops, findable by link.
type imputeRows struct {
	rows   []imputeRow
	order  []int32 // by link, each link's in start order
	starts []int32 // by link: where it begins in order
}

type imputeRow struct {
	row, size, start int64
	link, first      int32 // the row's and its host's own
	hop, hops        int16
}

// read takes the rows of the wanted links.
func (h *imputeRows) read(in schema.Batches, links int, want func(int32) bool) error {
	h.rows = h.rows[:0]
	h.starts = resize(h.starts, links+1)
	clear(h.starts)
	err := columns.ForEach(in, func(rec arrow.Record) error {
		link, row, hop, hops := columns.Int32s(rec, "link_id"), columns.Int64s(rec, "flow_row"), columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops")
		size, start, first := columns.Int64s(rec, "size_bytes"), columns.Int64s(rec, "start_ns"), columns.Int32s(rec, "first_link")
		last, wanted := int32(-1), false
		for i, id := range link {
			if id != last {
				last, wanted = id, want(id)
			}
			if wanted {
				h.rows = append(h.rows, imputeRow{row[i], size[i], start[i], id, first[i], hop[i], hops[i]})
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

// of is where a link's rows stand in order.
func (h *imputeRows) of(id int32) (from, to int) { return int(h.starts[id]), int(h.starts[id+1]) }
