package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/text"
	"parsimon/schema/units"
	"parsimon/stages/topology"
)

// A prediction is the answer of run --dry-run.
type prediction struct {
	ScenarioID string `json:"scenario_id"`
	Name       string `json:"name"`
	*pipeline.Forecast
	Cores       int   `json:"cores"`
	MemoryBytes int64 `json:"memory_bytes"` // --memory-limit, which a run obeys
}

// predict writes what a run is expected to take. It generates and routes the flows in a temporary lake, which
// is removed. The flows of a workload exist only in its lake, so it creates a scenario there, which is
// removed unless it existed before.
func (v *runVerb) predict(ctx context.Context, args []string) error {
	v.dryRun = true
	sc, err := v.input.load(ctx, v.env, args)
	if err == nil {
		err = v.input.check(ctx, sc, &v.how, args)
	}
	if err != nil {
		return err
	}
	var known []lake.ScenarioID
	if v.input.workload != "" {
		l, err := v.openLake(lake.Open)
		if err != nil {
			return err
		}
		if known, err = l.Scenarios(); err != nil {
			return err
		}
	} else {
		dir, err := v.closers.makeTemporary("parsimon-dry-run-*")
		if err != nil {
			return err
		}
		v.env.lake = dir
	}
	v.how.cache = "off"
	o, err := v.how.settings(v.env)
	if err != nil {
		return err
	}
	run, err := pipeline.Begin(ctx, o.Lake, sc, o.Variant, o.Settings)
	if err != nil {
		return err
	}
	cores := cmp.Or(v.cores, runtime.NumCPU())
	f, err := run.Forecast(ctx, cores)
	run.Close()
	if err == nil && !slices.Contains(known, run.ID()) {
		_, err = pipeline.Remove(ctx, run.Lake, pipeline.Removal{Scenarios: []string{string(run.ID())}})
	}
	if err != nil {
		return err
	}
	p := &prediction{ScenarioID: string(run.ID()), Name: sc.Name, Forecast: f, Cores: cores,
		MemoryBytes: cmp.Or(o.MemoryBytes, pipeline.DefaultMemory)}
	return v.write(v.stdout, p, p.text())
}

// text returns the prediction for people.
func (p *prediction) text() *text.Answer {
	a := &text.Answer{}
	a.Linef("scenario %s (%s)", p.ScenarioID, p.Name)
	a.Linef("%d flows between %d hosts, %s packet-hops", p.Flows, p.Hosts, units.Human(float64(p.PacketHops)))
	asked := ""
	if p.AskedLoad > 0 {
		asked = "; asked for: " + text.Figure(p.AskedLoad).String() + "; both"
	}
	a.Linef("load of the most loaded link: %s%s without headers", text.Figure(p.MaxLoad), asked)
	a.Linef("")
	t := a.Table("estimator", "cpu_s", "seconds", "disk_mb")
	for _, e := range p.Estimators {
		t.Add(e.Estimator, e.CPUSeconds, e.Seconds, float64(e.DiskBytes)/1e6)
	}
	a.Linef("cpu_s: processor time of all cores; seconds: on %s that no other program uses. Both are predicted "+
		"from runs that were measured on two cores.", topology.Count(p.Cores, "core"))
	a.Linef("memory: about %sB with exact and one worker, less with link cases; at most %sB "+
		"(--memory-limit)", units.Human(float64(p.PeakBytes)), units.Human(float64(p.MemoryBytes)))
	a.Linef("--estimator auto takes %s: %s", p.Estimator, p.Reason)
	return a
}
