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

// scenarioFlags say what scenario a run begins with: a file, or a topology and a flow file, and
// what to change in it.
type scenarioFlags struct {
	topology, flows    string
	workload, from, to string
	maxRejects         float64
	fail               []string
	allowUnreachable   bool
	options            topologyOptions
	settings           []scenario.Setting
	moves              moves.Text
	flagSet            *pflag.FlagSet
}

// Groups of flags that describe a scenario.
const (
	scenarioGroup = "Scenario"
	topologyGroup = "Topology"
	movesGroup    = "Paths that move"
	settingsGroup = "Transport and switches"
)

func (s *scenarioFlags) declare(f *pflag.FlagSet) {
	s.flagSet = f
	group(f, scenarioGroup, func() { s.declareInput(f) })
	group(f, topologyGroup, func() { s.options.declare(f) })
	group(f, movesGroup, func() { declareMoves(f, &s.moves) })
	group(f, settingsGroup, func() {
		declareSettings(f, &s.settings, settingFlags)
		declareSettings(f, &s.settings, classFlags)
		declareSet(f, &s.settings)
	})
}

func (s *scenarioFlags) declareInput(f *pflag.FlagSet) {
	f.StringVar(&s.topology, "topology", "", "topology: a file or directory (parsimon help topology), or the name of one that ships; instead of a scenario file")
	f.StringVar(&s.flows, "flows", "", "flow file (.parquet, .jsonl or CSV with src, dst, size_bytes, start_ns "+
		"and, if there, flow_id, service, vnet, dscp, after, delay_ns), with --topology; other formats: parsimon ingest")
	f.StringVar(&s.workload, "workload", "", "workload that was ingested into the lake (parsimon ingest): its name, or the first letters of one that is a hash; on the topology of the ingest, or another --topology")
	f.StringVar(&s.from, "from", "", "of a workload, flows that start from then on: ns, or a time such as 2026-01-31T09:00:00Z or '2026-01-31 09:00:00' (UTC)")
	f.StringVar(&s.to, "to", "", "of a workload, flows that start before then")
	f.String("name", "", "name of the scenario in the lake")
	declareSettings(f, &s.settings, inputFlags)
	f.StringArrayVar(&s.fail, "fail", nil, "take down a cable A:B (ids or names), all cables of a SWITCH, or what is plugged into DEVICE:PORT; may be repeated")
	f.BoolVar(&s.allowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
	parse(f, &s.maxRejects, "string", shareOf(0, 1), "max-rejects", "1%",
		"share of the flow file's rows that may be rejected before the run fails")
	needs(f, "workload", "from", "to")
}

// A settingFlag is a flag that gives a key of a scenario file another value; alone is what it stands for without one.
type settingFlag struct{ flag, key, kind, alone, usage string }

var inputFlags = []settingFlag{
	{"seed", "seed", "uint", "", "seed of every random choice; default: the scenario file's, or 1"},
	{"duration", "workload.duration", "string", "",
		"simulated time to generate, e.g. 500ms, instead of the scenario file's"},
	{"max-load", "workload.max_load", "string", "",
		"expected load of the most loaded link, e.g. 50%, instead of the scenario file's"},
	{"only", "workload.only", "strings", "",
		"jobs of the scenario file that run, with commas between: the hosts of the others stay empty"},
}

var classFlags = []settingFlag{{"switch-classes", "switches.classes", "string", "topology",
	"queues of the ports by DSCP, as the SONiC configurations of the topology state them: priorities, weights, marking " +
		"thresholds, PFC (scenario file: switches.classes)"}}

// settingFlags are those of scenarios and of changes.
var settingFlags = []settingFlag{
	{"transport", "transport.kind", "string", "",
		"congestion control of all senders, with its default constants: " + strings.Join(simkernel.Transports(), ", ") +
			"; default: the scenario's, or dctcp"},
	{"window", "transport.window", "string", "",
		"bytes that a sender may have in flight: auto, the bandwidth-delay product of each path, or a size for all, e.g. " +
			"18KB; default: the scenario's, or auto"},
	{"mtu", "transport.payload", "string", "",
		"largest payload of a packet, 1 to 65536 bytes; default: the scenario's, or 1000"},
	{"switch-buffer", "switches.buffer", "string", "",
		"buffer that the ports of a switch share, e.g. 12MB, or topology: as the SONiC configurations of the topology " +
			"state it; switches then drop packets, and senders recover; only the whole-network simulation knows it; " +
			"rate-paced senders (dctcp, dcqcn) over a WAN may need --selective-recovery, or cubic or newreno; default: unlimited"},
	{"switch-alpha", "switches.alpha", "float", "",
		"with --switch-buffer: share of a switch's free buffer that one port may hold (dynamic threshold); default: 1, " +
			"and with --pfc 1/8"},
	{"pfc", "switches.pfc", "bool", "true",
		"with --switch-buffer: switches pause the senders of a link whose packets fill too much buffer, instead of " +
			"dropping packets (priority flow control; of some classes: switches.classes of a scenario file)"},
	{"retransmit-timeout", "switches.retransmit_timeout", "duration", "",
		"with --switch-buffer: how long senders, but of TCP, wait for an ACK before they send again; default: as long " +
			"as the slowest packet can take (without --switch-buffer, the timeout after losses is fixed)"},
	{"selective-recovery", "switches.selective_recovery", "bool", "true",
		"with --switch-buffer: senders resend lost packets only, as IRN; default: they go back to the first " +
			"lost packet"},
}

// declareSet declares --set, for the keys of settings that have no flag.
func declareSet(f *pflag.FlagSet, to *[]scenario.Setting) {
	parseEach(f, to, func(text string) (s scenario.Setting, err error) {
		s.Key, s.Value, _ = strings.Cut(text, "=")
		if !scenario.IsSetting(s.Key) || s.Value == "" {
			err = errors.New("want KEY=VALUE, such as switches.classes.storage.weight=2")
		}
		return s, err
	}, "set", "key of transport, switches or moves as in a scenario file, KEY=VALUE, e.g. transport.gain=0.1, or "+
		"switches.classes.storage.weight=2 of the class with that name; may be repeated")
}

func declareSettings(f *pflag.FlagSet, to *[]scenario.Setting, flags []settingFlag) {
	for _, s := range flags {
		f.Var(&parsed{kind: s.kind, read: func(text string) error {
			if s.kind == "strings" {
				text = "[" + text + "]"
			}
			*to = append(*to, scenario.Setting{Key: s.key, Value: text})
			return nil
		}}, s.flag, s.usage)
		f.Lookup(s.flag).NoOptDefVal = s.alone
	}
}

// flagsOf are the flags that gave a key of the scenario, one below it or one above; none: otherwise.
func (s *scenarioFlags) flagsOf(key, otherwise string) string {
	var flags []string
	for _, given := range s.settings {
		if key, of := key+".", given.FullKey()+"."; !strings.HasPrefix(of, key) && !strings.HasPrefix(key, of) {
			continue
		}
		flag := "--set " + given.FullKey()
		for _, f := range slices.Concat(inputFlags, settingFlags, classFlags) {
			if f.key == given.Key && s.flagSet.Changed(f.flag) {
				flag = "--" + f.flag
			}
		}
		flags = append(flags, flag)
	}
	return cmp.Or(strings.Join(flags, ", "), otherwise)
}

// check reports the errors of a scenario, of switches also where they are from, before there is a lake.
func (s *scenarioFlags) check(ctx context.Context, sc *scenario.Scenario, r *runFlags, args []string) error {
	v, err := r.variant()
	if err == nil {
		err = pipeline.CheckScenario(ctx, sc, v, r.how.Settings)
	}
	if !errors.As(err, new(scenario.Refusal)) {
		return err
	}
	from, flags := strings.Join(args, ""), s.flagsOf("switches", "")
	if from != "" && flags != "" {
		from += " with "
	}
	return fmt.Errorf("%s: %w", from+flags, err)
}

// load makes the scenario.
func (s *scenarioFlags) load(lakePath string, args []string) (*scenario.Scenario, error) {
	var sc *scenario.Scenario
	var err error
	switch {
	case s.workload != "":
		sc, err = s.loadWorkload(lakePath, args)
	case len(args) == 1 && (s.topology != "" || s.flows != ""):
		return nil, usagef("--topology and --flows stand in place of a scenario file")
	case len(args) == 1:
		if sc, err = scenario.Load(args[0]); errors.Is(err, scenario.ErrNoFile) {
			if held := heldBy(lakePath, args[0]); held != nil {
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
	return sc, s.override(sc)
}

// heldBy says what a lake, if there is one, holds in place of a scenario file.
func heldBy(dir, name string) error {
	l, err := lake.Open(dir, false)
	if err != nil {
		return nil
	}
	if _, err = pipeline.Resolve(l, name); err != nil {
		return err
	}
	return errors.New("the lake holds a scenario of that name, which what-if, sweep, query, report and compare take")
}

// override applies the flags that replace values of the scenario file.
func (s *scenarioFlags) override(sc *scenario.Scenario) error {
	var field *tree.FieldError
	if err := sc.SetAll(s.settings); errors.As(err, &field) {
		return usagef("%s: %v", s.flagsOf(field.Key, field.Key), field.Err)
	} else if err != nil {
		return err
	}
	if s.flagSet.Changed("max-rejects") {
		sc.MaxRejects = s.maxRejects
	}
	sc.PathMoves.Add(s.moves)
	sc.Fail = append(sc.Fail, s.fail...)
	sc.AllowUnreachable = sc.AllowUnreachable || s.allowUnreachable
	return nil
}

// giveTopologyOptions adds what the flags say of the topology.
func (s *scenarioFlags) giveTopologyOptions(sc *scenario.Scenario) error {
	given := s.options.ofFile()
	if len(given) == 0 && len(s.options.given.Delays) == 0 {
		return nil
	}
	options, isFile := sc.TopologyOptions()
	if !isFile && len(given) > 0 {
		return usagef("%s: goes with a topology file, and this topology is none", strings.Join(given, ", "))
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

// giveName names the scenario: as --name says, else after what flags change in the scenario file.
func (s *scenarioFlags) giveName(sc *scenario.Scenario) {
	if s.flagSet.Changed("name") {
		sc.Name = s.flagSet.Lookup("name").Value.String()
		return
	}
	for _, of := range slices.Concat(inputFlags, settingFlags, classFlags) {
		if flag := s.flagSet.Lookup(of.flag); flag.Changed {
			sc.Name += ", " + of.flag + " " + flag.Value.String()
		}
	}
	if set := s.flagSet.Lookup("set"); set.Changed {
		sc.Name += ", " + set.Value.String()
	}
	if s.from != "" || s.to != "" {
		sc.Name += ", " + cmp.Or(s.from, "start") + " to " + cmp.Or(s.to, "end")
	}
	for _, cable := range s.fail {
		sc.Name += ", " + cable + " down"
	}
	for _, change := range s.moves.Changes() {
		sc.Name += ", " + change
	}
}

// loadWorkload makes the scenario of a workload of the lake.
func (s *scenarioFlags) loadWorkload(lakePath string, args []string) (*scenario.Scenario, error) {
	switch {
	case len(args) > 0 || s.flows != "":
		return nil, usagef("--workload stands in place of a scenario file and of --flows")
	case lakePath == "":
		return nil, usagef("--lake is required")
	}
	l, err := lake.Open(lakePath, false)
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
		return nil, usagef("workload %s does not say with which topology it was ingested: give --topology", state.ID)
	}
	sc, err := scenario.FromWorkload(file.Path, state.Ingested())
	if err != nil {
		return nil, err
	}
	sc.SetTopologyOptions(file.Options)
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

// declareChanges declares the flags that say how one scenario is made from another.
func declareChanges(f *pflag.FlagSet, c *scenario.Changes) {
	for _, k := range [][2]string{
		{"fail", "take down a cable A:B (ids or names) or cables by a pattern such as 'wan*:*', all cables of a SWITCH, what " +
			"is plugged into DEVICE:PORT (one member of a LAG), or random:K, K cables of --tier; may be repeated"},
		{"add-cable", "install a cable: A:B=100G, of 1us, or A:B=100G,500ns; may be repeated"},
		{"bandwidth", "change a bandwidth: A:B=100G for a cable, or A:B=50% of what it has; TIER=100G for all of a tier, or " +
			"a pattern such as 'leaf*:spine1=40G'; may be repeated"},
		{"delay", "change a propagation delay, of cables as in --bandwidth: 'wan*:*=2ms' or tor-spine=500ns; may be repeated"},
		{"scale", "multiply services' flows: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (0 to 16), '*=1.5' " +
			"for all others; may be repeated"},
		{"move", "put a service into other racks, by name, switch or place: SERVICE=leaf3,leaf4, SERVICE=4-7 or " +
			"SERVICE=0,2,5; may be repeated"},
	} {
		read := func(text string) (scenario.Change, error) { return scenario.ParseChange(k[0], text) }
		parseEach(f, &c.Do, read, k[0], k[1])
	}
	f.StringVar(&c.FailTier, "tier", "", "tier of the cables of random:K, e.g. fabric-spine or tor-fabric,fabric-spine")
	f.Uint64Var(&c.Draw, "draw", 1, "which random:K: another number, other cables")
	declareMoves(f, &c.PathMoves)
	declareSettings(f, &c.Settings, settingFlags)
	declareSet(f, &c.Settings)
	f.StringVar(&c.Name, "name", "", "name of the new scenario in the lake; default: the base's, and what was changed")
	f.BoolVar(&c.AllowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
}

// declareMoves declares the flags that say how paths move while flows run.
func declareMoves(f *pflag.FlagSet, t *moves.Text) {
	parse(f, &t.Balance, "string", moves.ParseBalance, "balance", "",
		"how paths are chosen: "+moves.Balances+"; all but the first two in the whole network only (estimator exact); or "+
			"SWITCHES=BALANCE,..., by kind or name: 'tor=flowlet,spine*=spray', others ecmp; default: ecmp")
	f.StringVar(&t.Routes, "routes", "", "directory of the switches' routes, in place of shortest paths: SWITCH.json as "+
		"FRR and SONiC write it (vtysh -c 'show ip route json') and hosts.csv (columns address, node); none: shortest paths")
	parse(f, &t.Hash, "string", moves.ParseHash, "hash", "",
		"what switches hash: flow, addresses (of the two hosts, in place of the flow), polarized (alike at every switch) or "+
			"addresses,polarized; default: flow")
	parse(f, &t.Receivers, "string", moves.ParseReceivers, "receivers", "",
		"with a balance that reorders packets: any-order (the default), or in-order, which drop what overtakes (go-back-N)")
	parse(f, &t.Gap, "string", isDuration, "flowlet-gap", "",
		"with --balance flowlet or conga: a flow begins a new flowlet at a switch after so long a pause; default 50us")
	parseEach(f, &t.Weights, func(text string) (string, error) {
		_, err := scenario.ParseChange("bandwidth", text) // of the same form
		return text, err
	}, "weight", "with --balance wcmp: cables and their weight in place of their "+
		"bandwidth, CABLES=SPEED; may be repeated")
	parseEach(f, &t.Events, func(text string) (string, error) {
		_, _, err := moves.ParseEvent(text)
		return text, err
	}, "event", "what happens to a cable while flows run (estimator exact): 'A:B down 10ms..50ms', 'A:B loss 1e-4', "+
		"'A:B loss 1e-4 burst 20us' (mean length of bursts), 'A:B rate 10G 10ms..' (or 50%), 'A:B delay 50us 10ms..'; A->B is one "+
		"direction, SWITCH all of "+
		"its cables; times are those of flow starts: 2026-01-31T09:00:00.5Z where those have dates; may be repeated")
	f.Var(&parsed{kind: "string", read: func(file string) error {
		events, err := moves.ReadCSV(file)
		t.Events = append(t.Events, events...)
		return err
	}}, "events", "CSV file of events: columns cable, event, value, from, to")
	parse(f, &t.Repair, "string", isDuration, "local-repair", "",
		"with --converge: time after which the two ends of such a cable use their other links, if that is sooner")
	parse(f, &t.Converge, "string", isDuration, "converge", "",
		"how long routes take to avoid a cable that went down, and to use it again; default 0")
}

// isDuration returns a text that is a duration.
func isDuration(text string) (string, error) {
	_, err := units.Parse(text, units.Duration)
	return text, err
}
