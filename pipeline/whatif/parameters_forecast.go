package whatif

import (
	"context"
	"fmt"

	"parsimon/pipeline"
	"parsimon/pipeline/text"
	"parsimon/schema/names"
	"parsimon/schema/units"
	"parsimon/stages/estimators"
	"parsimon/stages/topology"
)

// A ParametersForecast predicts the costs of a sweep over the parameters of a scenario file.
type ParametersForecast struct {
	Axes        []Axis        `json:"axes"`
	Runs        []RunForecast `json:"runs"`
	Cores       int           `json:"cores"`
	AtOnce      int           `json:"at_once"`
	Seconds     float64       `json:"seconds"`
	CPUSeconds  float64       `json:"cpu_seconds"`
	DiskBytes   int64         `json:"disk_bytes"`
	MemoryBytes int64         `json:"memory_bytes"` // --memory-limit, which a sweep obeys
	// Within is the number of runs that begin within the budget; 0: there is no budget.
	Within int `json:"within_budget,omitempty"`
}

// A RunForecast is the forecast of one combination.
type RunForecast struct {
	Settings   map[string]string `json:"settings"`
	Flows      int64             `json:"flows"`
	PacketHops int64             `json:"packet_hops"`
	MaxLoad    float64           `json:"max_load,omitempty"` // of the most loaded link, without headers
	AskedLoad  float64           `json:"asked_load"`
	Estimator  string            `json:"estimator"` // with which the run begins
	Seconds    float64           `json:"seconds"`   // beside the other runs
	CPUSeconds float64           `json:"cpu_seconds"`
	DiskBytes  int64             `json:"disk_bytes"`
	PeakBytes  int64             `json:"peak_bytes"` // peak memory, as of pipeline.Forecast
	// EstimatedFrom is as of pipeline.Forecast.
	EstimatedFrom int64 `json:"estimated_from_flows,omitempty"`
}

// ForecastParameters predicts what the sweep takes on a number of cores that no other program uses. It draws
// and routes the flows of every combination in the lake of the settings, estimates nothing, and removes the
// combination from the lake again.
func ForecastParameters(
	ctx context.Context, plan ParameterPlan, o Settings, cores int,
) (*ParametersForecast, error) {
	if !plan.Exact { // as in SweepParameters
		o.For = pipeline.ForDifference
	}
	p := &Parameters{Axes: plan.Axes}
	if err := p.combine(ctx, plan, o); err != nil {
		return nil, err
	}
	of := o.Settings
	of.Workers = cores
	schedule, err := p.schedule(plan, of)
	if err != nil {
		return nil, err
	}
	f := &ParametersForecast{Axes: plan.Axes, Cores: cores, AtOnce: schedule.atOnce,
		MemoryBytes: schedule.of.MemoryBytes}
	for i := range p.Runs {
		run, err := p.Runs[i].forecast(ctx, plan, o, max(1, cores/f.AtOnce))
		if err != nil {
			return nil, fmt.Errorf("run %d of %d (%s): %w", i+1, len(p.Runs), p.SettingsOf(i), err)
		}
		f.Runs = append(f.Runs, run)
		f.Seconds += run.Seconds / float64(f.AtOnce)
		f.CPUSeconds += run.CPUSeconds
		f.DiskBytes += run.DiskBytes
	}
	if o.Budget > 0 {
		seconds := names.Of(f.Runs, func(r RunForecast) float64 { return r.Seconds })
		f.Within = runsWithin(o.Budget, seconds, f.AtOnce)
	}
	return f, nil
}

// forecast predicts what one combination takes on a number of cores.
func (r *ParameterRun) forecast(
	ctx context.Context, plan ParameterPlan, o Settings, cores int,
) (RunForecast, error) {
	o.Workers = cores
	f, err := pipeline.ForecastOf(ctx, o.Lake, r.scenario, o.Variant, o.Settings)
	if err != nil {
		return RunForecast{}, err
	}
	run := RunForecast{Settings: r.Settings, Flows: f.Flows, PacketHops: f.PacketHops, MaxLoad: f.MaxLoad,
		AskedLoad: f.AskedLoad, EstimatedFrom: f.EstimatedFrom, Estimator: o.Variant.Estimator.String()}
	if o.Variant.Auto {
		run.Estimator = f.Estimator
	}
	run.PeakBytes = f.PeakBytes
	run.DiskBytes = f.SharedBytes
	for _, c := range f.Estimators {
		truth := plan.Exact && c.Estimator == estimators.Exact.String()
		if c.Estimator == run.Estimator || truth {
			run.Seconds += c.Seconds - pipeline.ProgramSeconds
			run.CPUSeconds += c.CPUSeconds - pipeline.ProgramSeconds
			run.DiskBytes += c.DiskBytes - f.SharedBytes
		}
	}
	return run, nil
}

// Text returns the forecast for people.
func (f *ParametersForecast) Text() *text.Answer {
	a := &text.Answer{}
	var head []string
	for _, axis := range f.Axes {
		head = append(head, axis.Key)
	}
	t := a.Table(append(head, "flows", "packet_hops", "load", "load_asked", "estimator", "cpu_s", "seconds")...)
	for _, r := range f.Runs {
		var cells []any
		for _, axis := range f.Axes {
			cells = append(cells, r.Settings[axis.Key])
		}
		var load any
		if r.MaxLoad > 0 {
			load = r.MaxLoad
		}
		cells = append(cells, r.Flows, r.PacketHops, load, r.AskedLoad, r.Estimator)
		t.Add(append(cells, r.CPUSeconds, r.Seconds)...)
	}
	peak := int64(0)
	estimated := int64(0)
	for _, r := range f.Runs {
		peak = max(peak, r.PeakBytes)
		estimated = max(estimated, r.EstimatedFrom)
	}
	a.Linef("%s: %s s of processor time, %s s on %s that no other program uses (%d at once), %sB on disk",
		topology.Count(len(f.Runs), "run"), text.Figure(f.CPUSeconds), text.Figure(f.Seconds),
		topology.Count(f.Cores, "core"), f.AtOnce, units.Human(float64(f.DiskBytes)))
	if f.Within > 0 {
		a.Linef("--budget: %d of the runs begin in time", f.Within)
	}
	a.Linef("memory: at most about %sB for a run, and at most %sB in all (--memory-limit)",
		units.Human(float64(peak)), units.Human(float64(f.MemoryBytes)))
	if estimated > 0 {
		a.Linef("flows and packet_hops of runs without a load are estimated from their first %d flows", estimated)
	}
	a.Linef("load: of the most loaded link, without headers, like load_asked. Times are predicted from runs " +
		"that were measured on two cores.")
	return a
}
