package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/scenario"
	"parsimon/stages/topology"
	"parsimon/stages/topology/format"
	"parsimon/stages/workload"
)

// changeFlags say how one scenario is made from another: names of nodes, tiers and services are checked against the
// base by scenario.Changes.Apply.
type changeFlags struct {
	scenario.Changes
	fail, scale, move []string
}

func (c *changeFlags) declare(f *pflag.FlagSet) {
	f.StringArrayVar(&c.fail, "fail", nil, "take down a cable A:B (ids or names), all cables of a SWITCH, what is plugged into DEVICE:PORT (one member of a LAG), or random:K, K cables of --tier; may be repeated")
	parseEach(f, &c.Add, parseAddition, "add-cable", "install a cable: A:B=100G or A:B=100G,500ns; A:B or planned, for "+
		"one or all of the planned cables of the cabling list; may be repeated")
	f.StringVar(&c.FailTier, "tier", "", "tier of the cables of random:K, e.g. fabric-spine or tor-fabric,fabric-spine")
	f.Uint64Var(&c.Draw, "draw", 1, "which random:K: another number, other cables")
	parseEach(f, &c.Bandwidth, parseBandwidth, "bandwidth", "change a bandwidth: A:B=100G for a cable, TIER=100G for "+
		"all of a tier, or a pattern such as 'leaf*:spine1=40G'; may be repeated")
	parseEach(f, &c.Delay, topology.ParseDelayRule, "delay",
		"change a propagation delay, of cables as in --bandwidth: 'wan*:*=2ms' or tor-spine=500ns; may be repeated")
	f.StringArrayVar(&c.scale, "scale", nil, "multiply services' flows: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (0 to 16); may be repeated")
	f.StringArrayVar(&c.move, "move", nil, "put a service into other racks, by their names or places: SERVICE=leaf3,leaf4, SERVICE=4-7 or SERVICE=0,2,5; may be repeated")
	declareMoves(f, &c.PathMoves)
	f.StringVar(&c.Name, "name", "", "name of the new scenario in the lake; default: the base's, and what was changed")
	f.BoolVar(&c.AllowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
}

// changes are what the flags say, in no scenario yet. At least one change is required.
func (c *changeFlags) changes() (scenario.Changes, error) {
	out := &c.Changes
	for _, f := range c.fail {
		k, random := strings.CutPrefix(f, "random:")
		if !random {
			out.Fail = append(out.Fail, f)
			continue
		}
		n, err := strconv.Atoi(k)
		if err != nil || n < 1 || out.FailRandom > 0 {
			return *out, usagef("--fail %q: want random:K, once, with K at least 1", f)
		}
		out.FailRandom = n
	}
	if (out.FailRandom > 0) != (out.FailTier != "") {
		return *out, usagef("--tier goes with --fail random:K, and needs it")
	}
	for _, s := range c.scale {
		if err := parseScale(s, out); err != nil {
			return *out, err
		}
	}
	for _, m := range c.move {
		service, value, err := cutValue(m)
		if _, twice := out.MoveTo[service]; err != nil || twice || value == "" {
			return *out, usagef("--move %q: want SERVICE=RACKS, racks such as leaf3,leaf4 or 4-7, once for a service", m)
		}
		if out.MoveTo == nil {
			out.MoveTo = map[string]string{}
		}
		out.MoveTo[service] = value
	}
	if len(out.Fail)+out.FailRandom+len(out.Add)+len(out.Bandwidth)+len(out.Delay)+len(out.Scale)+len(out.MoveTo)+
		len(out.PathMoves.Said()) == 0 {
		return *out, usagef("say what changes: --fail, --add-cable, --bandwidth, --delay, --scale, --move, " +
			"--balance or --event")
	}
	return *out, nil
}

// parseBandwidth reads CABLES=SPEED.
func parseBandwidth(text string) (b scenario.BandwidthChange, err error) {
	selector, value, err := cutValue(text)
	if err != nil {
		return b, err
	}
	b.Selector = selector
	b.BPS, err = topology.ParseSpeed(value)
	return b, err
}

// parseAddition reads A:B=BANDWIDTH[,DELAY], A:B or planned.
func parseAddition(text string) (a scenario.CableAddition, err error) {
	if text == scenario.PlannedCables || !strings.Contains(text, "=") {
		if text != scenario.PlannedCables && !strings.Contains(text, ":") {
			return a, fmt.Errorf("want A:B=100G, A:B or planned")
		}
		return scenario.CableAddition{Ends: text}, nil
	}
	ends, value, err := cutValue(text)
	if err != nil {
		return a, err
	}
	bandwidth, delay, hasDelay := strings.Cut(value, ",")
	a = scenario.CableAddition{Ends: ends, DelayNS: format.DefaultDelayNS}
	if a.BPS, err = topology.ParseSpeed(bandwidth); err != nil {
		return a, err
	}
	if hasDelay {
		a.DelayNS, err = topology.ParseDelay(delay)
	}
	return a, err
}

// parseScale reads SERVICE=FACTOR, or several with commas between them.
func parseScale(text string, out *scenario.Changes) error {
	parts := strings.Split(text, ",")
	if slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(p, "=") }) { // a name with a comma
		parts = []string{text}
	}
	for _, part := range parts {
		service, value, err := cutValue(part)
		if err != nil {
			return usagef("--scale %q: %v", text, err)
		}
		x, err := parseFactor(value)
		if _, twice := out.Scale[service]; err != nil || !(x >= 0 && x <= workload.MaxScale) || twice {
			return usagef("--scale %q: want a factor from 0 to %d such as 1.5, or a change such as +50%%, once for a service", part, workload.MaxScale)
		}
		if out.Scale == nil {
			out.Scale = map[string]float64{}
		}
		out.Scale[service] = x
	}
	return nil
}

// parseFactor reads 1.5, 150%, +50% or -20%.
func parseFactor(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(number, 64)
	change := strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-")
	switch {
	case err != nil || change && !percent:
		return 0, fmt.Errorf("%q is no factor", text)
	case change:
		return (100 + x) / 100, nil
	case percent:
		return x / 100, nil
	}
	return x, nil
}

// cutValue cuts NAME=VALUE at the last equals sign.
func cutValue(text string) (name, value string, err error) {
	at := strings.LastIndexByte(text, '=')
	if at < 0 {
		return "", "", fmt.Errorf("want NAME=VALUE")
	}
	return text[:at], text[at+1:], nil
}
