package stages

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Imputer supplies the observations of links whose cases are not simulated. Where links are clustered, one
// link of each cluster, its representative, is simulated, and estimator Flow needs observations of every flow
// on the others too. Each of those flows takes the observations of a donor, a flow of the representative:
//
//  1. from the bucket of its size (paper, §3.3): a packet's wait depends on how many packets come with it,
//     not on how many of the link's flows are larger;
//  2. of these the one whose contention on its link was most like its own (contention);
//  3. of these, many where links are idle, the one whose start is nearest.
//
// So a burst on one link takes the observations of a burst on the other, whenever that was. Where one link is
// busier than the other, more of its flows find donors of high contention. Two links of one cluster on the
// path of one flow are imputed independently.
//
// An Imputer is used by one goroutine at a time.
type Imputer struct {
	net            *topology.Network
	params         simkernel.Params
	loads          *Loads
	representative []int32 // by link id
	settled        Settled // representatives that were not simulated in this pass

	receivers, donors linkRows // rows of the links to impute; of their representatives
	donor             []int32  // by place in receivers.order: place in donors.order
	index             donorIndex
	contention        contention
	sourceBps         func(uplink int32) int64

	observed   columns.Arena // of the donors, as encoded in the table
	observedAt []int32       // by place in donors.order: place in observed
	donated    []simkernel.Block
	blocks     []simkernel.Block
	out        observationRows
}

// NewImputer returns an imputer. of is the representative of each link (ReadClusters).
func NewImputer(n *topology.Network, p simkernel.Params, loads *Loads, of []int32) *Imputer {
	return &Imputer{net: n, params: p, loads: loads, representative: of, sourceBps: loads.sources(n, &p)}
}

// ImputeColumns names the columns of table hops that Impute reads.
func ImputeColumns() []string {
	return []string{"link_id", "flow_row", "hop", "hops", "size_bytes", "start_ns", "first_link"}
}

// Settle makes the imputer skip links whose representatives have settled.
func (l *Imputer) Settle(links Settled) { l.settled = links }

// IsImputed reports whether a link has another link as representative, one that has not settled.
func (l *Imputer) IsImputed(id int32) bool {
	_, settled := l.settled[l.representative[id]]
	return isImputed(l.representative, id) && !settled
}

func isImputed(of []int32, id int32) bool { return of != nil && of[id] >= 0 && of[id] != id }

// Impute writes table imputed_observations for those links in [lo, hi) that IsImputed selects: rows as in table
// hop_observations, by flow_row and hop.
//
// hops has the rows of table hops of these links, donorHops those of their representatives, and observations
// the representatives' rows of table hop_observations; rows of other links are skipped. The result for a
// link is a function of its own rows and of its representative's. It is an error if a representative carries
// no flows or if its observations are not those of its hops.
func (l *Imputer) Impute(ctx context.Context, lo, hi int32, hops, donorHops, observations schema.Batches,
	out schema.Sink) error {
	isDonor := map[int32]bool{}
	for id := lo; id < hi; id++ {
		if l.IsImputed(id) {
			isDonor[l.representative[id]] = true
		}
	}
	if err := l.receivers.read(hops, len(l.net.Links),
		func(id int32) bool { return id >= lo && id < hi && l.IsImputed(id) }); err != nil {
		return err
	}
	if err := l.donors.read(donorHops, len(l.net.Links), func(id int32) bool { return isDonor[id] }); err != nil {
		return err
	}
	if err := l.match(ctx, lo, hi); err != nil {
		return err
	}
	if err := l.readObservations(observations, isDonor); err != nil {
		return err
	}
	l.out.reset()
	for at, i := range l.receivers.order {
		row := &l.receivers.rows[i]
		if err := l.impute(row, int(l.donor[at])); err != nil {
			return err
		}
		l.out.append(row.flowRow, row.hop, row.hops, row.link)
	}
	return l.out.flush(schema.ImputedObservations, out)
}

// match finds the donor of every row of the receivers, representative by representative.
func (l *Imputer) match(ctx context.Context, lo, hi int32) error {
	l.donor = resize(l.donor, len(l.receivers.order))
	var ids []int32
	for id := lo; id < hi; id++ {
		if l.IsImputed(id) {
			ids = append(ids, id)
		}
	}
	of := l.representative
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(cmp.Compare(of[a], of[b]), cmp.Compare(a, b)) })
	indexed := int32(-1)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := l.receivers.of(id)
		if from == to {
			continue
		}
		if of[id] != indexed {
			indexed = of[id]
			first, end := l.donors.of(indexed)
			if first == end {
				return fmt.Errorf("link %d has representative %d, which carries no flows", id, indexed)
			}
			l.index.build(&l.donors, first, end, l.contentionOf(&l.donors, indexed), l.params.WindowBytes)
		}
		for k, c := range l.contentionOf(&l.receivers, id) {
			row := &l.receivers.rows[l.receivers.order[from+k]]
			l.donor[from+k] = int32(l.index.nearest(row.size, &c, row.start))
		}
	}
	return nil
}

// contentionOf returns the contention of a link's flows, in start order; valid until the next call.
func (l *Imputer) contentionOf(rows *linkRows, id int32) []flowContention {
	from, to := rows.of(id)
	l.contention.reset(&l.params, l.loads.AvailableBps(&l.params, l.net.Links[id]))
	for _, i := range rows.order[from:to] {
		r := &rows.rows[i]
		l.contention.add(r.size, r.start, l.sourceBps(r.firstLink))
	}
	return l.contention.done()
}

// readObservations reads the observations of the donors' rows.
func (l *Imputer) readObservations(in schema.Batches, isDonor map[int32]bool) error {
	l.observed.Reset()
	l.observedAt = resize(l.observedAt, len(l.donors.order))
	next := slices.Clone(l.donors.starts)
	n := 0
	err := columns.ForEach(in, func(rec arrow.Record) error {
		row, observed := columns.Int64s(rec, "flow_row"), columns.Bytes(rec, "observed")
		for i, id := range columns.Int32s(rec, "link_id") {
			if !isDonor[id] {
				continue
			}
			at := next[id]
			if at >= l.donors.starts[id+1] || l.donors.rows[l.donors.order[at]].flowRow != row[i] {
				return fmt.Errorf("hop_observations: flow row %d is on link %d, which is not so in table hops", row[i],
					id)
			}
			next[id]++
			l.observedAt[at] = int32(n)
			l.observed.Add(observed.Value(i))
			n++
		}
		return nil
	})
	if err == nil && n != len(l.donors.order) {
		err = fmt.Errorf("hop_observations: %d rows for representatives of other links, table hops has %d", n,
			len(l.donors.order))
	}
	return err
}

// impute appends the observations of a donor, adapted to the number of packets of the row's flow.
func (l *Imputer) impute(row *linkRow, donor int) error {
	observed := l.observed.At(int(l.observedAt[donor]))
	from := &l.donors.rows[l.donors.order[donor]]
	fromPackets, toPackets := l.params.Packets(from.size), l.params.Packets(row.size)
	if fromPackets == toPackets || len(observed) == 0 {
		l.out.observed.Add(observed)
		return nil
	}
	var err error
	if l.donated, err = readBlocks(l.donated[:0], observed); err != nil {
		return fmt.Errorf("hop_observations: flow row %d, link %d: %w", from.flowRow, from.link, err)
	}
	for int64(len(l.donated)) < l.params.Layout().Blocks(fromPackets) {
		l.donated = append(l.donated, simkernel.Block{})
	}
	l.blocks = resample(l.params.Layout(), l.blocks[:0], l.donated, fromPackets, toPackets)
	l.out.observed.Bytes = appendBlocks(l.out.observed.Bytes, l.blocks)
	l.out.observed.Done()
	return nil
}

// resample appends the blocks of a flow of toPackets packets that observes what the donor's fromPackets
// packets did: the first packet what the first did, the last what the last did, and each in between what the
// packet at the same fraction of the flow did.
func resample(layout simkernel.BlockLayout, blocks, donated []simkernel.Block,
	fromPackets, toPackets int64) []simkernel.Block {
	packet := int64(0)
	for b := range layout.Blocks(toPackets) {
		n := layout.Packets(toPackets, b)
		var x simkernel.Block
		var wait int64
		for k := range n {
			p := int64(0)
			if toPackets > 1 {
				p = packet * (fromPackets - 1) / (toPackets - 1)
			}
			d := &donated[layout.Of(p)]
			wait += int64(d.WaitNS)
			x.Marks |= d.Marks >> simkernel.MarkBit(p) & 1 << simkernel.MarkBit(packet)
			if k == 0 {
				x.Hint, x.SentAt = d.Hint, d.SentAt
			}
			packet++
		}
		x.WaitNS = int32((wait + n/2) / n)
		blocks = append(blocks, x)
	}
	return blocks
}
