package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/bundle"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/reconcile"
	"parsimon/pipeline/sampling"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/text"
	"parsimon/pipeline/whatif"
	"parsimon/schema/names"
	"parsimon/stages/estimators"
)

// A runVerb estimates a scenario.
type runVerb struct {
	*env
	answerFlags
	input      scenarioFlags
	how        runFlags
	windows    windowFlags
	exact      bool
	startsFrom string
	forecast   bool // --dry-run
	cores      int
}

func (v *runVerb) declare(f *pflag.FlagSet) {
	v.how.declareLake(v.env, f)
	v.input.declare(f)
	v.how.declareEstimate(f)
	v.how.defaultAuto(f, "exact if it takes a minute or at most twice as long as flow, or, up to "+
		"--exact-limit, if two passes of flow are not accurate enough; else flow")
	group(f, estimatorGroup, func() {
		f.StringVar(&v.startsFrom, "starts-from", "", "exact: if flows wait for others, simulate the whole "+
			"network first, and estimate the flows with the starts that it found")
		f.BoolVar(&v.exact, "exact", false, "also simulate the whole network, and compare the estimate with it "+
			"(slow)")
	})
	group(f, machineGroup, func() {
		v.how.declareKeep(f)
		f.BoolVar(&v.forecast, "dry-run", false, "only predict what the run takes, and which estimator it "+
			"chooses; this draws and routes the flows, the first million of a generated workload without jobs, and "+
			"writes nothing into the lake")
		intVar(f, &v.cores, intRange{1, 4096}, "cores", "with --dry-run: number of cores to predict the time for; "+
			"default: those of this machine")
		needs(f, "dry-run", "cores")
	})
	group(f, "Answer", func() {
		v.declareForm(f, tableForms()...)
		v.declareGates(f, withoutBase)
	})
	group(f, "Windows of time", func() { v.windows.declare(f) })
}

func (v *runVerb) run(ctx context.Context, args []string) error {
	if len(args) == 1 && bundle.Is(args[0]) {
		return v.repeat(ctx, args[0])
	}
	ask, sampling, err := v.windows.ask()
	switch {
	case sampling && v.exact:
		return usagef("--within does not go with --exact")
	case sampling && v.forecast:
		return usagef("--dry-run does not go with --within")
	}
	if sampling {
		err = v.windows.simulate(&v.how)
	}
	if err != nil {
		return err
	}
	if v.startsFrom != "" && v.startsFrom != estimators.Exact.String() {
		return usagef("--starts-from %q: want exact", v.startsFrom)
	}
	if v.forecast {
		return v.predict(ctx, args)
	}
	open := begin
	if v.startsFrom != "" {
		open = beginFromExact
	}
	run, err := open(ctx, v.env, &v.input, &v.how, args)
	if err != nil {
		return err
	}
	if sampling {
		return v.estimateWindows(ctx, run, ask)
	}
	if err := run.Estimate(ctx); err != nil {
		return err
	}
	if err := run.MakeAnswer(); err != nil {
		return err
	}
	if v.exact {
		if err := run.Exact(ctx); err != nil {
			return err
		}
	}
	return v.answer(ctx, run)
}

// estimateWindows estimates a scenario from windows of time, and writes the answer.
func (v *runVerb) estimateWindows(ctx context.Context, run *pipeline.Estimation, ask sampling.Ask) error {
	result, err := sampling.Run(ctx, run, ask)
	switch {
	case err != nil:
	case result.Stopped == sampling.Whole:
		err = run.MakeAnswer()
		if err == nil {
			err = sampling.VaryMessageSizes(ctx, run, run.Variant().Stored())
		}
		if err == nil {
			result.Sizes, err = summary.ReadSizes(ctx, run, run.Variant().Stored())
		}
	default:
		session := run.Executor().Session()
		err = session.SetAnswer(run.ID(), result.Made)
		if err == nil {
			result.Whole, err = estimatesOf(session.Lake, run.ID(), ofAllFlows)
		}
	}
	if err != nil {
		return err
	}
	return v.writeWindows(v.stdout, result, result.Judge(v.gates))
}

// answer writes the results of an estimate and judges its gates. If message sizes are assumed, it finds first
// how much they matter.
func (v *runVerb) answer(ctx context.Context, run *pipeline.Estimation) error {
	if err := sampling.VaryMessageSizes(ctx, run, run.Variant().Stored()); err != nil {
		return err
	}
	result, people, failed := v.results(ctx, run)
	if result == nil {
		return failed
	}
	if v.exact {
		people.Linef("")
		var err error
		if result.Validation, err = validate(ctx, run, "", people); err != nil {
			return err
		}
	}
	return v.judged(v.stdout, result, people, failed)
}

// results reads the results of an estimate, and returns them with their text and the verdicts of the gates.
// Without a result, failed is the error.
func (v *runVerb) results(
	ctx context.Context, run *pipeline.Estimation,
) (result *summary.Result, people *text.Answer, failed error) {
	isText := v.form != "json"
	result, failed = summary.Read(ctx, run, summary.Options{Gates: v.gates, Text: isText,
		Services: !isText || v.metrics.file != ""})
	if result == nil {
		return nil, nil, failed
	}
	if v.metrics.file != "" {
		if err := v.metrics.estimate(run, result); err != nil {
			return nil, nil, err
		}
	}
	people = &text.Answer{}
	if isText {
		people = result.Text()
	}
	return result, people, failed
}

// begin opens a scenario for an estimate from its beginning.
func begin(ctx context.Context, e *env, s *scenarioFlags, r *runFlags, args []string) (*pipeline.Estimation,
	error) {
	sc, err := s.load(ctx, e, args)
	if err == nil {
		err = s.check(ctx, sc, r, args) // before the settings, which may make a cache
	}
	if err != nil {
		return nil, err
	}
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	run, err := e.open(pipeline.Begin(ctx, o.Lake, sc, o.Variant, o.Settings))
	if err == nil {
		_, note, _ := pipeline.ResolveNoted(run.Lake, sc.Name, names.Abbreviated)
		if note != "" {
			o.Log.Info().Msg(note)
		}
		for _, note := range sc.TopologyNotes() {
			o.Log.Info().Msg("topology: " + note)
		}
	}
	return run, err
}

// beginFromExact simulates the whole network of a scenario whose flows wait for others, and then opens the
// scenario in which each flow has the start that the simulation found.
func beginFromExact(
	ctx context.Context, e *env, s *scenarioFlags, r *runFlags, args []string,
) (*pipeline.Estimation, error) {
	exact := *r
	exact.estimator = estimators.Exact.String()
	exact.how.Variant = pipeline.Variant{}
	exact.how.For = ""
	run, err := begin(ctx, e, s, &exact, args)
	if err != nil {
		return nil, err
	}
	if err := run.Estimate(ctx); err != nil {
		return nil, err
	}
	g, err := run.Generated()
	if err == nil && !g.Closed() {
		err = usagef("--starts-from: no flow of %s waits for others", run.Spec.Name)
	}
	if err != nil {
		return nil, err
	}
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	return e.open(pipeline.Derive(ctx, run.Model, scenario.Changes{FoundStarts: true}, o.Variant, o.Settings))
}

// resume opens a scenario of the lake, given as SCENARIO or SCENARIO@VARIANT.
func resume(ctx context.Context, e *env, r *runFlags) (*pipeline.Estimation, error) {
	o, err := r.settings(e)
	if err != nil {
		return nil, err
	}
	l, err := e.openLake(lake.Open)
	if err != nil {
		return nil, err
	}
	var of whatif.Side
	if r.scenario != "" {
		if of, err = e.side(l, r.scenario); err != nil {
			return nil, err
		}
	}
	if of.Variant != "" {
		if o.Variant, err = pipeline.ParseVariant(of.Variant); err != nil {
			return nil, fmt.Errorf("--scenario: %w", err)
		}
	}
	model, err := pipeline.OpenModel(ctx, l, of.Scenario)
	if err != nil {
		return nil, err
	}
	last, ok := model.LastRun()
	if ok && o.Variant.Auto && r.ofLastRun {
		o.Variant = last
	}
	return e.open(model.Resume(ctx, o.Variant, o.Settings))
}

// open has an estimation closed when the command ends.
func (e *env) open(run *pipeline.Estimation, err error) (*pipeline.Estimation, error) {
	if err == nil {
		e.closers.add(run.Close)
	}
	return run, err
}

// A validateVerb compares an estimate with a reference.
type validateVerb struct {
	*env
	answerFlags
	how       runFlags
	reference string
	slot      time.Duration
	counters  reconcile.CounterOptions
	mapping   []string // of the columns of counters
	flags     *pflag.FlagSet
}

func (v *validateVerb) declare(f *pflag.FlagSet) {
	v.how.declareLake(v.env, f)
	v.how.declareScenario(f)
	group(f, estimatorGroup, func() {
		v.how.declareEstimator(f)
		v.how.declareCluster(f)
	})
	v.how.defaultAuto(f, "the estimate of the last run")
	v.how.declareWorkers(f)
	f.StringVar(&v.reference, "truth", "exact",
		"the reference: exact, log (the flow log of the workload), or a Parquet file with flow_id and fct_ns")
	parse(f, &v.slot, parseSlot, flagSpec{"slot", "duration", time.Minute.String(),
		"--truth log: length of the slots of time in which the bytes of links are compared"})
	f.StringVar(&v.counters.File, "counters", "",
		"--truth log: CSV `file` of interface counters (time, device, port, bytes), compared with the log by link")
	parse(f, &v.counters.Kind, parseCounterKind, flagSpec{
		name: "counter-bytes", kind: "cumulative|interval",
		usage: "bytes of a row of counters: cumulative, as in SNMP, or of the interval since the previous row of " +
			"the port",
	})
	_ = f.SetAnnotation("counter-bytes", choicesKey, reconcile.CounterKinds) // the flag is declared
	f.StringArrayVar(&v.mapping, "counter-column", nil,
		"`COLUMN=NAME`: name of column time, device, port, bytes or direction in --counters; may be repeated")
	needs(f, "truth", "slot", "counters")
	needs(f, "counters", "counter-bytes", "counter-column")
	v.flags = f
	v.declareForm(f, tableForms()...)
}

// parseSlot parses the length of a slot of time.
func parseSlot(text string) (time.Duration, error) {
	slot, err := time.ParseDuration(text)
	if err == nil && slot < time.Millisecond {
		err = errors.New("must be 1ms or more")
	}
	return slot, err
}

// parseCounterKind parses what the bytes of counters are.
func parseCounterKind(text string) (reconcile.CounterKind, error) {
	kind := slices.Index(reconcile.CounterKinds, text)
	if kind < 0 {
		return 0, errors.New("want " + strings.Join(reconcile.CounterKinds, " or "))
	}
	return reconcile.CounterKind(kind), nil
}

// check checks flags that depend on each other.
func (v *validateVerb) check() (err error) {
	ofLog := v.reference == whatif.TruthLog
	switch {
	case !ofLog && (v.flags.Changed("slot") || v.counters.File != ""):
		return usagef("--slot and --counters go with --truth log")
	case v.counters.File != "" && !v.flags.Changed("counter-bytes"):
		return usagef("--counters needs --counter-bytes: are the bytes of a row cumulative, or of an interval?")
	}
	v.counters.Columns = map[string]string{}
	for _, text := range v.mapping {
		column, name, stated := strings.Cut(text, "=")
		if !stated || name == "" || !slices.Contains(reconcile.CounterColumns(), column) {
			return usagef("--counter-column %q: want COLUMN=NAME, of %s", text,
				strings.Join(reconcile.CounterColumns(), ", "))
		}
		v.counters.Columns[column] = name
	}
	return nil
}

func (v *validateVerb) run(ctx context.Context, _ []string) error {
	if err := v.check(); err != nil {
		return err
	}
	v.how.ofLastRun = true
	run, err := resume(ctx, v.env, &v.how)
	if err != nil {
		return err
	}
	a := &text.Answer{}
	a.Linef("scenario %s (%s), variant %s, by %s", run.ID(), run.Spec.Name, run.Variant(), buildVersion())
	if v.reference == whatif.TruthLog {
		return v.withLog(ctx, run, a)
	}
	file := v.reference
	if file == "exact" {
		file = ""
		if err := run.Exact(ctx); err != nil {
			return err
		}
	}
	found, err := validate(ctx, run, file, a)
	if err != nil {
		return err
	}
	return v.write(v.stdout, found, a)
}

// withLog compares an estimate with its flow log.
func (v *validateVerb) withLog(ctx context.Context, run *pipeline.Estimation, a *text.Answer) error {
	found, err := whatif.ValidateLog(ctx, run, whatif.LogOptions{SlotNS: int64(v.slot), Counters: v.counters})
	if err != nil {
		return err
	}
	found.Program = buildVersion().String()
	found.AddTo(a)
	return v.write(v.stdout, found, a)
}

// validate compares an estimate with a reference file or, without one, with the simulation of the whole
// network. It adds the comparison to an answer for people.
func validate(
	ctx context.Context, run *pipeline.Estimation, file string, a *text.Answer,
) (*whatif.Validation, error) {
	found, err := whatif.Validate(ctx, run, file)
	if err != nil {
		return nil, err
	}
	found.Program = buildVersion().String()
	if file == "" {
		if err := summary.AddExact(a, run); err != nil {
			return nil, err
		}
	}
	found.AddTo(a)
	return found, nil
}
