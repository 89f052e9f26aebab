package stages

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/stages/topology"
)

// Where the method is known to be weak. Each kind of weakness has one measure and one threshold.
const (
	// A link is called loaded from here on: a queue's wait grows with 1 / (1 - load), 2.5 times of an
	// idle link's at 60%, and so does what is wrong about it.
	loadedLink = 0.6

	// Shares of flows that cross two loaded links, by estimator, from which on there is a warning. Of the
	// 14 scenarios of the paper's kind that were held against ns-3, the one with 28% of such flows has p50
	// off by 7% under estimator Flow, those with up to 10% have no percentile off by more than 6%. Under
	// Independent the four with 4% and more have p99 off by 20% and more, those with less by 12% at most.
	loadedTwiceFlow        = 0.2
	loadedTwiceIndependent = 0.02

	// One link with more than half of what delays the slowest flows: what is wrong about its case is not
	// evened out by others. Half is what "most of it" means, not a fitted number.
	fanInShare = 0.5

	// How far the last pass may have moved the waits in the switches, relative to their sum. In the
	// scenarios that were tried a pass moves them by a bit more than a third of the pass before (22% → 8%,
	// 12% → 5%, 6% → 2%), so all that are to come by 0.6 of the last one: from 20% on, by 12% of the waits.
	unsettledShare = 0.2
)

// A Weakness is one row of table warnings.
type Weakness struct {
	Kind      string
	Measure   float64 // a share; negative: there was nothing to measure
	Threshold float64
	Link      int32 // -1: none
	Warning   string
}

// A WeaknessFinder watches the flows of a scenario go by, a chunk at a time. It serves one goroutine.
type WeaknessFinder struct {
	net       *topology.Network
	estimator Estimator
	load      []float64 // by link
	limit     float64   // slowdown from which on a flow is one of the slowest

	flows, loadedTwice int64
	tailNS             float64
	tailOfLink         []float64
	tailOfPair         map[[2]int32]float64 // of a link and the one that feeds it

	tail []bool // of the chunk
	hot  []uint8
}

type tailHop struct {
	delayNS float64
	link    int32
	set     bool
}

// NewWeaknessFinder prepares for a scenario whose slowest flows have at least that slowdown; stats is
// table link_stats of the estimate.
func NewWeaknessFinder(n *topology.Network, e Estimator, slowest float64, stats schema.Batches) (*WeaknessFinder, error) {
	w := &WeaknessFinder{net: n, estimator: e, limit: slowest, load: make([]float64, len(n.Links)), tailOfLink: make([]float64, len(n.Links)), tailOfPair: map[[2]int32]float64{}}
	return w, columns.ForEach(stats, func(rec arrow.Record) error {
		load := columns.Float64s(rec, "load")
		for i, link := range columns.Int32s(rec, "link_id") {
			w.load[link] = load[i]
		}
		return nil
	})
}

// TailColumns and TailHopColumns name the columns of tables slowdowns and hop_contributions that Watch
// reads.
func TailColumns() []string { return []string{"flow_row", "slowdown"} }

// TailHopColumns names the columns of table hop_contributions.
func TailHopColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "delay_ns"} }

// Watch takes one chunk of flows, rows firstRow to firstRow+rows of table flows, and their hops, in any
// order; other rows are passed over.
func (w *WeaknessFinder) Watch(firstRow, rows int64, slowdowns, contributions schema.Batches) error {
	n := int(rows)
	w.tail, w.hot = resize(w.tail, n), resize(w.hot, n)
	clear(w.tail)
	clear(w.hot)
	var tail []int64
	err := columns.ForEach(slowdowns, func(rec arrow.Record) error {
		slowdown := columns.Float64s(rec, "slowdown")
		for i, row := range columns.Int64s(rec, "flow_row") {
			if row < firstRow || row >= firstRow+rows {
				continue
			}
			w.flows++
			if slowdown[i] >= w.limit && slowdown[i] > 1 {
				w.tail[row-firstRow] = true
				tail = append(tail, row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	hops := map[int64][]tailHop{} // of the slowest flows
	err = columns.ForEach(contributions, func(rec arrow.Record) error {
		hop, count, link, delay := columns.Int16s(rec, "hop"), columns.Int16s(rec, "hops"), columns.Int32s(rec, "link_id"), columns.Float64s(rec, "delay_ns")
		for i, row := range columns.Int64s(rec, "flow_row") {
			f := row - firstRow
			if f < 0 || f >= rows {
				continue
			}
			if w.load[link[i]] >= loadedLink && w.hot[f] < 2 {
				if w.hot[f]++; w.hot[f] == 2 {
					w.loadedTwice++
				}
			}
			if w.tail[f] {
				if hop[i] < 0 || hop[i] >= count[i] {
					return fmt.Errorf("hop_contributions: flow row %d has hop %d of %d", row, hop[i], count[i])
				}
				if hops[row] == nil {
					hops[row] = make([]tailHop, count[i])
				}
				hops[row][hop[i]] = tailHop{delay[i], link[i], true}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range tail { // in order, so that sums have the same bits every time
		before := tailHop{}
		for _, h := range hops[row] {
			w.tailNS += h.delayNS
			w.tailOfLink[h.link] += h.delayNS
			if before.set {
				w.tailOfPair[[2]int32{before.link, h.link}] += before.delayNS + h.delayNS
			}
			before = h
		}
	}
	return nil
}

// Weaknesses answers what was found. moved is how far the last pass moved the waits (Moved); negative
// if there was one pass only. It is of no account for estimator Independent.
func (w *WeaknessFinder) Weaknesses(moved float64) []Weakness {
	var out []Weakness
	threshold := loadedTwiceFlow
	if w.estimator == Independent {
		threshold = loadedTwiceIndependent
	}
	if share := float64(w.loadedTwice) / float64(max(1, w.flows)); share > threshold {
		out = append(out, Weakness{"loaded twice", share, threshold, -1, fmt.Sprintf(
			"%.0f%% of the flows cross two links that are loaded above %.0f%%: what such links do to each other is known only in part, and the percentiles, p50 above all, tend to be too high", 100*share, 100*loadedLink)})
	}
	if link, share := w.dominant(); share > fanInShare {
		l := &w.net.Links[link]
		out = append(out, Weakness{"fan-in", share, fanInShare, link, fmt.Sprintf(
			"link %d, %d → %d, and the link that feeds it most have %.0f%% of the delay of the slowest 1%% of flows: p99 and beyond rest on one link case", link, l.Src, l.Dst, 100*share)})
	}
	if w.estimator == Flow && moved < 0 {
		out = append(out, Weakness{"unsettled", -1, unsettledShare, -1, "one pass only: no link has been told what packets met at the others, and waits tend to be too long"})
	} else if w.estimator == Flow && moved > unsettledShare {
		out = append(out, Weakness{"unsettled", moved, unsettledShare, -1, fmt.Sprintf(
			"the last pass moved the waits in the switches by %.0f%%: more passes (--passes auto) would move the percentiles further", 100*moved)})
	}
	return out
}

// dominant is the link that, alone or with one that feeds it, has the largest share of the delay of the
// slowest flows.
func (w *WeaknessFinder) dominant() (link int32, share float64) {
	most := -1.0
	for id, ns := range w.tailOfLink {
		if ns > most {
			link, most = int32(id), ns
		}
	}
	for pair, ns := range w.tailOfPair {
		if ns > most || ns == most && pair[1] < link {
			link, most = pair[1], ns
		}
	}
	if w.tailNS <= 0 {
		return link, 0
	}
	return link, most / w.tailNS
}

// MovedColumns names the columns of table link_stats that Moved reads.
func MovedColumns() []string { return []string{"link_id", "packets_sent", "mean_wait_ns"} }

// Moved compares table link_stats of two passes: how much the waits in the queues of switches changed,
// link by link, as a share of their sum in the later pass. Hosts have no queue that other hosts fill.
func Moved(n *topology.Network, before, after schema.Batches) (float64, error) {
	sum := func(in schema.Batches) ([]float64, error) {
		waits := make([]float64, len(n.Links))
		err := columns.ForEach(in, func(rec arrow.Record) error {
			packets, wait := columns.Int64s(rec, "packets_sent"), columns.Float64s(rec, "mean_wait_ns")
			for i, link := range columns.Int32s(rec, "link_id") {
				if !n.FromHost(link) {
					waits[link] = float64(packets[i]) * wait[i]
				}
			}
			return nil
		})
		return waits, err
	}
	old, err := sum(before)
	if err != nil {
		return 0, err
	}
	now, err := sum(after)
	if err != nil {
		return 0, err
	}
	var all, changed float64
	for i := range now {
		all += now[i]
		changed += max(now[i]-old[i], old[i]-now[i])
	}
	if all == 0 {
		return 0, nil
	}
	return changed / all, nil
}

// WeaknessRecord is the rows as a batch of table warnings, which the caller releases.
func WeaknessRecord(rows []Weakness) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema.Warnings.Arrow())
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.StringBuilder).Append(r.Kind)
		if r.Measure < 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Float64Builder).Append(r.Measure)
		}
		b.Field(2).(*array.Float64Builder).Append(r.Threshold)
		if r.Link < 0 {
			b.Field(3).AppendNull()
		} else {
			b.Field(3).(*array.Int32Builder).Append(r.Link)
		}
		b.Field(4).(*array.StringBuilder).Append(r.Warning)
	}
	return b.NewRecord()
}
