package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/schema/tree"
	"parsimon/schema/units"
	"parsimon/simkernel"
	"parsimon/stages/moves"
)

// scenarioFlags describe the scenario of a run, and the settings to change in it. The scenario is a scenario
// file, a topology and a flow file, or a workload.
type scenarioFlags struct {
	topology         string
	flows            string
	workload         string
	from, to         string // of a workload
	maxRejects       float64
	traffic          []string
	fail             []string
	allowUnreachable bool
	options          topologyOptions
	settings         []scenario.Setting
	paths            moves.Text
	flagSet          *pflag.FlagSet
}

// Groups of flags that describe a scenario.
const (
	scenarioGroup = "Scenario"
	topologyGroup = "Topology"
	pathsGroup    = "Paths and events"
	settingsGroup = "Transport and switches"
)

func (s *scenarioFlags) declare(f *pflag.FlagSet) {
	s.flagSet = f
	group(f, scenarioGroup, func() { s.declareInput(f) })
	group(f, topologyGroup, func() { s.options.declare(f) })
	group(f, pathsGroup, func() { declarePaths(f, &s.paths) })
	group(f, settingsGroup, func() {
		declareSettings(f, &s.settings, settingFlags())
		declareSettings(f, &s.settings, classFlags())
		declareSet(f, &s.settings, func(string) bool { return true }, "key of a scenario file and its value")
	})
}

func (s *scenarioFlags) declareInput(f *pflag.FlagSet) {
	f.StringVar(&s.topology, "topology", "", topologyDoc+"; with --flows or --workload")
	f.StringVar(&s.flows, "flows", "", "flow `file` (parsimon help flows): Parquet, JSON lines, or CSV with "+
		"the columns src, dst, size_bytes, start_ns and optionally flow_id, service, vnet, dscp, after, delay_ns; "+
		"with --topology")
	f.StringVar(&s.workload, "workload", "", "workload that \"parsimon ingest\" has added to the lake: its "+
		"name or, if that is a hash, its beginning; default of --topology: that of the ingest")
	f.StringVar(&s.from, "from", "", "with --workload: only flows that start at this `time` or later: ns, "+
		"2026-01-31T09:00:00Z, '2026-01-31 09:00:00' (UTC), or 09:00 on the first day of the workload")
	f.StringVar(&s.to, "to", "", "with --workload: only flows that start before this `time`")
	f.StringArrayVar(&s.traffic, "traffic", nil, "with --workload: what long connections of a service send, "+
		"`SERVICE=MODEL`: messages, messages:SIZE such as db=messages:16KB, paced or bulk; "+
		"messages:16KB:burst=8 sends 8 messages at a time; '*' is every other service; may be repeated; "+
		"default: decided by the flow log (datasets/MODEL.md)")
	f.String("name", "", "name of the scenario in the lake")
	declareSettings(f, &s.settings, inputFlags())
	f.StringArrayVar(&s.fail, "fail", nil, "take down a cable A:B (names or ids), all cables of a SWITCH, or "+
		"the cable in DEVICE:PORT; may be repeated")
	f.BoolVar(&s.allowUnreachable, "allow-unreachable", false,
		"count flows that have no path; without it, they are an error")
	parse(f, &s.maxRejects, shareOf(0, 1), flagSpec{name: "max-rejects", byDefault: "1%",
		usage: "share of the rows of the flow file that may be rejected before the run fails"})
	needs(f, "workload", "from", "to", "traffic")
}

// A settingFlag is a flag that sets a key of a scenario file.
type settingFlag struct {
	flag  string
	key   string
	kind  string // of the value, as help shows it
	alone string // value of the flag if none is given; empty: a value is required
	usage string
}

// inputFlags are the flags of keys of a workload.
func inputFlags() []settingFlag {
	return []settingFlag{
		{"seed", "seed", "uint", "", "seed of every random choice; default: that of the scenario file, or 1"},
		{"duration", "workload.duration", "string", "",
			"simulated time to generate flows for, e.g. 500ms, instead of that of the scenario file"},
		{"max-load", "workload.max_load", "string", "",
			"expected load of the most loaded link, e.g. 50%, instead of that of the scenario file"},
	}
}

// classFlags are the flags of keys that need the configurations of switches.
func classFlags() []settingFlag {
	return []settingFlag{{"switch-classes", "switches.classes", "string", "topology",
		"give ports the queues by DSCP that the SONiC configurations of the topology state: priorities, weights, " +
			"marking thresholds, PFC"}}
}

// settingFlags are the flags of keys that scenarios and changes have.
func settingFlags() []settingFlag {
	return []settingFlag{
		{"transport", "transport.kind", "string", "", "congestion control of all senders, with its default " +
			"constants: " +
			strings.Join(simkernel.Transports(), ", ") + "; default: that of the scenario, or dctcp"},
		{"window", "transport.window", "string", "", "bytes that a sender may have in flight: a size, " +
			"e.g. 18KB, or auto, which fits it to each path; default: that of the scenario, or auto"},
		{"switch-buffer", "switches.buffer", "string", "", "buffer that the ports of a switch share, e.g. 12MB, " +
			"or topology, as its SONiC configurations state it; switches then drop packets, and only the whole " +
			"network can be simulated; default: unlimited"},
		{"pfc", "switches.pfc", "bool", "true",
			"with --switch-buffer: priority flow control: a switch pauses the senders of a link whose packets " +
				"fill too much of its buffer, and drops no packets"},
		{"selective-recovery", "switches.selective_recovery", "bool", "true",
			"with --switch-buffer: senders retransmit only lost packets (IRN), instead of all packets from the " +
				"first lost one"},
	}
}

// declareSet declares --set, for the keys of a scenario file that have no flag.
func declareSet(f *pflag.FlagSet, to *[]scenario.Setting, isKey func(string) bool, what string) {
	parseEach(f, to, func(text string) (s scenario.Setting, err error) {
		s.Key, s.Value, _ = strings.Cut(text, "=")
		if s.Key == "" || !isKey(s.Key) || s.Value == "" {
			err = errors.New("want KEY=VALUE, such as switches.classes.storage.weight=2")
		}
		return s, err
	}, "set", what+", `KEY=VALUE`, such as transport.gain=0.1, switches.alpha=0.5 or, of the class storage, "+
		"switches.classes.storage.weight=2; may be repeated (small.yaml describes the keys)")
}

func declareSettings(f *pflag.FlagSet, to *[]scenario.Setting, flags []settingFlag) {
	for _, s := range flags {
		f.Var(&parsed{kind: s.kind, read: func(text string) error {
			*to = append(*to, scenario.Setting{Key: s.key, Value: text})
			return nil
		}}, s.flag, s.usage)
		f.Lookup(s.flag).NoOptDefVal = s.alone
	}
}

// flagsOf returns the flags that set a key of the scenario, a key below it or one above it. If there are
// none, it returns otherwise.
func (s *scenarioFlags) flagsOf(key, otherwise string) string {
	var flags []string
	for _, given := range s.settings {
		key := key + "."
		of := given.FullKey() + "."
		if !strings.HasPrefix(of, key) && !strings.HasPrefix(key, of) {
			continue
		}
		flag := "--set " + given.FullKey()
		for _, f := range slices.Concat(inputFlags(), settingFlags(), classFlags()) {
			if f.key == given.Key && s.flagSet.Changed(f.flag) {
				flag = "--" + f.flag
			}
		}
		flags = append(flags, flag)
	}
	return cmp.Or(strings.Join(flags, ", "), otherwise)
}

// check returns the errors of a scenario before a lake is created. Errors about switches name the flags.
func (s *scenarioFlags) check(ctx context.Context, sc *scenario.Scenario, r *runFlags, args []string) error {
	v, err := r.variant()
	if err == nil {
		_, err = pipeline.CheckScenario(ctx, sc, v, r.how.Settings)
	}
	if !errors.As(err, new(scenario.Refusal)) {
		return err
	}
	from := strings.Join(args, "")
	flags := s.flagsOf("switches", "")
	switch {
	case from+flags == "":
		return err
	case from != "" && flags != "":
		from += " with "
	}
	return fmt.Errorf("%s: %w", from+flags, err)
}

// load returns the scenario that the flags and arguments describe.
func (s *scenarioFlags) load(ctx context.Context, e *env, args []string) (*scenario.Scenario, error) {
	var sc *scenario.Scenario
	var err error
	settings := s.settings
	switch {
	case s.workload != "":
		sc, err = s.loadWorkload(ctx, e, args)
	case len(args) == 1 && (s.topology != "" || s.flows != ""):
		return nil, usagef("give a scenario file, or --topology and --flows, not both")
	case len(args) == 1:
		sc, err = s.loadFile(args[0])
		settings = slices.DeleteFunc(slices.Clone(settings), scenario.Setting.NeedsFile)
		if errors.Is(err, scenario.ErrNoFile) {
			held := heldBy(e.lake, args[0])
			if held != nil {
				err = fmt.Errorf("%w; %w", err, held)
			}
		}
	case s.topology == "" || s.flows == "":
		return nil, usagef("a scenario file, or --topology and --flows, is required")
	default:
		sc, err = scenario.FromFiles(s.topology, s.flows)
	}
	if err != nil {
		return nil, err
	}
	if err := s.giveTopologyOptions(sc); err != nil {
		return nil, err
	}
	s.giveName(sc)
	return sc, s.override(sc, settings)
}

// loadFile reads a scenario file, with the settings that need it.
func (s *scenarioFlags) loadFile(path string) (*scenario.Scenario, error) {
	sc, err := scenario.Load(path)
	if err != nil || !slices.ContainsFunc(s.settings, scenario.Setting.NeedsFile) {
		return sc, err
	}
	var settings []scenario.Setting
	for _, of := range s.settings {
		if of.NeedsFile() {
			settings = append(settings, of)
		}
	}
	changed, err := scenario.LoadWith(path, settings)
	if err != nil {
		return nil, usageError{err}
	}
	changed.Name = sc.Name // giveName adds the settings
	return changed, nil
}

// heldBy returns an error that lists what a lake has, if the user names a scenario of the lake instead of a
// file.
func heldBy(dir, name string) error {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil
	}
	if _, err = pipeline.Resolve(l, name); err != nil {
		return err
	}
	return errors.New("the lake holds a scenario of that name, which what-if, sweep, query, report and compare " +
		"take")
}

// override applies settings and the other flags that change values of the scenario file.
func (s *scenarioFlags) override(sc *scenario.Scenario, settings []scenario.Setting) error {
	var field *tree.FieldError
	if err := sc.SetAll(settings); errors.As(err, &field) {
		return usagef("%s: %v", s.flagsOf(field.Key, field.Key), field.Err)
	} else if err != nil {
		return err
	}
	if s.flagSet.Changed("max-rejects") {
		sc.MaxRejects = s.maxRejects
	}
	sc.PathMoves.Add(s.paths)
	sc.Fail = append(sc.Fail, s.fail...)
	sc.AllowUnreachable = sc.AllowUnreachable || s.allowUnreachable
	return nil
}

// giveTopologyOptions applies the flags about the topology.
func (s *scenarioFlags) giveTopologyOptions(sc *scenario.Scenario) error {
	given := s.options.ofFile()
	if len(given) == 0 && len(s.options.given.Delays) == 0 {
		return nil
	}
	options, isFile := sc.TopologyOptions()
	if !isFile && len(given) > 0 {
		return usagef("%s: this applies to a topology file, and the topology of the scenario is not from a file",
			strings.Join(given, ", "))
	}
	options, err := s.options.options(options)
	if err != nil {
		return err
	}
	if !isFile {
		options.DefaultDelayNS = 0
	}
	sc.SetTopologyOptions(options)
	return nil
}

// giveName names the scenario: by --name, otherwise by the name of the file and the settings that flags
// change.
func (s *scenarioFlags) giveName(sc *scenario.Scenario) {
	if s.flagSet.Changed("name") {
		sc.Name = s.flagSet.Lookup("name").Value.String()
		return
	}
	for _, of := range slices.Concat(inputFlags(), settingFlags(), classFlags()) {
		flag := s.flagSet.Lookup(of.flag)
		if flag.Changed {
			sc.Name += ", " + of.flag + " " + flag.Value.String()
		}
	}
	set := s.flagSet.Lookup("set")
	if set.Changed {
		sc.Name += ", " + set.Value.String()
	}
	for _, rule := range s.traffic {
		sc.Name += ", " + rule
	}
	if s.from != "" || s.to != "" {
		sc.Name += ", " + cmp.Or(s.from, "start") + " to " + cmp.Or(s.to, "end")
	}
	for _, cable := range s.fail {
		sc.Name += ", " + cable + " down"
	}
	for _, change := range s.paths.Changes() {
		sc.Name += ", " + change
	}
}

// loadWorkload returns the scenario of a workload of the lake.
func (s *scenarioFlags) loadWorkload(ctx context.Context, e *env, args []string) (*scenario.Scenario, error) {
	switch {
	case len(args) > 0 || s.flows != "":
		return nil, usagef("--workload excludes a scenario file and --flows")
	case e.lake == "":
		return nil, usagef("--lake is required")
	}
	l, err := lake.Open(e.lake, false)
	if err != nil {
		return nil, err
	}
	state, err := workloads.Resolve(l, s.workload)
	if err != nil {
		return nil, err
	}
	file := state.Topology
	if s.topology != "" {
		file = workloads.TopologyFile{Path: s.topology}
	}
	if file.Path == "" {
		return nil, usagef("the topology with which workload %s was ingested is not known: give --topology",
			state.ID)
	}
	if isObject.MatchString(file.Path) {
		file.Path, err = e.objects.fetch(ctx, file.Path)
		if err != nil {
			return nil, err
		}
	}
	sc, err := scenario.FromWorkload(file.Path, state.Ingested())
	if err != nil {
		return nil, err
	}
	sc.SetTopologyOptions(file.Options)
	if state.Ingested().Profiles {
		if err := sc.SetModels(state.Traffic); err != nil {
			return nil, fmt.Errorf("workload %s: traffic_model of its labels table: %w", state.ID, err)
		}
	}
	if err := sc.SetTraffic(s.traffic); err != nil {
		return nil, usagef("--traffic %v", err)
	}
	if s.from != "" || s.to != "" {
		err := sc.SetWindow(s.from, s.to)
		if errors.Is(err, scenario.ErrNoFlows) {
			return nil, fmt.Errorf("--from, --to: %w", err)
		}
		if err != nil {
			return nil, usagef("--from, --to: %v", err)
		}
	}
	return sc, nil
}

// declareChanges declares the flags that make one scenario from another.
func declareChanges(f *pflag.FlagSet, c *scenario.Changes) {
	for _, k := range [][2]string{
		{"fail", "take down a cable A:B (names or ids), the cables that match a pattern such as 'wan*:*', all " +
			"cables of a SWITCH, the cable in DEVICE:PORT (one member of a LAG), or random:K, K cables of --tier; " +
			"may be repeated"},
		{"add-cable", "add a cable: A:B=100G, with a delay of 1us, or A:B=100G,500ns; may be repeated"},
		{"bandwidth", "change a bandwidth: A:B=100G or A:B=50% for a cable, TIER=100G for a tier, or a pattern " +
			"such as 'leaf*:spine1=40G'; may be repeated"},
		{"delay", "change a propagation delay, with cables as in --bandwidth: 'wan*:*=2ms' or tor-spine=500ns; " +
			"may be repeated"},
		{"scale", "multiply the flows of services: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (from 0 to 16), " +
			"'*=1.5' for all others; may be repeated"},
		{"move", "move a service to other racks, by name, switch or number: SERVICE=leaf3,leaf4, SERVICE=4-7 or " +
			"SERVICE=0,2,5; may be repeated"},
	} {
		read := func(text string) (scenario.Change, error) { return scenario.ParseChange(k[0], text) }
		parseEach(f, &c.Do, read, k[0], k[1])
	}
	f.StringVar(&c.FailTier, "tier", "", "`tier` of the cables of random:K, e.g. fabric-spine or "+
		"tor-fabric,fabric-spine")
	f.Uint64Var(&c.Draw, "draw", 1, "`number` of the draw of random:K; draws share no cable until all are drawn")
	declarePaths(f, &c.PathMoves)
	declareSettings(f, &c.Settings, settingFlags())
	declareSet(f, &c.Settings, scenario.IsSetting, "key of transport, switches, paths or events as in a "+
		"scenario file")
	f.StringVar(&c.Name, "name", "", "name of the new scenario in the lake; default: the name of the base, and "+
		"the changes")
	f.BoolVar(&c.AllowUnreachable, "allow-unreachable", false,
		"count flows that have no path; without it, they are an error")
}

// declarePaths declares the flags for the choice of paths, and for events while flows run.
func declarePaths(f *pflag.FlagSet, t *moves.Text) {
	parse(f, &t.Balance, moves.ParseBalance,
		flagSpec{name: "balance", usage: "how paths are chosen: " + moves.Balances + "; all but the first two " +
			"need estimator exact; or SWITCHES=BALANCE,... by kind or name, such as 'tor=flowlet,spine*=spray', with " +
			"ecmp for the others; default: ecmp"})
	f.StringVar(&t.Routes, "routes", "", "`directory` of the routes of the switches, instead of shortest "+
		"paths: SWITCH.json as FRR and SONiC write it (vtysh -c 'show ip route json') and hosts.csv (columns "+
		"address, node); none: shortest paths")
	readEvents := func(text string) error {
		if strings.HasSuffix(text, ".csv") {
			events, err := moves.ReadCSV(text)
			t.Events = append(t.Events, events...)
			return err
		}
		t.Events = append(t.Events, text)
		_, _, err := moves.ParseEvent(text)
		return err
	}
	f.Var(&parsed{kind: "stringArray", read: readEvents}, "event",
		"what happens to a cable while flows run (parsimon help events; needs estimator exact): 'A:B down "+
			"10ms..50ms', 'A:B loss 1e-4', 'A:B rate 10G 10ms..', 'A:B delay 50us 10ms..', or a CSV file of events; "+
			"may be repeated")
	parse(f, &t.Converge, isDuration,
		flagSpec{name: "converge", usage: "time until routes avoid a cable that went down, and " +
			"until they use it again; default: 0"})
}

// isDuration returns a text if it is a duration.
func isDuration(text string) (string, error) {
	_, err := units.Parse(text, units.Duration)
	return text, err
}
