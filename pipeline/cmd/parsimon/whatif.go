package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"parsimon/pipeline/gate"
	"parsimon/pipeline/lake"
	"parsimon/pipeline/sampled"
	"parsimon/pipeline/scenario"
	"parsimon/pipeline/units"
	"parsimon/pipeline/whatif"
	"parsimon/stages/topology"
	"parsimon/stages/workload"
)

// changeFlags say how one scenario is made from another.
type changeFlags struct {
	fail, add, bandwidth, scale, move []string
	tier, name                        string
	draw                              uint64
	allowUnreachable                  bool
}

func (c *changeFlags) declare(f *pflag.FlagSet) {
	f.StringArrayVar(&c.fail, "fail", nil, "take a cable down: A:B (ids or names), or random:K, K cables of --tier; may be repeated")
	f.StringArrayVar(&c.add, "add-cable", nil, "install a cable: A:B=100Gbps or A:B=100Gbps,500ns; A:B or planned, for one or all of the planned cables of the cabling list; may be repeated")
	f.StringVar(&c.tier, "tier", "", "tier of the cables of random:K, e.g. fabric-spine or tor-fabric,fabric-spine")
	f.Uint64Var(&c.draw, "draw", 1, "which random:K: another number, other cables")
	f.StringArrayVar(&c.bandwidth, "bandwidth", nil, "change a bandwidth: A:B=100Gbps for a cable, TIER=100Gbps for all of a tier; may be repeated")
	f.StringArrayVar(&c.scale, "scale", nil, "multiply services' flows: SERVICE=1.5, SERVICE=+50% or db=1.5,storage=2 (0 to 16); may be repeated")
	f.StringArrayVar(&c.move, "move", nil, "put a service into other racks: SERVICE=4-7 or SERVICE=0,2,5; may be repeated")
	f.StringVar(&c.name, "name", "", "name of the new scenario in the lake; default: the base's, and what was changed")
	f.BoolVar(&c.allowUnreachable, "allow-unreachable", false, "count flows without a path instead of refusing them")
}

func (c *changeFlags) changes() (scenario.Changes, error) {
	out := scenario.Changes{Draw: c.draw, Name: c.name, AllowUnreachable: c.allowUnreachable, FailTier: c.tier}
	for _, f := range c.fail {
		k, random := strings.CutPrefix(f, "random:")
		if !random {
			out.Fail = append(out.Fail, f)
			continue
		}
		n, err := strconv.Atoi(k)
		if err != nil || n < 1 || out.FailRandom > 0 {
			return out, usagef("--fail %q: want random:K, once, with K at least 1", f)
		}
		out.FailRandom = n
	}
	if (out.FailRandom > 0) != (c.tier != "") {
		return out, usagef("--tier goes with --fail random:K, and needs it")
	}
	for _, b := range c.bandwidth {
		selector, value, err := cutValue(b)
		if err != nil {
			return out, usagef("--bandwidth %q: %v", b, err)
		}
		bps, err := units.ParseBandwidth(value)
		if err != nil {
			return out, usagef("--bandwidth %q: %v", b, err)
		}
		out.Bandwidth = append(out.Bandwidth, scenario.BandwidthChange{Selector: selector, BPS: bps})
	}
	for _, a := range c.add {
		addition, err := parseAddition(a)
		if err != nil {
			return out, usagef("--add-cable %q: %v", a, err)
		}
		out.Add = append(out.Add, addition)
	}
	for _, s := range c.scale {
		if err := parseScale(s, &out); err != nil {
			return out, err
		}
	}
	for _, m := range c.move {
		service, value, err := cutValue(m)
		if err != nil {
			return out, usagef("--move %q: %v", m, err)
		}
		racks, err := scenario.ParseRacks(value)
		if _, twice := out.Move[service]; err != nil || twice {
			return out, usagef("--move %q: want racks such as 4-7 or 0,2,5, once for a service", m)
		}
		if out.Move == nil {
			out.Move = map[string][]int{}
		}
		out.Move[service] = racks
	}
	if len(out.Fail)+out.FailRandom+len(out.Add)+len(out.Bandwidth)+len(out.Scale)+len(out.Move) == 0 {
		return out, usagef("say what changes: --fail, --add-cable, --bandwidth, --scale or --move")
	}
	return out, nil
}

// parseAddition reads A:B=BANDWIDTH[,DELAY], A:B or planned.
func parseAddition(text string) (a scenario.CableAddition, err error) {
	if text == scenario.PlannedCables || !strings.Contains(text, "=") {
		if text != scenario.PlannedCables && !strings.Contains(text, ":") {
			return a, fmt.Errorf("want A:B=100Gbps, A:B or planned")
		}
		return scenario.CableAddition{Ends: text}, nil
	}
	ends, value, err := cutValue(text)
	if err != nil {
		return a, err
	}
	bandwidth, delay, hasDelay := strings.Cut(value, ",")
	a = scenario.CableAddition{Ends: ends, DelayNS: topology.DefaultDelayNS}
	if a.BPS, err = units.ParseBandwidth(bandwidth); err != nil {
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

// compareFlags say how two estimates are compared.
type compareFlags struct {
	by    []string
	links int
}

func (c *compareFlags) declare(f *pflag.FlagSet) {
	f.StringSliceVar(&c.by, "by", nil, "compare groups of flows too: "+strings.Join(whatif.ComparisonGroups(), ", "))
	f.IntVar(&c.links, "links", 5, "links to name as explanation")
}

func (c *compareFlags) options() (whatif.CompareOptions, error) {
	if c.links < 0 || c.links > 100_000 {
		return whatif.CompareOptions{}, usagef("--links %d: must be 0 to 100,000", c.links)
	}
	return whatif.CompareOptions{By: c.by, Links: c.links}, nil
}

var whatIfCommand = command{
	name:    "what-if",
	args:    "BASE --lake DIR --fail A:B|random:K|--add-cable ...|--bandwidth ...|--scale ...|--move ...",
	writes:  true,
	summary: "change a scenario of the lake, run what that changes, and compare",
	help: `
Makes a scenario out of BASE (an id, the first letters of one, or a name), estimates it, and compares
the two: percentiles of slowdown with the change and its interval, and the links that explain it.
The flows are the base's, whose files the new scenario shares, except where --scale or --move changes
them; link cases that are as they were come from the cache. A base that is not estimated yet is
estimated first.

  parsimon what-if small --lake lake --fail pod0-fabric0:plane0-spine2
  parsimon what-if small --lake lake --fail random:2 --tier fabric-spine --draw 7
  parsimon what-if small --lake lake --bandwidth fabric-spine=20Gbps --scale web=1.5 --by service
  parsimon what-if day --lake lake --scale db=1.5,storage=+50% --add-cable leaf1:spine3=100Gbps
  parsimon what-if small --lake lake --fail pod0-fabric0:plane0-spine2 --screen
  parsimon what-if large --lake lake --fail random:2 --tier fabric-spine --within 2% --of p99

--add-cable joins two nodes that no cable joins (others: --bandwidth), with a delay of 1us if none is
given. Planned cables of a cabling list are taken with its speeds: --add-cable planned, or one by its ends.

A cable that fails makes the scenario that "parsimon run ... --fail" makes, row by row.

--scale keeps a service's flows and adds the whole service again, its arrivals moved in time, as often
as it takes (the last time a share of its flows); below 1, a share of its flows stays. --move puts the
hosts of each of the service's racks into the given racks in turn.

--screen gives a first answer to a failure in about a second, by service, and makes no scenario: what the
cases of the links whose flows change add to BASE's estimate. It ranks failures, which "parsimon sweep"
uses, but is not accurate to the last percent of their effect.

--within estimates the same windows of time of both scenarios instead of the whole (see "parsimon run"), until
the interval of the change of the percentile of --of is within ± that share, or the --budget is spent.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var c changeFlags
		var cmp compareFlags
		var screen bool
		var form string
		var gates []string
		var within withinFlags
		r.declareLake(f)
		c.declare(f)
		within.declareCommon(f)
		f.BoolVar(&screen, "screen", false, "a first answer only, and quickly; for --fail alone")
		cmp.declare(f)
		declareFormat(f, &form)
		declareGates(f, &gates)
		e.metrics.declare(f)
		r.declareEstimate(f)
		return func(ctx context.Context, args []string) error {
			if len(args) != 1 {
				return usagef("name one scenario of the lake")
			}
			changes, err := c.changes()
			if err != nil {
				return err
			}
			conditions, err := parseGates(gates, true)
			if err != nil {
				return err
			}
			if err := checkFormat(form); err != nil {
				return err
			}
			how, err := cmp.options()
			if err != nil {
				return err
			}
			ask, sampling, err := within.askChange(cmp.by, "screen", "fail-if", "links")
			if err != nil {
				return err
			}
			o, done, err := r.whatIf(e)
			if err != nil {
				return err
			}
			defer done()
			if sampling {
				return whatIfWithin(ctx, e, args[0], changes, o, ask, form)
			}
			if screen {
				if len(c.add)+len(c.bandwidth)+len(c.scale)+len(c.move) > 0 || c.name != "" || len(cmp.by) > 0 {
					return usagef("--screen goes with --fail alone, and makes no scenario")
				}
				if len(gates) > 0 || form == "json" {
					return usagef("--screen has neither --fail-if nor --format json: it gives the order of failures only")
				}
				s, err := whatif.Screen(ctx, args[0], changes, o)
				if err != nil {
					return err
				}
				return s.Write(e.stdout)
			}
			w, err := whatif.WhatIf(ctx, args[0], changes, o, how)
			if err != nil {
				return err
			}
			return writeComparison(ctx, e, w.Comparison, w, conditions, form)
		}
	},
}

var compareCommand = command{
	name: "compare", args: "BASE[@VARIANT] OTHER[@VARIANT] --lake DIR",
	writes:  true,
	summary: "two scenarios side by side",
	help: `
Compares the slowdowns of two scenarios (ids, the first letters of them, or names), flow by flow: p50,
p90, p99 and p99.9 of the flows that are in both, the change with its 95% interval (bootstrap over
flows, each with both its slowdowns), and the links at which the slowest flows are delayed more or
less. The answer also goes to the lake's tables comparisons and comparison_links, where questions
what_changed and what_changed_links find it.

Scenarios that were estimated in different ways are refused, unless --across: the difference is then
also that of the ways. A variant is named as in the lake, e.g. small@independent.

With --within, both scenarios are estimated from the same windows of time, in the way that --estimator and
--passes say, until the change is known to that precision.`,
	setup: func(e *env, f *pflag.FlagSet) func(context.Context, []string) error {
		var r runFlags
		var across bool
		var form string
		var gates []string
		var cmp compareFlags
		var within withinFlags
		r.declareLake(f)
		cmp.declare(f)
		within.declareCommon(f)
		r.declareEstimator(f)
		r.declareWorkers(f)
		r.declareMemory(f)
		declareFormat(f, &form)
		declareGates(f, &gates)
		f.BoolVar(&across, "across", false, "compare although the ways of estimating differ")
		return func(ctx context.Context, args []string) error {
			if len(args) != 2 {
				return usagef("name two scenarios of the lake")
			}
			dir, err := r.lakePath()
			if err != nil {
				return err
			}
			conditions, err := parseGates(gates, true)
			if err != nil {
				return err
			}
			if err := checkFormat(form); err != nil {
				return err
			}
			o, err := cmp.options()
			if err != nil {
				return err
			}
			o.Across = across
			ask, sampling, err := within.askChange(cmp.by, "across", "fail-if", "links")
			if err != nil {
				return err
			}
			if sampling {
				return r.compareWindows(ctx, e, args, ask, form)
			}
			l, err := lake.Open(dir, false)
			if err != nil {
				return err
			}
			c, err := whatif.Compare(ctx, l, side(args[0]), side(args[1]), o)
			if err != nil {
				return err
			}
			return writeComparison(ctx, e, c, c, conditions, form)
		}
	},
}

// compareWindows compares two scenarios by windows.
func (r *runFlags) compareWindows(ctx context.Context, e *env, args []string, ask sampled.Ask, form string) error {
	o, done, err := r.whatIf(e)
	if err != nil {
		return err
	}
	defer done()
	base, other, err := openBoth(ctx, args[0], args[1], o)
	if err != nil {
		return err
	}
	defer base.Close()
	defer other.Close()
	return compareWithin(ctx, e, base, other, ask, form)
}

// side reads SCENARIO[@VARIANT].
func side(text string) whatif.Side {
	scenario, variant, _ := strings.Cut(text, "@")
	return whatif.Side{Scenario: scenario, Variant: variant}
}

// whatIf are the settings of commands that make several estimates.
func (r *runFlags) whatIf(e *env) (o whatif.Settings, done func(), err error) {
	done = func() {}
	if o.Lake, err = r.lakePath(); err != nil {
		return o, done, err
	}
	if o.Variant, err = r.variant(); err != nil {
		return o, done, err
	}
	o.Settings, done, err = r.settings(e)
	return o, done, err
}

// writeComparison writes a comparison and holds it against the gates.
func writeComparison(ctx context.Context, e *env, c *whatif.Comparison, text interface{ Write(io.Writer) error },
	gates []gate.Gate, form string) error {
	verdicts, failed := gate.Judge(gates, func(g gate.Gate) (float64, error) { return c.Value(ctx, g) })
	if failed != nil && verdicts == nil {
		return failed
	}
	c.Gates = verdicts
	e.metrics.comparison(c)
	if form == "json" {
		return errors.Join(writeJSON(e.stdout, c), failed)
	}
	return errors.Join(text.Write(e.stdout), failed)
}
