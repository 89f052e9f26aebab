package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline/engine"
	"parsimon/pipeline/text"
	"parsimon/pipeline/units"
	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// WriteSummary writes what an estimate found: its slowdowns by size bin and how far to trust them, the most loaded
// links, what each stage cost, and what to run next.
func (e *Estimation) WriteSummary(ctx context.Context, w io.Writer) (err error) {
	g, err := e.Generated()
	if err != nil {
		return err
	}
	p := &text.Printer{W: w}
	p.Linef("scenario %s (%s), variant %s", e.ID(), e.Spec.Name, e.variant)
	p.Linef("%d flows over %s; lake %s", g.Flows, time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond), e.Lake.Path())
	if err := e.summarizeWorkload(p, g); err != nil {
		return err
	}
	db, err := e.OpenQueries(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	table := func(title, name string, extra map[string]string) {
		p.Linef("\n%s", title)
		if p.Err == nil {
			p.Err = e.writeQuery(ctx, db, name, extra, w)
		}
	}
	table("Slowdown (FCT / ideal FCT) by flow size", queries.SlowdownBySize, nil)
	if err := e.summarizeIntervals(p); err != nil {
		return err
	}
	table("Most loaded links", queries.HottestLinks, map[string]string{"n": "5"})
	table("Load of the network", queries.LoadTop10, nil)
	if g.ExpectedMaxLoad > 0 {
		p.Linef("expected load of the most loaded link, from the matrices: %.4f (%s, link %d)", g.ExpectedMaxLoad, e.Network.LinkName(g.ExpectedMaxLink), g.ExpectedMaxLink)
	}
	e.WriteCost(p)
	p.Linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param scenario=%s\n  parsimon report %s --lake %s", e.Lake.Path(), e.shellName(), e.shellName(), e.Lake.Path())
	return p.Err
}

// shellName names the scenario in commands: by its name, where that is one word that only it has, else by its id.
func (e *Estimation) shellName() string { return ShellName(e.Lake, e.ID()) }

// summarizeWorkload writes what is not as it seems about the flows.
func (e *Estimation) summarizeWorkload(p *text.Printer, g GenerateStats) error {
	if g.SyntheticStarts > 0 {
		p.Linef("%.1f%% of the flows have synthetic starts, drawn where the trace does not record them: the estimate is of a workload LIKE the trace",
			100*float64(g.SyntheticStarts)/float64(g.Flows))
	}
	if g.Rejects > 0 {
		p.Linef("%d rows of the flow file could not be simulated (table rejects):", g.Rejects)
		for _, why := range g.RejectReasons {
			p.Linef("  %d × %s (first: %s)", why.Rows, why.Reason, why.Example)
		}
	}
	routed, err := e.Routed()
	if err == nil && routed.Unreachable > 0 {
		first := routed.UnreachableExamples[0]
		p.Linef("%d flows have no path and no estimate, e.g. from %s to %s", routed.Unreachable, e.Network.Name(first.Src), e.Network.Name(first.Dst))
	}
	return err
}

// writeQuery writes the answer of one question about the estimate.
func (e *Estimation) writeQuery(ctx context.Context, db *queries.DB, name string, extra map[string]string,
	w io.Writer) error {
	q, err := queries.Get(name)
	if err != nil {
		return err
	}
	params := map[string]string{"scenario": string(e.ID()), "variant": e.variant.String()}
	for k, v := range extra {
		params[k] = v
	}
	rows, err := db.Run(ctx, q, params)
	if err != nil {
		return err
	}
	// Intervals and warnings have lines of their own.
	return rows.Hide("scenario", "variant", "p50_lo", "p50_hi", "p90_lo", "p90_hi", "p99_lo", "p99_hi", "p999_lo",
		"p999_hi", "warning").Write(w, "table")
}

// summarizeIntervals writes the intervals of all flows and every warning.
func (e *Estimation) summarizeIntervals(p *text.Printer) error {
	s := e.plan().Find("intervals", 0)
	if s == nil { // an estimator without
		return nil
	}
	r, err := e.exec.Records(s)
	if err != nil {
		return err
	}
	var line, workload, method []string
	short := map[string][]string{} // warnings, by size bin
	err = e.eachBatch(r, schema.Intervals, func(rec arrow.Record) {
		service, vnet := textColumn(rec, "service"), textColumn(rec, "vnet")
		bin, warning := textColumn(rec, "size_bin"), textColumn(rec, "warning")
		lo, hi := columns.Float64s(rec, "lo"), columns.Float64s(rec, "hi")
		float := func(name string) *array.Float64 { return columns.Named(rec, name).(*array.Float64) }
		workloadLo, workloadHi, methodError := float("workload_lo"), float("workload_hi"), float("method_error")
		for i, q := range columns.Float64s(rec, "quantile") {
			if !service.IsNull(i) || !vnet.IsNull(i) {
				continue
			}
			if bin.Value(i) == sizebin.All {
				name := fmt.Sprintf("p%g", math.Round(1000*q)/10)
				line = append(line, fmt.Sprintf("%s %.3f to %.3f", name, lo[i], hi[i]))
				if methodError.IsValid(i) {
					workload = append(workload, fmt.Sprintf("%s %.3f to %.3f", name, workloadLo.Value(i), workloadHi.Value(i)))
					method = append(method, fmt.Sprintf("%s ±%.1f%%", name, 100*methodError.Value(i)))
				}
			}
			if warning.Value(i) != "" {
				name := strings.Clone(bin.Value(i)) // the batch's memory is used again
				short[name] = append(short[name], strings.Clone(warning.Value(i)))
			}
		}
	})
	if err != nil {
		return err
	}
	writeIntervals(p, line, workload, method)
	for _, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		if reasons := short[bin.Name]; reasons != nil {
			p.Linef("warning: the trace is short, %s: %s", bin.Name, strings.Join(reasons, "; "))
		}
	}
	return e.summarizeWarnings(p, r)
}

// writeIntervals writes the intervals of all flows, then their two parts if the method's is known.
func writeIntervals(p *text.Printer, both, workload, method []string) {
	if len(both) == 0 {
		return
	}
	if len(method) == 0 {
		p.Linef("95%% intervals of all flows: %s (what other flows of the same kind might give; not the method's own error)",
			strings.Join(both, ", "))
		return
	}
	p.Linef("95%% intervals of all flows: %s", strings.Join(both, ", "))
	p.Linef("  of these, other flows of the same kind: %s", strings.Join(workload, ", "))
	p.Linef("  of these, the method's own error: %s", strings.Join(method, ", "))
}

// shownOfAKind is how many warnings of one kind the summary prints: table warnings has one for each overloaded link.
const shownOfAKind = 3

// summarizeWarnings writes the first rows of each kind of table warnings, and how many others there are.
func (e *Estimation) summarizeWarnings(p *text.Printer, r engine.Records) error {
	shown := map[string]int{}
	more := 0
	err := e.eachBatch(r, schema.Warnings, func(rec arrow.Record) {
		kind, warning := textColumn(rec, "kind"), textColumn(rec, "warning")
		for i := range kind.Len() {
			if shown[kind.Value(i)] == shownOfAKind {
				more++
				continue
			}
			shown[strings.Clone(kind.Value(i))]++ // the batch's memory is used again
			p.Linef("warning: %s: %s", kind.Value(i), warning.Value(i))
		}
	})
	if more > 0 {
		p.Linef("and %d more: parsimon query --lake %s --sql \"SELECT * FROM warnings WHERE scenario = '%s' AND variant = '%s'\"",
			more, e.Lake.Path(), e.ID(), e.variant)
	}
	return err
}

func textColumn(rec arrow.Record, name string) *array.String {
	return columns.Text(rec, name)
}

// eachBatch calls do for every batch of one of a stage's tables.
func (e *Estimation) eachBatch(r engine.Records, t schema.Table, do func(rec arrow.Record)) error {
	in := e.Lake.Read(t, r.Files(t), nil, nil)
	return columns.Consume(in, func(rec arrow.Record) error {
		do(rec)
		return nil
	})
}

// WriteCost writes what each stage took, and what it would take if every link case and chunk of flows had a core of its
// own: the paper's Parsimon/inf, the longest piece plus what is not parallel.
func (e *Estimation) WriteCost(p *text.Printer) {
	if len(e.exec.Reports) == 0 {
		return
	}
	p.Linef("\n%-15s %9s %9s %14s %7s %7s %9s", "stage", "seconds", "cpu_s", "unlimited_s", "tasks", "reused", "peak_mb")
	var seconds, cpu, critical float64
	for _, s := range e.exec.Reports {
		p.Linef("%-15s %9.3f %9.3f %14.3f %7d %7d %9d", s.Stage, s.Seconds, s.CPUSeconds, s.CriticalSeconds, s.Tasks, s.Reused, s.PeakBytes/1e6)
		seconds += s.Seconds
		cpu += s.CPUSeconds
		critical += s.CriticalSeconds
	}
	other, otherCPU := max(0, time.Since(e.began).Seconds()-seconds), max(0, engine.ProcessorSeconds()-e.beganCPU-cpu)
	p.Linef("%-15s %9.3f %9.3f %14.3f %15s %9d", "other", other, otherCPU, other, "", engine.PeakBytes()/1e6)
	p.Linef("%-15s %9.3f %9.3f %14.3f  (%d workers; unlimited: every link case and chunk on a core of its own)", "all", seconds+other, cpu+otherCPU, critical+other, e.Workers)
	e.writeCases(p)
	e.writeDisk(p)
}

// seconds is the time since the estimation was opened.
func (e *Estimation) seconds() float64 { return time.Since(e.began).Seconds() }

// writeDisk writes how many bytes a flow costs: in the scenario's tables and in the cache, which all scenarios share.
func (e *Estimation) writeDisk(p *text.Printer) {
	g, err := e.Generated()
	if err != nil || g.Flows == 0 {
		return
	}
	line := fmt.Sprintf("disk: %d bytes a flow in tables", e.TableBytes()/g.Flows)
	if e.Cache != nil {
		line += fmt.Sprintf(", %d in the cache", e.Cache.Bytes()/g.Flows)
	}
	p.Linef("%s", line)
}

// TableBytes are the bytes of the tables that the plan wrote and that were not collected.
func (e *Estimation) TableBytes() (bytes int64) {
	for _, s := range e.plan() {
		bytes += readStageStatus(e.Lake, s, false).Bytes
	}
	return bytes
}

// CaseStages are the stages of a plan that run link cases. Their statistics are stages.SimulateStats.
func CaseStages(p engine.Plan) (all []*engine.Stage) {
	for _, s := range p {
		if slices.ContainsFunc(s.Writes,
			func(t schema.Table) bool { return t.Name == schema.LinkStats.Name || t.Name == schema.SenderFCTs.Name }) {
			all = append(all, s)
		}
	}
	return all
}

// Cases adds up the link cases of some stages.
func (e *Estimation) Cases(of ...*engine.Stage) (all stages.SimulateStats, err error) {
	for _, s := range of {
		r, err := engine.Complete(e.Lake, s, methodVersion)
		if err != nil {
			return all, err
		}
		tasks, err := engine.Stats[stages.SimulateStats](r)
		if err != nil {
			return all, err
		}
		for _, t := range tasks {
			all.Add(t)
		}
	}
	return all, nil
}

// writeCases writes how many packet-hops were simulated and, stage by stage, how many link cases were found in the
// cache.
func (e *Estimation) writeCases(p *text.Printer) {
	var all stages.SimulateStats
	var cached []string
	for _, s := range CaseStages(e.plan()) {
		of, err := e.Cases(s)
		if err != nil {
			continue
		}
		all.Add(of)
		if n := of.Cases + of.CachedCases; n > 0 {
			cached = append(cached, fmt.Sprintf("%s: %d of %d link cases (%s of %s packet-hops)", s, of.CachedCases, n,
				units.Human(float64(of.CachedHops)), units.Human(float64(of.PacketHops+of.CachedHops))))
		}
	}
	if all.PacketHops > 0 {
		p.Linef("%s packet-hops simulated at %.1f ns each", units.Human(float64(all.PacketHops)), float64(all.KernelNS)/float64(all.PacketHops))
	}
	if all.LongestCaseNS > 0 {
		link := e.Network.Links[all.LongestLink]
		p.Linef("longest link case: %s (link %d, %s), %.3f s: no number of cores makes its pass shorter", e.Network.LinkName(link.ID), link.ID, link.Tier, float64(all.LongestCaseNS)/1e9)
	}
	if all.CachedHops > 0 {
		p.Linef("%s packet-hops found in the cache at %.2f ns each:", units.Human(float64(all.CachedHops)), float64(all.CachedNS)/float64(all.CachedHops))
		for _, line := range cached {
			p.Linef("  %s", line)
		}
	}
}
