package sampling

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"parsimon/pipeline"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/gate"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/names"
	"parsimon/schema/sizebin"
	"parsimon/simkernel"
	"parsimon/stages/confidence"
	"parsimon/stages/tables"
)

// costlyShare is the simulated share of the workload from which on windows save little.
const costlyShare = 0.4

// A Result is the answer, for scripts. Its percentiles are of the whole workload, by size bin, and their bounds those
// of Rows.
type Result struct {
	*summary.Result
	SampledShare float64 `json:"sampled_share"` // of the flows, that are in windows
	// SimulatedShare is about the share that was simulated for that, warm-ups and their measurement included.
	SimulatedShare float64 `json:"simulated_share"`
	Windows        int     `json:"windows"`
	Stopped        string  `json:"stopped"`    // Precise, Spent or Whole
	Confidence     float64 `json:"confidence"` // of all intervals
	Within         float64 `json:"within"`     // asked for
	Goals          []Goal  `json:"goals"`      // every asked percentile of every asked group
	Warmup         Warmup  `json:"warmup"`
	WindowError    float64 `json:"window_error"` // that intervals include, relative: see errorOfWindows
	Rows           []Row   `json:"intervals"`
	// Whole are the variants of the whole workload that the lake has beside the windows.
	Whole []string `json:"whole_variants,omitempty"`
}

func (s *sampler) result(rows []Row, stopped string, seconds float64) *Result {
	r := &Result{
		Result: &summary.Result{
			ScenarioID: string(s.base.ID()), Name: s.base.Spec.Name, Variant: s.variant(),
			Lake: s.base.Lake.Path(), Flows: s.index.totals[all], Warnings: append([]string{}, s.index.remarks...),
			Stages: append(s.stages, s.base.Executor().Reports...), Seconds: seconds,
		},
		SampledShare: s.sampledShare(), Windows: len(s.counts), Stopped: stopped,
		Confidence: s.ask.Confidence, Within: s.ask.Within,
		Goals: s.goals(), Warmup: s.warmup, WindowError: s.windowError, Rows: rows,
	}
	var few []string
	measured := float64(s.warmup.Windows) / float64(max(1, r.Windows)) // again, with another warm-up
	r.SimulatedShare = (1 + measured) * s.share(s.design.Drawn(s.drawn), s.warmup.NS)
	for i := range rows {
		row := &rows[i]
		if row.Key.By != confidence.ByNothing {
			continue
		}
		if row.Warning != "" {
			few = append(few, "size "+row.SizeBin+": "+row.Warning)
		}
		if n := len(r.Percentiles); n == 0 || r.Percentiles[n-1].SizeBin != row.SizeBin {
			r.Percentiles = append(r.Percentiles, summary.PercentilesResult{SizeBin: row.SizeBin, Flows: row.Flows})
		}
		p := &r.Percentiles[len(r.Percentiles)-1]
		q := slices.Index(pipeline.Quantiles, row.Quantile)
		*[]*float64{&p.P50, &p.P90, &p.P99, &p.P999}[q] = row.Estimate
		*[]**float64{&p.P50Lo, &p.P90Lo, &p.P99Lo, &p.P999Lo}[q] = &row.Lo
		if hi := float64(row.Hi); !math.IsInf(hi, 1) {
			*[]**float64{&p.P50Hi, &p.P90Hi, &p.P99Hi, &p.P999Hi}[q] = &hi
		}
	}
	if few != nil {
		r.Warnings = append(r.Warnings, "few flows: "+strings.Join(few, "; "))
	}
	return r
}

func (r Row) interval() string {
	if math.IsInf(float64(r.Hi), 1) {
		return fmt.Sprintf("at least %.3f", r.Lo)
	}
	return fmt.Sprintf("%.3f to %.3f", r.Lo, r.Hi)
}

// Text is the answer for people.
func (r *Result) Text() *text.Answer {
	a := &text.Answer{}
	a.Linef("scenario %s (%s), variant %s", r.ScenarioID, r.Name, r.Variant)
	a.Linef("%d flows; lake %s", r.Flows, r.Lake)
	from := fmt.Sprintf("sampled, %d windows, %.3g%% of flows", r.Windows, 100*r.SampledShare)
	if r.Stopped == Whole {
		from = "not sampled: windows would have been most of the workload, so all of it was estimated"
	}
	a.Linef("\nSlowdown (FCT / ideal FCT) of the whole workload, with %g%% intervals (%s)", 100*r.Confidence, from)
	table := a.Table("flows of", "size_bin", "flows", "p50", "p90", "p99", "p99.9")
	for group := range slices.Chunk(r.Rows, 4) { // pipeline.Quantiles
		x := group[0]
		if x.Key.By != confidence.ByNothing && (x.SizeBin != sizebin.All || x.Key.Label == "") {
			continue
		}
		cells := names.Of(group, func(x Row) any { return fmt.Sprintf("%.3f (%s)", x.Estimate, x.interval()) })
		table.Add(append([]any{x.Key, x.SizeBin, x.Flows}, cells...)...)
	}
	reached := 0
	if r.Stopped != Whole {
		a.Linef("\nAsked: ±%g%% due to the choice of windows. The intervals above are wider, since they also have\n"+
			"±%g%% for traffic outside of the windows; the change when %d windows had half of their warm-up of %v;\n"+
			"and the error of the fluid that ends flows which take longer than %v after their window.", 100*r.Within,
			100*r.WindowError, r.Warmup.Windows, time.Duration(r.Warmup.NS), time.Duration(cooldown*r.Warmup.NS))
		table := a.Table("flows of", "size_bin", "percentile", "precision", "reached")
		for _, g := range r.Goals {
			precision := "too few flows"
			if g.Known {
				precision = fmt.Sprintf("±%.2f%%", 100*g.HalfWidth)
			}
			if g.Reached {
				reached++
			}
			table.Add(g.Group, g.SizeBin, percentileName(g.Quantile), precision, g.Reached)
		}
	}
	for _, line := range r.Warnings {
		a.Linef("warning: %s", line)
	}
	if r.Stopped != Whole && r.SimulatedShare > costlyShare {
		a.Linef("windows and warm-ups have simulated about %.0f%% of the whole workload: without --within, the whole costs "+
			"little more, and its percentiles are not sampled", 100*r.SimulatedShare)
	}
	a.Linef("\n%.1f s, %s", r.Seconds, map[string]string{
		Precise: fmt.Sprintf("all %d asked intervals are within ±%g%%", len(r.Goals), 100*r.Within),
		Spent: fmt.Sprintf("stopped by --budget: %d of %d asked intervals are within ±%g%%", reached, len(r.Goals),
			100*r.Within),
		Whole: "the whole workload was estimated",
	}[r.Stopped])
	estimate := r.ScenarioID // whose answer is the whole
	if r.Stopped != Whole {
		estimate += "@" + r.Variant
	}
	for _, variant := range r.Whole {
		a.Linef("the whole is in the lake, too: parsimon query --param scenario=%s@%s", r.ScenarioID, variant)
	}
	a.Linef("\nNext:\n  parsimon report %s --lake %s", estimate, r.Lake)
	return a
}

// Judge holds gates against the percentiles, and keeps the verdicts. The error is a *gate.Error if any failed.
func (r *Result) Judge(gates []gate.Gate) (err error) {
	groups := names.Of(r.Rows, func(row Row) string { return row.Key.String() })
	r.Gates, err = judge(gates, groups, func(g gate.Gate, group, bin string) (x gate.Interval, found bool) {
		for _, row := range r.Rows {
			if row.Key.String() == group && row.SizeBin == bin && row.Quantile == g.Quantile {
				return gate.Interval{Value: row.Estimate, Lo: row.Lo, Hi: float64(row.Hi)}, true
			}
		}
		return x, false
	})
	return err
}

// judge holds gates against values that are found by group, of groups, and size bin.
func judge(gates []gate.Gate, groups []string,
	find func(g gate.Gate, group, bin string) (gate.Interval, bool),
) ([]gate.Verdict, error) {
	return gate.Judge(gates, func(g gate.Gate) (x gate.Interval, err error) {
		service, byService := g.Filter["service"]
		vnet, byVNet := g.Filter["vnet"]
		bin, bySize := g.Filter["size_bin"]
		group := all
		switch {
		case g.FCT || g.Load:
			return x, errors.New("estimates from windows have percentiles of slowdown only")
		case byVNet && (byService || bySize):
			return x, errors.New("estimates from windows have virtual networks of all services and sizes only")
		case byService:
			group = Key{By: confidence.ByService, Label: service}
		case byVNet:
			group = Key{By: confidence.ByVNet, Label: vnet}
		}
		if !bySize {
			bin = sizebin.All
		}
		x, found := find(g, group.String(), bin)
		if !found {
			slices.Sort(groups)
			err = fmt.Errorf("no flow in windows is of %s, size %s; there are flows of %s", group, bin,
				strings.Join(names.Nearest(group.String(), slices.Compact(groups), 20), ", "))
		}
		return x, err
	})
}

// A Row is a percentile of a group of flows of the whole workload, with its interval and the interval's parts.
type Row struct {
	Key      Key     `json:"-"`
	Service  *string `json:"service"` // nil: all
	VNet     *string `json:"vnet"`
	SizeBin  string  `json:"size_bin"`
	Quantile float64 `json:"quantile"`
	Flows    int64   `json:"flows"`    // of the workload
	Sampled  int64   `json:"sampled"`  // of these, in windows
	Estimate float64 `json:"estimate"` // slowdown
	Lo       float64 `json:"lo"`       // of all that is known to be uncertain
	Hi       Bound   `json:"hi"`
	// The part of the interval that is due to which windows were drawn.
	SamplingLo float64 `json:"sampling_lo"`
	SamplingHi float64 `json:"sampling_hi"`
	Warning    string  `json:"warning"` // few flows beyond it: the interval holds the value less often than it should
}

// A Bound is the upper end of an interval: infinite, null in JSON, if the sample has too few flows to know it.
type Bound float64

// MarshalJSON writes a number or null.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 1) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// halfWidth is half of the width of the sampling interval, relative to the estimate.
func (r Row) halfWidth() float64 { return (r.SamplingHi - r.SamplingLo) / 2 / r.Estimate }

func percentileName(q float64) string { return fmt.Sprintf("p%g", math.Round(q*100_000)/1000) }

// fewBeyond: a percentile with fewer sampled flows beyond it has a warning and does not count as precise.
const fewBeyond = 30

// rows are the percentiles of all groups that have sampled flows.
func (s *sampler) rows() (out []Row) {
	for _, k := range s.index.order {
		for _, q := range pipeline.Quantiles {
			if row, ok := s.row(k, q); ok {
				out = append(out, row)
			}
		}
	}
	return out
}

// row is a percentile of a group; false without sampled flows.
func (s *sampler) row(k Key, q float64) (row Row, ok bool) {
	row = Row{Key: k, SizeBin: k.binName(), Quantile: q, Flows: s.index.totals[k]}
	switch k.By {
	case confidence.ByService:
		row.Service = &k.Label
	case confidence.ByVNet:
		row.VNet = &k.Label
	}
	sample := s.sampleFrom(k, s.counts)
	e, ok := sample.Quantile(q, s.ask.Confidence)
	if !ok {
		return row, false
	}
	row.Sampled, row.Estimate, row.SamplingLo, row.SamplingHi = sample.Flows(), e.Value, e.Lo, e.Hi
	lo, hi := s.widen(e, s.warmup.change(q))
	least, _ := s.sampleFrom(k, s.least).Quantile(q, s.ask.Confidence)
	most, _ := s.sampleFrom(k, s.most).Quantile(q, s.ask.Confidence)
	row.Lo, row.Hi = max(1, lo*least.Value/e.Value), Bound(hi*most.Value/e.Value)
	if row.Sampled < row.Flows && e.Open && float64(row.Sampled)*(1-q) < fewBeyond {
		row.Hi = Bound(math.Inf(1))
	}
	if e.Beyond < fewBeyond && row.Sampled < row.Flows && (e.Value > 1 || e.Hi > 1) {
		row.Warning = fmt.Sprintf("%s: only %d sampled flows are above it", percentileName(q), e.Beyond)
	}
	return row, true
}

// errorOfWindows is about how far p50 to p99 of windows are from those of the same flows in the whole workload, where
// it was measured; p99.9 was up to twice as far (datasets/results/coverage.md). TCP flows that are carried over are in
// slow start again, and those of DCQCN forget later than a warm-up ends that they begin at line rate.
func errorOfWindows(t simkernel.Transport) float64 {
	switch {
	case t.Traits().AckClocked:
		return 0.13
	case t == simkernel.HPCC:
		return 0.06
	case t == simkernel.DCQCN, t == simkernel.TIMELY:
		return 0.03
	}
	return 0.01
}

// widen adds to an interval the part that is cut off around windows and the effect of half of the warm-up. Both are
// biases, which do not average out over windows: an interval holds its confidence under a bias of at most B if it is
// longer by B on each side (a little less would do: Armstrong and Kolesár, Econometrica 86(2), 2018).
func (s *sampler) widen(e Estimate, warmup float64) (lo, hi float64) {
	return max(1, e.Lo*(1-s.windowError)*(1-warmup)), e.Hi * (1 + s.windowError) * (1 + warmup)
}

// A Goal is an asked percentile of a group of flows and how precise it is.
type Goal struct {
	Group     string  `json:"group"` // such as "service storage"
	SizeBin   string  `json:"size_bin"`
	Quantile  float64 `json:"quantile"`
	Sampled   int64   `json:"sampled"`    // flows of the group in windows
	HalfWidth float64 `json:"half_width"` // of the sampling part of the interval, relative; 0 if not Known
	Known     bool    `json:"known"`      // there are enough sampled flows for an interval
	Reached   bool    `json:"reached"`
}

// String names the percentile.
func (g Goal) String() string {
	return fmt.Sprintf("%s of %s, size %s", percentileName(g.Quantile), g.Group, g.SizeBin)
}

// goals are the asked percentiles, or their changes, of all groups with flows, in the order of the groups.
func (s *sampler) goals() (all []Goal) {
	for _, k := range s.asked() {
		for _, q := range s.ask.Of {
			g := Goal{Group: k.String(), SizeBin: k.binName(), Quantile: q}
			if s.other != nil {
				for _, x := range s.changes(k, []float64{q}) { // one, or none without flows
					g = x.Goal
				}
			} else if row, ok := s.row(k, q); ok {
				g.Sampled = row.Sampled
				if row.Warning == "" {
					g.HalfWidth, g.Known, g.Reached = row.halfWidth(), true, row.halfWidth() <= s.ask.Within
				}
			}
			all = append(all, g)
		}
	}
	return all
}

func (s *sampler) asked() []Key {
	return slices.DeleteFunc(slices.Clone(s.index.order), func(k Key) bool {
		return s.index.totals[k] == 0 || !s.ask.wants(k)
	})
}

func (k Key) binName() string {
	if k.Bin == sizebin.Count {
		return sizebin.All
	}
	return sizebin.Bins()[k.Bin].Name
}

// String is the group without its size bin.
func (k Key) String() string {
	switch k.By {
	case confidence.ByService:
		return "service " + k.Label
	case confidence.ByVNet:
		return "vnet " + k.Label
	}
	return "all"
}

// variant names the estimate in the lake: that of the windows, how many, and the other settings of its intervals.
func (s *sampler) variant() string {
	name := s.base.Variant().String() + pipeline.SampledPart + fmt.Sprint(len(s.counts))
	if s.ask.Confidence != 0.95 {
		name += fmt.Sprintf("-confidence-%g%%", math.Round(s.ask.Confidence*1e4)/100)
	}
	return name
}

func (s *sampler) combine(ctx context.Context, stopped string) (*Result, error) {
	rows := s.rows()
	stage := pipeline.CombineStage(s.base.ID(), s.variant())
	stage.Cut = func(*engine.Inputs, []engine.Task) ([]engine.Task, error) {
		return []engine.Task{{Lo: 0, Hi: int64(len(s.counts)),
			Cost: int64(s.sampledShare() * float64(s.index.totals[all]))}}, nil
	}
	for _, r := range s.rounds {
		stage.Reads = append(stage.Reads, r.run.Plan().Writer(schema.Slowdowns).Output(schema.Slowdowns))
	}
	stage.Open = engine.Always(func(ctx context.Context, t *engine.Attempt) error {
		return s.write(ctx, t, rows, stage.Reads)
	})
	if err := s.base.Executor().RunStage(ctx, nil, stage); err != nil {
		return nil, err
	}
	if err := s.base.Publish(); err != nil {
		return nil, err
	}
	return s.result(rows, stopped, time.Since(s.began).Seconds()), nil
}

// A drawnWindow is a window of table windows.
type drawnWindow struct {
	stratum, round int
	weight         float64
}

func (s *sampler) write(ctx context.Context, t *engine.Attempt, rows []Row, outputs []engine.Output) error {
	var all []confidence.Interval
	for _, r := range rows {
		if hi := float64(r.Hi); !math.IsInf(hi, 1) {
			all = append(all, confidence.Interval{By: r.Key.By, Service: r.Key.Label, VNet: r.Key.Label, SizeBin: r.SizeBin,
				Flows: r.Flows, Quantile: r.Quantile, Estimate: r.Estimate, Lo: r.Lo, Hi: hi, Warning: r.Warning})
		}
	}
	drawn := map[int]*drawnWindow{}
	for h, slots := range s.design.Strata {
		for _, n := range slots[:s.drawn[h]] {
			drawn[n] = &drawnWindow{stratum: h, weight: float64(len(slots)) / float64(s.drawn[h])}
		}
	}
	for i, r := range s.rounds {
		for _, n := range r.slots {
			drawn[n].round = i
		}
	}
	intervals, windows := confidence.Record(all), s.windowsRecord(drawn)
	defer intervals.Release()
	defer windows.Release()
	err := errors.Join(t.Sink(schema.Intervals).Write(intervals), t.Sink(schema.Windows).Write(windows))
	for i, r := range s.rounds {
		if err == nil {
			err = s.writeSampled(ctx, t, outputs[i], r.slots, drawn)
		}
	}
	return err
}

func (s *sampler) windowsRecord(drawn map[int]*drawnWindow) arrow.Record {
	return columns.RecordOf(schema.Windows, s.design.Drawn(s.drawn), func(n int) columns.Row {
		x, w := s.index.slots[n], drawn[n]
		return columns.Row{
			"window": int32(n), "round": int32(w.round + 1), "window_scenario": string(s.rounds[w.round].run.ID()),
			"stratum": int32(w.stratum), "stratum_slots": int32(len(s.design.Strata[w.stratum])),
			"stratum_drawn": int32(s.drawn[w.stratum]), "weight": w.weight, "from_ns": x.FromNS, "to_ns": x.ToNS,
			"warmup_ns": s.warmup.NS, "flows": x.Flows, "bytes": x.Bytes,
		}
	})
}

// A sampledRow is a row of table sampled_slowdowns.
type sampledRow struct {
	tables.SlowdownRow
	Window int32   `col:"window"`
	Weight float64 `col:"weight"`
}

var sampledTable = columns.TableOf[sampledRow](schema.SampledSlowdowns)

// writeSampled writes those flows of a round that are in windows.
func (s *sampler) writeSampled(ctx context.Context, t *engine.Attempt, from engine.Output, slots []int,
	drawn map[int]*drawnWindow) error {
	var rows []sampledRow
	write := func() error {
		err := cmp.Or(ctx.Err(), sampledTable.Write(t.Sink(schema.SampledSlowdowns), rows))
		t.Add(int64(len(rows)))
		rows = rows[:0]
		return err
	}
	err := columns.Each(t.Read(from, nil), func(f *tables.SlowdownRow) error {
		n, counted := s.slotOf(f.StartNS, slots)
		if !counted {
			return nil
		}
		row := sampledRow{*f, int32(n), drawn[n].weight}
		row.Labels = f.Labels.Clone()
		if rows = append(rows, row); len(rows) < columns.BatchRows {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	return err
}
