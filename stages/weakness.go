package stages

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/laws"
	"parsimon/stages/topology"
)

// Conditions under which the estimate is known to be less accurate, and contradictions in it. Each has one measure and
// one threshold. Hits and false alarms are measured (datasets/ACCURACY.md, "How honest the intervals are").
const (
	// A link counts as loaded from this load on. Waits in a queue grow with 1 / (1 - load), at 60% to 2.5
	// times those of an idle link, and errors grow with them.
	loadedLink = 0.6

	// Fraction of flows that cross two loaded links, under estimator Independent. Of the 14 scenarios of the paper's
	// kind that were compared with ns-3, the four at 4% and more have a p99 off by 20% and more; those below, by 12% at
	// most. Under Flow the condition says nothing: where it holds, errors are between 3% and 9%, of either sign.
	loadedTwice = 0.02

	// Difference between a percentile of slowdown and the same percentile according to the link cases where flows wait
	// longest, from which on it is a warning: what an estimate must not be off by without a word.
	disagreement = 0.1

	// Fraction of flows whose FCTs contradict a conservation law: as many as are beyond the last percentile that is
	// printed.
	refutedShare = 0.001

	// Change of the waits in switches by the second pass, relative to their sum. In the scenarios that were tried, a pass
	// changes waits by a bit more than a third of the change of the pass before (22% then 8%, 12% then 5%, 6% then 2%),
	// and so all passes that could follow together by 0.6 of the last change: at the threshold, by 12% of the waits.
	unsettledShare = 0.2

	// Change of the delay of the slowest 1% of flows by the second pass. By the same rule, further passes would change it
	// by 0.6 of that: at the threshold by 3%, as much as an estimate may be off in the networks it was made for.
	tailUnsettledShare = 0.05

	// Mean number of links at which one of the slowest 1% of flows, of all or of a size bin, waits (spread) from which on
	// it is a warning. Where a slow flow waits at one link, that link's case knows its delay. Where it waits at many, the
	// delay is a sum of waits that each case knows only as means over blocks of what happens at the others. On the
	// scenarios of datasets/ACCURACY.md it is 1.0 to 1.9, and 3.3 on the chain of six links, whose p99.9 is off by 10%.
	spreadLinks = 2
)

// Weakness is one row of table warnings.
type Weakness struct {
	Kind      string
	Measure   float64 // a fraction; negative: not measured
	Threshold float64
	Link      int32 // -1: none
	Warning   string
}

// WeaknessFinder measures, on the flows of an estimate, the conditions under which estimates are less accurate, and
// holds them against the conservation laws. It reads the flows a chunk at a time, in start order, while goroutines of
// its own check those of the chunk before. It is used by one goroutine at a time.
type WeaknessFinder struct {
	net       *topology.Network
	estimator Estimator
	params    simkernel.Params
	links     *linkTraffic
	laws      *laws.Checker // nil: estimator Independent, which draws FCTs of flows of a kind, not of these flows
	tails     Tails         // slowdowns of the slowest flows

	flows, loadedTwice int64
	slowestNS          float64 // delay of the slowest flows
	slowestNSOfLink    []float64
	windows            windowLimits
	spread             [sizebin.Count + 1]spread // of the slowest flows of each size bin, and of all

	chunk, checked watchedFlows // the one that is read; the one before, which the laws may still be checking
}

// NewWeaknessFinder returns a finder for an estimate with these tails. stats is table link_stats. The caller closes the
// finder.
func NewWeaknessFinder(n *topology.Network, p simkernel.Params, e Estimator, tails Tails,
	stats schema.Batches) (*WeaknessFinder, error) {
	links, err := readLinkTraffic(n, &p, stats)
	w := &WeaknessFinder{
		net: n, params: p, estimator: e, tails: tails, links: links,
		slowestNSOfLink: make([]float64, len(n.Links)),
	}
	if e == Flow {
		w.laws = laws.New(n, p)
	}
	return w, err
}

// TailColumns names the columns of table slowdowns that Watch reads.
func TailColumns() []string {
	return []string{"flow_row", "size_bytes", "start_ns", "fct_ns", "window_ns", "slowdown"}
}

// TailHopColumns names the columns of table hop_contributions that Watch reads.
func TailHopColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "delay_ns"} }

// Watch reads one chunk of flows, rows firstRow to firstRow+rows-1 of table flows: their rows of tables
// slowdowns, in start order, and hop_contributions, in any order. Rows of other flows are skipped. It returns when both
// are read.
func (w *WeaknessFinder) Watch(firstRow, rows int64, slowdowns, contributions schema.Batches) error {
	w.chunk, w.checked = w.checked, w.chunk
	c := &w.chunk
	if err := c.readFlows(firstRow, rows, &w.tails, slowdowns); err != nil {
		return err
	}
	if err := c.readHops(firstRow, rows, contributions); err != nil {
		return err
	}
	for f := range c.flows {
		path, loaded := c.link[f*c.width:(f+1)*c.width], 0
		for len(path) > 0 && path[len(path)-1] < 0 {
			path = path[:len(path)-1]
		}
		for h, id := range path {
			if id < 0 || int(id) >= len(w.net.Links) {
				return fmt.Errorf("hop_contributions: flow row %d has no hop %d", c.flows[f].Row, h)
			}
			if w.links.load[id] >= loadedLink {
				loaded++
			}
			if c.slowest[f] {
				w.slowestNS += c.delayNS[f*c.width+h]
				w.slowestNSOfLink[id] += c.delayNS[f*c.width+h]
			}
		}
		w.addSpread(c.slowest[f], c.slowestOfBin[f], c.flows[f].SizeBytes, c.delayNS[f*c.width:][:len(path)])
		w.flows++
		if loaded > 1 {
			w.loadedTwice++
		}
		c.flows[f].Path = path
		w.windows.add(c.flows[f].FCTNS, c.windowNS[f], path)
	}
	if w.laws == nil {
		return nil
	}
	if err := w.laws.Begin(c.flows); err != nil {
		return fmt.Errorf("slowdowns: %w", err)
	}
	return nil
}

// Close waits for goroutines that check the last chunk.
func (w *WeaknessFinder) Close() {
	if w.laws != nil {
		w.laws.Wait()
	}
}

// spread is over some of the slowest flows.
type spread struct {
	flows int64   // those that are delayed behind their host's uplink
	links float64 // sum of the numbers of links at which they wait
}

// addSpread adds the number of links at which one of the slowest flows waits: (Σ delay)² / Σ delay², which is n for
// equal delays at n links. The host's uplink does not count, where flows wait for those of their own host.
func (w *WeaknessFinder) addSpread(ofAll, ofBin bool, sizeBytes int64, delayNS []float64) {
	if !ofAll && !ofBin {
		return
	}
	var sum, squares float64
	for _, ns := range delayNS[min(1, len(delayNS)):] {
		sum += ns
		squares += float64(ns * ns)
	}
	if sum == 0 {
		return
	}
	add := func(s *spread) { s.flows, s.links = s.flows+1, s.links+float64(sum*sum)/squares }
	if ofAll {
		add(&w.spread[sizebin.Count])
	}
	if ofBin {
		add(&w.spread[sizebin.Of(sizeBytes)])
	}
}

// spreadOut returns a row if the slowest flows of all or of a size bin wait at many links.
func (w *WeaknessFinder) spreadOut() []Weakness {
	most, of := 0.0, ""
	for i, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		if links := w.spread[i].links / float64(max(1, w.spread[i].flows)); links > most {
			most, of = links, ofBin(bin.Name)
		}
	}
	if most <= spreadLinks {
		return nil
	}
	return []Weakness{{"spread", most, spreadLinks, -1, fmt.Sprintf(
		"the slowest 1%% of flows%s wait at %.1f links of their paths, in the mean: what many link cases add up to is known less "+
			"well, and percentiles of size bins and beyond p99 may be off by more than 10%% (--exact measures it)", of, most)}}
}

// Weaknesses returns the conditions that exceed their thresholds. moved compares the two passes; nil if there
// was one only. Estimator Independent ignores it. WholeNetwork is what estimates are held against: what it has is
// about the workload.
func (w *WeaknessFinder) Weaknesses(moved *Movement, intervals []Interval) []Weakness {
	out := w.windows.warnings(w.net, &w.params)
	if w.estimator == WholeNetwork {
		return append(out, w.links.overloads(w.net, fullLoad)...)
	}
	share := float64(w.loadedTwice) / float64(max(1, w.flows))
	if w.estimator == Independent && share > loadedTwice {
		out = append(out, Weakness{"loaded twice", share, loadedTwice, -1, fmt.Sprintf(
			"%.0f%% of the flows cross two links that are loaded above %.0f%%: such links limit each other's traffic, which "+
				"estimator independent does not know, and the percentiles, p50 above all, tend to be too high",
			100*share, 100*loadedLink)})
	}
	if w.estimator == Flow {
		out = append(append(append(out, disagreements(intervals)...), w.refuted()...), w.unsettled(moved)...)
		out = append(append(out, w.spreadOut()...), w.links.ackRange()...)
	}
	return append(append(out, w.links.overloads(w.net, overload)...), w.links.transportRange(w.net, w.params.Transport)...)
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
