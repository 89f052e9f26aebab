package pipeline

import (
	"context"
	"fmt"
	"io"
	"time"

	"parsimon/queries"
	"parsimon/stages"
)

// WriteSummary writes what a finished run found: its slowdowns by size bin and how far they can be
// trusted, the most loaded links,
// what each stage cost, and what to type next.
func (r *Run) WriteSummary(ctx context.Context, w io.Writer) (err error) {
	g, err := r.generated()
	if err != nil {
		return err
	}
	p := printer{w: w}
	p.linef("scenario %s (%s), variant %s", r.spec.ScenarioID, r.spec.Name, r.Variant())
	p.linef("%d flows over %s; lake %s", g.Flows, time.Duration(g.LastStartNS-g.FirstStartNS).Round(time.Microsecond), r.lake.root)
	if g.SyntheticStarts > 0 {
		p.linef("%.1f%% of the flows have synthetic starts, drawn where the trace does not say them: so far the estimate is of a workload LIKE the trace", 100*float64(g.SyntheticStarts)/float64(g.Flows))
	}
	if g.Rejects > 0 {
		p.linef("%d rows of the flow file could not be simulated (table rejects):", g.Rejects)
		for _, why := range g.RejectReasons {
			p.linef("  %d × %s (first: %s)", why.Rows, why.Reason, why.Example)
		}
	}
	if err := r.summarizeUnreachable(&p); err != nil {
		return err
	}
	db, err := r.openQueries(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	table := func(title, name string, extra map[string]string) {
		p.linef("\n%s", title)
		if p.err == nil {
			p.err = r.writeQuery(ctx, db, name, extra, w)
		}
	}
	table("Slowdown (FCT / ideal FCT) by flow size", queries.SlowdownBySize, nil)
	if err := r.summarizeIntervals(&p); err != nil {
		return err
	}
	table("Most loaded links", queries.HottestLinks, map[string]string{"n": "5"})
	table("Load of the network", queries.LoadTop10, nil)
	if g.ExpectedMaxLoad > 0 {
		link := r.net.Links[g.ExpectedMaxLink]
		p.linef("expected load of the most loaded link, from the matrices: %.4f (link %d, %d → %d)", g.ExpectedMaxLoad, link.ID, link.Src, link.Dst)
	}
	r.summarizeTime(&p)
	p.linef("\nNext:\n  parsimon query --list\n  parsimon query slowdown_by_service --lake %s --param scenario=%s", r.lake.root, r.spec.ScenarioID)
	return p.err
}

// writeQuery writes one query's answer about the run's scenario.
func (r *Run) writeQuery(ctx context.Context, db *queries.DB, name string, extra map[string]string, w io.Writer) error {
	q, err := queries.Get(name)
	if err != nil {
		return err
	}
	params := map[string]string{"scenario": r.spec.ScenarioID, "variant": r.Variant()}
	for k, v := range extra {
		params[k] = v
	}
	rows, err := db.Run(ctx, q, params)
	if err != nil {
		return err
	}
	// The intervals and warnings have lines of their own.
	return rows.Hide("scenario", "variant", "p50_lo", "p50_hi", "p90_lo", "p90_hi", "p99_lo", "p99_hi", "p999_lo", "p999_hi", "warning").Write(w, "table")
}

func (r *Run) summarizeUnreachable(p *printer) error {
	all, err := r.routeStats()
	if err != nil {
		return err
	}
	if all.Unreachable > 0 {
		p.linef("%d flows have no path and no estimate, e.g. from host %d to host %d", all.Unreachable, all.UnreachableExamples[0].Src, all.UnreachableExamples[0].Dst)
	}
	return nil
}

// summarizeTime writes what each stage took, and what it would take if every link case had a core
// of its own: the paper's Parsimon/inf, the longest link case plus what is not parallel.
func (r *Run) summarizeTime(p *printer) {
	if len(r.reports) == 0 {
		return
	}
	p.linef("\n%-10s %9s %9s %14s %7s %7s %9s", "stage", "seconds", "cpu_s", "unlimited_s", "tasks", "reused", "peak_mb")
	var seconds, cpu, critical float64
	for _, s := range r.reports {
		p.linef("%-10s %9.3f %9.3f %14.3f %7d %7d %9d", s.Stage, s.Seconds, s.CPU, s.Critical, s.Tasks, s.Reused, s.PeakBytes/1e6)
		seconds += s.Seconds
		cpu += s.CPU
		critical += s.Critical
	}
	other, otherCPU := max(0, time.Since(r.began).Seconds()-seconds), max(0, processorSeconds()-r.beganCPU-cpu)
	p.linef("%-10s %9.3f %9.3f %14.3f %15s %9d", "other", other, otherCPU, other, "", peakBytes()/1e6)
	p.linef("%-10s %9.3f %9.3f %14.3f  (%d workers; unlimited: every link case and chunk on a core of its own)", "all", seconds+other, cpu+otherCPU, critical+other, r.workers)
	r.summarizeCases(p)
	r.summarizeDisk(p)
}

// summarizeDisk writes how many bytes a flow costs: in the scenario's tables, as this run has made them
// or found them, and in the cache, which all scenarios share.
func (r *Run) summarizeDisk(p *printer) {
	g, err := r.generated()
	if err != nil || g.Flows == 0 {
		return
	}
	all := append([]stage{r.generateStage(), r.routeStage(), r.sampleStage(), r.intervalsStage()}, r.caseStages()...)
	if r.estimator == stages.Flow {
		for n := 1; n < r.passes; n++ {
			all = append(all, r.relaxStage(n))
		}
		all = append(all, r.tellStage())
	} else {
		all = append(all, r.bucketStage())
		if r.cluster != nil {
			all = append(all, r.clusterStage(), r.drawStage())
		}
	}
	var tables int64
	for _, s := range all {
		tables += r.lake.stageStatus(s, false).Bytes
	}
	line := fmt.Sprintf("disk: %d bytes a flow in tables", tables/g.Flows)
	if r.cache != nil {
		line += fmt.Sprintf(", %d in the cache", r.cache.Bytes()/g.Flows)
	}
	p.linef("%s", line)
}

// summarizeCases writes how many packet-hops were simulated and, stage by stage, how many link cases
// were found in the cache instead.
func (r *Run) summarizeCases(p *printer) {
	var all stages.SimulateStats
	var cached []string
	for i, cases := range r.caseStages() {
		of, err := r.casesOf(cases)
		if err != nil {
			continue
		}
		all.Add(of)
		name := cases.name
		if r.estimator == stages.Flow && name == "simulate" {
			name = fmt.Sprintf("pass %d", i+1)
		}
		if n := of.Cases + of.CachedCases; n > 0 {
			cached = append(cached, fmt.Sprintf("%s: %d of %d link cases (%s of %s packet-hops)", name,
				of.CachedCases, n, Human(float64(of.CachedHops)), Human(float64(of.PacketHops+of.CachedHops))))
		}
	}
	if all.PacketHops > 0 {
		p.linef("%s packet-hops simulated at %.1f ns each", Human(float64(all.PacketHops)), float64(all.KernelNS)/float64(all.PacketHops))
	}
	if all.LongestCaseNS > 0 {
		link := r.net.Links[all.LongestLink]
		p.linef("longest link case: link %d (%d → %d, %s), %.3f s: no number of cores makes its pass shorter", link.ID, link.Src, link.Dst, link.Tier, float64(all.LongestCaseNS)/1e9)
	}
	if all.CachedHops > 0 {
		p.linef("%s packet-hops found in the cache at %.2f ns each:", Human(float64(all.CachedHops)), float64(all.CachedNS)/float64(all.CachedHops))
		for _, line := range cached {
			p.linef("  %s", line)
		}
	}
}

// printer writes lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) linef(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
