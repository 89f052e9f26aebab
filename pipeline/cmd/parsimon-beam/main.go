// Command parsimon-beam estimates a scenario on many machines with Apache Beam: the stages of "parsimon run",
// with equal rows, in the same lake. It also runs the cables of "parsimon sweep --fail", and reads the shards
// of "parsimon ingest --shard".
//
// Flows are generated where the command runs, because they are one stream. One Beam pipeline then does all
// other stages. Its elements are task numbers only: data stays in the lake, on a path that all workers share.
// Each step of the estimate (engine.TaskRunner.Steps; a pass of estimator flow has two) adds to it
//
//	group ─► plan ─► reshuffle ─► do ─┬─► group ─► plan ─► …
//	            └── noTask ───────────┘
//
// plan divides the step into tasks and emits the numbers of those that are not done, the costliest first. do
// runs one task on any worker and emits its number. group, a GroupByKey on a single key, emits nothing before
// all tasks of the step are done: it is the barrier that the method needs between two steps. plan also emits
// noTask, so that a step without tasks left is followed by the next.
//
// A sweep is one more step, after those of its scenario. Its tasks are the cables: each is the estimate of
// the scenario that the failure of the cable makes (whatif.CableRunner).
//
// All steps are in one pipeline. The job therefore continues without the machine that submitted it, and the
// binary is staged once. A runner that restarts the job continues where it stopped, because a task that is
// done has its record in the lake. A failed task, a lost worker and a task that two workers run at once need
// no code here (engine.TaskRunner).
//
// The command is a separate module, because Beam adds 58 modules and would raise 14 that parsimon uses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamlog "github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/catalog"
	"parsimon/pipeline/engine"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/summary"
	"parsimon/pipeline/whatif"
	"parsimon/stages/estimators"
	"parsimon/stages/linksim"
	"parsimon/stages/moves"
)

// A Job has the properties of an estimate that workers need. Beam serializes it as JSON with the pipeline.
type Job struct {
	Lake       string // a path that all workers share
	Scenario   string // the id of a scenario whose flows the lake holds
	Estimator  string
	Passes     int
	Cluster    string // empty: none
	Workers    int    // goroutines of steps of a single task
	Partitions int
	Keep       bool // keep temporary tables

	Sweep whatif.SweepPlan // no tier: none
}

// variant parses the variant of the estimate.
func (j Job) variant() (v pipeline.Variant, err error) {
	v.Passes = j.Passes
	if v.Estimator, err = estimators.Parse(j.Estimator); err != nil {
		return v, err
	}
	if j.Cluster != "" {
		v.Cluster, err = linksim.ParseClustering(j.Cluster)
	}
	return v, err
}

// settings returns the settings that do not affect rows.
func (j Job) settings() (o pipeline.Settings) {
	o.Workers, o.Partitions, o.Keep = j.Workers, j.Partitions, j.Keep
	return o
}

// runners holds the runner of every job of this process, which many bundles use at once.
var runners = struct {
	sync.Mutex
	of map[Job]*runner
}{of: map[Job]*runner{}}

// runner returns the job's runner.
func (j Job) runner(ctx context.Context) (*runner, error) {
	runners.Lock()
	defer runners.Unlock()
	if r, ok := runners.of[j]; ok {
		return r, nil
	}
	v, err := j.variant()
	if err != nil {
		return nil, err
	}
	r := &runner{}
	r.TaskRunner, err = pipeline.NewTaskRunner(ctx, j.Lake, j.Scenario, v, j.settings())
	if err == nil && j.sweeps() {
		o := whatif.Settings{Settings: j.settings(), Lake: j.Lake, Variant: v}
		o.Workers = 1 // a worker of the runner is a core
		r.cables, err = whatif.NewCableRunner(ctx, j.Scenario, j.Sweep, o)
	}
	if err != nil {
		return nil, fmt.Errorf("lake %s, which every worker must see under this path: %w", j.Lake, err)
	}
	runners.of[j] = r
	return r, nil
}

// sweeps reports whether the job ends with a sweep.
func (j Job) sweeps() bool { return j.Sweep.Tier != "" }

// A runner runs the steps of a job. Its methods are those of engine.TaskRunner, with a sweep as the last
// step.
type runner struct {
	*engine.TaskRunner
	cables *whatif.CableRunner // nil: no sweep
}

// sweepStep is the name of the step whose tasks are the cables of a sweep.
const sweepStep = "sweep"

// Steps returns the names of the steps, in order.
func (r *runner) Steps() []string {
	steps := r.TaskRunner.Steps()
	if r.cables != nil {
		steps = append(steps, sweepStep)
	}
	return steps
}

// Plan returns the numbers of the incomplete tasks of a step.
func (r *runner) Plan(ctx context.Context, step string) ([]int, error) {
	if step == sweepStep {
		return r.cables.Todo(ctx)
	}
	return r.TaskRunner.Plan(ctx, step)
}

// Do runs task n of a step, unless it is complete.
func (r *runner) Do(ctx context.Context, step string, n int) error {
	if step == sweepStep {
		return r.cables.Do(ctx, n)
	}
	return r.TaskRunner.Do(ctx, step, n)
}

// Finish is called once all tasks of a step are complete.
func (r *runner) Finish(ctx context.Context, step string) error {
	if step == sweepStep {
		return nil
	}
	return r.TaskRunner.Finish(ctx, step)
}

// Complete reports whether all tasks of all steps are complete.
func (r *runner) Complete(ctx context.Context) (bool, error) {
	done, err := r.TaskRunner.Complete(ctx)
	if err != nil || !done || r.cables == nil {
		return done, err
	}
	todo, err := r.cables.Todo(ctx)
	return len(todo) == 0, err
}

// noTask is an element that is not the number of a task.
const noTask = -1

func init() {
	register.Function1x2(beginJob)
	register.DoFn4x1[context.Context, int, func(*int) bool, func(int), error](&planStep{})
	register.DoFn2x3[context.Context, int, int, int, error](&doTask{})
	register.DoFn3x1[context.Context, int, func(*int) bool, error](&endJob{})
	register.Emitter1[int]()
	register.Iter1[int]()
}

func beginJob([]byte) (int, int) { return 0, noTask }

// planStep begins a step when all tasks of the one before are done.
type planStep struct {
	Job    Job
	Before string // empty for the first
	Step   string
}

// ProcessElement finishes the step before and emits the tasks of this one. A runner that retries calls it
// again.
func (p *planStep) ProcessElement(ctx context.Context, _ int, _ func(*int) bool, emit func(int)) error {
	r, err := p.Job.runner(ctx)
	if err != nil {
		return err
	}
	if p.Before != "" {
		if err := r.Finish(ctx, p.Before); err != nil {
			return err
		}
	}
	todo, err := r.Plan(ctx, p.Step)
	if err != nil {
		return err
	}
	emit(noTask)
	for _, n := range todo {
		emit(n)
	}
	return nil
}

// doTask does tasks of a step.
type doTask struct {
	Job  Job
	Step string
}

// ProcessElement does the task n and returns its number under the key 0, the only one.
func (d *doTask) ProcessElement(ctx context.Context, n int) (int, int, error) {
	if n == noTask {
		return 0, n, nil
	}
	r, err := d.Job.runner(ctx)
	if err != nil {
		return 0, n, err
	}
	return 0, n, r.Do(ctx, d.Step, n)
}

// endJob runs when all tasks of the last step are done.
type endJob struct {
	Job  Job
	Last string
}

// ProcessElement finishes the last step.
func (e *endJob) ProcessElement(ctx context.Context, _ int, _ func(*int) bool) error {
	r, err := e.Job.runner(ctx)
	if err != nil {
		return err
	}
	return r.Finish(ctx, e.Last)
}

// build makes the Beam pipeline of a job.
func build(j Job, steps []string) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	barrier := beam.GroupByKey(s, beam.ParDo(s, beginJob, beam.Impulse(s)))
	for i, step := range steps {
		plan := &planStep{Job: j, Step: step}
		if i > 0 {
			plan.Before = steps[i-1]
		}
		in := s.Scope(step)
		tasks := beam.Reshuffle(in, beam.ParDo(in, plan, barrier))
		barrier = beam.GroupByKey(in, beam.ParDo(in, &doTask{j, step}, tasks))
	}
	beam.ParDo0(s, &endJob{j, steps[len(steps)-1]}, barrier)
	return p
}

const usage = `parsimon-beam: estimate a scenario on many machines, by Apache Beam

Usage:
  parsimon-beam SCENARIO.yaml --lake DIR [--runner prism]
  parsimon-beam --scenario ID --lake DIR --runner flink --endpoint HOST:PORT
  parsimon-beam SCENARIO.yaml --lake DIR --fail each:TIER
  parsimon-beam --workload NAME --lake DIR

The scenario is a file, the name of a shipped one, or the id of one whose flows are in the lake
(parsimon stage generate makes it from other inputs). Its flows are generated here. All other stages run on
the workers of the runner, which need the lake under the same path. The rows are those of
"parsimon run". The same command continues a job that failed. pipeline/OPERATORS.md describes setups.

With --fail, the job then estimates the failure of each cable of a tier, a cable on each worker, and ranks the
cables as "parsimon sweep" does. That command ranks the same estimates by another quantile or service.
Sweeps of parameters (parsimon sweep --set) do not run on Beam.

With --workload, the job reads the shards of an ingest, a shard on each worker. "parsimon ingest SOURCE...
--workload NAME --shard 0/N" has begun it. The workers need the sources and tables under the same paths. The
records are merged here. With --async, "parsimon ingest" without --shard merges them when the job has ended.

Flags:
`

// flags are the flags of parsimon run that apply here. Beam adds its own.
type flags struct {
	lake, scenario, estimator, cluster    string
	workload                              string
	runner, fail                          string
	passes, workers, partitions, resubmit int
	keep, quiet                           bool
	set                                   *pflag.FlagSet
}

func (f *flags) declare(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.lake, "lake", "", "directory of the lake, on a path that all workers share (required)")
	set.StringVar(&f.scenario, "scenario", "", "scenario of the lake, by its id or the beginning of it, "+
		"instead of a scenario file")
	set.StringVar(&f.workload, "workload", "", "read the shards of the ingest of this workload, instead of an "+
		"estimate")
	set.Uint64("seed", 1, "seed of every random choice, instead of the scenario file's")
	set.String("duration", "", "simulated time to generate, e.g. 500ms, instead of the scenario file's")
	set.StringVar(&f.estimator, "estimator", estimators.Flow.String(), "flow or independent; with --fail "+
		"also exact")
	set.IntVar(&f.passes, "passes", pipeline.MaxPasses, "passes of estimator flow over all link cases: 2, or 1 "+
		"to see what feedback is worth")
	set.StringVar(&f.cluster, "cluster", "", "with --estimator independent: simulate one link of each cluster "+
		"of similar links: the accepted error of a slowdown at a link, e.g. 5%")
	set.IntVar(&f.partitions, "partitions", 0, "tasks that the links are divided into; 0: by size. Should "+
		"exceed the number of workers. Does not change the results")
	set.IntVar(&f.workers, "workers", 0, "goroutines of a stage that is a single task; 0: one per core. Does "+
		"not change the results")
	set.BoolVar(&f.keep, "keep", false, "keep the temporary tables hop_observations, feedback and "+
		"sender_feedback, which are removed otherwise as soon as no stage needs them")
	set.StringVar(&f.fail, "fail", "", "each:TIER, such as each:fabric-spine: also take down each cable of the "+
		"tier, one at a time, as parsimon sweep does")
	set.String(moves.Loss, "", "with --fail: instead, each cable loses this share of its packets, e.g. 1e-4")
	set.String("bandwidth", "", "with --fail: instead, each cable has this bandwidth, e.g. 1G or 50%")
	set.String("delay", "", "with --fail: instead, each cable has this propagation delay, e.g. 50us")
	set.StringVar(&f.runner, "runner", "prism", "prism, in this process; flink; or any other Beam runner with "+
		"a job service (portable)")
	set.IntVar(&f.resubmit, "resubmit", 3, "how often a job that failed on a cluster is submitted again")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "no log lines but warnings")
}

func main() {
	var f flags
	set := pflag.NewFlagSet("parsimon-beam", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	f.declare(set)
	own := set.FlagUsagesWrapped(100)
	set.AddGoFlagSet(flag.CommandLine) // Beam's flags, including those of workers
	err := set.Parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		beamFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
		beamFlags.AddGoFlagSet(flag.CommandLine)
		_, _ = fmt.Printf("%s%s\nBeam's flags:\n%s", usage, own, beamFlags.FlagUsagesWrapped(100))
		return
	}
	if err == nil {
		err = flag.CommandLine.Parse(nil) // Beam requires parsed flags
	}
	if err != nil {
		fail(2, err)
	}
	beam.Init() // a worker does not return from here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := f.run(ctx, set.Args(), os.Stdout); err != nil {
		if _, ok := errors.AsType[usageError](err); ok {
			fail(2, err)
		}
		fail(1, err)
	}
}

type usageError struct{ error }

func fail(code int, err error) {
	_, _ = fmt.Fprintf(os.Stderr, "parsimon-beam: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	os.Exit(code)
}

// run submits the job, waits for it unless --async is set, and writes the summary.
func (f *flags) run(ctx context.Context, args []string, out io.Writer) error {
	j, err := f.job()
	if err != nil {
		return usageError{err}
	}
	v, err := j.variant()
	if err != nil {
		return usageError{err}
	}
	o := j.settings()
	level := zerolog.InfoLevel
	if f.quiet {
		level = zerolog.WarnLevel
	}
	beamlog.SetupLogging(level.String(), "text")
	o.Log = zerolog.New(os.Stderr).Level(level).With().Timestamp().Logger()
	if f.workload != "" {
		if f.scenario != "" || f.fail != "" || len(args) > 0 {
			return usageError{errors.New("--workload is an ingest alone: it goes with no scenario and no --fail")}
		}
		return f.ingest(ctx, j, o.Log, out)
	}
	if j.Scenario, err = f.generate(ctx, args, j.Lake, v, o); err != nil {
		return err
	}
	if err := f.complete(ctx, j, o.Log); err != nil {
		return err
	}
	if *jobopts.Async {
		_, err := fmt.Fprintln(out, j.Scenario)
		return err
	}
	if j.sweeps() {
		return rank(ctx, j, v, o, out)
	}
	run, err := pipeline.Resume(ctx, j.Lake, j.Scenario, v, o)
	if err != nil {
		return err
	}
	defer run.Close()
	if err := errors.Join(run.Collect(), run.MakeAnswer(), catalog.Write(run.Lake)); err != nil {
		return err
	}
	r, err := summary.Read(ctx, run, summary.Options{Text: true})
	if err != nil {
		return err
	}
	return r.Text().Write(out, "text")
}

// rank writes the ranking of the cables, all of which are estimated. The estimate of the scenario becomes its
// answer only if it has none, because a sweep does not change the answer of a run.
func rank(ctx context.Context, j Job, v pipeline.Variant, o pipeline.Settings, out io.Writer) error {
	run, err := pipeline.Resume(ctx, j.Lake, j.Scenario, v, o)
	if err != nil {
		return err
	}
	err = run.Collect()
	if err == nil && run.Lake.Answer(run.ID()).IsZero() {
		err = run.MakeAnswer()
	}
	run.Close()
	if err != nil {
		return err
	}
	s, err := whatif.RunSweep(ctx, j.Scenario, j.Sweep, whatif.Settings{Settings: o, Lake: j.Lake, Variant: v})
	if err == nil {
		err = catalog.Write(run.Lake)
	}
	if err != nil {
		return err
	}
	const shown = 20
	return s.Text(shown).Write(out, "text")
}

// complete submits the job unless all of it is done.
func (f *flags) complete(ctx context.Context, j Job, log zerolog.Logger) error {
	runner, err := j.runner(ctx)
	if err != nil {
		return err
	}
	done, err := runner.Complete(ctx)
	if err != nil || done {
		return err
	}
	release, err := runner.Hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	steps := runner.Steps()
	return f.submit(ctx, log, func() *beam.Pipeline { return build(j, steps[1:]) }, func() error {
		_, err := runner.Complete(ctx) // records of damaged files do not count
		return err
	})
}

// submit submits a job to the runner and waits for it, unless --async is set. Each attempt builds the
// pipeline again, and repair is called before all but the first.
func (f *flags) submit(ctx context.Context, log zerolog.Logger, pipeline func() *beam.Pipeline,
	repair func() error) error {
	began := time.Now()
	for left := f.resubmit; ; left-- {
		_, err := beam.Run(ctx, f.runner, pipeline())
		if err == nil {
			break
		}
		if left <= 0 || f.runner == "prism" || ctx.Err() != nil {
			err = fmt.Errorf("%w\nthe same command continues", err)
			if f.workload == "" {
				err = fmt.Errorf("%w (parsimon status --lake %s)", err, f.lake)
			}
			return err
		}
		// A task manager may assign a dead worker process until the job ends.
		log.Warn().Err(err).Int("left", left-1).Msg("the job failed and is submitted again; completed tasks are " +
			"kept")
		if err := repair(); err != nil {
			return err
		}
	}
	log.Info().Str("runner", f.runner).Float64("seconds", time.Since(began).Seconds()).Msg("job done")
	return nil
}

// job returns the job of the flags, without its scenario.
func (f *flags) job() (j Job, err error) {
	switch {
	case f.lake == "":
		return j, errors.New("--lake is required")
	case f.passes < 1 || f.passes > pipeline.MaxPasses:
		return j, fmt.Errorf("--passes %d: must be 1 or 2; where two passes do not suffice, use parsimon run "+
			"--estimator exact", f.passes)
	case f.partitions < 0 || f.partitions > 99_999:
		return j, fmt.Errorf("--partitions %d: must be 0 to 99,999", f.partitions)
	case f.resubmit < 0:
		return j, fmt.Errorf("--resubmit %d: must not be negative", f.resubmit)
	case f.workers < 0 || f.workers > 4096:
		return j, fmt.Errorf("--workers %d: must be 0 to 4096", f.workers)
	case !slices.Contains([]string{"prism", "flink", "portable"}, f.runner):
		return j, fmt.Errorf("--runner %q: must be prism, flink or portable", f.runner)
	case f.runner != "prism" && *jobopts.Endpoint == "":
		return j, errors.New("--endpoint, HOST:PORT of the job service, is required with --runner " + f.runner)
	}
	sweep, err := f.sweep()
	if err != nil {
		return j, err
	}
	if f.estimator == estimators.Exact.String() && sweep.Tier == "" {
		return j, errors.New("--estimator exact is one task: parsimon run does it")
	}
	lake, err := filepath.Abs(f.lake)
	return Job{Lake: lake, Estimator: f.estimator, Passes: f.passes, Cluster: f.cluster,
		Workers: f.workers, Partitions: f.partitions, Keep: f.keep, Sweep: sweep}, err
}

// sweep returns the sweep of the flags.
func (f *flags) sweep() (p whatif.SweepPlan, err error) {
	p.Quantile = 0.99
	for _, kind := range []string{moves.Loss, "bandwidth", "delay"} {
		value := f.set.Lookup(kind)
		switch {
		case !value.Changed:
		case p.Each != "" || f.fail == "":
			return p, fmt.Errorf("--%s needs --fail, and goes with no other change of the cables", kind)
		default:
			p.Each = kind + " " + value.Value.String()
		}
	}
	if f.fail == "" {
		return p, nil
	}
	var each bool
	p.Tier, each = strings.CutPrefix(f.fail, "each:")
	if !each || p.Tier == "" {
		return p, fmt.Errorf("--fail %q: want each:TIER", f.fail)
	}
	_, err = p.Changes([2]int32{})
	return p, err
}

// generate generates the flows unless the lake has them, and returns the scenario's id.
func (f *flags) generate(ctx context.Context, args []string, dir string, v pipeline.Variant,
	o pipeline.Settings) (string, error) {
	var s *scenario.Scenario
	var err error
	switch {
	case f.scenario != "" && len(args) == 0:
		l, err := lake.Open(dir, false)
		if err != nil {
			return "", err
		}
		id, err := pipeline.Resolve(l, f.scenario)
		return string(id), err
	case f.scenario == "" && len(args) == 1:
		s, err = scenario.Load(args[0])
	default:
		return "", usageError{errors.New("one of these is required: a scenario file, or --scenario")}
	}
	if err != nil {
		return "", err
	}
	for flag, key := range map[string]string{"seed": "seed", "duration": "workload.duration"} {
		if of := f.set.Lookup(flag); of.Changed {
			if err := s.SetAll([]scenario.Setting{{Key: key, Value: of.Value.String()}}); err != nil {
				return "", usageError{err}
			}
		}
	}
	run, err := pipeline.Begin(ctx, dir, s, v, o)
	if err != nil {
		return "", err
	}
	defer run.Close()
	return string(run.ID()), run.Generate(ctx)
}
