package main

import (
	"cmp"
	"context"
	"runtime"

	"parsimon/pipeline"
	"parsimon/pipeline/scenario"
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

// predict writes what a run is expected to take. It draws and routes flows in a temporary lake, which is
// removed. The flows of a workload exist only in its lake, so it creates a scenario there, which is
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
	if v.input.workload == "" {
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
	o.Workers = cmp.Or(v.cores, runtime.NumCPU())
	f, err := pipeline.ForecastOf(ctx, o.Lake, sc, o.Variant, o.Settings)
	if err != nil {
		return err
	}
	settled, err := sc.Settle()
	if err != nil {
		return err
	}
	p := &prediction{ScenarioID: scenario.IDOf(settled.Canonical), Name: sc.Name, Forecast: f, Cores: o.Workers,
		MemoryBytes: cmp.Or(o.MemoryBytes, pipeline.DefaultMemory)}
	return v.write(v.stdout, p, p.text())
}

// text returns the prediction for people.
func (p *prediction) text() *text.Answer {
	a := &text.Answer{}
	a.Linef("scenario %s (%s)", p.ScenarioID, p.Name)
	packetHops := units.Human(float64(p.PacketHops))
	asked := text.Figure(p.AskedLoad)
	if p.EstimatedFrom > 0 {
		a.Linef("about %s flows between %d hosts, %s packet-hops: estimated from the first %d flows",
			units.Human(float64(p.Flows)), p.Hosts, packetHops, p.EstimatedFrom)
		a.Linef("requested load of the most loaded link, without headers: %s", asked)
	} else {
		a.Linef("%d flows between %d hosts, %s packet-hops", p.Flows, p.Hosts, packetHops)
		of := ""
		if p.AskedLoad > 0 {
			of = "; asked for: " + asked.String() + "; both"
		}
		a.Linef("load of the most loaded link: %s%s without headers", text.Figure(p.MaxLoad), of)
	}
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
