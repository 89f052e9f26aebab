package stages

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"parsimon/schema"
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

	// Change of the waits in switches by the last pass, relative to their sum. In the scenarios that were
	// tried, a pass changes waits by a bit more than a third of the change of the pass before (22% then 8%,
	// 12% then 5%, 6% then 2%), and so all later passes together by 0.6 of the last change: at the threshold,
	// by 12% of the waits.
	unsettledShare = 0.2

	// Change of the delay of the slowest 1% of flows by the last pass. By the same rule, later passes change it by
	// 0.6 of that: at the threshold by 3%, as much as an estimate may be off in the networks it was made for.
	tailUnsettledShare = 0.05

	// Mean number of links at which one of the slowest 1% of flows waits (spread) from which on it is a warning. Where
	// a slow flow waits at one link, that link's case knows its delay. Where it waits at many, the delay is a sum of waits
	// that each case knows only as means over blocks of what happens at the others. On the scenarios of
	// datasets/ACCURACY.md it is 1.0 to 1.8, and 2.6 on the chain of six links, whose p99.9 is off by more than 10%.
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
// holds them against the conservation laws. It reads the flows a chunk at a time, in start order, and is used by one
// goroutine at a time.
type WeaknessFinder struct {
	net         *topology.Network
	estimator   Estimator
	transport   simkernel.Transport
	links       *linkTraffic
	laws        *laws.Checker // nil: estimator Independent, which draws FCTs of flows of a kind, not of these flows
	minSlowdown float64       // of the slowest flows

	flows, loadedTwice int64
	slowestNS          float64 // delay of the slowest flows
	slowest            int64   // those that are delayed behind their host's uplink
	spread             float64 // over them: sum of the numbers of links at which they wait
	slowestNSOfLink    []float64

	chunk watchedFlows
}

// NewWeaknessFinder returns a finder for an estimate whose slowest flows have at least the given slowdown.
// stats is table link_stats.
func NewWeaknessFinder(n *topology.Network, p simkernel.Params, e Estimator, minSlowdown float64,
	stats schema.Batches) (*WeaknessFinder, error) {
	links, err := readLinkTraffic(n, &p, stats)
	w := &WeaknessFinder{
		net: n, transport: p.Transport, estimator: e, minSlowdown: minSlowdown, links: links,
		slowestNSOfLink: make([]float64, len(n.Links)),
	}
	if e == Flow {
		w.laws = laws.New(n, p)
	}
	return w, err
}

// TailColumns names the columns of table slowdowns that Watch reads.
func TailColumns() []string {
	return []string{"flow_row", "size_bytes", "start_ns", "fct_ns", "slowdown"}
}

// TailHopColumns names the columns of table hop_contributions that Watch reads.
func TailHopColumns() []string { return []string{"flow_row", "hop", "hops", "link_id", "delay_ns"} }

// Watch reads one chunk of flows, rows firstRow to firstRow+rows-1 of table flows: their rows of tables
// slowdowns, in start order, and hop_contributions, in any order. Rows of other flows are skipped.
func (w *WeaknessFinder) Watch(firstRow, rows int64, slowdowns, contributions schema.Batches) error {
	c := &w.chunk
	if err := c.readFlows(firstRow, rows, w.minSlowdown, slowdowns); err != nil {
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
		if c.slowest[f] {
			w.addSpread(c.delayNS[f*c.width:][:len(path)])
		}
		w.flows++
		if loaded > 1 {
			w.loadedTwice++
		}
		if c.flows[f].Path = path; w.laws == nil {
			continue
		}
		if err := w.laws.Add(&c.flows[f]); err != nil {
			return fmt.Errorf("slowdowns: %w", err)
		}
	}
	return nil
}

// addSpread adds the number of links at which a flow waits: (Σ delay)² / Σ delay², which is n for equal delays at n
// links. The host's uplink does not count, where flows wait for those of their own host.
func (w *WeaknessFinder) addSpread(delayNS []float64) {
	var sum, squares float64
	for _, ns := range delayNS[min(1, len(delayNS)):] {
		sum += ns
		squares += float64(ns * ns)
	}
	if sum > 0 {
		w.slowest++
		w.spread += float64(sum*sum) / squares
	}
}

// spreadOut returns a row if the slowest flows wait at many links.
func (w *WeaknessFinder) spreadOut() []Weakness {
	links := w.spread / float64(max(1, w.slowest))
	if links <= spreadLinks {
		return nil
	}
	return []Weakness{{"spread", links, spreadLinks, -1, fmt.Sprintf(
		"the slowest 1%% of flows wait at %.1f links of their paths, in the mean: what many link cases add up to is known less "+
			"well, and percentiles of size bins and beyond p99 may be off by more than 10%% (--exact measures it)", links)}}
}

// Weaknesses returns the conditions that exceed their thresholds. moved compares the last two passes; nil if there
// was one pass only. Estimator Independent ignores it.
func (w *WeaknessFinder) Weaknesses(moved *Movement, intervals []Interval) []Weakness {
	var out []Weakness
	share := float64(w.loadedTwice) / float64(max(1, w.flows))
	if w.estimator == Independent && share > loadedTwice {
		out = append(out, Weakness{"loaded twice", share, loadedTwice, -1, fmt.Sprintf(
			"%.0f%% of the flows cross two links that are loaded above %.0f%%: such links limit each other's traffic, which "+
				"estimator independent does not know, and the percentiles, p50 above all, tend to be too high",
			100*share, 100*loadedLink)})
	}
	if w.estimator == Flow {
		out = append(append(append(out, disagreements(intervals)...), w.refuted()...), w.unsettled(moved)...)
		out = append(out, w.spreadOut()...)
	}
	return append(append(out, w.links.overloads(w.net)...), w.links.transportRange(w.net, w.transport)...)
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
