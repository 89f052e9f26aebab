package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/lake"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/workloads"
	"parsimon/schema/tree"
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
	classes            bool
	settings           []scenario.Setting
	moves              moves.Text
	flagSet            *pflag.FlagSet
}

// Groups of flags that say what a scenario is made from.
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
		declareSettings(f, settingFlags, &s.settings)
		f.BoolVar(&s.classes, "switch-classes", false, "queues of the ports by DSCP, as the SONiC configurations of the "+
			"topology state them: priorities, weights, marking thresholds, PFC (scenario file: switches.classes)")
	})
	needs(f, "switch-buffer", "switch-alpha", "pfc", "retransmit-timeout", "selective-recovery")
}

func (s *scenarioFlags) declareInput(f *pflag.FlagSet) {
	f.StringVar(&s.topology, "topology", "", "topology: a file or directory (parsimon help topology), or the name of one that ships; instead of a scenario file")
	f.StringVar(&s.flows, "flows", "", "flow file (.parquet, .jsonl or CSV with src, dst, size_bytes, start_ns "+
		"and, if there, flow_id, service, vnet, dscp, after, delay_ns), with --topology; other formats: parsimon ingest")
	f.StringVar(&s.workload, "workload", "", "workload that was ingested into the lake (parsimon ingest): its name, or the first letters of one that is a hash; on the topology of the ingest, or another --topology")
	f.StringVar(&s.from, "from", "", "of a workload, flows that start from then on: ns, or a time such as 2026-01-31T09:00:00Z")
	f.StringVar(&s.to, "to", "", "of a workload, flows that start before then")
	f.String("name", "", "name of the scenario in the lake")
	declareSettings(f, workloadFlags, &s.settings)
	f.StringArrayVar(&s.fail, "fail", nil, "take down a cable A:B (ids or names), all cables of a SWITCH, or what is plugged into DEVICE:PORT; may be repeated")
	f.BoolVar(&s.allowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
	parse(f, &s.maxRejects, "string", shareOf(0, 1), "max-rejects", "1%",
		"share of the flow file's rows that may be rejected before the run fails")
	needs(f, "workload", "from", "to")
}

// A settingFlag is a flag that gives a key of a scenario file another value; alone is what it stands for without one.
type settingFlag struct{ flag, key, kind, alone, usage string }

// workloadFlags are settings that a scenario of the lake cannot change.
var workloadFlags = []settingFlag{
	{"seed", "seed", "uint", "", "seed of every random choice; default: the scenario file's, or 1"},
	{"duration", "workload.duration", "string", "",
		"simulated time to generate, e.g. 500ms, instead of the scenario file's"},
	{"max-load", "workload.max_load", "string", "",
		"expected load of the most loaded link, e.g. 50%, instead of the scenario file's"},
	{"only", "workload.only", "string", "",
		"jobs of the scenario file that run, with commas between: the hosts of the others stay empty"},
}

// settingFlags are settings of every scenario.
var settingFlags = []settingFlag{
	{"transport", "transport.kind", "string", "",
		"congestion control of all senders, with its default constants: " + strings.Join(simkernel.Transports(), ", ") +
			"; default: the scenario's, or dctcp"},
	{"window", "transport.window", "string", "",
		"what a sender may have in flight: auto, the bandwidth-delay product of each path, or a size for all, e.g. " +
			"18KB; default: the scenario's, or auto"},
	{"mtu", "transport.payload", "string", "",
		"largest payload of a packet, 1 to 65536 bytes; default: the scenario's, or 1000"},
	{"switch-buffer", "switches.buffer", "string", "",
		"buffer that the ports of a switch share, e.g. 12MB, or topology: as the SONiC configurations of the topology " +
			"state it; switches then drop packets, and senders recover; only the whole-network simulation knows it; " +
			"default: unlimited"},
	{"switch-alpha", "switches.alpha", "float", "",
		"with --switch-buffer: how much of what is free in a switch one port may hold (dynamic threshold); default: 1, " +
			"and with --pfc 1/8"},
	{"pfc", "switches.pfc", "bool", "true",
		"with --switch-buffer: switches pause the senders of a link whose packets hold too much, instead of dropping " +
			"packets (priority flow control; of some classes: switches.classes of a scenario file)"},
	{"retransmit-timeout", "switches.retransmit_timeout", "duration", "",
		"with --switch-buffer: how long senders wait for an ACK before they send again; default: as long as the slowest " +
			"packet can take (after losses by --event alone, that is not variable)"},
	{"selective-recovery", "switches.selective_recovery", "bool", "true",
		"with --switch-buffer: senders resend what is lost and nothing else, as IRN; default: they go back to the first " +
			"lost packet"},
}

// declareSettings declares flags of settings.
func declareSettings(f *pflag.FlagSet, flags []settingFlag, to *[]scenario.Setting) {
	for _, s := range flags {
		f.Var(&parsed{kind: s.kind, read: func(text string) error {
			if s.flag == "only" { // a list
				text = "[" + text + "]"
			}
			*to = append(*to, scenario.Setting{Key: s.key, Value: text})
			return nil
		}}, s.flag, s.usage)
		f.Lookup(s.flag).NoOptDefVal = s.alone
	}
}

// flagOf is the flag of a key.
func flagOf(key string) string {
	for _, s := range slices.Concat(workloadFlags, settingFlags) {
		if s.key == key {
			return "--" + s.flag
		}
	}
	return key
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
		sc, err = scenario.Load(args[0])
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

// override applies the flags that replace values of the scenario file.
func (s *scenarioFlags) override(sc *scenario.Scenario) error {
	if s.classes {
		s.settings = append(s.settings, scenario.Setting{Key: "switches.classes", Value: "topology"})
	}
	var field *tree.FieldError
	if err := sc.SetAll(s.settings); errors.As(err, &field) {
		return usagef("%s: %v", flagOf(field.Key), field.Err)
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
	for _, name := range []string{"seed", "duration", "max-load", "transport", "window", "switch-buffer", "switch-alpha",
		"pfc", "selective-recovery", "switch-classes"} {
		if s.flagSet.Changed(name) {
			sc.Name += ", " + name + " " + s.flagSet.Lookup(name).Value.String()
		}
	}
	if s.from != "" || s.to != "" {
		sc.Name += ", " + cmp.Or(s.from, "start") + " to " + cmp.Or(s.to, "end")
	}
	for _, cable := range s.fail {
		sc.Name += ", " + cable + " down"
	}
	for _, said := range s.moves.Said() {
		sc.Name += ", " + said
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
