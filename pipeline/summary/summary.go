// Package summary says what an estimate found: Write for people, a Result for scripts, verdicts of conditions
// (Judge), and what the estimate cost. It reads a complete estimate and the lake's queries, and writes no table.
//
//	estimate ─┬─ question slowdown_by_size, tables intervals, warnings ─► Result ─► JSON
//	          ├─ the same, questions hottest_links …, exact (if there is one) ─► Write: text
//	          ├─ quantile of the flows that a gate selects ─► Judge
//	          └─ records of the stages ─► cost: time, memory, link cases found in the cache
package summary

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/queries"
	"parsimon/schema"
	"parsimon/schema/columns"
	"parsimon/schema/sizebin"
	"parsimon/stages"
)

// Write writes what an estimate found: its slowdowns by size bin and how far to trust them, the most loaded
// links, what each stage cost, and what to run next.
func Write(ctx context.Context, w io.Writer, e *pipeline.Estimation) (err error) {
	g, err := e.Generated()
	if err != nil {
		return err
	}
	p := &text.Printer{W: w}
	p.Linef("scenario %s (%s), variant %s", e.ID(), e.Spec.Name, e.Variant())
	p.Linef("%d flows over %s; lake %s", g.Flows, time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond), e.Lake.Path())
	if err := summarizeWorkload(p, e, g); err != nil {
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
			p.Err = writeQuery(ctx, w, e, db, name, extra)
		}
	}
	table("Slowdown (FCT / ideal FCT) by flow size", queries.SlowdownBySize, nil)
	if err := summarizeIntervals(p, e); err != nil {
		return err
	}
	table("Most loaded links", queries.HottestLinks, map[string]string{"n": "5"})
	table("Load of the network", queries.LoadTop10, nil)
	if g.ExpectedMaxLoad > 0 {
		p.Linef("expected load of the most loaded link, from the matrices: %.4f (%s, link %d)", g.ExpectedMaxLoad, e.Network.LinkName(g.ExpectedMaxLink), g.ExpectedMaxLink)
	}
	WriteCost(p, e)
	shell := pipeline.ShellName(e.Lake, e.ID())
	p.Linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param scenario=%s\n  parsimon report %s --lake %s", e.Lake.Path(), shell, shell, e.Lake.Path())
	return p.Err
}

// summarizeWorkload writes what is not as it seems about the flows.
func summarizeWorkload(p *text.Printer, e *pipeline.Estimation, g pipeline.GenerateStats) error {
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
	r, err := e.Records(schema.LinkLoads)
	if err != nil {
		return err
	}
	routed, err := pipeline.RouteStats(r)
	if err == nil && routed.Unreachable > 0 {
		first := routed.UnreachableExamples[0]
		p.Linef("%d flows have no path and no estimate, e.g. from %s to %s", routed.Unreachable, e.Network.Name(first.Src), e.Network.Name(first.Dst))
	}
	return err
}

// writeQuery writes the answer of one question about the estimate.
func writeQuery(ctx context.Context, w io.Writer, e *pipeline.Estimation, db *queries.DB, name string,
	extra map[string]string) error {
	q, err := queries.Get(name)
	if err != nil {
		return err
	}
	params := map[string]string{"scenario": string(e.ID()), "variant": e.Variant().String()}
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
func summarizeIntervals(p *text.Printer, e *pipeline.Estimation) error {
	if e.Plan().Writer(schema.Intervals) == nil { // of an estimate that is deleted again
		return nil
	}
	var line, workload, method []string
	short := map[string][]string{} // warnings, by size bin
	err := eachBatch(e, schema.Intervals, func(rec arrow.Record) {
		service, vnet := columns.Text(rec, "service"), columns.Text(rec, "vnet")
		bin, warning := columns.Text(rec, "size_bin"), columns.Text(rec, "warning")
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
	writeIntervals(p, line, workload, method, e.Variant().Estimator)
	for _, bin := range append(sizebin.Bins(), sizebin.Bin{Name: sizebin.All}) {
		if reasons := short[bin.Name]; reasons != nil {
			p.Linef("warning: the trace is short, %s: %s", bin.Name, strings.Join(reasons, "; "))
		}
	}
	return summarizeWarnings(p, e)
}

// writeIntervals writes the intervals of all flows, then their two parts if the method's is known.
func writeIntervals(p *text.Printer, both, workload, method []string, by stages.Estimator) {
	if len(both) == 0 {
		return
	}
	if len(method) == 0 {
		part := "not the method's own error"
		if by == stages.WholeNetwork {
			part = "every packet was simulated"
		}
		p.Linef("95%% intervals of all flows: %s (what other flows of the same kind might give; %s)", strings.Join(both, ", "), part)
		return
	}
	p.Linef("95%% intervals of all flows: %s", strings.Join(both, ", "))
	p.Linef("  of these, other flows of the same kind: %s", strings.Join(workload, ", "))
	p.Linef("  of these, the method's own error: %s", strings.Join(method, ", "))
}

// shownOfAKind is how many warnings of one kind the summary prints: table warnings has one for each overloaded link.
const shownOfAKind = 3

// summarizeWarnings writes the first rows of each kind of table warnings, and how many others there are.
func summarizeWarnings(p *text.Printer, e *pipeline.Estimation) error {
	shown := map[string]int{}
	more := 0
	err := eachBatch(e, schema.Warnings, func(rec arrow.Record) {
		kind, warning := columns.Text(rec, "kind"), columns.Text(rec, "warning")
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
		p.Linef("and %d more: parsimon query --lake %s --sql \"SELECT * FROM warnings_all WHERE scenario = '%s' AND variant = '%s'\"",
			more, e.Lake.Path(), e.ID(), e.Variant())
	}
	return err
}

// eachBatch calls do for every batch of one of the estimate's tables.
func eachBatch(e *pipeline.Estimation, t schema.Table, do func(rec arrow.Record)) error {
	in, err := e.Read(t, nil, nil)
	if err != nil {
		return err
	}
	return columns.Consume(in, func(rec arrow.Record) error {
		do(rec)
		return nil
	})
}
