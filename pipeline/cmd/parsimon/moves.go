package main

import (
	"errors"
	"os"

	"github.com/spf13/pflag"

	"parsimon/pipeline/scenario"
	"parsimon/schema/units"
	"parsimon/stages/moves"
)

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
		"'A:B loss 1e-4 burst 20us' (mean length of bursts), 'A:B rate 10G 10ms..'; A->B is one direction, SWITCH all of "+
		"its cables; times are those of flow starts, or such as 2026-01-31T09:00:00Z; may be repeated")
	f.Var(&parsed{kind: "string", read: func(file string) error {
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		events, err := moves.ReadCSV(in, file)
		t.Events = append(t.Events, events...)
		return errors.Join(err, in.Close())
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
