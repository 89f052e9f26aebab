package stages

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/simkernel"
	"parsimon/stages/topology"
)

// Conditions under which the estimate is known to be less accurate. Each has one measure and one threshold.
const (
	// A link counts as loaded from this load on. Waits in a queue grow with 1 / (1 - load), at 60% to 2.5
	// times those of an idle link, and errors grow with them.
	loadedLink = 0.6

	// Fraction of flows that cross two loaded links, by estimator. Of the 14 scenarios of the paper's kind
	// that were compared with ns-3 under estimator Flow, the one at 28% has a p50 off by 7%; those up to 10%
	// have no percentile off by more than 6%. Under Independent, the four at 4% and more have a p99 off by
	// 20% and more; those below, by 12% at most.
	loadedTwiceFlow        = 0.2
	loadedTwiceIndependent = 0.02

	// Fraction of the slowest flows' delay on one link. Beyond half, errors of its case are not averaged out
	// by others. The value is the meaning of "most", not fitted.
	fanInShare = 0.5

	// Change of the waits in switches by the last pass, relative to their sum. In the scenarios that were
	// tried, a pass changes waits by a bit more than a third of the change of the pass before (22% then 8%,
	// 12% then 5%, 6% then 2%), and so all later passes together by 0.6 of the last change: at the threshold,
	// by 12% of the waits.
	unsettledShare = 0.2

	// Change of the delay of the slowest 1% of flows by the last pass. By the same rule, later passes change it by
	// 0.6 of that: at the threshold by 3%, as much as an estimate may be off in the networks it was made for.
	tailUnsettledShare = 0.05
)

// Weakness is one row of table warnings.
type Weakness struct {
	Kind      string
	Measure   float64 // a fraction; negative: not measured
	Threshold float64
	Link      int32 // -1: none
	Warning   string
}

// WeaknessFinder measures, on the flows of an estimate, the conditions under which estimates are less
// accurate. It reads the flows a chunk at a time and is used by one goroutine at a time.
type WeaknessFinder struct {
	net         *topology.Network
	estimator   Estimator
	transport   simkernel.Transport
	links       *linkTraffic
	minSlowdown float64 // of the slowest flows

	flows, loadedTwice int64
	slowestNS          float64 // delay of the slowest flows
	slowestNSOfLink    []float64
	slowestNSOfPair    map[[2]int32]float64 // of a link together with the link before it

	slowest []bool  // by flow of the chunk
	loaded  []uint8 // by flow of the chunk: loaded links on its path, counted up to 2
}

// delayedHop is a hop of one of the slowest flows.
type delayedHop struct {
	delayNS float64
	link    int32
	set     bool
}

// NewWeaknessFinder returns a finder for an estimate whose slowest flows have at least the given slowdown.
// stats is table link_stats.
func NewWeaknessFinder(n *topology.Network, p simkernel.Params, e Estimator, minSlowdown float64,
	stats schema.Batches) (*WeaknessFinder, error) {
	links, err := readLinkTraffic(n, &p, stats)
	return &WeaknessFinder{
		net: n, transport: p.Transport, estimator: e, minSlowdown: minSlowdown, links: links,
		slowestNSOfLink: make([]float64, len(n.Links)), slowestNSOfPair: map[[2]int32]float64{},
	}, err
}

// TailColumns names the columns of table slowdowns that Watch reads.
func TailColumns() []string { return []string{"flow_row", "slowdown"} }

// TailHopColumns names the columns of table hop_contributions that Watch reads.
func TailHopColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "delay_ns"} }

// Watch reads one chunk of flows, rows firstRow to firstRow+rows-1 of table flows: their rows of tables
// slowdowns and hop_contributions, in any order. Rows of other flows are skipped.
func (w *WeaknessFinder) Watch(firstRow, rows int64, slowdowns, contributions schema.Batches) error {
	n := int(rows)
	w.slowest, w.loaded = resize(w.slowest, n), resize(w.loaded, n)
	clear(w.slowest)
	clear(w.loaded)
	slowest, err := w.readSlowdowns(firstRow, rows, slowdowns)
	if err != nil {
		return err
	}
	hops, err := w.readHops(firstRow, rows, contributions)
	if err != nil {
		return err
	}
	for _, row := range slowest { // in file order, so that sums always have the same bits
		before := delayedHop{}
		for _, h := range hops[row] {
			w.slowestNS += h.delayNS
			w.slowestNSOfLink[h.link] += h.delayNS
			if before.set {
				w.slowestNSOfPair[[2]int32{before.link, h.link}] += before.delayNS + h.delayNS
			}
			before = h
		}
	}
	return nil
}

// readSlowdowns counts the chunk's flows and returns the rows of the slowest ones, in file order.
func (w *WeaknessFinder) readSlowdowns(firstRow, rows int64, in schema.Batches) (slowest []int64, err error) {
	err = columns.ForEach(in, func(rec arrow.Record) error {
		slowdown := columns.Float64s(rec, "slowdown")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if row < firstRow || row >= firstRow+rows {
				continue
			}
			w.flows++
			if slowdown[i] >= w.minSlowdown && slowdown[i] > 1 {
				w.slowest[row-firstRow] = true
				slowest = append(slowest, row)
			}
		}
		return nil
	})
	return slowest, err
}

// readHops counts the chunk's flows that cross two loaded links and returns the hops of the slowest flows, by
// flow row.
func (w *WeaknessFinder) readHops(firstRow, rows int64, in schema.Batches) (map[int64][]delayedHop, error) {
	hops := map[int64][]delayedHop{}
	return hops, columns.ForEach(in, func(rec arrow.Record) error {
		hop, count := columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops")
		link, delay := columns.Int32s(rec, "link_id"), columns.Float64s(rec, "delay_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows {
				continue
			}
			if w.links.load[link[i]] >= loadedLink && w.loaded[f] < 2 {
				if w.loaded[f]++; w.loaded[f] == 2 {
					w.loadedTwice++
				}
			}
			if !w.slowest[f] {
				continue
			}
			if hop[i] < 0 || hop[i] >= count[i] {
				return fmt.Errorf("hop_contributions: flow row %d has hop %d of %d", row, hop[i], count[i])
			}
			if hops[row] == nil {
				hops[row] = make([]delayedHop, count[i])
			}
			hops[row][hop[i]] = delayedHop{delay[i], link[i], true}
		}
		return nil
	})
}

// Weaknesses returns the conditions that exceed their thresholds. moved compares the last two passes; nil if there
// was one pass only. Estimator Independent ignores it.
func (w *WeaknessFinder) Weaknesses(moved *Movement) []Weakness {
	var out []Weakness
	threshold := loadedTwiceFlow
	if w.estimator == Independent {
		threshold = loadedTwiceIndependent
	}
	if share := float64(w.loadedTwice) / float64(max(1, w.flows)); share > threshold {
		out = append(out, Weakness{"loaded twice", share, threshold, -1, fmt.Sprintf(
			"%.0f%% of the flows cross two links that are loaded above %.0f%%: what such links do to each other "+
				"is known only in part, and the percentiles, p50 above all, tend to be too high",
			100*share, 100*loadedLink)})
	}
	if link, share := w.dominant(); share > fanInShare {
		out = append(out, Weakness{"fan-in", share, fanInShare, link, fmt.Sprintf(
			"link %d, %s, and the link that feeds it most have %.0f%% of the delay of the slowest 1%% of flows: "+
				"p99 and beyond rest on one link case", link, w.net.LinkName(link), 100*share)})
	}
	if w.estimator == Flow {
		out = append(out, w.unsettled(moved)...)
	}
	return append(append(out, w.links.overloads(w.net)...), w.links.transportRange(w.transport)...)
}

// unsettled returns the rows about passes that ended too early. moved is as for Weaknesses.
func (w *WeaknessFinder) unsettled(moved *Movement) (out []Weakness) {
	if moved == nil {
		return []Weakness{{"unsettled", -1, unsettledShare, -1,
			"one pass only: no link case has received feedback from the others, and waits tend to be too long"}}
	}
	if moved.Share > unsettledShare {
		out = append(out, Weakness{"unsettled", moved.Share, unsettledShare, -1, fmt.Sprintf(
			"the last pass moved the waits in the switches by %.0f%%: more passes (--passes auto) "+
				"would move the percentiles further", 100*moved.Share)})
	}
	if share := w.tailMoved(moved); math.Abs(share) > tailUnsettledShare {
		out = append(out, Weakness{"tail unsettled", math.Abs(share), tailUnsettledShare, -1, fmt.Sprintf(
			"the last pass moved the delay of the slowest 1%% of flows by about %+.0f%%: more passes (--passes auto) "+
				"would move p99 further", 100*share)})
	}
	return out
}

// tailMoved estimates by what fraction the last pass changed the delay of the slowest flows: their delay at each
// link is taken to follow the mean wait there.
func (w *WeaknessFinder) tailMoved(moved *Movement) float64 {
	if w.slowestNS <= 0 {
		return 0
	}
	var changedNS float64
	for id, ns := range w.slowestNSOfLink {
		changedNS += ns * moved.Links[id]
	}
	return changedNS / w.slowestNS
}

// dominant returns the link that, alone or together with one link before it, has the largest fraction of the
// slowest flows' delay.
func (w *WeaknessFinder) dominant() (link int32, share float64) {
	most := -1.0
	for id, ns := range w.slowestNSOfLink {
		if ns > most {
			link, most = int32(id), ns
		}
	}
	for pair, ns := range w.slowestNSOfPair {
		if ns > most || ns == most && pair[1] < link {
			link, most = pair[1], ns
		}
	}
	if w.slowestNS <= 0 {
		return link, 0
	}
	return link, most / w.slowestNS
}

// WeaknessRecord returns the rows as a batch of table warnings, which the caller releases.
func WeaknessRecord(rows []Weakness) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Warnings.Arrow())
	defer b.Release()
	field := func(name string) array.Builder { return b.Field(schema.Warnings.Index(name)) }
	for _, r := range rows {
		field("kind").(*array.StringBuilder).Append(r.Kind)
		if r.Measure < 0 {
			field("measure").AppendNull()
		} else {
			field("measure").(*array.Float64Builder).Append(r.Measure)
		}
		field("threshold").(*array.Float64Builder).Append(r.Threshold)
		if r.Link < 0 {
			field("link_id").AppendNull()
		} else {
			field("link_id").(*array.Int32Builder).Append(r.Link)
		}
		field("warning").(*array.StringBuilder).Append(r.Warning)
	}
	return b.NewRecord()
}
