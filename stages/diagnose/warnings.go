// Package diagnose finds conditions under which an estimate is less accurate.
package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/route"
	"parsimon/stages/step"
	"parsimon/stages/topology"
)

// Conditions under which an estimate is known to be less accurate. Each has one measure and one threshold.
// Hits and false alarms are measured (datasets/ACCURACY.md, "What an estimate says about itself").
const (
	// Smallest load at which a link's queue depends on the length of the workload. The time until a queue no
	// longer depends on its start grows with 1 / (1 - load)². At 95% it is 400 times that of an idle link, at
	// 60% it is 6 times.
	overload = 0.95

	// Size of ACKs relative to full data packets above which the arrival times of ACKs matter. Link cases
	// only know the average bandwidth that ACKs use on a link. At the usual 6%, errors are within 8% for
	// every flow size. At 20% and 48% (small-packets and large-acks), p99 of a flow size was off by 9% and
	// 22%.
	largeACKs = 0.1

	// Window relative to bandwidth × round trip between hosts of a rack, above which there is a warning. Such
	// a window fills a queue of that length in front of the receiver before senders see a mark. Link cases do
	// not represent such a queue accurately. At 8 (late-marks), errors are below 2%. At 69 (win500bi), p99 is
	// 23% too low.
	largeWindow = 10

	// Smallest delay of a link, in ns, at which it matters that senders start at line rate. A cable with this
	// delay is 100 km long.
	longDelayNS = 500_000

	// Share of the sum of FCTs that is due to windows smaller than their paths need.
	smallWindow = 0.01

	// Relative difference between a percentile of slowdown and the same percentile according to the link
	// cases where flows wait longest.
	disagreement = 0.1

	// Average number of links at which the slowest 1% of the flows wait, of all flows or of a size bin. If a
	// slow flow waits at one link, that link's case knows its delay. If it waits at many, its delay is a sum
	// of waits, and each case knows the others only as averages over blocks. On the paper's networks the
	// number is 1.0 to 1.9. On a chain of six links it is 3.3, and p99.9 is off by 10%.
	spreadLinks = 2

	// Share of flows that cross two links above loadedLink, for estimator Independent. Of 14 scenarios
	// compared with ns-3, the four with 4% or more have a p99 that is off by 20% or more. The others are off
	// by at most 12%.
	loadedTwice = 0.02
	loadedLink  = 0.6
)

// A Warning is one row of table warnings.
type Warning struct {
	Kind      string
	Measure   float64 // NaN: not measured
	Threshold float64
	Link      int32 // -1: none
	Text      string
}

// ReasonsForWholeNetwork returns the reasons, known before any link case runs, why link cases are not
// accurate enough. If there are any, an estimate with automatic choice simulates the whole network
// (pipeline/auto.go). Estimates by link cases report them as warnings.
func ReasonsForWholeNetwork(m *step.Model, loads *route.Loads) []Warning {
	return append(Overloads(m, loads, overload), unusualTransport(m, loads)...)
}

// Kinds of warnings about the input, which apply to every estimator.
const (
	aboutFlows    = "flows"
	aboutLongPath = "long path"
)

// OfLinkCases reports whether a kind of warning is specific to link cases.
func OfLinkCases(kind string) bool { return kind != aboutFlows && kind != aboutLongPath }

// InputWarnings returns a warning for each link with a long delay whose flows start at line rate, the longest
// delay first, and then the remarks about the flows.
func InputWarnings(m *step.Model, loads *route.Loads, flows []string) (out []Warning) {
	n := m.Network
	p := &m.Params
	for _, l := range n.Links {
		if l.DelayNS >= longDelayNS && loads.Links[l.ID].Flows > 0 && !p.Transport.Traits().AckClocked {
			out = append(out, Warning{aboutLongPath, float64(l.DelayNS), longDelayNS, l.ID, fmt.Sprintf(
				"%s (link %d) has a delay of %v, and senders of %s send at line rate from their first packet, as in a "+
					"data center; TCP begins slowly (--transport cubic)", n.LinkName(l.ID), l.ID, time.Duration(l.DelayNS),
				p.Transport)})
		}
	}
	largestFirst(out)
	for _, note := range flows {
		out = append(out, Warning{aboutFlows, math.NaN(), math.NaN(), -1, note})
	}
	return out
}

func largestFirst(rows []Warning) []Warning {
	slices.SortStableFunc(rows, func(a, b Warning) int { return cmp.Compare(b.Measure, a.Measure) })
	return rows
}

// Overloads returns a warning for each link with an offered load of least or more, the most loaded first.
func Overloads(m *step.Model, loads *route.Loads, least float64) []Warning {
	n := m.Network
	p := &m.Params
	var out []Warning
	for id := range n.Links {
		l := &n.Links[id]
		load := offered(loads, p, *l)
		if load < least {
			continue
		}
		out = append(out, Warning{"overload", load, least, l.ID, fmt.Sprintf(
			"%s (link %d) is offered %.0f%% of what it can send (with headers and ACKs, unlike column load): its "+
				"queue grows for as long as the workload lasts, so slowdowns depend on its length; lower the load, or "+
				"compare workloads of several lengths", n.LinkName(l.ID), l.ID, 100*load)})
	}
	return largestFirst(out)
}

// offered returns the load offered to a link, including headers, as a fraction of the capacity that ACKs
// leave.
func offered(l *route.Loads, p *simkernel.Params, link topology.Link) float64 {
	x := &l.Links[link.ID]
	if x.Bytes == 0 {
		return 0
	}
	wire := 1 + float64(x.Packets*p.HeaderBytes)/float64(x.Bytes)
	return l.Load(link) * wire * float64(link.BandwidthBps) / float64(l.AvailableBps(p, link))
}

// compared are the transports, besides DCTCP, for which datasets/results/transport-accuracy.md compares two
// passes with the whole network.
var compared = []simkernel.Transport{simkernel.DCQCN, simkernel.TIMELY, simkernel.HPCC, simkernel.Swift}

// unusualTransport returns a warning if link cases are known to be inaccurate for the transport or its
// constants.
func unusualTransport(m *step.Model, loads *route.Loads) []Warning {
	n := m.Network
	p := &m.Params
	row := func(measure, threshold float64, format string, args ...any) []Warning {
		return []Warning{{"transport", measure, threshold, -1, fmt.Sprintf(format, args...) +
			"; use --estimator exact"}}
	}
	switch {
	case p.Transport == simkernel.DCTCP:
	case !slices.Contains(compared, p.Transport):
		return row(math.NaN(), math.NaN(), "two passes have not been compared with the whole network for %s",
			p.Transport)
	default:
		return row(math.NaN(), math.NaN(), "senders of %s react to more than marks, which two passes do not "+
			"settle: percentiles were off by up to 24%%", p.Transport)
	}
	acks := 0.0
	window := 0.0
	trips := route.NewRoundTrips(n, p)
	for id := range n.Links {
		l := &n.Links[id]
		if loads.Links[id].Flows == 0 {
			continue
		}
		if loads.AvailableBps(p, *l) < l.BandwidthBps {
			acks = float64(p.AckBytes) / float64(p.PayloadBytes+p.HeaderBytes)
		}
		if n.FromHost(l.ID) {
			localNS := 2 * trips[l.ID]
			// WindowBytes is 0 if windows are fitted to paths.
			window = max(window, float64(p.WindowBytes)*8e9/(float64(l.BandwidthBps)*float64(localNS)))
		}
	}
	switch {
	case window > largeWindow:
		return row(window, largeWindow, "the window is %.0f times what fits between two hosts of one rack: p99 "+
			"was 23%% too low at 69 times", window)
	case acks > largeACKs:
		return row(acks, largeACKs, "ACKs have %.0f%% of the size of full data packets, and link cases know only "+
			"their mean rate: p99 of a flow size was off by 9%% at 20%%, and by 22%% at 48%%", 100*acks)
	}
	return nil
}

// A TailWatch finds where the slowest flows of an estimate wait, and how much windows that are too small
// delay flows. It reads one chunk of flows at a time and must not be used by several goroutines at a time.
type TailWatch struct {
	net   *topology.Network
	tails confidence.Tails
	twice flowSet // flows that cross two loaded links; nil: not known

	flows, loadedTwice int64
	limited            int64                     // flows whose window is smaller than their path needs
	fctNS, limitedNS   float64                   // sums of FCTs, and of the delays by such windows
	worst              watchedRow                // the flow with the longest such delay
	spread             [sizebin.Count + 1]spread // of the slowest flows of each size bin, and of all flows
	delays             []psSum                   // of the slowest 1% of all flows, by link

	firstRow int64         // of the flows that are being read
	watched  []watchedFlow // those of these flows whose hops matter
	places   []int32       // by row of these flows: the place in watched, from 1 on; 0: none
	overflow *Overflow     // nil: buffers are unlimited
}

// A watchedFlow is one of the slowest flows. With limited buffers, all flows are watched.
type watchedFlow struct {
	bin          int         // size bin
	ofAll, ofBin bool        // among the slowest 1%
	hit          *overflowed // if buffers are limited
	// Of its delays behind the host's uplink. At the uplink, flows wait for flows of their own host.
	sum, squares float64
}

// A psSum is a sum of times in ps, of 128 bits, that does not depend on the order of its terms.
type psSum struct{ high, low uint64 }

func (s *psSum) add(ps uint64) {
	low, carry := bits.Add64(s.low, ps, 0)
	s.high = s.high + carry
	s.low = low
}

func (s psSum) float() float64 { return float64(s.high)*0x1p64 + float64(s.low) }

// A spread says at how many links some of the slowest flows wait.
type spread struct {
	flows int64   // with a delay behind their host's uplink
	links float64 // sum of the numbers of links at which they wait
}

// NewTailWatch returns a TailWatch for an estimate with these tails.
func NewTailWatch(n *topology.Network, tails confidence.Tails, overflow *Overflow) *TailWatch {
	return &TailWatch{net: n, tails: tails, overflow: overflow, delays: make([]psSum, len(n.Links))}
}

type watchedRow struct {
	Row      int64   `col:"flow_row"`
	Src      int32   `col:"src"`
	Dst      int32   `col:"dst"`
	Start    int64   `col:"start_ns"`
	FCT      int64   `col:"fct_ns"`
	Window   int64   `col:"window_ns"`
	Size     int64   `col:"size_bytes"`
	Slowdown float64 `col:"slowdown"`
}

// A watchedHop has the columns of table hop_contributions that are read if buffers are unlimited.
type watchedHop struct {
	FlowRow int64   `col:"flow_row"`
	Hop     int16   `col:"hop"`
	LinkID  int32   `col:"link_id"`
	DelayNS float64 `col:"delay_ns"`
}

// Watched is what Watch reads for a range of rows of table flows. Rows of other flows are skipped.
type Watched struct {
	Flows     step.Range
	Slowdowns schema.Batches
	// Contributions is table hop_contributions. The hops of a flow are summed in the order of the table.
	Contributions schema.Batches // nil: not known
	Hops          schema.Batches // table hops, for limited buffers
}

// Watch reads consecutive flows.
func (w *TailWatch) Watch(in Watched) error {
	w.firstRow = in.Flows.Lo
	w.watched = w.watched[:0]
	w.places = columns.Resize(w.places, int(in.Flows.Hi-in.Flows.Lo))
	clear(w.places)
	err := columns.Each(in.Slowdowns, func(r *watchedRow) error {
		if r.Row >= in.Flows.Lo && r.Row < in.Flows.Hi {
			w.addFlow(r)
		}
		return nil
	})
	if err != nil || in.Contributions == nil {
		return err
	}
	if w.overflow == nil {
		err = columns.Each(in.Contributions, func(r *watchedHop) error {
			_, err := w.addHop(r)
			return err
		})
	} else {
		err = w.readHops(in.Hops, in.Contributions)
	}
	if err != nil {
		return err
	}
	for i := range w.watched {
		f := &w.watched[i]
		if f.ofAll {
			w.spread[sizebin.Count].add(f)
		}
		if w.overflow != nil {
			w.overflow.add(f.hit)
		}
		if f.ofBin {
			w.spread[f.bin].add(f)
		}
	}
	return nil
}

// addFlow counts a flow. If its hops matter, which follow, it adds the flow to those that are watched.
func (w *TailWatch) addFlow(r *watchedRow) {
	late := r.Slowdown > 1
	f := watchedFlow{bin: sizebin.Of(r.Size)}
	f.ofAll = late && r.Slowdown >= w.tails.All
	f.ofBin = late && r.Slowdown >= w.tails.Bins[f.bin]
	if w.overflow != nil {
		f.hit = &overflowed{of: *r}
	}
	if f.ofAll || f.ofBin || f.hit != nil {
		w.watched = append(w.watched, f)
		w.places[r.Row-w.firstRow] = int32(len(w.watched))
	}
	w.flows++
	if w.twice.has(r.Row) {
		w.loadedTwice++
	}
	w.fctNS += float64(r.FCT)
	if r.Window > 0 {
		w.limited++
		w.limitedNS += float64(r.Window)
	}
	if r.Window > w.worst.Window {
		w.worst = *r
	}
}

// flowOf returns the flow of a row of a table, or nil if the flow is not watched. A link that the network
// does not have is an error.
func (w *TailWatch) flowOf(table schema.Table, row int64, link int32) (*watchedFlow, error) {
	at := row - w.firstRow
	if at < 0 || at >= int64(len(w.places)) {
		return nil, nil
	}
	if link < 0 || int(link) >= len(w.net.Links) {
		return nil, fmt.Errorf("%s: flow row %d crosses link %d, of %d links", table.Name, row, link,
			len(w.net.Links))
	}
	place := w.places[at]
	if place == 0 {
		return nil, nil
	}
	return &w.watched[place-1], nil
}

// addHop adds a hop to its flow, which it returns. It returns nil for flows that are not watched.
func (w *TailWatch) addHop(r *watchedHop) (*watchedFlow, error) {
	f, err := w.flowOf(schema.HopContributions, r.FlowRow, r.LinkID)
	if f == nil {
		return nil, err
	}
	if f.ofAll {
		w.delays[r.LinkID].add(uint64(math.Round(1000 * r.DelayNS)))
	}
	if r.Hop > 0 {
		f.sum += r.DelayNS
		f.squares += float64(r.DelayNS * r.DelayNS)
	}
	return f, nil
}

// add adds the number of links at which a flow waits. It is (Σ delay)² / Σ delay², which is n for equal
// delays at n links.
func (s *spread) add(f *watchedFlow) {
	if f.sum > 0 {
		s.flows = s.flows + 1
		s.links = s.links + float64(f.sum*f.sum)/f.squares
	}
}

// A TailLink is the link that delays the slowest 1% of the flows most, with its share of their delay. Share
// is 0 if no flow is delayed.
type TailLink struct {
	Link  int32   `json:"tail_link"`
	Share float64 `json:"tail_share"`
}

// TailLink returns the link that delays the slowest flows most. It considers the flows whose hops Watch has
// read.
func (w *TailWatch) TailLink() TailLink {
	sum := 0.0
	most := 0
	for id, delay := range w.delays {
		sum += delay.float()
		if delay.float() > w.delays[most].float() {
			most = id
		}
	}
	return TailLink{int32(most), w.delays[most].float() / max(1, sum)}
}

func (w *TailWatch) smallWindows() []Warning {
	share := w.limitedNS / max(1, w.fctNS)
	if share < smallWindow {
		return nil
	}
	return []Warning{{"window", share, smallWindow, -1, fmt.Sprintf(
		"the window is smaller than the paths of %.0f%% of the flows need, which makes %.0f%% of all FCT, most "+
			"from %s to %s; use --window auto (scenario file: transport.window), which fits it to each path; with "+
			"TCP, a larger transport.receive_window",
		100*float64(w.limited)/float64(w.flows), 100*share, w.net.Name(w.worst.Src), w.net.Name(w.worst.Dst))}}
}

// Warnings returns the warnings that do not depend on the estimator: windows that are too small, and limited
// buffers that link cases do not model.
func (w *TailWatch) Warnings() []Warning {
	return append(w.smallWindows(), w.overflow.warnings(w.net)...)
}

// Unsettled returns a warning about an estimate of one pass.
func Unsettled() Warning {
	return Warning{"unsettled", math.NaN(), math.NaN(), -1, "one pass only: no link case has received " +
		"feedback from the others, and waits tend to be too long; use --passes 2"}
}

// LoadedTwice returns a warning if many flows cross two loaded links. An estimate that treats delays at
// different links as independent is then too high.
func (w *TailWatch) LoadedTwice() []Warning {
	share := float64(w.loadedTwice) / float64(max(1, w.flows))
	if share <= loadedTwice {
		return nil
	}
	return []Warning{{"loaded twice", share, loadedTwice, -1, fmt.Sprintf(
		"%.0f%% of the flows cross two links that are loaded above %.0f%%: such links limit each other's traffic, "+
			"which estimator independent does not know, and the percentiles, p50 above all, tend to be too high; use "+
			"--estimator flow",
		100*share, 100*loadedLink)}}
}

// Disagreements returns a warning if link cases disagree about a percentile of all flows, or about p99 of a
// size bin.
func Disagreements(intervals []confidence.Interval) []Warning {
	var worst *confidence.Interval
	for i := range intervals {
		r := &intervals[i]
		// It considers percentiles of all flows and p99 of size bins, if at least ten flows are beyond the
		// percentile.
		shown := r.SizeBin == sizebin.All || r.Quantile == 0.99 && r.Flows > confidence.FewInBin
		counts := r.By == confidence.ByNothing && shown && r.Method != nil && float64(r.Flows)*(1-r.Quantile) >= 10
		if counts && (worst == nil || math.Abs(r.Method.Disagreement) > math.Abs(worst.Method.Disagreement)) {
			worst = r
		}
	}
	if worst == nil || math.Abs(worst.Method.Disagreement) < disagreement {
		return nil
	}
	by := worst.Method.Disagreement
	side := "low"
	if by < 0 {
		side = "high"
	}
	return []Warning{{"disagreement", math.Abs(by), disagreement, -1, fmt.Sprintf(
		"p%g of all flows%s is estimated at %.3f, and is %.3f by the link cases where they wait longest (%+.0f%%): "+
			"the estimate is probably too %s there; use --estimator exact",
		math.Round(1000*worst.Quantile)/10, ofBin(worst.SizeBin), worst.Estimate, worst.Estimate*(1+by), 100*by,
		side)}}
}

// ofBin returns a phrase for the size of flows, which is empty for flows of all sizes.
func ofBin(name string) string {
	if name == sizebin.All {
		return ""
	}
	return " of " + name
}

// SpreadOut returns a warning if the slowest flows, of all or of a size bin, wait at many links.
func (w *TailWatch) SpreadOut() []Warning {
	most := 0.0
	of := ""
	for i, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		links := w.spread[i].links / float64(max(1, w.spread[i].flows))
		if links > most {
			most, of = links, ofBin(bin.Name)
		}
	}
	if most <= spreadLinks {
		return nil
	}
	return []Warning{{"spread", most, spreadLinks, -1, fmt.Sprintf(
		"the slowest 1%% of flows%s wait at %.1f links of their paths on average: percentiles of size bins and "+
			"beyond p99 may be off by more than 10%%; use --estimator exact", of, most)}}
}

// Record returns the rows as a batch of table warnings, which the caller must release.
func Record(rows []Warning) arrow.Record {
	return columns.RecordOf(schema.Warnings, rows, func(r Warning) columns.Row {
		row := columns.Row{"kind": r.Kind, "measure": r.Measure, "threshold": r.Threshold, "warning": r.Text}
		if r.Link >= 0 {
			row["link_id"] = r.Link
		}
		return row
	})
}
