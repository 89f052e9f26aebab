package main

import (
	"github.com/spf13/pflag"

	"parsimon/pipeline/scenario"
	"parsimon/schema/units"
	"parsimon/stages/moves"
)

// changeFlags say how one scenario is made from another.
type changeFlags struct{ scenario.Changes }

func (c *changeFlags) declare(f *pflag.FlagSet) {
	for _, k := range [][2]string{
		{"fail", "take down a cable A:B (ids or names), all cables of a SWITCH, what is plugged into DEVICE:PORT (one " +
			"member of a LAG), or random:K, K cables of --tier; may be repeated"},
		{"add-cable", "install a cable: A:B=100G or A:B=100G,500ns; may be repeated"},
		{"bandwidth", "change a bandwidth: A:B=100G for a cable, TIER=100G for all of a tier, or a pattern such as " +
			"'leaf*:spine1=40G'; may be repeated"},
		{"delay", "change a propagation delay, of cables as in --bandwidth: 'wan*:*=2ms' or tor-spine=500ns; may be repeated"},
		{"scale", "multiply services' flows: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (0 to 16); may be repeated"},
		{"move", "put a service into other racks, by their names or places: SERVICE=leaf3,leaf4, SERVICE=4-7 or " +
			"SERVICE=0,2,5; may be repeated"},
	} {
		read := func(text string) (scenario.Change, error) { return scenario.ParseChange(k[0], text) }
		parseEach(f, &c.Do, read, k[0], k[1])
	}
	f.StringVar(&c.FailTier, "tier", "", "tier of the cables of random:K, e.g. fabric-spine or tor-fabric,fabric-spine")
	f.Uint64Var(&c.Draw, "draw", 1, "which random:K: another number, other cables")
	declareMoves(f, &c.PathMoves)
	declareSettings(f, settingFlags, &c.Settings)
	f.StringVar(&c.Name, "name", "", "name of the new scenario in the lake; default: the base's, and what was changed")
	f.BoolVar(&c.AllowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
}

// changes are what the flags say, in no scenario yet. At least one change is required.
func (c *changeFlags) changes() (scenario.Changes, error) {
	if len(c.Do)+len(c.PathMoves.Said())+len(c.Settings) == 0 {
		return c.Changes, usagef("say what changes: --fail, --add-cable, --bandwidth, --delay, --scale, --move, " +
			"--balance, --event, --transport, --window or --switch-buffer")
	}
	return c.Changes, nil
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
	parse(f, &t.Gap, "string", isDuration, "flowlet-gap", "",
		"with --balance flowlet or conga: a pause of a flow at a switch that begins a new flowlet; default 50us")
	parseEach(f, &t.Weights, func(text string) (string, error) {
		_, err := scenario.ParseChange("bandwidth", text) // of the same form
		return text, err
	}, "weight", "with --balance wcmp: cables and their weight in place of their "+
		"bandwidth, CABLES=SPEED; may be repeated")
	parseEach(f, &t.Events, func(text string) (string, error) {
		_, _, err := moves.ParseEvent(text)
		return text, err
	}, "event", "what happens to a cable while flows run (estimator exact): 'A:B down 10ms..50ms', 'A:B loss 1e-4', "+
		"'A:B loss 1e-4 burst 20us' (mean length of bursts), 'A:B rate 10G 10ms..', 'A:B delay 50us 10ms..'; A->B is one direction, SWITCH all of "+
		"its cables; times are those of flow starts, or such as 2026-01-31T09:00:00Z; may be repeated")
	f.Var(&parsed{kind: "string", read: func(file string) error {
		events, err := moves.ReadCSV(file)
		t.Events = append(t.Events, events...)
		return err
	}}, "events", "CSV file of events: columns cable, event, value, from, to")
	parse(f, &t.Repair, "string", isDuration, "local-repair", "",
		"with --converge: how long the two ends of such a cable take, if they are faster than the routes of others")
	parse(f, &t.Converge, "string", isDuration, "converge", "",
		"how long routes take to avoid a cable that went down, and to use it again; default 0")
}

// isDuration returns a text that is a duration.
func isDuration(text string) (string, error) {
	_, err := units.Parse(text, units.Duration)
	return text, err
}
